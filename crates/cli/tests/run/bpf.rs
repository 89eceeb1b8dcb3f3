// SPDX-License-Identifier: Apache-2.0

//! XDP programs in front of a ruleset.

use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_io::LinkType;

use crate::place::{T, TO_ROUTER, TestDir, forwarded, frame, packet, text};

/// Compiles a C file for BPF into the directory; `false`, with a message, without clang.
fn compile(place: &TestDir, source: &Path, object: &str) -> bool {
    let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let done = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", &headers, "-c", "-o", object])
        .arg(source)
        .current_dir(&place.0)
        .output();
    match done {
        Ok(done) => {
            assert!(done.status.success(), "{}", text(&done.stderr));
            true
        }
        Err(error) => {
            println!("skipped: clang: {error}");
            false
        }
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bpf").join(name)
}

const RUN: &str = "--net net.ip --rules rules.nft --write-dir out";

#[test]
fn frames_meet_the_program_of_their_device_before_the_rules() {
    let place = TestDir::new("bpf");
    if !compile(&place, &example("blocklist.c"), "x.o") {
        return;
    }
    let refused = packet([203, 0, 113, 5], [198, 19, 0, 2], 53);
    let refused = [&TO_ROUTER[..], &refused].concat();
    let frames = [(T, frame(53)), (T + 1, refused.clone()), (T + 2, frame(7)), (T + 3, frame(9))];
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    place.capture("wan.pcap", LinkType::Ethernet, &[(T + 4, refused)]);
    // 203.0.113.0/24, and device 3, wan.
    let elements = "blocklist 18000000cb007100 0000000000000000 # bits, address\n\
                    mirror 00000000 03000000\n";
    place.write("elements", elements.as_bytes());
    let out = place.run(&format!(
        "{RUN} --bpf xdp:lan=x.o:block --bpf-elements elements --bpf-maps maps \
         --read lan=lan.pcap wan=wan.pcap --summary-json summary.json"
    ));
    assert!(out.status.success(), "{}", text(&out.stderr));

    let mut back = frame(7);
    back[..12].rotate_left(6);
    assert_eq!(place.frames("out/lan.pcap"), [(T + 2, back)]);
    // Through the rules, and past them.
    assert_eq!(place.frames("out/wan.pcap"), [(T, forwarded(53)), (T + 3, frame(9))]);
    let summary = text(&out.stderr);
    let lines: Vec<&str> = summary
        .lines()
        .skip_while(|line| !line.starts_with("xdp"))
        .take_while(|line| !line.starts_with("transmitted"))
        .collect();
    assert_eq!(
        lines,
        [
            "xdp lan               4",
            "                      1  passed",
            "                      1  dropped",
            "                      1  sent back",
            "                      1  redirected",
        ]
    );
    let maps = std::fs::read_to_string(place.0.join("maps")).unwrap();
    assert_eq!(
        maps,
        ".bss 00000000 0400000000000000\n\
         blocklist 18000000cb007100 0100000000000000\n\
         mirror 00000000 03000000\n"
    );
    let json = std::fs::read_to_string(place.0.join("summary.json")).unwrap();
    assert!(json.contains(r#""device":"lan","program":"block","passed":1,"dropped":1"#), "{json}");
}

#[test]
fn two_devices_with_programs_of_one_object_share_its_maps() {
    let place = TestDir::new("bpf-shared");
    if !compile(&place, &example("blocklist.c"), "x.o") {
        return;
    }
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    place.capture("wan.pcap", LinkType::Ethernet, &[(T + 1, frame(53))]);
    let out = place.run(&format!(
        "{RUN} --bpf xdp:lan=x.o xdp:wan=x.o:xdp --bpf-maps maps --read lan=lan.pcap wan=wan.pcap"
    ));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let maps = std::fs::read_to_string(place.0.join("maps")).unwrap();
    assert_eq!(maps, ".bss 00000000 0200000000000000\n");
}

#[test]
fn a_program_that_goes_wrong_drops_its_packets_and_says_so_once() {
    let place = TestDir::new("bpf-fault");
    let source = "__attribute__((section(\"xdp\"), used)) int bad(void *context)\n\
                  {\n\treturn *(volatile int *)8;\n}\n";
    place.write("bad.c", source.as_bytes());
    if !compile(&place, Path::new("bad.c"), "bad.o") {
        return;
    }
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53)), (T + 1, frame(53))]);
    let out = place.run(&format!("{RUN} --bpf xdp:lan=bad.o --read lan=lan.pcap"));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let told = text(&out.stderr);
    let warnings: Vec<&str> = told.lines().filter(|line| line.starts_with("Warning")).collect();
    assert_eq!(
        warnings,
        ["Warning: xdp lan: BPF program bad: instruction 1 reads 4 bytes at 0x8"],
        "{told}"
    );
    assert!(told.contains("2  dropped, as the program went wrong\n"), "{told}");
    assert_eq!(place.frames("out/wan.pcap"), []);
}

