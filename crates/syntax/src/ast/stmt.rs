// SPDX-License-Identifier: Apache-2.0

//! Statements (nft's `struct stmt`).

use penstock_program::Family;
use std::sync::Arc;

use penstock_program::expr::{
    CtDir, CtKey, DynsetOp, LimitType, MetaKey, NatType, ObjectType, RejectType,
};

use super::expr::ExprKind;
use super::key::Key;
use crate::ast::{Expr, RuleBlock, Stmt};

/// The kinds of statement.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum StmtKind {
    /// A match: a relational expression.
    Match(Expr),
    /// A verdict, or a verdict map lookup.
    Verdict(Expr),
    Counter {
        packets: u64,
        bytes: u64,
    },
    Limit(Limit),
    Quota {
        bytes: u64,
        used: u64,
        over: bool,
    },
    Last {
        set: bool,
        msecs: u64,
    },
    CtCount {
        count: u32,
        over: bool,
    },
    /// `counter name …`, `quota name …`, `limit name …`, `ct helper set …`, `synproxy name …`,
    /// `meta secmark set …`.
    ObjRef {
        kind: ObjectType,
        expr: Expr,
    },
    Log(Log),
    Reject(Reject),
    Nat(Nat),
    Tproxy {
        family: Option<Family>,
        addr: Option<Expr>,
        port: Option<Expr>,
    },
    Synproxy {
        mss: u16,
        wscale: u8,
        flags: u32,
    },
    /// Legacy and new syntax; `expr` is a number, range, or computed.
    Queue {
        expr: Option<Expr>,
        bypass: bool,
        fanout: bool,
    },
    Notrack,
    Dup {
        to: Option<Expr>,
        dev: Option<Expr>,
    },
    Fwd {
        dev: Expr,
        addr: Option<Expr>,
        /// Of the address: IPv4 or IPv6.
        family: Option<Family>,
    },
    MetaSet {
        key: MetaKey,
        expr: Expr,
    },
    CtSet {
        key: CtKey,
        dir: Option<CtDir>,
        expr: Expr,
    },
    /// Target, value.
    PayloadSet {
        target: Expr,
        value: Expr,
    },
    ExthdrSet {
        target: Expr,
        value: Expr,
    },
    /// `reset tcp option`.
    ExthdrReset {
        target: Expr,
    },
    /// `add @s { key … }` and kin.
    SetUpdate {
        op: DynsetOp,
        set: Expr,
        key: Expr,
        stmts: Vec<Stmt>,
    },
    MapUpdate {
        op: DynsetOp,
        map: Expr,
        key: Expr,
        data: Expr,
        stmts: Vec<Stmt>,
    },
    Meter {
        name: Arc<str>,
        size: u32,
        key: Expr,
        stmt: Box<Stmt>,
    },
    FlowOffload {
        table: Arc<str>,
    },
    /// `jump { … }`, `goto { … }`: an implicit chain.
    Chain {
        goto: bool,
        block: RuleBlock,
    },
    Xt {
        target: bool,
        name: Arc<str>,
        rev: u32,
        info: Arc<[u8]>,
    },
}

/// A word that statements begin with.
#[derive(Clone, Copy, Debug)]
pub struct Keyword {
    /// The word.
    pub word: &'static str,
    /// nft 1.0.6 reserves it everywhere; others can be names too.
    pub reserved: bool,
    /// Words that are keywords after it until the statement is complete, beyond the reserved ones
    /// (the start conditions of nft's scanner).
    pub after: &'static [&'static str],
}

const fn word(word: &'static str, after: &'static [&'static str]) -> Keyword {
    Keyword { word, reserved: true, after }
}

const OF_NAT: &[&str] = &["to", "fully-random", "persistent", "port", "addr", "prefix"];

/// All of them.
pub static KEYWORDS: [Keyword; 20] = [
    word("queue", &["num", "bypass", "fanout", "to"]),
    word("reject", &["with", "icmpx"]),
    word("counter", &["packets", "bytes", "name"]),
    word(
        "limit",
        &["rate", "burst", "over", "packets", "bytes", "name", "second", "minute", "week"],
    ),
    word("quota", &["over", "until", "used", "bytes", "name"]),
    word("log", &["prefix", "group", "snaplen", "queue-threshold", "level"]),
    Keyword { reserved: false, ..word("last", &[]) },
    word("masquerade", OF_NAT),
    word("redirect", OF_NAT),
    word("snat", OF_NAT),
    word("dnat", OF_NAT),
    word("tproxy", &["to"]),
    word("synproxy", &["mss", "wscale", "timestamp", "sack-perm", "sack-permitted", "name"]),
    word("notrack", &[]),
    word("dup", &["to"]),
    word("fwd", &["to"]),
    word("flow", &[]),
    word("meter", &[]),
    Keyword { reserved: false, ..word("bpf", &["bytecode", "filter"]) },
    word("xt", &[]),
];

/// The keyword that is written so.
pub fn keyword(word: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|keyword| keyword.word == word)
}

