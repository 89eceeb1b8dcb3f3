// SPDX-License-Identifier: Apache-2.0

//! The table against a plain map, and rewritten packets against newly built packets.

use std::collections::HashMap;
use std::net::IpAddr;

use penstock_flowtable::{
    AddError, Arrival, At, Direction, Encap, Flowtable, Key, Limits, NewFlow, NewHalf, Tunnel,
    Xmit, rewrite, state,
};
use penstock_testkit::build::*;

fn random_address(rng: &mut fastrand::Rng, v6: bool) -> IpAddr {
    if v6 { format!("2001:db8::{:x}", rng.u16(..40)) } else { format!("198.18.0.{}", rng.u8(..40)) }
        .parse()
        .unwrap()
}

fn random_arrival(rng: &mut fastrand::Rng) -> Arrival {
    let mut arrival = Arrival::on(rng.u32(1..4));
    for _ in 0..rng.u32(..3) {
        arrival.encaps.push(Encap { id: rng.u16(1..3), protocol: 0x8100 });
    }
    if rng.u8(..4) == 0 {
        let [src, dst] = [random_address(rng, false), random_address(rng, false)];
        arrival.tunnel = Some(Tunnel { src, dst, protocol: 4 });
    }
    arrival
}

fn random_flow(rng: &mut fastrand::Rng) -> NewFlow {
    let v6 = rng.bool();
    let l4 = if rng.bool() { 6 } else { 17 };
    let mut half = || {
        let (src, dst) = (random_address(rng, v6), random_address(rng, v6));
        let key = Key::new(src, dst, [rng.u16(1..4), rng.u16(1..4)], l4);
        let xmit = Xmit::neighbour(rng.u32(1..4), [2; 6], [3; 6], 1500);
        NewHalf { key, arrival: random_arrival(rng), xmit }
    };
    NewFlow {
        halves: [half(), half()],
        connection: 0,
        lookup: 0,
        network: 0,
        translated: true,
        now: 0,
    }
}

#[test]
fn index_agrees_with_a_hash_map_under_random_operations() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut table = Flowtable::new(Limits { flows: 600 }, seed);
    let mut map: HashMap<(Key, Arrival), At> = HashMap::new();
    let mut flows: HashMap<u32, NewFlow> = HashMap::new();
    let (mut full, mut taken) = (0, 0);
    for _ in 0..20_000 {
        if rng.u8(..5) < 2
            && let Some(&flow) = flows.keys().next()
        {
            let new = flows.remove(&flow).unwrap();
            for half in new.halves {
                map.remove(&(half.key, half.arrival));
            }
            table.remove(flow);
            assert!(!table.is_live(flow));
        } else {
            let new = random_flow(&mut rng);
            let known = new.halves.iter().any(|h| map.contains_key(&(h.key, h.arrival)));
            let twins = new.halves[0].key == new.halves[1].key
                && new.halves[0].arrival == new.halves[1].arrival;
            match table.add(&new) {
                Ok(flow) => {
                    assert!(!known && !twins);
                    for (half, direction) in new.halves.iter().zip(Direction::BOTH) {
                        map.insert((half.key, half.arrival), At { flow, direction });
                    }
                    flows.insert(flow, new);
                }
                Err(AddError::Taken) => {
                    assert!(known || twins);
                    taken += 1;
                }
                Err(AddError::Full) => {
                    assert_eq!(flows.len(), 600);
                    full += 1;
                }
            }
        }
        assert_eq!(table.len() as usize, flows.len());
        let probes = map.keys().copied().take(20).chain((0..4).map(|_| {
            let half = random_flow(&mut rng).halves[0];
            (half.key, half.arrival)
        }));
        let probes: Vec<_> = probes.collect();
        let keys: Vec<Option<Key>> = probes
            .iter()
            .map(|(key, arrival)| Some(key.arriving(table.arrival(arrival)?)))
            .collect();
        let known: Vec<Key> = keys.iter().flatten().copied().collect();
        let mut found = vec![None; known.len()];
        table.find_burst(&known, &mut found);
        let mut found = found.into_iter();
        for (probe, key) in probes.iter().zip(keys) {
            let at = key.and_then(|key| {
                let at = table.find(table.hash(&key), &key);
                assert_eq!(found.next(), Some(at), "as with others");
                at
            });
            assert_eq!(at, map.get(probe).copied());
            if let Some(at) = at {
                assert_eq!(table.key(at).arriving(Default::default()), probe.0);
                assert_eq!(*table.arrival_at(table.half(at).arrival()), probe.1);
                assert_eq!(*table.xmit(at), flows[&at.flow].halves[at.direction as usize].xmit);
            }
        }
    }
    assert!(taken > 0, "{taken}");
    let _ = full;
    flows.keys().for_each(|flow| table.remove(*flow));
    assert_eq!((table.len(), table.xmits(), table.arrivals().count()), (0, 0, 0));
}

