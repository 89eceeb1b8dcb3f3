// SPDX-License-Identifier: Apache-2.0

//! Dumps of connections, as state files have them.

use penstock_conntrack::{Conntrack, Settings};

use super::Target;
use crate::mutate;
use crate::network::NOW;

pub const TARGET: Target = Target {
    name: "dump",
    bytes: "a dump of connections and expectations",
    holds: "what is loaded is dumped so that it loads, as many connections as it has lines at most; they end in time",
    longest: 2048,
    seeds,
    make: mutate::text_bytes,
    run,
};

/// A connection of each tracker, one with everything, an expectation.
const DUMP: &str = "\
penstock-conntrack 1
flow id=1 proto=17 orig=198.18.0.1,198.18.1.1,9,53,0 reply=198.18.1.1,198.18.0.1,53,9,0 status=14 left=5000000000 udp=0
flow id=2 proto=6 orig=198.18.0.1,198.18.1.1,4000,80,0 reply=198.18.1.1,198.19.0.1,80,5000,0 status=398 \
left=86400000000000 mark=7 secmark=3 masq=3 labels=1,2,3,4 helper=ftp packets=10,9 bytes=1000,90000 \
start=1600000000000000000 seqadj=5,1,2,9,-3,4 tcp=3,0,0,2,7,8,9,512,7,1,100,200,65535,300,7,9,400,500,1024,600,2,8
flow id=3 proto=132 orig=2001:db8::1,2001:db8::2,1,2,0 reply=2001:db8::2,2001:db8::1,2,1,0 status=14 left=1000 sctp=4,1,2,0,0,2
flow id=4 proto=33 orig=198.18.0.1,198.18.1.1,1,2,5 reply=198.18.1.1,198.18.0.1,2,1,6 status=14 left=1000 dccp=4,1,0,2,77
flow id=5 proto=47 orig=198.18.0.1,198.18.1.1,1,1,0 reply=198.18.1.1,198.18.0.1,1,1,0 status=14 left=1000 gre=1000,2000
flow id=6 proto=1 orig=198.18.0.1,198.18.1.1,77,2048,0 reply=198.18.1.1,198.18.0.1,77,0,0 status=10 left=1000 master=2
expect master=2 proto=6 tuple=198.18.0.1,198.18.1.1,0,2000,0 mask=255.255.255.255 port=0 class=0 flags=0 left=1000 \
helper=ftp,6 follow=1,21,198.18.0.9
";

fn seeds() -> Vec<Vec<u8>> {
    let lines: Vec<&str> = DUMP.lines().collect();
    let mut seeds = vec![DUMP.into()];
    seeds.extend(lines[1..].iter().map(|line| format!("{}\n{line}\n", lines[0]).into_bytes()));
    seeds
}

fn table() -> Conntrack {
    Conntrack::new(Settings { max: 64, buckets: Some(32), ..Settings::default() })
}

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut conntrack = table();
    let loaded = conntrack.load(&text, NOW);
    // Lines before one that is refused are loaded: what is there holds in any case.
    let count = conntrack.iter().count();
    assert!(count <= text.lines().count(), "{count} connections of {} lines", text.lines().count());
    if let Ok(lines) = loaded {
        assert!(count <= lines);
    }
    let dump = conntrack.dump();
    let mut again = table();
    match again.load(&dump, NOW) {
        Ok(_) => {
            let second = again.dump();
            let mut third = table();
            third.load(&second, NOW).unwrap_or_else(|e| panic!("{e}\n{second}"));
            let sorted = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(without_numbers).collect();
                lines.sort();
                lines
            };
            assert_eq!(sorted(&second), sorted(&third.dump()), "of:\n{text}");
        }
        Err(e) => panic!("a dump is refused: {e}\n{dump}of:\n{text}"),
    }
    conntrack.advance(NOW + (1 << 62));
    let left = conntrack.iter().count();
    assert_eq!(left, 0, "connections outlive all times:\n{text}");
}

/// A line without the numbers of connections, which may be others.
fn without_numbers(line: &str) -> String {
    let words = line.split(' ').filter(|word| !word.starts_with("id=") && !word.starts_with("master="));
    words.collect::<Vec<_>>().join(" ")
}
