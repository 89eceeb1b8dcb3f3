//! The command line of `penstock run`.

use penstock_path::{CompileOptions, Engine};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use lexopt::Arg::{Long, Short, Value};

use crate::options::{Opt, Values, flag, long};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("net", "interfaces, addresses, routes and neighbours, as lines for `ip -batch`")
        .takes("NET", Values::Files),
    long("rules", "the ruleset, as for `nft -f`").takes("RULES", Values::Files),
    long("tc", "filters and queues of devices, as lines for `tc -batch`").takes("FILE", Values::Files),
    long(
        "read",
        "frames that arrive on DEV (pcap or pcapng, `-` for standard input);\n\
         `host=FILE`: IP packets that the host sends,\n\
         `host:DEV=FILE`: raw frames that the host sends on DEV",
    )
    .takes("DEV=FILE...", Values::Any),
    long("write-dir", "write what is transmitted to DIR/DEV.pcap, what the host gets to DIR/host.pcap")
        .takes("DIR", Values::Directories),
    long(
        "log",
        "write what `log` statements say to FILE (`-` for standard error), as lines of the kernel's log",
    )
    .takes("FILE", Values::Files),
    long("nflog", "write what `log group` statements say to FILE, as `tcpdump -i nflog` does")
        .takes("FILE", Values::Files),
    long(
        "conntrack",
        "write the connections at the end to FILE (`-` for standard error), as `conntrack -L` does",
    )
    .takes("FILE", Values::Files),
    long("queue", "give packets of queue N to the program that listens on SOCKET")
        .takes("N=SOCKET...", Values::Any),
    long("osf", "what `osf` knows operating systems by: fingerprints as in OpenBSD's pf.os")
        .takes("FILE", Values::Files),
    long("sockets", "the host's sockets, for `socket` and `tproxy`: see penstock-run(1)")
        .takes("FILE", Values::Files),
    long("conntrack-load", "begin with the connections in FILE, as --conntrack-dump wrote them")
        .takes("FILE", Values::Files),
    long("conntrack-dump", "write the connections at the end to FILE for --conntrack-load")
        .takes("FILE", Values::Files),
    long("sysctl", "settings of the host: timeouts and limits as sysctl(8) names them")
        .takes("NAME=VALUE...", Values::Any),
    flag('j', "json", "print the final ruleset in libnftables JSON"),
    long("engine", "jit (machine code) or interpreter; by default the interpreter until there is code")
        .takes("ENGINE", Values::OneOf(&["interpreter", "jit"])),
    long("perf-map", "tell perf(1) the rules that machine code is of, in /tmp/perf-PID.map"),
    long("profile", "tell how often each rule was reached, and how long it took"),
    long("allow-exec", "let the ruleset run commands: define NAME = exec(\"COMMAND\")"),
    long("trace", "trace every packet, as `nft monitor trace` does"),
    flag('h', "help", "this text"),
];

/// What `--help` prints, and what follows a usage error.
pub fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock run --net NET --rules RULES --read DEV=FILE... [OPTIONS]\n\n\
         Takes the frames of all captures in the order of their timestamps, which are the clock.\n\n",
    );
    for option in OPTIONS {
        let mut left = option.names().collect::<Vec<_>>().join(", ");
        if let Some(argument) = option.argument {
            left = format!("{left} {}", argument.name);
        }
        for (i, line) in option.help.lines().enumerate() {
            let left = if i == 0 { &*left } else { "" };
            out.push_str(&format!("  {left:<21}  {line}\n"));
        }
    }
    out.push_str(
        "\nThe final ruleset with its counters goes to standard output, a summary to standard error.\n",
    );
    out
}

/// Where a capture's frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Arrives on a device.
    Device(String),
    /// An IP packet that the host sends.
    Host,
    /// A frame that the host sends raw on a device.
    HostDevice(String),
}

