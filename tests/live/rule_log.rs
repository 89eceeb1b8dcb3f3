// SPDX-License-Identifier: Apache-2.0

//! Where lines go that rules log, and which ruleset counts at the start.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::net::{Net, sh};

const LOGS: &str = "table inet t {
   chain f {
     type filter hook forward priority 0
     icmp type echo-request log prefix \"ping \" level info
   }
 }";

#[test]
fn rules_log_to_a_file_that_is_rotated() {
    let Some(mut net) = Net::new() else { return };
    let file = net.directory.join("rules.log");
    let text =
        |end: &str| std::fs::read_to_string(format!("{}{end}", file.display())).unwrap_or_default();
    net.up(&format!("r0 r1 --rule-log {} --rule-log-size 1 --rule-log-files 2", file.display()));
    net.nft(LOGS);
    net.ok(&net.a, "ping -c 3 -i 0.05 -W 2 198.18.1.2");
    net.until("three lines", |_| text("").lines().count() == 3);
    assert!(text("").lines().all(|line| line.starts_with("<6>[") && line.contains("] ping IN=r0")));
    assert!(!net.log().contains("ping IN="), "{}", net.log());
    // A mebibyte is some 7000 lines.
    net.ok(&net.a, "ping -q -f -c 9000 -W 2 198.18.1.2");
    net.until("it is rotated", |_| !text(".1").is_empty() && text("").len() < 1 << 20);
    // Another program renames it.
    sh(&format!("mv {0} {0}.old", file.display()));
    sh(&format!("kill -HUP {}", net.pid()));
    net.until("there is another one", |net| {
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
        text("").lines().count() > 0
    });
    net.down();
    let (ok, said) = net.run(&net.r, "$PENSTOCK up r0 r1 --rule-log /nowhere/file");
    assert!(!ok && said.contains("--rule-log /nowhere/file: No such file"), "{said}");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
}

/// What a line of the log has of a ping.
fn is_ping(text: &str, prefix: &str) -> bool {
    text.starts_with(&format!("{prefix}IN=r0 OUT=r1 MAC="))
        && [" SRC=198.18.0.2 DST=198.18.1.2 LEN=84 ", " PROTO=ICMP TYPE=8 CODE=0 "]
            .iter()
            .all(|part| text.contains(part))
}

