// SPDX-License-Identifier: Apache-2.0

//! `penstock run` as its users see it.

mod against;
mod bpf;
mod documented;
mod installing;
mod learn;
mod place;
mod queue;
mod report;
mod rule_names;
mod rule_tests;
mod web;
mod wrong_files;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use penstock_io::LinkType;

use place::{RULES, T, TO_GATEWAY, TO_ROUTER, TestDir, forwarded, frame, packet, text};

#[test]
fn frames_leave_by_the_devices_that_rules_and_routes_choose() {
    let place = TestDir::new("frames");
    place.capture(
        "lan.pcap",
        LinkType::Ethernet,
        &[(T, frame(53)), (T + 2, frame(9)), (T + 4, frame(7))],
    );
    let own = packet([198, 19, 0, 1], [198, 19, 0, 2], 123);
    place.capture("host.pcap", LinkType::Raw, &[(T + 1, own.clone())]);
    let raw = [&[0xff; 6][..], &[2, 0, 0, 0, 2, 1], &[0x88, 0xcc], &[2, 7, 4]].concat();
    place.capture("raw.pcap", LinkType::Ethernet, &[(T + 3, raw.clone())]);
    let to_host = packet([198, 18, 0, 10], [198, 18, 0, 1], 1);
    place.capture("more.pcap", LinkType::Ethernet, &[(T + 9, [&TO_ROUTER[..], &to_host].concat())]);

    let out = place.run(
        "--net net.ip --rules rules.nft --read lan=lan.pcap host=host.pcap --read host:wan=raw.pcap \
         --read lan=more.pcap --write-dir out",
    );
    assert!(out.status.success(), "{}", text(&out.stderr));

    let sent = [&TO_GATEWAY[..], &own].concat();
    assert_eq!(place.frames("out/wan.pcap"), [(T, forwarded(53)), (T + 1, sent), (T + 3, raw)]);
    assert_eq!(place.frames("out/lan.pcap"), []);
    assert_eq!(place.frames("out/host.pcap"), [(T + 9, to_host)]);

    // The rules as they were loaded, with what they counted: 53, 9, output, egress.
    let mut counted = [(1, 28), (1, 28), (1, 28), (3, 42 + 42 + 17)].into_iter();
    let mut listing = String::new();
    for line in RULES.lines() {
        let line = match line.contains("packets 0 bytes 0").then(|| counted.next()).flatten() {
            Some((p, b)) => line.replace("packets 0 bytes 0", &format!("packets {p} bytes {b}")),
            None => line.to_owned(),
        };
        listing += &format!("{line}\n");
    }
    assert_eq!(text(&out.stdout), listing);

    let summary = text(&out.stderr);
    for line in [
        "in                    6",
        "                      1  host:wan",
        "transmitted           3",
        "delivered             1",
        "dropped               2",
        "                      1  policy: inet t f",
        "                      1  rule: inet t f handle 4 at rules.nft:5: udp dport 9 counter drop",
    ] {
        assert!(summary.lines().any(|l| l == line), "{line:?} is missing in:\n{summary}");
    }
}

#[test]
fn a_profile_counts_how_often_each_rule_is_reached() {
    let place = TestDir::new("profile");
    let frames = [53, 53, 9, 7].map(|port| (T, frame(port)));
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let out = place.run("--net net.ip --rules rules.nft --read lan=lan.pcap --profile");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let told = text(&out.stderr);
    // Ticks, share, times, each, name.
    let lines = told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let times: Vec<(String, &str)> = lines
        .filter(|words| words.len() > 4 && words[1].ends_with('%'))
        .map(|words| (words[4..].join(" "), words[2]))
        .collect();
    for (rule, reached) in [
        ("inet t f handle 3 at rules.nft:4: udp dport 53 counter accept", "4"),
        ("inet t f handle 4 at rules.nft:5: udp dport 9 counter drop", "2"),
        ("netdev n e handle 2 at rules.nft:16: oifname \"wan\" counter", "2"),
    ] {
        assert!(times.contains(&(rule.into(), reached)), "{rule}: {told}");
    }
}

