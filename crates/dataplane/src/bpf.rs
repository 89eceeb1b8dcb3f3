// SPDX-License-Identifier: Apache-2.0

//! BPF programs at the hooks of the path: where they are attached, what they did, and what a worker
//! runs them with.

use std::fmt;
use std::sync::Arc;

use penstock_ebpfvm::{Context, Counts, Fault, Netfilter, Program, ProgramKind, Skb, Xdp};
use penstock_program::{Family, Hook};
use penstock_tc::Hook as TcHook;

use crate::reason::Place;

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfHook {
    /// Frames that arrive on a device, before everything else.
    Xdp {
        /// The index of the device.
        device: u32,
    },
    /// Packets that arrive on a device, before the filters of tc and netfilter's ingress.
    TcIngress {
        /// The index of the device.
        device: u32,
    },
    /// Packets that leave by a device, after netfilter's egress and before the filters of tc.
    TcEgress {
        /// The index of the device.
        device: u32,
    },
    /// A hook of netfilter, among its chains (`BPF_NETFILTER`).
    Netfilter {
        /// [`Family::Ip`] or [`Family::Ip6`].
        family: Family,
        /// From `prerouting` to `postrouting`.
        hook: Hook,
        /// Lower ones come first.
        priority: i32,
        /// How many base chains had been registered before it: of equal priority what was
        /// registered later runs first.
        registered: u64,
    },
}

impl BpfHook {
    /// Programs of which kind it takes.
    pub fn kind(&self) -> ProgramKind {
        match self {
            BpfHook::Xdp { .. } => ProgramKind::Xdp,
            BpfHook::TcIngress { .. } | BpfHook::TcEgress { .. } => ProgramKind::Tc,
            BpfHook::Netfilter { .. } => ProgramKind::Netfilter,
        }
    }
}

/// A program that is attached.
#[derive(Debug)]
pub struct BpfAttachment {
    /// Where.
    pub hook: BpfHook,
    /// The hook in words, for messages: `xdp lan`.
    pub label: Arc<str>,
    /// The program.
    pub program: Program,
    /// What became of packets.
    pub counts: Arc<Counts>,
}

impl BpfAttachment {
    /// A program at a hook, with nothing counted.
    pub fn new(hook: BpfHook, label: &str, program: Program) -> Self {
        BpfAttachment { hook, label: label.into(), program, counts: Arc::default() }
    }
}

/// Why a program cannot be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfAttachError {
    /// It is no program for the hook.
    Kind,
    /// The lowest and the highest priority are not for programs (`ERANGE`,
    /// `net/netfilter/nf_bpf_link.c`).
    Priority,
    /// Another program has the device, or the priority at the hook (`EBUSY`).
    Busy,
    /// It is no hook of IP.
    Hook,
}

impl fmt::Display for BpfAttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BpfAttachError::Kind => "the program is not for this hook",
            BpfAttachError::Priority => "the lowest and the highest priority are not for programs",
            BpfAttachError::Busy => "another program is there",
            BpfAttachError::Hook => {
                "programs are at prerouting, input, forward, output and postrouting of ip and ip6"
            }
        })
    }
}

impl std::error::Error for BpfAttachError {}

/// All programs that are attached to a path, in the order in which they were.
#[derive(Clone, Debug, Default)]
pub struct BpfPrograms(Arc<[Arc<BpfAttachment>]>);

impl BpfPrograms {
    /// These and another one, behind those at the same place of a device.
    ///
    /// # Errors
    /// It cannot be there, or not beside one that is.
    pub fn with(&self, new: Arc<BpfAttachment>) -> Result<Self, BpfAttachError> {
        if new.program.kind() != Some(new.hook.kind()) {
            return Err(BpfAttachError::Kind);
        }
        if let BpfHook::Netfilter { family, hook, priority, .. } = new.hook {
            if matches!(hook, Hook::Ingress | Hook::Egress)
                || !matches!(family, Family::Ip | Family::Ip6)
            {
                return Err(BpfAttachError::Hook);
            }
            if matches!(priority, i32::MIN | i32::MAX) {
                return Err(BpfAttachError::Priority);
            }
        }
        let place = |hook: &BpfHook| match *hook {
            BpfHook::Netfilter { family, hook, priority, .. } => {
                BpfHook::Netfilter { family, hook, priority, registered: 0 }
            }
            other => other,
        };
        let single = !matches!(new.hook, BpfHook::TcIngress { .. } | BpfHook::TcEgress { .. });
        if single && self.0.iter().any(|old| place(&old.hook) == place(&new.hook)) {
            return Err(BpfAttachError::Busy);
        }
        Ok(BpfPrograms(self.0.iter().cloned().chain([new]).collect()))
    }

