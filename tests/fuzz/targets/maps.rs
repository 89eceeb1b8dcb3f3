// SPDX-License-Identifier: Apache-2.0

//! BPF maps of flows that a process that died has left.

use penstock_conntrack::{Conntrack, Settings};
use penstock_daemon::adopt_flows;
use penstock_ebpf::flow::found_in;

use super::Target;
use crate::mutate;
use crate::network::NOW;

pub const TARGET: Target = Target {
    name: "maps",
    bytes: "keys and values of the maps of flows",
    holds: "flows are at most half as many as entries; the dump that adopts them loads, twice as once",
    longest: 1024,
    seeds,
    make: mutate::bytes,
    run,
};

/// Bytes of the longest key, and of a value.
const KEY: usize = 48;
const VALUE: usize = 136;

/// Entries are a byte that says the family, a key and a value, the last of them cut.
fn entries(data: &[u8]) -> Vec<(bool, &[u8], &[u8])> {
    let chunks = data.chunks(1 + KEY + VALUE);
    let entry = |chunk| {
        let (first, rest): (&u8, &[u8]) = <[u8]>::split_first(chunk)?;
        let (key, value) = rest.split_at(KEY.min(rest.len()));
        Some((first & 1 != 0, key, value))
    };
    chunks.filter_map(entry).collect()
}

/// Both directions of a flow that is translated, of each family.
fn seeds() -> Vec<Vec<u8>> {
    let flow = |six: bool, ends: [[u8; 2]; 4]| {
        let address = |host: [u8; 2]| [&[0; 14][if six { 0 } else { 12 }..], &host].concat();
        let entry = |arrives: [[u8; 2]; 2], leaves: [[u8; 2]; 2], flags: u8| {
            let mut key = [address(arrives[0]), address(arrives[1]), vec![15, 160, 0, 80]].concat();
            key.resize(if six { 44 } else { 28 }, 0);
            key.push(6);
            key.resize(KEY, 0);
            let mut value = vec![0; VALUE];
            (value[0], value[8], value[42]) = (3, 200, flags);
            value[16..24].copy_from_slice(&NOW.to_ne_bytes());
            value[44..48].copy_from_slice(&[15, 160, 0, 80]);
            for (at, host) in [(48, leaves[0]), (64, leaves[1])] {
                let bytes = address(host);
                value[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            [vec![u8::from(six)], key, value].concat()
        };
        let [client, near, far, server] = ends;
        let mut back = entry([server, near], [far, client], 0);
        // Ports the other way round.
        let ports = if six { 1 + 32 } else { 1 + 8 };
        back[ports..ports + 4].rotate_left(2);
        back[1 + KEY + 44..1 + KEY + 48].rotate_left(2);
        [entry([client, far], [near, server], 64), back].concat()
    };
    let hosts = [[0, 1], [0, 2], [0, 3], [0, 4]];
    let mut seeds = vec![flow(false, hosts), flow(true, hosts)];
    seeds.push(seeds.concat());
    seeds
}

fn run(data: &[u8]) {
    let entries = entries(data);
    let count = entries.len();
    let flows = found_in(entries);
    assert!(flows.len() <= count, "{} flows of {count} entries", flows.len());
    let mut dump = String::new();
    let adopted = adopt_flows(&mut dump, &flows, NOW);
    assert!(adopted <= flows.len());
    let once = dump.clone();
    adopt_flows(&mut dump, &flows, NOW);
    // The words of a line may come in another order.
    let lines = |dump: &str| {
        let words = |line: &str| {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            words.sort();
            words
        };
        dump.lines().map(words).collect::<Vec<_>>()
    };
    assert_eq!(lines(&once), lines(&dump));
    let mut conntrack = Conntrack::new(Settings { max: 64, buckets: Some(32), ..Settings::default() });
    let _ = conntrack.load(&dump, NOW);
    assert!(conntrack.iter().count() <= adopted);
}