#[test]
fn a_map_for_perf_names_chain_and_rule_of_the_code() {
    let place = TestDir::new("perf-map");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    let child = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .current_dir(&place.0)
        .args([
            "run",
            "--net",
            "net.ip",
            "--rules",
            "rules.nft",
            "--read",
            "lan=lan.pcap",
            "--perf-map",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
    let out = child.wait_with_output().expect("the program ends");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let lines = std::fs::read_to_string(&map).expect("the map is written");
    std::fs::remove_file(&map).expect("the map is ours");
    let mut names = Vec::new();
    for line in lines.lines() {
        let mut words = line.splitn(3, ' ');
        let number = |word: Option<&str>| u64::from_str_radix(word.unwrap_or_default(), 16);
        let (address, length) = (number(words.next()), number(words.next()));
        assert!(address.is_ok_and(|a| a > 0) && length.is_ok_and(|l| l > 0), "{line}");
        names.extend(words.next());
    }
    for name in [
        "inet t f handle 3",
        "inet t f handle 4",
        "inet t o handle 5",
        "netdev n e handle 2",
        "hook",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn a_mark_set_at_egress_selects_the_class_of_the_queueing_discipline() {
    let place = TestDir::new("tc");
    let rules = "table netdev n { chain e { type filter hook egress device wan priority 0; udp dport 53 meta mark set 7; }; }\n";
    place.write("rules.nft", rules.as_bytes());
    // 42 bytes, and 1 ms for each.
    let tc = "
        qdisc add dev wan clsact
        qdisc add dev wan root handle 1: tbf rate 336kbit burst 42 limit 1000
        qdisc add dev wan parent 1:1 handle 2: prio
        filter add dev wan parent 2: handle 7 fw classid 2:1
        filter add dev wan egress protocol ip flower ip_proto udp dst_port 8 action drop
    ";
    place.write("tc.batch", tc.as_bytes());
    let frames: Vec<_> = [1, 2, 53, 8, 53, 3].iter().map(|&dport| (T, frame(dport))).collect();
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let out = place
        .run("--net net.ip --rules rules.nft --tc tc.batch --read lan=lan.pcap --write-dir out");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let sent: Vec<_> = [1, 53, 53, 2, 3]
        .iter()
        .zip(0..)
        .map(|(&d, n)| (T + n * 1_000_000, forwarded(d)))
        .collect();
    assert_eq!(place.frames("out/wan.pcap"), sent);
    assert!(text(&out.stderr).contains("1  tc filter"), "{}", text(&out.stderr));
}

#[test]
fn connections_are_listed_and_continue_in_a_later_run() {
    let place = TestDir::new("conntrack");
    let rules = "table inet t { chain f { type filter hook forward priority 0; ct state new counter; }; }\n";
    place.write("rules.nft", rules.as_bytes());
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    let out = place.run(
        "--net net.ip --rules rules.nft --read lan=lan.pcap --conntrack - --conntrack-dump dump \
         --sysctl net.netfilter.nf_conntrack_udp_timeout=7",
    );
    let line = "udp      17 7 src=198.18.0.10 dst=198.19.0.2 sport=5000 dport=53 [UNREPLIED] \
                src=198.19.0.2 dst=198.18.0.10 sport=53 dport=5000 mark=0 use=1";
    assert!(text(&out.stderr).lines().any(|l| l == line), "{}", text(&out.stderr));

    // The other way now: an answer to a connection that the first run saw.
    let answer = packet([198, 19, 0, 2], [198, 18, 0, 10], 5000);
    let answer = [&[2, 0, 0, 0, 2, 1, 2, 0, 0, 0, 2, 2, 8, 0][..], &answer].concat();
    let mut answer = answer;
    answer[34..36].copy_from_slice(&53u16.to_be_bytes());
    place.capture("wan.pcap", LinkType::Ethernet, &[(T, answer)]);
    let again = "--net net.ip --rules rules.nft --read wan=wan.pcap --conntrack connections";
    let out = place.run(&format!("{again} --conntrack-load dump"));
    assert!(
        out.status.success() && text(&out.stdout).contains("packets 0 bytes 0"),
        "{}",
        text(&out.stderr)
    );
    let listed = std::fs::read_to_string(place.0.join("connections")).expect("was written");
    assert!(listed.contains("dport=53 src=198.19.0.2") && listed.lines().count() == 1, "{listed}");

    place.write("dump", b"no connection\n");
    let out = place.run(&format!("{again} --conntrack-load dump"));
    assert!(
        !out.status.success() && text(&out.stderr).contains("Error: dump: line 1"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn the_final_ruleset_is_written_as_json() {
    let place = TestDir::new("json");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    let out = place.run("--net net.ip --rules rules.nft --read lan=lan.pcap -j");
    let json = text(&out.stdout);
    assert!(json.starts_with("{\"nftables\": [{\"metainfo\": "), "{json}");
    assert!(json.contains("{\"counter\": {\"packets\": 1, \"bytes\": 28}}"), "{json}");
}

#[test]
fn a_trace_lists_each_rule_that_a_packet_meets() {
    let place = TestDir::new("trace");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(9))]);
    let out = place.run("--net net.ip --rules rules.nft --read lan=lan.pcap --trace");
    let said = text(&out.stderr);
    let trace: Vec<&str> = said.lines().filter(|l| l.starts_with("trace")).collect();
    assert_eq!(
        trace,
        [
            "trace id 00000001 inet t f packet: iif \"lan\" oif \"wan\" ether saddr 02:00:00:00:01:10 ether daddr \
             02:00:00:00:01:01 ip saddr 198.18.0.10 ip daddr 198.19.0.2 ip dscp cs0 ip ecn not-ect ip ttl 63 ip id 1 \
             ip protocol udp ip length 28 udp sport 5000 udp dport 9 udp length 8 ",
            "trace id 00000001 inet t f rule udp dport 9 counter packets 0 bytes 0 drop (verdict drop) \
             # rules.nft:5 handle 4",
        ]
    );
}

#[test]
fn frames_before_the_damage_of_a_capture_are_run_and_the_damage_is_reported() {
    let place = TestDir::new("broken");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53)), (T + 1, frame(53))]);
    let whole = std::fs::read(place.0.join("lan.pcap")).expect("was written");
    place.write("cut.pcap", &whole[..whole.len() - 1]);
    let out = place.run("--net net.ip --rules rules.nft --read lan=cut.pcap --write-dir out");
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    assert!(said.starts_with("Error: cut.pcap: byte 82: the file ends inside a frame\n"), "{said}");
    assert_eq!(place.frames("out/wan.pcap"), [(T, forwarded(53))]);
    assert!(text(&out.stdout).contains("udp dport 53 counter packets 1 bytes 28"));
}

