# fib, rt: what the routing tables say (net/ipv4/netfilter/nft_fib_ipv4.c, net/ipv6/netfilter/nft_fib_ipv6.c,
# net/netfilter/nft_rt.c). The routes are those of tests/kernel/net.rs.
engines interpreter kernel
hook inet prerouting

test is there a way back by the same device
rule fib saddr . iif oif missing counter drop
    [ fib saddr . iif oif present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule fib saddr . iif oif exists counter
    [ fib saddr . iif oif present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet lan ip 198.19.0.2 > 198.18.5.20 / udp 1 > 2
    drop (c handle 2)
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet lan ip6 2001:db8:2::10 > 2001:db8:5::20 / udp 1 > 2
    drop (c handle 2)
packet wan ip 198.19.77.1 > 198.18.0.10 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 76
    c 2: packets 3 bytes 104

test by which device
rule fib saddr oifname "lan" counter
    [ fib saddr oifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr oifname "wan" counter
    [ fib daddr oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr oifname "dmz" counter
    [ fib daddr oifname => reg 1 ]
    [ cmp eq reg 1 0x007a6d64 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr oif missing counter
    [ fib daddr oif present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.18.200.7 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.18.5.20 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.18.64.1 / udp 1 > 2
    pass (route unreachable)
packet lan ip 198.18.0.10 > 198.18.0.1 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:200::1 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:64::1 / udp 1 > 2
    pass (route unreachable)
counters
    c 1: packets 7 bytes 236
    c 2: packets 1 bytes 28
    c 3: packets 3 bytes 104
    c 4: packets 3 bytes 104

test types of addresses
rule fib daddr type local counter
    [ fib daddr type => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr type unicast counter
    [ fib daddr type => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr type broadcast counter
    [ fib daddr type => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr type multicast counter
    [ fib daddr type => reg 1 ]
    [ cmp eq reg 1 0x00000005 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr type unreachable counter
    [ fib daddr type => reg 1 ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr type prohibit counter
    [ fib daddr type => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr type blackhole counter
    [ fib daddr type => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr . iif type local counter
    [ fib daddr . iif type => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule fib saddr type unicast counter
    [ fib saddr type => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.18.0.1 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.19.0.1 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.18.0.255 / udp 1 > 2
    pass
packet lan ether 02:00:00:00:01:10 > 01:00:5e:00:00:01 / ip 198.18.0.10 > 224.0.0.1 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.18.64.1 / udp 1 > 2
    pass (route unreachable)
packet lan ip 198.18.0.10 > 198.18.65.1 / udp 1 > 2
    pass (route prohibit)
packet lan ip 198.18.0.10 > 198.18.66.1 / udp 1 > 2
    nothing (route blackhole)
packet lan ip6 2001:db8:1::10 > 2001:db8:1::1 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:2::1 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:64::1 / udp 1 > 2
    pass (route unreachable)
counters
    c 1: packets 4 bytes 152
    c 2: packets 5 bytes 160
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28
    c 5: packets 1 bytes 48
    c 6: packets 0 bytes 0
    c 7: packets 0 bytes 0
    c 8: packets 2 bytes 76
    c 9: packets 12 bytes 416

test at ingress
hook netdev ingress lan
rule fib saddr . iif oif exists counter
    [ fib saddr . iif oif present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr type local counter
    [ fib daddr type => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule fib daddr . iif type local counter
    [ fib daddr . iif type => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.18.0.1 / udp 1 > 2
    pass
packet lan ip 198.19.0.9 > 198.19.0.1 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:1::1 / udp 1 > 2
    pass
packet lan arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
    pass
counters
    c 1: packets 2 bytes 76
    c 2: packets 3 bytes 104
    c 3: packets 2 bytes 76

test where it leaves
hook inet forward
rule fib daddr . oif type unicast counter
    [ fib daddr . oif type => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule fib saddr . iif oifname "lan" counter
    [ fib saddr . iif oifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    c 1: packets 3 bytes 104
    c 2: packets 2 bytes 76

test next hops
hook inet postrouting
rule rt ip nexthop 198.19.0.2 counter
    [ rt load nexthop4 => reg 1 ]
    [ cmp eq reg 1 0x020013c6 ]
    [ counter pkts 0 bytes 0 ]
rule rt ip nexthop 198.19.0.3 counter
    [ rt load nexthop4 => reg 1 ]
    [ cmp eq reg 1 0x030013c6 ]
    [ counter pkts 0 bytes 0 ]
rule rt ip nexthop 198.19.0.77 counter
    [ rt load nexthop4 => reg 1 ]
    [ cmp eq reg 1 0x4d0013c6 ]
    [ counter pkts 0 bytes 0 ]
rule rt ip6 nexthop 2001:db8:2::2 counter
    [ rt load nexthop6 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000200 0x00000000 0x02000000 ]
    [ counter pkts 0 bytes 0 ]
rule rt ip6 nexthop 2001:db8:5::20 counter
    [ rt load nexthop6 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000500 0x00000000 0x20000000 ]
    [ counter pkts 0 bytes 0 ]
rule rt classid 0 counter
    [ rt load classid => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.18.130.1 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 203.0.113.9 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:200::1 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28
    c 3: packets 0 bytes 0
    c 4: packets 1 bytes 48
    c 5: packets 1 bytes 48
    c 6: packets 5 bytes 180

test the largest segment that fits
hook inet forward
rule tcp flags syn tcp option maxseg size set rt mtu counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 13 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ rt load tcpmss => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 2, 2) ]
    [ exthdr write tcpopt reg 1 => 2b @ 2 + 2 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.18.5.20 / tcp 1 > 2 syn mss 1460
    pass, 50: 06e1 -> 07a9, 56: 05b4 -> 04ec
packet lan ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn mss 1460
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn mss 1000
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:5::20 / tcp 1 > 2 syn mss 1460
    pass, 70: 3c7c -> 3d58, 76: 05b4 -> 04d8
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 2 syn mss 9000
    pass, 70: 1f29 -> 3cb1, 76: 2328 -> 05a0
packet lan ip 198.18.0.10 > 198.18.5.20 / tcp 1 > 2 ack 1 mss 1460
    pass
counters
    c 1: packets 5 bytes 260
