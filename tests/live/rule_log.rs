// SPDX-License-Identifier: Apache-2.0

//! Where lines go that rules log, and which ruleset counts at the start.

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
