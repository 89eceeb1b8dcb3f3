// SPDX-License-Identifier: Apache-2.0

//! What the kernel says about a network namespace.

use std::io;

use penstock_net::{Flow4, Flow6, Network};
use penstock_netlink::links::Standing;
use penstock_netlink::upper::uppers;
use penstock_netlink::{Answers, Changed, Message, Policies, State};

use super::Target;
use crate::mutate;

pub const TARGET: Target = Target {
    name: "netlink",
    bytes: "messages of the kernel: links, addresses, routes, rules, neighbours, nexthops, IPsec policies, notifications",
    holds: "the network of them answers all questions; it has nothing that no message said; reading it again changes nothing",
    longest: 4096,
    seeds: Vec::new,
    make: messages,
    run,
};

/// A kernel that says what the bytes say, whatever it is asked about a kind.
struct Said(Vec<Message>);

impl Answers for Said {
    fn dump(&mut self, kind: u16, _body: &[u8]) -> io::Result<Vec<Message>> {
        // `RTM_NEW*`, `_DEL*`, `_GET*` and `_SET*` follow each other.
        Ok(self.0.iter().filter(|m| m.kind / 4 == kind / 4).cloned().collect())
    }
}

/// Messages of seeds, some of them changed, with lengths that fit again.
fn messages(rng: &mut fastrand::Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![];
    for _ in 0..rng.usize(1..8) {
        let Some(seed) = seeds.get(rng.usize(..seeds.len().max(1))) else { break };
        let mut parts = vec![];
        let mut rest = &seed[..];
        while let Some(len) = rest.first_chunk().map(|l| u32::from_ne_bytes(*l) as usize)
            && (16..=rest.len()).contains(&len)
        {
            parts.push(&rest[..len]);
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        let Some(part) = parts.get(rng.usize(..parts.len().max(1))) else { continue };
        let mut message = match rng.u8(..3) {
            0 => part.to_vec(),
            _ => mutate::bytes(rng, &[part.to_vec()]),
        };
        message.resize(message.len().max(16), 0);
        let len = (message.len() as u32).to_ne_bytes();
        message[..4].copy_from_slice(&len);
        message.resize(message.len().next_multiple_of(4), 0);
        out.extend(message);
    }
    out
}

fn run(data: &[u8]) {
    let all = Message::all(data);
    assert!(all.len() <= data.len() / 16, "{} messages of {} bytes", all.len(), data.len());
    let policies = Policies::of(&all, all.last());
    let mut changed = Changed::default();
    for message in &all {
        changed.note(message.clone());
    }
    let mut kernel = Said(all);
    let Ok(mut state) = State::read(&mut kernel) else { return };
    let devices = state.devices().len();
    assert!(devices <= kernel.0.len(), "{devices} devices of {} messages", kernel.0.len());
    state.set_policies(policies);
    let network = state.network();
    for link in network.links() {
        let _ = network.link_by_name(&link.name);
        for daddr in [0xc612_000a, 0xc613_0002, 0xffff_ffff, 0xe000_0001, 0] {
            let flow =
                Flow4 { daddr, saddr: 0xc612_0001, iif: link.index, mark: daddr & 7, ..Flow4::default() };
            let _ = network.route4(&flow);
            let _ = network.route4(&Flow4 { oif: link.index, ..flow });
            let _ = (network.kind4(daddr, Some(link.index)), network.neighbour4(link.index, daddr));
        }
        for daddr in [0x2001_0db8_0001_u128 << 80 | 0x10, 0xff02 << 112 | 1, 1, 0] {
            let flow = Flow6 { daddr, iif: link.index, ..Flow6::default() };
            let _ = network.route6(&flow);
            let _ = network.neighbour6(link.index, daddr);
        }
        let standing = Standing::read(&mut kernel, link.index).unwrap_or_default();
        std::hint::black_box((standing, uppers(&mut kernel, link.index).map_or(0, |u| u.len())));
    }
    // Repeated messages change nothing.
    let before = words(&network);
    for mut changed in [Changed::everything(), changed] {
        let _ = state.refresh(&mut kernel, &mut changed);
        assert!(changed.is_empty());
    }
    let _ = state.refresh(&mut kernel, &mut Changed::everything());
    assert_eq!(before, words(&state.network()), "the network becomes another");
}

/// All that a network holds, in an order that does not depend on hashes.
fn words(network: &Network) -> Vec<String> {
    let text = format!("{network:?}");
    let mut words: Vec<String> =
        text.split(|c| " {}()[],".contains(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    words.sort();
    words
}
