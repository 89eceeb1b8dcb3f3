// SPDX-License-Identifier: Apache-2.0

//! Single commands, each on a ruleset of one table, and the listing afterwards: `commands.txt` has
//! a line for each command.

use std::path::PathBuf;

use crate::sides::Side;
use crate::{by_seed, masks};

const COMMANDS: &str = include_str!("commands.txt");

#[derive(Default)]
struct Tally {
    commands: u64,
    differ: u64,
}

/// Compares all; how many differ, or were not compared.
pub fn compare() -> u64 {
    let lines: Vec<&str> = COMMANDS.lines().collect();
    let tallies = by_seed(0..lines.len() as u64, |n, tally: &mut Tally| {
        let command = lines[n as usize];
        let state: PathBuf =
            [env!("CARGO_TARGET_TMPDIR"), "nft", &format!("command{n}.state")].iter().collect();
        let ours = Side::Penstock(state);
        let run = |side: &Side| {
            side.clear();
            side.run(&["add", "table", "ip", "t"]);
            let said = side.run(&[command]);
            let listing = side.run(&["list", "ruleset"]).stdout;
            side.clear();
            (said, listing)
        };
        let ((theirs, their_listing), (mine, my_listing)) = (run(&Side::Nft), run(&ours));
        tally.commands += 1;
        let errors = masks::error_differences(&theirs.stderr, &mine.stderr);
        let listings = masks::differences(&their_listing, &my_listing);
        if theirs.code != mine.code
            || errors.is_some()
            || theirs.stdout != mine.stdout
            || listings.is_some()
        {
            tally.differ += 1;
            println!("DIFFERENT {command}");
            let sides = [("nft", theirs, their_listing), ("penstock", mine, my_listing)];
            for (name, said, listing) in sides {
                println!("    {name} {:?}\n{}{}{listing}", said.code, said.stdout, said.stderr);
            }
        }
    });
    let sum = |what: fn(&Tally) -> u64| tallies.iter().map(what).sum::<u64>();
    let (commands, differ) = (sum(|t| t.commands), sum(|t| t.differ));
    println!("nft: {} single commands agree, {differ} differ", commands - differ);
    differ + lines.len() as u64 - commands
}
