// SPDX-License-Identifier: Apache-2.0

//! Programs for the kernel's netfilter in front of the dataplane: `penstock exec` without a state
//! file.

use std::path::PathBuf;
use std::process::Stdio;

use crate::net::Net;

/// Pings of A to B pass, or not.
fn passes(net: &Net) -> bool {
    net.run(&net.a, "ping -c 2 -i 0.2 -W 1 198.18.1.2").0
}

/// The dataplane with a ruleset, and a monitor of nft that prints into a file.
fn monitored(net: &Net, namespace: &str, exec: &str) -> (crate::net::Reading, PathBuf) {
    let file = net.directory.join(format!("monitor-{namespace}"));
    let monitor = net.spawn_in_file(namespace, &format!("{exec} stdbuf -oL nft monitor"), &file);
    std::thread::sleep(std::time::Duration::from_secs(1));
    (monitor, file)
}

const RULES: &str = "table inet t {
	counter echoes {
		packets 0 bytes 0
	}

	set seen {
		type ipv4_addr
		size 99
		flags dynamic,timeout
		timeout 1h
		counter
	}

	chain f {
		type filter hook forward priority filter; policy accept;
		icmp type echo-request counter name \"echoes\"
		icmp type echo-request counter packets 0 bytes 0
		icmp type echo-request add @seen { ip saddr }
	}
}
";

#[test]
fn a_line_after_an_unconfirmed_change_is_not_lost() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft("table ip kept { }");
    let lines = "(echo add table ip gone; sleep 2.5; echo list tables; sleep 0.5)";
    let (_, said) = net.run(&net.r, &format!("{lines} | $PENSTOCK nft -i --timeout 1s"));
    assert!(said.contains("The change is taken back."), "{said}");
    assert!(said.starts_with("table ip kept\n"), "{said}");
    // A change that another client confirms is settled, and what follows is a command.
    let lines = "(echo add table ip more; sleep 2; echo list tables; sleep 0.5)";
    let r = net.r.clone();
    let client =
        net.spawn_reading(&r, &format!("sh -c '{lines} | $PENSTOCK nft -i --timeout 20s'"));
    net.until("it waits", |net| net.ok(&net.r, "$PENSTOCK show").contains("is taken back in"));
    net.ok(&net.r, "$PENSTOCK confirm");
    let said = client.wait();
    assert!(said.ends_with("table ip kept\ntable ip more\n"), "{said}");
}

#[test]
fn nft_sees_and_changes_what_packets_meet() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    net.up("r0 r1");
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, RULES).unwrap();
    let exec = |net: &Net, line: &str| net.ok(&net.r, &format!("$PENSTOCK exec -- {line}"));
    exec(&net, &format!("nft -f {}", file.display()));
    assert!(passes(&net));
    let listed = exec(&net, "nft list ruleset");
    for said in ["counter packets 2 bytes 168", "packets 2 bytes 168", "elements = { 198.18.0.2"] {
        assert!(listed.contains(said), "{said}: {listed}");
    }
    assert_eq!(exec(&net, "nft -s list ruleset"), net.ok(&net.r, "$PENSTOCK nft -s list ruleset"));
    assert!(exec(&net, "nft list counters").contains("packets 2 bytes 168"));
    assert!(exec(&net, "nft get element inet t seen '{ 198.18.0.2 }'").contains("packets 2"));
    // What packets have added can be deleted, and what they have counted can be set to zero.
    exec(&net, "nft delete element inet t seen '{ 198.18.0.2 }'");
    assert!(!exec(&net, "nft list set inet t seen").contains("elements"));
    assert!(exec(&net, "nft reset counters").contains("packets 2 bytes 168"));
    assert!(exec(&net, "nft list counters").contains("packets 0 bytes 0"));
    // A rule is in force when the program has ended, until it is deleted.
    let added = exec(&net, "nft -a -e add rule inet t f icmp type echo-request drop");
    let handle = added.rsplit("# handle ").next().unwrap().trim().to_owned();
    assert!(!passes(&net), "{added}");
    exec(&net, &format!("nft delete rule inet t f handle {handle}"));
    assert!(passes(&net));
    let (done, said) = net.run(&net.r, "$PENSTOCK exec -- nft delete rule inet t f handle 4711");
    assert!(!done && said.contains("No such file or directory") && said.contains("^^"), "{said}");
    let (done, said) =
        net.run(&net.r, "$PENSTOCK exec -- nft create element inet t seen '{ 198.18.0.2 }'");
    assert!(!done && said.contains("File exists") && said.contains("^^"), "{said}");
    // The kernel's own ruleset is another one.
    assert_eq!(net.ok(&net.r, "nft list ruleset"), "");
    net.down();
    let (done, said) = net.run(&net.r, "$PENSTOCK exec -- nft list ruleset; test $? = 3");
    assert!(done && said.contains("no dataplane is running in this network namespace"), "{said}");
}

