// SPDX-License-Identifier: Apache-2.0

//! What a generation holds.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use penstock_program::expr::{Expr, ObjectType};
pub use penstock_program::{ChainType, Family, Hook};
use penstock_program::{Data, Verdict};
use penstock_sets::Description;

use crate::content::{Content, Told};

/// Bytes that the language keeps beside an object (`NFTA_*_USERDATA`): comments, types of keys,
/// byte order. Opaque to everything below it.
pub type UserData = Arc<[u8]>;

/// An immutable ruleset. Order of tables is the order of their creation.
#[derive(Clone, Debug, Default)]
pub struct Generation {
    /// Counts commits.
    pub id: u32,
    /// All tables.
    pub tables: Vec<Arc<Table>>,
}

/// A table and all that is in it, each kind in order of creation.
#[derive(Clone, Debug)]
pub struct Table {
    /// Address family.
    pub family: Family,
    /// Unique within the family.
    pub name: Arc<str>,
    /// `NFTA_TABLE_HANDLE`.
    pub handle: u64,
    /// `flags dormant`: its base chains are not registered.
    pub dormant: bool,
    /// `flags owner` and `persist`, as `NFT_TABLE_F_*` bits beyond dormant.
    pub flags: u32,
    /// The language's.
    pub userdata: UserData,
    /// Handle counter: chains, rules, sets, objects and flowtables of a table share it.
    pub last_handle: u64,
    /// Chains.
    pub chains: Vec<Arc<Chain>>,
    /// Sets and maps, anonymous ones included.
    pub sets: Vec<Arc<Set>>,
    /// Stateful objects.
    pub objects: Vec<Arc<Object>>,
    /// Flowtables.
    pub flowtables: Vec<Arc<Flowtable>>,
}

/// What makes a chain a base chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseChain {
    /// Chain type.
    pub kind: ChainType,
    /// Where it is registered.
    pub hook: Hook,
    /// Lower runs first.
    pub priority: i32,
    /// `true` accept, `false` drop.
    pub policy_accept: bool,
    /// Devices (netdev, inet ingress); a trailing `*` is a wildcard.
    pub devices: Vec<Arc<str>>,
    /// Order of registration among all base chains, counted over the ruleset's life: with equal
    /// priority, later registered ones run first.
    pub registered: u64,
    /// Devices are to run it themselves: `flags offload` (`NFT_CHAIN_HW_OFFLOAD`).
    pub offload: bool,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Unique in the table.
    pub name: Arc<str>,
    /// `NFTA_CHAIN_HANDLE`.
    pub handle: u64,
    /// `None` for regular chains.
    pub base: Option<BaseChain>,
    /// Bound to one rule (implicit chain, `jump { … }`).
    pub anonymous: bool,
    /// The language's.
    pub userdata: UserData,
    /// In order.
    pub rules: Vec<Arc<Rule>>,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `NFTA_RULE_HANDLE`.
    pub handle: u64,
    /// The program, with initial values of stateful expressions.
    pub exprs: Vec<Expr>,
    /// Live state of the stateful expressions among `exprs`, in their order; shared between
    /// generations.
    pub states: Vec<Arc<penstock_program::State>>,
    /// The language's.
    pub userdata: UserData,
}

/// What a map's elements hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapData {
    /// Register data.
    Value {
        /// Bytes.
        len: u32,
    },
    /// Verdicts.
    Verdict,
    /// Objects of the table.
    Object(ObjectType),
}

/// Value of an element. Sets have millions of elements, and few of these have more than a key and
/// data: so what else they may have costs only those that have it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ElementValue {
    /// Data of a map's element.
    pub data: Option<ElementData>,
    extras: Option<Box<ElementExtras>>,
}

/// What stands beside key and data of few elements.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ElementExtras {
    /// Stateful expressions of the element, and their live state.
    pub exprs: Vec<Expr>,
    /// As in [`Rule::states`].
    #[serde(skip)]
    pub states: Vec<Arc<penstock_program::State>>,
    /// Own timeout in milliseconds, where it differs from the set's default.
    pub timeout: Option<u64>,
    /// The language's: comments.
    pub userdata: Option<UserData>,
}

impl From<ElementData> for ElementValue {
    fn from(data: ElementData) -> Self {
        ElementValue { data: Some(data), extras: None }
    }
}

impl ElementValue {
    /// With this data and these extras.
    pub fn new(data: Option<ElementData>, extras: ElementExtras) -> Self {
        let mut value = ElementValue { data, extras: None };
        value.change_extras(|e| *e = extras);
        value
    }

    /// [`ElementExtras::exprs`]
    pub fn exprs(&self) -> &[Expr] {
        self.extras.as_ref().map_or(&[], |e| &e.exprs)
    }

