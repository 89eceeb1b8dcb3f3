// SPDX-License-Identifier: Apache-2.0

//! What has to hold for a rule to do anything: its first operations, run on bytes of which only the
//! origin is known.
//!
//! Operations that only look are followed up to the first one that does something. Each comparison
//! of bytes of the packet with constants becomes a condition. Operations that look at what is not
//! understood here are passed over: conditions after them must hold nevertheless.

use penstock_sets::Set;

use crate::family::{NFPROTO_IPV4, NFPROTO_IPV6};
use crate::linked::LinkedValue;
use crate::op::{Effect, Info, Load, Op};
use crate::operand::{CmpOp, CtKey, MetaKey};

/// IP versions that a rule has asked for before it loads from the network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// None: that of the packet.
    Any,
    /// IPv4.
    Four,
    /// IPv6.
    Six,
}

/// Where bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The network header.
    Network(Version),
    /// The transport header.
    Transport,
    /// Addresses of the link header, before what a VLAN tag moves.
    Link,
    /// Metadata of the packet.
    Metadata(Metadata),
}

/// Metadata of a packet. Numbers in host order are taken in network order, so that they order like
/// their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metadata {
    /// A key of `meta`.
    Meta(MetaKey),
    /// `ct state`.
    CtState,
    /// `ct mark`.
    CtMark,
}

impl Metadata {
    /// Bytes in the register.
    pub fn width(self) -> usize {
        match self {
            Metadata::Meta(key) => key.width() as usize,
            Metadata::CtState | Metadata::CtMark => 4,
        }
    }

    /// Where byte `i` of the register is.
    pub fn place(self, i: usize) -> usize {
        let reversed = match self {
            Metadata::Meta(key) => key.is_in_host_order() && cfg!(target_endian = "little"),
            Metadata::CtState | Metadata::CtMark => cfg!(target_endian = "little"),
        };
        if reversed { self.width() - 1 - i } else { i }
    }
}

/// Bytes of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where they are.
    pub source: Source,
    /// The first.
    pub at: u16,
    /// How many.
    pub len: u8,
}

/// What must hold of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// Under the mask it has this value.
    Masked { mask: [u8; 16], value: [u8; 16] },
    /// It lies between two values, both included.
    Between { from: [u8; 16], to: [u8; 16] },
}

pub(super) type Condition = (Span, Test);

/// What has to hold for a rule to do anything.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// All of these.
    pub all: Vec<Condition>,
    /// One entry of each list must hold completely: the elements of a set.
    pub sets: Vec<Vec<Vec<Condition>>>,
    /// Bytes that must be there.
    pub loads: Vec<Span>,
    /// So many operations do nothing but what the conditions say, and nothing after them needs what
    /// they leave in registers.
    pub exact: u32,
    /// They cannot hold.
    pub never: bool,
}

/// Sets with more elements count as their bounds only.
const ELEMENTS: usize = 64;
/// Sets with more elements are not looked at.
const MOST_ELEMENTS: usize = 4096;

/// What is known of a byte in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Byte {
    Unknown,
    Known(u8),
    /// `byte & mask ^ xor`.
    From {
        source: Source,
        at: u16,
        mask: u8,
        xor: u8,
    },
}

struct Walk {
    registers: [Byte; 64],
    version: Version,
    conditions: Conditions,
    /// Whether the conditions say all that the operations so far ask.
    exact: bool,
}

/// How an operation is dealt with.
enum Recognised {
    /// The conditions say all of it.
    Whole,
    /// It only looks; the conditions do not say all that it asks.
    Partly,
    /// It does something, or is the verdict.
    Stop,
}

