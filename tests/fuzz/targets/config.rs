// SPDX-License-Identifier: Apache-2.0

//! Network files.

use penstock_net::{Flow4, Flow6, Network};

use super::Target;
use crate::{mutate, seeds};

pub const TARGET: Target = Target {
    name: "config",
    bytes: "lines for `ip -batch`",
    holds: "what is accepted answers all questions about routes and neighbours",
    longest: 4096,
    seeds: seeds::configs,
    make: mutate::text_bytes,
    run,
};

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(net) = Network::from_batch("fuzz", &text) else { return };
    for link in net.links() {
        assert_eq!(net.link(link.index).map(|l| &l.name), Some(&link.name), "{text}");
        let _ = net.link_by_name(&link.name);
        for (daddr, saddr) in [(0xc612_000a, 0), (0xc613_0002, 0xc612_000a), (0xffff_ffff, 1), (0, 0)] {
            let flow = Flow4 { daddr, saddr, iif: link.index, mark: daddr & 7, ..Flow4::default() };
            let _ = net.route4(&flow);
            let _ = net.route4(&Flow4 { oif: link.index, ..flow });
            let _ = (net.kind4(daddr, Some(link.index)), net.neighbour4(link.index, daddr));
        }
        for daddr in [0x2001_0db8_0001_u128 << 80 | 0x10, 0xff02 << 112 | 1, 1, 0] {
            let flow = Flow6 { daddr, iif: link.index, ..Flow6::default() };
            let _ = net.route6(&flow);
            let _ = net.neighbour6(link.index, daddr);
        }
    }
}
