// SPDX-License-Identifier: Apache-2.0

//! What a generation wants of the kernel: which chains run where, as programs that are not loaded
//! yet.

mod bridges;
mod hooks;
mod leading;

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::fmt;

use penstock_bpf::{NetfilterHook, Next};
use penstock_dataplane::interface;
use penstock_ebpf::rules::{
    Compiled, Device, Entry, Job, NotOffloadable, Place, SharedStates, compile,
};
use penstock_net::{Link, Network};
use penstock_print::show::status::LeftOut;
use penstock_program::Hook;
use penstock_ruleset::Family;
use penstock_ruleset::link::{CannotOffload, Linked, LinkedBase, OffloadPart};
use penstock_ruleset::model::ChainType;

use super::drivers::Drivers;
use super::kernel_half::NF_TABLES;
use super::routes::HostRoutes;
use super::split::Split;
use crate::config::{AttachConfig, Ingress};

/// A place of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spot {
    /// XDP of a device, by index; in the kernel's generic way, or in the driver.
    Xdp { device: u32, generic: bool },
    /// tcx at ingress of a device.
    TcxIngress { device: u32 },
    /// tcx at egress of a device.
    TcxEgress { device: u32 },
    /// A hook of netfilter.
    Netfilter { hook: NetfilterHook, priority: i32 },
    /// tcx ingress of a port, right before its bridge.
    BridgePrerouting { device: u32 },
    /// tcx ingress of a port, for what its bridge leaves to it.
    BridgeGroups { device: u32 },
    /// tcx ingress of a bridge, before everything else there.
    BridgeInput { device: u32 },
    /// tcx egress of a port, right after its bridge.
    BridgeForward { device: u32 },
}

impl Spot {
    /// The one that programs of a device stand after, if something is there.
    pub(super) fn before(self) -> Option<Spot> {
        match self {
            Spot::TcxIngress { device } => Some(Spot::BridgeInput { device }),
            Spot::TcxEgress { device } => Some(Spot::BridgeForward { device }),
            _ => None,
        }
    }
}

/// A program for a place.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) spot: Spot,
    /// The place in words.
    pub(super) place: String,
    pub(super) compiled: Compiled,
    /// Its base chains: family, table, name.
    pub(super) chains: Vec<String>,
}

/// The base chains of a place, in the order in which packets meet them.
#[derive(Clone)]
struct Chains<'a> {
    routes: &'a HostRoutes<'a>,
    linked: &'a Linked,
    shared: &'a SharedStates,
    all: Vec<&'a LinkedBase>,
    leading: leading::Leading,
}

/// Who wants something of the kernel.
pub(super) struct Wishes<'a> {
    pub(super) config: &'a AttachConfig,
    pub(super) net: &'a Network,
    pub(super) routes: &'a HostRoutes<'a>,
    pub(super) linked: &'a Linked,
    pub(super) drivers: &'a Drivers,
    pub(super) shared: &'a SharedStates,
    /// What has no code, and is left out if that is wanted.
    pub(super) left_out: RefCell<Vec<LeftOut>>,
    /// What speaks against chains of bridges, once that is asked.
    pub(super) not_plain: OnceCell<Vec<bridges::NotPlain>>,
    /// Which chains run in nf_tables, if that is wanted.
    pub(super) split: Option<RefCell<Split<'a>>>,
}

/// Family, table and name of a chain.
struct ChainName<'a>(&'a Linked, &'a LinkedBase);

impl ChainName<'_> {
    fn table(&self) -> std::sync::Arc<str> {
        self.0.image.table_of(self.1.chain).map(|t| t.name.clone()).unwrap_or_default()
    }

    fn chain(&self) -> std::sync::Arc<str> {
        self.0.image.chain(self.1.chain).map(|c| c.name.clone()).unwrap_or_default()
    }

    /// The chain cannot run at a place.
    fn refused(&self, place: impl fmt::Display, reason: impl Into<String>) -> CannotOffload {
        let part = OffloadPart::Chain { chain: self.chain(), rule: None, reason: reason.into() };
        CannotOffload { family: self.1.family, table: self.table(), part, place: place.to_string() }
    }
}

impl fmt::Display for ChainName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.1.family.name(), self.table(), self.chain())
    }
}

