// SPDX-License-Identifier: Apache-2.0

//! What engines need to know of an operation before they run it: one match for machine code, the
//! classifier and BPF programs.

use super::{Extension, InnerLoad, Load, Op};
use crate::family::NFPROTO_IPV4;
use crate::linked::{LinkedVerdict, Stateful};
use crate::operand::{CtKey, FIB_PRESENT, FibResult, MetaKey};
use penstock_wire::ipv4;

/// Effects of an operation, apart from the registers that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None: it depends on packet and registers alone.
    None,
    /// Changes states, sets or the outside, but not the packet, or depends on them.
    Outside,
    /// Changes the packet's bytes.
    Bytes,
    /// Changes the packet's metadata.
    Metadata,
}

impl Effect {
    /// What two operations do together: the one that more depends on.
    fn or(self, other: Effect) -> Effect {
        match (self, other) {
            (Effect::Bytes, _) | (_, Effect::Bytes) => Effect::Bytes,
            (Effect::Metadata, _) | (_, Effect::Metadata) => Effect::Metadata,
            (Effect::Outside, _) | (_, Effect::Outside) => Effect::Outside,
            (Effect::None, Effect::None) => Effect::None,
        }
    }
}

/// Parts of a packet that are read in place of asking for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The link header.
    pub link: bool,
    /// The network header.
    pub network: bool,
    /// The transport header.
    pub transport: bool,
    /// The transport header, in loads that ask for fragments.
    pub whole_transport: bool,
    /// The length of the packet.
    pub length: bool,
}

impl Parts {
    const NONE: Parts = Parts {
        link: false,
        network: false,
        transport: false,
        whole_transport: false,
        length: false,
    };

    /// Adds other parts.
    pub fn add(&mut self, other: Parts) {
        self.link |= other.link;
        self.network |= other.network;
        self.transport |= other.transport;
        self.whole_transport |= other.whole_transport;
        self.length |= other.length;
    }
}

/// What is known of an operation before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Register slots that it reads, with those that it overwrites only in part: bit 0 is slot 0.
    pub reads: u16,
    /// Register slots that it has written whenever the next operation of the rule is reached.
    pub writes: u16,
    /// All accesses stay in the registers, and constants are as long as they are used. The linker
    /// makes sure that they do; machine code, which checks nothing, asks once more.
    pub stays_in_registers: bool,
    /// Its effects, apart from registers.
    pub effect: Effect,
    /// It makes no difference if it runs for later packets before earlier ones are done: it reads
    /// nothing that packets change, and changes only the packet and counters. Statements of a set's
    /// elements are not looked at ([`Op::fixed_set`]).
    pub burst_safe: bool,
    /// It may decide: answer with a verdict, or drop or take the packet. Otherwise the rule
    /// continues or ends.
    pub decides: bool,
    /// It begins or ends tracing.
    pub traces: bool,
    /// Parts of the packet that machine code reads in its place.
    pub parts: Parts,
    /// It asks for nothing that changes between arrival and egress, and does nothing: the headers
    /// as they arrived say what it will come to. Statements of a set's elements are not looked at
    /// ([`Op::fixed_set`]).
    pub precheck: bool,
    /// Why there is no BPF code for it: its name in messages. Where there is some, keys, lengths
    /// and elements decide.
    pub not_offloaded: Option<&'static str>,
}

/// Bytes of registers, from the start of a slot on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    slot: u8,
    len: u16,
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

impl Info {
    /// For an operation without registers.
    fn new(effect: Effect) -> Info {
        Info {
            reads: 0,
            writes: 0,
            stays_in_registers: true,
            effect,
            burst_safe: effect == Effect::None,
            decides: effect != Effect::None,
            traces: false,
            parts: Parts::NONE,
            precheck: false,
            not_offloaded: None,
        }
    }

    fn span(&mut self, slot: u8, len: u16) -> u16 {
        self.stays_in_registers &= usize::from(slot) * 4 + usize::from(len) <= REGISTERS;
        slots(Span { slot, len })
    }

    fn reads(mut self, slot: u8, len: impl Into<u16>) -> Info {
        self.reads |= self.span(slot, len.into());
        self
    }

    /// [`Info::reads`] of an optional register.
    fn may_read(self, slot: Option<u8>, len: u16) -> Info {
        match slot {
            Some(slot) => self.reads(slot, len),
            None => self,
        }
    }

