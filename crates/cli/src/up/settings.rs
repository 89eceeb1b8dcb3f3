// SPDX-License-Identifier: Apache-2.0

//! The settings of a dataplane: options of `penstock up`, and keys of its configuration file. One
//! table has both, so that they cannot differ.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use penstock_daemon::bpf::{Attach, Loaded};
use penstock_daemon::proofs::ClaimsText;
use penstock_daemon::{
    AttachConfig, BatchLimits, Config, Driver, KeepState, OnDeath, PortConfig, PortPattern,
    PortWishes, QueueConfig, RuleLog, Shared, Violation,
};
use penstock_dataplane::{Engine, Settings};
use penstock_program::cells::WORKERS;

use crate::agent::beside::Beside;
use crate::nft;
use crate::options::{Opt, Values, long};
use crate::symbolic::gate;

/// How a setting is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An option without argument; `true` or `false` in the file.
    Flag,
    /// One value; a text or a number in the file.
    One,
    /// Several values: a list in the file, or a table where they are NAME=VALUE.
    Several,
}

/// A setting.
pub struct Setting {
    /// The option. Its long name is the key.
    pub option: Opt,
    /// How it is given.
    pub form: Form,
    /// Takes a value; nothing for a flag. The error continues a sentence that begins with the name
    /// of the option or key.
    pub take: fn(&mut Given, &str) -> Result<(), String>,
}

impl Setting {
    /// The long name of the option: the key.
    pub fn name(&self) -> &'static str {
        self.option.long.unwrap_or_default()
    }

    /// The setting with this name.
    pub fn of(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name() == name)
    }
}

const DRIVERS: [&str; 5] = ["auto", "packet", "xdp", "xdp-generic", "tap"];

