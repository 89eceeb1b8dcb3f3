// SPDX-License-Identifier: Apache-2.0

//! Clients that do what none should: packets, and other clients, do not notice.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::net::Net;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/hostile.py");

/// Starts the script, and waits until it says that it has begun; all lines until then.
fn begin(net: &Net, args: &str) -> (Child, Vec<String>) {
    let mut command = net.command(&net.r, &format!("exec python3 {SCRIPT} {args}"));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    (child, lines.take_while(|line| line != "begun").collect())
}

/// Packets pass, clients are answered, and the ruleset can be changed.
fn all_is_well(net: &Net) {
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 198.18.1.2");
    net.ok(&net.r, "$PENSTOCK show");
    net.ok(&net.r, "$PENSTOCK nft 'add table ip well; delete table ip well'");
}

#[test]
fn misbehaving_clients_do_no_harm() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    net.up("r0 r1");
    net.nft("table ip t { chain c { type filter hook forward priority filter; counter; }; }");
    assert_eq!(net.ok(&net.r, &format!("python3 {SCRIPT} garbage")), "done\n");
    all_is_well(&net);
    let (mut halves, _) = begin(&net, "halves 40 60");
    all_is_well(&net);
    halves.kill().unwrap();
    halves.wait().unwrap();
    // Clients without rights get an error.
    let (ok, said) = net.run(&net.r, &format!("python3 {SCRIPT} looker"));
    assert!(!ok && !said.contains("list:"), "{said}");
    // Idle clients take all places: further clients wait no longer than the idle limit.
    let (mut halves, _) = begin(&net, "halves 256 60");
    for command in ["show", "nft list tables", "top", "capture --hook forward -w -", "confirm"] {
        let (ok, said) = net.run(&net.r, &format!("$PENSTOCK {command} < /dev/null"));
        assert!(!ok && said == "Error: too many clients\n", "{command}: {said}");
    }
    halves.kill().unwrap();
    halves.wait().unwrap();
    net.until("there is room again", |net| net.run(&net.r, "$PENSTOCK show").0);
    all_is_well(&net);
}

#[test]
fn read_only_clients_cannot_change_anything() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    net.up("r0 r1 --allow-read");
    net.nft("table ip t { chain c { type filter hook forward priority filter; counter; }; }");
    let (mut lookers, said) = begin(&net, "looker");
    let refused = "Error: Operation not permitted (you must be root)";
    let expected = [
        "list:  0".to_owned(),
        format!("flush: {refused}"),
        " 1".into(),
        format!("reset: {refused}"),
        " 1".into(),
        "check:  0".into(),
        format!("down: {refused}"),
        " 1".into(),
        format!("confirm: {refused}"),
        " 1".into(),
        format!("capture: {refused}"),
        " 1".into(),
        "long:  None".into(),
    ];
    assert_eq!(said[..expected.len()], expected);
    let too_many: u32 = said[expected.len()].strip_prefix("refused: ").unwrap().parse().unwrap();
    assert!(too_many >= 60 - 8, "one user does not take all places: {said:?}");
    // There is room for root.
    all_is_well(&net);
    assert!(
        net.ok(&net.r, "$PENSTOCK nft list ruleset").contains("table ip t"),
        "it was looked at, not flushed"
    );
    lookers.wait().unwrap();
}

#[test]
fn root_is_served_while_other_users_flood() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    for may_look in ["", "--allow-read"] {
        net.up(&format!("r0 r1 {may_look}"));
        let mut floods: Vec<Child> =
            [65534, 65533].iter().map(|user| begin(&net, &format!("flood {user} 60")).0).collect();
        for call in 0..20 {
            let (ok, said) = net.run(&net.r, "$PENSTOCK nft list tables");
            assert!(ok, "call {call} {may_look}: {said}");
        }
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", net.pid())).unwrap().count();
        assert!(descriptors < 150, "{descriptors}");
        all_is_well(&net);
        for flood in &mut floods {
            flood.kill().unwrap();
            flood.wait().unwrap();
        }
        net.down();
    }
}