#[test]
fn rules_log_to_the_journal_and_to_syslog() {
    let Some(mut net) = Net::new() else { return };
    let directory = net.directory.display().to_string();
    // In a mount namespace of its own, as `ip netns exec` makes one: there the sockets are ours.
    let mounts = format!(
        "set -e
         mkdir -p /run/systemd {directory}/dev
         mount -t tmpfs none /run/systemd
         mkdir /run/systemd/journal
         ln -s {directory}/journal /run/systemd/journal/socket
         mount --rbind /dev {directory}/dev
         mount -t tmpfs none /dev
         for f in {directory}/dev/*; do ln -s $f /dev/; done
         rm -f /dev/log
         ln -s {directory}/syslog /dev/log"
    );
    for target in ["journal", "syslog"] {
        let up = format!("{mounts}\nexec $PENSTOCK up r0 r1 --rule-log {target}");
        let (ok, said) = net.run(&net.r, &up);
        assert!(!ok && said.contains("--rule-log: no logger is there: No such file"), "{said}");
        let path = net.directory.join(target);
        let listen = || {
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket
        };
        let receive = |socket: &UnixDatagram| {
            let mut bytes = [0; 4096];
            let len = socket.recv(&mut bytes).unwrap_or_else(|e| panic!("{target}: {e}"));
            bytes[..len].to_vec()
        };
        let logger = listen();
        net.up_after(&mounts, &format!("r0 r1 --rule-log {target}"));
        // The level is that of the rule; the last prefix has a line break.
        net.nft(
            "table inet t {
               chain f {
                 type filter hook forward priority 0
                 icmp type echo-request log prefix \"ping \" level info
                 icmp type echo-request log prefix \"crit \" level crit
                 icmp type echo-request log prefix \"two
PRIORITY=0 \"
               }
             }",
        );
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
        let entries = [(); 3].map(|()| receive(&logger));
        for (entry, (level, prefix)) in
            entries.iter().zip([(6, "ping "), (2, "crit "), (4, "two\nPRIORITY=0 ")])
        {
            let shown = String::from_utf8_lossy(entry).into_owned();
            let text = match target {
                "journal" => {
                    let fields = journal_fields(entry);
                    let field = |name| fields.get(name).map(String::as_str);
                    assert_eq!(fields.len(), 4, "{shown}");
                    assert_eq!(field("PRIORITY"), Some(&*level.to_string()), "{shown}");
                    assert_eq!(field("SYSLOG_IDENTIFIER"), Some("penstock-rules"), "{shown}");
                    assert_eq!(field("SYSLOG_FACILITY"), Some("3"), "{shown}");
                    fields["MESSAGE"].clone()
                }
                _ => {
                    // The facility is `daemon`.
                    let head = format!("<{}>penstock-rules: ", 3 << 3 | level);
                    shown.strip_prefix(&head).unwrap_or_else(|| panic!("{shown}")).to_owned()
                }
            };
            assert!(is_ping(&text, prefix), "{shown}");
        }
        // A logger that is started anew is found again.
        drop(logger);
        std::fs::remove_file(&path).unwrap();
        let logger = listen();
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
        assert!(String::from_utf8_lossy(&receive(&logger)).contains("ping IN=r0 OUT=r1"));
        assert!(!net.log().contains("IN=r0"), "{}", net.log());
        net.down();
        std::fs::remove_file(&path).unwrap();
    }
}

/// The fields of an entry in systemd's native journal protocol: `NAME=value` on a line, or for a
/// value with line breaks its name on a line, its length in eight bytes, and the value.
fn journal_fields(mut entry: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while let Some(end) = entry.iter().position(|byte| *byte == b'\n') {
        let line = String::from_utf8(entry[..end].to_vec()).unwrap();
        entry = &entry[end + 1..];
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => {
                let (length, rest) = entry.split_first_chunk().unwrap();
                let (value, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
                entry = rest.strip_prefix(b"\n").unwrap();
                (line, String::from_utf8(value.to_vec()).unwrap())
            }
        };
        assert!(fields.insert(name, value).is_none());
    }
    assert!(entry.is_empty());
    fields
}

#[test]
fn the_log_says_which_ruleset_counts_and_why() {
    let Some(mut net) = Net::new() else { return };
    let (rules, state) = (net.directory.join("r.nft"), net.directory.join("state"));
    std::fs::write(&rules, "table inet written { }\n").unwrap();
    let up = format!("r0 r1 --rules {} --state {}", rules.display(), state.display());
    let tables = |net: &Net| net.ok(&net.r, "$PENSTOCK nft list tables");
    net.up(&up);
    assert_eq!(tables(&net), "table inet written\n");
    net.until("it is said", |net| net.log().contains("state has none yet"));
    net.nft("table inet changed { }");
    net.down();
    net.up(&up);
    assert_eq!(tables(&net), "table inet written\ntable inet changed\n");
    net.until("it is said", |net| net.log().contains("is that of --state"));
    net.down();
    net.up(&format!("{up} --rules-first"));
    assert_eq!(tables(&net), "table inet written\n");
    net.until("it is said", |net| net.log().contains("--rules-first; "));
    net.down();
}

#[test]
fn rules_of_the_kernel_are_noticed() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    let said = "the kernel has nftables rules of its own";
    net.up("r0 r1");
    assert!(!net.log().contains(said), "{}", net.log());
    net.down();
    net.ok(
        &net.r,
        "nft 'table inet k { chain i { type filter hook input priority 0; }; chain x { }; }'",
    );
    net.up("r0 r1");
    net.until("they are named", |net| {
        net.log().contains(&format!("{said}, which packets of the host meet as well (inet k i)"))
    });
    net.down();
    net.up("r0 r1 --allow-kernel-rules");
    assert!(!net.log().contains(said), "{}", net.log());
}

#[test]
fn rules_that_ask_for_sockets_are_named() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft("table ip t { chain o { type filter hook output priority 0; meta skuid { 0, 5 } drop; meta skgid 7; }; }");
    let said = "rule ip t o handle 3 (and 1 more) asks for the socket of a packet, which is not";
    net.until("it is said", |net| net.log().contains(said));
    // As the message says, and where the kernel would drop.
    net.ok(&net.r, "ping -c 1 -W 5 198.18.0.2");
    net.down();
}
