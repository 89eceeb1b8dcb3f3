# immediate verdicts, chains and policies (net/netfilter/nf_tables_core.c).
engines interpreter kernel
hook netdev ingress lan

test the first final verdict counts
rule udp dport 1 accept
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ immediate reg 0 accept ]
rule udp dport 1-2 counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp gte reg 1 0x00000100 ]
    [ cmp lte reg 1 0x00000200 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (c handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28

test a policy decides what no rule does
policy drop
rule udp dport 1 accept
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ immediate reg 0 accept ]
rule udp dport 2 return
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ immediate reg 0 return ]
rule udp dport 3 continue
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ immediate reg 0 continue ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (policy of c)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    drop (policy of c)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    drop (policy of c)
counters
    c 4: packets 2 bytes 56

test a chain without rules
policy drop
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (policy of c)
counters

test jumps come back, goto does not
with chain deeper { udp dport 3 counter return; udp dport 4 counter drop; counter; }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 return ]
    --
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000400 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
    --
    [ counter pkts 0 bytes 0 ]
with chain called { udp dport 1 counter drop; udp dport 2 counter accept; jump deeper; counter; }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
    --
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 accept ]
    --
    [ immediate reg 0 jump -> deeper ]
    --
    [ counter pkts 0 bytes 0 ]
with chain gone { udp dport 6 counter drop; counter; }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000600 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
    --
    [ counter pkts 0 bytes 0 ]
rule udp dport 1-4 jump called
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp gte reg 1 0x00000100 ]
    [ cmp lte reg 1 0x00000400 ]
    [ immediate reg 0 jump -> called ]