#[test]
fn iptables_rules_are_in_force() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iptables-nft") {
        return;
    }
    net.up("r0 r1");
    let exec = |net: &Net, line: &str| net.ok(&net.r, &format!("$PENSTOCK exec -- {line}"));
    exec(&net, "iptables-nft -A FORWARD -p icmp -s 198.18.0.2 -j DROP");
    assert!(!passes(&net));
    let listed = exec(&net, "iptables-nft -L FORWARD -v -n -x");
    assert!(listed.contains(" 2 ") && listed.contains("198.18.0.2"), "{listed}");
    exec(&net, "iptables-nft -Z");
    exec(&net, "iptables-nft -R FORWARD 1 -p icmp -s 198.18.0.3 -j DROP");
    assert!(passes(&net));
    let policy = |net: &Net| {
        let listed = exec(net, "iptables-nft -L FORWARD -v -n -x");
        listed.lines().next().unwrap_or_default().to_owned()
    };
    exec(&net, "iptables-nft -P FORWARD DROP");
    exec(&net, "iptables-nft -Z FORWARD");
    assert_eq!(policy(&net), "Chain FORWARD (policy DROP 0 packets, 0 bytes)");
    assert!(!passes(&net));
    assert_eq!(policy(&net), "Chain FORWARD (policy DROP 2 packets, 168 bytes)");
    let saved = exec(&net, "iptables-nft-save -c -t filter");
    assert!(saved.contains(":FORWARD DROP [2:168]"), "{saved}");
    net.ok(&net.r, "$PENSTOCK nft add table inet more");
    assert_eq!(policy(&net), "Chain FORWARD (policy DROP 2 packets, 168 bytes)");
    exec(&net, "iptables-nft -Z");
    assert_eq!(policy(&net), "Chain FORWARD (policy DROP 0 packets, 0 bytes)");
    let saved = exec(&net, "iptables-nft-save -t filter");
    assert!(saved.contains("-A FORWARD -s 198.18.0.3/32 -p icmp -j DROP"), "{saved}");
    exec(&net, "iptables-nft -P FORWARD ACCEPT");
    exec(&net, "iptables-nft -F");
    assert!(passes(&net));
    // An extension that packets cannot run is refused, and nothing is changed.
    let rule = "iptables-nft -A FORWARD -m ipvs --ipvs -j DROP";
    let (done, said) = net.run(&net.r, &format!("$PENSTOCK exec -- {rule}"));
    assert!(!done && said.contains("RULE_APPEND failed (Operation not supported)"), "{said}");
    assert_eq!(exec(&net, "iptables-nft -S FORWARD"), "-P FORWARD ACCEPT\n");
}

