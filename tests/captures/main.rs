// SPDX-License-Identifier: Apache-2.0

//! Captures as people make them: a router in the kernel forwards, translates, drops, rejects and
//! speaks itself, while tcpdump watches its devices in several ways. From each of the captures,
//! `penstock run` must come to what the kernel counted.
//!
//! Needs root, nft(8), tcpdump and Python; without them it is skipped, and says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const PENSTOCK: &str = env!("CARGO_BIN_EXE_penstock");

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures").join(name)
}

/// Why there is nothing to compare with.
fn unavailable() -> Option<&'static str> {
    let runs = |name: &str, argument: &str| Command::new(name).arg(argument).output().is_ok();
    let unshared = Command::new("unshare").args(["--net", "--mount", "true"]).status();
    match unshared {
        Ok(status) if status.success() => {}
        _ => return Some("no right to make namespaces"),
    }
    [("nft", "--version"), ("tcpdump", "--version"), ("python3", "--version"), ("ping", "-V")]
        .into_iter()
        .find(|(name, argument)| !runs(name, argument))
        .map(|(name, _)| name)
}

/// The packets and bytes of every counter, with the rule or object that it stands in.
fn counters(listing: &str) -> Vec<(String, u64, u64)> {
    let listing: Value = serde_json::from_str(listing).expect("a listing");
    let mut all = Vec::new();
    for object in listing["nftables"].as_array().into_iter().flatten() {
        let mut add = |name: String, counter: &Value| {
            if let (Some(packets), Some(bytes)) =
                (counter["packets"].as_u64(), counter["bytes"].as_u64())
            {
                all.push((name, packets, bytes));
            }
        };
        add(object["counter"]["name"].to_string(), &object["counter"]);
        let rule = &object["rule"];
        for expression in rule["expr"].as_array().into_iter().flatten() {
            add(format!("{} handle {}", rule["chain"], rule["handle"]), &expression["counter"]);
        }
    }
    all
}

/// Runs the captures of `place` in its network. The listing with its counters, or the message.
fn run(place: &Path, arguments: &[&str]) -> Result<(String, String), String> {
    run_in(place, &[&["--net", "net.ip"], arguments].concat())
}

/// Runs the captures of `place` in a network that the arguments give, or that is learned.
fn run_in(place: &Path, arguments: &[&str]) -> Result<(String, String), String> {
    let mut run = Command::new(PENSTOCK);
    run.current_dir(place).args(["run", "--rules", "rules.nft", "-j"]);
    let output = run.args(arguments).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok((text(&output.stdout), text(&output.stderr))),
        false => Err(text(&output.stderr)),
    }
}

/// A run has the kernel's counters, and its comparison found no frame that differs.
fn agrees(kernel: &[(String, u64, u64)], (listing, summary): (String, String), what: &str) {
    assert_eq!(counters(&listing), kernel, "{what}\n{summary}");
    for difference in ["sent otherwise", "only in the captures", "only here"] {
        assert!(!summary.contains(difference), "{what}\n{summary}");
    }
}

fn pipe(place: &Path, command: &str) {
    let status = Command::new("sh").args(["-ec", command]).current_dir(place).status();
    assert!(status.is_ok_and(|s| s.success()), "{command}");
}

/// Has the kernel forward with these rules, and captures that. The counters of the kernel; `None` if
/// tcpdump lost something.
fn captured(place: &Path, rules: &Path) -> Option<Vec<(String, u64, u64)>> {
    let _ = std::fs::remove_dir_all(place);
    std::fs::create_dir_all(place).expect("a directory");
    std::fs::copy(rules, place.join("rules.nft")).expect("a copy");
    let mut router = Command::new("unshare");
    router.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private"]);
    router.arg("sh").arg(source("router.sh")).arg(place).arg(source("traffic.py")).arg(PENSTOCK);
    let made = router.output().expect("unshare");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let log = std::fs::read_to_string(place.join("tcpdump.log")).expect("a log");
    if log.lines().any(|l| l.ends_with("dropped by kernel") && !l.starts_with("0 ")) {
        println!("SKIPPED: tcpdump lost frames");
        return None;
    }
    Some(counters(&std::fs::read_to_string(place.join("kernel.json")).expect("counters")))
}

/// Rulesets as users have them, each with what the kernel counted and captures of all forms that
/// name the devices: with the network as it was saved on the router.
#[test]
fn rulesets_of_users_count_as_in_the_kernel() {
    if let Some(reason) = unavailable() {
        println!("SKIPPED: captures of a kernel: {reason}");
        return;
    }
    let names =
        ["home-router", "web-server", "docker-host", "kube-proxy-node", "openwrt", "workstation"];
    // They mostly wait for answers that do not come.
    std::thread::scope(|scope| {
        for name in names {
            scope.spawn(|| ruleset_counts_as_in_the_kernel(name));
        }
    });
}

