// SPDX-License-Identifier: Apache-2.0

//! `penstock conntrack` and `penstock flows`, held against conntrack(8) on the same table.

use crate::net::Net;

/// Connections of several kinds, and one that is translated.
fn connect(net: &Net) {
    net.nft(
        "table inet t {
           chain f {
             type filter hook forward priority 0
             udp dport 53 ct mark set 0x11
           }
           chain n {
             type nat hook prerouting priority dstnat
             ip daddr 198.19.0.1 udp dport 99 dnat ip to 198.18.1.2:55
           }
         }",
    );
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2; ping -c 1 -W 2 2001:db8:1::2");
    let send = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"\", 4000))
for to in ((\"198.18.1.2\", 53), (\"198.18.1.2\", 54), (\"198.19.0.1\", 99)): s.sendto(b\"x\", to)";
    net.ok(&net.a, &format!("python3 -c '{send}'"));
    net.until("they are there", |net| net.ok(&net.r, "$PENSTOCK conntrack count") != "0\n");
}

/// The lines of a listing, without timeouts, sorted.
fn lines(net: &Net, call: &str) -> Vec<String> {
    let (_, said) = net.run(&net.r, &format!("{call} 2>/dev/null"));
    let without = |line: &str| {
        let words = line.split_whitespace().enumerate();
        let is_timeout = |at: usize, word: &str| at < 5 && at > 1 && word.parse::<u32>().is_ok();
        words.filter(|(at, w)| !is_timeout(*at, w)).map(|(_, w)| w).collect::<Vec<_>>().join(" ")
    };
    let mut all: Vec<_> = said.lines().map(without).collect();
    all.sort();
    all
}

#[test]
fn connections_are_listed_as_conntrack_lists_them() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --allow-read");
    connect(&net);
    let own = net.has("conntrack");
    for (options, count) in [
        ("", 5),
        ("-p udp", 3),
        ("-p udp --dport 53", 1),
        ("-p icmpv6", 1),
        ("-f ipv6", 1),
        ("-s 198.18.0.2", 4),
        ("-d 198.19.0.0/24", 1),
        ("-r 198.18.1.2 -p udp --reply-port-src 54", 1),
        ("-m 0x11", 1),
        ("-m 0x10/0x10", 1),
        ("-g -p udp", 1),
        ("-n -p udp", 0),
        ("-o extended", 5),
        ("-p tcp", 0),
    ] {
        let ours = lines(&net, &format!("$PENSTOCK conntrack -L {options}"));
        assert_eq!(ours.len(), count, "{options}: {ours:#?}");
        if own {
            let theirs = lines(&net, &format!("$PENSTOCK exec -- conntrack -L {options}"));
            assert_eq!(ours, theirs, "{options}");
        }
    }
    let (_, said) = net.run(&net.r, "$PENSTOCK conntrack list -p udp 2>&1 >/dev/null");
    assert_eq!(said, "penstock conntrack: 3 flow entries have been shown.\n");
    let json = "$PENSTOCK conntrack list -p udp --json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)[\"connections\"]))'";
    assert_eq!(net.ok(&net.r, json), "3\n");
    // Those who may only look cannot delete.
    let as_user = "setpriv --reuid 65534 --regid 65534 --clear-groups $PENSTOCK conntrack";
    assert_eq!(net.ok(&net.r, &format!("{as_user} -L -p udp")).lines().count(), 3);
    for call in ["flush", "-D -p udp"] {
        let (ok, said) = net.run(&net.r, &format!("{as_user} {call}"));
        assert!(!ok && said.contains("Operation not permitted"), "{said}");
    }
    for (call, left) in
        [("-D -p udp --dport 53", "4\n"), ("delete -g -p udp", "3\n"), ("flush", "0\n")]
    {
        net.ok(&net.r, &format!("$PENSTOCK conntrack {call}"));
        assert_eq!(net.ok(&net.r, "$PENSTOCK conntrack -C"), left, "{call}");
    }
    // As with conntrack(8), nothing to delete is a failure.
    assert!(!net.run(&net.r, "$PENSTOCK conntrack -D -p udp").0);
    assert!(net.run(&net.r, "$PENSTOCK conntrack -F").0);
}