#[test]
fn flows_are_listed_and_taps_do_not_see_what_early_ingress_takes() {
    const SECOND: u64 = 1_000_000_000;
    let place = TestDir::new("flows");
    let question = frame(53);
    let frames: Vec<_> = (0..4).map(|n| (T + n * SECOND, question.clone())).collect();
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    for (hook, tapped) in [("ingress", 4), ("early_ingress", 2)] {
        let rules = format!(
            "table ip t {{\n\tflowtable x {{\n\t\thook {hook} priority filter\n\t\tdevices = {{ lan, wan }}\n\t}}\n\n\
             \tchain f {{\n\t\ttype filter hook forward priority filter; policy accept;\n\
             \t\tudp dport 53 flow add @x\n\t\tudp dport 9 flow add @x\n\t}}\n}}\n"
        );
        place.write("flow.nft", rules.as_bytes());
        let out = place.run(
            "--net net.ip --rules flow.nft --read lan=lan.pcap --write-dir out --flows flows \
             --tap lan=lan-tap.pcap wan=wan-tap.pcap --conntrack ct",
        );
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(text(&out.stdout), rules);
        assert_eq!(place.frames("out/wan.pcap").len(), 4);
        assert_eq!(
            (place.frames("lan-tap.pcap").len(), place.frames("wan-tap.pcap").len()),
            (tapped, 4)
        );
        let flows = std::fs::read_to_string(place.0.join("flows")).expect("it was written");
        let want = "ip t x: udp 198.18.0.10:5000 > 198.19.0.2:53\n    \
            lan -> wan via 198.19.0.2 mtu 1500: 2 packets 56 bytes, 1.0 packets/s 224 bit/s\n    \
            wan -> lan via 198.18.0.10 mtu 1500: 0 packets 0 bytes, 0.0 packets/s 0 bit/s\n    \
            age 2.000 s, idle 0.000 s, in software\n\
            1 flows added, 0 expired, 0 torn down, 0 ended with their connection; 2 packets, 0 of them in chains, 0 fell back\n\
            not offloaded 1 times: first packet\n";
        assert_eq!(flows, want);
        let connections = std::fs::read_to_string(place.0.join("ct")).expect("it was written");
        assert!(
            connections.contains("[UNREPLIED]") && connections.contains("[OFFLOAD]"),
            "{connections}"
        );
    }
    // A connection of one packet is not there, and says why.
    place.capture("lan.pcap", LinkType::Ethernet, &frames[..1]);
    place.run("--net net.ip --rules flow.nft --read lan=lan.pcap --flows flows");
    let flows = std::fs::read_to_string(place.0.join("flows")).expect("it was written");
    assert!(
        flows.starts_with(
            "ip t x: udp 198.18.0.10:5000 > 198.19.0.2:53\n    not offloaded: first packet\n"
        ),
        "{flows}"
    );
    // No device of a run forwards flows itself.
    place.write("hw.nft", b"table ip t {\n\tflowtable x {\n\t\thook ingress priority filter\n\t\tdevices = { wan }\n\t\tflags offload\n\t}\n}\n");
    let out = place.run("--net net.ip --rules hw.nft --read lan=lan.pcap");
    let message = "hw.nft:2:12-12: Error: Could not process rule: Operation not supported: device wan cannot forward flows of flowtable ip t x\n\
        \tflowtable x {\n\t          ^\n";
    assert_eq!((out.status.code(), &*text(&out.stderr)), (Some(1), message));
}

