// SPDX-License-Identifier: Apache-2.0

//! Flowtables between links of different MTUs, after the topology of the kernel's
//! `nft_flowtable.sh`:
//!
//! ```text
//! A (MTU 9000) – R (ours, with flowtables) – MTU 1500 – M – B (MTU 2000)
//! ```
//!
//! Files arrive whole both ways, and most of their packets are not seen by the rules.

use crate::net::{Net, sh};

/// Bytes of the file that is sent each way.
const BYTES: u32 = 6_000_000;

/// Puts M between R and B.
fn put_between(net: &mut Net) {
    let m = net.another();
    let (r, b) = (&net.r, &net.b);
    let lines = format!(
        "set -e
         ip -n {b} link del b0
         ip -n {r} link add r1 type veth peer name m0 netns {m}
         ip -n {m} link add m1 mtu 2000 type veth peer name b0 mtu 2000 netns {b}
         ip -n {r} addr add 198.18.1.1/24 dev r1; ip -n {r} addr add 2001:db8:1::1/64 dev r1 nodad
         ip -n {m} addr add 198.18.1.2/24 dev m0; ip -n {m} addr add 2001:db8:1::2/64 dev m0 nodad
         ip -n {m} addr add 198.18.2.1/24 dev m1; ip -n {m} addr add 2001:db8:2::1/64 dev m1 nodad
         ip -n {b} addr add 198.18.2.2/24 dev b0; ip -n {b} addr add 2001:db8:2::2/64 dev b0 nodad
         for d in m0 m1; do ip -n {m} link set $d up; done
         ip -n {r} link set r1 up; ip -n {r} link set r0 mtu 9000
         ip -n {b} link set b0 up; ip -n {}  link set a0 mtu 9000
         ip -n {b} route add default via 198.18.2.1; ip -n {b} route add default via 2001:db8:2::1
         ip -n {m} route add default via 198.18.1.1; ip -n {m} route add default via 2001:db8:1::1
         ip -n {r} route add 198.18.2.0/24 via 198.18.1.2; ip -n {r} route add 2001:db8:2::/64 via 2001:db8:1::2",
        net.a
    );
    sh(&lines);
    net.ok(&m, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
}

/// Sends a file from A to B and back at once: their sums as both ends see them.
const EXCHANGE: &str = "import hashlib, socket, sys, threading
def talk(s):
    data = (b'%d' % int(sys.argv[4])) * (int(sys.argv[3]) // len(sys.argv[4]))
    sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
    sender.start()
    got = hashlib.sha256()
    while block := s.recv(1 << 16): got.update(block)
    sender.join()
    print(hashlib.sha256(data).hexdigest(), got.hexdigest())
to = sys.argv[1]
six = ':' in to
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.settimeout(30)
if sys.argv[2] == 'serve':
    s.bind((to, 12345)); s.listen(); talk(s.accept()[0])
else:
    s.connect((to, int(sys.argv[2]))); talk(s)
";

#[test]
fn files_pass_flowtables_whole_between_mtus() {
    let Some(mut net) = Net::new() else { return };
    put_between(&mut net);
    net.until("the kernel forwards", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.2.2").0);
    let program = net.directory.join("exchange.py");
    std::fs::write(&program, EXCHANGE).unwrap();
    let program = program.display().to_string();
    net.up("r0 r1");
    let b = net.b.clone();
    for hook in ["ingress", "early_ingress"] {
        let rules = |more: &str| {
            format!(
                "flush ruleset
                 table inet t {{
                   flowtable f {{ hook {hook} priority 0; devices = {{ r0, r1 }}; }}
                   chain c {{
                     type filter hook forward priority 0; policy drop
                     tcp dport 12345 ct mark set 1 flow add @f counter accept comment \"there\"
                     ct mark 1 counter accept comment \"back\"
                     meta l4proto {{ icmp, ipv6-icmp }} accept
                     ct state established,related accept
                   }}
                   {more}
                 }}"
            )
        };
        let nat = "chain p { type nat hook prerouting priority dstnat; iif r0 ip daddr 198.18.1.1 tcp dport 1666 dnat ip to 198.18.2.2:12345; }
                   chain o { type nat hook postrouting priority srcnat; oif r1 masquerade; }";
        for (what, more, listen, to, port) in [
            ("plain", "", "198.18.2.2", "198.18.2.2", 12345),
            ("plain, IPv6", "", "2001:db8:2::2", "2001:db8:2::2", 12345),
            ("translated", nat, "198.18.2.2", "198.18.1.1", 1666),
        ] {
            net.nft(&rules(more));
            let server =
                net.spawn_reading(&b, &format!("python3 {program} {listen} serve {BYTES} 7"));
            net.until("the server is there", |net| net.run(&b, "ss -lnt | grep -q :12345").0);
            let sent = net.ok(&net.a, &format!("python3 {program} {to} {port} {BYTES} 3"));
            let seen = server.wait();
            let (mine, theirs) = (sent.split_whitespace(), seen.split_whitespace().rev());
            assert!(mine.eq(theirs) && !sent.is_empty(), "{hook}, {what}: {sent}{seen}");
            let listing = net.ok(&net.r, "$PENSTOCK nft list ruleset");
            for way in ["there", "back"] {
                let line =
                    listing.lines().find(|l| l.contains(&format!("comment \"{way}\""))).unwrap();
                let bytes = line.split("bytes ").nth(1).unwrap().split(' ').next().unwrap();
                // The beginning and the end of each connection.
                assert!(bytes.parse::<u32>().unwrap() < BYTES / 3, "{hook}, {what}: {line}");
            }
        }
    }
}
