// SPDX-License-Identifier: Apache-2.0

//! `penstock agent`: keeps the dataplane of the network namespace on what a fleet has published.
//!
//! | file | is |
//! | --- | --- |
//! | [`host`] | where rulesets are put in force |
//! | [`beside`] | an agent that `penstock up` starts |

pub mod beside;
pub mod host;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lexopt::Arg::{Long, Short};
use penstock_agent::{Agent, Host, Settings};
use penstock_daemon::errln;
use penstock_fleet::canary::Node;
use penstock_fleet::key::PublicKey;
use penstock_fleet::report::is_node_name;

use crate::fleet::source::{self, Source};
use crate::options::{Opt, Values, flag, given, long, pair, text, usage_lines};
use crate::setup::sentence;
use host::{Dataplane, DryRun, Simulated};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (source::TITLE, source::OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("key", "the public keys that may sign, a line each: what `penstock fleet key` wrote")
        .takes("FILE", Values::Files),
    long("node", "the name of this node; default: the name of the host").takes("NAME", Values::Any),
    long("label", "a label that canaries and definitions select nodes by; may be repeated")
        .takes("NAME=VALUE", Values::Any),
    long("state", "where the last good ruleset is kept; default: /var/lib/penstock/agent")
        .takes("DIR", Values::Directories),
    long("health", "a command of the shell that has to succeed after a change; may be repeated")
        .takes("COMMAND", Values::Any),
    long("confirm", "a change is rolled back unless all is well in this time; default: 30")
        .takes("SECONDS", Values::Any),
    long("lease", "a report ends unless it is renewed in this time; default: 30")
        .takes("SECONDS", Values::Any),
    long("compare", "sets are compared with what is in force about this often; default: 60")
        .takes("SECONDS", Values::Any),
    long("dry-run", "evaluate and report, without a dataplane"),
    long(
        "simulate",
        "be N nodes, NAME-1 to NAME-N, that read, check and report, and evaluate nothing: to try a store",
    )
    .takes("N", Values::Any),
    flag('h', "help", "print this text"),
];

/// Where the last good ruleset is kept.
const STATE: &str = "/var/lib/penstock/agent";

fn usage() -> String {
    format!(
        "Usage: penstock agent --source URL --key FILE [OPTIONS]\n\n\
         Waits for rulesets that `penstock fleet` publishes, checks their signature, has them tested and put in\n\
         force by the dataplane of this network namespace, rolls them back if the node is not well, and reports.\n\n\
         {}\n{}:\n{}",
        usage_lines(OPTIONS, 20),
        source::TITLE,
        usage_lines(source::OPTIONS, 20)
    )
}

#[derive(Debug)]
struct Asked {
    source: Source,
    settings: Settings,
    dry_run: bool,
    simulate: Option<usize>,
}

/// So many nodes are simulated at most: each has a thread.
const NODES: usize = 10_000;

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut source = Source::default();
    let (mut keys, mut node, mut dry_run) = (None, None, false);
    let mut simulate = None;
    let mut labels = BTreeMap::new();
    let mut state = PathBuf::from(STATE);
    let mut health = Vec::new();
    let (mut confirm, mut lease) = (Duration::from_secs(30), Duration::from_secs(30));
    let mut compare = Duration::from_secs(60);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("key") => keys = Some(PathBuf::from(parser.value().map_err(sentence)?)),
            Long("node") => node = Some(value(&mut parser)?),
            Long("label") => {
                let label = value(&mut parser)?;
                let (name, value) = pair("label", "NAME=VALUE", &label, '=')?;
                if name == "node" {
                    return Err(format!("--label takes NAME=VALUE, not `{label}`"));
                }
                labels.insert(name, value);
            }
            Long("state") => state = parser.value().map_err(sentence)?.into(),
            Long("health") => health.push(value(&mut parser)?),
            Long("confirm") => confirm = seconds("confirm", &value(&mut parser)?, 2)?,
            Long("lease") => lease = seconds("lease", &value(&mut parser)?, 3)?,
            Long("compare") => compare = seconds("compare", &value(&mut parser)?, 1)?,
            Long("dry-run") => dry_run = true,
            Long("simulate") => {
                let nodes = value(&mut parser)?.parse().ok().filter(|n| (1..=NODES).contains(n));
                let wrong = || format!("--simulate takes a number of nodes from 1 to {NODES}");
                simulate = Some(nodes.ok_or_else(wrong)?);
            }
            Long(name) => {
                let name = name.to_owned();
                if !source.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            other => return Err(sentence(other.unexpected())),
        }
    }
    source.given()?;
    let keys = keys.ok_or("--key FILE is missing: whose signature is trusted?")?;
    let keys = PublicKey::read_all(&keys)?;
    let name = node.map_or_else(host_name, Ok)?;
    if !is_node_name(&name) {
        return Err(format!("`{name}` is no name of a node: letters, digits, dots and dashes"));
    }
    let node = Node { name, labels };
    let state = Some(state);
    let settings = Settings { node, keys, state, health, confirm, lease, compare };
    if simulate.is_some() && dry_run {
        return Err("--simulate and --dry-run do not go together".into());
    }
    Ok(Some(Asked { source, settings, dry_run, simulate }))
}

