// SPDX-License-Identifier: Apache-2.0

//! Bridges (`net/bridge/`): frames that come by a port, and those that the host sends on the bridge
//! device.
//!
//! ```text
//! port -> prerouting -+-> forward -> postrouting -> egress of a port
//!         (broute)    |
//!                     +-> input -> received on the bridge device -> its ingress, VLAN devices, IP
//! bridge device -> output -> postrouting -> egress of a port
//! ```
//!
//! A frame for many ports is copied for each, so every copy passes `forward` and `postrouting`.
//! There is no spanning tree: a port that is up forwards as soon as its bridge is up. Memberships
//! are snooped (`br_multicast.c`): while somebody asks for them, groups go where they were asked for
//! and to multicast routers.

pub(crate) mod fdb;
pub(crate) mod ipv6_len;
pub(crate) mod learned;
pub(crate) mod mdb;
pub(crate) mod memberships;
pub(crate) mod snoop;
pub(crate) mod vlan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use penstock_net::{Mac, Network};
use penstock_program::env;

use crate::bridge::fdb::Fdb;
use crate::bridge::learned::Learned;
use crate::bridge::mdb::Mdb;
use crate::bridge::memberships::Memberships;
use crate::interface::padded;

/// Addresses that a bridge learns at most.
const ROOM: usize = 1 << 16;

/// What bridges remember next to their configuration, and what rules ask about ports, in one state
/// of the network; both by index of the device.
#[derive(Debug, Default)]
pub(crate) struct Bridges {
    tables: Vec<Option<Tables>>,
    ports: Vec<Option<env::BridgePort>>,
}

/// The tables of a bridge.
#[derive(Debug)]
struct Tables {
    fdb: Fdb,
    mdb: Mdb,
}

/// What a bridge has learned.
#[derive(Clone, Debug, Default)]
struct Lessons {
    addresses: Arc<Learned>,
    memberships: Arc<Memberships>,
}

impl Bridges {
    fn new(net: &Network, before: &Bridges, learned: impl Fn(u32) -> Lessons) -> Self {
        let mut bridges = Bridges::default();
        for link in net.links() {
            let index = link.index as usize;
            if let Some(bridge) = link.bridge() {
                let entries = net.fdb().iter().filter(|e| e.bridge == link.index);
                let Lessons { addresses, memberships } = learned(link.index);
                let fdb = Fdb::new(bridge, entries, addresses, before.table(link.index));
                let mdb = Mdb::new(net, link, bridge, memberships, before.mdb(link.index));
                bridges.tables.resize_with(bridges.tables.len().max(index + 1), || None);
                bridges.tables[index] = Some(Tables { fdb, mdb });
            }
            if let Some(port) = &link.port
                && let Some((upper, bridge)) =
                    net.link(port.bridge).and_then(|l| Some((l, l.bridge()?)))
            {
                let vlan = bridge.vlan_filtering.then_some((port.vlans.pvid, bridge.vlan_protocol));
                bridges.ports.resize(bridges.ports.len().max(index + 1), None);
                bridges.ports[index] = Some(env::BridgePort {
                    bridge: padded(&upper.name),
                    address: upper.mac.0,
                    vlan,
                });
            }
        }
        bridges
    }

    /// What rules ask about a port.
    pub(crate) fn port(&self, index: u32) -> Option<&env::BridgePort> {
        self.ports.get(index as usize)?.as_ref()
    }

    /// The port of a bridge where an address is; none for this host's own, and for unknown
    /// ones.
    pub(crate) fn station(&self, bridge: u32, mac: Mac, vid: u16, now: u64) -> Option<u32> {
        let station = self.table(bridge)?.find(mac, vid, now)?;
        (!station.local).then_some(station.port)
    }

    pub(crate) fn table(&self, bridge: u32) -> Option<&Fdb> {
        Some(&self.tables.get(bridge as usize)?.as_ref()?.fdb)
    }

    pub(crate) fn mdb(&self, bridge: u32) -> Option<&Mdb> {
        Some(&self.tables.get(bridge as usize)?.as_ref()?.mdb)
    }
}

/// The bridges of all workers of a path: those who have the same state of the network have the same
/// tables, and what a bridge has learned is the same in all states.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBridges(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// By index of the bridge.
    learned: HashMap<u32, (Weak<Learned>, Weak<Memberships>)>,
    states: Vec<(Weak<Network>, Weak<Bridges>)>,
}

impl SharedBridges {
    /// Those of a state of the network.
    pub(crate) fn of(&self, net: &Arc<Network>) -> Arc<Bridges> {
        self.follow(net, &Bridges::default())
    }

    /// Those of another state of the network than that of `before`. What was learned stays where
    /// the bridge and the port do.
    pub(crate) fn follow(&self, net: &Arc<Network>, before: &Bridges) -> Arc<Bridges> {
        let bridges = self.made(net, before);
        // Each does that: a worker with the state of before may have learned there up to now.
        for (table, before) in bridges.tables.iter().zip(&before.tables) {
            if let (Some(table), Some(before)) = (table, before) {
                table.fdb.leave(&before.fdb);
                table.mdb.leave(&before.mdb);
            }
        }
        bridges
    }

    fn made(&self, net: &Arc<Network>, before: &Bridges) -> Arc<Bridges> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.states.retain(|(net, bridges)| net.strong_count() > 0 && bridges.strong_count() > 0);
        let same =
            known.states.iter().find(|(other, _)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(net)));
        if let Some(bridges) = same.and_then(|(_, bridges)| bridges.upgrade()) {
            return bridges;
        }
        let learned = |index| {
            let known = known.learned.get(&index);
            Lessons {
                addresses: known.and_then(|(a, _)| a.upgrade()).unwrap_or_default(),
                memberships: known.and_then(|(_, m)| m.upgrade()).unwrap_or_default(),
            }
        };
        let bridges = Arc::new(Bridges::new(net, before, learned));
        let tables = (0..).zip(&bridges.tables);
        known.learned = tables
            .filter_map(|(index, tables)| {
                let Tables { fdb, mdb } = tables.as_ref()?;
                Some((index, (Arc::downgrade(fdb.learned()), Arc::downgrade(mdb.learned()))))
            })
            .collect();
        known.states.push((Arc::downgrade(net), Arc::downgrade(&bridges)));
        bridges
    }
}
