# The bridge family: `lan` and `wan` are ports of `br0`, which learns nothing.
engines interpreter kernel
hook bridge prerouting
net link add name br0 address 02:00:00:00:0a:00 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 ageing_time 0
net link set lan master br0
net link set wan master br0
net link set br0 addrgenmode none up
net addr add 198.18.9.1/24 dev br0

test devices at prerouting
rule iifname lan counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta oif 0 counter
    [ meta load oif => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta iif 8 counter
    [ meta load iif => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 0 bytes 0

test devices at forward
hook bridge forward
rule iifname lan oifname wan counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iifname wan oifname lan counter drop
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
packet wan ether 02:00:00:00:02:02 > 02:00:00:00:01:10 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    drop (c handle 3)
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28

test devices at postrouting
hook bridge postrouting
rule meta iif 0 oifname wan counter
    [ meta load iif => reg 1 ]
    [ cmp eq reg 1 0x00000000 ]
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iifname lan counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 0 bytes 0

test the host on the bridge
hook bridge input
rule iifname lan counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule iifname br0 counter
    [ meta load iifname => reg 1 ]
    [ cmp eq reg 1 0x00307262 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ip daddr 198.18.9.1 udp dport 53 counter drop
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 16 => reg 1 ]
    [ cmp eq reg 1 0x010912c6 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:0a:00 / ip 198.18.9.2 > 198.18.9.1 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:0a:00 / ip 198.18.9.2 > 198.18.9.1 / udp 1 > 53
    drop (c handle 4)
packet ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / ip 198.18.9.2 > 198.18.9.255 / udp 1 > 2
    pass
counters
    c 1: packets 3 bytes 84
    c 2: packets 0 bytes 0
    c 3: packets 1 bytes 28

test raw frames of the host pass output once for each port
hook bridge output
rule counter
    [ counter pkts 0 bytes 0 ]
rule oifname wan counter drop
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
packet host:br0 ether 02:00:00:00:0a:00 > ff:ff:ff:ff:ff:ff / arp request 02:00:00:00:0a:00 198.18.9.1 > 198.18.9.2
    drop (c handle 3)
counters
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28

test frames change on their way
hook bridge forward
rule oifname wan ether saddr set 02:00:00:00:0e:0e ip ttl set 7 counter
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ immediate reg 1 0x00000002 0x00000e0e ]
    [ payload write reg 1 => 6b @ link header + 6 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 2b @ network header + 8 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff00 ) ^ 0x00000007 ]
    [ payload write reg 1 => 2b @ network header + 8 csum_type 1 csum_off 10 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
rule meta mark set 5 counter
    [ immediate reg 1 0x00000005 ]
    [ meta set mark with reg 1 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass, 10: 0110 -> 0e0e, 22: 4011ee8e -> 0711278f (mark 0x5)
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28

test tags are left alone without filtering
rule vlan id 7 counter
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000700 ]
    [ counter pkts 0 bytes 0 ]
rule ether type vlan vlan pcp 3 counter
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 1b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x000000e0 ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000060 ]
    [ counter pkts 0 bytes 0 ]
rule vlan id 7 vlan type ip ip daddr 198.18.0.20 counter
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000700 ]
    [ payload load 2b @ link header + 16 => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 16 => reg 1 ]
    [ cmp eq reg 1 0x140012c6 ]
    [ counter pkts 0 bytes 0 ]
rule meta protocol ip counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / vlan 7 prio 3 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / vlan 0 prio 5 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / vlan 9 service / vlan 7 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28
    c 4: packets 2 bytes 56

test malformed packets pass without a transport header
rule meta l4proto udp counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ counter pkts 0 bytes 0 ]
rule ip saddr 198.18.0.10 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]
    [ cmp eq reg 1 0x0a0012c6 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 length 200 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 checksum 1 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 2 bytes 56

test to the host instead of over the bridge
rule ip daddr 198.18.9.1 meta pkttype set unicast ether daddr set 02:00:00:00:0a:00 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 16 => reg 1 ]
    [ cmp eq reg 1 0x010912c6 ]
    [ immediate reg 1 0x00000000 ]
    [ meta set pkttype with reg 1 ]
    [ immediate reg 1 0x00000002 0x0000000a ]
    [ payload write reg 1 => 6b @ link header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.9.2 > 198.18.9.1 / udp 1 > 2
    drop
    host: ip 198.18.9.2 > 198.18.9.1 ttl 64 / udp 1 > 2, 28 bytes
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.9.2 > 198.18.9.3 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28

test policy drop
policy drop
rule arp operation request counter accept
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000608 ]
    [ payload load 2b @ network header + 6 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 accept ]
packet ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / arp request 02:00:00:00:01:10 198.18.9.2 > 198.18.9.1
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.9.2 > 198.18.9.3 / udp 1 > 2
    drop (policy of c)
counters
    c 1: packets 1 bytes 28

