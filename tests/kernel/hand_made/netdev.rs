// SPDX-License-Identifier: Apache-2.0

//! Ingress and egress.

use super::{from, on};
use crate::frame::{Frame, ethernet};
use crate::net::{CLIENT, LAN, dmz, lan, out4, out6, zoo};
use crate::scenario::Scenario;

fn few() -> Vec<Frame> {
    (0..8)
        .flat_map(|p| [out4().id(p).udp(1000, p), out6().udp(1000, p), out4().tcp(1000, p)])
        .collect()
}

/// Frames that end in their IP header.
fn fib_of_cut_headers() -> Scenario {
    let mut scenario = on(
        "fib_takes_whole_headers",
        "
table netdev n {
	chain i {
		type filter hook ingress device lan priority 0
		fib saddr type unicast counter
		fib daddr type { local, unicast } counter
		fib saddr oif lan counter
		counter
	}
}
",
    );
    let v4 = lan().ip4("198.18.0.10", "198.19.0.2").udp(1, 2).bytes();
    let v6 = lan().ip6("2001:db8:1::10", "2001:db8:2::2").udp(1, 2).bytes();
    for (frame, header) in [(v4, 20), (v6, 40)] {
        let cut =
            (header - 8..header + 2).map(|len| ("lan".to_owned(), frame[..14 + len].to_vec()));
        scenario.frames.extend(cut);
    }
    scenario
}

