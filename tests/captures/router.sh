#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A client, a router with rules.nft and a server, each in a namespace, and traffic between them. The
# router's devices are captured as people capture them. Run in namespaces of its own (network,
# mounts), with the directory for the files, traffic.py and penstock as arguments. The network of the
# router is written as net.ip, and by `penstock net save` as saved.ip; what the kernel counted as
# kernel.json.
set -eu
cd "$1"
penstock=$3
mount -t tmpfs tmpfs /run
mkdir /run/netns
for name in client router server; do
    ip netns add $name
    ip -n $name link set lo up
    ip netns exec $name sysctl -qw net.ipv6.conf.default.accept_dad=0 \
        net.ipv6.conf.default.router_solicitations=0 net.ipv6.conf.all.forwarding=0
done
ip netns exec router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1

while read -r device far end; do
    ip -n router link add $device index $far type veth peer name eth0 netns $end
    ip -n router link set $device address 02:00:00:00:00:0$far
    ip -n $end link set eth0 address 02:00:00:00:01:0$far
done <<LINKS
lan 2 client
wan 3 server
LINKS
ip -n router addr add 198.18.1.1/24 dev lan
ip -n router addr add 2001:db8:1::1/64 dev lan
ip -n router addr add 198.18.2.1/24 dev wan
ip -n router addr add 2001:db8:2::1/64 dev wan
ip -n client addr add 198.18.1.2/24 dev eth0
ip -n client addr add 2001:db8:1::2/64 dev eth0
ip -n server addr add 198.18.2.2/24 dev eth0
ip -n server addr add 2001:db8:2::2/64 dev eth0
for name in client server; do ip -n $name link set eth0 up; done
for device in lan wan; do ip -n router link set $device up; done
ip -n client route add default via 198.18.1.1
ip -n client route add default via 2001:db8:1::1
ip -n server route add default via 2001:db8:2::1
ip -n server route add 198.18.1.0/24 via 198.18.2.1
# Neighbour discovery would go on between the end of the captures and that of the counters.
for family in 2001:db8: fe80:; do
    case $family in
    fe80:) client=fe80::ff:fe00:102 server=fe80::ff:fe00:103 lan=fe80::ff:fe00:2 wan=fe80::ff:fe00:3 ;;
    *) client=2001:db8:1::2 server=2001:db8:2::2 lan=2001:db8:1::1 wan=2001:db8:2::1 ;;
    esac
    ip -n router neigh add $client lladdr 02:00:00:00:01:02 dev lan
    ip -n router neigh add $server lladdr 02:00:00:00:01:03 dev wan
    ip -n client neigh add $lan lladdr 02:00:00:00:00:02 dev eth0
    ip -n server neigh add $wan lladdr 02:00:00:00:00:03 dev eth0
done

# The router's network, as `ip -batch` lines.
cat > net.ip <<NET
link add name lan index 2 address 02:00:00:00:00:02 type veth
link add name wan index 3 address 02:00:00:00:00:03 type veth
link set lan up
link set wan up
addr add 198.18.1.1/24 dev lan
addr add 2001:db8:1::1/64 dev lan
addr add 198.18.2.1/24 dev wan
addr add 2001:db8:2::1/64 dev wan
neigh add 198.18.1.2 lladdr 02:00:00:00:01:02 dev lan
neigh add 2001:db8:1::2 lladdr 02:00:00:00:01:02 dev lan
neigh add 198.18.2.2 lladdr 02:00:00:00:01:03 dev wan
neigh add 2001:db8:2::2 lladdr 02:00:00:00:01:03 dev wan
neigh add fe80::ff:fe00:102 lladdr 02:00:00:00:01:02 dev lan
neigh add fe80::ff:fe00:103 lladdr 02:00:00:00:01:03 dev wan
NET

sleep 2 # IPv6 addresses and groups settle
ip netns exec server python3 "$2" serve &
servers=$!
ip netns exec client python3 "$2" serve-as-client &
servers="$servers $!"
captures=""
capture() {
    ip netns exec router tcpdump -q -U -B 8192 "$@" 2>> tcpdump.log &
    captures="$captures $!"
}
capture -i lan -w lan.pcap
capture -i wan -w wan.pcap
capture -i any -w any.pcap
capture -i any -y LINUX_SLL -w any-sll.pcap
capture -i lan -s 128 -w lan-short.pcap
capture -i wan -s 128 -w wan-short.pcap
capture -i lan --time-stamp-precision=nano -w lan-nano.pcap
# shellcheck disable=SC2086
set -- "$1" "$2" $captures
waited=0
while [ "$(grep -o 'listening on' tcpdump.log | wc -l)" -lt $(($# - 2)) ] && [ $waited -lt 200 ]; do
    sleep 0.1
    waited=$((waited + 1))
done
ip netns exec router nft -f rules.nft
ip netns exec client python3 "$2" talk
ip netns exec server python3 "$2" talk-as-server
if grep -q service-ips rules.nft; then
    ip -n router route add default via 198.18.2.2
    ip netns exec client python3 "$2" talk-to-services
fi
# The router talks, too.
ip netns exec router ping -q -c 2 -i 0.2 198.18.2.2 > ping.log || :
ip netns exec router python3 "$2" talk-as-router
ip netns exec router nft -j list ruleset > kernel.json
ip netns exec router "$penstock" net save > saved.ip
# tcpdump gets frames up to a second late, and loses at its end what it has not got.
sleep 1.5
# shellcheck disable=SC2086
kill -INT $captures
# shellcheck disable=SC2086
wait $captures || :
# shellcheck disable=SC2086
kill $servers
