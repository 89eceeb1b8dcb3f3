# inner: loads from the packet that a tunnel carries (net/netfilter/nft_inner.c). nft 1.0.6 cannot say it to the kernel, which gets the programs. No rule drops: Linux 6.18 takes the headers that it has found in a dropped packet for those of the next one, if that is in the same memory.
engines interpreter programs
hook netdev ingress lan

test VXLAN: identifier and headers inside
rule udp dport 4789 vxlan vni 10 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000b512 ]
    [ inner type 1 hdrsize 8 flags f [ payload load 3b @ tunnel header + 4 => reg 1 ] ]
    [ cmp eq reg 1 0x000a0000 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 4789 vxlan ip saddr 198.19.0.9 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000b512 ]
    [ inner type 1 hdrsize 8 flags f [ meta load protocol => reg 1 ] ]
    [ cmp eq reg 1 0x00000008 ]
    [ inner type 1 hdrsize 8 flags f [ payload load 4b @ network header + 12 => reg 1 ] ]
    [ cmp eq reg 1 0x090013c6 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 4789 vxlan tcp dport 80 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000b512 ]
    [ inner type 1 hdrsize 8 flags f [ meta load l4proto => reg 1 ] ]
    [ cmp eq reg 1 0x00000006 ]
    [ inner type 1 hdrsize 8 flags f [ payload load 2b @ transport header + 2 => reg 1 ] ]
    [ cmp eq reg 1 0x00005000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4789 / vxlan 10 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / tcp 1000 > 80 syn
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4789 / vxlan 11 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip6 2001:db8::1 > 2001:db8::2 / tcp 1000 > 80 syn
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4789 / vxlan 10 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / udp 1000 > 80
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4790 / vxlan 10 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / tcp 1000 > 80 syn
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 4789 / "short"
    pass
counters
    c 1: packets 2 bytes 168
    c 2: packets 2 bytes 168
    c 3: packets 2 bytes 200

test GENEVE: after options
rule udp dport 6081 geneve ether saddr 02:00:00:00:00:11 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000c117 ]
    [ inner type 2 hdrsize 8 flags f [ payload load 6b @ link header + 6 => reg 1 ] ]
    [ cmp eq reg 1 0x00000002 0x00001100 ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 6081 geneve vni 7 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x0000c117 ]
    [ inner type 2 hdrsize 8 flags f [ payload load 3b @ tunnel header + 4 => reg 1 ] ]
    [ cmp eq reg 1 0x00070000 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 6081 / geneve 7 option 1 2 00000000 / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 6081 / geneve 8 / ether 02:00:00:00:00:13 > 02:00:00:00:00:12 / ip 198.19.0.9 > 198.19.0.8 / udp 1 > 2
    pass

test GRE: packets and frames
rule gre ip saddr 198.19.0.9 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000002f ]
    [ inner type 3 hdrsize 4 flags c [ meta load protocol => reg 1 ] ]
    [ cmp eq reg 1 0x00000008 ]
    [ inner type 3 hdrsize 4 flags c [ payload load 4b @ network header + 12 => reg 1 ] ]
    [ cmp eq reg 1 0x090013c6 ]
    [ counter pkts 0 bytes 0 ]
rule gre icmp type echo-request counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000002f ]
    [ inner type 3 hdrsize 4 flags c [ meta load protocol => reg 1 ] ]
    [ cmp eq reg 1 0x00000008 ]
    [ inner type 3 hdrsize 4 flags c [ meta load l4proto => reg 1 ] ]
    [ cmp eq reg 1 0x00000001 ]
    [ inner type 3 hdrsize 4 flags c [ payload load 1b @ transport header + 0 => reg 1 ] ]
    [ cmp eq reg 1 0x00000008 ]
    [ counter pkts 0 bytes 0 ]
rule gretap vlan id 5 counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x0000002f ]
    [ inner type 4 hdrsize 4 flags e [ payload load 2b @ link header + 12 => reg 1 ] ]
    [ cmp eq reg 1 0x00000081 ]
    [ inner type 4 hdrsize 4 flags e [ payload load 2b @ link header + 14 => reg 1 ] ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000500 ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / gre / ip 198.19.0.9 > 198.19.0.8 / icmp 8 0
    pass
packet ip 198.18.0.10 > 198.19.0.2 / gre key 1 seq 2 / ip 198.19.0.9 > 198.19.0.8 / icmp 8 0
    pass
packet ip 198.18.0.10 > 198.19.0.2 / gre / ip6 2001:db8::1 > 2001:db8::2 / icmp6 128 0
    pass
packet ip 198.18.0.10 > 198.19.0.2 / gre / ether 02:00:00:00:00:11 > 02:00:00:00:00:12 / vlan 5 / ip 198.19.0.9 > 198.19.0.8 / udp 1 > 2
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    pass
counters
    c 1: packets 2 bytes 112
    c 2: packets 2 bytes 112
    c 3: packets 1 bytes 70
