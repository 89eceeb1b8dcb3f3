// SPDX-License-Identifier: Apache-2.0

//! The run directory: only root can delay or prevent start, end or recovery.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::net::Net;

const SQUATTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/squatter.py");

/// Starts a user who takes all places that can be taken, and waits until they have them; what they
/// have got.
fn squatter(net: &Net) -> (Child, Vec<String>) {
    let mut command = net.command(&net.r, &format!("exec python3 {SQUATTER} 60"));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    (child, lines.take_while(|line| line != "begun").collect())
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn other_users_cannot_delay_start_stop_or_recovery() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    let quick = |begun: Instant| {
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed())
    };
    for args in ["r0 r1", "r0 r1 --allow-read"] {
        // Before it begins, and while it runs.
        let (before, got) = squatter(&net);
        assert_eq!(got, Vec::<String>::new());
        let begun = Instant::now();
        net.up(args);
        quick(begun);
        end(before);
        let (during, got) = squatter(&net);
        assert_eq!(got, Vec::<String>::new());
        let sockets = net.ok(&net.r, "ss -xlH");
        assert_eq!(sockets.matches("@penstock").count(), 1, "the squatter's: {sockets}");
        let begun = Instant::now();
        net.ok(&net.r, "$PENSTOCK show && $PENSTOCK nft list ruleset");
        net.down();
        quick(begun);
        // Both die, and the devices come back all the same.
        net.up(args);
        net.kill_both();
        let begun = Instant::now();
        net.ok(&net.r, "$PENSTOCK down");
        assert!(!net.ok(&net.r, "ip -o link").contains(".port"));
        net.up(args);
        net.kill_both();
        net.up(args);
        net.down();
        quick(begun);
        end(during);
    }
}

#[test]
fn only_root_may_enter_the_run_directory() {
    let Some(mut net) = Net::new() else { return };
    let modes = |net: &Net| {
        let list = "cd /run && stat -c '%a %u %F' penstock; find penstock -type f -newer $MARK -printf '%m %U %y\\n';
             find penstock -type s -newer $MARK -printf '%m %U %y\\n'";
        let mark = net.directory.join("mark");
        net.ok(&net.r, &list.replace("$MARK", &mark.display().to_string()))
    };
    std::fs::write(net.directory.join("mark"), "").unwrap();
    net.up("r0 r1");
    let said = modes(&net);
    let (directory, files) = said.split_once('\n').unwrap();
    assert_eq!(directory, "700 0 directory");
    assert!(files.contains("600 0 f") && files.contains("600 0 s"), "{files}");
    assert!(files.lines().all(|line| line.starts_with("600 0 ")), "{files}");
    let sockets = net.ok(&net.r, "ss -xlH");
    assert!(!sockets.contains('@'), "{sockets}");
    net.down();
    // Those who may look have their own socket.
    net.up("r0 r1 --allow-read");
    assert_eq!(net.ok(&net.r, "stat -c '%a %u %F' /run/penstock-read"), "755 0 directory\n");
    let sockets = net.ok(&net.r, "ss -xlH");
    assert_eq!(sockets.matches("/run/penstock").count(), 2, "{sockets}");
    net.down();
    let sockets = net.ok(&net.r, "ss -xlH");
    assert!(!sockets.contains("penstock"), "{sockets}");
}

#[test]
fn a_run_directory_of_another_user_is_refused() {
    let Some(net) = Net::new() else { return };
    let own = "mount -t tmpfs none /run && mkdir /run/penstock";
    for (how, said) in [
        (
            "chown 65534 /run/penstock",
            "Error: /run/penstock: this directory is user 65534's, not the own one",
        ),
        ("rmdir /run/penstock; ln -s /tmp /run/penstock", "Error: /run/penstock: Not a directory"),
    ] {
        let line = format!(
            "env -u XDG_RUNTIME_DIR unshare -m sh -c '{own}; {how}; timeout 20 $PENSTOCK up r0' 2>&1"
        );
        let (ok, text) = net.run(&net.r, &line);
        assert!(!ok && text.contains(said), "{how}: {text}");
        assert!(!net.ok(&net.r, "ip -o link").contains(".port"));
    }
}

#[test]
fn of_many_simultaneous_starts_one_runs() {
    let Some(net) = Net::new() else { return };
    let many = 6;
    let file = |n: usize| net.directory.join(format!("up{n}"));
    for _ in 0..3 {
        let all: Vec<_> = (0..many)
            .map(|n| {
                net.spawn_in_file(&net.r, "sh -c 'timeout 60 $PENSTOCK up r0 r1 2>&1'", &file(n))
            })
            .collect();
        let count = |said: &str| {
            (0..many).filter(|n| std::fs::read_to_string(file(*n)).unwrap().contains(said)).count()
        };
        net.until("one runs, and the others are told", |_| {
            (count("penstock: running"), count("namespace already\n")) == (1, many - 1)
        });
        net.ok(&net.r, "$PENSTOCK show && $PENSTOCK down");
        all.into_iter().for_each(|one| drop(one.wait()));
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    }
}
