// SPDX-License-Identifier: Apache-2.0

//! A described packet, and its way.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_dataplane::{Dataplane, Engine, Settings};
use penstock_lang::datatype::Format;
use penstock_net::Network;
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;

use crate::input::Source;
use crate::rules::NetNames;
use crate::trace::described;
use crate::trace::told::Told;
use crate::tracer::Tracer;

/// A host that a packet is sent through: a copy, so nothing happens to the dataplane.
pub struct Host {
    /// The network.
    pub net: Arc<Network>,
    /// The ruleset, saved.
    pub saved: Vec<u8>,
    /// Nanoseconds since the epoch.
    pub now: u64,
}

impl Host {
    /// The lines of `penstock trace`. The error is what the user is told.
    pub fn send(&self, from: &str, packet: &str) -> Result<String, String> {
        let source = Source::parse(from).ok_or("Error: where does it come from?")?;
        let names = NetNames::new(&self.net);
        let entering = described(&source, packet, Path::new("the network"), &names, self.now)?;
        let ruleset = Ruleset::from_saved_at(&self.saved, self.now)
            .map_err(|broken| format!("Error: the ruleset: {broken}"))?;
        let generation = ruleset.generation();
        let linked = Linked::new(&generation).map_err(|e| format!("Error: {e}"))?;
        let mut path = Dataplane::new(self.net.clone(), Settings::default());
        path.set_rules(Arc::new(linked));
        path.set_engine(Engine::Interpreter);
        path.trace_all(true);
        let tracer = Tracer::new(&generation, &names, Format::default(), self.now);
        let mut told = Told::new(tracer.with_origins());
        told.listen();
        entering.send(&mut path, &mut told).map_err(|e| format!("Error: {e}"))?;
        path.flush(&mut told);
        let (outcome, text) = told.take();
        Ok(format!("{}\n\n{text}", outcome.words()))
    }
}

/// Nanoseconds since the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