    /// [`ElementExtras::states`]
    pub fn states(&self) -> &[Arc<penstock_program::State>] {
        self.extras.as_ref().map_or(&[], |e| &e.states)
    }

    /// [`ElementExtras::timeout`]
    pub fn timeout(&self) -> Option<u64> {
        self.extras.as_ref().and_then(|e| e.timeout)
    }

    /// [`ElementExtras::userdata`]
    pub fn userdata(&self) -> Option<&UserData> {
        self.extras.as_ref().and_then(|e| e.userdata.as_ref())
    }

    /// Changes what stands beside the data.
    pub fn change_extras(&mut self, change: impl FnOnce(&mut ElementExtras)) {
        let mut extras = self.extras.take().unwrap_or_default();
        change(&mut extras);
        self.extras = (*extras != ElementExtras::default()).then_some(extras);
    }
}

/// Data of a map's element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElementData {
    /// Register bytes.
    Value(Data),
    /// A verdict.
    Verdict(Verdict),
    /// An object's name.
    Object(Arc<str>),
}

/// A set or map.
#[derive(Clone, Debug)]
pub struct Set {
    /// Unique in the table. Anonymous ones have the kernel's `__set%d` and `__map%d` names.
    pub name: Arc<str>,
    /// `NFTA_SET_HANDLE`.
    pub handle: u64,
    /// Dies with its rule.
    pub anonymous: bool,
    /// `NFTA_SET_KEY_TYPE`: nft's number for the data type, opaque here.
    pub key_type: u32,
    /// `NFTA_SET_DATA_TYPE`, likewise.
    pub data_type: u32,
    /// What it maps to; `None` for sets.
    pub data: Option<MapData>,
    /// What the choice of a backend depends on.
    pub description: Description,
    /// Default life of elements in milliseconds; 0 for none.
    pub timeout: u64,
    /// Milliseconds; 0 for the default.
    pub gc_interval: u32,
    /// Statements of which each element gets its own copy.
    pub exprs: Vec<Expr>,
    /// The language's.
    pub userdata: UserData,
    /// Elements: [`Set::elements`].
    pub content: Content,
    /// What the latest batch that changed its elements did, where packets change them, too:
    /// [`Set::come`].
    pub told: Arc<Told>,
}

/// A stateful object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Unique in the table per type.
    pub name: Arc<str>,
    /// `NFTA_OBJ_HANDLE`.
    pub handle: u64,
    /// What it is.
    pub value: ObjectValue,
    /// Live state of counters, quotas, limits.
    pub state: Option<Arc<penstock_program::State>>,
    /// The language's.
    pub userdata: UserData,
}

/// Configuration of an object, by type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ObjectValue {
    /// Initial values.
    Counter(penstock_program::expr::Counter),
    /// Limit and initial consumption.
    Quota(penstock_program::expr::Quota),
    /// Rate.
    Limit(penstock_program::expr::Limit),
    /// Helper by name for a protocol; `l3proto` 0 for the table's.
    CtHelper {
        /// The helper's name.
        helper: Arc<str>,
        /// IP protocol number.
        l4proto: u8,
        /// `NFPROTO_*`.
        l3proto: u16,
    },
    /// Seconds per state of the protocol, by the kernel's state number.
    CtTimeout {
        /// IP protocol number.
        l4proto: u8,
        /// `NFPROTO_*`.
        l3proto: u16,
        /// State and seconds.
        values: Vec<(u8, u32)>,
    },
    /// Expectation.
    CtExpect {
        /// IP protocol number.
        l4proto: u8,
        /// `NFPROTO_*`.
        l3proto: u16,
        /// Destination port.
        dport: u16,
        /// Milliseconds.
        timeout: u32,
        /// Most expectations.
        size: u8,
    },
    /// Proxy parameters.
    Synproxy(penstock_program::expr::Synproxy),
    /// Security context.
    SecMark(Arc<str>),
    /// Where packets go in a tunnel.
    Tunnel(Box<crate::tunnel::Tunnel>),
}

/// A flowtable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flowtable {
    /// Unique in the table.
    pub name: Arc<str>,
    /// `NFTA_FLOWTABLE_HANDLE`.
    pub handle: u64,
    /// Ingress.
    pub hook: Hook,
    /// `hook early_ingress`: directly after reception, before taps and everything else.
    pub early: bool,
    /// Among the hooks of its devices.
    pub priority: i32,
    /// Order of registration, as of base chains.
    pub registered: u64,
    /// Devices.
    pub devices: Vec<Arc<str>>,
    /// `NFT_FLOWTABLE_*`: 1 offload, 2 counter.
    pub flags: u32,
}
