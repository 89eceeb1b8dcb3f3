//! The word that a misspelt one is likely to mean, where nft only says that there is a syntax error.

use crate::diag::{Diagnostic, most_similar};
use crate::source::Inputs;
use crate::{exthdr, keys, proto};

/// Words that begin statements, expressions, commands and lines of blocks.
const WORDS: &[&str] = &[
    "accept",
    "drop",
    "continue",
    "return",
    "jump",
    "goto",
    "queue",
    "reject",
    "counter",
    "limit",
    "quota",
    "log",
    "last",
    "masquerade",
    "redirect",
    "snat",
    "dnat",
    "tproxy",
    "synproxy",
    "notrack",
    "dup",
    "fwd",
    "flow",
    "meter",
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
    "meta",
    "ct",
    "rt",
    "fib",
    "socket",
    "osf",
    "ipsec",
    "numgen",
    "jhash",
    "symhash",
    "vmap",
    "packets",
    "bytes",
    "prefix",
    "group",
    "rate",
    "burst",
    "exists",
    "missing",
];

/// `did you mean …`, for a diagnostic about a word that is not known at its place.
pub(crate) fn note(diagnostic: &Diagnostic, inputs: &Inputs) -> Option<String> {
    if !diagnostic.message.starts_with("syntax error") {
        return None;
    }
    let text = inputs.text(diagnostic.loc.input);
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
    while let Some(word) = text.get(at..end).map(|rest| rest.split([' ', '\t']).next().unwrap_or_default()) {
        places.push(at);
        at += word.len() + 1;
    }
    // The word before may have made this one come too early. Short ones are rather names.
    places.extend(before(start).filter(|at| word_of(*at).is_some_and(|word| word.len() >= 4)));
    places.into_iter().find_map(|at| {
        let wrong = word_of(at)?;
        let header = before(at).and_then(word_of).unwrap_or_default();
        let words = candidates(header);
        if words.contains(&wrong) {
            return None;
        }
        most_similar(wrong, words).map(|word| format!("did you mean ‘{word}’ instead of ‘{wrong}’?"))
    })
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// What may stand behind a word.
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
            WORDS
                .iter()
                .copied()
                .chain(protos)
                .chain(exthdr::IPV6.iter().map(|d| d.name))
                .chain(meta)
                .collect()
        }
    }
}
