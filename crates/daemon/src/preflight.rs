// SPDX-License-Identifier: Apache-2.0

//! What can be found wrong before a device is touched: a dataplane that cannot begin is not to
//! interrupt anything.

use std::io;
use std::path::Path;
use std::thread::Builder;

use penstock_lang::session::NOT_PERMITTED;

use crate::config::Config;
use crate::devices::on_death;
use crate::evaluator::{self, Evaluator};
use crate::offload::Pins;
use crate::rights;

/// Checks the whole configuration. `kept` if there is a saved ruleset. The error is a sentence.
pub(crate) fn check(config: &Config, evaluator: &Evaluator, kept: bool) -> Result<(), String> {
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
    if let Some(state) = &config.state {
        can_be_saved(&state.path)
            .map_err(|e| format!("{}: the state cannot be saved: {e}", state.path.display()))?;
    }
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let workers = config.workers.unwrap_or_else(processors);
    config.settings.conntrack.check_room(workers).map_err(|e| format!("--sysctl: {e}"))?;
    match &config.rules {
        Some(path) if !kept => evaluator::check(evaluator, config, path),
        _ => Ok(()),
    }
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
