// SPDX-License-Identifier: Apache-2.0

//! `penstock run`: captures go through a ruleset; frames, verdicts and counters come out.

mod against;
mod burst;
mod events;
mod missing;
pub mod options;
pub mod output;
mod queue;
mod report;
mod settle;
mod summary;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use penstock_conntrack::Conntrack;
use penstock_daemon::bpf::{self, Loaded};
use penstock_daemon::probe;
use penstock_daemon::{err, errln, out};
use penstock_dataplane::{Dataplane, Engine};
use penstock_files::Access;
use penstock_lang::datatype::Format;
use penstock_net::Network;
use penstock_print::show::connections::Connection;
use penstock_print::show::flows::{Flow, Totals};
use penstock_print::show::stages::{Stage, Stages};
use penstock_ruleset::Generation;
use penstock_ruleset::link::Linked;

use crate::input::{Entry, Inputs, Taken};
use crate::log::{LogFile, Nflog};
use crate::rules::{self, NetNames};
use crate::tracer::Tracer;
use burst::Burst;
use events::Events;
use options::{Options, Wanted};
use output::Output;
use report::Collector;
use summary::{Input, Summary};

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match Options::parse(args) {
        Ok(Wanted::Run(options)) => options,
        Ok(Wanted::Help) => {
            out!("{}", options::usage());
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            err!("penstock run: {message}\n\n{}", options::usage());
            return ExitCode::from(2);
        }
    };
    if let Some(old) = &options.against {
        return compare(&options, old);
    }
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            errln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Prints what becomes of packets otherwise than with an old ruleset. The status answers whether
/// there are such.
fn compare(options: &Options, old: &Path) -> ExitCode {
    let compared = against::against(options, old).and_then(|report| {
        print(&if options.json { format!("{}\n", report.json()) } else { report.to_string() })?;
        Ok(report)
    });
    match compared {
        Ok(report) if report.whole => ExitCode::from(u8::from(!report.is_same())),
        Ok(_) => ExitCode::from(2),
        Err(message) => {
            errln!("{}", message.trim_end());
            ExitCode::from(2)
        }
    }
}

