// SPDX-License-Identifier: Apache-2.0

//! nft(8).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::side::{
    Left, Scratch, both, exec, has, has_namespaces, in_exec, in_kernel, left, penstock,
    without_numbers_after,
};

/// Rulesets with every kind of thing.
fn rulesets() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nfnetlink/tests/kernel/rulesets");
    let files = std::fs::read_dir(folder).expect("rulesets");
    files.flatten().map(|file| file.path().to_string_lossy().into_owned()).collect()
}

/// Builds of nft differ in whether they list the default burst.
fn without_burst(text: &str) -> String {
    text.replace(" burst 5 packets", "")
}

#[test]
fn a_ruleset_is_listed_as_by_penstock_nft_and_by_the_kernel() {
    if !has("nft") {
        return;
    }
    for file in rulesets() {
        let scratch = Scratch::new();
        let state = scratch.state();
        let loaded = left(exec(&state).args(["nft", "-f", &file]));
        let none = Left { stdout: String::new(), stderr: String::new(), status: Some(0) };
        assert_eq!(loaded, none, "{file}");
        for options in [&[][..], &["-s"], &["-a"], &["-nn"], &["-t"]] {
            let real = left(exec(&state).arg("nft").args(options).args(["list", "ruleset"]));
            let own = left(
                penstock()
                    .args(["nft", "--state"])
                    .arg(&state)
                    .args(options)
                    .args(["list", "ruleset"]),
            );
            assert_eq!(
                without_burst(&real.stdout),
                without_burst(&own.stdout),
                "{file} {options:?}"
            );
            assert!(!real.stdout.is_empty());
        }
        if !has_namespaces() {
            continue;
        }
        for options in ["", "-s", "-a", "-nn", "-t", "-j"] {
            let list = format!("nft {options} list ruleset");
            let real = in_exec(&state, &list);
            let kernel = in_kernel(&format!("nft -f {file} && {list}"));
            assert_eq!(real, kernel, "{file} {options}");
        }
    }
}

#[test]
fn chains_are_listed_at_their_hooks() {
    if !has("nft") {
        return;
    }
    let scratch = Scratch::new();
    let (state, file) = (scratch.state(), scratch.file("rules.nft"));
    let rules = "
        table inet t {
            chain a { type filter hook input priority 0; }
            chain b { type filter hook input priority -5; }
            chain c { type nat hook postrouting priority srcnat; }
            chain d { }
        }
        table ip i { chain a { type filter hook input priority 0; }; }
        table arp a { chain f { type filter hook output priority 7; }; }
        table bridge b { chain f { type filter hook forward priority 7; }; }
        table ip dormant { flags dormant; chain a { type filter hook forward priority 0; }; }
        table netdev n { chain i { type filter hook ingress device lo priority 3; }; }";
    std::fs::write(&file, rules).expect("a file");
    assert_eq!(left(exec(&state).args(["nft", "-f"]).arg(&file)).status, Some(0));
    for family in ["ip", "ip6", "arp", "bridge"] {
        let words = ["list", "hooks", family];
        let real = left(exec(&state).arg("nft").args(words));
        let own = left(penstock().args(["nft", "--state"]).arg(&state).args(words));
        assert_eq!(real, own, "{family}");
        assert!(real.stdout.contains("[nf_tables]"), "{family}");
    }
    let real = left(exec(&state).args(["nft", "list", "hooks"]));
    assert!(real.stdout.contains(" chain ip i a [nf_tables]"), "{real:?}");
    let real = left(exec(&state).args(["nft", "list", "hooks", "netdev", "device", "lo"]));
    assert!(real.stdout.contains("+0000000003 chain netdev n i [nf_tables]"), "{real:?}");
}

#[test]
fn commands_answer_as_on_the_kernel() {
    if !has("nft") {
        return;
    }
    both(
        "set -x
        nft add table inet t
        nft -a -e add chain inet t c '{ type filter hook input priority 0; }'
        nft -a -e add rule inet t c tcp dport 22 counter accept comment '\"ssh\"'
        nft -a -e insert rule inet t c handle 2 ip saddr 198.18.0.0/15 drop
        nft -a -e replace rule inet t c handle 2 tcp dport 23 accept
        nft add set inet t s '{ type ipv4_addr; flags interval; auto-merge; }'
        nft add element inet t s '{ 198.18.0.0/24, 198.18.1.0/24, 198.19.0.1 }'
        nft get element inet t s '{ 198.18.0.7 }'
        nft delete element inet t s '{ 198.18.0.0/23 }'
        nft add map inet t m '{ type inet_service : verdict; }'
        nft add element inet t m '{ 22 : accept, 80 : drop }'
        nft add rule inet t c tcp dport vmap @m
        nft -e add rule inet t c ct original protocol udp ct reply l3proto ipv4 accept
        nft -c add rule inet t c tcp dport 99 accept
        nft list ruleset
        nft -j list ruleset
        nft list sets; nft list maps; nft list chains; nft list tables
        nft -a list table inet t
        nft rename chain inet t c d
        nft reset counters
        nft flush chain inet t d
        nft delete table inet t
        nft list ruleset",
    );
}

