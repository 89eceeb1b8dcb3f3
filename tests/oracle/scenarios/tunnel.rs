// SPDX-License-Identifier: Apache-2.0

//! Packets in packets: IPIP, SIT and IPv6 tunnels, with flowtables over them.

use std::time::Duration;

use super::sent;
use crate::frame::{Frame, Mac, bare, ethernet};
use crate::scenario::Scenario;

/// `lan` and `wan` are wires; the far end of the tunnel `far` is after `wan`.
pub const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
addr add 198.18.0.1/24 dev lan
addr add 198.19.0.1/24 dev wan
addr add 2001:db8:1::1/64 dev lan nodad
addr add 2001:db8:2::1/64 dev wan nodad
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
neigh add 2001:db8:1::10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 2001:db8:2::2 lladdr 02:00:00:00:02:02 dev wan nud permanent
route add 198.18.99.0/24 via 198.19.0.2 dev wan
route add 2001:db8:99::/64 via 2001:db8:2::2 dev wan
";

const LAN: Mac = [2, 0, 0, 0, 1, 1];
const WAN: Mac = [2, 0, 0, 0, 2, 1];
const CLIENT: Mac = [2, 0, 0, 0, 1, 0x10];
const GATEWAY: Mac = [2, 0, 0, 0, 2, 2];

pub(super) const RULES: &str = "table inet t {
	chain pre {
		type filter hook prerouting priority -450;
		iifname far counter
		iifname wan counter
		meta l4proto 4 counter
		meta l4proto 41 counter
	}
	chain in {
		type filter hook input priority 0;
		meta l4proto { 4, 41 } counter
	}
	chain forward {
		type filter hook forward priority 0;
		oifname far counter
		iifname far counter
		meta iiftype 768-776 counter
	}
	chain out {
		type filter hook output priority 0;
		counter
		iif 0 counter
		iifname far counter
	}
	chain post {
		type filter hook postrouting priority 0;
		oifname far counter
		oifname wan counter
		iif 0 counter
		iifname far counter
		iifname lan counter
		iifname wan counter
		meta iiftype 768-776 counter
		meta iifkind { ipip, sit, ip6tnl } counter
		meta l4proto { 4, 41 } counter
	}
}
";

/// All of them.
pub fn all() -> Vec<Scenario> {
    let mut all = vec![];
    let plain: fn(Frame) -> Frame = |f| f;
    let may_not_be_cut: fn(Frame) -> Frame = Frame::df;
    let near: fn(Frame) -> Frame = |f| f.df().ttl(10).tos(0x10);
    // The kernel adds no flow where a tunnel takes TOS or class from the packet, or has a limit.
    for (name, options, inner) in [
        ("ipip", "", Some(may_not_be_cut)),
        ("ipip_tos", " tos inherit", None),
        ("ipip_ttl", " ttl 9 tos 0x10", Some(near)),
        ("ipip_nopmtudisc", " nopmtudisc", Some(plain)),
    ] {
        let device = format!("link add far type ipip local 198.19.0.1 remote 198.18.99.1{options}");
        let net = format!(
            "{NET}{device}\nlink set far addrgenmode none up\nroute add 198.18.77.0/24 dev far\n"
        );
        all.push(sent(Scenario::new(&format!("tunnel_{name}"), &net, RULES), &four()));
        if let Some(inner) = inner {
            all.push(flow(&format!("tunnel_{name}_flow"), &net, &four_talk(inner)));
        }
    }
    let net = format!(
        "{NET}link add far type sit local 198.19.0.1 remote 198.18.99.1\nlink set far addrgenmode \
         none up\nroute add 2001:db8:77::/64 dev far\n"
    );
    all.push(sent(Scenario::new("tunnel_sit", &net, RULES), &six_in_four()));
    for (name, options) in [
        ("ip6tnl", ""),
        ("ip6tnl_bare", " encaplimit none hoplimit 64"),
        ("ip6tnl_class", " encaplimit none tclass inherit"),
    ] {
        let net = format!(
            "{NET}link add far type ip6tnl mode any local 2001:db8:2::1 remote \
             2001:db8:99::1{options}\nlink set far addrgenmode none up\nroute add 2001:db8:77::/64 \
             dev far\nroute add 198.18.77.0/24 dev far\n"
        );
        all.push(sent(Scenario::new(&format!("tunnel_{name}"), &net, RULES), &six()));
        if name == "ip6tnl_bare" {
            all.push(flow(&format!("tunnel_{name}_flow"), &net, &six_talk()));
        }
    }
    all
}

pub(super) fn lan() -> Frame {
    ethernet(LAN, CLIENT)
}

pub(super) fn wan() -> Frame {
    ethernet(WAN, GATEWAY)
}

/// The bytes of a packet without link header.
fn packet(frame: &Frame) -> Vec<u8> {
    frame.bytes()
}

