# ct: the packet's connection (net/netfilter/nft_ct.c). The chain is after connection tracking,
# before the end of the path, where connections are entered. Flows are UDP; what TCP does is in
# tests/kernel.
engines interpreter kernel
hook inet forward

test states of a flow
rule ct state new counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct state established counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct state related counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000004 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct state invalid counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000001 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct state untracked counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000040 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / icmp 3 3 / ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / icmp 3 3 / ip 198.18.0.10 > 198.19.0.2 / udp 1001 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / icmp 0 0 rest 0x00070001
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1000 > 53 / "hello"
    pass
packet wan ip6 2001:db8:2::2 > 2001:db8:1::10 / udp 53 > 1000 / "hello"
    pass
counters
    c 1: packets 3 bytes 119
    c 2: packets 3 bytes 119
    c 3: packets 1 bytes 61
    c 4: packets 2 bytes 89
    c 5: packets 0 bytes 0

test sets of states and negation
rule ct state established,related counter accept
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000006 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 accept ]
rule ct state != new counter
    [ ct load state => reg 1 ]
    [ cmp neq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule ct state vmap { new : accept, invalid : drop }
    [ ct load state => reg 1 ]
    [ lookup reg 1 set __map%d dreg 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / icmp 0 0 rest 0x00070001
    drop (c handle 5)
counters
    c 1: packets 1 bytes 33
    c 2: packets 1 bytes 28

test a flow that is dropped leaves no connection
rule ct state new counter drop
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule ct state established counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    drop (c handle 2)
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    drop (c handle 2)
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    drop (c handle 2)
counters
    c 1: packets 3 bytes 99
    c 2: packets 0 bytes 0

test direction and status
rule ct direction original counter
    [ ct load direction => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct direction reply counter
    [ ct load direction => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
rule ct status seen-reply counter
    [ ct load status => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct status assured counter
    [ ct load status => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000004 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct status confirmed counter
    [ ct load status => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct status snat counter
    [ ct load status => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000010 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct status 0 counter
    [ ct load status => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000000 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / icmp 0 0 rest 0x00070001
    pass
counters
    c 1: packets 2 bytes 66
    c 2: packets 1 bytes 33
    c 3: packets 2 bytes 66
    c 4: packets 0 bytes 0
    c 5: packets 2 bytes 66
    c 6: packets 0 bytes 0
    c 7: packets 0 bytes 0

test addresses and ports of both directions
rule ct original ip saddr 198.18.0.10 counter
    [ ct load src_ip => reg 1 , dir original ]
    [ cmp eq reg 1 0x0a0012c6 ]
    [ counter pkts 0 bytes 0 ]
rule ct original ip daddr 198.19.0.2 counter
    [ ct load dst_ip => reg 1 , dir original ]
    [ cmp eq reg 1 0x020013c6 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply ip saddr 198.19.0.2 counter
    [ ct load src_ip => reg 1 , dir reply ]
    [ cmp eq reg 1 0x020013c6 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply ip daddr != 198.18.0.10 counter
    [ ct load dst_ip => reg 1 , dir reply ]
    [ cmp neq reg 1 0x0a0012c6 ]
    [ counter pkts 0 bytes 0 ]
rule ct original ip6 saddr 2001:db8:1::10 counter
    [ ct load src_ip6 => reg 1 , dir original ]
    [ cmp eq reg 1 0xb80d0120 0x00000100 0x00000000 0x10000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply ip6 saddr 2001:db8:2::2 counter
    [ ct load src_ip6 => reg 1 , dir reply ]
    [ cmp eq reg 1 0xb80d0120 0x00000200 0x00000000 0x02000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto udp ct original proto-src 1000 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ ct load proto_src => reg 1 , dir original ]
    [ cmp eq reg 1 0x0000e803 ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto udp ct original proto-dst 53 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ ct load proto_dst => reg 1 , dir original ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto udp ct reply proto-src 53 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ ct load proto_src => reg 1 , dir reply ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
rule meta l4proto udp ct reply proto-dst 1000 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ ct load proto_dst => reg 1 , dir reply ]
    [ cmp eq reg 1 0x0000e803 ]
    [ counter pkts 0 bytes 0 ]
rule ct original protocol 17 counter
    [ ct load protocol => reg 1 , dir original ]
    [ cmp eq reg 1 0x00000011 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply l3proto ipv4 counter
    [ ct load l3protocol => reg 1 , dir reply ]
    [ cmp eq reg 1 0x00000002 ]
    [ counter pkts 0 bytes 0 ]
rule ct l3proto ipv6 counter
    [ ct load l3protocol => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    pass
packet lan ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1000 > 53 / "hello"
    pass
packet wan ip6 2001:db8:2::2 > 2001:db8:1::10 / udp 53 > 1000 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / icmp 8 0 rest 0x00070001
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / icmp 0 0 rest 0x00070001
    pass
counters
    c 1: packets 4 bytes 122
    c 2: packets 4 bytes 122
    c 3: packets 4 bytes 122
    c 4: packets 0 bytes 0
    c 5: packets 2 bytes 106
    c 6: packets 2 bytes 106
    c 7: packets 4 bytes 172
    c 8: packets 4 bytes 172
    c 9: packets 4 bytes 172
    c 10: packets 4 bytes 172
    c 11: packets 4 bytes 172
    c 12: packets 4 bytes 122
    c 13: packets 2 bytes 106

test marks stay with the connection
rule ct mark 0 ct mark set 7
    [ ct load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ immediate reg 1 0x00000007 ]
    [ ct set mark with reg 1 ]
rule ct mark 7 ct direction reply counter ct mark set ct mark | 0x100
    [ ct load mark => reg 1 ]
    [ cmp eq reg 1 0x00000007 ]
    [ ct load direction => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ counter pkts 0 bytes 0 ]
    [ ct load mark => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0xfffffeff ) ^ 0x00000100 ]
    [ ct set mark with reg 1 ]
rule ct mark 0x107 counter meta mark set ct mark
    [ ct load mark => reg 1 ]
    [ cmp eq reg 1 0x00000107 ]
    [ counter pkts 0 bytes 0 ]
    [ ct load mark => reg 1 ]
    [ meta set mark with reg 1 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    pass (mark 0x107)
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass (mark 0x107)
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1001 > 53 / "hello"
    pass
counters
    c 2: packets 1 bytes 33
    c 3: packets 2 bytes 66

test labels are added to those that are there
rule ct direction original ct label set 3
    [ ct load direction => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ immediate reg 1 0x00000008 0x00000000 0x00000000 0x00000000 ]
    [ ct set label with reg 1 ]
rule ct direction reply ct label set 127
    [ ct load direction => reg 1 ]
    [ cmp eq reg 1 0x00000001 ]
    [ immediate reg 1 0x00000000 0x00000000 0x00000000 0x80000000 ]
    [ ct set label with reg 1 ]
rule ct label 3 counter
    [ ct load label => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 0x00000000 0x00000000 0x00000000 ) ^ 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ cmp neq reg 1 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct label 127 counter
    [ ct load label => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000000 0x00000000 0x00000000 0x80000000 ) ^ 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ cmp neq reg 1 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct label 4 counter
    [ ct load label => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000010 0x00000000 0x00000000 0x00000000 ) ^ 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ cmp neq reg 1 0x00000000 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
counters
    c 3: packets 3 bytes 99
    c 4: packets 2 bytes 66
    c 5: packets 0 bytes 0

test packets and bytes count from the first packet on
rule ct packets 1 counter
    [ ct load packets => reg 1 ]
    [ cmp eq reg 1 0x00000001 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct original packets > 1 counter
    [ ct load packets => reg 1 , dir original ]
    [ byteorder reg 1 = hton(reg 1, 8, 8) ]
    [ cmp gt reg 1 0x00000000 0x01000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply packets 1 counter
    [ ct load packets => reg 1 , dir reply ]
    [ cmp eq reg 1 0x00000001 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct bytes > 50 counter
    [ ct load bytes => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 8, 8) ]
    [ cmp gt reg 1 0x00000000 0x32000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct original bytes 33 counter
    [ ct load bytes => reg 1 , dir original ]
    [ cmp eq reg 1 0x00000021 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct avgpkt 33 counter
    [ ct load avgpkt => reg 1 ]
    [ cmp eq reg 1 0x00000021 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply avgpkt > 33 counter
    [ ct load avgpkt => reg 1 , dir reply ]
    [ byteorder reg 1 = hton(reg 1, 8, 8) ]
    [ cmp gt reg 1 0x00000000 0x21000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello there"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
counters
    c 1: packets 1 bytes 33
    c 2: packets 3 bytes 105
    c 3: packets 2 bytes 72
    c 4: packets 3 bytes 105
    c 5: packets 1 bytes 33
    c 6: packets 2 bytes 66
    c 7: packets 2 bytes 72

test how long a connection lives
rule ct expiration > 35s counter
    [ ct load expiration => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gt reg 1 0xb8880000 ]
    [ counter pkts 0 bytes 0 ]
rule ct expiration 29s-30s counter
    [ ct load expiration => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x48710000 ]
    [ cmp lte reg 1 0x30750000 ]
    [ counter pkts 0 bytes 0 ]
rule ct expiration <= 30s counter
    [ ct load expiration => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp lte reg 1 0x30750000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 2 bytes 66
    c 3: packets 3 bytes 99

test a key of no connection breaks, also in front of a negation
rule ct mark 0 counter
    [ ct load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct mark != 0 counter
    [ ct load mark => reg 1 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct zone 0 counter
    [ ct load zone => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct helper "ftp" counter
    [ ct load helper => reg 1 ]
    [ cmp eq reg 1 0x00707466 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct id != 0 counter
    [ ct load unknown => reg 1 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet wan ip 198.19.0.2 > 198.18.0.10 / icmp 0 0 rest 0x00070001
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 0 bytes 0
    c 3: packets 0 bytes 0
    c 4: packets 0 bytes 0
    c 5: packets 0 bytes 0

test a helper is that of the connection that expected this one
rule ct helper "ftp" counter
    [ ct load helper => reg 1 ]
    [ cmp eq reg 1 0x00707466 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct helper != "ftp" counter
    [ ct load helper => reg 1 ]
    [ cmp neq reg 1 0x00707466 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
counters
    c 1: packets 0 bytes 0
    c 2: packets 0 bytes 0

test untracked packets
hook inet prerouting
with chain raw { type filter hook prerouting priority -300; udp dport 53 notrack; }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ notrack ]
rule ct state untracked counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000040 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct state new counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct mark 0 counter
    [ ct load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 54 / "hello"
    pass
counters
    c 1: packets 1 bytes 33
    c 2: packets 1 bytes 33
    c 3: packets 1 bytes 33

test before tracking all packets are invalid, and nothing can be set
hook inet prerouting
with chain raw { type filter hook prerouting priority -300; ct state invalid counter; ct state new counter; ct mark set 5; ct mark 0 counter; }
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000001 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ immediate reg 1 0x00000005 ]
    [ ct set mark with reg 1 ]
    --
    [ ct load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct mark 0 counter
    [ ct load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
counters
    raw 1: packets 1 bytes 33
    raw 2: packets 0 bytes 0
    raw 4: packets 0 bytes 0
    c 1: packets 1 bytes 33

test zones
hook inet prerouting
with chain raw { type filter hook prerouting priority -300; udp dport 53 ct zone set 7; udp dport 54 ct original zone set 8; udp dport 55 ct reply zone set 9; ct state new counter; ct zone 7 counter; ct original zone 7 counter; ct reply zone 8 counter; ct status 0x808 counter; ct zone set 10; notrack; ct zone 0 counter; ct mark 0 counter; ct bytes 0 counter; ct original ip saddr 0.0.0.0 counter; ct l3proto 0 counter; meta l4proto udp ct original proto-src 0 counter; }
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ immediate reg 1 0x00000007 ]
    [ ct set zone with reg 1 ]
    --
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003600 ]
    [ immediate reg 1 0x00000008 ]
    [ ct set zone with reg 1 , dir original ]
    --
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003700 ]
    [ immediate reg 1 0x00000009 ]
    [ ct set zone with reg 1 , dir reply ]
    --
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load zone => reg 1 ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load zone => reg 1 , dir original ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load zone => reg 1 , dir reply ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load status => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000808 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ immediate reg 1 0x0000000a ]
    [ ct set zone with reg 1 ]
    --
    [ notrack ]
    --
    [ ct load zone => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load mark => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load bytes => reg 1 ]
    [ cmp eq reg 1 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load src_ip => reg 1 , dir original ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ ct load l3protocol => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ ct load proto_src => reg 1 , dir original ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct zone 7 counter
    [ ct load zone => reg 1 ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
rule ct original zone 7 counter
    [ ct load zone => reg 1 , dir original ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply zone 7 counter
    [ ct load zone => reg 1 , dir reply ]
    [ cmp eq reg 1 0x00000007 ]
    [ counter pkts 0 bytes 0 ]
rule ct original zone 8 counter
    [ ct load zone => reg 1 , dir original ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply zone 8 counter
    [ ct load zone => reg 1 , dir reply ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule ct reply zone 9 counter
    [ ct load zone => reg 1 , dir reply ]
    [ cmp eq reg 1 0x00000009 ]
    [ counter pkts 0 bytes 0 ]
rule ct zone 9 counter
    [ ct load zone => reg 1 ]
    [ cmp eq reg 1 0x00000009 ]
    [ counter pkts 0 bytes 0 ]
rule ct state new counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct state untracked counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000040 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct zone set 11
    [ immediate reg 1 0x0000000b ]
    [ ct set zone with reg 1 ]
rule ct zone 11 counter
    [ ct load zone => reg 1 ]
    [ cmp eq reg 1 0x0000000b ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 54 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 55 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 56 / "hello"
    pass
counters
    raw 4: packets 3 bytes 99
    raw 5: packets 0 bytes 0
    raw 6: packets 0 bytes 0
    raw 7: packets 0 bytes 0
    raw 8: packets 0 bytes 0
    raw 11: packets 0 bytes 0
    raw 12: packets 0 bytes 0
    raw 13: packets 0 bytes 0
    raw 14: packets 0 bytes 0
    raw 15: packets 0 bytes 0
    raw 16: packets 0 bytes 0
    c 1: packets 1 bytes 33
    c 2: packets 1 bytes 33
    c 3: packets 1 bytes 33
    c 4: packets 1 bytes 33
    c 5: packets 0 bytes 0
    c 6: packets 1 bytes 33
    c 7: packets 1 bytes 33
    c 8: packets 4 bytes 132
    c 9: packets 0 bytes 0
    c 11: packets 0 bytes 0

test a zone set after notrack has a packet tracked
hook inet prerouting
with chain raw { type filter hook prerouting priority -300; notrack; ct state untracked counter; ct zone set 3; ct state new counter; }
    [ notrack ]
    --
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000040 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ immediate reg 1 0x00000003 ]
    [ ct set zone with reg 1 ]
    --
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct zone 3 counter
    [ ct load zone => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
counters
    raw 2: packets 1 bytes 33
    raw 4: packets 1 bytes 33
    c 1: packets 1 bytes 33

test the same addresses in two zones are two connections
hook inet prerouting
with chain raw { type filter hook prerouting priority -300; iif "lan" ct zone set 1; iif "dmz" ct zone set 2; }
    [ meta load iif => reg 1 ]
    [ cmp eq reg 1 0x00000003 ]
    [ immediate reg 1 0x00000001 ]
    [ ct set zone with reg 1 ]
    --
    [ meta load iif => reg 1 ]
    [ cmp eq reg 1 0x00000007 ]
    [ immediate reg 1 0x00000002 ]
    [ ct set zone with reg 1 ]
rule ct state new counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct state established counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet dmz ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
counters
    c 1: packets 3 bytes 99
    c 2: packets 0 bytes 0

test timeouts by object
with ct timeout t1 { protocol udp; l3proto ip; policy = { unreplied : 100, replied : 200 }; }
with ct timeout t2 { protocol tcp; l3proto ip; policy = { established : 100 }; }
rule ct timeout set "t2"
    [ objref type 7 name t2 ]
rule udp dport 53 ct timeout set "t1"
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ objref type 7 name t1 ]
rule ct expiration 99s-100s counter
    [ ct load expiration => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0xb8820100 ]
    [ cmp lte reg 1 0xa0860100 ]
    [ counter pkts 0 bytes 0 ]
rule ct expiration 199s-200s counter
    [ ct load expiration => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp gte reg 1 0x58090300 ]
    [ cmp lte reg 1 0x400d0300 ]
    [ counter pkts 0 bytes 0 ]
rule ct expiration < 40s counter
    [ ct load expiration => reg 1 ]
    [ byteorder reg 1 = hton(reg 1, 4, 4) ]
    [ cmp lt reg 1 0x409c0000 ]
    [ counter pkts 0 bytes 0 ]
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "hello"
    pass
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 54 / "hello"
    pass
counters
    c 3: packets 2 bytes 66
    c 4: packets 0 bytes 0
    c 5: packets 2 bytes 66

test numbers of connections
rule ct state new ct count 2 counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ connlimit count 2 flags 0 ]
    [ counter pkts 0 bytes 0 ]
rule ct state new ct count over 2 counter drop
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ connlimit count 2 flags 1 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet +50ms lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet +50ms lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet +50ms lan ip 198.18.0.10 > 198.19.0.2 / udp 1001 > 53 / "hello"
    pass
packet +50ms lan ip 198.18.0.10 > 198.19.0.2 / udp 1002 > 53 / "hello"
    drop (c handle 3)
packet +50ms lan ip 198.18.0.10 > 198.19.0.2 / udp 1003 > 53 / "hello"
    drop (c handle 3)
counters
    c 1: packets 3 bytes 99
    c 2: packets 2 bytes 66

test numbers of connections by source
with set s { type ipv4_addr; size 16; flags dynamic; }
rule ct state new add @s { ip saddr ct count over 1 } counter drop
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ meta load nfproto => reg 1 ]
    [ cmp eq reg 1 0x00000002 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ dynset add reg_key 1 set s expr [ connlimit count 1 flags 1 ] ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet +50ms lan ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet +50ms lan ip 198.18.0.10 > 198.19.0.2 / udp 1001 > 53 / "hello"
    drop (c handle 3)
packet +50ms lan ip 198.18.0.11 > 198.19.0.2 / udp 1000 > 53 / "hello"
    pass
packet +50ms lan ip 198.18.0.11 > 198.19.0.2 / udp 1001 > 53 / "hello"
    drop (c handle 3)
counters
    c 1: packets 2 bytes 66

test a packet that its helper drops is logged
with ct helper h { type "sip" protocol udp; }
rule udp dport 5060 ct helper set "h" counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000c413 ]
    [ objref type 3 name h ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 5060 > 5060 / "INVITE sip:b@198.19.0.2 SIP/2.0"
    drop (log "nf_ct_sip: dropping packet: cannot parse cseq ", conntrack helper)
packet ip 198.18.0.10 > 198.19.0.2 / udp 5061 > 5060 / "OPTIONS sip:b@198.19.0.2 SIP/2.0"
    pass
counters
    c 1: packets 2 bytes 119
