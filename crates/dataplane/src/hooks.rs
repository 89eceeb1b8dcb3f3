// SPDX-License-Identifier: Apache-2.0

//! Hook lists: which base chains and stages see a packet at a hook, in which order.
//!
//! Besides base chains a list holds what the kernel registers at fixed priorities when rules need
//! it ([`penstock_ruleset::Needs`]): defragmentation, connection tracking, NAT. A list is run by
//! [`Worker::run_list`](crate::worker::Worker::run_list).

use std::cmp::Reverse;
use std::sync::Arc;

use penstock_ebpfvm::{Counts, Program};
use penstock_jit::{self as jit, Bursts, List};
use penstock_net::{Link, Network};
use penstock_packet::Packet;
use penstock_program::image::{ChainIndex, FlowtableIndex};
use penstock_program::{Context, Hook};
use penstock_ruleset::link::{Linked, LinkedBase, LinkedFlowtable};
use penstock_ruleset::model::ChainType;
use penstock_ruleset::needs::PerFamily;
use penstock_ruleset::{Family, LoadedProgram};

use crate::bpf::{BpfHook, BpfPrograms};
use crate::settings::Settings;

/// Protocol families that have lists of their own. Chains of `inet` tables are in both IP lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Protocol {
    Ip = 0,
    Ip6 = 1,
    Arp = 2,
    Bridge = 3,
}

/// A base chain in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) chain: ChainIndex,
    pub(crate) family: Family,
    pub(crate) kind: ChainType,
}

/// The devices that a hook knows: none of arrival at output, none of departure before routing.
pub(crate) fn devices(hook: Hook, packet: &Packet) -> (u32, u32) {
    let (iif, oif) = (packet.meta.iif, packet.meta.oif);
    match hook {
        Hook::Ingress | Hook::Prerouting | Hook::Input => (iif, 0),
        Hook::Forward | Hook::Postrouting => (iif, oif),
        Hook::Output | Hook::Egress => (0, oif),
    }
}

impl Entry {
    /// The context that the chain runs in, in a list of the hook `context`; `None` if it does not
    /// see packets of that ethertype.
    pub(crate) fn context(&self, context: Context, protocol: u16) -> Option<Context> {
        match (self.family, context.hook, protocol) {
            // An inet chain at ingress sees IP only, as its IP family
            // (nft_do_chain_inet_ingress()).
            (Family::Inet, Hook::Ingress, 0x0800) => {
                Some(Context { family: Family::Ip, ..context })
            }
            (Family::Inet, Hook::Ingress, 0x86dd) => {
                Some(Context { family: Family::Ip6, ..context })
            }
            (Family::Inet, Hook::Ingress, _) => None,
            _ => Some(context),
        }
    }
}

/// What a packet passes in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A base chain.
    Chain(Entry),
    /// Fragments become whole packets (`ipv4_conntrack_defrag()`, `ipv6_defrag()`).
    Defrag,
    /// The packet gets its connection (`nf_conntrack_in()`).
    Conntrack,
    /// The connection is bound to what it is translated to, and the packet follows
    /// (`nf_nat_inet_fn()`).
    Nat,
    /// Packets of flows that left the rules are forwarded (`nf_flow_offload_inet_hook()`).
    Flowtable(FlowtableIndex),
    /// Handshakes with servers that a proxy answers for (`ipv4_synproxy_hook()`,
    /// `ipv6_synproxy_hook()`).
    Synproxy,
    /// A new connection is entered into the table, since its packet came through (`nf_confirm()`).
    Confirm,
    /// A frame on a bridge becomes a whole packet and gets its connection (`nf_ct_bridge_pre()`).
    BridgeConntrack,
    /// A frame for the bridge device that is not for this host alone forgets its new connection
    /// (`nf_ct_bridge_in()`).
    BridgeInput,
    /// As [`Stage::Confirm`]; reassembled packets are refragmented (`nf_ct_bridge_post()`).
    BridgeConfirm,
    /// IP packets on a bridge pass the hook of IP (`br_netfilter_hooks.c`).
    BridgeIp(Hook),
    /// A BPF program (`nf_hook_run_bpf()`).
    Program(ProgramIndex),
}

