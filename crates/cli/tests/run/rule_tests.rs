// SPDX-License-Identifier: Apache-2.0

//! `penstock test` as its users see it.

use std::path::Path;
use std::process::Command;

use penstock_io::LinkType;

use crate::place::{T, TestDir, frame, text};

const HOST: &str = "net net.ip\nrules rules.nft\n";
/// UDP from the client to the world; the port follows.
const PACKET: &str = "packet lan ip saddr 198.18.0.10 ip daddr 198.19.0.2 udp sport 5000 udp dport";

/// Exit status and output of the tests of a text.
fn tested(place: &TestDir, tests: &str, options: &str) -> (Option<i32>, String, String) {
    place.write("t.test", format!("{HOST}{tests}").as_bytes());
    let out = place.command("test", &format!("{options} t.test"));
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn the_tests_of_the_example_pass() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/router");
    let out = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .current_dir(&examples)
        .args(["test", "rules.test"])
        .output()
        .expect("the program starts");
    let told = text(&out.stdout);
    assert!(out.status.success(), "{told}{}", text(&out.stderr));
    assert!(told.ends_with("6 tests: 6 passed, 0 failed\n"), "{told}");
}

#[test]
fn what_comes_out_is_held_against_what_is_expected() {
    let place = TestDir::new("expectations");
    let decides = |rule: &str| {
        format!("what decides: rule inet t f at rules.nft:{rule}; policy accept of netdev n e")
    };
    for (port, expected, instead) in [
        (53, "accept", None),
        (53, "out wan", None),
        (53, "out wan ip saddr 198.18.0.10 ip ttl 63 udp dport 53", None),
        (53, "out wan ether saddr 02:00:00:00:02:01 meta length 28", None),
        (53, "rule rules.nft:4", None),
        (53, "rule \"udp dport 53 counter accept\"", None),
        (53, "meets rules.nft:16", None),
        (53, "misses rules.nft:5", None),
        (53, "policy netdev n e", None),
        (53, "mark 0", None),
        (53, "counter rules.nft:4 packets 1 bytes 28", None),
        (9, "drop", None),
        (9, "drop rule", None),
        (9, "rule rules.nft:5", None),
        (7, "drop policy", None),
        (7, "policy inet t f", None),
        (53, "drop", Some("sent on wan".to_owned())),
        (53, "drop rule", Some("sent on wan".to_owned())),
        (53, "host", Some("sent on wan".to_owned())),
        (53, "out lan", Some("sent on wan".to_owned())),
        (53, "rule rules.nft:5", Some(decides("4: udp dport 53 counter accept"))),
        (53, "rule rules.nft:6", Some("no rule is called rules.nft:6".to_owned())),
        // The egress chain has it, and does not decide.
        (53, "rule rules.nft:16", Some(decides("4: udp dport 53 counter accept"))),
        (53, "misses rules.nft:4", Some("the rule matches".to_owned())),
        (53, "misses rules.nft:6", Some("no rule is called rules.nft:6".to_owned())),
        (53, "mark 5", Some("its mark is 0x0".to_owned())),
        (53, "policy inet t f", Some(decides("4: udp dport 53 counter accept"))),
        (53, "counter rules.nft:4 packets 2", Some("it counted packets 1 bytes 28".to_owned())),
        (53, "counter inet t c packets 2", Some("there is no counter inet t c".to_owned())),
        (
            9,
            "accept",
            Some(
                "dropped: rule: inet t f handle 4 at rules.nft:5: udp dport 9 counter drop"
                    .to_owned(),
            ),
        ),
    ] {
        let test = format!("test one\n  {PACKET} {port}\n  expect {expected}\n");
        let (status, told, said) = tested(&place, &test, "");
        let message = instead.as_ref().map(|instead| {
            let end = 2 + "expect ".len() + expected.len();
            format!("t.test:5:3-{end}: Error: not so: {instead}\n  expect {expected}\n")
        });
        assert_eq!(said, "", "{test}");
        assert_eq!(status, Some(i32::from(instead.is_some())), "{test}{told}");
        match message {
            None => assert_eq!(told, "ok      one\n1 tests: 1 passed, 0 failed\n", "{test}"),
            Some(message) => {
                assert!(told.contains(&message), "{test}{told}");
                // What happened to the packet.
                assert!(told.contains("    trace id "), "{test}{told}");
            }
        }
    }
    let frame_fields = format!("test one\n  {PACKET} 53\n  expect out wan ip saddr 198.19.0.1\n");
    let (status, told, _) = tested(&place, &frame_fields, "");
    assert_eq!(status, Some(1));
    assert!(told.contains("Error: not so: sent on wan: ether saddr 02:00:00:00:02:01"), "{told}");
}

