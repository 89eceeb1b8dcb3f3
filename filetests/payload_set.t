# payload: writes into the packet, with checksums (nft_payload_set_eval() of net/netfilter/nft_payload.c).
engines interpreter kernel
hook netdev ingress lan

test ports: the checksum follows
rule udp dport 53 udp dport set 5353 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ immediate reg 1 0x0000e914 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule tcp dport 80 tcp dport set 8080 tcp sport set 1 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00005000 ]
    [ immediate reg 1 0x0000901f ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 16 csum_flags 0x0 ]
    [ immediate reg 1 0x00000100 ]
    [ payload write reg 1 => 2b @ transport header + 0 csum_type 1 csum_off 16 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule udplite dport 9 udplite dport set 10 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000088 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000900 ]
    [ immediate reg 1 0x00000a00 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "query"
    pass, 36: 0035000d1f9d -> 14e9000d0ae9
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1000 > 53 / "query"
    pass, 56: 0035000d5048 -> 14e9000d3b94
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 80 syn
    pass, 34: 03e80050 -> 00011f90, 50: 1f79 -> 0420
packet ip 198.18.0.10 > 198.19.0.2 / udplite 1 > 9 / "lite"
    pass, 37: 09 -> 0a
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 54
    pass
counters
    c 1: packets 2 bytes 86
    c 2: packets 1 bytes 40
    c 3: packets 1 bytes 32

test a wrong checksum stays wrong by as much
rule udp dport 53 udp dport set 5353 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ immediate reg 1 0x0000e914 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 checksum 0x1234
    pass, 36: 003500081234 -> 14e90008fd7f
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 checksum 0xffff
    pass, 36: 00350008ffff -> 14e90008eb4b
counters
    c 1: packets 2 bytes 56

test a UDP checksum of zero
rule udp dport 53 udp dport set 5353 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ immediate reg 1 0x0000e914 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr 198.18.0.10 ip saddr set 198.18.0.11 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ cmp eq reg 1 0x0a0012c6 ]
    [ immediate reg 1 0x0b0012c6 ]
    [ payload write reg 1 => 4b @ network header + 12 csum_type 1 csum_off 10 csum_flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 checksum 0
    pass, 25: 9f -> 9e, 29: 0a -> 0b, 36: 003500080000 -> 14e90008eb4a
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28

test addresses: header and pseudo header
rule ip saddr set 198.18.0.99 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ immediate reg 1 0x630012c6 ]
    [ payload write reg 1 => 4b @ network header + 12 csum_type 1 csum_off 10 csum_flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 daddr set 2001:db8:2::99 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ immediate reg 1 0xb80d0120 0x00000200 0x00000000 0x99000000 ]
    [ payload write reg 1 => 16b @ network header + 24 csum_type 0 csum_off 0 csum_flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass, 25: 9f -> 46, 29: 0a -> 63, 41: 8f -> 36
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 53
    pass, 25: 9e -> 45, 29: 0a -> 63, 51: 96 -> 3d
packet ip 198.18.0.10 > 198.19.0.2 / udplite 1000 > 53
    pass, 24: ee28 -> edcf, 29: 0a -> 63, 40: 6f20 -> 6ec7
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0
    pass, 25: af -> 56, 29: 0a -> 63
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2
    pass, 24: ee28 -> edcf, 29: 0a -> 63
packet ip 198.18.0.10 > 198.19.0.2 / dccp 1 > 2 type 0
    pass, 25: 83 -> 2a, 29: 0a -> 63
packet ip 198.18.0.10 > 198.19.0.2 frag 2 proto 17 / zeros 16
    pass, 25: 95 -> 3c, 29: 0a -> 63
packet ip 198.18.0.10 > 198.19.0.2 frag 0+ / udp 1000 > 53 / zeros 16
    pass, 25: 8f -> 36, 29: 0a -> 63, 41: 6f -> 16
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1000 > 53
    pass, 53: 02 -> 99, 60: a03a -> 9fa3
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1000 > 53
    pass, 53: 02 -> 99, 70: 5041 -> 4faa
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 128 0
    pass, 53: 0280002436 -> 998000239f
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / dst / udp 1000 > 53
    pass, 53: 02 -> 99, 68: a03a -> 9fa3
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / zeros 16
    pass, 53: 02 -> 99
packet ip 198.18.0.10 > 198.19.0.2 length 26 / udp 1000 > 53 | cut 40
    pass, 25: a1 -> 48, 29: 0a -> 63
counters
    c 1: packets 9 bytes 302
    c 2: packets 5 bytes 276

test fields of IPv4
rule ip ttl set 1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff00 ) ^ 0x00000001 ]
    [ payload write reg 1 => 2b @ network header + 8 csum_type 1 csum_off 10 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip id set 0x1234 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ immediate reg 1 0x00003412 ]
    [ payload write reg 1 => 2b @ network header + 4 csum_type 1 csum_off 10 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip dscp set ef counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000003ff ) ^ 0x0000b800 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip ecn set ce counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000fcff ) ^ 0x00000300 ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 1 csum_off 10 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip protocol set 253 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000ff ) ^ 0x0000fd00 ]
    [ payload write reg 1 => 2b @ network header + 8 csum_type 1 csum_off 10 csum_flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 ttl 64 tos 0x10 / udp 1 > 2
    pass, 15: 10001c000000004011ee8f -> bb001c1234000001fd19c5, 40: 73a9 -> 72bd
packet ip 198.18.0.10 > 198.19.0.2 checksum 0x1234 / udp 1 > 2
    pass, 15: 00001c0000000040111234 -> bb001c1234000001fd3d59, 40: 73a9 -> 72bd
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 | cut 30
    pass, 15: 00001c000000004011ee9f -> bb001c1234000001fd19c5
counters
    c 1: packets 3 bytes 72
    c 2: packets 3 bytes 72
    c 3: packets 3 bytes 72
    c 4: packets 3 bytes 72
    c 5: packets 3 bytes 72

test fields of IPv6
rule ip6 hoplimit set 1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ immediate reg 1 0x00000001 ]
    [ payload write reg 1 => 1b @ network header + 7 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 dscp set cs7 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00003ff0 ) ^ 0x0000000e ]
    [ payload write reg 1 => 2b @ network header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 ecn set ect0 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000cf ) ^ 0x00000020 ]
    [ payload write reg 1 => 1b @ network header + 1 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 flowlabel set 0x54321 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 3b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00214305 ]
    [ payload write reg 1 => 3b @ network header + 1 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 nexthdr set 253 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ immediate reg 1 0x000000fd ]
    [ payload write reg 1 => 1b @ network header + 6 csum_type 0 csum_off 0 csum_flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 class 0x81 flow 0x12345 / udp 1 > 2
    pass, 14: 6811234500081140 -> 6e2543210008fd01, 60: a454 -> b853
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 48
    c 2: packets 1 bytes 48
    c 3: packets 1 bytes 48
    c 4: packets 1 bytes 48
    c 5: packets 1 bytes 48

test fields of transport protocols
rule tcp flags set syn | ack counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 2b @ transport header + 12 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000ff ) ^ 0x00001200 ]
    [ payload write reg 1 => 2b @ transport header + 12 csum_type 1 csum_off 16 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule tcp window set 1000 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ immediate reg 1 0x0000e803 ]
    [ payload write reg 1 => 2b @ transport header + 14 csum_type 1 csum_off 16 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule tcp sequence set 0xffffffff counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ immediate reg 1 0xffffffff ]
    [ payload write reg 1 => 4b @ transport header + 4 csum_type 1 csum_off 16 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule icmp type set echo-reply counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff00 ) ^ 0x00000000 ]
    [ payload write reg 1 => 2b @ transport header + 0 csum_type 1 csum_off 2 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule icmp sequence set 9 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ immediate reg 1 0x00000900 ]
    [ payload write reg 1 => 2b @ transport header + 6 csum_type 1 csum_off 2 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule icmpv6 type set echo-reply counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000003a ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff00 ) ^ 0x00000081 ]
    [ payload write reg 1 => 2b @ transport header + 0 csum_type 1 csum_off 2 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule udp checksum set 0 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ immediate reg 1 0x00000000 ]
    [ payload write reg 1 => 2b @ transport header + 6 csum_type 1 csum_off 6 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn
    pass, 38: 00000000 -> ffffffff, 47: 02ffff23ae -> 1203e81fb6
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0 rest 0x00010002
    pass, 34: 0800f7fc -> 0000fff5, 41: 02 -> 09
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 128 0 rest 0x00010002
    pass, 54: 800024 -> 810023
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass, 40: 73a9 -> 0000
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn | cut 52
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 1 proto 6 / zeros 24
    pass
counters
    c 1: packets 1 bytes 40
    c 2: packets 1 bytes 40
    c 3: packets 1 bytes 40
    c 4: packets 1 bytes 28
    c 5: packets 1 bytes 28
    c 6: packets 1 bytes 48
    c 7: packets 1 bytes 28

test SCTP: the CRC is made anew
rule sctp dport set 9 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000084 ]
    [ immediate reg 1 0x00000900 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 2 csum_off 8 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 chunk 1 0 00000001
    pass, 37: 02 -> 09, 42: b76fd5f4 -> 4c0406e0
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 checksum 0
    pass, 37: 02 -> 09, 42: 00000000 -> ef094dc8
counters
    c 1: packets 2 bytes 72

test link addresses
rule ether daddr set 02:00:00:00:01:99 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ immediate reg 1 0x00000002 0x00009901 ]
    [ payload write reg 1 => 6b @ link header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ether saddr set 02:aa:bb:cc:dd:ee counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ immediate reg 1 0xccbbaa02 0x0000eedd ]
    [ payload write reg 1 => 6b @ link header + 6 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass, 5: 01020000000110 -> 9902aabbccddee
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass, 5: 01020000000110 -> 9902aabbccddee
counters
    c 1: packets 2 bytes 56
    c 2: packets 2 bytes 56

test the tag outside the frame
rule vlan id set 7 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00000700 ]
    [ payload write reg 1 => 2b @ link header + 14 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule vlan pcp set 5 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 1b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000001f ) ^ 0x000000a0 ]
    [ payload write reg 1 => 1b @ link header + 14 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ether type vlan counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ counter pkts 0 bytes 0 ]
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass, 15: 05 -> 07
packet vlan 5 prio 3 dei service / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 0 bytes 0
    c 3: packets 1 bytes 28

