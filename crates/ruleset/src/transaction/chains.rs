// SPDX-License-Identifier: Apache-2.0

//! Chains: making, changing, renaming, removing.

use std::sync::Arc;

use penstock_program::Verdict;
use penstock_program::expr::Expr;
use penstock_program::reference::Reference;

use super::index::{by_handle, by_handle_mut, place};
use super::{Applied, OpenTable, checked_name};
use crate::change::{Key, Mode, NewBase, NewChain};
use crate::content::Content;
use crate::model::{BaseChain, Chain, ChainProgram, ChainType, ElementData, Family, Hook, MapData};
use crate::{Blame, Errno, Error};
use crate::{live, references};

/// Connection tracking's priority; nat chains come after it (`NF_IP_PRI_CONNTRACK`).
const CONNTRACK: i32 = -200;
/// At most so many devices in one change (`NFT_NETDEVICE_MAX`).
const DEVICES_MAX: usize = 256;

/// Whether base chains of this hook are registered per device.
fn per_device(family: Family, hook: Hook) -> bool {
    matches!((family, hook), (Family::Netdev, _) | (Family::Inet, Hook::Ingress))
}

/// Hooks of a chain type; `None` where the family does not have the type.
fn hooks_of(family: Family, kind: ChainType) -> Option<&'static [Hook]> {
    use Hook::*;
    match (family, kind) {
        (Family::Ip | Family::Ip6 | Family::Bridge, ChainType::Filter) => {
            Some(&[Prerouting, Input, Forward, Output, Postrouting])
        }
        (Family::Inet, ChainType::Filter) => {
            Some(&[Ingress, Prerouting, Input, Forward, Output, Postrouting])
        }
        (Family::Arp, ChainType::Filter) => Some(&[Input, Output]),
        (Family::Netdev, ChainType::Filter) => Some(&[Ingress, Egress]),
        (Family::Ip | Family::Ip6 | Family::Inet, ChainType::Nat) => {
            Some(&[Prerouting, Input, Output, Postrouting])
        }
        (Family::Ip | Family::Ip6 | Family::Inet, ChainType::Route) => Some(&[Output]),
        (Family::Arp | Family::Bridge | Family::Netdev, ChainType::Nat | ChainType::Route) => None,
    }
}

fn checked_devices(devices: &[Arc<str>]) -> Result<(), Error> {
    if devices.len() > DEVICES_MAX {
        return Err(Error::new(Errno::Efbig, Blame::Whole));
    }
    for (i, device) in devices.iter().enumerate() {
        // IFNAMSIZ counts the terminating byte.
        if device.is_empty() || device.len() > 15 {
            return Err(Error::new(Errno::Einval, Blame::Hook));
        }
        if devices.iter().take(i).any(|d| d == device) {
            return Err(Error::new(Errno::Eexist, Blame::Whole));
        }
    }
    Ok(())
}

/// Whether a base chain can have a BPF program: it is loaded.
pub(super) fn checked_program(
    family: Family,
    base: Option<(ChainType, Hook, i32)>,
    program: &ChainProgram,
) -> Result<(), Error> {
    let refused = |why: &str| {
        let detail = Some(why.to_owned());
        Error { errno: Errno::Eopnotsupp, blame: Blame::Program, detail }
    };
    let of_ip = matches!(family, Family::Ip | Family::Ip6 | Family::Inet);
    match base {
        // net/netfilter/nf_bpf_link.c: hooks, and priorities
        Some((ChainType::Filter, hook, priority))
            if of_ip && !matches!(hook, Hook::Ingress | Hook::Egress) =>
        {
            if matches!(priority, i32::MIN | i32::MAX) {
                return Err(refused("the lowest and the highest priority are not for programs"));
            }
        }
        _ => {
            return Err(refused(
                "a program is for chains of type filter at prerouting, input, forward, output and \
                 postrouting of ip, ip6 and inet",
            ));
        }
    }
    program.load().map(|_| ()).map_err(refused)
}

