// SPDX-License-Identifier: Apache-2.0

//! Peers that are told by the protocol of Penstock.

use std::fs;
use std::path::PathBuf;

use super::pair::{CHANGED, Pair, Peer};
use crate::net::Net;

/// A rule that has flows leave the rules.
const FLOWS: &str = "table ip flows {
	flowtable fast {
		hook ingress priority 0
		devices = { r0, r1 }
	}
	chain leave {
		type filter hook forward priority 5; policy accept;
		ip protocol tcp ct state established flow add @fast
	}
}
";

/// The file of one side, with a peer by its key.
fn config(net: &Net, own: u8, peer_key: &str) -> String {
    let (key, other) = (net.directory.join(format!("{own}.key")), 3 - own);
    format!(
        "General {{
	Filter From Userspace {{
		Address Ignore {{
			IPv4_address 127.0.0.1
			IPv4_address 198.19.0.0/16
			IPv6_address fe80::/10
			IPv6_address ff00::/8
		}}
	}}
}}
Penstock {{
	Address 198.19.0.{own}
	PrivateKey {}
	Peer {{
		Address 198.19.0.{other}
		PublicKey {peer_key}
	}}
}}
",
        key.display()
    )
}

/// Makes the key of a side; its public key.
fn key(net: &Net, own: u8) -> String {
    let file = net.directory.join(format!("{own}.key"));
    net.ok(&net.r, &format!("$PENSTOCK failover key {}", file.display())).trim().to_owned()
}

/// A field of a peer's status, or of this side's.
fn field(net: &Net, namespace: &str, name: &str) -> String {
    let status = net.ok(namespace, "$PENSTOCK failover status -j");
    let rest = status.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{status}"));
    rest.split([',', '}']).next().unwrap().to_owned()
}

fn number(net: &Net, namespace: &str, name: &str) -> usize {
    field(net, namespace, name).parse().unwrap()
}

/// The file of one of two sides that know each other.
pub fn own_config(net: &Net, own: u8) -> String {
    key(net, own);
    config(net, own, &key(net, 3 - own))
}

fn pair(workers: u32) -> Option<Pair> {
    let pair = Pair::with(Peer::Penstock, own_config, workers)?;
    load(&pair, CHANGED);
    pair.net.until("both are connected", |net| {
        [&net.r, &pair.p].iter().all(|namespace| field(net, namespace, "up") == "true")
    });
    Some(pair)
}

/// Loads rules into both.
fn load(pair: &Pair, rules: &str) {
    for (namespace, prefix) in [(&pair.net.r, 'r'), (&pair.p, 'p')] {
        let file = pair.path("more.nft");
        let rules = rules.replace("r0, r1", &format!("{prefix}0, {prefix}1"));
        fs::write(&file, rules).unwrap();
        pair.net.ok(namespace, &format!("$PENSTOCK nft -f {}", file.display()));
    }
}

fn elements(pair: &Pair, namespace: &str, set: &str) -> Vec<String> {
    let said = pair.net.ok(namespace, &format!("$PENSTOCK nft list {set}"));
    let elements = said.split("elements = {").nth(1).unwrap_or("").split('}').next().unwrap();
    let mut all: Vec<_> = elements
        .split(',')
        .map(|element| element.split(" expires").next().unwrap().trim().to_owned())
        .filter(|element| !element.is_empty())
        .collect();
    all.sort();
    all
}

#[test]
fn connections_and_elements_are_taken_over() {
    let Some(mut pair) = pair(2) else { return };
    pair.net.ok(&pair.net.r, "$PENSTOCK exec -- conntrack -I -p udp -s 198.18.0.3 -d 198.18.1.2 --sport 1003 --dport 53 -t 300 -w 5 -m 9");
    pair.traffic();
    let expected = pair.connections(true);
    let seen = elements(&pair, &pair.net.r, "set ip changed seen");
    let at = elements(&pair, &pair.net.r, "map ip changed places");
    assert_eq!((seen.len(), at.len()), (1, 1), "{seen:?} {at:?}");
    pair.net.until("all is told", |net| {
        number(net, &pair.p, "cached") >= expected.len() && number(net, &pair.p, "elements") == 2
    });
    pair.net.until("it is in sync", |net| field(net, &pair.p, "in_sync_ago") != "null");
    pair.net.until("it is acknowledged", |net| field(net, &net.r, "told_ago") != "null");
    let shown = pair.net.ok(&pair.p, "$PENSTOCK show");
    assert!(shown.contains("peer 198.19.0.1:3780: connected, in sync as of"), "{shown}");
    let said = pair.net.ok(&pair.p, "$PENSTOCK failover primary");
    assert!(said.contains("connections and 2 elements") && !said.contains("could not"), "{said}");
    assert_eq!(pair.connections(false), expected);
    assert_eq!(elements(&pair, &pair.p, "set ip changed seen"), seen);
    assert_eq!(elements(&pair, &pair.p, "map ip changed places"), at);
}