/// The value of an option.
fn value(parser: &mut lexopt::Parser) -> Result<String, String> {
    text(parser.value().map_err(sentence)?)
}

fn seconds(option: &str, text: &str, least: u64) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (least..=3600).contains(seconds));
    let wrong = || format!("--{option} takes a number of seconds from {least} to 3600");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// The name of the host.
fn host_name() -> Result<String, String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map(|name| name.trim().to_owned()).map_err(|e| format!("the name of the host: {e}"))
}

/// A signal to end came.
static ENDED: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_signal: libc::c_int) {
    ENDED.store(true, Ordering::Relaxed);
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("agent", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    let handler = end as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler stores to an atomic, and nothing more.
    unsafe {
        libc::signal(libc::SIGTERM, handler);
        libc::signal(libc::SIGINT, handler);
    }
    let Asked { source, settings, dry_run, simulate } = asked;
    let ran = match simulate {
        Some(nodes) => run_many(&source, &settings, nodes),
        None if dry_run => run(&source, settings, &mut DryRun::default()),
        None => run(&source, settings, &mut Dataplane::default()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            errln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs an agent until a signal.
fn run(source: &Source, settings: Settings, host: &mut dyn Host) -> Result<(), String> {
    let open = || source.open();
    Agent::new(settings, &open)?.run(host, &|| ENDED.load(Ordering::Relaxed));
    Ok(())
}

/// Runs many agents until a signal, each with a memory of its own.
fn run_many(source: &Source, settings: &Settings, nodes: usize) -> Result<(), String> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=nodes)
            .map(|number| {
                let mut settings = settings.clone();
                settings.node.name.push_str(&format!("-{number}"));
                let name = settings.node.name.clone();
                settings.state = settings.state.map(|directory| directory.join(name));
                scope.spawn(|| run(source, settings, &mut Simulated))
            })
            .collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err("a simulated node has failed".to_owned()))
        });
        ended.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        parse(line.split(' ').map(OsString::from))?.ok_or_else(|| "help".to_owned())
    }

    #[test]
    fn all_options_are_known() {
        let all = SECTIONS.iter().flat_map(|(_, options)| options.iter());
        crate::options::assert_known(all, |line| asked(line).map(|_| ()));
    }

    #[test]
    fn wrong_options_are_told() {
        for (line, message) in [
            ("--key k", "--source URL is missing: where is the store?"),
            ("--source s", "--key FILE is missing: whose signature is trusted?"),
            ("--source s --key /none", "/none: No such file or directory (os error 2)"),
            ("--label node=a", "--label takes NAME=VALUE, not `node=a`"),
            ("--confirm 1", "--confirm takes a number of seconds from 2 to 3600"),
            ("--compare 0", "--compare takes a number of seconds from 1 to 3600"),
            ("--simulate 0", "--simulate takes a number of nodes from 1 to 10000"),
            ("--source s --certificate c", "--certificate and --certificate-key go together"),
        ] {
            assert_eq!(asked(line).map(drop), Err(message.to_owned()), "{line}");
        }
    }
}