/// The number of a program in the lists of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramIndex(u16);

/// A BPF program in a list.
#[derive(Debug)]
pub(crate) struct HookProgram {
    pub(crate) program: Program,
    /// The hook in words, or the chain.
    pub(crate) label: Arc<str>,
    pub(crate) counts: Arc<Counts>,
    /// The chain that it stands for.
    pub(crate) chain: Option<Entry>,
}

impl PartialEq for HookProgram {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counts, &other.counts) && self.chain == other.chain
    }
}

impl Eq for HookProgram {}

/// What a list does that has no chains: these stages, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuiltIn {
    pub(crate) defragments: bool,
    pub(crate) tracks: bool,
    pub(crate) translates: bool,
    pub(crate) confirms: bool,
}

impl BuiltIn {
    /// `None` if there is something else.
    fn of(stages: &[Stage]) -> Option<BuiltIn> {
        stages.iter().try_fold(BuiltIn::default(), |mut all, stage| {
            match stage {
                Stage::Defrag => all.defragments = true,
                Stage::Conntrack => all.tracks = true,
                Stage::Nat => all.translates = true,
                Stage::Confirm => all.confirms = true,
                Stage::Chain(_)
                | Stage::Flowtable(_)
                | Stage::Synproxy
                | Stage::BridgeConntrack
                | Stage::BridgeInput
                | Stage::BridgeConfirm
                | Stage::BridgeIp(_)
                | Stage::Program(_) => return None,
            }
            Some(all)
        })
    }
}

/// What packets pass at a hook, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HookList {
    pub(crate) stages: Vec<Stage>,
    /// Some of them are chains, or BPF programs.
    pub(crate) has_chains: bool,
    /// Number of the list among those that code is made for; chains that nothing is gained with
    /// have none.
    pub(crate) code: Option<usize>,
    /// What it does, if there are no chains and nothing else that is rare.
    pub(crate) built_in: Option<BuiltIn>,
}

impl HookList {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Whether packets pass a flowtable here.
    pub(crate) fn has_flowtable(&self, flowtable: FlowtableIndex) -> bool {
        self.stages.contains(&Stage::Flowtable(flowtable))
    }
}

static NOTHING: HookList = HookList {
    stages: Vec::new(),
    has_chains: false,
    code: None,
    built_in: Some(BuiltIn {
        defragments: false,
        tracks: false,
        translates: false,
        confirms: false,
    }),
};

/// `NF_IP_PRI_CONNTRACK_DEFRAG`.
const DEFRAG: i32 = -400;
/// `NF_IP_PRI_CONNTRACK`.
const CONNTRACK: i32 = -200;
/// `NF_IP_PRI_NAT_DST`.
const NAT_DESTINATION: i32 = -100;
/// `NF_IP_PRI_NAT_SRC`.
const NAT_SOURCE: i32 = 100;
/// `NF_BR_PRI_BRNF`.
const BRIDGE_IP: i32 = 0;
/// `NF_IP_PRI_CONNTRACK_CONFIRM`.
const CONFIRM: i32 = i32::MAX;
/// In front of it.
const SYNPROXY: i32 = CONFIRM - 1;

/// A stage before its list is in order.
#[derive(Clone, Copy, Debug)]
struct Registered {
    priority: i32,
    /// With equal priority, what was registered later runs first. Chains have even numbers, BPF
    /// programs odd ones between. Stages count as registered after all chains: rules that need them
    /// come after the chains of their ruleset.
    order: Reverse<u64>,
    stage: Stage,
}

/// The place of a chain in the order of registration.
fn order_of(registered: u64) -> Reverse<u64> {
    Reverse(registered.saturating_mul(2))
}

/// Number of lists that belong to no device: four families with the five hooks from prerouting to
/// postrouting.
const LISTS: usize = 20;
const INGRESS: u32 = 20;
const EGRESS: u32 = 21;
const EARLY: u32 = 22;

