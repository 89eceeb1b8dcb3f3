# dynset: sets and maps that packets change (net/netfilter/nft_dynset.c, nft_set_hash.c).
engines interpreter kernel
hook inet forward

test what a rule adds the next one finds, and deletes
with set s { type ipv4_addr; flags dynamic; }
rule ip saddr @s counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 1 add @s { ip saddr } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr @s counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 3 delete @s { ip saddr } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset delete reg_key 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr != @s counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set s 0x1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 2 bytes 56
    c 3: packets 3 bytes 84
    c 4: packets 2 bytes 56
    c 5: packets 5 bytes 140

test a set that is full breaks the rule
with set s { type ipv4_addr; size 2; flags dynamic; elements = { 198.18.0.13 }; }
rule counter add @s { ip saddr } counter
    [ counter pkts 0 bytes 0 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set s ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.12 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.13 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 5 bytes 140
    c 1: packets 3 bytes 84

test the place of a deleted element is not free at once
with set s { type ipv4_addr; size 1; flags dynamic; }
rule udp dport 1 add @s { ip saddr } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 2 delete @s { ip saddr } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset delete reg_key 1 set s ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet +3s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28

test add leaves the end of an element, update puts it off
with set a { type ipv4_addr; flags dynamic, timeout; timeout 1500ms; }
with set u { type ipv4_addr; flags dynamic, timeout; timeout 1500ms; }
with set own { type ipv4_addr; flags dynamic, timeout; timeout 1h; }
rule udp dport 1 add @a { ip saddr } update @u { ip saddr } add @own { ip saddr timeout 1s } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set a ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset update reg_key 1 set u ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set own timeout 1000ms ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 2 ip saddr @a counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set a ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 2 ip saddr @u counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set u ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 2 ip saddr @own counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set own ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet +800ms ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet +1s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet +1s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 3 bytes 84
    c 2: packets 2 bytes 56
    c 3: packets 3 bytes 84
    c 4: packets 2 bytes 56

test each element has its own statements, which may break the rule
with set limited { type ipv4_addr; flags dynamic; }
with set bounded { type ipv4_addr; flags dynamic; quota over 50 bytes; }
with set both { type ipv4_addr; flags dynamic; counter quota 50 bytes; }
rule add @limited { ip saddr limit rate 2/hour burst 2 packets } counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set limited expr [ limit rate 2/hour burst 2 type packets flags 0x0 ] ]
    [ counter pkts 0 bytes 0 ]
rule add @limited { ip saddr } counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set limited ]
    [ counter pkts 0 bytes 0 ]
rule update @bounded { ip saddr } counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset update reg_key 1 set bounded ]
    [ counter pkts 0 bytes 0 ]
rule add @both { ip saddr } counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set both ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr @both counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set both ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2 / zeros 100
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass
counters
    bounded 198.18.0.10: used 50 bytes
    bounded 198.18.0.11: used 50 bytes
    both 198.18.0.10: packets 6 bytes 168
    both 198.18.0.10: used 50 bytes
    both 198.18.0.11: packets 6 bytes 368
    both 198.18.0.11: used 50 bytes
    c 1: packets 2 bytes 56
    c 2: packets 2 bytes 56
    c 3: packets 4 bytes 212
    c 4: packets 2 bytes 56
    c 5: packets 0 bytes 0

test maps learn data, and keep what they learned first
with map m { type ipv4_addr : mark; flags dynamic; }
with map ports { type inet_service : inet_service; size 2; flags dynamic; }
with map long { type ipv4_addr . inet_service : ipv6_addr; flags dynamic; }
rule udp sport 5 meta mark set 5
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000500 ]
    [ immediate reg 1 0x00000005 ]
    [ meta set mark with reg 1 ]
rule udp sport 7 meta mark set 7
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000700 ]
    [ immediate reg 1 0x00000007 ]
    [ meta set mark with reg 1 ]
rule meta mark != 0 add @m { ip saddr : meta mark } counter
    [ meta load mark => reg 1 ]
    [ cmp neq reg 1 0x00000000 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ meta load mark => reg 2 ]
    [ dynset add reg_key 1 set m sreg_data 2 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set 0
    [ immediate reg 1 0x00000000 ]
    [ meta set mark with reg 1 ]
rule meta mark set ip saddr map @m counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set m dreg 1 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 5 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000005 ]
    [ counter pkts 0 bytes 0 ]
rule update @ports { udp sport : udp dport } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 2 ]
    [ dynset update reg_key 1 set ports sreg_data 2 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport set udp sport map @ports counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ lookup reg 1 set ports dreg 1 ]
    [ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off 6 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule ip6 nexthdr udp add @long { 198.18.0.10 . udp dport : ip6 saddr } counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ payload load 1b @ network header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ immediate reg 1 0x0a0012c6 ]
    [ payload load 2b @ transport header + 2 => reg 9 ]
    [ payload load 16b @ network header + 8 => reg 2 ]
    [ dynset add reg_key 1 set long sreg_data 2 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 5 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 7 > 3
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1000 > 4
    pass, 37: 04 -> 02, 41: bf -> c1
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    c 3: packets 2 bytes 56
    c 5: packets 2 bytes 56
    c 6: packets 2 bytes 56
    c 7: packets 3 bytes 84
    c 8: packets 3 bytes 84
    c 9: packets 1 bytes 48

test several sets, keys of several fields
with set pairs { type ipv4_addr . inet_service; size 3; flags dynamic; }
with set six { type ipv6_addr . ether_addr . inet_service; flags dynamic; counter; }
rule add @pairs { ip saddr . udp dport } counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ payload load 2b @ transport header + 2 => reg 9 ]
    [ dynset add reg_key 1 set pairs ]
    [ counter pkts 0 bytes 0 ]
rule ip daddr . udp sport @pairs counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 4b @ network header + 16 => reg 1 ]
    [ payload load 2b @ transport header + 0 => reg 9 ]
    [ lookup reg 1 set pairs ]
    [ counter pkts 0 bytes 0 ]
rule update @six { ip6 saddr . ether saddr . udp dport } counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 16b @ network header + 8 => reg 1 ]
    [ payload load 6b @ link header + 6 => reg 2 ]
    [ payload load 2b @ transport header + 2 => reg 14 ]
    [ dynset update reg_key 1 set six ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 5
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 2 > 1
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    six 2001:db8:1::10 . 02:00:00:00:01:10 . 2: packets 2 bytes 96
    c 1: packets 3 bytes 84
    c 2: packets 1 bytes 28
    c 3: packets 2 bytes 96

test meters
rule meter m size 2 { ip saddr limit rate over 1/hour burst 1 packets } counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set m expr [ limit rate 1/hour burst 1 type packets flags 0x1 ] ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.12 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 56

test the catch-all element answers for what packets did not add
with set s { type ipv4_addr; flags dynamic; counter; elements = { * }; }
rule udp dport 1 add @s { ip saddr } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set s ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr @s counter
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set s ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass
counters
    s 198.18.0.10: packets 3 bytes 84
    s *: packets 1 bytes 28
    c 1: packets 1 bytes 28
    c 2: packets 3 bytes 84
