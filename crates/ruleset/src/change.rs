// SPDX-License-Identifier: Apache-2.0

//! Changes: what one netlink message of a batch asks for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use penstock_program::expr::{Counter, Expr, ObjectType};
use penstock_sets::{Description, Element, ElementList};

use crate::globals::GlobalChange;
use crate::model::*;

/// How to treat what is there or not there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// `add`: what is there already is fine (or updated, where the kernel updates).
    Add,
    /// `create` (`NLM_F_EXCL`).
    Create,
}

/// Where a rule goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Position {
    /// At the end (`add`), or after the rule with this handle.
    After(Option<u64>),
    /// At the beginning (`insert`), or before the rule with this handle.
    Before(Option<u64>),
    /// In place of the rule with this handle.
    Replace(u64),
}

/// A name or a handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Key {
    /// By name.
    Name(Arc<str>),
    /// By handle.
    Handle(u64),
}

/// One change. `destroy` says that the thing itself may be missing (`NFT_MSG_DESTROY*`); its table, and
/// the set of elements, may not.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Change {
    AddTable {
        family: Family,
        name: Arc<str>,
        mode: Mode,
        flags: u32,
        userdata: UserData,
    },
    /// `family` `None` and `key` `None`: all (flush ruleset).
    DeleteTable {
        family: Option<Family>,
        key: Option<Key>,
        destroy: bool,
    },
    AddChain {
        family: Family,
        table: Arc<str>,
        mode: Mode,
        chain: NewChain,
    },
    RenameChain {
        family: Family,
        table: Arc<str>,
        handle: u64,
        name: Arc<str>,
    },
    DeleteChain {
        family: Family,
        table: Arc<str>,
        key: Key,
        devices: Vec<Arc<str>>,
        destroy: bool,
    },
    AddRule {
        family: Family,
        table: Arc<str>,
        chain: Arc<str>,
        position: Position,
        rule: NewRule,
    },
    /// All rules of the chain, or of the table, where the handle or the chain is absent.
    DeleteRule {
        family: Family,
        table: Arc<str>,
        chain: Option<Arc<str>>,
        handle: Option<u64>,
        destroy: bool,
    },
    AddSet {
        family: Family,
        table: Arc<str>,
        mode: Mode,
        set: NewSet,
    },
    DeleteSet {
        family: Family,
        table: Arc<str>,
        key: Key,
        destroy: bool,
    },
    /// `expires_at` of an element is when it shall expire, on the clock of
    /// [`Ruleset::begin_at`](crate::Ruleset::begin_at); `None` for what the timeouts say.
    AddElements {
        family: Family,
        table: Arc<str>,
        set: Arc<str>,
        mode: Mode,
        elements: ElementList<ElementValue>,
    },
    /// No elements: all of them (flush).
    DeleteElements {
        family: Family,
        table: Arc<str>,
        set: Arc<str>,
        elements: Option<Vec<Element<ElementValue>>>,
        destroy: bool,
    },
    AddObject {
        family: Family,
        table: Arc<str>,
        mode: Mode,
        name: Arc<str>,
        value: ObjectValue,
        userdata: UserData,
    },
    DeleteObject {
        family: Family,
        table: Arc<str>,
        kind: ObjectType,
        key: Key,
        destroy: bool,
    },
    AddFlowtable {
        family: Family,
        table: Arc<str>,
        mode: Mode,
        flowtable: NewFlowtable,
    },
    DeleteFlowtable {
        family: Family,
        table: Arc<str>,
        key: Key,
        devices: Vec<Arc<str>>,
        destroy: bool,
    },
    /// Objects that are in no table.
    Global(GlobalChange),
    /// The changes after it come from the netlink socket with this port id. A batch begins with
    /// 0, which may change the tables of all owners, and makes none that have one.
    Sender {
        port: u32,
    },
    /// The socket with this port id is closed: the tables that it owns go, and those that have
    /// `persist` stay without an owner (`nft_rcv_nl_event()`).
    Closed {
        port: u32,
    },
    /// A set of intervals gets, or loses, an end at its first key, which says nothing but that no
    /// interval is before the first one.
    Gap {
        family: Family,
        table: Arc<str>,
        set: Arc<str>,
        there: bool,
    },
}

/// A chain to be made or changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewChain {
    /// For a chain bound to a rule: a name that is unique in the batch, by which other changes
    /// refer to the chain; the ruleset gives it its final name.
    pub name: Arc<str>,
    /// Hook; `None` for regular chains, and for changes that leave it alone.
    pub base: Option<NewBase>,
    /// `Some(true)` accept; `None` the default or unchanged.
    pub policy_accept: Option<bool>,
    /// Packets that the policy of a base chain decides on are counted, from these values on; `None`
    /// not, or as before.
    pub counter: Option<Counter>,
    /// Bound to the next rule that jumps to it (`NFT_CHAIN_BINDING`).
    pub anonymous: bool,
    /// Devices are to run it themselves; a chain that is there stays as it is without.
    pub offload: bool,
    /// A BPF program that packets meet in place of its rules; a chain that is there stays as it is
    /// without.
    pub program: Option<ChainProgram>,
    /// The language's.
    pub userdata: UserData,
}

/// Hook of a chain to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewBase {
    /// Chain type.
    pub kind: ChainType,
    /// Hook.
    pub hook: Hook,
    /// Priority.
    pub priority: i32,
    /// Devices.
    pub devices: Vec<Arc<str>>,
}

/// A rule to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewRule {
    /// Its program. Anonymous sets are named as [`NewSet::name`] of an earlier change in the batch.
    pub exprs: Vec<Expr>,
    /// The language's.
    pub userdata: UserData,
    /// See [`Rule`].
    pub origin: Option<RuleOrigin>,
}

/// A set to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewSet {
    /// For anonymous sets a name such as `__set%d` with `id` to tell them apart within the batch;
    /// expressions then say `__set%d#ID` and get the final name when the set is made.
    pub name: Arc<str>,
    /// Batch-wide number of an anonymous set.
    pub id: u32,
    /// See [`Set`].
    pub anonymous: bool,
    /// See [`Set`].
    pub key_type: u32,
    /// See [`Set`].
    pub data_type: u32,
    /// See [`Set`].
    pub data: Option<MapData>,
    /// See [`Set`].
    pub description: Description,
    /// See [`Set`].
    pub timeout: u64,
    /// See [`Set`].
    pub gc_interval: u32,
    /// See [`Set`].
    pub exprs: Vec<Expr>,
    /// The language's.
    pub userdata: UserData,
}

/// A flowtable to be made or extended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewFlowtable {
    /// Name.
    pub name: Arc<str>,
    /// Hook and priority; `None` leaves them as they are.
    pub hook: Option<(Hook, i32)>,
    /// See [`Flowtable::early`](crate::Flowtable::early).
    pub early: bool,
    /// Devices to add.
    pub devices: Vec<Arc<str>>,
    /// Flags.
    pub flags: u32,
}
