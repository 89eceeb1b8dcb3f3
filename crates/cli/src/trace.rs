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
use penstock_io::{Capture, LinkType, Merge};
use penstock_lang::datatype::Format;

use crate::rules::NetNames;
use crate::setup::{InputPort, Setup, Source};
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
    let (reads, number) = match wanted {
        Wanted::Frame { reads, number } => (&reads[..], *number),
        Wanted::Match { .. } | Wanted::Help => (&[][..], 1),
    };
    let mut ports = Vec::new();
    let mut captures: Vec<Capture> = Vec::new();
    for read in reads {
        ports.push(InputPort::of(&read.source, &net, setup.net())?);
        captures.push(read.open()?);
    }
    let mut merge = Merge::new(captures);
    let start = match wanted {
        Wanted::Frame { .. } => merge.next_time().unwrap_or(0),
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
        let wire_len = made.len() as u32;
        let only = penstock_io::Frame { time: start, bytes: &made, wire_len, link };
        told.listen();
        path.trace_all(true);
        port.send(&only, &mut path, &mut told).map_err(|e| format!("Error: {e}"))?;
        path.flush(&mut told);
        return Ok(told.text());
    }
    drop(made);
    let mut count = 0;
    while let Some(next) = merge.next_frame() {
        let (which, frame) = next.map_err(|e| format!("Error: {e}"))?;
        count += 1;
        if count == number {
            told.listen();
            path.trace_all(true);
        }
        let sent = ports[which].send(&frame, &mut path, &mut told);
        sent.map_err(|e| format!("Error: --read {}: {e}", reads[which].source))?;
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
