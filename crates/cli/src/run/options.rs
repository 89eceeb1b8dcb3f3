// SPDX-License-Identifier: Apache-2.0

//! The command line of `penstock run`.

use penstock_daemon::bpf::Attach;
use penstock_daemon::control::CaptureCall;
use penstock_dataplane::{CompileOptions, Engine};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use lexopt::Arg::{Long, Short, Value};

use crate::capture::{FAMILIES, HOOKS, call_of};
use crate::input::{Captures, Read};
use crate::options::{Opt, Values, flag, long, usage_lines};
use crate::setup::{self, Setup, once, sentence};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (setup::TITLE, setup::OPTIONS)];

const OPTIONS: &[Opt] = &[
    long(
        "read",
        "read the frames of DEV (pcap or pcapng, compressed or not, `-` for standard input);\n\
         `DEV=FILE:NAME`: of interface NAME of the capture,\n\
         `FILE`: of each interface of the capture, which is the device of its name or index,\n\
         `host=FILE`: IP packets that the host sends,\n\
         `host:DEV=FILE`: raw frames that the host sends on DEV",
    )
    .takes("[DEV=]FILE...", Values::Any),
    long(
        "as-is",
        "all frames arrive as they are; default: those from the address of DEV are what the host\n\
         sends, or copies, and bytes and checksums that are missing are completed",
    ),
    long("compare", "report where frames are sent otherwise than captures have them"),
    long(
        "against",
        "print which flows end otherwise than with the ruleset OLD, and nothing else; exit with 1 if any\n\
         do, with 2 on errors",
    )
    .takes("OLD", Values::Files),
    long("write-dir", "write transmitted frames to DIR/DEV.pcap, packets for the host to DIR/host.pcap")
        .takes("DIR", Values::Directories),
    long(
        "log",
        "write messages of `log` statements to FILE (`-` for standard error), as kernel log lines",
    )
    .takes("FILE", Values::Files),
    long("nflog", "write packets of `log group` statements to FILE, as `tcpdump -i nflog` does")
        .takes("FILE", Values::Files),
    long(
        "conntrack",
        "write the connections at the end to FILE (`-` for standard error), as `conntrack -L` does",
    )
    .takes("FILE", Values::Files),
    long(
        "conntrack-events",
        "write what happens to connections and expectations to FILE (`-` for standard error), as `conntrack -E` does",
    )
    .takes("FILE", Values::Files),
    long("flows", "write the flows in flowtables at the end, and why others are not there, to FILE (`-` for standard error)")
        .takes("FILE", Values::Files),
    long("tap", "write what a tap on DEV sees to FILE: all frames in and out, except those that early ingress takes")
        .takes("DEV=FILE...", Values::Any),
    long(
        "capture",
        "write packets that pass HOOK (`[FAMILY:]HOOK[@PRIORITY]`; default: before all chains) to FILE, as pcapng",
    )
    .takes("HOOK=FILE...", Values::Any),
    long("capture-match", "limit --capture to packets that match EXPRESSION, written like the matches of a rule")
        .takes("EXPRESSION", Values::Any),
    long("queue", "pass packets of queue N to the program that listens on SOCKET")
        .takes("N=SOCKET...", Values::Any),
    long(
        "bpf",
        "attach a BPF program, PROGRAM (a section or function) of the object FILE, to HOOK:\n\
         `xdp:DEV`, `tc-ingress:DEV`, `tc-egress:DEV`, or `[FAMILY:]HOOK[@PRIORITY]` of ip and ip6",
    )
    .takes("HOOK=FILE[:PROGRAM]...", Values::Any),
    long(
        "check-bpf",
        "run the rules of chains that have a BPF program, too, and report the first packet of each chain of\n\
         which rules and program make something else; exit with 1 if there is one",
    ),
    long("bpf-elements", "elements of their maps at the beginning: lines of map, key and value, in hexadecimal")
        .takes("FILE", Values::Files),
    long("bpf-maps", "write the elements of their maps at the end to FILE")
        .takes("FILE", Values::Files),
    long("conntrack-dump", "write the connections at the end to FILE for --conntrack-load")
        .takes("FILE", Values::Files),
    flag('j', "json", "print the final ruleset in libnftables JSON"),
    flag('a', "handle", "print the final ruleset with handles"),
    long("summary-json", "write the summary to FILE as JSON (`-` for standard error)")
        .takes("FILE", Values::Files),
    long(
        "report",
        "write a page to FILE, for a browser: packets by rule, drops over time, flows, traces; packets\n\
         pass one by one and traced, which takes longer",
    )
    .takes("FILE.html", Values::Files),
    long("report-frame", "show the trace of frame N of the captures in the report, too")
        .takes("N...", Values::Any),
    long("engine", "jit (machine code) or interpreter; default: the interpreter until the code is ready")
        .takes("ENGINE", Values::OneOf(&["interpreter", "jit"])),
    long("perf-map", "write a map of machine code to rules for perf(1), in /tmp/perf-PID.map"),
    long("profile", "report how often each rule ran, and how long it took"),
    long("trace", "trace every packet, as `nft monitor trace` does"),
    flag('h', "help", "print this text"),
];

