#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Records examples/router/*.pcap: real programs talk through a kernel router that has router/net.ip and
# router/rules.nft; what arrives at the router is captured on each of its devices. router/kernel.txt is what the kernel
# counted: a replay counts the same, but for what the router itself sent to answer.
#
# Everything happens in namespaces that are removed at the end. Needs root, iproute2, nft, tcpdump, ethtool, python3,
# curl, dnsmasq, dig, iperf3, ping.
set -euo pipefail
cd "$(dirname "$0")/router"

for tool in ip nft tcpdump ethtool python3 curl dnsmasq dig iperf3 ping; do
	command -v "$tool" >/dev/null || { echo "record.sh: $tool is missing" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "record.sh: network namespaces need root" >&2; exit 1; }

id=penstock-$$
router=$id-router client=$id-client visitor=$id-visitor server=$id-server
work=$(mktemp -d)
cleanup() {
	for ns in $router $client $visitor $server; do
		ip netns pids "$ns" 2>/dev/null | xargs -r kill 2>/dev/null || true
	done
	sleep 0.2
	for ns in $router $client $visitor $server; do ip netns del "$ns" 2>/dev/null || true; done
	rm -rf "$work"
}
trap cleanup EXIT
for ns in $router $client $visitor $server; do
	ip netns add "$ns"
	ip -n "$ns" link set lo up
done
inside() { local ns=$1; shift; ip netns exec "$ns" "$@"; }

# The router, from the files that a replay gets.
inside $router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0 \
	net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
ip -n $router -batch net.ip

# The other end of each wire, with offloads off on both: what is captured is what a wire would carry.
wire() { # DEVICE NAMESPACE MAC IPV4/LEN IPV6/LEN GATEWAY4 GATEWAY6
	local peer mtu
	peer=$(ip -n $router -o link show "$1" | sed -E 's/^[0-9]+: [^@]+@([^:]+):.*/\1/')
	mtu=$(inside $router cat "/proc/sys/net/ipv6/conf/$1/mtu")
	ip -n $router link set "$peer" netns "$2" name eth0
	inside "$2" sysctl -qw net.ipv6.conf.eth0.accept_dad=0
	ip -n "$2" link set eth0 address "$3" mtu "$mtu" up
	ip -n "$2" addr add "$4" dev eth0
	ip -n "$2" addr add "$5" dev eth0 nodad
	if [ -n "$6" ]; then
		ip -n "$2" route add default via "$6"
		ip -n "$2" route add default via "$7"
	fi
	for end in "$router $1" "$2 eth0"; do
		# shellcheck disable=SC2086
		set -- $end
		inside "$1" ethtool -K "$2" tx off rx off sg off tso off gso off gro off >/dev/null 2>&1
	done
}
wire lan $client 02:00:00:00:01:10 198.18.0.10/24 2001:db8:1::10/64 198.18.0.1 2001:db8:1::1
wire guest $visitor 02:00:00:00:10:20 198.18.10.20/24 2001:db8:10::20/64 198.18.10.1 2001:db8:10::1
wire wan $server 02:00:00:00:02:02 198.19.0.2/24 2001:db8:2::2/64 "" ""
ip -n $server addr add 198.19.128.5/32 dev eth0
ip -n $server addr add 2001:db8:ff00::5/128 dev eth0 nodad
ip -n $server route add 198.18.0.0/16 via 198.19.0.1
ip -n $server route add 2001:db8:1::/48 via 2001:db8:2::1
ip -n $server route add 2001:db8:10::/48 via 2001:db8:2::1
sleep 2

captures=()
for device in lan guest wan; do
	inside $router tcpdump -i $device -Q in -s 0 -U --time-stamp-precision=nano -w "$work/$device.pcap" 2>"$work/$device.log" &
	captures+=($!)
done
until [ "$(cat "$work"/*.log | grep -c 'listening on')" = 3 ]; do sleep 0.1; done
inside $router nft -f rules.nft