/// All settings.
pub const SETTINGS: [Setting; 29] = [
    Setting {
        option: long(
            "ports",
            "devices that become ports when they are there and up: names, or patterns such as 'veth*', by\n\
             which the port ends with the device",
        )
        .takes("DEV[=NAME]...", Values::Any),
        form: Form::Several,
        take: |given, text| given.port(text, true).map_err(|e| format!(": {e}")),
    },
    Setting {
        option: long("rules", "the initial ruleset, as for `nft -f`; read again on SIGHUP")
            .takes("FILE", Values::Files),
        form: Form::One,
        take: |given, text| {
            given.config.rules = Some(text.into());
            Ok(())
        },
    },
    Setting {
        option: long(
            "claims",
            "refuse each change of the ruleset after which a claim of this file does not hold, as `penstock prove`\n\
             decides it",
        )
        .takes("FILE", Values::Files),
        form: Form::One,
        take: |given, text| claims(text).map(|claims| given.config.claims.set(Some(claims))),
    },
    Setting {
        option: long(
            "source",
            "run `penstock agent` on this store beside the dataplane, which gets its rulesets from there",
        )
        .takes("URL", Values::Any),
        form: Form::One,
        take: |given, text| {
            given.source = Some(text.to_owned());
            Ok(())
        },
    },
    Setting {
        option: long(
            "agent",
            "options of `penstock agent`, without their dashes: key=FILE, node=NAME, label=NAME=VALUE, ...",
        )
        .takes("OPTION=VALUE...", Values::Any),
        form: Form::Several,
        take: |given, text| {
            let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, value) = pair.ok_or_else(|| format!(" takes OPTION=VALUE, not `{text}`"))?;
            given.agent.push(format!("--{name}={value}"));
            Ok(())
        },
    },
    Setting {
        option: long(
            "driver",
            "how frames are received and sent, for all ports or for one: packet (packet sockets, super-packets\n\
             stay whole), xdp (AF_XDP in its best working mode), xdp-generic, tap (the other end of a TAP);\n\
             default: the other end of a TAP that no program has open, AF_XDP where it needs no copies, else\n\
             packet sockets",
        )
        .takes("[DEV=]DRIVER...", Values::OneOf(&DRIVERS)),
        form: Form::Several,
        take: Given::driver,
    },
    Setting {
        option: long(
            "workers",
            "number of packet threads, or auto: as many as the device with the most queues has, but no more\n\
             than there are processors; default: 1",
        )
        .takes("N", Values::Any),
        form: Form::One,
        take: |given, text| workers(text).map(|workers| given.config.workers = workers),
    },
    Setting {
        option: long(
            "engine",
            "jit (machine code, made in the background) or interpreter; default: jit",
        )
        .takes("ENGINE", Values::OneOf(&["interpreter", "jit"])),
        form: Form::One,
        take: |given, text| engine(text).map(|engine| given.config.engine = engine),
    },
    Setting {
        option: long(
            "sysctl",
            "set timeouts and limits of the packet path, by their sysctl(8) names",
        )
        .takes("NAME=VALUE...", Values::Any),
        form: Form::Several,
        take: |given, text| sysctl(text, &mut given.config),
    },
    Setting {
        option: long(
            "offload",
            "offload all flowtables, as with `flags offload`, where the devices can forward flows",
        ),
        form: Form::Flag,
        take: |given, _| {
            given.config.offload = true;
            Ok(())
        },
    },
    Setting {
        option: long(
            "state",
            "keep ruleset, elements and connections in this file, and restore them from it; --rules applies only\n\
             if the file does not exist yet",
        )
        .takes("FILE", Values::Files),
        form: Form::One,
        take: |given, text| {
            given.state = Some(text.into());
            Ok(())
        },
    },
    Setting {
        option: long(
            "state-broken",
            "what to do with a broken state file: refuse (do not start; the default) or empty (start without state)",
        )
        .takes("WHAT", Values::OneOf(&["refuse", "empty"])),
        form: Form::One,
        take: |given, text| {
            given.go_on_without = match text {
                "refuse" => false,
                "empty" => true,
                _ => return Err(" takes `refuse` or `empty`".into()),
            };
            Ok(())
        },
    },
    Setting {
        option: long(
            "rules-first",
            "load --rules even if --state has a ruleset; connections of --state continue",
        ),
        form: Form::Flag,
        take: |given, _| {
            given.config.rules_first = true;
            Ok(())
        },
    },
    Setting {
        option: long(
            "rule-log",
            "where lines of `log` statements go: stderr (the default), journal, syslog, or a file",
        )
        .takes("stderr|journal|syslog|FILE", Values::Files),
        form: Form::One,
        take: |given, text| {
            given.rule_log = text.to_owned();
            Ok(())
        },
    },
    Setting {
        option: long("rule-log-size", "size at which that file is rotated, in MiB; default: 64, 0 means never")
            .takes("MIB", Values::Any),
        form: Form::One,
        take: |given, text| {
            let size = text.parse().ok().and_then(|mib: u64| mib.checked_mul(1 << 20));
            given.rule_log_size = size.ok_or_else(|| format!(" takes MiB, not `{text}`"))?;
            Ok(())
        },
    },
    Setting {
        option: long("rule-log-files", "how many rotated files are kept; default: 4")
            .takes("N", Values::Any),
        form: Form::One,
        take: |given, text| {
            let files = text.parse().ok().filter(|files| (1..=1000).contains(files));
            given.rule_log_files =
                files.ok_or_else(|| format!(" takes a number from 1 to 1000, not `{text}`"))?;
            Ok(())
        },
    },
    Setting {
        option: long("metrics", "serve metrics by HTTP on this loopback address and port")
            .takes("ADDRESS:PORT", Values::Any),
        form: Form::One,
        take: |given, text| metrics(text).map(|address| given.config.metrics = Some(address)),
    },
    Setting {
        option: long(
            "queue",
            "pass packets of queue N to the program that listens on this Unix socket; may be repeated",
        )
        .takes("N=SOCKET...", Values::Any),
        form: Form::Several,
        take: |given, text| queue(text, &mut given.config.queues),
    },
    Setting {
        option: long(
            "sync",
            "tell connections to other firewalls, and keep those of them: a file as of conntrackd.conf(5);\n\
             `penstock failover` takes them over",
        )
        .takes("FILE", Values::Files),
        form: Form::One,
        take: |given, text| {
            let read = std::fs::read_to_string(text).map_err(|e| format!(": {text}: {e}"))?;
            let sync = penstock_ctsync::config::Config::read(&read);
            given.config.sync = Some(sync.map_err(|e| format!(": {text}: {e}"))?);
            Ok(())
        },
    },
    Setting {
        option: long(
            "bpf",
            "a BPF program of an object at a hook, as for `penstock run`: xdp:DEV, tc-ingress:DEV, tc-egress:DEV,\n\
             or [FAMILY:]HOOK[@PRIORITY]; may be repeated",
        )
        .takes("HOOK=FILE[:PROGRAM]...", Values::Any),
        form: Form::Several,
        take: |given, text| {
            given.bpf.push(Attach::parse(text.as_ref()).map_err(|e| format!(": {e}"))?);
            Ok(())
        },
    },
    Setting {
        option: long("batch-time", "time limit for the evaluation of a ruleset; default: 60")
            .takes("SECONDS", Values::Any),
        form: Form::One,
        take: |given, text| {
            let time = batch_time(text)?;
            given.config.batch.set(BatchLimits { time, ..given.config.batch.get() });
            Ok(())
        },
    },
    Setting {
        option: long(
            "seccomp",
            "what to do with system calls that a thread does not need: refuse (the default), log, or kill (report and exit)",
        )
        .takes("WHAT", Values::OneOf(&["refuse", "log", "kill"])),
        form: Form::One,
        take: |given, text| seccomp(text).map(|seccomp| given.config.seccomp = Some(seccomp)),
    },
    Setting {
        option: long(
            "batch-memory",
            "memory limit for the evaluation of a ruleset, in MiB; default: 4096",
        )
        .takes("MIB", Values::Any),
        form: Form::One,
        take: |given, text| {
            let memory = batch_memory(text)?;
            given.config.batch.set(BatchLimits { memory, ..given.config.batch.get() });
            Ok(())
        },
    },
    Setting {
        option: long("no-seccomp", "do not filter system calls"),
        form: Form::Flag,
        take: |given, _| {
            given.config.seccomp = None;
            Ok(())
        },
    },
    Setting {
        option: long(
            "persist",
            "keep flows that devices forward in XDP if the process dies; DIR is in a file system of type bpf",
        )
        .takes("DIR", Values::Files),
        form: Form::One,
        take: |given, text| {
            given.config.persist = Some(text.into());
            Ok(())
        },
    },
    Setting {
        option: long(
            "on-death",
            "what happens to the devices when the process dies: open (the kernel forwards; the default), closed (no\n\
             frame passes until the next start, or `penstock down --force`), or a ruleset that nft(8) loads into the\n\
             kernel before the devices are opened",
        )
        .takes("open|closed|FILE", Values::Files),
        form: Form::One,
        take: |given, text| on_death(text).map(|action| given.config.on_death = action),
    },
    Setting {
        option: long(
            "hang-time",
            "end the process if its workers do not answer for this many seconds; default: 10, 0 means never",
        )
        .takes("SECONDS", Values::Any),
        form: Form::One,
        take: |given, text| hang_time(text).map(|time| given.config.hang_time = time),
    },
    Setting {
        option: long("allow-read", "let users other than root list the ruleset, monitor, and show"),
        form: Form::Flag,
        take: |given, _| {
            given.config.readers = true;
            Ok(())
        },
    },
    Setting {
        option: long(
            "allow-kernel-rules",
            "do not say which nftables rules of the kernel packets meet as well",
        ),
        form: Form::Flag,
        take: |given, _| {
            given.config.kernel_rules_known = true;
            Ok(())
        },
    },
];

