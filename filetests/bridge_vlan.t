# VLAN filtering: `lan` is an access port of VLAN 10, `wan` a trunk of 10 and 11, `br0` itself is in 10, with tags.
# The kernel at hand has no 802.1Q.
engines interpreter
hook bridge prerouting
net link add name br0 address 02:00:00:00:0a:00 type bridge stp_state 0 mcast_snooping 0 ageing_time 0 vlan_filtering 1 vlan_default_pvid 0
net link set lan master br0
net link set wan master br0
net link set dmz master br0
net link set br0 addrgenmode none up
net bridge vlan add dev lan vid 10 pvid untagged
net bridge vlan add dev wan vid 10-11
net bridge vlan add dev dmz vid 11 pvid untagged
net bridge vlan add dev br0 vid 10 self
net link add link br0 name br0.10 type vlan id 10
net link set br0.10 addrgenmode none up
net addr add 198.18.9.1/24 dev br0.10
net neigh add 198.18.9.2 lladdr 02:00:00:00:01:10 dev br0.10

test untagged frames get the port's VLAN after prerouting, and leave a trunk with it
with chain f { type filter hook forward priority 0; vlan id 10 counter; vlan id 11 counter; oifname lan counter; oifname wan counter; oifname dmz counter; }
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000a00 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000b00 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e616c 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
    --
    [ meta load oifname => reg 1 ]
    [ cmp eq reg 1 0x007a6d64 0x00000000 0x00000000 0x00000000 ]
    [ counter pkts 0 bytes 0 ]
rule vlan id 10 counter
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000a00 ]
    [ counter pkts 0 bytes 0 ]
rule meta ibrpvid 10 counter
    [ meta load bri_iifpvid => reg 1 ]
    [ cmp eq reg 1 0x0000000a ]
    [ counter pkts 0 bytes 0 ]
rule meta ibrvproto 8021q counter
    [ meta load bri_iifvproto => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ counter pkts 0 bytes 0 ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass (link broadcast not forwarded)
packet wan ether 02:00:00:00:02:02 > ff:ff:ff:ff:ff:ff / vlan 10 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass (link broadcast not forwarded)
packet wan ether 02:00:00:00:02:02 > ff:ff:ff:ff:ff:ff / vlan 11 prio 3 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass (VLAN filtered)
packet wan ether 02:00:00:00:02:02 > ff:ff:ff:ff:ff:ff / vlan 12 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    nothing (VLAN filtered)
packet wan ether 02:00:00:00:02:02 > ff:ff:ff:ff:ff:ff / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    nothing (VLAN filtered)
packet dmz ether 02:00:00:00:05:20 > ff:ff:ff:ff:ff:ff / vlan 10 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    nothing (VLAN filtered)
counters
    f 1: packets 1 bytes 28
    f 2: packets 0 bytes 0
    f 3: packets 1 bytes 28
    f 4: packets 1 bytes 28
    f 5: packets 1 bytes 28
    c 1: packets 2 bytes 56
    c 2: packets 1 bytes 28
    c 3: packets 6 bytes 168
    c 4: packets 6 bytes 168

test what frames become without rules
hook bridge output
rule meta mark set 1
    [ immediate reg 1 0x00000001 ]
    [ meta set mark with reg 1 ]
packet ether 02:00:00:00:01:10 > 02:00:00:00:02:02 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass
packet ether 02:00:00:00:01:10 > 02:00:00:00:0a:00 / ip 198.18.9.2 > 198.18.9.1 / udp 1 > 2
    pass
packet host ip 198.18.9.1 > 198.18.9.2 / udp 1 > 2
    pass (mark 0x1, mark 0x1)
counters

test a rule sees the tag where the frame leaves with one
hook bridge postrouting
rule vlan id 10 drop
    [ payload load 2b @ link header + 12 => reg 1 ]
    [ cmp eq reg 1 0x00000081 ]
    [ payload load 2b @ link header + 14 => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x0000ff0f ) ^ 0x00000000 ]
    [ cmp eq reg 1 0x00000a00 ]
    [ immediate reg 0 drop ]
rule counter
    [ counter pkts 0 bytes 0 ]
packet ether 02:00:00:00:01:10 > ff:ff:ff:ff:ff:ff / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    drop (c handle 2, link broadcast not forwarded)
packet wan ether 02:00:00:00:02:02 > ff:ff:ff:ff:ff:ff / vlan 10 / ip 198.18.0.10 > 198.18.0.20 / udp 1 > 2
    pass (link broadcast not forwarded)
counters
    c 2: packets 1 bytes 28
