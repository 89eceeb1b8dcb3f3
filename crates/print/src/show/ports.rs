// SPDX-License-Identifier: Apache-2.0

//! `penstock port list`: the ports, and devices that are waited for.

use std::fmt;

use serde::Serialize;

/// A port.
#[derive(Clone, Debug, Serialize)]
pub struct Port {
    /// What the host and rules call it.
    pub name: String,
    /// What the device is called while it is a port.
    pub device: String,
    /// What it was called before, and will be again.
    pub before: String,
    /// The driver that was asked for.
    pub driver: String,
    /// What carries its frames.
    pub by: String,
    /// The port is up.
    pub up: bool,
    /// The device is there.
    pub there: bool,
    /// How it has become a port: `named`, `added`, or the pattern that its name is like.
    pub origin: String,
}

/// A device that becomes a port when it is there.
#[derive(Clone, Debug, Serialize)]
pub struct Waiting {
    /// Its name, or a pattern.
    pub device: String,
    /// The driver that is asked for.
    pub driver: String,
}

/// All of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ports {
    /// The ports.
    pub ports: Vec<Port>,
    /// Devices that are waited for.
    pub waiting: Vec<Waiting>,
}

impl Ports {
    /// As JSON.
    pub fn json(&self) -> String {
        // Plain structs of texts and booleans always have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for port in &self.ports {
            let state = match (port.there, port.up) {
                (false, _) => "without device",
                (true, true) => "up",
                (true, false) => "down",
            };
            writeln!(
                f,
                "{:<15} {:<15} {:<17} {state:<14} {}",
                port.name, port.device, port.by, port.origin
            )?;
        }
        for waiting in &self.waiting {
            writeln!(f, "{:<15} {:<15} {:<17} waited for", "-", waiting.device, waiting.driver)?;
        }
        Ok(())
    }
}
