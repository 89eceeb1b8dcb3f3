// SPDX-License-Identifier: Apache-2.0

//! What outlives the process.

use std::process::Stdio;
use std::time::Duration;

use crate::net::{Net, sh};

#[test]
fn saved_state_outlives_the_process() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iperf3") {
        return;
    }
    let state = net.directory.join("state");
    let up = format!("r0 r1 --state {}", state.display());
    net.up(&up);
    net.nft(
        "table inet t {
           set seen { type ipv4_addr; flags dynamic,timeout; timeout 1h; }
           counter echoes { }
           chain f {
             type filter hook forward priority filter; policy drop;
             ct state established counter accept
             iif r0 tcp dport 5201 ct state new accept
             iif r0 icmp type echo-request counter name echoes add @seen { ip saddr } accept
           }
           chain post { type nat hook postrouting priority srcnat; oif r1 masquerade; }
         }",
    );
    net.ok(&net.a, "ping -c 3 -i 0.1 -W 2 198.18.1.2");
    net.spawn_in('b', "iperf3 -s");
    std::thread::sleep(Duration::from_millis(300));
    // An established connection must live on: no rule lets another one of its packets begin one.
    let mut client =
        net.command(&net.a, "iperf3 -J -c 198.18.1.2 -t 6").stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let rules = |net: &Net| {
        let all = net.ok(&net.r, "$PENSTOCK nft -a list ruleset");
        all.lines()
            .filter(|l| !l.contains("expires") && !l.contains("ct state established"))
            .fold(String::new(), |text, line| text + line + "\n")
    };
    let before = rules(&net);
    assert!(before.contains("bytes") && !before.contains("packets 0"), "{before}");
    let link = net.ok(&net.r, "cat /sys/class/net/r0/ifindex");
    // What comes meanwhile must not be forwarded without translation: B would reset it.
    net.ok(&net.r, "sysctl -qw net.ipv4.ip_forward=0");
    net.down();
    net.up(&up);
    assert_eq!(net.ok(&net.r, "cat /sys/class/net/r0/ifindex"), link);
    assert_eq!(rules(&net), before);
    let seen = net.ok(&net.r, "$PENSTOCK nft list set inet t seen");
    assert!(seen.contains("198.18.0.2") && seen.contains("expires 59m"), "{seen}");
    let mut said = String::new();
    std::io::Read::read_to_string(client.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert!(client.wait().unwrap().success(), "{said}");
    // A kill loses no change of the ruleset that is a moment old; what waits for its confirmation
    // does not count.
    net.ok(&net.r, "$PENSTOCK nft add element inet t seen { 198.18.0.99 }");
    let written = || std::fs::metadata(&state).unwrap().modified().unwrap();
    let last = written();
    net.ok(&net.r, "$PENSTOCK nft add table ip later");
    net.until("the change is kept", |_| written() > last);
    net.kill();
    net.up(&up);
    let all = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    assert!(all.contains("table ip later") && all.contains("198.18.0.99"), "{all}");
    // A file that is broken is not believed.
    net.down();
    let whole = std::fs::read(&state).unwrap();
    std::fs::write(&state, &whole[..whole.len() - 3]).unwrap();
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up {up}"));
    assert!(!ok && said.contains(&format!("state: byte {}: cut short", whole.len() - 3)), "{said}");
    assert!(!net.ok(&net.r, "ip -o link").contains(".port"));
    net.up(&format!("{up} --state-broken empty"));
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list ruleset"), "");
    assert_eq!(std::fs::read(state.with_extension("broken")).unwrap().len(), whole.len() - 3);
}