#[test]
fn accounts_count_and_are_shared() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iptables-nft") || !net.has("nfacct") {
        return;
    }
    net.up("r0 r1");
    let exec = |net: &Net, line: &str| net.ok(&net.r, &format!("$PENSTOCK exec -- {line}"));
    exec(&net, "nfacct add echo");
    exec(&net, "nfacct add few packet 3");
    exec(&net, "iptables-nft -A FORWARD -p icmp -m nfacct --nfacct-name echo");
    exec(&net, "iptables-nft -A FORWARD -p icmp -m nfacct --nfacct-name few -j DROP");
    let (done, said) = net.run(&net.r, "$PENSTOCK exec -- nfacct del echo");
    assert!(!done && said.contains("Device or resource busy"), "{said}");
    assert!(passes(&net));
    assert!(!passes(&net));
    let listed = exec(&net, "nfacct list");
    // Two requests and two answers, of which the last is over the quota; then two requests.
    let packets = 6;
    let counted = |packets: u64| format!("pkts = {packets:020}, bytes = {:020}", packets * 84);
    assert!(listed.contains(&format!("{{ {} }} = echo;", counted(packets))), "{listed}");
    assert!(listed.contains("mode = packet, overquota = yes } = few;"), "{listed}");
    // A commit leaves the values as they are.
    net.ok(&net.r, "$PENSTOCK nft add table inet more");
    let reset = exec(&net, "nfacct get echo reset");
    assert!(reset.contains(&counted(packets)), "{reset}");
    assert!(exec(&net, "nfacct get echo").contains(&counted(0)));
    exec(&net, "iptables-nft -F");
    exec(&net, "nfacct flush");
    assert_eq!(exec(&net, "nfacct list"), "");
}

#[test]
fn timeout_policies_are_given_to_connections() {
    let Some(mut net) = Net::new() else { return };
    if ["iptables-nft", "nfct", "conntrack"].iter().any(|program| !net.has(program)) {
        return;
    }
    net.up("r0 r1");
    let exec = |net: &Net, line: &str| net.ok(&net.r, &format!("$PENSTOCK exec -- {line}"));
    let left = |net: &Net| {
        let listed = exec(net, "conntrack -L -p icmp");
        let seconds = listed.split_whitespace().nth(2).and_then(|word| word.parse::<u32>().ok());
        seconds.unwrap_or_else(|| panic!("no connection: {listed}"))
    };
    exec(&net, "nfct timeout add echo inet icmp timeout 100000");
    exec(&net, "iptables-nft -t raw -A PREROUTING -p icmp -j CT --timeout echo");
    assert!(passes(&net));
    assert!(left(&net) > 30);
    let (done, said) = net.run(&net.r, "$PENSTOCK exec -- nfct timeout delete echo");
    assert!(!done && said.contains("Device or resource busy"), "{said}");
    exec(&net, "nft flush ruleset");
    exec(&net, "nfct timeout delete echo");
}

#[test]
fn sets_of_ipset_are_shared_by_programs_and_packets() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iptables-nft") || !net.has("ipset") {
        return;
    }
    let state = net.directory.join("sets.state");
    let up = format!("r0 r1 --workers 2 --state {}", state.display());
    net.up(&up);
    let exec = |net: &Net, line: &str| net.ok(&net.r, &format!("$PENSTOCK exec -- {line}"));
    exec(&net, "ipset create bad hash:net counters comment");
    exec(&net, "ipset create seen hash:ip timeout 600");
    exec(&net, "ipset create other hash:net counters comment");
    exec(&net, "iptables-nft -A FORWARD -p icmp -j SET --add-set seen src");
    exec(&net, "iptables-nft -A FORWARD -p icmp -m set --match-set bad src -j DROP");
    assert!(passes(&net));
    assert!(exec(&net, "ipset list seen").contains("198.18.0.2 timeout "));
    exec(&net, "ipset add bad 198.18.0.0/24 comment 'the lan'");
    assert!(!passes(&net));
    let listed = exec(&net, "ipset list bad");
    assert!(listed.contains("198.18.0.0/24 packets 2 bytes 168 comment \"the lan\""), "{listed}");
    assert!(listed.contains("References: 1"), "{listed}");
    exec(&net, "ipset swap bad other");
    assert!(passes(&net));
    exec(&net, "ipset swap bad other");
    let (done, said) = net.run(&net.r, "$PENSTOCK exec -- ipset destroy bad");
    assert!(!done && said.contains("in use by a kernel component"), "{said}");
    let rule = "iptables-nft -A FORWARD -m set --match-set none src";
    let (done, said) = net.run(&net.r, &format!("$PENSTOCK exec -- {rule}"));
    assert!(!done && said.contains("Set none doesn't exist"), "{said}");
    let restored =
        "(echo create many hash:ip; seq -f 'add many 10.7.%.0f.1' 0 255) | ipset restore";
    exec(&net, &format!("sh -c \"{restored}\""));
    assert!(exec(&net, "ipset list -t many").contains("Number of entries: 256"));
    let saved = exec(&net, "ipset save bad");
    net.down();
    net.up(&up);
    assert_eq!(exec(&net, "ipset save bad"), saved);
    assert!(!passes(&net));
    exec(&net, "ipset del bad 198.18.0.0/24");
    assert!(passes(&net));
    // The kernel's own sets are others.
    assert_eq!(net.ok(&net.r, "ipset list -n"), "");
    net.down();
    let stored = format!("$PENSTOCK exec --state {} -- ipset list -n", state.display());
    assert_eq!(net.ok(&net.r, &stored), "bad\nseen\nother\nmany\n");
}

