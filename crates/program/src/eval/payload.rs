// SPDX-License-Identifier: Apache-2.0

//! Loads from headers (`nft_payload_eval()`, `nft_payload_fast_eval()` of
//! `net/netfilter/nft_payload.c`).

use penstock_packet::{Packet, VlanTag};

use super::Step;
use super::registers::Registers;

/// Bytes of an Ethernet header without and with a tag.
const ETH_LEN: usize = 14;
const VLAN_ETH_LEN: usize = 18;
/// Where the ethertype stands: what lies before it is the same with and without a tag.
const ETH_TYPE: usize = 12;

/// `len` bytes of a header at `offset` into a register; `None` if they are not all there.
#[inline(always)]
pub(super) fn load(
    header: &[u8],
    offset: u16,
    len: u8,
    dst: u8,
    registers: &mut Registers,
) -> Option<()> {
    let header = header.get(usize::from(offset)..)?;
    match len {
        1 => registers.set_u8(dst, *header.first()?),
        2 => registers.set_half(dst, *header.first_chunk()?),
        4 => registers.set_word(dst, u32::from_ne_bytes(*header.first_chunk()?)),
        _ => registers.set(dst, header.get(..usize::from(len))?),
    }
    Some(())
}

/// Whether an access to the link header reaches the tag, which is not part of the frame here.
pub(super) fn meets_tag(offset: u16, len: u8) -> bool {
    usize::from(offset) + usize::from(len) > ETH_TYPE
}

#[inline(never)]
pub(super) fn load_link(
    packet: &Packet,
    offset: u16,
    len: u8,
    dst: u8,
    registers: &mut Registers,
) -> Step {
    if !packet.has_link() {
        return Step::Break;
    }
    match packet.meta.vlan {
        Some(tag) if meets_tag(offset, len) => {
            Step::found(load_tagged(packet, tag, usize::from(offset), len, dst, registers))
        }
        _ => Step::found(load(packet.frame(), offset, len, dst, registers)),
    }
}

/// As if the tag stood in the frame (`nft_payload_copy_vlan()`).
fn load_tagged(
    packet: &Packet,
    tag: VlanTag,
    offset: usize,
    len: u8,
    dst: u8,
    registers: &mut Registers,
) -> Option<()> {
    let frame = packet.frame();
    let mut header = [0; VLAN_ETH_LEN];
    header[..ETH_TYPE].copy_from_slice(frame.get(..ETH_LEN)?.get(..ETH_TYPE)?);
    header[12..14].copy_from_slice(&tag.protocol.to_be_bytes());
    header[14..16].copy_from_slice(&tag.tci.to_be_bytes());
    header[16..18].copy_from_slice(&packet.meta.protocol.to_be_bytes());
    let mut bytes = [0; 64];
    let bytes = bytes.get_mut(..usize::from(len))?;
    for (i, byte) in (offset..).zip(bytes.iter_mut()) {
        *byte = match header.get(i) {
            Some(b) => *b,
            None => *frame.get(i - (VLAN_ETH_LEN - ETH_LEN))?,
        };
    }
    registers.set(dst, bytes);
    Some(())
}

#[inline(never)]
pub(super) fn load_inner(
    packet: &Packet,
    offset: u16,
    len: u8,
    dst: u8,
    registers: &mut Registers,
) -> Step {
    Step::found(packet.inner_offset().and_then(|inner| {
        let bytes = packet.network().get(inner..)?;
        load(bytes, offset, len, dst, registers)
    }))
}
