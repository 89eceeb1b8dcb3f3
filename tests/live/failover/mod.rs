// SPDX-License-Identifier: Apache-2.0

//! A pair of firewalls, R and P: R runs the dataplane, P a kernel with conntrackd, or a dataplane,
//! too. A and B have a wire to each, and addresses at one of the two. R and P have a wire of their
//! own.

mod bfd;
mod cluster;
mod pair;
mod secure;
mod vrrp;

use std::time::Duration;

use crate::net::Net;
use pair::{FTP_CLIENT, FTP_SERVER, Link, Pair, Peer, config};

const MODES: [&str; 3] = ["FTFW { }", "NOTRACK { }", "ALARM {\nRefreshTime 1\nCacheTimeout 9\n}"];

/// Both have the same connections after one of them took them over.
fn same_on_both(pair: &Pair, of_r: bool) {
    let expected = pair.connections(!of_r);
    let enough = expected.len() >= 5 && expected.iter().any(|line| line.contains("198.18.1.1"));
    assert!(enough, "{expected:#?}");
    pair.net.until("all connections are told", |_| pair.cached(of_r) >= expected.len());
    pair.becomes_primary(of_r);
    assert_eq!(pair.connections(of_r), expected);
}

#[test]
fn connections_reach_conntrackd_in_all_modes() {
    let links = [Link::Unicast4, Link::Multicast6, Link::Multicast4];
    for (mode, link) in MODES.into_iter().zip(links) {
        let Some(mut pair) = Pair::new(Peer::Conntrackd, mode, link, 1) else { return };
        pair.traffic();
        same_on_both(&pair, false);
    }
}

#[test]
fn connections_of_conntrackd_are_taken_over_in_all_modes() {
    let links = [Link::Multicast4, Link::Unicast6, Link::Unicast4];
    for (mode, link) in MODES.into_iter().zip(links) {
        let Some(mut pair) = Pair::new(Peer::Conntrackd, mode, link, 2) else { return };
        pair.net.ok(
            &pair.net.b,
            "ip addr del 2001:db8:1::2/64 dev b0; ip addr add 2001:db8:1::2/64 dev b1 nodad",
        );
        pair.net.ok(
            &pair.net.a,
            "ip addr del 2001:db8::2/64 dev a0; ip addr add 2001:db8::2/64 dev a1 nodad",
        );
        pair.move_addresses(false);
        for (subnet, namespace, letter) in [("0", &pair.net.a, 'a'), ("1", &pair.net.b, 'b')] {
            pair.net
                .ok(&pair.p, &format!("ip addr add 2001:db8:{subnet}::1/64 dev p{subnet} nodad"));
            pair.net.ok(
                namespace,
                &format!("ip route replace default via 2001:db8:{subnet}::1 dev {letter}1"),
            );
        }
        pair.traffic();
        same_on_both(&pair, true);
    }
}

#[test]
fn all_connections_are_sent_when_the_peer_asks_for_them() {
    for peer in [Peer::Conntrackd, Peer::Penstock] {
        let Some(mut pair) = Pair::new(peer, MODES[0], Link::Unicast4, 1) else { return };
        pair.traffic();
        let count = pair.connections(true).len();
        pair.net.until("all connections are told", |_| pair.cached(false) >= count);
        // It begins anew, and knows nothing.
        pair.running.take().unwrap().end();
        pair.begin_peer();
        assert_eq!(pair.cached(false), 0);
        match peer {
            Peer::Conntrackd => pair.net.ok(&pair.p, &pair.conntrackd("-n")),
            Peer::Penstock => pair.net.ok(&pair.p, "$PENSTOCK failover backup"),
        };
        pair.net.until("all connections are told again", |_| pair.cached(false) >= count);
    }
}

#[test]
fn what_the_wire_loses_is_sent_again() {
    for peer in [Peer::Conntrackd, Peer::Penstock] {
        let Some(mut pair) = Pair::new(peer, MODES[0], Link::Unicast4, 1) else { return };
        pair.traffic();
        let count = pair.connections(true).len();
        pair.net.until("all connections are told", |_| pair.cached(false) >= count);
        // Both know that the other one has begun.
        std::thread::sleep(Duration::from_secs(3));
        pair.net.ok(
            &pair.p,
            "nft 'add table inet lose; add chain inet lose in { type filter hook input priority -300; };
                  add rule inet lose in udp dport 3780 drop'",
        );
        pair.traffic();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(pair.cached(false), count);
        pair.net.ok(&pair.p, "nft delete table inet lose");
        let count = pair.connections(true).len();
        pair.net.until("what was lost is told", |_| pair.cached(false) >= count);
        if peer == Peer::Penstock {
            let status = pair.net.ok(&pair.p, "$PENSTOCK failover status");
            assert!(!status.contains(" 0 lost"), "{status}");
        }
        same_on_both(&pair, false);
    }
}