#[test]
fn errors_have_the_kernels_words_and_carets() {
    if !has("nft") {
        return;
    }
    let all = both(
        "nft add rule inet nothing c accept
        nft add table inet t
        nft add rule inet t nothing accept
        nft add chain inet t c
        nft create table inet t
        nft create chain inet t c
        nft delete rule inet t c handle 77
        nft delete chain inet t nothing
        nft add rule inet t c jump nowhere
        nft add rule inet t c jump c
        nft add rule inet t c ip saddr @missing accept
        nft 'add table ip a; add rule ip a b accept'
        nft list table ip missing
        nft add element inet t s '{ 1.2.3.4 }'
        nft add set inet t s '{ type ipv4_addr; }'
        nft add element inet t s '{ 1.2.3.4 }'
        nft create element inet t s '{ 1.2.3.4 }'
        nft delete element inet t s '{ 1.2.3.5 }'
        nft get element inet t s '{ 1.2.3.5 }'
        nft add rule inet t c ip saddr @s jump c
        nft delete set inet t s
        nft list ruleset",
    );
    if let Some(all) = all {
        assert!(all.stderr.contains("^^"), "{}", all.stderr);
    }
}

#[test]
fn a_check_changes_nothing() {
    if !has("nft") {
        return;
    }
    let scratch = Scratch::new();
    let state = scratch.state();
    assert_eq!(in_exec(&state, "nft -c add table ip t").status, Some(0));
    assert!(!state.exists(), "a check makes no file");
    assert_eq!(in_exec(&state, "nft add table ip t").status, Some(0));
    let before = std::fs::read(&state).expect("a state");
    assert_eq!(in_exec(&state, "nft -c add table ip u; nft list ruleset").status, Some(0));
    assert_eq!(std::fs::read(&state).expect("a state"), before);
}

#[test]
fn both_kinds_of_nft_change_the_same_file() {
    if !has("nft") {
        return;
    }
    let scratch = Scratch::new();
    let state = scratch.state();
    let own = |words: &str| {
        let words = words.split(' ');
        let left = left(penstock().args(["nft", "--state"]).arg(&state).args(words));
        assert_eq!(left.status, Some(0), "{}", left.stderr);
        left.stdout
    };
    own("add table ip a");
    // The supervisor has the file in memory when another process changes it.
    let script = format!(
        "nft add table ip b; nft list tables; {} nft --state {} add table ip c; nft list tables; \
         nft add table ip d; nft list tables",
        env!("CARGO_BIN_EXE_penstock"),
        state.display()
    );
    let names = in_exec(&state, &script).stdout.replace("table ip ", "").replace('\n', "");
    assert_eq!(names, "ababcabcd");
    assert_eq!(own("list tables").lines().count(), 4);
}

#[test]
fn batches_of_several_supervisors_do_not_overlap() {
    if !has("nft") {
        return;
    }
    let scratch = Scratch::new();
    let state = scratch.state();
    assert_eq!(in_exec(&state, "nft add table ip t; nft add chain ip t c").status, Some(0));
    let one = "for i in 1 2 3 4 5 6 7 8; do nft add rule ip t c counter || exit 1; done";
    let mut all: Vec<_> = (0..4)
        .map(|_| exec(&state).args(["sh", "-c", one]).stdin(Stdio::null()).spawn().expect("exec"))
        .collect();
    for child in &mut all {
        assert!(child.wait().expect("ends").success());
    }
    let rules = in_exec(&state, "nft list ruleset").stdout.matches("counter").count();
    assert_eq!(rules, 32);
}

