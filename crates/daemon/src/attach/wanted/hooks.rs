// SPDX-License-Identifier: Apache-2.0

//! Programs at hooks of netfilter.

use std::ops::RangeInclusive;

use penstock_bpf::{InetFamily, InetHook, NetfilterHook};
use penstock_ebpf::rules::{Place, trace_entrance, traces};
use penstock_ruleset::Family;
use penstock_ruleset::link::{CannotOffload, LinkedBase};

use super::{ChainName, Chains, KERNEL, Spot, Wanted, Wishes};
use crate::attach::split::inet_hook;

/// The first priority that programs can have.
const FIRST: i32 = i32::MIN + 1;

/// A base chain at a hook, and its priority.
type AtHook<'a> = (NetfilterHook, i32, &'a LinkedBase);

/// Hooks and priorities where other things stand.
struct Others(Vec<(InetHook, i32)>);

/// Where the kernel's own functions are, at some or all hooks (`enum nf_ip_hook_priorities`):
/// fragments, SELinux, connections, addresses, and the end of SELinux, helpers and connections.
const KERNELS: [i32; 8] = [-400, -225, -200, -100, 100, 225, 300, i32::MAX];

impl Others {
    fn none_at(&self, hook: NetfilterHook, priorities: RangeInclusive<i32>) -> bool {
        let other = self.0.iter().filter(|(at, _)| *at == hook.hook).map(|(_, priority)| *priority);
        !other.chain(KERNELS).any(|priority| priorities.contains(&priority))
    }
}

impl<'a> Wishes<'a> {
    /// Where packets of IP begin, those of before with their addresses are forgotten, if packets may
    /// be traced.
    pub(super) fn trace_entrances(&self, to: &mut Vec<Wanted>) -> Result<(), CannotOffload> {
        if !traces(&self.linked.image) {
            return Ok(());
        }
        if let Some(base) = self.linked.bases.iter().find(|base| base.base.priority <= FIRST) {
            let reason = format!("traces begin at priority {FIRST}");
            return Err(ChainName(self.linked, base).refused(KERNEL, reason));
        }
        let first = self.linked.bases.first();
        for family in [InetFamily::V4, InetFamily::V6] {
            for hook in [InetHook::Prerouting, InetHook::Output] {
                let hook = NetfilterHook { family, hook };
                let place = format!("hook {hook} at priority {FIRST}");
                let compiled = match (trace_entrance(hook, self.shared), first) {
                    (Ok(compiled), _) => compiled,
                    (Err(e), Some(base)) => {
                        return Err(ChainName(self.linked, base).refused(place, e.reason));
                    }
                    (Err(_), None) => return Ok(()),
                };
                let spot = Spot::Netfilter { hook, priority: FIRST };
                to.push(Wanted { spot, place, compiled, chains: vec!["begin of traces".into()] });
            }
        }
        Ok(())
    }

    /// Chains at hooks of netfilter: those of one family, hook and priority are one program.
    pub(super) fn hooks(&self, to: &mut Vec<Wanted>) -> Result<(), CannotOffload> {
        for (family, own) in [(InetFamily::V4, Family::Ip), (InetFamily::V6, Family::Ip6)] {
            let here = self.bases().filter_map(|base| {
                let of_family = base.family == own || base.family == Family::Inet;
                let hook = inet_hook(base.base.hook).filter(|_| of_family)?;
                Some((NetfilterHook { family, hook }, base.base.priority, base))
            });
            let mut here: Vec<_> = here.collect();
            here.sort_by_key(|(hook, priority, _)| (*hook, *priority));
            let others = self.others_at_hooks();
            let adjoin = |a: &AtHook<'_>, b: &AtHook<'_>| {
                a.0 == b.0
                    && (a.1 == b.1 || self.config.translate && others.none_at(a.0, a.1..=b.1))
            };
            for run in here.chunk_by(adjoin) {
                if self.translated(run, to) {
                    continue;
                }
                for same in run.chunk_by(|a, b| a.1 == b.1) {
                    let Some((at, chains)) = self.at_hook(same) else { continue };
                    self.attach(chains, at, to)?;
                }
            }
        }
        Ok(())
    }

    /// A program of chains at a hook, at the priority of the first.
    fn at_hook(
        &self,
        chains: &[AtHook<'a>],
    ) -> Option<((Spot, Place<'static>, String), Chains<'a>)> {
        let (hook, priority, _) = *chains.first()?;
        let bases = chains.iter().map(|(.., base)| *base).collect();
        let place = format!("hook {hook} at priority {priority}");
        let at = (Spot::Netfilter { hook, priority }, Place::Netfilter(hook), place);
        Some((at, Chains::of(self, bases)))
    }

    /// Chains of several priorities as one program; not if they are of one, or have no code together.
    fn translated(&self, run: &[AtHook<'a>], to: &mut Vec<Wanted>) -> bool {
        if run.first().map(|first| first.1) == run.last().map(|last| last.1) {
            return false;
        }
        let Some(((spot, at, place), chains)) = self.at_hook(run) else { return false };
        match chains.wanted(spot, at, place) {
            Ok(wanted) => {
                to.push(wanted);
                true
            }
            Err(_) => false,
        }
    }

    /// What stands at hooks besides these programs: the kernel's own, and chains in nf_tables.
    fn others_at_hooks(&self) -> Others {
        let own: Vec<_> = self.bases().map(|base| base.chain).collect();
        let elsewhere = self.linked.bases.iter().filter(|base| !own.contains(&base.chain));
        Others(elsewhere.filter_map(|b| Some((inet_hook(b.base.hook)?, b.base.priority))).collect())
    }
}