/// `Ok(false)` if a capture was broken, or rules and program of a chain differ: what came before
/// was run, and the error was told.
fn run(options: &Options) -> Result<bool, String> {
    if options.engine == Engine::JitAtOnce {
        penstock_jit::supported().map_err(|e| format!("Error: --engine jit: {e}"))?;
    }
    let setup = &options.setup;
    let net = Arc::new(setup.network(&options.read)?);
    let mut inputs = Inputs::open(&options.read, &net, setup.net())?;
    let mut counts: Vec<_> = (0..inputs.len()).map(|n| Input::new(inputs.name(n))).collect();
    let mut output = match &options.write_dir {
        Some(directory) => {
            let read: Vec<PathBuf> = options.read.reads.iter().map(|r| r.file.clone()).collect();
            Output::to(directory, &net, &read)?
        }
        None => Output::counting(&net),
    };

    // The ruleset is loaded when the first frame comes.
    let start = inputs.next_time().unwrap_or(0);
    let failed = |file: &Path| {
        let name = file.display().to_string();
        move |e: std::io::Error| format!("Error: {name}: {e}")
    };
    let log =
        options.log.as_deref().map(|f| LogFile::create(f, start).map_err(failed(f))).transpose()?;
    let nflog =
        options.nflog.as_deref().map(|f| Nflog::create(f).map_err(failed(f))).transpose()?;
    output.log_to(log, nflog);
    let names = NetNames::new(&net);
    let ruleset = setup.ruleset(&names, start, options.json)?;
    let tracer = || Tracer::new(&ruleset.generation(), &names, Format::default(), start);
    output.trace_by(tracer().with_origins(), options.trace || options.report.is_none());
    if options.report.is_some() {
        let (tracer, generation) = (tracer().with_origins(), ruleset.generation());
        let wanted = options.report_frames.clone();
        output.report = Some(Collector::new(tracer, &net, &names, generation, wanted));
    }
    let mut path = setup.dataplane(&net, &ruleset, start)?;
    path.set_engine_with(options.engine, options.code);
    path.check_bpf(options.check_bpf);
    path.trace_all(options.trace || options.report.is_some());
    let mut tapped = Vec::new();
    for (device, file) in &options.taps {
        let link = net.link_by_name(device);
        let link = link.ok_or_else(|| format!("Error: --tap {device}: there is no such device"))?;
        output.tap(link.index, file)?;
        tapped.push(link.index);
    }
    path.set_taps(&tapped);
    capture(options, &net, &names, &ruleset.generation(), &mut path, &mut output)?;
    for (num, socket) in &options.queues {
        output.queues.open(*num, socket)?;
    }
    let events = options
        .conntrack_events
        .as_deref()
        .map(|f| lines_to(f).map(Events::to).map_err(failed(f)))
        .transpose()?;
    path.conntrack_mut().set_observer(events.as_ref().map(Events::observer));
    let programs = Loaded::load(&options.bpf).map_err(|e| format!("Error: {e}"))?;
    if let Some(file) = &options.bpf_elements {
        let failed = |e| format!("Error: {}: {e}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| failed(e.to_string()))?;
        bpf::set_elements(&text, &programs.instances).map_err(failed)?;
    }
    path.set_bpf(programs.attach(&net).map_err(|e| format!("Error: {e}"))?);
    let started = Instant::now();
    output.watch(!options.read.as_is, options.compare);
    let pumped = pump(&mut inputs, start, &mut counts, &mut path, &mut output);
    let elapsed = started.elapsed();
    let end = pumped.as_ref().map_or(start, |(_, end)| *end);
    output.finish(end)?;
    let (whole, end) = pumped?;

    path.conntrack_mut().advance(end);
    if let (Some(events), Some(file)) = (events, &options.conntrack_events) {
        path.conntrack_mut().set_observer(None);
        events.finish().map_err(failed(file))?;
    }
    if let Some(file) = &options.conntrack_dump {
        write(file, path.conntrack().dump().as_bytes()).map_err(failed(file))?;
    }
    if let Some(file) = &options.conntrack {
        write_connections(file, path.conntrack()).map_err(failed(file))?;
    }
    if let Some(file) = &options.bpf_maps {
        let elements = bpf::elements(&programs.instances, None);
        write(file, elements.as_bytes()).map_err(failed(file))?;
    }
    if let Some(file) = &options.flows {
        write_flows(file, &path, end).map_err(failed(file))?;
    }
    let format = Format { handles: options.handle, ..Format::default() };
    print(&rules::list(&ruleset.generation(), &names, format, end, options.json))?;
    if options.code.profile {
        let stages = Stages::new(path.profile().into_iter().map(Stage::from).collect());
        err!("{}", output.rules().map_or(stages.clone(), |rules| stages.written(rules)));
    }
    if let Some(error) = path.compile_error() {
        errln!("Warning: {error}; the interpreter has run instead");
    }
    let counters = &path.counters();
    let summary =
        Summary { inputs: &counts, programs: path.bpf(), output: &output, counters, elapsed };
    err!("{summary}");
    if let Some(file) = &options.summary_json {
        let json = lines_to(file).and_then(|mut out| {
            writeln!(out, "{}", summary.json())?;
            out.flush()
        });
        json.map_err(failed(file))?;
    }
    if let (Some(report), Some(file)) = (output.report.take(), &options.report) {
        let page = report.report(
            setup.rules().display().to_string(),
            &what_was_read(&counts),
            counters,
            output.missing.to_string(),
        );
        write(file, page.page().as_bytes()).map_err(failed(file))?;
    }
    if let Some(compare) = output.compared() {
        err!("{}", compare.report(&net));
    }
    Ok(whole && !output.differed)
}

/// The captures in a line.
fn what_was_read(inputs: &[Input]) -> String {
    let frames: u64 = inputs.iter().map(Input::frames).sum();
    let names: Vec<&str> = inputs.iter().map(Input::name).collect();
    format!("{frames} frames of {}", names.join(", "))
}

/// Adds the tables of captures to the ruleset.
fn capture(
    options: &Options,
    net: &Network,
    names: &NetNames<'_>,
    generation: &Generation,
    path: &mut Dataplane,
    output: &mut Output,
) -> Result<(), String> {
    const LOOPBACK: u32 = 1;
    let devices: Vec<String> =
        net.links().iter().filter(|l| l.index != LOOPBACK).map(|l| l.name.to_string()).collect();
    let mut tables = Vec::new();
    for (number, (call, file)) in (0..).zip(&options.captures) {
        tables.push(probe::table(call, number, &devices, names)?);
        output.capture(file)?;
    }
    if let Some(report) = &mut output.report {
        let first = tables.len() as u32;
        let (probes, calls): (Vec<_>, Vec<_>) =
            report::probes(generation, !devices.is_empty()).into_iter().unzip();
        for (number, call) in (first..).zip(&calls) {
            tables.push(probe::table(call, number, &devices, names)?);
        }
        report.count_at(first, probes);
    }
    if !tables.is_empty() {
        let linked = Linked::new(&probe::with_probes(generation, &tables))
            .map_err(|e| format!("Error: {e}"))?;
        linked.image.build_lookups();
        path.set_rules(Arc::new(linked));
    }
    Ok(())
}

/// Writes the connections that have not lived out, a line each.
fn write_connections(file: &Path, conntrack: &Conntrack) -> std::io::Result<()> {
    let mut out = lines_to(file)?;
    for connection in conntrack.iter() {
        writeln!(out, "{}", Connection::of(&connection))?;
    }
    out.flush()
}

/// Writes the flows in flowtables, and the connections that rules wanted there and that are not.
fn write_flows(file: &Path, path: &Dataplane, now: u64) -> std::io::Result<()> {
    let mut out = lines_to(file)?;
    for entry in path.flow_entries(0).filter_map(|(_, entry)| entry) {
        writeln!(out, "{}", Flow::of(&entry, path.network(), now))?;
    }
    write!(out, "{}", Totals(&path.flow_summary()))?;
    out.flush()
}

/// Replaces a file.
fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    penstock_files::create(file, Access::Owner)?.write_all(bytes)
}

