// SPDX-License-Identifier: Apache-2.0

//! DCCP by chance: packets of all types in both directions, mostly in the order of a connection's
//! life, translated and not. Linux tracked it until 6.16 (`PENSTOCK_ORACLE_SUITE=trixie`).

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::net::{out4, out6, wan};
use crate::scenario::Scenario;
use crate::scenarios::dccp::{self, rest};

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let nat = rng.pick(&[
        "",
        "",
        "oifname wan masquerade",
        "meta l4proto dccp oifname wan snat ip to 198.19.0.1:7000",
    ]);
    let mut s = dccp::scenario("", nat);
    s.name = format!("random_dccp_{seed}");
    s = s.sysctl("net.netfilter.nf_conntrack_dccp_loose", rng.u32(0..2));
    s = s.sysctl("net.netfilter.nf_conntrack_checksum", rng.u32(0..2));
    let life = [(0, dccp::REQUEST), (1, dccp::RESPONSE), (0, dccp::ACK), (1, dccp::DATA)]
        .into_iter()
        .chain([(0, dccp::DATA_ACK), (1, dccp::CLOSE_REQUEST), (0, dccp::CLOSE), (1, dccp::RESET)]);
    let life: Vec<_> = life.collect();
    let six = nat.is_empty() && rng.bool();
    let (to, port) = match nat {
        "" => ("198.18.0.10", 4000),
        _ => ("198.19.0.1", if nat.contains(":7000") { 7000 } else { 4000 }),
    };
    let (mut at, mut next) = (0, [rng.u64(..1 << 48), rng.u64(..1 << 48)]);
    for _ in 0..rng.usize(4..24) {
        if rng.u8(..12) == 0 {
            at = rng.usize(..life.len());
        }
        let (from, kind) = match life.get(at).filter(|_| rng.u8(..4) != 0) {
            Some(step) => {
                at += 1;
                *step
            }
            None => (rng.usize(..2), rng.u8(..11)),
        };
        let heard = next[1 - from] - rng.u64(..2).min(next[1 - from]);
        let more = rest(kind, heard);
        next[from] += 1;
        let number = (next[from] - 1) & 0xffff_ffff_ffff;
        let frame = match (from, six) {
            (0, false) => out4(),
            (0, true) => out6(),
            (_, false) => wan().ip4("198.19.0.2", to),
            (_, true) => wan().ip6("2001:db8:2::2", "2001:db8:1::10"),
        };
        let ports = if from == 0 { (4000, 80) } else { (80, port) };
        let mut frame = frame.dccp(ports, kind, number, &more);
        match rng.u8(..24) {
            0 => frame = frame.set(4, &[rng.u8(..10)]),
            1 => frame = frame.set(5, &[rng.u8(..16)]),
            2 => frame = frame.patch(6, &[1, 2]),
            // Short sequence numbers.
            3 => frame = frame.set(8, &[kind << 1]),
            _ => {}
        }
        let data = rng.usize(..12);
        s = s.frame(["lan", "wan"][from], &frame.zeros(data));
    }
    s
}
