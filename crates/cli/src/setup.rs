// SPDX-License-Identifier: Apache-2.0

//! The host that packets meet: what the command line says about it, for all commands that send
//! packets through a ruleset.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_daemon::errln;
use penstock_dataplane::{
    Dataplane, Fingerprints, Settings, SysctlError, can_offload, can_run_chains,
};
use penstock_files::Access;
use penstock_net::{DevconfSysctls, Mac, Network};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_system::SystemFiles;

use crate::input::Captures;
use crate::learn::{self, Learned};
use crate::options::{Opt, Values, long};
use crate::recognise::{Given, hinted, hinted_by};
use crate::rules::{self, NetNames};
use crate::sockets;

/// What a network without a file is called.
const LEARNED: &str = "the network of the captures";

/// What network and rules of the running dataplane are called.
const LIVE: &str = "the running dataplane";

/// The title that [`OPTIONS`] stand under.
pub const TITLE: &str = "The host";

/// What [`Setup::take`] takes.
pub const OPTIONS: &[Opt] = &[
    long(
        "net",
        "the network: interfaces, addresses, routes and neighbours, as lines for `ip -batch`;\n\
         without it, it is learned from the captures",
    )
    .takes("NET", Values::Files),
    long("net-out", "write the network that was learned to FILE, as lines for --net")
        .takes("FILE", Values::Files),
    long("learn-neighbours", "add the neighbours that captures show to those of --net"),
    long("link-address", "the link address of DEV, where captures do not tell it")
        .takes("DEV=ADDRESS...", Values::Any),
    long("rules", "the ruleset, as for `nft -f`").takes("RULES", Values::Files),
    long(
        "state",
        "in place of --rules: the ruleset that `penstock nft --state` and `penstock exec` keep",
    )
    .takes("FILE", Values::Files),
    long("zero", "set the counters of the ruleset to zero at the start"),
    long("allow-exec", "let the ruleset run commands: define NAME = exec(\"COMMAND\")"),
    long("tc", "filters and queues of devices, as lines for `tc -batch`")
        .takes("FILE", Values::Files),
    long("conntrack-load", "start with the connections in FILE, as written by --conntrack-dump")
        .takes("FILE", Values::Files),
    long("sockets", "the host's sockets, for `socket` and `tproxy`: see penstock-run(1)")
        .takes("FILE", Values::Files),
    long("osf", "fingerprints of operating systems for `osf`, in the format of OpenBSD's pf.os")
        .takes("FILE", Values::Files),
    long("sysctl", "set timeouts and limits of the host, by their sysctl(8) names")
        .takes("NAME=VALUE...", Values::Any),
];

/// The options as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    net: Option<PathBuf>,
    rules: Option<PathBuf>,
    state: Option<PathBuf>,
    tc: Option<PathBuf>,
    conntrack_load: Option<PathBuf>,
    osf: Option<PathBuf>,
    sockets: Option<PathBuf>,
    sysctls: Vec<(String, u32)>,
    allow_exec: bool,
    zero: bool,
    /// Where the network that was learned is written.
    net_out: Option<PathBuf>,
    learn_neighbours: bool,
    link_addresses: Vec<(String, Mac)>,
}

impl Setup {
    /// Takes the option of [`OPTIONS`] with this long name, and its value; `false` if it is none of
    /// them.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        let slot = match name {
            "net" => &mut self.net,
            "rules" => &mut self.rules,
            "state" => &mut self.state,
            "tc" => &mut self.tc,
            "conntrack-load" => &mut self.conntrack_load,
            "osf" => &mut self.osf,
            "sockets" => &mut self.sockets,
            "net-out" => &mut self.net_out,
            "learn-neighbours" => {
                self.learn_neighbours = true;
                return Ok(true);
            }
            "link-address" => {
                for value in parser.values().map_err(sentence)? {
                    self.link_addresses.push(link_address(&value)?);
                }
                return Ok(true);
            }
            "zero" => {
                self.zero = true;
                return Ok(true);
            }
            "allow-exec" => {
                self.allow_exec = true;
                return Ok(true);
            }
            "sysctl" => {
                for value in parser.values().map_err(sentence)? {
                    self.sysctls.push(sysctl(&value)?);
                }
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let name = format!("--{name}");
        once(slot, &name, PathBuf::from(parser.value().map_err(sentence)?))?;
        Ok(true)
    }

