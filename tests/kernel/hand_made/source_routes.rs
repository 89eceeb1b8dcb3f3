// SPDX-License-Identifier: Apache-2.0

//! Source routes of IPv4, where they are followed (`accept_source_route`).

use crate::frame::{Frame, ethernet};
use crate::net::{CLIENT, LAN, NET, lan};
use crate::scenario::Scenario;

const RULES: &str = "\
table inet t {
	chain p { type filter hook prerouting priority 0; counter; ip daddr 198.18.0.1 counter; }
	chain i { type filter hook input priority 0; counter; ip daddr 198.18.0.1 counter; }
	chain f { type filter hook forward priority 0; counter; ip daddr 198.18.0.1 counter; }
	chain o { type filter hook output priority 0; counter; }
	chain s { type filter hook postrouting priority 0; counter; ip daddr 198.18.0.1 counter; }
}
";

const LOOSE: u8 = 131;
const STRICT: u8 = 137;

/// An option with these addresses.
fn route(kind: u8, pointer: u8, hops: &[&str]) -> Vec<u8> {
    let mut option = vec![kind, 3 + 4 * hops.len() as u8, pointer];
    for hop in hops {
        option.extend(hop.parse::<std::net::Ipv4Addr>().expect("an address").octets());
    }
    option
}

/// From the client to an address of the router, with options.
fn here(options: &[u8]) -> Frame {
    lan().ip4("198.18.0.10", "198.18.0.1").id(7).ip_options(options).udp(1, 9).data(b"12345678")
}

/// Routes over one or more addresses, by both kinds of options.
fn routes() -> Vec<Frame> {
    let ways: &[&[&str]] = &[
        &["198.19.0.2"],
        &["198.19.200.9"],
        &["198.18.5.20"],
        &["198.18.0.11"],
        &["198.18.5.1", "198.19.0.2"],
        &["198.18.5.1", "198.19.0.1"],
        &["198.18.5.1", "198.19.0.1", "198.18.5.20", "198.18.0.10"],
        &["198.19.0.2", "198.18.5.20"],
        &["198.18.64.1"],
        &["198.18.65.1"],
        &["198.18.66.1"],
        &["198.18.0.255"],
        &["224.0.0.1"],
        &["0.0.0.0"],
        &["127.0.0.1"],
        &["255.255.255.255"],
    ];
    let mut frames = vec![];
    for kind in [LOOSE, STRICT] {
        frames.extend(ways.iter().map(|hops| here(&route(kind, 4, hops))));
        // At its end, after its first address, and in the middle of one.
        for pointer in [8, 12, 5, 6, 7, 255] {
            frames.push(here(&route(kind, pointer, &["198.19.0.2", "198.18.5.20"])));
        }
        frames.push(here(&[kind, 9, 4, 198, 18, 5, 1, 198, 19, 0, 2, 0]));
        frames.push(here(&[kind, 5, 4, 198, 19, 0, 0, 0]));
        frames.push(here(&[kind, 3, 4, 0]));
    }
    frames
}

/// What comes of routes besides the way: other options, limits, and errors.
fn others() -> Vec<Frame> {
    let loose = route(LOOSE, 4, &["198.19.0.2"]);
    let through =
        |options: &[u8]| lan().ip4("198.18.0.10", "198.19.0.2").id(7).ip_options(options).udp(1, 9);
    let record = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    let everybody = ethernet([0xff; 6], CLIENT).ip4("198.18.0.10", "198.18.0.1");
    let mut frames = vec![
        through(&loose),
        through(&route(STRICT, 4, &["198.19.0.2"])),
        through(&[&[STRICT, 7, 4, 1, 1, 1, 1][..], &record].concat()),
        here(&[&record[..], &loose].concat()),
        here(&[&loose[..], &record].concat()),
        here(&[&loose[..], &loose].concat()),
        here(&loose).ttl(1),
        here(&loose).df().zeros(1400),
        here(&route(LOOSE, 4, &["198.18.5.20"])).df().zeros(1290),
        here(&route(LOOSE, 4, &["198.18.5.20"])).zeros(1290),
        everybody.id(7).ip_options(&loose).udp(1, 9),
        ethernet(LAN, CLIENT).ip4("198.18.0.10", "198.18.0.255").ip_options(&loose).udp(1, 9),
        lan().ip4("198.18.0.10", "198.18.64.1").ip_options(&loose).udp(1, 9),
    ];
    // Errors go back along what was passed.
    for hops in [
        &["198.18.0.11", "198.19.0.2"][..],
        &["198.18.0.10", "198.19.0.2"],
        &["198.19.0.3", "198.18.0.11", "198.19.0.2"],
        &["198.18.0.10", "198.18.0.11", "198.19.0.2"],
        &["198.18.64.1", "198.19.0.2"],
    ] {
        for pointer in [8, 12] {
            frames.push(here(&route(LOOSE, pointer, hops)).ttl(1));
            frames.push(through(&route(LOOSE, pointer, hops)).ttl(1));
            frames.push(here(&[&record[..], &route(STRICT, pointer, hops)].concat()).ttl(1));
        }
    }
    frames
}

fn of(name: &str, sysctls: &[(&str, u32)], frames: &[Frame]) -> Scenario {
    let mut scenario = Scenario::new(name, NET, RULES);
    for (name, value) in sysctls {
        scenario = scenario.sysctl(name, *value);
    }
    frames.iter().fold(scenario, |scenario, frame| scenario.frame("lan", frame))
}

pub fn all() -> Vec<Scenario> {
    let all = "net.ipv4.conf.all.accept_source_route";
    let lan = "net.ipv4.conf.lan.accept_source_route";
    vec![
        of("source_routes_are_refused", &[], &routes()),
        of("source_routes_are_followed", &[(all, 1)], &routes()),
        of("source_routes_of_one_device", &[(all, 1), (lan, 0)], &routes()),
        of("source_routes_of_all_devices_but_none", &[(lan, 1)], &routes()),
        of("source_routes_and_what_else_there_is", &[(all, 1)], &others()),
        of(
            "source_routes_where_sources_are_checked",
            &[(all, 1), ("net.ipv4.conf.lan.rp_filter", 1)],
            &routes(),
        ),
        of(
            "source_routes_of_a_device_that_does_not_forward",
            &[(all, 1), ("net.ipv4.conf.lan.forwarding", 0)],
            &routes(),
        ),
    ]
}