    fn writes(mut self, slot: u8, len: impl Into<u16>) -> Info {
        self.writes |= self.span(slot, len.into());
        self
    }

    /// Uses so many bytes of its constant.
    fn constant(mut self, len: impl Into<u16>) -> Info {
        self.stays_in_registers &= len.into() <= CONSTANT;
        self
    }

    fn parts(mut self, parts: Parts) -> Info {
        self.parts = parts;
        self
    }

    fn burst_safe(mut self, safe: bool) -> Info {
        self.burst_safe = safe;
        self
    }

    /// Never decides, whatever its effect is.
    fn only_breaks(mut self) -> Info {
        self.decides = false;
        self
    }

    fn precheck(mut self, precheck: bool) -> Info {
        self.precheck = precheck;
        self
    }

    fn not_offloaded(mut self, what: &'static str) -> Info {
        self.not_offloaded = Some(what);
        self
    }
}

/// Bytes of a transport header that a precheck reads: they are there in every packet that it is
/// about.
pub const TRANSPORT_PRECHECKED: usize = 8;

/// Whether bytes of an IPv4 header stay as they are while the packet is forwarded: not its TTL and
/// checksum.
fn is_constant(len: u8, offset: u16) -> bool {
    const TTL: u32 = 8;
    const PROTOCOL: u32 = 9;
    const SOURCE: u32 = 12;
    let (start, end) = (u32::from(offset), u32::from(offset) + u32::from(len));
    end <= TTL
        || start >= PROTOCOL && end <= PROTOCOL + 1
        || start >= SOURCE && end <= ipv4::LEN as u32
}

/// Whether a load from the transport header sees into fragments
/// ([`transport_bytes_for_load`](penstock_packet::Packet::transport_bytes_for_load)).
pub fn sees_fragments(len: u8, offset: u16) -> bool {
    matches!(len, 1 | 2 | 4) && offset.is_multiple_of(len.into())
}

