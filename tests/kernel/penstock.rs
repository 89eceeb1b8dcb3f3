// SPDX-License-Identifier: Apache-2.0

//! The program's side: `penstock run` on the scenario's directory.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use penstock_io::Capture;

use crate::esp::opened;
use crate::program::Programs;
use crate::router::{ESP_IN_UDP, takes_udp};
use crate::scenario::{COMMANDS, Outcome, Scenario, devices, only_counters, without_delivery};

/// Limits on ICMP, as the kernel's router has them.
pub const UNLIMITED: [&str; 5] = [
    "net.ipv4.icmp_ratelimit=0",
    "net.ipv4.icmp_ratemask=0",
    "net.ipv4.icmp_msgs_per_sec=1000000",
    "net.ipv4.icmp_msgs_burst=1000000",
    "net.ipv6.icmp.ratelimit=0",
];

/// Runs a scenario in `directory`, which is left as it was used: by the interpreter, and by machine
/// code, which must do the same.
pub fn run(scenario: &Scenario, directory: &Path) -> Result<Outcome, String> {
    let reads = scenario.write(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    match (scenario.commands.is_empty(), scenario.translated) {
        (true, _) => {}
        (false, true) => std::fs::write(directory.join("rules.nft"), translated(scenario)?)
            .map_err(|e| format!("{}: {e}", directory.display()))?,
        (false, false) => store(directory)?,
    }
    let interpreted = opened(scenario, run_with(scenario, directory, &reads, "interpreter")?);
    let compiled = opened(scenario, run_with(scenario, directory, &reads, "jit")?);
    if interpreted != compiled {
        return Err(format!("machine code gives {compiled:?}\ninstead of {interpreted:?}"));
    }
    Ok(interpreted)
}

/// Loads rules and runs commands into a state file.
fn store(directory: &Path) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
    command.args(["exec", "--state", STATE, "--", "sh", "-ec"]);
    command.arg(format!("nft -f rules.nft; . ./{COMMANDS}")).current_dir(directory);
    let output = command.output().map_err(|e| format!("{}: {e}", directory.display()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("penstock exec:\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// What `penstock translate` makes of the texts that commands give to iptables-restore. The error
/// is what it leaves out.
pub fn translated(scenario: &Scenario) -> Result<String, String> {
    let mut texts = vec![];
    for line in scenario.commands.lines() {
        if line.ends_with("<<'END'") {
            let family = if line.starts_with("ip6") { "-6" } else { "-4" };
            texts.push((family, String::new()));
        } else if let Some((_, text)) = texts.last_mut().filter(|_| line != "END") {
            *text += &format!("{line}\n");
        }
    }
    let mut rules = String::new();
    for (family, text) in texts {
        let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
        command.args(["translate", family, "-"]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        let mut stdin = child.stdin.take().ok_or("no standard input")?;
        stdin.write_all(text.as_bytes()).map_err(|e| e.to_string())?;
        drop(stdin);
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        rules += &String::from_utf8_lossy(&output.stdout);
    }
    Ok(rules)
}

/// The state file.
const STATE: &str = "rules.state";

fn run_with(
    scenario: &Scenario,
    directory: &Path,
    reads: &[String],
    engine: &str,
) -> Result<Outcome, String> {
    let e = |e: std::io::Error| format!("{}: {e}", directory.display());
    let written = directory.join(format!("out-{engine}"));
    std::fs::create_dir_all(&written).map_err(e)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
    command.args(["run", "--as-is", "--sysctl"]).args(UNLIMITED);
    command.args(scenario.sysctls.iter().map(|(name, value)| format!("{name}={value}")));
    command.args(["--engine", engine]);
    let connections = directory.join(format!("connections-{engine}"));
    if scenario.tracks() {
        command.arg("--conntrack").arg(&connections);
    }
    if !scenario.tc.is_empty() {
        command.arg("--tc").arg(directory.join("tc.batch"));
    }
    let rules = match scenario.commands.is_empty() || scenario.translated {
        true => ["--rules".into(), directory.join("rules.nft")],
        false => ["--state".into(), directory.join(STATE)],
    };
    let programs = Programs::start(scenario, &written).map_err(e)?;
    let output = command
        .args(programs.arguments())
        .arg("--net")
        .arg(directory.join("net.ip"))
        .args(rules)
        .arg("--write-dir")
        .arg(&written)
        .arg("--read")
        .args(reads)
        .output()
        .map_err(e);
    let told = programs.finish();
    let output = output?;
    if !output.status.success() {
        return Err(format!(
            "penstock run, {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let mut outcome = Outcome {
        listing: without_delivery(&String::from_utf8_lossy(&output.stdout)),
        told: told.map_err(e)?,
        ..Outcome::default()
    };
    if !scenario.commands.is_empty() {
        outcome.listing = only_counters(&outcome.listing);
    }
    if scenario.tracks() {
        let text = std::fs::read_to_string(&connections).map_err(e)?;
        outcome.connections = Some(text.lines().map(str::to_owned).collect());
    }
    for device in devices(&scenario.net) {
        let frames = read(&written.join(format!("{device}.pcap")))?;
        outcome.sent.insert(device, frames);
    }
    outcome.delivered = read(&written.join("host.pcap"))?;
    // In the kernel the harness leaves these to a socket.
    if takes_udp(&scenario.net) {
        outcome.delivered.retain(|packet| !is_for_esp_in_udp(packet));
    }
    Ok(outcome)
}

fn read(file: &Path) -> Result<Vec<Vec<u8>>, String> {
    let mut frames = vec![];
    if !file.exists() {
        return Ok(frames);
    }
    let mut capture = Capture::open(file).map_err(|e| e.to_string())?;
    while capture.advance().map_err(|e| e.to_string())? {
        frames.push(capture.frame().bytes.to_vec());
    }
    Ok(frames)
}

/// Whether a packet is a datagram to the port of ESP in UDP.
fn is_for_esp_in_udp(packet: &[u8]) -> bool {
    let (protocol, udp) = match packet.first().map(|b| b >> 4) {
        Some(4) => (packet.get(9), usize::from(packet[0] & 15) * 4),
        _ => (packet.get(6), 40),
    };
    protocol == Some(&17) && packet.get(udp + 2..udp + 4) == Some(&ESP_IN_UDP.to_be_bytes())
}
