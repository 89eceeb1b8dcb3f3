// SPDX-License-Identifier: Apache-2.0

//! Two peers, and a wire between them that loses datagrams.

use fastrand::Rng;
use penstock_conntrack::Tuple;
use penstock_ctsync::config::Mode as Config;
use penstock_ctsync::{
    Change, ConnectionState, ExternalCache, Kind, Mode, Received, split, write_connection,
};
use std::collections::HashMap;

const SECOND: u64 = 1_000_000_000;
const FTFW: Config = Config::FtFw { window: 20, resend_queue: 1000 };

/// One end: the exchange, and what the other one has told.
struct Peer {
    mode: Mode,
    cache: ExternalCache,
    resyncs: u32,
}

impl Peer {
    fn new(config: &Config, first: u32) -> Self {
        Peer { mode: Mode::new(config, first, 0), cache: ExternalCache::new(1 << 20), resyncs: 0 }
    }

    fn receive(&mut self, datagram: &[u8], now: u64) {
        for message in split(datagram) {
            let message = message.unwrap();
            match self.mode.receive(&message) {
                Received::Data => {
                    let Kind::Connection(change) = message.kind else { panic!("{message:?}") };
                    let state = ConnectionState::read(message.body).unwrap();
                    self.cache.take(change, state, now);
                }
                Received::Resync => self.resyncs += 1,
                Received::Control | Received::Late => {}
                Received::Malformed => panic!("{message:?}"),
            }
        }
    }
}

fn state(port: u16, mark: u32) -> ConnectionState {
    let original = Tuple { src_id: port, dst_id: 80, l3: 2, protocol: 6, ..Tuple::ZERO };
    ConnectionState { original, mark: Some(mark), timeout: Some(100), ..Default::default() }
}

/// Carries what waits, both ways, until nothing waits.
fn carry(a: &mut Peer, b: &mut Peer, now: u64, mut lost: impl FnMut() -> bool) {
    let mut datagram = Vec::new();
    loop {
        let mut more = false;
        while a.mode.send(now, &mut datagram, 400) {
            more = true;
            if !lost() {
                b.receive(&datagram, now);
            }
        }
        while b.mode.send(now, &mut datagram, 400) {
            more = true;
            if !lost() {
                a.receive(&datagram, now);
            }
        }
        if !more {
            return;
        }
    }
}

#[test]
fn ftfw_delivers_the_last_state_in_spite_of_loss() {
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let (mut a, mut b) = (Peer::new(&FTFW, u32::MAX - 50), Peer::new(&FTFW, 7));
        carry(&mut a, &mut b, 0, || false);
        let mut expected: HashMap<u16, u32> = HashMap::new();
        let mut now = 0;
        for step in 0..400 {
            now += SECOND / 50;
            let port = rng.u16(..40);
            let change = match expected.get(&port) {
                None => Change::New,
                Some(_) if rng.u8(..4) == 0 => Change::Delete,
                Some(_) => Change::Update,
            };
            match change {
                Change::Delete => drop(expected.remove(&port)),
                Change::New | Change::Update => drop(expected.insert(port, step)),
            }
            a.mode.enqueue(write_connection(change, &state(port, step)));
            a.mode.tick(now);
            b.mode.tick(now);
            carry(&mut a, &mut b, now, || rng.u8(..5) == 0);
        }
        // The wire is good again.
        for _ in 0..10 {
            now += SECOND;
            a.mode.tick(now);
            b.mode.tick(now);
            carry(&mut a, &mut b, now, || false);
        }
        // A message whose NACK is lost is missing for good, as with conntrackd: few of them.
        let told: HashMap<u16, u32> =
            b.cache.iter().map(|c| (c.state.original.src_id, c.state.mark.unwrap())).collect();
        let wrong = (0..40).filter(|port| told.get(port) != expected.get(port)).count();
        assert!(wrong <= 10, "seed {seed}: {wrong}");
        assert!(b.mode.tracked().lost > 0, "seed {seed}");
        assert!(
            a.mode.unacknowledged().unwrap() <= 3,
            "seed {seed}: {:?}",
            a.mode.unacknowledged()
        );
    }
}

#[test]
fn ftfw_sends_what_is_missing_again() {
    let (mut a, mut b) = (Peer::new(&FTFW, 0), Peer::new(&FTFW, 7));
    // Until both know that the other one has begun.
    for second in 1..4 {
        a.mode.tick(second * SECOND);
        b.mode.tick(second * SECOND);
        carry(&mut a, &mut b, second * SECOND, || false);
    }
    (0..10).for_each(|port| a.mode.enqueue(write_connection(Change::New, &state(port, 1))));
    // The first datagram is lost, the others are not.
    let mut first = true;
    carry(&mut a, &mut b, 4 * SECOND, || std::mem::take(&mut first));
    assert_eq!(b.cache.len(), 10);
    assert!(b.mode.tracked().lost > 0);
}

#[test]
fn one_that_begins_anew_is_understood() {
    let (mut a, mut b) = (Peer::new(&FTFW, 5000), Peer::new(&FTFW, 7));
    a.mode.enqueue(write_connection(Change::New, &state(1, 1)));
    carry(&mut a, &mut b, 0, || false);
    // Its numbers are smaller than before.
    a.mode = Mode::new(&FTFW, 100, 0);
    a.mode.enqueue(write_connection(Change::New, &state(2, 1)));
    carry(&mut a, &mut b, 0, || false);
    assert_eq!(b.cache.len(), 2);
    assert_eq!(b.mode.tracked().late, 0);
}

#[test]
fn resync_is_asked_for_and_alarm_has_none() {
    for (config, expected) in
        [(FTFW, 1), (Config::NoTrack, 1), (Config::Alarm { refresh: 10, cache_timeout: 30 }, 0)]
    {
        let (mut a, mut b) = (Peer::new(&config, 0), Peer::new(&config, 7));
        assert_eq!(a.mode.request_resync(), expected == 1);
        carry(&mut a, &mut b, 0, || false);
        assert_eq!(b.resyncs, expected, "{config:?}");
    }
}

#[test]
fn alarm_tells_everything_again_in_its_time_and_forgets_what_is_not_told() {
    let mut mode = Mode::new(&Config::Alarm { refresh: 10, cache_timeout: 30 }, 0, 0);
    let told: usize = (1..=100).map(|tenth| mode.refresh(tenth * SECOND / 10, 777)).sum();
    assert_eq!(told, 777);
    let mut cache = ExternalCache::new(10);
    cache.take(Change::New, state(1, 1), 0);
    cache.take(Change::New, state(2, 1), 20 * SECOND);
    cache.expire(31 * SECOND, 30 * SECOND);
    assert_eq!(cache.len(), 1);
}

#[test]
fn the_cache_merges_updates_and_knows_what_is_left() {
    let mut cache = ExternalCache::new(2);
    cache.take(Change::New, state(1, 5), 0);
    let update = ConnectionState { mark: None, timeout: Some(50), ..state(1, 0) };
    cache.take(Change::Update, update, 10 * SECOND);
    let cached = cache.iter().next().unwrap().clone();
    assert_eq!((cached.state.mark, cached.left(20 * SECOND)), (Some(5), 40));
    assert_eq!(cached.left(200 * SECOND), 60);
    cache.take(Change::New, state(2, 5), 0);
    cache.take(Change::New, state(3, 5), 0);
    assert_eq!((cache.len(), cache.refused()), (2, 1));
    cache.take(Change::Delete, state(1, 0), 0);
    assert_eq!(cache.len(), 1);
}
