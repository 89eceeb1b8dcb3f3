//! What can be found wrong before a device is touched: a dataplane that cannot begin is not to interrupt anything.

use std::fs::File;
use std::io;
use std::path::Path;

use penstock_lang::session::NOT_PERMITTED;

use crate::daemon::Config;
use crate::evaluator::{self, Evaluator};
use crate::offload::Pins;
use crate::rights;
use crate::state::new_beside;

/// Looks at all that is asked for. `kept` says that there is a saved ruleset. The error is a sentence.
pub(crate) fn check(config: &Config, evaluator: &Evaluator, kept: bool) -> Result<(), String> {
    if !rights::may_take_devices() {
        return Err(NOT_PERMITTED.into());
    }
    if let Some(directory) = &config.persist {
        Pins::look(directory)?;
    }
    if let Some(state) = &config.state {
        can_be_written(&state.path)
            .map_err(|e| format!("{}: the state cannot be saved: {e}", state.path.display()))?;
    }
    match &config.rules {
        Some(path) if !kept => evaluator::check(evaluator, config, path),
        _ => Ok(()),
    }
}

/// Tries whether a file can be put in the place of this one.
fn can_be_written(path: &Path) -> io::Result<()> {
    /// A full disk shows only when something is written.
    const SOME: [u8; 4096] = [0; 4096];
    let beside = new_beside(path);
    let tried = File::create(&beside).and_then(|mut file| {
        io::Write::write_all(&mut file, &SOME)?;
        file.sync_all()
    });
    let _ = std::fs::remove_file(&beside);
    tried
}