/// What was given, as far as it is read.
pub struct Given {
    config: Config,
    /// The driver of ports that have none of their own.
    driver: Driver,
    /// Drivers of single devices, or of patterns.
    drivers: Vec<(String, Driver)>,
    /// Programs at hooks.
    bpf: Vec<Attach>,
    /// The store of an agent, and its other options.
    source: Option<String>,
    agent: Vec<String>,
    state: Option<PathBuf>,
    go_on_without: bool,
    rule_log: String,
    rule_log_size: u64,
    rule_log_files: usize,
}

impl Default for Given {
    fn default() -> Self {
        let config = Config {
            ports: PortWishes::default(),
            workers: Some(1),
            rules: None,
            rules_first: false,
            state: None,
            readers: false,
            on_death: OnDeath::Open,
            hang_time: Duration::from_secs(10),
            seccomp: Some(Violation::Refuse),
            batch: Shared::new(BatchLimits::default()),
            engine: Engine::Jit,
            offload: false,
            attach: None,
            persist: None,
            settings: Settings::default(),
            sysctls: Default::default(),
            devconf: Default::default(),
            nft: nft::call_of,
            claims: Shared::default(),
            prover: gate::PROVER,
            metrics: None,
            queues: Vec::new(),
            rule_log: RuleLog::Stderr,
            kernel_rules_known: false,
            texts: Vec::new(),
            reread: None,
            sync: None,
            bpf: Loaded::default(),
        };
        Given {
            config,
            driver: Driver::Auto,
            drivers: Vec::new(),
            bpf: Vec::new(),
            source: None,
            agent: Vec::new(),
            state: None,
            go_on_without: false,
            rule_log: "stderr".into(),
            rule_log_size: 64 << 20,
            rule_log_files: 4,
        }
    }
}