test raw writes
rule @nh,96,32 set 0xc6120063 counter
    [ immediate reg 1 0x630012c6 ]
    [ payload write reg 1 => 4b @ network header + 12 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule @th,0,16 set 7 counter
    [ immediate reg 1 0x00000700 ]
    [ payload write reg 1 => 2b @ transport header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule @ih,0,16 set 0x4142 counter
    [ immediate reg 1 0x00004241 ]
    [ payload write reg 1 => 2b @ inner header + 0 csum_type 0 csum_off 0 csum_flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
rule @ll,0,8 set 3 counter
    [ immediate reg 1 0x00000003 ]
    [ payload write reg 1 => 1b @ link header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "query"
    pass, 0: 02 -> 03, 29: 0a -> 63, 34: 03e8 -> 0007, 40: 1f9d7175 -> 4fd04142
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 53 / "query"
    pass, 0: 02 -> 03, 29: 0a -> 63, 34: 03e8 -> 0007, 50: cfa800007175 -> ffdb00004142
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass, 0: 02 -> 03, 29: 0a -> 63, 34: 03e8 -> 0007
counters
    c 1: packets 3 bytes 106
    c 2: packets 3 bytes 106
    c 3: packets 2 bytes 78
    c 4: packets 3 bytes 106

test writes end a rule where there is nothing to write to
rule udp dport set 5353 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ immediate reg 1 0x0000e914 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule tcp dport set 80 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ immediate reg 1 0x00005000 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 16 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 frag 2 proto 17 / zeros 16
    pass
packet ip 198.18.0.10 > 198.19.0.2 length 22 / udp 1000 > 53 | cut 36
    pass
packet ip 198.18.0.10 > 198.19.0.2 length 24 / udp 1000 > 53 | cut 38
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / zeros 16
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 0 bytes 0

test values from maps
rule udp dport set udp dport map { 53 : 5353, 80 : 8080 } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set __map%d dreg 1 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip daddr set ip saddr map { 198.18.0.10 : 198.19.0.3 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set __map%d dreg 1 ]
    [ payload write reg 1 => 4b @ network header + 16 csum_type 1 csum_off 10 csum_flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass, 25: 9f -> 9e, 33: 020001003500087376 -> 03000114e900085ec1
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 80
    pass, 36: 00500008735a -> 1f900008541a
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 99
    pass, 25: 9f -> 9e, 33: 02 -> 03, 41: 48 -> 47
counters
    c 1: packets 2 bytes 56
    c 2: packets 2 bytes 56