/// Connections as conntrack(8) enters them.
const ENTERED: [&str; 12] = [
    "-p tcp -s 198.18.0.2 -d 198.18.1.2 --sport 1000 --dport 80 --state ESTABLISHED -t 300 -m 7 \
     --src-nat 198.18.5.5:4444 -u ASSURED,SEEN_REPLY",
    "-p tcp -s 198.18.0.2 -d 198.18.1.2 --sport 1001 --dport 80 --state TIME_WAIT -t 300 \
     --dst-nat 198.18.5.6:99 -u SEEN_REPLY",
    "-p tcp -s 198.18.0.3 -d 198.18.1.2 --sport 1002 --dport 80 --state SYN_SENT -t 300 \
     --src-nat 198.18.5.5 --dst-nat 198.18.5.7",
    "-p udp -s 198.18.0.3 -d 198.18.1.2 --sport 1003 --dport 53 -t 300 -m 4294967295",
    "-p udp -s 198.18.0.3 -d 198.18.1.2 --sport 1003 --dport 53 -t 300 -w 5",
    "-p udp -s 2001:db8::1 -d 2001:db8::2 --sport 1000 --dport 80 -t 300 --dst-nat 2001:db8::9",
    "-p tcp -s 2001:db8::1 -d 2001:db8::2 --sport 1001 --dport 80 --state ESTABLISHED -t 300 \
     --src-nat 2001:db8::8",
    "-p sctp -s 198.18.0.2 -d 198.18.1.2 --sport 5 --dport 6 -t 300 --state ESTABLISHED \
     --orig-vtag 1 --reply-vtag 2",
    "-p icmp -s 198.18.0.2 -d 198.18.1.2 --icmp-type 8 --icmp-code 0 --icmp-id 77 -t 300",
    "-p icmpv6 -s 2001:db8::1 -d 2001:db8::2 --icmpv6-type 128 --icmpv6-code 0 --icmpv6-id 78 -t 300",
    "-p 99 -s 198.18.0.3 -d 198.18.1.2 -t 300",
    "-p gre -s 198.18.0.3 -d 198.18.1.2 --srckey 0 --dstkey 0 -t 300",
];

#[test]
fn all_fields_are_taken_over() {
    for tracking in ["On", "Off"] {
        for of_r in [false, true] {
            let mode = format!("FTFW {{\n}}\nOptions {{\nTCPWindowTracking {tracking}\n}}");
            let Some(pair) = Pair::new(Peer::Conntrackd, &mode, Link::Unicast6, 2) else { return };
            let (namespace, exec) = match of_r {
                true => (&pair.p, ""),
                false => (&pair.net.r, "$PENSTOCK exec -- "),
            };
            for entered in ENTERED {
                pair.net.ok(namespace, &format!("{exec}conntrack -I {entered}"));
            }
            let expected = pair.connections(!of_r);
            assert_eq!(expected.len(), ENTERED.len(), "{expected:#?}");
            pair.net.until("all is told", |_| pair.cached(of_r) >= expected.len());
            pair.becomes_primary(of_r);
            assert_eq!(pair.connections(of_r), expected);
        }
    }
}

#[test]
fn another_link_is_used_when_one_is_down() {
    for peer in [Peer::Conntrackd, Peer::Penstock] {
        let mode = "FTFW {\n}\nUDP {\nIPv4_address 198.19.1.OWN\nIPv4_Destination_Address 198.19.1.PEER\n\
            Port 3781\nInterface SECOND\n}";
        let Some(mut pair) = Pair::new(peer, mode, Link::Unicast4, 1) else { return };
        pair.traffic();
        let count = pair.connections(true).len();
        pair.net.until("all connections are told", |_| pair.cached(false) >= count);
        let active = || {
            let status = pair.net.ok(&pair.net.r, "$PENSTOCK failover status");
            let line = status.lines().find(|line| line.contains(", active;")).unwrap();
            line.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_owned()
        };
        // conntrackd begins with the first one that its file has.
        let used = active();
        let other = if used == "rs" { "rt" } else { "rs" };
        pair.net.ok(&pair.net.r, &format!("ip link set {used} down"));
        pair.net.until("the other one is used", |_| active() == other);
        pair.traffic();
        let count = pair.connections(true).len();
        pair.net.until("all connections are told", |_| pair.cached(false) >= count);
    }
}

