# payload: loads from the packet (net/netfilter/nft_payload.c).
engines interpreter kernel
hook netdev ingress lan

test transport header: ports
rule udp dport 53 counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule tcp sport 1000 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x0000e803 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "query"
    drop (c handle 2)
packet ip 198.18.0.10 > 198.19.0.2 / udp 53 > 1000
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 53 syn
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1000 > 53
    drop (c handle 2)
packet ip 198.18.0.10 > 198.19.0.2 options 01010100 / udp 1000 > 53
    drop (c handle 2)
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
    pass
counters
    c 1: packets 3 bytes 113
    c 2: packets 1 bytes 40

test transport header: after extension headers
rule udp dport 53 counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / hbh / dst / udp 1000 > 53
    drop (c handle 2)
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / rt 0 0 / dst / udp 1000 > 53
    drop (c handle 2)
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ah 1 1 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / ah 1 1 / udp 1000 > 53
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ext 60 9 000000000000 / udp 1000 > 53
    pass
counters
    c 1: packets 2 bytes 128

# Loads of 1, 2 and 4 bytes at a multiple of their length take data for a header in a later fragment of IPv4: such
# expressions are evaluated without a look at the fragment offset (nft_payload_fast_eval()).
test transport header: later fragments
rule udp dport 53 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
rule udp length 8 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 4 => reg 1 ]
    [ cmp eq reg 1 0x00000800 ]
    [ counter pkts 0 bytes 0 ]
rule @th,0,64 0x03e8003500080000 counter
    [ payload load 8b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x3500e803 0x00000800 ]
    [ counter pkts 0 bytes 0 ]
rule @th,8,16 0xe800 counter
    [ payload load 2b @ transport header + 1 => reg 1 ]
    [ cmp eq reg 1 0x000000e8 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 frag 0+ / udp 1000 > 53 / "12345678"
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 2 proto 17 / hex 03e8003500080000
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 2+ proto 17 / zeros 8
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 0+ 7 / udp 1000 > 53 / "12345678"
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / hex 03e8003500080000
    pass
counters
    c 1: packets 3 bytes 128
    c 2: packets 1 bytes 28
    c 3: packets 0 bytes 0
    c 4: packets 2 bytes 100

test transport header: what is cut is not loaded
rule udp sport 1000 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x0000e803 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 53 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
rule udp checksum 0 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 length 24 / udp 1000 > 53 | cut 38
    pass
packet ip 198.18.0.10 > 198.19.0.2 length 22 / udp 1000 > 53 | cut 36
    pass
packet ip 198.18.0.10 > 198.19.0.2 length 21 / udp 1000 > 53 | cut 35
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 checksum 0
    pass
# The packet says that it is longer than it is: there is no transport header at all.
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "query" | cut 42
    pass
counters
    c 1: packets 3 bytes 74
    c 2: packets 2 bytes 52
    c 3: packets 1 bytes 28

test network header: fields of IPv4
rule ip saddr 198.18.0.10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ cmp eq reg 1 0x0a0012c6 ]
    [ counter pkts 0 bytes 0 ]
rule ip daddr 198.19.0.0/16 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 16 => reg 1 ]
    [ cmp eq reg 1 0x000013c6 ]
    [ counter pkts 0 bytes 0 ]
rule ip ttl 1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 8 => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule ip id 7 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 4 => reg 1 ]
    [ cmp eq reg 1 0x00000700 ]
    [ counter pkts 0 bytes 0 ]
rule ip length 28 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00001c00 ]
    [ counter pkts 0 bytes 0 ]
rule ip protocol udp counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 9 => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ counter pkts 0 bytes 0 ]
rule ip checksum 0 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 10 => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 ttl 1 id 7 / udp 1 > 2
    pass
packet ip 198.18.0.11 > 198.18.5.20 checksum 0 / udp 1 > 2 / "x"
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 | cut 33
    pass
packet ip 198.18.0.10 > 198.19.0.2 version 5 / udp 1 > 2
    pass
counters
    c 1: packets 3 bytes 75
    c 2: packets 3 bytes 75
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28
    c 5: packets 3 bytes 75
    c 6: packets 4 bytes 104
    c 7: packets 1 bytes 29

test network header: bits within bytes
rule ip version 4 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
rule ip hdrlength 6 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000000f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000006 ]
    [ counter pkts 0 bytes 0 ]
rule ip dscp 46 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x000000b8 ]
    [ counter pkts 0 bytes 0 ]
rule ip dscp cs1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000020 ]
    [ counter pkts 0 bytes 0 ]
rule ip ecn ce counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000003 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000003 ]
    [ counter pkts 0 bytes 0 ]
