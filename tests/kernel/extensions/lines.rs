// SPDX-License-Identifier: Apache-2.0

//! Rules of iptables and ip6tables, without `-A CHAIN`.

/// Matches of packets that are forwarded, of both families. A rule counts.
pub const BOTH: &str = r#"
-p tcp -m tcp --tcp-option 2
-p tcp -m tcp ! --tcp-option 3 --tcp-flags SYN,ACK SYN
-p tcp -m tcp --tcp-option 8 --dport 80
-p tcp -m tcp ! --tcp-option 1 ! --sport 40000
-p tcp -m tcp --tcp-option 254
-p tcp -m multiport --dports 22,80:443,8080
-p tcp -m multiport ! --sports 1024:40001
-p tcp -m multiport --dports 80
-p tcp -m multiport --ports 1:21,23:65535,22
-p udp -m multiport --ports 53,1000:2000
-p udp -m multiport ! --ports 53,9
-p sctp -m sctp --dport 1:100
-p sctp -m sctp ! --sport 5 --dport 80
-p esp -m esp --espspi 1:500
-p esp -m esp ! --espspi 256
-m comment --comment "a comment"
-m mark --mark 0/0xff
-m mac --mac-source 02:00:00:00:01:10
-m mac ! --mac-source 02:00:00:00:01:10
-m pkttype --pkt-type unicast
-m pkttype ! --pkt-type multicast
-m length --length 40:60
-m length ! --length 60
-m length --length 0:39
-m dscp --dscp 46
-m dscp ! --dscp 8
-m dscp --dscp-class AF11
-m tos --tos 0x10/0x3f
-m tos ! --tos 0xb8
-m ecn --ecn-ip-ect 1
-m ecn ! --ecn-ip-ect 0
-p tcp -m ecn --ecn-tcp-ece
-p tcp -m ecn ! --ecn-tcp-cwr --ecn-tcp-ece
-m statistic --mode nth --every 3 --packet 0
-m statistic --mode nth --every 3 --packet 2
-m statistic --mode nth ! --every 4 --packet 1
-m statistic --mode nth --every 1 --packet 0
-m statistic --mode random --probability 1
-m statistic --mode random ! --probability 0
-m string --algo bm --string "GET"
-m string --algo kmp --string "get" --icase
-m string --algo bm --hex-string "|00|x" --from 20 --to 60
-m string --algo bm ! --string "x"
-m u32 --u32 "0>>28=4:6"
-m u32 --u32 "6&0xff=1:17"
-m u32 --u32 "4&0x1fff=0&&0>>22&0x3c@0>>16=40000:40002"
-m u32 ! --u32 "36=0"
-m u32 --u32 "60000=0"
-p tcp -m tcpmss --mss 1000:1460
-p tcp -m tcpmss ! --mss 1400
-m time --timestart 00:00 --timestop 23:59:59
-m time --datestop 2001-01-01
-m quota --quota 300
-m quota ! --quota 300
-m devgroup --src-group 0
-m devgroup ! --dst-group 0
-m physdev ! --physdev-in lan
-m physdev --physdev-is-bridged
-m bpf --bytecode "5,48 0 0 0,84 0 0 240,21 0 1 64,6 0 0 1,6 0 0 0"
-m bpf --bytecode "5,48 0 0 9,21 0 1 17,6 0 0 65535,40 0 0 4294963200,22 0 0 0"
-m bpf --bytecode "7,128 0 0 0,53 0 3 60,177 0 0 0,72 0 0 0,21 1 0 80,6 0 0 0,6 0 0 1"
-m policy --dir in --pol none
-m policy --dir in --pol ipsec
-m hashlimit --hashlimit-upto 1/hour --hashlimit-burst 3 --hashlimit-mode srcip --hashlimit-name a
-m hashlimit --hashlimit-above 1/hour --hashlimit-burst 2 --hashlimit-mode dstip,dstport --hashlimit-name b
-m hashlimit --hashlimit-upto 1/hour --hashlimit-burst 4 --hashlimit-mode srcip,srcport --hashlimit-srcmask 24 --hashlimit-name c
-m hashlimit --hashlimit-upto 1/hour --hashlimit-burst 9 --hashlimit-name d
-m hashlimit --hashlimit-above 20b/s --hashlimit-burst 2kb --hashlimit-mode srcip --hashlimit-name e
-m recent --name a --set
-m recent --name a ! --set --rdest
-m recent --name b --update --seconds 600 --hitcount 3
-m recent --name a --rcheck
"#;

