// SPDX-License-Identifier: Apache-2.0

//! What is configured on devices: filters at their two hooks, and their queueing disciplines.

use std::collections::BTreeMap;

use penstock_packet::Packet;

use crate::action::Action;
use crate::flower::Flower;
use crate::rate::Bucket;
use crate::u32_match::U32Match;

/// Where filters stand on a device (`clsact`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// After taps, before netfilter's ingress.
    Ingress,
    /// After netfilter's egress, before the queue.
    Egress,
}

/// How a filter looks at packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything.
    MatchAll,
    /// The mark is the handle, under a mask.
    Fw { mark: u32, mask: u32 },
    /// Words of the packet.
    U32(U32Match),
    /// Fields by name.
    Flower(Box<Flower>),
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::MatchAll => "matchall",
            Kind::Fw { .. } => "fw",
            Kind::U32(_) => "u32",
            Kind::Flower(_) => "flower",
        }
    }
}

/// Any protocol (`ETH_P_ALL`).
pub(crate) const ALL: u16 = 3;

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Lower ones come first.
    pub(crate) prio: u16,
    /// Ethertype, or [`ALL`]; that of the tag for packets that carry one.
    pub(crate) protocol: u16,
    pub(crate) kind: Kind,
    /// Class that it chooses in a queueing discipline.
    pub(crate) class: Option<u32>,
    pub(crate) actions: Vec<Action>,
}

/// The ethertype that filters ask for: that of the tag, if there is one.
#[inline]
pub(crate) fn protocol_of(packet: &Packet) -> u16 {
    packet.meta.vlan.map_or(packet.meta.protocol, |tag| tag.protocol)
}

/// A queueing discipline without its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Discipline {
    /// `pfifo`, `bfifo`: so many packets, or bytes.
    Fifo { limit: usize, bytes: bool },
    /// `prio`: bands, band of each priority.
    Prio { bands: Vec<usize>, map: [u8; 16], filters: Vec<Filter> },
    /// `tbf`: leaves at a rate; frames longer than `longest` do not pass.
    Tbf { bucket: Bucket, peak: Option<Bucket>, longest: usize, child: usize },
}

/// One node in the tree of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Major number in the upper half.
    pub(crate) handle: u32,
    pub(crate) discipline: Discipline,
}

/// What one device has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// `clsact`, or only `ingress`.
    pub(crate) hooks: Option<bool>,
    pub(crate) ingress: Vec<Filter>,
    pub(crate) egress: Vec<Filter>,
    /// The root is the first.
    pub(crate) nodes: Vec<Node>,
}

/// Traffic control of all devices. It does not change; see [`State`](crate::State) and
/// [`Queues`](crate::Queues) for what does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub(crate) devices: BTreeMap<u32, Device>,
    /// Policers, for the size of the state.
    pub(crate) policers: usize,
    /// What there is on each device, by its index: made of the rest by [`Config::finish`].
    brief: Vec<Brief>,
}

/// What there is on a device, so that most packets need not ask for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Brief {
    ingress: Filtered,
    egress: Filtered,
    queue: bool,
}

/// Which packets filters may match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Filtered {
    /// There are no filters.
    #[default]
    None,
    /// Those of this ethertype.
    Protocol(u16),
    /// Any.
    All,
}

impl Filtered {
    fn by(filters: &[Filter]) -> Self {
        match filters {
            [] => Filtered::None,
            [first, rest @ ..]
                if first.protocol != ALL && rest.iter().all(|f| f.protocol == first.protocol) =>
            {
                Filtered::Protocol(first.protocol)
            }
            _ => Filtered::All,
        }
    }
}

impl Config {
    pub(crate) fn filters(&self, hook: Hook, device: u32) -> &[Filter] {
        let Some(device) = self.devices.get(&device) else { return &[] };
        match hook {
            Hook::Ingress => &device.ingress,
            Hook::Egress => &device.egress,
        }
    }

    /// Notes what packets ask for, once all devices are there.
    pub(crate) fn finish(&mut self) {
        for (&device, d) in &self.devices {
            let (ingress, egress) = (Filtered::by(&d.ingress), Filtered::by(&d.egress));
            let device = device as usize;
            self.brief.resize(self.brief.len().max(device + 1), Brief::default());
            self.brief[device] = Brief { ingress, egress, queue: !d.nodes.is_empty() };
        }
    }

    #[inline]
    fn filtered(&self, hook: Hook, device: u32) -> Filtered {
        let Some(brief) = self.brief.get(device as usize) else { return Filtered::None };
        match hook {
            Hook::Ingress => brief.ingress,
            Hook::Egress => brief.egress,
        }
    }

    /// Whether there are filters at a hook of a device.
    #[inline]
    pub fn has_filters(&self, hook: Hook, device: u32) -> bool {
        self.filtered(hook, device) != Filtered::None
    }

    /// Whether there are filters at a hook of a device that may match a packet.
    #[inline]
    pub fn may_match(&self, hook: Hook, device: u32, packet: &Packet) -> bool {
        match self.filtered(hook, device) {
            Filtered::None => false,
            Filtered::Protocol(protocol) => protocol == protocol_of(packet),
            Filtered::All => true,
        }
    }

    /// Whether frames of a device wait in a queue.
    #[inline]
    pub fn has_queue(&self, device: u32) -> bool {
        self.brief.get(device as usize).is_some_and(|brief| brief.queue)
    }
}
