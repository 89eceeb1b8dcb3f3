// SPDX-License-Identifier: Apache-2.0

//! Bridges that snoop memberships, by chance: settings, messages of all versions, sound and not,
//! time that passes, and frames to groups.

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, ethernet};
use crate::hand_made::snooping::{
    ALL_NODES, ANY, ANY6, DONE6, LEAVE, PORTS, QUERY, QUERY6, REPORT, REPORT_V1, REPORT6, RULES,
    STATIONS, WAIT, data, igmp, mac4, mld, net, query3, raw, report3, report6,
};
use crate::scenario::Scenario;

const GROUPS: [&str; 6] =
    ["239.1.1.1", "239.1.1.2", "239.129.1.1", "224.0.0.5", "198.18.0.99", "239.255.255.250"];
/// None that the host is in, since it does not answer questions about them.
const GROUPS6: [&str; 4] = ["ff05::1234", "ff02::1:ff00:99", "ff0e::77", ALL_NODES];

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let (words, lines) = settings(&mut rng);
    let mut s =
        Scenario::new(&format!("random_snooping_{seed}"), &net(&words, &lines), RULES).at_once();
    let mut waits = 3;
    if rng.u8(..4) != 0 {
        s = s.frame(rng.pick(&PORTS), &igmp(1, QUERY, 2, ANY));
        s = s.frame(rng.pick(&PORTS), &mld(1, QUERY6, 200, ANY6)).wait(WAIT);
        waits -= 1;
    }
    for _ in 0..rng.usize(40..80) {
        let from = rng.u8(..4);
        let frame = frame(&mut rng, if from == 0 { 4 } else { from });
        s = s.frame(PORTS[usize::from(from)], &frame);
        if waits > 0 && rng.u8(..16) == 0 {
            s = s.wait(WAIT);
            waits -= 1;
        }
    }
    s
}

fn settings(rng: &mut Rng) -> (String, String) {
    let (mut words, mut lines) = (String::new(), String::new());
    for (word, value) in [
        ("mcast_membership_interval", 50),
        ("mcast_querier_interval", 120),
        ("mcast_last_member_interval", 20),
        ("mcast_last_member_count", 1),
        ("mcast_router", 0),
        ("mcast_router", 2),
    ] {
        if rng.u8(..5) == 0 {
            words += &format!("{word} {value} ");
        }
    }
    for port in ["one", "two", "three"] {
        for option in
            ["mcast_router 0", "mcast_router 2", "fastleave on", "mcast_flood off", "hairpin on"]
        {
            if rng.u8(..8) == 0 {
                lines += &format!("link set {port} type bridge_slave {option}\n");
            }
        }
        if rng.u8(..6) == 0 {
            let group = rng.pick(&["239.1.1.1", "239.1.1.2", "ff05::1234", "01:02:03:04:05:06"]);
            lines += &format!("bridge mdb add dev br0 port {port} grp {group} permanent\n");
        }
    }
    if rng.u8(..8) == 0 {
        lines += "link set br0 allmulticast on\n";
    }
    (words, lines)
}

fn frame(rng: &mut Rng, from: u8) -> Frame {
    let (group, group6) = (rng.pick(&GROUPS), rng.pick(&GROUPS6));
    match rng.u8(..24) {
        0 => igmp(from, QUERY, 2, ANY),
        1 => igmp(from, QUERY, rng.pick(&[0, 2, 2, 2]), group),
        2 => query3(from, 0, ANY, &[]),
        3 => query3(from, 2, group, if rng.bool() { &[] } else { &["198.18.0.9"] }),
        4 => mld(from, QUERY6, 200, ANY6),
        5 => mld(from, QUERY6, 200, group6),
        6 => igmp(from, REPORT_V1, 0, group),
        7 | 8 => igmp(from, REPORT, 0, group),
        9 => igmp(from, LEAVE, 0, group),
        10 | 11 => {
            let sources: &[&str] = if rng.bool() { &[] } else { &["198.18.0.9", "198.18.0.8"] };
            let other = rng.pick(&GROUPS);
            report3(from, &[(rng.u8(..8), group, sources), (rng.u8(1..7), other, &[])])
        }
        12 => mld(from, REPORT6, 0, group6),
        13 => mld(from, DONE6, 0, group6),
        14 => report6(
            from,
            &[(rng.u8(..8), group6, rng.u8(..3)), (rng.u8(1..7), rng.pick(&GROUPS6), 0)],
        ),
        15 => {
            let station = STATIONS[usize::from(from) % 3];
            ethernet([1, 2, 3, 4, 5, rng.u8(6..8)], station).ethertype(0x1234).data(b"others")
        }
        16 => {
            let sound = if rng.bool() {
                igmp(from, REPORT, 0, group)
            } else {
                mld(from, REPORT6, 0, group6)
            };
            let mut bytes = sound.bytes();
            let at = rng.usize(14..bytes.len());
            bytes[at] = rng.u8(..);
            raw(&bytes)
        }
        17 => igmp(from, REPORT, 0, group).cut(rng.usize(15..44)),
        18 => {
            let station = STATIONS[usize::from(from) % 3];
            ethernet(mac4("224.0.0.13"), station)
                .ip4("198.18.0.20", "224.0.0.13")
                .transport(103, &[rng.pick(&[0x20, 0x21]), 0, 0xdf, 0xff])
        }
        19..22 => data(from, group6),
        _ => data(from, group),
    }
}
