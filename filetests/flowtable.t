# What flowtables forward, and what they leave to rules. Packets are the same as without the table; counters tell which way they took.

engines interpreter
hook ip forward

test UDP leaves the rules with its second packet, and answers too
with flowtable f { hook ingress priority 0; devices = { lan, wan }; }
rule flow add @f
    [ flow_offload flowtable f ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "one"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "two"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "three"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "answer"
    pass
counters
    c 2: packets 2 bytes 62

test the same at early ingress
with flowtable f { hook early_ingress priority 0; devices = { lan, wan }; }
rule flow add @f
    [ flow_offload flowtable f ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "one"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "two"
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "three"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000 / "answer"
    pass
counters
    c 2: packets 2 bytes 62

test a flow without packets comes back after half a minute
with flowtable f { hook ingress priority 0; devices = { lan, wan }; }
rule flow add @f
    [ flow_offload flowtable f ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
packet +29s ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
packet +31s ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
counters
    c 2: packets 4 bytes 112

test fragments, options, a TTL that ends and what does not fit take the normal way
with flowtable f { hook ingress priority 0; devices = { lan, wan, dmz }; }
rule flow add @f
    [ flow_offload flowtable f ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.18.5.20 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.18.5.20 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.18.5.20 id 7 frag 0+ / udp 1000 > 53 length 24 / zeros 8
    drop
packet ip 198.18.0.10 > 198.18.5.20 id 7 frag 2 proto 17 / zeros 8
    pass
    dmz: ether 02:00:00:00:05:01 > 02:00:00:00:05:20 / ip 198.18.0.10 > 198.18.5.20 ttl 63 / udp 1000 > 53, 50 bytes
packet ip 198.18.0.10 > 198.18.5.20 options 01010101 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.18.5.20 ttl 1 / udp 1000 > 53
    pass (TTL exceeded)
packet ip 198.18.0.10 > 198.18.5.20 df / udp 1000 > 53 / zeros 1400
    pass (packet too big)
packet ip 198.18.0.10 > 198.18.5.20 / udp 1000 > 53 / zeros 1400
    pass
packet ip 198.18.0.10 > 198.18.5.20 / udp 1000 > 53
    pass
counters
    c 2: packets 5 bytes 1560

test TCP leaves the rules when it is used in both directions, closes there, and a SYN comes back
with flowtable f { hook ingress priority 0; devices = { lan, wan }; }
rule flow add @f
    [ flow_offload flowtable f ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 80 seq 100 syn
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / tcp 80 > 1000 seq 900 ack 101 syn
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 80 seq 101 ack 901
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 80 seq 101 ack 901 psh / "data"
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / tcp 80 > 1000 seq 901 ack 105 fin
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 80 seq 105 ack 902 fin
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / tcp 80 > 1000 seq 902 ack 106
    pass
packet ip 198.18.0.10 > 198.19.0.2 / tcp 1000 > 80 seq 5000 syn
    pass
counters
    c 2: packets 4 bytes 160

test what rules drop before it is established is not offloaded
with flowtable f { hook ingress priority 0; devices = { lan, wan }; }
rule udp dport 9 drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000900 ]
    [ immediate reg 0 drop ]
rule ct state established flow add @f
    [ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000002 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ flow_offload flowtable f ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 9
    drop (c handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 9
    drop (c handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
packet wan ip 198.19.0.2 > 198.18.0.10 / udp 53 > 1000
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53
    pass
counters
    c 3: packets 3 bytes 84

test translated flows leave as translated
with flowtable f { hook ingress priority 0; devices = { lan, wan }; }
with chain post { type nat hook postrouting priority 100; oifname "wan" masquerade; }
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ masq ]
rule flow add @f
    [ flow_offload flowtable f ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "one"
    pass, 25: 9cc612000a -> a4c6130001, 41: 1a -> 22
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "two"
    pass, 25: 9cc612000a -> a4c6130001, 41: 11 -> 19
packet ip 198.18.0.10 > 198.19.0.2 / udp 1000 > 53 / "three"
    pass, 25: 9ac612000a -> a2c6130001, 41: b7 -> bf
packet wan ip 198.19.0.2 > 198.19.0.1 / udp 53 > 1000 / "answer"
    drop
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.19.0.2 > 198.18.0.10 ttl 63 / udp 53 > 1000, 48 bytes
packet wan ip 198.19.0.2 > 198.19.0.1 / udp 53 > 1000 / "answer"
    drop
    lan: ether 02:00:00:00:01:01 > 02:00:00:00:01:10 / ip 198.19.0.2 > 198.18.0.10 ttl 63 / udp 53 > 1000, 48 bytes
counters
    c 2: packets 2 bytes 62