/// Matches without an extension of their own, and others that `penstock translate` knows.
pub const TRANSLATED: &str = r#"
-i lan
! -i lan -o wan
-i la+ ! -o lan+
-p tcp
! -p udp
-p udp --dport 53
-p tcp -m tcp --syn
-p tcp -m tcp ! --syn
-p tcp -m tcp --tcp-flags ALL NONE
-p tcp -m tcp ! --tcp-flags SYN,RST,ACK SYN,ACK
-p tcp -m tcp --sport 1024:65535 ! --dport 80
-m limit --limit 1/hour --limit-burst 7
-m limit --limit 2/day --limit-burst 1
-m statistic --mode nth --every 5 --packet 4
-m mark ! --mark 0x0
-m length --length 1000:65535
"#;

/// The same of IPv4 alone.
pub const IPV4: &str = r#"
-p icmp -m icmp --icmp-type echo-request
-p icmp -m icmp --icmp-type 3/4
-p icmp -m icmp --icmp-type any
-p icmp -m icmp ! --icmp-type 8/1
-m ttl --ttl-eq 64
-m ttl ! --ttl-eq 64
-m ttl --ttl-lt 3
-m ttl --ttl-gt 64
-p ah -m ah --ahspi 1:500
-m iprange --src-range 198.18.0.10-198.18.0.10
-m iprange ! --src-range 198.18.0.11-198.18.5.19 --dst-range 198.19.0.0-198.19.0.2
-m realm --realm 0
-m realm ! --realm 1/0xff
-m addrtype --dst-type UNICAST
-m addrtype --src-type UNICAST,LOCAL --dst-type UNICAST
-m addrtype ! --dst-type LOCAL
-m addrtype --dst-type LOCAL --limit-iface-in
-m addrtype --src-type BLACKHOLE,UNREACHABLE,PROHIBIT
"#;

/// The same of IPv6 alone.
pub const IPV6: &str = r#"
-p ipv6-icmp -m icmp6 --icmpv6-type echo-request
-p ipv6-icmp -m icmp6 --icmpv6-type 1/4
-p ipv6-icmp -m icmp6 ! --icmpv6-type 128
-m hl --hl-eq 64
-m hl --hl-lt 3
-m hl --hl-gt 64
-m iprange --src-range 2001:db8:1::10-2001:db8:1::10
-m iprange ! --dst-range 2001:db8:2::2-2001:db8:5::1
-m addrtype --dst-type UNICAST
-m addrtype ! --src-type MULTICAST
-m addrtype --dst-type LOCAL
"#;

/// Matches of connections, of both families.
pub const CONNECTIONS: &str = r#"
-m conntrack --ctstate NEW
-m conntrack --ctstate ESTABLISHED,RELATED
-m conntrack --ctstate INVALID
-m conntrack ! --ctstate INVALID
-m conntrack --ctstate UNTRACKED,NEW
-m conntrack --ctstate NEW,SNAT
-m conntrack ! --ctstate DNAT
-m conntrack --ctdir ORIGINAL
-m conntrack --ctdir REPLY
-m conntrack --ctproto tcp
-m conntrack ! --ctproto udp --ctstate NEW
-m conntrack --ctorigdstport 1:80
-m conntrack --ctorigsrcport 40000:40001 --ctreplsrcport 80
-m conntrack ! --ctorigdstport 53
-m conntrack --ctstatus SEEN_REPLY
-m conntrack --ctstatus NONE
-m conntrack ! --ctstatus ASSURED
-m conntrack --ctstatus CONFIRMED --ctstate ESTABLISHED
-m conntrack --ctexpire 1:10
-m conntrack --ctexpire 11:1000000
-m state --state NEW
-m state ! --state ESTABLISHED
-m connmark --mark 0
-m connmark ! --mark 0/0xff
-m connbytes --connbytes 2:3 --connbytes-dir both --connbytes-mode packets
-m connbytes --connbytes 1 --connbytes-dir reply --connbytes-mode packets
-m connbytes ! --connbytes 50:100 --connbytes-dir original --connbytes-mode bytes
-m connbytes --connbytes 1:50 --connbytes-dir both --connbytes-mode avgpkt
-m helper --helper ftp
-m helper ! --helper ftp
-m cluster --cluster-total-nodes 2 --cluster-local-node 1 --cluster-hash-seed 0xdeadbeef
-m cluster --cluster-total-nodes 7 --cluster-local-nodemask 0x15 --cluster-hash-seed 5
-m cluster --cluster-total-nodes 3 ! --cluster-local-node 2 --cluster-hash-seed 77
-m connlabel --label 40
-m connlabel ! --label 3
"#;

