// SPDX-License-Identifier: Apache-2.0

//! Which base chains the kernel's nf_tables runs, and which are programs.
//!
//! A chain that has no code at one of its places goes to nf_tables. Others follow it:
//!
//! - A program cannot stand at a hook and priority where something else stands already
//!   (`nf_hook_entries_grow()`), and chains of one place run in an order.
//! - XDP and tcx come before the ingress hook of nf_tables, and tcx after its egress hook
//!   (`__netif_receive_skb_core()`, `__dev_queue_xmit()`). So chains of a device that packets meet
//!   after one of nf_tables at ingress, or before one at egress, run there, too. It is the same
//!   with chains of bridges, whose hooks are between ingress and egress of the ports.
//! - What packets change (a counter, a quota, a limit, a set) is in one place. So chains that use
//!   the same are in one half, and what is in nf_tables stays there.

mod leading;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use penstock_bpf::{InetFamily, InetHook, NetfilterHook};
use penstock_net::Network;
use penstock_print::show::status::LeftOut;
use penstock_program::Hook;
use penstock_ruleset::link::{Linked, LinkedBase};
use penstock_ruleset::model::{BaseChain, Chain, ChainType};
use penstock_ruleset::{Family, Table};

use super::kernel_half::NF_TABLES;
use super::kernel_half::reach::{Part, Reach};
use super::kernel_half::tables::ChainKey;

/// A hook and a priority.
pub(super) type HookPlace = (NetfilterHook, i32);

/// Where the hooks of address translation are (`NF_IP_PRI_NAT_DST`, `NF_IP_PRI_NAT_SRC`). The first
/// chain of type nat brings all of them (`nf_nat_register_fn()`).
const NAT: [(InetHook, i32); 4] = [
    (InetHook::Prerouting, -100),
    (InetHook::Output, -100),
    (InetHook::Input, 100),
    (InetHook::Postrouting, 100),
];

/// The hook of IPv4 and IPv6, if it is one.
pub(super) fn inet_hook(hook: Hook) -> Option<InetHook> {
    match hook {
        Hook::Prerouting => Some(InetHook::Prerouting),
        Hook::Input => Some(InetHook::Input),
        Hook::Forward => Some(InetHook::Forward),
        Hook::Output => Some(InetHook::Output),
        Hook::Postrouting => Some(InetHook::Postrouting),
        Hook::Ingress | Hook::Egress => None,
    }
}

/// The hooks and priorities of IPv4 and IPv6 that a base chain stands at.
fn places_of(family: Family, base: &BaseChain) -> Vec<HookPlace> {
    let Some(hook) = inet_hook(base.hook) else { return Vec::new() };
    let families: &[InetFamily] = match family {
        Family::Ip => &[InetFamily::V4],
        Family::Ip6 => &[InetFamily::V6],
        Family::Inet => &[InetFamily::V4, InetFamily::V6],
        Family::Arp | Family::Bridge | Family::Netdev => &[],
    };
    let at = |(hook, priority)| {
        families.iter().map(move |&family| (NetfilterHook { family, hook }, priority))
    };
    match base.kind {
        ChainType::Nat => NAT.into_iter().flat_map(at).collect(),
        ChainType::Filter | ChainType::Route => at((hook, base.priority)).collect(),
    }
}

/// What else stands at hooks, and has state, so that chains cannot be programs.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Hooks and priorities where something stands.
    pub(super) places: BTreeMap<HookPlace, String>,
    /// Parts with state that nf_tables has.
    parts: BTreeSet<Part>,
    /// Rules that nf_tables has: handles of the table and of the rule.
    rules: BTreeSet<(u64, u64)>,
}

