// SPDX-License-Identifier: Apache-2.0

//! Claims that are published with a ruleset.

use penstock_daemon::proofs::{Becoming, ClaimsText};
use penstock_daemon::{BatchLimits, now};
use penstock_lang::source::Files;
use penstock_ruleset::Ruleset;
use penstock_system::SystemNames;

use super::evaluate::TreeFiles;
use crate::symbolic::gate;

/// Whether what is claimed of a tree holds of its ruleset.
///
/// # Errors
/// It does not.
pub fn claims_hold(files: &TreeFiles<'_>, ruleset: &Ruleset) -> Result<(), String> {
    let manifest = &files.tree.manifest;
    let Some(name) = &manifest.claims else { return Ok(()) };
    let name = format!("{}/{name}", manifest.root);
    let claims = ClaimsText::read(name, &gate::PROVER, |file| files.read(file))?;
    let names = SystemNames::default();
    let BatchLimits { time, memory } = BatchLimits::default();
    let after = ruleset.generation();
    let becoming = Becoming { after: &after, names: &names, now: now(), memory, time };
    (gate::PROVER.keeps)(&claims, &becoming)
}
