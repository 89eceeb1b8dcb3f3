# lookup: sets, maps and verdict maps (net/netfilter/nft_lookup.c).
engines interpreter kernel
hook netdev ingress lan

test anonymous sets
rule udp dport { 53, 67, 123 } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule udp dport != { 53, 67, 123 } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set __set%d 0x1 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr { 198.18.0.10, 198.18.0.11 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr { 2001:db8:1::10, 2001:db8:1::11 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule ether saddr { 02:00:00:00:01:10, 02:00:00:00:01:11 } counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 6b @ link header + 6 => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto { tcp, udp } counter
    [ meta load l4proto => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule iifname { "lan", "dmz" } counter
    [ meta load iifname => reg 1 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 54
    pass
packet ip 198.18.0.12 > 198.19.0.2 / tcp 1 > 53
    pass
packet ip6 2001:db8:1::11 > 2001:db8:2::2 / udp 1 > 123
    pass
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0
    pass
counters
    c 1: packets 2 bytes 76
    c 2: packets 1 bytes 28
    c 3: packets 3 bytes 84
    c 4: packets 1 bytes 48
    c 5: packets 5 bytes 172
    c 6: packets 4 bytes 144
    c 7: packets 5 bytes 172

test named sets
with set plain { type ipv4_addr; elements = { 198.18.0.10, 198.18.0.20 }; }
with set empty { type ipv4_addr; }
with set ports { type inet_service; flags interval; elements = { 1-100, 1000, 2000-65535 }; }
with set nets { type ipv4_addr; flags interval; elements = { 198.18.0.0/28, 198.18.0.128-198.18.0.130 }; }
with set nets6 { type ipv6_addr; flags interval; elements = { 2001:db8:1::/64, 2001:db8:8000::/33 }; }
rule ip saddr @plain counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set plain ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr != @plain counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set plain 0x1 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr @empty counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set empty ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr != @empty counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set empty 0x1 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport @ports counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set ports ]
    [ counter pkts 0 bytes 0 ]
rule udp dport != @ports counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set ports 0x1 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr @nets counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set nets ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr @nets6 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ lookup reg 1 set nets6 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.15 > 198.19.0.2 / udp 1 > 100
    pass
packet ip 198.18.0.16 > 198.19.0.2 / udp 1 > 101
    pass
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 1000
    pass
packet ip 198.18.0.129 > 198.19.0.2 / udp 1 > 65535
    pass
packet ip 198.18.0.131 > 198.19.0.2 / udp 1 > 0
    pass
packet ip6 2001:db8:1::7 > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip6 2001:db8:7fff::7 > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip6 2001:db8:8000::7 > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 4 bytes 112
    c 3: packets 0 bytes 0
    c 4: packets 6 bytes 168
    c 5: packets 7 bytes 256
    c 6: packets 2 bytes 56
    c 7: packets 3 bytes 84
    c 8: packets 2 bytes 96

test joined intervals
with set s { type ipv4_addr; flags interval; auto-merge; elements = { 198.18.0.0/25, 198.18.0.128/25, 198.18.0.200-198.18.1.10 }; }
rule ip saddr @s counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set s ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.255 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.1.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.1.11 > 198.19.0.2 / udp 1 > 1
    pass
counters
    c 1: packets 2 bytes 56

test concatenations
rule ip saddr . udp dport { 198.18.0.10 . 53, 198.18.0.11 . 67 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 9 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr . ip daddr . udp dport != { 198.18.0.10 . 198.19.0.2 . 53 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ payload load 4b @ network header + 16 => reg 9 ]
    [ payload load 2b @ transport header + 2 => reg 10 ]
    [ lookup reg 1 set __set%d 0x1 ]
    [ counter pkts 0 bytes 0 ]
rule ether saddr . ip saddr { 02:00:00:00:01:10 . 198.18.0.10 } counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 6b @ link header + 6 => reg 1 ]
    [ payload load 4b @ network header + 12 => reg 10 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule iifname . udp dport { "lan" . 53, "wan" . 67 } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ meta load iifname => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 2 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule ip6 saddr . tcp dport { 2001:db8:1::10 . 80 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x0000dd86 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 2 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto . th dport { tcp . 80, udp . 53 } counter
    [ meta load l4proto => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 9 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 67
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 80
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 80
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 2 bytes 56
    c 3: packets 1 bytes 28
    c 4: packets 2 bytes 56
    c 5: packets 1 bytes 60
    c 6: packets 3 bytes 116

test concatenations with intervals
with set s { type ipv4_addr . inet_service; flags interval; elements = { 198.18.0.0/24 . 1-100, 198.18.0.10-198.18.0.20 . 101, 198.18.1.1 . 0-65535 }; }
rule ip saddr . udp dport @s counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 9 ]
    [ lookup reg 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule ip daddr . ip saddr { 198.19.0.0/16 . 198.18.0.10-198.18.0.11 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 16 => reg 1 ]
    [ payload load 4b @ network header + 12 => reg 9 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 80
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 101
    pass
packet ip 198.18.0.21 > 198.19.0.2 / udp 1 > 100
    pass
packet ip 198.18.0.21 > 198.20.0.2 / udp 1 > 101
    pass
packet ip 198.18.1.1 > 198.19.0.2 / udp 1 > 65535
    pass
packet ip 198.18.1.2 > 198.19.0.2 / udp 1 > 65535
    pass
counters
    c 1: packets 4 bytes 112
    c 2: packets 2 bytes 56

test maps
rule meta mark set udp dport map { 53 : 1, 67 : 2 } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set __map%d dreg 1 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set ip saddr map { 198.18.0.0/28 : 16, 198.18.0.16/28 : 32 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set __map%d dreg 1 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 1 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 32 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000020 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 99
    pass (mark 0x20)
packet ip 198.18.0.40 > 198.19.0.2 / udp 1 > 53
    pass (mark 0x1)
packet ip 198.18.0.40 > 198.19.0.2 / udp 1 > 67
    pass (mark 0x2)
packet ip 198.18.0.40 > 198.19.0.2 / udp 1 > 99
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28

test named maps
with map m { type ipv4_addr . inet_service : mark; elements = { 198.18.0.10 . 53 : 7 }; }
with map i { type inet_service : ipv4_addr; flags interval; elements = { 1-99 : 198.19.0.3, 100-200 : 198.19.0.4 }; }
rule meta mark set ip saddr . udp dport map @m counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 9 ]
    [ lookup reg 1 set m dreg 1 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule ip daddr set udp dport map @i counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set i dreg 1 ]
    [ payload write reg 1 => 4b @ network header + 16 csum_type 1 csum_off 10 csum_flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass, 25: 9f -> 9e, 33: 02 -> 03, 41: 76 -> 75 (mark 0x7)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 150
    pass, 25: 9f -> 9d, 33: 02 -> 04, 41: 15 -> 13
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 201
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 2 bytes 56

test verdict maps
with chain other { counter drop; }
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule udp dport vmap { 1 : accept, 2 : drop, 3 : jump other, 4 : goto other, 5 : return, 6 : continue } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set __map%d dreg 0 ]
    [ counter pkts 0 bytes 0 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 5)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    drop (other handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    drop (other handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 5
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 6
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 7
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2
    pass
counters
    other 1: packets 2 bytes 56
    c 1: packets 1 bytes 28
    c 2: packets 3 bytes 96

test verdict maps of intervals and of concatenations
rule ip saddr vmap { 198.18.0.0/28 : drop, 198.18.0.16-198.18.0.20 : accept } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set __map%d dreg 0 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr . udp dport vmap { 198.18.0.21 . 1-9 : drop, 198.18.0.22 . 5 : accept } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 9 ]
    [ lookup reg 1 set __map%d dreg 0 ]
    [ counter pkts 0 bytes 0 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 3)
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.21 > 198.19.0.2 / udp 1 > 9
    drop (c handle 5)
packet ip 198.18.0.21 > 198.19.0.2 / udp 1 > 10
    pass
packet ip 198.18.0.22 > 198.19.0.2 / udp 1 > 5
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 0 bytes 0
    c 3: packets 1 bytes 28

test elements that match what no other does
with set s { type ipv4_addr; elements = { 198.18.0.10, * }; }
with map m { type inet_service : verdict; elements = { 53 : accept, * : drop }; }
with map n { type inet_service : mark; flags interval; elements = { 1-9 : 1, * : 2 }; }
rule ip saddr @s counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set udp dport map @n counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set n dreg 1 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 2 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport vmap @m counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set m dreg 0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass (mark 0x2)
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 53
    pass (mark 0x2)
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 9
    drop (c handle 8)
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 54
    drop (c handle 8)
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 54
    drop (c handle 8)
counters
    c 1: packets 4 bytes 112
    c 2: packets 5 bytes 160
    c 3: packets 4 bytes 132
    c 4: packets 0 bytes 0

test elements that count
with set s { type ipv4_addr; counter; elements = { 198.18.0.10, 198.18.0.11 counter packets 3 bytes 100 }; }
rule ip saddr @s counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set s ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 1 / "x"
    pass
packet ip 198.18.0.12 > 198.19.0.2 / udp 1 > 1
    pass
counters
    s 198.18.0.10: packets 1 bytes 28
    s 198.18.0.11: packets 4 bytes 129
    c 1: packets 2 bytes 57

test elements end with their time
engines interpreter
with set s { type ipv4_addr; flags timeout; elements = { 198.18.0.10 timeout 10s, 198.18.0.11 timeout 1h }; }
with set d { type inet_service; timeout 1m; elements = { 53, 67 timeout 1s }; }
rule ip saddr @s counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule udp dport @d counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set d ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet +9s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 67
    pass
packet +1s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet +30s ip 198.18.0.11 > 198.19.0.2 / udp 1 > 53
    pass
packet +21s ip 198.18.0.11 > 198.19.0.2 / udp 1 > 53
    pass
packet +1h ip 198.18.0.11 > 198.19.0.2 / udp 1 > 53
    pass
counters
    c 1: packets 4 bytes 112
    c 2: packets 3 bytes 84

test no key, no match, not even of the opposite
rule udp dport != { 53 } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp neq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr != { 198.18.0.10 } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ cmp neq reg 1 0x0a0012c6 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 54
    pass
packet ip 198.18.0.10 > 198.19.0.2 length 22 / udp 1 > 54 | cut 36
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1 > 54
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 0 bytes 0
