// SPDX-License-Identifier: Apache-2.0

//! What is asked for: devices, rules, and how the dataplane works.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_dataplane::{Engine, Settings};
use penstock_net::DevconfSysctls;
use penstock_state::{Broken, State as Kept};
use serde::{Deserialize, Serialize};

use crate::bpf::Loaded;
use crate::control::NftCall;
use crate::log;
use crate::proofs::{ClaimsText, Prover};
use crate::seccomp::Violation;

/// A device that becomes a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The device.
    pub device: String,
    /// Its name for the host and for rules.
    pub name: String,
    /// What carries its frames.
    pub driver: Driver,
    /// It may be missing at the start, and is taken when it is there and up.
    pub may_come_later: bool,
}

/// Devices that become ports if they have a name like this, as soon as they are up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPattern {
    /// The pattern: `*` is any text, `?` any character.
    pub pattern: String,
    /// What carries their frames.
    pub driver: Driver,
}

impl PortPattern {
    /// Whether a word is a pattern, and not a name.
    pub fn is_pattern(word: &str) -> bool {
        word.contains(['*', '?'])
    }

    /// Whether it is the name of a device that is meant.
    pub fn matches(&self, name: &str) -> bool {
        fn matches(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern.split_first(), name.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), _) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
                (Some((b'?', rest)), Some((_, name))) => matches(rest, name),
                (Some((one, rest)), Some((other, name))) => one == other && matches(rest, name),
                (Some(_), None) | (None, Some(_)) => false,
            }
        }
        matches(self.pattern.as_bytes(), name.as_bytes())
    }
}

/// Which devices are ports, or are to be as soon as they are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortWishes {
    /// Devices by their names, in their order.
    pub named: Vec<PortConfig>,
    /// Devices by patterns.
    pub patterns: Vec<PortPattern>,
}

/// Where ruleset, elements and connections are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepState {
    /// The file.
    pub path: PathBuf,
    /// If it is broken, the dataplane begins without a state; else it does not begin.
    pub go_on_without: bool,
}

impl KeepState {
    /// What an earlier dataplane has left, or what is wrong with it, if that is no reason to end.
    /// The file stays as it is.
    pub(crate) fn read(&self) -> Result<(Option<Kept>, Option<Broken>), String> {
        let path = self.path.display();
        let broken =
            match Kept::read(&self.path, crate::now()).map_err(|e| format!("{path}: {e}"))? {
                None => return Ok((None, None)),
                Some(Ok(kept)) => return Ok((Some(kept), None)),
                Some(Err(broken)) => broken,
            };
        if !self.go_on_without {
            return Err(format!(
                "{path}: {broken}\nMove it away, or begin without it: --state-broken empty keeps it as {path}.broken."
            ));
        }
        Ok((None, Some(broken)))
    }

    /// Gives a broken file another name.
    pub(crate) fn set_aside(&self, broken: &Broken) -> Result<(), String> {
        let path = self.path.display();
        let aside = penstock_files::set_aside(&self.path, ".broken")
            .map_err(|e| format!("{path}.broken: {e}"))?;
        log(format_args!("the state is LOST: {path}: {broken}; it is kept as {}", aside.display()));
        Ok(())
    }
}

/// What carries frames from and to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// AF_XDP without copies where the device's driver can, else packet sockets.
    #[default]
    Auto,
    /// Packet sockets: super-packets pass whole.
    Packet,
    /// AF_XDP, however it works: the best for small packets.
    Xdp,
    /// AF_XDP in the kernel's generic way.
    XdpGeneric,
    /// The other end of a TAP without a user.
    Tap,
}

impl Driver {
    /// By the words of the command line.
    pub const NAMES: [(&str, Driver); 5] = [
        ("auto", Driver::Auto),
        ("packet", Driver::Packet),
        ("xdp", Driver::Xdp),
        ("xdp-generic", Driver::XdpGeneric),
        ("tap", Driver::Tap),
    ];
}

/// What happens to the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDeath {
    /// The kernel forwards.
    #[default]
    Open,
    /// No frame passes.
    Closed,
    /// No frame passes before this ruleset is in the kernel's nf_tables.
    Ruleset(PathBuf),
}

impl OnDeath {
    /// Whether devices are closed from the moment of death on.
    pub(crate) fn closes(&self) -> bool {
        *self != OnDeath::Open
    }
}

/// Where lines go that rules log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RuleLog {
    /// Standard error, as the log of the dataplane.
    #[default]
    Stderr,
    /// The journal of systemd, with the level as its priority.
    Journal,
    /// The socket of the system's logger, with the level as its priority (syslog(3)).
    Syslog,
    /// A file.
    File {
        /// Its path; rotated ones have `.1`, `.2` and so on after it, the oldest last.
        path: PathBuf,
        /// Bytes at which it is rotated; 0 for never.
        size: u64,
        /// How many rotated ones are kept.
        files: usize,
    },
}

/// Where chains at ingress of a device run in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ingress {
    /// In the driver if it can, cuts no super-packets for it, and XDP has all that the rules ask
    /// for; else at tcx.
    #[default]
    Auto,
    /// XDP, in the driver.
    Xdp,
    /// XDP, in the kernel's generic way.
    XdpGeneric,
    /// tcx.
    Tcx,
}

