# Marks computed from header fields and from one another, fields computed from themselves (nft 1.0.9, 1.1.2, 1.1.3).
engines interpreter programs
hook ip prerouting

test marks from fields of a byte and less
rule meta mark set ip dscp
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000002 ) ]
    [ meta set mark with reg 1 ]
rule meta mark set ip dscp << 2 | 0x10
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000002 ) ]
    [ bitwise reg 1 = ( reg 1 << 0x00000002 ) ]
    [ bitwise reg 1 = ( reg 1 & 0xffffffef ) ^ 0x00000010 ]
    [ meta set mark with reg 1 ]
rule meta mark set ip dscp << 26 | 0x10
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000002 ) ]
    [ bitwise reg 1 = ( reg 1 << 0x0000001a ) ]
    [ bitwise reg 1 = ( reg 1 & 0xffffffef ) ^ 0x00000010 ]
    [ meta set mark with reg 1 ]
rule meta mark set ip dscp & 0x0f << 1
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000002 ) ]
    [ bitwise reg 1 = ( reg 1 & 0x0000001e ) ^ 0x00000000 ]
    [ meta set mark with reg 1 ]
rule meta mark set ip dscp | 1 << 20
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000002 ) ]
    [ bitwise reg 1 = ( reg 1 & 0xffefffff ) ^ 0x00100000 ]
    [ meta set mark with reg 1 ]
rule meta mark set ip hdrlength
    [ payload load 1b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000000f ) ^ 0x00000000 ]
    [ meta set mark with reg 1 ]
rule meta mark set (ip dscp | 0x1) << 8
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000002 ) ]
    [ bitwise reg 1 = ( reg 1 & 0xfffffffe ) ^ 0x00000001 ]
    [ bitwise reg 1 = ( reg 1 << 0x00000008 ) ]
    [ meta set mark with reg 1 ]
rule meta mark 0x2900 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00002900 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 tos 0xa0 / udp 1 > 2
    pass (mark 0x2900)
packet ip 198.18.0.10 > 198.19.0.2 tos 0xb8 / udp 1 > 2
    pass (mark 0x2f00, priority 0:4)
counters
    c 8: packets 1 bytes 28

test marks from fields of several bytes
rule meta mark set ip saddr & 0xff
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xff000000 ) ^ 0x00000000 ]
    [ byteorder reg 1 = ntoh(reg 1, 4, 4) ]
    [ meta set mark with reg 1 ]
rule meta mark 10 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set udp dport << 16 | 0x3
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ byteorder reg 1 = ntoh(reg 1, 2, 2) ]
    [ bitwise reg 1 = ( reg 1 << 0x00000010 ) ]
    [ bitwise reg 1 = ( reg 1 & 0xfffffffc ) ^ 0x00000003 ]
    [ meta set mark with reg 1 ]
rule meta mark 0x00350003 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00350003 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 id 0x1234 / udp 1 > 53
    pass (mark 0x350003)
packet ip 198.18.0.11 > 198.19.0.2 / tcp 1 > 53 syn
    pass (mark 0xb)
counters
    c 2: packets 1 bytes 28
    c 4: packets 1 bytes 28

test operators with a variable right side
rule meta mark set 0x0f00
    [ immediate reg 1 0x00000f00 ]
    [ meta set mark with reg 1 ]
rule ct mark set meta mark | udp sport
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ meta load mark => reg 1 ]
    [ payload load 2b @ transport header + 0 => reg 2 ]
    [ byteorder reg 2 = ntoh(reg 2, 2, 2) ]
    [ bitwise reg 1 = ( reg 1 | reg 2 ) ]
    [ ct set mark with reg 1 ]
rule meta mark set ct mark & 0xffff00ff | meta mark & 0x0000ff00
    [ ct load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xffff00ff ) ^ 0x00000000 ]
    [ meta load mark => reg 2 ]
    [ bitwise reg 2 = ( reg 2 & 0x0000ff00 ) ^ 0x00000000 ]
    [ bitwise reg 1 = ( reg 1 | reg 2 ) ]
    [ meta set mark with reg 1 ]
rule meta mark 0x0f07 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000f07 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set ct mark ^ meta mark
    [ ct load mark => reg 1 ]
    [ meta load mark => reg 2 ]
    [ bitwise reg 1 = ( reg 1 ^ reg 2 ) ]
    [ meta set mark with reg 1 ]
rule meta mark 0 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set 0x3 or ct mark
    [ ct load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xfffffffc ) ^ 0x00000003 ]
    [ meta set mark with reg 1 ]
