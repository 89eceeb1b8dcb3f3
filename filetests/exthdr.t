# exthdr: extension headers, options and chunks (net/netfilter/nft_exthdr.c).
engines interpreter kernel
hook netdev ingress lan

test IPv6 extension headers: are they there
rule exthdr hbh exists counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 0 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule exthdr dst exists counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 60 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule exthdr rt exists counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 43 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule exthdr frag exists counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 44 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule exthdr mh exists counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 135 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule exthdr hbh missing counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 0 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / hbh / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / hbh / dst / rt 0 0 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 0+ 7 / udp 1 > 2 / zeros 8
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / zeros 8
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 / dst / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / mh 1
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ah 1 1 / dst / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ext 60 9 000000000000 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 128
    c 2: packets 3 bytes 208
    c 3: packets 1 bytes 72
    c 4: packets 3 bytes 184
    c 5: packets 1 bytes 48
    c 6: packets 7 bytes 416

test IPv6 extension headers: their fields
rule hbh nexthdr udp counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 0 + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ counter pkts 0 bytes 0 ]
rule hbh hdrlength 0 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 0 + 1 => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule dst hdrlength 1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 60 + 1 => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule rt type 0 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 43 + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule rt seg-left 1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 43 + 3 => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule rt0 addr[1] 2001:db8:9::9 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 16b @ 43 + 8 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000900 0x00000000 0x09000000 ]
    [ counter pkts 0 bytes 0 ]
rule frag id 7 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 4b @ 44 + 4 => reg 1 ]
    [ cmp eq reg 1 0x07000000 ]
    [ counter pkts 0 bytes 0 ]
rule frag more-fragments 1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 44 + 3 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000001 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule frag frag-off 2 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 2b @ 44 + 2 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000f8ff ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00001000 ]
    [ counter pkts 0 bytes 0 ]
