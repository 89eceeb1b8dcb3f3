// SPDX-License-Identifier: Apache-2.0

//! `penstock up`: the dataplane of the network namespace, in the foreground.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::errln;
use penstock_daemon::{
    Config, Driver, KeepState, OnDeath, PortConfig, QueueConfig, Violation, run,
};
use penstock_path::{Engine, Settings};
use penstock_program::cells::WORKERS;

use crate::nft;
use crate::options::{Opt, Values, flag, given, long, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const DRIVERS: [&str; 5] = ["auto", "packet", "xdp", "xdp-generic", "tap"];

const OPTIONS: &[Opt] = &[
    long("rules", "the initial ruleset, as for `nft -f`; read again on SIGHUP")
        .takes("FILE", Values::Files),
    long(
        "driver",
        "how frames are received and sent, for all ports or for one: packet (packet sockets, super-packets\n\
         stay whole), xdp (AF_XDP in its best working mode), xdp-generic, tap (the other end of a TAP);\n\
         default: the other end of a TAP that no program has open, AF_XDP where it needs no copies, else\n\
         packet sockets",
    )
    .takes("[DEV=]DRIVER...", Values::OneOf(&DRIVERS)),
    long(
        "workers",
        "number of packet threads, or auto: as many as the device with the most queues has, but no more\n\
         than there are processors; default: 1",
    )
    .takes("N", Values::Any),
    long("engine", "jit (machine code, made in the background) or interpreter; default: jit")
        .takes("ENGINE", Values::OneOf(&["interpreter", "jit"])),
    long("sysctl", "set timeouts and limits of the packet path, by their sysctl(8) names")
        .takes("NAME=VALUE...", Values::Any),
    long(
        "offload",
        "offload all flowtables, as with `flags offload`, where the devices can forward flows",
    ),
    long(
        "state",
        "keep ruleset, elements and connections in this file, and restore them from it; --rules applies only\n\
         if the file does not exist yet",
    )
    .takes("FILE", Values::Files),
    long("state-broken", "what to do with a broken state file: refuse (do not start; the default) or empty (start without state)")
        .takes("WHAT", Values::OneOf(&["refuse", "empty"])),
    long("metrics", "serve metrics by HTTP on this loopback address and port")
        .takes("ADDRESS:PORT", Values::Any),
    long("queue", "pass packets of queue N to the program that listens on this Unix socket; may be repeated")
        .takes("N=SOCKET...", Values::Any),
    long("batch-time", "time limit for the evaluation of a ruleset; default: 60")
        .takes("SECONDS", Values::Any),
    long("seccomp", "what to do with system calls that a thread does not need: refuse (the default), log, or kill (report and exit)")
        .takes("WHAT", Values::OneOf(&["refuse", "log", "kill"])),
    long("batch-memory", "memory limit for the evaluation of a ruleset, in MiB; default: 4096")
        .takes("MIB", Values::Any),
    long("no-seccomp", "do not filter system calls"),
    long("persist", "keep flows that devices forward in XDP if the process dies; DIR is in a file system of type bpf")
        .takes("DIR", Values::Files),
    long(
        "on-death",
        "what happens to the devices when the process dies: open (the kernel forwards; the default), closed (no\n\
         frame passes until the next start, or `penstock down --force`), or a ruleset that nft(8) loads into the\n\
         kernel before the devices are opened",
    )
    .takes("open|closed|FILE", Values::Files),
    long("hang-time", "end the process if its workers do not answer for this many seconds; default: 10, 0 means never")
        .takes("SECONDS", Values::Any),
    long("allow-read", "let users other than root list the ruleset, monitor, and show"),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock up DEV[=NAME]... [OPTIONS]\n\n\
         Makes each device a port of the dataplane. The host sees a TAP in its place, with the same name or with\n\
         NAME, and with the addresses, routes and other settings of the device. If the device is a TAP that no\n\
         program has open, the port is its other end. Runs until `penstock down`, SIGTERM or SIGINT.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 23));
    out
}

