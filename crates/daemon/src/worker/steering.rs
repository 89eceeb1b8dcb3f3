// SPDX-License-Identifier: Apache-2.0

//! Steering: which worker owns a frame, and its way to that worker.
//!
//! ```text
//! socket, queue, TAP --> owner? --this worker--> path
//!                           |  \--a fragment--> the worker that finds out --> its owner
//!                           \--another--> ring --> path of the other
//! ```
//!
//! The first worker owns what is not IP. All workers share what bridges learn. Tunnels, and IPsec
//! with its sequence numbers, are the host's: workers know only policy, which all of them share.

use std::sync::Arc;

use penstock_conntrack::{OwnerLookup, PacketOwner, Shared};
use penstock_io::device::BURST;
use penstock_net::Network;
use penstock_wire::cache::prefetch;
use penstock_wire::frame::{Around, ip_packet};

use crate::requests::Request;
use crate::requests::inbox::Inbox;
use crate::worker::fragment_steering::{Fate, FragmentSteering};
use crate::worker::handoff::HandoffMeta;
use crate::worker::ring::{Consumer, Producer, ring};
use crate::worker::waker::Waker;

/// Tags that steering looks past.
const TAGS: usize = 4;

/// Which frames of a burst are a worker's own: a bit for each.
#[derive(Clone, Copy)]
pub(crate) struct Own(pub(crate) u64);

const _: () = assert!(BURST <= u64::BITS as usize);

impl Own {
    pub(crate) fn has(self, i: usize) -> bool {
        self.0 >> (i % BURST) & 1 != 0
    }
}

/// A worker that may be asleep.
pub(crate) struct Sleeper {
    waker: Waker,
    inbox: Arc<Inbox<Request>>,
}

/// What a worker has handed over and got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handing {
    /// Frames given to others.
    pub(crate) given: u64,
    /// Frames taken from others.
    pub(crate) taken: u64,
    /// Frames for which there was no room.
    pub(crate) refused: u64,
    /// Fragments without a first fragment in time.
    pub(crate) late: u64,
}

/// One worker's side.
pub(crate) struct Steering {
    shared: Arc<Shared>,
    number: usize,
    sleepers: Arc<[Sleeper]>,
    /// By worker; nothing at its own number.
    to: Vec<Option<Producer<HandoffMeta>>>,
    pub(crate) from: Vec<Consumer<HandoffMeta>>,
    fragments: FragmentSteering,
    /// Fragments that waited, and that turned out to be this worker's.
    pub(crate) own: Vec<(HandoffMeta, Vec<u8>)>,
    sessions: bool,
    /// Workers that were given something since they were woken.
    given_to: u64,
    pub(crate) handing: Handing,
}

/// The owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Mine,
    To(usize),
    Fragment(usize),
}

/// The steering of all workers.
pub(crate) fn steerings(
    shared: &Arc<Shared>,
    inboxes: &[Arc<Inbox<Request>>],
    net: &Network,
) -> Vec<Steering> {
    let count = inboxes.len();
    let sleepers: Arc<[Sleeper]> = inboxes
        .iter()
        .map(|inbox| Sleeper { waker: Waker::default(), inbox: inbox.clone() })
        .collect();
    let mut all: Vec<Steering> = (0..count)
        .map(|number| Steering {
            shared: shared.clone(),
            number,
            sleepers: sleepers.clone(),
            to: Vec::new(),
            from: Vec::new(),
            fragments: FragmentSteering::default(),
            own: Vec::new(),
            sessions: net.has_sessions(),
            given_to: 0,
            handing: Handing::default(),
        })
        .collect();
    for from in 0..count {
        for to in 0..count {
            let producer = (from != to).then(|| {
                let (producer, consumer) = ring(count * (count - 1), BURST);
                all[to].from.push(consumer);
                producer
            });
            all[from].to.push(producer);
        }
    }
    all
}

