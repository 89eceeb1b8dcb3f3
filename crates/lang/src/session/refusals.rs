//! What the ruleset refuses, in nft's words.

use penstock_ruleset::model::{Family, Generation, Table};
use penstock_ruleset::{Blame, Change, Errno, Error};

use crate::diag::{Diagnostic, most_similar};
use crate::lower::Places;

/// What a change speaks of: kept when the change itself goes into the ruleset.
pub(super) struct Subject {
    place: Option<(Family, String)>,
    named: Option<String>,
    /// Elements are to be deleted.
    deletes_elements: bool,
}

impl Subject {
    pub(super) fn of(change: &Change) -> Subject {
        // nft does not look for what is to be emptied, and so knows nothing alike.
        let flushes = matches!(change, Change::DeleteRule { handle: None, .. });
        Subject {
            place: place(change).filter(|_| !flushes).map(|(family, table)| (family, table.to_owned())),
            named: name_in(change).map(str::to_owned),
            deletes_elements: matches!(change, Change::DeleteElements { .. }),
        }
    }
}

/// The message for a refused change: where what is named does not exist, something that looks alike is offered.
pub(super) fn diagnostic(
    e: &Error,
    subject: &Subject,
    places: &Places,
    generation: &Generation,
) -> Diagnostic {
    let loc = places.loc(&e.blame);
    let text = e.errno.text();
    // nft itself looks for the intervals that are to be deleted.
    if let (Errno::Enoent, Blame::Element(_), true) = (e.errno, e.blame, subject.deletes_elements)
        && let Some((family, table)) = &subject.place
        && let Some(table) = generation.tables.iter().find(|t| t.family == *family && *t.name == **table)
        && let Some(set) = table.sets.iter().find(|s| Some(&*s.name) == subject.named.as_deref())
        && set.description.interval
        && set.description.fields.is_empty()
    {
        return Diagnostic::error(loc, "element does not exist");
    }
    let near = if e.errno == Errno::Enoent { suggestion(e.blame, subject, generation) } else { None };
    match near {
        Some(near) => Diagnostic::error(loc, format!("{text}; did you mean {near}?")),
        None => Diagnostic::error(loc, format!("Could not process rule: {text}")),
    }
}

fn suggestion(blame: Blame, subject: &Subject, generation: &Generation) -> Option<String> {
    let (family, table) = subject.place.as_ref().map(|(family, table)| (*family, table.as_str()))?;
    let named = subject.named.as_deref();
    let quoted = |kind: &str, name: &str, table: &Table| {
        format!("{kind} ‘{name}’ in table {} ‘{}’", table.family.name(), table.name)
    };
    let tables = || generation.tables.iter().map(|t| &**t);
    let own = tables().find(|t| t.family == family && &*t.name == table);
    match blame {
        Blame::Table => {
            let near = most_similar(table, tables().filter(|t| t.family == family).map(|t| &*t.name))?;
            Some(format!("table ‘{near}’ in family {}", family.name()))
        }
        Blame::Chain => {
            let own = own?;
            let chains = own.chains.iter().filter(|c| !c.anonymous).map(|c| &*c.name);
            Some(quoted("chain", most_similar(named?, chains)?, own))
        }
        Blame::Set => {
            let own = own?;
            let sets = own.sets.iter().filter(|s| !s.anonymous).map(|s| &*s.name);
            let near = most_similar(named?, sets)?;
            let map = own.sets.iter().any(|s| &*s.name == near && s.data.is_some());
            Some(quoted(if map { "map" } else { "set" }, near, own))
        }
        Blame::Object => {
            let own = own?;
            Some(quoted("obj", most_similar(named?, own.objects.iter().map(|o| &*o.name))?, own))
        }
        Blame::Flowtable => {
            let own = own?;
            let near = most_similar(named?, own.flowtables.iter().map(|f| &*f.name))?;
            Some(quoted("flowtable", near, own))
        }
        Blame::Whole
        | Blame::Handle
        | Blame::Position
        | Blame::Hook
        | Blame::Type
        | Blame::Policy
        | Blame::Element(_)
        | Blame::Expression(_) => None,
    }
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
        Change::AddObject { name, .. } | Change::RenameChain { name, .. } | Change::AddTable { name, .. } => {
            Some(name)
        }
        Change::AddFlowtable { flowtable, .. } => Some(&flowtable.name),
        Change::DeleteChain { key, .. }
        | Change::DeleteSet { key, .. }
        | Change::DeleteObject { key, .. }
        | Change::DeleteFlowtable { key, .. } => match key {
            Key::Name(name) => Some(name),
            Key::Handle(_) => None,
        },
        Change::DeleteTable { .. } => None,
    }
}
