// SPDX-License-Identifier: Apache-2.0

//! Timeout policies by chance (`ct timeout` objects): how long connections live in each state.

use crate::lab::{A, B};
use crate::tcp::story;
use crate::{Policy, Step, compare_with, lab};
use penstock_conntrack::Settings;
use penstock_testkit::build::*;
use penstock_wire::protocol;

const TCP: [&str; 10] = [
    "syn_sent",
    "syn_recv",
    "established",
    "fin_wait",
    "close_wait",
    "last_ack",
    "time_wait",
    "close",
    "retrans",
    "unack",
];
const UDP: [&str; 2] = ["unreplied", "replied"];

#[test]
fn random_timeout_policies_hold_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let seed = penstock_testkit::seed();
    let mut failed = Vec::new();
    for seed in seed..seed + penstock_testkit::rounds(8) as u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let policies: Vec<Policy> = [(protocol::TCP, &TCP[..]), (protocol::UDP, &UDP)]
            .into_iter()
            .map(|(protocol, names)| {
                let mut named =
                    |name: &&'static str| (rng.u8(..3) != 0).then(|| (*name, rng.u32(40..9000)));
                (protocol, names.iter().filter_map(&mut named).collect())
            })
            .collect();
        lab.load(&rules(&policies));
        let mut steps = story(&mut rng, 16);
        let datagrams = (0..rng.usize(2..6)).map(|_| datagram(&mut rng));
        steps.extend(datagrams);
        let name = format!("policies {seed}: {policies:?}");
        let settings = Settings::default();
        failed.extend(compare_with(&mut lab, &name, &settings, &steps, false, &policies).err());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The rules that set policies for all new connections.
fn rules(policies: &[Policy]) -> String {
    let mut text = String::from("table ip p\ndelete table ip p\ntable ip p {\n");
    let mut set = String::new();
    for ((_, seconds), name) in policies.iter().zip(["tcp", "udp"]) {
        let named: Vec<_> = seconds.iter().map(|(state, s)| format!("{state} : {s}")).collect();
        let policy = match named.is_empty() {
            true => String::new(),
            false => format!("policy = {{ {} }}\n", named.join(", ")),
        };
        text += &format!("ct timeout of_{name} {{ protocol {name}; l3proto ip; {policy}}}\n");
        set += &format!("meta l4proto {name} ct timeout set \"of_{name}\"\n");
    }
    text + "chain c { type filter hook prerouting priority -140\n" + &set + "}\n}\n"
}

fn datagram(rng: &mut fastrand::Rng) -> Step {
    let there = rng.bool();
    let frame = match there {
        true => Ipv4::new(A, B) / Udp::new(1000, 54) / payload(b"data"),
        false => Ipv4::new(B, A) / Udp::new(54, 1000) / payload(b"data"),
    };
    (there, frame)
}