#[test]
fn connections_are_pretended_or_made_by_earlier_packets() {
    let place = TestDir::new("connections-of-tests");
    place.write(
        "rules.nft",
        b"table ip t {\n\tcounter c { packets 5 bytes 6 }\n\
          \tchain f {\n\t\ttype filter hook forward priority 0; policy drop;\n\
          \t\tct state established counter name c accept\n\
          \t\tiifname lan udp dport 53 accept\n\t}\n\
          \tchain n {\n\t\ttype nat hook postrouting priority srcnat;\n\
          \t\toifname wan masquerade\n\t}\n}\n",
    );
    let answer = "packet wan ip saddr 198.19.0.2 udp sport 53 udp dport 5000 ip daddr";
    let tests = format!(
        "test an answer to nobody
  {answer} 198.18.0.10
  expect drop policy
test an answer to a connection that is pretended
  established reply
  {answer} 198.18.0.10
  expect out lan
  expect rule \"ct state established\"
  expect counter ip t c packets 1
test a packet of a connection that is pretended
  established
  packet lan ip saddr 198.18.0.10 ip daddr 198.19.0.2 tcp dport 22 tcp flags ack
  expect accept
test a connection is translated in both directions
  {PACKET} 53
  expect out wan ip saddr 198.19.0.1 udp sport 5000
  {answer} 198.19.0.1
  expect out lan ip daddr 198.18.0.10 udp dport 5000
test it ends
  {PACKET} 53
  wait 1h
  {answer} 198.19.0.1
  expect misses \"ct state established\"
test nothing is left of other tests
  {answer} 198.19.0.1
  expect misses \"ct state established\"
"
    );
    let (status, told, said) = tested(&place, &tests, "");
    // What the ruleset says of its counters does not count.
    assert!(said.starts_with("note: counters go on from what rules.nft says"), "{said}");
    assert_eq!(status, Some(0), "{told}");
    assert!(told.ends_with("6 tests: 6 passed, 0 failed\n"), "{told}");
}

#[test]
fn tests_that_cannot_be_run_are_no_failures_of_rules() {
    let place = TestDir::new("broken-tests");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    for (tests, message) in [
        ("", "Error: t.test: there are no tests in it"),
        ("test a\n  packet lan ip sadr 1.1.1.1\n", "t.test:4:3-28: Error: syntax error"),
        ("test a\n  packet dmz tcp dport 1\n", "Error: net.ip has no device `dmz`"),
        (
            "test a\n  frame lan=lan.pcap 2\n",
            "t.test:4:3-22: Error: there is no frame 2: lan.pcap has 1",
        ),
        ("test a\n  frame lan=none.pcap 2\n", "none.pcap: No such file or directory"),
        (
            "test a\n  established\n  packet lan ip saddr 1.1.1.1 ip daddr 1.1.1.2 ip protocol 99\n",
            "Error: only TCP, UDP and ICMP packets",
        ),
        (
            "test a\n  frame lan=lan.pcap 1\n  expect out wan ip sadr 1.1.1.1\n",
            "t.test:5:3-32: Error: syntax error",
        ),
        ("speed 5\n", "t.test:3:1-5: Error: a file of tests has lines"),
    ] {
        let (status, told, said) = tested(&place, tests, "");
        assert_eq!(status, Some(2), "{tests}{told}{said}");
        assert!((told.clone() + &said).contains(message), "{tests}{told}{said}");
    }
    let out = place.command("test", "none.test");
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).starts_with("Error: none.test: No such file"));
}

