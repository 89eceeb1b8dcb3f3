// SPDX-License-Identifier: Apache-2.0

//! `penstock agent`: keeps the dataplane of the network namespace on what a fleet has published.
//!
//! | file | is |
//! | --- | --- |
//! | [`host`] | where rulesets are put in force |
//! | [`attached`] | tests that are published with a ruleset |
//! | [`beside`] | an agent that `penstock up` starts |

pub mod attached;
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
use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;
use host::{Dataplane, DryRun};

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
    long("dry-run", "evaluate and report, without a dataplane"),
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
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut source = Source::default();
    let (mut keys, mut node, mut dry_run) = (None, None, false);
    let mut labels = BTreeMap::new();
    let mut state = PathBuf::from(STATE);
    let mut health = Vec::new();
    let (mut confirm, mut lease) = (Duration::from_secs(30), Duration::from_secs(30));
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("key") => keys = Some(PathBuf::from(parser.value().map_err(sentence)?)),
            Long("node") => node = Some(text(&mut parser)?),
            Long("label") => {
                let label = text(&mut parser)?;
                let (name, value) = label
                    .split_once('=')
                    .filter(|(name, value)| {
                        !name.is_empty() && !value.is_empty() && *name != "node"
                    })
                    .ok_or_else(|| format!("--label takes NAME=VALUE, not `{label}`"))?;
                labels.insert(name.to_owned(), value.to_owned());
            }
            Long("state") => state = parser.value().map_err(sentence)?.into(),
            Long("health") => health.push(text(&mut parser)?),
            Long("confirm") => confirm = seconds("confirm", &text(&mut parser)?, 2)?,
            Long("lease") => lease = seconds("lease", &text(&mut parser)?, 3)?,
            Long("dry-run") => dry_run = true,
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
    let settings = Settings { node, keys, state, health, confirm, lease };
    Ok(Some(Asked { source, settings, dry_run }))
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    let value = parser.value().map_err(sentence)?;
    value.into_string().map_err(|value| format!("{} is no text", value.display()))
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
    let open = || asked.source.open();
    let mut agent = match Agent::new(asked.settings, &open) {
        Ok(agent) => agent,
        Err(message) => {
            errln!("Error: {message}");
            return ExitCode::FAILURE;
        }
    };
    let mut host: Box<dyn Host> = match asked.dry_run {
        true => Box::<DryRun>::default(),
        false => Box::new(Dataplane),
    };
    agent.run(&mut *host, &|| ENDED.load(Ordering::Relaxed));
    ExitCode::SUCCESS
}