/// Frames that come within a tenth of a millisecond are a burst, in which packets of a flow leave
/// together; which shows in nothing but the order among flows.
#[test]
fn capturing_at_a_hook_does_not_change_results() {
    let place = TestDir::new("captured");
    let frames: Vec<_> =
        (0..6).map(|n| (n * 1000 + 7, frame([53, 9, 1][n as usize % 3]))).collect();
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let run = |more: &str| {
        place.run(&format!("--net net.ip --rules rules.nft --read lan=lan.pcap {more}"))
    };
    let plain = run("");
    // All packets at a hook, those left after the chains there, and other hooks and families.
    for (hook, expected) in [
        ("forward", 6),
        ("forward@10", 2),
        ("ip:postrouting@filter", 2),
        ("ip6:forward", 0),
        ("ingress", 6),
        ("egress", 2),
        ("input", 0),
    ] {
        for engine in ["jit", "interpreter"] {
            let output = run(&format!("--capture {hook}=seen.pcapng --engine {engine}"));
            assert_eq!(output.stdout, plain.stdout, "{hook}: the ruleset, with its counters");
            let rate = |bytes: &[u8]| {
                text(bytes).lines().filter(|l| !l.starts_with("rate")).collect::<String>()
            };
            assert_eq!(rate(&output.stderr), rate(&plain.stderr), "{hook}");
            let seen = place.frames("seen.pcapng");
            assert_eq!(seen.len(), expected, "{hook} {engine}");
            if ["ingress", "forward"].contains(&hook) {
                let bytes = |frames: &[(u64, Vec<u8>)]| {
                    frames.iter().map(|(_, f)| f[..14].to_vec()).collect::<Vec<_>>()
                };
                assert_eq!(
                    bytes(&seen),
                    bytes(&frames),
                    "{hook}: with the link header of the arrival"
                );
            }
            if hook == "ingress" {
                assert_eq!(seen, frames);
            }
        }
    }
    // Several at once, of what meets an expression; traces do not speak of them.
    let output = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .current_dir(&place.0)
        .args("run --net net.ip --rules rules.nft --read lan=lan.pcap --trace".split(' '))
        .args([
            "--capture",
            "forward=a.pcapng",
            "ingress=b.pcapng",
            "--capture-match",
            "udp dport { 9, 53 }",
        ])
        .output()
        .expect("the program starts");
    assert_eq!((place.frames("a.pcapng").len(), place.frames("b.pcapng").len()), (4, 4));
    let traces = text(&output.stderr);
    assert!(traces.contains("inet t f ") && !traces.contains("capture"), "{traces}");
    for (expression, message) in [
        ("udp dportt 9", "udp dportt 9\n    ^^^^^^\n"),
        ("udp dport 9 drop", "has no effect"),
        ("counter", "only matches"),
        ("udp dport 9; flush ruleset", "--capture-match takes the matches of one rule"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_penstock"))
            .current_dir(&place.0)
            .args(
                "run --net net.ip --rules rules.nft --read lan=lan.pcap --capture forward=c.pcapng"
                    .split(' '),
            )
            .args(["--capture-match", expression])
            .output()
            .expect("the program starts");
        assert!(!output.status.success(), "{expression}");
        assert!(text(&output.stderr).contains(message), "{expression}: {}", text(&output.stderr));
    }
    assert!(!place.0.join("c.pcapng").exists());
}

#[test]
fn frames_close_in_time_form_a_burst() {
    let place = TestDir::new("bursts");
    let rules = |flowtable: &str, add: &str| {
        format!(
            "table ip t {{\n\t{flowtable}\n\tchain f {{\n\t\ttype filter hook forward priority filter; policy accept;\n\
             \t\tct state established counter packets 0 bytes 0\n\t\tudp dport {{ 53, 123 }} {add} counter packets 0 bytes 0\n\
             \t\tudp dport 7 counter packets 0 bytes 0 meta nftrace set 1 drop\n\t}}\n}}\n"
        )
    };
    let flowtable = "flowtable x { hook early_ingress priority filter; devices = { lan, wan }; }";
    place.write("plain.nft", rules("", "").as_bytes());
    place.write("flow.nft", rules(flowtable, "flow add @x").as_bytes());
    let ports = [53, 123, 53, 53, 7, 123, 53, 9];
    let frames = |spacing: u64| -> Vec<_> {
        let port = |n: u64| ports[(n % ports.len() as u64) as usize];
        (0..200).map(|n| (T + n * spacing, frame(port(n)))).collect()
    };
    let sent = |spacing: u64, rules: &str, more: &str| {
        place.capture("lan.pcap", LinkType::Ethernet, &frames(spacing));
        let line = format!(
            "--net net.ip --rules {rules} --read lan=lan.pcap --write-dir out --flows flows {more}"
        );
        let out = place.run(&line);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let mut frames: Vec<_> = place.frames("out/wan.pcap").into_iter().map(|(_, f)| f).collect();
        // By port, in order.
        frames.sort_by_key(|f| f[36..38].to_vec());
        (
            text(&out.stdout),
            frames,
            std::fs::read_to_string(place.0.join("flows")).expect("it was written"),
        )
    };
    for more in ["", "--trace", "--engine interpreter", "--engine jit"] {
        let (counted, there, _) = sent(1_000, "plain.nft", more);
        assert_eq!(there.len(), 175);
        for spacing in [100, 30_000, 1_000_000] {
            let found = sent(spacing, "plain.nft", more);
            assert_eq!((&found.0, &found.1), (&counted, &there), "{spacing} {more}");
        }
        let (_, together, flows) = sent(1_000, "flow.nft", more);
        assert!(together == there && !flows.contains(" 0 of them in chains"), "{more} {flows}");
        let (_, apart, flows) = sent(200_000, "flow.nft", more);
        assert!(apart == there && flows.contains(" 0 of them in chains"), "{more} {flows}");
    }
}

#[test]
fn counters_go_on_or_begin_at_zero() {
    let place = TestDir::new("zero");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    place.write(
        "counted.nft",
        b"table ip t {
            counter c { packets 5 bytes 50 }
            quota q { over 1 mbytes used 100 bytes }
            set s { type ipv4_addr; counter; elements = { 198.18.0.10 counter packets 3 bytes 30 } }
            chain f {
                type filter hook forward priority 0;
                counter packets 7 bytes 70
                counter name c
                quota name q drop
                ip saddr @s
            }
        }",
    );
    let note = "note: counters go on from what counted.nft says; --zero begins at zero\n";
    for (option, note, counts) in [
        (
            "",
            note,
            ["packets 8 bytes 98", "packets 6 bytes 78", "used 128 bytes", "packets 4 bytes 58"],
        ),
        (
            "--zero",
            "",
            ["packets 1 bytes 28", "packets 1 bytes 28", "used 28 bytes", "packets 1 bytes 28"],
        ),
    ] {
        let command = format!("--net net.ip --rules counted.nft --read lan=lan.pcap {option}");
        let output = place.run(&command);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(err.contains("note: counters"), !note.is_empty(), "{err}");
        assert!(err.contains(note), "{err}");
        for count in counts {
            assert!(out.contains(count), "{option} {count}\n{out}");
        }
    }
}