fn four() -> Vec<(&'static str, Frame)> {
    let to_far = || lan().ip4("198.18.0.10", "198.18.77.7");
    let back = packet(&bare().ip4("198.18.77.7", "198.18.0.10").udp(53, 1000).data(b"answer"));
    let marked = packet(&bare().ip4("198.18.77.7", "198.18.0.10").tos(2).udp(53, 1000));
    let outer = || wan().ip4("198.18.99.1", "198.19.0.1");
    vec![
        ("lan", to_far().udp(1000, 53).data(b"question")),
        ("lan", to_far().tos(0xb9).udp(1000, 53).data(b"question")),
        ("lan", to_far().df().udp(1000, 53).data(b"question")),
        ("lan", to_far().ttl(1).udp(1000, 53)),
        ("lan", to_far().ttl(2).udp(1000, 53)),
        ("lan", to_far().df().udp(1000, 53).zeros(1460)),
        ("lan", to_far().id(77).udp(1000, 53).zeros(1460)),
        ("wan", outer().protocol(4).data(&back)),
        ("wan", outer().tos(3).protocol(4).data(&marked)),
        ("wan", outer().tos(3).protocol(4).data(&back)),
        ("wan", outer().protocol(4).data(&back[..12])),
        ("wan", wan().ip4("198.18.99.2", "198.19.0.1").protocol(4).data(&back)),
        ("wan", outer().protocol(41).data(&back)),
        ("host", bare().ip4("198.19.0.1", "198.18.77.7").udp(9, 9).data(b"own")),
    ]
}

fn six_in_four() -> Vec<(&'static str, Frame)> {
    let to_far = || lan().ip6("2001:db8:1::10", "2001:db8:77::7");
    let back = packet(&bare().ip6("2001:db8:77::7", "2001:db8:1::10").udp(53, 1000).data(b"an"));
    let outer = || wan().ip4("198.18.99.1", "198.19.0.1");
    vec![
        ("lan", to_far().udp(1000, 53).data(b"question")),
        ("lan", to_far().ttl(1).udp(1000, 53)),
        ("lan", to_far().udp(1000, 53).zeros(1440)),
        ("lan", to_far().set(0, &[0x6b, 0x90]).udp(1000, 53)),
        ("wan", outer().protocol(41).data(&back)),
        ("wan", outer().tos(3).protocol(41).data(&back)),
        ("wan", wan().ip4("198.18.99.2", "198.19.0.1").protocol(41).data(&back)),
    ]
}

fn six() -> Vec<(&'static str, Frame)> {
    let six = || lan().ip6("2001:db8:1::10", "2001:db8:77::7");
    let four = || lan().ip4("198.18.0.10", "198.18.77.7");
    let back6 = packet(&bare().ip6("2001:db8:77::7", "2001:db8:1::10").udp(53, 1000).data(b"an"));
    let back4 = packet(&bare().ip4("198.18.77.7", "198.18.0.10").udp(53, 1000).data(b"answer"));
    let outer = || wan().ip6("2001:db8:99::1", "2001:db8:2::1");
    vec![
        ("lan", six().udp(1000, 53).data(b"question")),
        ("lan", four().udp(1000, 53).data(b"question")),
        ("lan", four().tos(0xb9).udp(1000, 53).data(b"question")),
        ("lan", six().set(0, &[0x6b, 0x91]).udp(1000, 53)),
        ("lan", six().ttl(1).udp(1000, 53)),
        ("lan", four().ttl(1).udp(1000, 53)),
        ("lan", six().udp(1000, 53).zeros(1440)),
        ("lan", four().df().udp(1000, 53).zeros(1450)),
        ("lan", four().udp(1000, 53).zeros(1450)),
        ("wan", outer().protocol(41).data(&back6)),
        ("wan", outer().protocol(4).data(&back4)),
        ("wan", outer().set(0, &[0x60, 0x30]).protocol(4).data(&back4)),
        ("wan", outer().protocol(41).data(&back6[..30])),
        ("wan", wan().ip6("2001:db8:99::2", "2001:db8:2::1").protocol(41).data(&back6)),
    ]
}

/// The kernel's fast path copies TOS, TTL and DF of a packet to the outer header, whatever the
/// tunnel says: `inner` gives packets what the tunnel says.
fn four_talk(inner: fn(Frame) -> Frame) -> Vec<(&'static str, Frame)> {
    let back = packet(&bare().ip4("198.18.77.7", "198.18.0.10").udp(53, 1000).data(b"answer"));
    vec![
        ("lan", inner(lan().ip4("198.18.0.10", "198.18.77.7")).udp(1000, 53).data(b"question")),
        ("wan", wan().ip4("198.18.99.1", "198.19.0.1").protocol(4).data(&back)),
    ]
}

/// With the hop limit that the tunnel's own is, after a hop: the kernel's fast path copies it.
fn six_talk() -> Vec<(&'static str, Frame)> {
    let back = packet(&bare().ip6("2001:db8:77::7", "2001:db8:1::10").udp(53, 1000).data(b"an"));
    vec![
        (
            "lan",
            lan().ip6("2001:db8:1::10", "2001:db8:77::7").ttl(65).udp(1000, 53).data(b"question"),
        ),
        ("wan", wan().ip6("2001:db8:99::1", "2001:db8:2::1").protocol(41).data(&back)),
    ]
}

/// A flow over the tunnel, in a flowtable of the wires.
fn flow(name: &str, net: &str, talk: &[(&str, Frame)]) -> Scenario {
    let rules = RULES
        .replacen(
            "{\n",
            "{\n\tflowtable f { hook ingress priority 0; devices = { lan, wan }; counter; }\n",
            1,
        )
        .replace("\t\toifname far counter\n\t\tiifname far counter\n", "\t\tcounter flow add @f\n");
    let mut scenario = Scenario::new(name, net, &rules).at_once();
    for _ in 0..4 {
        scenario = sent(scenario, talk).wait(Duration::from_millis(1));
    }
    scenario
}
