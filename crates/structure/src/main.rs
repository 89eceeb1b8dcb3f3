// SPDX-License-Identifier: Apache-2.0

//! Lists modules that depend on each other in cycles, crate by crate: `cargo run -p
//! penstock-structure`.
//!
//! A parent and its children may use each other. Beyond that, the children of a module (each with
//! everything below it) must depend on each other in one direction. Tests are left out.

mod cycles;
mod names;
mod source;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/structure");
    let found = cycles::of_crates(crates);
    for cycle in &found {
        println!("{cycle}");
        for edge in &cycle.edges {
            println!("    {edge}");
        }
    }
    println!(
        "{} cycles, {} modules",
        found.len(),
        found.iter().map(|c| c.members.len()).sum::<usize>()
    );
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
