// SPDX-License-Identifier: Apache-2.0

//! Rule texts are evaluated by processes that have no rights and may end: packets, and other
//! clients, do not notice.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::net::{Net, sh};

/// What no packet passes that is told by its mark: pings of 64 bytes do, larger ones do not.
const RULES: &str = "table ip t {
\tset dyn {
\t\ttype ipv4_addr
\t\tsize 99
\t\tflags dynamic
\t}

\tchain c {
\t\ttype filter hook forward priority filter; policy accept;
\t\tmeta length 500 counter packets 0 bytes 0 drop
\t\ticmp type echo-request add @dyn { ip daddr }
\t}
}
";

fn field(process: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_default().to_owned();
    line.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

/// Processes below one, by their names.
fn children(process: u32, name: &str) -> Vec<u32> {
    let all = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"))
        .unwrap_or_default();
    let all = all.split_whitespace().map(|child| child.parse().unwrap());
    all.filter(|child| field(*child, "Name:") == name).collect()
}

/// The process that starts evaluators, and the evaluator.
fn evaluator(net: &Net) -> (u32, u32) {
    let spawner = children(net.pid(), "penstock-spawn")[0];
    net.until("there is an evaluator", |_| !children(spawner, "penstock-eval").is_empty());
    (spawner, children(spawner, "penstock-eval")[0])
}

fn kill(process: u32) {
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &process.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// As many rules as take a while.
fn many(net: &Net) -> String {
    let file = net.directory.join("many.nft");
    let rules: String = (0..300_000u32)
        .map(|n| {
            format!("add rule ip t c ip saddr 10.{}.{}.{} drop\n", n >> 16, n >> 8 & 255, n & 255)
        })
        .collect();
    std::fs::write(&file, rules).unwrap();
    file.display().to_string()
}

#[test]
fn a_text_that_takes_all_memory_ends_alone() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --allow-read --batch-memory 24");
    net.nft(RULES);
    let many = many(&net);
    let before = net.memory();
    let mut dropped = net
        .command(&net.a, "ping -i 0.05 -c 40 -s 472 -W 1 198.18.1.2")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let nested = net.directory.join("nested.nft");
    let text = |times| {
        let defines = "redefine a = { $a, $a }\n".repeat(times);
        format!("define a = {{ 1, 2 }}\n{defines}add rule ip t c tcp dport $a drop\n")
    };
    std::fs::write(&nested, text(60)).unwrap();
    // As much as is not refused for itself.
    let large = net.directory.join("large.nft");
    std::fs::write(&large, text(17)).unwrap();
    let (nested, large) = (nested.display(), large.display());
    let program = net.directory.join("penstock");
    std::fs::copy(env!("CARGO_BIN_EXE_penstock"), &program).unwrap();
    let nobody =
        format!("setpriv --reuid 65534 --regid 65534 --clear-groups {}", program.display());
    let too_much = "memory";
    for (command, said) in [
        (format!("$PENSTOCK nft -f {many}"), too_much),
        (format!("{nobody} nft -c -f {large}"), too_much),
        (format!("$PENSTOCK nft -f {nested}"), "Error: "),
        (format!("{nobody} nft -c -f {nested}"), "Error: "),
    ] {
        let begun = Instant::now();
        let (ok, text) = net.run(&net.r, &command);
        assert!(!ok && text.contains(said), "{command}: {text}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{command}");
    }
    let mut pings = String::new();
    std::io::Read::read_to_string(dropped.stdout.as_mut().unwrap(), &mut pings).unwrap();
    dropped.wait().unwrap();
    assert!(pings.contains(" 100% packet loss"), "{pings}");
    assert!(net.memory() < before + (64 << 20), "{before} {}", net.memory());
    let rules = net.ok(&net.r, "$PENSTOCK nft -s list ruleset");
    assert!(!rules.contains("saddr"), "{rules}");
    net.ok(&net.r, "$PENSTOCK nft add rule ip t c accept");
}

#[test]
fn processes_that_read_rule_texts_have_no_rights() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let (spawner, evaluator) = evaluator(&net);
    let mut session =
        net.command(&net.r, "exec $PENSTOCK nft -i").stdin(Stdio::piped()).spawn().unwrap();
    net.until("a child serves the client", |_| !children(evaluator, "penstock-nft").is_empty());
    let child = children(evaluator, "penstock-nft")[0];
    net.until("it is restricted", |_| field(child, "Seccomp_filters:") == "3");
    net.until("one waits for the next client", |_| {
        !children(evaluator, "penstock-ready").is_empty()
    });
    let ready = children(evaluator, "penstock-ready")[0];
    net.until("it is restricted, too", |_| field(ready, "Seccomp_filters:") == "3");
    for (process, seccomp) in [(spawner, "2"), (evaluator, "2"), (child, "2"), (ready, "2")] {
        for (name, value) in [
            ("CapEff:", "0000000000000000"),
            ("CapPrm:", "0000000000000000"),
            ("CapBnd:", "0000000000000000"),
            ("NoNewPrivs:", "1"),
            ("Uid:", "65534"),
            ("Gid:", "65534"),
            ("Groups:", ""),
            ("Seccomp:", seccomp),
        ] {
            assert_eq!(field(process, name), value, "{process}: {name}");
        }
        let score = std::fs::read_to_string(format!("/proc/{process}/oom_score_adj")).unwrap();
        assert_eq!(score, "1000\n");
    }
    let limits = std::fs::read_to_string(format!("/proc/{child}/limits")).unwrap();
    let line = limits.lines().find(|l| l.starts_with("Max address space")).unwrap();
    assert!(!line.contains("unlimited"), "{line}");
    let sockets = std::fs::read_dir(format!("/proc/{child}/fd")).unwrap().count();
    // Three that lead nowhere or to the log, the client's connection, and the channel to the
    // dataplane.
    assert_eq!(sockets, 5);
    writeln!(session.stdin.as_mut().unwrap(), "add table ip t").unwrap();
    drop(session.stdin.take());
    assert!(session.wait().unwrap().success());
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip t\n");
    net.until("it has gone with its client", |_| children(evaluator, "penstock-nft").is_empty());
}