struct Options {
    ports: Vec<PortConfig>,
    workers: Option<usize>,
    rules: Option<PathBuf>,
    engine: Engine,
    settings: Settings,
    readers: bool,
    offload: bool,
    persist: Option<PathBuf>,
    state: Option<PathBuf>,
    go_on_without: bool,
    seccomp: Option<Violation>,
    metrics: Option<SocketAddr>,
    queues: Vec<QueueConfig>,
    batch_time: Duration,
    batch_memory: u64,
    on_death: OnDeath,
    hang_time: Duration,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut options = Options {
        ports: Vec::new(),
        workers: Some(1),
        rules: None,
        engine: Engine::Jit,
        settings: Settings::default(),
        readers: false,
        offload: false,
        persist: None,
        state: None,
        go_on_without: false,
        seccomp: Some(Violation::Refuse),
        metrics: None,
        queues: Vec::new(),
        batch_time: Duration::from_secs(60),
        batch_memory: 4096 << 20,
        on_death: OnDeath::Open,
        hang_time: Duration::from_secs(10),
    };
    let (mut driver, mut of_one) = (Driver::Auto, Vec::new());
    let mut parser = lexopt::Parser::from_args(args);
    let sentence = |e: lexopt::Error| e.to_string();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Long("rules") => options.rules = Some(parser.value().map_err(sentence)?.into()),
            Long("driver") => {
                let word = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let (device, word) = word
                    .split_once('=')
                    .map_or((None, &*word), |(device, word)| (Some(device), word));
                let found = Driver::NAMES.iter().find(|(name, _)| *name == word);
                let found =
                    found.map(|(_, d)| *d).ok_or_else(|| format!("there is no driver `{word}`"))?;
                match device {
                    Some(device) => of_one.push((device.to_owned(), found)),
                    None => driver = found,
                }
            }
            Long("workers") => {
                let text = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let number = || text.parse().ok().filter(|number| (1..=WORKERS).contains(number));
                options.workers = match &*text {
                    "auto" => None,
                    _ => Some(number().ok_or_else(|| {
                        format!("--workers takes `auto`, or a number from 1 to {WORKERS}")
                    })?),
                };
            }
            Long("engine") => match parser.value().map_err(sentence)?.to_str() {
                Some("jit") => {
                    penstock_jit::supported().map_err(|e| format!("--engine jit: {e}"))?;
                    options.engine = Engine::Jit;
                }
                Some("interpreter") => options.engine = Engine::Interpreter,
                other => return Err(format!("there is no engine `{}`", other.unwrap_or_default())),
            },
            Long("sysctl") => {
                for value in parser.values().map_err(sentence)? {
                    let text = value.to_string_lossy().into_owned();
                    let (name, number) = text
                        .split_once('=')
                        .and_then(|(name, value)| Some((name, value.parse::<u32>().ok()?)))
                        .ok_or_else(|| {
                            format!("--sysctl takes NAME=VALUE, a number, not `{text}`")
                        })?;
                    let set = options.settings.set_sysctl(name, number);
                    set.map_err(|_| {
                        format!("--sysctl: there is no {name} here, or it cannot be {number}")
                    })?;
                }
            }
            Long("persist") => options.persist = Some(parser.value().map_err(sentence)?.into()),
            Long("offload") => options.offload = true,
            Long("state") => options.state = Some(parser.value().map_err(sentence)?.into()),
            Long("state-broken") => match parser.value().map_err(sentence)?.to_str() {
                Some("refuse") => options.go_on_without = false,
                Some("empty") => options.go_on_without = true,
                _ => return Err("--state-broken takes `refuse` or `empty`".into()),
            },
            Long("batch-time") => {
                let text = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let seconds = text.parse().ok().filter(|s| *s > 0.0);
                let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
                options.batch_time =
                    time.ok_or_else(|| format!("--batch-time takes seconds, not `{text}`"))?;
            }
            Long("batch-memory") => {
                let text = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let bytes = text
                    .parse::<u64>()
                    .ok()
                    .filter(|m| *m > 0)
                    .and_then(|m| m.checked_mul(1 << 20));
                options.batch_memory =
                    bytes.ok_or_else(|| format!("--batch-memory takes MiB, not `{text}`"))?;
            }
            Long("on-death") => {
                let word = parser.value().map_err(sentence)?;
                options.on_death = match word.to_str() {
                    Some("open") => OnDeath::Open,
                    Some("closed") => OnDeath::Closed,
                    // It is loaded from wherever the process is then.
                    _ => OnDeath::Ruleset(
                        std::path::absolute(&word).map_err(|e| format!("--on-death: {e}"))?,
                    ),
                };
            }
            Long("hang-time") => {
                let text = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let time = text.parse().ok().and_then(|s: f64| Duration::try_from_secs_f64(s).ok());
                // Less is not told apart from a processor that others keep busy.
                let time = time.filter(|time| time.is_zero() || *time >= Duration::from_secs(1));
                options.hang_time = time.ok_or_else(|| {
                    format!("--hang-time takes seconds, 1 at least, or 0, not `{text}`")
                })?;
            }
            Long("metrics") => {
                let text = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let address = text.parse().ok().filter(|a: &SocketAddr| a.ip().is_loopback());
                options.metrics = Some(address.ok_or_else(|| {
                    format!("--metrics takes a loopback address and a port, such as 127.0.0.1:9900, not `{text}`")
                })?);
            }
            Long("queue") => {
                for value in parser.values().map_err(sentence)? {
                    let text = value.to_string_lossy().into_owned();
                    let queue = text
                        .split_once('=')
                        .and_then(|(num, socket)| Some((num.parse().ok()?, socket)));
                    let (num, socket) =
                        queue.ok_or_else(|| format!("--queue takes N=SOCKET, not `{text}`"))?;
                    if options.queues.iter().any(|q| q.num == num) {
                        return Err(format!("--queue {num} is given twice"));
                    }
                    options.queues.push(QueueConfig { num, socket: socket.into() });
                }
            }
            Long("seccomp") => {
                options.seccomp = Some(match parser.value().map_err(sentence)?.to_str() {
                    Some("refuse") => Violation::Refuse,
                    Some("log") => Violation::Log,
                    Some("kill") => Violation::Kill,
                    other => {
                        let other = other.unwrap_or_default();
                        return Err(format!("--seccomp takes refuse, log or kill, not `{other}`"));
                    }
                });
            }
            Long("no-seccomp") => options.seccomp = None,
            Long("allow-read") => options.readers = true,
            Long("help") | Short('h') => return Ok(None),
            Value(value) => {
                let text = value.to_string_lossy().into_owned();
                let (device, name) = text.split_once('=').unwrap_or((&text, &text));
                if device.is_empty() || name.is_empty() {
                    return Err(format!("`{text}` is not DEV or DEV=NAME"));
                }
                let port = PortConfig {
                    device: device.to_owned(),
                    name: name.to_owned(),
                    driver: Driver::Auto,
                };
                let taken = |p: &PortConfig| p.device == port.device || p.name == port.name;
                if options.ports.iter().any(taken) {
                    return Err(format!("`{text}` is given twice"));
                }
                options.ports.push(port);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    if options.ports.is_empty() {
        return Err("no device is given".into());
    }
    options.ports.iter_mut().for_each(|port| port.driver = driver);
    for (device, driver) in of_one {
        let port = options.ports.iter_mut().find(|port| port.device == device);
        port.ok_or_else(|| format!("--driver {device}=...: `{device}` is not among the ports"))?
            .driver = driver;
    }
    Ok(Some(options))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match given("up", parse(args), usage) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let config = Config {
        ports: options.ports,
        workers: options.workers,
        rules: options.rules,
        state: options.state.map(|path| KeepState { path, go_on_without: options.go_on_without }),
        readers: options.readers,
        seccomp: options.seccomp,
        metrics: options.metrics,
        queues: options.queues,
        batch_time: options.batch_time,
        batch_memory: options.batch_memory,
        on_death: options.on_death,
        hang_time: options.hang_time,
        engine: options.engine,
        offload: options.offload,
        persist: options.persist,
        settings: options.settings,
        nft: nft::call_of,
    };
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            errln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(line: &str) -> Result<Vec<(String, String)>, String> {
        let options = parse(line.split(' ').map(OsString::from))?.ok_or("help")?;
        Ok(options.ports.into_iter().map(|p| (p.device, p.name)).collect())
    }

    #[test]
    fn devices_are_ports_by_their_own_or_another_name() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            ports("eth0 --driver xdp eth1=lan"),
            Ok(vec![pair("eth0", "eth0"), pair("eth1", "lan")])
        );
        let line = "--driver tap0=tap tap0=guest --driver packet eth0";
        let options = parse(line.split(' ').map(OsString::from)).unwrap().unwrap();
        assert_eq!(
            options.ports.iter().map(|p| p.driver).collect::<Vec<_>>(),
            [Driver::Tap, Driver::Packet]
        );
        for (line, message) in [
            ("--driver packet", "no device is given"),
            ("eth0 eth0", "`eth0` is given twice"),
            ("eth0 eth1=eth0", "`eth1=eth0` is given twice"),
            ("eth0=", "`eth0=` is not DEV or DEV=NAME"),
            ("eth0 --driver dpdk", "there is no driver `dpdk`"),
            ("eth0 --driver eth0=dpdk", "there is no driver `dpdk`"),
            ("eth0 --driver eth1=xdp", "--driver eth1=...: `eth1` is not among the ports"),
            ("eth0 --workers 0", "--workers takes `auto`, or a number from 1 to 64"),
            ("eth0 --workers 65", "--workers takes `auto`, or a number from 1 to 64"),
            ("eth0 --workers all", "--workers takes `auto`, or a number from 1 to 64"),
            ("eth0 --sysctl a", "--sysctl takes NAME=VALUE, a number, not `a`"),
        ] {
            assert_eq!(ports(line), Err(message.to_owned()), "{line}");
        }
    }

    #[test]
    fn every_driver_has_its_word() {
        assert_eq!(Driver::NAMES.map(|(name, _)| name), DRIVERS);
    }
}
