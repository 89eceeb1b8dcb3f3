// SPDX-License-Identifier: Apache-2.0

//! What a run calls rules: the file and line that have them, their text and handle.

use penstock_io::LinkType;

use crate::place::{T, TestDir, frame, text};

const MAIN: &str = "\
define port = 9
include \"./more.nft\"
table inet t {
	chain f {
		type filter hook forward priority filter; policy drop;

		# Two lines.
		udp dport 53 \\
			counter accept
		udp dport $port jump more
		udp dport 7 jump {
			counter reject
		}
	}
}
";

const INCLUDED: &str = "\
table inet t {
	chain more {
		udp sport 5000 counter drop
	}
}
";

fn drops(place: &TestDir, rules: &str) -> Vec<String> {
    let out = place.run(&format!("--net net.ip --rules {rules} --read lan=lan.pcap"));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let told = text(&out.stderr);
    let drops = told.lines().skip_while(|line| !line.starts_with("dropped")).skip(1);
    let drops = drops.take_while(|line| line.starts_with(' '));
    drops.map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_rule_is_named_by_the_file_and_line_that_have_it() {
    let place = TestDir::new("rule-names");
    place.write("main.nft", MAIN.as_bytes());
    place.write("more.nft", INCLUDED.as_bytes());
    let frames = [53, 9, 7, 1].map(|port| (T, frame(port)));
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    assert_eq!(
        drops(&place, "main.nft"),
        [
            "policy: inet t f",
            "reject: inet t __chain6 handle 7 at main.nft:12: counter reject",
            "rule: inet t more handle 2 at ./more.nft:3: udp sport 5000 counter drop",
        ]
    );
    // A chain and its rules in commands, and in a state, which keeps where they were written.
    place.write(
        "commands.nft",
        b"add table inet t\nadd chain inet t f { type filter hook forward priority 0; }\n\
          \nadd rule inet t f udp dport 9 drop\ninsert rule inet t f udp dport 7 drop\n",
    );
    assert_eq!(
        drops(&place, "commands.nft"),
        [
            "rule: inet t f handle 2 at commands.nft:4: udp dport 9 drop",
            "rule: inet t f handle 3 at commands.nft:5: udp dport 7 drop",
        ]
    );
    let made = place.command("nft", "--state fw.state -f commands.nft");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let out = place.run("--net net.ip --state fw.state --read lan=lan.pcap");
    let told = text(&out.stderr);
    let rule = "1  rule: inet t f handle 2 at commands.nft:4: udp dport 9 drop\n";
    assert!(told.contains(rule), "{told}");
}

#[test]
fn the_summary_is_written_as_json_with_the_rules_that_drop() {
    let place = TestDir::new("summary-json");
    let frames = [53, 9, 9, 7].map(|port| (T, frame(port)));
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let run = "--net net.ip --rules rules.nft --read lan=lan.pcap --summary-json out.json -a";
    let out = place.run(run);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let file = std::fs::read_to_string(place.0.join("out.json")).expect("was written");
    let json: serde_json::Value = serde_json::from_str(&file).expect("is JSON");
    assert_eq!(json["in"], 4);
    assert_eq!(json["transmitted"], serde_json::json!({ "lan": 0, "wan": 1 }));
    assert_eq!(json["dropped"], 3);
    assert_eq!(
        json["drops"],
        serde_json::json!([
            {
                "reason": "rule", "family": "inet", "table": "t", "chain": "f", "handle": 4,
                "rule": "udp dport 9 counter packets 0 bytes 0 drop",
                "file": "rules.nft", "line": 5, "packets": 2,
            },
            { "reason": "policy", "family": "inet", "table": "t", "chain": "f", "packets": 1 },
        ])
    );
    let listing = text(&out.stdout);
    assert!(
        listing.contains("udp dport 9 counter packets 2 bytes 56 drop # handle 4"),
        "{listing}"
    );
}