/// What `--help` prints, and what follows a usage error.
pub fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock run [--net NET] --rules RULES --read DEV=FILE... [OPTIONS]\n\n\
         Processes the frames of all captures in timestamp order. The timestamps are the clock.\n\n",
    );
    out.push_str(&format!("{}:\n{}\n", setup::TITLE, usage_lines(setup::OPTIONS, 21)));
    out.push_str(&format!("Options:\n{}", usage_lines(OPTIONS, 21)));
    out.push_str(
        "\nPrints the final ruleset with its counters to standard output, a summary to standard error.\n",
    );
    out
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub setup: Setup,
    pub read: Captures,
    /// The ruleset that this one is held against.
    pub against: Option<PathBuf>,
    /// Whether what is sent is held against the captures.
    pub compare: bool,
    pub check_bpf: bool,
    pub write_dir: Option<PathBuf>,
    /// Lines of `log` statements.
    pub log: Option<PathBuf>,
    /// Records of `log group` statements.
    pub nflog: Option<PathBuf>,
    /// The connections at the end.
    pub conntrack: Option<PathBuf>,
    /// Events of connections and expectations.
    pub conntrack_events: Option<PathBuf>,
    /// The connections at the end, to be loaded again.
    pub conntrack_dump: Option<PathBuf>,
    /// The flows at the end.
    pub flows: Option<PathBuf>,
    /// What is seen on devices.
    pub taps: Vec<(String, PathBuf)>,
    /// What passes hooks, and where it is written.
    pub captures: Vec<(CaptureCall, PathBuf)>,
    /// Programs that listen to queues, by their sockets.
    pub queues: Vec<(u16, PathBuf)>,
    /// BPF programs of devices.
    pub bpf: Vec<Attach>,
    /// Elements of their maps at the beginning, and where those at the end are written.
    pub bpf_elements: Option<PathBuf>,
    pub bpf_maps: Option<PathBuf>,
    pub json: bool,
    /// Whether the final ruleset has handles.
    pub handle: bool,
    /// The summary as JSON.
    pub summary_json: Option<PathBuf>,
    /// A page for a browser.
    pub report: Option<PathBuf>,
    /// Frames whose traces it has in any case.
    pub report_frames: Vec<u64>,
    pub engine: Engine,
    pub code: CompileOptions,
    pub trace: bool,
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    Run(Box<Options>),
    Help,
}

impl Options {
    /// Reads the arguments after `run`. The error is a sentence for the user.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Wanted, String> {
        let mut parser = lexopt::Parser::from_args(args);
        let (mut setup, mut given) = (Setup::default(), Given::default());
        while let Some(arg) = parser.next().map_err(sentence)? {
            let name = match arg {
                Long(name) => name.to_owned(),
                Short('j') => "json".to_owned(),
                Short('a') => "handle".to_owned(),
                Short('h') => "help".to_owned(),
                Value(value) => return Err(format!("unexpected argument `{}`", value.display())),
                other @ Short(_) => return Err(sentence(other.unexpected())),
            };
            if name == "help" {
                return Ok(Wanted::Help);
            }
            if !setup.take(&name, &mut parser)? {
                given.take(&name, &mut parser)?;
            }
        }
        given.options(setup).map(|options| Wanted::Run(Box::new(options)))
    }
}