impl Op {
    /// What is known of it before it runs. A table with a row for each operation, and so as long as
    /// there are operations.
    pub fn info(&self) -> Info {
        let does = Info::new;
        let words = |words: u8| u16::from(words) * 4;
        let address = |v6: bool| if v6 { 16 } else { 4 };
        let length = Parts { length: true, ..Parts::NONE };
        match self {
            Op::Immediate { dst, len, .. } => {
                does(Effect::None).writes(*dst, *len).constant(*len).precheck(true)
            }
            Op::Verdict(LinkedVerdict::Queue { .. }) => {
                does(Effect::Outside).burst_safe(true).not_offloaded("queue")
            }
            Op::Verdict(_) => does(Effect::Outside).burst_safe(true),
            Op::LoadLink { dst, len, .. } => {
                does(Effect::None).writes(*dst, *len).parts(Parts { link: true, ..Parts::NONE })
            }
            Op::LoadNetwork { dst, len, offset } => does(Effect::None)
                .writes(*dst, *len)
                .parts(Parts { network: true, ..Parts::NONE })
                .precheck(is_constant(*len, *offset)),
            Op::LoadTransport { dst, len, offset } => {
                let whole_transport = !sees_fragments(*len, *offset);
                let parts = Parts { transport: true, whole_transport, ..Parts::NONE };
                let end = usize::from(*offset) + usize::from(*len);
                does(Effect::None)
                    .writes(*dst, *len)
                    .parts(parts)
                    .precheck(end <= TRANSPORT_PRECHECKED)
            }
            Op::LoadInner { dst, len, .. } => does(Effect::None).writes(*dst, *len),
            Op::InTunnel(inner) => {
                let (dst, len) = match inner.load {
                    InnerLoad::Payload { dst, len, .. } => (dst, len),
                    InnerLoad::Protocol { dst } | InnerLoad::L4Proto { dst } => (dst, 4),
                };
                does(Effect::None).writes(dst, len).not_offloaded("a header inside a tunnel")
            }
            Op::PayloadSet { src, len, .. } => does(Effect::Bytes)
                .reads(*src, *len)
                .burst_safe(true)
                .not_offloaded("a change of the packet"),
            Op::TcpOptionSet { src, len, .. } => does(Effect::Bytes)
                .reads(*src, *len)
                .burst_safe(true)
                .not_offloaded("a change of TCP options"),
            Op::TcpOptionReset { .. } => {
                does(Effect::Bytes).burst_safe(true).not_offloaded("a change of TCP options")
            }
            Op::Meta { key: MetaKey::Prandom, dst } => {
                does(Effect::Outside).writes(*dst, 4u8).only_breaks()
            }
            Op::Meta { key, dst } => {
                let parts = match key {
                    MetaKey::L4Proto => Parts { transport: true, ..Parts::NONE },
                    MetaKey::Len => length,
                    _ => Parts::NONE,
                };
                let constant =
                    matches!(key, MetaKey::NfProto | MetaKey::L4Proto | MetaKey::Protocol);
                does(Effect::None).writes(*dst, meta_len(*key)).parts(parts).precheck(constant)
            }
            Op::MetaSet { key, src } => Info {
                traces: *key == MetaKey::NfTrace,
                ..does(Effect::Metadata)
                    .reads(*src, 4u8)
                    .burst_safe(*key != MetaKey::NfTrace)
                    .only_breaks()
                    .not_offloaded("meta set")
            },
            Op::CmpWord { src, .. } => does(Effect::None).reads(*src, 4u8).precheck(true),
            Op::Cmp { src, len, .. } | Op::Range { src, len, .. } => {
                does(Effect::None).reads(*src, *len).constant(*len).precheck(true)
            }
            Op::MaskXorWord { src, dst, .. } => {
                does(Effect::None).reads(*src, 4u8).writes(*dst, 4u8).precheck(true)
            }
            Op::MaskXor { src, dst, words: count, .. } => {
                let len = words(*count);
                does(Effect::None).reads(*src, len).writes(*dst, len).constant(len).precheck(true)
            }
            Op::Lshift { src, dst, words: count, .. }
            | Op::Rshift { src, dst, words: count, .. } => {
                let len = words(*count);
                does(Effect::None).reads(*src, len).writes(*dst, len).precheck(true)
            }
            Op::Combine { src, other, dst, words: count, .. } => {
                let len = words(*count);
                let info = does(Effect::None).reads(*src, len).reads(*other, len);
                info.writes(*dst, len).precheck(true)
            }
            Op::Byteorder { src, dst, len, size } => {
                let whole = len / (*size).max(1) * (*size).max(1);
                // What stays of a word is read.
                let rest = (whole % 4 != 0).then_some(dst.saturating_add(whole / 4));
                let info = does(Effect::None).reads(*src, *len).may_read(rest, 4);
                info.writes(*dst, whole).precheck(true)
            }
            Op::Lookup { src, key_len, inverse, load, .. } => {
                let info = loads(does(Effect::Outside).reads(*src, *key_len), *inverse, *load);
                let loads_bytes = matches!(load, Load::Bytes { .. });
                info.burst_safe(true).precheck(!loads_bytes)
            }
            Op::LookupDynamic { src, key_len, inverse, load, .. } => {
                loads(does(Effect::Outside).reads(*src, *key_len), *inverse, *load)
                    .not_offloaded("lookup in a set that packets change")
            }
            Op::SetUpdate(update) => {
                let data = update.data.unwrap_or((0, 0));
                does(Effect::Outside)
                    .reads(update.key, update.key_len)
                    .reads(data.0, data.1)
                    .not_offloaded("add, update or delete of a set's element")
            }
            // An object of any kind.
            Op::ObjectMap { src, key_len, .. } => does(Effect::Bytes).reads(*src, *key_len),
            Op::Counter(_) => counter(),
            Op::Stateful(stateful) => self::stateful(stateful),
            Op::Log(_) => does(Effect::Outside).only_breaks().not_offloaded("log"),
            Op::Exthdr { dst, len, present, .. } => does(Effect::None)
                .writes(*dst, if *present { 4 } else { *len })
                .not_offloaded("an option or extension header"),
            Op::NumgenInc { dst, .. } => {
                does(Effect::Outside).writes(*dst, 4u8).only_breaks().not_offloaded("numgen inc")
            }
            Op::NumgenRandom { dst, .. } => does(Effect::Outside).writes(*dst, 4u8).only_breaks(),
            Op::Jhash { src, len, dst, .. } => {
                does(Effect::None).reads(*src, *len).writes(*dst, 4u8)
            }
            Op::Symhash { dst, .. } => does(Effect::None).writes(*dst, 4u8),
            Op::Fib { result, flags, dst } => {
                let name = *result == FibResult::OifName && u32::from(*flags) & FIB_PRESENT == 0;
                does(Effect::Outside)
                    .writes(*dst, if name { 16u8 } else { 4 })
                    .only_breaks()
                    .not_offloaded("fib")
            }
            Op::Rt { key, dst } => does(Effect::Outside)
                .writes(*dst, (key.width() as u16).next_multiple_of(4))
                .only_breaks()
                .not_offloaded("rt"),
            Op::Reject(_) => does(Effect::Outside).not_offloaded("reject"),
            Op::Dup { addr, v6, dev } => does(Effect::Outside)
                .may_read(*addr, address(*v6))
                .may_read(*dev, 4)
                .not_offloaded("dup"),
            Op::Fwd { dev, addr, v6 } => does(Effect::Bytes)
                .reads(*dev, 4u8)
                .may_read(*addr, address(*v6))
                .not_offloaded("fwd"),
            Op::CtState { dst } => does(Effect::None).writes(*dst, 4u8).not_offloaded("ct"),
            // What the outside answers may be shorter; what it does not fill is not written.
            Op::Ct { key, dst, .. } => {
                does(Effect::Outside).writes(*dst, ct_len(*key)).only_breaks().not_offloaded("ct")
            }
            Op::CtSet { src, len, .. } => {
                does(Effect::Outside).reads(*src, *len).only_breaks().not_offloaded("ct")
            }
            Op::CtSetZone { src, .. } => {
                does(Effect::Metadata).reads(*src, 2u8).not_offloaded("ct")
            }
            Op::Notrack => does(Effect::Metadata).only_breaks().not_offloaded("notrack"),
            Op::Nat(nat) => {
                let len = address(nat.family != NFPROTO_IPV4);
                let [first, last] = nat.addr.map_or([None; 2], |(a, b)| [Some(a), Some(b)]);
                let [low, high] = nat.port.map_or([None; 2], |(a, b)| [Some(a), Some(b)]);
                does(Effect::Metadata)
                    .may_read(first, len)
                    .may_read(last, len)
                    .may_read(low, 2)
                    .may_read(high, 2)
                    .not_offloaded("nat")
            }
            Op::Queue(queue) => {
                does(Effect::Outside).may_read(queue.sreg, 4).not_offloaded("queue")
            }
            Op::Synproxy(_) => does(Effect::Bytes).not_offloaded("synproxy"),
            Op::FlowOffload(_) => does(Effect::Outside).only_breaks().not_offloaded("flow add"),
            Op::Tproxy { addr, port, .. } => does(Effect::Metadata)
                .may_read(*addr, 16)
                .may_read(*port, 2)
                .not_offloaded("tproxy"),
            Op::Socket { key, dst, .. } => does(Effect::Outside)
                .writes(*dst, (key.width() as u16).next_multiple_of(4))
                .only_breaks()
                .not_offloaded("socket"),
            Op::Osf { dst, .. } => does(Effect::None).writes(*dst, 16u8).not_offloaded("osf"),
            Op::Xfrm { key, dst, .. } => {
                does(Effect::None).writes(*dst, key.width() as u16).not_offloaded("ipsec")
            }
            Op::Tunnel { dst, .. } => does(Effect::None).writes(*dst, 4u8).not_offloaded("tunnel"),
            Op::Extension(extension) => {
                self::extension(extension).not_offloaded("an extension of x_tables")
            }
        }
    }
}

