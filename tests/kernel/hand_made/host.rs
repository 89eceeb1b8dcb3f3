// SPDX-License-Identifier: Apache-2.0

//! What the host sends itself.

use super::on;
use crate::frame::ethernet;
use crate::net::{DMZ, GATEWAY, SERVER, WAN, lan, own4, own6};
use crate::scenario::Scenario;

pub fn all() -> Vec<Scenario> {
    let mut packets = on(
        "packets_of_the_host_pass_output_postrouting_egress",
        "
table inet t {
	chain out {
		type filter hook output priority 0; policy accept;
		counter
		udp dport 1 counter drop
		udp dport 2 counter
		oifname wan counter
		oifname dmz counter
		iiftype ether counter
		iif 0 counter
		meta length > 100 counter
		udp dport 3 udp dport set 3333 counter
		udp dport 4 meta mark set 4 counter
		ip ttl 64 counter
		ether saddr 02:00:00:00:02:01 counter
	}
	chain post { type filter hook postrouting priority 0; counter; meta mark 4 counter; udp dport 5 counter drop; iiftype ether counter; iif 0 counter; iifname != lan counter; iifgroup 0 counter; }
	chain thru { type filter hook forward priority 0; counter; }
	chain pre { type filter hook prerouting priority 0; counter; }
}
table netdev n {
	chain e { type filter hook egress device wan priority 0; counter; udp dport 6 counter drop; meta mark 4 counter; }
	chain f { type filter hook egress device dmz priority 0; counter; }
}
"
        .replace("\t\tether saddr 02:00:00:00:02:01 counter\n", "")
        .as_str(),
    );
    for port in 1..8 {
        packets = packets
            .frame("host", &own4().id(port).udp(9, port).data(b"own"))
            .frame("host", &own6().udp(9, port).data(b"own"))
            .frame(
                "host",
                &crate::frame::bare().ip4("198.18.5.1", "198.18.200.1").id(port).tcp(9, port),
            )
            .frame(
                "host",
                &crate::frame::bare().ip6("2001:db8:5::1", "2001:db8:5::20").tcp(9, port),
            );
    }
    packets = packets
        .frame("host", &crate::frame::bare().ip4("198.18.0.1", "198.18.64.1").udp(1, 2))
        .frame("host", &crate::frame::bare().ip4("198.18.0.1", "198.18.66.1").udp(1, 2))
        .frame("host", &own4().ttl(1).udp(9, 9))
        .frame("host", &own4().udp(9, 9).zeros(1400));

    let mut raw = on(
        "raw_frames_of_the_host_pass_egress_only",
        "
table inet t {
	chain out { type filter hook output priority 0; counter; }
	chain post { type filter hook postrouting priority 0; counter; }
}
table netdev n {
	chain e {
		type filter hook egress device wan priority 0; policy accept;
		counter
		udp dport 67 counter
		udp dport 68 counter drop
		meta protocol arp counter
		ether daddr ff:ff:ff:ff:ff:ff counter
		ether type ip counter
		vlan id 7 counter
		meta pkttype broadcast counter
		meta length 42 counter
		ip daddr 255.255.255.255 udp sport 68 udp dport set 1067 counter
	}
	chain f { type filter hook egress device dmz priority 0; policy drop; arp operation request counter accept; counter; }
}
",
    );
    for f in [
        ethernet([0xff; 6], WAN).ip4("0.0.0.0", "255.255.255.255").udp(68, 67).zeros(300),
        ethernet([0xff; 6], WAN).ip4("0.0.0.0", "255.255.255.255").udp(67, 68).zeros(300),
        ethernet([0xff; 6], WAN).arp(1, WAN, "0.0.0.0", [0; 6], "198.19.0.1"),
        ethernet(GATEWAY, WAN).vlan(7).ip4("198.19.0.1", "198.19.0.2").udp(1, 67),
        ethernet(GATEWAY, WAN).ip6("2001:db8:2::1", "2001:db8:2::2").udp(1, 67),
        ethernet(GATEWAY, WAN).ethertype(0x88cc).data(&[2, 7, 4]),
        ethernet(GATEWAY, WAN).ip4("198.19.0.1", "198.19.0.2").udp(1, 67).cut(30),
    ] {
        raw = raw.frame("host:wan", &f);
    }
    raw = raw
        .frame(
            "host:dmz",
            &ethernet([0xff; 6], DMZ).arp(1, DMZ, "198.18.5.1", [0; 6], "198.18.5.20"),
        )
        .frame("host:dmz", &ethernet(SERVER, DMZ).ip4("198.18.5.1", "198.18.5.20").udp(1, 2));

    let answers = on(
        "what_the_host_answers_passes_output",
        "
table inet t {
	chain out {
		type filter hook output priority 0; policy accept;
		counter
		icmp type time-exceeded counter
		icmp code 13 counter drop
		icmpv6 type time-exceeded counter drop
		oifname lan counter
		meta length 56-576 counter
	}
	chain post { type filter hook postrouting priority 0; policy accept; counter; ip saddr 198.18.0.1 counter; }
	chain thru { type filter hook forward priority 0; udp dport 13 counter reject with icmp type admin-prohibited; udp dport 14 counter reject; }
}
table netdev n {
	chain e { type filter hook egress device lan priority 0; counter; icmp type 3 counter; ip ttl 64 counter; ip6 hoplimit 64 counter; }
}
",
    )
    .frame("lan", &lan().ip4("198.18.0.10", "198.19.0.2").ttl(1).udp(1, 2))
    .frame("lan", &lan().ip4("198.18.0.10", "198.19.0.2").udp(1, 13))
    .frame("lan", &lan().ip4("198.18.0.10", "198.19.0.2").udp(1, 14))
    .frame("lan", &lan().ip6("2001:db8:1::10", "2001:db8:2::2").ttl(1).udp(1, 2))
    .frame("lan", &lan().ip6("2001:db8:1::10", "2001:db8:2::2").udp(1, 14));

    let rerouted = {
        let net = format!(
            "{}rule add fwmark 9 lookup 100 pref 100\nroute add default via 198.18.5.20 dev dmz table 100\n",
            crate::net::NET
        );
        Scenario::new(
            "route_chains_route_again",
            &net,
            "
table ip t {
	chain out { type route hook output priority -150; udp dport 1 meta mark set 9 counter; udp dport 2 ip daddr set 198.18.5.20 counter; udp dport 3 ip dscp set cs1 counter; }
	chain late { type filter hook output priority 0; oifname dmz counter; oifname wan counter; udp dport 4 meta mark set 9 counter; }
	chain post { type filter hook postrouting priority 0; oifname dmz counter; oifname wan counter; }
}
",
        )
        .frame("host", &own4().udp(9, 1))
        .frame("host", &own4().udp(9, 2))
        .frame("host", &own4().udp(9, 3))
        .frame("host", &own4().udp(9, 4))
    };
    vec![packets, raw, answers, rerouted]
}