#[test]
fn errors_are_reported_with_their_place() {
    let place = TestDir::new("wrong");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    place.capture("raw.pcap", LinkType::Raw, &[(T, frame(53)[14..].to_vec())]);
    place.write("bad.ip", b"link add name lan type veth\nlink set lan sideways\n");
    place.write("bad.nft", b"table inet t {\n\tchain f {\n\t\tudp dport nowhere drop\n\t}\n}\n");
    place.write("empty.nft", b"\n \t\n");
    place.write("busy.nft", b"delete table ip t\n");
    place.write("helper.nft", b"table ip t {\n\tct helper h {\n\t\ttype \"RAS\" protocol udp\n\t}\n\tchain f {\n\t\ttype filter hook prerouting priority 0;\n\t\tcounter ct helper set \"h\"\n\t}\n}\n");
    let nowhere = "bad.nft:3:13-19: Error: Could not resolve service: Servname not supported for ai_socktype\n\
                   \t\tudp dport nowhere drop\n\t\t          ^^^^^^^\n";
    for (arguments, code, message) in [
        (
            "--net none --rules rules.nft --read lan=lan.pcap",
            1,
            "Error: none: No such file or directory",
        ),
        ("--net bad.ip --rules rules.nft --read lan=lan.pcap", 1, "Error: bad.ip:2: "),
        (
            "--net net.ip --rules none --read lan=lan.pcap",
            1,
            "Error: Could not open file \"none\": No such file",
        ),
        ("--net net.ip --rules bad.nft --read lan=lan.pcap", 1, nowhere),
        (
            "--net net.ip --rules empty.nft --read lan=lan.pcap",
            1,
            "Error: empty.nft is empty: there are no rules in it",
        ),
        (
            "--net net.ip --rules rules.nft --read lan.pcap",
            1,
            "Error: lan.pcap does not name its interfaces",
        ),
        ("--net net.ip --rules busy.nft --read lan=lan.pcap", 1, "busy.nft:1:17-17: Error: "),
        ("--net net.ip --rules helper.nft --read lan=lan.pcap", 1, "helper.nft:7:25-27: Error: "),
        (
            "--net net.ip --rules rules.nft --read lan=none.pcap",
            1,
            "Error: none.pcap: No such file or directory",
        ),
        (
            "--net net.ip --rules rules.nft --read lan=net.ip",
            1,
            "Error: net.ip: byte 0: this is neither pcap nor",
        ),
        (
            "--net net.ip --rules rules.nft --read dmz=lan.pcap",
            1,
            "Error: net.ip has no device `dmz`",
        ),
        (
            "--net net.ip --rules rules.nft --read lan=raw.pcap",
            1,
            "Error: --read lan: IP packets without a link",
        ),
        (
            "--net net.ip --rules rules.nft --read lan=lan.pcap --write-dir .",
            1,
            "Error: ./lan.pcap would be",
        ),
        ("--net net.ip --rules rules.nft", 2, "penstock run: --read is missing"),
        (
            "--net net.ip --rules rules.nft --read lan=lan.pcap --fast",
            2,
            "penstock run: invalid option '--fast'",
        ),
    ] {
        let out = place.run(arguments);
        let said = text(&out.stderr);
        assert!(said.starts_with(message), "{arguments}\n{said}");
        assert_eq!(out.status.code(), Some(code), "{arguments}");
        assert_eq!(text(&out.stdout), "", "{arguments}");
    }
}

