// SPDX-License-Identifier: Apache-2.0

//! Tunnels by chance: IPIP, 6in4 and IPv6 tunnels with options, packets in both directions, some of
//! which do not fit or are not the tunnel's, and a flowtable where it copies no more to outer
//! headers than the tunnel does (docs/differences.md).

use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, Mac, bare, ethernet};
use crate::scenario::Scenario;
use crate::scenarios::TUNNEL_NET as NET;

const LAN: Mac = [2, 0, 0, 0, 1, 1];
const WAN: Mac = [2, 0, 0, 0, 2, 1];
const CLIENT: Mac = [2, 0, 0, 0, 1, 0x10];
const GATEWAY: Mac = [2, 0, 0, 0, 2, 2];

/// A kind of tunnel.
#[derive(Clone, Copy)]
struct Kind {
    /// As ip-link(8) names it, with its ends.
    device: &'static str,
    options: &'static [&'static str],
    /// What it carries.
    four: bool,
    six: bool,
    /// Its outer packets are of IPv6.
    outer_six: bool,
}

const KINDS: [Kind; 3] = [
    Kind {
        device: "ipip local 198.19.0.1 remote 198.18.99.1",
        options: &["", " tos inherit", " ttl 9 tos 0x10", " nopmtudisc", " ttl 64"],
        four: true,
        six: false,
        outer_six: false,
    },
    Kind {
        device: "sit local 198.19.0.1 remote 198.18.99.1",
        options: &["", " tos inherit", " ttl 9", " nopmtudisc"],
        four: false,
        six: true,
        outer_six: false,
    },
    Kind {
        device: "ip6tnl mode any local 2001:db8:2::1 remote 2001:db8:99::1",
        options: &[
            "",
            " encaplimit none",
            " encaplimit none tclass inherit",
            " encaplimit 2 hoplimit 9",
            " encaplimit none hoplimit 64 flowlabel 0x12345",
            " encaplimit none dscp inherit",
        ],
        four: true,
        six: true,
        outer_six: true,
    },
];

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let kind = rng.pick(&KINDS);
    let options = rng.pick(kind.options);
    let mtu = rng.pick(&["", "", " mtu 1400"]);
    let net = format!(
        "{NET}link add far{mtu} type {}{options}\nlink set far addrgenmode none up\nroute add \
         198.18.77.0/24 dev far\nroute add 2001:db8:77::/64 dev far\n",
        kind.device
    );
    let rules = rules(&mut rng);
    let mut s = Scenario::new(&format!("random_tunnel_{seed}"), &net, &rules).at_once();
    for _ in 0..rng.usize(10..40) {
        let (source, frame) = frame(&mut rng, kind);
        s = s.frame(source, &frame);
        if rng.one_in(10) {
            s = s.wait(Duration::from_millis(1));
        }
    }
    s
}

fn rules(rng: &mut Rng) -> String {
    const MATCHES: [&str; 14] = [
        "",
        "iifname far",
        "oifname far",
        "iifname wan",
        "oifname wan",
        "meta l4proto { 4, 41 }",
        "meta iiftype 768-776",
        "ip dscp 4",
        "ip ttl 63",
        "ip6 hoplimit 63",
        "ct state new",
        "ct state established",
        "ct state related",
        "ct state invalid",
    ];
    let tracks = rng.bool();
    let known = if tracks { MATCHES.len() } else { MATCHES.len() - 4 };
    let mut out = String::from("table inet t {\n");
    for hook in ["prerouting", "input", "forward", "output", "postrouting"] {
        out += &format!("\tchain {hook} {{\n\t\ttype filter hook {hook} priority 0;\n");
        for _ in 0..rng.usize(1..6) {
            let mut tests = MATCHES[rng.usize(..known)];
            let none = match hook {
                "prerouting" | "input" => tests.starts_with("oif"),
                // docs/differences.md
                "output" => tests == "meta iiftype 768-776",
                _ => false,
            };
            if none {
                tests = "";
            }
            out += &format!("\t\t{tests} counter\n");
        }
        if hook == "postrouting" && tracks && rng.bool() {
            out += "\t}\n\tchain nat {\n\t\ttype nat hook postrouting priority 100;\n\t\toifname \
                    far masquerade\n";
        }
        out += "\t}\n";
    }
    out + "}\n"
}

fn frame(rng: &mut Rng, kind: Kind) -> (&'static str, Frame) {
    let six = if kind.four && kind.six { rng.bool() } else { kind.six };
    let ports = (rng.u16(1000..1004), 53);
    let length = rng.pick(&[0, 10, 100, 1300, 1380, 1400, 1420, 1432, 1440, 1452, 1460]);
    if rng.bool() {
        let head = ethernet(LAN, CLIENT);
        let head = if six {
            head.ip6("2001:db8:1::10", "2001:db8:77::7")
        } else {
            head.ip4("198.18.0.10", "198.18.77.7").id(rng.u16(..))
        };
        let head = dressed(rng, head, six);
        // A wire takes no more than its MTU.
        return (
            "lan",
            head.udp(ports.0, ports.1).zeros(length.min(if six { 1440 } else { 1460 })),
        );
    }
    let inner = if six {
        bare().ip6("2001:db8:77::7", "2001:db8:1::10")
    } else {
        bare().ip4("198.18.77.7", "198.18.0.10").id(rng.u16(..))
    };
    let mut inner = dressed(rng, inner, six).udp(ports.1, ports.0).zeros(length.min(1380)).bytes();
    if rng.one_in(12) {
        inner.truncate(rng.usize(1..inner.len()));
    }
    let outer = ethernet(WAN, GATEWAY);
    let other = rng.one_in(12);
    let outer = if kind.outer_six {
        outer.ip6(if other { "2001:db8:99::2" } else { "2001:db8:99::1" }, "2001:db8:2::1")
    } else {
        outer.ip4(if other { "198.18.99.2" } else { "198.18.99.1" }, "198.19.0.1")
    };
    let outer = match rng.u8(..8) {
        0 => congested(outer, kind.outer_six, rng.u8(..4)),
        _ => outer,
    };
    let protocol = if six != rng.one_in(16) { 41 } else { 4 };
    ("wan", outer.protocol(protocol).data(&inner))
}

/// With a TTL, a class or a bit that is not the usual one.
fn dressed(rng: &mut Rng, frame: Frame, six: bool) -> Frame {
    match rng.u8(..8) {
        0 => frame.ttl(rng.u8(1..4)),
        1 if !six => frame.tos(rng.u8(..)),
        1 => frame.set(0, &[0x60 | rng.u8(..16), rng.u8(..)]),
        2 | 3 if !six => frame.df(),
        _ => frame,
    }
}

/// With this ECN field.
fn congested(frame: Frame, six: bool, ecn: u8) -> Frame {
    if six { frame.set(0, &[0x60, ecn << 4]) } else { frame.tos(ecn) }
}
