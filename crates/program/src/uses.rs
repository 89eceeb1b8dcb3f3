//! Which registers an operation reads and writes.

use crate::expr::{CtKey, FIB_PRESENT, FibResult, MetaKey, NFPROTO_IPV4, RtKey, SocketKey, XfrmKey};
use crate::image::{InnerLoad, Load, Op};

/// Registers as bits: bit 0 is slot 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Slots whose contents count for what the operation does, also those that it overwrites in part only.
    pub reads: u16,
    /// Slots that it has written whenever the next operation of the rule is reached.
    pub writes: u16,
}

/// The slots of `len` bytes from a slot on; registers end after the sixteenth.
fn slots(slot: u8, len: u8) -> u16 {
    let words = u32::from(len).div_ceil(4).min(16);
    let ones = ((1u64 << words) - 1) as u16;
    ones << (slot & 15)
}

impl Op {
    /// Which registers it reads and writes.
    pub fn uses(&self) -> Uses {
        let read = |slot, len| Uses { reads: slots(slot, len), writes: 0 };
        let write = |slot, len| Uses { reads: 0, writes: slots(slot, len) };
        let both = |src, dst, len| Uses { reads: slots(src, len), writes: slots(dst, len) };
        let lookup = |src, key_len, inverse, load| match load {
            // What is not found is not loaded.
            Load::Bytes { dst, len } if inverse => read_all(&[(src, key_len), (dst, len)]),
            Load::Bytes { dst, len } => Uses { reads: slots(src, key_len), writes: slots(dst, len) },
            Load::Nothing | Load::Verdict => read(src, key_len),
        };
        match self {
            Op::Immediate { dst, len, .. } => write(*dst, *len),
            Op::LoadLink { dst, len, .. }
            | Op::LoadNetwork { dst, len, .. }
            | Op::LoadTransport { dst, len, .. }
            | Op::LoadInner { dst, len, .. } => write(*dst, *len),
            Op::InTunnel(inner) => match inner.load {
                InnerLoad::Payload { dst, len, .. } => write(dst, len),
                InnerLoad::Protocol { dst } | InnerLoad::L4Proto { dst } => write(dst, 4),
            },
            Op::PayloadSet { src, len, .. } | Op::TcpOptionSet { src, len, .. } => read(*src, *len),
            Op::Meta { key, dst } => write(*dst, meta_len(*key)),
            Op::MetaSet { src, .. } => read(*src, 4),
            Op::CmpWord { src, .. } => read(*src, 4),
            Op::Cmp { src, len, .. } | Op::Range { src, len, .. } => read(*src, *len),
            Op::MaskXorWord { src, dst, .. } => both(*src, *dst, 4),
            Op::MaskXor { src, dst, words, .. }
            | Op::Lshift { src, dst, words, .. }
            | Op::Rshift { src, dst, words, .. } => both(*src, *dst, words * 4),
            Op::Combine { src, other, dst, words, .. } => {
                let both = slots(*src, words * 4) | slots(*other, words * 4);
                Uses { reads: both, writes: slots(*dst, words * 4) }
            }
            Op::Byteorder { src, dst, len, size } => {
                let whole = len / (*size).max(1) * (*size).max(1);
                let mut uses = Uses { reads: slots(*src, *len), writes: slots(*dst, whole) };
                if whole % 4 != 0 {
                    uses.reads |= slots(dst + whole / 4, 4);
                }
                uses
            }
            Op::Lookup { src, key_len, inverse, load, .. } => lookup(*src, *key_len, *inverse, *load),
            Op::LookupDynamic { src, key_len, inverse, load, .. } => lookup(*src, *key_len, *inverse, *load),
            Op::SetUpdate(update) => {
                let (slot, len) = update.data.unwrap_or((0, 0));
                read_all(&[(update.key, update.key_len), (slot, len)])
            }
            Op::ObjectMap { src, key_len, .. } => read(*src, *key_len),
            Op::Exthdr { dst, present: true, .. } => write(*dst, 4),
            Op::Exthdr { dst, len, .. } => write(*dst, *len),
            Op::NumgenInc { dst, .. } | Op::NumgenRandom { dst, .. } | Op::Symhash { dst, .. } => {
                write(*dst, 4)
            }
            Op::Jhash { src, len, dst, .. } => Uses { reads: slots(*src, *len), writes: slots(*dst, 4) },
            Op::Fib { result, flags, dst } => {
                let name = *result == FibResult::OifName && u32::from(*flags) & FIB_PRESENT == 0;
                write(*dst, if name { 16 } else { 4 })
            }
            Op::Rt { key, dst } => write(*dst, if *key == RtKey::Nexthop6 { 16 } else { 4 }),
            Op::Dup { addr, v6, dev } => {
                let addr = addr.map_or((0, 0), |slot| (slot, if *v6 { 16 } else { 4 }));
                read_all(&[addr, dev.map_or((0, 0), |slot| (slot, 4))])
            }
            Op::Fwd { dev, addr, v6 } => {
                let addr = addr.map_or((0, 0), |slot| (slot, if *v6 { 16 } else { 4 }));
                read_all(&[(*dev, 4), addr])
            }
            Op::CtState { dst } | Op::Tunnel { dst, .. } => write(*dst, 4),
            // What the outside answers may be shorter; what it does not fill is not written.
            Op::Ct { key, dst, .. } => write(*dst, ct_len(*key)),
            Op::CtSet { src, len, .. } => read(*src, *len),
            Op::CtSetZone { src, .. } => read(*src, 2),
            Op::Nat(nat) => {
                let address = if nat.family == NFPROTO_IPV4 { 4 } else { 16 };
                let [first, last] = nat.addr.map_or([(0, 0); 2], |(a, b)| [(a, address), (b, address)]);
                let [low, high] = nat.port.map_or([(0, 0); 2], |(a, b)| [(a, 2), (b, 2)]);
                read_all(&[first, last, low, high])
            }
            Op::Queue(queue) => read_all(&[queue.sreg.map_or((0, 0), |slot| (slot, 4))]),
            Op::Tproxy { addr, port, .. } => {
                read_all(&[addr.map_or((0, 0), |slot| (slot, 16)), port.map_or((0, 0), |slot| (slot, 2))])
            }
            Op::Socket { key, dst, .. } => write(*dst, if *key == SocketKey::Cgroupv2 { 8 } else { 4 }),
            Op::Osf { dst, .. } => write(*dst, 16),
            Op::Xfrm { key, dst, .. } => {
                let six = matches!(key, XfrmKey::DaddrIp6 | XfrmKey::SaddrIp6);
                write(*dst, if six { 16 } else { 4 })
            }
            Op::Notrack
            | Op::Synproxy(_)
            | Op::FlowOffload(_)
            | Op::Verdict(_)
            | Op::Counter(_)
            | Op::Stateful(_)
            | Op::Log(_)
            | Op::TcpOptionReset { .. }
            | Op::Reject(_) => Uses::default(),
        }
    }
}

