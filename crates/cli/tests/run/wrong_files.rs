// SPDX-License-Identifier: Apache-2.0

//! Files that are something else than what they are given as. docs/testing.md lists them.

use std::process::Output;

use penstock_io::LinkType;

use crate::place::{T, TestDir, frame, text};

/// What is given as which option, and what is said.
const CASES: &[(&str, &str, &[&str])] = &[
    // Networks.
    ("net", "missing", &["Error: missing: No such file"]),
    ("net", "directory", &["Error: directory: Is a directory"]),
    ("net", "binary", &["Error: binary: stream did not contain valid UTF-8", "binary is no text"]),
    ("net", "lan.pcap", &["lan.pcap is a capture: `--read DEV=lan.pcap` takes it"]),
    ("net", "rules.nft", &["rules.nft is a ruleset: `--rules rules.nft` takes it"]),
    ("net", "addr.txt", &["addr.txt is what ip(8) prints for people: `penstock net save`"]),
    ("net", "route.txt", &["route.txt is what ip(8) prints for people"]),
    ("net", "addr.json", &["`penstock net save --remote addr.json` reads it"]),
    ("net", "route.dump", &["route.dump is what `ip route save` or `ip addr save` writes"]),
    ("net", "rules.v4", &["rules.v4 has rules of iptables: `penstock translate rules.v4`"]),
    ("net", "empty", &["Error: empty has no device `lan`"]),
    ("net", "cut.ip", &["Error: cut.ip:2:"]),
    // Rulesets.
    ("rules", "missing", &["Could not open file \"missing\": No such file or directory"]),
    ("rules", "directory", &["Not a regular file: \"directory\""]),
    ("rules", "empty", &["Error: empty is empty: there are no rules in it"]),
    ("rules", "binary", &["binary is no text"]),
    ("rules", "lan.pcap", &["lan.pcap is a capture: `--read DEV=lan.pcap` takes it"]),
    ("rules", "net.ip", &["net.ip has lines for `ip -batch`: `--net net.ip` takes them"]),
    ("rules", "addr.txt", &["addr.txt is what ip(8) prints for people"]),
    (
        "rules",
        "rules.v4",
        &["rules.v4 has rules of iptables: `penstock translate rules.v4` prints"],
    ),
    ("rules", "sets", &["sets has sets of ipset: `penstock translate` takes them"]),
    ("rules", "bridge", &["bridge has rules of ebtables"]),
    ("rules", "xt.nft", &["`iptables-save | penstock translate -` prints them"]),
    ("rules", "cut.nft", &["cut.nft:", "Error: syntax error"]),
    // Captures.
    ("read", "missing", &["Error: missing: No such file"]),
    ("read", "directory", &["Error: directory: Is a directory"]),
    ("read", "empty", &["Error: empty: byte 0: the file is empty"]),
    (
        "read",
        "binary",
        &["Error: binary: byte 0: this is neither pcap nor pcapng", "binary is no text"],
    ),
    ("read", "rules.nft", &["neither pcap nor pcapng", "rules.nft is a ruleset"]),
    ("read", "net.ip", &["neither pcap nor pcapng", "net.ip has lines for `ip -batch`"]),
    ("read", "rules.v4", &["neither pcap nor pcapng", "rules.v4 has rules of iptables"]),
    ("read", "cut.pcap", &["Error: cut.pcap: byte", "the file ends inside"]),
    ("read", "usb.pcap", &["link type 220"]),
    ("read", "cut.gz", &["Error: cut.gz"]),
];

