//! A ruleset that is kept in a file from one run to the next: the bytes of [`Ruleset::save`], or to begin with a ruleset as
//! text.

use penstock_ruleset::{Ruleset, saved};

use super::{Options, Session};
use crate::names::Names;
use crate::source::{Files, Origin};

/// The ruleset that a file holds. Text is read as by `nft -f`, at a time `now` in nanoseconds since the epoch. The error says
/// what is wrong with it.
pub fn restore(bytes: Vec<u8>, files: &dyn Files, names: &dyn Names, now: u64) -> Result<Ruleset, String> {
    if bytes.starts_with(saved::KIND) {
        return Ruleset::from_saved(&bytes).map_err(|broken| format!("{broken}\n"));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        format!("neither a saved ruleset nor text: byte {} is no character\n", e.utf8_error().valid_up_to())
    })?;
    let mut ruleset = Ruleset::default();
    let origin = Origin::File { name: "state".into(), from: None };
    let outcome = Session::new(Options::default(), files, names).run(origin, text, &mut ruleset, now);
    if outcome.ok { Ok(ruleset) } else { Err(outcome.stderr) }
}
