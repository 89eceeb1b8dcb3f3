// SPDX-License-Identifier: Apache-2.0

//! The wall clock jumps. What lasts for some time does so by a clock that does not; what asks for
//! the time of day gets it.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::net::Net;

const DAY: i64 = 86_400;

/// What makes a program read another wall clock. `None`, and said, where nothing can be compiled.
pub fn shim(net: &Net) -> Option<String> {
    let library = net.directory.join("clock.so").display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/clock.c");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", &library, source]).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no C compiler");
        return None;
    }
    Some(library)
}

/// Packets that the rule with a comment has counted.
fn counted(net: &Net, comment: &str) -> u64 {
    let listed = net.ok(&net.r, "$PENSTOCK nft list chain inet t f");
    let line = listed.lines().find(|line| line.contains(comment)).unwrap();
    line.split("packets ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn nothing_ends_or_lasts_longer_when_the_clock_jumps() {
    let Some(mut net) = Net::new() else { return };
    let Some(library) = shim(&net) else { return };
    let clock = net.directory.join("clock");
    let jump = |seconds: i64| std::fs::write(&clock, seconds.to_ne_bytes()).unwrap();
    jump(0);
    let preload = format!("export PENSTOCK_TEST_CLOCK={} LD_PRELOAD={library}", clock.display());
    net.up_after(&preload, "r0 r1 --hang-time 3");
    net.nft(
        "table inet t {
           set long { type ipv4_addr; flags timeout; elements = { 198.18.9.1 timeout 1h }; }
           set short { type ipv4_addr; flags timeout; elements = { 198.18.9.2 timeout 12s }; }
           set seen { type ipv4_addr; flags dynamic,timeout; timeout 1h; }
           chain f {
             type filter hook forward priority filter
             ct state new icmp type echo-request counter comment \"new\"
             ct state established counter comment \"established\"
             update @seen { ip saddr }
             meta time > \"2040-01-01\" counter comment \"late\"
           }
         }",
    );
    let a = net.a.clone();
    let ping = net.spawn_reading(&a, "ping -i 0.1 198.18.1.2");
    net.until("packets pass", |net| counted(net, "established") > 3);
    // It is confirmed in the end.
    let change = "exec $PENSTOCK nft --confirm 60s add chain inet t other 2> /dev/null";
    let mut waiting = net.command(&net.r, change).stdin(Stdio::piped()).spawn().unwrap();
    net.until("a change waits", |net| net.run(&net.r, "$PENSTOCK nft list chain inet t other").0);
    let process = net.pid();
    for seconds in [2 * DAY, -2 * DAY, 8_000 * DAY, -1_000 * DAY, 0] {
        jump(seconds);
        // A burst that has begun has the time of before.
        std::thread::sleep(Duration::from_millis(500));
        let (late, established) = (counted(&net, "late"), counted(&net, "established"));
        std::thread::sleep(Duration::from_millis(500));
        assert!(counted(&net, "established") > established, "{seconds}: packets pass");
        assert_eq!(counted(&net, "new"), 1, "{seconds}: the connection is still there");
        assert_eq!(
            counted(&net, "late") > late,
            seconds == 8_000 * DAY,
            "{seconds}: the time of day is told"
        );
        for (set, element) in [("long", "198.18.9.1"), ("seen", "198.18.0.2")] {
            let listed = net.ok(&net.r, &format!("$PENSTOCK nft list set inet t {set}"));
            assert!(
                listed.contains(element) && listed.contains("expires 59m"),
                "{seconds}: {listed}"
            );
        }
    }
    net.ok(&net.r, "$PENSTOCK confirm && $PENSTOCK nft list chain inet t other");
    assert!(waiting.wait().unwrap().success());
    let gone =
        |net: &Net| !net.ok(&net.r, "$PENSTOCK nft list set inet t short").contains("198.18.9.2");
    net.until_within(15, "what lives for seconds does so", gone);
    assert_eq!(net.pid(), process);
    assert!(net.run(&net.r, "$PENSTOCK show").0, "the guardian has not taken it for hung");
    ping.stop();
    net.down();
}