#[test]
fn libnftables_changes_the_dataplane() {
    let Some(mut net) = Net::new() else { return };
    if !net.run(&net.r, "/usr/bin/python3 -c 'import nftables'").0 {
        eprintln!("skipped: there is no Python module of libnftables");
        return;
    }
    net.up("r0 r1");
    let program = net.directory.join("program.py");
    std::fs::write(
        &program,
        r#"
import json, nftables
nft = nftables.Nftables()
nft.set_json_output(True)
def add(kind, **what):
    return {"add": {kind: dict(family="inet", table="t", **what)}}
drop = [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "198.18.0.2"}}, {"drop": None}]
batch = [{"add": {"table": {"family": "inet", "name": "t"}}},
    add("chain", name="f", type="filter", hook="forward", prio=0, policy="accept"),
    add("rule", chain="f", expr=drop)]
nft.set_echo_output(True)
nft.set_handle_output(True)
status, out, error = nft.json_cmd({"nftables": batch})
assert status == 0, error
print(len(out["nftables"]))
status, out, error = nft.cmd("list ruleset")
print(json.loads(out)["nftables"][-1]["rule"]["expr"][-1])
"#,
    )
    .unwrap();
    let said = net.ok(&net.r, &format!("$PENSTOCK exec -- /usr/bin/python3 {}", program.display()));
    assert_eq!(said, "3\n{'drop': None}\n");
    assert!(!passes(&net));
}

/// Changes of all kinds, each a command of nft.
const CHANGES: &[&str] = &[
    "add table inet t",
    "add chain inet t c",
    "add chain inet t d",
    "add counter inet t n",
    "add set inet t s { type ipv4_addr; flags interval; }",
    "add element inet t s { 198.18.0.0/24, 198.18.3.1 }",
    "add rule inet t c tcp dport 22 counter accept; add rule inet t c ip saddr @s jump d",
    "insert rule inet t c udp dport { 53, 67 } counter name n",
    "add rule inet t d tcp dport { 1-4, 5-9, 20 } ip saddr vmap { 198.18.0.1 : drop }",
    "replace rule inet t d handle 11 tcp dport { 7, 8 } counter drop",
    "add map inet t m { type inet_service : verdict; }; add element inet t m { 80 : jump d }",
    "rename chain inet t d e",
    "flush chain inet t c",
    "flush set inet t s",
    "add counter inet t n; add table inet t; add quota inet t q { over 1 mbytes }",
    "add quota inet t q { over 2 mbytes }; add set inet t s { type ipv4_addr; flags interval; }",
    "add limit inet t l { rate 4/second }; add limit inet t l { rate 4/second }",
    "add element inet t s { 198.18.0.0/24, 198.18.3.1 }",
    "delete element inet t s { 198.18.3.1 }",
    "delete map inet t m",
    "delete counter inet t n",
    "add table inet t { flags dormant; }",
    "delete chain inet t e",
    "delete table inet t",
];