/// What a statement does to packets, for those who reason about rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Only some packets pass, as the match says.
    Match,
    /// Ends the rule or sends the packet to another chain, as the verdict says.
    Verdict,
    /// Counts or reports packets. All of them pass.
    Notes,
    /// Some packets pass, depending on those before.
    Limits,
    /// Ends the rule for every packet.
    Ends,
    /// Changes the packet, its connection or its way, or passes only some: anything else.
    Changes,
}

/// A rate limit.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Limit {
    pub rate: u64,
    /// Seconds.
    pub unit: u64,
    pub kind: LimitType,
    pub burst: u32,
    pub over: bool,
}

/// Bytes of a log prefix with its terminating zero (`NF_LOG_PREFIXLEN`).
pub const LOG_PREFIX_LENGTH: usize = 128;

/// A log statement; what was not written is `None`.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub struct Log {
    /// String, variable or list of them.
    pub prefix: Option<Expr>,
    pub group: Option<u16>,
    pub snaplen: Option<u32>,
    pub queue_threshold: Option<u16>,
    /// Syslog level; 8 is audit.
    pub level: Option<u32>,
    /// `NF_LOG_*` bits.
    pub flags: u32,
}

/// Which kind of reject.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Reject {
    /// `None` until evaluation chose the default for the family.
    pub kind: Option<RejectType>,
    /// IPv4 or IPv6, as written with `icmp` or `icmpv6`, or found.
    pub family: Option<Family>,
    /// The code as written.
    pub expr: Option<Expr>,
    pub code: u8,
}

/// Which NAT statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum NatKind {
    Nat(NatType),
    Masquerade,
    Redirect,
}

/// A NAT statement.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Nat {
    pub kind: NatKind,
    /// IPv4 or IPv6, as written (`snat ip to …`) or found; that of the table if only ports are
    /// translated.
    pub family: Option<Family>,
    pub addr: Option<Expr>,
    pub port: Option<Expr>,
    /// `NF_NAT_RANGE_*`.
    pub flags: u32,
    /// `interval` (deprecated) and concatenated map forms.
    pub interval: bool,
    pub concat: bool,
    /// `prefix to …` (netmap).
    pub prefix: bool,
}

/// The operands of a statement kind, by the method that borrows an `Option`'s value.
macro_rules! operands {
    ($kind:expr, $iter:ident) => {
        match $kind {
            StmtKind::Match(expr)
            | StmtKind::Verdict(expr)
            | StmtKind::ObjRef { expr, .. }
            | StmtKind::MetaSet { expr, .. }
            | StmtKind::CtSet { expr, .. }
            | StmtKind::ExthdrReset { target: expr }
            | StmtKind::Meter { key: expr, .. } => vec![expr],
            StmtKind::PayloadSet { target: first, value: second }
            | StmtKind::ExthdrSet { target: first, value: second }
            | StmtKind::SetUpdate { set: first, key: second, .. } => vec![first, second],
            StmtKind::MapUpdate { map, key, data, .. } => vec![map, key, data],
            StmtKind::Log(log) => log.prefix.$iter().collect(),
            StmtKind::Reject(reject) => reject.expr.$iter().collect(),
            StmtKind::Queue { expr, .. } => expr.$iter().collect(),
            StmtKind::Nat(Nat { addr: first, port: second, .. })
            | StmtKind::Tproxy { addr: first, port: second, .. }
            | StmtKind::Dup { to: first, dev: second } => first.$iter().chain(second).collect(),
            StmtKind::Fwd { dev, addr, .. } => addr.$iter().chain([dev]).collect(),
            StmtKind::Counter { .. }
            | StmtKind::Limit(_)
            | StmtKind::Quota { .. }
            | StmtKind::Last { .. }
            | StmtKind::CtCount { .. }
            | StmtKind::Synproxy { .. }
            | StmtKind::Notrack
            | StmtKind::FlowOffload { .. }
            | StmtKind::Chain { .. }
            | StmtKind::Xt { .. } => Vec::new(),
        }
    };
}