impl<'a> Wishes<'a> {
    /// What the generation wants, in order of places. The error is the first part of it that cannot
    /// run where it is to.
    pub(super) fn all(&self) -> Result<Vec<Wanted>, CannotOffload> {
        self.only_what_can_be_attached()?;
        loop {
            let moved = self.close_split()?;
            let leading = self.leading();
            let all = self.programs()?;
            // What has turned out to have no code takes others along.
            let same = |split: &RefCell<Split<'_>>| {
                let split = split.borrow();
                split.count() == moved && !split.leads_less_than(&leading)
            };
            if self.split.as_ref().is_none_or(same) {
                return Ok(all);
            }
        }
    }

    /// Chains follow others to nf_tables; how many are there then.
    fn close_split(&self) -> Result<usize, CannotOffload> {
        let Some(split) = &self.split else { return Ok(0) };
        let mut split = split.borrow_mut();
        split.close(self.net);
        split.find_leading(self.linked, self.net);
        match split.impossible() {
            Some((base, reason)) => Err(ChainName(self.linked, base).refused(NF_TABLES, reason)),
            None => Ok(split.count()),
        }
    }

    /// The programs of all chains that do not run in nf_tables.
    fn programs(&self) -> Result<Vec<Wanted>, CannotOffload> {
        let mut all = Vec::new();
        for link in self.net.links() {
            self.ingress(link, &mut all)?;
            self.egress(link, &mut all)?;
            self.bridge(link, &mut all)?;
        }
        self.hooks(&mut all)?;
        self.trace_entrances(&mut all)?;
        Ok(all)
    }

    /// Refuses what has no place at all.
    fn only_what_can_be_attached(&self) -> Result<(), CannotOffload> {
        // Those that rules use go to nf_tables with these.
        let flowtables = self.linked.flowtables.iter().filter(|_| self.split.is_none());
        for flowtable in flowtables {
            let (family, table) = (flowtable.family, flowtable.table.0.clone());
            let name = flowtable.flowtable.name.clone();
            let what = format!("flowtable {} {table} {name}", family.name());
            let (part, place) = (OffloadPart::Flowtable(name), KERNEL.into());
            self.leave_out(what, CannotOffload { family, table, part, place })?;
        }
        for base in &self.linked.bases {
            if let Err(refused) = self.has_place(base) {
                if self.moves(base, &refused) {
                    continue;
                }
                let what = format!("chain {}", ChainName(self.linked, base));
                self.leave_out(what, refused)?;
            }
        }
        Ok(())
    }

    /// A chain that cannot run at a place runs in nf_tables, if that is wanted and can be.
    fn moves(&self, base: &LinkedBase, refused: &CannotOffload) -> bool {
        let unknown_device = base.program.is_none() && self.only_known_devices(base).is_err();
        let Some(split) = self.split.as_ref().filter(|_| base.program.is_none()) else {
            return false;
        };
        if unknown_device {
            return false;
        }
        let reason = match &refused.part {
            OffloadPart::Chain { chain, reason, rule: Some(handle) } => {
                format!("{reason} (chain {chain} handle {handle})")
            }
            OffloadPart::Chain { reason, .. } => reason.clone(),
            OffloadPart::Flowtable(_) => return false,
        };
        split.borrow_mut().moves(self.linked, base, &refused.place, reason);
        true
    }

    /// Notes that something is left out; the error is that it may not be.
    fn leave_out(&self, what: String, refused: CannotOffload) -> Result<(), CannotOffload> {
        if !self.config.partial {
            return Err(refused);
        }
        let (mut all, place) = (self.left_out.borrow_mut(), refused.place.clone());
        let reason = match &refused.part {
            OffloadPart::Flowtable(_) => "it has no flowtables".into(),
            OffloadPart::Chain { reason, rule: None, .. } => reason.clone(),
            OffloadPart::Chain { chain, reason, rule: Some(handle) } => {
                format!("{reason} (chain {chain} handle {handle})")
            }
        };
        all.push(LeftOut { what, place, reason });
        Ok(())
    }

    /// Whether a chain has a place at all.
    fn has_place(&self, base: &LinkedBase) -> Result<(), CannotOffload> {
        let name = ChainName(self.linked, base);
        let reason = match (base.family, base.base.hook, base.base.kind) {
            _ if base.program.is_some() => "it is a BPF object, which bpftool(8) attaches",
            (_, _, ChainType::Nat) => "programs at its hooks translate no addresses",
            (_, _, ChainType::Route) => "programs at its hooks do not route packets again",
            (Family::Arp, ..) => "it has no programs at hooks of arp",
            (Family::Bridge, hook, _) => match bridges::without_place(hook) {
                Some(reason) => reason,
                None => return self.only_plain_bridges(base),
            },
            (Family::Netdev | Family::Inet | Family::Ip | Family::Ip6, ..) => {
                return self.only_known_devices(base);
            }
        };
        Err(name.refused(KERNEL, reason))
    }

    /// Devices that a chain names are among those that are given.
    fn only_known_devices(&self, base: &LinkedBase) -> Result<(), CannotOffload> {
        let unknown = |device: &&std::sync::Arc<str>| match device.strip_suffix('*') {
            // Which devices that are is seen when they are there.
            Some(_) => false,
            None => self.config.ingress(device).is_none(),
        };
        match base.base.devices.iter().find(unknown) {
            Some(device) => {
                let reason = "it is not among the devices that chains may be attached to";
                let place = format!("device {device}");
                Err(ChainName(self.linked, base).refused(place, reason))
            }
            None => Ok(()),
        }
    }

    /// Chains that have a place.
    fn bases(&self) -> impl Iterator<Item = &'a LinkedBase> + use<'a, '_> {
        let is_moved = |base: &LinkedBase| {
            self.split.as_ref().is_some_and(|split| split.borrow().is_whole(self.linked, base))
        };
        let bases = self.linked.bases.iter();
        bases.filter(move |base| self.has_place(base).is_ok() && !is_moved(base))
    }

    /// What chains want at a place: a program with all of them, or with what has code of them if
    /// the rest may be left out.
    fn attach(
        &self,
        chains: Chains<'a>,
        (spot, at, place): (Spot, Place<'_>, String),
        to: &mut Vec<Wanted>,
    ) -> Result<(), CannotOffload> {
        let refused = match chains.wanted(spot, at, place.clone()) {
            Ok(wanted) => {
                to.push(wanted);
                return Ok(());
            }
            Err(refused) => refused,
        };
        if self.split.is_some() {
            return self.without_code(&chains, (spot, at, place), refused);
        }
        if !self.config.partial {
            return Err(refused);
        }
        self.attach_in_part(chains, (spot, at, place), to)
    }

    /// Chains of a place that have no code there run in nf_tables.
    fn without_code(
        &self,
        chains: &Chains<'a>,
        (spot, at, place): (Spot, Place<'_>, String),
        together: CannotOffload,
    ) -> Result<(), CannotOffload> {
        if self.lead_less(chains, (spot, at, place.clone())) {
            return Ok(());
        }
        let mut any = false;
        let whole: Vec<_> =
            chains.all.iter().filter(|base| !chains.leading.contains_key(&base.chain)).collect();
        for &&base in &whole {
            if let Err(refused) = Chains::of(self, vec![base]).wanted(spot, at, place.clone()) {
                if !self.moves(base, &refused) {
                    return Err(refused);
                }
                any = true;
            }
        }
        match whole.last() {
            // Each by itself has code, all together are too much.
            Some(last) if !any && !self.moves(last, &together) => Err(together),
            _ => Ok(()),
        }
    }

    /// The chains of a hook of a device.
    fn chains_of(&self, hook: Hook, device: &str) -> Chains<'a> {
        let is_for = |base: &&LinkedBase| base.base.hook == hook && base.base.names_device(device);
        Chains::of(self, self.bases().filter(is_for).collect())
    }

    fn ingress(&self, link: &Link, to: &mut Vec<Wanted>) -> Result<(), CannotOffload> {
        let chains = self.chains_of(Hook::Ingress, &link.name);
        let Some(place) = self.config.ingress(&link.name).filter(|_| !chains.all.is_empty()) else {
            return Ok(());
        };
        let device = device(link);
        let xdp = |generic| {
            let spot = Spot::Xdp { device: link.index, generic };
            let at = if generic { Place::XdpGeneric(&device) } else { Place::Xdp(&device) };
            (spot, at, format!("xdp of {}", link.name))
        };
        let tcx = || {
            let spot = Spot::TcxIngress { device: link.index };
            (spot, Place::TcxIngress(&device), format!("tcx ingress of {}", link.name))
        };
        // `flags offload` is the driver's.
        let for_driver = chains.all.iter().any(|base| base.base.offload);
        let at = match place {
            Ingress::Auto if for_driver => xdp(false),
            Ingress::Auto if self.drivers.run_xdp(link) => {
                let (spot, at, place) = xdp(false);
                match chains.wanted(spot, at, place.clone()) {
                    Ok(wanted) => {
                        to.push(wanted);
                        return Ok(());
                    }
                    // Those of chains in nf_tables do not take others to tcx.
                    Err(_) if self.lead_less(&chains, (spot, at, place)) => return Ok(()),
                    Err(_) => tcx(),
                }
            }
            Ingress::Auto | Ingress::Tcx => tcx(),
            Ingress::Xdp => xdp(false),
            Ingress::XdpGeneric => xdp(true),
        };
        self.attach(chains, at, to)
    }

    fn egress(&self, link: &Link, to: &mut Vec<Wanted>) -> Result<(), CannotOffload> {
        let chains = self.chains_of(Hook::Egress, &link.name);
        if chains.all.is_empty() || self.config.ingress(&link.name).is_none() {
            return Ok(());
        }
        let spot = Spot::TcxEgress { device: link.index };
        let place = format!("tcx egress of {}", link.name);
        self.attach(chains, (spot, Place::TcxEgress(&device(link)), place), to)
    }
}