#[test]
fn events_are_told_as_conntrack_tells_them() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft("table inet t { chain f { type filter hook forward priority 0; ct state new; }; }");
    let r = net.r.clone();
    let text = net.spawn_reading(&r, "$PENSTOCK conntrack -E -p icmp -e NEW,DESTROY");
    let json = net.spawn_reading(&r, "$PENSTOCK conntrack events --json");
    std::thread::sleep(std::time::Duration::from_millis(500));
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2; ping -c 1 -W 2 2001:db8:1::2");
    net.ok(&net.r, "$PENSTOCK conntrack -F");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let said = text.stop();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].starts_with("    [NEW] icmp     1 30 src=198.18.0.2 dst=198.18.1.2"),
        "{said}"
    );
    assert!(lines[1].starts_with("[DESTROY] icmp     1 "), "{said}");
    let said = json.stop();
    for (event, count) in [("NEW", 2), ("UPDATE", 2), ("DESTROY", 2)] {
        assert_eq!(said.matches(&format!("{{\"event\":\"{event}\"")).count(), count, "{said}");
    }
}

/// Rules that put UDP into a flowtable, B with an echo, and the command by which A sends 5 packets
/// from ports 4001 and 4002 each, and gets them back.
fn with_flows(net: &mut Net) -> String {
    net.nft(
        "table inet t {
           flowtable ft { hook ingress priority 0; devices = { r0, r1 }; }
           chain f {
             type filter hook forward priority 0
             meta l4proto udp flow add @ft
           }
         }",
    );
    let echo = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"\", 7))
while True:
    data, who = s.recvfrom(9); s.sendto(data, who)";
    let ask = "import socket, sys
for port in (4001, 4002):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"\", port)); s.settimeout(3)
    for n in range(5): s.sendto(b\"x\", (\"198.18.1.2\", 7)); s.recv(9)";
    std::fs::write(net.directory.join("echo.py"), echo).unwrap();
    std::fs::write(net.directory.join("ask.py"), ask).unwrap();
    let echo = format!("python3 {}", net.directory.join("echo.py").display());
    net.spawn_in('b', &echo);
    net.until("B listens", |net| net.run(&net.b, "ss -lnu | grep -q :7").0);
    format!("python3 {}", net.directory.join("ask.py").display())
}

#[test]
fn events_of_flows_are_told() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let ask = with_flows(&mut net);
    let r = net.r.clone();
    let text = net.spawn_reading(&r, "$PENSTOCK flows events --sport 4001 2>&1");
    let json = net.spawn_reading(&r, "$PENSTOCK flows events -e DESTROY --json 2>&1");
    std::thread::sleep(std::time::Duration::from_millis(500));
    net.ok(&net.a, &ask);
    net.ok(&net.r, "$PENSTOCK flows delete --sport 4001");
    net.ok(&net.r, "$PENSTOCK conntrack flush");
    net.until("they are gone", |net| net.ok(&net.r, "$PENSTOCK flows count") == "0\n");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let said = text.stop();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].starts_with(
            "    [NEW] inet t ft: udp 198.18.0.2:4001 > 198.18.1.2:7, r0 -> r1 via 198.18.1.2 mtu 1500: 0 packets 0 bytes, r1 -> r0 via 198.18.0.2 mtu 1500: 0 packets"
        ),
        "{said}"
    );
    assert!(lines[1].starts_with("[DESTROY] inet t ft: udp 198.18.0.2:4001 >"), "{said}");
    // Of each five, the first two passed rules: the second made the flow.
    assert!(
        lines[1].contains(" 4 packets 116 bytes") && lines[1].ends_with(", torn down"),
        "{said}"
    );
    let said = json.stop();
    let removed: Vec<_> = said
        .lines()
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["event"], "DESTROY", "{said}");
            (event["flow"]["original"]["source"].clone(), event["removed"].clone())
        })
        .collect();
    let expected = [("198.18.0.2:4001", "torn down"), ("198.18.0.2:4002", "connection ended")];
    assert_eq!(removed, expected.map(|(from, why)| (from.into(), why.into())), "{said}");
}

#[test]
fn flows_are_given_back_to_connection_tracking() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let ask = with_flows(&mut net);
    let count = |net: &Net| net.ok(&net.r, "$PENSTOCK flows count");
    net.ok(&net.a, &ask);
    assert_eq!(count(&net), "2\n");
    let list = net.ok(&net.r, "$PENSTOCK flows -p udp --sport 4001");
    assert!(list.contains("198.18.0.2:4001") && !list.contains("4002"), "{list}");
    net.ok(&net.r, "$PENSTOCK flows delete --sport 4001");
    assert_eq!(count(&net), "1\n");
    assert!(!net.run(&net.r, "$PENSTOCK flows delete --sport 4001").0);
    net.ok(&net.r, "$PENSTOCK flows flush");
    assert_eq!(count(&net), "0\n");
    assert_eq!(net.ok(&net.r, "$PENSTOCK conntrack count"), "2\n");
    // Their packets pass the rules, which put them there again.
    net.ok(&net.a, &ask);
    assert_eq!(count(&net), "2\n");
}
