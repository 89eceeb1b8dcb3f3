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
fn maps_in_maps_are_set_and_listed_by_name() {
    let place = TestDir::new("bpf-maps-in-maps");
    let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ebpfvm/tests/objects");
    if !compile(&place, &objects.join("maps_in_maps.c"), "x.o") {
        return;
    }
    // The first byte of the destination is 2, which had no map: the key is the second byte.
    place.write("elements", b"by_index 02000000 odd\n");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    let run = format!("{RUN} --bpf xdp:lan=x.o:count --bpf-elements elements --read lan=lan.pcap");
    let out = place.run(&format!("{run} --bpf-maps maps"));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let maps = std::fs::read_to_string(place.0.join("maps")).unwrap();
    assert_eq!(
        maps,
        "odd 00000000 0100000000000000\n\
         by_index 00000000 even\n\
         by_index 01000000 odd\n\
         by_index 02000000 odd\n\
         by_index 03000000 small\n"
    );
    for (element, why) in [
        ("by_index 02000000 00000000", "line 1: the object has no map 00000000 in use"),
        ("by_index 05000000 odd", "line 1: map by_index: Argument list too long"),
        ("by_index 02000000 by_index", "line 1: map by_index: Invalid argument"),
    ] {
        place.write("elements", element.as_bytes());
        let out = place.run(&run);
        assert!(!out.status.success() && text(&out.stderr).contains(why), "{}", text(&out.stderr));
    }
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

/// A chain with a program, and rules of the same purpose.
const CHAIN: &str = "table ip t {\n\
    \tchain c {\n\
    \t\ttype filter hook forward priority filter - 5; policy accept;\n\
    \t\tbpf object \"x.o\" section \"netfilter\"\n\
    \t\tudp dport 54 counter packets 0 bytes 0 drop\n\
    \t}\n\
    \n\
    \tchain d {\n\
    \t\ttype filter hook forward priority filter; policy accept;\n\
    \t\tcounter packets 0 bytes 0\n\
    \t}\n\
    }\n";

#[test]
fn packets_meet_the_program_of_a_chain_and_listings_show_its_rules() {
    let place = TestDir::new("bpf-chain");
    if !compile(&place, &example("hooks.c"), "x.o") {
        return;
    }
    let frames = [(T, frame(53)), (T + 1, frame(54)), (T + 2, frame(55))];
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    place.write("chain.nft", CHAIN.as_bytes());
    for engine in ["interpreter", "jit"] {
        let run = format!("--net net.ip --rules chain.nft --engine {engine} --read lan=lan.pcap");
        let out = place.run(&run);
        assert!(out.status.success(), "{}", text(&out.stderr));
        // The map of ports is empty: all pass.
        let listing = CHAIN.replace("counter packets 0 bytes 0\n", "counter packets 3 bytes 84\n");
        assert_eq!(text(&out.stdout), listing);
        let out = place.run(&format!("{run} --check-bpf"));
        assert_eq!(out.status.code(), Some(1));
        let told = text(&out.stderr);
        let errors: Vec<&str> = told.lines().filter(|line| line.starts_with("Error")).collect();
        assert_eq!(errors.len(), 1, "{told}");
        let expected = "Error: --check-bpf: chain ip t c: rules drop (rule with handle 3), program judge \
                        accepts: ";
        assert!(errors[0].starts_with(expected) && errors[0].contains("udp dport 54"), "{told}");
        let counted =
            listing.replace("54 counter packets 0 bytes 0", "54 counter packets 1 bytes 28");
        assert_eq!(text(&out.stdout), counted);
    }
}

#[test]
fn a_chain_with_a_program_changes_as_a_whole() {
    let place = TestDir::new("bpf-whole");
    if !compile(&place, &example("hooks.c"), "x.o") {
        return;
    }
    place.write("chain.nft", CHAIN.as_bytes());
    let nft = |arguments: &str| place.command("nft", &format!("--state state {arguments}"));
    let out = nft("-f chain.nft");
    assert!(out.status.success(), "{}", text(&out.stderr));
    // The state has the object: its file is not read again.
    std::fs::rename(place.0.join("x.o"), place.0.join("y.o")).unwrap();
    assert_eq!(text(&nft("list ruleset").stdout), CHAIN);
    let hooks = text(&nft("list hooks").stdout);
    assert!(hooks.contains("\t\t-0000000005 chain ip t c [nf_hook_run_bpf]\n"), "{hooks}");
    let json = text(&nft("-j list chain ip t c").stdout);
    assert!(json.contains(r#""bpf": {"object": "x.o", "section": "netfilter"}"#), "{json}");
    let fixed = "a chain with a BPF program changes only as a whole: state its program, too";
    for (arguments, message) in [
        ("add rule ip t c accept", fixed),
        ("delete rule ip t c handle 3", fixed),
        ("-f chain.nft", "Could not open file \"x.o\": No such file or directory"),
    ] {
        let out = nft(arguments);
        assert_eq!(out.status.code(), Some(1), "{arguments}");
        assert!(text(&out.stderr).contains(message), "{arguments}: {}", text(&out.stderr));
    }
    assert_eq!(text(&nft("list ruleset").stdout), CHAIN);
    std::fs::rename(place.0.join("y.o"), place.0.join("x.o")).unwrap();
    for (hook, wrong, message) in [
        ("forward", "section \"tc\"", "program mark (section tc) is not one of netfilter"),
        ("forward", "section \"none\"", "no such program among"),
        ("ingress device lan", "", "a program is for chains of type filter at prerouting"),
    ] {
        let rules = format!(
            "table inet u {{ chain c {{ type filter hook {hook} priority 0; bpf object \"x.o\" {wrong}; }}; }}"
        );
        place.write("wrong.nft", rules.as_bytes());
        let out = nft("-f wrong.nft");
        assert_eq!(out.status.code(), Some(1), "{rules}");
        assert!(text(&out.stderr).contains(message), "{rules}: {}", text(&out.stderr));
    }
    // A file that states it all again replaces it.
    let out = nft("-f chain.nft");
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn programs_of_classic_bpf_match_in_rules() {
    let place = TestDir::new("bpf-bytecode");
    let frames = [(T, frame(53)), (T + 1, frame(54)), (T + 2, frame(55))];
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    // The port of destination of UDP behind a header of 20 bytes is 54.
    let program = "6,48 0 0 9,21 0 3 17,40 0 0 22,21 0 1 54,6 0 0 65535,6 0 0 0";
    let rule = format!("\t\tbpf bytecode \"{program}\" counter packets 0 bytes 0 drop\n");
    let rules = format!(
        "table ip t {{\n\tchain c {{\n\t\ttype filter hook forward priority filter; policy accept;\n\
         {rule}\t}}\n}}\n"
    );
    place.write("bytecode.nft", rules.as_bytes());
    for engine in ["interpreter", "jit"] {
        let out = place.run(&format!(
            "--net net.ip --rules bytecode.nft --engine {engine} --read lan=lan.pcap --write-dir out"
        ));
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(text(&out.stdout), rules.replace("packets 0 bytes 0", "packets 1 bytes 28"));
        assert_eq!(place.frames("out/wan.pcap"), [(T, forwarded(53)), (T + 2, forwarded(55))]);
    }
    for (program, message) in [
        ("1", "a program of BPF has another length"),
        ("x", "a program of BPF begins with the number of its instructions"),
        ("1,6 0 0", "an instruction of BPF is four numbers"),
        ("65,6 0 0 0", "a program of BPF has 1 to 64 instructions"),
        ("1,48 0 0 0", "its program has no end"),
    ] {
        let rules =
            rules.replace("6,48 0 0 9,21 0 3 17,40 0 0 22,21 0 1 54,6 0 0 65535,6 0 0 0", program);
        place.write("wrong.nft", rules.as_bytes());
        let out = place.run("--net net.ip --rules wrong.nft --read lan=lan.pcap");
        assert_eq!(out.status.code(), Some(1), "{program}");
        let told = text(&out.stderr);
        assert!(told.contains(message), "{program}: {told}");
    }
}

#[test]
fn filters_of_pcap_match_in_rules() {
    let place = TestDir::new("bpf-filter");
    let frames = [(T, frame(53)), (T + 1, frame(54)), (T + 2, frame(55))];
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    let rule = "\t\tbpf filter \"udp dst port 54 and not ip6\" counter packets 0 bytes 0 drop\n";
    let rules = format!(
        "table ip t {{\n\tchain c {{\n\t\ttype filter hook forward priority filter; policy accept;\n\
         {rule}\t}}\n}}\n"
    );
    place.write("filter.nft", rules.as_bytes());
    for engine in ["interpreter", "jit"] {
        let out = place.run(&format!(
            "--net net.ip --rules filter.nft --engine {engine} --read lan=lan.pcap --write-dir out"
        ));
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(text(&out.stdout), rules.replace("packets 0 bytes 0", "packets 1 bytes 28"));
        assert_eq!(place.frames("out/wan.pcap"), [(T, forwarded(53)), (T + 2, forwarded(55))]);
    }
    // The place is counted from the line's beginning: two tabs, `bpf filter "`, then the filter.
    for (filter, place_of_error, message) in [
        ("udp port many", "4:24-27", "there is no service `many`"),
        ("host gate.example", "4:20-31", "`gate.example` is no address; names are not looked up"),
        ("tcp[0] =", "4:23-23", "a number, a field such as `ip[0]`, or `len` is missing here"),
        ("vlan 5", "4:15-20", "there is no header of Ethernet here; use `vlan id` in the rule"),
        ("ip and ip[1] / 0 = 1", "4:22-30", "this divides by zero"),
    ] {
        let rules = rules.replace("udp dst port 54 and not ip6", filter);
        place.write("wrong.nft", rules.as_bytes());
        let out = place.run("--net net.ip --rules wrong.nft --read lan=lan.pcap");
        assert_eq!(out.status.code(), Some(1), "{filter}");
        let told = text(&out.stderr);
        assert!(told.contains(&format!("{place_of_error}: Error: {message}")), "{filter}: {told}");
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
