// SPDX-License-Identifier: Apache-2.0

//! Which registers an operation reads and writes.

use crate::expr::{
    CtKey, FIB_PRESENT, FibResult, MetaKey, NFPROTO_IPV4, RtKey, SocketKey, XfrmKey,
};
use crate::image::{InnerLoad, Load, Op};

/// Registers as bits: bit 0 is slot 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Slots whose contents count for what the operation does, also those that it overwrites in
    /// part only.
    pub reads: u16,
    /// Slots that it has written whenever the next operation of the rule is reached.
    pub writes: u16,
}

/// Bytes of registers, from the start of a slot on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    slot: u8,
    len: u16,
}

/// What an operation reads and writes: the spans of [`Uses`] before they are rounded to slots.
#[derive(Clone, Copy, Debug, Default)]
struct Spans {
    reads: [Option<Span>; 4],
    writes: Option<Span>,
    /// Bytes of its constant that it uses.
    constant: u16,
}

impl Spans {
    fn reads(spans: &[(u8, u16)]) -> Self {
        let mut all = Spans::default();
        for (to, (slot, len)) in all.reads.iter_mut().zip(spans) {
            *to = Some(Span { slot: *slot, len: *len });
        }
        all
    }

    fn writes(mut self, slot: u8, len: u16) -> Self {
        self.writes = Some(Span { slot, len });
        self
    }

    fn constant(mut self, len: u16) -> Self {
        self.constant = len;
        self
    }

    fn each(&self) -> impl Iterator<Item = Span> {
        self.reads.into_iter().flatten().chain(self.writes)
    }
}

/// Bytes of all registers.
const REGISTERS: usize = 64;
/// Bytes of the constant of an operation.
const CONSTANT: u16 = 16;

/// The slots of `len` bytes from a slot on; registers end after the sixteenth.
fn slots(span: Span) -> u16 {
    let words = u32::from(span.len).div_ceil(4).min(16);
    let ones = ((1u64 << words) - 1) as u16;
    ones << (span.slot & 15)
}

impl Op {
    /// Which registers it reads and writes.
    pub fn uses(&self) -> Uses {
        let spans = self.spans();
        let reads = spans.reads.into_iter().flatten().fold(0, |all, span| all | slots(span));
        Uses { reads, writes: spans.writes.map_or(0, slots) }
    }

    /// Whether all accesses stay in the registers, and constants are as long as they are used. The
    /// linker makes sure that they do; machine code, which checks nothing, asks once more.
    pub fn stays_in_registers(&self) -> bool {
        let inside = |span: Span| usize::from(span.slot) * 4 + usize::from(span.len) <= REGISTERS;
        let spans = self.spans();
        spans.constant <= CONSTANT && spans.each().all(inside)
    }