#[test]
fn a_flow_that_is_torn_down_is_not_found_and_its_keys_are_free() {
    let mut table = Flowtable::new(Limits::default(), 1);
    let new = random_flow(&mut fastrand::Rng::with_seed(3));
    let flow = table.add(&new).unwrap();
    assert_eq!(table.add(&new), Err(AddError::Taken));
    table.set_state(flow, state::TEARDOWN);
    let other = table.add(&new).unwrap();
    assert_eq!(table.iter().collect::<Vec<_>>(), [other]);
    table.remove(flow);
    let key = new.halves[0].key.arriving(table.arrival(&new.halves[0].arrival).unwrap());
    assert_eq!(table.find(table.hash(&key), &key).map(|at| at.flow), Some(other));
}

/// A packet with these addresses and ports, TTL and hop limit as given.
fn packet(key: &Key, ttl: u8, checksum: bool, data: &[u8]) -> Vec<u8> {
    let [sport, dport] = key.port_numbers();
    let (src, dst) = (key.source().to_string(), key.destination().to_string());
    let mut bytes = if key.l3 == 4 {
        let ip = Ipv4::new(&*src, &*dst).ttl(ttl);
        match key.l4 {
            6 => (ip / Tcp::new(sport, dport) / penstock_testkit::build::payload(data)).build(),
            _ => (ip / Udp::new(sport, dport) / penstock_testkit::build::payload(data)).build(),
        }
    } else {
        let ip = Ipv6::new(&*src, &*dst).hop_limit(ttl);
        match key.l4 {
            6 => (ip / Tcp::new(sport, dport) / penstock_testkit::build::payload(data)).build(),
            _ => (ip / Udp::new(sport, dport) / penstock_testkit::build::payload(data)).build(),
        }
    };
    if !checksum && key.l4 == 17 {
        let at = if key.l3 == 4 { 26 } else { 46 };
        bytes[at..at + 2].fill(0);
    }
    bytes
}

#[test]
fn a_rewritten_packet_is_the_packet_that_its_new_headers_make() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..3000 {
        let mut table = Flowtable::new(Limits::default(), seed);
        let mut new = random_flow(&mut rng);
        new.translated = rng.bool();
        let Ok(flow) = table.add(&new) else { continue };
        for direction in Direction::BOTH {
            let at = At { flow, direction };
            let (own, other) = (
                new.halves[at.direction as usize].key,
                new.halves[at.direction.opposite() as usize].key,
            );
            let [a, b] = other.port_numbers();
            let leaves = Key::new(other.destination(), other.source(), [b, a], own.l4);
            let ttl = rng.u8(2..);
            let checksum = rng.u8(..5) > 0;
            let payload: Vec<u8> = (0..rng.usize(..9)).map(|_| rng.u8(..)).collect();
            let mut bytes = packet(&own, ttl, checksum, &payload);
            if own.l3 == 4 {
                rewrite::ipv4(table.half(at), &mut bytes);
            } else {
                rewrite::ipv6(table.half(at), table.addresses(at), &mut bytes);
            }
            assert_eq!(bytes, packet(&leaves, ttl - 1, checksum, &payload), "{own:?} {leaves:?}");
        }
    }
}

#[test]
fn a_flow_over_ipv4_takes_less_than_256_bytes() {
    let mut table = Flowtable::new(Limits { flows: 200_000 }, 1);
    for n in 0..200_000u32 {
        let [a, b, c, d] = n.to_be_bytes();
        let there = Key::v4([10 + a, b, c, d], [203, 0, 113, 9], [1000, 53], 17);
        let back = Key::v4([203, 0, 113, 9], [10 + a, b, c, d], [53, 1000], 17);
        let xmit = Xmit::neighbour(2, [2; 6], [3; 6], 1500);
        let halves = [
            NewHalf { key: there, arrival: Arrival::on(1), xmit },
            NewHalf { key: back, arrival: Arrival::on(2), xmit },
        ];
        table
            .add(&NewFlow {
                halves,
                connection: n.into(),
                lookup: 0,
                network: 0,
                translated: false,
                now: 0,
            })
            .unwrap();
    }
    let each = table.memory() / 200_000;
    assert!(each <= 256, "{each}");
}
