// SPDX-License-Identifier: Apache-2.0

//! What a change of a ruleset does to packets, in words.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use penstock_symbolic::{Difference, Side, diff};
use serde_json::{Value as Json, json};

use super::Settings;
use super::hooks::{Station, stations};
use super::load::{Devices, Loaded};
use super::told::{Told, rule_of};
use super::words::Words;

/// Classes of packets that two rulesets treat otherwise, hook by hook.
#[derive(Default)]
pub struct Change {
    texts: Vec<String>,
    hooks: Vec<Json>,
    /// Classes so far.
    count: usize,
}

impl Change {
    /// Compares two rulesets; writes an example of each class to a directory, if there is one.
    ///
    /// # Errors
    /// They cannot be evaluated, or a file cannot be written.
    pub fn new(
        old: &Loaded,
        new: &Loaded,
        devices: &Devices<'_>,
        settings: &Settings,
        write: Option<&Path>,
    ) -> Result<Change, String> {
        let mut change = Change::default();
        let sides = Sides { old, new, devices, settings, write };
        for station in stations(&[old, new], settings)? {
            change.add(&sides, &station)?;
        }
        Ok(change)
    }

    /// Whether anything becomes of some packet that did not before.
    pub fn matters(&self) -> bool {
        self.count > 0
    }

    /// For people.
    pub fn text(&self) -> String {
        match self.texts.is_empty() {
            true => "Nothing changes.\n".to_owned(),
            false => self.texts.join("\n"),
        }
    }

    /// For programs.
    pub fn json(&self) -> Json {
        json!({ "changes": self.hooks })
    }

    /// Adds what differs in the chains of a hook.
    fn add(&mut self, sides: &Sides<'_>, station: &Station) -> Result<(), String> {
        let &Sides { old, new, devices, settings, write } = sides;
        let mut sets = HashMap::new();
        let mut before = station.program(old, devices, settings, &mut sets);
        let mut after = station.program(new, devices, settings, &mut sets);
        let found = diff(station.place, &mut before, &mut after, settings.limits);
        let difference = found.map_err(|(side, failure)| {
            station.failed(if side == Side::Old { old } else { new }, devices, &failure)
        })?;
        if difference.classes.is_empty() {
            return Ok(());
        }
        let Difference { universe, classes, .. } = &difference;
        let both = [(old, &before), (new, &after)];
        let rule_name = |number: u32| rule_of(number, &both, devices);
        let listing = new.listing(&new.generation, devices);
        let words = Words::new(listing, station.place, universe, &rule_name);
        let classes_word = if classes.len() == 1 { "class" } else { "classes" };
        let mut text = format!("{}: {} {classes_word}\n", station.name, classes.len());
        let mut all = Vec::new();
        for class in classes {
            self.count += 1;
            let told = Told::new(&words, class, &both, devices)?;
            let written = match write {
                Some(dir) => told.write(dir, &station.capture_name(self.count))?,
                None => None,
            };
            let _ = write!(text, "\n{}. {}", self.count, told.packets_text());
            for (word, fate) in ["was", "now"].into_iter().zip(&told.fates) {
                let _ = write!(text, "   {word}:     {}", fate.text("            "));
            }
            text.push_str(&told.example_text());
            all.push(json!({
                "packets": told.packets,
                "complete": !class.more_boxes,
                "share": class.share,
                "was": told.fates[0].json(),
                "now": told.fates[1].json(),
                "depends": !class.depends.is_empty(),
                "example": told.example_json(written),
            }));
        }
        self.texts.push(text);
        self.hooks.push(json!({
            "hook": station.name,
            "rules_changed": { "old": difference.changed.0, "new": difference.changed.1 },
            "classes": all,
        }));
        Ok(())
    }
}

/// What is compared, and how.
struct Sides<'a> {
    old: &'a Loaded,
    new: &'a Loaded,
    devices: &'a Devices<'a>,
    settings: &'a Settings,
    write: Option<&'a Path>,
}