/// One `--read`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub source: Source,
    pub file: PathBuf,
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub net: PathBuf,
    pub rules: PathBuf,
    pub reads: Vec<Read>,
    pub write_dir: Option<PathBuf>,
    /// Traffic control.
    pub tc: Option<PathBuf>,
    /// Lines of `log` statements.
    pub log: Option<PathBuf>,
    /// Records of `log group` statements.
    pub nflog: Option<PathBuf>,
    /// The connections at the end.
    pub conntrack: Option<PathBuf>,
    /// The connections to begin with.
    pub conntrack_load: Option<PathBuf>,
    /// The connections at the end, to be loaded again.
    pub conntrack_dump: Option<PathBuf>,
    /// Programs that listen to queues, by their sockets.
    pub queues: Vec<(u16, PathBuf)>,
    /// Fingerprints of operating systems.
    pub osf: Option<PathBuf>,
    /// The host's sockets.
    pub sockets: Option<PathBuf>,
    /// Settings of the host by the names of their sysctls.
    pub sysctls: Vec<(String, u32)>,
    pub json: bool,
    pub engine: Engine,
    pub code: CompileOptions,
    pub trace: bool,
    /// Whether the ruleset may run commands.
    pub allow_exec: bool,
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
        let (mut net, mut rules, mut write_dir, mut engine) = (None, None, None, None);
        let (mut conntrack_load, mut conntrack_dump) = (None, None);
        let (mut tc, mut log, mut nflog, mut conntrack) = (None, None, None, None);
        let (mut osf, mut sockets) = (None, None);
        let mut code = CompileOptions::default();
        let (mut sysctls, mut queues) = (Vec::new(), Vec::new());
        let (mut reads, mut json, mut trace, mut allow_exec) = (Vec::new(), false, false, false);
        while let Some(arg) = parser.next().map_err(sentence)? {
            match arg {
                Long("net") => once(&mut net, "--net", PathBuf::from(parser.value().map_err(sentence)?))?,
                Long("rules") => {
                    once(&mut rules, "--rules", PathBuf::from(parser.value().map_err(sentence)?))?
                }
                Long("read") => {
                    for value in parser.values().map_err(sentence)? {
                        reads.push(read(&value)?);
                    }
                }
                Long("write-dir") => {
                    once(&mut write_dir, "--write-dir", PathBuf::from(parser.value().map_err(sentence)?))?;
                }
                Long("tc") => once(&mut tc, "--tc", PathBuf::from(parser.value().map_err(sentence)?))?,
                Long("log") => once(&mut log, "--log", PathBuf::from(parser.value().map_err(sentence)?))?,
                Long("nflog") => {
                    once(&mut nflog, "--nflog", PathBuf::from(parser.value().map_err(sentence)?))?
                }
                Long("conntrack-load") => {
                    let file = PathBuf::from(parser.value().map_err(sentence)?);
                    once(&mut conntrack_load, "--conntrack-load", file)?;
                }
                Long("conntrack-dump") => {
                    let file = PathBuf::from(parser.value().map_err(sentence)?);
                    once(&mut conntrack_dump, "--conntrack-dump", file)?;
                }
                Long("conntrack") => {
                    once(&mut conntrack, "--conntrack", PathBuf::from(parser.value().map_err(sentence)?))?
                }
                Long("queue") => {
                    for value in parser.values().map_err(sentence)? {
                        let queue = queue(&value)?;
                        if queues.iter().any(|(num, _)| *num == queue.0) {
                            return Err(format!("--queue {} is given twice", queue.0));
                        }
                        queues.push(queue);
                    }
                }
                Long("osf") => once(&mut osf, "--osf", PathBuf::from(parser.value().map_err(sentence)?))?,
                Long("sockets") => {
                    once(&mut sockets, "--sockets", PathBuf::from(parser.value().map_err(sentence)?))?
                }
                Long("sysctl") => {
                    for value in parser.values().map_err(sentence)? {
                        sysctls.push(sysctl(&value)?);
                    }
                }
                Short('j') | Long("json") => json = true,
                Long("engine") => {
                    let name = parser.value().map_err(sentence)?;
                    let chosen = match name.to_str() {
                        Some("interpreter") => Engine::Interpreter,
                        // A run waits for the code: it has the captures before it.
                        Some("jit") => Engine::JitAtOnce,
                        _ => return Err(format!("--engine is jit or interpreter, not `{}`", name.display())),
                    };
                    once(&mut engine, "--engine", chosen)?;
                }
                Long("allow-exec") => allow_exec = true,
                Long("perf-map") => code.perf_map = true,
                Long("profile") => code.profile = true,
                Long("trace") => trace = true,
                Short('h') | Long("help") => return Ok(Wanted::Help),
                Value(value) => return Err(format!("unexpected argument `{}`", value.display())),
                other => return Err(sentence(other.unexpected())),
            }
        }
        if reads.is_empty() {
            return Err("--read is missing".into());
        }
        let engine = match engine {
            Some(Engine::Interpreter) if code != CompileOptions::default() => {
                return Err("--perf-map and --profile are of machine code: --engine jit".into());
            }
            Some(engine) => engine,
            // What is told of the code is told of all packets.
            None if code != CompileOptions::default() => Engine::JitAtOnce,
            None => Engine::Jit,
        };
        Ok(Wanted::Run(Box::new(Options {
            net: net.ok_or("--net is missing")?,
            rules: rules.ok_or("--rules is missing")?,
            reads,
            write_dir,
            tc,
            log,
            nflog,
            conntrack,
            conntrack_load,
            conntrack_dump,
            queues,
            osf,
            sockets,
            sysctls,
            json,
            engine,
            code,
            trace,
            allow_exec,
        })))
    }
}

