// SPDX-License-Identifier: Apache-2.0

//! What rules can match, one header or family of keys at a time, over every kind of packet.

use super::{forward, from, on};
use crate::net::{lan, zoo};
use crate::scenario::Scenario;

pub fn all() -> Vec<Scenario> {
    let over_zoo = [
        (
            "ipv4_header_fields",
            "ip version 4
            ip hdrlength 5
            ip hdrlength > 5
            ip dscp ef
            ip dscp { cs0, cs1, af41 }
            ip ecn not-ect
            ip length 20-60
            ip length > 500
            ip id 7777
            ip id != 1
            ip frag-off & 0x4000 != 0
            ip frag-off & 0x3fff != 0
            ip frag-off 0
            ip ttl 63
            ip ttl < 63
            ip protocol udp
            ip protocol { tcp, icmp, esp, ah, comp, sctp, dccp, udplite }
            ip protocol 47
            ip checksum 0
            ip saddr 198.18.0.10
            ip saddr 198.18.0.0/28
            ip saddr != { 198.18.0.10, 198.18.0.12-198.18.0.200 }
            ip daddr 198.18.200.0/24
            ip daddr 198.18.5.0-198.18.5.255
            ip saddr & 0.0.0.1 == 0.0.0.1
            ip saddr . ip daddr { 198.18.0.10 . 198.19.0.2, 198.18.0.11 . 198.18.5.20 }",
        ),
        (
            "ipv4_options",
            "ip option ra exists
            ip option rr exists
            ip option ra value 0
            ip option rr ptr 4
            ip option rr missing
            ip option lsrr exists",
        ),
        (
            "ipv6_header_fields",
            "ip6 version 6
            ip6 dscp 0x2e
            ip6 dscp != 0
            ip6 ecn 0
            ip6 flowlabel 0x12345
            ip6 flowlabel 0
            ip6 length < 30
            ip6 length 30-700
            ip6 nexthdr tcp
            ip6 nexthdr { 0, 43, 44, 60 }
            ip6 hoplimit 254
            ip6 hoplimit 63
            ip6 saddr 2001:db8:1::/64
            ip6 saddr != 2001:db8:1::10
            ip6 daddr { 2001:db8:2::2, 2001:db8:200::/56 }
            ip6 daddr 2001:db8:200::-2001:db8:200::ffff
            ip6 saddr . ip6 daddr . ip6 nexthdr { 2001:db8:1::10 . 2001:db8:2::2 . udp }",
        ),
        (
            "ipv6_extension_headers",
            "exthdr hbh exists
            exthdr hbh missing
            exthdr rt exists
            exthdr dst exists
            exthdr frag exists
            exthdr mh exists
            hbh nexthdr udp
            hbh hdrlength 0
            rt nexthdr { udp, tcp }
            rt type 0
            rt seg-left 0
            rt seg-left 1
            dst nexthdr 43
            frag id 0xabcd
            frag frag-off 0
            frag frag-off 3
            frag more-fragments 1
            frag nexthdr 17
            mh type 0
            ip6 nexthdr 0 meta l4proto tcp",
        ),
        (
            "tcp_fields",
            "tcp sport 40000
            tcp dport { 22, 80, 443 }
            tcp dport 1-100
            tcp dport != 80
            tcp sequence 16909060
            tcp ackseq > 0
            tcp doff 5
            tcp doff > 5
            tcp flags syn
            tcp flags & (fin | syn | rst | ack) == syn
            tcp flags & (fin | rst) != 0
            tcp flags { ack, ack | psh, ecn | cwr | syn }
            tcp flags 0x0
            tcp window 8192
            tcp urgptr 9
            tcp checksum != 0
            tcp sport . tcp dport { 40000 . 80, 40001 . 443 }
            tcp dport vmap { 22 : continue, 23 : accept }",
        ),
        (
            "tcp_options",
            "tcp option maxseg exists
            tcp option maxseg missing
            tcp option maxseg size 1460
            tcp option maxseg size < 1000
            tcp option window exists
            tcp option window count 7
            tcp option sack-perm exists
            tcp option sack exists
            tcp option sack left 1
            tcp option sack right > 1
            tcp option timestamp tsval 9
            tcp option timestamp tsecr 0
            tcp option nop exists
            tcp option eol exists
            tcp option 5 exists
            tcp option @8,16,32 9",
        ),
        (
            "udp_and_udplite_fields",
            "udp sport 5000-5002
            udp dport 53
            udp dport { 0, 9, 161, 65535 }
            udp length 8
            udp length > 100
            udp checksum 0
            udplite sport 7
            udplite checksum != 0
            udplite dport 9
            th dport 53
            th sport 7 th dport 9
            meta l4proto { tcp, udp } th dport { 53, 80 }
            meta l4proto . th dport { udp . 53, tcp . 443 }",
        ),
        (
            "icmp_and_icmpv6_fields",
            "icmp type echo-request
            icmp type { echo-reply, timestamp-request }
            icmp code 4
            icmp code != 0
            icmp checksum != 0
            icmp id 0x1234
            icmp sequence 2
            icmp mtu 1400
            icmp gateway 0
            icmpv6 type echo-request
            icmpv6 type { packet-too-big, destination-unreachable }
            icmpv6 code 4
            icmpv6 mtu 1280
            icmpv6 id 0x1234
            icmpv6 sequence 1
            igmp type membership-report-v2
            igmp mrt 0",
        ),
        (
            "other_transports",
            "sctp sport 80
            sctp dport 8080
            sctp vtag 7
            sctp checksum != 0
            sctp chunk data exists
            sctp chunk init exists
            sctp chunk init init-tag 256
            dccp sport 80
            dccp dport != 80
            dccp type response
            esp spi 256
            esp sequence 5
            ah spi 512
            ah hdrlength 4
            ah sequence 6
            comp cpi 3
            comp flags 0",
        ),
        (
            "raw_payload",
            "@nh,0,4 4
            @nh,72,8 17
            @nh,8,8 & 0xfc == 0xb8
            @th,0,16 40000
            @th,16,16 { 53, 80 }
            @th,64,32 != 0
            @th,8192,8 0
            @ll,0,48 0x020000000201
            @ll,96,16 0x86dd
            @ih,0,32 0x47455420",
        ),
        (
            "meta_keys",
            "meta length > 500
            meta length 28
            meta protocol ip
            meta protocol ip6
            meta nfproto ipv4
            meta nfproto ipv6 meta l4proto 17
            meta l4proto 59
            meta l4proto { tcp, icmp, ipv6-icmp }
            meta l4proto != udp
            meta mark 0
            meta priority 0:0
            iif lan
            iifname \"lan\"
            iifname \"l*\"
            iifname { \"wan\", \"lan\" }
            oif wan
            oifname \"wan\"
            oifname != \"wan\"
            oifname { \"dmz\" }
            iiftype ether
            oiftype ether
            iifgroup 0
            meta iifkind \"veth\"
            meta pkttype host
            meta pkttype { broadcast, multicast, other }
            meta sdif 0
            meta cpu >= 0
            iifname . oifname { lan . wan }
            iifname . ip daddr vmap { lan . 198.19.0.2 : continue }",
        ),
        (
            "ether_and_vlan_in_forward",
            "ether saddr 02:00:00:00:01:10
            ether daddr 02:00:00:00:01:01
            ether type ip
            ether type ip6
            ether saddr { 02:00:00:00:01:10, 02:00:00:00:01:11 }
            vlan id 1",
        ),
        (
            "routing_and_interface_lookups",
            "rt ip nexthop 198.19.0.2
            rt ip6 nexthop 2001:db8:2::2
            rt mtu 1500
            rt classid 0
            fib saddr oif lan
            fib saddr oifname \"lan\"
            fib daddr oif wan
            fib daddr type unicast
            fib daddr . iif type local
            fib saddr . iif oif exists
            fib saddr . iif oif missing
            fib saddr . mark oif lan",
        ),
        (
            "numbers_and_hashes",
            "numgen inc mod 3 0
            numgen inc mod 3 offset 100 101
            meta mark set numgen inc mod 5
            meta mark 4
            meta mark set jhash ip saddr . ip daddr mod 16 seed 0xdeadbeef
            meta mark 0-7
            meta mark set jhash ip6 daddr mod 64 seed 1 offset 3
            meta mark set symhash mod 1
            numgen inc mod 4 vmap { 0 : continue, 1 : continue, 2 : accept }",
        ),
    ];
    let mut scenarios: Vec<_> =
        over_zoo.iter().map(|(name, lines)| from(forward(name, lines), "lan", &zoo())).collect();

    // A scenario at ingress, where nothing has been checked yet.
    let ingress = |name: &str, lines: &str| {
        let rules = format!(
            "table netdev t {{\n\tchain c {{\n\t\ttype filter hook ingress device lan priority 0;\n{}\t}}\n}}\n",
            super::counted(lines)
        );
        on(name, &rules)
    };
    scenarios.push(from(
        ingress(
            "all_headers_at_ingress",
            "ip ttl 64
            ip frag-off & 0x1fff != 0
            ip6 nexthdr 44
            tcp dport 80
            tcp option maxseg size 1460
            tcp flags syn
            udp dport 53
            icmp type echo-request
            icmpv6 type echo-request
            sctp dport 8080
            ah spi 512
            exthdr frag exists
            th dport 2
            meta l4proto 17
            meta length 28
            meta protocol ip6
            ether saddr 02:00:00:00:01:10
            @ll,48,48 0x020000000110
            iifname \"lan\"
            meta pkttype host
            fib saddr . iif oif missing
            fib daddr type local",
        ),
        "lan",
        &zoo(),
    ));
    scenarios.push(from(
        ingress(
            "vlan_tags_at_ingress",
            "vlan id 10
            vlan id 11-20
            vlan pcp 3
            vlan dei 1
            vlan cfi 0
            vlan type ip
            vlan type 0x8100
            ether type vlan
            ether type 8021ad
            ether type vlan vlan id 10 vlan type 8021q vlan id 20
            ether type 8021ad vlan id 10 vlan type 8021q vlan id 20 ip saddr 198.18.0.10
            ether saddr 02:00:00:00:01:10
            vlan id 10 ip saddr 198.18.0.10
            vlan id 10 tcp dport 80
            ip saddr 198.18.0.10
            udp dport 53
            meta protocol vlan
            meta protocol ip
            meta length > 40
            meta pkttype other
            @ll,96,16 0x8100
            @ll,112,16 & 0xfff == 10",
        ),
        "lan",
        &[
            lan().vlan(10).ip4("198.18.0.10", "198.19.0.2").tcp(1, 80),
            lan().vlan(0x700a).ip4("198.18.0.10", "198.19.0.2").udp(1, 53),
            lan().vlan(0).ip4("198.18.0.10", "198.19.0.2").udp(2, 53),
            lan().vlan(15).ip6("2001:db8:1::10", "2001:db8:2::2").udp(3, 53),
            lan().tag(0x88a8, 10).ip4("198.18.0.10", "198.19.0.2").udp(4, 53),
            lan().tag(0x88a8, 10).vlan(20).ip4("198.18.0.10", "198.19.0.2").udp(5, 53),
            lan().vlan(10).vlan(20).ip4("198.18.0.10", "198.19.0.2").tcp(6, 80),
            lan().vlan(10).arp(1, [2, 0, 0, 0, 1, 16], "198.18.0.10", [0; 6], "198.18.0.1"),
            lan().ip4("198.18.0.10", "198.19.0.2").udp(7, 53),
        ],
    ));
    // The header before the extension need not be there, nor need a packet be a first fragment.
    let chunks =
        [0, 80, 0, 53, 0, 0, 0, 7, 1, 2, 3, 4, 3, 0, 0, 16, 0, 0, 0, 0x55, 0, 0, 1, 0, 0, 0, 0, 0];
    let later = |f: crate::frame::Frame| f.protocol(132).data(&chunks);
    scenarios.push(from(
        ingress(
            "headers_of_cut_packets_and_later_fragments_at_ingress",
            "exthdr mh exists
                exthdr mh missing
                mh type 5
                sctp chunk sack exists
                sctp chunk sack cum-tsn-ack 0x55
                sctp chunk data missing
                sctp dport 53",
        ),
        "lan",
        &[
            lan().ip6("2001:db8:1::10", "2001:db8:2::2").extension(135, &[5, 0, 1, 0, 0, 0]),
            lan().ip6("2001:db8:1::10", "2001:db8:2::2").protocol(135).cut(14 + 25),
            lan().ip6("2001:db8:1::10", "2001:db8:2::2").protocol(0).cut(14 + 25),
            lan().ip4("198.18.0.10", "198.19.0.2").transport(132, &chunks),
            later(lan().ip4("198.18.0.10", "198.19.0.2").fragment(5, false)),
            later(lan().ip6("2001:db8:1::10", "2001:db8:2::2").fragment6(0, true, 7)),
            later(lan().ip6("2001:db8:1::10", "2001:db8:2::2").fragment6(5, false, 7)),
        ],
    ));
    scenarios.push(from(
        ingress(
            "arp_at_ingress",
            "arp operation request
                arp operation reply
                arp htype 1
                arp ptype ip
                arp hlen 6
                arp plen 4
                arp saddr ip 198.18.0.10
                arp daddr ip { 198.18.0.1, 198.18.0.2 }
                arp saddr ether 02:00:00:00:01:10
                arp daddr ether 00:00:00:00:00:00
                meta protocol arp
                ether daddr ff:ff:ff:ff:ff:ff
                meta pkttype broadcast",
        ),
        "lan",
        &arps(),
    ));
    scenarios.push(from(
        on(
            "arp_input",
            &format!(
                "table arp t {{\n\tchain c {{\n\t\ttype filter hook input priority 0; policy drop;\n{}\t}}\n}}\n",
                super::counted(
                    "arp operation request
                    arp operation { reply, rrequest }
                    arp htype 1 arp ptype ip
                    arp saddr ip 198.18.0.10
                    arp daddr ip 198.18.0.1
                    arp saddr ether 02:00:00:00:01:10
                    meta length 28
                    meta length > 28
                    iifname lan
                    ether saddr 02:00:00:00:01:10
                    ether daddr ff:ff:ff:ff:ff:ff
                    meta pkttype broadcast
                    @nh,48,16 1"
                )
            ),
        ),
        "lan",
        &arps(),
    ));
    scenarios
}

fn arps() -> Vec<crate::frame::Frame> {
    let broadcast = || crate::frame::ethernet([0xff; 6], crate::net::CLIENT);
    let client = crate::net::CLIENT;
    vec![
        broadcast().arp(1, client, "198.18.0.10", [0; 6], "198.18.0.1"),
        lan().arp(2, client, "198.18.0.10", crate::net::LAN, "198.18.0.1"),
        broadcast().arp(1, client, "198.18.0.99", [0; 6], "198.18.0.2"),
        broadcast().arp(1, client, "198.18.0.10", [0; 6], "198.18.0.1").data(&[0; 18]),
        broadcast().arp(1, client, "0.0.0.0", [0; 6], "198.18.0.1"),
        lan().arp(3, client, "198.18.0.10", [0; 6], "198.18.0.1"),
        lan().arp(2, client, "198.18.0.10", [0; 6], "198.18.0.1").set(0, &[0, 7]),
        lan().arp(2, client, "198.18.0.10", [0; 6], "198.18.0.1").set(4, &[8]),
        lan().arp(1, client, "198.18.0.10", [0; 6], "198.18.0.1").cut(14 + 20),
        lan().arp(1, client, "198.18.0.10", [0; 6], "224.0.0.1"),
        lan().arp(1, client, "127.0.0.1", [0; 6], "198.18.0.1"),
        crate::frame::ethernet([2, 9, 9, 9, 9, 9], client).arp(
            1,
            client,
            "198.18.0.10",
            [0; 6],
            "198.18.0.1",
        ),
    ]
}