/// A file for lines, or standard error.
fn lines_to(file: &Path) -> std::io::Result<Box<dyn Write + Send>> {
    Ok(match file.to_str() {
        Some("-") => Box::new(std::io::stderr()),
        _ => Box::new(std::io::BufWriter::new(penstock_files::create(file, Access::Owner)?)),
    })
}

/// Sends the frames of all captures through the path. Tells whether no capture was broken, and the
/// time at the end.
fn pump(
    inputs: &mut Inputs<'_>,
    start: u64,
    counts: &mut [Input],
    path: &mut Dataplane,
    output: &mut Output,
) -> Result<(bool, u64), String> {
    let (mut whole, mut now) = (true, start);
    let mut burst = Burst::default();
    // What a program answers may decide over the next frame.
    let single = output.queues.is_heard() || output.report.is_some();
    let mut number = 0;
    while let Some(next) = inputs.next() {
        let taken = match next {
            Ok(taken) => taken,
            Err(trouble) => {
                trouble.tell()?;
                whole = false;
                continue;
            }
        };
        number += 1;
        // What was sent so far decides what this frame is.
        if taken.is_sent() {
            burst.send(path, output);
            output.failed()?;
        }
        let Taken { which, frame, completed, .. } = taken;
        let failed = |e: &str| format!("Error: --read {}: {e}", counts[which].name());
        let entering = match output.entry(&taken, path.conntrack()).map_err(failed)? {
            Entry::Enters(entering) => entering,
            Entry::LeftOut(why) => {
                counts[which].leave_out(why);
                continue;
            }
        };
        counts[which].count(&frame, completed, &entering);
        if let Some(report) = &mut output.report {
            report.begin(number, &entering);
        }
        let arriving = entering.arriving();
        if single || arriving.is_none_or(|frame| !burst.has_room(&frame)) {
            burst.send(path, output);
            output.failed()?;
        }
        now = now.max(frame.time);
        match arriving {
            Some(frame) if !single => burst.push(&frame),
            Some(_) | None => {
                let sent = entering.send(path, output);
                sent.map_err(|e| format!("Error: --read {}: {e}", counts[which].name()))?;
                settle::settle(path, output, now);
                output.end_of_frame();
                output.failed()?;
            }
        }
    }
    burst.send(path, output);
    output.queues.end();
    settle::settle(path, output, now);
    path.flush(output);
    output.failed()?;
    Ok((whole, now))
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    // A reader that has seen enough is no error.
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("Error: standard output: {e}"))
        }
        _ => Ok(()),
    }
}
