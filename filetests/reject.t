# reject: answers (net/ipv4/netfilter/nft_reject_ipv4.c, net/netfilter/nft_reject_inet.c, nft_reject_netdev.c).
engines interpreter kernel
hook inet input

test port unreachable unless something else is said
rule reject
    [ reject type 2 code 1 ]
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 2
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / icmp 3 3, 70 bytes
counters

test ICMP codes
rule udp dport 1 reject with icmp type host-unreachable
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ reject type 0 code 1 ]
rule udp dport 2 reject with icmp type admin-prohibited
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ reject type 0 code 13 ]
rule udp dport 3 reject with icmpx type no-route
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ reject type 2 code 0 ]
rule udp dport 4 reject with icmpx type admin-prohibited
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000400 ]
    [ reject type 2 code 3 ]
rule udp dport 5 reject with icmpv6 type addr-unreachable
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000500 ]
    [ reject type 0 code 3 ]
rule udp dport 6 counter reject
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000600 ]
    [ counter pkts 0 bytes 0 ]
    [ reject type 2 code 1 ]
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 1
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / icmp 3 1, 70 bytes
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 2
    drop (c handle 3)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / icmp 3 13, 70 bytes
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 3
    drop (c handle 4)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / icmp 3 0, 70 bytes
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 4
    drop (c handle 5)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / icmp 3 13, 70 bytes
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 5
    pass
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 6
    drop (c handle 7)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / icmp 3 3, 70 bytes
packet ip6 2001:db8:1::10 > 2001:db8:1::1 / udp 1 > 1
    pass
packet ip6 2001:db8:1::10 > 2001:db8:1::1 / udp 1 > 3
    drop (c handle 4)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:1::1 > 2001:db8:1::10 ttl 64 / icmp6 1 0, 110 bytes
packet ip6 2001:db8:1::10 > 2001:db8:1::1 / udp 1 > 4
    drop (c handle 5)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:1::1 > 2001:db8:1::10 ttl 64 / icmp6 1 1, 110 bytes
packet ip6 2001:db8:1::10 > 2001:db8:1::1 / udp 1 > 5
    drop (c handle 6)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:1::1 > 2001:db8:1::10 ttl 64 / icmp6 1 3, 110 bytes
packet ip6 2001:db8:1::10 > 2001:db8:1::1 / udp 1 > 6
    drop (c handle 7)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:1::1 > 2001:db8:1::10 ttl 64 / icmp6 1 4, 110 bytes
counters
    c 6: packets 2 bytes 76

test resets answer TCP, other than resets
rule meta l4proto tcp reject with tcp reset
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ reject type 1 code 0 ]
packet ip 198.18.0.10 > 198.18.0.1 / tcp 1 > 2 syn seq 99
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / tcp 2 > 1 flags 0x14, 54 bytes
packet ip 198.18.0.10 > 198.18.0.1 / tcp 1 > 2 ack 77 seq 99 / "abc"
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / tcp 2 > 1 flags 0x4, 54 bytes
packet ip 198.18.0.10 > 198.18.0.1 / tcp 1 > 2 rst
    drop (c handle 2)
packet ip6 2001:db8:1::10 > 2001:db8:1::1 / tcp 1 > 2 syn seq 99
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:1::1 > 2001:db8:1::10 ttl 64 / tcp 2 > 1 flags 0x14, 74 bytes
packet ip 198.18.0.10 > 198.18.0.1 / tcp 1 > 2 syn checksum 0x1234
    drop (c handle 2)
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 2
    pass
counters

test errors are not answered
rule counter reject
    [ counter pkts 0 bytes 0 ]
    [ reject type 2 code 1 ]
packet ip 198.18.0.10 > 198.18.0.1 / icmp 3 3 / zeros 28
    drop (c handle 2)
packet ip 198.18.0.10 > 198.18.0.1 / icmp 8 0
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / icmp 3 3, 70 bytes
packet ip6 2001:db8:1::10 > 2001:db8:1::1 / icmp6 1 0 / zeros 48
    drop (c handle 2)
packet ip6 2001:db8:1::10 > 2001:db8:1::1 / icmp6 128 0
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:1::1 > 2001:db8:1::10 ttl 64 / icmp6 1 4, 110 bytes
counters
    c 1: packets 4 bytes 228

test while forwarding
hook inet forward
rule udp dport 1 counter reject
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ reject type 2 code 1 ]
rule tcp dport 1 counter reject with tcp reset
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ reject type 1 code 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.18.0.1 > 198.18.0.10 ttl 64 / icmp 3 3, 70 bytes
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 1 syn
    drop (c handle 3)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:2::2 > 2001:db8:1::10 ttl 64 / tcp 1 > 1 flags 0x14, 74 bytes
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 60

test at ingress the answer goes back as it came
hook netdev ingress lan
rule udp dport 1 counter reject
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ reject type 2 code 1 ]
rule tcp dport 1 counter reject with tcp reset
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ reject type 1 code 0 ]
rule udp dport 2 counter reject with icmpx type admin-prohibited
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ counter pkts 0 bytes 0 ]
    [ reject type 2 code 3 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.19.0.2 > 198.18.0.10 ttl 64 / icmp 3 3, 70 bytes
packet lan ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 1 syn
    drop (c handle 3)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.19.0.2 > 198.18.0.10 ttl 64 / tcp 1 > 1 flags 0x14, 54 bytes
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 1
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:2::2 > 2001:db8:1::10 ttl 64 / icmp6 1 4, 110 bytes
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 1 syn
    drop (c handle 3)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:2::2 > 2001:db8:1::10 ttl 64 / tcp 1 > 1 flags 0x14, 74 bytes
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    drop (c handle 4)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip6 2001:db8:2::2 > 2001:db8:1::10 ttl 64 / icmp6 1 1, 110 bytes
packet lan ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / ip 198.18.0.10 > 198.18.0.255 / udp 1 > 1
    drop (c handle 2)
packet lan vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 2)
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.19.0.2 > 198.18.0.10 ttl 64 / icmp 3 3, 70 bytes
counters
    c 1: packets 4 bytes 132
    c 2: packets 2 bytes 100
    c 3: packets 1 bytes 48