/// The conditions of a rule.
pub(super) fn conditions(ops: &[Op]) -> Conditions {
    let mut walk = Walk {
        registers: [Byte::Unknown; 64],
        version: Version::Any,
        conditions: Conditions::default(),
        exact: true,
    };
    for op in ops {
        match walk.see(op) {
            Recognised::Whole => {}
            Recognised::Partly => walk.exact = false,
            Recognised::Stop => break,
        }
        if walk.exact {
            walk.conditions.exact += 1;
        }
        if walk.conditions.never {
            break;
        }
    }
    let mut conditions = walk.conditions;
    let alone = |exact: &u32| !needs_registers(ops.get(*exact as usize..).unwrap_or(&[]));
    conditions.exact = (0..=conditions.exact).rev().find(alone).unwrap_or(0);
    conditions
}

/// Whether operations read registers that they have not written themselves.
fn needs_registers(ops: &[Op]) -> bool {
    let mut written = 0;
    ops.iter().any(|op| {
        let info = op.info();
        let missing = info.reads & !written != 0;
        written |= info.writes;
        missing
    })
}

impl Walk {
    fn set(&mut self, slot: u8, len: usize, byte: impl Fn(usize) -> Byte) {
        let at = usize::from(slot & 15) * 4;
        for (i, to) in self.registers.iter_mut().skip(at).take(len.next_multiple_of(4)).enumerate()
        {
            *to = if i < len { byte(i) } else { Byte::Known(0) };
        }
    }

    /// From this register on nothing is known.
    fn forget(&mut self, slot: u8) -> Recognised {
        self.set(slot, 64, |_| Byte::Unknown);
        Recognised::Partly
    }

    fn load(&mut self, source: Source, dst: u8, len: u8, offset: u16) -> Recognised {
        let Some(end) = offset.checked_add(len.into()) else { return self.forget(dst) };
        self.set(dst, len.into(), |i| Byte::From {
            source,
            at: offset + i as u16,
            mask: 0xff,
            xor: 0,
        });
        // In parts that a test can be about.
        for at in (offset..end).step_by(16) {
            self.conditions.loads.push(Span { source, at, len: (end - at).min(16) as u8 });
        }
        Recognised::Whole
    }

    fn load_metadata(&mut self, what: Metadata, dst: u8) -> Recognised {
        let source = Source::Metadata(what);
        self.set(dst, what.width(), |i| Byte::From {
            source,
            at: what.place(i) as u16,
            mask: 0xff,
            xor: 0,
        });
        self.conditions.loads.push(Span { source, at: 0, len: what.width() as u8 });
        Recognised::Whole
    }

    fn bytes(&self, slot: u8, len: usize) -> &[Byte] {
        let at = usize::from(slot & 15) * 4;
        &self.registers[at..(at + len).min(64)]
    }

