// SPDX-License-Identifier: Apache-2.0

//! Classes of packets as commands print them: in words, with rules that decide, and an example that
//! the interpreter has confirmed.

use std::path::Path;

use penstock_io::{CaptureWriter, LinkType};
use penstock_program::image::RuleIndex;
use penstock_symbolic::{Class, Example, Program, check, parts};
use serde_json::{Value as Json, json};

use super::load::{Devices, Loaded};
use super::words::Words;

/// Rules that are printed of a class.
const DECIDERS: usize = 3;

/// A class in words.
pub struct Told<'u> {
    /// The packets, one text for each box.
    pub packets: Vec<String>,
    /// There are packets that are in none of the texts.
    pub more: bool,
    /// What becomes of them, for each ruleset.
    pub fates: Vec<ToldFate>,
    /// A packet; `None` if none could be made.
    pub example: Option<Example<'u>>,
    /// The example in words.
    such: String,
    /// When the rulesets were loaded, in nanoseconds since the epoch.
    now: u64,
}

/// What becomes of packets in one ruleset, in words.
pub struct ToldFate {
    /// What becomes of them.
    fate: String,
    /// The rules and policies that decide.
    by: Vec<String>,
}

impl ToldFate {
    /// The fate, and lines of what decides, each after `indent`.
    pub fn text(&self, indent: &str) -> String {
        let mut text = format!("{}\n", self.fate);
        for name in self.by.iter().take(DECIDERS) {
            text.push_str(&format!("{indent}{name}\n"));
        }
        if self.by.len() > DECIDERS {
            text.push_str(&format!("{indent}and {} more\n", self.by.len() - DECIDERS));
        }
        text
    }

    /// The same for programs.
    pub fn json(&self) -> Json {
        json!({ "fate": self.fate, "by": self.by })
    }
}

impl<'u> Told<'u> {
    /// Puts a class into words. `sides` are the rulesets that were evaluated, in their order.
    ///
    /// # Errors
    /// The interpreter does something else with the example: a bug.
    pub fn new(
        words: &Words<'u>,
        class: &Class,
        sides: &[(&Loaded, &Program<'_>)],
        devices: &Devices,
    ) -> Result<Told<'u>, String> {
        let universe = words.universe();
        let example = Example::new(universe, &class.example);
        let mut fates = Vec::new();
        for (i, ((side, program), fate)) in sides.iter().zip(&class.fates).enumerate() {
            let deciders: Vec<_> = class.deciders.iter().map(|all| all[i]).collect();
            if let Some(example) = &example {
                confirmed(check(example, program, fate, &deciders))?;
            }
            let mut by: Vec<String> = Vec::new();
            for decider in deciders {
                let name = side.decider_text(decider, devices);
                // The fate says why the network does it.
                if !fate.end.is_refused() && !by.contains(&name) {
                    by.push(name);
                }
            }
            fates.push(ToldFate { fate: words.fate(fate), by });
        }
        Ok(Told {
            packets: class.boxes.iter().map(|one| words.packets(one)).collect(),
            more: class.more_boxes,
            fates,
            example,
            such: words.example(&class.example, &parts(universe, &class.example), &class.depends),
            now: sides.first().map_or(0, |(side, _)| side.now),
        })
    }

    /// The packets as lines of a list.
    pub fn packets_text(&self) -> String {
        let more = if self.more { "   or other packets like these\n" } else { "" };
        format!("{}\n{more}", self.packets.join("\n   or "))
    }

    /// The line of the example.
    pub fn example_text(&self) -> String {
        match &self.example {
            Some(_) => format!("   such as: {}\n", self.such),
            None => "   (no example could be made)\n".to_owned(),
        }
    }

    /// The example for programs; `file` is the capture that has it.
    pub fn example_json(&self, file: Option<String>) -> Json {
        let Some(example) = &self.example else { return Json::Null };
        let frame: String = example.frame().iter().map(|byte| format!("{byte:02x}")).collect();
        json!({ "packet": self.such, "frame": frame, "file": file })
    }

    /// Writes the example as a capture; the name of the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, dir: &Path, name: &str) -> Result<Option<String>, String> {
        let Some(example) = &self.example else { return Ok(None) };
        let file = dir.join(format!("{name}.pcap"));
        let link = if example.packet.has_link() { LinkType::Ethernet } else { LinkType::Raw };
        write_capture(&file, link, [(self.now, &example.frame()[..])])?;
        Ok(Some(file.display().to_string()))
    }
}

/// Writes a capture: times in nanoseconds since the epoch, and frames.
///
/// # Errors
/// The file cannot be written.
pub fn write_capture<'f>(
    file: &Path,
    link: LinkType,
    frames: impl IntoIterator<Item = (u64, &'f [u8])>,
) -> Result<(), String> {
    CaptureWriter::create(file, link)
        .and_then(|mut writer| {
            for (time, frame) in frames {
                writer.write(time, frame)?;
            }
            writer.finish()
        })
        .map_err(|e| format!("Error: {}: {e}", file.display()))
}

/// Where the rule with a number is, which rulesets that are compared have in common; the last one
/// counts.
pub fn rule_of(number: u32, sides: &[(&Loaded, &Program<'_>)], devices: &Devices) -> String {
    let of = |(side, program): &(&Loaded, &Program<'_>)| {
        let at = program.numbers.iter().position(|known| *known == number)?;
        Some(side.rule_place(RuleIndex(at as u32), devices))
    };
    sides.iter().rev().find_map(of).unwrap_or_else(|| "a rule".to_owned())
}

/// What the interpreter said of an example.
///
/// # Errors
/// It did something else: a bug, at which tests stop.
pub fn confirmed<T>(said: Result<T, String>) -> Result<T, String> {
    said.map_err(|wrong| {
        debug_assert!(false, "{wrong}");
        format!("Error: this is a bug: an example does not do what was found: {wrong}")
    })
}
