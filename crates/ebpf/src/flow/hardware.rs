// SPDX-License-Identifier: Apache-2.0

//! Flows as the flowtable gives them to devices ([`FlowOffload`]): both directions, by cookie, on
//! ports.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_flowtable::arrival::Encaps;
use penstock_flowtable::offload::{
    FlowOffload, HardwareCounts, HardwareFlow, HardwareHalf, OffloadError,
};
use penstock_flowtable::{Arrival, Xmit, XmitType};

use super::layout::ORIGINAL;
use super::{AddError, FlowHalf, FlowStatistics, Flows};
use penstock_bpf::AttachPoint;

/// What a device of the network is to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Index of the kernel's device on which frames are put and arrive.
    pub device: u32,
    /// Tags that frames have there, outermost first: those of VLAN devices in between.
    pub encaps: Encaps,
    /// Where the program for received packets is attached; `None` without one.
    pub place: Option<AttachPoint>,
    /// Frames can be sent by it from XDP (`NETDEV_XDP_ACT_NDO_XMIT`); from tcx they always can.
    pub xdp_sends: bool,
}

/// Ports by the numbers that devices have in the network. Shared: it changes as devices come and
/// go.
#[derive(Clone, Debug, Default)]
pub struct Ports(Arc<Mutex<HashMap<u32, Port>>>);

impl Ports {
    /// No ports.
    pub fn new() -> Self {
        Ports::default()
    }

    /// Sets a port, or with `None` removes it. Its flows stay.
    pub fn set(&self, device: u32, port: Option<Port>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match port {
            Some(port) => all.insert(device, port),
            None => all.remove(&device),
        };
    }

    fn get(&self, device: u32) -> Option<Port> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&device).copied()
    }
}

/// The maps of flows as a device that forwards them.
#[derive(Debug)]
pub struct Hardware {
    flows: Arc<Flows>,
    ports: Ports,
    /// Flows that are there, on the kernel's devices.
    known: HashMap<u64, Known>,
}

/// A flow that is there.
#[derive(Debug)]
struct Known {
    halves: [HardwareHalf; 2],
    /// As the flowtable described it.
    offered: [HardwareHalf; 2],
    /// Packets and bytes that were told already.
    told: [(u64, u64); 2],
    /// It was removed: a port is gone, or can no longer send.
    gone: bool,
}

impl Known {
    /// What is new in the statistics of both directions; times become those since the epoch.
    fn counts(&mut self, halves: [Option<FlowStatistics>; 2]) -> HardwareCounts {
        let used = halves.iter().flatten().map(|s| s.used).max().unwrap_or(0);
        let used = if used == 0 { 0 } else { used.saturating_add(monotonic_epoch()) };
        let mut counts = HardwareCounts { used, ..HardwareCounts::default() };
        for ((count, told), now) in counts.packets.iter_mut().zip(&mut self.told).zip(halves) {
            let Some(FlowStatistics { packets, bytes, .. }) = now else { continue };
            *count = (packets.saturating_sub(told.0), bytes.saturating_sub(told.1));
            *told = (packets, bytes);
        }
        counts
    }
}

/// A half on the kernel's devices.
struct Placed {
    arrival: Arrival,
    xmit: Xmit,
}

impl Hardware {
    /// A device that takes flows into these maps.
    pub fn new(flows: Arc<Flows>, ports: Ports) -> Self {
        Hardware { flows, ports, known: HashMap::new() }
    }

    /// `None` if a device is no port, or the program that sees the packets cannot do what they
    /// need.
    fn place(&self, half: &HardwareHalf) -> Option<Placed> {
        let from =
            self.ports.get(half.arrival.device).filter(|p| p.encaps.as_slice().is_empty())?;
        let to = self.ports.get(half.xmit.device)?;
        let (mut arrival, mut xmit) = (half.arrival, half.xmit);
        arrival.device = from.device;
        xmit.device = to.device;
        match xmit.xmit_type {
            // They have the tags of the devices that they leave through.
            XmitType::Neigh => {
                xmit.encaps = to.encaps;
                for inner in half.xmit.encaps.as_slice() {
                    xmit.encaps.push(*inner).then_some(())?;
                }
            }
            XmitType::Direct => to.encaps.as_slice().is_empty().then_some(())?,
            XmitType::Xfrm(_) => return None,
        }
        let placed = Placed { arrival, xmit };
        match from.place? {
            AttachPoint::Xdp => to.xdp_sends.then_some(placed),
            AttachPoint::Tcx => placed.half(half).suits_tcx().then_some(placed),
        }
    }
}

impl Placed {
    fn half<'a>(&'a self, half: &'a HardwareHalf) -> FlowHalf<'a> {
        FlowHalf { key: &half.key, arrival: &self.arrival, to: &half.leaves, xmit: &self.xmit }
    }
}

/// A half that is on the kernel's devices.
fn known(half: &HardwareHalf) -> FlowHalf<'_> {
    FlowHalf { key: &half.key, arrival: &half.arrival, to: &half.leaves, xmit: &half.xmit }
}

/// When the clock of BPF programs was zero, in nanoseconds since the epoch.
fn monotonic_epoch() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_nanos() as u64).saturating_sub(penstock_bpf::monotonic())
}

impl FlowOffload for Hardware {
    fn add(&mut self, cookie: u64, flow: &HardwareFlow) -> Result<(), OffloadError> {
        let placed = flow.halves.each_ref().map(|half| self.place(half));
        let [Some(there), Some(back)] = &placed else { return Err(OffloadError::Unsupported) };
        let [original, reply] = &flow.halves;
        let halves = [there.half(original), back.half(reply)];
        if halves.iter().any(|half| self.flows.check(half).is_err()) {
            return Err(OffloadError::Unsupported);
        }
        for (n, half) in halves.iter().enumerate() {
            let flags = if n == 0 { ORIGINAL } else { 0 };
            if let Err(error) = self.flows.add_flagged(half, 0, flags) {
                for half in halves.iter().take(n) {
                    // It was added just now; its counts since then are discarded.
                    let _ = self.flows.remove(half);
                }
                return Err(match error {
                    AddError::NotOffloadable(_) => OffloadError::Unsupported,
                    AddError::Map(_) => OffloadError::Full,
                });
            }
        }
        let kept = [(original, there), (reply, back)];
        let kept =
            kept.map(|(half, at)| HardwareHalf { arrival: at.arrival, xmit: at.xmit, ..*half });
        let known =
            Known { halves: kept, offered: flow.halves, told: Default::default(), gone: false };
        self.known.insert(cookie, known);
        Ok(())
    }

    fn delete(&mut self, cookie: u64) -> HardwareCounts {
        let Some(mut flow) = self.known.remove(&cookie) else { return HardwareCounts::default() };
        let last =
            flow.halves.each_ref().map(|half| self.flows.remove(&known(half)).ok().flatten());
        flow.counts(last)
    }

    fn statistics(&mut self, cookie: u64) -> Option<HardwareCounts> {
        let flow = self.known.get(&cookie)?;
        if flow.gone {
            self.known.remove(&cookie);
            return None;
        }
        let stays = flow.offered.iter().all(|half| self.place(half).is_some());
        let all = flow.halves.each_ref().map(|half| {
            let half = known(half);
            let found = if stays { self.flows.statistics(&half) } else { self.flows.remove(&half) };
            found.ok().flatten()
        });
        if !all.iter().all(Option::is_some) {
            self.delete(cookie);
            return None;
        }
        let flow = self.known.get_mut(&cookie)?;
        // Its last counts are reported first.
        flow.gone = !stays;
        Some(flow.counts(all))
    }
}
