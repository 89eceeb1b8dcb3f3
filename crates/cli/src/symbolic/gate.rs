// SPDX-License-Identifier: Apache-2.0

//! What is found out of a ruleset before it is in force: whether claims hold of it, and what it does
//! to packets that the one before it did not.

use std::path::Path;
use std::sync::Arc;

use penstock_daemon::proofs::{Becoming, ClaimsText, Prover};
use penstock_lang::session::Remark;
use penstock_ruleset::Generation;
use penstock_symbolic::Limits;

use super::Settings;
use super::change::Change;
use super::claims::{About, Claims, Kind, Line};
use super::judge::decide;
use super::load::{Devices, Loaded};
use super::remarks::remarks;

/// Answers what the dataplane asks of a change.
pub const PROVER: Prover = Prover { files, keeps, difference, review };

/// Reads a file of claims, and the files that it names.
///
/// # Errors
/// The name of a file that cannot be read, and why.
pub fn of_file(name: &str) -> Result<ClaimsText, String> {
    ClaimsText::read(name.to_owned(), &PROVER, |file| std::fs::read_to_string(file))
}

/// Checks the text of claims that rulesets are to keep.
///
/// # Errors
/// What is wrong in it, after `Error: `.
pub fn read(claims: &ClaimsText) -> Result<Claims, String> {
    let read = Claims::new(&claims.name, &claims.text)?.in_networks(|file| {
        let known = claims.files.iter().find(|(name, _)| Path::new(name) == file);
        known.map(|(_, text)| text.clone()).ok_or_else(|| "it was not read".to_owned())
    })?;
    for line in &read.lines {
        let wrong = match line.kind {
            Kind::Same(_) => "`same` would refuse each change",
            Kind::Leave { .. } | Kind::Reach { .. } if !matches!(line.about, About::Way(_)) => {
                "this is about the way through a network: a line `net FILE` before it"
            }
            _ => continue,
        };
        let Line { number, text, .. } = line;
        return Err(format!("Error: {}:{number}: {wrong}\n{text}", claims.name));
    }
    Ok(read)
}

/// Names of the files of networks.
fn files(claims: &ClaimsText) -> Vec<String> {
    let read = Claims::new(&claims.name, &claims.text);
    let files = read.iter().flat_map(Claims::network_files);
    files.map(|file| file.to_string_lossy().into_owned()).collect()
}

/// Whether claims hold of the ruleset that is to be in force.
///
/// # Errors
/// One does not, with a packet, or it is not decided: a text that continues `Error: `.
fn keeps(claims: &ClaimsText, becoming: &Becoming<'_>) -> Result<(), String> {
    let claims = read(claims).map_err(said)?;
    let devices = Devices::known(becoming.names);
    let rules = loaded(becoming.after, becoming.now).map_err(said)?;
    let decided = decide(&claims, &rules, &devices, &settings(becoming)).map_err(said)?;
    let mut refuted = String::new();
    for claim in decided {
        let Some(wrong) = claim.wrong else { continue };
        let (file, line) = (&claims.file, claim.line);
        refuted.push_str(&format!("refuted   {file}:{}: {}\n{wrong}", line.number, line.text));
    }
    match refuted.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("the ruleset would not be what is claimed of it\n{}", refuted.trim_end()))
        }
    }
}

/// What a change does to packets, as `penstock diff` prints it.
///
/// # Errors
/// It cannot be evaluated: a text that continues `Error: `.
fn difference(before: &Generation, becoming: &Becoming<'_>) -> Result<String, String> {
    let devices = Devices::known(becoming.names);
    let old = loaded(before, becoming.now).map_err(said)?;
    let new = loaded(becoming.after, becoming.now).map_err(said)?;
    let change = Change::new(&old, &new, &devices, &settings(becoming), None).map_err(said)?;
    Ok(change.text())
}

/// What `nft --lint` says of a ruleset, besides what its text says. A ruleset that cannot run is
/// refused elsewhere.
fn review(becoming: &Becoming<'_>) -> Vec<Remark> {
    let devices = Devices::known(becoming.names);
    let rules = loaded(becoming.after, becoming.now);
    rules.map_or_else(|_| Vec::new(), |rules| remarks(&rules, &devices, &settings(becoming)))
}

/// A message as it continues `Error: `.
fn said(message: String) -> String {
    message.strip_prefix("Error: ").map_or(message.clone(), str::to_owned)
}

fn loaded(generation: &Generation, now: u64) -> Result<Loaded, String> {
    Loaded::of("the ruleset", Arc::new(generation.clone()), now)
}

fn settings(becoming: &Becoming<'_>) -> Settings {
    let most = Limits::default();
    let memory = usize::try_from(becoming.memory).unwrap_or(usize::MAX).min(most.memory);
    let limits = Limits { memory, time: becoming.time.min(most.time) };
    Settings { limits, ..Settings::default() }
}
