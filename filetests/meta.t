# meta: what travels beside the packet (net/netfilter/nft_meta.c).
engines interpreter kernel
hook netdev ingress lan

test length counts from the network header on the way in
rule meta length 28 counter
rule meta length > 60 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 | pad 60
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 / zeros 40
counters

test protocol, and that of the transport header
rule meta protocol ip counter
rule meta protocol ip6 counter
rule meta protocol arp counter
rule meta protocol 0x88b5 counter
rule meta protocol vlan counter
rule meta l4proto udp counter
rule meta l4proto 51 counter
rule meta l4proto 59 counter
rule meta l4proto 253 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / hbh / udp 1 > 2
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / ah 1 1 / udp 1 > 2
packet ip6 2001:db8:1::10 > 2001:db8:2::2
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 17 / zeros 8
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / frag 2 7 next 60 / zeros 8
packet vlan 5 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet vlan 5 service / vlan 6 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / "unassigned"
packet ip 198.18.0.10 > 198.19.0.2 version 6 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2 / "12345678" | cut 42
packet arp request 02:00:00:00:01:10 198.18.0.10 > 198.18.0.1
packet "strange"
packet ether 02:00:00:00:01:10 > 02:00:00:00:01:01 length / hex aaaa0300000008004500
counters

test interfaces
rule iifname "lan" counter
rule iifname "la*" counter
rule iifname "wan" counter
rule iif "lan" counter
rule iiftype ether counter
rule iifgroup 0 counter
rule iifgroup 5 counter
rule meta iifkind "veth" counter
rule oifname "lan" counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test interfaces at egress
hook netdev egress wan
rule iifname "lan" counter
rule oifname "wan" counter
rule oif "wan" counter
rule oiftype ether counter
rule oifgroup default counter
rule oifkind "veth" counter
packet host:wan ip 198.19.0.1 > 198.19.0.2 / udp 1 > 2
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test length counts from the link header on the way out
hook netdev egress wan
rule meta length 42 counter
rule meta length 28 counter
packet host:wan ip 198.19.0.1 > 198.19.0.2 / udp 1 > 2
packet lan ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test interfaces in the IP hooks
hook inet forward
rule iifname "lan" oifname "wan" counter
rule iif "lan" oif "dmz" counter
rule meta nfproto ipv4 counter
rule meta nfproto ipv6 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ip 198.18.0.10 > 198.18.5.20 / udp 1 > 2
packet ip6 2001:db8:1::10 > 2001:db8:2::2 / udp 1 > 2
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 1 > 2
counters

test no interface of departure before routing, none of arrival for own packets
hook inet prerouting
rule oif 0 counter
rule oifname "" counter
rule oifname "wan" counter
rule iifname "lan" counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test own packets
hook inet output
rule iifname "lan" counter
rule oifname "wan" counter
rule meta iifkind "" counter
packet host ip 198.19.0.1 > 198.19.0.2 / udp 1 > 2
packet host ip6 2001:db8:2::1 > 2001:db8:2::2 / udp 1 > 2
counters

test packet type
rule meta pkttype host counter
rule meta pkttype broadcast counter
rule meta pkttype multicast counter
rule meta pkttype other counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
packet ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / ip 198.18.0.10 > 198.18.0.255 / udp 1 > 2
packet ether 02:00:00:00:01:10 > 01:00:5e:00:00:09 / ip 198.18.0.10 > 224.0.0.9 / udp 1 > 2
packet ether 02:00:00:00:01:10 > 02:00:00:00:01:99 / ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters

test marks and priorities are written and read back
rule udp dport 1 meta mark set 0x10
rule udp dport 2 meta mark set udp sport
rule udp dport 3 meta mark set mark or 0x1 meta mark set mark xor 0x101
rule meta mark 0x10 counter
rule meta mark 1000 counter
rule meta mark & 0xff00 == 0x100 counter
rule meta mark 0 counter
rule udp dport 4 meta priority set 1:2
rule meta priority 1:2 counter
rule meta priority none counter
rule udp dport 5 meta pkttype set broadcast
rule meta pkttype broadcast counter drop
rule udp dport 6 meta nftrace set 1
rule meta nftrace 1 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 5
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 6
counters

test a mark that rules set chooses nothing else
hook inet forward
rule meta mark set 7 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
counters

test keys that captures do not have break the rule
rule meta skuid 0 counter
rule meta skgid 0 counter
rule meta rtclassid 0 counter
rule meta cgroup 1 counter
rule meta ipsec exists counter
rule meta ipsec missing counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
counters

test random numbers are below their bound
rule meta random < 0 counter
rule meta random >= 0 counter
rule meta cpu >= 0 counter
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
counters