/// What the lists of a protocol do that packets pass on their way through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FamilyHooks {
    /// `prerouting` and `postrouting`; `None` where there are chains and the like.
    pub(crate) before: Option<BuiltIn>,
    pub(crate) after: Option<BuiltIn>,
    /// The stage of `prerouting` after connection tracking, if that comes before all chains.
    pub(crate) tracked: Option<usize>,
    /// Nothing on the way can change a header that says where the next one is.
    pub(crate) untouched: bool,
    /// Nothing on the way sees a packet that is no fragment.
    pub(crate) empty: bool,
}

impl FamilyHooks {
    fn of(prerouting: &HookList, forward: &HookList, postrouting: &HookList) -> Self {
        let (before, after) = (prerouting.built_in, postrouting.built_in);
        let defragments = prerouting.stages.first() == Some(&Stage::Defrag);
        let at = usize::from(defragments);
        let tracked = prerouting.stages.get(at).filter(|stage| **stage == Stage::Conntrack);
        let tracked = tracked.map(|_| at + 1);
        let keeps = |built_in: Option<BuiltIn>| built_in.is_some_and(|stages| !stages.translates);
        let untouched = forward.is_empty() && keeps(before) && keeps(after);
        let does = |built_in: BuiltIn| built_in.tracks || built_in.translates || built_in.confirms;
        let empty = |built_in: Option<BuiltIn>| built_in.is_some_and(|stages| !does(stages));
        let empty = forward.is_empty() && empty(before) && empty(after);
        FamilyHooks { before, after, tracked, untouched, empty }
    }
}

/// All lists of a generation. An empty list costs the test of one bit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hooks {
    /// A bit per list that is not empty; devices share one for ingress and one for egress.
    used: u32,
    tracks: bool,
    /// Of IPv4 and IPv6.
    families: [FamilyHooks; 2],
    lists: [HookList; LISTS],
    /// Chains of type nat, which the NAT stage of a hook walks for packets of connections that are
    /// not translated yet.
    nat: [Vec<Entry>; LISTS],
    /// By index of the device.
    ingress: Vec<HookList>,
    egress: Vec<HookList>,
    /// Flowtables before everything else, by index of the device.
    early: Vec<Vec<FlowtableIndex>>,
    /// The lists that code is made for.
    code: Vec<List>,
    /// BPF programs in the lists.
    programs: Vec<HookProgram>,
}

fn slot(protocol: Protocol, hook: Hook) -> Option<usize> {
    let hook = match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
        Hook::Ingress | Hook::Egress => return None,
    };
    Some(protocol as usize * 5 + hook)
}

/// Whether a device name fits what a chain names: the same, or the beginning of it where that ends
/// with `*`.
pub(crate) fn names(pattern: &str, device: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => device.starts_with(start),
        None => pattern == device,
    }
}

/// The lists in the making.
#[derive(Default)]
struct Registry {
    lists: [Vec<Registered>; LISTS],
    nat: [Vec<Registered>; LISTS],
    ingress: Vec<Vec<Registered>>,
    egress: Vec<Vec<Registered>>,
    early: Vec<Vec<Registered>>,
    programs: Vec<HookProgram>,
}

impl Registry {
    /// BPF programs at hooks of netfilter.
    fn attached(&mut self, programs: &BpfPrograms) {
        for attachment in programs.iter() {
            let BpfHook::Netfilter { family, hook, priority, registered } = attachment.hook else {
                continue;
            };
            let protocol = if family == Family::Ip6 { Protocol::Ip6 } else { Protocol::Ip };
            let Some(slot) = slot(protocol, hook) else { continue };
            let Reverse(after) = order_of(registered);
            let stage = self.program(HookProgram {
                program: attachment.program.clone(),
                label: attachment.label.clone(),
                counts: attachment.counts.clone(),
                chain: None,
            });
            let order = Reverse(after.saturating_add(1));
            self.lists[slot].push(Registered { priority, order, stage });
        }
    }

    fn program(&mut self, program: HookProgram) -> Stage {
        self.programs.push(program);
        Stage::Program(ProgramIndex(self.programs.len() as u16 - 1))
    }

