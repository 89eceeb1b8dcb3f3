# payload: writes into the packet, with checksums (nft_payload_set_eval() of net/netfilter/nft_payload.c).
engines interpreter kernel
hook netdev ingress lan

test ports: the checksum follows
rule udp dport 53 udp dport set 5353 counter
rule tcp dport 80 tcp dport set 8080 tcp sport set 1 counter
rule udplite dport 9 udplite dport set 10 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "query"
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1000 > 53 / "query"
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 80 syn
packet ip 198.18.0.10 > 198.19.0.2 / udplite 1 > 9 / "lite"
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 54
counters

test a wrong checksum stays wrong by as much
rule udp dport 53 udp dport set 5353 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 checksum 0x1234
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 checksum 0xffff
counters

test a UDP checksum of zero
rule udp dport 53 udp dport set 5353 counter
rule ip saddr 198.18.0.10 ip saddr set 198.18.0.11 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 checksum 0
counters

test addresses: header and pseudo header
rule ip saddr set 198.18.0.99 counter
rule ip6 daddr set 2001:db8:2::99 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 53
packet ip 198.18.0.10 > 198.19.0.2 / udplite 1000 > 53
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / dccp 1 > 2 type 0
packet ip 198.18.0.10 > 198.19.0.2 frag 2 proto 17 / zeros 16
packet ip 198.18.0.10 > 198.19.0.2 frag 0+ / udp 1000 > 53 / zeros 16
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1000 > 53
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / tcp 1000 > 53
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 128 0
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / dst / udp 1000 > 53
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / zeros 16
packet ip 198.18.0.10 > 198.19.0.2 length 26 / udp 1000 > 53 | cut 40
counters

test fields of IPv4
rule ip ttl set 1 counter
rule ip id set 0x1234 counter
rule ip dscp set ef counter
rule ip ecn set ce counter
rule ip protocol set 253 counter
packet ip 198.18.0.10 > 198.19.0.2 ttl 64 tos 0x10 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 checksum 0x1234 / udp 1 > 2
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 | cut 30
counters

test fields of IPv6
rule ip6 hoplimit set 1 counter
rule ip6 dscp set cs7 counter
rule ip6 ecn set ect0 counter
rule ip6 flowlabel set 0x54321 counter
rule ip6 nexthdr set 253 counter
packet ip6 2001:db8:1::10 > 2001:db8:2::2 class 0x81 flow 0x12345 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test fields of transport protocols
rule tcp flags set syn | ack counter
rule tcp window set 1000 counter
rule tcp sequence set 0xffffffff counter
rule icmp type set echo-reply counter
rule icmp sequence set 9 counter
rule icmpv6 type set echo-reply counter
rule udp checksum set 0 counter
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0 rest 0x00010002
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 128 0 rest 0x00010002
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn | cut 52
packet ip 198.18.0.10 > 198.19.0.2 frag 1 proto 6 / zeros 24
counters

test SCTP: the CRC is made anew
rule sctp dport set 9 counter
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 chunk 1 0 00000001
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 checksum 0
counters

test link addresses
rule ether daddr set 02:00:00:00:01:99 counter
rule ether saddr set 02:aa:bb:cc:dd:ee counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test the tag outside the frame
rule vlan id set 7 counter
rule vlan pcp set 5 counter
rule ether type vlan counter
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet vlan 5 prio 3 dei service / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test raw writes
rule @nh,96,32 set 0xc6120063 counter
rule @th,0,16 set 7 counter
rule @ih,0,16 set 0x4142 counter
rule @ll,0,8 set 3 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "query"
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 53 / "query"
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
counters

test writes end a rule where there is nothing to write to
rule udp dport set 5353 counter
rule tcp dport set 80 counter
packet ip 198.18.0.10 > 198.19.0.2 frag 2 proto 17 / zeros 16
packet ip 198.18.0.10 > 198.19.0.2 length 22 / udp 1000 > 53 | cut 36
packet ip 198.18.0.10 > 198.19.0.2 length 24 / udp 1000 > 53 | cut 38
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / zeros 16
counters

test values from maps
rule udp dport set udp dport map { 53 : 5353, 80 : 8080 } counter
rule ip daddr set ip saddr map { 198.18.0.10 : 198.19.0.3 } counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 53
packet ip 198.18.0.11 > 198.19.0.2 / udp 1 > 80
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 99
counters