impl StmtKind {
    /// The statement that sets `target`; `None` if nothing can.
    pub fn assign(target: Expr, value: Expr) -> Option<StmtKind> {
        Some(match target.kind {
            // Bytes of a packet's mark are written, objects are attached.
            ExprKind::Key(Key::Meta { key: MetaKey::SecMark })
                if !matches!(value.kind, ExprKind::Key(Key::Ct { .. })) =>
            {
                StmtKind::ObjRef { kind: ObjectType::SecMark, expr: value }
            }
            ExprKind::Key(Key::Meta { key }) => StmtKind::MetaSet { key, expr: value },
            ExprKind::Key(Key::Ct { key: CtKey::Helper, .. }) => {
                StmtKind::ObjRef { kind: ObjectType::CtHelper, expr: value }
            }
            ExprKind::Key(Key::Ct { key, dir, .. }) => StmtKind::CtSet { key, dir, expr: value },
            ExprKind::Payload(_) => StmtKind::PayloadSet { target, value },
            ExprKind::Exthdr(_) => StmtKind::ExthdrSet { target, value },
            ExprKind::Key(_)
            | ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::Concat(_)
            | ExprKind::List(_)
            | ExprKind::Set { .. }
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Mapping { .. }
            | ExprKind::Map { .. }
            | ExprKind::SetRef { .. }
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binop { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => return None,
        })
    }

    /// nft's word for a statement that elements of sets can carry.
    pub fn stateful_name(&self) -> Option<&'static str> {
        match self {
            StmtKind::Counter { .. } => Some("counter"),
            StmtKind::Limit(_) => Some("limit"),
            StmtKind::Quota { .. } => Some("quota"),
            StmtKind::Last { .. } => Some("last"),
            StmtKind::CtCount { .. } => Some("connlimit"),
            StmtKind::Match(_)
            | StmtKind::Verdict(_)
            | StmtKind::ObjRef { .. }
            | StmtKind::Log(_)
            | StmtKind::Reject(_)
            | StmtKind::Nat(_)
            | StmtKind::Tproxy { .. }
            | StmtKind::Synproxy { .. }
            | StmtKind::Queue { .. }
            | StmtKind::Notrack
            | StmtKind::Dup { .. }
            | StmtKind::Fwd { .. }
            | StmtKind::MetaSet { .. }
            | StmtKind::CtSet { .. }
            | StmtKind::PayloadSet { .. }
            | StmtKind::ExthdrSet { .. }
            | StmtKind::ExthdrReset { .. }
            | StmtKind::SetUpdate { .. }
            | StmtKind::MapUpdate { .. }
            | StmtKind::Meter { .. }
            | StmtKind::FlowOffload { .. }
            | StmtKind::Chain { .. }
            | StmtKind::Xt { .. } => None,
        }
    }

    /// What it does to a packet.
    pub fn effect(&self) -> Effect {
        match self {
            StmtKind::Match(_) => Effect::Match,
            StmtKind::Verdict(_) => Effect::Verdict,
            StmtKind::Counter { .. } | StmtKind::Last { .. } | StmtKind::Log(_) => Effect::Notes,
            StmtKind::Limit(_) | StmtKind::Quota { .. } | StmtKind::CtCount { .. } => {
                Effect::Limits
            }
            StmtKind::ObjRef { kind, .. } => match kind {
                ObjectType::Counter => Effect::Notes,
                ObjectType::Quota | ObjectType::Limit | ObjectType::Connlimit => Effect::Limits,
                ObjectType::CtHelper
                | ObjectType::Tunnel
                | ObjectType::CtTimeout
                | ObjectType::SecMark
                | ObjectType::CtExpect
                | ObjectType::Synproxy => Effect::Changes,
            },
            StmtKind::Reject(_) | StmtKind::Nat(_) | StmtKind::Queue { .. } => Effect::Ends,
            StmtKind::Tproxy { .. }
            | StmtKind::Synproxy { .. }
            | StmtKind::Notrack
            | StmtKind::Dup { .. }
            | StmtKind::Fwd { .. }
            | StmtKind::MetaSet { .. }
            | StmtKind::CtSet { .. }
            | StmtKind::PayloadSet { .. }
            | StmtKind::ExthdrSet { .. }
            | StmtKind::ExthdrReset { .. }
            | StmtKind::SetUpdate { .. }
            | StmtKind::MapUpdate { .. }
            | StmtKind::Meter { .. }
            | StmtKind::FlowOffload { .. }
            | StmtKind::Chain { .. }
            | StmtKind::Xt { .. } => Effect::Changes,
        }
    }

    /// The expressions of the statement, without those of statements nested in it.
    pub fn operands(&self) -> Vec<&Expr> {
        operands!(self, iter)
    }

    /// The expressions of [`Self::operands`], mutable.
    pub fn operands_mut(&mut self) -> Vec<&mut Expr> {
        operands!(self, iter_mut)
    }

    /// The statements in it, but for those of rules.
    pub fn inner(&self) -> &[Stmt] {
        if let StmtKind::SetUpdate { stmts, .. } | StmtKind::MapUpdate { stmts, .. } = self {
            stmts
        } else if let StmtKind::Meter { stmt, .. } = self {
            std::slice::from_ref(stmt)
        } else {
            &[]
        }
    }
}