fn read_all(parts: &[(u8, u8)]) -> Uses {
    Uses { reads: parts.iter().fold(0, |all, (slot, len)| all | slots(*slot, *len)), writes: 0 }
}

/// Bytes of the register words that a key fills.
fn meta_len(key: MetaKey) -> u8 {
    match key {
        MetaKey::IifName
        | MetaKey::OifName
        | MetaKey::IifKind
        | MetaKey::OifKind
        | MetaKey::SdifName
        | MetaKey::BriIifName
        | MetaKey::BriOifName => 16,
        MetaKey::TimeNs | MetaKey::BriIifHwAddr => 8,
        _ => 4,
    }
}

/// Bytes that the outside always answers.
fn ct_len(key: CtKey) -> u8 {
    match key {
        CtKey::SrcIp6 | CtKey::DstIp6 | CtKey::Labels | CtKey::Helper => 16,
        CtKey::Pkts | CtKey::Bytes | CtKey::AvgPkt => 8,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_whole_words_and_end_with_the_registers() {
        assert_eq!(slots(0, 0), 0);
        assert_eq!(slots(1, 1), 0b10);
        assert_eq!(slots(1, 6), 0b110);
        assert_eq!(slots(14, 16), 0xc000);
        assert_eq!(slots(0, 64), 0xffff);
    }

    #[test]
    fn what_stays_of_a_word_is_read() {
        let op = Op::Byteorder { src: 0, dst: 4, len: 6, size: 2 };
        assert_eq!(op.uses(), Uses { reads: 0b10_0011, writes: 0b11_0000 });
    }
}