#[test]
fn clients_that_do_not_read_hold_one_page_each() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    net.up("r0 r1 --allow-read");
    let name = "a".repeat(100);
    let rules: String = (0..20_000)
        .map(|n| format!("add rule ip t c ip saddr 10.0.0.1 counter comment \"{n}{name}\"\n"))
        .collect();
    net.nft(&format!("add table ip t\nadd chain ip t c\n{rules}"));
    // The allocator keeps what one answer takes.
    let whole = net.ok(&net.r, "$PENSTOCK show --json").len()
        + net.ok(&net.r, "$PENSTOCK show --metrics").len();
    let before = net.memory();
    let (mut deaf, _) = begin(&net, "deaf 60");
    // Answers take their time to be made.
    let most = (0..50).map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        net.memory()
    });
    let grown = most.max().unwrap().saturating_sub(before);
    assert!(grown < 4 << 20 && grown < whole as u64, "{grown} bytes more, {whole} are told");
    let printed: serde_json::Value =
        serde_json::from_str(&net.ok(&net.r, "$PENSTOCK show --json")).expect("JSON");
    assert_eq!(printed["rules"].as_array().unwrap().len(), 20_000);
    all_is_well(&net);
    deaf.kill().unwrap();
    deaf.wait().unwrap();
}

#[test]
fn metrics_are_served_while_connections_idle() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") || !net.has("curl") {
        return;
    }
    net.up("r0 r1 --metrics 127.0.0.1:9900");
    let (mut idle, _) = begin(&net, "idle 60");
    for scrape in 0..20 {
        let (ok, said) = net.run(&net.r, "curl -sS --max-time 2 http://127.0.0.1:9900/metrics");
        assert!(ok && said.ends_with("# EOF\n"), "scrape {scrape}: {said}");
    }
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", net.pid())).unwrap().count();
    assert!(descriptors < 400, "{descriptors}");
    all_is_well(&net);
    idle.kill().unwrap();
    idle.wait().unwrap();
}

#[test]
fn watchers_that_do_not_read_block_no_other_client() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    net.up("r0 r1");
    net.nft(
        "table ip t { chain c { type filter hook forward priority filter; meta nftrace set 1; }; }",
    );
    let (mut slow, _) = begin(&net, "slow 60");
    let many: String =
        (0..500).map(|n| format!("add rule ip t c ip saddr 198.19.0.{} drop\n", n % 250)).collect();
    let file = net.directory.join("many.nft");
    std::fs::write(&file, many).unwrap();
    for _ in 0..10 {
        net.ok(&net.r, &format!("$PENSTOCK nft -f {}", file.display()));
    }
    net.ok(&net.a, "ping -f -c 2000 -W 2 198.18.1.2");
    all_is_well(&net);
    slow.kill().unwrap();
    slow.wait().unwrap();
}

#[test]
fn a_ruleset_that_takes_too_long_is_refused_and_packets_pass_meanwhile() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --batch-time 0.3");
    let before = "table ip t {\n\tchain c {\n\t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n";
    net.nft(before);
    let file = net.directory.join("huge.nft");
    let rules: String = (0..400_000u32)
        .map(|n| {
            format!("add rule ip t c ip saddr 10.{}.{}.{} drop\n", n >> 16, n >> 8 & 255, n & 255)
        })
        .collect();
    std::fs::write(&file, rules).unwrap();
    let mut ping = net
        .command(&net.a, "ping -i 0.05 -c 40 -W 2 198.18.1.2")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK nft -f {}", file.display()));
    assert!(!ok && said.contains("evaluation takes longer than is allowed"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    let mut pings = String::new();
    std::io::Read::read_to_string(ping.stdout.as_mut().unwrap(), &mut pings).unwrap();
    ping.wait().unwrap();
    assert!(pings.contains(" 0% packet loss"), "{pings}");
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list ruleset"), before);
}

#[test]
fn the_process_keeps_few_rights() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let status = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |status: &str, name: &str| {
        let line = status.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    // CAP_NET_ADMIN, CAP_NET_RAW, CAP_PERFMON, CAP_BPF; and CAP_IPC_LOCK, where the limit of locked
    // memory could not be raised.
    let few = 1u64 << 12 | 1 << 13 | 1 << 38 | 1 << 39;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", net.pid())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max locked memory")).unwrap();
    let limited = !limit.contains("unlimited");
    let [few, own] = [few, few | u64::from(limited) << 14].map(|set| format!("{set:016x}"));
    let all: Vec<u32> = std::fs::read_dir(format!("/proc/{}/task", net.pid()))
        .unwrap()
        .map(|t| t.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    assert!(all.len() > 2);
    for thread in all {
        let status = status(thread);
        for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
            assert_eq!(field(&status, set), own, "{status}");
        }
        assert_eq!(field(&status, "Seccomp:"), "2", "{status}");
        assert_eq!(field(&status, "NoNewPrivs:"), "1");
    }
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", net.pid())).unwrap();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    let guardian = children
        .into_iter()
        .find(|child| field(&status(*child), "Name:") == "penstock-guard")
        .unwrap();
    assert_eq!(field(&status(guardian), "CapEff:"), few);
    all_is_well(&net);
}
