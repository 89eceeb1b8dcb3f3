// SPDX-License-Identifier: Apache-2.0

//! Finds the owner of fragments: only the first fragment of a datagram has ports. All go to one
//! worker, chosen by their addresses and identification; it passes them on to the owner that the
//! first fragment determines, and keeps earlier ones until then.
//!
//! Reassembly is the dataplane's work.

use std::collections::HashMap;

use penstock_conntrack::{Datagram, Span};

use crate::worker::handoff::HandoffMeta;

/// FragmentSteering that are known at a time; fragments of more go where they are.
const DATAGRAMS: usize = 16_384;
/// Bytes of fragments that wait.
const BYTES: usize = 4 << 20;
/// How long a datagram may take, in nanoseconds (`ipfrag_time`).
const PATIENCE: u64 = 30_000_000_000;

#[derive(Debug)]
struct Known {
    worker: Option<usize>,
    since: u64,
    /// Bytes received, and the total if it is known.
    bytes: (u32, Option<u32>),
    waiting: Vec<(HandoffMeta, Vec<u8>)>,
}

/// The fate of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes to this worker, after those that waited for it.
    To(usize, Vec<(HandoffMeta, Vec<u8>)>),
    /// It waits.
    Kept,
    /// There is no room for it.
    Refused,
}

/// All datagrams of which fragments have come.
#[derive(Debug, Default)]
pub(crate) struct FragmentSteering {
    known: HashMap<Datagram, Known>,
    bytes: usize,
}

impl FragmentSteering {
    /// Takes a fragment; `first` is its datagram's worker if it determines that, `here` the worker
    /// of fragments that do not fit.
    pub(crate) fn take(
        &mut self,
        (datagram, span): (Datagram, Span),
        first: Option<usize>,
        here: usize,
        frame: (HandoffMeta, &[u8]),
        now: u64,
    ) -> Fate {
        if self.known.len() >= DATAGRAMS && !self.known.contains_key(&datagram) {
            return Fate::To(here, Vec::new());
        }
        let known = self.known.entry(datagram).or_insert_with(|| Known {
            worker: None,
            since: now,
            bytes: (0, None),
            waiting: Vec::new(),
        });
        known.worker = first.or(known.worker);
        known.bytes.0 = known.bytes.0.saturating_add(span.len);
        if span.is_last {
            known.bytes.1 = Some(span.offset.saturating_add(span.len));
        }
        let Some(worker) = known.worker else {
            let (handed, bytes) = frame;
            if self.bytes + bytes.len() > BYTES {
                return Fate::Refused;
            }
            self.bytes += bytes.len();
            known.waiting.push((handed, bytes.to_vec()));
            return Fate::Kept;
        };
        let waiting = std::mem::take(&mut known.waiting);
        self.bytes -= waiting.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        if known.bytes.1.is_some_and(|all| known.bytes.0 >= all) {
            self.known.remove(&datagram);
        }
        Fate::To(worker, waiting)
    }

    /// Fragments that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.known.values().map(|known| known.waiting.len() as u64).sum()
    }

    /// Forgets what waits of a port; how many fragments end by that.
    pub(crate) fn forget_port(&mut self, port: usize) -> u64 {
        let mut ended = 0;
        for known in self.known.values_mut() {
            known.waiting.retain(|(handed, bytes)| {
                let stays = handed.port as usize != port;
                if !stays {
                    ended += 1;
                    self.bytes -= bytes.len();
                }
                stays
            });
        }
        ended
    }

    /// Forgets what took too long; how many fragments end by that.
    pub(crate) fn pass_time(&mut self, now: u64) -> u64 {
        let mut ended = 0;
        self.known.retain(|_, known| {
            let stays = now.saturating_sub(known.since) < PATIENCE;
            if !stays {
                ended += known.waiting.len() as u64;
                self.bytes -= known.waiting.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
            }
            stays
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_conntrack::{PacketOwner, Settings, Shared};
    use penstock_testkit::build::*;

    const HANDED: HandoffMeta =
        HandoffMeta { port: 1, from_host: false, owner_unknown: true, gso: None };

    fn parts(id: u16) -> Vec<Vec<u8>> {
        let frame = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
            / Ipv4::new("198.18.0.1", "198.18.1.2").id(id)
            / Udp::new(1000 + id, 53)
            / payload([7; 3000]);
        fragments(&frame.build(), 1400, 0).into_iter().map(|f| f[14..].to_vec()).collect()
    }

    fn take(all: &mut FragmentSteering, shared: &Shared, part: &[u8], now: u64) -> Fate {
        match shared.packet_owner(part, None) {
            PacketOwner::Fragment { datagram, span, first, .. } => {
                all.take((datagram, span), first.map(|_| 2), 0, (HANDED, part), now)
            }
            PacketOwner::Worker(_) => panic!("no fragment"),
        }
    }

    #[test]
    fn fragments_in_any_order_follow_the_first_one() {
        let shared = Shared::new(3, &Settings { max: 10, ..Settings::default() }, 1);
        let mut all = FragmentSteering::default();
        let parts = parts(1);
        assert_eq!(parts.len(), 3);
        let kept = |n: usize| (HANDED, parts[n].clone());
        assert_eq!(take(&mut all, &shared, &parts[2], 0), Fate::Kept);
        assert_eq!(take(&mut all, &shared, &parts[0], 0), Fate::To(2, vec![kept(2)]));
        assert_eq!((all.bytes, all.known.len()), (0, 1));
        assert_eq!(take(&mut all, &shared, &parts[1], 0), Fate::To(2, vec![]));
        assert!(all.known.is_empty(), "all of it has come");
    }

    #[test]
    fn waiting_fragments_are_bounded_in_bytes_and_time() {
        let shared = Shared::new(3, &Settings { max: 10, ..Settings::default() }, 1);
        let mut all = FragmentSteering::default();
        let mut kept = 0;
        let refused = (0..4000).find(|id| match take(&mut all, &shared, &parts(*id)[1], 5) {
            Fate::Kept => {
                kept += 1;
                false
            }
            fate => fate == Fate::Refused,
        });
        assert!(refused.is_some() && kept > 2000, "{kept}");
        assert_eq!(all.pass_time(5 + PATIENCE - 1), 0);
        assert_eq!(all.pass_time(5 + PATIENCE), kept);
        assert_eq!((all.bytes, all.known.len()), (0, 0));
    }
}