rule ip frag-off & 0x1fff != 0 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 6 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff1f ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip frag-off & 0x4000 != 0 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 6 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000040 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip frag-off & 0x2000 != 0 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 6 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000020 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 tos 0xb8 df / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 tos 0x23 options 01010100 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 0+ / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 3 proto 17 / zeros 8
    pass
counters
    c 1: packets 4 bytes 116
    c 2: packets 1 bytes 32
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 32
    c 5: packets 1 bytes 32
    c 6: packets 1 bytes 28
    c 7: packets 1 bytes 28
    c 8: packets 1 bytes 28

test network header: fields of IPv6
rule ip6 saddr 2001:db8:1::10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 daddr 2001:db8:2::/48 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 6b @ network header + 24 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000200 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 hoplimit 255 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 1b @ network header + 7 => reg 1 ]
    [ cmp eq reg 1 0x000000ff ]
    [ counter pkts 0 bytes 0 ]
rule ip6 nexthdr udp counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 1b @ network header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 length 8 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 2b @ network header + 4 => reg 1 ]
    [ cmp eq reg 1 0x00000800 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 flowlabel 0x12345 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 3b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00ffff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00452301 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 dscp af41 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000c00f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00008008 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 ecn ect1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000030 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000010 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 version 6 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 1b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000060 ]
    [ counter pkts 0 bytes 0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 ttl 255 flow 0x12345 class 0x89 / udp 1 > 2
    pass
packet ip6 2001:db8:1::11 > 2001:db8:3::2 / dst / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2 | cut 53
    pass
counters
    c 1: packets 2 bytes 87
    c 2: packets 2 bytes 87
    c 3: packets 1 bytes 48
    c 4: packets 2 bytes 87
    c 5: packets 2 bytes 87
    c 6: packets 1 bytes 48
    c 7: packets 1 bytes 48
    c 8: packets 1 bytes 48
    c 9: packets 3 bytes 143

test network header: ARP
rule arp operation request counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ payload load 2b @ network header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
rule arp operation 2 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ payload load 2b @ network header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ counter pkts 0 bytes 0 ]
rule arp saddr ip 198.18.0.10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ payload load 4b @ network header + 14 => reg 1 ]
    [ cmp eq reg 1 0x0a0012c6 ]
    [ counter pkts 0 bytes 0 ]
rule arp daddr ether 02:00:00:00:01:01 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ payload load 6b @ network header + 18 => reg 1 ]
    [ cmp eq reg 1 0x00000002 0x00000101 ]
    [ counter pkts 0 bytes 0 ]
rule arp htype 1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
rule arp plen 4 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ payload load 1b @ network header + 5 => reg 1 ]
    [ cmp eq reg 1 0x00000004 ]
    [ counter pkts 0 bytes 0 ]
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
    pass
packet arp reply 02:00:00:00:01:10 198.18.0.10 > 02:00:00:00:01:01 198.18.0.1
    pass
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1 operation 3 | cut 30
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 2 bytes 56
    c 4: packets 1 bytes 28
    c 5: packets 3 bytes 72
    c 6: packets 3 bytes 72

test link header
rule ether saddr 02:00:00:00:01:10 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 6b @ link header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000002 0x00001001 ]
    [ counter pkts 0 bytes 0 ]
rule ether daddr 02:00:00:00:01:01 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 6b @ link header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000002 0x00000101 ]
    [ counter pkts 0 bytes 0 ]
rule ether type ip counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule ether type 0x88b5 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x0000b588 ]
    [ counter pkts 0 bytes 0 ]
rule @ll,40,8 1 counter
    [ payload load 1b @ link header + 5 => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule @ll,6,1 1 counter
    [ payload load 1b @ link header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:11 > ff:ff:ff:ff:ff:ff / hex 0000
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:01:01 type 0x0800 / hex 45
    pass
counters
    c 1: packets 2 bytes 29
    c 2: packets 2 bytes 29
    c 3: packets 2 bytes 29
    c 4: packets 1 bytes 2
    c 5: packets 2 bytes 29
    c 6: packets 3 bytes 31

test link header: the tag is put back for loads
rule vlan id 5 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000500 ]
    [ counter pkts 0 bytes 0 ]
rule vlan pcp 3 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 1b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000e0 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000060 ]
    [ counter pkts 0 bytes 0 ]
rule vlan dei 1 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 1b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000010 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000010 ]
    [ counter pkts 0 bytes 0 ]
