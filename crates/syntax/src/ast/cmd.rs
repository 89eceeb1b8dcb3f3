// SPDX-License-Identifier: Apache-2.0

//! Commands (nft's `struct cmd`).

use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_ruleset::model::{ChainType, Family, Hook};

use crate::ast::RuleBlock;
use crate::ast::{Expr, Stmt};
use crate::source::Loc;

/// A name where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The name.
    pub text: Arc<str>,
    /// Where.
    pub loc: Loc,
}

/// A handle where it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handle {
    /// The number.
    pub value: u64,
    /// Where.
    pub loc: Loc,
}

/// What a command speaks of: family, table, and an object in it, by name or handle.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub struct Target {
    /// `None` for all families (`list ruleset`); `ip` where nothing was written and one is needed.
    pub family: Option<Family>,
    pub table: Option<Name>,
    pub chain: Option<Name>,
    /// Set, map, object or flowtable.
    pub name: Option<Name>,
    pub handle: Option<Handle>,
    /// `index N`, `position`/`handle N` of a rule: where to put it.
    pub index: Option<Handle>,
    pub position: Option<Handle>,
}

/// Kinds of object in listings and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ObjKind {
    Ruleset,
    Tables,
    Table,
    Chains,
    Chain,
    Rules,
    Rule,
    Sets,
    Set,
    Maps,
    Map,
    Meters,
    Meter,
    Elements,
    Flowtables,
    Flowtable,
    Hooks,
    /// Stateful objects: all of a type, or one.
    Objects(ObjectType),
    Object(ObjectType),
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub struct Cmd {
    /// What to do.
    pub kind: CmdKind,
    /// What with.
    pub target: Target,
    /// All of it.
    pub loc: Loc,
}

impl Cmd {
    /// `flush ruleset`, in front of all that an input says.
    pub fn flush_ruleset(input: u32) -> Self {
        let (kind, loc) = (CmdKind::Flush(ObjKind::Ruleset), Loc { input, start: 0, end: 0 });
        Cmd { kind, target: Target::default(), loc }
    }
}

/// What `add` and its kin make.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum New {
    Table(TableBlock),
    Chain(ChainBlock),
    Rule(RuleBlock),
    Set(SetBlock),
    /// Elements: a [`Set`](crate::ast::ExprKind::Set) expression or a variable.
    Elements(Expr),
    Object(ObjectBlock),
    Flowtable(FlowtableBlock),
}

/// The kinds of command.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum CmdKind {
    Add(New),
    Create(New),
    /// Rules only.
    Insert(New),
    /// Rules only.
    Replace(New),
    /// `elements` for elements; `devices` for `delete chain … { … devices = … }` and flowtables.
    Delete {
        object: ObjKind,
        elements: Option<Expr>,
        devices: Option<Expr>,
        destroy: bool,
    },
    Get {
        elements: Expr,
        map: bool,
    },
    List {
        object: ObjKind,
        device: Option<Arc<str>>,
    },
    Reset {
        object: ObjKind,
        elements: Option<Expr>,
    },
    Flush(ObjKind),
    Rename {
        to: Name,
    },
    Describe(Expr),
    /// `event` is `new`, `destroy` or nothing; `object` nothing for all; `trace`.
    Monitor {
        event: Option<Name>,
        object: Option<Name>,
    },
    Import(Markup),
    Export(Markup),
}

/// In which form a ruleset was once imported and exported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Markup {
    /// XML.
    Xml,
    /// JSON, of the virtual machine's expressions.
    Json,
}

/// What stands in a table's braces.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub struct TableBlock {
    /// `NFT_TABLE_F_*`.
    pub flags: u32,
    pub comment: Option<Arc<str>>,
    pub chains: Vec<(Name, ChainBlock)>,
    pub sets: Vec<(Name, SetBlock)>,
    pub objects: Vec<(Name, ObjectBlock)>,
    pub flowtables: Vec<(Name, FlowtableBlock)>,
}

/// A priority: a number, or a name with an offset.
#[derive(Clone, Debug, PartialEq)]
pub struct PrioritySpec {
    /// What stands before the offset: a symbol (`filter`), or what a variable stands for. A number
    /// is the value 0 with the number as offset.
    pub expr: Expr,
    /// Added to it.
    pub offset: i32,
    /// Where.
    pub loc: Loc,
}