/// Commands with a file that is something else, exit status, and what is said.
const COMMANDS: &[(&str, i32, &[&str])] = &[
    ("test missing", 2, &["Error: missing: No such file"]),
    ("test directory", 2, &["Error: directory: Is a directory"]),
    ("test binary", 2, &["binary is no text"]),
    ("test empty", 2, &["empty:1:1-1: Error: net is missing"]),
    ("test lan.pcap", 2, &["lan.pcap is a capture"]),
    ("test rules.nft", 2, &["rules.nft:1:1-5: Error: a file of tests", "rules.nft is a ruleset"]),
    ("prove --rules rules.nft missing", 2, &["Error: missing: No such file"]),
    ("prove --rules rules.nft binary", 2, &["binary is no text"]),
    ("prove --rules rules.nft empty", 2, &["Error: empty: there are no claims in it"]),
    ("prove --rules rules.nft lan.pcap", 2, &["lan.pcap is a capture"]),
    (
        "prove --rules rules.nft rules.nft",
        2,
        &[
            "rules.nft:1: a claim begins with never, always, reach or same",
            "rules.nft is a ruleset",
        ],
    ),
    ("diff rules.nft missing", 2, &["Could not open file \"missing\""]),
    ("diff rules.nft directory", 2, &["Not a regular file: \"directory\""]),
    ("diff rules.nft binary", 2, &["binary is no text"]),
    ("diff rules.nft empty", 2, &["Error: empty is empty: there are no rules in it"]),
    ("diff rules.nft lan.pcap", 2, &["lan.pcap is a capture"]),
    ("diff rules.nft net.ip", 2, &["net.ip has lines for `ip -batch`"]),
    ("diff rules.nft rules.v4", 2, &["rules.v4 has rules of iptables: `penstock translate"]),
    ("check missing", 2, &["Error: missing: No such file"]),
    ("check binary", 2, &["binary is no text"]),
    ("check empty", 2, &["empty: Error: no device is given"]),
    ("check cut.toml", 2, &["cut.toml:1:8-8: Error: unclosed table"]),
    ("check rules.nft", 2, &["rules.nft:1:7-7: Error:", "rules.nft is a ruleset"]),
    ("nft --state directory list ruleset", 1, &["Could not open file \"directory\""]),
    ("nft --state binary list ruleset", 1, &["byte 0: not a saved state"]),
    ("nft --state empty list ruleset", 1, &["byte 0: cut short"]),
    ("nft --state rules.nft list ruleset", 1, &["a ruleset as text is loaded with `-f`"]),
    ("translate missing", 2, &["Error: missing: No such file"]),
    ("translate binary", 2, &["Error: binary: this is no text"]),
    ("translate empty", 2, &["this is not what `iptables-save`"]),
    ("translate rules.nft", 2, &["this is not what `iptables-save`"]),
    ("draw --rules binary", 1, &["binary is no text"]),
    ("draw --rules lan.pcap", 1, &["lan.pcap is a capture"]),
    ("net save --remote missing", 1, &["Error: missing: No such file"]),
    (
        "net save --remote binary",
        1,
        &["Error: binary: this is not what `ip -j` prints", "note: binary is no text"],
    ),
    (
        "net save --remote lan.pcap",
        1,
        &["note: lan.pcap is a capture: `--read DEV=lan.pcap` takes it"],
    ),
];

fn place(test: &str) -> TestDir {
    let place = TestDir::new(test);
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(53))]);
    let whole = std::fs::read(place.0.join("lan.pcap")).expect("a capture");
    place.write("cut.pcap", &whole[..whole.len() - 5]);
    let mut usb = whole;
    usb[20] = 220;
    place.write("usb.pcap", &usb);
    place.write("cut.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2]);
    std::fs::create_dir_all(place.0.join("directory")).expect("a directory");
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("binary", &[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0xff, 0xfe]),
        ("addr.txt", b"1: lo: <LOOPBACK,UP> mtu 65536 qdisc noqueue state UNKNOWN group default\n"),
        ("route.txt", b"default via 198.18.0.1 dev eth0 proto dhcp metric 100\n"),
        ("addr.json", b"[{\"ifindex\":1,\"ifname\":\"lo\",\"flags\":[\"LOOPBACK\"]}]\n"),
        ("route.dump", &[0x24, 0x12, 0x31, 0x45, 0x2c, 0, 0, 0]),
        ("rules.v4", b"# Generated by iptables-save v1.8.9\n*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"),
        ("sets", b"create a hash:ip family inet hashsize 1024 maxelem 65536\nadd a 198.18.0.1\n"),
        ("bridge", b"# Generated by ebtables-save v1.8.9\n*filter\n:INPUT ACCEPT\n"),
        ("cut.ip", b"link add name lan type veth\nlink add name\n"),
        ("cut.toml", b"[broken\n"),
        ("cut.nft", b"table inet t {\n\tchain c {\n"),
        (
            "xt.nft",
            b"table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy \
              accept;\n\t\txt match \"conntrack\" counter packets 0 bytes 0 accept\n\t}\n}\n",
        ),
    ] {
        place.write(name, bytes);
    }
    place
}

/// A command ended with this status, and said all of this.
fn refused(out: &Output, line: &str, status: i32, messages: &[&str]) {
    let told = text(&out.stderr);
    assert_eq!(out.status.code(), Some(status), "{line}: {told}");
    for message in messages {
        assert!(told.contains(message), "{message}\nis missing in {line}:\n{told}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_what_it_is() {
    let place = place("wrong-files");
    for (option, file, messages) in CASES {
        let mut files = [("net", "net.ip"), ("rules", "rules.nft"), ("read", "lan.pcap")];
        for given in files.iter_mut().filter(|(name, _)| name == option) {
            given.1 = file;
        }
        let [(_, net), (_, rules), (_, read)] = files;
        let run = format!("--net {net} --rules {rules} --read lan={read}");
        let out = place.run(&run);
        refused(&out, &run, 1, messages);
    }
}

#[test]
fn commands_refuse_wrong_files_with_what_they_are() {
    let place = place("wrong-files-of-commands");
    for (line, status, messages) in COMMANDS {
        let (name, arguments) = line.split_once(' ').expect("arguments");
        let out = place.command(name, arguments);
        refused(&out, line, *status, messages);
    }
}

/// `docs/testing.md` has a row of each case.
#[test]
fn the_table_of_wrong_files_is_documented() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/testing.md");
    let docs = std::fs::read_to_string(docs).expect("documentation");
    for (option, file, _) in CASES {
        let row = format!("| `--{option} {file}` |");
        assert!(docs.contains(&row), "{row}");
    }
    for (line, status, _) in COMMANDS {
        let row = format!("| `{line}` | {status} |");
        assert!(docs.contains(&row), "{row}");
    }
}
