# meta: what travels beside the packet (net/netfilter/nft_meta.c).
engines interpreter kernel
hook netdev ingress lan

test length counts from the network header on the way in
rule meta length 28 counter
    [ meta load len => reg 1 ]
    [ cmp eq reg 1 0x0000001c ]
    [ counter pkts 0 bytes 0 ]
rule meta length > 60 counter
    [ meta load len => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gt reg 1 0x3c000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 | pad 60
    pass
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 / zeros 40
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 68

test protocol, and that of the transport header
rule meta protocol ip counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule meta protocol ip6 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ counter pkts 0 bytes 0 ]
rule meta protocol arp counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ counter pkts 0 bytes 0 ]
rule meta protocol 0x88b5 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000b588 ]
    [ counter pkts 0 bytes 0 ]
rule meta protocol vlan counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto udp counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto 51 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000033 ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto 59 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000003b ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto 253 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x000000fd ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / hbh / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ah 1 1 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / zeros 8
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 60 / zeros 8
    pass
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet vlan 5 service / vlan 6 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / "unassigned"
    pass
packet ip 198.18.0.10 > 198.19.0.2 version 6 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 / "12345678" | cut 42
    pass
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
    pass
packet "strange"
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:01:01 length / hex aaaa0300000008004500
    pass
counters
    c 1: packets 5 bytes 142
    c 2: packets 5 bytes 280
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 7
    c 5: packets 1 bytes 32
    c 6: packets 4 bytes 168
    c 7: packets 1 bytes 72
    c 8: packets 1 bytes 40
    c 9: packets 1 bytes 30

test interfaces
rule iifname "lan" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iifname "la*" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x0000616c ]
    [ counter pkts 0 bytes 0 ]
