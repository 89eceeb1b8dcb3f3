// SPDX-License-Identifier: Apache-2.0

//! `penstock trace`: what a ruleset does with one packet, rule by rule.

pub mod fields;
mod frame;
pub mod options;
pub mod outcome;
pub mod pretended;
pub mod told;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use penstock_daemon::control::client::Client;
use penstock_daemon::{err, errln, out};
use penstock_dataplane::{Dataplane, Engine};
use penstock_io::LinkType;
use penstock_lang::datatype::Format;
use penstock_ruleset::Ruleset;

use crate::dataplane::NONE;
use crate::input::{Captures, Entering, Entry, InputPort, Inputs, Source};
use crate::net;
use crate::rules::NetNames;
use crate::tracer::Tracer;
use fields::Fields;
use options::{Asked, Wanted};
use outcome::Outcome;
use told::Told;

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match options::parse(args) {
        Ok(Asked { wanted: Wanted::Help, .. }) => {
            out!("{}", options::usage());
            return ExitCode::SUCCESS;
        }
        Ok(asked) => asked,
        Err(message) => {
            err!("penstock trace: {message}\n\n{}", options::usage());
            return ExitCode::from(2);
        }
    };
    let expected = asked.expected;
    match trace(&asked) {
        Ok((outcome, text)) => {
            // A reader that has seen enough is no error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            match expected.filter(|expected| *expected != outcome.fate()) {
                Some(expected) => {
                    errln!("expected {}: {}", expected.word(), outcome.words());
                    ExitCode::FAILURE
                }
                None => ExitCode::SUCCESS,
            }
        }
        Err(message) => {
            errln!("{}", message.trim_end());
            // With an expectation 1 is an answer.
            ExitCode::from(if expected.is_some() { 2 } else { 1 })
        }
    }
}

/// What became of one packet, and its lines.
fn trace(asked: &Asked) -> Result<(Outcome, String), String> {
    let Asked { setup, wanted, live, pretended, .. } = asked;
    let none = Captures::default();
    let (captures, number) = match wanted {
        Wanted::Frame { captures, number } => (captures, *number),
        Wanted::Match { .. } | Wanted::Help => (&none, 1),
    };
    let net = Arc::new(match live {
        true => setup.network_of(&net::save(&[], false).map_err(|e| format!("Error: {e}"))?)?,
        false => setup.network(captures)?,
    });
    let names = NetNames::new(&net);
    let mut inputs = Inputs::open(captures, &net, setup.net())?;
    let start = match wanted {
        Wanted::Frame { .. } => inputs.next_time().unwrap_or(0),
        Wanted::Match { .. } | Wanted::Help => now(),
    };
    let ruleset = match live {
        true => live_ruleset()?,
        false => setup.ruleset(&names, start, false)?,
    };
    let mut path = setup.dataplane(&net, &ruleset, start)?;
    path.set_engine(Engine::Interpreter);
    let tracer = Tracer::new(&ruleset.generation(), &names, Format::default(), start);
    let mut told = Told::new(tracer.with_origins());
    match wanted {
        Wanted::Match { source, text } => {
            let mut entering = described(source, text, setup.net(), &names, start)?;
            if let Some(pretended) = pretended {
                let is_frame = entering.link == LinkType::Ethernet;
                // The first packet of a connection has SYN, others do not.
                if !text.contains("tcp flags") && pretended::is_tcp(&entering.bytes, is_frame) {
                    let text = format!("{text} tcp flags == ack");
                    entering = described(source, &text, setup.net(), &names, start)?;
                }
                let dump = pretended.dump(&entering.bytes, is_frame)?;
                let loaded = path.conntrack_mut().load(&dump, start);
                loaded.map_err(|e| format!("Error: --ct: {e}"))?;
            }
            told.listen();
            path.trace_all(true);
            entering.send(&mut path, &mut told).map_err(|e| format!("Error: {e}"))?;
        }
        Wanted::Frame { .. } | Wanted::Help => {
            let watches = !captures.as_is;
            frame_of(&mut inputs, number, watches, &mut path, &mut told)?;
        }
    }
    path.flush(&mut told);
    Ok(told.take())
}

/// The ruleset of the running dataplane.
fn live_ruleset() -> Result<Ruleset, String> {
    let client = Client::connect().map_err(|e| format!("Error: {e}"))?;
    let mut client = client.ok_or(NONE)?;
    let bytes = client.ruleset().map_err(|e| format!("Error: {e}"))?;
    Ruleset::from_saved(&bytes).map_err(|e| format!("Error: the running dataplane: {}", e.what))
}

/// The packet that a text describes, in a network read from `file`.
pub fn described(
    source: &Source,
    text: &str,
    file: &Path,
    names: &NetNames<'_>,
    time: u64,
) -> Result<Entering<'static>, String> {
    let net = names.net();
    let port = InputPort::of(source, net, file)?;
    let fields = Fields::parse(text, names)?;
    let (link, bytes) = match port {
        InputPort::Host => (LinkType::Raw, frame::ip(&fields)?),
        InputPort::Device(device) | InputPort::HostDevice(device) | InputPort::Stack(device) => {
            let own = net.link(device).map(|l| l.mac).unwrap_or_default();
            (LinkType::Ethernet, frame::ethernet(&fields, own)?)
        }
    };
    Ok(Entering { port, time, link, bytes: bytes.into(), gso: None })
}

/// Sends the frames of captures up to the one with this number, and listens to that one.
fn frame_of(
    inputs: &mut Inputs<'_>,
    number: u64,
    watches: bool,
    path: &mut Dataplane,
    told: &mut Told<'_>,
) -> Result<(), String> {
    let called: Vec<String> = (0..inputs.len()).map(|n| inputs.name(n)).collect();
    let net = path.network().clone();
    let mut count = 0;
    while let Some(next) = inputs.next() {
        let taken = next?;
        count += 1;
        let failed = |e: &str| format!("Error: --read {}: {e}", called[taken.which]);
        let outgoing = watches.then_some(&mut told.outgoing);
        let entering = match taken.entry(&net, path.conntrack(), outgoing).map_err(failed)? {
            Entry::Enters(entering) => entering,
            Entry::LeftOut(why) if count == number => {
                return Err(format!("Error: frame {number} does not enter the path: {why}"));
            }
            Entry::LeftOut(_) => continue,
        };
        if count == number {
            told.listen();
            path.trace_all(true);
        }
        entering.send(path, told).map_err(failed)?;
        if count == number {
            return Ok(());
        }
    }
    Err(format!("Error: there is no frame {number}: the captures have {count}"))
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