/// What a monitor prints of changes, without who made them.
fn heard(net: &Net, file: &std::path::Path) -> String {
    let said = || std::fs::read_to_string(file).unwrap_or_default();
    let last = "delete table inet t";
    net.until("the monitor has heard of all", |_| said().contains(last));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let said = said();
    let lines = said.lines().filter(|line| !line.starts_with("# new generation"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_monitor_hears_of_changes_of_all_in_the_kernels_order() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") || !net.has("stdbuf") {
        return;
    }
    net.up("r0 r1");
    let kernel = net.another();
    let (on_kernel, kernels_file) = monitored(&net, &kernel, "");
    let r = net.r.clone();
    for own in ["$PENSTOCK nft", "$PENSTOCK exec -- nft"] {
        let (monitor, file) = monitored(&net, &r, "$PENSTOCK exec --");
        for change in CHANGES {
            net.ok(&r, &format!("{own} '{change}'"));
        }
        let ours = heard(&net, &file);
        let said = std::fs::read_to_string(&file).unwrap();
        let name = if own.contains("exec") { "(nft)" } else { "(penstock)" };
        assert!(said.contains(name), "{said}");
        monitor.stop();
        std::fs::write(&kernels_file, "").unwrap();
        for change in CHANGES {
            net.ok(&kernel, &format!("nft '{change}'"));
        }
        let kernels = heard(&net, &kernels_file);
        // The kernel's monitor appends to a file that was emptied.
        assert_eq!(ours, kernels.trim_start_matches('\0'), "{own}");
    }
    on_kernel.stop();
}

#[test]
fn quotas_that_are_used_up_are_told_as_by_the_kernel() {
    const RULES: &str = "table ip q {
        quota few { over 80 bytes; }
        chain f { type filter hook forward priority -5; icmp type echo-request quota name few; }
    }";
    let Some(mut net) = Net::new() else { return };
    if !["python3", "nfacct", "iptables-nft"].into_iter().all(|program| net.has(program)) {
        return;
    }
    let listener = net.directory.join("quotas.py");
    std::fs::write(&listener, include_str!("quotas.py")).unwrap();
    let (rules, file) = (net.directory.join("quotas.nft"), net.directory.join("quotas"));
    std::fs::write(&rules, RULES).unwrap();
    let story = |net: &Net, exec: &str| {
        let ok = |line: &str| net.ok(&net.r, &format!("{exec} {line}"));
        ok(&format!("nft -f {}", rules.display()));
        ok("nfacct add two packet 2");
        ok("iptables-nft -A FORWARD -p icmp -m nfacct --nfacct-name two");
        let line = format!("{exec} python3 {}", listener.display());
        let listening = net.spawn_in_file(&net.r, &line, &file);
        let said = || std::fs::read_to_string(&file).unwrap_or_default();
        net.until("it listens", |_| said().contains("listens"));
        // The dataplane hears of groups a moment later.
        std::thread::sleep(std::time::Duration::from_millis(300));
        net.ok(&net.a, "ping -c 1 -W 5 198.18.1.2");
        net.until("both are told", |_| said().lines().count() >= 3);
        listening.stop();
        ok("nft flush ruleset");
        ok("nfacct flush");
        let mut lines: Vec<_> = said().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let kernels = story(&net, "");
    net.up("r0 r1");
    assert_eq!(story(&net, "$PENSTOCK exec --"), kernels);
}

#[test]
fn rules_choose_events_of_connections_as_in_the_kernel() {
    const ECHO: &str = "
import socket, sys, threading
def echo(port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('198.18.1.2', port))
    while True:
        data, to = sock.recvfrom(99)
        sock.sendto(data, to)
for port in range(6, 10):
    threading.Thread(target=echo, args=(port,)).start()
";
    const ASK: &str = "
import socket
for port in (6, 7, 8, 9, 6):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(1)
    sock.bind(('198.18.0.2', 0 if port == 6 else 4000 + port))
    for _ in range(3):
        sock.sendto(b'x', ('198.18.1.2', port))
        sock.recv(9)
";
    let Some(mut net) = Net::new() else { return };
    if !["python3", "conntrack", "iptables-nft"].into_iter().all(|program| net.has(program)) {
        return;
    }
    let (echo, ask) = (net.directory.join("echo.py"), net.directory.join("ask.py"));
    std::fs::write(&echo, ECHO).unwrap();
    std::fs::write(&ask, ASK).unwrap();
    let server = net.spawn_reading(&net.b, &format!("python3 {}", echo.display()));
    let story = |net: &Net, exec: &str, number: u32| {
        let file = net.directory.join(format!("events{number}"));
        // The kernel ignores what rules choose before anybody listens.
        let listening = net.spawn_in_file(&net.r, &format!("{exec} conntrack -E -p udp"), &file);
        std::thread::sleep(std::time::Duration::from_secs(1));
        for (port, events) in
            [(7, "--ctevents new"), (8, "--ctevents reply"), (9, "--expevents new")]
        {
            let rule = format!("-A PREROUTING -p udp --dport {port} -j CT {events}");
            net.ok(&net.r, &format!("{exec} iptables-nft -t raw {rule}"));
        }
        net.ok(&net.r, &format!("{exec} iptables-nft -A FORWARD -m conntrack --ctstate NEW"));
        net.ok(&net.a, &format!("python3 {}", ask.display()));
        let said = || std::fs::read_to_string(&file).unwrap_or_default();
        // The last one asked has two events.
        let is_over = |said: &str| said.matches("dport=6 ").count() >= 4;
        net.until("all is told", |_| is_over(&said()));
        listening.stop();
        net.ok(&net.r, &format!("{exec} nft flush ruleset"));
        let what = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            let port = words.iter().find(|word| word.starts_with("dport=")).copied();
            format!("{} {}", words[0], port.unwrap_or_default())
        };
        said().lines().map(what).collect::<Vec<_>>()
    };
    let kernels = story(&net, "", 1);
    assert_eq!(kernels.len(), 6, "{kernels:?}");
    net.up("r0 r1");
    assert_eq!(story(&net, "$PENSTOCK exec --", 2), kernels);
    server.stop();
}