#[test]
fn the_example_has_the_counts_of_the_kernel() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/router");
    let out = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .current_dir(&examples)
        .args(
            "run --net net.ip --rules rules.nft --read lan=lan.pcap guest=guest.pcap wan=wan.pcap"
                .split(' '),
        )
        .output()
        .expect("the program starts");
    let counts = |listing: &str| -> Vec<String> {
        let words: Vec<&str> = listing.split_whitespace().collect();
        let counts = words.windows(2).filter(|w| matches!(w[0], "packets" | "bytes"));
        counts.map(|w| w[1].to_owned()).filter(|n| n.parse::<u64>().is_ok()).collect()
    };
    let kernel =
        std::fs::read_to_string(examples.join("kernel.txt")).expect("is in the repository");
    let ours = counts(&text(&out.stdout));
    assert_eq!(ours, counts(&kernel));
    assert!(ours.iter().any(|n| n != "0"));
}

#[test]
fn sockets_and_operating_systems_come_from_files() {
    let place = TestDir::new("sockets");
    let rules = "\
table ip t {
	chain p {
		type filter hook prerouting priority mangle; policy accept;
		socket mark 0x00000009 counter packets 0 bytes 0
		meta l4proto udp tproxy to :3000 counter packets 0 bytes 0
	}
}
";
    place.write("rules.nft", rules.as_bytes());
    place.write("sockets", b"# the proxy\nudp *:3000 transparent\nudp 198.19.0.2:53 mark 9\n");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53)), (T + 1, frame(54))]);
    let run = "--net net.ip --rules rules.nft --read lan=lan.pcap";
    let counts = |out: &Output| {
        assert!(out.status.success(), "{}", text(&out.stderr));
        let listing = text(&out.stdout);
        let count = |line: &str| {
            line.split("packets ").nth(1).and_then(|l| l.split(' ').next()?.parse().ok())
        };
        listing.lines().filter_map(count).collect::<Vec<u32>>()
    };
    assert_eq!(counts(&place.run(run)), [0, 0]);
    assert_eq!(counts(&place.run(&format!("{run} --sockets sockets"))), [1, 2]);
    place.write("sockets", b"udp *:3000 transparent\nudp nothing\n");
    let out = place.run(&format!("{run} --sockets sockets"));
    assert_eq!(text(&out.stderr), "Error: sockets:2: `nothing` is no address and port\n");
    place.write("pf.os", b"# comment\n*:64:0:40:.:Some\n");
    let out = place.run(&format!("{run} --osf pf.os"));
    assert_eq!(text(&out.stderr), "Error: pf.os:2: there are not 9 fields\n");
}