rule meta mark set ct mark and meta mark xor 0x5
    [ ct load mark => reg 1 ]
    [ meta load mark => reg 2 ]
    [ bitwise reg 1 = ( reg 1 & reg 2 ) ]
    [ bitwise reg 1 = ( reg 1 & 0xffffffff ) ^ 0x00000005 ]
    [ meta set mark with reg 1 ]
rule meta mark 0x0f02 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000f02 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set ct mark | ip dscp | 0x200
    [ ct load mark => reg 1 ]
    [ payload load 1b @ network header + 1 => reg 2 ]
    [ bitwise reg 2 = ( reg 2 & 0x000000fc ) ^ 0x00000000 ]
    [ bitwise reg 2 = ( reg 2 >> 0x00000002 ) ]
    [ bitwise reg 1 = ( reg 1 | reg 2 ) ]
    [ bitwise reg 1 = ( reg 1 & 0xfffffdff ) ^ 0x00000200 ]
    [ meta set mark with reg 1 ]
rule meta mark 0x0f3f counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000f3f ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 tos 0xfc / udp 7 > 2
    pass (mark 0xf3f, priority 0:4)
counters
    c 4: packets 1 bytes 28
    c 6: packets 1 bytes 28
    c 9: packets 1 bytes 28
    c 11: packets 1 bytes 28

test fields computed from themselves
rule ip dscp set ip dscp | 0x3
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000f3ff ) ^ 0x00000c00 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
rule ip dscp set ip dscp & 0x3b
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000efff ) ^ 0x00000000 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
rule ip dscp set ip dscp & 0x1f | 0x10
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00003fff ) ^ 0x00004000 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
rule ip dscp set ip dscp ^ 0x3
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ffff ) ^ 0x00000c00 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
rule ip dscp set 0x4 | ip dscp
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000efff ) ^ 0x00001000 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
rule ip ecn set ip ecn | ect0
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000fdff ) ^ 0x00000200 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
rule ip ttl set ip ttl | 1
    [ payload load 2b @ network header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000fffe ) ^ 0x00000001 ]
    [ payload write reg 1 => 2b @ network header + 8 csum_type 1 csum_off 10 csum_flags 0x0 ]
rule udp dport set udp dport ^ 0xffff
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ffff ) ^ 0x0000ffff ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
packet ip 198.18.0.10 > 198.19.0.2 tos 0xfc ttl 64 / udp 1 > 2
    pass, 15: fc -> 72, 22: 3f11eea3 -> 4011ee2d, 36: 0002 -> fffd, 41: a9 -> ad (priority 0:6)
packet ip 198.18.0.10 > 198.19.0.2 tos 0 ttl 63 / udp 1 > 2
    pass, 15: 00 -> 52, 25: 9f -> 4d, 36: 0002 -> fffd, 41: a9 -> ad (priority 0:6)
packet ip 198.18.0.10 > 198.19.0.2 tos 1 ttl 63 / tcp 1 > 2 syn
    pass, 15: 01 -> 53, 25: 9d -> 4b (priority 0:6)

test fields of IPv6
hook ip6 prerouting
rule meta mark set ip6 dscp << 2 | 0x1
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000c00f ) ^ 0x00000000 ]
    [ byteorder reg 1 = ntoh(reg 1, 2, 2) ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000006 ) ]
    [ bitwise reg 1 = ( reg 1 << 0x00000002 ) ]
    [ bitwise reg 1 = ( reg 1 & 0xfffffffe ) ^ 0x00000001 ]
    [ meta set mark with reg 1 ]
rule meta mark 0xbd counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x000000bd ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set ip6 dscp | 0xff000000
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000c00f ) ^ 0x00000000 ]
    [ byteorder reg 1 = ntoh(reg 1, 2, 2) ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000006 ) ]
    [ bitwise reg 1 = ( reg 1 & 0x00ffffff ) ^ 0xff000000 ]
    [ meta set mark with reg 1 ]
rule meta mark 0xff00002f counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0xff00002f ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set ct mark | ip6 dscp | 0x200
    [ ct load mark => reg 1 ]
    [ payload load 2b @ network header + 0 => reg 2 ]
    [ bitwise reg 2 = ( reg 2 & 0x0000c00f ) ^ 0x00000000 ]
    [ byteorder reg 2 = ntoh(reg 2, 2, 2) ]
    [ bitwise reg 2 = ( reg 2 >> 0x00000006 ) ]
    [ bitwise reg 1 = ( reg 1 | reg 2 ) ]
    [ bitwise reg 1 = ( reg 1 & 0xfffffdff ) ^ 0x00000200 ]
    [ meta set mark with reg 1 ]
rule meta mark 0x22f counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x0000022f ]
    [ counter pkts 0 bytes 0 ]
