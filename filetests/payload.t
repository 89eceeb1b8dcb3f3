# payload: loads from the packet (net/netfilter/nft_payload.c).
engines interpreter kernel
hook netdev ingress lan

test transport header: ports
rule udp dport 53 counter drop
rule tcp sport 1000 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "query"
packet ip 198.18.0.10 > 198.19.0.2 / udp 53 > 1000
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 53 syn
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1000 > 53
packet ip 198.18.0.10 > 198.19.0.2 options 01010100 / udp 1000 > 53
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
counters

test transport header: behind extension headers
rule udp dport 53 counter drop
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / hbh / dst / udp 1000 > 53
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / rt 0 0 / dst / udp 1000 > 53
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ah 1 1 / udp 1000 > 53
packet ip 198.18.0.10 > 198.19.0.2 / ah 1 1 / udp 1000 > 53
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ext 60 9 000000000000 / udp 1000 > 53
counters

# Loads of 1, 2 and 4 bytes at a multiple of their length take data for a header in a later fragment of IPv4: such
# expressions are evaluated without a look at the fragment offset (nft_payload_fast_eval()).
test transport header: later fragments
rule udp dport 53 counter
rule udp length 8 counter
rule @th,0,64 0x03e8003500080000 counter
rule @th,8,16 0xe800 counter
packet ip 198.18.0.10 > 198.19.0.2 frag 0+ / udp 1000 > 53 / "12345678"
packet ip 198.18.0.10 > 198.19.0.2 frag 2 proto 17 / hex 03e8003500080000
packet ip 198.18.0.10 > 198.19.0.2 frag 2+ proto 17 / zeros 8
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 0+ 7 / udp 1000 > 53 / "12345678"
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / hex 03e8003500080000
counters

test transport header: what is cut is not loaded
rule udp sport 1000 counter
rule udp dport 53 counter
rule udp checksum 0 counter
packet ip 198.18.0.10 > 198.19.0.2 length 24 / udp 1000 > 53 | cut 38
packet ip 198.18.0.10 > 198.19.0.2 length 22 / udp 1000 > 53 | cut 36
packet ip 198.18.0.10 > 198.19.0.2 length 21 / udp 1000 > 53 | cut 35
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 checksum 0
# The packet says that it is longer than it is: there is no transport header at all.
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "query" | cut 42
counters

test network header: fields of IPv4
rule ip saddr 198.18.0.10 counter
rule ip daddr 198.19.0.0/16 counter
rule ip ttl 1 counter
rule ip id 7 counter
rule ip length 28 counter
rule ip protocol udp counter
rule ip checksum 0 counter
packet ip 198.18.0.10 > 198.19.0.2 ttl 1 id 7 / udp 1 > 2
packet ip 198.18.0.11 > 198.18.5.20 checksum 0 / udp 1 > 2 / "x"
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 | cut 33
packet ip 198.18.0.10 > 198.19.0.2 version 5 / udp 1 > 2
counters

test network header: bits within bytes
rule ip version 4 counter
rule ip hdrlength 6 counter
rule ip dscp 46 counter
rule ip dscp cs1 counter
rule ip ecn ce counter
rule ip frag-off & 0x1fff != 0 counter
rule ip frag-off & 0x4000 != 0 counter
rule ip frag-off & 0x2000 != 0 counter
packet ip 198.18.0.10 > 198.19.0.2 tos 0xb8 df / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 tos 0x23 options 01010100 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 frag 0+ / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 frag 3 proto 17 / zeros 8
counters

test network header: fields of IPv6
rule ip6 saddr 2001:db8:1::10 counter
rule ip6 daddr 2001:db8:2::/48 counter
rule ip6 hoplimit 255 counter
rule ip6 nexthdr udp counter
rule ip6 length 8 counter
rule ip6 flowlabel 0x12345 counter
rule ip6 dscp af41 counter
rule ip6 ecn ect1 counter
rule ip6 version 6 counter
packet ip6 2001:db8:1::10 > 2001:db8:2::2 ttl 255 flow 0x12345 class 0x89 / udp 1 > 2
packet ip6 2001:db8:1::11 > 2001:db8:3::2 / dst / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2 | cut 53
counters

test network header: ARP
rule arp operation request counter
rule arp operation 2 counter
rule arp saddr ip 198.18.0.10 counter
rule arp daddr ether 02:00:00:00:01:01 counter
rule arp htype 1 counter
rule arp plen 4 counter
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
packet arp reply 02:00:00:00:01:10 198.18.0.10 > 02:00:00:00:01:01 198.18.0.1
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1 operation 3 | cut 30
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test link header
rule ether saddr 02:00:00:00:01:10 counter
rule ether daddr 02:00:00:00:01:01 counter
rule ether type ip counter
rule ether type 0x88b5 counter
rule @ll,40,8 1 counter
rule @ll,6,1 1 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ether 02:00:00:00:01:11 > ff:ff:ff:ff:ff:ff / hex 0000
packet ether 02:00:00:00:01:10 > 02:00:00:00:01:01 type 0x0800 / hex 45
counters