impl Ingress {
    /// By the words of the command line.
    pub const NAMES: [(&str, Ingress); 4] = [
        ("auto", Ingress::Auto),
        ("xdp", Ingress::Xdp),
        ("xdp-generic", Ingress::XdpGeneric),
        ("tcx", Ingress::Tcx),
    ];
}

/// A ruleset that runs in the kernel: `penstock attach`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachConfig {
    /// Devices that chains may be attached to, by name; empty for all that the ruleset names.
    pub devices: Vec<(String, Ingress)>,
    /// What has no code is left out, and not refused.
    pub partial: bool,
    /// What has no code runs in the kernel's nf_tables.
    pub with_kernel: bool,
    /// Chains of a hook with nothing of the kernel's between them are one program.
    pub translate: bool,
}

impl AttachConfig {
    /// Where chains at ingress of a device run; `None` if none may.
    pub(crate) fn ingress(&self, device: &str) -> Option<Ingress> {
        match &*self.devices {
            [] => Some(Ingress::Auto),
            devices => devices.iter().find(|(name, _)| name == device).map(|(_, at)| *at),
        }
    }
}

/// Reads the configuration again. The error is what is to be printed.
pub type Reread = Arc<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// A queue, and where its program listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its number.
    pub num: u16,
    /// The program's socket.
    pub socket: PathBuf,
}

/// What the evaluation of a ruleset may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Time.
    pub time: Duration,
    /// Bytes of memory, besides the ruleset in force.
    pub memory: u64,
}

impl Default for BatchLimits {
    /// A minute and 4 GiB.
    fn default() -> Self {
        BatchLimits { time: Duration::from_secs(60), memory: 4096 << 20 }
    }
}

/// A setting that may change while others read it.
#[derive(Debug, Default)]
pub struct Shared<T>(Mutex<T>);

impl<T: Clone> Shared<T> {
    /// This, to begin with.
    pub fn new(value: T) -> Self {
        Shared(Mutex::new(value))
    }

    /// What counts.
    pub fn get(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Something else counts from now on.
    pub fn set(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

/// What is asked for.
pub struct Config {
    /// Devices.
    pub ports: PortWishes,
    /// Number of worker threads; `None` for the number of device queues, at most that of
    /// processors.
    pub workers: Option<usize>,
    /// The ruleset to begin with, read again at `SIGHUP`.
    pub rules: Option<PathBuf>,
    /// The ruleset of `rules` counts, even if there is a kept one.
    pub rules_first: bool,
    /// Where ruleset and connections are kept from one process to the next.
    pub state: Option<KeepState>,
    /// Users other than root may look.
    pub readers: bool,
    /// What happens to the ports when the process dies.
    pub on_death: OnDeath,
    /// How long the process may do no packets before its guardian ends it; zero for however long.
    pub hang_time: Duration,
    /// The effect of system calls that a thread does not need; `None` without a filter.
    pub seccomp: Option<Violation>,
    /// What the evaluation of a ruleset may take.
    pub batch: Shared<BatchLimits>,
    /// What runs the chains.
    pub engine: Engine,
    /// All flowtables are for devices, as far as these can forward flows.
    pub offload: bool,
    /// A directory of a file system of type bpf: programs that forward flows stay on devices when
    /// the process dies.
    pub persist: Option<PathBuf>,
    /// The ruleset runs in the kernel; there are no ports.
    pub attach: Option<AttachConfig>,
    /// Settings of the path.
    pub settings: Settings,
    /// Sysctls that `settings` have and that count instead of the host's, by name.
    pub sysctls: BTreeMap<String, u32>,
    /// Settings of devices that count instead of the host's.
    pub devconf: DevconfSysctls,
    /// Reads the arguments of `penstock nft`: the grammar is the program's. The error is the
    /// message.
    pub nft: fn(&[String]) -> Result<NftCall, String>,
    /// What each ruleset is to keep: a change after which it does not hold is refused.
    pub claims: Shared<Option<ClaimsText>>,
    /// Who says whether claims hold.
    pub prover: Prover,
    /// A loopback address and port where metrics can be asked for by HTTP.
    pub metrics: Option<SocketAddr>,
    /// Programs that rules give packets to.
    pub queues: Vec<QueueConfig>,
    /// The other firewall of a pair, as conntrackd.conf(5) has it.
    pub sync: Option<penstock_ctsync::config::Config>,
    /// BPF programs at hooks.
    pub bpf: Loaded,
    /// Where lines of rules go.
    pub rule_log: RuleLog,
    /// Nothing is said of rules of the kernel's own that packets meet as well.
    pub kernel_rules_known: bool,
    /// Names and values of all settings as they were given, to see what has changed.
    pub texts: Vec<(&'static str, String)>,
    /// Reads the configuration again, where it is a file.
    pub reread: Option<Reread>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("veth*", "veth0", true),
            ("veth*", "veth", true),
            ("veth*", "xveth0", false),
            ("*", "", true),
            ("*.10", "eth0.10", true),
            ("*.10", "eth0.100", false),
            ("e?h*0", "eth00", true),
            ("e?h*0", "eth01", false),
        ] {
            let pattern = PortPattern { pattern: pattern.into(), driver: Driver::Auto };
            assert_eq!(pattern.matches(name), expected, "{pattern:?} {name}");
        }
    }
}
