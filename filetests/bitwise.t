# bitwise, byteorder: computing on registers (net/netfilter/nft_bitwise.c, nft_byteorder.c).
engines interpreter kernel
hook netdev ingress lan

test masks
rule tcp flags & (syn | ack) == syn counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 13 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000012 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule tcp flags & (syn | ack | fin) != 0 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 13 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000013 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp flags ! syn counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 13 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule tcp flags syn / syn,ack counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 13 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000012 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule tcp flags fin,rst counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 1b @ transport header + 13 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000005 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr & 0.0.0.255 == 0.0.0.10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xff000000 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x0a000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr & ::ff == ::10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000000 0x00000000 0x00000000 0xff000000 ) ^ 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ cmp eq reg 1 0x00000000 0x00000000 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip id & 0xff00 == 0x1200 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 4 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000ff ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000012 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 id 0x1234 / tcp 1 > 2 syn
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn ack 1
    pass
packet ip 198.18.0.11 > 198.19.0.2 / tcp 1 > 2 fin ack 1
    pass
packet ip 198.18.0.11 > 198.19.0.2 / tcp 1 > 2 rst
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 2 ack 1
    pass
counters
    c 1: packets 1 bytes 40
    c 2: packets 4 bytes 180
    c 3: packets 3 bytes 140
    c 4: packets 1 bytes 40
    c 5: packets 2 bytes 80
    c 6: packets 2 bytes 80
    c 7: packets 1 bytes 60
    c 8: packets 1 bytes 40

test marks: and, or, exclusive or
rule meta mark set 0x1234 meta mark set mark and 0xff00 counter
    [ immediate reg 1 0x00001234 ]
    [ meta set mark with reg 1 ]
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff00 ) ^ 0x00000000 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 0x1200 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00001200 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set mark or 0x56 counter
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xffffffa9 ) ^ 0x00000056 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 0x1256 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00001256 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set mark xor 0xff counter
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xffffffff ) ^ 0x000000ff ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 0x12a9 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x000012a9 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set mark and 0xff0f or 0x40 counter
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000040 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark & 0xf0 == 0x40 counter
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x1249)
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28
    c 5: packets 1 bytes 28
    c 6: packets 1 bytes 28
    c 7: packets 1 bytes 28
    c 8: packets 1 bytes 28

test shifts
rule meta mark set 0x12345678
    [ immediate reg 1 0x12345678 ]
    [ meta set mark with reg 1 ]
rule meta mark set mark << 4 counter
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 << 0x00000004 ) ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 0x23456780 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x23456780 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set mark >> 8 counter
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 >> 0x00000008 ) ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 0x00234567 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00234567 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set mark << 31 counter
    [ meta load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 << 0x0000001f ) ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 0x80000000 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x80000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x80000000)
counters
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28
    c 5: packets 1 bytes 28
    c 6: packets 1 bytes 28
    c 7: packets 1 bytes 28

test sub-byte fields shift into place
rule ip dscp vmap { 46 : drop, cs1 : accept } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000fc ) ^ 0x00000000 ]
    [ lookup reg 1 set __map%d dreg 0 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 dscp { af41, cs5 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 2b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000c00f ) ^ 0x00000000 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule ip6 flowlabel { 0x12345, 0xfffff } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 3b @ network header + 1 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00ffff0f ) ^ 0x00000000 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule vlan pcp { 1, 7 } counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 1b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000e0 ) ^ 0x00000000 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule vlan id 4000-4095 counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp gte reg 1 0x0000a00f ]
    [ cmp lte reg 1 0x0000ff0f ]
    [ counter pkts 0 bytes 0 ]
rule ip hdrlength { 5 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 0 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000000f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000005 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 tos 0xb8 / udp 1 > 2
    drop (c handle 3)
packet ip 198.18.0.10 > 198.19.0.2 tos 0x20 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 tos 0x28 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 class 0x88 flow 0x12345 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 class 0xa3 / udp 1 > 2
    pass
packet vlan 4001 prio 7 / ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet vlan 4001 prio 6 dei / ip6 2001:db8:1::10 > 2001:db8:2::2 flow 0xfffff / udp 1 > 2
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 2 bytes 96
    c 3: packets 2 bytes 96
    c 4: packets 1 bytes 48
    c 5: packets 2 bytes 96
    c 6: packets 1 bytes 28

test byte order of intervals
rule meta length 20-100 counter
    [ meta load len => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x14000000 ]
    [ cmp lte reg 1 0x64000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set 0x00010000 meta mark 0x100-0x1000000 counter
    [ immediate reg 1 0x00010000 ]
    [ meta set mark with reg 1 ]
    [ meta load mark => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x00010000 ]
    [ cmp lte reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule meta length { 20-40, 200-300 } counter
    [ meta load len => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule meta priority 1:0-1:ffff counter
    [ meta load priority => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x00000100 ]
    [ cmp lte reg 1 0xffff0100 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x10000)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 / zeros 200
    pass (mark 0x10000)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 / zeros 100
    pass (mark 0x10000)
counters
    c 1: packets 1 bytes 28
    c 2: packets 3 bytes 384
    c 3: packets 2 bytes 256
    c 4: packets 0 bytes 0