    /// The same host with the rules of another file.
    pub fn with_rules(self, rules: &Path) -> Setup {
        Setup { rules: Some(rules.to_owned()), state: None, ..self }
    }

    /// This, and what `below` says in addition. Where both say something, this one counts.
    pub fn over(self, below: Setup) -> Setup {
        let has_rules = self.rules.is_some() || self.state.is_some();
        let of_below = |file: Option<PathBuf>| file.filter(|_| !has_rules);
        let mut sysctls = below.sysctls;
        sysctls.extend(self.sysctls);
        let mut link_addresses = below.link_addresses;
        link_addresses.extend(self.link_addresses);
        Setup {
            net: self.net.or(below.net),
            rules: self.rules.or(of_below(below.rules)),
            state: self.state.or(of_below(below.state)),
            tc: self.tc.or(below.tc),
            conntrack_load: self.conntrack_load.or(below.conntrack_load),
            osf: self.osf.or(below.osf),
            sockets: self.sockets.or(below.sockets),
            sysctls,
            allow_exec: self.allow_exec || below.allow_exec,
            zero: self.zero || below.zero,
            net_out: self.net_out.or(below.net_out),
            learn_neighbours: self.learn_neighbours || below.learn_neighbours,
            link_addresses,
        }
    }

    /// Whether [`lines`](Self::lines) name the file of the network, also where it is learned.
    pub fn names_net(&self) -> Result<(), String> {
        match self.net_out.is_none() && (self.net.is_none() || self.learn_neighbours) {
            true => Err("--net is missing, or --net-out for the one that is learned".to_owned()),
            false => Ok(()),
        }
    }

