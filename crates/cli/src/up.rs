// SPDX-License-Identifier: Apache-2.0

//! `penstock up`: the dataplane of the network namespace, in the foreground.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::bpf::{Attach, Loaded};
use penstock_daemon::errln;
use penstock_daemon::{
    Config, Driver, KeepState, OnDeath, PortConfig, QueueConfig, Violation, run,
};
use penstock_dataplane::{Engine, Settings};
use penstock_program::cells::WORKERS;

use crate::nft;
use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;

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
    long(
        "bpf",
        "a BPF program of an object at a hook, as for `penstock run`: xdp:DEV, tc-ingress:DEV, tc-egress:DEV,\n\
         or [FAMILY:]HOOK[@PRIORITY]; may be repeated",
    )
    .takes("HOOK=FILE[:PROGRAM]...", Values::Any),
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

/// The command line, as far as it is read.
struct Given {
    config: Config,
    /// The driver of ports that have none of their own.
    driver: Driver,
    /// Drivers of single devices.
    drivers: Vec<(String, Driver)>,
    state: Option<PathBuf>,
    go_on_without: bool,
    /// Programs at hooks.
    bpf: Vec<Attach>,
}

impl Default for Given {
    fn default() -> Self {
        let config = Config {
            ports: Vec::new(),
            workers: Some(1),
            rules: None,
            state: None,
            readers: false,
            on_death: OnDeath::Open,
            hang_time: Duration::from_secs(10),
            seccomp: Some(Violation::Refuse),
            batch_time: Duration::from_secs(60),
            batch_memory: 4096 << 20,
            engine: Engine::Jit,
            offload: false,
            persist: None,
            settings: Settings::default(),
            sysctls: Default::default(),
            devconf: Default::default(),
            nft: nft::call_of,
            metrics: None,
            queues: Vec::new(),
            bpf: Loaded::default(),
        };
        let (driver, drivers) = (Driver::Auto, Vec::new());
        Given { config, driver, drivers, state: None, go_on_without: false, bpf: Vec::new() }
    }
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Config>, String> {
    let mut given = Given::default();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') => return Ok(None),
            Long(name) => {
                let name = name.to_owned();
                if name == "help" {
                    return Ok(None);
                }
                given.take(&name, &mut parser)?;
            }
            Value(value) => given.port(&value.to_string_lossy())?,
            other @ Short(_) => return Err(sentence(other.unexpected())),
        }
    }
    given.config().map(Some)
}

/// The value of an option, as text.
fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    Ok(parser.value().map_err(sentence)?.to_string_lossy().into_owned())
}

/// All values of an option, as texts.
fn texts(parser: &mut lexopt::Parser) -> Result<Vec<String>, String> {
    let values = parser.values().map_err(sentence)?;
    Ok(values.map(|value| value.to_string_lossy().into_owned()).collect())
}

/// A file or directory.
fn path(parser: &mut lexopt::Parser) -> Result<PathBuf, String> {
    parser.value().map(PathBuf::from).map_err(sentence)
}

impl Given {
    /// Takes an option.
    fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), String> {
        let config = &mut self.config;
        match name {
            "rules" => config.rules = Some(path(parser)?),
            "driver" => self.driver(&text(parser)?)?,
            "workers" => config.workers = workers(&text(parser)?)?,
            "engine" => config.engine = engine(&text(parser)?)?,
            "sysctl" => texts(parser)?.iter().try_for_each(|text| sysctl(text, config))?,
            "persist" => config.persist = Some(path(parser)?),
            "offload" => config.offload = true,
            "state" => self.state = Some(path(parser)?),
            "state-broken" => {
                self.go_on_without = match &*text(parser)? {
                    "refuse" => false,
                    "empty" => true,
                    _ => return Err("--state-broken takes `refuse` or `empty`".into()),
                }
            }
            "batch-time" => config.batch_time = batch_time(&text(parser)?)?,
            "batch-memory" => config.batch_memory = batch_memory(&text(parser)?)?,
            "on-death" => config.on_death = on_death(&path(parser)?)?,
            "hang-time" => config.hang_time = hang_time(&text(parser)?)?,
            "metrics" => config.metrics = Some(metrics(&text(parser)?)?),
            "queue" => {
                texts(parser)?.iter().try_for_each(|text| queue(text, &mut config.queues))?
            }
            "bpf" => {
                for value in parser.values().map_err(sentence)? {
                    self.bpf.push(Attach::parse(&value)?);
                }
            }
            "seccomp" => config.seccomp = Some(seccomp(&text(parser)?)?),
            "no-seccomp" => config.seccomp = None,
            "allow-read" => config.readers = true,
            _ => return Err(sentence(Long(name).unexpected())),
        }
        Ok(())
    }

    /// `DEV` or `DEV=NAME`.
    fn port(&mut self, text: &str) -> Result<(), String> {
        let (device, name) = text.split_once('=').unwrap_or((text, text));
        if device.is_empty() || name.is_empty() {
            return Err(format!("`{text}` is not DEV or DEV=NAME"));
        }
        let (device, name) = (device.to_owned(), name.to_owned());
        let port = PortConfig { device, name, driver: Driver::Auto };
        let taken = |p: &PortConfig| p.device == port.device || p.name == port.name;
        if self.config.ports.iter().any(taken) {
            return Err(format!("`{text}` is given twice"));
        }
        self.config.ports.push(port);
        Ok(())
    }

    /// `DRIVER` or `DEV=DRIVER`.
    fn driver(&mut self, text: &str) -> Result<(), String> {
        let (device, word) =
            text.split_once('=').map_or((None, text), |(device, word)| (Some(device), word));
        let found = Driver::NAMES.iter().find(|(name, _)| *name == word);
        let found = found.map(|(_, d)| *d).ok_or_else(|| format!("there is no driver `{word}`"))?;
        match device {
            Some(device) => self.drivers.push((device.to_owned(), found)),
            None => self.driver = found,
        }
        Ok(())
    }

    /// All of it, if it makes sense together.
    fn config(self) -> Result<Config, String> {
        let Given { mut config, driver, drivers, state, go_on_without, bpf } = self;
        if config.ports.is_empty() {
            return Err("no device is given".into());
        }
        config.ports.iter_mut().for_each(|port| port.driver = driver);
        for (device, driver) in drivers {
            let port = config.ports.iter_mut().find(|port| port.device == device);
            port.ok_or_else(|| {
                format!("--driver {device}=...: `{device}` is not among the ports")
            })?
            .driver = driver;
        }
        config.bpf = Loaded::load(&bpf)?;
        config.state = state.map(|path| KeepState { path, go_on_without });
        Ok(config)
    }
}