#[test]
fn packets_pass_while_helper_processes_are_killed() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft(RULES);
    let many = many(&net);
    let (spawner, first) = evaluator(&net);
    let mut ping = net
        .command(&net.a, "ping -i 0.02 -c 150 -W 2 198.18.1.2")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A child, in the middle of a text.
    let mut batch = net
        .command(&net.r, &format!("exec $PENSTOCK nft -f {many}"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    net.until("a child evaluates", |_| !children(first, "penstock-nft").is_empty());
    std::thread::sleep(Duration::from_millis(100));
    kill(children(first, "penstock-nft")[0]);
    let mut said = String::new();
    std::io::Read::read_to_string(batch.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert!(!batch.wait().unwrap().success());
    assert_eq!(
        said,
        "Error: the evaluation of the text was ended by a signal; nothing is changed\n"
    );
    let without_counters = |text: String| {
        text.lines()
            .filter(|l| !l.contains("counter") && !l.contains("elements"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let rules = without_counters(net.ok(&net.r, "$PENSTOCK nft list ruleset"));
    assert_eq!(rules, without_counters(RULES.into()));
    // The evaluator: there is another one, which knows the ruleset.
    kill(first);
    net.until("there is another evaluator", |_| {
        children(spawner, "penstock-eval").iter().any(|p| *p != first)
    });
    net.until("it answers", |net| net.run(&net.r, "$PENSTOCK nft list tables").0);
    assert_eq!(without_counters(net.ok(&net.r, "$PENSTOCK nft list ruleset")), rules);
    net.ok(&net.r, "$PENSTOCK nft 'add rule ip t c accept; delete table ip t; add table ip u'");
    let mut pings = String::new();
    std::io::Read::read_to_string(ping.stdout.as_mut().unwrap(), &mut pings).unwrap();
    ping.wait().unwrap();
    assert!(pings.contains(" 0% packet loss"), "{pings}");
    // All of them.
    kill(spawner);
    net.until("nobody evaluates", |net| {
        let (ok, said) = net.run(&net.r, "$PENSTOCK nft list tables");
        !ok && said.starts_with("Error: the evaluator of rule texts does not answer")
    });
    net.ok(&net.a, "ping -c 3 -i 0.1 -W 2 198.18.1.2");
    net.ok(&net.r, "$PENSTOCK show");
    net.down();
}

#[test]
fn listings_include_changes_made_by_packets() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft(RULES);
    net.ok(&net.a, "ping -c 3 -i 0.1 -W 2 198.18.1.2");
    net.run(&net.a, "ping -c 2 -i 0.1 -W 1 -s 472 198.18.1.2");
    for (command, ok, expected) in [
        // Elements that packets have added.
        ("get element ip t dyn '{ 198.18.1.2 }'", true, "elements = { 198.18.1.2 }"),
        (
            "create element ip t dyn '{ 198.18.1.2 }'",
            false,
            "create element ip t dyn { 198.18.1.2 }",
        ),
        ("create element ip t dyn '{ 198.18.1.2 }'", false, "^^^^^^^^^^"),
        ("delete element ip t dyn '{ 198.18.9.9 }'", false, "No such file or directory"),
        (
            "-e add element ip t dyn '{ 198.18.1.2, 198.18.1.3 }'",
            true,
            "add element ip t dyn { 198.18.1.3 }\n",
        ),
        ("delete element ip t dyn '{ 198.18.1.2 }'", true, ""),
        ("delete element ip t dyn '{ 198.18.1.2 }'", false, "No such file or directory"),
        // Counters.
        ("list chain ip t c", true, "counter packets 2 bytes 1000"),
        ("-c reset rules", true, "counter packets 2 bytes 1000"),
        ("reset rules", true, "counter packets 2 bytes 1000"),
        ("reset rules", true, "counter packets 0 bytes 0"),
        // A command that follows knows what one before it has changed.
        ("'add table ip u; list tables'", true, "table ip u\n"),
        (
            "'add rule ip t c drop; insert rule ip t c index 2 accept; list chain ip t c'",
            true,
            "\t\taccept\n\t\tdrop\n",
        ),
        ("'reset rules; add rule ip nowhere c drop'", false, "No such file or directory"),
    ] {
        let (succeeded, said) = net.run(&net.r, &format!("$PENSTOCK nft {command}"));
        assert!(succeeded == ok && said.contains(expected), "{command}: {said}");
    }
}

#[test]
fn a_killed_dataplane_takes_its_hanging_evaluator_along() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let (spawner, evaluator) = evaluator(&net);
    // It cannot notice that the channel is closed.
    sh(&format!("kill -STOP {evaluator}; kill -KILL {}", net.pid()));
    net.ended_somehow();
    let is_there = |process: u32| std::path::Path::new(&format!("/proc/{process}")).exists();
    net.until("both are gone", |_| !is_there(spawner) && !is_there(evaluator));
    net.ok(&net.r, "$PENSTOCK down || true");
}