    fn see(&mut self, op: &Op) -> Recognised {
        match op {
            Op::Immediate { dst, len, data } => {
                self.set(*dst, usize::from(*len).min(16), |i| Byte::Known(data[i]));
                Recognised::Whole
            }
            Op::LoadNetwork { dst, len, offset } => {
                self.load(Source::Network(self.version), *dst, *len, *offset)
            }
            Op::LoadTransport { dst, len, offset } => {
                self.load(Source::Transport, *dst, *len, *offset)
            }
            Op::LoadLink { dst, len, offset } if usize::from(*offset) + usize::from(*len) <= 12 => {
                self.load(Source::Link, *dst, *len, *offset)
            }
            Op::Meta { key: MetaKey::Prandom, .. } => Recognised::Stop,
            Op::Meta { key, dst } => self.load_metadata(Metadata::Meta(*key), *dst),
            Op::CtState { dst } => self.load_metadata(Metadata::CtState, *dst),
            Op::Ct { key: CtKey::Mark, dir: None, dst } => {
                self.load_metadata(Metadata::CtMark, *dst)
            }
            Op::CmpWord { src, equal, mask, data } => {
                if !equal {
                    return Recognised::Partly;
                }
                self.masked(*src, &mask.to_ne_bytes(), &data.to_ne_bytes())
            }
            Op::Cmp { op, src, len, data } => {
                let len = usize::from(*len).min(16);
                let (low, high) = ([0; 16], [0xff; 16]);
                match op {
                    CmpOp::Eq => self.masked(*src, &high[..len], &data[..len]),
                    CmpOp::Neq => Recognised::Partly,
                    CmpOp::Lte => self.between(*src, len, low, *data),
                    CmpOp::Gte => self.between(*src, len, *data, high),
                    CmpOp::Lt => match step(*data, len, u128::checked_sub) {
                        Some(to) => self.between(*src, len, low, to),
                        None => self.never(),
                    },
                    CmpOp::Gt => match step(*data, len, u128::checked_add) {
                        Some(from) => self.between(*src, len, from, high),
                        None => self.never(),
                    },
                }
            }
            Op::Range { inside, src, len, ends } => {
                if !inside {
                    return Recognised::Partly;
                }
                self.between(*src, usize::from(*len).min(16), ends[0], ends[1])
            }
            Op::MaskXorWord { src, dst, mask, xor } => self.mask_xor(*src, *dst, &[*mask], &[*xor]),
            Op::MaskXor { src, dst, words, mask_xor } => {
                let words = usize::from(*words).min(4);
                self.mask_xor(*src, *dst, &mask_xor[0][..words], &mask_xor[1][..words])
            }
            Op::Byteorder { src, dst, len, size } => {
                let size = usize::from(*size).max(1);
                let whole = usize::from(*len) / size * size;
                let mut bytes = self.bytes(*src, whole).to_vec();
                if cfg!(target_endian = "little") {
                    bytes.chunks_exact_mut(size).for_each(<[Byte]>::reverse);
                }
                let at = usize::from(dst & 15) * 4;
                self.registers[at..].iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
                Recognised::Whole
            }
            Op::Lookup { src, key_len, inverse, load, set } => {
                self.lookup(*src, usize::from(*key_len), *inverse, *load, set)
            }
            Op::Rt { dst, .. } | Op::Ct { dst, .. } => self.forget(*dst),
            // What has no effect only loads; all else does something, asks for what is different
            // each time, or may.
            op => match op.info() {
                Info { effect: Effect::None, writes, .. } => {
                    self.forget(writes.trailing_zeros() as u8)
                }
                Info { .. } => Recognised::Stop,
            },
        }
    }

    fn never(&mut self) -> Recognised {
        self.conditions.never = true;
        Recognised::Whole
    }

    fn mask_xor(&mut self, src: u8, dst: u8, mask: &[u32], xor: &[u32]) -> Recognised {
        let (mask, xor) =
            (mask.iter().flat_map(|w| w.to_ne_bytes()), xor.iter().flat_map(|w| w.to_ne_bytes()));
        let len = mask.clone().count();
        let computed: Vec<Byte> = self
            .bytes(src, len)
            .iter()
            .zip(mask.zip(xor))
            .map(|(byte, (m, x))| match *byte {
                _ if m == 0 => Byte::Known(x),
                Byte::Unknown => Byte::Unknown,
                Byte::Known(b) => Byte::Known(b & m ^ x),
                Byte::From { source, at, mask, xor } => {
                    Byte::From { source, at, mask: mask & m, xor: xor & m ^ x }
                }
            })
            .collect();
        self.set(dst, len, |i| computed.get(i).copied().unwrap_or(Byte::Unknown));
        Recognised::Whole
    }

    /// Bytes of a register that, under a mask, have a value.
    fn masked(&mut self, src: u8, mask: &[u8], value: &[u8]) -> Recognised {
        let bytes = self.bytes(src, mask.len()).to_vec();
        match equal(&bytes, mask, value) {
            Equal::Never => self.never(),
            Equal::Unknown(tests) => {
                self.conditions.all.extend(tests);
                Recognised::Partly
            }
            Equal::Tests(tests) => {
                self.note_version(&tests);
                self.conditions.all.extend(tests);
                Recognised::Whole
            }
        }
    }

