// SPDX-License-Identifier: Apache-2.0

//! The forwarding table of a bridge: at which port an address was seen (`net/bridge/br_fdb.c`).
//!
//! All workers have the same. What is learned lives for the bridge's ageing time, by the packet
//! clock. The table has room for a number of addresses; when it is full, others are not learned
//! until some are forgotten, and frames to them are flooded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use penstock_net::{Bridge, FdbEntry, Mac};

use super::ROOM;
use super::learned::{Key, Learned, Terms};

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Station {
    /// Index of the port, 0 for the bridge itself.
    pub(crate) port: u32,
    /// It is the host's own.
    pub(crate) local: bool,
}

/// An entry that does not age.
#[derive(Debug)]
struct Fixed {
    port: AtomicU32,
    local: bool,
    sticky: bool,
}

/// The table of one bridge.
#[derive(Debug)]
pub(crate) struct Fdb {
    fixed: HashMap<Key, Fixed>,
    learned: Arc<Learned>,
    /// Entries that were added by hand and age: from the first packet on.
    by_hand: Vec<(Key, u32)>,
    /// Some of them have not been entered yet.
    to_learn: AtomicBool,
    terms: Terms,
    ports: Box<[u32]>,
}

impl Fdb {
    /// A table with the entries of the configuration. It continues with what was learned, and with
    /// what `before`, the table of the configuration before, has made of that one's entries.
    pub(crate) fn new<'e>(
        bridge: &Bridge,
        entries: impl Iterator<Item = &'e FdbEntry>,
        learned: Arc<Learned>,
        before: Option<&Fdb>,
    ) -> Self {
        let limit = match bridge.learned_limit as usize {
            0 => ROOM,
            limit => limit.min(ROOM),
        };
        let (mut fixed, mut by_hand) = (HashMap::new(), Vec::new());
        for e in entries {
            let key = Key::new(e.mac, e.vid);
            if e.local || e.is_static {
                let port = AtomicU32::new(e.port);
                fixed.insert(key, Fixed { port, local: e.local, sticky: e.sticky });
            } else {
                by_hand.push((key, e.port));
            }
        }
        let entered = |entry: &(Key, u32)| before.is_some_and(|before| before.has_entered(entry));
        let to_learn = AtomicBool::new(!by_hand.iter().all(entered));
        let (terms, ports) = (Terms { ageing: bridge.ageing, limit }, bridge.ports.clone().into());
        Fdb { fixed, learned, by_hand, to_learn, terms, ports }
    }

    /// Whether an entry that was added by hand has been entered among those that age.
    fn has_entered(&self, entry: &(Key, u32)) -> bool {
        !self.to_learn.load(Relaxed) && self.by_hand.contains(entry)
    }

    /// What has been learned, for the table of another configuration.
    pub(crate) fn learned(&self) -> &Arc<Learned> {
        &self.learned
    }

    /// Enters what was added by hand, once.
    #[inline]
    fn begin(&self, now: u64) {
        if self.to_learn.load(Relaxed) && self.to_learn.swap(false, Relaxed) {
            let terms = Terms { limit: ROOM, ..self.terms };
            self.by_hand.iter().for_each(|(key, port)| self.learned.learn(*key, *port, now, terms));
        }
    }

    /// Where an address is.
    pub(crate) fn find(&self, mac: Mac, vid: u16, now: u64) -> Option<Station> {
        let key = Key::new(mac, vid);
        if let Some(fixed) = self.fixed.get(&key) {
            return Some(Station { port: fixed.port.load(Relaxed), local: fixed.local });
        }
        self.begin(now);
        self.learned.find(key, now, self.terms.ageing).map(|port| Station { port, local: false })
    }

    /// An address was seen at a port (`br_fdb_update()`).
    pub(crate) fn learn(&self, mac: Mac, vid: u16, port: u32, now: u64) {
        if self.terms.ageing == 0 {
            return;
        }
        let key = Key::new(mac, vid);
        if let Some(fixed) = self.fixed.get(&key) {
            // Another station has one of the host's addresses, or a station moved.
            if !fixed.local && !fixed.sticky && fixed.port.load(Relaxed) != port {
                fixed.port.store(port, Relaxed);
            }
            return;
        }
        self.begin(now);
        self.learned.learn(key, port, now, self.terms);
    }

    /// Forgets what was learned at ports that were the bridge's before and are so no longer.
    pub(crate) fn leave(&self, before: &Fdb) {
        if before.ports.iter().any(|port| !self.ports.contains(port)) {
            self.learned.forget(|port| self.ports.contains(&port));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const C: Mac = Mac([2, 0, 0, 0, 0, 3]);

    fn table(change: impl FnOnce(&mut Bridge), entries: &[FdbEntry]) -> Fdb {
        let mut bridge = Bridge::default();
        change(&mut bridge);
        Fdb::new(&bridge, entries.iter(), Arc::default(), None)
    }

    fn port(found: Option<Station>) -> Option<u32> {
        found.map(|s| s.port)
    }

    #[test]
    fn entries_expire_after_the_ageing_time() {
        let fdb = table(|b| b.ageing = 100, &[]);
        fdb.learn(A, 0, 5, 1000);
        fdb.learn(B, 0, 6, 1010);
        fdb.learn(A, 0, 7, 1050);
        for (mac, now, want) in [
            (A, 1109, Some(7)),
            (B, 1109, Some(6)),
            (B, 1110, None),
            (A, 1149, Some(7)),
            (A, 1150, None),
        ] {
            assert_eq!(port(fdb.find(mac, 0, now)), want, "{mac} at {now}");
        }
        assert_eq!(fdb.find(A, 1, 1000), None, "another VLAN");
    }

    #[test]
    fn a_full_table_keeps_its_entries_and_learns_none() {
        let fdb = table(|b| (b.learned_limit, b.ageing) = (1, 100), &[]);
        fdb.learn(A, 0, 5, 0);
        fdb.learn(B, 0, 6, 1);
        fdb.learn(A, 0, 7, 2);
        assert_eq!((port(fdb.find(A, 0, 3)), port(fdb.find(B, 0, 3))), (Some(7), None));
        fdb.learn(B, 0, 6, 102);
        assert_eq!((port(fdb.find(A, 0, 102)), port(fdb.find(B, 0, 102))), (None, Some(6)));
    }

    #[test]
    fn without_ageing_time_nothing_is_learned() {
        let fdb = table(|b| b.ageing = 0, &[]);
        fdb.learn(A, 0, 5, 0);
        assert_eq!(fdb.find(A, 0, 0), None);
    }

    #[test]
    fn static_entries_move_with_their_station_unless_they_are_sticky() {
        let entry = |mac, local, is_static, sticky| FdbEntry {
            bridge: 9,
            mac,
            vid: 0,
            port: 1,
            local,
            is_static,
            sticky,
        };
        let entries = [
            entry(A, false, true, false),
            entry(B, false, true, true),
            entry(C, true, true, false),
        ];
        let fdb = table(|_| {}, &entries);
        for mac in [A, B, C] {
            fdb.learn(mac, 0, 2, 5);
        }
        let found = [A, B, C].map(|mac| port(fdb.find(mac, 0, u64::MAX)));
        assert_eq!(found, [Some(2), Some(1), Some(1)]);
    }

    #[test]
    fn entries_added_by_hand_age_from_the_first_packet_on() {
        let entry = |mac| FdbEntry {
            bridge: 9,
            mac,
            vid: 0,
            port: 3,
            local: false,
            is_static: false,
            sticky: false,
        };
        let mut bridge = Bridge::default();
        bridge.ageing = 100;
        let fdb = Fdb::new(&bridge, [entry(A)].iter(), Arc::default(), None);
        for (now, want) in [(1000, Some(3)), (1099, Some(3)), (1100, None)] {
            assert_eq!(port(fdb.find(A, 0, now)), want, "at {now}");
        }
        // Another configuration does not bring it back, but what is new there begins.
        let next = Fdb::new(&bridge, [entry(A)].iter(), fdb.learned().clone(), Some(&fdb));
        assert_eq!(port(next.find(A, 0, 1200)), None);
        let next = Fdb::new(&bridge, [entry(B)].iter(), fdb.learned().clone(), Some(&next));
        assert_eq!(port(next.find(B, 0, 1200)), Some(3));
    }
}