#[test]
fn a_translated_stream_survives_and_its_flow_leaves_the_rules_again() {
    let Some(mut pair) = pair(1) else { return };
    load(&pair, FLOWS);
    pair.begin_stream();
    let has_flow = |pair: &Pair, namespace: &str| {
        pair.net.ok(namespace, "$PENSTOCK show flows").contains("198.18.1.2:80")
    };
    pair.stream_goes_on("the stream begins");
    pair.net.until("its flow has left the rules", |net| has_flow(&pair, &net.r));
    pair.net.until("it is told", |net| number(net, &pair.p, "cached") > 0);
    pair.move_addresses(false);
    pair.becomes_primary(false);
    pair.net.ok(&pair.net.r, "$PENSTOCK failover backup");
    pair.stream_goes_on("the stream goes on through the peer");
    pair.net.until("its flow leaves the rules there", |_| has_flow(&pair, &pair.p));
    pair.net.until("it is told back", |net| number(net, &net.r, "cached") > 0);
    pair.move_addresses(true);
    pair.becomes_primary(true);
    pair.stream_goes_on("the stream is back");
    pair.end_stream();
}

#[test]
fn what_was_not_heard_while_the_wire_was_cut_is_told_after() {
    let Some(mut pair) = pair(1) else { return };
    pair.traffic();
    let count = pair.connections(true).len();
    pair.net.until("all is told", |net| number(net, &pair.p, "cached") >= count);
    let rule =
        "add table inet lose; add chain inet lose in { type filter hook input priority -300; };
        add rule inet lose in tcp sport 3780 drop; add rule inet lose in tcp dport 3780 drop";
    pair.net.ok(&pair.p, &format!("nft '{rule}'"));
    // One connection is new, and others end, which the peer cannot know.
    pair.traffic();
    pair.net.ok(&pair.net.r, "$PENSTOCK exec -- conntrack -D -p udp");
    pair.net.until_within(20, "the session ends", |net| field(net, &net.r, "up") == "false");
    assert!(number(&pair.net, &pair.p, "cached") >= count);
    pair.net.ok(&pair.p, "nft delete table inet lose");
    let count = pair.connections(true).len();
    pair.net.until_within(20, "both have the same again", |net| {
        number(net, &pair.p, "cached") == count
    });
}

#[test]
fn a_peer_that_begins_anew_does_not_take_its_connections_with_it() {
    let Some(mut pair) = pair(1) else { return };
    pair.traffic();
    let expected = pair.connections(true);
    pair.net.until("all is told", |net| number(net, &pair.p, "cached") >= expected.len());
    pair.net.kill();
    let sync = pair.path("r.conf");
    pair.net.up(&format!("r0 r1 --workers 1 --sync {}", sync.display()));
    pair.net
        .until_within(20, "it is connected again", |net| field(net, &pair.p, "sessions") == "2");
    pair.net.until("it is in sync", |net| field(net, &pair.p, "telling_all") == "false");
    assert!(number(&pair.net, &pair.p, "cached") >= expected.len());
    pair.becomes_primary(false);
    assert_eq!(pair.connections(false), expected);
}