test names of bridges
engines interpreter
hook bridge forward
rule meta ibrname br0 counter
    [ meta load bri_iifname => reg 1 ]
    [ cmp eq reg 1 0x00307262 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta obrname br0 counter
    [ meta load bri_oifname => reg 1 ]
    [ cmp eq reg 1 0x00307262 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule meta ibrname . meta obrname { br0 . br0 } counter
    [ meta load bri_iifname => reg 1 ]
    [ meta load bri_oifname => reg 2 ]
    [ lookup reg 1 set __set%d ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 1 bytes 28
    c 3: packets 1 bytes 28

test broute: the port takes the frame itself, and later chains do not see it
engines interpreter
with chain later { type filter hook prerouting priority 10; counter; }
    [ counter pkts 0 bytes 0 ]
with chain in { type filter hook input priority 0; counter; }
    [ counter pkts 0 bytes 0 ]
rule ip daddr 198.18.0.1 meta broute set 1 counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 16 => reg 1 ]
    [ cmp eq reg 1 0x010012c6 ]
    [ immediate reg 1 0x00000001 ]
    [ meta set broute with reg 1 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:01:01 / ip 198.18.0.10 > 198.18.0.1 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
counters
    later 1: packets 1 bytes 28
    in 1: packets 0 bytes 0
    c 1: packets 1 bytes 28

test the bridge's address
engines interpreter
rule ip daddr 198.18.9.1 meta pkttype set unicast ether daddr set meta ibrhwaddr counter
    [ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 16 => reg 1 ]
    [ cmp eq reg 1 0x010912c6 ]
    [ immediate reg 1 0x00000000 ]
    [ meta set pkttype with reg 1 ]
    [ meta load ibrhwaddr => reg 1 ]
    [ payload write reg 1 => 6b @ link header + 0 csum_type 0 csum_off 0 csum_flags 0x0 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.9.2 > 198.18.9.1 / udp 1 > 2
    drop
    host: ip 198.18.9.2 > 198.18.9.1 ttl 64 / udp 1 > 2, 28 bytes
counters
    c 1: packets 1 bytes 28

test reject before the bridge decides
engines interpreter
rule udp dport 53 counter reject
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
    [ reject type 2 code 1 ]
rule tcp dport 80 counter reject with tcp reset
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000006 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00005000 ]
    [ counter pkts 0 bytes 0 ]
    [ reject type 1 code 0 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 53
    drop (c handle 2)
    lan: ether 02:00:00:00:02:02 > 02:00:00:00:01:10 / ip 198.18.0.20 > 198.18.0.10 ttl 64 / icmp 3 3, 70 bytes
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / vlan 7 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 53
    drop (c handle 2)
    lan: ether 02:00:00:00:02:02 > 02:00:00:00:01:10 / vlan 7 / ip 198.18.0.20 > 198.18.0.10 ttl 64 / icmp 3 3, 74 bytes
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip6 2001:db8:1::10 > 2001:db8:1::20 / udp 1 > 53
    drop (c handle 2)
    lan: ether 02:00:00:00:02:02 > 02:00:00:00:01:10 / ip6 2001:db8:1::20 > 2001:db8:1::10 ttl 64 / icmp6 1 4, 110 bytes
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / tcp 1 > 80 syn
    drop (c handle 3)
    lan: ether 02:00:00:00:02:02 > 02:00:00:00:01:10 / ip 198.18.0.20 > 198.18.0.10 ttl 64 / tcp 80 > 1 flags 0x14, 54 bytes
packet ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / ip 198.18.0.10 > 198.18.0.255 / udp 1 > 53
    drop (c handle 2)
counters
    c 1: packets 4 bytes 132
    c 2: packets 1 bytes 40
    c 3: packets 0 bytes 0

test answers of reject pass output
engines interpreter
with chain out { type filter hook output priority 0; oifname lan counter; oifname wan counter; }
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
hook bridge input
rule counter reject with icmpx type admin-prohibited
    [ counter pkts 0 bytes 0 ]
    [ reject type 2 code 3 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:0a:00 / ip 198.18.9.2 > 198.18.9.1 / udp 1 > 53
    drop (c handle 5)
    lan: ether 02:00:00:00:0a:00 > 02:00:00:00:01:10 / ip 198.18.9.1 > 198.18.9.2 ttl 64 / icmp 3 13, 70 bytes
counters
    out 1: packets 1 bytes 56
    out 2: packets 0 bytes 0
    c 1: packets 1 bytes 28

test connections
engines interpreter
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
rule ct state untracked counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000040 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule ct state invalid counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000001 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
packet wan ether 02:00:00:00:02:02 > 02:00:00:00:01:10 / ip 198.18.0.20 > 198.18.0.10 / udp 2 > 1
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / arp request 02:00:00:00:01:10 198.18.9.2 > 198.18.9.1
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 length 200 / udp 1 > 2
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 2 bytes 56
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28

test fragments are whole for rules and fragments again on the wire
engines interpreter
rule ct state new udp dport 53 counter
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000008 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00003500 ]
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 id 9 frag 0+ / udp 1 > 53 length 24 checksum 0 / zeros 8
    drop
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 id 9 frag 2 proto 17 / zeros 8
    pass
    wan: ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 ttl 64 / udp 1 > 53, 50 bytes
counters
    c 1: packets 1 bytes 44