    fn spans(&self) -> Spans {
        let read = |slot: u8, len: u8| Spans::reads(&[(slot, len.into())]);
        let write = |slot: u8, len: u8| Spans::default().writes(slot, len.into());
        let both = |src, dst, len: u16| Spans::reads(&[(src, len)]).writes(dst, len);
        let lookup = |src, key_len: u8, inverse, load| match load {
            // What is not found is not loaded.
            Load::Bytes { dst, len } if inverse => {
                Spans::reads(&[(src, key_len.into()), (dst, len.into())])
            }
            Load::Bytes { dst, len } => read(src, key_len).writes(dst, len.into()),
            Load::Nothing | Load::Verdict => read(src, key_len),
        };
        let words = |words: u8| u16::from(words) * 4;
        match self {
            Op::Immediate { dst, len, .. } => write(*dst, *len).constant((*len).into()),
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
            Op::Cmp { src, len, .. } | Op::Range { src, len, .. } => {
                read(*src, *len).constant((*len).into())
            }
            Op::MaskXorWord { src, dst, .. } => both(*src, *dst, 4),
            Op::MaskXor { src, dst, words: count, .. } => {
                both(*src, *dst, words(*count)).constant(words(*count))
            }
            Op::Lshift { src, dst, words: count, .. }
            | Op::Rshift { src, dst, words: count, .. } => both(*src, *dst, words(*count)),
            Op::Combine { src, other, dst, words: count, .. } => {
                let len = words(*count);
                Spans::reads(&[(*src, len), (*other, len)]).writes(*dst, len)
            }
            Op::Byteorder { src, dst, len, size } => {
                let whole = len / (*size).max(1) * (*size).max(1);
                // What stays of a word is read.
                let rest = (whole % 4 != 0).then_some((dst.saturating_add(whole / 4), 4));
                let source = (*src, u16::from(*len));
                match rest {
                    Some(rest) => Spans::reads(&[source, rest]),
                    None => Spans::reads(&[source]),
                }
                .writes(*dst, whole.into())
            }
            Op::Lookup { src, key_len, inverse, load, .. } => {
                lookup(*src, *key_len, *inverse, *load)
            }
            Op::LookupDynamic { src, key_len, inverse, load, .. } => {
                lookup(*src, *key_len, *inverse, *load)
            }
            Op::SetUpdate(update) => {
                let (slot, len) = update.data.unwrap_or((0, 0));
                Spans::reads(&[(update.key, update.key_len.into()), (slot, len.into())])
            }
            Op::ObjectMap { src, key_len, .. } => read(*src, *key_len),
            Op::Exthdr { dst, present: true, .. } => write(*dst, 4),
            Op::Exthdr { dst, len, .. } => write(*dst, *len),
            Op::NumgenInc { dst, .. } | Op::NumgenRandom { dst, .. } | Op::Symhash { dst, .. } => {
                write(*dst, 4)
            }
            Op::Jhash { src, len, dst, .. } => read(*src, *len).writes(*dst, 4),
            Op::Fib { result, flags, dst } => {
                let name = *result == FibResult::OifName && u32::from(*flags) & FIB_PRESENT == 0;
                write(*dst, if name { 16 } else { 4 })
            }
            Op::Rt { key, dst } => write(*dst, if *key == RtKey::Nexthop6 { 16 } else { 4 }),
            Op::Dup { addr, v6, dev } => {
                let addr = addr.map_or((0, 0), |slot| (slot, if *v6 { 16 } else { 4 }));
                Spans::reads(&[addr, dev.map_or((0, 0), |slot| (slot, 4))])
            }
            Op::Fwd { dev, addr, v6 } => {
                let addr = addr.map_or((0, 0), |slot| (slot, if *v6 { 16 } else { 4 }));
                Spans::reads(&[(*dev, 4), addr])
            }
            Op::CtState { dst } | Op::Tunnel { dst, .. } => write(*dst, 4),
            // What the outside answers may be shorter; what it does not fill is not written.
            Op::Ct { key, dst, .. } => write(*dst, ct_len(*key)),
            Op::CtSet { src, len, .. } => read(*src, *len),
            Op::CtSetZone { src, .. } => read(*src, 2),
            Op::Nat(nat) => {
                let address = if nat.family == NFPROTO_IPV4 { 4 } else { 16 };
                let [first, last] =
                    nat.addr.map_or([(0, 0); 2], |(a, b)| [(a, address), (b, address)]);
                let [low, high] = nat.port.map_or([(0, 0); 2], |(a, b)| [(a, 2), (b, 2)]);
                Spans::reads(&[first, last, low, high])
            }
            Op::Queue(queue) => Spans::reads(&[queue.sreg.map_or((0, 0), |slot| (slot, 4))]),
            Op::Tproxy { addr, port, .. } => {
                let addr = addr.map_or((0, 0), |slot| (slot, 16));
                Spans::reads(&[addr, port.map_or((0, 0), |slot| (slot, 2))])
            }
            Op::Socket { key, dst, .. } => {
                write(*dst, if *key == SocketKey::Cgroupv2 { 8 } else { 4 })
            }
            Op::Osf { dst, .. } => write(*dst, 16),
            Op::Xfrm { key, dst, .. } => {
                let v6 = matches!(key, XfrmKey::DaddrIp6 | XfrmKey::SaddrIp6);
                write(*dst, if v6 { 16 } else { 4 })
            }
            Op::Notrack
            | Op::Synproxy(_)
            | Op::FlowOffload(_)
            | Op::Verdict(_)
            | Op::Counter(_)
            | Op::Stateful(_)
            | Op::Log(_)
            | Op::TcpOptionReset { .. }
            | Op::Reject(_) => Spans::default(),
        }
    }
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
        for (slot, len, expected) in
            [(0, 0, 0), (1, 1, 0b10), (1, 6, 0b110), (14, 16, 0xc000), (0, 64, 0xffff)]
        {
            assert_eq!(slots(Span { slot, len }), expected, "{len} bytes from {slot}");
        }
    }

    #[test]
    fn what_stays_of_a_word_is_read() {
        let op = Op::Byteorder { src: 0, dst: 4, len: 6, size: 2 };
        assert_eq!(op.uses(), Uses { reads: 0b10_0011, writes: 0b11_0000 });
    }

    #[test]
    fn an_access_past_the_registers_is_seen_whatever_the_operation() {
        for (op, fits) in [
            (Op::Immediate { dst: 12, len: 16, data: [0; 16] }, true),
            (Op::Immediate { dst: 13, len: 16, data: [0; 16] }, false),
            (Op::Immediate { dst: 0, len: 17, data: [0; 16] }, false),
            (Op::Osf { ttl: 0, version: false, dst: 12 }, true),
            (Op::Osf { ttl: 0, version: false, dst: 13 }, false),
            (Op::CmpWord { src: 16, equal: true, mask: 0, data: 0 }, false),
            (Op::MaskXorWord { src: 0, dst: 16, mask: 0, xor: 0 }, false),
            (Op::Lshift { src: 0, dst: 0, words: 64, bits: 1 }, false),
            (Op::CtState { dst: 15 }, true),
            (Op::CtState { dst: 16 }, false),
            (Op::Byteorder { src: 0, dst: 15, len: 6, size: 2 }, false),
            (Op::Dup { addr: Some(13), v6: true, dev: None }, false),
            (Op::Fwd { dev: 255, addr: None, v6: false }, false),
            (Op::Jhash { src: 1, len: 61, dst: 0, seed: 0, modulus: 1, offset: 0 }, false),
            (Op::Notrack, true),
        ] {
            assert_eq!(op.stays_in_registers(), fits, "{op:?}");
        }
    }
}
