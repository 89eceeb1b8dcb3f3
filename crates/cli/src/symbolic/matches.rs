// SPDX-License-Identifier: Apache-2.0

//! Matches of rules, as claims and questions have them: compiled for a hook.

use std::collections::HashMap;

use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_symbolic::{Program, Start};

use super::Settings;
use super::hooks::{Station, hook_word, stations};
use super::load::{Devices, Loaded};

/// A match, as a ruleset of one rule.
pub struct Matches(Loaded);

impl Matches {
    /// Compiles the matches of a text for a hook.
    ///
    /// # Errors
    /// What nft says of them, without a place.
    pub fn new(
        text: &str,
        station: &Station,
        devices: &Devices,
        now: u64,
    ) -> Result<Matches, String> {
        let family = station.place.family.name();
        // On a way matches may be about the devices of both ends.
        let hook = match station.way {
            Some(Start::Arrival) => "forward",
            Some(Start::Host) | None => hook_word(station.place.hook),
        };
        let device = match station.place.hook {
            penstock_program::Hook::Ingress | penstock_program::Hook::Egress => {
                " device \"matches\""
            }
            _ => "",
        };
        let before = format!(
            "table {family} matches {{\nchain matches {{\n\
             type filter hook {hook}{device} priority 0;\n"
        );
        let mut ruleset = Ruleset::default();
        let origin = Origin::File { name: String::new(), from: None };
        let options = Options { runnable_only: true, ..Options::default() };
        let whole = format!("{before}{text} accept\n}}\n}}\n");
        let outcome =
            Session::new(options, &NoFiles, devices).run(origin, whole, &mut ruleset, now);
        if !outcome.ok {
            let message = outcome.stderr.split_once("Error: ").map_or(&*outcome.stderr, |(_, m)| m);
            return Err(message.trim_end().to_owned());
        }
        let generation = ruleset.generation();
        let is_one_rule = match &generation.tables[..] {
            [table] => match &table.chains[..] {
                [chain] => chain.rules.len() == 1 && table.sets.iter().all(|set| set.anonymous),
                _ => false,
            },
            _ => false,
        };
        if !is_one_rule {
            return Err("matches of one rule are expected".to_owned());
        }
        let linked = Linked::new(&generation).map_err(|e| e.to_string())?;
        Ok(Matches(Loaded { file: String::new(), generation, linked, now, network: None }))
    }

    /// The match, for the engine.
    ///
    /// # Errors
    /// There is none.
    pub fn program(
        &self,
        devices: &Devices<'_>,
        settings: &Settings,
    ) -> Result<Program<'_>, String> {
        let whole = Settings { chain: None, hook: None, ..settings.clone() };
        let all = stations(&[&self.0], &whole)?;
        let own = all.first().ok_or("Error: a match without a chain")?;
        Ok(own.program(&self.0, devices, &whole, &mut HashMap::new()))
    }
}
