// SPDX-License-Identifier: Apache-2.0

//! Workers that run the same rules at the same time: what they count comes together in the rules'
//! counters.

mod router;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use penstock_dataplane::{Dataplane, Engine, Frame, Settings, Shared};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_net::Network;
use penstock_program::State;
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::*;
use router::{NET, START, Seen};

/// Counters of rules, of chains that are called, of elements and of objects; `more` is long enough
/// not to become part of what calls it.
const RULES: &str = "table netdev t {
    counter every { }
    set ports { type inet_service; counter; elements = { 9, 11 } }
    chain c { type filter hook ingress devices = { wan, lan } priority 0
        counter name every
        udp dport @ports
        udp dport 9 counter jump more
        udp dport 11 counter jump more
        drop
    }
    chain more { ip ttl 1 counter; ip ttl 2 counter; ip ttl 3 counter; ip ttl 4 counter; ip ttl 5 counter; ip ttl 6 counter;
        ip ttl 7 counter; ip ttl 64 counter; meta cpu 0 counter; meta cpu 2 counter; }
}";

fn session(ruleset: &mut Ruleset, text: &str) -> String {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, START);
    assert!(outcome.ok, "{text}\n{}", outcome.stderr);
    outcome.stdout
}

/// Packets that counters name in a listing, in order.
fn packets(listing: &str) -> Vec<u64> {
    let number = |part: &str| part.split_whitespace().next().and_then(|n| n.parse().ok());
    listing.split("packets ").skip(1).filter_map(number).collect()
}

#[test]
fn counters_sum_over_workers_across_reloads_and_resets() {
    const WORKERS: usize = 3;
    const BURSTS: u64 = 2000;
    let net = Arc::new(Network::from_batch("net.ip", NET).unwrap());
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, RULES);
    let linked = Arc::new(Linked::new(&ruleset.generation()).unwrap());
    session(&mut ruleset, "add rule netdev t more counter");
    let next = Arc::new(Linked::new(&ruleset.generation()).unwrap());
    // Of the rules, in order of their chains.
    let states: Vec<Arc<State>> = {
        let generation = ruleset.generation();
        let chains = generation.tables.iter().flat_map(|t| &t.chains);
        chains.flat_map(|c| &c.rules).flat_map(|r| r.states.iter().cloned()).collect()
    };
    let reset = || -> Vec<u64> {
        let counters = states.iter().filter_map(|state| match &**state {
            State::Counter(counter) => Some(counter.reset().0),
            _ => None,
        });
        counters.collect()
    };
    let shared = Shared::new(WORKERS, &Settings::default());
    let over = AtomicBool::new(false);
    let mut told = reset();
    assert!(told.iter().all(|packets| *packets == 0));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let (net, linked, next) = (net.clone(), linked.clone(), next.clone());
                let shared = shared.clone();
                scope.spawn(move || {
                    let mut path = Dataplane::of_worker(net, Settings::default(), &shared, number);
                    path.set_engine([Engine::JitAtOnce, Engine::Interpreter][number % 2]);
                    path.set_rules(linked);
                    let ip = || Ipv4::new("198.18.0.7", "198.18.1.7");
                    let frames = [9, 11, 13].map(|port| {
                        (router::from_wan() / ip() / Udp::new(1000, port) / payload([0; 18]))
                            .build()
                    });
                    let mut seen = Seen::default();
                    for burst in 0..BURSTS {
                        if burst == BURSTS / 2 {
                            path.set_rules(next.clone());
                        }
                        let frames =
                            frames.iter().map(|bytes| Frame { device: 2, bytes, time: START });
                        path.receive(frames, &mut seen);
                    }
                    assert_eq!(path.compile_error(), None);
                })
            })
            .collect();
        let resets = scope.spawn(|| {
            let mut told = reset();
            while !over.load(Ordering::Acquire) {
                told.iter_mut().zip(reset()).for_each(|(sum, more)| *sum += more);
            }
            told
        });
        for worker in workers {
            worker.join().unwrap();
        }
        over.store(true, Ordering::Release);
        let more = resets.join().unwrap();
        told.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    });
    told.iter_mut().zip(reset()).for_each(|(sum, more)| *sum += more);
    let frames = WORKERS as u64 * BURSTS;
    // Of `c`; of `more`: the last but one rules are about workers, the last one came on the way.
    let (ttls, workers) = ([0, 0, 0, 0, 0, 0, 0, 2 * frames], [2 * BURSTS, 2 * BURSTS]);
    assert_eq!(told, [&[frames, frames][..], &ttls, &workers, &[frames]].concat());
    let listing = session(&mut ruleset, "list ruleset");
    let counted = packets(&listing);
    assert_eq!(
        counted[..3],
        [3 * frames, frames, frames],
        "of the object and the elements: {listing}"
    );
}