impl Given {
    /// Takes a value of a setting.
    ///
    /// # Errors
    /// The rest of a sentence that begins with the setting's name.
    pub fn take(&mut self, setting: &Setting, text: &str) -> Result<(), String> {
        (setting.take)(self, text)?;
        self.config.texts.push((setting.name(), text.to_owned()));
        Ok(())
    }

    /// A device, `DEV` or `DEV=NAME`, or a pattern, where it may come later.
    pub fn port(&mut self, text: &str, may_come_later: bool) -> Result<(), String> {
        let (device, name) = text.split_once('=').unwrap_or((text, text));
        if device.is_empty() || name.is_empty() {
            return Err(format!("`{text}` is not DEV or DEV=NAME"));
        }
        let ports = &mut self.config.ports;
        let driver = Driver::Auto;
        if PortPattern::is_pattern(device) {
            if !may_come_later {
                return Err(format!("`{text}` is a pattern, which --ports is for"));
            }
            if name != device {
                return Err(format!("`{text}` cannot give one name to several devices"));
            }
            if ports.patterns.iter().all(|pattern| pattern.pattern != device) {
                ports.patterns.push(PortPattern { pattern: device.to_owned(), driver });
            }
            return Ok(());
        }
        let (device, name) = (device.to_owned(), name.to_owned());
        let port = PortConfig { device, name, driver, may_come_later };
        let taken = |p: &PortConfig| p.device == port.device || p.name == port.name;
        if ports.named.iter().any(taken) {
            return Err(format!("`{text}` is given twice"));
        }
        ports.named.push(port);
        Ok(())
    }

    /// `DRIVER` or `DEV=DRIVER`.
    fn driver(&mut self, text: &str) -> Result<(), String> {
        let (device, word) =
            text.split_once('=').map_or((None, text), |(device, word)| (Some(device), word));
        let found = Driver::NAMES.iter().find(|(name, _)| *name == word);
        let found =
            found.map(|(_, d)| *d).ok_or_else(|| format!(": there is no driver `{word}`"))?;
        match device {
            Some(device) => self.drivers.push((device.to_owned(), found)),
            None => self.driver = found,
        }
        Ok(())
    }

    /// A ruleset that runs in the kernel, if it makes sense together.
    pub fn attached(mut self, attach: AttachConfig) -> Result<Config, String> {
        self.config.attach = Some(attach);
        // Packets meet programs of the kernel, and rules of its own where their priorities say so.
        self.config.engine = Engine::Interpreter;
        self.config.kernel_rules_known = true;
        self.whole()
    }

    /// The agent that is to run beside the dataplane, if one is.
    ///
    /// # Errors
    /// Its options are wrong.
    pub fn agent(&self) -> Result<Option<Beside>, String> {
        match &self.source {
            Some(source) => Beside::new(source, &self.agent).map(Some),
            None if self.agent.is_empty() => Ok(None),
            None => Err("agent: there is no source that it could ask".into()),
        }
    }

    /// A dataplane with ports, if it makes sense together.
    pub fn config(self) -> Result<Config, String> {
        let mut given = self;
        let (driver, drivers) = (given.driver, std::mem::take(&mut given.drivers));
        let ports = &mut given.config.ports;
        if ports.named.is_empty() && ports.patterns.is_empty() {
            return Err("no device is given".into());
        }
        ports.named.iter_mut().for_each(|port| port.driver = driver);
        ports.patterns.iter_mut().for_each(|pattern| pattern.driver = driver);
        for (device, driver) in drivers {
            let named = ports.named.iter_mut().filter(|port| port.device == device);
            let named = named.map(|port| &mut port.driver);
            let patterns = ports.patterns.iter_mut().filter(|p| p.pattern == device);
            let mut wished = named.chain(patterns.map(|pattern| &mut pattern.driver));
            let place = wished
                .next()
                .ok_or_else(|| format!("driver {device}=...: `{device}` is not among the ports"))?;
            *place = driver;
        }
        given.whole()
    }

    fn whole(self) -> Result<Config, String> {
        let Given { mut config, state, go_on_without, .. } = self;
        config.bpf = Loaded::load(&self.bpf)?;
        config.state = state.map(|path| KeepState { path, go_on_without });
        if config.rules_first && config.rules.is_none() {
            return Err("rules-first: there are no rules to load first".into());
        }
        config.rule_log = match &*self.rule_log {
            "stderr" => RuleLog::Stderr,
            "journal" => RuleLog::Journal,
            "syslog" => RuleLog::Syslog,
            path => RuleLog::File {
                path: std::path::absolute(path).map_err(|e| format!("rule-log: {e}"))?,
                size: self.rule_log_size,
                files: self.rule_log_files,
            },
        };
        Ok(config)
    }
}

