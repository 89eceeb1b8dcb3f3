// SPDX-License-Identifier: Apache-2.0

//! What extensions are lowered to: VM expressions, and lists of them.
//!
//! The functions here make parts that are used often. Those that load fill register 1, those that
//! compare read it; both lie in the same list.

use std::fmt;
use std::sync::Arc;

use penstock_sets::{Description, Element, Set};

use super::super::{
    Bitwise, BitwiseOp, Byteorder, ByteorderOp, Cmp, Ct, Expression, Immediate, ImmediateData,
    Meta, Nat, Payload, Range,
};
use crate::linked::NewConnection;
use crate::linked::{LinkedData, LinkedValue};
use crate::linking::{LinkReason, Linking, NO_STATE};
use crate::needs::Needs;
use crate::op::{Extension, LinkedNat, Load, Op, SystemLog};
use crate::operand::{CmpOp, CtDir, CtKey, MetaKey, PayloadBase};
use crate::{Data, Family, Register, State};

/// Makes an operation with state, if the state is of its kind.
type Make = dyn Fn(&Arc<State>) -> Option<Extension>;

/// Part of an extension.
pub enum Part {
    /// A VM expression.
    Vm(Box<dyn Expression>),
    /// A translation, and the port from which ports keep their distance in its range.
    Nat(Nat, u16),
    /// An operation that needs nothing.
    Op(Op),
    /// An operation that needs the extension's state, if that is of the kind.
    Stateful(Box<Make>),
    /// Counts in the account of a name.
    Account(Arc<str>),
    /// Asks for the sender's system: genre, the condition on the TTL, and what is recorded.
    System(Arc<str>, u8, Option<SystemLog>),
    /// Gives a new connection what is here, and the timeout policy of a name.
    Template(NewConnection, Option<Arc<str>>),
    /// Nothing but that fragments are put together before.
    Defrag,
    /// Nothing but that connections are tracked.
    Tracks,
    /// A list that passes if one of these lists does, or with `inverted` if none does.
    AnyOf {
        /// The lists.
        of: Vec<Vec<Part>>,
        /// Inverts the result.
        inverted: bool,
    },
    /// A list after which the rule continues, whether it broke or not.
    Try(Vec<Part>),
    /// One list for prerouting and output, another one for all other hooks.
    ByHook {
        /// For prerouting and output.
        destination: Vec<Part>,
        /// For all other hooks.
        source: Vec<Part>,
    },
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Vm(expr) => write!(f, "[ {expr} ]"),
            Part::Nat(nat, base_port) => f.debug_tuple("Nat").field(nat).field(base_port).finish(),
            Part::Op(op) => op.fmt(f),
            Part::Stateful(_) => f.write_str("Stateful"),
            Part::Account(name) => f.debug_tuple("Account").field(name).finish(),
            Part::System(genre, ttl, log) => {
                f.debug_tuple("System").field(genre).field(ttl).field(log).finish()
            }
            Part::Template(new, timeout) => {
                f.debug_tuple("Template").field(new).field(timeout).finish()
            }
            Part::Defrag => f.write_str("Defrag"),
            Part::Tracks => f.write_str("Tracks"),
            Part::AnyOf { of, inverted } => {
                f.debug_tuple(if *inverted { "NoneOf" } else { "AnyOf" }).field(of).finish()
            }
            Part::Try(parts) => f.debug_tuple("Try").field(parts).finish(),
            Part::ByHook { destination, source } => {
                f.debug_tuple("ByHook").field(destination).field(source).finish()
            }
        }
    }
}

/// The operations of a list.
pub fn link(parts: &[Part], linking: &Linking<'_>) -> Result<Box<[Op]>, LinkReason> {
    parts.iter().filter_map(|part| part.link(linking).transpose()).collect()
}