rule vlan type ip counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 16 => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule ether type vlan counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ counter pkts 0 bytes 0 ]
rule @ll,96,48 0x810060050800 counter
    [ payload load 6b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x05600081 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule @ll,0,128 0x02000000010102000000011081006005 counter
    [ payload load 16b @ link header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000002 0x00020101 0x10010000 0x05600081 ]
    [ counter pkts 0 bytes 0 ]
rule @ll,112,24 0x600508 counter
    [ payload load 3b @ link header + 14 => reg 1 ]
    [ cmp eq reg 1 0x00080560 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 2 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ counter pkts 0 bytes 0 ]
packet vlan 5 prio 3 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet vlan 5 dei / ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet vlan 6 service / vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 76
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 48
    c 4: packets 1 bytes 28
    c 5: packets 2 bytes 76
    c 6: packets 1 bytes 28
    c 7: packets 1 bytes 28
    c 8: packets 1 bytes 28
    c 9: packets 3 bytes 104

test link header: loads that begin after the tag see the frame without it
rule @ll,144,8 0x45 counter
    [ payload load 1b @ link header + 18 => reg 1 ]
    [ cmp eq reg 1 0x00000045 ]
    [ counter pkts 0 bytes 0 ]
rule @ll,128,8 0x08 counter
    [ payload load 1b @ link header + 16 => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule @ll,176,8 64 counter
    [ payload load 1b @ link header + 22 => reg 1 ]
    [ cmp eq reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28

test data after the transport header
rule @ih,0,32 0x47455420 counter
    [ payload load 4b @ inner header + 0 => reg 1 ]
    [ cmp eq reg 1 0x20544547 ]
    [ counter pkts 0 bytes 0 ]
rule @ih,32,8 0x2f counter
    [ payload load 1b @ inner header + 4 => reg 1 ]
    [ cmp eq reg 1 0x0000002f ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 80 psh ack 1 / "GET /"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 80 psh ack 1 timestamp 1 2 / "GET /"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 80 psh ack 1 header 24 / "....GET /"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 80 / "GET /"
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 80 / "GET /"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 80 / "GET"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0 / "GET /"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / gre proto 0x88b5 / "GET /"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / gre key 1 proto 0x88b5 / "GET /"
    pass
packet ip 198.18.0.10 > 198.19.0.2 frag 1 proto 17 / hex 474554202f474554202f474554202f
    pass
counters
    c 1: packets 7 bytes 299
    c 2: packets 7 bytes 299

test widths that are no power of two
rule @nh,96,24 0xc61200 counter
    [ payload load 3b @ network header + 12 => reg 1 ]
    [ cmp eq reg 1 0x000012c6 ]
    [ counter pkts 0 bytes 0 ]
rule @nh,64,40 0x40110000c6 counter
    [ payload load 5b @ network header + 8 => reg 1 ]
    [ cmp eq reg 1 0x00001140 0x000000c6 ]
    [ counter pkts 0 bytes 0 ]
rule @th,0,48 0x03e800350008 counter
    [ payload load 6b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x3500e803 0x00000800 ]
    [ counter pkts 0 bytes 0 ]
rule @nh,96,64 0xc612000ac6130002 counter
    [ payload load 8b @ network header + 12 => reg 1 ]
    [ cmp eq reg 1 0x0a0012c6 0x020013c6 ]
    [ counter pkts 0 bytes 0 ]
rule @nh,0,128 != 0 counter
    [ payload load 16b @ network header + 0 => reg 1 ]
    [ cmp neq reg 1 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 checksum 0 / udp 1000 > 53
    pass
packet ip 198.18.1.10 > 198.19.0.2 / tcp 1000 > 53
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28
    c 3: packets 2 bytes 56
    c 4: packets 2 bytes 56
    c 5: packets 3 bytes 96

test fields of transport protocols
rule tcp flags syn counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 13 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp flags & (syn | ack) == syn | ack counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 13 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000012 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000012 ]
    [ counter pkts 0 bytes 0 ]
rule tcp sequence 9 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 4b @ transport header + 4 => reg 1 ]
    [ cmp eq reg 1 0x09000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp ackseq 7 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 4b @ transport header + 8 => reg 1 ]
    [ cmp eq reg 1 0x07000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp doff 6 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 12 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000060 ]
    [ counter pkts 0 bytes 0 ]
rule tcp window 500 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 2b @ transport header + 14 => reg 1 ]
    [ cmp eq reg 1 0x0000f401 ]
    [ counter pkts 0 bytes 0 ]
rule tcp urgptr 3 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 2b @ transport header + 18 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ counter pkts 0 bytes 0 ]
rule udplite checksum 0 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000088 ]
    [ payload load 2b @ transport header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule udplite dport 9 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000088 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000900 ]
    [ counter pkts 0 bytes 0 ]
rule icmp type echo-request counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule icmp code 4 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 1b @ transport header + 1 => reg 1 ]
    [ cmp eq reg 1 0x00000004 ]
    [ counter pkts 0 bytes 0 ]
rule icmp id 5 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ payload load 2b @ transport header + 4 => reg 1 ]
    [ cmp eq reg 1 0x00000500 ]
    [ counter pkts 0 bytes 0 ]
rule icmp sequence 6 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ payload load 2b @ transport header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000600 ]
    [ counter pkts 0 bytes 0 ]