impl OpenTable<'_> {
    /// Whether the rules of a chain may change one by one: if it has a BPF program, only together
    /// with that.
    pub(super) fn check_mutable(&self, chain: u64) -> Result<(), Error> {
        let fixed = by_handle(&self.table.chains, chain).is_some_and(|c| c.program.is_some());
        if fixed && !self.batch.stated.contains(&(self.table.handle, chain)) {
            let detail =
                "a chain with a BPF program changes only as a whole: state its program, too";
            let detail = Some(detail.to_owned());
            return Err(Error { errno: Errno::Eopnotsupp, blame: Blame::Chain, detail });
        }
        Ok(())
    }

    pub(super) fn add_chain(&mut self, mode: Mode, new: NewChain) -> Result<Applied, Error> {
        if !new.anonymous {
            checked_name(&new.name, Blame::Chain)?;
            if let Some(&handle) = self.index.chains.get(&new.name) {
                return self.update_chain(handle, mode, new);
            }
        }
        if new.policy_accept.is_some() && new.base.is_none() {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Policy));
        }
        let family = self.table.family;
        if let Some(base) = &new.base {
            if new.anonymous {
                return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
            }
            checked_base(family, base)?;
        }
        // `nf_tables_addchain()`, `nft_chain_offload_support()`
        if new.offload && new.base.as_ref().is_none_or(|base| base.hook != Hook::Ingress) {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        if let Some(program) = &new.program {
            let base = new.base.as_ref().map(|base| (base.kind, base.hook, base.priority));
            checked_program(family, base, program)?;
        }
        self.batch.changed = true;
        let handle = self.next_handle();
        if new.program.is_some() {
            self.batch.stated.insert((self.table.handle, handle));
        }
        // The kernel does not look at counters of other chains.
        let counter = new.counter.filter(|_| new.base.is_some());
        let base = new.base.map(|base| BaseChain {
            kind: base.kind,
            hook: base.hook,
            priority: base.priority,
            policy_accept: new.policy_accept.unwrap_or(true),
            devices: base.devices,
            registered: self.batch.next_registration(),
            offload: new.offload,
        });
        let mut name = new.name;
        if new.anonymous {
            // The kernel counts these over all tables and never again; within a table the handle is
            // as unique.
            let known_as = name;
            name = format!("__chain{handle}").into();
            while self.index.chains.contains_key(&name) {
                name = format!("{name}_").into();
            }
            self.batch.names.insert(known_as, name.clone());
        }
        let chosen = new.anonymous.then(|| name.clone());
        self.index.chains.insert(name.clone(), handle);
        if let (Some(reach), Some(base)) = (&mut self.index.reach, &base) {
            reach.add_base(handle, base);
        }
        let chain = Chain {
            name,
            handle,
            base,
            counter: counter.and_then(|c| live::state_of(&Expr::Counter(c), self.batch.now)),
            program: new.program,
            anonymous: new.anonymous,
            userdata: new.userdata,
            rules: Vec::new(),
        };
        self.table.chains.push(Arc::new(chain));
        Ok(Applied { handle: Some(handle), name: chosen })
    }

    /// Policy, and further devices of a chain that has some.
    fn update_chain(&mut self, handle: u64, mode: Mode, new: NewChain) -> Result<Applied, Error> {
        let family = self.table.family;
        let Some(chain) = by_handle(&self.table.chains, handle) else {
            return Err(Error::new(Errno::Enoent, Blame::Chain));
        };
        if new.policy_accept.is_some() && chain.base.is_none() {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Policy));
        }
        if mode == Mode::Create {
            return Err(Error::new(Errno::Eexist, Blame::Chain));
        }
        // `nf_tables_updchain()`: flags that are given have to be those that it has.
        if new.offload && !chain.base.as_ref().is_some_and(|base| base.offload) {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        let mut devices = Vec::new();
        if let Some(wanted) = new.base {
            let Some(base) = &chain.base else {
                return Err(Error::new(Errno::Eexist, Blame::Chain));
            };
            if wanted.hook != base.hook || wanted.priority != base.priority {
                return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
            }
            if hooks_of(family, wanted.kind).is_none() {
                return Err(Error::new(Errno::Enoent, Blame::Type));
            }
            if !per_device(family, wanted.hook) && !wanted.devices.is_empty() {
                return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
            }
            checked_devices(&wanted.devices)?;
            if wanted.kind != base.kind {
                return Err(Error::new(Errno::Eexist, Blame::Chain));
            }
            devices = wanted.devices;
            devices.retain(|d| !base.devices.contains(d));
        }
        if new.counter.is_some() && chain.base.is_none() {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        if let Some(program) = &new.program {
            let base = chain.base.as_ref().map(|base| (base.kind, base.hook, base.priority));
            checked_program(family, base, program)?;
            self.batch.stated.insert((self.table.handle, handle));
        }
        self.batch.changed = true;
        // One that is the same keeps its maps.
        if let Some(program) = new.program.filter(|new| chain.program.as_ref() != Some(new))
            && let Some(chain) = by_handle_mut(&mut self.table.chains, handle)
        {
            chain.program = Some(program);
        }
        let policy = new.policy_accept;
        if (policy.is_some() || !devices.is_empty() || new.counter.is_some())
            && let Some(chain) = by_handle_mut(&mut self.table.chains, handle)
            && let Some(base) = &mut chain.base
        {
            base.policy_accept = policy.unwrap_or(base.policy_accept);
            base.devices.append(&mut devices);
            if let Some(counter) = new.counter {
                chain.counter = live::state_of(&Expr::Counter(counter), self.batch.now);
            }
        }
        Ok(Applied { handle: Some(handle), name: None })
    }

    /// Rules and elements name chains, so all that jump there are changed with it.
    pub(super) fn rename_chain(&mut self, handle: u64, name: Arc<str>) -> Result<Applied, Error> {
        checked_name(&name, Blame::Chain)?;
        let Some(old) = by_handle(&self.table.chains, handle).map(|c| c.name.clone()) else {
            return Err(Error::new(Errno::Enoent, Blame::Handle));
        };
        if self.index.chains.contains_key(&name) {
            return Err(Error::new(Errno::Eexist, Blame::Whole));
        }
        self.batch.changed = true;
        let used = self.index.uses(handle) > 0;
        self.index.chains.remove(&old);
        self.index.chains.insert(name.clone(), handle);
        if let Some(chain) = by_handle_mut(&mut self.table.chains, handle) {
            chain.name = name.clone();
        }
        if used {
            self.retarget(&old, &name);
        }
        Ok(Applied { handle: Some(handle), name: None })
    }

    fn retarget(&mut self, old: &Arc<str>, new: &Arc<str>) {
        let renamed =
            |reference: Reference<'_>| (reference == Reference::Chain(old)).then(|| new.clone());
        let names_it = |rule: &crate::Rule| {
            let mut found = false;
            rule.exprs
                .iter()
                .for_each(|e| e.references(&mut |r| found |= r == Reference::Chain(old)));
            found
        };
        for chain in &mut self.table.chains {
            if !chain.rules.iter().any(|r| names_it(r)) {
                continue;
            }
            for rule in Arc::make_mut(chain).rules.iter_mut().filter(|r| names_it(r)) {
                Arc::make_mut(rule).exprs.iter_mut().for_each(|e| e.rename(&renamed));
            }
        }
        for set in self.table.sets.iter_mut().filter(|s| s.data == Some(MapData::Verdict)) {
            let points_there = |e: &penstock_sets::ElementRef<'_, crate::model::ElementValue>| {
                references::of_element(Some(MapData::Verdict), e.value)
                    == Some(Reference::Chain(old))
            };
            // Verdict maps are never dynamic.
            let Content::Fixed(elements) = &set.content else { continue };
            let keys: Vec<_> =
                elements.iter_unordered().filter(points_there).map(|e| e.with_value(())).collect();
            if keys.is_empty() {
                continue;
            }
            let Content::Fixed(elements) = &mut Arc::make_mut(set).content else { continue };
            for penstock_sets::Element { key, key_end: end, .. } in keys {
                // At time 0 nothing has expired: what has, is renamed too, until it is swept.
                elements.modify(&key, end.as_deref(), 0, |value, _| {
                    if let Some(ElementData::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain))) =
                        &mut value.data
                    {
                        *chain = new.clone();
                    }
                });
            }
        }
    }

    pub(super) fn delete_chain(
        &mut self,
        key: Key,
        devices: &[Arc<str>],
        destroy: bool,
    ) -> Result<Applied, Error> {
        let (handle, blame) = match key {
            Key::Name(name) => (self.index.chains.get(&name).copied(), Blame::Chain),
            Key::Handle(handle) => (Some(handle), Blame::Handle),
        };
        let Some(chain) = handle.and_then(|h| by_handle(&self.table.chains, h)) else {
            return if destroy {
                Ok(Applied::default())
            } else {
                Err(Error::new(Errno::Enoent, blame))
            };
        };
        let handle = chain.handle;
        if !devices.is_empty() {
            return self.delete_chain_devices(handle, devices, destroy);
        }
        if chain.anonymous && self.index.uses(handle) > 0 {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        if self.index.uses(handle) > 0 {
            return Err(Error::new(Errno::Ebusy, blame));
        }
        self.remove_chain(handle);
        Ok(Applied::default())
    }

    fn delete_chain_devices(
        &mut self,
        handle: u64,
        gone: &[Arc<str>],
        destroy: bool,
    ) -> Result<Applied, Error> {
        let per_device = |base: &BaseChain| per_device(self.table.family, base.hook);
        let base = by_handle(&self.table.chains, handle)
            .and_then(|c| c.base.as_ref())
            .filter(|b| per_device(b));
        let Some(base) = base.filter(|_| !destroy) else {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        };
        checked_devices(gone)?;
        if !gone.iter().all(|d| base.devices.contains(d)) {
            return Err(Error::new(Errno::Enoent, Blame::Whole));
        }
        self.batch.changed = true;
        if let Some(base) =
            by_handle_mut(&mut self.table.chains, handle).and_then(|c| c.base.as_mut())
        {
            base.devices.retain(|d| !gone.contains(d));
        }
        Ok(Applied::default())
    }

    /// Removes an unused chain with its rules.
    pub(super) fn remove_chain(&mut self, handle: u64) {
        self.remove_rules_of(handle);
        if let Some(at) = place(&self.table.chains, handle) {
            self.batch.changed = true;
            let chain = self.table.chains.remove(at);
            self.index.chains.remove(&chain.name);
            self.index.gone.remove(&handle);
            if let Some(reach) = &mut self.index.reach {
                reach.forget(handle);
            }
            if chain.base.is_some() {
                self.index.reach = None;
            }
        }
    }
}

pub(super) fn checked_base(family: Family, base: &NewBase) -> Result<(), Error> {
    let Some(hooks) = hooks_of(family, base.kind) else {
        return Err(Error::new(Errno::Enoent, Blame::Type));
    };
    if !hooks.contains(&base.hook) || base.kind == ChainType::Nat && base.priority <= CONNTRACK {
        return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
    }
    if !per_device(family, base.hook) && !base.devices.is_empty() {
        return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
    }
    checked_devices(&base.devices)
}