# Services.
mkdir "$work/www"
head -c 60000 /dev/urandom | base64 > "$work/www/file"
# Without the look-up of its own name that http.server makes.
serve_http() { # NAMESPACE ADDRESS PORT
	inside "$1" python3 -c '
import http.server, socket, sys
socket.getfqdn = lambda name="": name
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
Server((sys.argv[1], int(sys.argv[2])), http.server.SimpleHTTPRequestHandler).serve_forever()' "$2" "$3" >/dev/null 2>&1
}
(cd "$work/www" && serve_http $server :: 80) &
inside $server dnsmasq --no-daemon --conf-file=/dev/null --no-resolv --no-hosts --bind-interfaces --interface=eth0 \
	--address=/example.net/198.19.128.5 --address=/example.net/2001:db8:ff00::5 \
	--txt-record=big.example.net,"$(head -c 180 /dev/zero | tr '\0' x)" >/dev/null 2>&1 &
inside $server iperf3 -s >/dev/null 2>&1 &
serve_http $client 198.18.0.10 8080 &
sleep 1

try() { timeout 10 "$@" >/dev/null 2>&1 || true; }
talk() { try ip netns exec $client "$@"; }
visit() { try ip netns exec $visitor "$@"; }
serve() { try ip netns exec $server "$@"; }

talk ping -n -c 3 -i 0.2 198.18.0.1
talk ping -n -c 3 -i 0.2 198.19.0.2
talk ping -n -c 3 -i 0.2 2001:db8:2::2
talk ping -n -c 2 -i 0.2 -s 1460 -M do 198.19.0.2                # 1488 bytes: fits
talk ping -n -c 1 -W 1 -s 1472 -M do 198.19.0.2                  # 1500 bytes: the router says that it does not
talk ping -n -c 2 -i 0.2 -s 1472 -M dont 198.19.128.5            # and fragments this
talk ping -n -c 2 -i 0.2 -W 1 -s 4000 -M dont 198.19.128.5       # the sender fragments
talk ping -n -c 2 -i 0.2 -W 1 -s 1452 2001:db8:ff00::5           # packet too big, then fragments
talk ping -n -c 1 -W 1 -t 1 198.19.0.2                           # time exceeded
talk ping -n -c 1 -W 1 -t 1 2001:db8:2::2
for name in www.example.net mail.example.net; do
	talk dig +tries=1 +time=2 @198.19.0.2 $name A
	talk dig +tries=1 +time=2 @2001:db8:2::2 $name AAAA
done
talk dig +tries=1 +time=2 +tcp @198.19.0.2 big.example.net TXT
visit dig +tries=1 +time=2 @198.19.0.2 www.example.net A
talk curl -s http://198.19.0.2/file
talk curl -s "http://[2001:db8:2::2]/file"
talk curl -s http://198.19.128.5/
visit curl -s http://198.19.0.2/
visit curl -s -m 2 http://198.18.0.10:8080/                    # guests stay out of the lan
visit curl -s -m 2 http://198.19.0.2:9000/                     # not a port for guests
talk iperf3 -c 198.19.0.2 -n 150K -b 2M
talk iperf3 -c 198.19.0.2 -n 120K -b 2M -R
talk iperf3 -c 2001:db8:2::2 -n 60K -b 2M -R
talk iperf3 -c 198.19.0.2 -u -b 500K -t 1 -l 1000
talk iperf3 -c 2001:db8:2::2 -u -b 300K -t 1 -l 1000 -R
talk ping -n -c 12 -i 0.02 198.18.0.1                            # more than the limit for echo requests
talk curl -s -m 2 telnet://198.19.0.2:23                      # reset by the router
talk dig +tries=1 +time=1 -p 161 @198.19.0.2 x                # unreachable from the router
talk curl -s -m 2 http://198.18.64.1/                         # no such network
serve curl -s -m 2 http://198.18.0.10:8080/                   # from outside: dropped
serve curl -s -m 1 http://198.19.0.1:22/
ip -n $client addr add 198.18.200.9/32 dev lo
talk ping -n -c 2 -i 0.2 -W 1 -I 198.18.200.9 198.19.0.2          # a source that the router has no way back to
sleep 0.5

kill "${captures[@]}"
wait "${captures[@]}" || true
for device in lan guest wan; do
	cat "$work/$device.pcap" > $device.pcap
	echo "$device.pcap: $(stat -c %s $device.pcap) bytes, $(tcpdump -nr $device.pcap 2>/dev/null | wc -l) frames"
done
inside $router nft list ruleset > kernel.txt