impl Taken {
    /// By tables in nf_tables.
    pub(super) fn by(&mut self, tables: &[Arc<Table>]) {
        for table in tables {
            for chain in &table.chains {
                let rules = chain.rules.iter().map(|rule| (table.handle, rule.handle));
                self.rules.extend(rules);
                let Some(base) = &chain.base else { continue };
                for place in places_of(table.family, base) {
                    let reason =
                        "nf_tables has had a chain of that hook and priority since it was attached";
                    self.places.insert(place, reason.into());
                }
                self.parts.extend(Reach::of(table, chain).states);
            }
        }
    }
}

/// A base chain of the generation.
#[derive(Debug)]
struct Base<'a> {
    linked: &'a LinkedBase,
    key: ChainKey,
    name: String,
    reach: Reach,
}

/// Where a chain stands on a way: its stage, its priority, and when it came.
type Order = (u8, i32, Reverse<u64>);

/// A way on which packets meet chains in an order. At its beginning, or at its end, these may be
/// programs.
enum Way<'a> {
    /// Into a device.
    Ingress(&'a str),
    /// Out of a device.
    Egress(&'a str),
    /// Into a port and to its bridge.
    ToBridge(&'a str),
    /// Into a port, in a link-local group that the bridge leaves to it.
    ToPort(&'a str),
    /// From a bridge out of a port.
    FromBridge(&'a str),
    /// Through a bridge to the host.
    BridgeInput,
}

impl Way<'_> {
    /// The stage of ingress of a device.
    const DEVICE_INGRESS: u8 = 0;

    /// Whether programs come before what nf_tables runs.
    fn programs_first(&self) -> bool {
        matches!(self, Way::Ingress(_) | Way::ToBridge(_) | Way::ToPort(_))
    }

    /// Where a chain stands, if it is on the way.
    fn order_of(&self, base: &LinkedBase) -> Option<Order> {
        let of_device = |hook: Hook, device: &str| {
            let family = matches!(base.family, Family::Netdev | Family::Inet);
            family && base.base.hook == hook && base.base.names_device(device)
        };
        let of_bridge = |hook: Hook| base.family == Family::Bridge && base.base.hook == hook;
        let stage = match self {
            Way::Ingress(device) | Way::ToBridge(device) | Way::ToPort(device)
                if of_device(Hook::Ingress, device) =>
            {
                Way::DEVICE_INGRESS
            }
            Way::ToBridge(_) if of_bridge(Hook::Prerouting) => 1,
            Way::ToPort(_) | Way::BridgeInput if of_bridge(Hook::Input) => 1,
            Way::FromBridge(_) if of_bridge(Hook::Forward) => 0,
            Way::FromBridge(_) if of_bridge(Hook::Postrouting) => 1,
            Way::Egress(device) | Way::FromBridge(device) if of_device(Hook::Egress, device) => 2,
            _ => return None,
        };
        Some((stage, base.base.priority, Reverse(base.base.registered)))
    }
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Ingress(device) => write!(f, "ingress of {device}"),
            Way::Egress(device) => write!(f, "egress of {device}"),
            Way::ToBridge(port) => write!(f, "bridge prerouting of {port}"),
            Way::ToPort(port) => write!(f, "bridge input of {port}"),
            Way::FromBridge(port) => write!(f, "bridge forward to {port}"),
            Way::BridgeInput => f.write_str("bridge input"),
        }
    }
}

/// The split of a generation.
#[derive(Debug)]
pub(super) struct Split<'a> {
    bases: Vec<Base<'a>>,
    tables: &'a [Arc<Table>],
    taken: &'a Taken,
    /// Chains for nf_tables, and why.
    moved: BTreeMap<ChainKey, LeftOut>,
    /// What of these is programs.
    leading: leading::Leading,
}

/// Handles of a base chain and its table.
fn key_of(linked: &Linked, base: &LinkedBase) -> ChainKey {
    let table = linked.image.table_of(base.chain).map_or(0, |table| table.handle);
    (table, linked.image.chain(base.chain).map_or(0, |chain| chain.handle))
}