/// The command line, as far as it is read, without what [`Setup`] takes.
#[derive(Default)]
struct Given {
    read: Captures,
    against: Option<PathBuf>,
    compare: bool,
    check_bpf: bool,
    write_dir: Option<PathBuf>,
    log: Option<PathBuf>,
    nflog: Option<PathBuf>,
    conntrack: Option<PathBuf>,
    conntrack_events: Option<PathBuf>,
    conntrack_dump: Option<PathBuf>,
    flows: Option<PathBuf>,
    taps: Vec<(String, PathBuf)>,
    captures: Vec<(CaptureCall, PathBuf)>,
    matching: Option<String>,
    queues: Vec<(u16, PathBuf)>,
    bpf: Vec<Attach>,
    bpf_elements: Option<PathBuf>,
    bpf_maps: Option<PathBuf>,
    json: bool,
    handle: bool,
    summary_json: Option<PathBuf>,
    report: Option<PathBuf>,
    report_frames: Vec<u64>,
    trace: bool,
    engine: Option<Engine>,
    code: CompileOptions,
}

fn file(parser: &mut lexopt::Parser) -> Result<PathBuf, String> {
    parser.value().map(PathBuf::from).map_err(sentence)
}

impl Given {
    /// Takes an option.
    fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), String> {
        match name {
            "read" => {
                for value in parser.values().map_err(sentence)? {
                    self.read.reads.push(Read::parse(&value)?);
                }
            }
            "against" => once(&mut self.against, "--against", file(parser)?)?,
            "write-dir" => once(&mut self.write_dir, "--write-dir", file(parser)?)?,
            "log" => once(&mut self.log, "--log", file(parser)?)?,
            "nflog" => once(&mut self.nflog, "--nflog", file(parser)?)?,
            "conntrack-dump" => once(&mut self.conntrack_dump, "--conntrack-dump", file(parser)?)?,
            "conntrack" => once(&mut self.conntrack, "--conntrack", file(parser)?)?,
            "conntrack-events" => {
                once(&mut self.conntrack_events, "--conntrack-events", file(parser)?)?;
            }
            "flows" => once(&mut self.flows, "--flows", file(parser)?)?,
            "tap" => {
                for value in parser.values().map_err(sentence)? {
                    let tap = tap(&value)?;
                    if self.taps.iter().any(|(device, _)| *device == tap.0) {
                        return Err(format!("--tap {} is given twice", tap.0));
                    }
                    self.taps.push(tap);
                }
            }
            "capture" => {
                for value in parser.values().map_err(sentence)? {
                    self.captures.push(capture(&value)?);
                }
            }
            "capture-match" => {
                let text = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                once(&mut self.matching, "--capture-match", text)?;
            }
            "queue" => {
                for value in parser.values().map_err(sentence)? {
                    let queue = queue(&value)?;
                    if self.queues.iter().any(|(num, _)| *num == queue.0) {
                        return Err(format!("--queue {} is given twice", queue.0));
                    }
                    self.queues.push(queue);
                }
            }
            "bpf" => {
                for value in parser.values().map_err(sentence)? {
                    self.bpf.push(Attach::parse(&value)?);
                }
            }
            "bpf-elements" => once(&mut self.bpf_elements, "--bpf-elements", file(parser)?)?,
            "bpf-maps" => once(&mut self.bpf_maps, "--bpf-maps", file(parser)?)?,
            "as-is" => self.read.as_is = true,
            "compare" => self.compare = true,
            "check-bpf" => self.check_bpf = true,
            "json" => self.json = true,
            "handle" => self.handle = true,
            "summary-json" => once(&mut self.summary_json, "--summary-json", file(parser)?)?,
            "report" => once(&mut self.report, "--report", file(parser)?)?,
            "report-frame" => {
                for value in parser.values().map_err(sentence)? {
                    self.report_frames.push(frame_number(&value)?);
                }
            }
            "engine" => {
                let chosen = engine(&parser.value().map_err(sentence)?)?;
                once(&mut self.engine, "--engine", chosen)?;
            }
            "perf-map" => self.code.perf_map = true,
            "profile" => self.code.profile = true,
            "trace" => self.trace = true,
            _ => return Err(format!("invalid option '--{name}'")),
        }
        Ok(())
    }

    /// Whether something is asked for that a comparison of rulesets does not print.
    fn asks_for_more(&self) -> bool {
        let files = [
            &self.write_dir,
            &self.log,
            &self.nflog,
            &self.conntrack,
            &self.conntrack_events,
            &self.conntrack_dump,
            &self.flows,
            &self.summary_json,
            &self.report,
        ];
        let lists = self.taps.is_empty() && self.captures.is_empty() && self.queues.is_empty();
        let flags =
            self.compare || self.check_bpf || self.handle || self.trace || self.engine.is_some();
        files.into_iter().any(Option::is_some)
            || !lists
            || flags
            || self.code != CompileOptions::default()
    }

    /// All of it, if it makes sense together.
    fn options(self, setup: Setup) -> Result<Options, String> {
        if self.against.is_some() && self.asks_for_more() {
            return Err("--against prints the comparison only: of other output it takes -j".into());
        }
        if self.against.is_some() && !self.bpf.is_empty() {
            return Err("--against and --bpf exclude each other".into());
        }
        if self.bpf.is_empty() && (self.bpf_elements.is_some() || self.bpf_maps.is_some()) {
            return Err("--bpf-elements and --bpf-maps are for --bpf".into());
        }
        let Given { read, mut captures, matching, engine, code, .. } = self;
        if read.reads.is_empty() {
            return Err("--read is missing".into());
        }
        if self.report.is_none() && !self.report_frames.is_empty() {
            return Err("--report-frame is for --report".into());
        }
        if self.report.is_some()
            && (engine == Some(Engine::JitAtOnce) || code != CompileOptions::default())
        {
            return Err("--report is made of traces, which the interpreter makes: it excludes --engine jit, \
                 --profile and --perf-map".into());
        }
        if read.as_is && self.compare {
            return Err("--as-is and --compare exclude each other".into());
        }
        let engine = match engine {
            Some(Engine::Interpreter) if code != CompileOptions::default() => {
                return Err("--perf-map and --profile need machine code: use --engine jit".into());
            }
            Some(engine) => engine,
            // Reports on machine code are about all packets.
            None if code != CompileOptions::default() => Engine::JitAtOnce,
            None if self.report.is_some() => Engine::Interpreter,
            None => Engine::Jit,
        };
        match matching {
            Some(_) if captures.is_empty() => return Err("--capture-match is for --capture".into()),
            Some(expression) => {
                captures.iter_mut().for_each(|(call, _)| call.expression = expression.clone())
            }
            None => {}
        }
        if captures.iter().any(|(call, _)| !call.is_sound()) {
            return Err("--capture-match takes the matches of one rule".into());
        }
        setup.check(&read)?;
        Ok(Options {
            setup,
            read,
            against: self.against,
            compare: self.compare,
            check_bpf: self.check_bpf,
            write_dir: self.write_dir,
            log: self.log,
            nflog: self.nflog,
            conntrack: self.conntrack,
            conntrack_events: self.conntrack_events,
            conntrack_dump: self.conntrack_dump,
            flows: self.flows,
            taps: self.taps,
            captures,
            queues: self.queues,
            bpf: self.bpf,
            bpf_elements: self.bpf_elements,
            bpf_maps: self.bpf_maps,
            json: self.json,
            handle: self.handle,
            summary_json: self.summary_json,
            report: self.report,
            report_frames: self.report_frames,
            engine,
            code,
            trace: self.trace,
        })
    }
}

