// SPDX-License-Identifier: Apache-2.0

//! Programs for chains of bridge tables, at tcx of ports and of bridges.

use std::collections::BTreeSet;
use std::fs;

use penstock_ebpf::rules::{BridgeHook, Device, Place};
use penstock_net::Link;
use penstock_program::Hook;
use penstock_ruleset::Family;
use penstock_ruleset::link::{CannotOffload, LinkedBase};
use penstock_ruleset::model::BaseChain;

use super::{ChainName, Chains, KERNEL, Spot, Wanted, Wishes, device};

/// Something about bridges that speaks against programs.
pub(in crate::attach) struct NotPlain {
    concerns: Concerned,
    /// Where.
    place: String,
    reason: &'static str,
}

/// Which chains something speaks against.
#[derive(Clone, Copy)]
enum Concerned {
    All,
    /// Those at tcx ingress of ports, where something is between tcx and the bridge.
    BeforeBridge,
    /// Those at tcx egress of ports, which a frame may not reach after the hook.
    Forward,
    /// Those that frames meet after other hooks, or may.
    AfterOthers,
}

/// `NF_BR_PRI_BRNF`: where `br_netfilter` stands at hooks of bridges.
const OTHER_HOOKS: i32 = 0;

impl Concerned {
    fn includes(self, chain: &BaseChain) -> bool {
        match self {
            Concerned::All => true,
            Concerned::BeforeBridge => matches!(chain.hook, Hook::Prerouting | Hook::Input),
            Concerned::Forward => chain.hook == Hook::Forward,
            Concerned::AfterOthers => {
                chain.hook != Hook::Prerouting || chain.priority >= OTHER_HOOKS
            }
        }
    }
}

/// Whether frames of all bridges pass hooks of IP or ARP (`br_netfilter`).
fn calls_other_hooks() -> bool {
    ["iptables", "ip6tables", "arptables"].iter().any(|name| {
        let value = fs::read_to_string(format!("/proc/sys/net/bridge/bridge-nf-call-{name}"));
        value.is_ok_and(|value| value.trim() != "0")
    })
}

/// Why a chain has no program anywhere, by its hook.
pub(super) fn without_place(hook: Hook) -> Option<&'static str> {
    match hook {
        Hook::Output => Some(
            "it has no programs at output of bridges: at tcx a frame does not say whether its \
             bridge has sent it",
        ),
        Hook::Postrouting => Some(
            "it has no programs at postrouting of bridges: at tcx a frame does not say whether its \
             bridge has sent it",
        ),
        _ => None,
    }
}

impl<'a> Wishes<'a> {
    fn bridge_chains(&self, hook: Hook) -> Vec<&'a LinkedBase> {
        let at_hook = |base: &&LinkedBase| base.family == Family::Bridge && base.base.hook == hook;
        self.bases().filter(at_hook).collect()
    }

    /// What chains of bridge tables want at a device.
    pub(super) fn bridge(&self, link: &Link, to: &mut Vec<Wanted>) -> Result<(), CannotOffload> {
        if link.bridge().is_some() {
            let at = device(link);
            let spot = Spot::BridgeInput { device: link.index };
            let place = format!("bridge input of {}", link.name);
            self.at_bridge(Hook::Input, (spot, Place::Bridge(BridgeHook::Input, &at), place), to)?;
        }
        let bridge = link.port.as_ref().and_then(|port| self.net.link(port.bridge));
        let Some((bridge, ports)) = bridge.and_then(|link| Some((link, &link.bridge()?.ports)))
        else {
            return Ok(());
        };
        let ports: Vec<Device> =
            ports.iter().filter_map(|port| Some(device(self.net.link(*port)?))).collect();
        let (at, device) = (&device(link), link.index);
        let spots = [
            (
                Hook::Prerouting,
                Spot::BridgePrerouting { device },
                BridgeHook::Prerouting(bridge.mac),
                format!("bridge prerouting of {}", link.name),
            ),
            (
                Hook::Input,
                Spot::BridgeGroups { device },
                BridgeHook::Groups,
                format!("bridge input of {}, link-local groups", link.name),
            ),
            (
                Hook::Forward,
                Spot::BridgeForward { device },
                BridgeHook::Forward(&ports),
                format!("bridge forward to {}", link.name),
            ),
        ];
        for (hook, spot, bridge_hook, place) in spots {
            self.at_bridge(hook, (spot, Place::Bridge(bridge_hook, at), place), to)?;
        }
        Ok(())
    }

    fn at_bridge(
        &self,
        hook: Hook,
        at: (Spot, Place<'_>, String),
        to: &mut Vec<Wanted>,
    ) -> Result<(), CannotOffload> {
        let all = self.bridge_chains(hook);
        if all.is_empty() {
            return Ok(());
        }
        self.attach(Chains::of(self, all), at, to)
    }

    /// Refuses what is not exact on the bridges that there are. Chains of bridge tables meet frames
    /// of all bridges.
    pub(super) fn only_plain_bridges(&self, base: &LinkedBase) -> Result<(), CannotOffload> {
        let all = self.not_plain.get_or_init(|| self.look_at_bridges());
        match all.iter().find(|found| found.concerns.includes(&base.base)) {
            Some(NotPlain { place, reason, .. }) => {
                Err(ChainName(self.linked, base).refused(place, *reason))
            }
            None => Ok(()),
        }
    }

    /// What makes bridges other than chains take them for.
    fn look_at_bridges(&self) -> Vec<NotPlain> {
        let links = self.net.links();
        let lowers: BTreeSet<u32> =
            links.iter().filter_map(|link| Some(link.vlan()?.lower)).collect();
        let (mut all, mut any) = (Vec::new(), false);
        let mut add = |concerns, place, reason| all.push(NotPlain { concerns, place, reason });
        for link in links {
            if let Some(bridge) = link.bridge() {
                any = true;
                if bridge.call_ip || bridge.call_ip6 {
                    let place = format!("bridge {}", link.name);
                    let reason = "its frames pass hooks of IP (`nf_call_iptables`)";
                    add(Concerned::AfterOthers, place, reason);
                }
                let mtu = |port: &u32| self.net.link(*port).map(|link| link.mtu);
                let mtus: BTreeSet<_> = bridge.ports.iter().filter_map(mtu).collect();
                if mtus.len() > 1 {
                    let place = format!("bridge {}", link.name);
                    let reason = "its ports have different MTUs: after the hook it drops frames \
                                  that are too long for a port, which never come to tcx";
                    add(Concerned::Forward, place, reason);
                }
            }
            if link.port.is_none() {
                continue;
            }
            let place = format!("device {}", link.name);
            if self.config.ingress(&link.name).is_none() {
                let reason = "this port of a bridge is not among the devices that chains may be \
                              attached to";
                add(Concerned::All, place.clone(), reason);
            }
            if lowers.contains(&link.index) {
                let reason = "VLAN devices on this port take frames before its bridge";
                add(Concerned::BeforeBridge, place, reason);
            }
        }
        if any && calls_other_hooks() {
            let reason = "frames of bridges pass hooks of IP (net.bridge.bridge-nf-call-*tables)";
            add(Concerned::AfterOthers, KERNEL.into(), reason);
        }
        all
    }
}
