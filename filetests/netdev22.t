# The two rulesets with fib of the NetDev 2.2 talk "nftables in 2017": reverse-path filtering where frames come in, and
# blackholes that routes set off from afar. The routes are those of tests/kernel/net.rs.
engines interpreter kernel

test reverse-path filter at ingress
hook netdev ingress lan
rule fib saddr . iif oif missing counter drop
    [ fib saddr . iif oif present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
packet lan ip 198.19.0.2 > 198.18.5.20 / udp 1 > 2
    drop (c handle 2)
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass
packet lan ip6 2001:db8:2::10 > 2001:db8:5::20 / udp 1 > 2
    drop (c handle 2)
packet lan arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
    pass
counters
    c 1: packets 2 bytes 76

test reverse-path filter that takes any way back
hook netdev ingress lan
rule fib saddr oif missing counter drop
    [ fib saddr oif present => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet lan ip 198.19.0.2 > 198.18.5.20 / udp 1 > 2
    pass
packet lan ip 198.18.66.1 > 198.18.5.20 / udp 1 > 2
    drop (c handle 2)
counters
    c 1: packets 1 bytes 28

test remotely triggered blackholing
hook inet prerouting
with chain c2 { counter drop; }
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule meta mark set 0xdead fib daddr . mark type vmap { blackhole : drop, prohibit : jump c2, unreachable : drop }
    [ immediate reg 1 0x0000dead ]
    [ meta set mark with reg 1 ]
    [ fib daddr . mark type => reg 1 ]
    [ lookup reg 1 set __map%d dreg 0 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0xdead)
packet lan ip 198.18.0.10 > 198.18.66.1 / udp 1 > 2
    nothing (route blackhole)
packet lan ip 198.18.0.10 > 198.18.65.1 / udp 1 > 2
    pass (route prohibit)
packet lan ip 198.18.0.10 > 198.18.64.1 / udp 1 > 2
    pass (route unreachable)
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
    pass (mark 0xdead)
packet lan ip6 2001:db8:1::10 > 2001:db8:66::1 / udp 1 > 2
    nothing (c handle 5)
packet lan ip6 2001:db8:1::10 > 2001:db8:65::1 / udp 1 > 2
    drop (c2 handle 3)
counters
    c2 1: packets 1 bytes 48
    c 2: packets 5 bytes 160

test remotely triggered blackholing at ingress
hook netdev ingress lan
with chain c2 { counter drop; }
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule meta mark set 0xdead fib daddr . mark type vmap { blackhole : drop, prohibit : jump c2, unreachable : drop }
    [ immediate reg 1 0x0000dead ]
    [ meta set mark with reg 1 ]
    [ fib daddr . mark type => reg 1 ]
    [ lookup reg 1 set __map%d dreg 0 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass (mark 0xdead)
packet lan ip 198.18.0.10 > 198.18.66.1 / udp 1 > 2
    pass (mark 0xdead)
packet lan ip 198.18.0.10 > 198.18.65.1 / udp 1 > 2
    pass (mark 0xdead)
packet lan ip6 2001:db8:1::10 > 2001:db8:66::1 / udp 1 > 2
    drop (c handle 5)
counters
    c2 1: packets 0 bytes 0
    c 2: packets 3 bytes 84