fn engine(name: &OsStr) -> Result<Engine, String> {
    match name.to_str() {
        Some("interpreter") => Ok(Engine::Interpreter),
        // A run waits for the code: it has the captures before it.
        Some("jit") => Ok(Engine::JitAtOnce),
        _ => Err(format!("--engine is jit or interpreter, not `{}`", name.display())),
    }
}

/// The number of a frame; the first is 1.
fn frame_number(value: &OsStr) -> Result<u64, String> {
    let number = value.to_str().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    number.ok_or_else(|| {
        format!("--report-frame takes numbers of frames, from 1, not `{}`", value.display())
    })
}

/// `DEV=FILE`.
fn tap(value: &OsStr) -> Result<(String, PathBuf), String> {
    let wrong = || format!("--tap takes DEV=FILE, not `{}`", value.display());
    let bytes = value.as_bytes();
    let at = bytes.iter().position(|&b| b == b'=').filter(|at| *at > 0).ok_or_else(wrong)?;
    let device = std::str::from_utf8(&bytes[..at]).map_err(|_| wrong())?;
    match &bytes[at + 1..] {
        [] => Err(wrong()),
        file => Ok((device.to_owned(), PathBuf::from(OsString::from_vec(file.to_vec())))),
    }
}

/// `[FAMILY:]HOOK[@PRIORITY]=FILE`.
fn capture(value: &OsStr) -> Result<(CaptureCall, PathBuf), String> {
    let wrong =
        || format!("--capture takes [FAMILY:]HOOK[@PRIORITY]=FILE, not `{}`", value.display());
    let bytes = value.as_bytes();
    let at = bytes.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
    let place = std::str::from_utf8(&bytes[..at]).map_err(|_| wrong())?;
    let file = PathBuf::from(OsString::from_vec(bytes[at + 1..].to_vec()));
    let (place, priority) = match place.split_once('@') {
        Some((place, priority)) => (place, Some(priority.to_owned())),
        None => (place, None),
    };
    let (family, hook) = match place.split_once(':') {
        Some((family, hook)) => (Some(family.to_owned()), hook),
        None => (None, place),
    };
    let known =
        HOOKS.contains(&hook) && family.as_ref().is_none_or(|family| FAMILIES.contains(&&**family));
    let call = call_of(hook.to_owned(), family, priority, String::new());
    if known && call.is_sound() && !file.as_os_str().is_empty() {
        Ok((call, file))
    } else {
        Err(wrong())
    }
}

