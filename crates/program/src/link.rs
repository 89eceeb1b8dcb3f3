// SPDX-License-Identifier: Apache-2.0

//! Linking: from expressions that name sets, chains and objects to the operations of an
//! [`Image`](crate::Image).
//!
//! [`link_rule`] makes the operations of one rule; who holds the names (tables, chains, sets) is
//! behind [`Names`]. [`supported`] tells beforehand whether an expression can be linked at all.

use std::fmt;
use std::sync::Arc;

use crate::env::NatKind;
use crate::expr::*;
use crate::image::{
    ChainIndex, FlowtableIndex, LinkedElements, LinkedVerdict, Load, Op, SetUpdate, Stateful,
};
use crate::image::{InnerLoad, LinkedInner, LinkedNat, LinkedQueue, LinkedSet};
use crate::state::{BadLimit, Bucket};
use crate::{Data, Register, State, Verdict};

/// An expression that the path cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// [`Expr::name`].
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

/// Why no object can say where a packet goes in a tunnel.
pub const NO_TUNNEL: &str =
    "there are no devices that take the ends of their tunnel from each packet";

/// Whether the path can run an expression, whatever it names.
pub fn supported(expr: &Expr) -> Result<(), Unsupported> {
    let reason = match expr {
        Expr::Payload(x) if x.base == PayloadBase::Tunnel => {
            "tunnel headers exist inside inner only"
        }
        Expr::PayloadSet(x) if x.base == PayloadBase::Tunnel => "tunnel headers cannot be written",
        Expr::Dynset(x) => return x.exprs.iter().try_for_each(supported),
        Expr::Objref(Objref::Named { kind: ObjectType::Tunnel, .. }) => NO_TUNNEL,
        Expr::Inner(x) => match &*x.expr {
            Expr::Payload(_)
            | Expr::Meta(Meta { key: MetaKey::Protocol | MetaKey::L4Proto, .. }) => {
                return Ok(());
            }
            _ => "of a packet in a tunnel there are header fields and protocols only",
        },
        Expr::Xt(_) => "x_tables extensions are kept, never run",
        Expr::Immediate(_)
        | Expr::Payload(_)
        | Expr::PayloadSet(_)
        | Expr::Meta(_)
        | Expr::MetaSet(_)
        | Expr::FlowOffload(_)
        | Expr::Cmp(_)
        | Expr::Range(_)
        | Expr::Bitwise(_)
        | Expr::Byteorder(_)
        | Expr::Lookup(_)
        | Expr::Counter(_)
        | Expr::Limit(_)
        | Expr::Quota(_)
        | Expr::Last(_)
        | Expr::Connlimit(_)
        | Expr::Objref(Objref::Named { .. } | Objref::Map { .. })
        | Expr::Log(_)
        | Expr::Exthdr(_)
        | Expr::ExthdrSet(_)
        | Expr::ExthdrReset(_)
        | Expr::Numgen(_)
        | Expr::Hash(_)
        | Expr::Fib(_)
        | Expr::Rt(_)
        | Expr::Ct(_)
        | Expr::CtSet(_)
        | Expr::Notrack
        | Expr::Nat(_)
        | Expr::Masq(_)
        | Expr::Redir(_)
        | Expr::Queue(_)
        | Expr::Tproxy(_)
        | Expr::Synproxy(_)
        | Expr::Socket(_)
        | Expr::Osf(_)
        | Expr::Xfrm(_)
        | Expr::Tunnel(_)
        | Expr::Reject(_)
        | Expr::Dup(_)
        | Expr::Fwd(_) => return Ok(()),
    };
    Err(Unsupported { expression: expr.name(), reason })
}

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
}

/// Why a rule could not be linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkReason {
    /// The path cannot run the expression.
    Unsupported(Unsupported),
    /// Registers, lengths or operands that no verified program has.
    Malformed(&'static str),
    /// A chain, set or object that is not there.
    Unknown {
        /// `chain`, `set`, `object` or `flowtable`.
        what: &'static str,
        /// Its name.
        name: Arc<str>,
    },
}

impl fmt::Display for LinkReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkReason::Unsupported(u) => u.fmt(f),
            LinkReason::Malformed(what) => f.write_str(what),
            LinkReason::Unknown { what, name } => write!(f, "no {what} {name}"),
        }
    }
}