pub fn all() -> Vec<Scenario> {
    vec![
        fib_of_cut_headers(),
        from(
            on(
                "ingress_drops_before_anything_else",
                "
table netdev n {
	chain late { type filter hook ingress device lan priority 10; policy accept; udp dport 1 counter; counter; }
	chain early { type filter hook ingress device lan priority -10; policy drop; udp dport 1 counter drop; udp dport 2 counter return; meta protocol { ip, arp } counter accept; counter; }
}
table inet i {
	chain ing { type filter hook ingress device lan priority 0; udp dport 3 counter drop; meta mark set 5 counter; }
	chain pre { type filter hook prerouting priority -300; counter; meta mark 5 counter; }
}
",
            ),
            "lan",
            &few(),
        ),
        from(
            on(
                "egress_sees_every_frame_that_leaves",
                "
table netdev n {
	chain e {
		type filter hook egress device wan priority 0; policy accept;
		counter
		meta length 42 counter
		meta length > 100 counter
		udp dport 1 counter drop
		udp dport 2 udp dport set 2222 counter
		udp dport 3 ip saddr set 198.18.9.9 counter
		udp dport 3 ip6 saddr set 2001:db8:9::9 counter
		tcp dport 4 ip dscp set cs3 counter
		tcp dport 5 meta mark set 7 counter
		meta mark 7 counter
		meta mark 9 counter
		ether daddr 02:00:00:00:02:02 counter
		ether saddr 02:00:00:00:02:01 counter
		ether saddr set 02:99:00:00:00:01 udp dport 4 counter
		meta protocol ip counter
		meta protocol ip6 counter
		oifname wan counter
		iifname lan counter
		ip ttl 63 counter
		ip6 hoplimit 63 counter
		@ll,0,48 0x020000000202 counter
		@nh,64,8 63 counter
		@th,16,16 2 counter
		meta pkttype host counter
		meta pkttype other counter
		ip saddr . udp dport { 198.18.0.10 . 5 } counter drop
	}
}
table inet t {
	chain post { type filter hook postrouting priority 0; tcp dport 6 meta mark set 9 counter; }
}
",
            ),
            "lan",
            &few(),
        ),
        from(
            on(
                "frames_are_forwarded_and_duplicated_between_devices",
                "
table netdev n {
	chain i {
		type filter hook ingress device lan priority 0;
		udp dport 1 counter fwd to dmz
		udp dport 2 counter dup to dmz
		udp dport 3 counter dup to wan counter fwd to dmz
		udp dport 4 counter fwd ip to 198.18.5.20 device dmz
		udp dport 5 ether daddr set 02:77:00:00:00:01 counter fwd to dmz
		tcp dport 1 counter fwd to lan
		tcp dport 2 fwd to udp dport map { 1 : dmz }
		ip6 nexthdr udp udp dport 6 counter fwd ip6 to 2001:db8:5::20 device dmz
		counter
	}
	chain e {
		type filter hook egress device dmz priority 0;
		counter
		udp dport 5 counter
		meta length 42 counter
	}
	chain ew {
		type filter hook egress device wan priority 0;
		counter
		udp dport 6 counter dup to lan
		udp dport 7 counter fwd to lan
	}
	chain el {
		type filter hook egress device lan priority 0;
		counter
	}
}
"
                .replace("\t\ttcp dport 2 fwd to udp dport map { 1 : dmz }\n", "")
                .as_str(),
            ),
            "lan",
            &few(),
        ),
        from(
            on(
                "tags_survive_forwarding_between_devices",
                "
table netdev n {
	chain i {
		type filter hook ingress device lan priority 0;
		vlan id 10 counter fwd to wan
		vlan id 11 vlan id set 12 counter fwd to wan
		ether type 8021ad vlan id 13 counter dup to wan
		vlan id 14 vlan pcp set 5 counter fwd to wan
		vlan id 15 udp dport set 99 counter fwd to wan
		counter
	}
	chain e {
		type filter hook egress device wan priority 0;
		vlan id 10 counter
		vlan id 12 counter
		vlan id 13 counter
		meta length > 42 counter
		udp dport 99 counter
		ether type vlan counter
		counter
	}
}
",
            ),
            "lan",
            &(10..17)
                .flat_map(|id| {
                    [
                        lan().vlan(id).ip4("198.18.0.10", "198.19.0.2").udp(1, 2),
                        lan().tag(0x88a8, id).ip6("2001:db8:1::10", "2001:db8:2::2").udp(1, 2),
                        lan().vlan(id).vlan(20).ip4("198.18.0.10", "198.19.0.2").udp(1, 2),
                    ]
                })
                .collect::<Vec<_>>(),
        ),
        from(
            on(
                "source_checks_at_ingress",
                "
table netdev n {
	set bogons { type ipv4_addr; flags interval; elements = { 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/3 }; }
	chain i {
		type filter hook ingress devices = { lan, wan, dmz } priority -500;
		ip saddr @bogons counter drop
		fib saddr . iif oif missing counter drop
		fib daddr . iif type != { local, unicast, broadcast, multicast } counter
		fib daddr type { unreachable, prohibit, blackhole } counter
		fib daddr type local counter
		fib saddr type local counter
		fib saddr oifname lan counter
		fib daddr oifname \"wan\" counter
		counter
	}
}
",
            ),
            "lan",
            &[
                lan().ip4("198.18.0.10", "198.19.0.2").udp(1, 2),
                lan().ip4("198.18.0.1", "198.19.0.2").udp(1, 2),
                lan().ip4("198.18.5.20", "198.19.0.2").udp(1, 2),
                lan().ip4("198.18.64.1", "198.19.0.2").udp(1, 2),
                lan().ip4("198.18.66.1", "198.19.0.2").udp(1, 2),
                lan().ip4("198.19.9.9", "198.19.0.2").udp(1, 2),
                lan().ip4("127.0.0.1", "198.19.0.2").udp(1, 2),
                lan().ip4("198.18.0.10", "198.18.0.1").udp(1, 2),
                lan().ip4("198.18.0.10", "198.18.0.255").udp(1, 2),
                lan().ip4("198.18.0.10", "224.0.0.9").udp(1, 2),
                lan().ip4("198.18.0.10", "198.18.64.1").udp(1, 2),
                lan().ip4("198.18.0.10", "198.18.65.1").udp(1, 2),
                lan().ip4("198.18.0.10", "198.18.66.1").udp(1, 2),
                lan().ip4("0.0.0.0", "255.255.255.255").udp(68, 67),
                lan().ip6("2001:db8:1::10", "2001:db8:2::2").udp(1, 2),
                lan().ip6("2001:db8:5::10", "2001:db8:2::2").udp(1, 2),
                lan().ip6("2001:db8:9::10", "2001:db8:2::2").udp(1, 2),
                lan().ip6("2001:db8:64::10", "2001:db8:2::2").udp(1, 2),
                lan().ip6("fe80::10", "ff02::1").udp(1, 2),
                lan().ip6("::", "ff02::1").icmp6(135, 0, 0),
                lan().ip6("2001:db8:1::10", "2001:db8:64::2").udp(1, 2),
                lan().arp(1, CLIENT, "198.18.0.10", [0; 6], "198.18.0.1"),
            ],
        ),
        from(
            on(
                "egress_and_ingress_of_the_whole_zoo",
                "
table netdev n {
	chain i { type filter hook ingress device lan priority 0; counter; meta length > 60 counter; meta l4proto tcp counter; }
	chain e { type filter hook egress device wan priority 0; counter; meta length > 60 counter; meta l4proto tcp counter; tcp option maxseg exists counter; tcp option maxseg size set 1000 counter; sctp dport 8080 counter; exthdr frag exists counter; ip option ra exists counter; udp dport 53 counter; th dport 53 counter; }
}
",
            ),
            "lan",
            &zoo(),
        ),
        {
            let mut s = on(
                "frames_of_every_kind_are_forwarded_by_device",
                "
table netdev n {
	chain i { type filter hook ingress device lan priority 0; counter fwd to wan; }
	chain e { type filter hook egress device wan priority 0; counter; ether type arp counter; ether type 0x88cc counter; meta length < 60 counter; meta protocol 0x88cc counter; }
}
",
            );
            for f in [
                ethernet([0xff; 6], CLIENT).arp(1, CLIENT, "198.18.0.10", [0; 6], "198.18.0.1"),
                ethernet([1, 0x80, 0xc2, 0, 0, 0xe], CLIENT).ethertype(0x88cc).data(&[2, 7, 4, 2, 0, 0, 0, 1, 16]),
                ethernet([1, 0x80, 0xc2, 0, 0, 0], CLIENT).ethertype(0x0026).data(&[0x42, 0x42, 3, 0, 0, 0, 0, 0]),
                ethernet(LAN, CLIENT).ethertype(0x0800),
                ethernet([2, 9, 9, 9, 9, 9], CLIENT).ip4("198.18.0.10", "198.19.0.2").udp(1, 2),
                out4().ttl(1).udp(1, 2),
                out4().udp(1, 2).cut(30),
                out6().udp(1, 2).zeros(1440),
            ] {
                s = s.frame("lan", &f);
            }
            s.frame("dmz", &dmz().ip4("198.18.5.20", "198.19.0.2").udp(1, 2))
        },
        reject_of_padded_frames(),
    ]
}

/// Frames with padding, as short ones have on a wire: errors quote it, and segments before it are
/// not answered.
fn reject_of_padded_frames() -> Scenario {
    let mut scenario = on(
        "reject_of_padded_frames",
        "
table netdev n {
	chain c {
		type filter hook ingress device lan priority 0;
		meta l4proto tcp counter reject with tcp reset
		counter reject
	}
}
",
    );
    for len in [0, 60, 80, 700] {
        for frame in [
            out4().udp(1000, 7).data(b"x"),
            out4().udp(1000, 7).patch(6, &[0, 0]).data(b"x"),
            out4().tcp(1000, 7).flags(2),
            out4().icmp(8, 0, 1),
            out6().udp(1000, 7).data(b"x"),
            out6().tcp(1000, 7).flags(2),
        ] {
            let mut bytes = frame.bytes();
            bytes.resize(bytes.len().max(len), 0xee);
            scenario.frames.push(("lan".into(), bytes));
        }
    }
    scenario
}
