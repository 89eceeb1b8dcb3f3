// SPDX-License-Identifier: Apache-2.0

//! Texts that are nearly right: a right one of `mutated.txt`, or a random ruleset, with a token
//! lost, doubled, moved or replaced.

use fastrand::Rng;

use crate::random;

/// Right texts, `%%` between them, that together say all there is to say.
const TEXTS: &str = include_str!("mutated.txt");

/// How many random rulesets there are for each text of the file.
const RANDOM_TEXTS: usize = 4;

/// The text of a seed.
pub struct Mutated {
    pub family: &'static str,
    pub text: String,
    /// What was done to it, for people.
    pub change: String,
}

/// Makes the text of a seed.
pub fn text(seed: u64) -> Mutated {
    let mut rng = Rng::with_seed(seed);
    let texts: Vec<&str> = TEXTS.split("%%\n").collect();
    let at = rng.usize(..texts.len() + RANDOM_TEXTS);
    let (family, text) = match texts.get(at) {
        Some(text) => ("inet", (*text).to_owned()),
        None => {
            let made = random::ruleset(rng.u64(..));
            let rule = made.rules.first().map_or("", |rule| rule.as_str());
            (made.family, format!("{}{rule}\n", made.frame))
        }
    };
    let tokens = tokens(&text);
    let places: Vec<usize> =
        (0..tokens.len()).filter(|&i| !tokens[i].trim_matches(' ').is_empty()).collect();
    // Where rulesets are random, mostly their rule is changed.
    let first = if family == "inet" && at < texts.len() || rng.u8(..4) == 0 {
        0
    } else {
        places.len() * 9 / 10
    };
    let index = first + rng.usize(..places.len() - first);
    let place = places[index];
    let other = {
        let donor = self::tokens(texts[rng.usize(..texts.len())]);
        loop {
            let token = donor[rng.usize(..donor.len())];
            if !token.trim_matches([' ', '\t']).is_empty() {
                break token.to_owned();
            }
        }
    };
    let mut changed: Vec<String> = tokens.iter().map(|t| (*t).to_owned()).collect();
    let token = tokens[place].to_owned();
    let change = match rng.u8(..10) {
        0..3 => {
            changed[place].clear();
            format!("without {token:?}")
        }
        3..5 => {
            changed[place] = format!("{token} {token}");
            format!("twice {token:?}")
        }
        5 if index + 1 < places.len() => {
            changed.swap(place, places[index + 1]);
            format!("{token:?} after {:?}", tokens[places[index + 1]])
        }
        6 => {
            changed[place] = format!("{token} {other} ");
            format!("{other:?} after {token:?}")
        }
        7 => {
            // In a word.
            let cut =
                token.char_indices().nth(rng.usize(..token.chars().count())).map_or(0, |(i, _)| i);
            changed[place] =
                token.chars().enumerate().filter(|(i, _)| *i != cut).map(|(_, c)| c).collect();
            format!("{token:?} without a character")
        }
        _ => {
            changed[place].clone_from(&other);
            format!("{other:?} for {token:?}")
        }
    };
    let line = 1 + tokens[..place].concat().matches('\n').count();
    Mutated { family, text: changed.concat(), change: format!("{change} in line {line}") }
}

/// Words, quoted texts, signs and white space, which together are the text.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | ':' | '/' | '\\');
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let run = |of: &dyn Fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
        let end = match first {
            ' ' | '\t' => run(&|c| c == ' ' || c == '\t'),
            '"' => rest[1..].find(['"', '\n']).map_or(rest.len(), |at| at + 2),
            c if is_word(c) => run(&is_word),
            c => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(end);
        tokens.push(token);
        rest = behind;
    }
    tokens
}
