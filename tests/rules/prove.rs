// SPDX-License-Identifier: Apache-2.0

//! The commands of docs/prove.md, and what they print there; and what is refused.

use std::path::Path;
use std::process::Command;

const PENSTOCK: &str = env!("CARGO_BIN_EXE_penstock");
const PAGE: &str = include_str!("../../docs/prove.md");

/// Runs a command line in the folder of the examples: what it prints, errors included, and its exit
/// status.
fn run(line: &str) -> (String, i32) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prove");
    let words = line.split(' ').skip(1);
    let output = Command::new(PENSTOCK).args(words).current_dir(dir).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code().unwrap_or(-1))
}

#[test]
fn commands_of_the_page_print_what_stands_there() {
    let mut lines = PAGE.lines().peekable();
    let mut commands = 0;
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("    $ ") else { continue };
        let mut expected = String::new();
        while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with("    ")) {
            expected.push_str(line.get(4..).unwrap_or(""));
            expected.push('\n');
        }
        let (printed, _) = run(command);
        assert_eq!(printed.trim_end(), expected.trim_end(), "{command}");
        commands += 1;
    }
    assert_eq!(commands, 12, "commands on the page");
}

#[test]
fn exit_statuses_say_what_was_found() {
    for (line, status) in [
        ("penstock diff old.nft old.nft", 0),
        ("penstock diff old.nft new.nft", 1),
        ("penstock diff old.nft missing.nft", 2),
        ("penstock diff --json old.nft new.nft", 1),
        ("penstock diff --chain inet filter forward old.nft new.nft", 1),
        ("penstock diff --chain inet filter input old.nft new.nft", 2),
        ("penstock diff --hook forward old.nft refactored.nft", 0),
        ("penstock diff --hook input old.nft refactored.nft", 2),
        ("penstock diff --net net.ip old.nft old.nft", 0),
        ("penstock diff --net net.ip old.nft new.nft", 1),
        ("penstock diff --net missing.ip old.nft new.nft", 2),
        ("penstock diff --net old.nft old.nft new.nft", 2),
        ("penstock diff --net net.ip --hook forward old.nft new.nft", 2),
        ("penstock diff --net-old net.ip old.nft new.nft", 2),
        ("penstock diff --net net.ip --net-new net.ip router.nft router.nft", 0),
        ("penstock diff --sysctl net.ipv4.conf.wan.rp_filter=1 old.nft new.nft", 2),
        ("penstock prove --rules router.nft way", 1),
        ("penstock prove --net net.ip --rules router.nft way", 1),
        ("penstock nft --offline --claims way -f router.nft", 1),
        ("penstock prove --net net.ip --rules router.nft guard", 1),
        ("penstock prove --hook forward --rules router.nft way", 1),
        ("penstock ask --net net.ip --rules router.nft iifname lan tcp dport 22", 0),
        (
            "penstock ask --net net.ip --rules router.nft iifname wan ct state new ip protocol udp",
            1,
        ),
        ("penstock ask --net net.ip --matrix --json --rules router.nft", 0),
        ("penstock cover --net net.ip --rules router.nft", 2),
        ("penstock prove --rules bridge.nft bridge.claims", 0),
        ("penstock diff --net bridge.ip bridge.nft bridge.nft", 0),
        ("penstock ask --net bridge.ip --rules bridge.nft iifname staff", 0),
        ("penstock ask --net bridge.ip --rules bridge.nft iifname guests tcp dport 22", 1),
        ("penstock ask --net bridge.ip --matrix --json --rules bridge.nft", 0),
        ("penstock cover --rules bridge.nft", 0),
        ("penstock diff --memory 0 old.nft new.nft", 2),
        ("penstock prove --rules refactored.nft claims", 0),
        ("penstock prove --rules new.nft claims", 1),
        ("penstock prove --rules new.nft old.nft", 2),
        ("penstock prove --rules old.nft guard", 0),
        ("penstock prove --rules new.nft guard", 1),
        ("penstock nft --offline --claims guard -f old.nft", 0),
        ("penstock nft --offline --claims guard -f new.nft", 1),
        ("penstock nft --offline --claims guard flush ruleset", 0),
        ("penstock nft --offline --claims guard add table ip t", 1),
        ("penstock nft --offline --claims old.nft -f old.nft", 1),
        ("penstock nft --offline --claims missing -f old.nft", 1),
        ("penstock nft --offline --diff -c -f new.nft", 0),
        ("penstock nft --offline --diff -j -f new.nft", 1),
        ("penstock ask --rules new.nft", 0),
        ("penstock ask --rules new.nft iifname wan ct state new tcp dport 22", 1),
        ("penstock ask --rules new.nft ct state new ct direction reply", 1),
        ("penstock ask --rules new.nft ct mark 3", 0),
        ("penstock ask --rules new.nft fib saddr oif missing ct state new", 0),
        ("penstock ask --rules new.nft --json oifname lan", 0),
        ("penstock ask --rules new.nft tcp dport 22 accept", 2),
        ("penstock ask --rules new.nft tcp dport 22 counter } chain c { tcp dport 23", 2),
        ("penstock ask --rules new.nft limit rate 1/second", 2),
        ("penstock ask --rules missing.nft", 2),
        ("penstock ask --matrix --json --rules new.nft tcp dport 22", 0),
        ("penstock ask --matrix --rules grown.nft ct state established", 0),
        ("penstock ask --matrix --rules new.nft tcp dport 22 accept", 2),
        ("penstock ask --matrix --hook input --rules new.nft", 2),
        ("penstock ask --html x.html --rules new.nft", 2),
        ("penstock cover --rules new.nft", 0),
        ("penstock cover --rules grown.nft", 1),
        ("penstock cover --json --hook input --rules grown.nft", 1),
        ("penstock cover --hook output --rules grown.nft", 2),
        ("penstock cover --rules - --write x", 2),
        ("penstock cover", 2),
    ] {
        let (printed, found) = run(line);
        assert_eq!(found, status, "{line}\n{printed}");
    }
}