impl Part {
    /// Its operation, if it has one.
    fn link(&self, linking: &Linking<'_>) -> Result<Option<Op>, LinkReason> {
        let extension = match self {
            Part::Vm(expr) => return expr.link(linking).map(Some),
            Part::Nat(nat, base_port) => {
                let linked = LinkedNat { base_port: *base_port, ..nat.linked()? };
                return Ok(Some(Op::Nat(linked)));
            }
            Part::Op(op) => return Ok(Some(op.clone())),
            Part::Stateful(make) => make(linking.state()?).ok_or(NO_STATE)?,
            Part::Account(name) => {
                let unknown = || LinkReason::Unknown { what: "account", name: name.clone() };
                Extension::Account(linking.names.account(name).ok_or_else(unknown)?)
            }
            Part::System(genre, ttl, log) => Extension::System {
                genre: (&**genre).into(),
                ttl: *ttl,
                added: linking.names.fingerprints(),
                log: *log,
            },
            Part::Template(new, timeout) => {
                let find = |name: &Arc<str>| {
                    let unknown =
                        || LinkReason::Unknown { what: "timeout policy", name: name.clone() };
                    linking.names.timeout(name).ok_or_else(unknown)
                };
                let timeout = timeout.as_ref().map(find).transpose()?;
                Extension::Template(NewConnection { timeout, ..new.clone() })
            }
            Part::Defrag | Part::Tracks => return Ok(None),
            Part::AnyOf { of, inverted } => Extension::AnyOf {
                of: of.iter().map(|list| link(list, linking)).collect::<Result<_, _>>()?,
                inverted: *inverted,
            },
            Part::Try(parts) => Extension::Sequence { ops: link(parts, linking)?, continues: true },
            Part::ByHook { destination, source } => Extension::ByHook {
                destination: link(destination, linking)?,
                source: link(source, linking)?,
            },
        };
        Ok(Some(Op::Extension(Arc::new(extension))))
    }

    /// Adds what it needs of the path.
    pub fn needs(&self, family: Family, needs: &mut Needs) {
        match self {
            Part::Vm(expr) => expr.needs(family, needs),
            Part::Nat(nat, _) => nat.needs(family, needs),
            Part::Op(_) | Part::Stateful(_) | Part::Account(_) | Part::System(..) => {}
            Part::Defrag => needs.defrag.add(family),
            Part::Tracks | Part::Template(..) => needs.track(family),
            Part::AnyOf { of, .. } => of.iter().flatten().for_each(|p| p.needs(family, needs)),
            Part::Try(parts) => parts.iter().for_each(|p| p.needs(family, needs)),
            Part::ByHook { destination, source } => {
                destination.iter().chain(source).for_each(|p| p.needs(family, needs));
            }
        }
    }
}

/// The register of the functions here.
pub const REG: Register = Register(1);

/// A VM expression.
pub fn vm(expr: impl Expression + 'static) -> Part {
    Part::Vm(Box::new(expr))
}

/// An operation of extensions alone.
pub fn own(extension: Extension) -> Part {
    Part::Op(Op::Extension(Arc::new(extension)))
}

/// An operation of extensions alone, with state.
pub fn stateful(make: impl Fn(&Arc<State>) -> Option<Extension> + 'static) -> Part {
    Part::Stateful(Box::new(make))
}

/// Loads bytes of a header.
pub fn payload(base: PayloadBase, offset: u32, len: u32) -> Part {
    vm(Payload { base, offset, len, dreg: REG })
}

/// Loads bytes of the network header.
pub fn network(offset: u32, len: u32) -> Part {
    payload(PayloadBase::Network, offset, len)
}

/// Loads bytes of the transport header.
pub fn transport(offset: u32, len: u32) -> Part {
    payload(PayloadBase::Transport, offset, len)
}

/// Loads metadata.
pub fn meta(key: MetaKey) -> Part {
    vm(Meta { key, dreg: REG })
}

/// Loads what is known of the connection, of one direction or of both.
pub fn ct(key: CtKey, dir: Option<CtDir>) -> Part {
    vm(Ct { key, dir, dreg: REG })
}

/// `(register & mask) ^ xor`
pub fn bits(mask: &[u8], xor: &[u8]) -> Part {
    let op = BitwiseOp::MaskXor { mask: Data::new(mask), xor: Data::new(xor) };
    vm(Bitwise { sreg: REG, dreg: REG, len: mask.len() as u32, op })
}