/// Why a rule could not be linked, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkError {
    /// Number of the expression in the rule.
    pub expression: usize,
    /// Why.
    pub reason: LinkReason,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expression {}: {}", self.expression, self.reason)
    }
}

impl std::error::Error for LinkError {}

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

/// A stateful statement with its state; `None` for expressions that are none.
pub fn link_stateful(expr: &Expr, state: &Arc<State>) -> Result<Option<Stateful>, LinkReason> {
    let state = state.clone();
    Ok(Some(match expr {
        Expr::Counter(_) => Stateful::Counter(state),
        Expr::Quota(q) => Stateful::Quota { bytes: q.bytes, over: q.over, state },
        Expr::Limit(l) => {
            let bucket = Bucket::new(l).map_err(|bad| {
                LinkReason::Malformed(match bad {
                    BadLimit::ZeroRate => "the rate of a limit is zero",
                    BadLimit::Overflow => "rate and burst of a limit exceed 64 bits",
                })
            })?;
            Stateful::Limit { bucket, state }
        }
        Expr::Last(_) => Stateful::Last(state),
        Expr::Connlimit(c) => Stateful::Connlimit { limit: c.count, over: c.over, state },
        _ => return Ok(None),
    }))
}

/// Appends the operations of a rule to `ops`. `states` are those of its stateful expressions, in
/// order.
pub fn link_rule(
    exprs: &[Expr],
    states: &[Arc<State>],
    nfproto: u8,
    names: &dyn Names,
    ops: &mut Vec<Op>,
) -> Result<(), LinkError> {
    let mut states = states.iter();
    for (expression, expr) in exprs.iter().enumerate() {
        let at = |reason| LinkError { expression, reason };
        supported(expr).map_err(|u| at(LinkReason::Unsupported(u)))?;
        let state = if expr.is_stateful() { states.next() } else { None };
        ops.push(link_expr(expr, state, nfproto, names).map_err(at)?);
    }
    Ok(())
}

/// Slot of a register that `len` bytes are read from or written to.
fn slot(register: Register, len: u32) -> Result<u8, LinkReason> {
    match register.slot() {
        Some(slot) if len > 0 && slot * 4 + len as usize <= 64 => Ok(slot as u8),
        _ => Err(LinkReason::Malformed("a register is out of bounds")),
    }
}

/// Up to 16 bytes of a constant, padded with zeros.
fn constant(data: &Data) -> Result<([u8; 16], u8), LinkReason> {
    let bytes = data.bytes();
    let mut padded = [0; 16];
    match padded.get_mut(..bytes.len()) {
        Some(start) if !bytes.is_empty() => start.copy_from_slice(bytes),
        _ => return Err(LinkReason::Malformed("a constant has no byte or more than 16")),
    }
    Ok((padded, bytes.len() as u8))
}

/// The words of 16 bytes in memory order.
fn words(bytes: [u8; 16]) -> [u32; 4] {
    let (words, _) = bytes.as_chunks::<4>();
    let mut out = [0; 4];
    for (to, from) in out.iter_mut().zip(words) {
        *to = u32::from_ne_bytes(*from);
    }
    out
}

fn narrow<T: TryFrom<u32>>(value: u32) -> Result<T, LinkReason> {
    T::try_from(value).map_err(|_| LinkReason::Malformed("an offset or length is too large"))
}

fn link_inner(x: &Inner) -> Result<LinkedInner, LinkReason> {
    let load = match &*x.expr {
        Expr::Payload(p) => {
            let (dst, len, offset) = (slot(p.dreg, p.len)?, narrow(p.len)?, narrow(p.offset)?);
            InnerLoad::Payload { base: p.base, dst, len, offset }
        }
        Expr::Meta(Meta { key: MetaKey::Protocol, dreg }) => {
            InnerLoad::Protocol { dst: slot(*dreg, MetaKey::Protocol.width())? }
        }
        Expr::Meta(Meta { key: MetaKey::L4Proto, dreg }) => {
            InnerLoad::L4Proto { dst: slot(*dreg, MetaKey::L4Proto.width())? }
        }
        _ => return Err(LinkReason::Malformed("this is not loaded from inside of tunnels")),
    };
    Ok(LinkedInner { kind: x.kind, hdrsize: narrow(x.hdrsize)?, flags: x.flags, load })
}