/// Matches that count connections. Where another rule drops a packet, the kernel counts its
/// connection until the next tick, so these stand alone.
pub const COUNTED: &str = r#"
-p udp -m connlimit --connlimit-above 2
-p udp -m connlimit --connlimit-upto 3 --connlimit-daddr
-p udp -m connlimit --connlimit-above 4 --connlimit-mask 16
"#;

/// Targets that mark packets by a hash: what comes out is counted by [`MARKS`].
pub const HASH_MARKS: &[&str] = &[
    "-j HMARK --hmark-tuple src,dst --hmark-mod 4 --hmark-offset 100 --hmark-rnd 7",
    "-j HMARK --hmark-tuple src,dst,sport,dport,proto --hmark-mod 4 --hmark-offset 100 --hmark-rnd 0xfeed",
    "-j HMARK --hmark-tuple ct,src,dst,sport,dport,proto --hmark-mod 4 --hmark-offset 100 --hmark-rnd 1",
    "-j HMARK --hmark-tuple ct,src,dst --hmark-mod 4 --hmark-offset 100 --hmark-rnd 99",
    "-j HMARK --hmark-tuple src,spi --hmark-mod 4 --hmark-offset 100 --hmark-rnd 3",
    "-j HMARK --hmark-src-prefix 24 --hmark-dst-prefix 31 --hmark-sport-mask 0xff --hmark-dport 3 \
     --hmark-dport-mask 0xf0 --hmark-proto-mask 0xf --hmark-mod 4 --hmark-offset 100 --hmark-rnd 5",
];

/// Counts what has these marks, and has connections tracked.
pub const MARKS: &[&str] = &[
    "-m state --state NEW",
    "-m mark --mark 100",
    "-m mark --mark 101",
    "-m mark --mark 102",
    "-m mark --mark 103",
];

/// Targets that change packets, each by itself: table, chain and rule.
pub const CHANGES: &[(&str, &str, &str)] = &[
    ("mangle", "PREROUTING", "-j MARK --set-mark 5"),
    ("mangle", "PREROUTING", "-j MARK --set-xmark 0x105/0xff"),
    ("mangle", "FORWARD", "-p udp -j MARK --or-mark 0x80"),
    ("mangle", "PREROUTING", "-j DSCP --set-dscp 10"),
    ("mangle", "PREROUTING", "-j DSCP --set-dscp-class EF"),
    ("mangle", "FORWARD", "-j TOS --set-tos 0x08/0x3f"),
    ("mangle", "POSTROUTING", "-j TOS --set-tos 0x0c"),
    ("mangle", "FORWARD", "-p tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1300"),
    ("mangle", "FORWARD", "-p tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 400"),
    ("mangle", "FORWARD", "-p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu"),
    ("mangle", "PREROUTING", "-p tcp -j TCPOPTSTRIP --strip-options timestamp,sack-permitted"),
    ("mangle", "PREROUTING", "-p tcp -j TCPOPTSTRIP --strip-options mss,wscale"),
    ("mangle", "POSTROUTING", "-j CHECKSUM --checksum-fill"),
    ("mangle", "POSTROUTING", "-j CLASSIFY --set-class 1:2"),
    ("mangle", "FORWARD", "-j LOG --log-prefix \"forward: \" --log-level info --log-tcp-options"),
    ("filter", "FORWARD", "-j NFLOG --nflog-group 3 --nflog-prefix p"),
    ("filter", "FORWARD", "-p udp -j NFQUEUE --queue-num 9 --queue-bypass"),
    ("filter", "FORWARD", "-p udp -j REJECT"),
    ("filter", "FORWARD", "-p tcp -j REJECT --reject-with tcp-reset"),
    ("filter", "FORWARD", "-m multiport -p tcp --dports 80,443 -j DROP"),
    ("filter", "FORWARD", "-j AUDIT --type drop"),
    ("raw", "PREROUTING", "-p tcp --dport 21 -j CT --helper ftp"),
    ("raw", "PREROUTING", "-p tcp -j CT --notrack"),
    ("raw", "PREROUTING", "-p udp -j NOTRACK"),
    ("raw", "PREROUTING", "-m rpfilter"),
    ("raw", "PREROUTING", "-m rpfilter --invert -j DROP"),
    ("raw", "PREROUTING", "-m rpfilter --loose --validmark"),
    ("mangle", "PREROUTING", "-m socket --nowildcard"),
    ("mangle", "PREROUTING", "-p tcp -j TPROXY --on-port 80 --tproxy-mark 1/1"),
];

