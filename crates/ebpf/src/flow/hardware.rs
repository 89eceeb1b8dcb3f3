//! Flows as the flowtable gives them to devices ([`FlowOffload`]): both directions, by cookie, on ports.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_flowtable::arrival::Encaps;
use penstock_flowtable::offload::{FlowOffload, HardwareCounts, HardwareFlow, HardwareHalf, OffloadError};
use penstock_flowtable::{Arrival, Transmit, Way};

use super::{AddError, FlowHalf, FlowStatistics, Flows};
use penstock_bpf::Place;

/// What a device of the network is to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Index of the kernel's device on which frames are put and arrive.
    pub device: u32,
    /// Tags that frames have there, outermost first: those of VLAN devices in between.
    pub encaps: Encaps,
    /// Where the program is that sees what arrives; `None` if there is none, or nothing may leave by it.
    pub place: Option<Place>,
}

/// Ports by the numbers that devices have in the network. Shared: it changes as devices come and go.
#[derive(Clone, Debug, Default)]
pub struct Ports(Arc<Mutex<HashMap<u32, Port>>>);

impl Ports {
    /// No ports.
    pub fn new() -> Self {
        Ports::default()
    }

    /// Sets a port, or with `None` takes it away. Flows that are there stay.
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
    known: HashMap<u64, [HardwareHalf; 2]>,
}

/// A half on the kernel's devices.
struct Placed {
    arrival: Arrival,
    way: Way,
}

impl Hardware {
    /// A device that takes flows into these maps.
    pub fn new(flows: Arc<Flows>, ports: Ports) -> Self {
        Hardware { flows, ports, known: HashMap::new() }
    }

    /// `None` if a device is no port, or the program that sees the packets cannot do what they need.
    fn place(&self, half: &HardwareHalf) -> Option<Placed> {
        let from = self.ports.get(half.arrival.device).filter(|p| p.encaps.as_slice().is_empty())?;
        let to = self.ports.get(half.way.device).filter(|p| p.place.is_some())?;
        let (mut arrival, mut way) = (half.arrival, half.way);
        arrival.device = from.device;
        way.device = to.device;
        match way.transmit {
            // They have the tags of the devices that they leave through.
            Transmit::Neigh => {
                way.encaps = to.encaps;
                for inner in half.way.encaps.as_slice() {
                    way.encaps.push(*inner).then_some(())?;
                }
            }
            Transmit::Direct => to.encaps.as_slice().is_empty().then_some(())?,
            Transmit::Xfrm(_) => return None,
        }
        let placed = Placed { arrival, way };
        match from.place? {
            Place::Xdp => Some(placed),
            Place::Tcx => placed.half(half).suits_tcx().then_some(placed),
        }
    }
}

impl Placed {
    fn half<'a>(&'a self, half: &'a HardwareHalf) -> FlowHalf<'a> {
        FlowHalf { key: &half.key, arrival: &self.arrival, to: &half.leaves, way: &self.way }
    }
}

/// A half that is on the kernel's devices.
fn known(half: &HardwareHalf) -> FlowHalf<'_> {
    FlowHalf { key: &half.key, arrival: &half.arrival, to: &half.leaves, way: &half.way }
}

/// Sums up both directions; times become those since the epoch.
fn counts(halves: [Option<FlowStatistics>; 2]) -> HardwareCounts {
    let of = |s: Option<FlowStatistics>| s.map_or((0, 0), |s| (s.packets, s.bytes));
    let used = halves.iter().flatten().map(|s| s.used).max().unwrap_or(0);
    let used = if used == 0 { 0 } else { used.saturating_add(monotonic_epoch()) };
    HardwareCounts { packets: halves.map(of), used }
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
            if let Err(error) = self.flows.add(half, 0) {
                for half in halves.iter().take(n) {
                    // It was added just now; what it counted meanwhile is nobody's.
                    let _ = self.flows.remove(half);
                }
                return Err(match error {
                    AddError::NotOffloadable(_) => OffloadError::Unsupported,
                    AddError::Map(_) => OffloadError::Full,
                });
            }
        }
        let kept = [(original, there), (reply, back)];
        let kept = kept.map(|(half, at)| HardwareHalf { arrival: at.arrival, way: at.way, ..*half });
        self.known.insert(cookie, kept);
        Ok(())
    }

    fn delete(&mut self, cookie: u64) -> HardwareCounts {
        let Some(halves) = self.known.remove(&cookie) else { return HardwareCounts::default() };
        counts(halves.each_ref().map(|half| self.flows.remove(&known(half)).ok().flatten()))
    }

    fn statistics(&mut self, cookie: u64) -> Option<HardwareCounts> {
        let halves = self.known.get(&cookie)?;
        let all = halves.each_ref().map(|half| self.flows.statistics(&known(half)).ok().flatten());
        all.iter().all(Option::is_some).then(|| counts(all))
    }
}