fn counter() -> Info {
    let length = Parts { length: true, ..Parts::NONE };
    Info::new(Effect::Outside).burst_safe(true).only_breaks().parts(length)
}

fn stateful(stateful: &Stateful) -> Info {
    let does = Info::new;
    match stateful {
        Stateful::Counter(_) => counter(),
        Stateful::Quota { .. } | Stateful::NamedQuota { .. } => {
            does(Effect::Outside).only_breaks().not_offloaded("quota")
        }
        Stateful::Limit { .. } => does(Effect::Outside).only_breaks().not_offloaded("limit"),
        Stateful::Last(_) => does(Effect::Outside).only_breaks().not_offloaded("last"),
        Stateful::Connlimit { .. } => does(Effect::Outside).not_offloaded("ct count"),
        Stateful::Ct(_) => {
            does(Effect::Metadata).not_offloaded("ct helper, timeout or expectation")
        }
        Stateful::Synproxy(_) => does(Effect::Bytes).not_offloaded("synproxy"),
        Stateful::SecMark(_) => does(Effect::Metadata).only_breaks().not_offloaded("secmark"),
    }
}

fn extension(extension: &Extension) -> Info {
    let does = Info::new;
    match extension {
        Extension::Sequence { .. } | Extension::AnyOf { .. } | Extension::ByHook { .. } => {
            let all = extension.operations().into_iter().map(Op::info);
            all.fold(does(Effect::None), |sum, info| Info {
                effect: sum.effect.or(info.effect),
                burst_safe: sum.burst_safe && info.burst_safe,
                decides: sum.decides || info.decides,
                traces: sum.traces || info.traces,
                stays_in_registers: sum.stays_in_registers && info.stays_in_registers,
                ..sum
            })
        }
        Extension::TransportHeader { .. }
        | Extension::TcpOption { .. }
        | Extension::TcpMss { .. }
        | Extension::DccpOption { .. }
        | Extension::SctpChunks(_)
        | Extension::Ipv6(_) => Info { burst_safe: true, ..does(Effect::Outside) },
        Extension::SetTcpMss(_) => does(Effect::Bytes),
        Extension::StripTcpOptions { .. } => does(Effect::Bytes).burst_safe(true),
        Extension::Ttl(_) => does(Effect::Bytes).burst_safe(true),
        // It may answer with an error.
        Extension::Npt(_) => does(Effect::Bytes),
        Extension::U32(_) | Extension::Search(_) | Extension::System { .. } => does(Effect::None),
        Extension::Time(_) => does(Effect::Outside).only_breaks(),
        // It may ask for a random number.
        Extension::Bpf(_) => does(Effect::Outside).only_breaks(),
        Extension::Policy(_) | Extension::Physdev(_) => does(Effect::None),
        Extension::ArpReply { .. } | Extension::CopyTo { .. } => does(Effect::Outside),
        // It may change the packet's type.
        Extension::Cluster(_) | Extension::Template(_) => does(Effect::Metadata),
        Extension::HashMark(_) => does(Effect::Metadata),
        Extension::Recent(_)
        | Extension::Account(_)
        | Extension::IpSet(_)
        | Extension::CountRate(_)
        | Extension::Rate(_) => does(Effect::Outside).only_breaks(),
        // It may change mark and priority.
        Extension::SetIpSet(_) => does(Effect::Metadata),
        // Where there is no room the packet is dropped.
        Extension::Hashlimit(_) | Extension::Connlimit(_) => does(Effect::Outside),
    }
}