/// Where things have a place.
const KERNEL: &str = "the kernel";

impl<'a> Chains<'a> {
    /// In the order in which packets meet them.
    fn of(wishes: &Wishes<'a>, mut all: Vec<&'a LinkedBase>) -> Self {
        all.sort_by_key(|base| (base.base.priority, Reverse(base.base.registered)));
        let Wishes { routes, linked, shared, .. } = *wishes;
        Chains { routes, linked, shared, all, leading: wishes.leading() }
    }

    /// Compiles them for a place.
    fn wanted(&self, spot: Spot, at: Place<'_>, place: String) -> Result<Wanted, CannotOffload> {
        let entry = |base: &&LinkedBase| match (base.family, spot) {
            (_, Spot::Netfilter { .. }) => Entry::Ip(base.chain),
            (Family::Bridge, _) => Entry::Bridge(base.chain),
            (Family::Inet, _) => Entry::Inet(base.chain),
            _ => Entry::Netdev(base.chain),
        };
        let entries: Vec<_> = self.all.iter().map(entry).collect();
        let image = match self.all.iter().all(|base| !self.leading.contains_key(&base.chain)) {
            true => Cow::Borrowed(&self.linked.image),
            false => Cow::Owned(self.linked.image.with_leading(&self.leading)),
        };
        let job = Job {
            image: &image,
            entries: &entries,
            place: at,
            next: &Next::Pass,
            shared: Some(self.shared),
            routes: Some(self.routes),
        };
        let compiled = compile(job).map_err(|refused| self.refused(refused, &place))?;
        let name = |base: &&LinkedBase| {
            let name = ChainName(self.linked, base);
            match self.leading.get(&base.chain) {
                Some(1) => format!("{name} (its first rule)"),
                Some(rules) => format!("{name} (its first {rules} rules)"),
                None => name.to_string(),
            }
        };
        let chains = self.all.iter().map(name).collect();
        Ok(Wanted { spot, place, compiled, chains })
    }

    /// The rule that cannot run there, or the first chain where it is not one rule.
    fn refused(&self, refused: NotOffloadable, place: &str) -> CannotOffload {
        let NotOffloadable { rule, reason, .. } = refused;
        let image = &self.linked.image;
        let place = place.to_owned();
        match (rule.and_then(|rule| image.place(rule)), self.all.first()) {
            (Some((family, table, chain, handle)), _) => {
                let part = OffloadPart::Chain { chain: chain.clone(), rule: Some(handle), reason };
                CannotOffload { family, table: table.clone(), part, place }
            }
            (None, Some(first)) => ChainName(self.linked, first).refused(place, reason),
            (None, None) => {
                let (family, table) = (Family::Netdev, Default::default());
                let part = OffloadPart::Chain { chain: Default::default(), rule: None, reason };
                CannotOffload { family, table, part, place }
            }
        }
    }
}

/// What rules see of a device.
fn device(link: &Link) -> Device {
    Device { index: link.index, mac: link.mac, interface: interface(link) }
}
