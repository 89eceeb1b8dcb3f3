// SPDX-License-Identifier: Apache-2.0

//! What a run says at its end.

use std::fmt;
use std::time::Duration;

use penstock_dataplane::Counters;
use penstock_io::Frame;

use super::output::Output;

/// A capture that was read.
pub struct Input {
    name: String,
    frames: u64,
    bytes: u64,
    cut: u64,
}

impl Input {
    /// Nothing read so far; `name` as after `--read`.
    pub fn new(name: String) -> Input {
        Input { name, frames: 0, bytes: 0, cut: 0 }
    }

    /// As after `--read`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts a frame.
    pub fn count(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        self.bytes += frame.bytes.len() as u64;
        self.cut += u64::from(frame.wire_len as usize > frame.bytes.len());
    }
}

/// Prints as a small table.
pub struct Summary<'a> {
    /// Captures in the order of the command line.
    pub inputs: &'a [Input],
    /// What came out.
    pub output: &'a Output<'a>,
    /// What the path counted.
    pub counters: &'a Counters,
    /// From the first frame to the last.
    pub elapsed: Duration,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames: u64 = self.inputs.iter().map(|i| i.frames).sum();
        let bytes: u64 = self.inputs.iter().map(|i| i.bytes).sum();
        let cut: u64 = self.inputs.iter().map(|i| i.cut).sum();
        let sent: u64 = self.output.devices().map(|d| d.frames).sum();

        line(f, "in", frames)?;
        for input in self.inputs {
            part(f, &input.name, input.frames)?;
        }
        line(f, "transmitted", sent)?;
        for device in self.output.devices() {
            part(f, &device.name, device.frames)?;
        }
        line(f, "delivered", self.output.delivered + self.output.arp)?;
        if self.output.arp != 0 {
            part(f, "ARP", self.output.arp)?;
        }
        line(f, "dropped", self.counters.dropped())?;
        for (reason, count) in self.output.drops() {
            part(f, reason, count)?;
        }
        if self.counters.taken != 0 {
            line(f, "taken over", self.counters.taken)?;
        }
        let logs = self.output.logs();
        if !logs.is_empty() {
            line(f, "logged", logs.iter().map(|(_, n)| n).sum())?;
            for (text, count) in logs {
                part(f, text, count)?;
            }
        }
        if cut != 0 {
            writeln!(f, "note: {cut} frames are not whole in their capture")?;
        }
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        writeln!(
            f,
            "{:<12} {:.3} Mpps, {:.1} MB/s ({seconds:.3} s)",
            "rate",
            frames as f64 / seconds / 1e6,
            bytes as f64 / seconds / 1e6
        )
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, count: u64) -> fmt::Result {
    writeln!(f, "{name:<12} {count:>10}")
}

fn part(f: &mut fmt::Formatter<'_>, name: &str, count: u64) -> fmt::Result {
    writeln!(f, "{:<12} {count:>10}  {name}", "")
}