fn link_expr(
    expr: &Expr,
    state: Option<&Arc<State>>,
    nfproto: u8,
    names: &dyn Names,
) -> Result<Op, LinkReason> {
    let addr_len = |v6: bool| if v6 { 16 } else { 4 };
    let no_state = LinkReason::Malformed("the state of an expression is missing");
    Ok(match expr {
        Expr::Immediate(x) => match &x.data {
            ImmediateData::Value(value) => {
                let (data, len) = constant(value)?;
                Op::Immediate { dst: slot(x.dreg, len.into())?, len, data }
            }
            ImmediateData::Verdict(verdict) => Op::Verdict(link_verdict(verdict, names)?),
        },
        Expr::Payload(x) => {
            let (dst, len, offset) = (slot(x.dreg, x.len)?, narrow(x.len)?, narrow(x.offset)?);
            match x.base {
                PayloadBase::Link => Op::LoadLink { dst, len, offset },
                PayloadBase::Network => Op::LoadNetwork { dst, len, offset },
                PayloadBase::Transport => Op::LoadTransport { dst, len, offset },
                PayloadBase::Inner => Op::LoadInner { dst, len, offset },
                PayloadBase::Tunnel => {
                    return Err(LinkReason::Malformed("a tunnel header outside of inner"));
                }
            }
        }
        Expr::Inner(x) => Op::InTunnel(link_inner(x)?),
        Expr::PayloadSet(x) => Op::PayloadSet {
            base: x.base,
            src: slot(x.sreg, x.len)?,
            len: narrow(x.len)?,
            offset: narrow(x.offset)?,
            csum_type: x.csum_type,
            csum_offset: narrow(x.csum_offset)?,
            pseudo: x.csum_flags & L4CSUM_PSEUDOHDR != 0,
        },
        Expr::Meta(x) => Op::Meta { key: x.key, dst: slot(x.dreg, x.key.width())? },
        Expr::MetaSet(x) => match x.key {
            MetaKey::Mark
            | MetaKey::Priority
            | MetaKey::SecMark
            | MetaKey::PktType
            | MetaKey::NfTrace
            | MetaKey::BriBroute => Op::MetaSet { key: x.key, src: slot(x.sreg, x.key.width())? },
            _ => return Err(LinkReason::Malformed("a meta key that cannot be set")),
        },
        Expr::Cmp(x) => {
            let (data, len) = constant(&x.data)?;
            let src = slot(x.sreg, len.into())?;
            if len <= 4 && matches!(x.op, CmpOp::Eq | CmpOp::Neq) {
                let mut mask = [0; 16];
                mask[..usize::from(len)].fill(0xff);
                Op::CmpWord {
                    src,
                    equal: x.op == CmpOp::Eq,
                    mask: words(mask)[0],
                    data: words(data)[0],
                }
            } else {
                Op::Cmp { op: x.op, src, len, data }
            }
        }
        Expr::Range(x) => {
            let ((from, len), (to, to_len)) = (constant(&x.from)?, constant(&x.to)?);
            if len != to_len {
                return Err(LinkReason::Malformed("the ends of a range differ in length"));
            }
            let inside = match x.op {
                CmpOp::Eq => true,
                CmpOp::Neq => false,
                _ => return Err(LinkReason::Malformed("a range is neither eq nor neq")),
            };
            Op::Range { inside, src: slot(x.sreg, len.into())?, len, ends: Box::new([from, to]) }
        }
        Expr::Bitwise(x) => {
            let (src, dst) = (slot(x.sreg, x.len)?, slot(x.dreg, x.len)?);
            let count = x.len.div_ceil(4) as u8;
            let shift = |bits: u32| {
                u8::try_from(bits)
                    .ok()
                    .filter(|b| *b < 32)
                    .ok_or(LinkReason::Malformed("a shift of 32 bits or more"))
            };
            match &x.op {
                BitwiseOp::MaskXor { mask, xor } => {
                    let ((mask, mask_len), (xor, xor_len)) = (constant(mask)?, constant(xor)?);
                    if u32::from(mask_len) != x.len || u32::from(xor_len) != x.len {
                        return Err(LinkReason::Malformed(
                            "mask or xor is not as long as the register",
                        ));
                    }
                    let (mask, xor) = (words(mask), words(xor));
                    if count == 1 {
                        Op::MaskXorWord { src, dst, mask: mask[0], xor: xor[0] }
                    } else {
                        Op::MaskXor { src, dst, words: count, mask_xor: Box::new([mask, xor]) }
                    }
                }
                BitwiseOp::Lshift(bits) => {
                    Op::Lshift { src, dst, words: count, bits: shift(*bits)? }
                }
                BitwiseOp::Rshift(bits) => {
                    Op::Rshift { src, dst, words: count, bits: shift(*bits)? }
                }
                BitwiseOp::Combine(op, sreg2) => {
                    Op::Combine { op: *op, src, other: slot(*sreg2, x.len)?, dst, words: count }
                }
            }
        }
        Expr::Byteorder(x) => {
            let size = match x.size {
                2 => 2,
                4 => 4,
                8 => 8,
                _ => return Err(LinkReason::Malformed("a number of other than 2, 4 or 8 bytes")),
            };
            Op::Byteorder {
                src: slot(x.sreg, x.len)?,
                dst: slot(x.dreg, x.len)?,
                len: narrow(x.len)?,
                size,
            }
        }
        Expr::Lookup(x) => {
            let set = names.set(&x.set)?;
            let load = match x.dreg {
                None => Load::Nothing,
                Some(Register::VERDICT) => Load::Verdict,
                Some(dreg) => {
                    let len =
                        set.value_len.ok_or(LinkReason::Malformed("the set holds no values"))?;
                    Load::Bytes { dst: slot(dreg, len)?, len: narrow(len)? }
                }
            };
            let (src, key_len) = (slot(x.sreg, set.key_len)?, narrow(set.key_len)?);
            match set.elements {
                LinkedElements::Fixed(set) => {
                    Op::Lookup { src, key_len, inverse: x.inverse, load, set }
                }
                LinkedElements::Dynamic { set, .. } => {
                    Op::LookupDynamic { src, key_len, inverse: x.inverse, load, set }
                }
            }
        }
        Expr::Dynset(x) => {
            let LinkedSet { elements, key_len, value_len } = names.set(&x.set)?;
            let LinkedElements::Dynamic { set, timeout, gc_interval } = elements else {
                let reason = "maps of verdicts and objects cannot be changed from the packet path";
                return Err(LinkReason::Unsupported(Unsupported {
                    expression: expr.name(),
                    reason,
                }));
            };
            let data = match (x.sreg_data, value_len) {
                (Some(sreg), Some(len)) => Some((slot(sreg, len)?, narrow(len)?)),
                (Some(_), None) => return Err(LinkReason::Malformed("the set holds no values")),
                (None, Some(_)) if x.op != DynsetOp::Delete => {
                    return Err(LinkReason::Malformed("an element of a map without a value"));
                }
                (None, _) => None,
            };
            let statements = if x.exprs.is_empty() {
                set.default_statements()
            } else {
                set.statements(&x.exprs)
            };
            Op::SetUpdate(Arc::new(SetUpdate {
                op: x.op,
                key: slot(x.sreg_key, key_len)?,
                key_len: narrow(key_len)?,
                data,
                timeout: if x.timeout != 0 { x.timeout } else { timeout },
                gc_interval,
                statements,
                set,
            }))
        }
        Expr::Objref(Objref::Map { sreg, set: name }) => {
            let LinkedSet { elements, key_len, .. } = names.set(name)?;
            let LinkedElements::Fixed(set) = elements else {
                return Err(LinkReason::Malformed("the map holds no objects"));
            };
            Op::ObjectMap { src: slot(*sreg, key_len)?, key_len: narrow(key_len)?, set }
        }
        Expr::Objref(Objref::Named { kind, name }) => match names.object(*kind, name) {
            Some(Stateful::Counter(state)) => Op::Counter(state.clone()),
            Some(object) => Op::Stateful(Arc::new(object.clone())),
            None => return Err(LinkReason::Unknown { what: "object", name: name.clone() }),
        },
        Expr::Counter(_) => Op::Counter(state.ok_or(no_state)?.clone()),
        Expr::Limit(_) | Expr::Quota(_) | Expr::Last(_) | Expr::Connlimit(_) => {
            let linked = link_stateful(expr, state.ok_or(no_state.clone())?)?;
            Op::Stateful(Arc::new(linked.ok_or(no_state)?))
        }
        Expr::Log(x) => Op::Log(Arc::new(x.clone())),
        Expr::Exthdr(x) => Op::Exthdr {
            op: x.op,
            kind: x.kind,
            offset: narrow(x.offset)?,
            len: narrow(x.len)?,
            present: x.present,
            dst: slot(x.dreg, x.len)?,
        },
        Expr::ExthdrSet(x) => {
            if x.op != ExthdrOp::TcpOpt || x.offset < 2 || !matches!(x.len, 2 | 4) {
                return Err(LinkReason::Malformed(
                    "only 2 or 4 bytes of a TCP option can be written",
                ));
            }
            let (offset, len) = (narrow(x.offset)?, narrow(x.len)?);
            Op::TcpOptionSet { kind: x.kind, offset, len, src: slot(x.sreg, x.len)? }
        }
        Expr::ExthdrReset(x) => match x.op {
            ExthdrOp::TcpOpt => Op::TcpOptionReset { kind: x.kind },
            _ => return Err(LinkReason::Malformed("only TCP options can be reset")),
        },
        Expr::Numgen(x) => {
            let (modulus, offset, dst) = (x.modulus, x.offset, slot(x.dreg, 4)?);
            if modulus == 0 {
                return Err(LinkReason::Malformed("the modulus is zero"));
            }
            match x.mode {
                NumgenMode::Inc => {
                    Op::NumgenInc { modulus, offset, dst, state: state.ok_or(no_state)?.clone() }
                }
                NumgenMode::Random => Op::NumgenRandom { modulus, offset, dst },
            }
        }
        Expr::Hash(Hash::Jenkins { sreg, len, seed, modulus, offset, dreg }) => {
            let seed = match (seed, state.map(|s| &**s)) {
                (Some(seed), _) => *seed,
                (None, Some(State::HashSeed(seed))) => *seed,
                (None, _) => return Err(no_state),
            };
            let (src, dst, len) = (slot(*sreg, *len)?, slot(*dreg, 4)?, narrow(*len)?);
            Op::Jhash { src, len, dst, seed, modulus: *modulus, offset: *offset }
        }
        Expr::Hash(Hash::Sym { modulus, offset, dreg }) => {
            Op::Symhash { dst: slot(*dreg, 4)?, modulus: *modulus, offset: *offset }
        }
        Expr::Fib(x) => {
            Op::Fib { result: x.result, flags: narrow(x.flags)?, dst: slot(x.dreg, x.width())? }
        }
        Expr::Rt(x) => Op::Rt { key: x.key, dst: slot(x.dreg, x.key.width())? },
        Expr::Reject(x) => Op::Reject(x.clone()),
        Expr::Dup(x) => {
            let v6 = nfproto == NFPROTO_IPV6;
            let addr = x.addr.map(|reg| slot(reg, addr_len(v6))).transpose()?;
            Op::Dup { addr, v6, dev: x.dev.map(|reg| slot(reg, 4)).transpose()? }
        }
        Expr::Fwd(x) => {
            let v6 = x.nfproto == NFPROTO_IPV6;
            let addr = x.addr.map(|reg| slot(reg, addr_len(v6))).transpose()?;
            Op::Fwd { dev: slot(x.dev, 4)?, addr, v6 }
        }
        Expr::Ct(x) => {
            let dst = slot(x.dreg, x.key.width(nfproto))?;
            match x.key {
                CtKey::State => Op::CtState { dst },
                key => Op::Ct { key, dir: x.dir, dst },
            }
        }
        Expr::CtSet(x) => {
            let len = x.key.width(nfproto);
            let src = slot(x.sreg, len)?;
            match x.key {
                CtKey::Zone => Op::CtSetZone { dir: x.dir, src },
                CtKey::Mark | CtKey::SecMark | CtKey::Labels | CtKey::EventMask => {
                    Op::CtSet { key: x.key, src, len: len as u8 }
                }
                _ => return Err(LinkReason::Malformed("a ct key that cannot be set")),
            }
        }
        Expr::Notrack => Op::Notrack,
        Expr::Nat(x) => {
            let kind = match x.kind {
                NatType::Snat => NatKind::Source,
                NatType::Dnat => NatKind::Destination,
            };
            let len = addr_len(x.family != NFPROTO_IPV4);
            let addr = slots(x.addr_min, x.addr_max, len)?;
            let mut nat = link_nat(kind, x.proto_min, x.proto_max, x.flags)?;
            if addr.is_some() {
                nat.flags |= NAT_MAP_IPS;
            }
            Op::Nat(LinkedNat { family: x.family, addr, ..nat })
        }
        Expr::Masq(x) => Op::Nat(link_nat(NatKind::Masquerade, x.proto_min, x.proto_max, x.flags)?),
        Expr::Redir(x) => Op::Nat(link_nat(NatKind::Redirect, x.proto_min, x.proto_max, x.flags)?),
        Expr::Queue(x) => {
            let sreg = x.sreg.map(|sreg| slot(sreg, 4)).transpose()?;
            if sreg.is_none() && (x.total == 0 || x.num.checked_add(x.total - 1).is_none()) {
                return Err(LinkReason::Malformed("queues have numbers from 0 to 65535"));
            }
            let (num, total, bypass, fanout) = (x.num, x.total, x.bypass, x.fanout);
            Op::Queue(LinkedQueue { num, total, sreg, bypass, fanout })
        }
        Expr::Synproxy(x) => Op::Synproxy(*x),
        Expr::Tproxy(x) => {
            let len = addr_len(x.family != NFPROTO_IPV4);
            let addr = x.addr.map(|reg| slot(reg, len)).transpose()?;
            Op::Tproxy { family: x.family, addr, port: x.port.map(|reg| slot(reg, 2)).transpose()? }
        }
        Expr::Socket(x) => {
            let len = match x.key {
                SocketKey::Transparent | SocketKey::Wildcard => 1,
                SocketKey::Mark => 4,
                SocketKey::Cgroupv2 => 8,
            };
            Op::Socket { key: x.key, level: x.level, dst: slot(x.dreg, len)? }
        }
        Expr::Osf(x) => Op::Osf { ttl: x.ttl, version: x.version, dst: slot(x.dreg, 16)? },
        Expr::Xfrm(x) => {
            let len = match x.key {
                XfrmKey::DaddrIp6 | XfrmKey::SaddrIp6 => 16,
                XfrmKey::DaddrIp4 | XfrmKey::SaddrIp4 | XfrmKey::Reqid | XfrmKey::Spi => 4,
            };
            Op::Xfrm { key: x.key, out: x.out, spnum: x.spnum, dst: slot(x.dreg, len)? }
        }
        Expr::Tunnel(x) => {
            let len = match x.key {
                TunnelKey::Path => 1,
                TunnelKey::Id => 4,
            };
            Op::Tunnel { key: x.key, dst: slot(x.dreg, len)? }
        }
        Expr::FlowOffload(x) => {
            let known = names.flowtable(&x.flowtable);
            Op::FlowOffload(known.ok_or_else(|| LinkReason::Unknown {
                what: "flowtable",
                name: x.flowtable.clone(),
            })?)
        }
        // `supported` refuses it first.
        Expr::Xt(_) => {
            return Err(LinkReason::Unsupported(Unsupported {
                expression: expr.name(),
                reason: "not linked",
            }));
        }
    })
}

/// `NF_NAT_RANGE_MAP_IPS`.
const NAT_MAP_IPS: u32 = 1 << 0;
/// `NF_NAT_RANGE_PROTO_SPECIFIED`.
const NAT_PROTO_SPECIFIED: u32 = 1 << 1;

/// Slots of both ends of a range; one register alone is both.
fn slots(
    min: Option<Register>,
    max: Option<Register>,
    len: u32,
) -> Result<Option<(u8, u8)>, LinkReason> {
    let Some(min) = min else { return Ok(None) };
    Ok(Some((slot(min, len)?, slot(max.unwrap_or(min), len)?)))
}

/// A translation without addresses.
fn link_nat(
    kind: NatKind,
    min: Option<Register>,
    max: Option<Register>,
    mut flags: u32,
) -> Result<LinkedNat, LinkReason> {
    const INET: u8 = 1;
    let port = slots(min, max, 2)?;
    if port.is_some() {
        flags |= NAT_PROTO_SPECIFIED;
    }
    Ok(LinkedNat { kind, family: INET, addr: None, port, flags })
}
