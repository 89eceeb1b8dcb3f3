// SPDX-License-Identifier: Apache-2.0

//! What a run says at its end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use penstock_dataplane::{BpfHook, BpfPrograms, Counters};
use penstock_io::Frame;
use serde_json::{Map, Value, json};

use super::output::Output;
use crate::input::{Completed, Entering, InputPort, LeftOut};

/// A capture that was read.
pub struct Input {
    name: String,
    frames: u64,
    bytes: u64,
    cut: u64,
    /// Those that were cut, and have zeros at their end now.
    lengths: u64,
    /// Those with checksums that their sender left to its device.
    checksums: u64,
    /// Super-packets.
    supers: u64,
    /// Those that the host sent.
    host: u64,
    left_out: BTreeMap<LeftOut, u64>,
}

impl Input {
    /// Nothing read so far; `name` as after `--read`.
    pub fn new(name: String) -> Input {
        Input {
            name,
            frames: 0,
            bytes: 0,
            cut: 0,
            lengths: 0,
            checksums: 0,
            supers: 0,
            host: 0,
            left_out: BTreeMap::new(),
        }
    }

    /// As after `--read`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frames that entered.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Counts a frame that is not taken.
    pub fn leave_out(&mut self, why: LeftOut) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Counts a frame that enters by a port.
    pub fn count(&mut self, frame: &Frame<'_>, completed: Completed, entering: &Entering<'_>) {
        self.host += u64::from(!matches!(entering.port, InputPort::Device(_)));
        self.frames += 1;
        self.bytes += frame.bytes.len() as u64;
        let is_cut = !completed.length && frame.wire_len as usize > frame.bytes.len();
        self.cut += u64::from(is_cut);
        self.supers += u64::from(entering.gso.is_some());
        self.lengths += u64::from(completed.length);
        self.checksums += u64::from(completed.checksum);
    }
}

/// Prints as a small table.
pub struct Summary<'a> {
    /// Captures in the order of the command line.
    pub inputs: &'a [Input],
    /// BPF programs at hooks.
    pub programs: &'a BpfPrograms,
    /// What came out.
    pub output: &'a Output<'a>,
    /// What the path counted.
    pub counters: &'a Counters,
    /// From the first frame to the last.
    pub elapsed: Duration,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Input) -> u64| self.inputs.iter().map(of).sum::<u64>();
        let (frames, bytes, cut) = (sum(|i| i.frames), sum(|i| i.bytes), sum(|i| i.cut));
        let sent: u64 = self.output.devices().map(|d| d.frames).sum();

        line(f, "in", frames)?;
        for input in self.inputs {
            let own = if input.name.starts_with("host") { 0 } else { input.host };
            part(f, &input.name, input.frames - own)?;
            if own != 0 {
                part(f, &format!("{}, sent by the host", input.name), own)?;
            }
        }
        let left_out = || self.inputs.iter().flat_map(|i| i.left_out.iter().map(move |l| (i, l)));
        if left_out().next().is_some() {
            line(f, "left out", left_out().map(|(_, (_, count))| count).sum())?;
            for (input, (why, count)) in left_out() {
                part(f, &format!("{}: {why}", input.name), *count)?;
            }
        }
        for attached in self.programs.iter() {
            let parts = attached.counts.parts();
            line(f, &attached.label, parts.iter().map(|(_, n)| n).sum())?;
            for (name, count) in parts.into_iter().filter(|(_, count)| *count != 0) {
                part(f, name, count)?;
            }
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
        for (reason, _, count) in self.output.drops() {
            part(f, &reason, count)?;
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
        write!(f, "{}", self.output.missing)?;
        if self.counters.random_ports != 0 {
            writeln!(
                f,
                "note: {} connections were translated to ports drawn at random, which are others than \
                 those in the captures: packets of captures that answer them belong to no connection \
                 here",
                self.counters.random_ports
            )?;
        }
        if cut != 0 {
            writeln!(f, "note: {cut} frames are not whole in their capture")?;
        }
        let (lengths, checksums) = (sum(|i| i.lengths), sum(|i| i.checksums));
        if lengths != 0 {
            writeln!(
                f,
                "note: {lengths} frames are not whole in their capture, and end in zeros here: \
                 rules that look into their payload do not see it"
            )?;
        }
        let supers = sum(|i| i.supers);
        if supers != 0 {
            writeln!(
                f,
                "note: {supers} frames are longer than the MTU, as offload puts them together: \
                 they pass as one and are cut when they leave"
            )?;
        }
        if checksums != 0 {
            writeln!(
                f,
                "note: {checksums} frames had checksums that their sender left to its device: \
                 they are completed"
            )?;
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

impl Summary<'_> {
    /// The same as JSON, on one line.
    pub fn json(&self) -> Value {
        let inputs = self.inputs.iter().map(|input| {
            let left_out = input.left_out.iter().map(|(why, n)| (why.to_string(), json!(n)));
            json!({
                "name": input.name,
                "frames": input.frames,
                "bytes": input.bytes,
                "sent_by_host": input.host,
                "left_out": left_out.collect::<Map<_, _>>(),
                "not_whole": input.cut,
                "completed_lengths": input.lengths,
                "completed_checksums": input.checksums,
                "super_packets": input.supers,
            })
        });
        let programs = self.programs.iter().map(|attached| {
            let (hook, device) = match attached.hook {
                BpfHook::Xdp { .. } => ("xdp", attached.label.split_once(' ')),
                BpfHook::TcIngress { .. } => ("tc-ingress", attached.label.split_once(' ')),
                BpfHook::TcEgress { .. } => ("tc-egress", attached.label.split_once(' ')),
                BpfHook::Netfilter { .. } => (&*attached.label, None),
            };
            let mut program = json!({ "hook": hook });
            if let Some((_, device)) = device {
                program["device"] = json!(device);
            }
            program["program"] = json!(attached.program.name());
            for (name, count) in attached.counts.keyed() {
                program[name] = json!(count);
            }
            program
        });
        let devices = self.output.devices();
        let sent = devices.map(|device| (device.name.clone(), json!(device.frames)));
        let drops = self.output.drops().into_iter().map(|(_, drop, packets)| {
            let mut value = json!(drop);
            value["packets"] = json!(packets);
            value
        });
        let logs = self.output.logs();
        let logs = logs.iter().map(|(text, packets)| json!({ "log": text, "packets": packets }));
        json!({
            "captures": inputs.collect::<Vec<_>>(),
            "in": self.inputs.iter().map(|input| input.frames).sum::<u64>(),
            "bpf": programs.collect::<Vec<_>>(),
            "transmitted": sent.collect::<Map<_, _>>(),
            "delivered": { "ip": self.output.delivered, "arp": self.output.arp },
            "dropped": self.counters.dropped(),
            "drops": drops.collect::<Vec<_>>(),
            "taken_over": self.counters.taken,
            "logged": logs.collect::<Vec<_>>(),
            "seconds": self.elapsed.as_secs_f64(),
        })
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, count: u64) -> fmt::Result {
    writeln!(f, "{name:<12} {count:>10}")
}

fn part(f: &mut fmt::Formatter<'_>, name: &str, count: u64) -> fmt::Result {
    writeln!(f, "{:<12} {count:>10}  {name}", "")
}
