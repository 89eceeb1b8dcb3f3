// SPDX-License-Identifier: Apache-2.0

//! `penstock trace`: what a ruleset does with one packet, rule by rule.

mod fields;
mod frame;
pub mod options;
mod told;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use penstock_daemon::{err, errln, out};
use penstock_dataplane::Engine;
use penstock_io::LinkType;
use penstock_lang::datatype::Format;

use crate::input::{Captures, Entry, InputPort, Inputs, Source, Trouble};
use crate::rules::NetNames;
use crate::setup::Setup;
use crate::tracer::Tracer;
use fields::Fields;
use options::Wanted;
use told::Told;

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let (setup, wanted) = match options::parse(args) {
        Ok((_, Wanted::Help)) => {
            out!("{}", options::usage());
            return ExitCode::SUCCESS;
        }
        Ok(parsed) => parsed,
        Err(message) => {
            err!("penstock trace: {message}\n\n{}", options::usage());
            return ExitCode::from(2);
        }
    };
    match trace(&setup, &wanted) {
        Ok(text) => {
            // A reader that has seen enough is no error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            errln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// The lines of one packet.
fn trace(setup: &Setup, wanted: &Wanted) -> Result<String, String> {
    let net = Arc::new(setup.network()?);
    let names = NetNames::new(&net);
    let mut made = Vec::new();
    let none = Captures::default();
    let (captures, number) = match wanted {
        Wanted::Frame { captures, number } => (captures, *number),
        Wanted::Match { .. } | Wanted::Help => (&none, 1),
    };
    let mut inputs = Inputs::open(captures, &net, setup.net())?;
    let start = match wanted {
        Wanted::Frame { .. } => inputs.next_time().unwrap_or(0),
        Wanted::Match { .. } | Wanted::Help => now(),
    };
    let ruleset = setup.ruleset(&names, start, false)?;
    let mut path = setup.dataplane(&net, &ruleset, start)?;
    path.set_engine(Engine::Interpreter);
    let mut told = Told::new(Tracer::new(&ruleset.generation(), &names, Format::default(), start));
    if let Wanted::Match { source, text } = wanted {
        let port = InputPort::of(source, &net, setup.net())?;
        let link = match source {
            Source::Host => LinkType::Raw,
            Source::Device(_) | Source::HostDevice(_) => LinkType::Ethernet,
        };
        let fields = Fields::parse(text, &names)?;
        made = match port {
            InputPort::Host => frame::ip(&fields)?,
            InputPort::Device(device) | InputPort::HostDevice(device) => {
                frame::ethernet(&fields, net.link(device).map(|l| l.mac).unwrap_or_default())?
            }
        };
        let only = penstock_io::Frame::new(start, link, &made);
        told.listen();
        path.trace_all(true);
        port.send(&only, &mut path, &mut told).map_err(|e| format!("Error: {e}"))?;
        path.flush(&mut told);
        return Ok(told.text());
    }
    drop(made);
    let called: Vec<String> = (0..inputs.len()).map(|n| inputs.name(n)).collect();
    let mut count = 0;
    while let Some(next) = inputs.next() {
        let taken = next.map_err(|trouble| match trouble {
            Trouble::Broken(e) => format!("Error: {e}"),
            Trouble::Unclear(message) => message,
        })?;
        count += 1;
        let (which, frame) = (taken.which, taken.frame);
        let outgoing = (!captures.as_is).then_some(&mut told.outgoing);
        let entry = taken
            .entry(&net, path.conntrack(), outgoing)
            .map_err(|e| format!("Error: --read {}: {e}", called[which]))?;
        let (port, link, bytes) = match entry {
            Entry::Enters(port, link, bytes) => (port, link, bytes),
            Entry::LeftOut(why) if count == number => {
                return Err(format!("Error: frame {number} does not enter the path: {why}"));
            }
            Entry::LeftOut(_) => continue,
        };
        let frame = penstock_io::Frame { link, bytes: &bytes, ..frame };
        if count == number {
            told.listen();
            path.trace_all(true);
        }
        let sent = port.send(&frame, &mut path, &mut told);
        if let Err(e) = sent {
            return Err(format!("Error: --read {}: {e}", called[which]));
        }
        if count == number {
            path.flush(&mut told);
            return Ok(told.text());
        }
    }
    Err(format!("Error: there is no frame {number}: the captures have {count}"))
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
