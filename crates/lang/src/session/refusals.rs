// SPDX-License-Identifier: Apache-2.0

//! What the ruleset refuses, in nft's words.

use penstock_ruleset::link::{CannotOffload, ErrorPlace, LinkError, OffloadPart};
use penstock_ruleset::model::{Family, Generation, Table};
use penstock_ruleset::{Blame, Change, Errno, Error};
use penstock_syntax::diag::{Diagnostic, Diagnostics, Severity, most_similar_of};

use super::step::Done;
use crate::lower::Places;

/// What a command is about, as far as something like it is looked for.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Table,
    Chain,
    Rule,
    Set,
    Object,
    Flowtable,
}

/// What a change speaks of: kept when the change itself goes into the ruleset.
pub(super) struct Subject {
    kind: Option<Kind>,
    place: Option<(Family, String)>,
    named: Option<String>,
    /// The change deletes elements.
    deletes_elements: bool,
}

impl Subject {
    pub(super) fn of(change: &Change) -> Subject {
        // nft does not look up objects to flush, and so has no suggestion.
        let flushes = matches!(change, Change::DeleteRule { handle: None, .. });
        Subject {
            kind: kind(change),
            place: place(change)
                .filter(|_| !flushes)
                .map(|(family, table)| (family, table.to_owned())),
            named: name_in(change).map(str::to_owned),
            deletes_elements: matches!(change, Change::DeleteElements { .. }),
        }
    }
}

/// The message for a refused change: where what is named does not exist, something that looks alike
/// is offered.
pub(super) fn diagnostic(
    e: &Error,
    subject: &Subject,
    places: &Places,
    generation: &Generation,
) -> Diagnostic {
    let loc = places.loc(&e.blame);
    let text = e.errno.text();
    // nft itself looks up the intervals to delete.
    if let (Errno::Enoent, Blame::Element(_), true) = (e.errno, e.blame, subject.deletes_elements)
        && let Some((family, table)) = &subject.place
        && let Some(table) =
            generation.tables.iter().find(|t| t.family == *family && *t.name == **table)
        && let Some(set) = table.sets.iter().find(|s| Some(&*s.name) == subject.named.as_deref())
        && set.description.interval
        && set.description.fields.is_empty()
    {
        return Diagnostic::error(loc, "element does not exist");
    }
    let named = !matches!(e.blame, Blame::Whole | Blame::Element(_) | Blame::Expression(_));
    let near =
        if named && e.errno == Errno::Enoent { suggestion(subject, generation) } else { None };
    match near {
        Some(near) => Diagnostic::error(loc, format!("{text}; did you mean {near}?")),
        None => {
            // The kernel knows no programs of chains, and so has no word for what is wrong.
            let own =
                e.detail.as_deref().filter(|_| matches!(e.blame, Blame::Program | Blame::Chain));
            let why = own.unwrap_or(text);
            Diagnostic::error(loc, format!("Could not process rule: {why}"))
        }
    }
}

/// A suggestion for the missing object: for nft an object with that name, or a similar one, in any
/// table; if the named table does not exist, it is the table of the object found.
fn suggestion(subject: &Subject, generation: &Generation) -> Option<String> {
    let (family, table) =
        subject.place.as_ref().map(|(family, table)| (*family, table.as_str()))?;
    let kind = subject.kind?;
    let wanted = if kind == Kind::Table { table } else { subject.named.as_deref()? };
    let candidates: Vec<(&Table, &str)> = generation
        .tables
        .iter()
        .flat_map(|t| names(kind, t).into_iter().map(|name| (&**t, name)))
        .collect();
    let exact = candidates.iter().find(|(_, name)| *name == wanted).copied();
    let (found_in, near) = match exact {
        Some(found) => found,
        None => most_similar_of(wanted, candidates, |(_, name)| name)?,
    };
    let there = found_in.family.name();
    if !generation.tables.iter().any(|t| t.family == family && *t.name == *table) {
        return Some(format!("table ‘{}’ in family {there}", found_in.name));
    }
    let word = match kind {
        Kind::Table => return None,
        Kind::Rule if exact.is_some() => return None,
        Kind::Rule | Kind::Chain => "chain",
        Kind::Set => match found_in.sets.iter().find(|s| *s.name == *near) {
            Some(set) if set.data.is_some() => "map",
            _ => "set",
        },
        Kind::Object => "obj",
        Kind::Flowtable => "flowtable",
    };
    Some(format!("{word} ‘{near}’ in table {there} ‘{}’", found_in.name))
}

/// What of a kind a table has, by name; of rules the chains.
fn names(kind: Kind, table: &Table) -> Vec<&str> {
    match kind {
        Kind::Table => vec![&*table.name],
        Kind::Rule | Kind::Chain => {
            table.chains.iter().filter(|c| !c.anonymous).map(|c| &*c.name).collect()
        }
        Kind::Set => table.sets.iter().filter(|s| !s.anonymous).map(|s| &*s.name).collect(),
        Kind::Object => table.objects.iter().map(|o| &*o.name).collect(),
        Kind::Flowtable => table.flowtables.iter().map(|f| &*f.name).collect(),
    }
}