#[test]
fn results_are_written_as_tap_and_junit() {
    let place = TestDir::new("results");
    let tests = format!(
        "test <one> & two\n  {PACKET} 53\n  expect accept\n\
         test other\n  {PACKET} 9\n  expect accept\n"
    );
    let (status, told, _) = tested(&place, &tests, "--tap --junit out.xml");
    assert_eq!(status, Some(1));
    let lines: Vec<&str> = told.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(lines, ["TAP version 14", "ok 1 - <one> & two", "not ok 2 - other", "1..2"]);
    let xml = std::fs::read_to_string(place.0.join("out.xml")).expect("was written");
    for part in [
        "<testsuite name=\"t.test\" tests=\"2\" failures=\"1\" errors=\"0\">",
        "<testcase classname=\"t.test\" name=\"&lt;one&gt; &amp; two\"/>",
        "<failure message=\"not so: dropped: rule: inet t f handle 4 at rules.nft:5: ",
    ] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
}

#[test]
fn another_ruleset_takes_the_place_of_that_of_the_file() {
    let place = TestDir::new("other-rules");
    let tests = format!("test one\n  {PACKET} 9\n  expect drop\n");
    assert_eq!(tested(&place, &tests, "").0, Some(0));
    place.write("new.nft", b"table ip t {\n}\n");
    let (status, told, said) = tested(&place, &tests, "--rules new.nft");
    assert_eq!((status, &*said), (Some(1), ""), "{told}");
}

#[test]
fn what_is_recorded_comes_true() {
    let place = TestDir::new("recorded");
    let tests =
        format!("test one # of them\n  {PACKET} 53\n  wait 5s\n  {PACKET} 9\n  {PACKET} 7\n");
    let (status, told, said) = tested(&place, &tests, "--record");
    assert_eq!((status, &*said), (Some(0), ""), "{told}");
    assert_eq!(
        told,
        format!(
            "{HOST}test one # of them\n  {PACKET} 53\n  \
             expect out wan ip saddr 198.18.0.10 ip daddr 198.19.0.2 udp sport 5000 udp dport 53\n  \
             expect rule rules.nft:4\n  wait 5s\n  {PACKET} 9\n  expect drop rule\n  \
             expect rule rules.nft:5\n  {PACKET} 7\n  expect drop policy\n  \
             expect policy inet t f\n"
        )
    );
    let frames = [(T, 53), (T + 7_000_000, 9), (T + 2_000_000_000, 7)];
    let frames = frames.map(|(time, port)| (time, frame(port)));
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let out = place.command("test", "--record --net net.ip --rules rules.nft --read lan=lan.pcap");
    assert!(out.status.success(), "{}", text(&out.stderr));
    place.write("rec.test", &out.stdout);
    let told = text(&place.command("test", "rec.test").stdout);
    assert_eq!(
        told,
        "ok      lan=lan.pcap\n1 tests: 1 passed, 0 failed\n",
        "{}",
        text(&out.stdout)
    );
    assert_eq!(text(&out.stdout).matches("expect").count(), 6, "{}", text(&out.stdout));
}

#[test]
fn one_packet_is_held_against_an_expectation() {
    let place = TestDir::new("expect");
    let packet = PACKET.strip_prefix("packet ").expect("it is one");
    let run = |expected: &str, port: u16, more: &str| {
        let line =
            format!("--net net.ip --rules rules.nft --expect {expected} {more} {packet} {port}");
        let out = place.command("trace", &line);
        (out.status.code(), text(&out.stderr))
    };
    assert_eq!(run("accept", 53, ""), (Some(0), String::new()));
    assert_eq!(run("drop", 7, ""), (Some(0), String::new()));
    assert_eq!(run("drop", 53, ""), (Some(1), "expected drop: sent on wan\n".to_owned()));
    assert_eq!(
        run("accept", 7, ""),
        (Some(1), "expected accept: dropped: policy: inet t f\n".to_owned())
    );
    assert_eq!(run("accept", 7, "--tc none").0, Some(2));
}