/// `N=SOCKET`.
fn queue(value: &OsStr) -> Result<(u16, PathBuf), String> {
    let wrong = || format!("--queue takes N=SOCKET, N up to 65535, not `{}`", value.display());
    let bytes = value.as_bytes();
    let at = bytes.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
    let num =
        std::str::from_utf8(&bytes[..at]).ok().and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
    match &bytes[at + 1..] {
        [] => Err(wrong()),
        socket => Ok((num, PathBuf::from(OsString::from_vec(socket.to_vec())))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Source;
    use crate::options::assert_known;

    fn parse(line: &str) -> Result<Wanted, String> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn command_line_names_the_sources_of_frames() {
        let Ok(Wanted::Run(o)) = parse(
            "--net n --rules r --read lan=l.pcap wan=w=2.pcap --read host=h --read=host:wan.5=- -j --write-dir d --read any.pcap",
        ) else {
            panic!("a valid line")
        };
        let reads: Vec<_> =
            o.read.reads.iter().map(|r| (r.source.clone(), r.file.to_str().unwrap())).collect();
        assert_eq!(
            reads,
            [
                (Some(Source::Device("lan".into())), "l.pcap"),
                (Some(Source::Device("wan".into())), "w=2.pcap"),
                (Some(Source::Host), "h"),
                (Some(Source::HostDevice("wan.5".into())), "-"),
                (None, "any.pcap"),
            ]
        );
        assert!(o.json && !o.trace && o.engine == Engine::Jit && o.write_dir == Some("d".into()));
        assert_eq!(parse("--net n -h"), Ok(Wanted::Help));
    }

    #[test]
    fn every_option_in_the_usage_text_is_accepted() {
        assert_known(OPTIONS.iter().chain(setup::OPTIONS), parse);
    }

    #[test]
    fn wrong_command_lines_are_refused_with_a_message() {
        for (line, message) in [
            ("", "--read is missing"),
            ("--read a=b", "--rules is missing"),
            ("--net n --read a=b", "--rules is missing"),
            ("--net n --net m", "--net is given twice"),
            ("--read", "missing argument for option '--read'"),
            ("--read =x", "--read takes DEV=FILE or FILE, not `=x`"),
            ("--read lan=", "--read takes DEV=FILE or FILE, not `lan=`"),
            ("--read host:=x", "--read takes DEV=FILE or FILE, not `host:=x`"),
            (
                "--net n --rules r --read a --as-is --compare",
                "--as-is and --compare exclude each other",
            ),
            (
                "--sysctl net.ipv4.ipfrag_time",
                "--sysctl takes NAME=VALUE, a number, not `net.ipv4.ipfrag_time`",
            ),
            ("--sysctl a=b", "--sysctl takes NAME=VALUE, a number, not `a=b`"),
            ("--queue 65536=s", "--queue takes N=SOCKET, N up to 65535, not `65536=s`"),
            ("--queue 1=", "--queue takes N=SOCKET, N up to 65535, not `1=`"),
            ("--tap lan=", "--tap takes DEV=FILE, not `lan=`"),
            ("--tap a=b c=d a=e", "--tap a is given twice"),
            ("--capture forward", "--capture takes [FAMILY:]HOOK[@PRIORITY]=FILE, not `forward`"),
            ("--capture forward=", "--capture takes [FAMILY:]HOOK[@PRIORITY]=FILE, not `forward=`"),
            (
                "--capture nowhere=f",
                "--capture takes [FAMILY:]HOOK[@PRIORITY]=FILE, not `nowhere=f`",
            ),
            (
                "--capture ip5:input=f",
                "--capture takes [FAMILY:]HOOK[@PRIORITY]=FILE, not `ip5:input=f`",
            ),
            (
                "--capture input@;=f",
                "--capture takes [FAMILY:]HOOK[@PRIORITY]=FILE, not `input@;=f`",
            ),
            (
                "--net n --rules r --read a=b --capture-match tcp",
                "--capture-match is for --capture",
            ),
            ("--net n --rules - --read a=b c=-", "standard input can be read once only"),
            ("--queue 1=a 2=b 1=c", "--queue 1 is given twice"),
            (
                "--bpf lan=x.o",
                "--bpf takes HOOK[@PRIORITY][:DEV]=FILE[:PROGRAM], not `lan=x.o`: there is no hook `lan`",
            ),
            (
                "--bpf xdp:lan=x.o:",
                "--bpf takes HOOK[@PRIORITY][:DEV]=FILE[:PROGRAM], not `xdp:lan=x.o:`",
            ),
            (
                "--net n --rules r --read a=b --bpf-maps m",
                "--bpf-elements and --bpf-maps are for --bpf",
            ),
            (
                "--net n --rules r --read a=b --against o --bpf xdp:a=x.o",
                "--against and --bpf exclude each other",
            ),
            ("--net n --rules r --read a=b --report-frame 1", "--report-frame is for --report"),
            ("--report-frame 0", "--report-frame takes numbers of frames, from 1, not `0`"),
            (
                "--net n --rules r --read a=b --report f --profile",
                "--report is made of traces, which the interpreter makes: it excludes --engine jit, \
                 --profile and --perf-map",
            ),
            ("--engine gpu", "--engine is jit or interpreter, not `gpu`"),
            (
                "--net n --rules r --read a=b --engine interpreter --profile",
                "--perf-map and --profile need machine code: use --engine jit",
            ),
            ("--speed", "invalid option '--speed'"),
            ("-q", "invalid option '-q'"),
            ("--json=1", "unexpected argument for option '--json': \"1\""),
            ("lan.pcap", "unexpected argument `lan.pcap`"),
        ] {
            assert_eq!(parse(line), Err(message.to_owned()), "{line}");
        }
    }
}
