// SPDX-License-Identifier: Apache-2.0

//! What `penstock diff`, `prove`, `ask` and `cover` have in common: rulesets that are evaluated over
//! all packets, the hooks of them, matches, and words for classes of packets.

pub mod change;
pub mod claims;
pub mod gate;
pub mod hooks;
pub mod judge;
pub mod load;
pub mod matches;
pub mod network;
pub mod opened;
pub mod remarks;
pub mod told;
pub mod watched;
pub mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use penstock_daemon::errln;
use penstock_net::Network;
use penstock_symbolic::Limits;

use crate::options::{Opt, Values, long};

/// `--rules`, which [`load::Source::given`] takes.
pub const RULES: Opt =
    long("rules", "the ruleset, as for `nft -f`, or a state file").takes("RULES", Values::Files);

/// `--live`, which [`load::Source::given`] takes.
pub const LIVE: Opt = long("live", "the ruleset of the running dataplane, in place of --rules");

/// `--write` of commands that show classes.
pub const WRITE: Opt =
    long("write", "write an example of each class to DIR, as captures for `penstock run --read`")
        .takes("DIR", Values::Directories);

/// The title that [`OPTIONS`] stand under.
pub const TITLE: &str = "Evaluation";

/// What [`Settings::take`] takes.
pub const OPTIONS: &[Opt] = &[
    long("chain", "only this base chain: its family, its table and its name")
        .takes("FAMILY TABLE CHAIN", Values::Any),
    long("hook", "only the chains of this hook").takes(
        "HOOK",
        Values::OneOf(&[
            "ingress",
            "prerouting",
            "input",
            "forward",
            "output",
            "postrouting",
            "egress",
        ]),
    ),
    long(
        "dynamic",
        "elements of sets that packets change: `any` (default), or as they are `listed`",
    )
    .takes("HOW", Values::OneOf(&["any", "listed"])),
    long("memory", "MiB for decision diagrams (default 1024)").takes("MIB", Values::Any),
    long("timeout", "seconds for each hook (default 60)").takes("SECONDS", Values::Any),
];

/// The title that [`NETWORK`] stands under.
pub const NETWORK_TITLE: &str = "Network";

/// What [`Settings::take`] takes, too, for commands that follow packets through a network.
pub const NETWORK: &[Opt] = &[
    long("net", "the whole way through a network, in place of each hook: lines for `ip -batch`")
        .takes("NET", Values::Files),
    long("sysctl", "with --net: set what the host does, by sysctl(8) names")
        .takes("NAME=VALUE", Values::Any),
];

/// The options as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `--chain`: family, table, name.
    pub chain: Option<[String; 3]>,
    /// `--hook`.
    pub hook: Option<String>,
    /// `--net`.
    pub net: Option<PathBuf>,
    /// `--sysctl`.
    pub sysctls: Vec<(String, u32)>,
    /// `--dynamic listed`.
    pub listed: bool,
    /// `--memory` and `--timeout`.
    pub limits: Limits,
}

/// Makes the directory of `--write`, if it is not there.
///
/// # Errors
/// The system's.
pub fn make_directory(directory: Option<&Path>) -> Result<(), String> {
    let Some(directory) = directory else { return Ok(()) };
    std::fs::create_dir_all(directory).map_err(|e| format!("Error: {}: {e}", directory.display()))
}

/// The exit status of an answer: 0 yes, 1 no, 2 after an error, which is printed.
pub fn status(answer: Result<bool, String>) -> ExitCode {
    match answer {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            errln!("{}", message.trim_end());
            ExitCode::from(2)
        }
    }
}

impl Settings {
    /// The network of `--net`.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn network(&self) -> Result<Option<Arc<Network>>, String> {
        match &self.net {
            Some(_) if self.chain.is_some() || self.hook.is_some() => {
                Err("Error: --net is about whole ways: no --chain and no --hook".to_owned())
            }
            Some(file) => network::network(file, self).map(Some),
            None if !self.sysctls.is_empty() => Err("Error: --sysctl is for --net".to_owned()),
            None => Ok(None),
        }
    }

    /// Takes the option of [`OPTIONS`] with this long name, and its value; `false` if it is none of
    /// them.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        use crate::setup::{sentence, sysctl};
        let mut value = || -> Result<String, String> {
            let value = parser.value().map_err(sentence)?;
            value.into_string().map_err(|_| format!("--{name}: this is no text"))
        };
        match name {
            "chain" => {
                let first = value()?;
                let mut words: Vec<String> = first.split_whitespace().map(str::to_owned).collect();
                while words.len() < 3 {
                    words.push(value()?);
                }
                let words = words.try_into();
                self.chain =
                    Some(words.map_err(|_| "--chain takes a family, a table and a chain")?);
            }
            "hook" => self.hook = Some(value()?),
            "net" => self.net = Some(value()?.into()),
            "sysctl" => self.sysctls.push(sysctl(std::ffi::OsStr::new(&value()?))?),
            "dynamic" => {
                self.listed = match &*value()? {
                    "any" => false,
                    "listed" => true,
                    other => return Err(format!("--dynamic: `{other}` is neither any nor listed")),
                }
            }
            "memory" => {
                let text = value()?;
                let mib = text.parse().ok().filter(|mib| (1..=1 << 20).contains(mib));
                let mib: usize = mib.ok_or_else(|| format!("--memory: `{text}` is no number"))?;
                self.limits.memory = mib << 20;
            }
            "timeout" => {
                let text = value()?;
                let seconds = text.parse().ok().filter(|s| (1..=1_000_000).contains(s));
                let seconds: u64 =
                    seconds.ok_or_else(|| format!("--timeout: `{text}` is no number"))?;
                self.limits.time = Duration::from_secs(seconds);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