rule ip6 dscp set ip6 dscp & 0xf
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000fff3 ) ^ 0x00000000 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
rule ip6 ecn set ip6 ecn | 1
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000ef ) ^ 0x00000010 ]
    [ payload write reg 1 => 1b @ network header + 1 csum_type 0 csum_off 0 csum_flags 0x0 ]
rule ip6 flowlabel set ip6 flowlabel | 0xf0000
    [ payload load 3b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00fffff0 ) ^ 0x0000000f ]
    [ payload write reg 1 => 3b @ network header + 1 csum_type 0 csum_off 0 csum_flags 0x0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 class 0xbc flow 0x12345 / udp 1 > 2
    pass, 14: 6bc1 -> 63df (mark 0x22f)
counters
    c 2: packets 1 bytes 48
    c 4: packets 1 bytes 48
    c 6: packets 1 bytes 48

test refused
engines interpreter
rule meta mark set 1 << meta mark
rule ip dscp set ip dscp << 1
rule meta mark set ip dscp | "a"
rule meta mark set ip dscp << 32
rule meta mark set @nh,8,16
rule ip dscp set ip dscp | meta mark
rule meta mark set meta mark | meta iifname
refused
    4:22-30: Right hand side of binary operation (<<) must be constant
    5:26-26: payload statement for this expression is not supported
    6:27-29: Could not parse Differentiated Services Code Point
    7:28-29: Left shift of 32 bits is undefined for type of 32 bits width
    8:17-24: datatype mismatch: expected packet mark, expression has type integer with length 16
    9:25-33: datatype mismatch: expected Differentiated Services Code Point, expression has type packet mark
    10:17-25: Binary operation (|) with different base types (mark vs ifname) is not supported

test whether there is a route, and what a mark is set to by it
engines interpreter
rule fib saddr . iif check vmap { missing : drop, exists : continue }
    [ fib saddr . iif oif present => reg 1 ]
    [ lookup reg 1 set __map%d dreg 0 ]
rule meta mark set fib daddr oif
    [ fib daddr oif => reg 1 ]
    [ meta set mark with reg 1 ]
rule meta mark != 0 counter
    [ meta load mark => reg 1 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x5)
packet ip 198.19.99.5 > 198.19.0.2 / udp 1 > 2
    drop (c handle 3)
counters
    c 3: packets 1 bytes 28

test shifts that the kernel does not take
engines interpreter kernel
rule meta mark set meta mark << 0
refused
    4:17-30: Could not process rule: Invalid argument

test whether there is a route, by a map with a name
with map routed { type boolean : verdict; elements = { exists : continue, missing : drop }; }
rule fib saddr . iif check vmap @routed
    [ fib saddr . iif oif present => reg 1 ]
    [ lookup reg 1 set routed dreg 0 ]
rule fib daddr check missing counter
    [ fib daddr oif present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set fib daddr oif
    [ fib daddr oif => reg 1 ]
    [ meta set mark with reg 1 ]
rule meta mark != 0 counter
    [ meta load mark => reg 1 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x5)
packet ip 198.19.99.5 > 198.19.0.2 / udp 1 > 2
    drop (c handle 3)
packet ip 198.18.0.10 > 198.19.99.9 / udp 1 > 2
    pass (mark 0x5)
counters
    c 2: packets 0 bytes 0
    c 4: packets 2 bytes 56

test destinations of redirects, subtypes of MPTCP
hook inet prerouting
rule icmpv6 daddr 2001:db8:1::10 counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000003a ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000089 ]
    [ payload load 16b @ transport header + 24 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option mptcp subtype mp-join counter
    [ exthdr load tcpopt 1b @ 30 + 2 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000010 ]
    [ counter pkts 0 bytes 0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 137 0 target 2001:db8:1::10
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 128 0 target 2001:db8:1::10
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn option 30 1000
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn option 30 0000
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 1 bytes 44

test targets of neighbour discovery, subtypes of MPTCP
engines interpreter
hook inet prerouting
rule icmpv6 taddr 2001:db8:1::10 counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000003a ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ payload load 16b @ transport header + 8 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule icmpv6 daddr 2001:db8:1::10 counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000003a ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000089 ]
    [ payload load 16b @ transport header + 24 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option mptcp subtype { mp-join, mp-fail } counter
    [ exthdr load tcpopt 1b @ 30 + 2 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00000000 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 135 0 target 2001:db8:1::10
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 137 0 target 2001:db8:1::10
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 128 0 target 2001:db8:1::10
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn option 30 1000
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn option 30 0000
    pass
counters
    c 1: packets 2 bytes 128
    c 2: packets 0 bytes 0
    c 3: packets 1 bytes 44