rule iifname "wan" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iiftype ether counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule iifgroup 0 counter
    [ meta load iifgroup => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iifgroup 5 counter
    [ meta load iifgroup => reg 1 ]
    [ cmp eq reg 1 0x00000005 ]
    [ counter pkts 0 bytes 0 ]
rule meta iifkind "veth" counter
    [ meta load iifkind => reg 1 ]
    [ cmp eq reg 1 0x68746576 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule oifname "lan" counter
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 0 bytes 0
    c 4: packets 1 bytes 28
    c 5: packets 1 bytes 28
    c 6: packets 0 bytes 0
    c 7: packets 1 bytes 28
    c 8: packets 0 bytes 0

test interfaces at egress
hook netdev egress wan
rule iiftype ether counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule iif != 0 counter
    [ meta load iif => reg 1 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iifgroup 0 counter
    [ meta load iifgroup => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta iifkind "veth" counter
    [ meta load iifkind => reg 1 ]
    [ cmp eq reg 1 0x68746576 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iifname "lan" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule oifname "wan" counter
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule oiftype ether counter
    [ meta load oiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule oifgroup 0 counter
    [ meta load oifgroup => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta oifkind "veth" counter
    [ meta load oifkind => reg 1 ]
    [ cmp eq reg 1 0x68746576 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet host:wan ip 198.19.0.1 > 198.19.0.2 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 84
    c 2: packets 0 bytes 0
    c 3: packets 0 bytes 0
    c 4: packets 0 bytes 0
    c 5: packets 0 bytes 0
    c 6: packets 2 bytes 84
    c 7: packets 2 bytes 84
    c 8: packets 2 bytes 84
    c 9: packets 2 bytes 84

test length counts from the link header on the way out
hook netdev egress wan
rule meta length 42 counter
    [ meta load len => reg 1 ]
    [ cmp eq reg 1 0x0000002a ]
    [ counter pkts 0 bytes 0 ]
rule meta length 28 counter
    [ meta load len => reg 1 ]
    [ cmp eq reg 1 0x0000001c ]
    [ counter pkts 0 bytes 0 ]
packet host:wan ip 198.19.0.1 > 198.19.0.2 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 84
    c 2: packets 0 bytes 0

test interfaces in the IP hooks
hook inet forward
rule iifname "lan" oifname "wan" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta nfproto ipv4 counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule meta nfproto ipv6 counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.18.5.20 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 76
    c 2: packets 3 bytes 84
    c 3: packets 1 bytes 48

test no interface of departure before routing, none of arrival for own packets
hook inet prerouting
rule oif 0 counter
    [ meta load oif => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule oifname "wan" counter
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iifname "lan" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 0 bytes 0
    c 3: packets 1 bytes 28

test own packets
hook inet output
rule iiftype ether counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule oiftype ether counter
    [ meta load oiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule iifname "lan" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule oifname "wan" counter
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet host ip 198.19.0.1 > 198.19.0.2 id 7 / udp 1 > 2
    pass
packet host ip6 2001:db8:2::1 > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 2 bytes 76
    c 3: packets 0 bytes 0
    c 4: packets 2 bytes 76

test packet type
rule meta pkttype host counter
    [ meta load pkttype => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta pkttype broadcast counter
    [ meta load pkttype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule meta pkttype multicast counter
    [ meta load pkttype => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule meta pkttype other counter
    [ meta load pkttype => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / ip 198.18.0.10 > 198.18.0.255 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > 01:00:5e:00:00:09 / ip 198.18.0.10 > 224.0.0.9 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:01:99 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28

test marks and priorities are written and read back
rule udp dport 1 meta mark set 0x10
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ immediate reg 1 0x00000010 ]
    [ meta set mark with reg 1 ]
rule udp dport 3 meta mark set mark or 0x1 meta mark set mark xor 0x101
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xfffffffe ) ^ 0x00000001 ]
    [ meta set mark with reg 1 ]
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xffffffff ) ^ 0x00000101 ]
    [ meta set mark with reg 1 ]
rule meta mark 0x10 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000010 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark & 0xff00 == 0x100 counter
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff00 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 0 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 4 meta priority set 1:2
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000400 ]
    [ immediate reg 1 0x00010002 ]
    [ meta set priority with reg 1 ]
rule meta priority 1:2 counter
    [ meta load priority => reg 1 ]
    [ cmp eq reg 1 0x00010002 ]
    [ counter pkts 0 bytes 0 ]
rule meta priority none counter
    [ meta load priority => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 5 meta pkttype set broadcast
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000500 ]
    [ immediate reg 1 0x00000001 ]
    [ meta set pkttype with reg 1 ]
rule meta pkttype broadcast counter drop
    [ meta load pkttype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule udp dport 6 meta nftrace set 1
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000600 ]
    [ immediate reg 1 0x00000001 ]
    [ meta set nftrace with reg 1 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass (mark 0x10)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass (mark 0x100)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    pass (priority 1:2)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 5
    drop (c handle 11)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 6
    pass
counters
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28
    c 5: packets 4 bytes 112
    c 7: packets 1 bytes 28
    c 8: packets 5 bytes 140
    c 10: packets 1 bytes 28

test a mark that rules set chooses nothing else
hook inet forward
rule meta mark set 7 counter
    [ immediate reg 1 0x00000007 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass (mark 0x7)
counters
    c 1: packets 1 bytes 28

test keys that captures do not have break the rule
rule meta skuid 0 counter
    [ meta load skuid => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta skgid 0 counter
    [ meta load skgid => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta rtclassid 0 counter
    [ meta load rtclassid => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta cgroup 1 counter
    [ meta load cgroup => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule meta ipsec exists counter
    [ meta load secpath => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule meta ipsec missing counter
    [ meta load secpath => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 0 bytes 0
    c 3: packets 0 bytes 0
    c 4: packets 0 bytes 0
    c 5: packets 0 bytes 0
    c 6: packets 1 bytes 28

test random numbers are below their bound
rule meta random < 0 counter
    [ meta load prandom => reg 1 ]
    [ cmp lt reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta random >= 0 counter
    [ meta load prandom => reg 1 ]
    [ cmp gte reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta cpu >= 0 counter
    [ meta load cpu => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28

test interfaces by number
hook inet forward
rule iif "lan" oif "wan" counter
    [ meta load iif => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ meta load oif => reg 1 ]
    [ cmp eq reg 1 0x00000005 ]
    [ counter pkts 0 bytes 0 ]
rule iif "lan" oif "dmz" counter
    [ meta load iif => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ meta load oif => reg 1 ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.18.5.20 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28

# The clock is that of the packets: the first comes on Tuesday, 14 November 2023, 22:13:20 UTC.
test the time of a packet
engines interpreter
rule meta day "Tuesday" counter
    [ meta load day => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule meta day "Wednesday" counter
    [ meta load day => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ counter pkts 0 bytes 0 ]
rule meta hour "22:13"-"22:14" counter
    [ meta load hour => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x6c380100 ]
    [ cmp lte reg 1 0xa8380100 ]
    [ counter pkts 0 bytes 0 ]
rule meta hour "00:00"-"01:00" counter
    [ meta load hour => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x00000000 ]
    [ cmp lte reg 1 0x100e0000 ]
    [ counter pkts 0 bytes 0 ]
rule meta time > "2023-11-15 00:00:00" counter
    [ meta load time => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 8, 8) ]
    [ cmp gt reg 1 0xd0a29717 0x0000e453 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet +2h ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28
    c 5: packets 1 bytes 28