impl<'a> Split<'a> {
    /// All are programs yet.
    pub(super) fn new(linked: &'a Linked, tables: &'a [Arc<Table>], taken: &'a Taken) -> Self {
        let found = |key: ChainKey| -> Option<(&'a Arc<Table>, &'a Arc<Chain>)> {
            let table = tables.iter().find(|table| table.handle == key.0)?;
            Some((table, table.chains.iter().find(|chain| chain.handle == key.1)?))
        };
        let base = |base: &'a LinkedBase| {
            let key = key_of(linked, base);
            let (table, chain) = found(key)?;
            let name = format!("{} {} {}", base.family.name(), table.name, chain.name);
            Some(Base { linked: base, key, name, reach: Reach::of(table, chain) })
        };
        let bases = linked.bases.iter().filter_map(base).collect();
        let leading = leading::Leading::default();
        Split { bases, tables, taken, moved: BTreeMap::new(), leading }
    }

    /// How many chains run there.
    pub(super) fn count(&self) -> usize {
        self.moved.len()
    }

    /// A chain runs in nf_tables, for a reason, since it cannot at a place.
    pub(super) fn moves(
        &mut self,
        linked: &Linked,
        base: &LinkedBase,
        place: &str,
        reason: String,
    ) {
        let key = key_of(linked, base);
        let Some(known) = self.bases.iter().find(|base| base.key == key) else { return };
        let what = format!("chain {}", known.name);
        let place = place.to_owned();
        self.moved.entry(key).or_insert(LeftOut { what, place, reason });
    }

    /// The chains for nf_tables.
    pub(super) fn keys(&self) -> BTreeSet<ChainKey> {
        self.moved.keys().copied().collect()
    }

    /// What runs in nf_tables, where it could not, and why.
    pub(super) fn reasons(&self) -> Vec<LeftOut> {
        let of = |base: &Base<'_>| {
            let mut why = self.moved.get(&base.key)?.clone();
            why.what += &self.since_handle(base.key);
            Some(why)
        };
        self.bases.iter().filter_map(of).collect()
    }

    /// What nf_tables cannot do as attached rulesets do: the chain, and the reason.
    pub(super) fn impossible(&self) -> Option<(&'a LinkedBase, String)> {
        self.bases.iter().filter(|base| self.moved.contains_key(&base.key)).find_map(|base| {
            let at_ingress = base.linked.base.hook == Hook::Ingress;
            let why = self.moved.get(&base.key).map(|why| why.reason.clone()).unwrap_or_default();
            let table = self.tables.iter().find(|table| table.handle == base.key.0);
            let mut flowtables = table.iter().flat_map(|table| &table.flowtables);
            let uses_early =
                flowtables.any(|f| f.early && base.reach.flowtables.contains(&f.handle));
            let reason = match () {
                () if uses_early => "it uses a flowtable with `hook early_ingress`",
                () if base.reach.has_extensions => "it has extensions of x_tables",
                () if at_ingress && base.reach.asks_for_connections => {
                    "it asks for connections, which nf_tables does not have at ingress"
                }
                () => return None,
            };
            Some((base.linked, format!("{reason}; it is no program since {why}")))
        })
    }

    /// Chains follow others to nf_tables.
    pub(super) fn close(&mut self, net: &Network) {
        loop {
            let before = self.moved.len();
            self.same_places();
            for link in net.links() {
                let (name, is_port) = (&*link.name, link.port.is_some());
                self.order(&Way::Ingress(name));
                self.order(&Way::Egress(name));
                if is_port {
                    self.order(&Way::ToBridge(name));
                    self.order(&Way::ToPort(name));
                    self.order(&Way::FromBridge(name));
                }
            }
            self.order(&Way::BridgeInput);
            self.shared_states();
            if self.moved.len() == before {
                return;
            }
        }
    }

    fn follows(&mut self, at: usize, place: String, reason: String) {
        if let Some(base) = self.bases.get(at) {
            let what = format!("chain {}", base.name);
            self.moved.entry(base.key).or_insert(LeftOut { what, place, reason });
        }
    }

    fn same_places(&mut self) {
        let mut taken = self.taken.places.clone();
        for base in self.bases.iter().filter(|base| self.moved.contains_key(&base.key)) {
            for place in places_of(base.linked.family, &base.linked.base) {
                let reason = match base.linked.base.kind {
                    ChainType::Nat => format!("address translation is there ({})", base.name),
                    _ => format!("chain {} is of the same hook and priority", base.name),
                };
                taken.entry(place).or_insert(reason);
            }
        }
        for at in 0..self.bases.len() {
            let Some(base) = self.bases.get(at) else { continue };
            if self.moved.contains_key(&base.key) {
                continue;
            }
            let places = places_of(base.linked.family, &base.linked.base);
            let found = places.iter().find_map(|place| Some((place, taken.get(place)?)));
            if let Some(((hook, priority), reason)) = found {
                let place = format!("hook {hook} at priority {priority}");
                self.follows(at, place, reason.clone());
            }
        }
    }

    /// Chains on a way where the kernel has programs at one end only: those at the other side of one
    /// of nf_tables.
    fn order(&mut self, way: &Way<'_>) {
        let Some((limit, name)) = self.first_of(way) else { return };
        for at in 0..self.bases.len() {
            let Some(base) = self.bases.get(at) else { continue };
            let order = match way.order_of(base.linked) {
                Some(order) if !self.moved.contains_key(&base.key) => order,
                _ => continue,
            };
            let (follows, word) = match way.programs_first() {
                true => (order > limit, "before"),
                false => (order < limit, "after"),
            };
            if follows {
                let reason = format!("{name} comes {word} it, and runs in {NF_TABLES}");
                self.follows(at, way.to_string(), reason);
            }
        }
    }

    /// What of a way is in nf_tables, and next to the programs: where it stands, and its name.
    fn first_of(&self, way: &Way<'_>) -> Option<(Order, String)> {
        let mut there: Vec<(Order, String)> = Vec::new();
        for base in &self.bases {
            if !self.moved.contains_key(&base.key) {
                continue;
            }
            if let Some(order) = way.order_of(base.linked) {
                there.push((order, format!("chain {}", base.name)));
            }
            let (Way::Ingress(device) | Way::ToBridge(device)) = way else { continue };
            let table = self.tables.iter().find(|table| table.handle == base.key.0);
            let flowtables = table.iter().flat_map(|table| &table.flowtables);
            let used = flowtables.filter(|f| base.reach.flowtables.contains(&f.handle));
            for flowtable in used.filter(|f| f.devices.iter().any(|name| **name == **device)) {
                let of = (Way::DEVICE_INGRESS, flowtable.priority, Reverse(flowtable.registered));
                there.push((of, format!("flowtable {}", flowtable.name)));
            }
        }
        match way.programs_first() {
            true => there.into_iter().min(),
            false => there.into_iter().max(),
        }
    }

    fn shared_states(&mut self) {
        let mut users: HashMap<&Part, &str> = HashMap::new();
        for base in self.bases.iter().filter(|base| self.moved.contains_key(&base.key)) {
            base.reach.states.iter().for_each(|part| {
                users.entry(part).or_insert(&base.name);
            });
        }
        let mut all = Vec::new();
        for (at, base) in self.bases.iter().enumerate() {
            if self.moved.contains_key(&base.key) {
                continue;
            }
            let reason = base.reach.states.iter().find_map(|part| match users.get(part) {
                Some(user) => Some(format!("packets change {part}, which chain {user} uses, too")),
                None if self.taken.parts.contains(part) => {
                    Some(format!("packets change {part}, which is there already"))
                }
                None => None,
            });
            all.extend(reason.map(|reason| (at, reason)));
        }
        for (at, reason) in all {
            self.follows(at, "programs".into(), reason);
        }
    }
}
