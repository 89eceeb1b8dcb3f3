// SPDX-License-Identifier: Apache-2.0

//! ESP without secrets, where the null cipher makes every byte known, and ICMP errors about ESP and
//! within it.

use std::time::Duration;

use super::{TUNNEL_NET, sent};
use crate::frame::{Frame, Mac, bare, ethernet};
use crate::peer::Peer;
use crate::scenario::Scenario;

const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
addr add 198.18.0.1/24 dev lan
addr add 198.19.0.1/24 dev wan
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
route add 198.18.77.0/24 via 198.19.0.2 dev wan
";

const LAN: Mac = [2, 0, 0, 0, 1, 1];
const CLIENT: Mac = [2, 0, 0, 0, 1, 0x10];

const RULES: &str = "table inet t {
	chain forward {
		type filter hook forward priority 0;
		rt ipsec exists counter
		rt ipsec missing counter
		ipsec out ip daddr 198.19.0.2 counter
		ipsec out reqid 7 counter
		ipsec in reqid 7 counter
		meta ipsec exists counter
	}
	chain post {
		type filter hook postrouting priority 0;
		meta l4proto esp counter
		rt ipsec exists counter
		iif 0 counter
		iifname lan counter
		iifname wan counter
		counter
	}
	chain out {
		type filter hook output priority 0;
		iif 0 counter
		iifname lan counter
	}
}
";

/// All of them.
pub fn all() -> Vec<Scenario> {
    let cipher = "auth hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f \
                  enc ecb(cipher_null) \"\"";
    let tunnel = format!(
        "{NET}xfrm state add src 198.19.0.1 dst 198.19.0.2 proto esp spi 0x1001 reqid 7 mode \
         tunnel {cipher}\nxfrm policy add src 198.18.0.0/24 dst 198.18.77.0/24 dir out tmpl src \
         198.19.0.1 dst 198.19.0.2 proto esp reqid 7 mode tunnel\n"
    );
    let blocked =
        format!("{NET}xfrm policy add src 198.18.0.0/24 dst 198.18.77.0/24 dir out action block\n");
    vec![
        sent(Scenario::new("ipsec_tunnel_out", &tunnel, RULES).saved(), &frames()),
        sent(Scenario::new("ipsec_blocked", &blocked, RULES).saved(), &frames()),
        errors(false),
        errors(true),
    ]
}

/// Both ends of a tunnel over IPv4 or IPv6, with packets of both families in it.
fn two_ends(six: bool) -> String {
    let cipher = "aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128 mode tunnel \
                  flag af-unspec";
    let (near, far) =
        if six { ("2001:db8:2::1", "2001:db8:2::2") } else { ("198.19.0.1", "198.19.0.2") };
    let mut lines = format!(
        "{TUNNEL_NET}route add 198.18.77.0/24 via 198.19.0.2 dev wan\nroute add 2001:db8:77::/64 \
         via 2001:db8:2::2 dev wan\nxfrm state add src {near} dst {far} proto esp spi 0x1001 reqid \
         7 {cipher}\nxfrm state add src {far} dst {near} proto esp spi 0x2001 reqid 7 {cipher}\n"
    );
    for (own, other) in
        [("198.18.0.0/24", "198.18.77.0/24"), ("2001:db8:1::/64", "2001:db8:77::/64")]
    {
        for (source, destination, direction, from, to) in
            [(own, other, "out", near, far), (other, own, "fwd", far, near)]
        {
            lines += &format!(
                "xfrm policy add src {source} dst {destination} dir {direction} tmpl src {from} dst \
                 {to} proto esp reqid 7 mode tunnel\n"
            );
        }
    }
    lines
}