/// With what a lookup loads.
fn loads(info: Info, inverse: bool, load: Load) -> Info {
    match load {
        // What is not found is not loaded.
        Load::Bytes { dst, len } if inverse => info.reads(dst, len),
        Load::Bytes { dst, len } => info.writes(dst, len),
        Load::Nothing | Load::Verdict => info,
    }
}

/// Bytes of the register words that a key fills.
fn meta_len(key: MetaKey) -> u16 {
    (key.width() as u16).next_multiple_of(4)
}

/// Bytes that the outside always answers.
fn ct_len(key: CtKey) -> u16 {
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
    fn partly_written_words_count_as_read() {
        let op = Op::Byteorder { src: 0, dst: 4, len: 6, size: 2 };
        let info = op.info();
        assert_eq!((info.reads, info.writes), (0b10_0011, 0b11_0000));
    }

    #[test]
    fn register_accesses_out_of_range_are_detected() {
        for (op, fits) in [
            (Op::Immediate { dst: 12, len: 16, data: [0; 16] }, true),
            (Op::Immediate { dst: 13, len: 16, data: [0; 16] }, false),
            (Op::Immediate { dst: 0, len: 17, data: [0; 16] }, false),
            (Op::Osf { ttl: 0, version: false, dst: 12, added: Default::default() }, true),
            (Op::Osf { ttl: 0, version: false, dst: 13, added: Default::default() }, false),
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
            assert_eq!(op.info().stays_in_registers, fits, "{op:?}");
        }
    }
}