    /// These without some of them.
    pub fn without(&self, gone: impl Fn(&BpfAttachment) -> bool) -> Self {
        BpfPrograms(self.0.iter().filter(|program| !gone(program)).cloned().collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<BpfAttachment>> {
        self.0.iter()
    }
}

/// A program that was ended, which a sink is told once for each.
#[derive(Clone, Copy, Debug)]
pub struct BpfFault<'a> {
    /// The hook in words, or the chain.
    pub label: &'a str,
    /// The program.
    pub program: &'a Program,
    /// Why it was ended.
    pub fault: Fault,
}

/// A packet of which the program of a chain makes something else than the rules of the chain, which
/// a sink is told once for each chain.
#[derive(Clone, Copy, Debug)]
pub struct BpfDifference<'a> {
    /// The program.
    pub program: &'a Program,
    /// The chain, with the rule that decides on the packet, if one does.
    pub place: Place<'a>,
    /// Whether the program lets it pass; `None` if it was ended.
    pub passes: Option<bool>,
    /// What the rules do.
    pub rules: BpfRules,
}

/// What the rules of a chain make of a packet, beside its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfRules {
    /// They accept it.
    Accept,
    /// They drop it.
    Drop,
    /// They queue it, or take it in another way: no program can.
    Take,
}

impl BpfRules {
    /// What is the same as a program's verdict.
    pub(crate) fn of(passes: bool) -> Self {
        if passes { BpfRules::Accept } else { BpfRules::Drop }
    }
}

/// What a worker runs programs with.
#[derive(Debug, Default)]
pub(crate) struct Bpf {
    /// By the index of the device.
    pub(crate) xdp: Vec<Option<Arc<BpfAttachment>>>,
    ingress: Vec<Arc<[Arc<BpfAttachment>]>>,
    egress: Vec<Arc<[Arc<BpfAttachment>]>>,
    has_xdp: bool,
    /// The rules of chains with programs run, too.
    pub(crate) checks: bool,
    /// Contexts that are used again; `None` while a program runs, and before the first one.
    pub(crate) contexts: [Option<Box<Context>>; 3],
}

/// Which of the contexts.
pub(crate) const XDP: usize = 0;
pub(crate) const SKB: usize = 1;
pub(crate) const NETFILTER: usize = 2;

/// Adds an attachment to those of a device.
fn add(devices: &mut Vec<Arc<[Arc<BpfAttachment>]>>, device: u32, attachment: &Arc<BpfAttachment>) {
    let device = device as usize;
    if devices.len() <= device {
        devices.resize_with(device + 1, Default::default);
    }
    if let Some(place) = devices.get_mut(device) {
        *place = place.iter().chain([attachment]).cloned().collect();
    }
}

impl Bpf {
    /// Other programs are in force.
    pub(crate) fn set(&mut self, programs: &BpfPrograms) {
        let (contexts, checks) = (std::mem::take(&mut self.contexts), self.checks);
        *self = Bpf { contexts, checks, ..Bpf::default() };
        for attachment in programs.iter() {
            match attachment.hook {
                BpfHook::Xdp { device } => {
                    let device = device as usize;
                    if self.xdp.len() <= device {
                        self.xdp.resize(device + 1, None);
                    }
                    self.xdp[device] = Some(attachment.clone());
                    self.has_xdp = true;
                }
                BpfHook::TcIngress { device } => add(&mut self.ingress, device, attachment),
                BpfHook::TcEgress { device } => add(&mut self.egress, device, attachment),
                // They are in the lists of hooks.
                BpfHook::Netfilter { .. } => {}
            }
        }
    }

    /// Whether some device has a program of XDP.
    pub(crate) fn has_xdp(&self) -> bool {
        self.has_xdp
    }

    /// Whether some device has programs of traffic control.
    pub(crate) fn has_tc(&self) -> bool {
        !self.ingress.is_empty() || !self.egress.is_empty()
    }

    /// The programs of traffic control at a hook of a device.
    #[inline]
    pub(crate) fn tc(&self, hook: TcHook, device: u32) -> Option<&Arc<[Arc<BpfAttachment>]>> {
        let devices = match hook {
            TcHook::Ingress => &self.ingress,
            TcHook::Egress => &self.egress,
        };
        devices.get(device as usize).filter(|programs| !programs.is_empty())
    }

    /// A context to run a program with.
    pub(crate) fn take(&mut self, which: usize) -> Box<Context> {
        let context = self.contexts.get_mut(which).and_then(Option::take);
        context.unwrap_or_else(|| {
            Box::new(match which {
                XDP => Context::Xdp(Xdp::default()),
                SKB => Context::Skb(Box::<Skb>::default()),
                _ => Context::Netfilter(Box::<Netfilter>::default()),
            })
        })
    }

    /// Gives one back.
    pub(crate) fn give_back(&mut self, which: usize, context: Box<Context>) {
        if let Some(place) = self.contexts.get_mut(which) {
            *place = Some(context);
        }
    }
}
