// SPDX-License-Identifier: Apache-2.0

//! Our forwarding beside that of DPDK's own tools, by turns: `dpdk-testpmd` between two null devices
//! that copy each frame (`testpmd-mac` exchanges link addresses, `testpmd-io` does not look at
//! frames), and `dpdk-test-crypto-perf` with AES-128-GCM on packets of 1400 bytes.
//!
//! A figure of testpmd is the processor time of its forwarding thread for a frame. That of
//! test-crypto-perf is one over the rate that it prints: another program on its core makes it worse.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::programs::{installed, ours};
use crate::{Scale, Variant, encap, esp, flow, forward};

/// What DPDK's programs have in common: memory of their own, no devices of the machine, and no file
/// that another one would meet.
fn environment(command: &mut Command, name: &str) {
    let prefix = format!("penstock-{name}-{}", std::process::id());
    command
        .args(["--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "-l", "0,1"])
        .args(["--file-prefix", &prefix]);
}

/// A running testpmd, which forwards while it is measured only.
struct Testpmd {
    child: Child,
    commands: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Testpmd {
    fn new(mode: &str) -> Result<Self, String> {
        // Into a pipe it would say nothing for a long time.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", "dpdk-testpmd"]);
        environment(&mut command, mode);
        command
            .args([
                "--vdev=net_null0,size=60,copy=1",
                "--vdev=net_null1,size=60,copy=1",
                "--",
                "-i",
            ])
            .args([&format!("--forward-mode={mode}"), "--total-num-mbufs=8192"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| format!("stdbuf: {e}"))?;
        let (Some(commands), Some(said)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("pipes were asked for".into());
        };
        let mut this = Testpmd { child, commands, said: BufReader::new(said) };
        this.sent().map_err(|e| format!("dpdk-testpmd: {e}"))?;
        Ok(this)
    }

    fn say(&mut self, line: &str) -> std::io::Result<()> {
        writeln!(self.commands, "{line}")
    }

    /// Frames that both devices have sent so far.
    fn sent(&mut self) -> std::io::Result<u64> {
        self.say("show port stats all")?;
        let (mut sum, mut ports, mut line) = (0, 0, String::new());
        while ports < 2 {
            line.clear();
            if self.said.read_line(&mut line)? == 0 {
                return Err(std::io::Error::other("it ended"));
            }
            // Those of `stop` have another word after them.
            let statistics = line.contains("TX-errors:");
            let Some((_, rest)) = line.split_once("TX-packets:").filter(|_| statistics) else {
                continue;
            };
            let number = rest.split_whitespace().next().and_then(|word| word.parse().ok());
            sum += number.unwrap_or(0u64);
            ports += 1;
        }
        Ok(sum)
    }

    /// Time that the forwarding threads were on a processor.
    fn busy(&self) -> std::io::Result<Duration> {
        let tasks = Path::new("/proc").join(self.child.id().to_string()).join("task");
        let mut sum = Duration::ZERO;
        for task in std::fs::read_dir(tasks)? {
            let task = task?.path();
            // They were called lcore-worker before DPDK 22.11.
            let name = std::fs::read_to_string(task.join("comm"))?;
            if name.contains("worker") {
                let times = std::fs::read_to_string(task.join("schedstat"))?;
                let ns = times.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
                sum += Duration::from_nanos(ns);
            }
        }
        Ok(sum)
    }

    /// Nanoseconds of a frame.
    fn measure(&mut self, slice: Duration) -> std::io::Result<f64> {
        let (sent, busy) = (self.sent()?, self.busy()?);
        self.say("start")?;
        std::thread::sleep(slice.max(Duration::from_millis(50)));
        self.say("stop")?;
        let sent = self.sent()? - sent;
        Ok((self.busy()? - busy).as_nanos() as f64 / sent as f64)
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.say("quit");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nanoseconds that test-crypto-perf needs for a packet of 1400 bytes.
fn crypto(encrypt: bool) -> Result<f64, String> {
    const PROGRAM: &str = "dpdk-test-crypto-perf";
    let mut command = Command::new(PROGRAM);
    environment(&mut command, "crypto");
    let operation = if encrypt { "encrypt" } else { "decrypt" };
    command
        .args(["--vdev", "crypto_aesni_gcm", "--", "--ptest", "throughput", "--optype", "aead"])
        .args(["--aead-algo", "aes-gcm", "--aead-op", operation, "--aead-key-sz", "16"])
        .args(["--aead-iv-sz", "12", "--aead-aad-sz", "8", "--digest-sz", "16"])
        .args(["--buffer-sz", "1400", "--total-ops", "200000", "--burst-sz", "32"])
        .args(["--devtype", "crypto_aesni_gcm", "--silent"]);
    let output = command.output().map_err(|e| format!("{PROGRAM}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Thread, size, burst, enqueued, dequeued, two failures, then million operations a second.
    let rate = text.lines().rev().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.len() == 10 && words[1] == "1400").then(|| words[7].parse::<f64>().ok()).flatten()
    });
    let none = || format!("{PROGRAM} printed no figure");
    rate.filter(|rate| *rate > 0.0).map(|rate| 1000.0 / rate).ok_or_else(none)
}

/// Ours with the variants of DPDK that they are compared with.
pub(crate) fn variants(scale: Scale) -> Result<Vec<Variant>, String> {
    const MAC: &str = "testpmd-mac";
    for program in ["dpdk-testpmd", "dpdk-test-crypto-perf", "stdbuf"] {
        installed(program)?;
    }
    let mut all = Vec::new();
    for mode in ["mac", "io"] {
        let mut testpmd = Testpmd::new(mode)?;
        let measure = move |slice| testpmd.measure(slice).unwrap_or(f64::NAN);
        all.push(Variant::measuring(format!("testpmd-{mode}"), measure));
    }
    let forwarded = [
        "plain-10k",
        "plain-10k-dst",
        "plain-100k-routes",
        "plain-1m-routes",
        "ct-10k",
        "ct-1m",
        "masquerade-10k",
        "ct-fresh",
        "masquerade-fresh",
        "plain-burst-1",
        "ct-burst-1",
    ];
    all.extend(ours("forward", forward::variants(scale), &forwarded.map(|name| (name, MAC))));
    let flows = ["fast-10k", "fast-1m", "fast-snat-10k"];
    all.extend(ours("flow", flow::variants(scale), &flows.map(|name| (name, MAC))));
    let tunnels = ["ipip-out", "ipip-in"];
    all.extend(ours("encap", encap::variants(scale), &tunnels.map(|name| (name, MAC))));
    for (name, encrypt) in [("crypto-perf-encrypt", true), ("crypto-perf-decrypt", false)] {
        all.push(Variant::measuring(name, move |_| crypto(encrypt).unwrap_or(f64::NAN)));
    }
    let of_esp = [("fast-1400", "crypto-perf-encrypt"), ("fast-in-1400", "crypto-perf-decrypt")];
    all.extend(ours("esp", esp::variants(), &of_esp));
    Ok(all)
}