fn sentence(error: lexopt::Error) -> String {
    error.to_string()
}

fn once<T>(slot: &mut Option<T>, option: &str, value: T) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{option} is given twice")),
    }
}

/// `NAME=VALUE`.
fn sysctl(value: &OsStr) -> Result<(String, u32), String> {
    let split = value.to_str().and_then(|v| v.split_once('='));
    split
        .and_then(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .ok_or_else(|| format!("--sysctl takes NAME=VALUE, a number, not `{}`", value.display()))
}

/// `N=SOCKET`.
fn queue(value: &OsStr) -> Result<(u16, PathBuf), String> {
    let wrong = || format!("--queue takes N=SOCKET, N up to 65535, not `{}`", value.display());
    let bytes = value.as_bytes();
    let at = bytes.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
    let num = std::str::from_utf8(&bytes[..at]).ok().and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
    match &bytes[at + 1..] {
        [] => Err(wrong()),
        socket => Ok((num, PathBuf::from(OsString::from_vec(socket.to_vec())))),
    }
}

/// `DEV=FILE`, `host=FILE`, `host:DEV=FILE`.
fn read(value: &OsStr) -> Result<Read, String> {
    let bytes = value.as_bytes();
    let wrong = || format!("--read takes DEV=FILE, not `{}`", value.display());
    let at = bytes.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
    let (device, file) = (std::str::from_utf8(&bytes[..at]).map_err(|_| wrong())?, &bytes[at + 1..]);
    if file.is_empty() {
        return Err(wrong());
    }
    let source = match device {
        "" | "host:" => return Err(wrong()),
        "host" => Source::Host,
        _ => match device.strip_prefix("host:") {
            Some(device) => Source::HostDevice(device.to_owned()),
            None => Source::Device(device.to_owned()),
        },
    };
    Ok(Read { source, file: PathBuf::from(OsString::from_vec(file.to_vec())) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Wanted, String> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_command_line_says_where_frames_come_from() {
        let Ok(Wanted::Run(o)) = parse(
            "--net n --rules r --read lan=l.pcap wan=w=2.pcap --read host=h --read=host:wan.5=- -j --write-dir d",
        ) else {
            panic!("a valid line")
        };
        let reads: Vec<_> = o.reads.iter().map(|r| (r.source.clone(), r.file.to_str().unwrap())).collect();
        assert_eq!(
            reads,
            [
                (Source::Device("lan".into()), "l.pcap"),
                (Source::Device("wan".into()), "w=2.pcap"),
                (Source::Host, "h"),
                (Source::HostDevice("wan.5".into()), "-"),
            ]
        );
        assert!(o.json && !o.trace && o.engine == Engine::Jit && o.write_dir == Some("d".into()));
        assert_eq!(parse("--net n -h"), Ok(Wanted::Help));
    }

    #[test]
    fn every_option_of_the_usage_text_is_taken() {
        for option in OPTIONS {
            for name in option.names() {
                for line in [name.clone(), format!("{name} lan=1")] {
                    let message = parse(&line).err().unwrap_or_default();
                    assert!(!message.contains("invalid option"), "{line}: {message}");
                }
            }
        }
    }

    #[test]
    fn wrong_command_lines_are_refused_in_words() {
        for (line, message) in [
            ("", "--read is missing"),
            ("--read a=b", "--net is missing"),
            ("--net n --read a=b", "--rules is missing"),
            ("--net n --net m", "--net is given twice"),
            ("--read", "missing argument for option '--read'"),
            ("--read lan", "--read takes DEV=FILE, not `lan`"),
            ("--read =x", "--read takes DEV=FILE, not `=x`"),
            ("--read lan=", "--read takes DEV=FILE, not `lan=`"),
            ("--read host:=x", "--read takes DEV=FILE, not `host:=x`"),
            (
                "--sysctl net.ipv4.ipfrag_time",
                "--sysctl takes NAME=VALUE, a number, not `net.ipv4.ipfrag_time`",
            ),
            ("--sysctl a=b", "--sysctl takes NAME=VALUE, a number, not `a=b`"),
            ("--queue 65536=s", "--queue takes N=SOCKET, N up to 65535, not `65536=s`"),
            ("--queue 1=", "--queue takes N=SOCKET, N up to 65535, not `1=`"),
            ("--queue 1=a 2=b 1=c", "--queue 1 is given twice"),
            ("--engine gpu", "--engine is jit or interpreter, not `gpu`"),
            (
                "--net n --rules r --read a=b --engine interpreter --profile",
                "--perf-map and --profile are of machine code: --engine jit",
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