/// What is changed while a monitor runs. The hash table that is flushed has one element: the kernel
/// tells of several in an order that it draws for each table.
const CHANGES: &str = "nft add table inet t; nft add chain inet t c; \
    nft add rule inet t c tcp dport 22 accept; nft add set inet t s '{ type ipv4_addr; }'; \
    nft add element inet t s '{ 1.2.3.4 }'; nft delete rule inet t c handle 2; \
    nft delete element inet t s '{ 1.2.3.4 }'; \
    nft add rule inet t c tcp dport '{ 1-4, 5-9, 20 }' ip saddr '{ 198.18.0.1, 198.18.0.3 }' drop; \
    nft flush chain inet t c; \
    nft add set inet t i '{ type inet_service; flags interval; elements = { 20-30, 40-50, 9 } }'; \
    nft add element inet t s '{ 1.2.3.5, 1.2.3.4 }'; nft delete element inet t s '{ 1.2.3.4 }'; \
    nft flush set inet t i; nft flush set inet t s; nft add table ip last";

/// A script that changes things while a monitor prints.
fn monitored(change: &str, out: &Path) -> String {
    let out = out.display();
    format!(
        "stdbuf -oL nft monitor >{out} & PID=$!; sleep 1; {change}; sleep 1; kill $PID; \
         sed 's/generation [0-9]*/generation/' {out}"
    )
}

#[test]
fn a_monitor_hears_of_changes_of_the_same_supervisor() {
    if !has("nft") || !has("stdbuf") {
        return;
    }
    let scratch = Scratch::new();
    if let Some(left) = both(&monitored(CHANGES, &scratch.file("out"))) {
        assert!(left.stdout.contains("add rule inet t c"), "{}", left.stdout);
        assert!(left.stdout.contains("new generation by process "), "{}", left.stdout);
    }
}

#[test]
fn a_monitor_hears_of_changes_of_others() {
    if !has("nft") || !has("stdbuf") {
        return;
    }
    let scratch = Scratch::new();
    let (state, out) = (scratch.state(), scratch.file("out"));
    let mut monitor = exec(&state)
        .args(["sh", "-c", &format!("exec stdbuf -oL nft monitor >{}", out.display())])
        .stdin(Stdio::null())
        .spawn()
        .expect("penstock exec runs");
    std::thread::sleep(Duration::from_secs(1));
    // By a supervisor of its own, and by penstock nft, which has none. A monitor hears of the
    // difference between two files, so each change waits until the one before was heard of.
    let (other, own) = (|| exec(&state), || own_nft(&state));
    let steps: [(Command, &str, &[&str]); 10] = [
        (other(), "nft add table inet t", &["add table inet t"]),
        (other(), "nft add chain inet t c", &["add chain inet t c"]),
        (
            other(),
            "nft add rule inet t c tcp dport 22 accept",
            &["add rule inet t c tcp dport 22 accept"],
        ),
        (
            other(),
            "nft add set inet t s { type ipv4_addr; }",
            &["add set inet t s { type ipv4_addr; } "],
        ),
        (other(), "nft add element inet t s { 1.2.3.4 }", &["add element inet t s { 1.2.3.4 }"]),
        (other(), "nft delete rule inet t c handle 2", &["delete rule inet t c handle 2"]),
        (
            other(),
            "nft delete element inet t s { 1.2.3.4 }",
            &["delete element inet t s { 1.2.3.4 }"],
        ),
        (own(), "add table ip last", &["add table ip last"]),
        (
            own(),
            "add chain ip last c { type filter hook input priority 0; }; \
             add rule ip last c drop; add map ip last m { type ipv4_addr : verdict; flags interval; \
             elements = { 198.18.0.0/24 : drop, 198.18.3.0/24 : accept }; }",
            &[
                "add chain ip last c { type filter hook input priority filter; policy accept; }",
                "add rule ip last c drop",
                "add element ip last m { 198.18.3.0/24 : accept }",
                "# new generation N by process 0 ()",
            ],
        ),
        (own(), "delete table inet t", &["delete set inet t s", "delete table inet t"]),
    ];
    for (mut command, words, lines) in steps {
        let changed = left(command.args(words.split(' ')));
        assert_eq!(changed.status, Some(0), "{words}: {changed:?}");
        let heard = || {
            let heard = std::fs::read_to_string(&out).unwrap_or_default();
            without_numbers_after("generation", &heard)
        };
        let has = |line: &&str| heard().lines().any(|heard| heard == *line);
        let begin = Instant::now();
        while !lines.iter().all(has) {
            assert!(
                begin.elapsed() < Duration::from_secs(30),
                "{lines:?} of {words}:\n{}",
                heard()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let _ = monitor.kill();
    let _ = monitor.wait();
}

/// `penstock nft` on the same file.
fn own_nft(state: &Path) -> Command {
    let mut command = penstock();
    command.args(["nft", "--state"]).arg(state);
    command
}
