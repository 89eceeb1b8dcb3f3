# counter, quota, limit, last (net/netfilter/nft_counter.c, nft_quota.c, nft_limit.c, nft_last.c), and objects.
engines interpreter kernel
hook netdev ingress lan

test counters count where they stand
rule counter udp dport 53 counter counter packets 10 bytes 1000
    [ counter pkts 0 bytes 0 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
    [ counter pkts 10 bytes 1000 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 54 / "123"
    pass
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53 / zeros 100
    pass
counters
    c 1: packets 3 bytes 187
    c 1: packets 2 bytes 156
    c 1: packets 12 bytes 1156

test a quota is used up by the packet that reaches it
rule udp dport 53 quota 84 bytes counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ quota bytes 84 consumed 0 flags 0 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 54 quota over 84 bytes counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003600 ]
    [ quota bytes 84 consumed 0 flags 1 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 54
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 54
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 54
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 54
    drop (c handle 3)
counters
    c 1: used 84 bytes
    c 1: packets 3 bytes 84
    c 2: used 84 bytes
    c 2: packets 1 bytes 28

test a quota that is used in part
rule quota 100 bytes used 50 bytes counter
    [ quota bytes 100 consumed 50 flags 0 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
    pass
counters
    c 1: used 100 bytes
    c 1: packets 1 bytes 28

test a packet limit lets its burst through
rule udp dport 1 limit rate 1/hour burst 3 packets counter accept
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ limit rate 1/hour burst 3 type packets flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 accept ]
rule udp dport 2 limit rate over 1/hour burst 2 packets counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ limit rate 1/hour burst 2 type packets flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule udp dport 3 limit rate 1/hour counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ limit rate 1/hour burst 5 type packets flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 1: packets 3 bytes 84
    c 2: packets 1 bytes 28
    c 3: packets 5 bytes 140
    c 4: packets 9 bytes 252

test a byte limit
rule udp dport 1 limit rate 100 bytes/day counter accept
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ limit rate 100/day burst 0 type bytes flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 accept ]
rule udp dport 2 limit rate over 10 bytes/day burst 50 bytes counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ limit rate 10/day burst 50 type bytes flags 0x1 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 3)
counters
    c 1: packets 3 bytes 84
    c 2: packets 1 bytes 28

test tokens come back with time
engines interpreter
rule limit rate 1/second burst 2 packets counter accept
    [ limit rate 1/second burst 2 type packets flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 accept ]
rule counter drop
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 3)
packet +999ms ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 3)
packet +1ms ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 3)
packet +1h ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 3)
counters
    c 1: packets 5 bytes 140
    c 2: packets 4 bytes 112

test named objects
with counter hits { }
with quota q { 50 bytes; }
with limit l { rate 1/hour burst 1 packets; }
rule udp dport 1 counter name hits
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ objref type 1 name hits ]
rule udp dport 2 counter name "hits" drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ objref type 1 name hits ]
    [ immediate reg 0 drop ]
rule udp dport 3 quota name "q" counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ objref type 2 name q ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 4 limit name "l" counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000400 ]
    [ objref type 4 name l ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 6)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    pass
counters
    hits: packets 2 bytes 56
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28

test maps to objects
with counter a { packets 5 bytes 50; }
with counter b { }
with quota q { over 60 bytes; }
with map m { type ipv4_addr : counter; flags interval; elements = { 198.18.0.0/28 : "b" }; }
rule counter name udp dport map { 1 : "a", 2 : "b" } counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ objref sreg 1 set __objmap%d ]
    [ counter pkts 0 bytes 0 ]
rule counter name ip saddr map @m counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ objref sreg 1 set m ]
    [ counter pkts 0 bytes 0 ]
rule quota name udp dport map { 3 : "q" } counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ objref sreg 1 set __objmap%d ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 3
    drop (c handle 10)
packet ip 198.18.0.20 > 198.19.0.2 / udp 1 > 4
    pass
counters
    a: packets 6 bytes 78
    b: packets 2 bytes 56
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28