rule icmp mtu 1400 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ payload load 2b @ transport header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00007805 ]
    [ counter pkts 0 bytes 0 ]
rule icmp gateway 3323068425 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000005 ]
    [ payload load 4b @ transport header + 4 => reg 1 ]
    [ cmp eq reg 1 0x090012c6 ]
    [ counter pkts 0 bytes 0 ]
rule icmpv6 type echo-reply counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000003a ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ counter pkts 0 bytes 0 ]
rule icmpv6 mtu 1280 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000003a ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ transport header + 4 => reg 1 ]
    [ cmp eq reg 1 0x00050000 ]
    [ counter pkts 0 bytes 0 ]
rule esp spi 100 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000032 ]
    [ payload load 4b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x64000000 ]
    [ counter pkts 0 bytes 0 ]
rule ah spi 200 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000033 ]
    [ payload load 4b @ transport header + 4 => reg 1 ]
    [ cmp eq reg 1 0xc8000000 ]
    [ counter pkts 0 bytes 0 ]
rule comp cpi 3 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000006c ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ counter pkts 0 bytes 0 ]
rule th dport 9 counter
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000900 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 9 syn seq 9 mss 1460
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn ack 7 window 500 urgent 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udplite 1 > 9
    pass
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0 rest 0x00050006
    pass
packet ip 198.18.0.10 > 198.19.0.2 / icmp 3 4 rest 1400
    pass
packet ip 198.18.0.10 > 198.19.0.2 / icmp 5 1 rest 0xc6120009
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 129 0 rest 0x00050006
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 2 0 rest 1280
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp 8 0 rest 0x00050006
    pass
packet ip 198.18.0.10 > 198.19.0.2 / esp 100 1 / zeros 8
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / esp 100 1 / zeros 8
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ah 200 1 / udp 1 > 9
    pass
packet ip 198.18.0.10 > 198.19.0.2 proto 108 / hex 1100000301020304
    pass
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 9
    pass
packet ip 198.18.0.10 > 198.19.0.2 / dccp 1 > 9 type 0
    pass
counters
    c 1: packets 2 bytes 84
    c 2: packets 1 bytes 40
    c 3: packets 1 bytes 44
    c 4: packets 1 bytes 40
    c 5: packets 1 bytes 44
    c 6: packets 1 bytes 40
    c 7: packets 1 bytes 40
    c 8: packets 0 bytes 0
    c 9: packets 1 bytes 28
    c 10: packets 1 bytes 28
    c 11: packets 1 bytes 28
    c 12: packets 1 bytes 28
    c 13: packets 1 bytes 28
    c 14: packets 1 bytes 28
    c 15: packets 1 bytes 28
    c 16: packets 1 bytes 48
    c 17: packets 1 bytes 48
    c 18: packets 2 bytes 92
    c 19: packets 1 bytes 72
    c 20: packets 1 bytes 28
    c 21: packets 4 bytes 144

test fields of SCTP, DCCP and IGMP
rule sctp vtag 7 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000084 ]
    [ payload load 4b @ transport header + 4 => reg 1 ]
    [ cmp eq reg 1 0x07000000 ]
    [ counter pkts 0 bytes 0 ]
rule sctp checksum 0 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000084 ]
    [ payload load 4b @ transport header + 8 => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule dccp sport 1 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000021 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
rule dccp type request counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000021 ]
    [ payload load 1b @ transport header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000001e ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule dccp type 9 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000021 ]
    [ payload load 1b @ transport header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000001e ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000012 ]
    [ counter pkts 0 bytes 0 ]
rule igmp type membership-query counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 1b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ counter pkts 0 bytes 0 ]
rule igmp group 3758096393 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ transport header + 4 => reg 1 ]
    [ cmp eq reg 1 0x090000e0 ]
    [ counter pkts 0 bytes 0 ]
rule igmp mrt 100 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 1b @ transport header + 1 => reg 1 ]
    [ cmp eq reg 1 0x00000064 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 vtag 7 checksum 0
    pass
packet ip 198.18.0.10 > 198.19.0.2 / dccp 1 > 2 type 0
    pass
packet ip 198.18.0.10 > 198.19.0.2 / dccp 3 > 4 type 9
    pass
packet ip 198.18.0.10 > 198.19.0.2 / igmp 17 224.0.0.9 mrt 100
    pass
packet ip 198.18.0.10 > 198.19.0.2 / igmp 22 224.0.0.1
    pass
counters
    c 1: packets 1 bytes 32
    c 2: packets 1 bytes 32
    c 3: packets 1 bytes 40
    c 4: packets 1 bytes 40
    c 5: packets 1 bytes 44
    c 6: packets 1 bytes 28
    c 7: packets 1 bytes 28
    c 8: packets 1 bytes 28