    /// Chains for devices that do not exist are in no list.
    fn chain(&mut self, net: &Network, linked: &LinkedBase) {
        let LinkedBase { chain, family, base, program } = linked;
        let entry = Entry { chain: *chain, family: *family, kind: base.kind };
        let stage = match program {
            Some(LoadedProgram { program, counts }) => self.program(HookProgram {
                program: program.clone(),
                label: program.instance().file().into(),
                counts: counts.clone(),
                chain: Some(entry),
            }),
            None => Stage::Chain(entry),
        };
        let entry = Registered { priority: base.priority, order: order_of(base.registered), stage };
        let per_device = match base.hook {
            Hook::Ingress => Some(&mut self.ingress),
            Hook::Egress => Some(&mut self.egress),
            _ => None,
        };
        if let Some(lists) = per_device {
            for link in net.links() {
                if base.devices.iter().any(|d| names(d, &link.name))
                    && let Some(list) = lists.get_mut(link.index as usize)
                {
                    list.push(entry);
                }
            }
            return;
        }
        let protocols: &[Protocol] = match family {
            Family::Inet => &[Protocol::Ip, Protocol::Ip6],
            Family::Ip => &[Protocol::Ip],
            Family::Ip6 => &[Protocol::Ip6],
            Family::Arp => &[Protocol::Arp],
            Family::Bridge => &[Protocol::Bridge],
            Family::Netdev => &[],
        };
        for &protocol in protocols {
            if let Some(slot) = slot(protocol, base.hook) {
                let lists =
                    if base.kind == ChainType::Nat { &mut self.nat } else { &mut self.lists };
                lists[slot].push(entry);
            }
        }
    }

    /// Flowtables are registered for their devices, as chains.
    fn flowtable(&mut self, net: &Network, at: FlowtableIndex, linked: &LinkedFlowtable) {
        let flowtable = &linked.flowtable;
        let stage = Stage::Flowtable(at);
        let entry = Registered {
            priority: flowtable.priority,
            order: order_of(flowtable.registered),
            stage,
        };
        let lists = if flowtable.early { &mut self.early } else { &mut self.ingress };
        for link in net.links() {
            if flowtable.devices.iter().any(|d| names(d, &link.name))
                && let Some(list) = lists.get_mut(link.index as usize)
            {
                list.push(entry);
            }
        }
    }

    /// The NAT stage of a family is registered, for all its hooks, together with the first nat
    /// chain of that family.
    fn nat_stage(&mut self, families: PerFamily, places: &[(Hook, i32)]) {
        let protocols = [(families.ip, Protocol::Ip), (families.ip6, Protocol::Ip6)];
        for (_, protocol) in protocols.into_iter().filter(|(needed, _)| *needed) {
            let hooks = [Hook::Prerouting, Hook::Input, Hook::Output, Hook::Postrouting];
            let chains =
                hooks.into_iter().filter_map(|h| slot(protocol, h)).flat_map(|s| &self.nat[s]);
            let order = chains.map(|c| c.order).max().unwrap_or(Reverse(u64::MAX));
            for &(hook, priority) in places {
                if let Some(slot) = slot(protocol, hook) {
                    self.lists[slot].push(Registered { priority, order, stage: Stage::Nat });
                }
            }
        }
    }

    fn stage(&mut self, families: PerFamily, stage: Stage, places: &[(Hook, i32)]) {
        let protocols = [(families.ip, Protocol::Ip), (families.ip6, Protocol::Ip6)];
        for (_, protocol) in protocols.into_iter().filter(|(needed, _)| *needed) {
            for &(hook, priority) in places {
                if let Some(slot) = slot(protocol, hook) {
                    self.lists[slot].push(Registered { priority, order: Reverse(u64::MAX), stage });
                }
            }
        }
    }
}

impl Registry {
    fn bridge_stage(&mut self, hook: Hook, priority: i32, stage: Stage) {
        if let Some(slot) = slot(Protocol::Bridge, hook) {
            self.lists[slot].push(Registered { priority, order: Reverse(u64::MAX), stage });
        }
    }
}