#[test]
fn those_who_may_only_look_list_and_listen() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") || !net.has("setpriv") {
        return;
    }
    net.up("r0 r1 --allow-read");
    net.nft(RULES);
    assert!(passes(&net));
    // A folder that others enter.
    let program = std::env::temp_dir().join(format!("penstock-{}", net.r));
    std::fs::copy(crate::net::program(), &program).unwrap();
    let nobody =
        format!("setpriv --reuid 65534 --regid 65534 --clear-groups {} exec --", program.display());
    let listed = net.ok(&net.r, &format!("{nobody} nft list ruleset"));
    assert!(listed.contains("counter packets 2 bytes 168"), "{listed}");
    for change in ["add table ip u", "reset counters", "flush ruleset"] {
        let (done, said) = net.run(&net.r, &format!("{nobody} nft {change}"));
        assert!(!done && said.contains("Operation not permitted"), "{change}: {said}");
    }
    let file = net.directory.join("heard");
    let monitor = net.spawn_in_file(&net.r, &format!("{nobody} stdbuf -oL nft monitor"), &file);
    net.until_within(60, "it hears", |net| {
        net.ok(&net.r, "$PENSTOCK nft add table ip u");
        net.ok(&net.r, "$PENSTOCK nft delete table ip u");
        std::fs::read_to_string(&file).unwrap_or_default().contains("add table ip u")
    });
    monitor.stop();
    let _ = std::fs::remove_file(&program);
    assert!(passes(&net));
}

#[test]
fn sixty_four_clients_change_the_ruleset_at_once() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    net.up("r0 r1");
    net.nft("table ip t { chain f { type filter hook forward priority 0; }; chain c { }; }");
    let all: Vec<_> = (0..64)
        .map(|n| {
            let line = format!(
                "exec $PENSTOCK exec -- sh -c 'nft add rule ip t c ip saddr 198.19.0.{n} drop && \
                 nft list chain ip t c | grep -q \"198.19.0.{n} drop\"'"
            );
            let mut command = net.command(&net.r, &line);
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    let rules = net.ok(&net.r, "$PENSTOCK nft list chain ip t c");
    assert_eq!(rules.matches(" drop").count(), 64, "{rules}");
    assert!(passes(&net));
}

/// What a hostile program sends.
const HOSTILE: &str = r#"
import random, socket, struct, sys
def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)
def message(kind, flags, family, resource, body=b""):
    return struct.pack("=IHHIIBBH", 20 + len(body), kind, flags, 1, 0, family, 0, socket.htons(resource)) + body
