// SPDX-License-Identifier: Apache-2.0

//! What a generation holds.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use penstock_program::expr::Expr;
pub use penstock_program::{ChainType, Family, Hook};

use crate::globals::Globals;

pub use crate::chain_program::ChainProgram;
pub use crate::element::{ElementData, ElementExtras, ElementValue, MapData};
pub use crate::set::Set;
pub use crate::userdata::UserData;

/// An immutable ruleset. Order of tables is the order of their creation.
#[derive(Clone, Debug, Default)]
pub struct Generation {
    /// Counts commits.
    pub id: u32,
    /// All tables.
    pub tables: Vec<Arc<Table>>,
    /// What is in no table.
    pub globals: Arc<Globals>,
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
    /// Port id of the socket that alone may change it, and that it goes with unless it has
    /// `persist`; 0 for none.
    pub owner: u32,
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

impl BaseChain {
    /// Whether it names a device: with the same name, or with the beginning of it and `*`.
    pub fn names_device(&self, device: &str) -> bool {
        self.devices.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => device.starts_with(start),
            None => **pattern == *device,
        })
    }
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
    /// Live state of the counter of the packets that the policy of a base chain decides on
    /// (`NFTA_CHAIN_COUNTERS`); shared between generations.
    pub counter: Option<Arc<penstock_program::State>>,
    /// What packets meet in place of its rules.
    pub program: Option<ChainProgram>,
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
    /// The file that has it, where it came from one.
    pub origin: Option<RuleOrigin>,
}

/// Where a rule was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RuleOrigin {
    /// Name of the file as it was opened: the one on the command line, or an included one.
    pub file: Arc<str>,
    /// Line in the file; the first is 1.
    pub line: u32,
}

impl fmt::Display for RuleOrigin {
    /// `rules.nft:12`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
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
    /// How many connections. No text of nft makes one.
    Connlimit(penstock_program::expr::Connlimit),
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
