// SPDX-License-Identifier: Apache-2.0

//! The ruleset that a command is about, with its hooks.

use penstock_daemon::now;

use super::Settings;
use super::hooks::{Station, stations};
use super::load::{Devices, Loaded, Source};

/// A ruleset, its devices and its hooks.
pub struct Opened {
    /// Names of devices.
    pub devices: Devices<'static>,
    /// The ruleset.
    pub rules: Loaded,
    /// The hooks that settings name; at least one.
    pub stations: Vec<Station>,
}

impl Opened {
    /// Loads a ruleset, and finds the hooks.
    ///
    /// # Errors
    /// What [`Loaded::new`] and [`stations`] say, or that there are no base chains.
    pub fn new(source: &Source, settings: &Settings) -> Result<Opened, String> {
        let devices = Devices::of(&[source]);
        let rules = Loaded::new(source, &devices, now())?.on(settings.network()?)?;
        let stations = stations(&[&rules], settings)?;
        match stations.is_empty() {
            true => Err(format!("Error: {}: there are no base chains", rules.file)),
            false => Ok(Opened { devices, rules, stations }),
        }
    }
}
