// SPDX-License-Identifier: Apache-2.0

//! The ruleset of a run: text or state in, text out.

use std::fmt;
use std::path::Path;

use penstock_daemon::{err, out};
use penstock_lang::datatype::Format;
use penstock_lang::json::to_text;
use penstock_lang::listing::Listing;
use penstock_lang::listing::json;
use penstock_lang::names::Names;
use penstock_lang::session::{Options, Refusal, Session};
use penstock_lang::source::{Files, Origin, cannot_read};
use penstock_net::Network;
use penstock_ruleset::link::{CannotOffload, Linked};
use penstock_ruleset::{Generation, Ruleset};
use penstock_state::State;
use penstock_system::{SystemFiles, SystemNames, words};

use crate::recognise::{Given, hinted};

/// Loads a file as `nft -f` does on an empty ruleset; `now` is the time at which it is loaded, in
/// nanoseconds since the epoch. What the file lists is printed. The error is what nft prints, also
/// for rules that cannot run here, and what the file is if it is something else.
pub fn load(
    file: &Path,
    files: &SystemFiles,
    names: &dyn Names,
    can_offload: &dyn Fn(&Linked) -> Result<(), CannotOffload>,
    now: u64,
    json: bool,
) -> Result<Ruleset, String> {
    let name = file.display().to_string();
    let text = files.read(&name);
    let name = if name == "-" { "/dev/stdin".to_owned() } else { name };
    let text = text.map_err(|e| format!("Error: {}", cannot_read(&name, &e)))?;
    if text.trim_ascii().is_empty() {
        return Err(format!("Error: {name} is empty: there are no rules in it"));
    }
    let options = Options {
        json,
        include_paths: vec!["/etc".to_owned()],
        runnable_only: true,
        ..Options::default()
    };
    let mut ruleset = Ruleset::default();
    let origin = Origin::File { name, from: None };
    let mut gate = |generation: &Generation| {
        let linked = Linked::new(generation).map_err(Refusal::Link)?;
        can_offload(&linked).map_err(Refusal::Offload)
    };
    let outcome =
        Session::new(options, files, names).run_gated(origin, text, &mut ruleset, now, &mut gate);
    if !outcome.ok {
        return Err(hinted(&outcome.stderr, file, Given::Rules));
    }
    out!("{}", outcome.stdout);
    err!("{}", outcome.stderr);
    Ok(ruleset)
}

/// The ruleset of a state file at a time, in nanoseconds since the epoch. The error is also that a
/// rule cannot run here.
pub fn restore(
    file: &Path,
    can_offload: &dyn Fn(&Linked) -> Result<(), CannotOffload>,
    now: u64,
) -> Result<Ruleset, String> {
    let refused = |reason: &dyn fmt::Display| format!("Error: {}: {reason}", file.display());
    let state = match State::read(file, now) {
        Ok(Some(Ok(state))) => state,
        Ok(Some(Err(broken))) => {
            return Err(refused(&format_args!("cannot be restored: {broken}")));
        }
        Ok(None) => return Err(refused(&"there is no such file")),
        Err(e) => return Err(refused(&words(&e))),
    };
    let linked = Linked::new(&state.ruleset.generation()).map_err(|e| refused(&e))?;
    can_offload(&linked).map_err(|e| refused(&e))?;
    Ok(state.ruleset)
}

/// The ruleset at a time as `nft list ruleset` prints it, or `nft -j list ruleset`.
pub fn list(
    generation: &Generation,
    names: &dyn Names,
    format: Format,
    now: u64,
    json: bool,
) -> String {
    let listing = Listing { generation, format, names, now };
    if json {
        return format!("{}\n", to_text(&json::ruleset(&listing, None)));
    }
    listing.ruleset(None)
}

/// Names of a network's devices, and of everything else those of the system.
pub struct NetNames<'a> {
    net: &'a Network,
    system: SystemNames,
}

impl<'a> NetNames<'a> {
    /// The network.
    pub fn net(&self) -> &Network {
        self.net
    }

    /// The devices of `net`.
    pub fn new(net: &'a Network) -> Self {
        NetNames { net, system: SystemNames::default() }
    }
}

impl Names for NetNames<'_> {
    fn rest(&self) -> &dyn Names {
        &self.system
    }

    fn interface_index(&self, name: &str) -> Option<u32> {
        self.net.link_by_name(name).map(|l| l.index)
    }

    fn interface_name(&self, index: u32) -> Option<String> {
        self.net.link(index).map(|l| l.name.to_string())
    }
}
