//! The forwarding table of a bridge: behind which port an address was seen (`net/bridge/br_fdb.c`).
//!
//! What is learned lives for the bridge's ageing time, by the packet clock, and is kept in the order in which it was last
//! seen: what is over is at the front, so nothing is ever searched. The table has room for a number of addresses; when it is
//! full, others are not learned until some are forgotten, and frames to them are flooded.

use std::collections::HashMap;

use hashlink::LinkedHashMap;
use penstock_net::{Bridge, FdbEntry, Mac};

/// Addresses that a bridge learns at most.
const ROOM: usize = 1 << 16;

/// Address and VLAN in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(u64);

impl Key {
    fn new(mac: Mac, vid: u16) -> Key {
        let [a, b, c, d, e, f] = mac.0;
        let [v, w] = vid.to_be_bytes();
        Key(u64::from_be_bytes([v, w, a, b, c, d, e, f]))
    }
}

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Station {
    /// Index of the port, 0 for the bridge itself.
    pub(crate) port: u32,
    /// It is the host's own.
    pub(crate) local: bool,
}

/// An entry that does not age.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    station: Station,
    sticky: bool,
}

#[derive(Clone, Copy, Debug)]
struct Learned {
    port: u32,
    /// When it was last seen.
    seen: u64,
}

/// The table of one bridge.
#[derive(Debug)]
pub(crate) struct Fdb {
    fixed: HashMap<Key, Fixed>,
    learned: LinkedHashMap<Key, Learned>,
    /// Entries that were added by hand and age: from the first packet on.
    to_learn: Vec<(Key, u32)>,
    ageing: u64,
    limit: usize,
}

impl Fdb {
    /// A table with the entries of the configuration.
    pub(crate) fn new<'e>(bridge: &Bridge, entries: impl Iterator<Item = &'e FdbEntry>) -> Self {
        let limit = match bridge.learned_limit as usize {
            0 => ROOM,
            limit => limit.min(ROOM),
        };
        let (mut fixed, mut to_learn) = (HashMap::new(), Vec::new());
        for e in entries {
            let key = Key::new(e.mac, e.vid);
            if e.local || e.is_static {
                let station = Station { port: e.port, local: e.local };
                fixed.insert(key, Fixed { station, sticky: e.sticky });
            } else {
                to_learn.push((key, e.port));
            }
        }
        Fdb { fixed, learned: LinkedHashMap::new(), to_learn, ageing: bridge.ageing, limit }
    }

    /// Takes over what another table of the same bridge has learned at ports that are still there.
    pub(crate) fn inherit(&mut self, before: Fdb, stays: impl Fn(u32) -> bool) {
        for (key, entry) in before.learned {
            if stays(entry.port) && !self.fixed.contains_key(&key) {
                self.learned.insert(key, entry);
            }
        }
        // What was added by hand was learned when the first packet came.
        if !self.learned.is_empty() {
            self.to_learn.retain(|(key, _)| !self.learned.contains_key(key));
        }
    }

    /// Forgets what has not been seen for too long.
    fn expire(&mut self, now: u64) {
        for (key, port) in self.to_learn.drain(..) {
            self.learned.insert(key, Learned { port, seen: now });
        }
        while let Some((_, oldest)) = self.learned.front()
            && oldest.seen.saturating_add(self.ageing) <= now
        {
            self.learned.pop_front();
        }
    }

    /// Where an address is.
    pub(crate) fn find(&mut self, mac: Mac, vid: u16, now: u64) -> Option<Station> {
        let key = Key::new(mac, vid);
        if let Some(fixed) = self.fixed.get(&key) {
            return Some(fixed.station);
        }
        self.expire(now);
        self.learned.get(&key).map(|l| Station { port: l.port, local: false })
    }

    /// The port behind which an address is, as far as is known; nothing is forgotten meanwhile.
    pub(crate) fn port_of(&self, mac: Mac, vid: u16) -> Option<u32> {
        let key = Key::new(mac, vid);
        let fixed = self.fixed.get(&key).map(|f| f.station);
        let station =
            fixed.or_else(|| self.learned.get(&key).map(|l| Station { port: l.port, local: false }));
        station.filter(|s| !s.local).map(|s| s.port)
    }

    /// An address was seen behind a port (`br_fdb_update()`).
    pub(crate) fn learn(&mut self, mac: Mac, vid: u16, port: u32, now: u64) {
        if self.ageing == 0 {
            return;
        }
        let key = Key::new(mac, vid);
        if let Some(fixed) = self.fixed.get_mut(&key) {
            // Somebody else has one of the host's addresses, or a station moved.
            if !fixed.station.local && !fixed.sticky {
                fixed.station.port = port;
            }
            return;
        }
        self.expire(now);
        if let Some(known) = self.learned.get_mut(&key) {
            *known = Learned { port, seen: now };
            self.learned.to_back(&key);
        } else if self.learned.len() < self.limit {
            self.learned.insert(key, Learned { port, seen: now });
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
        Fdb::new(&bridge, entries.iter())
    }

    fn port(found: Option<Station>) -> Option<u32> {
        found.map(|s| s.port)
    }

    #[test]
    fn what_was_not_seen_for_the_ageing_time_is_forgotten() {
        let mut fdb = table(|b| b.ageing = 100, &[]);
        fdb.learn(A, 0, 5, 1000);
        fdb.learn(B, 0, 6, 1010);
        fdb.learn(A, 0, 7, 1050);
        for (mac, now, want) in
            [(A, 1109, Some(7)), (B, 1109, Some(6)), (B, 1110, None), (A, 1149, Some(7)), (A, 1150, None)]
        {
            assert_eq!(port(fdb.find(mac, 0, now)), want, "{mac} at {now}");
        }
        assert_eq!(fdb.find(A, 1, 1000), None, "another VLAN");
    }

    #[test]
    fn a_full_table_learns_nothing_new_and_keeps_what_it_has() {
        let mut fdb = table(|b| (b.learned_limit, b.ageing) = (1, 100), &[]);
        fdb.learn(A, 0, 5, 0);
        fdb.learn(B, 0, 6, 1);
        fdb.learn(A, 0, 7, 2);
        assert_eq!((port(fdb.find(A, 0, 3)), port(fdb.find(B, 0, 3))), (Some(7), None));
        fdb.learn(B, 0, 6, 102);
        assert_eq!((port(fdb.find(A, 0, 102)), port(fdb.find(B, 0, 102))), (None, Some(6)));
    }

    #[test]
    fn without_ageing_time_nothing_is_learned() {
        let mut fdb = table(|b| b.ageing = 0, &[]);
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
        let entries =
            [entry(A, false, true, false), entry(B, false, true, true), entry(C, true, true, false)];
        let mut fdb = table(|_| {}, &entries);
        for mac in [A, B, C] {
            fdb.learn(mac, 0, 2, 5);
        }
        let found = [A, B, C].map(|mac| port(fdb.find(mac, 0, u64::MAX)));
        assert_eq!(found, [Some(2), Some(1), Some(1)]);
    }
}