    /// What it says, as lines of a file of tests.
    pub fn lines(&self) -> String {
        let files = [
            ("net", if self.net_out.is_some() { &self.net_out } else { &self.net }),
            ("rules", &self.rules),
            ("state", &self.state),
            ("tc", &self.tc),
            ("conntrack-load", &self.conntrack_load),
            ("osf", &self.osf),
            ("sockets", &self.sockets),
        ];
        let files = files.into_iter().filter_map(|(name, file)| {
            file.as_ref().map(|file| format!("{name} {}\n", file.display()))
        });
        let sysctls = self.sysctls.iter().map(|(name, value)| format!("sysctl {name}={value}\n"));
        let flags = [("zero", self.zero), ("allow-exec", self.allow_exec)];
        let flags = flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| format!("{name}\n"));
        files.chain(sysctls).chain(flags).collect()
    }

    /// The files that are read.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let Setup { net, rules, state, tc, conntrack_load, osf, sockets, .. } = self;
        [net, rules, state, tc, conntrack_load, osf, sockets]
            .into_iter()
            .filter_map(|f| f.as_deref())
    }

    /// Whether what cannot be missing is there, with captures that are read, too.
    pub fn check(&self, captures: &Captures) -> Result<(), String> {
        let reads = captures.reads.iter().map(|read| &*read.file);
        if self.files().chain(reads).filter(|file| file.as_os_str() == "-").count() > 1 {
            return Err("standard input can be read once only".to_owned());
        }
        let is_learned = self.net.is_none();
        let wrong = match (is_learned, self.learn_neighbours) {
            (true, _) if captures.reads.is_empty() => Some("--net is missing"),
            (true, true) => Some("--learn-neighbours adds to a --net, which is missing"),
            (false, false) if self.net_out.is_some() => {
                Some("--net-out writes what is learned: without --net, or by --learn-neighbours")
            }
            (false, true) if captures.reads.is_empty() => Some("--learn-neighbours needs a --read"),
            (false, _) if !self.link_addresses.is_empty() => {
                Some("--link-address and --net exclude each other")
            }
            (..) => None,
        };
        if let Some(wrong) = wrong {
            return Err(wrong.to_owned());
        }
        match (&self.net, &self.rules, &self.state) {
            (_, None, None) => Err("--rules is missing".to_owned()),
            (_, Some(_), Some(_)) => Err("--rules and --state exclude each other".to_owned()),
            _ => Ok(()),
        }
    }

    /// The rules and the network are those of the running dataplane.
    ///
    /// # Errors
    /// Others are given, too.
    pub fn take_live(&mut self) -> Result<(), String> {
        if self.net.is_some() || self.rules.is_some() || self.state.is_some() {
            return Err("--live has the network and the rules: no --net, --rules or --state".into());
        }
        (self.net, self.rules) = (Some(LIVE.into()), Some(LIVE.into()));
        Ok(())
    }

    /// The network of lines, with the settings of its devices.
    pub fn network_of(&self, lines: &str) -> Result<Network, String> {
        let net = Network::from_batch(LIVE, lines).map_err(|e| format!("Error: {e}"))?;
        self.with_settings(net)
    }

    /// The file with the network.
    pub fn net(&self) -> &Path {
        self.net.as_deref().unwrap_or(Path::new(LEARNED))
    }

    /// The file with the rules, as text or as a state.
    pub fn rules(&self) -> &Path {
        self.rules.as_deref().or(self.state.as_deref()).unwrap_or(Path::new(""))
    }

    /// Reads the network, or learns it from captures, with the settings of its devices.
    pub fn network(&self, captures: &Captures) -> Result<Network, String> {
        let parsed = |text: &str| {
            let name = self.net().display().to_string();
            Network::from_batch(&name, text).map_err(|e| {
                hinted_by(&format!("Error: {e}"), self.net(), text.as_bytes(), Given::Net)
            })
        };
        let net = match &self.net {
            None => {
                let learned = learn::network(captures, &self.link_addresses)?;
                let net = parsed(&learned.lines)?;
                self.tell(&learned, &learned.lines, "network")?;
                net
            }
            Some(file) => {
                let text = read(file).map_err(|e| hinted(&e.to_string(), file, Given::Net))?;
                let net = parsed(&text)?;
                match self.learn_neighbours {
                    false => net,
                    true => {
                        let learned = learn::neighbours(captures, &net)?;
                        let separator = if text.ends_with('\n') { "" } else { "\n" };
                        let whole = format!("{text}{separator}{}", learned.lines);
                        let net = parsed(&whole)?;
                        self.tell(&learned, &whole, "neighbours")?;
                        net
                    }
                }
            }
        };
        self.with_settings(net)
    }

    /// A network with the settings of devices that were given.
    fn with_settings(&self, net: Network) -> Result<Network, String> {
        with_sysctls(net, self.net(), &self.sysctls)
    }

    /// Says what was learned, and writes the whole network to the file that was asked for.
    fn tell(&self, learned: &Learned, whole: &str, what: &str) -> Result<(), String> {
        /// Lines that are printed at most.
        const LINES: usize = 40;
        let lines: Vec<&str> = learned.lines.lines().filter(|l| !l.starts_with('#')).collect();
        errln!("note: the {what} that the captures show ({} lines):", lines.len());
        for line in lines.iter().take(LINES) {
            errln!("    {line}");
        }
        if lines.len() > LINES {
            errln!("    ... {} more; --net-out FILE writes all", lines.len() - LINES);
        }
        for note in &learned.notes {
            errln!("note: {note}");
        }
        match &self.net_out {
            None => Ok(()),
            Some(file) => penstock_files::create(file, Access::Owner)
                .and_then(|mut out| out.write_all(whole.as_bytes()))
                .map_err(|e| format!("Error: {}: {e}", file.display())),
        }
    }

    /// Loads the ruleset at a time, in nanoseconds since the epoch. What it lists is printed.
    pub fn ruleset(&self, names: &NetNames<'_>, now: u64, json: bool) -> Result<Ruleset, String> {
        // No device of a run forwards flows or runs chains itself.
        let offloads = |linked: &Linked| {
            can_offload(names.net(), &linked.flowtables, &[])?;
            can_run_chains(names.net(), linked, &[])
        };
        let ruleset = match &self.state {
            Some(file) => rules::restore(file, &offloads, now)?,
            None => {
                let files = SystemFiles { allow_exec: self.allow_exec };
                rules::load(self.rules(), &files, names, &offloads, now, json)?
            }
        };
        let generation = ruleset.generation();
        if self.zero {
            generation.zero(now);
        } else if generation.has_counted(now) {
            errln!(
                "note: counters go on from what {} says; --zero begins at zero",
                self.rules().display()
            );
        }
        Ok(ruleset)
    }

    /// The host with its rules, as it is at a time.
    pub fn dataplane(
        &self,
        net: &Arc<Network>,
        ruleset: &Ruleset,
        now: u64,
    ) -> Result<Dataplane, String> {
        let mut settings = Settings::default();
        // Those of devices are in the network.
        let mut devconf = DevconfSysctls::default();
        for (name, value) in &self.sysctls {
            if devconf.set(name, *value).is_ok_and(|is_of_devices| is_of_devices) {
                continue;
            }
            settings.set_sysctl(name, *value).map_err(|e| match e {
                SysctlError::Unknown => format!("Error: --sysctl: there is no {name} here"),
                SysctlError::Value => format!("Error: --sysctl: {name} cannot be {value}"),
            })?;
        }
        settings.conntrack.check_room(1).map_err(|e| format!("Error: --sysctl: {e}"))?;
        let linked = Linked::new(&ruleset.generation())
            .map_err(|e| format!("{}: Error: {e}", self.rules().display()))?;
        linked.image.build_lookups();
        let mut path = Dataplane::new(net.clone(), settings);
        path.set_rules(Arc::new(linked));
        if let Some(file) = &self.tc {
            let index = |device: &str| net.link_by_name(device).map(|l| l.index);
            let config =
                penstock_tc::Config::from_batch(&file.display().to_string(), &read(file)?, index);
            path.set_tc(Arc::new(config.map_err(|e| format!("Error: {e}"))?));
        }
        if let Some(file) = &self.conntrack_load {
            let loaded = path.conntrack_mut().load(&read(file)?, now);
            loaded.map_err(|e| format!("Error: {}: {e}", file.display()))?;
        }
        if let Some(file) = &self.osf {
            let known = Fingerprints::parse(&read(file)?)
                .map_err(|e| format!("Error: {}:{}: {}", file.display(), e.line, e.reason))?;
            path.set_fingerprints(Arc::new(known));
        }
        if let Some(file) = &self.sockets {
            path.set_sockets(Box::new(sockets::read(file, net)?));
        }
        Ok(path)
    }
}

