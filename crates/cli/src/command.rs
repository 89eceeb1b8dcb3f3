// SPDX-License-Identifier: Apache-2.0

//! A command of the program.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::options::{Opt, Values};

/// A command.
pub struct Command {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Its options, grouped under titles.
    pub sections: &'static [(&'static str, &'static [Opt])],
    /// The operands after the options.
    pub operands: Values,
    /// Runs it with the arguments after its name.
    pub main: fn(&mut dyn Iterator<Item = OsString>) -> ExitCode,
}

impl Command {
    /// All its options.
    pub fn options(&self) -> impl Iterator<Item = &'static Opt> {
        self.sections.iter().flat_map(|(_, options)| options.iter())
    }
}