/// What a change is about.
fn kind(change: &Change) -> Option<Kind> {
    Some(match change {
        Change::AddTable { .. } | Change::DeleteTable { .. } => Kind::Table,
        Change::AddChain { .. } | Change::RenameChain { .. } | Change::DeleteChain { .. } => {
            Kind::Chain
        }
        Change::AddRule { .. } | Change::DeleteRule { .. } => Kind::Rule,
        Change::AddSet { .. } | Change::DeleteSet { .. } => Kind::Set,
        Change::AddElements { .. }
        | Change::DeleteElements { .. }
        | Change::Sender { .. }
        | Change::Closed { .. }
        | Change::Global(_)
        | Change::Gap { .. } => return None,
        Change::AddObject { .. } | Change::DeleteObject { .. } => Kind::Object,
        Change::AddFlowtable { .. } | Change::DeleteFlowtable { .. } => Kind::Flowtable,
    })
}

/// Family and table of a change.
pub(super) fn place(change: &Change) -> Option<(Family, &str)> {
    use penstock_ruleset::change::Key;
    Some(match change {
        Change::AddTable { family, name, .. } => (*family, name),
        Change::DeleteTable { family, key, .. } => match key {
            Some(Key::Name(name)) => ((*family)?, name),
            Some(Key::Handle(_)) | None => return None,
        },
        Change::AddChain { family, table, .. }
        | Change::RenameChain { family, table, .. }
        | Change::DeleteChain { family, table, .. }
        | Change::AddRule { family, table, .. }
        | Change::DeleteRule { family, table, .. }
        | Change::AddSet { family, table, .. }
        | Change::DeleteSet { family, table, .. }
        | Change::AddElements { family, table, .. }
        | Change::DeleteElements { family, table, .. }
        | Change::AddObject { family, table, .. }
        | Change::DeleteObject { family, table, .. }
        | Change::AddFlowtable { family, table, .. }
        | Change::DeleteFlowtable { family, table, .. } => (*family, table),
        Change::Sender { .. } | Change::Closed { .. } | Change::Global(_) | Change::Gap { .. } => {
            return None;
        }
    })
}

/// What a change names in its table.
fn name_in(change: &Change) -> Option<&str> {
    use penstock_ruleset::change::Key;
    match change {
        Change::AddChain { chain, .. } => Some(&chain.name),
        Change::AddRule { chain, .. } => Some(chain),
        Change::DeleteRule { chain, .. } => chain.as_deref(),
        Change::AddSet { set, .. } => Some(&set.name),
        Change::AddElements { set, .. } | Change::DeleteElements { set, .. } => Some(set),
        Change::AddObject { name, .. }
        | Change::RenameChain { name, .. }
        | Change::AddTable { name, .. } => Some(name),
        Change::AddFlowtable { flowtable, .. } => Some(&flowtable.name),
        Change::DeleteChain { key, .. }
        | Change::DeleteSet { key, .. }
        | Change::DeleteObject { key, .. }
        | Change::DeleteFlowtable { key, .. } => match key {
            Key::Name(name) => Some(name),
            Key::Handle(_) => None,
        },
        Change::DeleteTable { .. }
        | Change::Sender { .. }
        | Change::Closed { .. }
        | Change::Global(_)
        | Change::Gap { .. } => None,
    }
}

/// Blames the statement of an expression that the packet path cannot run.
pub(super) fn blame(e: &LinkError, done: &[Done], diags: &mut Diagnostics) {
    let loc = match &e.place {
        ErrorPlace::Chain(name) => done
            .iter()
            .find(|d| matches!(&d.change, Change::AddChain { chain, .. } if chain.name == *name))
            .map(|d| d.places.chain.unwrap_or(d.places.whole)),
        ErrorPlace::Rule { handle, expression, .. } => done
            .iter()
            .find(|d| matches!(d.change, Change::AddRule { .. }) && d.handle == Some(*handle))
            .map(|d| d.places.expressions.get(*expression).copied().unwrap_or(d.places.whole)),
    };
    diags.push(Diagnostic {
        severity: Severity::Error,
        loc: loc.unwrap_or_default(),
        others: Vec::new(),
        message: e.to_string(),
    });
}

/// The change that was refused elsewhere, though it is right here.
pub(super) fn refused_change(number: usize, e: &Error, done: &[Done]) -> Diagnostic {
    let place = done.get(number).map(|d| d.places.loc(&e.blame));
    Diagnostic::error(
        place.unwrap_or_default(),
        format!("Could not process rule: {}", e.errno.text()),
    )
}

/// The latest change of the flowtable or the chain is to blame, or the rule.
pub(super) fn refused_offload(e: &CannotOffload, done: &[Done]) -> Diagnostic {
    let place = done.iter().rev().find_map(|d| match (&d.change, &e.part) {
        (Change::AddFlowtable { family, table, flowtable, .. }, OffloadPart::Flowtable(name))
            if (*family, table, &flowtable.name) == (e.family, &e.table, name) =>
        {
            Some(d.places.loc(&Blame::Flowtable))
        }
        (
            Change::AddChain { family, table, chain, .. },
            OffloadPart::Chain { chain: name, rule: None, .. },
        ) if (*family, table, &chain.name) == (e.family, &e.table, name) => {
            Some(d.places.loc(&Blame::Chain))
        }
        (Change::AddRule { family, table, .. }, OffloadPart::Chain { rule: Some(rule), .. })
            if (*family, table, d.handle) == (e.family, &e.table, Some(*rule)) =>
        {
            Some(d.places.whole)
        }
        _ => None,
    });
    Diagnostic::error(place.unwrap_or_default(), format!("Could not process rule: {e}"))
}