pub fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("Error: {}: {e}", file.display()))
}

/// What is wrong with a command line, in words.
pub fn sentence(error: lexopt::Error) -> String {
    error.to_string()
}

/// Keeps the value of an option that can be given once.
pub fn once<T>(slot: &mut Option<T>, option: &str, value: T) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{option} is given twice")),
    }
}

/// `DEV=ADDRESS`.
fn link_address(value: &OsStr) -> Result<(String, Mac), String> {
    let split = value.to_str().and_then(|v| v.split_once('='));
    split
        .and_then(|(name, address)| Some((name.to_owned(), address.parse().ok()?)))
        .filter(|(name, address): &(String, Mac)| !name.is_empty() && !address.is_group())
        .ok_or_else(|| {
            format!(
                "--link-address takes DEV=ADDRESS, as `eth0=02:00:00:00:00:01`, not `{}`",
                value.display()
            )
        })
}

/// A network of a file with the settings of its devices that are among sysctls.
///
/// # Errors
/// A setting cannot be so, or its device is not there.
pub fn with_sysctls(
    net: Network,
    file: &Path,
    sysctls: &[(String, u32)],
) -> Result<Network, String> {
    let mut devconf = DevconfSysctls::default();
    for (name, value) in sysctls {
        devconf.set(name, *value).map_err(|e| format!("Error: --sysctl: {e}"))?;
    }
    match net.missing_device(&devconf) {
        Some(name) => Err(format!("Error: --sysctl: {} has no device `{name}`", file.display())),
        None => Ok(net.with_sysctls(&devconf)),
    }
}

/// `NAME=VALUE`.
pub fn sysctl(value: &OsStr) -> Result<(String, u32), String> {
    let split = value.to_str().and_then(|v| v.split_once('='));
    split
        .and_then(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .ok_or_else(|| format!("--sysctl takes NAME=VALUE, a number, not `{}`", value.display()))
}