#[test]
fn trace_command_reports_the_fate_of_one_packet() {
    let place = TestDir::new("trace");
    place.capture("lan.pcap", LinkType::Ethernet, &[(1, frame(53)), (2, frame(9))]);
    let packet = "ip saddr 198.18.0.10 ip daddr 198.19.0.2 udp dport";
    let id =
        |line: &str| line.split_once("inet t").map_or(line, |(_, rest)| rest).trim().to_owned();
    for (arguments, end, rules) in [
        (
            format!("lan {packet} 53"),
            "sent on wan: ether saddr 02:00:00:00:02:01 ether daddr 02:00:00:00:02:02 ip saddr 198.18.0.10",
            vec![
                "f rule udp dport 53 counter packets 0 bytes 0 accept (verdict accept) # rules.nft:4 handle 3",
            ],
        ),
        (
            format!("lan {packet} 9"),
            "dropped: rule: inet t f handle 4 at rules.nft:5: udp dport 9 counter drop",
            vec![
                "f rule udp dport 9 counter packets 0 bytes 0 drop (verdict drop) # rules.nft:5 handle 4",
            ],
        ),
        (format!("lan {packet} 7"), "dropped: policy: inet t f", vec![]),
        (
            "host ip saddr 198.19.0.1 ip daddr 198.19.0.2 icmp type echo-request".to_owned(),
            "sent on wan:",
            vec![
                "o rule oifname \"wan\" counter packets 0 bytes 0 (verdict continue) # rules.nft:10 handle 5",
            ],
        ),
        (
            "lan ip saddr 198.18.0.10 ip daddr 198.18.0.1 icmp code 0".to_owned(),
            "delivered to the host from lan: ",
            vec![],
        ),
        (
            "--read lan=lan.pcap --frame 2".to_owned(),
            "dropped: rule: inet t f handle 4 at rules.nft:5: udp dport 9 counter drop",
            vec![
                "f rule udp dport 9 counter packets 0 bytes 0 drop (verdict drop) # rules.nft:5 handle 4",
            ],
        ),
    ] {
        let out = place.command("trace", &format!("--net net.ip --rules rules.nft {arguments}"));
        let lines = text(&out.stdout);
        assert!(out.status.success(), "{arguments}: {}", text(&out.stderr));
        assert!(lines.lines().last().is_some_and(|l| l.starts_with(end)), "{arguments}: {lines}");
        let met: Vec<String> = lines
            .lines()
            .filter(|l| l.contains(" inet t ") && l.contains(" rule "))
            .map(id)
            .collect();
        assert_eq!(met, rules, "{arguments}");
    }
    let out =
        place.command("trace", "--net net.ip --rules rules.nft --read lan=lan.pcap --frame 3");
    assert_eq!(text(&out.stderr), "Error: there is no frame 3: the captures have 2\n");
    assert_eq!(out.status.code(), Some(1));
}