def batch(*messages):
    return message(0x10, 1, 0, 10) + b"".join(messages) + message(0x11, 1, 0, 10)
table = message(0xA00, 0x401, 1, 0, attribute(1, b"x\0"))
sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
sock.setblocking(False)
def drain():
    try:
        while True:
            sock.recv(1 << 20)
    except OSError:
        pass
random.seed(int(sys.argv[1]))
# Without an end it changes nothing.
sock.send(message(0x10, 1, 0, 10) + table)
for _ in range(600):
    body = random.randbytes(random.randrange(0, 200))
    subsystem, most = random.choice([(10, 34), (1, 8), (2, 4), (3, 5), (4, 3), (11, 2), (12, 2)])
    kind = subsystem << 8 | random.randrange(0, most)
    inner = message(kind, random.randrange(0, 0x1000) | 1, random.choice([0, 1, 2, 7, 10]), 0, body)
    sent = random.choice([inner, batch(inner), batch(table, inner), random.randbytes(90), inner[:-3], inner + inner])
    try:
        sock.send(sent)
    except OSError:
        pass
    drain()
# Nested deeply, and long.
deep = b""
for _ in range(4000):
    deep = attribute(0x8001, deep) if len(deep) < 60000 else deep
sock.send(batch(message(0xA06, 0xC01, 1, 0, attribute(1, b"t\0") + attribute(2, b"c\0") + attribute(0x8004, deep))))
drain()
"#;

#[test]
fn hostile_messages_stop_nothing() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") || !net.has("python3") {
        return;
    }
    net.up("r0 r1");
    net.nft(RULES);
    let file = net.directory.join("hostile.py");
    std::fs::write(&file, HOSTILE).unwrap();
    for seed in 0..4 {
        net.ok(&net.r, &format!("$PENSTOCK exec -- python3 {} {seed}", file.display()));
        assert!(passes(&net));
    }
    // They may have deleted it.
    net.ok(&net.r, "$PENSTOCK exec -- nft flush ruleset");
    net.nft(RULES);
    assert!(passes(&net));
    let listed = net.ok(&net.r, "$PENSTOCK exec -- nft list ruleset");
    assert!(listed.contains("packets 2 bytes 168"), "{listed}");
    assert!(!net.log().contains("BUG"), "{}", net.log());
}

#[test]
fn a_client_that_is_killed_in_a_batch_changes_nothing_or_all() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    net.up("r0 r1");
    net.nft("table ip t { chain f { type filter hook forward priority 0; }; chain c { }; }");
    let file = net.directory.join("many.nft");
    let rules: String = (0..20_000u32)
        .map(|n| format!("add rule ip t c ip saddr 198.19.{}.{} drop\n", n >> 8 & 255, n & 255))
        .collect();
    std::fs::write(&file, rules).unwrap();
    let count =
        |net: &Net| net.ok(&net.r, "$PENSTOCK nft list chain ip t c").matches(" drop").count();
    for tenths in 1..8 {
        let line =
            format!("timeout -s KILL 0.{tenths} $PENSTOCK exec -- nft -f {}; true", file.display());
        net.ok(&net.r, &line);
        let rules = count(&net);
        assert!(rules % 20_000 == 0, "{rules}");
    }
    assert!(passes(&net));
    // The evaluator is there for others, too.
    net.ok(&net.r, "$PENSTOCK exec -- nft add rule ip t c counter");
}

#[test]
fn programs_outlive_a_dataplane() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    net.up("r0 r1");
    let (go, done) = (net.directory.join("go"), net.directory.join("done"));
    let script = format!(
        "nft add table ip a && touch {done}; while ! test -e {go}; do sleep 0.1; done; \
         nft list tables; while ! nft add table ip b 2>/dev/null; do sleep 0.1; done; nft list tables",
        done = done.display(),
        go = go.display()
    );
    let program =
        net.spawn_reading(&net.r, &format!("exec $PENSTOCK exec -- sh -c '{script}' 2>&1"));
    net.until("the first change is made", |_| done.exists());
    net.down();
    std::fs::write(&go, "").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    net.up("r0 r1");
    let said = program.wait();
    // The first one is asked while there is none.
    assert!(said.contains("Input/output error") || said.contains("cache"), "{said}");
    assert!(said.ends_with("table ip b\n"), "{said}");
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip b\n");
}

