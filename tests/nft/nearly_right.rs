// SPDX-License-Identifier: Apache-2.0

//! Texts that are nearly right for both: whether they are taken, at which places they are refused,
//! and with which words.

use std::fmt;
use std::ops::Range;

use crate::lacking::Lacking;
use crate::sides::{Said, Side};
use crate::{by_seed, masks, mutations};

/// In what the two differ, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Difference {
    /// One takes what the other refuses.
    Answer,
    /// Refused at other places.
    Places,
    /// Refused at the same places with other words.
    Words,
    /// Taken, with other programs.
    Programs,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::Answer => "taken by one",
            Difference::Places => "refused at other places",
            Difference::Words => "refused with other words",
            Difference::Programs => "taken with other programs",
        })
    }
}

#[derive(Default)]
struct Tally {
    texts: u64,
    taken: u64,
    refused: u64,
    left_out: u64,
    differ: Vec<Difference>,
}

/// Compares the texts of these seeds; returns how many there were, and how many of them differ.
pub fn compare(seeds: Range<u64>, lacking: &Lacking) -> (u64, u64) {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("nft");
    std::fs::create_dir_all(&directory).expect("the directory of tests can be written");
    let tallies = by_seed(seeds, |seed, tally: &mut Tally| {
        tally.texts += 1;
        let made = mutations::text(seed);
        let file = directory.join(format!("{seed}.mutated"));
        std::fs::write(&file, &made.text).expect("the directory of tests can be written");
        let arguments = ["--debug=netlink", "-f", file.to_str().expect("a path is text")];
        let theirs = Side::Nft.run(&arguments);
        if theirs.code != Some(1) {
            Side::Nft.clear();
        }
        let later = masks::is_of_blank_lines(&theirs.stderr)
            || masks::is_of_mark_as_number(&theirs.stderr)
            || masks::is_of_a_table_alone(&theirs.stderr);
        if theirs.code.is_none() || lacking.explains(made.family, &theirs) || later {
            tally.left_out += 1;
            return;
        }
        let mine = Side::Offline.run(&arguments);
        *(if theirs.code == Some(0) { &mut tally.taken } else { &mut tally.refused }) += 1;
        if let Some(difference) = difference(&theirs, &mine) {
            tally.differ.push(difference);
            println!(
                "DIFFERENT PENSTOCK_SEED={seed}: {difference}: {}\n{}",
                made.change,
                report(&theirs, &mine, difference)
            );
        } else {
            drop(std::fs::remove_file(&file));
        }
    });
    let sum = |what: fn(&Tally) -> u64| tallies.iter().map(what).sum::<u64>();
    let differ = sum(|t| t.differ.len() as u64);
    let of = |kind| tallies.iter().flat_map(|t| &t.differ).filter(|d| **d == kind).count();
    let kinds = [Difference::Answer, Difference::Places, Difference::Words, Difference::Programs]
        .map(|kind| format!("{} {kind}", of(kind)))
        .join(", ");
    println!(
        "nft: {} nearly right texts: {} taken, {} refused, {} left out; {differ} differ: {kinds}",
        sum(|t| t.texts),
        sum(|t| t.taken),
        sum(|t| t.refused),
        sum(|t| t.left_out),
    );
    (sum(|t| t.texts), differ)
}

fn difference(theirs: &Said, mine: &Said) -> Option<Difference> {
    if theirs.code != mine.code {
        return Some(Difference::Answer);
    }
    if theirs.code == Some(0) {
        let merged = masks::merges_over_statements(&theirs.stdout, &mine.stdout);
        let differ = !merged && masks::differences(&theirs.stdout, &mine.stdout).is_some();
        return differ.then_some(Difference::Programs);
    }
    masks::error_differences(&theirs.stderr, &mine.stderr)?;
    let same = places(&theirs.stderr).eq(places(&mine.stderr));
    Some(if same { Difference::Words } else { Difference::Places })
}

/// `FILE:LINE:FROM-TO` of each error.
fn places(stderr: &str) -> impl Iterator<Item = &str> {
    stderr.lines().filter_map(|line| line.split_once(": Error: ")).map(|(place, _)| place)
}

fn report(theirs: &Said, mine: &Said, difference: Difference) -> String {
    let (a, b) = match difference {
        Difference::Programs => masks::differences(&theirs.stdout, &mine.stdout),
        _ => masks::error_differences(&theirs.stderr, &mine.stderr),
    }
    .unwrap_or_default();
    let side = |name: &str, code: Option<i32>, lines: &[String]| {
        let lines: String = lines.iter().map(|line| format!("      {line}\n")).collect();
        format!("    {name} {code:?}\n{lines}")
    };
    side("nft", theirs.code, &a) + &side("penstock", mine.code, &b)
}
