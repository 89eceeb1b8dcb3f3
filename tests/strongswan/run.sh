#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two strongSwans with their own ESP (kernel-libipsec) talk in network namespaces. With the keys that they agreed on
# `penstock run` decrypts what went over the wire, and must find what went into the tunnel; and it encrypts packets, which the
# other strongSwan must let come out of its tunnel.
#
#     sudo tests/strongswan/run.sh target/debug/penstock [PROPOSAL]
#
# Proposals are those of keys.py: aes128gcm16, aes256gcm16, chacha20poly1305, aes128-sha256, aes256-sha384, aes256-sha512.
# Takes root, ip, tcpdump, charon and swanctl (Debian: strongswan-swanctl libcharon-extra-plugins strongswan-starter), python3
# with scapy. Nothing is left behind but what it prints.
set -euo pipefail

penstock=$(realpath "$1")
proposal=${2:-aes128gcm16}
here=$(mktemp -d)
left=esp-left-$$ right=esp-right-$$
pids=()

cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns del "$left" 2>/dev/null || true
    ip netns del "$right" 2>/dev/null || true
    rm -rf "$here"
}
trap cleanup EXIT

ip netns add "$left"
ip netns add "$right"
ip -n "$left" link add wire address 02:00:00:00:00:01 type veth peer name wire address 02:00:00:00:00:02 netns "$right"
side() { # namespace, own number, other's number
    ip -n "$1" link set lo up
    ip -n "$1" link set wire up
    ip -n "$1" addr add "198.18.0.$2/24" dev wire
    ip -n "$1" addr add "198.18.1$2.1/24" dev lo
}
side "$left" 1 2
side "$right" 2 1

charon() { # namespace, own number, other's number, start action
    mkdir -p "$here/$2"
    cat > "$here/$2/strongswan.conf" <<CONF
charon {
    load = random nonce aes sha1 sha2 hmac gcm chapoly ctr openssl curve25519 kdf pem x509 pubkey kernel-libipsec kernel-netlink socket-default vici
    plugins { vici { socket = unix://$here/$2/vici } }
    filelog { log {
        path = $here/$2/log
        default = 1
        chd = 4
        flush_line = yes
    } }
}
CONF
    cat > "$here/$2/swanctl.conf" <<CONF
connections { c {
    version = 2
    encap = yes
    local_addrs = 198.18.0.$2
    remote_addrs = 198.18.0.$3
    local { auth = psk
        id = $2.test }
    remote { auth = psk
        id = $3.test }
    children { c {
        local_ts = 198.18.1$2.0/24
        remote_ts = 198.18.1$3.0/24
        esp_proposals = $proposal
    } }
} }
secrets { ike-c { secret = "between us" } }
CONF
    ip netns exec "$1" unshare -m bash -c "mount -t tmpfs none /var/run && STRONGSWAN_CONF=$here/$2/strongswan.conf exec /usr/lib/ipsec/charon" &
    pids+=($!)
    for _ in $(seq 100); do [ -S "$here/$2/vici" ] && break; sleep 0.2; done
    swanctl --load-all --uri "unix://$here/$2/vici" --file "$here/$2/swanctl.conf" > "$here/$2/load" 2>&1
}
charon "$left" 1 2
charon "$right" 2 1

ip netns exec "$left" tcpdump -q -i wire -w "$here/wire.pcap" udp port 4500 2> /dev/null &
dump=$!
pids+=($dump)
sleep 1
swanctl --initiate --child c --timeout 20 --uri "unix://$here/1/vici" > "$here/initiate" 2>&1 || { tail -20 "$here/1/log"; exit 1; }
ip netns exec "$left" ping -q -c 5 -i 0.2 -s 300 -I 198.18.11.1 198.18.12.1
sleep 1
kill -INT $dump
wait $dump || true

/usr/bin/python3 "$(dirname "$0")/keys.py" "$here/1/log" "$proposal" > "$here/states"
cat > "$here/net.ip" <<NET
link add wire address 02:00:00:00:00:02 type veth
link add out address 02:00:00:00:01:02 type veth
link set wire up
link set out up
addr add 198.18.0.2/24 dev wire
addr add 198.18.13.1/24 dev out
neigh add 198.18.13.2 lladdr 02:00:00:00:01:09 dev out
route add 198.18.12.0/24 via 198.18.13.2
$(cat "$here/states")
xfrm policy add src 198.18.11.0/24 dst 198.18.12.0/24 dir fwd tmpl src 198.18.0.1 dst 198.18.0.2 proto esp reqid 1 mode tunnel
NET
: > "$here/rules.nft"
"$penstock" run --net "$here/net.ip" --rules "$here/rules.nft" --read "wire=$here/wire.pcap" --write-dir "$here/written"
/usr/bin/python3 "$(dirname "$0")/pings.py" "$here/written/out.pcap" 5

# The other way: we are the gateway on the left.
cat > "$here/net.ip" <<NET
link add wire address 02:00:00:00:00:01 type veth
link add in address 02:00:00:00:01:01 type veth
link set wire up
link set in up
addr add 198.18.0.1/24 dev wire
addr add 198.18.11.254/24 dev in
neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev wire
route add 198.18.12.0/24 via 198.18.0.2
$(cat "$here/states")
xfrm policy add src 198.18.11.0/24 dst 198.18.12.0/24 dir out tmpl src 198.18.0.1 dst 198.18.0.2 proto esp reqid 1 mode tunnel
NET
/usr/bin/python3 "$(dirname "$0")/requests.py" "$here/in.pcap" 5
"$penstock" run --net "$here/net.ip" --rules "$here/rules.nft" --read "in=$here/in.pcap" --write-dir "$here/written"
ip netns exec "$right" tcpdump -q -i ipsec0 -w "$here/tunnel.pcap" icmp 2> /dev/null &
dump=$!
pids+=($dump)
sleep 1
ip netns exec "$left" /usr/bin/python3 -c "
from scapy.all import rdpcap, sendp
sendp(rdpcap('$here/written/wire.pcap'), iface='wire', verbose=False)"
sleep 1
kill -INT $dump
wait $dump || true
/usr/bin/python3 "$(dirname "$0")/pings.py" "$here/tunnel.pcap" 5
