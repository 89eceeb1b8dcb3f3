// SPDX-License-Identifier: Apache-2.0

//! What rules do: verdicts, jumps, sets, limits, rejects, changes to packets.

use super::{counted, forward, from, on};
use crate::frame::Frame;
use crate::net::{dmz, lan, out4, out6, wan, zoo};
use crate::scenario::Scenario;

/// Ten small packets of each family to ports 0 to 9.
fn ports() -> Vec<Frame> {
    (0..10)
        .flat_map(|p| {
            [out4().id(p).udp(1000 + p, p), out6().udp(1000 + p, p), out4().tcp(1000 + p, p)]
        })
        .collect()
}

pub fn all() -> Vec<Scenario> {
    vec![
        from(
            on(
                "policies_and_the_order_of_chains",
                "
table ip a {
	chain later { type filter hook forward priority 10; policy accept; udp dport 1 counter drop; counter; }
	chain first { type filter hook forward priority -10; policy accept; udp dport 1 counter accept; udp dport 2 counter drop; counter; }
}
table inet b {
	chain same1 { type filter hook forward priority 0; policy accept; udp dport 3 meta mark set 1 counter; meta mark 2 counter; }
	chain same2 { type filter hook forward priority 0; policy accept; meta mark 1 counter; udp dport 3 meta mark set 2 counter; }
	chain dropping { type filter hook forward priority 20; policy drop; udp dport { 4, 5 } counter accept; tcp dport 4 counter return; ip6 daddr ::/0 counter accept; counter; }
}
table ip6 c {
	chain post { type filter hook postrouting priority 0; policy drop; udp dport 0-7 counter accept; counter; }
}
",
            ),
            "lan",
            &ports(),
        ),
        from(
            on(
                "jumps_gotos_and_returns",
                "
table inet t {
	chain deep3 { udp dport 3 counter return; counter accept; }
	chain deep2 { udp dport 2 counter return; jump deep3; counter; }
	chain deep1 { udp dport 1 counter return; goto deep2; counter; }
	chain side { udp dport 5 counter drop; counter; }
	chain empty { }
	chain c {
		type filter hook forward priority 0; policy drop;
		counter jump empty
		tcp dport 0-4 counter goto side
		jump { udp dport 8 counter accept; }
		udp dport 0-4 jump deep1
		counter
		udp dport 5 jump side
		udp dport 6 counter return
		udp dport vmap { 7 : accept, 8 : drop, 9 : jump deep3 }
		counter
		continue
		tcp dport 9 counter accept
	}
}
",
            ),
            "lan",
            &ports(),
        ),
        from(
            on(
                "a_jump_stack_of_sixteen",
                &{
                    let mut text = String::from("table ip t {\n");
                    for i in (0..15).rev() {
                        let next = if i == 14 { String::new() } else { format!("jump c{}; ", i + 1) };
                        text += &format!("\tchain c{i} {{ udp dport {i} counter accept; {next}counter; }}\n");
                    }
                    text + "\tchain base { type filter hook forward priority 0; jump c0; counter; }\n}\n"
                },
            ),
            "lan",
            &ports(),
        ),
        from(
            on(
                "sets_of_every_kind",
                "
table inet t {
	set hosts { type ipv4_addr; elements = { 198.18.0.10, 198.18.0.12 }; }
	set nets { type ipv4_addr; flags interval; auto-merge; elements = { 198.19.0.0/25, 198.19.0.128-198.19.0.255, 198.18.5.0/24 }; }
	set nets6 { type ipv6_addr; flags interval; elements = { 2001:db8:2::/48, 2001:db8:5::1-2001:db8:5::ff }; }
	set pairs { type ipv4_addr . inet_service; elements = { 198.18.0.10 . 1, 198.18.0.10 . 2, 198.18.0.11 . 3 }; }
	set ranges { type ipv4_addr . inet_service; flags interval; elements = { 198.18.0.0/24 . 4-6, 198.18.0.10-198.18.0.20 . 8 }; }
	set macs { type ether_addr; elements = { 02:00:00:00:01:10 }; }
	set interfaces { type ifname; elements = { lan, dmz }; }
	set wild { type ifname; flags interval; elements = { \"la*\" }; }
	set marks { type mark; elements = { 3, 5 }; }
	set counted { type inet_service; counter; elements = { 1, 2, 3 }; }
	set everything { type inet_service; elements = { 7, * }; }
	set bits { type inet_service; flags interval; elements = { 0-2, 4, 6-65535 }; }
	map to_mark { type inet_service : mark; elements = { 1 : 3, 2 : 4, 3 : 5, * : 9 }; }
	map ranges_to_mark { type inet_service : mark; flags interval; elements = { 0-3 : 1, 4-7 : 2 }; }
	map verdicts { type inet_proto . inet_service : verdict; elements = { udp . 1 : accept, udp . 2 : drop, tcp . 3 : jump extra }; }
	map verdict_ranges { type ipv4_addr : verdict; flags interval; elements = { 198.18.0.0/28 : continue, 198.18.0.16/28 : drop }; }
	chain extra { counter; return; }
	chain c {
		type filter hook forward priority 0;
		ip saddr @hosts counter
		ip saddr != @hosts counter
		ip daddr @nets counter
		ip6 daddr @nets6 counter
		ip saddr . udp dport @pairs counter
		ip saddr . udp dport @ranges counter
		ip saddr . tcp dport != @ranges counter
		ether saddr @macs counter
		iifname @interfaces counter
		iifname @wild counter
		udp dport @counted counter
		udp dport @everything counter
		udp dport @bits counter
		meta mark set udp dport map @to_mark counter
		meta mark @marks counter
		meta mark set tcp dport map @ranges_to_mark counter
		meta mark 2 counter
		ip saddr vmap @verdict_ranges
		meta l4proto . th dport vmap @verdicts
		counter
		ip saddr . ip daddr . udp sport . udp dport { 198.18.0.10 . 198.19.0.2 . 1000-1005 . 2-7 } counter
		udp dport { 1-3, 5, 7-9 } counter
		udp dport != { 1-3, 5 } counter
		ip6 saddr . udp dport { 2001:db8:1::/64 . 4 } counter
		ct state new counter
	}
}
"
                .replace("\t\tct state new counter\n", "")
                .as_str(),
            ),
            "lan",
            &ports(),
        ),
        from(
            on(
                "dynamic_sets_with_statements",
                "
table inet t {
	set seen { type ipv4_addr; flags dynamic; counter; }
	set flooders { type ipv4_addr; flags dynamic, timeout; timeout 1h; }
	set learned { type ipv4_addr . inet_service; flags dynamic; size 6; }
	map marks { type inet_service : mark; flags dynamic; }
	chain c {
		type filter hook forward priority 0;
		update @seen { ip saddr } counter
		add @seen { ip daddr } counter
		update @flooders { ip saddr limit rate over 2/hour burst 2 packets } counter
		add @flooders { ip saddr } counter
		ip saddr @flooders counter
		add @learned { ip saddr . udp dport } counter
		ip saddr . udp dport @learned counter
		delete @learned { ip saddr . udp dport } udp dport 3 counter
		add @marks { udp dport : udp sport } counter
		update @marks { tcp dport : 0x77 } counter
		meta mark set udp dport map @marks counter
		meta mark 0-65535 counter
	}
}
"
                .replace("		add @marks { udp dport : udp sport } counter\n", "")
                .as_str(),
            ),
            "lan",
            &ports(),
        ),
        from(
            on(
                "limits_and_quotas",
                "
table inet t {
	counter named { }
	counter started { packets 5 bytes 500 }
	quota enough { 100 bytes }
	quota too-much { over 200 bytes }
	quota started-quota { 1 kbytes used 990 bytes }
	limit slow { rate 3/hour burst 4 packets }
	limit by-bytes { rate 100 bytes/hour burst 150 bytes }
	map objects { type inet_service : counter; elements = { 1 : \"named\", 2 : \"started\" }; }
	chain c {
		type filter hook forward priority 0;
		limit rate 1/day counter
		limit rate 5/hour burst 2 packets counter
		limit rate over 5/hour counter
		limit rate 60 bytes/hour burst 60 bytes counter
		limit rate over 1 kbytes/day counter
		quota 150 bytes counter
		quota over 150 bytes counter
		quota 10 mbytes used 5 mbytes counter
		quota name \"enough\" counter
		quota name \"too-much\" counter
		quota name \"started-quota\" counter
		limit name \"slow\" counter
		limit name \"by-bytes\" counter
		counter name \"named\"
		counter name udp dport map @objects
		quota name tcp dport map { 1 : \"enough\", 2 : \"too-much\" }
		counter packets 10 bytes 1000
	}
}
",
            ),
            "lan",
            &ports(),
        ),
        from(
            on(
                "rejects_of_packets_with_options",
                "
table ip t {
	chain f { type filter hook forward priority 0; ct state invalid drop; jump rejects; }
	chain i { type filter hook input priority 0; ip option rr exists counter; jump rejects; }
	chain rejects {
		udp dport 77 counter reject
		tcp dport 77 counter reject with tcp reset
		tcp dport 78 counter reject
	}
}
",
            ),
            "lan",
            &[[0x07, 7, 4], [0x83, 7, 4]]
                .into_iter()
                .flat_map(|[kind, len, at]| {
                    let options = [kind, len, at, 0, 0, 0, 0, 0];
                    ["198.19.0.2", "198.18.0.1"].into_iter().flat_map(move |to| {
                        let packet = || lan().ip4("198.18.0.10", to).ip_options(&options);
                        [
                            packet().udp(1, 77),
                            packet().tcp(1, 77),
                            packet().tcp(1, 78),
                            packet().udp(2, 77).patch(6, &[3, 3]),
                        ]
                    })
                })
                .collect::<Vec<_>>(),
        ),
        from(
            forward(
                "rejects_of_every_type",
                "udp dport 0 counter reject
                udp dport 1 counter reject with icmpx type port-unreachable
                udp dport 2 counter reject with icmpx type admin-prohibited
                udp dport 3 counter reject with icmpx type host-unreachable
                udp dport 4 counter reject with icmpx type no-route
                ip protocol udp udp dport 5 counter reject with icmp type net-unreachable
                ip protocol udp udp dport 6 counter reject with icmp type prot-unreachable
                ip protocol udp udp dport 7 counter reject with icmp type net-prohibited
                ip protocol udp udp dport 8 counter reject with icmp type host-prohibited
                meta nfproto ipv6 udp dport 5 counter reject with icmpv6 type no-route
                meta nfproto ipv6 udp dport 6 counter reject with icmpv6 type addr-unreachable
                meta nfproto ipv6 udp dport 7 counter reject with icmpv6 type policy-fail
                meta nfproto ipv6 udp dport 8 counter reject with icmpv6 type reject-route
                tcp dport 0-99 counter reject with tcp reset
                counter reject",
            ),
            "lan",
            &[
                ports(),
                vec![
                    out4().tcp(5, 6).flags(0x10).set(4, &[0, 0, 1, 0, 9, 8, 7, 6]).data(b"data"),
                    out4().tcp(5, 6).flags(0x11).set(4, &[0, 0, 1, 0]),
                    out4().tcp(5, 6).flags(0x04),
                    out4().tcp(5, 6).flags(0x12),
                    out4().tcp(5, 6).patch(16, &[1, 1]),
                    out4().tos(0x1c).df().ttl(9).tcp(5, 6),
                    out6().tcp(5, 6).flags(0x10).set(4, &[0, 0, 1, 0, 9, 8, 7, 6]).data(b"data"),
                    out6().tcp(5, 6).flags(0x04),
                    out6().tcp(5, 6).patch(16, &[1, 1]),
                    out6().extension(60, &[0; 6]).tcp(5, 6),
                    out4().udp(1, 77).patch(6, &[3, 3]),
                    out4().icmp(8, 0, 1),
                    out4().icmp(3, 0, 1).zeros(28),
                    out4().fragment(4, false).protocol(17).zeros(8),
                    out6().icmp6(128, 0, 1),
                    out6().icmp6(1, 0, 1).zeros(40),
                    out6().udp(1, 77).zeros(1400),
                    out4().udp(1, 77).zeros(1400),
                    out4().ip_options(&[7, 7, 4, 0, 0, 0, 0, 0]).udp(1, 77),
                ],
            ]
            .concat(),
        ),
        from(
            on(
                "rejects_at_other_hooks",
                "
table inet t {
	chain pre { type filter hook prerouting priority 0; udp dport 1 counter reject; tcp dport 1 counter reject with tcp reset; }
	chain in { type filter hook input priority 0; udp dport 2 counter reject with icmpx type admin-prohibited; tcp dport 2 counter reject with tcp reset; }
	chain out { type filter hook output priority 0; icmp type destination-unreachable counter; icmpv6 type destination-unreachable counter; tcp flags rst counter; }
	chain post { type filter hook postrouting priority 0; icmp type destination-unreachable counter; tcp flags rst counter; }
}
table netdev n {
	chain i { type filter hook ingress device lan priority 0; udp dport 3 counter reject; tcp dport 3 counter reject with tcp reset; udp dport 4 counter reject with icmpx type host-unreachable; }
	chain e { type filter hook egress device lan priority 0; counter; }
}
",
            ),
            "lan",
            &[
                ports(),
                (1..4).flat_map(|p| {
                    [
                        lan().ip4("198.18.0.10", "198.18.0.1").udp(77, p),
                        lan().ip4("198.18.0.10", "198.18.0.1").tcp(77, p),
                        lan().ip6("2001:db8:1::10", "2001:db8:1::1").udp(77, p),
                        lan().ip6("2001:db8:1::10", "2001:db8:1::1").tcp(77, p),
                    ]
                })
                .collect(),
            ]
            .concat(),
        ),
        from(
            on(
                "rules_change_packets",
                "
table inet t {
	chain c {
		type filter hook forward priority 0;
		ip daddr 198.18.5.20 ip daddr set 198.18.5.20 counter
		udp dport 1 udp dport set 1111 counter
		udp dport 2 ip dscp set af31 counter
		udp dport 2 ip6 dscp set af31 counter
		udp dport 3 ip ttl set 3 counter
		udp dport 3 ip6 hoplimit set 3 counter
		udp dport 4 ip saddr set 198.18.0.77 counter
		udp dport 4 ip6 saddr set 2001:db8:1::77 counter
		udp dport 5 ip ecn set ect0 counter
		udp dport 6 ip6 flowlabel set 0x54321 counter
		udp dport 7 udp sport set udp dport counter
		udp dport 8 udp checksum set 0 counter
		udp dport 9 ip id set 4242 counter
		tcp dport 1 tcp dport set 1111 counter
		tcp dport 2 tcp flags set syn | ack counter
		tcp dport 3 tcp window set 17 counter
		tcp dport 4 tcp sequence set 99 counter
		tcp option maxseg size set 1200 counter
		tcp option maxseg size set 1400 counter
		tcp option timestamp tsval set 5 counter
		reset tcp option sack-perm counter
		icmp type echo-request icmp id set 9 counter
		icmpv6 type echo-request icmpv6 sequence set 7 counter
		udp dport 53 @th,64,16 set 0x4141 counter
		ip protocol esp @nh,160,32 set 0x77 counter
		ether saddr set 02:11:22:33:44:55 counter
		sctp dport set 99 counter
		dccp dport set 99 counter
		udplite dport set 99 counter
	}
	chain post {
		type filter hook postrouting priority 0;
		udp dport 1111 counter
		tcp option maxseg size 1200 counter
		ip dscp af31 counter
	}
}
",
            ),
            "lan",
            &[ports(), zoo()].concat(),
        ),
        from(
            on(
                "metadata_is_set_and_read_on_later_hooks",
                "
table inet t {
	chain pre {
		type filter hook prerouting priority 0;
		udp dport 1 meta mark set 0xcafe counter
		udp dport 2 meta priority set 1:10 counter
		udp dport 3 meta mark set meta mark | 0x100 counter
		udp dport 4 meta mark set ip saddr & 0xff counter
		udp dport 6 meta mark set meta length counter
		udp dport 7 meta mark set 0xffff meta mark set meta mark & 0xff00 ^ 0x1 counter
		tcp dport 9 meta pkttype set other counter
	}
	chain post {
		type filter hook postrouting priority 0;
		meta mark 0xcafe counter
		meta priority 1:10 counter
		meta mark 0x100 counter
		meta mark 10 counter
		meta mark 1005 counter
		meta mark > 20 meta mark < 60 counter
		meta mark 0xff01 counter
		meta mark & 0xf == 0 meta mark != 0 counter
		meta pkttype other counter
		ip tos & 0 == 0 counter
	}
}
"
                .replace("\t\tip tos & 0 == 0 counter\n", "")
                .replace("\t\tudp dport 4 meta mark set ip saddr & 0xff counter\n", "")
                .as_str(),
            ),
            "lan",
            &ports(),
        ),
        from(
            on(
                "bit_operations_ranges_and_comparisons",
                &format!(
                    "table inet t {{\n\tchain c {{\n\t\ttype filter hook forward priority 0;\n{}\t}}\n}}\n",
                    counted(
                        "udp dport & 1 == 1
                        udp dport & 6 != 4
                        udp dport >= 3
                        udp dport < 3
                        udp dport 2-5
                        udp dport != 2-5
                        ip saddr & 255.255.255.0 == 198.18.0.0
                        ip6 saddr & ffff:ffff:ffff:: == 2001:db8:1::
                        ip ttl >= 63 ip ttl <= 63
                        meta length & 0xfff0 == 32
                        tcp flags & (syn | ack) != (syn | ack)
                        tcp flags ! rst
                        tcp flags syn / syn,ack
                        ip daddr > 198.18.255.255
                        ip dscp < 10
                        ip dscp != { 1, 2, 3 }"
                    )
                ),
            ),
            "lan",
            &ports(),
        ),
        {
            let mut s = on(
                "one_ruleset_for_a_whole_router",
                include_str!("../../../examples/router/rules.nft"),
            );
            s.net = include_str!("../../../examples/router/net.ip").into();
            for p in [22, 23, 53, 80, 161, 443, 5201, 8080] {
                s = s
                    .frame("lan", &out4().id(p).tcp(1, p).tcp_options(&crate::net::SYN_OPTIONS))
                    .frame("lan", &out4().id(p).udp(2, p))
                    .frame("lan", &out6().tcp(1, p))
                    .frame("wan", &wan().ip4("198.19.0.2", "198.18.0.10").tcp(p, 1).flags(0x12))
                    .frame("wan", &wan().ip4("198.19.0.2", "198.18.0.10").udp(p, 1))
                    .frame("wan", &wan().ip4("198.19.0.2", "198.18.0.10").tcp(1, p))
                    .frame("wan", &wan().ip4("198.18.0.99", "198.18.0.10").tcp(p, 1).flags(0x10));
            }
            s
        },
        from(
            on(
                "copies_go_to_other_gateways",
                "
table ip a {
	chain pre { type filter hook prerouting priority 0; udp dport 1 counter dup to 198.18.5.20 device \"dmz\"; udp dport 2 counter dup to 198.18.5.20; udp dport 3 counter dup to 198.18.64.1; }
	chain thru { type filter hook forward priority 0; udp dport 4 counter dup to 198.18.5.20 device \"dmz\"; udp dport 5 counter dup to 198.19.0.3; }
	chain post { type filter hook postrouting priority 0; udp dport 6 counter dup to 198.18.5.20 device \"dmz\"; counter; iif 0 counter; iifname lan counter; iifname wan counter; iifname dmz counter; }
	chain in { type filter hook input priority 0; udp dport 77 counter dup to 198.18.5.20 device \"dmz\"; }
	chain out { type filter hook output priority 0; counter; iif 0 counter; }
}
table ip6 b {
	chain pre { type filter hook prerouting priority 0; udp dport 1 counter dup to 2001:db8:5::20 device \"dmz\"; udp dport 2 counter dup to 2001:db8:5::20; }
	chain thru { type filter hook forward priority 0; udp dport 4 counter dup to 2001:db8:5::20 device \"dmz\"; }
	chain post { type filter hook postrouting priority 0; udp dport 6 counter dup to 2001:db8:5::20 device \"dmz\"; counter; iif 0 counter; iifname lan counter; iifname wan counter; iifname dmz counter; }
}
",
            ),
            "lan",
            &[ports(), vec![lan().ip4("198.18.0.10", "198.18.0.1").udp(5, 77), out4().ttl(1).udp(5, 1)]].concat(),
        ),
        from(
            on(
                "base_chains_of_three_families_in_one_order",
                "
table ip a {
	chain p1 { type filter hook prerouting priority raw; udp dport 1 meta mark set 1 counter; }
	chain p2 { type filter hook prerouting priority mangle - 5; meta mark 1 meta mark set 2 counter; }
}
table inet b {
	chain p1 { type filter hook prerouting priority mangle; meta mark 2 meta mark set 3 counter; ip6 hoplimit 64 meta mark set 4 counter; }
	chain p2 { type filter hook prerouting priority -160; meta mark 2 counter; meta mark 3 counter; }
	chain p3 { type filter hook prerouting priority filter + 3; meta mark 3 counter accept; meta mark 4 counter drop; }
}
table ip6 c {
	chain p1 { type filter hook prerouting priority security; meta mark 4 counter; }
	chain p2 { type filter hook prerouting priority filter + 2; meta mark 4 counter; }
}
table inet dormant {
	flags dormant
	chain p { type filter hook prerouting priority 0; counter drop; }
}
",
            ),
            "lan",
            &ports(),
        ),
        {
            let mut s = forward(
                "each_way_has_its_devices",
                "iifname lan oifname wan counter accept
                iifname dmz oifname lan ip6 nexthdr udp counter accept
                iif wan oif dmz counter drop
                iifname { wan, dmz } counter
                oifname . iifname { wan . dmz, lan . dmz } counter
                iifname vmap { lan : accept, dmz : continue }",
            );
            for i in 0..3 {
                s = s
                    .frame("lan", &out4().udp(1, i))
                    .frame("lan", &lan().ip4("198.18.0.10", "198.18.5.20").udp(1, i))
                    .frame("wan", &wan().ip4("198.19.0.2", "198.18.5.20").udp(1, i))
                    .frame("wan", &wan().ip4("198.19.0.2", "198.18.0.10").udp(1, i))
                    .frame("dmz", &dmz().ip4("198.18.5.20", "198.19.0.2").udp(1, i))
                    .frame("dmz", &dmz().ip6("2001:db8:5::20", "2001:db8:1::10").udp(1, i));
            }
            s
        },
    ]
}
