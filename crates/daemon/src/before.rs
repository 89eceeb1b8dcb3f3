//! What can be found wrong before a device is touched: a dataplane that cannot begin is not to interrupt anything.

use std::fs::File;
use std::io;
use std::path::Path;

use penstock_lang::names::Names;
use penstock_lang::session::{NOT_PERMITTED, Options, Outcome, Session};
use penstock_lang::source::Origin;
use penstock_ruleset::Ruleset;

use crate::daemon::Config;
use crate::offload::Pins;
use crate::rights;
use crate::state::new_beside;

/// Looks at all that is asked for. `kept` says that there is a saved ruleset. The error is a sentence.
pub(crate) fn check(config: &Config, kept: bool) -> Result<(), String> {
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
        Some(path) if !kept => check_rules(config, path),
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

/// Evaluates the ruleset's file, as it will be evaluated when the ports are there.
fn check_rules(config: &Config, path: &Path) -> Result<(), String> {
    let ports: Vec<String> = config.ports.iter().map(|port| port.name.clone()).collect();
    let names = (config.names)(&ports);
    let mut scratch = Ruleset::default();
    run_file(config, path, &*names, &mut |session, origin, text| {
        session.run(origin, text, &mut scratch, crate::now())
    })
}

/// Has a file run that says all there is to be. The error is for the user, without the word that it is one.
pub(crate) fn run_file(
    config: &Config,
    path: &Path,
    names: &dyn Names,
    run: &mut dyn FnMut(&mut Session<'_>, Origin, String) -> Outcome,
) -> Result<(), String> {
    let name = path.display().to_string();
    let files = (config.files)();
    let text = files.read(&name).map_err(|e| format!("{name}: {e}"))?;
    let include_paths = vec!["/etc".to_owned()];
    let options = Options { runnable_only: true, include_paths, anew: true, ..Options::default() };
    let outcome = run(&mut Session::new(options, &*files, names), Origin::File { name, from: None }, text);
    match outcome.ok {
        true => Ok(()),
        false => Err(format!("the ruleset cannot be loaded:\n{}", outcome.stderr.trim_end())),
    }
}