impl Registry {
    /// The hooks of IP on bridges (`br_nf_ops`), if packets of any pass them: after chains of the
    /// same priority, as if the bridges were there before the chains.
    fn bridge_ip(&mut self, net: &Network, settings: &Settings) {
        let of_all = settings.bridge.call_ip || settings.bridge.call_ip6;
        let calls = |link: &Link| link.bridge().is_some_and(|b| of_all || b.call_ip || b.call_ip6);
        if !net.links().iter().any(calls) {
            return;
        }
        for (hook, priority) in [
            (Hook::Prerouting, BRIDGE_IP),
            (Hook::Forward, BRIDGE_IP),
            (Hook::Input, CONFIRM),
            (Hook::Postrouting, CONFIRM),
        ] {
            self.bridge_stage(hook, priority, Stage::BridgeIp(hook));
        }
    }
}

/// A list in the order in which packets pass it.
fn ordered(mut list: Vec<Registered>) -> Vec<Stage> {
    list.sort_by_key(|r| (r.priority, r.order));
    list.into_iter().map(|r| r.stage).collect()
}

/// The chains of a list of chains only, in order.
fn chains(list: Vec<Registered>) -> Vec<Entry> {
    let chain = |stage| match stage {
        Stage::Chain(entry) => Some(entry),
        Stage::Defrag
        | Stage::Conntrack
        | Stage::Nat
        | Stage::Flowtable(_)
        | Stage::Synproxy
        | Stage::Confirm
        | Stage::BridgeConntrack
        | Stage::BridgeInput
        | Stage::BridgeConfirm
        | Stage::BridgeIp(_)
        | Stage::Program(_) => None,
    };
    ordered(list).into_iter().filter_map(chain).collect()
}

/// The flowtables of a list of flowtables only, in order.
fn flowtables(list: Vec<Registered>) -> Vec<FlowtableIndex> {
    let flowtable = |stage| match stage {
        Stage::Flowtable(at) => Some(at),
        Stage::Chain(_)
        | Stage::Defrag
        | Stage::Conntrack
        | Stage::Nat
        | Stage::Synproxy
        | Stage::Confirm
        | Stage::BridgeConntrack
        | Stage::BridgeInput
        | Stage::BridgeConfirm
        | Stage::BridgeIp(_)
        | Stage::Program(_) => None,
    };
    ordered(list).into_iter().filter_map(flowtable).collect()
}

/// An entry as compiled code knows it, in a list of this family at this hook.
fn code_entry(stage: &Stage, family: Family, ingress: bool) -> jit::Entry {
    match stage {
        // Afterwards it may be routed again.
        Stage::Chain(Entry { kind: ChainType::Route, .. }) => jit::Entry::Stage,
        Stage::Chain(Entry { chain, family: Family::Inet, .. }) if ingress => {
            jit::Entry::InetIngress { chain: *chain }
        }
        Stage::Chain(Entry { chain, .. }) => jit::Entry::Chain { chain: *chain, family },
        Stage::Defrag
        | Stage::Conntrack
        | Stage::Nat
        | Stage::Flowtable(_)
        | Stage::Synproxy
        | Stage::Confirm
        | Stage::BridgeConntrack
        | Stage::BridgeInput
        | Stage::BridgeConfirm
        | Stage::BridgeIp(_)
        | Stage::Program(_) => jit::Entry::Stage,
    }
}

/// A list in order; what code is made for is entered into `code`, each list once.
fn hook_list(
    list: Vec<Registered>,
    family: Family,
    ingress: bool,
    code: &mut Vec<List>,
) -> HookList {
    let stages = ordered(list);
    let rules = |stage: &Stage| matches!(stage, Stage::Chain(_) | Stage::Program(_));
    let has_chains = stages.iter().any(rules);
    let entries: Vec<_> = stages.iter().map(|stage| code_entry(stage, family, ingress)).collect();
    let worth = entries.iter().any(|entry| *entry != jit::Entry::Stage);
    let number = worth.then(|| {
        // Frames come in bursts at ingress.
        let bursts = if ingress { Bursts::WhenSafe } else { Bursts::Never };
        // What leaves a device has mostly passed forwarding unchanged.
        let egress_precheck = family == Family::Netdev && !ingress;
        let list = List { entries, bursts, frames: ingress, egress_precheck };
        code.iter().position(|other| *other == list).unwrap_or_else(|| {
            code.push(list);
            code.len() - 1
        })
    });
    let built_in = BuiltIn::of(&stages);
    HookList { stages, has_chains, code: number, built_in }
}