    /// Later loads from the network header are those of the version that the rule asks for.
    fn note_version(&mut self, tests: &[Condition]) {
        for (span, test) in tests {
            let Test::Masked { value, .. } = test else { continue };
            match span.source {
                Source::Metadata(Metadata::Meta(MetaKey::NfProto)) => match value[0] {
                    NFPROTO_IPV4 => self.version = Version::Four,
                    NFPROTO_IPV6 => self.version = Version::Six,
                    _ => {}
                },
                Source::Metadata(Metadata::Meta(MetaKey::Protocol)) if span.len == 2 => {
                    match u16::from_be_bytes([value[0], value[1]]) {
                        penstock_wire::ethernet::IPV4 => self.version = Version::Four,
                        penstock_wire::ethernet::IPV6 => self.version = Version::Six,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn between(&mut self, src: u8, len: usize, from: [u8; 16], to: [u8; 16]) -> Recognised {
        if from[..len] > to[..len] {
            return self.never();
        }
        match run(self.bytes(src, len)) {
            Some(span) => {
                self.conditions.all.push((span, Test::Between { from, to }));
                Recognised::Whole
            }
            None => Recognised::Partly,
        }
    }

    fn lookup(
        &mut self,
        src: u8,
        key_len: usize,
        inverse: bool,
        load: Load,
        set: &Set<LinkedValue>,
    ) -> Recognised {
        let description = set.description();
        // Elements of others come and go, with statements of their own, under a chain that stays.
        if !description.constant || description.timeout || set.len() > MOST_ELEMENTS {
            return Recognised::Stop;
        }
        let silent = set.iter_unordered().all(|e| e.value.statements.is_empty());
        let seen = match (silent, load) {
            (false, _) | (true, Load::Verdict) => Recognised::Stop,
            (true, Load::Nothing) => Recognised::Whole,
            (true, Load::Bytes { .. }) => Recognised::Partly,
        };
        let plain = !inverse && set.catch_all(0).is_none();
        let known = if plain { self.elements(src, key_len, set) } else { None };
        if let Load::Bytes { dst, .. } = load {
            self.forget(dst);
        }
        let Some((tests, whole)) = known else {
            return if matches!(seen, Recognised::Stop) {
                Recognised::Stop
            } else {
                Recognised::Partly
            };
        };
        match tests.len() {
            0 => self.conditions.never = true,
            _ => self.conditions.sets.push(tests),
        }
        match seen {
            Recognised::Whole if !whole => Recognised::Partly,
            seen => seen,
        }
    }

    /// One of these holds if a key is in a set, and whether that is all.
    fn elements(
        &self,
        src: u8,
        key_len: usize,
        set: &Set<LinkedValue>,
    ) -> Option<(Vec<Vec<Condition>>, bool)> {
        let bytes = self.bytes(src, key_len);
        let mut fields = Vec::new();
        let mut at = 0;
        match &*set.description().fields {
            [] => fields.push((0, key_len)),
            lengths => {
                for &len in lengths {
                    fields.push((at, usize::from(len)));
                    at += usize::from(len).next_multiple_of(4);
                }
            }
        }
        if fields.iter().any(|(at, len)| at + len > bytes.len() || *len > 16) {
            return None;
        }
        // A field that is not plain bytes of the packet is left aside.
        let spans: Vec<_> = fields.iter().map(|&(at, len)| run(&bytes[at..at + len])).collect();
        if spans.iter().all(Option::is_none) {
            return None;
        }
        let whole = spans.iter().all(Option::is_some);
        let ends = set.iter_unordered().map(|e| (e.key, e.key_end.unwrap_or(e.key)));
        let conditions = |from: &[u8], to: &[u8]| -> Option<Vec<Condition>> {
            let tests = fields.iter().zip(&spans).filter_map(|(&(at, len), span)| {
                let test = Test::Between {
                    from: padded(from.get(at..at + len)?),
                    to: padded(to.get(at..at + len)?),
                };
                Some(((*span)?, test))
            });
            Some(tests.collect())
        };
        if set.len() <= ELEMENTS {
            return Some((
                ends.map(|(from, to)| conditions(from, to)).collect::<Option<_>>()?,
                whole,
            ));
        }
        // The least and the greatest of each field.
        let (mut low, mut high) = (vec![0xff; key_len], vec![0; key_len]);
        for (from, to) in ends {
            for &(at, len) in &fields {
                let field = at..at + len;
                let (from, to) = (from.get(field.clone())?, to.get(field.clone())?);
                if *from < low[field.clone()] {
                    low[field.clone()].copy_from_slice(from);
                }
                if *to > high[field.clone()] {
                    high[field].copy_from_slice(to);
                }
            }
        }
        Some((vec![conditions(&low, &high)?], false))
    }
}

fn padded(bytes: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..bytes.len()].copy_from_slice(bytes);
    out
}

/// The number in `len` bytes, one more or less.
fn step(
    bytes: [u8; 16],
    len: usize,
    step: impl Fn(u128, u128) -> Option<u128>,
) -> Option<[u8; 16]> {
    let shift = 8 * (16 - len as u32);
    let kept = u128::MAX.checked_shl(shift)?;
    Some(step(u128::from_be_bytes(bytes) & kept, 1 << shift)?.to_be_bytes())
}

/// The span that plain bytes of one source are, one after the other.
fn run(bytes: &[Byte]) -> Option<Span> {
    let Byte::From { source, at: first, .. } = *bytes.first()? else { return None };
    let plain = |(i, byte): (usize, &Byte)| match *byte {
        Byte::From { source: s, at, mask: 0xff, xor: 0 } => {
            s == source && usize::from(at) == usize::from(first) + i
        }
        _ => false,
    };
    let len = u8::try_from(bytes.len()).ok().filter(|len| *len <= 16)?;
    bytes.iter().enumerate().all(plain).then_some(Span { source, at: first, len })
}

enum Equal {
    Never,
    /// Nothing else has to hold.
    Tests(Vec<Condition>),
    /// Some of the bytes are unknown.
    Unknown(Vec<Condition>),
}

/// What has to hold for bytes to have a value under a mask.
fn equal(bytes: &[Byte], mask: &[u8], value: &[u8]) -> Equal {
    let mut tests: Vec<Condition> = Vec::new();
    let mut unknown = false;
    for (byte, (m, v)) in bytes.iter().zip(mask.iter().zip(value)) {
        match *byte {
            // A value beyond the mask is never equal.
            _ if v & !m != 0 => return Equal::Never,
            _ if *m == 0 => {}
            Byte::Unknown => unknown = true,
            Byte::Known(known) if known & m != *v => return Equal::Never,
            Byte::Known(_) => {}
            Byte::From { source, at, mask, xor } => {
                let (wanted, seen) = ((v ^ xor) & m, mask & m);
                if wanted & !seen != 0 {
                    return Equal::Never;
                }
                add_byte(&mut tests, source, at, seen, wanted);
            }
        }
    }
    if unknown { Equal::Unknown(tests) } else { Equal::Tests(tests) }
}

/// Adds a byte to the test of its neighbour, before or after.
fn add_byte(tests: &mut Vec<Condition>, source: Source, at: u16, mask: u8, value: u8) {
    if let Some((span, Test::Masked { mask: masks, value: values })) = tests.last_mut()
        && span.source == source
        && span.len < 16
    {
        let len = usize::from(span.len);
        if at == span.at + u16::from(span.len) {
            (masks[len], values[len]) = (mask, value);
            span.len += 1;
            return;
        }
        if at + 1 == span.at {
            masks.copy_within(..len, 1);
            values.copy_within(..len, 1);
            (masks[0], values[0]) = (mask, value);
            (span.at, span.len) = (at, span.len + 1);
            return;
        }
    }
    let test = Test::Masked { mask: padded(&[mask]), value: padded(&[value]) };
    tests.push((Span { source, at, len: 1 }, test));
}
