//! `penstock run`: captures go through a ruleset; frames, verdicts and counters come out.

pub mod options;
mod output;
mod profile;
mod queue;
mod rules;
mod sockets;
mod summary;
mod trace;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use penstock_conntrack::{Conntrack, Style};
use penstock_io::{Capture, LinkType, Merge};
use penstock_net::Network;
use penstock_path::{Dataplane, Engine, Fingerprints, Frame, Settings, SysctlError};
use penstock_ruleset::link::Linked;

use crate::files::SystemFiles;
use crate::log::{LogFile, Nflog};
use options::{Options, Source, Wanted};
use output::Output;
use profile::Profile;
use rules::NetNames;
use summary::{Input, Summary};
use trace::Tracer;

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match Options::parse(args) {
        Ok(Wanted::Run(options)) => options,
        Ok(Wanted::Help) => {
            print!("{}", options::usage());
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprint!("penstock run: {message}\n\n{}", options::usage());
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Where the frames of a capture go.
#[derive(Clone, Copy)]
enum Way {
    Device(u32),
    Host,
    HostDevice(u32),
}

/// `Ok(false)` if a capture was broken: what came before was run, and the error was told.
fn run(options: &Options) -> Result<bool, String> {
    if options.engine == Engine::JitAtOnce {
        penstock_jit::supported().map_err(|e| format!("Error: --engine jit: {e}"))?;
    }
    let mut settings = Settings::default();
    for (name, value) in &options.sysctls {
        settings.set_sysctl(name, *value).map_err(|e| match e {
            SysctlError::Unknown => format!("Error: --sysctl: there is no {name} here"),
            SysctlError::Value => format!("Error: --sysctl: {name} cannot be {value}"),
        })?;
    }
    let net = network(&options.net)?;
    let mut captures = Vec::new();
    let mut ways = Vec::new();
    let mut inputs = Vec::new();
    for read in &options.reads {
        let device = |name: &str| match net.link_by_name(name) {
            Some(link) => Ok(link.index),
            None => Err(format!("Error: {} has no device `{name}`", options.net.display())),
        };
        let (way, name) = match &read.source {
            Source::Device(name) => (Way::Device(device(name)?), name.clone()),
            Source::Host => (Way::Host, "host".to_owned()),
            Source::HostDevice(name) => (Way::HostDevice(device(name)?), format!("host:{name}")),
        };
        ways.push(way);
        inputs.push(Input::new(name));
        captures.push(Capture::open(&read.file).map_err(|e| format!("Error: {e}"))?);
    }
    let net = Arc::new(net);
    let mut output = match &options.write_dir {
        Some(directory) => {
            let read: Vec<PathBuf> = options.reads.iter().map(|r| r.file.clone()).collect();
            Output::to(directory, &net, &read)?
        }
        None => Output::counting(&net),
    };

    // The ruleset is loaded when the first frame comes.
    let mut merge = Merge::new(captures);
    let start = merge.next_time().unwrap_or(0);
    let failed = |file: &Path| {
        let name = file.display().to_string();
        move |e: std::io::Error| format!("Error: {name}: {e}")
    };
    let log = options.log.as_deref().map(|f| LogFile::create(f, start).map_err(failed(f))).transpose()?;
    let nflog = options.nflog.as_deref().map(|f| Nflog::create(f).map_err(failed(f))).transpose()?;
    output.log_to(log, nflog);
    let names = NetNames::new(&net);
    let ruleset = rules::load(
        &options.rules,
        &SystemFiles { allow_exec: options.allow_exec },
        &names,
        start,
        options.json,
    )?;
    output.trace_by(Tracer::new(&ruleset.generation(), &names, start));
    let linked =
        Linked::new(&ruleset.generation()).map_err(|e| format!("{}: Error: {e}", options.rules.display()))?;
    linked.image.build_lookups();
    let mut path = Dataplane::new(net.clone(), settings);
    path.set_rules(Arc::new(linked));
    if let Some(file) = &options.tc {
        path.set_tc(Arc::new(traffic_control(file, &net)?));
    }
    path.set_engine_with(options.engine, options.code);
    path.trace_all(options.trace);
    if let Some(file) = &options.conntrack_load {
        let text = std::fs::read_to_string(file).map_err(failed(file))?;
        let loaded = path.conntrack_mut().load(&text, start);
        loaded.map_err(|e| format!("Error: {}: {e}", file.display()))?;
    }
    if let Some(file) = &options.osf {
        let text = std::fs::read_to_string(file).map_err(failed(file))?;
        let known = Fingerprints::parse(&text)
            .map_err(|e| format!("Error: {}:{}: {}", file.display(), e.line, e.reason))?;
        path.set_fingerprints(Arc::new(known));
    }
    if let Some(file) = &options.sockets {
        path.set_sockets(Box::new(sockets::read(file, &net)?));
    }
    for (num, socket) in &options.queues {
        output.queues.open(*num, socket)?;
    }
    let started = Instant::now();
    let pumped = pump(&mut merge, start, &ways, &mut inputs, &mut path, &mut output);
    let elapsed = started.elapsed();
    output.finish()?;
    let (whole, end) = pumped?;

    path.conntrack_mut().advance(end);
    if let Some(file) = &options.conntrack_dump {
        std::fs::write(file, path.conntrack().dump()).map_err(failed(file))?;
    }
    if let Some(file) = &options.conntrack {
        write_connections(file, path.conntrack()).map_err(failed(file))?;
    }
    print(&rules::list(&ruleset.generation(), &names, end, options.json))?;
    if options.code.profile {
        eprint!("{}", Profile(path.profile()));
    }
    if let Some(error) = path.compile_error() {
        eprintln!("Warning: {error}; the interpreter has run instead");
    }
    let summary = Summary { inputs: &inputs, output: &output, counters: path.counters(), elapsed };
    eprint!("{summary}");
    Ok(whole)
}

/// Writes the connections that have not lived out, a line each.
fn write_connections(file: &Path, conntrack: &Conntrack) -> std::io::Result<()> {
    let mut out: Box<dyn Write> = match file.to_str() {
        Some("-") => Box::new(std::io::stderr().lock()),
        _ => Box::new(std::io::BufWriter::new(std::fs::File::create(file)?)),
    };
    for connection in conntrack.iter() {
        writeln!(out, "{}", connection.line(Style::default()))?;
    }
    out.flush()
}

/// Sends the frames of all captures through the path. Tells whether no capture was broken, and the time at the end.
fn pump(
    merge: &mut Merge,
    start: u64,
    ways: &[Way],
    inputs: &mut [Input],
    path: &mut Dataplane,
    output: &mut Output,
) -> Result<(bool, u64), String> {
    let (mut whole, mut now) = (true, start);
    while let Some(next) = merge.next_frame() {
        let (which, frame) = match next {
            Ok(next) => next,
            Err(e) => {
                eprintln!("Error: {e}");
                whole = false;
                continue;
            }
        };
        inputs[which].count(&frame);
        now = now.max(frame.time);
        let ethernet = frame.link == LinkType::Ethernet;
        match ways[which] {
            Way::Device(device) if ethernet => {
                path.receive([Frame { device, bytes: frame.bytes, time: frame.time }], output);
            }
            Way::HostDevice(device) if ethernet => path.send_raw(device, frame.bytes, frame.time, output),
            Way::Host => path.send_host(ip_packet(&frame), frame.time, output),
            Way::Device(_) | Way::HostDevice(_) => {
                return Err(format!(
                    "Error: --read {}: IP packets without a link header cannot be frames of a device",
                    inputs[which].name()
                ));
            }
        }
        queue::settle(path, output, now);
        output.failed()?;
    }
    output.queues.end();
    queue::settle(path, output, now);
    path.flush(output);
    output.failed()?;
    Ok((whole, now))
}

/// The IP packet of a frame: a link header before it is passed over.
fn ip_packet<'a>(frame: &penstock_io::Frame<'a>) -> &'a [u8] {
    match frame.link {
        LinkType::Ethernet => frame.bytes.get(penstock_wire::ethernet::LEN..).unwrap_or_default(),
        LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => frame.bytes,
    }
}

fn network(file: &Path) -> Result<Network, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("Error: {}: {e}", file.display()))?;
    Network::from_batch(&file.display().to_string(), &text).map_err(|e| format!("Error: {e}"))
}

fn traffic_control(file: &Path, net: &Network) -> Result<penstock_tc::Config, String> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|e| format!("Error: {name}: {e}"))?;
    let index = |device: &str| net.link_by_name(device).map(|l| l.index);
    penstock_tc::Config::from_batch(&name, &text, index).map_err(|e| format!("Error: {e}"))
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    // A reader that has seen enough is no error.
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("Error: standard output: {e}")),
        _ => Ok(()),
    }
}
