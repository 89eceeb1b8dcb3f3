// SPDX-License-Identifier: Apache-2.0

//! Established flows, forwarded in the kernel's driver as hardware would do it
//! (`net/netfilter/nf_flow_table_offload.c`).
//!
//! ```text
//! frame -> tag, session, tunnel off -> headers as a flow has them? -> map of flows -> NAT, TTL, checksums
//!                                                  |                     |            -> headers on, out of a device
//!                                                  +---- otherwise ------+--> what follows: chains, socket, kernel
//! ```
//!
//! A program serves all devices: the device of arrival is in a flow's key. What a packet needs that
//! the map does not say goes up untouched: fragments, options, a TTL that ends here, segments with
//! SYN, FIN or RST, packets larger than the MTU.

mod buffer;
mod claim;
mod code;
mod found;
mod hardware;
mod layout;
mod skb;

use std::io;
use std::sync::{Arc, Mutex};

use penstock_wire::ethernet::Mac;

pub use found::{Ends, FoundFlow, LAYOUT, found, found_in};
pub use hardware::{Hardware, Port, Ports};
pub use layout::{FlowHalf, FlowStatistics, NotOffloadable};
use penstock_bpf::AttachPoint;
use penstock_bpf::Next;
use penstock_bpf::asm::{AsmError, Code};
use penstock_bpf::{Map, MapKind, MapSpec};

/// Why a flow was not added.
#[derive(Debug)]
pub enum AddError {
    /// Software keeps it.
    NotOffloadable(NotOffloadable),
    /// The map is full, or bpf(2) failed otherwise.
    Map(io::Error),
}

impl From<NotOffloadable> for AddError {
    fn from(reason: NotOffloadable) -> Self {
        AddError::NotOffloadable(reason)
    }
}

impl From<io::Error> for AddError {
    fn from(error: io::Error) -> Self {
        AddError::Map(error)
    }
}