#[test]
fn programs_run_at_hooks_of_netfilter_among_the_chains() {
    let place = TestDir::new("bpf-hooks");
    if !compile(&place, &example("hooks.c"), "x.o") {
        return;
    }
    place.capture(
        "lan.pcap",
        LinkType::Ethernet,
        &[(T, frame(53)), (T + 1, frame(54)), (T + 2, frame(55))],
    );
    place.write("elements", b"ports 3600 0000000000000000\n");
    // Of equal priority the chain was registered later and runs first.
    let rules = "table ip t {\n\
                 chain early { type filter hook forward priority -60; counter; udp dport 55 drop; }\n\
                 chain equal { type filter hook forward priority -50; counter; }\n\
                 chain late { type filter hook forward priority -40; counter; }\n}\n";
    place.write("hooks.nft", rules.as_bytes());
    for engine in ["interpreter", "jit"] {
        let out = place.run(&format!(
            "--net net.ip --rules hooks.nft --engine {engine} --bpf forward@-50=x.o:judge \
             ip:postrouting@100=x.o:netfilter --bpf-elements elements --bpf-maps maps \
             --read lan=lan.pcap --summary-json summary.json"
        ));
        assert!(out.status.success(), "{}", text(&out.stderr));
        let listing = text(&out.stdout);
        let counts: Vec<&str> =
            listing.matches("packets 3").chain(listing.matches("packets 2")).collect();
        assert_eq!(counts, ["packets 3", "packets 2"], "{listing}");
        assert!(listing.contains("packets 1 "), "{listing}");
        let summary = text(&out.stderr);
        let lines: Vec<&str> = summary
            .lines()
            .skip_while(|line| !line.starts_with("ip "))
            .take_while(|line| !line.starts_with("transmitted"))
            .collect();
        assert_eq!(
            lines,
            [
                "ip forward -50          2",
                "                      1  passed",
                "                      1  dropped",
                "ip6 forward -50          0",
                "ip postrouting 100          1",
                "                      1  passed",
            ]
        );
        assert!(summary.contains("1  BPF program\n"), "{summary}");
        let maps = std::fs::read_to_string(place.0.join("maps")).unwrap();
        assert!(maps.contains("ports 3600 0100000000000000\n"), "{maps}");
        assert!(maps.contains("seen 02000000 0200000000000000\n"), "{maps}");
        assert!(maps.contains("seen 04000000 0100000000000000\n"), "{maps}");
    }
}

#[test]
fn programs_of_tc_run_before_ingress_and_after_egress() {
    let place = TestDir::new("bpf-tc");
    if !compile(&place, &example("hooks.c"), "x.o") {
        return;
    }
    let frames = [(T, frame(53)), (T + 1, frame(9)), (T + 2, frame(11))];
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let rules = "table netdev t {\n\
                 chain in { type filter hook ingress device lan priority 0; meta mark 7 counter; }\n\
                 chain out { type filter hook egress device wan priority 0; counter; }\n}\n";
    place.write("tc.nft", rules.as_bytes());
    for (hook, marked, left, lost) in [("tc-ingress:lan", 2, 2, 1), ("tc-egress:wan", 0, 2, 1)] {
        let out = place.run(&format!(
            "--net net.ip --rules tc.nft --write-dir out --bpf {hook}=x.o:tc --read lan=lan.pcap"
        ));
        assert!(out.status.success(), "{}", text(&out.stderr));
        let (listing, told) = (text(&out.stdout), text(&out.stderr));
        assert!(listing.contains(&format!("0x00000007 counter packets {marked} ")), "{listing}");
        assert!(told.contains(&format!("{lost}  tc filter\n")), "{told}");
        let frames = place.frames("out/wan.pcap");
        assert_eq!(frames.len(), left, "{hook}");
        if hook == "tc-egress:wan" {
            let mut other = forwarded(9);
            other[5] ^= 0xff;
            assert_eq!(frames, [(T, forwarded(53)), (T + 1, other)]);
        }
    }
}

#[test]
fn what_cannot_be_attached_is_refused() {
    let place = TestDir::new("bpf-refused");
    if !compile(&place, &example("blocklist.c"), "x.o") {
        return;
    }
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    place.write("elements", b"blocklist 00 11\n");
    place.write("none", b"\nothers 00 11\n");
    for (options, message) in [
        ("--bpf xdp:lan=x.o:tc", "Error: --bpf: x.o: no such program among: block (section xdp)"),
        ("--bpf xdp:eth7=x.o", "Error: --bpf xdp:eth7: there is no such device"),
        ("--bpf xdp:lan=x.o xdp:lan=x.o", "Error: --bpf xdp:lan: another program is there"),
        ("--bpf xdp:lan=rules.nft", "Error: --bpf: rules.nft: not an object of BPF programs"),
        ("--bpf xdp:lan=y.o", "Error: --bpf: y.o: No such file or directory (os error 2)"),
        (
            "--bpf xdp:lan=x.o --bpf-elements elements",
            "Error: elements: line 1: map blocklist has keys of 8 and values of 8 bytes",
        ),
        (
            "--bpf xdp:lan=x.o --bpf-elements none",
            "Error: none: line 2: no program has a map others",
        ),
    ] {
        let out = place.run(&format!("{RUN} --read lan=lan.pcap {options}"));
        assert_eq!(out.status.code(), Some(1), "{options}");
        assert_eq!(text(&out.stderr).trim_end(), message, "{options}");
    }
}