rule frag nexthdr udp counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 44 + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ counter pkts 0 bytes 0 ]
rule mh type 5 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ exthdr load ipv6 1b @ 135 + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000005 ]
    [ counter pkts 0 bytes 0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / hbh / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / dst option 7 00000000000000 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / rt 0 1 via 2001:db8:9::9 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 0+ 7 / udp 1 > 2 / zeros 8
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 8 next 17 / zeros 8
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / mh 5
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 length 4 / ext 0 0 0000 | cut 58
    pass
counters
    c 1: packets 1 bytes 56
    c 2: packets 2 bytes 100
    c 3: packets 1 bytes 64
    c 4: packets 1 bytes 72
    c 5: packets 1 bytes 72
    c 6: packets 1 bytes 72
    c 7: packets 1 bytes 64
    c 8: packets 1 bytes 64
    c 9: packets 1 bytes 56
    c 10: packets 2 bytes 120
    c 11: packets 1 bytes 48

test TCP options: are they there
rule tcp option maxseg exists counter
    [ exthdr load tcpopt 1b @ 2 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option sack-perm exists counter
    [ exthdr load tcpopt 1b @ 4 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option timestamp missing counter
    [ exthdr load tcpopt 1b @ 8 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option window exists counter
    [ exthdr load tcpopt 1b @ 3 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option nop exists counter
    [ exthdr load tcpopt 1b @ 1 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option eol exists counter
    [ exthdr load tcpopt 1b @ 0 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option 254 exists counter
    [ exthdr load tcpopt 1b @ 254 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn mss 1460 sackok timestamp 1 0 nop wscale 7
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn option 254 01020304
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn wscale 7
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 60
    c 2: packets 1 bytes 60
    c 3: packets 4 bytes 160
    c 4: packets 2 bytes 104
    c 5: packets 1 bytes 60
    c 6: packets 1 bytes 48
    c 7: packets 1 bytes 48

test TCP options: their fields
rule tcp option maxseg size 1460 counter
    [ exthdr load tcpopt 2b @ 2 + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000b405 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option maxseg size > 1400 counter
    [ exthdr load tcpopt 2b @ 2 + 2 => reg 1 ]
    [ cmp gt reg 1 0x00007805 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option window count 7 counter
    [ exthdr load tcpopt 1b @ 3 + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option timestamp tsval 9 counter
    [ exthdr load tcpopt 4b @ 8 + 2 => reg 1 ]
    [ cmp eq reg 1 0x09000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option timestamp tsecr 8 counter
    [ exthdr load tcpopt 4b @ 8 + 6 => reg 1 ]
    [ cmp eq reg 1 0x08000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option sack left 1 counter
    [ exthdr load tcpopt 4b @ 5 + 2 => reg 1 ]
    [ cmp eq reg 1 0x01000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option sack1 right 4 counter
    [ exthdr load tcpopt 4b @ 5 + 14 => reg 1 ]
    [ cmp eq reg 1 0x04000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option maxseg length 4 counter
    [ exthdr load tcpopt 1b @ 2 + 1 => reg 1 ]
    [ cmp eq reg 1 0x00000004 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option @2,16,16 1460 counter
    [ exthdr load tcpopt 2b @ 2 + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000b405 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn mss 1460 wscale 7
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 2 syn mss 1420 timestamp 9 8
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 ack 1 option 5 00000001000000020000000300000004
    pass
counters
    c 1: packets 1 bytes 48
    c 2: packets 2 bytes 124
    c 3: packets 1 bytes 48
    c 4: packets 1 bytes 76
    c 5: packets 1 bytes 76
    c 6: packets 1 bytes 60
    c 7: packets 1 bytes 60
    c 8: packets 2 bytes 124
    c 9: packets 1 bytes 48

test TCP options: malformed ones end the search
rule tcp option maxseg size 1460 counter
    [ exthdr load tcpopt 2b @ 2 + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000b405 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option maxseg exists counter
    [ exthdr load tcpopt 1b @ 2 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option maxseg missing counter
    [ exthdr load tcpopt 1b @ 2 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 options 07000204 mss 1460
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 options 0701 mss 1460
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 options 0730 mss 1460
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 options 00000000 mss 1460
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 options 020305b4
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 options 0204
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 header 16 mss 1460
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 header 60 mss 1460
    pass
packet ip 198.18.0.10 > 198.19.0.2 length 42 / tcp 1 > 2 mss 1460 | cut 56
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 1 proto 6 / zeros 40
    pass
counters
    c 1: packets 2 bytes 96
    c 2: packets 5 bytes 232
    c 3: packets 5 bytes 238

test TCP options are written, with the checksum
rule tcp option maxseg size set 1300 counter
    [ immediate reg 1 0x00001405 ]
    [ exthdr write tcpopt reg 1 => 2b @ 2 + 2 ]
    [ counter pkts 0 bytes 0 ]
rule tcp option timestamp tsval set 0xffffffff counter
    [ immediate reg 1 0xffffffff ]
    [ exthdr write tcpopt reg 1 => 4b @ 8 + 2 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn mss 1460
    pass, 50: 0bf2 -> 0c92, 57: b4 -> 14
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn mss 1200
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 2 syn nop mss 1460 wscale 7
    pass, 71: 3f -> df, 78: b4 -> 14
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn timestamp 1 2
    pass, 51: 94 -> 95, 56: 00000001 -> ffffffff
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn nop timestamp 1 2
    pass, 51: 99 -> 9a, 57: 00000001 -> ffffffff
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn
    pass
counters
    c 1: packets 6 bytes 300
    c 2: packets 6 bytes 300

test TCP options are taken out
rule reset tcp option timestamp counter
    [ exthdr reset tcpopt 8 ]
    [ counter pkts 0 bytes 0 ]
rule reset tcp option maxseg counter
    [ exthdr reset tcpopt 2 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn mss 1460 sackok timestamp 1 0 nop wscale 7
    pass, 50: bbca0000020405b40402080a0000000100000000 -> c486000001010101040201010101010101010101
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn nop mss 1460
    pass, 50: 4a9e -> 00a4, 55: 020405b4 -> 01010101
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 options 0700 mss 1460
    pass, 50: f4ef -> faa5, 56: 020405b4 -> 01010101
counters
    c 1: packets 4 bytes 196
    c 2: packets 4 bytes 196

test IPv4 options
hook ip prerouting
rule ip option rr exists counter
    [ exthdr load ipv4 1b @ 7 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule ip option lsrr exists counter
    [ exthdr load ipv4 1b @ 131 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule ip option ra exists counter
    [ exthdr load ipv4 1b @ 148 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule ip option rr ptr 4 counter
    [ exthdr load ipv4 1b @ 7 + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000004 ]
    [ counter pkts 0 bytes 0 ]
rule ip option rr length 7 counter
    [ exthdr load ipv4 1b @ 7 + 1 => reg 1 ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
rule ip option ra value 0 counter
    [ exthdr load ipv4 2b @ 148 + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip option ssrr missing counter
    [ exthdr load ipv4 1b @ 137 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 options 070704000000000000 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 options 94040000 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 options 0194040000 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 40
    c 2: packets 0 bytes 0
    c 3: packets 2 bytes 68
    c 4: packets 1 bytes 40
    c 5: packets 1 bytes 40
    c 6: packets 2 bytes 68
    c 7: packets 4 bytes 136

test chunks of SCTP
rule sctp chunk data exists counter
    [ exthdr load 1b @ 0 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk init exists counter
    [ exthdr load 1b @ 1 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk data tsn 7 counter
    [ exthdr load 4b @ 0 + 4 => reg 1 ]
    [ cmp eq reg 1 0x07000000 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk data stream 3 counter
    [ exthdr load 2b @ 0 + 8 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk data flags 3 counter
    [ exthdr load 1b @ 0 + 1 => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk init num-inbound-streams 9 counter
    [ exthdr load 2b @ 1 + 14 => reg 1 ]
    [ cmp eq reg 1 0x00000900 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk abort missing counter
    [ exthdr load 1b @ 6 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 chunk 0 3 00000007000300000000000061626364
    pass
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 52
    c 2: packets 0 bytes 0
    c 3: packets 1 bytes 52
    c 4: packets 1 bytes 52
    c 5: packets 1 bytes 52
    c 6: packets 0 bytes 0
    c 7: packets 3 bytes 112


test IPv4 options: source routes, and malformed options at ingress
rule ip option lsrr exists counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ exthdr load ipv4 1b @ 131 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule ip option ssrr exists counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ exthdr load ipv4 1b @ 137 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule ip option lsrr addr 3323068681 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ exthdr load ipv4 4b @ 131 + 3 => reg 1 ]
    [ cmp eq reg 1 0x090112c6 ]
    [ counter pkts 0 bytes 0 ]
rule ip option rr exists counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ exthdr load ipv4 1b @ 7 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 options 830704c6120909 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 options 01890704c6120909 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 options 070704c612090900 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 options 0702 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 options 44010000830704c6120909 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 options 00830704c6120909 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 2 options 830704c6120909 proto 17 / zeros 8
    pass
counters
    c 1: packets 2 bytes 72
    c 2: packets 1 bytes 36
    c 3: packets 0 bytes 0
    c 4: packets 1 bytes 36

test chunks of SCTP after others
rule sctp chunk init exists counter
    [ exthdr load 1b @ 1 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk init num-inbound-streams 9 counter
    [ exthdr load 2b @ 1 + 14 => reg 1 ]
    [ cmp eq reg 1 0x00000900 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk cookie-echo exists counter
    [ exthdr load 1b @ 10 + 0 present => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule sctp chunk data tsn 7 counter
    [ exthdr load 4b @ 0 + 4 => reg 1 ]
    [ cmp eq reg 1 0x07000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 vtag 0 chunk 1 0 00000001000010000009000900000001
    pass
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 chunk 10 0 616263 chunk 0 3 000000070003000000000000
    pass
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 / hex 0a00000000030010000000070003000000000000
    pass
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 / hex 0a000003000300100000000700030000000000000000
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 1 proto 132 / zeros 16
    pass
counters
    c 1: packets 1 bytes 52
    c 2: packets 1 bytes 52
    c 3: packets 2 bytes 110
    c 4: packets 2 bytes 110