#[test]
fn who_has_another_key_or_sends_anything_is_refused() {
    let Some(pair) = pair(1) else { return };
    let net = &pair.net;
    // From the address of the peer: what is no handshake, and a handshake that is cut short.
    for (what, bytes) in [("zeros", "bytes(4096)"), ("chance", "os.urandom(98)")] {
        let line = format!(
            "import os, socket
sock = socket.create_connection((\"198.19.0.1\", 3780), 5, (\"198.19.0.2\", 0))
sock.settimeout(10)
sock.sendall({bytes})
try:
    print(len(sock.recv(1)))
except ConnectionResetError:
    print(0)"
        );
        let file = net.directory.join("stranger.py");
        fs::write(&file, line).unwrap();
        let said = net.ok(&pair.p, &format!("python3 {}", file.display()));
        assert_eq!(said.trim(), "0", "{what}");
    }
    // Many that say nothing; the session of the peer stays.
    let file = net.directory.join("silent.py");
    let line = "import socket
all = [socket.create_connection((\"198.19.0.1\", 3780), 5, (\"198.19.0.2\", 0)) for _ in range(100)]
print(len(all))";
    fs::write(&file, line).unwrap();
    assert_eq!(net.ok(&pair.p, &format!("python3 {}", file.display())).trim(), "100");
    net.until("they are refused", |net| number(net, &net.r, "refused_strangers") >= 90);
    for namespace in [&net.r, &pair.p] {
        assert_eq!(
            (field(net, namespace, "up"), field(net, namespace, "sessions")),
            ("true".into(), "1".into())
        );
    }
    // Another key in its place.
    net.ok(&pair.p, "$PENSTOCK down");
    let file = PathBuf::from(&net.directory).join("2.key");
    let own = key(net, 1);
    // The one with the smaller key connects.
    while {
        fs::remove_file(&file).unwrap();
        key(net, 2) > own
    } {}
    let before = number(net, &net.r, "refused_strangers");
    let line =
        format!("$PENSTOCK up p0 p1 --seccomp kill --sync {}", pair.path("p.conf").display());
    let other = net.spawn_in_file(&pair.p, &line, &pair.path("other.log"));
    net.until_within(30, "it runs", |net| net.run(&pair.p, "$PENSTOCK show").0);
    let refused = |net: &Net| number(net, &net.r, "refused_strangers") > before;
    net.until_within(20, "it is refused", refused);
    assert_eq!(field(net, &net.r, "up"), "false");
    other.end();
}

#[test]
fn keys_that_others_may_read_and_wrong_files_are_refused() {
    let Some(net) = Net::new() else { return };
    let own = key(&net, 1);
    assert_eq!(key(&net, 1), own, "it is made once");
    let peer = key(&net, 2);
    let file = net.directory.join("x.conf");
    let path = net.directory.join("1.key");
    let up = |text: &str| {
        fs::write(&file, text).unwrap();
        let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up r0 --sync {}", file.display()));
        assert!(!ok);
        said
    };
    let said = up(&config(&net, 1, &peer));
    assert!(said.contains("sync: Address 198.19.0.1:3780: Cannot assign"), "{said}");
    let said = up(&config(&net, 1, &own));
    assert!(said.contains("the PublicKey of a peer is that of this side"), "{said}");
    net.ok(&net.r, &format!("chmod 644 {}", path.display()));
    let said = up(&config(&net, 1, &peer));
    assert!(said.contains("1.key: others may read or write it: chmod 600"), "{said}");
    net.ok(&net.r, &format!("chmod 600 {0}; echo 12 > {0}", path.display()));
    let said = up(&config(&net, 1, &peer));
    assert!(said.contains("1.key: a key is 64 hexadecimal digits"), "{said}");
    assert!(net.run(&net.a, "ping -c 1 -W 2 198.18.1.2").0);
}

#[test]
fn another_file_counts_after_a_signal_and_what_was_told_stays() {
    let Some(mut pair) = pair(1) else { return };
    pair.traffic();
    let expected = pair.connections(true);
    pair.net.until("all is told", |net| number(net, &pair.p, "cached") >= expected.len());
    pair.net.ok(&pair.p, "$PENSTOCK down");
    // With a configuration, which is read again.
    let (toml, sync) = (pair.path("penstock.toml"), pair.path("p.conf"));
    fs::write(&toml, format!("ports = [\"p0\", \"p1\"]\nsync = \"{}\"\n", sync.display())).unwrap();
    let line = format!("$PENSTOCK up --config {} --seccomp kill 2>&1", toml.display());
    let log = pair.path("again.log");
    let running = pair.net.spawn_in_file(&pair.p, &line, &log);
    pair.net.until_within(30, "it runs", |net| net.run(&pair.p, "$PENSTOCK show").0);
    pair.net.until_within(20, "all is told again", |net| {
        number(net, &pair.p, "cached") >= expected.len()
    });
    let signal = || pair.net.ok(&pair.p, &format!("kill -HUP {}", running.id()));
    let said = |what: &str| {
        pair.net.until("it is said", |_| fs::read_to_string(&log).unwrap().contains(what));
    };
    let right = fs::read_to_string(&sync).unwrap();
    // A file that is wrong changes nothing, and neither does one that cannot be.
    fs::write(&sync, right.replace("PublicKey", "Key")).unwrap();
    signal();
    said("Peer has no clause `Key`");
    fs::write(&sync, right.replace("Address 198.19.0.2", "Address 198.19.0.99")).unwrap();
    signal();
    said("198.19.0.99:3780: Cannot assign requested address (os error 99); sync stays as it is");
    assert!(number(&pair.net, &pair.p, "cached") >= expected.len());
    // Another time until connections end.
    fs::write(&sync, format!("Sync {{ PurgeTimeout 17 }}\n{right}")).unwrap();
    signal();
    pair.net.until("it counts", |net| {
        net.ok(&pair.p, "$PENSTOCK failover fault").contains("end in 17 s")
    });
    assert!(number(&pair.net, &pair.p, "cached") >= expected.len());
    pair.net.until_within(20, "it is connected again", |net| field(net, &pair.p, "up") == "true");
    let metrics = pair.net.ok(&pair.p, "$PENSTOCK show --metrics");
    assert!(metrics.contains("penstock_peer_up{peer=\"198.19.0.1:3780\"} 1\n"), "{metrics}");
    let said = pair.net.ok(&pair.p, "$PENSTOCK failover primary");
    assert!(said.contains(&format!("{} connections", expected.len())), "{said}");
    running.end();
}
