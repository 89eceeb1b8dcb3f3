// SPDX-License-Identifier: Apache-2.0

//! What expressions are linked with: what their names stand for, and why they cannot be linked.
//! [`link`](crate::link) exports it to other crates.

use std::fmt;
use std::sync::Arc;

use crate::linked::{ChainIndex, CtObject, FlowtableIndex, LinkedSet, LinkedVerdict, Stateful};
use crate::operand::ObjectType;
use crate::osf::Fingerprints;
use crate::{Data, Family, Register, State, Verdict};

/// An expression that the path cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// [`Expr::name`](crate::Expr::name).
    pub expression: &'static str,
    /// What is missing.
    pub reason: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot run: {}", self.expression, self.reason)
    }
}

impl std::error::Error for Unsupported {}

/// An extension of x_tables that the path cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRun {
    /// `match` or `target`.
    pub expression: &'static str,
    /// Its name.
    pub name: Arc<str>,
    /// Its revision.
    pub rev: u32,
    /// What is missing.
    pub reason: &'static str,
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotRun { expression, name, rev, reason } = self;
        write!(f, "{expression} {name} revision {rev} cannot run: {reason}")
    }
}

/// Why no object can say where a packet goes in a tunnel.
pub const NO_TUNNEL: &str =
    "there are no devices that take the ends of their tunnel from each packet";

/// Resolves the names in a table's programs.
pub trait Names {
    /// A chain.
    fn chain(&self, name: &str) -> Option<ChainIndex>;
    /// A set or map, with its elements linked.
    fn set(&self, name: &Arc<str>) -> Result<LinkedSet, LinkReason>;
    /// An object.
    fn object(&self, kind: ObjectType, name: &str) -> Option<&Stateful>;
    /// A flowtable.
    fn flowtable(&self, name: &str) -> Option<FlowtableIndex>;
    /// An account, which is in no table.
    fn account(&self, name: &str) -> Option<Arc<State>> {
        let _ = name;
        None
    }
    /// Fingerprints of operating systems that programs have added.
    fn fingerprints(&self) -> Arc<Fingerprints> {
        Arc::default()
    }
    /// A timeout policy, which is in no table.
    fn timeout(&self, name: &str) -> Option<Arc<CtObject>> {
        let _ = name;
        None
    }
}

/// Why a rule could not be linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkReason {
    /// The path cannot run the expression.
    Unsupported(Unsupported),
    /// The path cannot run the extension.
    Extension(Box<NotRun>),
    /// Registers, lengths or operands that no verified program has.
    Malformed(&'static str),
    /// A chain, set or object that is not there.
    Unknown {
        /// `chain`, `set`, `object`, `flowtable`, `account` or `timeout policy`.
        what: &'static str,
        /// Its name.
        name: Arc<str>,
    },
}

impl fmt::Display for LinkReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkReason::Unsupported(u) => u.fmt(f),
            LinkReason::Extension(extension) => extension.fmt(f),
            LinkReason::Malformed(what) => f.write_str(what),
            LinkReason::Unknown { what, name } => write!(f, "no {what} {name}"),
        }
    }
}

/// Resolves a verdict.
pub fn link_verdict(verdict: &Verdict, names: &dyn Names) -> Result<LinkedVerdict, LinkReason> {
    let chain = |name: &Arc<str>| {
        names.chain(name).ok_or_else(|| LinkReason::Unknown { what: "chain", name: name.clone() })
    };
    Ok(match verdict {
        Verdict::Drop => LinkedVerdict::Drop,
        Verdict::Accept => LinkedVerdict::Accept,
        Verdict::Continue => LinkedVerdict::Continue,
        Verdict::Break => LinkedVerdict::Break,
        Verdict::Return => LinkedVerdict::Return,
        Verdict::Jump(name) => LinkedVerdict::Jump(chain(name)?),
        Verdict::Goto(name) => LinkedVerdict::Goto(chain(name)?),
        Verdict::Queue => LinkedVerdict::Queue { num: 0, bypass: false },
    })
}

/// What an expression is linked with.
pub struct Linking<'a> {
    /// Of the table.
    pub family: Family,
    /// What names stand for.
    pub names: &'a dyn Names,
    /// State of the expression, if it has some.
    pub state: Option<&'a Arc<State>>,
}

/// An expression has state, and there is none for it.
pub(crate) const NO_STATE: LinkReason =
    LinkReason::Malformed("the state of an expression is missing");

impl<'a> Linking<'a> {
    /// The state that the expression must have.
    pub(crate) fn state(&self) -> Result<&'a Arc<State>, LinkReason> {
        self.state.ok_or(NO_STATE)
    }
}

/// Slot of a register that `len` bytes are read from or written to.
pub(crate) fn slot(register: Register, len: u32) -> Result<u8, LinkReason> {
    match register.slot() {
        Some(slot) if len > 0 && slot * 4 + len as usize <= 64 => Ok(slot as u8),
        _ => Err(LinkReason::Malformed("a register is out of bounds")),
    }
}

/// Up to 16 bytes of a constant, padded with zeros.
pub(crate) fn constant(data: &Data) -> Result<([u8; 16], u8), LinkReason> {
    let bytes = data.bytes();
    let mut padded = [0; 16];
    match padded.get_mut(..bytes.len()) {
        Some(start) if !bytes.is_empty() => start.copy_from_slice(bytes),
        _ => return Err(LinkReason::Malformed("a constant has no byte or more than 16")),
    }
    Ok((padded, bytes.len() as u8))
}

/// The words of 16 bytes in memory order.
pub(crate) fn words(bytes: [u8; 16]) -> [u32; 4] {
    let (words, _) = bytes.as_chunks::<4>();
    let mut out = [0; 4];
    for (to, from) in out.iter_mut().zip(words) {
        *to = u32::from_ne_bytes(*from);
    }
    out
}

/// A number as an operation has it.
pub(crate) fn narrow<T: TryFrom<u32>>(value: u32) -> Result<T, LinkReason> {
    T::try_from(value).map_err(|_| LinkReason::Malformed("an offset or length is too large"))
}
