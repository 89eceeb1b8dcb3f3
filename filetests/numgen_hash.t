# numgen and hash: running numbers, random ones, hashes (net/netfilter/nft_numgen.c, nft_hash.c).
engines interpreter kernel
hook netdev ingress lan

test running numbers begin with zero and start again
rule meta mark set numgen inc mod 3
    [ numgen reg 1 = inc mod 3 ]
    [ meta set mark with reg 1 ]
rule meta mark 0 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 1 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 2 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x1)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x2)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 2: packets 2 bytes 56
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28

test running numbers with an offset choose verdicts
rule numgen inc mod 2 offset 10 vmap { 10 : accept, 11 : drop }
    [ numgen reg 1 = inc mod 2 offset 10 ]
    [ lookup reg 1 set __map%d dreg 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters

test random numbers are below their modulus
rule numgen random mod 4 <= 3 counter
    [ numgen reg 1 = random mod 4 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp lte reg 1 0x03000000 ]
    [ counter pkts 0 bytes 0 ]
rule numgen random mod 1 0 counter
    [ numgen reg 1 = random mod 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule numgen random mod 10 offset 100 100-109 counter
    [ numgen reg 1 = random mod 10 offset 100 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x64000000 ]
    [ cmp lte reg 1 0x6d000000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 2 bytes 56
    c 3: packets 2 bytes 56

test Jenkins' hash with a seed
rule meta mark set jhash ip saddr mod 65536 seed 0xdeadbeef
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 2 ]
    [ hash reg 1 = jhash(reg 2, 4, 0xdeadbeef) % mod 65536 ]
    [ meta set mark with reg 1 ]
rule meta mark < 32768 counter
    [ meta load mark => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp lt reg 1 0x00800000 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark >= 32768 counter
    [ meta load mark => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x00800000 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport set jhash ip saddr mod 60000 seed 1 offset 1000
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 2 ]
    [ hash reg 1 = jhash(reg 2, 4, 0x1) % mod 60000 offset 1000 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass, 37: 02 -> 00, 41: a9 -> ab (mark 0x2495)
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass, 37: 02 -> 00, 41: a8 -> aa (mark 0xcaa)
packet ip 198.18.0.12 > 198.19.0.2 / udp 1 > 2
    pass, 37: 02 -> 00, 41: a7 -> a9 (mark 0xe215)
packet ip 198.18.0.13 > 198.19.0.2 / udp 1 > 2
    pass, 37: 02 -> 00, 41: a6 -> a8 (mark 0xb0d9)
counters
    c 2: packets 2 bytes 56
    c 3: packets 2 bytes 56

test Jenkins' hash of several fields
rule udp checksum set 0 udp dport set jhash ip saddr . ip daddr mod 60000 seed 7
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ immediate reg 1 0x00000000 ]
    [ payload write reg 1 => 2b @ transport header + 6 csum_type 1 csum_off 6 csum_flags 0x0 ]
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 2 ]
    [ payload load 4b @ network header + 16 => reg 13 ]
    [ hash reg 1 = jhash(reg 2, 8, 0x7) % mod 60000 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass, 37: 02000873a9 -> 0000080002
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass, 37: 02000873a8 -> 0000080002
counters

test Jenkins' hash of sixteen bytes and of ports
rule udp dport set jhash ip6 saddr mod 60000 seed 7
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 2 ]
    [ hash reg 1 = jhash(reg 2, 16, 0x7) % mod 60000 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
rule udp sport set jhash ether saddr mod 60000 seed 9
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 6b @ link header + 6 => reg 2 ]
    [ hash reg 1 = jhash(reg 2, 6, 0x9) % mod 60000 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ payload write reg 1 => 2b @ transport header + 0 csum_type 1 csum_off 6 csum_flags 0x0 ]
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass, 55: 010002 -> 000000, 61: 54 -> 57
packet ip6 2001:db8:1::11 > 2001:db8:2::2 / udp 1 > 2
    pass, 55: 010002 -> 000000, 61: 53 -> 56
counters

test the symmetric hash is the same for both directions
rule symhash mod 1 0 counter
    [ hash reg 1 = symhash() % mod 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule symhash mod 1 offset 5 5 counter
    [ hash reg 1 = symhash() % mod 1 offset 5 ]
    [ cmp eq reg 1 0x00000005 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 2 bytes 56
