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
            let mut said = side.run(&[command]);
            said.stdout += &side.run(&["list", "ruleset"]).stdout;
            side.clear();
            said
        };
        let (theirs, mine) = (run(&Side::Nft), run(&ours));
        tally.commands += 1;
        let errors = masks::error_differences(&theirs.stderr, &mine.stderr);
        if theirs.code != mine.code || errors.is_some() || theirs.stdout != mine.stdout {
            tally.differ += 1;
            println!("DIFFERENT {command}");
            for (name, said) in [("nft", theirs), ("penstock", mine)] {
                println!("    {name} {:?}\n{}{}", said.code, said.stdout, said.stderr);
            }
        }
    });
    let sum = |what: fn(&Tally) -> u64| tallies.iter().map(what).sum::<u64>();
    let (commands, differ) = (sum(|t| t.commands), sum(|t| t.differ));
    println!("nft: {} single commands agree, {differ} differ", commands - differ);
    differ + lines.len() as u64 - commands
}
