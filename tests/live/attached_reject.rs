// SPDX-License-Identifier: Apache-2.0

//! What clients of an attached ruleset notice of `reject`, against the same ruleset in nf_tables.

use crate::net::Net;

/// Rules for ingress of r0.
const RULES: &str = "
    chain in { type filter hook ingress device r0 priority 0; policy accept;
      tcp dport 81 counter reject with tcp reset
      udp dport 81 counter reject
      udp dport 83 counter reject with icmpx host-unreachable
      udp dport 84 counter reject with icmpx admin-prohibited
      udp dport 82 counter limit rate over 1/hour burst 2 packets counter reject
    }";

/// What A is told by B and by R, over IPv4 and IPv6: of connections, and of datagrams.
fn told(net: &Net) -> String {
    let script = "import errno, socket
for address in \"198.18.1.2\", \"198.18.0.1\", \"2001:db8:1::2\", \"2001:db8::1\":
    family = socket.AF_INET6 if \":\" in address else socket.AF_INET
    v6 = family == socket.AF_INET6
    for kind, port, data in [(1, 81, 0), (2, 81, 1), (2, 81, 3000), (2, 82, 9), (2, 83, 1), (2, 84, 1400)]:
        for _ in range(2):
            s = socket.socket(family, kind)
            s.settimeout(5 if kind == 1 else 0.2)
            # Report all errors (IPV6_RECVERR, IP_RECVERR).
            s.setsockopt(41 if v6 else 0, 25 if v6 else 11, 1)
            try:
                s.connect((address, port))
                s.send(bytes(data))
                s.recv(100)
                said = \"connected\"
            except OSError as e:
                said = errno.errorcode.get(e.errno, str(e))
            print(address, kind, port, data, said)
            s.close()";
    net.ok(&net.a, &format!("python3 -c '{script}'"))
}

#[test]
fn clients_are_told_what_nf_tables_tells_them() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") || !net.has("ethtool") {
        return;
    }
    // Servers of datagrams that take all and say nothing.
    for end in ['b', 'r'] {
        let script = "import socket, time
all = []
for port in 81, 82:
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind((\"::\", port))
    all.append(s)
time.sleep(600)";
        net.spawn_in(end, &format!("python3 -c '{script}'"));
    }
    // The host's own messages, which those of an inet table in nf_tables are.
    let limits =
        "net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000";
    net.ok(&net.r, &format!("sysctl -qw {limits}"));
    // Who receives from XDP polls.
    net.ok(&net.a, "ethtool -K a0 gro on");
    let file = net.directory.join("rules.nft");
    let counts = |listing: &str| -> Vec<String> {
        let counts = listing.lines().filter(|line| line.contains("counter packets"));
        counts.map(|line| line.trim().to_owned()).collect()
    };
    for family in ["netdev", "inet"] {
        std::fs::write(&file, format!("table {family} t {{ {RULES}\n}}")).unwrap();
        net.until("the servers are there", |net| {
            net.ok(&net.r, "ss -lun").contains(":82 ") && net.ok(&net.b, "ss -lun").contains(":82 ")
        });
        net.ok(&net.r, &format!("nft -f {}", file.display()));
        let wanted = told(&net);
        let listed = net.ok(&net.r, "nft list ruleset");
        net.ok(&net.r, "nft flush ruleset");
        for refused in ["1 81 0 ECONNREFUSED", "2 81 1 ECONNREFUSED", "2 83 1 EHOSTUNREACH"] {
            assert!(wanted.matches(refused).count() == 8, "{refused} {wanted}");
        }
        for place in ["r0=tcx", "r0=xdp"] {
            net.attach(&format!("--rules {} {place}", file.display()));
            let found = told(&net);
            let shown = net.ok(&net.r, "$PENSTOCK nft list ruleset");
            net.detach();
            assert_eq!(found, wanted, "{family} {place}");
            assert_eq!(counts(&shown), counts(&listed), "{family} {place}");
        }
    }
}

#[test]
fn answers_need_a_place_that_can_send_them() {
    let Some(net) = Net::new() else { return };
    let file = net.directory.join("rules.nft");
    let refused = |net: &Net, rules: &str, place: &str| {
        std::fs::write(&file, rules).unwrap();
        let line = format!("$PENSTOCK attach --rules {} {place}", file.display());
        let (ok, said) = net.run(&net.r, &line);
        assert!(!ok, "{said}");
        said
    };
    let netdev = format!("table netdev t {{ {RULES}\n}}");
    let said = refused(&net, &netdev, "r0=xdp-generic");
    assert!(said.contains("`reject` has no BPF code at generic XDP, since a packet"), "{said}");
    let input = "table inet t { chain in { type filter hook input priority 0; reject; }\n}";
    let said = refused(&net, input, "");
    let reason = "at netfilter hook ip input, since the kernel lets programs there send nothing";
    assert!(said.contains(&format!("`reject` has no BPF code {reason}")), "{said}");
}
