// SPDX-License-Identifier: Apache-2.0

//! What can be found wrong before a device is touched: a dataplane that cannot begin is not to
//! interrupt anything.

use std::io;
use std::path::Path;
use std::thread::Builder;

use penstock_lang::session::NOT_PERMITTED;
use penstock_ruleset::Ruleset;
use penstock_system::SystemNames;

use crate::config::{BatchLimits, Config};
use crate::devices::on_death;
use crate::evaluator::{self, Evaluator};
use crate::now;
use crate::pins::Pins;
use crate::proofs::Becoming;
use crate::rights;

/// A device of a link to the peer is no port: its sockets are open before a TAP takes its place.
pub(crate) fn is_no_port(
    config: &Config,
    sync: &penstock_ctsync::config::Config,
) -> Result<(), String> {
    let is_port = |device: &String| {
        config.ports.named.iter().any(|port| port.device == *device || port.name == *device)
            || config.ports.patterns.iter().any(|pattern| pattern.matches(device))
    };
    match sync.links.iter().find(|link| is_port(&link.device)) {
        Some(link) => Err(format!("--sync: {} is a port; a link has its own device", link.device)),
        None => Ok(()),
    }
}

/// Checks the whole configuration, and the saved ruleset, if there is one that counts. The error is a
/// sentence.
pub(crate) fn check(
    config: &Config,
    evaluator: &Evaluator,
    kept: Option<&Ruleset>,
) -> Result<(), String> {
    if !rights::may_take_devices() {
        return Err(NOT_PERMITTED.into());
    }
    on_death::check(&config.on_death)?;
    if let Some(directory) = &config.persist {
        if config.on_death.closes() {
            return Err(
                "--persist has flows pass after the death of the process, and --on-death none: choose one"
                    .into(),
            );
        }
        Pins::look(directory)?;
    }
    if let Some(sync) = &config.sync {
        is_no_port(config, sync)?;
    }
    if let Some(state) = &config.state {
        can_be_saved(&state.path)
            .map_err(|e| format!("{}: the state cannot be saved: {e}", state.path.display()))?;
    }
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let workers = config.workers.unwrap_or_else(processors);
    config.settings.conntrack.check_room(workers).map_err(|e| format!("--sysctl: {e}"))?;
    match (kept, &config.rules) {
        (Some(kept), _) => keeps_claims(config, kept),
        (None, Some(path)) => evaluator::check(evaluator, config, path),
        (None, None) => Ok(()),
    }
}

/// Whether a saved ruleset is what is claimed of each.
fn keeps_claims(config: &Config, kept: &Ruleset) -> Result<(), String> {
    let Some(claims) = config.claims.get() else { return Ok(()) };
    let ports: Vec<String> = config.ports.named.iter().map(|port| port.name.clone()).collect();
    let BatchLimits { time, memory } = config.batch.get();
    let names = SystemNames::expecting(&ports);
    let after = &*kept.generation();
    let becoming = Becoming { after, names: &names, now: now(), memory, time };
    (config.prover.keeps)(&claims, &becoming).map_err(|text| format!("the saved ruleset: {text}"))
}

/// Tries whether a file can be put in the place of this one with the rights that the dataplane will
/// have.
fn can_be_saved(path: &Path) -> io::Result<()> {
    std::thread::scope(|scope| {
        let trial = Builder::new().name("before".into()).spawn_scoped(scope, || {
            rights::keep_only_needed()?;
            penstock_files::can_replace(path)
        })?;
        trial.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    })
}
