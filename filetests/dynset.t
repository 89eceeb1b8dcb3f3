# dynset: sets that packets change (net/netfilter/nft_dynset.c).
engines interpreter kernel
hook netdev ingress lan

test a key is added and found by the next packet
with set seen { type ipv4_addr; size 100; flags dynamic; }
rule ip saddr @seen counter drop
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set seen ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule udp dport 1 add @seen { ip saddr } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set seen ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 3)
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28

test a full set ends the rule
with set seen { type ipv4_addr; size 1; flags dynamic; }
rule add @seen { ip saddr } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set seen ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
counters
    c 1: packets 2 bytes 56

test keys are taken out
with set seen { type inet_service; size 100; flags dynamic; elements = { 53, 67 }; }
rule udp sport 1 delete @seen { udp dport } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ dynset delete reg_key 1 set seen ]
    [ counter pkts 0 bytes 0 ]
rule udp dport @seen counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set seen ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 2 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 2 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 2 > 67
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 99
    pass
counters
    c 1: packets 2 bytes 56
    c 2: packets 2 bytes 56

test each element has its own statements
with set seen { type ipv4_addr; size 100; flags dynamic; }
rule add @seen { ip saddr counter } counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set seen expr [ counter pkts 0 bytes 0 ] ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 1 update @seen { ip saddr limit rate 1/hour burst 2 packets } counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset update reg_key 1 set seen expr [ limit rate 1/hour burst 2 type packets flags 0x0 ] ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 4)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 2
    pass
counters
    seen 198.18.0.10: packets 3 bytes 84
    seen 198.18.0.11: packets 1 bytes 28
    c 1: packets 3 bytes 84
    c 2: packets 1 bytes 28

test a limit for each address
with set slow { type ipv4_addr; size 100; flags dynamic; }
rule update @slow { ip saddr limit rate over 1/hour burst 2 packets } counter drop
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset update reg_key 1 set slow expr [ limit rate 1/hour burst 2 type packets flags 0x1 ] ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 3)
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 1
    pass
counters
    c 1: packets 1 bytes 28

test values are added to maps
with map m { type inet_service : mark; size 100; flags dynamic; }
rule udp sport 1 add @m { udp dport : 0x7 }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 0 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ immediate reg 2 0x00000007 ]
    [ dynset add reg_key 1 set m sreg_data 2 ]
rule meta mark set udp dport map @m counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ lookup reg 1 set m dreg 1 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 2 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass (mark 0x7)
packet ip 198.18.0.10 > 198.19.0.2 / udp 2 > 53
    pass (mark 0x7)
counters
    c 2: packets 2 bytes 56

test elements end with their time, update renews it
engines interpreter
with set seen { type ipv4_addr; size 100; flags dynamic,timeout; timeout 10s; }
rule udp dport 1 add @seen { ip saddr }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set seen ]
rule udp dport 2 update @seen { ip saddr timeout 20s }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset update reg_key 1 set seen timeout 20000ms ]
rule ip saddr @seen counter drop
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ lookup reg 1 set seen ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 5)
packet +9s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 5)
packet +1s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 5)
packet +19s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 5)
packet +19s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    drop (c handle 5)
packet +1s ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 3: packets 5 bytes 140