/// `register & mask`
pub fn mask(mask: &[u8]) -> Part {
    bits(mask, &vec![0; mask.len()])
}

/// Numbers of `size` bytes from host to network order.
pub fn to_network(size: u32) -> Part {
    vm(Byteorder { op: ByteorderOp::Hton, sreg: REG, dreg: REG, len: size, size })
}

/// Passes if the bytes are these, or with `inverted` if they are not.
pub fn equal(bytes: &[u8], inverted: bool) -> Part {
    let op = if inverted { CmpOp::Neq } else { CmpOp::Eq };
    vm(Cmp { op, sreg: REG, data: Data::new(bytes) })
}

/// A comparison with bytes in network order.
pub fn compare(op: CmpOp, bytes: &[u8]) -> Part {
    vm(Cmp { op, sreg: REG, data: Data::new(bytes) })
}

/// Passes if the bytes are from `first` to `last`, or with `inverted` if they are not. Where the
/// range is empty nothing is in it.
pub fn range(first: &[u8], last: &[u8], inverted: bool) -> Part {
    let op = if inverted { CmpOp::Neq } else { CmpOp::Eq };
    vm(Range { op, sreg: REG, from: Data::new(first), to: Data::new(last) })
}

/// As [`range`], of two numbers of 16 bits in network order.
pub fn range16([first, last]: [u16; 2], inverted: bool) -> Part {
    range(&first.to_be_bytes(), &last.to_be_bytes(), inverted)
}

/// As [`range`], of two numbers of 32 bits in network order.
pub fn range32([first, last]: [u32; 2], inverted: bool) -> Part {
    range(&first.to_be_bytes(), &last.to_be_bytes(), inverted)
}

/// A constant into a register.
pub fn constant(dreg: Register, bytes: &[u8]) -> Part {
    vm(Immediate { dreg, data: ImmediateData::Value(Data::new(bytes)) })
}

/// Ends a list: it never passes.
pub fn never() -> Part {
    Part::AnyOf { of: Vec::new(), inverted: false }
}

/// Passes if the register is in one of the ranges of numbers in network order, ends included, or
/// with `inverted` if it is in none. Ranges may overlap, and be empty.
///
/// # Errors
/// No set can hold them.
pub fn in_ranges<const N: usize>(
    mut ranges: Vec<[[u8; N]; 2]>,
    inverted: bool,
) -> Result<Part, &'static str> {
    ranges.retain(|[first, last]| first <= last);
    ranges.sort_unstable();
    let mut apart: Vec<[[u8; N]; 2]> = Vec::new();
    for [first, last] in ranges {
        match apart.last_mut() {
            Some(before) if before[1] >= first => before[1] = before[1].max(last),
            _ => apart.push([first, last]),
        }
    }
    match apart.as_slice() {
        [] => return Ok(Part::AnyOf { of: Vec::new(), inverted }),
        [[first, last]] if first == last => return Ok(equal(first, inverted)),
        [[first, last]] => return Ok(range(first, last, inverted)),
        _ => {}
    }
    let set = set_of(&apart).ok_or("there is no set for its numbers")?;
    let (key_len, load) = (N as u8, Load::Nothing);
    Ok(Part::Op(Op::Lookup { src: 0, key_len, inverse: inverted, load, set: Arc::new(set) }))
}

fn set_of<const N: usize>(ranges: &[[[u8; N]; 2]]) -> Option<Set<LinkedValue>> {
    let interval = ranges.iter().any(|[first, last]| first != last);
    let description =
        Description { key_len: N, interval, constant: true, ..Description::default() };
    let mut set = Set::new(description)?;
    for [first, last] in ranges {
        let value = LinkedValue { data: LinkedData::None, statements: Box::default() };
        let key_end = interval.then(|| last.as_slice().into());
        let element = Element { key: first.as_slice().into(), key_end, value, expires_at: None };
        set.insert(element, 0).ok()?;
    }
    set.commit();
    Some(set.presence_only())
}