/// `type … hook … device … priority …;`
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct HookSpec {
    pub kind: ChainType,
    pub type_loc: Loc,
    pub hook: Hook,
    pub hook_loc: Loc,
    pub priority: PrioritySpec,
    /// Names, a set of names, or variables.
    pub devices: Option<Expr>,
    pub loc: Loc,
}

/// A BPF program that packets meet in place of a chain's rules.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainProgramSpec {
    /// The name of the object's file.
    pub object: Arc<str>,
    /// Its section, or the name of its function.
    pub section: Option<Arc<str>>,
    /// The object; empty as long as the file was not read.
    pub bytes: Arc<[u8]>,
    /// Where.
    pub loc: Loc,
}

/// What stands in a chain's braces.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub struct ChainBlock {
    pub hook: Option<HookSpec>,
    /// Accept or drop verdict, or a variable.
    pub policy: Option<Expr>,
    /// `flags offload`
    pub offload: bool,
    /// `bpf object "FILE" section "NAME"`
    pub program: Option<ChainProgramSpec>,
    pub comment: Option<Arc<str>>,
    pub rules: Vec<RuleBlock>,
    /// `devices = …` outside of a hook line.
    pub devices: Option<Expr>,
}

/// What stands in a set's or map's braces.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub struct SetBlock {
    /// Declared with `map`.
    pub map: bool,
    /// `type a . b`: an expression of symbols; or `typeof` expressions.
    pub key: Option<Expr>,
    pub key_typeof: bool,
    pub data: Option<SetData>,
    pub flags: crate::ast::expr::SetExprFlags,
    pub flags_written: bool,
    pub timeout: Option<u64>,
    pub gc_interval: Option<u32>,
    pub size: Option<u32>,
    pub policy_memory: Option<bool>,
    pub auto_merge: bool,
    pub comment: Option<Arc<str>>,
    pub stmts: Vec<Stmt>,
    pub elements: Option<Expr>,
    pub loc: Loc,
}

/// What a map maps to.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum SetData {
    /// `: type` (verdict included), `interval` for `: interval type`.
    Expr {
        expr: Expr,
        interval: bool,
    },
    Object(ObjectType),
}

/// A stateful object.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct ObjectBlock {
    pub kind: ObjectType,
    pub value: ObjectSpec,
    pub comment: Option<Arc<str>>,
    pub loc: Loc,
}

/// Configuration of an object as written.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ObjectSpec {
    Counter { packets: u64, bytes: u64 },
    Quota { bytes: u64, used: u64, over: bool },
    Limit(crate::ast::stmt::Limit),
    CtHelper { helper: Arc<str>, l4proto: u8, l3proto: Option<Family> },
    CtTimeout { l4proto: u8, l3proto: Option<Family>, policy: Vec<(Name, u32)> },
    CtExpect { l4proto: u8, l3proto: Option<Family>, dport: u16, timeout: u32, size: u8 },
    Synproxy { mss: u16, wscale: u8, flags: u32 },
    SecMark(Arc<str>),
    Tunnel(Box<TunnelSpec>),
}

/// Configuration of a tunnel object as written; addresses with whether they are of IPv6.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TunnelSpec {
    pub id: u32,
    pub source: Option<(bool, Expr)>,
    pub destination: Option<(bool, Expr)>,
    pub sport: u16,
    pub dport: u16,
    pub tos: u8,
    pub ttl: u8,
    pub options: TunnelSpecOptions,
}

impl Default for TunnelSpec {
    fn default() -> Self {
        TunnelSpec {
            id: 0,
            source: None,
            destination: None,
            sport: 0,
            dport: 0,
            tos: 0,
            ttl: penstock_ruleset::tunnel::TTL,
            options: TunnelSpecOptions::None,
        }
    }
}

/// What a kind of tunnel has besides, as written.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum TunnelSpecOptions {
    None,
    Erspan { version: u32, index: u32, egress: bool, hwid: u8 },
    Vxlan { gbp: u32 },
    Geneve(Vec<penstock_ruleset::tunnel::GeneveOption>),
}

/// What stands in a flowtable's braces.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub struct FlowtableBlock {
    pub hook: Option<Hook>,
    /// `early_ingress`, with the hook ingress.
    pub early: bool,
    pub priority: Option<PrioritySpec>,
    pub devices: Option<Expr>,
    /// 1 offload, 2 counter.
    pub flags: u32,
}
