# dup, fwd: sending elsewhere (net/netfilter/nft_dup_netdev.c, nft_fwd_netdev.c, net/ipv4/netfilter/nft_dup_ipv4.c).
engines interpreter kernel
hook netdev ingress lan

test copies of frames
rule udp dport 1 dup to "wan" counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ immediate reg 1 0x00000005 ]
    [ dup sreg_dev 1 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 2 dup to "wan" dup to "dmz" counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ immediate reg 1 0x00000005 ]
    [ dup sreg_dev 1 ]
    [ immediate reg 1 0x00000007 ]
    [ dup sreg_dev 1 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
    wan: ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / ip 198.18.0.10 > 198.19.0.2 ttl 64 / udp 1 > 1, 42 bytes
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (c handle 3)
    wan: ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / ip 198.18.0.10 > 198.19.0.2 ttl 64 / udp 1 > 2, 42 bytes
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
    wan: ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / vlan 5 / ip 198.18.0.10 > 198.19.0.2 ttl 64 / udp 1 > 1, 46 bytes
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28

test frames sent on
rule udp dport 1 counter fwd to "wan"
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 1 0x00000005 ]
    [ fwd sreg_dev 1 ]
rule udp dport 2 fwd to "lan"
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ immediate reg 1 0x00000003 ]
    [ fwd sreg_dev 1 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop
    wan: ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / ip 198.18.0.10 > 198.19.0.2 ttl 64 / udp 1 > 1, 42 bytes
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop
    lan: ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / ip 198.18.0.10 > 198.19.0.2 ttl 64 / udp 1 > 2, 42 bytes
packet vlan 5 / ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 1
    drop
    wan: ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / vlan 5 / ip6 2001:db8:1::10 > 2001:db8:2::2 ttl 64 / udp 1 > 1, 66 bytes
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 1: packets 2 bytes 76
    c 3: packets 1 bytes 28

test to a neighbour, with a hop less
rule udp dport 1 fwd ip to 198.19.0.2 device "wan"
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ immediate reg 1 0x00000005 ]
    [ immediate reg 2 0x020013c6 ]
    [ fwd sreg_dev 1 sreg_addr 2 nfproto 2 ]
rule udp dport 2 fwd ip6 to 2001:db8:2::2 device "wan"
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ immediate reg 1 0x00000005 ]
    [ immediate reg 2 0xb80d0120 0x00000200 0x00000000 0x02000000 ]
    [ fwd sreg_dev 1 sreg_addr 2 nfproto 10 ]
packet ip 198.18.0.10 > 198.18.5.20 / udp 1 > 1
    drop
    wan: ether 02:00:00:00:02:01 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.5.20 ttl 63 / udp 1 > 1, 42 bytes
packet ip 198.18.0.10 > 198.18.5.20 ttl 1 / udp 1 > 1
    drop (c handle 2)
packet ip6 2001:db8:1::10 > 2001:db8:5::20 / udp 1 > 2
    drop
    wan: ether 02:00:00:00:02:01 > 02:00:00:00:02:02 / ip6 2001:db8:1::10 > 2001:db8:5::20 ttl 63 / udp 1 > 2, 62 bytes
packet ip6 2001:db8:1::10 > 2001:db8:5::20 ttl 1 / udp 1 > 2
    drop (c handle 3)
packet ip6 2001:db8:1::10 > 2001:db8:5::20 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.18.5.20 / udp 1 > 3
    pass
counters

test copies to a gateway
hook ip prerouting
rule udp dport 1 dup to 198.19.0.3 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ immediate reg 1 0x030013c6 ]
    [ dup sreg_addr 1 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 2 dup to 198.18.5.20 device "dmz" counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ immediate reg 1 0x140512c6 ]
    [ immediate reg 2 0x00000007 ]
    [ dup sreg_addr 1 sreg_dev 2 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
    wan: ether 02:00:00:00:02:01 > 02:00:00:00:02:03 / ip 198.18.0.10 > 198.19.0.2 ttl 63 / udp 1 > 1, 42 bytes
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 3)
    dmz: ether 02:00:00:00:05:01 > 02:00:00:00:05:20 / ip 198.18.0.10 > 198.19.0.2 ttl 63 / udp 1 > 2, 42 bytes
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28

test copies to an IPv6 gateway
hook ip6 forward
rule udp dport 1 dup to 2001:db8:5::20 device "dmz" counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ immediate reg 1 0xb80d0120 0x00000500 0x00000000 0x20000000 ]
    [ immediate reg 2 0x00000007 ]
    [ dup sreg_addr 1 sreg_dev 2 ]
    [ counter pkts 0 bytes 0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 1
    pass
    dmz: ether 02:00:00:00:05:01 > 02:00:00:00:05:20 / ip6 2001:db8:1::10 > 2001:db8:2::2 ttl 63 / udp 1 > 1, 62 bytes
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 48

test devices from maps
rule dup to udp dport map { 1 : "wan", 2 : "dmz" } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set __map%d dreg 1 ]
    [ dup sreg_dev 1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
    wan: ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / ip 198.18.0.10 > 198.19.0.2 ttl 64 / udp 1 > 1, 42 bytes
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
    dmz: ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / ip 198.18.0.10 > 198.19.0.2 ttl 64 / udp 1 > 2, 42 bytes
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 1: packets 2 bytes 56