#[test]
fn expectations_are_taken_over_with_their_masters() {
    let mode = "FTFW {\n}\nOptions {\nExpectationSync On\n}";
    for of_r in [false, true] {
        let Some(mut pair) = Pair::new(Peer::Conntrackd, mode, Link::Unicast4, 1) else { return };
        if of_r {
            pair.move_addresses(false);
        }
        for (name, text) in [("ftp-server.py", FTP_SERVER), ("ftp-client.py", FTP_CLIENT)] {
            std::fs::write(pair.path(name), text).unwrap();
        }
        let server = format!("python3 {}", pair.path("ftp-server.py").display());
        pair.net.spawn_in('b', &server);
        pair.net.until("it listens", |net| net.run(&net.b, "ss -lnt | grep -q :21").0);
        let file = pair.path("ftp.log");
        let line = format!("python3 {}", pair.path("ftp-client.py").display());
        let client = pair.net.spawn_in_file(&pair.net.a, &line, &file);
        pair.programs.push(client);
        pair.net.until("something is expected", |_| {
            std::fs::read_to_string(&file).unwrap_or_default().contains("done")
        });
        let (expected, connections) = (pair.expectations(!of_r), pair.connections(!of_r));
        assert_eq!(expected.len(), 1, "{expected:#?}");
        assert!(connections.iter().any(|line| line.contains("helper=ftp")), "{connections:#?}");
        pair.net.until("all is told", |_| pair.cached(of_r) >= connections.len());
        std::thread::sleep(Duration::from_millis(500));
        pair.becomes_primary(of_r);
        assert_eq!(pair.connections(of_r), connections);
        assert_eq!(pair.expectations(of_r), expected, "{of_r}");
    }
}

/// Windows of connections that are taken over are checked.
const WINDOWS: &str = "FTFW {\n}\nOptions {\nTCPWindowTracking On\n}";

/// A translated stream goes on through the other firewall, and back.
fn a_stream_survives(peer: Peer, mode: &str, workers: u32) {
    let Some(mut pair) = Pair::new(peer, mode, Link::Unicast4, workers) else { return };
    pair.begin_stream();
    pair.stream_goes_on("the stream begins");
    // What is entered at once is not kept.
    let is_told =
        |pair: &Pair, of_r: bool| pair.cached(of_r) > 0 || mode.contains("DisableExternalCache");
    pair.net.until("it is told", |_| is_told(&pair, false));
    pair.move_addresses(false);
    pair.becomes_primary(false);
    pair.net.ok(&pair.net.r, "$PENSTOCK failover backup");
    pair.stream_goes_on("the stream goes on through the peer");
    pair.net.until("it is told back", |_| is_told(&pair, true));
    pair.move_addresses(true);
    pair.becomes_primary(true);
    pair.stream_goes_on("the stream is back");
    let connections = pair.connections(true);
    let translated = |line: &String| line.contains("dport=80") && line.contains("dst=198.18.1.1");
    assert!(connections.iter().any(translated), "{connections:#?}");
    pair.end_stream();
}

#[test]
fn a_translated_stream_survives_a_switch_to_a_kernel_with_conntrackd_and_back() {
    a_stream_survives(Peer::Conntrackd, MODES[0], 1);
    a_stream_survives(Peer::Conntrackd, WINDOWS, 2);
}

#[test]
fn a_translated_stream_survives_a_switch_to_another_dataplane_and_back() {
    a_stream_survives(Peer::Penstock, MODES[0], 2);
    a_stream_survives(Peer::Penstock, WINDOWS, 1);
    a_stream_survives(Peer::Penstock, "NOTRACK {\nDisableExternalCache On\n}", 2);
}

#[test]
fn connections_of_a_backup_end_unless_it_becomes_primary_before() {
    let mode = "FTFW {\nPurgeTimeout 2\n}";
    let Some(mut pair) = Pair::new(Peer::Penstock, mode, Link::Unicast4, 2) else { return };
    pair.traffic();
    let before = pair.connections(true);
    pair.net.ok(&pair.net.r, "$PENSTOCK failover fault");
    assert!(pair.net.ok(&pair.net.r, "$PENSTOCK show").contains("all own connections end in"));
    pair.net.ok(&pair.net.r, "$PENSTOCK failover primary");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(pair.connections(true), before);
    pair.net.ok(&pair.net.r, "$PENSTOCK failover fault");
    pair.net.until("connections end", |_| pair.connections(true).is_empty());
    // The peer keeps them: it is not told.
    assert!(pair.cached(false) >= before.len());
}

#[test]
fn a_dataplane_without_a_peer_says_so() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    for word in ["primary", "status"] {
        let (ok, said) = net.run(&net.r, &format!("$PENSTOCK failover {word}"));
        assert!(!ok && said.contains("without --sync"), "{said}");
    }
    net.down();
    let (ok, said) = net.run(&net.r, "$PENSTOCK up r0 --sync /nowhere");
    assert!(!ok && said.contains("--sync: /nowhere: No such file"), "{said}");
    let file = net.directory.join("x.conf");
    std::fs::write(&file, config("FTFW { }", Link::Unicast4, 1, &net.directory)).unwrap();
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up r0 --sync {}", file.display()));
    assert!(!ok && said.contains("sync: the link on rs: No such device"), "{said}");
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up r0=rs --sync {}", file.display()));
    assert!(!ok && said.contains("--sync: rs is a port; a link has its own device"), "{said}");
    assert!(net.run(&net.a, "ping -c 1 -W 2 198.18.1.2").0);
}