/// ICMP errors about ESP, after which less fits into the tunnel, and errors that come out of it.
fn errors(six: bool) -> Scenario {
    let net = two_ends(six);
    let mut peer = Peer::of(&net, 0x2001);
    let near = if six { "2001:db8:2::1" } else { "198.19.0.1" };
    let wan = || ethernet([2, 0, 0, 0, 2, 1], [2, 0, 0, 0, 2, 2]);
    let large = || {
        [
            (
                "lan",
                ethernet(LAN, CLIENT).ip4("198.18.0.10", "198.18.77.7").df().udp(1, 2).zeros(1350),
            ),
            ("lan", ethernet(LAN, CLIENT).ip4("198.18.0.10", "198.18.77.7").udp(1, 2).zeros(1350)),
            (
                "lan",
                ethernet(LAN, CLIENT).ip6("2001:db8:1::10", "2001:db8:77::7").udp(1, 2).zeros(1340),
            ),
            (
                "lan",
                ethernet(LAN, CLIENT).ip6("2001:db8:1::10", "2001:db8:77::7").udp(1, 2).zeros(700),
            ),
        ]
    };
    // About ESP of the router's, of another SPI, and too little.
    let told = |spi: u32, mtu: u32| {
        let esp = [spi.to_be_bytes(), 1u32.to_be_bytes()].concat();
        let frame = if six {
            let about = bare().ip6("2001:db8:2::1", "2001:db8:2::2").transport(50, &esp).zeros(40);
            wan().ip6("2001:db8:2::9", "2001:db8:2::1").icmp6(2, 0, mtu).data(&about.bytes())
        } else {
            let about = bare().ip4("198.19.0.1", "198.19.0.2").df().transport(50, &esp).zeros(40);
            wan().ip4("198.19.0.9", "198.19.0.1").icmp(3, 4, mtu).data(&about.bytes())
        };
        ("wan", frame)
    };
    let mut within = |packet: Vec<u8>| {
        let esp = peer.seal(near, false, &packet).expect("a state for it");
        ("wan", wan().ethertype(if six { 0x86dd } else { 0x0800 }).data(&esp))
    };
    let lost4 = bare().ip4("198.18.0.10", "198.18.77.7").ttl(60).udp(1, 2).zeros(30).bytes();
    let lost6 = bare().ip6("2001:db8:1::10", "2001:db8:77::7").ttl(60).udp(1, 2).zeros(30).bytes();
    let through = [
        within(bare().ip4("198.18.77.1", "198.18.0.10").icmp(3, 1, 0).data(&lost4).bytes()),
        within(bare().ip4("198.18.77.1", "198.18.0.10").icmp(3, 4, 1300).data(&lost4).bytes()),
        within(bare().ip4("198.18.77.1", "198.18.0.10").icmp(11, 0, 0).data(&lost4).bytes()),
        within(
            bare().ip6("2001:db8:77::1", "2001:db8:1::10").icmp6(2, 0, 1300).data(&lost6).bytes(),
        ),
        within(bare().ip6("2001:db8:77::1", "2001:db8:1::10").icmp6(3, 0, 0).data(&lost6).bytes()),
        // One that comes without ESP is not what policy wants.
        ("wan", wan().ip4("198.18.77.1", "198.18.0.10").icmp(11, 0, 0).data(&lost4)),
        // From elsewhere it may.
        ("wan", wan().ip4("198.19.0.9", "198.18.0.10").icmp(11, 0, 0).data(&lost4)),
    ];
    let rules = RULES.replace("\t\tcounter\n", "\t\tcounter\n\t\tct state related counter\n");
    let name = format!("ipsec_errors_over_ipv{}", if six { 6 } else { 4 });
    let mut scenario = sent(Scenario::new(&name, &net, &rules).at_once().saved(), &large());
    for (spi, mtu) in [(0x9999, 1400), (0x1001, 1400), (0x1001, 200)] {
        scenario = sent(scenario, &[told(spi, mtu)]).wait(Duration::from_millis(2));
        scenario = sent(scenario, &large());
    }
    sent(scenario, &through)
}

fn frames() -> Vec<(&'static str, Frame)> {
    let out = || ethernet(LAN, CLIENT).ip4("198.18.0.10", "198.18.77.7");
    vec![
        ("lan", out().udp(1000, 53).data(b"question")),
        ("lan", out().tos(0xb9).udp(1000, 53).data(b"another question")),
        ("lan", out().df().udp(1000, 53).zeros(1450)),
        ("lan", out().udp(1000, 53).zeros(1450)),
        ("lan", ethernet(LAN, CLIENT).ip4("198.18.0.10", "198.19.0.2").udp(1, 2)),
    ]
}