test link header: the tag is put back for loads
rule vlan id 5 counter
rule vlan pcp 3 counter
rule vlan dei 1 counter
rule vlan type ip counter
rule ether type vlan counter
rule @ll,96,48 0x810060050800 counter
rule @ll,0,128 0x02000000010102000000011081006005 counter
rule @ll,112,24 0x600508 counter
rule udp dport 2 counter
packet vlan 5 prio 3 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet vlan 5 dei / ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
packet vlan 6 service / vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test link header: loads that begin behind the tag see the frame without it
rule @ll,144,8 0x45 counter
rule @ll,128,8 0x08 counter
rule @ll,176,8 64 counter
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test data behind the transport header
rule @ih,0,32 0x47455420 counter
rule @ih,32,8 0x2f counter
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 80 psh ack 1 / "GET /"
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 80 psh ack 1 timestamp 1 2 / "GET /"
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 80 psh ack 1 header 24 / "....GET /"
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 80 / "GET /"
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 80 / "GET /"
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 80 / "GET"
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0 / "GET /"
packet ip 198.18.0.10 > 198.19.0.2 / gre proto 0x88b5 / "GET /"
packet ip 198.18.0.10 > 198.19.0.2 / gre key 1 proto 0x88b5 / "GET /"
packet ip 198.18.0.10 > 198.19.0.2 frag 1 proto 17 / hex 474554202f474554202f474554202f
counters

test widths that are no power of two
rule @nh,96,24 0xc61200 counter
rule @nh,64,40 0x4011000000 counter
rule @th,0,48 0x03e800350008 counter
rule @nh,96,64 0xc612000ac6130002 counter
rule @nh,0,128 != 0 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
packet ip 198.18.0.10 > 198.19.0.2 checksum 0 / udp 1000 > 53
packet ip 198.18.1.10 > 198.19.0.2 / tcp 1000 > 53
counters

test fields of transport protocols
rule tcp flags syn counter
rule tcp flags & (syn | ack) == syn | ack counter
rule tcp sequence 9 counter
rule tcp ackseq 7 counter
rule tcp doff 6 counter
rule tcp window 500 counter
rule tcp urgptr 3 counter
rule udplite checksum 0 counter
rule udplite dport 9 counter
rule icmp type echo-request counter
rule icmp code 4 counter
rule icmp id 5 counter
rule icmp sequence 6 counter
rule icmp mtu 1400 counter
rule icmp gateway 198.18.0.9 counter
rule icmpv6 type echo-reply counter
rule icmpv6 mtu 1280 counter
rule esp spi 100 counter
rule ah spi 200 counter
rule comp cpi 3 counter
rule th dport 9 counter
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 9 syn seq 9 mss 1460
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1 > 2 syn ack 7 window 500 urgent 3
packet ip 198.18.0.10 > 198.19.0.2 / udplite 1 > 9
packet ip 198.18.0.10 > 198.19.0.2 / icmp 8 0 rest 0x00050006
packet ip 198.18.0.10 > 198.19.0.2 / icmp 3 4 rest 1400
packet ip 198.18.0.10 > 198.19.0.2 / icmp 5 1 rest 0xc6120009
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 129 0 rest 0x00050006
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp6 2 0 rest 1280
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / icmp 8 0 rest 0x00050006
packet ip 198.18.0.10 > 198.19.0.2 / esp 100 1 / zeros 8
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / esp 100 1 / zeros 8
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ah 200 1 / udp 1 > 9
packet ip 198.18.0.10 > 198.19.0.2 proto 108 / hex 1100000301020304
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 9
packet ip 198.18.0.10 > 198.19.0.2 / dccp 1 > 9 type 0
counters

test fields of SCTP, DCCP and IGMP
rule sctp vtag 7 counter
rule sctp checksum 0 counter
rule dccp sport 1 counter
rule dccp type request counter
rule dccp type 9 counter
rule igmp type membership-query counter
rule igmp group 224.0.0.9 counter
rule igmp mrt 100 counter
packet ip 198.18.0.10 > 198.19.0.2 / sctp 1 > 2 vtag 7 checksum 0
packet ip 198.18.0.10 > 198.19.0.2 / dccp 1 > 2 type 0
packet ip 198.18.0.10 > 198.19.0.2 / dccp 3 > 4 type 9
packet ip 198.18.0.10 > 198.19.0.2 / igmp 17 224.0.0.9 mrt 100
packet ip 198.18.0.10 > 198.19.0.2 / igmp 22 224.0.0.1
counters