/// The same of IPv4 alone.
pub const CHANGES4: &[(&str, &str, &str)] = &[
    ("mangle", "PREROUTING", "-j TTL --ttl-set 3"),
    ("mangle", "PREROUTING", "-j TTL --ttl-inc 250"),
    ("mangle", "FORWARD", "-j TTL --ttl-dec 2"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp-net-unreachable"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp-host-unreachable"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp-proto-unreachable"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp-net-prohibited"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp-host-prohibited"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp-admin-prohibited"),
    ("mangle", "FORWARD", "-p udp -j TEE --gateway 198.19.0.3"),
];

/// The same of IPv6 alone.
pub const CHANGES6: &[(&str, &str, &str)] = &[
    ("mangle", "PREROUTING", "-j HL --hl-set 3"),
    ("mangle", "PREROUTING", "-j HL --hl-inc 250"),
    ("mangle", "FORWARD", "-j HL --hl-dec 2"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp6-no-route"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp6-adm-prohibited"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp6-addr-unreachable"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp6-port-unreachable"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp6-policy-fail"),
    ("filter", "FORWARD", "-j REJECT --reject-with icmp6-reject-route"),
];

/// Targets that translate, of IPv4.
pub const NAT4: &[(&str, &str)] = &[
    ("PREROUTING", "-p tcp --dport 80 -j DNAT --to-destination 198.18.5.20:8080"),
    ("PREROUTING", "-d 198.19.0.2 -j DNAT --to-destination 198.18.5.20"),
    ("PREROUTING", "-p udp -j DNAT --to-destination :9053"),
    ("PREROUTING", "-p tcp -j REDIRECT --to-ports 8080"),
    ("PREROUTING", "-j REDIRECT"),
    ("PREROUTING", "-d 198.19.0.0/24 -j NETMAP --to 198.18.200.0/24"),
    ("POSTROUTING", "-o wan -j SNAT --to-source 198.19.0.1"),
    ("POSTROUTING", "-p tcp -j SNAT --to-source 198.19.0.9"),
    ("POSTROUTING", "-s 198.18.0.0/24 -j NETMAP --to 198.19.9.0/24"),
    ("POSTROUTING", "-o wan -j MASQUERADE"),
];

/// The same of IPv6.
pub const NAT6: &[(&str, &str)] = &[
    ("PREROUTING", "-p tcp --dport 80 -j DNAT --to-destination [2001:db8:5::20]:8080"),
    ("PREROUTING", "-p udp -d 2001:db8:5::20 -j REDIRECT --to-ports 8053"),
    ("POSTROUTING", "-o wan -j SNAT --to-source 2001:db8:2::1"),
    ("POSTROUTING", "-j MASQUERADE"),
];

/// Ports that keep their distance to another one.
pub const SHIFTED4: &[&str] = &[
    "-p tcp -j DNAT --to-destination 198.18.5.20:1000-2000/80",
    "-p udp -j DNAT --to-destination :9000-9010/50",
    "-p tcp -j DNAT --to-destination 198.18.5.20:50000-65535/40000",
];

/// The same of IPv6.
pub const SHIFTED6: &str = "-p udp -j DNAT --to-destination [2001:db8:5::20]:3000-3999/9";

/// What programs ask other than bytes of the network header: those of the link header, the device.
pub const ASKED: &[(&str, &str, &str)] = &[
    ("filter", "FORWARD", "-m bpf --bytecode \"4,48 0 0 4292870155,21 0 1 16,6 0 0 1,6 0 0 0\""),
    ("mangle", "POSTROUTING", "-m bpf --bytecode \"2,32 0 0 4292870156,22 0 0 0\""),
    ("filter", "FORWARD", "-m bpf --bytecode \"4,48 0 0 4293918729,21 0 1 17,6 0 0 1,6 0 0 0\""),
    ("filter", "FORWARD", "-m bpf --bytecode \"2,32 0 0 4294963208,22 0 0 0\""),
    ("mangle", "POSTROUTING", "-m bpf --bytecode \"2,32 0 0 4294963208,22 0 0 0\""),
    ("filter", "OUTPUT", "-m bpf --bytecode \"2,32 0 0 4294963208,22 0 0 0\""),
    ("mangle", "POSTROUTING", "-m bpf --bytecode \"4,40 0 0 4294963228,21 0 1 1,6 0 0 1,6 0 0 0\""),
    ("filter", "FORWARD", "-m bpf --bytecode \"2,32 0 0 4294963256,6 0 0 1\""),
    ("filter", "FORWARD", "-m bpf --bytecode \"2,32 0 0 4294963236,6 0 0 1\""),
];

/// Copies by a device of their own, and by one that is not there.
pub const COPIES4: &[&str] = &[
    "-p udp -j TEE --gateway 198.19.0.3 --oif wan",
    "-p udp -j TEE --gateway 198.19.0.3 --oif nosuch",
];

/// The same of IPv6.
pub const COPIES6: &[&str] = &[
    "-p udp -j TEE --gateway 2001:db8:2::2 --oif wan",
    "-p udp -j TEE --gateway 2001:db8:2::2 --oif dmz",
];

/// Rules that only say something together, for both families, ordered by table.
pub const TOGETHER: &[&[(&str, &str, &str)]] = &[
    &[
        ("filter", "FORWARD", "-p udp -m recent --name x --set"),
        ("filter", "FORWARD", "-p tcp -m recent --name x --rcheck --hitcount 2 --seconds 600"),
        ("filter", "FORWARD", "-p tcp --dport 80 -m recent --name x --remove -j DROP"),
        ("filter", "FORWARD", "-m recent --name x ! --rcheck --rttl --hitcount 1"),
        ("filter", "FORWARD", "-m recent --name y --update --hitcount 4 --rdest -j ACCEPT"),
        ("filter", "FORWARD", "-m recent --name y --set --rdest"),
    ],
    &[
        ("filter", "FORWARD", "-p udp -m recent --name n --set --rsource"),
        ("filter", "FORWARD", "-m recent --name n --update --hitcount 40 --seconds 600 --reap"),
        ("filter", "FORWARD", "-m recent --name n --rcheck --hitcount 3 -j DROP"),
    ],
    &[
        (
            "filter",
            "FORWARD",
            "-p tcp -m hashlimit --hashlimit-upto 1/hour --hashlimit-burst 4 --hashlimit-mode \
             srcip --hashlimit-name one -j ACCEPT",
        ),
        (
            "filter",
            "FORWARD",
            "-m hashlimit --hashlimit-above 1/hour --hashlimit-burst 9 --hashlimit-mode srcip \
             --hashlimit-name one -j DROP",
        ),
    ],
    &[
        ("raw", "PREROUTING", "-p tcp --dport 21 -j CT --helper ftp --zone 3"),
        ("filter", "FORWARD", "-m helper --helper ftp"),
    ],
    &[
        ("mangle", "PREROUTING", "-p tcp -j MARK --set-mark 0x123"),
        ("mangle", "PREROUTING", "-j CONNMARK --save-mark --nfmask 0xff --ctmask 0xffff"),
        ("mangle", "FORWARD", "-j CONNMARK --restore-mark --nfmask 0xf0 --ctmask 0xff"),
        ("mangle", "POSTROUTING", "-m mark --mark 0x123"),
        ("mangle", "POSTROUTING", "-m connmark --mark 0x23/0xff"),
    ],
    &[
        ("mangle", "PREROUTING", "-p tcp -j CONNMARK --set-xmark 0x15/0xff"),
        ("mangle", "FORWARD", "-j CONNMARK --or-mark 0x100"),
        ("mangle", "FORWARD", "-j CONNMARK --restore-mark"),
        ("mangle", "FORWARD", "-p tcp -j CONNMARK --set-mark 3 --left-shift-mark 4"),
        ("mangle", "FORWARD", "-p udp -j CONNMARK --restore-mark --right-shift-mark 2"),
        ("mangle", "POSTROUTING", "-m mark --mark 0x100"),
        ("mangle", "POSTROUTING", "-m mark --mark 0x40"),
        ("mangle", "POSTROUTING", "-m connmark ! --mark 0x115"),
    ],
    &[
        ("raw", "PREROUTING", "-p tcp -j CT --zone 3"),
        ("raw", "PREROUTING", "-p udp -j CT --zone-orig 4"),
        ("filter", "FORWARD", "-m conntrack --ctstate NEW"),
    ],
    &[
        ("raw", "PREROUTING", "-p udp -j CT --notrack"),
        ("filter", "FORWARD", "-m conntrack --ctstate UNTRACKED -j DROP"),
        ("filter", "FORWARD", "-m conntrack ! --ctstate UNTRACKED --ctproto tcp"),
    ],
    &[
        (
            "filter",
            "FORWARD",
            "-p tcp -m multiport --dports 22,80 -m length --length 40:60 -j ACCEPT",
        ),
        ("filter", "FORWARD", "-m mac --mac-source 02:00:00:00:01:10 -m dscp ! --dscp 0 -j DROP"),
        (
            "filter",
            "FORWARD",
            "-p udp -m conntrack --ctstate NEW -m multiport --ports 53 -j REJECT",
        ),
    ],
];

/// Commands that make accounts, first without those of an earlier scenario; and rules that count in
/// them.
pub const ACCOUNTS: (&str, &str) = (
    "nfacct flush; nfacct add all; nfacct add few packet 20; nfacct add short byte 2000\n",
    "
-m nfacct --nfacct-name all
-p udp -m nfacct --nfacct-name few
-p tcp -m nfacct --nfacct-name few
-m nfacct --nfacct-name short -j DROP
-p tcp -m nfacct --nfacct-name all
",
);

/// Commands that make timeout policies, likewise; and rules that give them, in the table raw.
pub const TIMEOUTS: (&str, &str) = (
    "nfct timeout flush; nfct timeout add few inet tcp syn_sent 77 established 44 close 33
nfct timeout add short inet udp unreplied 7 replied 9; nfct timeout add echo inet icmp timeout 11
nfct timeout add sctp inet sctp closed 5 cookie_wait 6\n",
    "
-p tcp --dport 80 -j CT --timeout few
-p tcp --dport 22 -j CT --timeout few --zone 3
-p udp -j CT --timeout short
-p icmp -j CT --timeout echo
-p sctp -j CT --timeout sctp
-p tcp --dport 21 -j CT --timeout few --helper ftp
",
);

/// Chunk types of SCTP.
pub const CHUNKS: &str = "
-p sctp -m sctp --chunk-types any DATA,INIT
-p sctp -m sctp ! --chunk-types any DATA:Be
-p sctp -m sctp --chunk-types all DATA,SACK
-p sctp -m sctp ! --chunk-types all DATA,INIT
-p sctp -m sctp --chunk-types only DATA,SACK
-p sctp -m sctp --chunk-types only DATA:bE,COOKIE_ECHO
-p sctp -m sctp --chunk-types all ABORT:T,DATA
-p sctp -m sctp --dport 80 --chunk-types any SHUTDOWN_COMPLETE:t
-p sctp -m sctp --chunk-types any ALL
-p sctp -m sctp --chunk-types only NONE
";

/// Types of addresses that routes of IPv6 tell.
pub const ROUTES6: &str = "
-m addrtype --dst-type UNREACHABLE
-m addrtype ! --dst-type LOCAL,UNREACHABLE --src-type UNICAST
-m addrtype --dst-type ANYCAST --limit-iface-in
";

/// Addresses of the host as sources, of both families.
pub const LOCAL: &[(&str, &str, &str)] = &[
    ("raw", "PREROUTING", "-m rpfilter --accept-local"),
    ("raw", "PREROUTING", "-m rpfilter --accept-local --loose --invert"),
];