impl Steering {
    /// Another network is in force.
    pub(crate) fn set_network(&mut self, net: &Network) {
        self.sessions = net.has_sessions();
    }

    /// What may be around the packets that steering looks at.
    #[inline]
    fn around(&self) -> Around {
        Around { tags: TAGS, sessions: self.sessions }
    }

    /// Reads the headers of a frame before its owner lookup; `None` if it is not IP.
    #[inline]
    fn seek<'f>(&self, frame: &'f [u8]) -> Option<(&'f [u8], OwnerLookup)> {
        let packet = ip_packet(frame, self.around())?;
        Some((packet, self.shared.seek_owner(packet)))
    }

    #[inline]
    fn owner(&self, sought: Option<&(&[u8], OwnerLookup)>, receiver: Option<usize>) -> Owner {
        let to =
            |worker: usize| if worker == self.number { Owner::Mine } else { Owner::To(worker) };
        match sought.map(|(packet, sought)| self.shared.found_owner(sought, packet, receiver)) {
            None => to(0),
            Some(PacketOwner::Worker(worker)) => to(worker),
            Some(PacketOwner::Fragment { finder, .. }) => Owner::Fragment(finder),
        }
    }

    /// Whether a frame is this worker's; if not it is handed over. `spread` says that all workers
    /// receive their share of where it comes from.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        handed: HandoffMeta,
        frame: &[u8],
        spread: bool,
        time: u64,
    ) -> bool {
        let sought = self.seek(frame);
        self.keep_sought(handed, frame, sought.as_ref(), spread, time)
    }

    /// Which frames of a burst are this worker's, by their places in it; the others are handed
    /// over. The headers of all are read, and what they ask for is fetched, before the first is
    /// looked up.
    pub(crate) fn keep_all<'f>(
        &mut self,
        burst: impl Iterator<Item = (usize, HandoffMeta, &'f [u8])> + Clone,
        spread: bool,
        time: u64,
    ) -> Own {
        burst.clone().for_each(|(_, _, frame)| {
            frame.first().map(prefetch);
        });
        let mut sought = [None; BURST];
        for (at, _, frame) in burst.clone() {
            sought[at % BURST] = self.seek(frame);
        }
        let mut own = Own(0);
        for (at, handed, frame) in burst {
            let sought = sought[at % BURST].as_ref();
            own.0 |=
                u64::from(self.keep_sought(handed, frame, sought, spread, time)) << (at % BURST);
        }
        own
    }

    #[inline]
    fn keep_sought(
        &mut self,
        handed: HandoffMeta,
        frame: &[u8],
        sought: Option<&(&[u8], OwnerLookup)>,
        spread: bool,
        time: u64,
    ) -> bool {
        match self.owner(sought, spread.then_some(self.number)) {
            Owner::Mine => true,
            Owner::To(worker) => {
                self.give(worker, handed, frame);
                false
            }
            Owner::Fragment(finder) if finder != self.number => {
                self.give(finder, HandoffMeta { owner_unknown: true, ..handed }, frame);
                false
            }
            Owner::Fragment(_) => self.find_out(handed, frame, time),
        }
    }

    /// Whether a frame handed over by another worker is processed here; if not it is passed on.
    pub(crate) fn keep_handed(&mut self, handed: HandoffMeta, frame: &[u8], time: u64) -> bool {
        self.handing.taken += 1;
        !handed.owner_unknown || self.find_out(handed, frame, time)
    }

    /// Whether a fragment is processed here, if this worker determines its owner. Waiting fragments
    /// that belong to this worker are left in [`Steering::own`]: they are reassembled here, so
    /// their order does not matter.
    fn find_out(&mut self, handed: HandoffMeta, frame: &[u8], time: u64) -> bool {
        let handed = HandoffMeta { owner_unknown: false, ..handed };
        let Some(PacketOwner::Fragment { datagram, span, first, .. }) =
            ip_packet(frame, self.around()).map(|packet| self.shared.packet_owner(packet, None))
        else {
            return true;
        };
        match self.fragments.take((datagram, span), first, self.number, (handed, frame), time) {
            Fate::Kept => false,
            Fate::Refused => {
                self.handing.refused += 1;
                false
            }
            Fate::To(worker, waiting) => {
                if worker == self.number {
                    self.own.extend(waiting);
                    return true;
                }
                for (handed, bytes) in &waiting {
                    self.give(worker, *handed, bytes);
                }
                self.give(worker, handed, frame);
                false
            }
        }
    }

    fn give(&mut self, worker: usize, handed: HandoffMeta, frame: &[u8]) {
        match self
            .to
            .get_mut(worker)
            .and_then(Option::as_mut)
            .is_some_and(|to| to.give(handed, frame))
        {
            true => {
                self.handing.given += 1;
                self.given_to |= 1 << worker;
            }
            false => self.handing.refused += 1,
        }
    }

    /// Frames that wait for the first fragment of their datagram, and those that are not counted as
    /// lost yet.
    pub(crate) fn waiting(&self) -> u64 {
        self.fragments.waiting() + self.own.len() as u64 + self.handing.refused + self.handing.late
    }

    /// Drops fragments of a port that wait: its number may be that of another port next.
    pub(crate) fn forget_port(&mut self, port: usize) {
        self.handing.late += self.fragments.forget_port(port);
    }

    /// Wakes those who were given something.
    pub(crate) fn wake(&mut self) {
        if self.given_to == 0 {
            return;
        }
        let given_to = self.given_to;
        let given =
            self.sleepers.iter().enumerate().filter(|(worker, _)| given_to >> worker & 1 != 0);
        for (_, sleeper) in given {
            if sleeper.waker.is_to_be_woken() {
                sleeper.inbox.ring();
            }
        }
        self.given_to = 0;
    }

    /// About to sleep; `false` if something has come in the meantime.
    pub(crate) fn fall_asleep(&self) -> bool {
        let Some(sleeper) = self.sleepers.get(self.number) else { return true };
        sleeper.waker.fall_asleep(|| self.from.iter().all(Consumer::is_empty))
    }

    /// Awake again.
    pub(crate) fn awake(&self) {
        if let Some(sleeper) = self.sleepers.get(self.number) {
            sleeper.waker.awake();
        }
    }

    /// Advances the clock.
    pub(crate) fn pass_time(&mut self, now: u64) {
        self.handing.late += self.fragments.pass_time(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_conntrack::Settings;
    use penstock_testkit::build::*;

    const HANDED: HandoffMeta =
        HandoffMeta { port: 0, from_host: false, owner_unknown: false, gso: None };

    fn network(more: &str) -> Network {
        let batch = format!("link add p0 type veth\nlink set p0 up\n{more}");
        Network::from_batch("net.ip", &batch).expect("a network")
    }

    fn three() -> Vec<Steering> {
        let shared = Shared::new(3, &Settings { max: 1000, ..Settings::default() }, 1);
        let inboxes: Vec<_> = (0..3).map(|_| Arc::new(Inbox::new().expect("an eventfd"))).collect();
        steerings(&shared, &inboxes, &network(""))
    }

    fn link() -> Ethernet {
        Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
    }

    fn udp(port: u16) -> Vec<u8> {
        (link() / Ipv4::new("198.18.0.1", "198.18.1.2") / Udp::new(port, 53) / payload([1; 1000]))
            .build()
    }

    /// Frames that a worker has been handed over and keeps.
    fn taken(crew: &mut Steering) -> Vec<Vec<u8>> {
        let (mut from, mut all) = (std::mem::take(&mut crew.from), Vec::new());
        for consumer in &mut from {
            while consumer.fetch() > 0 {
                let frames = (0..BURST).filter_map(|i| consumer.frame(i));
                for (handed, frame) in frames {
                    let kept = crew.keep_handed(handed, frame, 0);
                    all.extend(crew.own.drain(..).map(|(_, bytes)| bytes));
                    all.extend(kept.then(|| frame.to_vec()));
                }
            }
        }
        crew.from = from;
        all
    }

    #[test]
    fn spread_queues_keep_frames_and_others_steer_by_hash() {
        let mut all = three();
        assert!((0..100).all(|port| all[1].keep(HANDED, &udp(port), true, 0)));
        // One by one as in bursts.
        let burst: Vec<Vec<u8>> = (0..BURST as u16).map(udp).collect();
        let places = burst.iter().enumerate().map(|(at, frame)| (at, HANDED, &frame[..]));
        let own = all[1].keep_all(places, false, 0);
        assert!((0..BURST).all(|at| own.has(at) == all[1].keep(HANDED, &burst[at], false, 0)));
        all.iter_mut().for_each(|crew| drop(taken(crew)));
        let before = all[1].handing.given;
        let kept = (0..100).filter(|port| all[1].keep(HANDED, &udp(*port), false, 0)).count();
        assert!((10..60).contains(&kept), "{kept}");
        let [zero, two] = [0, 2].map(|n| taken(&mut all[n]).len());
        assert_eq!((kept + zero + two, all[1].handing.given - before), (100, (zero + two) as u64));
        assert!(zero > 10 && two > 10, "{zero} {two}");
        // ARP is the first one's.
        let arp = (link() / Arp::request("02:00:00:00:00:01", "198.18.0.1", "198.18.0.2")).build();
        assert!(!all[1].keep(HANDED, &arp, true, 0) && all[0].keep(HANDED, &arp, true, 0));
        assert_eq!(taken(&mut all[0]).len(), 1);
    }

    #[test]
    fn a_full_ring_drops_and_counts() {
        let mut all = three();
        let arp = (link() / Arp::request("02:00:00:00:00:01", "198.18.0.1", "198.18.0.2")).build();
        for _ in 0..100_000 {
            assert!(!all[1].keep(HANDED, &arp, true, 0));
        }
        let Handing { given, refused, .. } = all[1].handing;
        assert_eq!(given + refused, 100_000);
        assert!(given > 1000 && refused > 1000, "{given} {refused}");
        assert_eq!(taken(&mut all[0]).len() as u64, given);
        assert_eq!(all[0].handing.taken, given);
    }

    #[test]
    fn fragments_of_a_datagram_meet_at_one_worker() {
        for port in 0..50 {
            let mut all = three();
            let whole = link()
                / Ipv4::new("198.18.0.1", "198.18.1.2").id(port)
                / Udp::new(port, 53)
                / payload([1; 4000]);
            let parts = fragments(&whole.build(), 1400, 0);
            let mut kept = [0; 3];
            // The last one first, each by another worker.
            for (n, part) in parts.iter().enumerate().rev() {
                let receiver = n % 3;
                kept[receiver] += usize::from(all[receiver].keep(HANDED, part, true, 0));
                kept[receiver] += all[receiver].own.drain(..).count();
                // Through the worker that determines the owner.
                for _ in 0..2 {
                    for (n, crew) in all.iter_mut().enumerate() {
                        kept[n] += taken(crew).len();
                    }
                }
            }
            assert_eq!(kept.iter().max(), Some(&parts.len()), "{kept:?}");
        }
    }

    #[test]
    fn sleeping_workers_are_woken() {
        let mut all = three();
        let arp = (link() / Arp::request("02:00:00:00:00:01", "198.18.0.1", "198.18.0.2")).build();
        assert!(all[0].fall_asleep());
        all[1].keep(HANDED, &arp, true, 0);
        all[1].wake();
        assert!(!all[0].sleepers[0].waker.is_asleep());
        assert!(!all[0].fall_asleep(), "something has come");
        assert!(all[0].sleepers[0].inbox.take().is_none(), "no message, but it was rung");
    }
}
