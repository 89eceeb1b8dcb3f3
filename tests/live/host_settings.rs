// SPDX-License-Identifier: Apache-2.0

//! Settings of the host besides those of devices: MTUs of paths, what packets pass on bridges, and
//! settings of connections.

use crate::net::Net;

/// Tells the router from B that an echo reply did not fit into 1000 bytes.
const TOO_BIG: &str = "\
import socket, struct
def sum16(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    total = (total & 0xffff) + (total >> 16)
    return 0xffff & ~((total & 0xffff) + (total >> 16))
reply = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 1400, 1, 0x4000, 64, 1, 0,
                    socket.inet_aton('198.18.1.1'), socket.inet_aton('198.18.1.2'))
reply = reply[:10] + struct.pack('!H', sum16(reply)) + reply[12:] + bytes(8)
def message(sum):
    return struct.pack('!BBHHH', 3, 4, sum, 0, 1000) + reply
socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(message(sum16(message(0))), ('198.18.1.1', 0))
";

/// What a long ping of A's hears, which is not to be cut on its way.
fn long_ping(net: &Net) -> String {
    net.ok(&net.b, &format!("python3 -c \"{TOO_BIG}\""));
    net.ok(&net.a, "ip route flush cache");
    net.run(&net.a, "ping -c 1 -W 1 -M do -s 1400 198.18.1.2").1
}

#[test]
fn mtus_of_paths_follow_the_hosts_sysctls() {
    let Some(mut net) = Net::new() else { return };
    let set = |net: &Net, use_pmtu: u8| {
        net.ok(&net.r, &format!("sysctl -qw net.ipv4.ip_forward_use_pmtu={use_pmtu}"));
    };
    let limited = |net: &Net| long_ping(net).contains("mtu = 1000");
    let passes = |net: &Net| long_ping(net).contains(" 0% packet loss");
    set(&net, 1);
    net.up("r0 r1");
    net.until("what was heard counts", limited);
    set(&net, 0);
    net.until("what was heard counts no more", passes);
    // What is heard is not believed from now on, and what was heard expires.
    net.ok(&net.r, "sysctl -qw net.ipv4.ip_no_pmtu_disc=2");
    set(&net, 1);
    net.until("it still counts", limited);
    net.down();
    assert_eq!(net.ok(&net.r, "sysctl -n net.ipv4.ip_forward_use_pmtu"), "1\n");
    net.up("r0 r1");
    net.until("the kernel's neighbours are there", passes);
    net.ok(&net.r, "sysctl -qw net.ipv4.ip_no_pmtu_disc=0");
    net.until("it is believed again", limited);
    net.down();
    // What the command line says counts instead.
    net.up("r0 r1 --sysctl net.ipv4.ip_forward_use_pmtu=0");
    net.until("what was heard does not count", passes);
    assert!(passes(&net));
    net.down();
}

/// Packets of pings over the bridge that rules of IP have seen so far.
fn seen(net: &Net) -> u64 {
    net.ok(&net.a, "ping -c 1 -W 2 198.18.0.3");
    let listed = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    let counter = listed.split_once("counter packets ").map(|(_, rest)| rest);
    let number = counter.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no counter in {listed}"))
}

#[test]
fn packets_on_bridges_follow_the_hosts_sysctls() {
    let Some(mut net) = Net::new() else { return };
    let set = |net: &Net, on: u8| {
        net.run(&net.r, &format!("sysctl -qw net.bridge.bridge-nf-call-iptables={on}")).0
    };
    if !net.bridge() || !set(&net, 1) {
        eprintln!("skipped: this kernel has no br_netfilter");
        return;
    }
    net.ok(&net.b, "ip addr flush dev b0; ip addr add 198.18.0.3/24 dev b0");
    net.until("the bridge forwards", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.0.3").0);
    let rules = "table ip t {
        chain f { type filter hook forward priority 0; icmp type echo-request counter; }
    }";
    net.up("r0 r1");
    net.nft(rules);
    assert_eq!(seen(&net), 1, "rules of IP see packets on bridges, as in the kernel");
    assert!(set(&net, 0));
    net.until("they see none", |net| seen(net) == seen(net));
    assert!(set(&net, 1));
    net.until("they see them again", |net| seen(net) != seen(net));
    net.ok(&net.r, "sysctl -qw net.bridge.bridge-nf-filter-pppoe-tagged=1");
    net.until("what cannot be followed is logged", |net| {
        net.log()
            .contains("net.bridge.bridge-nf-filter-pppoe-tagged = 1 of the host is not followed")
    });
    net.down();
    assert_eq!(net.ok(&net.r, "sysctl -n net.bridge.bridge-nf-call-iptables"), "1\n");
    net.up("r0 r1 --sysctl net.bridge.bridge-nf-call-iptables=0");
    net.nft(rules);
    assert_eq!(seen(&net), 0, "the command line counts");
    net.down();
}

/// Sends a ping through the router. Gives the seconds that the connection has left which ends first.
fn left(net: &Net) -> u32 {
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    let listed = net.ok(&net.r, "$PENSTOCK show conntrack --proc");
    let icmp = listed.lines().filter(|line| line.contains("icmp")).filter_map(|line| {
        // ipv4 2 icmp 1 SECONDS …
        line.split_whitespace().nth(4)?.parse::<u32>().ok()
    });
    icmp.min().unwrap_or_else(|| panic!("no connection in {listed}"))
}

#[test]
fn connections_follow_the_hosts_sysctls() {
    let Some(mut net) = Net::new() else { return };
    let set = |net: &Net, seconds: u32| {
        let line = format!("sysctl -qw net.netfilter.nf_conntrack_icmp_timeout={seconds}");
        net.run(&net.r, &line).0
    };
    if !set(&net, 1000) {
        eprintln!("skipped: this kernel has no connection tracking");
        return;
    }
    let rules =
        "table ip t { chain f { type filter hook forward priority 0; ct state new accept; }\n}";
    net.up("r0 r1 --workers 2");
    net.nft(rules);
    assert!(left(&net) > 900, "the host's value counts from the start");
    assert!(set(&net, 500));
    // A connection has its new timeout with its next packet.
    net.until("the new value counts", |net| left(net) <= 500);
    assert!(left(&net) > 400);
    net.down();
    net.up("r0 r1 --sysctl net.netfilter.nf_conntrack_icmp_timeout=70");
    net.nft(rules);
    assert!(left(&net) <= 70, "the command line counts");
    net.down();
}