rule udp dport 5-6 goto gone
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp gte reg 1 0x00000500 ]
    [ cmp lte reg 1 0x00000600 ]
    [ immediate reg 0 goto -> gone ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (called handle 8)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    drop (deeper handle 6)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 5
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 6
    drop (gone handle 12)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 7
    pass
counters
    deeper 1: packets 1 bytes 28
    deeper 2: packets 1 bytes 28
    deeper 3: packets 0 bytes 0
    called 1: packets 1 bytes 28
    called 2: packets 1 bytes 28
    called 4: packets 1 bytes 28
    gone 1: packets 1 bytes 28
    gone 2: packets 1 bytes 28
    c 3: packets 2 bytes 56

test goto in a called chain comes back to the caller's caller
with chain last { counter; }
    [ counter pkts 0 bytes 0 ]
with chain middle { goto last; }
    [ immediate reg 0 goto -> last ]
with chain first { jump middle; counter; }
    [ immediate reg 0 jump -> middle ]
    --
    [ counter pkts 0 bytes 0 ]
rule jump first
    [ immediate reg 0 jump -> first ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
counters
    last 1: packets 1 bytes 28
    first 2: packets 1 bytes 28
    c 2: packets 1 bytes 28

test chains in a rule
rule udp dport 1-2 jump { udp dport 1 counter drop; counter; }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp gte reg 1 0x00000100 ]
    [ cmp lte reg 1 0x00000200 ]
    [ immediate reg 0 jump ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (__chain2 handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass
counters
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28
    c 4: packets 2 bytes 56

test statements before a verdict run, those of a rule that breaks do not
rule counter udp dport 1 counter drop
    [ counter pkts 0 bytes 0 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule meta mark set 1 udp dport 2 meta mark set 2
    [ immediate reg 1 0x00000001 ]
    [ meta set mark with reg 1 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ immediate reg 1 0x00000002 ]
    [ meta set mark with reg 1 ]
rule meta mark 1 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark 2 counter
    [ meta load mark => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 2)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0x2)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass (mark 0x1)
counters
    c 1: packets 3 bytes 84
    c 1: packets 1 bytes 28
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28

test other chains at the same hook by priority
with chain before { type filter hook ingress device lan priority -5; udp dport 1 counter drop; udp dport 2 counter accept; }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
    --
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 accept ]
with chain after { type filter hook ingress device lan priority 5; udp dport 2 counter drop; counter; }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000200 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
    --
    [ counter pkts 0 bytes 0 ]
rule udp dport 1 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 3 counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (before handle 4)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (after handle 6)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    drop (c handle 9)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    pass
counters
    before 1: packets 1 bytes 28
    before 2: packets 1 bytes 28
    after 1: packets 1 bytes 28
    after 2: packets 1 bytes 28
    c 1: packets 0 bytes 0
    c 2: packets 1 bytes 28
    c 3: packets 2 bytes 56

test IPv4, IPv6 and inet tables see what is theirs
hook ip prerouting
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28

test inet at ingress sees IP only
hook inet ingress lan
rule counter
    [ counter pkts 0 bytes 0 ]
rule meta nfproto ipv6 counter drop
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    drop (c handle 3)
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
    pass
packet "strange"
    pass
counters
    c 1: packets 2 bytes 76
    c 2: packets 1 bytes 48

test ARP
hook arp input
rule arp operation request counter
    [ payload load 2b @ network header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
rule arp saddr ip 198.18.0.10 counter drop
    [ payload load 4b @ network header + 14 => reg 1 ]
    [ cmp eq reg 1 0x0a0012c6 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
    nothing (c handle 3)
packet arp reply 02:00:00:00:01:10 198.18.0.10 > 02:00:00:00:01:01 198.18.0.1
    nothing (c handle 3)
packet ip 198.18.0.10 > 198.18.0.1 / udp 1 > 1
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 2 bytes 56

test own packets
hook inet output
policy drop
rule udp dport 1 accept
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ immediate reg 0 accept ]
rule meta l4proto icmp counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
packet host ip 198.19.0.1 > 198.19.0.2 id 7 / udp 1 > 1
    pass
packet host ip 198.19.0.1 > 198.19.0.2 id 7 / udp 1 > 2
    drop (policy of c)
packet host ip6 2001:db8:2::1 > 2001:db8:2::2 / udp 1 > 1
    pass
packet host ip 198.19.0.1 > 198.19.0.2 id 7 / icmp 8 0
    drop (policy of c)
counters
    c 2: packets 1 bytes 28

test frames that leave
hook netdev egress wan
rule udp dport 1 counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule ether type arp counter
    [ meta load iiftype => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ counter pkts 0 bytes 0 ]
rule ip ttl 63 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 1b @ network header + 8 => reg 1 ]
    [ cmp eq reg 1 0x0000003f ]
    [ counter pkts 0 bytes 0 ]
packet host:wan ip 198.19.0.1 > 198.19.0.2 / udp 1 > 1
    drop (c handle 2)
packet host:wan ip 198.19.0.1 > 198.19.0.2 / udp 1 > 2
    pass
packet host:wan arp request 02:00:00:00:02:01 198.19.0.1 > 198.19.0.2
    pass
packet host ip 198.19.0.1 > 198.19.0.2 id 7 / udp 1 > 1
    drop (c handle 2)
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (c handle 2)
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet lan ip 198.18.0.10 > 198.18.5.20 / udp 1 > 1
    pass
counters
    c 1: packets 3 bytes 126
    c 2: packets 1 bytes 42
    c 3: packets 1 bytes 42

test sixteen chains deep
with chain c15 { counter; }
    [ counter pkts 0 bytes 0 ]
with chain c14 { jump c15; counter; }
    [ immediate reg 0 jump -> c15 ]
    --
    [ counter pkts 0 bytes 0 ]
with chain c13 { jump c14; }
    [ immediate reg 0 jump -> c14 ]
with chain c12 { jump c13; }
    [ immediate reg 0 jump -> c13 ]
with chain c11 { jump c12; }
    [ immediate reg 0 jump -> c12 ]
with chain c10 { jump c11; }
    [ immediate reg 0 jump -> c11 ]
with chain c9 { jump c10; }
    [ immediate reg 0 jump -> c10 ]
with chain c8 { jump c9; }
    [ immediate reg 0 jump -> c9 ]
with chain c7 { jump c8; }
    [ immediate reg 0 jump -> c8 ]
with chain c6 { jump c7; }
    [ immediate reg 0 jump -> c7 ]
with chain c5 { jump c6; }
    [ immediate reg 0 jump -> c6 ]
with chain c4 { jump c5; }
    [ immediate reg 0 jump -> c5 ]
with chain c3 { jump c4; }
    [ immediate reg 0 jump -> c4 ]
with chain c2 { jump c3; }
    [ immediate reg 0 jump -> c3 ]
with chain c1 { jump c2; counter; }
    [ immediate reg 0 jump -> c2 ]
    --
    [ counter pkts 0 bytes 0 ]
rule jump c1
    [ immediate reg 0 jump -> c1 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    pass
counters
    c15 1: packets 1 bytes 28
    c14 2: packets 1 bytes 28
    c1 2: packets 1 bytes 28
    c 2: packets 1 bytes 28