#[test]
fn first_ruleset_and_confirmed_changes_are_kept_once_they_are_reported() {
    let Some(mut net) = Net::new() else { return };
    let up = format!("r0 r1 --state {}", net.directory.join("state").display());
    net.up(&up);
    let again = |net: &mut Net| {
        net.kill_both();
        net.up(&up);
        let all = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        ["one", "two", "three"].map(|name| all.contains(&format!("chain {name}")))
    };
    let chain =
        |name: &str| format!("chain ip t {name} '{{ type filter hook forward priority 0; }}'");
    net.ok(&net.r, "$PENSTOCK nft add table ip t");
    net.ok(&net.r, &format!("$PENSTOCK nft add {}", chain("one")));
    assert_eq!(again(&mut net), [true, false, false]);
    let with_two = format!("echo yes | $PENSTOCK nft --confirm 20s add {}", chain("two"));
    assert!(net.run(&net.r, &with_two).0);
    assert_eq!(again(&mut net), [true, true, false]);
    // While a change waits, and after it was taken back, what was before counts.
    let with_three = format!("$PENSTOCK nft --confirm 60s add {}", chain("three"));
    let waiting = net.spawn_reading(&net.r, &format!("exec {with_three} < /dev/zero"));
    net.until("it is in force", |net| {
        net.ok(&net.r, "$PENSTOCK nft list ruleset").contains("chain three")
    });
    assert_eq!(again(&mut net), [true, true, false]);
    waiting.stop();
    assert!(!net.run(&net.r, &with_three.replace("60s", "1s < /dev/null")).0);
    assert_eq!(again(&mut net), [true, true, false]);
    net.down();
}

/// A file system with little room.
struct Small(std::path::PathBuf);

impl Small {
    fn at(place: std::path::PathBuf) -> Small {
        std::fs::create_dir_all(&place).unwrap();
        sh(&format!("mount -t tmpfs -o size=256k small {}", place.display()));
        Small(place)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_is_reported_and_keeps_the_saved_state() {
    let Some(mut net) = Net::new() else { return };
    let small = Small::at(net.directory.join("small"));
    let (state, fill) = (small.0.join("state"), small.0.join("fill"));
    let filled = |size: usize| std::fs::write(&fill, vec![0; size]).is_ok();
    let up = format!("r0 r1 --state {}", state.display());
    // Without any room it does not begin.
    assert!(!filled(300 << 10));
    let (ok, said) = net.run(&net.r, &format!("timeout 20 $PENSTOCK up {up}"));
    assert!(!ok && said.contains("the state cannot be saved: No space left on device"), "{said}");
    std::fs::remove_file(&fill).unwrap();
    net.up(&up);
    net.ok(&net.r, "$PENSTOCK nft add table ip first");
    let has = |name: &str| {
        let kept = std::fs::read(&state).unwrap_or_default();
        kept.windows(name.len()).any(|w| w == name.as_bytes())
    };
    net.until("it is kept", |_| has("first"));
    // On a full disk the last state stays, and packets and clients continue.
    assert!(!filled(300 << 10));
    net.ok(&net.r, "$PENSTOCK nft add table ip second");
    net.until("it is said", |net| net.log().contains("is not saved to"));
    assert!(
        net.log().contains("No space left on device") && has("first") && !has("second"),
        "{}",
        net.log()
    );
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 198.18.1.2");
    std::fs::remove_file(&fill).unwrap();
    net.ok(&net.r, "$PENSTOCK nft add table ip third");
    net.until("it is kept again", |_| has("third") && has("second"));
    net.down();
    drop(small);
}

#[test]
fn a_start_follows_no_foreign_symlink_and_a_failed_one_leaves_no_file() {
    let Some(mut net) = Net::new() else { return };
    let theirs = net.directory.join("theirs");
    let precious = net.directory.join("precious");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(&precious, "precious").unwrap();
    for name in ["state", "state.new", "state.broken"] {
        std::os::unix::fs::symlink(&precious, theirs.join(name)).unwrap();
    }
    std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
    for how in ["", "--state-broken empty"] {
        let up = format!("$PENSTOCK up r0 r1 --state {} {how}", theirs.join("state").display());
        let (ok, said) = net.run(&net.r, &up);
        assert!(!ok, "{said}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 3);
    }
    // The dataplane gives up the right to write to a directory of another user, and reports that
    // before it begins.
    std::fs::remove_file(theirs.join("state")).unwrap();
    let (ok, said) =
        net.run(&net.r, &format!("$PENSTOCK up r0 r1 --state {}", theirs.join("state").display()));
    assert!(!ok && said.contains("the state cannot be saved: Permission denied"), "{said}");
    // In its own directory, guessable names of other users do not block it.
    let ours = net.directory.join("ours");
    std::fs::create_dir(&ours).unwrap();
    for name in ["state.new", "state.broken"] {
        std::os::unix::fs::symlink(&precious, ours.join(name)).unwrap();
    }
    net.up(&format!("r0 r1 --state {}", ours.join("state").display()));
    net.until("it is kept", |_| ours.join("state").exists());
    net.down();
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(std::fs::read_dir(&ours).unwrap().count(), 3);
}
