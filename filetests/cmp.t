# cmp, range: comparisons with constants (net/netfilter/nft_cmp.c, nft_range.c).
engines interpreter kernel
hook netdev ingress lan

test all operators on two bytes
rule udp dport 500 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000f401 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport != 500 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp neq reg 1 0x0000f401 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport < 500 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp lt reg 1 0x0000f401 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport <= 500 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp lte reg 1 0x0000f401 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport > 500 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp gt reg 1 0x0000f401 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport >= 500 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp gte reg 1 0x0000f401 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 499
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 500
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 501
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 256
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 65535
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 499
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 4 bytes 112
    c 3: packets 2 bytes 56
    c 4: packets 3 bytes 84
    c 5: packets 2 bytes 56
    c 6: packets 3 bytes 84

test all operators on one byte
rule ip ttl 64 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 8 => reg 1 ]
    [ cmp eq reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
rule ip ttl != 64 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 8 => reg 1 ]
    [ cmp neq reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
rule ip ttl < 64 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 8 => reg 1 ]
    [ cmp lt reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
rule ip ttl <= 64 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 8 => reg 1 ]
    [ cmp lte reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
rule ip ttl > 64 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 8 => reg 1 ]
    [ cmp gt reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
rule ip ttl >= 64 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 8 => reg 1 ]
    [ cmp gte reg 1 0x00000040 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 ttl 0 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 ttl 63 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 ttl 64 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 ttl 255 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 3 bytes 84
    c 3: packets 2 bytes 56
    c 4: packets 3 bytes 84
    c 5: packets 1 bytes 28
    c 6: packets 2 bytes 56

test all operators on sixteen bytes
rule ip6 saddr 2001:db8:1::10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr != 2001:db8:1::10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ cmp neq reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr < 2001:db8:1::10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ cmp lt reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr <= 2001:db8:1::10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ cmp lte reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr > 2001:db8:1::10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ cmp gt reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr >= 2001:db8:1::10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ cmp gte reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip6 2001:db8:1::f > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip6 2001:db8:1:1:: > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip6 2001:db8:0:ffff:: > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 48
    c 2: packets 3 bytes 144
    c 3: packets 2 bytes 96
    c 4: packets 3 bytes 144
    c 5: packets 1 bytes 48
    c 6: packets 2 bytes 96

test host order numbers compare as numbers
rule meta length < 300 counter
    [ meta load len => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp lt reg 1 0x2c010000 ]
    [ counter pkts 0 bytes 0 ]
rule meta length > 258 counter
    [ meta load len => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gt reg 1 0x02010000 ]
    [ counter pkts 0 bytes 0 ]
rule meta length 28-30 counter
    [ meta load len => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x1c000000 ]
    [ cmp lte reg 1 0x1e000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set 0x01000000
    [ immediate reg 1 0x01000000 ]
    [ meta set mark with reg 1 ]
rule meta mark > 255 counter
    [ meta load mark => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gt reg 1 0xff000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark < 255 counter
    [ meta load mark => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp lt reg 1 0xff000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x1000000)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 / zeros 231
    pass (mark 0x1000000)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 / zeros 272
    pass (mark 0x1000000)
counters
    c 1: packets 2 bytes 287
    c 2: packets 2 bytes 559
    c 3: packets 1 bytes 28
    c 5: packets 3 bytes 587
    c 6: packets 0 bytes 0

test intervals: both ends belong to them
rule udp dport 1000-2000 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp gte reg 1 0x0000e803 ]
    [ cmp lte reg 1 0x0000d007 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport != 1000-2000 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ range neq reg 1 0x0000e803 0x0000d007 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr 198.18.0.10-198.18.0.20 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ cmp gte reg 1 0x0a0012c6 ]
    [ cmp lte reg 1 0x140012c6 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr != 198.18.0.10-198.18.0.20 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ range neq reg 1 0x0a0012c6 0x140012c6 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 daddr 2001:db8:2::1-2001:db8:2::3 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 24 => reg 1 ]
    [ cmp gte reg 1 0xb80d0120 0x00000200 0x00000000 0x01000000 ]
    [ cmp lte reg 1 0xb80d0120 0x00000200 0x00000000 0x03000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.9 > 198.19.0.2 / udp 1 > 999
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1000
    pass
packet ip 198.18.0.15 > 198.19.0.2 / udp 1 > 1500
    pass
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 2000
    pass
packet ip 198.18.0.21 > 198.19.0.2 / udp 1 > 2001
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::4 / tcp 1 > 1500
    pass
counters
    c 1: packets 3 bytes 84
    c 2: packets 2 bytes 56
    c 3: packets 3 bytes 84
    c 4: packets 2 bytes 56
    c 5: packets 1 bytes 60

test prefixes
rule ip saddr 198.18.0.0/24 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 3b @ network header + 12 => reg 1 ]
    [ cmp eq reg 1 0x000012c6 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr 198.18.0.0/25 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x80ffffff ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x000012c6 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr != 198.18.0.0/25 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x80ffffff ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x000012c6 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr 0.0.0.0/0 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000000 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr 2001:db8::/33 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xffffffff 0x00000080 0x00000000 0x00000000 ) ^ 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ cmp eq reg 1 0xb80d0120 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr 2001:db8:8000::/33 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xffffffff 0x00000080 0x00000000 0x00000000 ) ^ 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ cmp eq reg 1 0xb80d0120 0x00000080 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr 2001:db8:1::/64 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 8b @ network header + 8 => reg 1 ]
    [ cmp eq reg 1 0xb80d0120 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.127 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.128 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.1.1 > 198.19.0.2 / udp 1 > 2
    pass
packet ip6 2001:db8:1::1 > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip6 2001:db8:8001::1 > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28
    c 3: packets 2 bytes 56
    c 4: packets 3 bytes 84
    c 5: packets 1 bytes 48
    c 6: packets 1 bytes 48
    c 7: packets 1 bytes 48

test prefixes of names
rule iifname "l*" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x0000006c ]
    [ counter pkts 0 bytes 0 ]
rule iifname "lan*" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c ]
    [ counter pkts 0 bytes 0 ]
rule iifname "lanx*" counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x786e616c ]
    [ counter pkts 0 bytes 0 ]
rule iifname != "w*" counter
    [ meta load iifname => reg 1 ]
    [ cmp neq reg 1 0x00000077 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 0 bytes 0
    c 4: packets 1 bytes 28