impl Hooks {
    /// The lists that code is made for.
    pub(crate) fn code_lists(&self) -> &[List] {
        &self.code
    }

    /// The lists of a linked generation, without chains that devices (by index) run themselves.
    pub(crate) fn new(
        net: &Network,
        linked: &Linked,
        offloaded: &[(ChainIndex, u32)],
        programs: &BpfPrograms,
        settings: &Settings,
    ) -> Self {
        let devices = net.last_index() as usize + 1;
        let mut registry = Registry {
            ingress: vec![Vec::new(); devices],
            egress: vec![Vec::new(); devices],
            early: vec![Vec::new(); devices],
            ..Registry::default()
        };
        linked.bases.iter().for_each(|base| registry.chain(net, base));
        registry.attached(programs);
        for (chain, device) in offloaded {
            let is = |stage: &Stage| matches!(stage, Stage::Chain(entry) if entry.chain == *chain);
            if let Some(list) = registry.ingress.get_mut(*device as usize) {
                list.retain(|r| !is(&r.stage));
            }
        }
        for (at, flowtable) in (0..).zip(&linked.flowtables) {
            registry.flowtable(net, FlowtableIndex(at), flowtable);
        }
        let needs = &linked.needs;
        let before_routing = |priority| [(Hook::Prerouting, priority), (Hook::Output, priority)];
        let after_routing = |priority| [(Hook::Postrouting, priority), (Hook::Input, priority)];
        registry.stage(needs.defrag, Stage::Defrag, &before_routing(DEFRAG));
        registry.stage(needs.conntrack, Stage::Conntrack, &before_routing(CONNTRACK));
        registry.nat_stage(needs.nat, &before_routing(NAT_DESTINATION));
        registry.nat_stage(needs.nat, &after_routing(NAT_SOURCE));
        registry.stage(needs.synproxy, Stage::Synproxy, &after_routing(SYNPROXY));
        registry.stage(needs.conntrack, Stage::Confirm, &after_routing(CONFIRM));
        if needs.conntrack_bridge {
            registry.bridge_stage(Hook::Prerouting, CONNTRACK, Stage::BridgeConntrack);
            registry.bridge_stage(Hook::Input, CONFIRM, Stage::BridgeInput);
            registry.bridge_stage(Hook::Postrouting, CONFIRM, Stage::BridgeConfirm);
        }
        registry.bridge_ip(net, settings);

        let mut used = 0;
        for (slot, list) in registry.lists.iter().enumerate() {
            used |= u32::from(!list.is_empty()) << slot;
        }
        used |= u32::from(registry.ingress.iter().any(|l| !l.is_empty())) << INGRESS;
        used |= u32::from(registry.egress.iter().any(|l| !l.is_empty())) << EGRESS;
        used |= u32::from(registry.early.iter().any(|l| !l.is_empty())) << EARLY;
        let mut code = Vec::new();
        let mut slots = 0..LISTS;
        let lists = registry.lists.map(|list| {
            let families = [Family::Ip, Family::Ip6, Family::Arp, Family::Bridge];
            let family = families[slots.next().unwrap_or(0) / 5 % 4];
            let mut list = hook_list(list, family, false, &mut code);
            // After each chain the bridge checks whether the frame is routed (`meta broute`).
            list.code = list.code.filter(|_| family != Family::Bridge || list.stages.len() == 1);
            list
        });
        let mut per_device = |lists: Vec<Vec<Registered>>, ingress| {
            lists
                .into_iter()
                .map(|list| hook_list(list, Family::Netdev, ingress, &mut code))
                .collect()
        };
        let (ingress, egress) =
            (per_device(registry.ingress, true), per_device(registry.egress, false));
        let tracks = needs.conntrack.any();
        let early = registry.early.into_iter().map(flowtables).collect();
        let (nat, programs) = (registry.nat.map(chains), registry.programs);
        let families = [Protocol::Ip, Protocol::Ip6].map(|protocol| {
            let list = |hook| slot(protocol, hook).map_or(&NOTHING, |slot| &lists[slot]);
            FamilyHooks::of(list(Hook::Prerouting), list(Hook::Forward), list(Hook::Postrouting))
        });
        Hooks { used, early, tracks, families, lists, nat, ingress, egress, code, programs }
    }