impl std::fmt::Display for AddError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AddError::NotOffloadable(NotOffloadable(reason)) => f.write_str(reason),
            AddError::Map(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AddError {}

/// Where a program stands, and what it has to mind there.
#[derive(Clone, Debug)]
pub struct Site {
    /// Where it runs.
    pub place: AttachPoint,
    /// What follows for packets that are not of a flow.
    pub next: Next,
    /// The device's link address: frames for others go up.
    pub address: Option<Mac>,
    /// Frames may come from a neighbour on this machine, with checksums that were left to a
    /// device: in XDP nothing tells of that. What looks so goes up.
    pub unfinished: bool,
    /// At tcx of a device with packet sockets, which see packets before: their
    /// [filter](Flows::filter) decides on each packet, and notes in this map those that the sockets
    /// get.
    pub claims: Option<Arc<Map>>,
}

impl Site {
    /// For packets to the host, with finished checksums.
    pub fn new(place: AttachPoint, next: Next) -> Self {
        Site { place, next, address: None, unfinished: false, claims: None }
    }

    /// The map for [`Site::claims`].
    pub fn claims() -> Arc<Map> {
        let kind = MapKind::PerCpuArray;
        Arc::new(Map::new(MapSpec { name: "flow_claims", kind, key: 4, value: 8, entries: 1 }))
    }
}

/// Devices that flows leave by, at most.
const DEVICES: u32 = 256;

/// Slots for devices with direct redirection to their peers: a power of two. Of two devices with
/// the same slot one has none.
const PEERS: u32 = 256;

/// The maps of flows, shared by all programs.
#[derive(Debug)]
pub struct Flows {
    v4: Arc<Map>,
    v6: Arc<Map>,
    devices: Arc<Map>,
    /// Devices with direct redirection to their peers, by number modulo [`PEERS`].
    peers: Arc<Map>,
    /// What `peers` has been told of.
    handing: Mutex<Vec<u32>>,
    /// What `devices` has.
    known: Mutex<Vec<u32>>,
}

impl Flows {
    /// For so many directions of flows of each family; both directions of a flow count.
    pub fn new(entries: u32) -> Self {
        let [v4, v6, devices] = Self::specs(entries).map(|spec| Arc::new(Map::new(spec)));
        let kind = MapKind::Array;
        let peers =
            Map::new(MapSpec { name: "flow_peers", kind, key: 4, value: 4, entries: PEERS });
        Flows {
            v4,
            v6,
            devices,
            peers: Arc::new(peers),
            handing: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// What the maps are.
    fn specs(entries: u32) -> [MapSpec; 3] {
        let flows = |name, key: i16| {
            let (key, value) = (key as u32, layout::value::LEN as u32);
            MapSpec { name, kind: MapKind::Hash, key, value, entries }
        };
        let kind = MapKind::DevicesByHash;
        [
            flows("flows4", layout::key4::LEN),
            flows("flows6", layout::key6::LEN),
            MapSpec { name: "flow_devices", kind, key: 4, value: 4, entries: DEVICES },
        ]
    }

    /// The program for a place.
    ///
    /// # Errors
    /// None that the caller could do something about.
    pub fn program(&self, site: &Site) -> Result<Code, AsmError> {
        code::program(self, site)
    }

    /// The filter for the packet sockets of a device with a program at tcx, see [`Site::claims`].
    ///
    /// # Errors
    /// None that the caller could do something about.
    pub fn filter(&self, claims: &Arc<Map>, address: Option<Mac>) -> Result<Code, AsmError> {
        claim::filter(self, claims, address)
    }

    /// The three maps, to be [pinned](Map::pin).
    pub fn maps(&self) -> [&Arc<Map>; 3] {
        [&self.v4, &self.v6, &self.devices]
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.v4.next_key(None)?.is_none() && self.v6.next_key(None)?.is_none())
    }

    fn map(&self, half: &FlowHalf<'_>) -> &Map {
        if half.is_ipv4() { &self.v4 } else { &self.v6 }
    }

    /// Whether a direction of a flow can be added at all.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, half: &FlowHalf<'_>) -> Result<(), NotOffloadable> {
        half.map_key()?;
        half.map_value(0, 0).map(drop)
    }

    /// Adds a direction of a flow; `now` is the time, in nanoseconds of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// It is not for this, or the map is full.
    pub fn add(&self, half: &FlowHalf<'_>, now: u64) -> Result<(), AddError> {
        self.add_flagged(half, now, 0)
    }

    fn add_flagged(&self, half: &FlowHalf<'_>, now: u64, flags: u16) -> Result<(), AddError> {
        let (key, value) = (half.map_key()?, half.map_value(now, flags)?);
        let device = half.xmit.device;
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        if !known.contains(&device) {
            self.devices.set(&device.to_ne_bytes(), &device.to_ne_bytes())?;
            known.push(device);
        }
        drop(known);
        Ok(self.map(half).set(&key, &value)?)
    }

    /// Removes a direction of a flow: what its packets did, `None` if it is not there.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn remove(&self, half: &FlowHalf<'_>) -> io::Result<Option<FlowStatistics>> {
        let Ok(key) = half.map_key() else { return Ok(None) };
        Ok(self.map(half).take(&key)?.map(|value| FlowStatistics::of(&value)))
    }

    /// What the packets of a direction of a flow did; `None` if it is not there.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn statistics(&self, half: &FlowHalf<'_>) -> io::Result<Option<FlowStatistics>> {
        let Ok(key) = half.map_key() else { return Ok(None) };
        Ok(self.map(half).get(&key)?.map(|value| FlowStatistics::of(&value)))
    }

    /// Whether packets that programs at tcx send by a device go to the device at its other end at
    /// once (`bpf_redirect_peer()`), past its own queue, counters and taps. The caller must ensure
    /// that this is a veth with a peer that is up, in another network namespace, and accepts
    /// packets as they are: the kernel drops others.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn hand_over(&self, device: u32, yes: bool) -> io::Result<()> {
        let mut handing = self.handing.lock().unwrap_or_else(|e| e.into_inner());
        if handing.contains(&device) == yes {
            return Ok(());
        }
        let place = (device % PEERS).to_ne_bytes();
        if yes {
            self.peers.set(&place, &device.to_ne_bytes())?;
            handing.push(device);
        } else {
            if self.peers.get(&place)?.as_deref() == Some(&device.to_ne_bytes()) {
                self.peers.set(&place, &0_u32.to_ne_bytes())?;
            }
            handing.retain(|d| *d != device);
        }
        Ok(())
    }

    /// A device is gone, or its number is reused: nothing leaves by it from now on.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn forget_device(&self, device: u32) -> io::Result<()> {
        self.known.lock().unwrap_or_else(|e| e.into_inner()).retain(|known| *known != device);
        self.devices.remove(&device.to_ne_bytes()).map(drop)
    }
}