#[test]
fn a_program_in_another_namespace_gets_the_dataplane_there() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    net.up("r0 r1");
    let (a, b) = (net.a.clone(), net.b.clone());
    // On A there is no dataplane: the kernel answers.
    net.ok(&a, "nft add table ip kernels");
    net.ok(&net.r, "$PENSTOCK exec -- nft add table ip ours");
    let script = format!(
        "ip netns exec {a} nft list tables; ip netns exec {r} nft list tables; \
         ip netns exec {r} nft add table ip further; ip netns exec {r} nft list tables",
        r = net.r
    );
    let own = net.ok(&net.r, &format!("$PENSTOCK exec -- sh -c '{script}'"));
    assert_eq!(own, "table ip kernels\ntable ip ours\ntable ip ours\ntable ip further\n");
    // From a namespace with a dataplane of its own.
    net.ok(&b, "ip link add v0 type veth peer name v1; ip link set v1 up");
    net.spawn_in('b', "$PENSTOCK up v0");
    net.until_within(30, "the other dataplane runs", |net| net.run(&b, "$PENSTOCK show").0);
    let there = net.ok(&b, &format!("$PENSTOCK exec -- sh -c 'nft add table ip b; {script}'"));
    assert_eq!(
        there,
        "table ip kernels\ntable ip ours\ntable ip further\ntable ip ours\ntable ip further\n"
    );
    assert_eq!(net.ok(&b, "$PENSTOCK exec -- nft list tables"), "table ip b\n");
    assert_eq!(net.ok(&b, "nft list tables"), "");
    net.ok(&b, "$PENSTOCK down");
}

#[test]
fn tables_of_owners_are_theirs_and_go_with_them() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    net.up("r0 r1");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clients/owners.py");
    let inside = net.ok(&net.r, &format!("$PENSTOCK exec -- python3 {script}"));
    assert_eq!(inside, net.ok(&net.a, &format!("python3 {script}")));
    // The last table has no owner.
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip t\n");
    net.down();
}

#[test]
fn usual_timeouts_are_set_as_in_the_kernel_and_followed() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") || !net.has("nfct") {
        return;
    }
    net.up("r0 r1 --workers 2");
    let both = |net: &Net, line: &str| {
        let inside = net.ok(&net.r, &format!("$PENSTOCK exec -- {line}"));
        assert_eq!(inside, net.ok(&net.a, line), "{line}");
        inside
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clients/default_timeouts.py");
    both(&net, &format!("python3 {script}"));
    both(&net, "nfct timeout default-set inet udp replied 300");
    both(&net, "nfct timeout default-set inet icmp timeout 5000");
    assert!(both(&net, "nfct timeout default-get inet udp").contains(".REPLIED = 300,"));
    // Connections have them; the host's own settings are others, and count when they change.
    net.nft(
        "table ip t { chain c { type filter hook forward priority 0; ct state new accept; }; }",
    );
    let listed = |net: &Net| {
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
        net.ok(&net.r, "$PENSTOCK exec -- conntrack -L -p icmp 2>&1")
    };
    let first = listed(&net);
    assert!(first.contains(" 4999 ") || first.contains(" 5000 "), "{first}");
    let host = net.ok(&net.r, "sysctl -n net.netfilter.nf_conntrack_icmp_timeout");
    assert_eq!(host, "30\n");
    net.ok(&net.r, "sysctl -qw net.netfilter.nf_conntrack_udp_timeout=44");
    net.until("the host's setting is followed", |net| {
        let line = "$PENSTOCK exec -- nfct timeout default-get inet udp";
        net.ok(&net.r, line).contains(".UNREPLIED = 44,")
    });
    let icmp = net.ok(&net.r, "$PENSTOCK exec -- nfct timeout default-get inet icmp");
    assert!(icmp.contains(".TIMEOUT = 5000,"), "{icmp}");
    net.down();
}
