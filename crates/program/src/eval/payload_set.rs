// SPDX-License-Identifier: Apache-2.0

//! Writes into headers, checksums included (`nft_payload_set_eval()` of
//! `net/netfilter/nft_payload.c`).

use penstock_packet::Packet;
use penstock_wire::checksum::{self, Crc32c, MANGLED_ZERO, Sum};
use penstock_wire::protocol;

use super::Step;
use super::payload::meets_tag;
use super::registers::Registers;
use crate::op::Op;
use crate::operand::{ChecksumType, PayloadBase};

/// Bytes of a tag.
const VLAN_LEN: usize = 4;

#[inline(never)]
pub(super) fn write(op: &Op, registers: &Registers, packet: &mut Packet) -> Step {
    let Op::PayloadSet { base, src, len, offset, csum_offset, .. } = op else {
        return Step::Next;
    };
    let bytes = registers.bytes(*src, *len);
    // Positions count from the start of the frame.
    let network = packet.link().len();
    let start = match base {
        PayloadBase::Link => {
            if !packet.has_link() {
                return Step::Break;
            }
            match &mut packet.meta.vlan {
                Some(tag) if meets_tag(*offset, *len) => match (*offset, bytes) {
                    (12, [a, b]) => {
                        tag.protocol = u16::from_be_bytes([*a, *b]);
                        return Step::Next;
                    }
                    (12, [a, b, c, d]) => {
                        tag.protocol = u16::from_be_bytes([*a, *b]);
                        tag.tci = u16::from_be_bytes([*c, *d]);
                        return Step::Next;
                    }
                    (14, [a, b]) => {
                        tag.tci = u16::from_be_bytes([*a, *b]);
                        return Step::Next;
                    }
                    (16.., _) => {
                        return Step::found(store(
                            packet,
                            usize::from(*offset) - VLAN_LEN,
                            0,
                            bytes,
                            op,
                        ));
                    }
                    _ => return Step::Break,
                },
                _ => 0,
            }
        }
        PayloadBase::Network => network,
        PayloadBase::Transport => match packet.transport() {
            Some(t) if t.fragment_offset == 0 => network + usize::from(t.offset),
            _ => return Step::Break,
        },
        PayloadBase::Inner => match packet.inner_offset() {
            Some(inner) => network + inner,
            None => return Step::Break,
        },
        PayloadBase::Tunnel => return Step::Break,
    };
    let sum_at = start + usize::from(*csum_offset);
    Step::found(store(packet, start + usize::from(*offset), sum_at, bytes, op))
}

/// Writes `bytes` at `at`, after the checksums were brought up to date; nothing is changed if the
/// packet ends before.
fn store(packet: &mut Packet, at: usize, sum_at: usize, bytes: &[u8], op: &Op) -> Option<()> {
    let Op::PayloadSet { csum_type, pseudo, .. } = op else { return None };
    let transport = packet.transport().filter(|t| t.fragment_offset == 0);
    let network = packet.link().len();
    let frame = packet.frame_mut();
    let old = Sum::new().bytes(frame.get(at..at + bytes.len())?);
    let new = Sum::new().bytes(bytes);
    if *csum_type == ChecksumType::Inet {
        replace(frame, sum_at, old, new)?;
    }
    if *pseudo && let Some(t) = transport {
        let start = network + usize::from(t.offset);
        let field = match t.protocol {
            protocol::TCP => Some(16),
            // Zero says that there is no checksum, and stays.
            protocol::UDP => frame.get(start..start + 8).filter(|h| h[6..8] != [0, 0]).map(|_| 6),
            protocol::UDPLITE => Some(6),
            protocol::ICMPV6 => Some(2),
            _ => None,
        };
        if let Some(field) = field {
            replace(frame, start + field, old, new)?;
        }
    }
    frame.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
    if *csum_type == ChecksumType::Sctp
        && let Some(t) = transport
        && t.protocol == protocol::SCTP
    {
        sctp(frame, network + usize::from(t.offset))?;
    }
    Some(())
}

/// `nft_csum_replace()`: a result of zero is written as 0xffff.
fn replace(frame: &mut [u8], at: usize, old: Sum, new: Sum) -> Option<()> {
    let field: &mut [u8; 2] = frame.get_mut(at..)?.first_chunk_mut()?;
    let sum = match checksum::replace(u16::from_be_bytes(*field), old, new) {
        0 => MANGLED_ZERO,
        sum => sum,
    };
    *field = sum.to_be_bytes();
    Some(())
}

/// Computes the CRC of an SCTP packet, its own field taken as zero (`sctp_compute_cksum()`).
fn sctp(frame: &mut [u8], start: usize) -> Option<()> {
    let packet = frame.get_mut(start..).filter(|p| p.len() >= 12)?;
    packet[8..12].fill(0);
    let crc = Crc32c::new().bytes(packet).finish();
    packet[8..12].copy_from_slice(&crc.to_le_bytes());
    Some(())
}