fn workers(text: &str) -> Result<Option<usize>, String> {
    let number = || text.parse().ok().filter(|number| (1..=WORKERS).contains(number));
    match text {
        "auto" => Ok(None),
        _ => number()
            .map(Some)
            .ok_or_else(|| format!("--workers takes `auto`, or a number from 1 to {WORKERS}")),
    }
}

fn engine(text: &str) -> Result<Engine, String> {
    match text {
        "jit" => {
            penstock_jit::supported().map_err(|e| format!("--engine jit: {e}"))?;
            Ok(Engine::Jit)
        }
        "interpreter" => Ok(Engine::Interpreter),
        other => Err(format!("there is no engine `{other}`")),
    }
}

fn sysctl(text: &str, config: &mut Config) -> Result<(), String> {
    let (name, number) = text
        .split_once('=')
        .and_then(|(name, value)| Some((name, value.parse::<u32>().ok()?)))
        .ok_or_else(|| format!("--sysctl takes NAME=VALUE, a number, not `{text}`"))?;
    if config.devconf.set(name, number).map_err(|e| format!("--sysctl: {e}"))? {
        return Ok(());
    }
    let set = config.settings.set_sysctl(name, number);
    set.map_err(|_| format!("--sysctl: there is no {name} here, or it cannot be {number}"))?;
    config.sysctls.insert(name.to_owned());
    Ok(())
}

fn batch_time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| *s > 0.0);
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.ok_or_else(|| format!("--batch-time takes seconds, not `{text}`"))
}

fn batch_memory(text: &str) -> Result<u64, String> {
    let mebibytes = text.parse::<u64>().ok().filter(|m| *m > 0);
    let bytes = mebibytes.and_then(|m| m.checked_mul(1 << 20));
    bytes.ok_or_else(|| format!("--batch-memory takes MiB, not `{text}`"))
}

fn on_death(word: &Path) -> Result<OnDeath, String> {
    match word.to_str() {
        Some("open") => Ok(OnDeath::Open),
        Some("closed") => Ok(OnDeath::Closed),
        // It is loaded from wherever the process is then.
        _ => {
            std::path::absolute(word).map(OnDeath::Ruleset).map_err(|e| format!("--on-death: {e}"))
        }
    }
}

fn hang_time(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|s: f64| Duration::try_from_secs_f64(s).ok());
    // Less is not told apart from a processor that others keep busy.
    let time = time.filter(|time| time.is_zero() || *time >= Duration::from_secs(1));
    time.ok_or_else(|| format!("--hang-time takes seconds, 1 at least, or 0, not `{text}`"))
}

fn metrics(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok().filter(|a: &SocketAddr| a.ip().is_loopback());
    address.ok_or_else(|| {
        format!(
            "--metrics takes a loopback address and a port, such as 127.0.0.1:9900, not `{text}`"
        )
    })
}

fn queue(text: &str, queues: &mut Vec<QueueConfig>) -> Result<(), String> {
    let queue = text.split_once('=').and_then(|(num, socket)| Some((num.parse().ok()?, socket)));
    let (num, socket) = queue.ok_or_else(|| format!("--queue takes N=SOCKET, not `{text}`"))?;
    if queues.iter().any(|q| q.num == num) {
        return Err(format!("--queue {num} is given twice"));
    }
    queues.push(QueueConfig { num, socket: socket.into() });
    Ok(())
}

fn seccomp(text: &str) -> Result<Violation, String> {
    match text {
        "refuse" => Ok(Violation::Refuse),
        "log" => Ok(Violation::Log),
        "kill" => Ok(Violation::Kill),
        other => Err(format!("--seccomp takes refuse, log or kill, not `{other}`")),
    }
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let config = match given("up", parse(args), usage) {
        Ok(config) => config,
        Err(status) => return status,
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
    fn every_driver_has_a_keyword() {
        assert_eq!(Driver::NAMES.map(|(name, _)| name), DRIVERS);
    }
}
