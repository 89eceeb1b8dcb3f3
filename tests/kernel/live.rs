// SPDX-License-Identifier: Apache-2.0

//! The scenarios through `penstock up` on real devices: the output must be that of `penstock run`.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::router::{Router, Unavailable};
use crate::scenario::{Outcome, Scenario, devices, pause, without_delivery};

/// Why a scenario is not for live devices, if it is not.
pub fn unfit(scenario: &Scenario) -> Option<&'static str> {
    let kinds = [
        "type bridge",
        "type vlan",
        "type ipip",
        "type sit",
        "type ip6tnl",
        "type gre",
        "type dummy",
    ];
    if kinds.iter().any(|kind| scenario.net.contains(kind)) {
        return Some("devices that are no ports");
    }
    if scenario.net.contains("xfrm ") {
        return Some("IPsec, which is not read from the kernel");
    }
    if !scenario.tc.is_empty() {
        return Some("traffic control");
    }
    if !scenario.commands.is_empty() {
        return Some("rules in a state file");
    }
    // A host with its own stack gets what is for any group.
    let group =
        |(_, frame): &(String, Vec<u8>)| frame.get(30).is_some_and(|b| (224..240).contains(b));
    if scenario.frames.iter().any(group) {
        return Some("groups");
    }
    // Sockets do not see frames with a truncated tag, or without a type after it
    // (`skb_vlan_untag()`).
    let cut_tag = |(_, frame): &(String, Vec<u8>)| {
        matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8])) && frame.len() < 20
    };
    if scenario.frames.iter().any(cut_tag) {
        return Some("tags that are cut off");
    }
    // At `input` they are not filled in yet there.
    if scenario.rules.contains("ip option rr ") {
        return Some("options that the host's stack fills in");
    }
    if scenario.sysctls.iter().any(|(name, _)| name.ends_with(".accept_source_route")) {
        return Some("source routes, of which the host's stack has its own opinion");
    }
    // The host's stack reads once more what is delivered to it.
    if scenario.rules.lines().any(|line| line.contains("@nh,") && line.contains(" set ")) {
        return Some("headers with checksums that rules break");
    }
    // A device of the host's is a TAP by then; what the harness sends on it it would send on the
    // wire.
    let raw = |(source, _): &(String, Vec<u8>)| source.starts_with("host");
    scenario.frames.iter().any(raw).then_some("frames of the host")
}

/// A dataplane that runs.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = penstock(&["down"]);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the program in the present namespace; what it prints.
fn penstock(args: &[&str]) -> Result<String, String> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_penstock")).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "penstock {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Waits until it answers.
fn start(scenario: &Scenario, directory: &Path) -> Result<Up, String> {
    let e = |e: std::io::Error| e.to_string();
    let log = directory.join("live.log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
    let setting =
        |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    command.arg("up").args(devices(&scenario.net));
    command.args(["--driver", &setting("PENSTOCK_LIVE_DRIVER", "packet")]);
    command.args(["--workers", &setting("PENSTOCK_LIVE_WORKERS", "1"), "--sysctl"]);
    command.args(crate::penstock::UNLIMITED);
    command.args(scenario.sysctls.iter().map(|(name, value)| format!("{name}={value}")));
    let child =
        command.stdin(Stdio::null()).stderr(File::create(&log).map_err(e)?).spawn().map_err(e)?;
    let up = Up(child);
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(message) = penstock(&["show"]) {
        if Instant::now() > deadline {
            return Err(format!(
                "{message}\n{}",
                std::fs::read_to_string(&log).unwrap_or_default()
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(up)
}

/// Frames that were received from wires so far.
fn received() -> Result<u64, String> {
    let shown: serde_json::Value =
        serde_json::from_str(&penstock(&["show", "-j"])?).map_err(|e| e.to_string())?;
    let ports = shown["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(ports.iter().filter_map(|port| port["received"]["frames"].as_u64()).sum())
}

/// Waits until so many have been received.
fn wait_for(frames: u64) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(5);
    while received()? < frames {
        if Instant::now() > deadline {
            return Err(format!("{frames} frames were sent, but {} received", received()?));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Sends a scenario's frames through a dataplane on devices. More time is given only until
/// `expected` is there.
pub fn run(scenario: &Scenario, directory: &Path, expected: &Outcome) -> Result<Outcome, String> {
    let e = |e: std::io::Error| e.to_string();
    let mut router = Router::new(&scenario.net).map_err(|e| match e {
        Unavailable::Skip(text) | Unavailable::Failed(text) => text,
    })?;
    router.router.enter().map_err(e)?;
    scenario.write(directory).map_err(e)?;
    let _up = start(scenario, directory)?;
    // What the host announces when its TAPs come up.
    std::thread::sleep(Duration::from_millis(300));
    penstock(&["nft", "-f", &directory.join("rules.nft").display().to_string()])?;
    router.collect(&mut Outcome::default()).map_err(e)?;
    let (mut last, mut sent) = (None, received()?);
    for (source, bytes) in &scenario.frames {
        if let Some(time) = pause(source, bytes) {
            std::thread::sleep(time);
            continue;
        }
        // Devices are polled in turns: a frame on another one must come after earlier frames are
        // done.
        if last.is_some_and(|last| last != source) {
            wait_for(sent)?;
        }
        router.send(source, bytes)?;
        (last, sent) = (Some(source), sent + 1);
    }
    wait_for(sent)?;
    let mut outcome = Outcome::default();
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        router.collect(&mut outcome).map_err(e)?;
        let complete = outcome.delivered.len() >= expected.delivered.len()
            && expected
                .sent
                .iter()
                .all(|(d, f)| outcome.sent.get(d).map_or(0, Vec::len) >= f.len());
        if complete || Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    outcome.listing = without_delivery(&penstock(&["nft", "list", "ruleset"])?);
    if scenario.tracks() {
        let connections = penstock(&["show", "conntrack"])?;
        outcome.connections = Some(connections.lines().map(str::to_owned).collect());
    }
    // What should not have come may be late.
    std::thread::sleep(Duration::from_millis(20));
    router.collect(&mut outcome).map_err(e)?;
    Ok(outcome)
}