    /// All BPF programs in the lists.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &HookProgram> {
        self.programs.iter()
    }

    /// A BPF program of a list.
    #[inline]
    pub(crate) fn program(&self, index: ProgramIndex) -> Option<&HookProgram> {
        self.programs.get(usize::from(index.0))
    }

    /// Whether received packets get connections.
    pub(crate) fn tracks(&self) -> bool {
        self.tracks
    }

    /// What a stage of a list that code is made for is called.
    pub(crate) fn stage_name(&self, code: usize, entry: usize) -> String {
        let lists = self.lists.iter().chain(&self.ingress).chain(&self.egress);
        let stage =
            lists.into_iter().find(|l| l.code == Some(code)).and_then(|l| l.stages.get(entry));
        let name = match stage {
            Some(Stage::Chain(_)) => "chain of type route",
            Some(Stage::Defrag) => "defragmentation",
            Some(Stage::Conntrack) => "connection tracking",
            Some(Stage::Nat) => "translation",
            Some(Stage::Flowtable(_)) => "flowtable",
            Some(Stage::Synproxy) => "synproxy",
            Some(Stage::Confirm) => "confirmation",
            Some(Stage::BridgeConntrack) => "connection tracking of bridged frames",
            Some(Stage::BridgeInput) => "connections of frames for the bridge",
            Some(Stage::BridgeConfirm) => "confirmation of bridged frames",
            Some(Stage::BridgeIp(_)) => "hook of IP on a bridge",
            Some(Stage::Program(_)) => "BPF program",
            None => "stage",
        };
        name.to_owned()
    }

    /// What packets pass at an IP or ARP hook.
    #[inline]
    pub(crate) fn list(&self, protocol: Protocol, hook: Hook) -> &HookList {
        match slot(protocol, hook) {
            Some(slot) if self.used & 1 << slot != 0 => &self.lists[slot],
            _ => &NOTHING,
        }
    }

    /// What the lists of IPv4, or of IPv6, do with packets on their way through.
    #[inline]
    pub(crate) fn family(&self, v6: bool) -> &FamilyHooks {
        &self.families[usize::from(v6)]
    }

    /// Chains of type nat at an IP hook.
    pub(crate) fn nat(&self, protocol: Protocol, hook: Hook) -> &[Entry] {
        slot(protocol, hook).map_or(&[], |slot| &self.nat[slot])
    }

    /// What frames pass at ingress of a device.
    #[inline]
    pub(crate) fn ingress(&self, device: u32) -> &HookList {
        if self.used & 1 << INGRESS == 0 {
            return &NOTHING;
        }
        self.ingress.get(device as usize).unwrap_or(&NOTHING)
    }

    /// Whether flowtables are before everything else on some device.
    #[inline]
    pub(crate) fn has_early(&self) -> bool {
        self.used & 1 << EARLY != 0
    }

    /// Those of a device, in order.
    #[inline]
    pub(crate) fn early(&self, device: u32) -> &[FlowtableIndex] {
        self.early.get(device as usize).map_or(&[], Vec::as_slice)
    }

    /// What frames pass at egress of a device.
    #[inline]
    pub(crate) fn egress(&self, device: u32) -> &HookList {
        if self.used & 1 << EGRESS == 0 {
            return &NOTHING;
        }
        self.egress.get(device as usize).unwrap_or(&NOTHING)
    }
}
