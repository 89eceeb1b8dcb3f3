# inner: loads from the packet that a tunnel carries (net/netfilter/nft_inner.c). nft 1.0.6 cannot say it to the kernel.
engines interpreter
hook netdev ingress lan

test VXLAN: identifier and headers inside
rule udp dport 4789 vxlan vni 10 counter
rule udp dport 4789 vxlan ip saddr 198.19.0.9 counter
rule udp dport 4789 vxlan tcp dport { 80, 443 } counter drop
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4789 / vxlan 10 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / tcp 1000 > 80 syn
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4789 / vxlan 11 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip6 2001:db8::1 > 2001:db8::2 / tcp 1000 > 443 syn
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4789 / vxlan 10 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / udp 1000 > 80
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4790 / vxlan 10 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / tcp 1000 > 80 syn
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4789 / "short"
counters

test GENEVE: behind options
rule udp dport 6081 geneve ether saddr 02:00:00:00:00:11 counter
rule udp dport 6081 geneve vni 7 counter drop
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 6081 / geneve 7 option 1 2 00000000 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 6081 / geneve 8 / ether 02:00:00:00:00:13 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / udp 1 > 2

test GRE: packets and frames
rule gre ip saddr 198.19.0.9 counter
rule gre icmp type echo-request counter drop
rule gretap vlan id 5 counter drop
packet ip 198.18.0.10 > 198.19.0.2 / gre / ip 198.19.0.9 > 198.19.0.8 / icmp 8 0
packet ip 198.18.0.10 > 198.19.0.2 / gre key 1 seq 2 / ip 198.19.0.9 > 198.19.0.8 / icmp 8 0
packet ip 198.18.0.10 > 198.19.0.2 / gre / ip6 2001:db8::1 > 2001:db8::2 / icmp6 128 0
packet ip 198.18.0.10 > 198.19.0.2 / gre / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / vlan 5 / ip 198.19.0.9 > 198.19.0.8 / udp 1 > 2
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
counters
