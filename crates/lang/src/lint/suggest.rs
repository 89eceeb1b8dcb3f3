// SPDX-License-Identifier: Apache-2.0

//! Suggests a word for a misspelt one, where nft only reports a syntax error.

use penstock_syntax::ast::{key, stmt};
use penstock_syntax::datatype::{DataType, symbols};
use penstock_syntax::diag::Diagnostic;
use penstock_syntax::exthdr;
use penstock_syntax::keys;
use penstock_syntax::proto;
use penstock_syntax::source::Inputs;

/// Verdicts.
const VERDICTS: &[&str] = &["accept", "drop", "continue", "return", "jump", "goto"];

/// Words that begin commands, lines of blocks, and statements other than
/// [`stmt::KEYWORDS`](stmt).
const WORDS: &[&str] = &[
    "update",
    "add",
    "delete",
    "create",
    "insert",
    "replace",
    "destroy",
    "flush",
    "list",
    "reset",
    "rename",
    "get",
    "describe",
    "monitor",
    "table",
    "chain",
    "rule",
    "set",
    "map",
    "element",
    "flowtable",
    "ruleset",
    "comment",
    "type",
    "hook",
    "priority",
    "policy",
    "device",
    "devices",
    "flags",
    "elements",
    "timeout",
    "size",
    "typeof",
    "define",
    "redefine",
    "undefine",
    "include",
];

/// Words that begin other expressions than [`key::KEYWORDS`], or stand within them.
const OPERANDS: &[&str] =
    &["vmap", "packets", "bytes", "prefix", "group", "rate", "burst", "exists", "missing"];

/// `did you mean …`, for a diagnostic about a word that is not known at its place.
pub(crate) fn note(diagnostic: &Diagnostic, inputs: &Inputs) -> Option<String> {
    let text = inputs.text(diagnostic.loc.input);
    if let Some(kind) = diagnostic.message.strip_prefix("Could not parse ") {
        let wrong = text.get(diagnostic.loc.start as usize..diagnostic.loc.end as usize)?;
        return meant(wrong, &names_of(kind));
    }
    if !diagnostic.message.starts_with("syntax error") {
        return None;
    }
    let word_of = |from: usize| {
        let rest = text.get(from..)?;
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        rest.get(..end).filter(|w| !w.is_empty())
    };
    let before = |to: usize| {
        let head = text.get(..to)?.trim_end_matches([' ', '\t']);
        let from = head.rfind(|c: char| !is_part(c)).map_or(0, |at| at + 1);
        // Characters that are not of a word may be longer than a byte.
        (from..=head.len()).find(|at| head.is_char_boundary(*at)).filter(|at| *at < head.len())
    };
    let (start, end) = (diagnostic.loc.start as usize, diagnostic.loc.end as usize);
    let mut places = Vec::new();
    let mut at = start;
    while let Some(word) =
        text.get(at..end).map(|rest| rest.split([' ', '\t']).next().unwrap_or_default())
    {
        places.push(at);
        at += word.len() + 1;
    }
    // The word before may have made this one come too early. Short ones are rather names.
    places.extend(before(start).filter(|at| word_of(*at).is_some_and(|word| word.len() >= 4)));
    // So may the first word of the line.
    let line = text.get(..start)?.rfind('\n').map_or(0, |at| at + 1);
    places.extend(text.get(line..start)?.find(is_part).map(|indent| line + indent));
    places.into_iter().find_map(|at| {
        let wrong = word_of(at)?;
        let header = before(at).and_then(word_of).unwrap_or_default();
        meant(wrong, &candidates(header))
    })
}

/// The nearest of the words, unless it is one of them.
fn meant(wrong: &str, words: &[&str]) -> Option<String> {
    if words.contains(&wrong) {
        return None;
    }
    // One mistake, or two in a long word.
    let most = if wrong.len() < 6 { 1 } else { 2 };
    let near = words
        .iter()
        .map(|word| (distance(wrong, word), word))
        .min_by_key(|(distance, _)| *distance)?;
    (near.0 <= most && wrong.len() >= 3)
        .then(|| format!("did you mean ‘{}’ instead of ‘{wrong}’?", near.1))
}

/// How many letters were left out, put in, put for others, or changed places with their neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

/// Names of the values of a type, by what nft calls it.
fn names_of(description: &str) -> Vec<&'static str> {
    let types = DataType::ALL.into_iter().filter(|dtype| dtype.description() == description);
    types.filter_map(symbols::of).flat_map(|symbols| symbols.list).map(|(name, _)| *name).collect()
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// What may stand after a word.
fn candidates(header: &str) -> Vec<&'static str> {
    if let Some(proto) = proto::find(header) {
        return proto.templates.iter().map(|t| t.name).collect();
    }
    match header {
        "meta" => keys::META.iter().map(|k| k.name).collect(),
        "ct" => keys::CT.iter().map(|k| k.name).collect(),
        "rt" => keys::RT.iter().map(|k| k.name).collect(),
        "socket" => keys::SOCKET.iter().map(|k| k.name).collect(),
        _ => {
            let protos = proto::ALL.iter().map(|p| p.name);
            let meta = keys::META.iter().map(|k| k.name);
            let keywords = key::KEYWORDS.iter().filter(|k| k.reserved).map(|k| k.word);
            // nft lists `xt`, but does not accept it.
            let stmts = stmt::KEYWORDS.iter().map(|k| k.word).filter(|word| *word != "xt");
            VERDICTS
                .iter()
                .copied()
                .chain(stmts)
                .chain(WORDS.iter().copied())
                .chain(keywords)
                .chain(OPERANDS.iter().copied())
                .chain(protos)
                .chain(exthdr::IPV6.iter().map(|d| d.name))
                .chain(meta)
                .collect()
        }
    }
}