#[test]
fn changes_of_bridges_are_told_with_the_ports() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prove");
    let rules = std::fs::read_to_string(dir.join("bridge.nft")).unwrap();
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, from, to, told) in [
        (
            "printer",
            "tcp dport 631",
            "tcp dport { 80, 631 }",
            &["tcp dport 80", "out of staff"][..],
        ),
        (
            "management",
            "oifname \"guests\" vlan id 10 drop",
            "oifname \"guests\" vlan id 11 drop",
            &["out of mgmt", "(if frames leave by guests with tag 10)"],
        ),
        ("same", "vlan id 10 drop\n", "vlan id { 10 } drop\n", &["Nothing changes."]),
    ] {
        let file = tmp.join(format!("bridge-{name}.nft"));
        std::fs::write(&file, rules.replace(from, to)).unwrap();
        let (printed, status) =
            run(&format!("penstock diff --net bridge.ip bridge.nft {}", file.display()));
        assert_eq!(status, i32::from(name != "same"), "{name}\n{printed}");
        for words in told {
            assert!(printed.contains(words), "{name}: {words}\n{printed}");
        }
    }
}

#[test]
fn bridges_that_are_not_evaluated_are_refused() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prove");
    let net = std::fs::read_to_string(dir.join("bridge.ip")).unwrap();
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, more, told) in [
        (
            "ip",
            "link set br0 type bridge nf_call_iptables 1\n",
            "br0 passes packets to chains of IP",
        ),
        ("all", "link set br0 promisc on\n", "br0 is a bridge that takes frames for others"),
        (
            "on",
            "link add name br1 type bridge\nlink set mgmt master br1\n",
            "mgmt is a port of a bridge and stands on another one",
        ),
    ] {
        let file = tmp.join(format!("bridge-{name}.ip"));
        std::fs::write(&file, format!("{net}{more}")).unwrap();
        let line = format!("penstock ask --net {} --rules bridge.nft", file.display());
        let (printed, status) = run(&line);
        assert_eq!(status, 2, "{name}\n{printed}");
        assert!(printed.contains(told), "{name}\n{printed}");
    }
    let file = tmp.join("broute.nft");
    let rules =
        "table bridge b { chain c { type filter hook prerouting priority 0; meta broute set 1; } }";
    std::fs::write(&file, rules).unwrap();
    let (printed, status) =
        run(&format!("penstock ask --net bridge.ip --rules {}", file.display()));
    assert_eq!(status, 2, "{printed}");
    assert!(printed.contains("meta broute"), "{printed}");
}

#[test]
fn a_matrix_is_a_page_and_knows_devices_by_name_and_by_index() {
    const RULES: &str = "table inet t {
        chain forward {
            type filter hook forward priority 0; policy drop;
            iif lan oifname . tcp dport { \"<b>\" . 22 } accept
            oifname \"w*\" iifname vpn accept
        }
    }";
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let files = ["matrix.nft", "matrix.html"].map(|name| dir.join(name).display().to_string());
    let [rules, page] = files;
    std::fs::write(&rules, RULES).unwrap();
    let (printed, status) = run(&format!("penstock ask --matrix --rules {rules}"));
    let line = |from: &str| {
        let line = printed.lines().find(|line| line.starts_with(from)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(status, 0, "{printed}");
    assert_eq!(line(" "), "the host <b> lan vpn others", "{printed}");
    assert_eq!(line("<b>"), "<b> all none none none none", "{printed}");
    assert_eq!(line("lan"), "lan all tcp dport 22 none none none", "{printed}");
    assert!(line("vpn").starts_with("vpn all none none none oifname"), "{printed}");
    assert_eq!(run(&format!("penstock ask --matrix --html {page} --rules {rules}")).1, 0);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<th scope=\"col\">&lt;b&gt;</th>"), "{page}");
    assert!(page.contains("<td class=\"some\"><code>tcp dport 22</code></td>"), "{page}");
    assert!(!page.contains("<b>"), "{page}");
}

#[test]
fn tests_that_cover_writes_pass_and_tell_a_change() {
    const RULES: &str = "table inet t {
        chain input {
            type filter hook input priority 0; policy drop;
            ct state established accept
            tcp dport 80-90 drop
            tcp dport vmap { 22 : accept, 80 : drop, 443 : accept }
            meta l4proto icmp counter accept
        }
    }";
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cover-tests");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let files = ["rules.nft", "new.nft", "tests"].map(|name| dir.join(name).display().to_string());
    let [rules, new, tests] = files;
    std::fs::write(&rules, RULES).unwrap();
    std::fs::write(&new, RULES.replace("443 : accept", "443 : drop")).unwrap();
    for (line, status, words) in [
        (
            format!("penstock cover --elements --rules {rules} --write {tests}"),
            1,
            "2 of 3 elements",
        ),
        (
            format!("penstock cover --elements --rules {rules}"),
            1,
            "tcp dport 80: no packet meets it",
        ),
        (format!("penstock test {tests}/inet-input.test"), 0, "5 tests: 5 passed"),
        (format!("penstock test --rules {new} {tests}/inet-input.test"), 1, "4 passed, 1 failed"),
    ] {
        let (printed, found) = run(&line);
        assert!(found == status && printed.contains(words), "{line}: {found}\n{printed}");
    }
}
