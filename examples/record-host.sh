#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Records examples/host/*.pcap: what a kernel host with host/net.ip sends. `host.pcap` are the IP packets of its programs
# (curl, dig, ping), `raw.pcap` the frames that a DHCP client (udhcpc) sends past IP. Everything happens in namespaces that
# are removed at the end.
set -euo pipefail
cd "$(dirname "$0")/host"

for tool in ip tcpdump ethtool python3 curl dnsmasq dig ping udhcpc; do
	command -v "$tool" >/dev/null || { echo "record-host.sh: $tool is missing" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "record-host.sh: network namespaces need root" >&2; exit 1; }

id=penstock-$$
host=$id-host server=$id-server
work=$(mktemp -d)
cleanup() {
	for ns in $host $server; do ip netns pids "$ns" 2>/dev/null | xargs -r kill 2>/dev/null || true; done
	sleep 0.2
	for ns in $host $server; do ip netns del "$ns" 2>/dev/null || true; done
	rm -rf "$work"
}
trap cleanup EXIT
for ns in $host $server; do
	ip netns add "$ns"
	ip -n "$ns" link set lo up
done
inside() { local ns=$1; shift; ip netns exec "$ns" "$@"; }

inside $host sysctl -qw net.ipv6.conf.default.accept_dad=0
ip -n $host -batch net.ip
peer=$(ip -n $host -o link show wan | sed -E 's/^[0-9]+: [^@]+@([^:]+):.*/\1/')
ip -n $host link set "$peer" netns $server name eth0
ip -n $server link set eth0 address 02:00:00:00:02:02 up
ip -n $server addr add 198.19.0.2/24 dev eth0
ip -n $server addr add 2001:db8:2::2/64 dev eth0 nodad
for end in "$host wan" "$server eth0"; do
	# shellcheck disable=SC2086
	set -- $end
	inside "$1" ethtool -K "$2" tx off rx off sg off tso off gso off gro off >/dev/null 2>&1
done
sleep 2

record() { inside $host tcpdump -i wan -Q out -s 0 -U --time-stamp-precision=nano -w "$work/$1.pcap" "$2" 2>"$work/$1.log" & }
record host '(ip or ip6) and not port 67'
record raw 'udp port 67'
until [ "$(cat "$work"/*.log | grep -c 'listening on')" = 2 ]; do sleep 0.1; done

inside $server dnsmasq --no-daemon --conf-file=/dev/null --no-resolv --no-hosts --bind-interfaces --interface=eth0 \
	--dhcp-range=198.19.0.100,198.19.0.110 --dhcp-leasefile="$work/leases" --address=/example.net/198.19.0.2 >/dev/null 2>&1 &
inside $server python3 -c '
import http.server, socket
socket.getfqdn = lambda name="": name
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::", 80), http.server.SimpleHTTPRequestHandler).serve_forever()' >/dev/null 2>&1 &
sleep 1

try() { timeout 10 ip netns exec $host "$@" >/dev/null 2>&1 || true; }
try udhcpc -i wan -f -n -q -t 2 -T 1 -s /bin/true
try dig +tries=1 +time=2 @198.19.0.2 www.example.net A
try dig +tries=1 +time=2 @2001:db8:2::2 www.example.net AAAA
try curl -s http://198.19.0.2/
try curl -s "http://[2001:db8:2::2]/"
try curl -s -m 1 http://198.19.0.2:8080/
try ping -n -c 2 -i 0.2 198.19.0.2
try ping -n -c 2 -i 0.2 2001:db8:2::2
try udhcpc -i wan -f -n -q -t 1 -T 1 -s /bin/true
sleep 0.5

for name in host raw; do
	cat "$work/$name.pcap" > $name.pcap
	echo "$name.pcap: $(stat -c %s $name.pcap) bytes, $(tcpdump -nr $name.pcap 2>/dev/null | wc -l) frames"
done