fn ruleset_counts_as_in_the_kernel(name: &str) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("captures-of").join(name);
    let rules = source("cases").join(name).with_extension("nft");
    let Some(kernel) = captured(&place, &rules) else { return };
    let met = kernel.iter().filter(|c| c.1 > 0).count();
    assert!(met * 3 > kernel.len(), "{name}: {met} of {kernel:?}");
    for reads in [
        &["any.pcap"][..],
        &["lan=lan.pcap", "wan=wan.pcap"],
        &["lan=lan-short.pcap", "wan=wan-short.pcap"],
    ] {
        let arguments = [&["--net", "saved.ip", "--compare", "--read"], reads].concat();
        let ran = run_in(&place, &arguments).expect("a run");
        agrees(&kernel, ran, &format!("{name} {reads:?}"));
    }
    if name == "kube-proxy-node" {
        ports_drawn_at_random_are_told(&place);
    }
}

/// Nobody can draw the ports again that the kernel drew.
fn ports_drawn_at_random_are_told(place: &Path) {
    let rules = std::fs::read_to_string(place.join("rules.nft")).expect("rules");
    let drawn = rules.replace("counter masquerade", "counter masquerade fully-random");
    std::fs::write(place.join("rules.nft"), drawn).expect("rules");
    let (_, summary) = run_in(place, &["--net", "saved.ip", "--read", "any.pcap"]).expect("a run");
    assert!(summary.contains("connections were translated to ports drawn at random"), "{summary}");
}

#[test]
fn every_form_of_capture_leads_to_what_the_kernel_counted() {
    if let Some(reason) = unavailable() {
        println!("SKIPPED: captures of a kernel: {reason}");
        return;
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("captures");
    let Some(kernel) = captured(&place, &source("rules.nft")) else { return };
    pipe(&place, "gzip -k lan.pcap wan-short.pcap; cat wan.pcap | gzip > wan-piped.pcap.gz");
    assert!(kernel.len() > 20 && kernel.iter().filter(|c| c.1 > 0).count() > 18, "{kernel:?}");
    for reads in [
        &["lan=lan.pcap", "wan=wan.pcap"][..],
        &["lan=lan-nano.pcap", "wan=wan.pcap"],
        &["lan=lan-short.pcap", "wan=wan-short.pcap"],
        &["lan=lan.pcap.gz", "wan=wan-piped.pcap.gz"],
        &["any.pcap"],
        &["lan=any.pcap:lan", "wan=any.pcap:3"],
    ] {
        let ran = run(&place, &[&["--compare", "--read"], reads].concat()).expect("a run");
        agrees(&kernel, ran, &format!("{reads:?}"));
    }
    for (reads, message) in [
        (
            &["lan=any.pcap"][..],
            "any.pcap has frames of `lan` (index 2) and of `wan` (index 3): say which of them are \
             meant, --read lan=any.pcap:NAME, or leave the device out, --read any.pcap",
        ),
        (
            &["any-sll.pcap"],
            "any-sll.pcap does not name its interfaces: --read DEV=any-sll.pcap says where its \
             frames arrive",
        ),
        (&["lan=any-sll.pcap"], "this is a capture of several devices that does not tell"),
        (&["lan.pcap"], "lan.pcap does not name its interfaces"),
    ] {
        let error = run(&place, &[&["--read"], reads].concat()).expect_err(message);
        assert!(error.contains(message), "{reads:?}\n{error}");
    }
    the_network_is_learned(&place, &kernel);
}

/// Without a network, and with one that has no neighbours, the captures tell what is missing.
fn the_network_is_learned(place: &Path, kernel: &[(String, u64, u64)]) {
    let whole = std::fs::read_to_string(place.join("net.ip")).expect("the network");
    let bare: String = whole
        .lines()
        .filter(|l| !l.starts_with("neigh"))
        .fold(String::new(), |text, line| text + line + "\n");
    std::fs::write(place.join("bare.ip"), bare).expect("a network");
    let macs = &["--link-address", "lan=02:00:00:00:00:02", "wan=02:00:00:00:00:03"][..];
    for (net, reads) in [
        (&[][..], &["lan=lan.pcap", "wan=wan.pcap"][..]),
        (&[], &["lan=lan-short.pcap", "wan=wan-short.pcap.gz"]),
        (&[], &["lan=any.pcap:2", "wan=any.pcap:3"]),
        (macs, &["lan=lan.pcap", "wan=wan.pcap"]),
        (&["--net", "bare.ip", "--learn-neighbours"], &["lan=lan.pcap", "wan=wan.pcap"]),
        (&["--net", "bare.ip", "--learn-neighbours"], &["any.pcap"]),
    ] {
        let arguments = [net, &["--net-out", "learned.ip", "--compare", "--read"], reads].concat();
        let ran = run_in(place, &arguments).expect("a run");
        agrees(kernel, ran, &format!("{net:?} {reads:?}"));
        // What was written says the same.
        let again = ["--net", "learned.ip", "--read"];
        let (listing, told) = run_in(place, &[&again, reads].concat()).expect("a run");
        assert_eq!(counters(&listing), kernel, "{net:?} {reads:?}\n{told}");
    }
    // Of one device, either end may be the host.
    let error = run_in(place, &["--read", "lan=lan.pcap"]).expect_err("two ends");
    for part in ["do not tell which of their ends is lan", "--link-address lan=02:00:00:00:01:02"] {
        assert!(error.contains(part), "{error}");
    }
}