#[test]
fn bridge_learning_is_shared_by_workers() {
    const BRIDGE: &str = "
        link add br0 type bridge
        link add p0 type veth
        link add p1 type veth
        link add p2 type veth
        link set p0 master br0
        link set p1 master br0
        link set p2 master br0
        link set br0 up
        link set p0 up
        link set p1 up
        link set p2 up\n";
    let network =
        |more: &str| Arc::new(Network::from_batch("net.ip", &format!("{BRIDGE}{more}")).unwrap());
    let (net, shared) = (network(""), Shared::new(3, &Settings::default()));
    let mut workers: Vec<_> = (0..3)
        .map(|n| Dataplane::of_worker(net.clone(), Settings::default(), &shared, n))
        .collect();
    /// Devices that a frame between stations leaves by.
    fn sent(worker: &mut Dataplane, device: &str, from: u8, to: u8, time: u64) -> Vec<String> {
        let station = |n: u8| format!("02:00:00:00:00:{n:02x}");
        let frame = Ethernet::new(station(from).as_str(), station(to).as_str())
            / Ipv4::new("198.18.0.1", "198.18.0.2")
            / Udp::new(1, 2);
        let (net, mut seen) = (worker.network().clone(), Seen::default());
        let device = net.link_by_name(device).unwrap().index;
        let bytes = frame.build();
        worker.receive([Frame { device, bytes: &bytes, time }], &mut seen);
        let mut names: Vec<String> = seen.frames.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }
    let mut at = START;
    let mut next = || {
        at += 1_000_000;
        at
    };
    assert_eq!(sent(&mut workers[0], "p0", 1, 2, next()), ["p1", "p2"]);
    assert_eq!(sent(&mut workers[1], "p1", 2, 1, next()), ["p0"]);
    assert_eq!(sent(&mut workers[2], "p0", 1, 2, next()), ["p1"]);
    // The second station moves.
    assert_eq!(sent(&mut workers[2], "p2", 2, 1, next()), ["p0"]);
    assert_eq!(sent(&mut workers[0], "p0", 1, 2, next()), ["p2"]);
    // Another state of the network is in force for one after the other; what they learn meanwhile
    // all know.
    let (mtu, without) = (network("link set p0 mtu 1400\n"), network("link set p2 nomaster\n"));
    let mut sink = Seen::default();
    workers[0].set_network(mtu.clone(), next(), &mut sink);
    assert_eq!(sent(&mut workers[0], "p1", 3, 1, next()), ["p0"]);
    assert_eq!(sent(&mut workers[1], "p0", 1, 3, next()), ["p1"]);
    workers[1].set_network(mtu.clone(), next(), &mut sink);
    workers[2].set_network(mtu, next(), &mut sink);
    assert_eq!(sent(&mut workers[2], "p0", 1, 2, next()), ["p2"]);
    // A port leaves, and with it all addresses behind it, although a worker learns that late.
    workers[0].set_network(without.clone(), next(), &mut sink);
    assert_eq!(sent(&mut workers[0], "p0", 1, 2, next()), ["p1"]);
    assert_eq!(sent(&mut workers[1], "p2", 2, 1, next()), ["p0"]);
    assert_eq!(
        sent(&mut workers[0], "p0", 1, 2, next()),
        [""; 0],
        "it is behind a port that is none any more"
    );
    workers[1].set_network(without.clone(), next(), &mut sink);
    assert_eq!(sent(&mut workers[0], "p0", 1, 2, next()), ["p1"]);
    workers[2].set_network(without, next(), &mut sink);
    assert_eq!(sent(&mut workers[2], "p0", 1, 3, next()), ["p1"]);
}
