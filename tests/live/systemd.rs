// SPDX-License-Identifier: Apache-2.0

//! Notifications to systemd: readiness, reload, the watchdog, the end (sd_notify(3)).

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use crate::net::Net;

#[test]
fn systemd_accepts_the_unit() {
    let found = std::process::Command::new("systemd-analyze").arg("--version").output();
    if !found.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let unit = include_str!("../../scripts/penstock.service");
    let unit = unit.replace("/usr/bin/penstock", env!("CARGO_BIN_EXE_penstock"));
    let directory = std::env::temp_dir().join(format!("unit{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("penstock.service");
    std::fs::write(&file, unit).unwrap();
    let said =
        std::process::Command::new("systemd-analyze").arg("verify").arg(&file).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    // Manual pages are not installed yet.
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let wrong: Vec<&str> =
        said.lines().filter(|l| l.contains("penstock") && !l.contains("man ")).collect();
    assert!(wrong.is_empty(), "{said}");
}

#[test]
fn systemd_is_notified_of_every_state_change() {
    let Some(net) = Net::new() else { return };
    let (address, rules) = (net.directory.join("notify"), net.directory.join("rules.nft"));
    let socket = UnixDatagram::bind(&address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let next = |wanted: &str| {
        let mut bytes = [0; 256];
        loop {
            let len = socket.recv(&mut bytes).unwrap_or_else(|e| panic!("{wanted}: {e}"));
            let said = String::from_utf8_lossy(&bytes[..len]).into_owned();
            if said.starts_with(wanted) {
                return said;
            }
            // It comes all the time.
            assert!(said == "WATCHDOG=1", "{said}, not {wanted}");
        }
    };
    std::fs::write(&rules, "table ip one { }\n").unwrap();
    let mut command =
        net.command(&net.r, &format!("exec $PENSTOCK up r0 r1 --rules {}", rules.display()));
    command.env("NOTIFY_SOCKET", &address).env("WATCHDOG_USEC", "400000");
    let mut daemon = command.stdin(Stdio::null()).spawn().unwrap();
    next("READY=1");
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip one\n");
    next("WATCHDOG=1");
    let signal = |name: &str| net.ok(&net.r, &format!("kill -{name} {}", daemon.id()));
    std::fs::write(&rules, "table ip two { }\n").unwrap();
    signal("HUP");
    let reloading = next("RELOADING=1");
    assert!(
        reloading
            .lines()
            .any(|l| l.strip_prefix("MONOTONIC_USEC=").is_some_and(|v| v.parse::<u64>().is_ok()))
    );
    let status = next("READY=1");
    assert!(status.ends_with("\nSTATUS=generation 3 is in force"), "{status}");
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip two\n");
    // A wrong ruleset has no effect, and does not prevent readiness.
    std::fs::write(&rules, "table ip three {\n").unwrap();
    signal("HUP");
    next("RELOADING=1");
    let status = next("READY=1");
    assert!(
        status.contains("\nSTATUS=the ruleset stays as it is: the ruleset cannot be loaded: "),
        "{status}"
    );
    assert!(status.contains("rules.nft:2:1-1: Error: syntax error"), "{status}");
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip two\n");
    signal("TERM");
    next("STOPPING=1");
    assert!(daemon.wait().unwrap().success());
    assert!(!net.ok(&net.r, "ip -o link").contains(".port"));
    // What the unit runs at its end.
    assert_eq!(net.ok(&net.r, "$PENSTOCK down --if-running 2>&1"), "");
}