fn workers(text: &str) -> Result<Option<usize>, String> {
    let number = || text.parse().ok().filter(|number| (1..=WORKERS).contains(number));
    match text {
        "auto" => Ok(None),
        _ => number()
            .map(Some)
            .ok_or_else(|| format!(" takes `auto`, or a number from 1 to {WORKERS}")),
    }
}

fn engine(text: &str) -> Result<Engine, String> {
    match text {
        "jit" => {
            penstock_jit::supported().map_err(|e| format!(" jit: {e}"))?;
            Ok(Engine::Jit)
        }
        "interpreter" => Ok(Engine::Interpreter),
        other => Err(format!(": there is no engine `{other}`")),
    }
}

fn sysctl(text: &str, config: &mut Config) -> Result<(), String> {
    let (name, number) = text
        .split_once('=')
        .and_then(|(name, value)| Some((name, value.parse::<u32>().ok()?)))
        .ok_or_else(|| format!(" takes NAME=VALUE, a number, not `{text}`"))?;
    if config.devconf.set(name, number).map_err(|e| format!(": {e}"))? {
        return Ok(());
    }
    let set = config.settings.set_sysctl(name, number);
    set.map_err(|_| format!(": there is no {name} here, or it cannot be {number}"))?;
    config.sysctls.insert(name.to_owned(), number);
    Ok(())
}

fn batch_time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| *s > 0.0);
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.ok_or_else(|| format!(" takes seconds, not `{text}`"))
}

fn batch_memory(text: &str) -> Result<u64, String> {
    let mebibytes = text.parse::<u64>().ok().filter(|m| *m > 0);
    let bytes = mebibytes.and_then(|m| m.checked_mul(1 << 20));
    bytes.ok_or_else(|| format!(" takes MiB, not `{text}`"))
}

fn on_death(word: &str) -> Result<OnDeath, String> {
    match word {
        "open" => Ok(OnDeath::Open),
        "closed" => Ok(OnDeath::Closed),
        // It is loaded from wherever the process is then.
        _ => std::path::absolute(word).map(OnDeath::Ruleset).map_err(|e| format!(": {e}")),
    }
}

fn claims(file: &str) -> Result<ClaimsText, String> {
    let claims = gate::of_file(file).map_err(|e| format!(": {e}"))?;
    gate::read(&claims).map_err(|e| format!(":\n{e}"))?;
    Ok(claims)
}

fn hang_time(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|s: f64| Duration::try_from_secs_f64(s).ok());
    // Less is not told apart from a processor that others keep busy.
    let time = time.filter(|time| time.is_zero() || *time >= Duration::from_secs(1));
    time.ok_or_else(|| format!(" takes seconds, 1 at least, or 0, not `{text}`"))
}

fn metrics(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok().filter(|a: &SocketAddr| a.ip().is_loopback());
    address.ok_or_else(|| {
        format!(" takes a loopback address and a port, such as 127.0.0.1:9900, not `{text}`")
    })
}

fn queue(text: &str, queues: &mut Vec<QueueConfig>) -> Result<(), String> {
    let queue = text.split_once('=').and_then(|(num, socket)| Some((num.parse().ok()?, socket)));
    let (num, socket) = queue.ok_or_else(|| format!(" takes N=SOCKET, not `{text}`"))?;
    if queues.iter().any(|q| q.num == num) {
        return Err(format!(": {num} is given twice"));
    }
    queues.push(QueueConfig { num, socket: socket.into() });
    Ok(())
}

fn seccomp(text: &str) -> Result<Violation, String> {
    match text {
        "refuse" => Ok(Violation::Refuse),
        "log" => Ok(Violation::Log),
        "kill" => Ok(Violation::Kill),
        other => Err(format!(" takes refuse, log or kill, not `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_has_a_keyword() {
        assert_eq!(Driver::NAMES.map(|(name, _)| name), DRIVERS);
    }

    #[test]
    fn flags_take_no_argument_and_others_do() {
        for setting in &SETTINGS {
            let takes = setting.option.argument.is_some();
            assert_eq!(takes, setting.form != Form::Flag, "{}", setting.name());
            assert_eq!(
                setting.option.argument.is_some_and(|a| a.name.ends_with("...")),
                setting.form == Form::Several,
                "{}",
                setting.name()
            );
        }
    }
}
