//! A ruleset as a text that brings it back, handles and all.
//!
//! The text is the canonical listing, followed by comments that say what a listing does not: handles, counters of
//! handles, and the order in which base chains were registered. So it is a ruleset like any other to whoever reads
//! it with `nft -f`.

use std::fmt::Write;
use std::sync::Arc;

use penstock_ruleset::Ruleset;
use penstock_ruleset::model::{Generation, Table};

use super::{Options, Session};
use crate::datatype::Format;
use crate::names::Names;
use crate::print::listing::{Listing, family_name};
use crate::source::{Files, Origin};

/// Starts the lines that hold handles.
const MARK: &str = "#: ";

/// The text for a ruleset at time `now`, in nanoseconds since the epoch.
pub fn save(ruleset: &Ruleset, names: &dyn Names, now: u64) -> String {
    let generation = ruleset.generation();
    // Symbols stay: `missing` and 0 are not the same.
    let format = Format { numeric_priority: true, numeric_protocol: true, ..Format::default() };
    let listing = Listing { generation: &generation, format, names, now };
    let mut out = listing.ruleset(None);
    let _ =
        writeln!(out, "{MARK}generation {} tables {} at {now}", generation.id, ruleset.last_table_handle());
    for table in &generation.tables {
        let family = family_name(table.family);
        let _ = writeln!(out, "{MARK}table {family} {} {} {}", table.name, table.handle, table.last_handle);
        for chain in &table.chains {
            let registered = chain.base.as_ref().map_or(0, |b| b.registered);
            let _ = write!(out, "{MARK}chain {} {registered}", chain.handle);
            for rule in &chain.rules {
                let _ = write!(out, " {}", rule.handle);
            }
            out.push('\n');
        }
        let handles = |out: &mut String, kind: &str, handles: &mut dyn Iterator<Item = u64>| {
            let _ = write!(out, "{MARK}{kind}");
            for handle in handles {
                let _ = write!(out, " {handle}");
            }
            out.push('\n');
        };
        handles(&mut out, "sets", &mut table.sets.iter().filter(|s| !s.anonymous).map(|s| s.handle));
        handles(&mut out, "anonymous", &mut table.sets.iter().filter(|s| s.anonymous).map(|s| s.handle));
        handles(&mut out, "objects", &mut table.objects.iter().map(|o| o.handle));
        handles(&mut out, "flowtables", &mut table.flowtables.iter().map(|f| f.handle));
    }
    out
}

/// Whether two texts that [`save`] made are of the same ruleset, at whatever times.
pub fn same(a: &str, b: &str) -> bool {
    let timeless = |text: &str| {
        let is_time = |l: &&str| l.starts_with(MARK) && l.contains(" at ");
        let (times, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(is_time);
        let generation = times.first().and_then(|l| l.split(" at ").next()).map(str::to_owned);
        (generation, lines.join("\n"))
    };
    timeless(a) == timeless(b)
}

/// The ruleset of a text that [`save`] made. The error says what is wrong with it.
///
/// Lives of elements go on from the time at which it was made.
pub fn restore(text: String, files: &dyn Files, names: &dyn Names) -> Result<Ruleset, String> {
    let marks: Vec<Vec<String>> = text
        .lines()
        .filter_map(|l| l.strip_prefix(MARK))
        .map(|l| l.split(' ').map(str::to_owned).collect())
        .collect();
    let now = marks.first().and_then(|first| first.get(5)).and_then(|at| at.parse().ok()).unwrap_or(0);
    let mut ruleset = Ruleset::default();
    let origin = Origin::File { name: "state".into(), from: None };
    let outcome = Session::new(Options { as_listed: true, ..Options::default() }, files, names).run(
        origin,
        text,
        &mut ruleset,
        now,
    );
    if !outcome.ok {
        return Err(outcome.stderr);
    }
    let mut generation = (*ruleset.generation()).clone();
    match apply_marks(&mut generation, &marks) {
        Some(last_table_handle) => Ok(Ruleset::resume(generation, last_table_handle)),
        None if marks.is_empty() => Ok(ruleset),
        None => Err("the handles in it do not fit its rules\n".into()),
    }
}

fn apply_marks(generation: &mut Generation, marks: &[Vec<String>]) -> Option<u64> {
    let mut marks = marks.iter();
    let first = marks.next()?;
    generation.id = first.get(1)?.parse().ok()?;
    let last_table_handle = first.get(3)?.parse().ok()?;
    for table in &mut generation.tables {
        let table: &mut Table = Arc::make_mut(table);
        let words = marks.next().filter(|w| w.first().is_some_and(|w| w == "table"))?;
        table.handle = words.get(words.len().checked_sub(2)?)?.parse().ok()?;
        table.last_handle = words.last()?.parse().ok()?;
        for chain in &mut table.chains {
            let chain = Arc::make_mut(chain);
            let mut words = marks.next().filter(|w| w.first().is_some_and(|w| w == "chain"))?.iter().skip(1);
            chain.handle = words.next()?.parse().ok()?;
            let registered = words.next()?.parse().ok()?;
            if let Some(base) = &mut chain.base {
                base.registered = registered;
            }
            for rule in &mut chain.rules {
                Arc::make_mut(rule).handle = words.next()?.parse().ok()?;
            }
        }
        let mut handles = |kind: &str| {
            let words = marks.next().filter(|w| w.first().is_some_and(|w| w == kind))?;
            words.iter().skip(1).map(|w| w.parse::<u64>().ok()).collect::<Option<Vec<_>>>()
        };
        let mut named = handles("sets")?.into_iter();
        let mut anonymous = handles("anonymous")?.into_iter();
        for set in &mut table.sets {
            let set = Arc::make_mut(set);
            let next = if set.anonymous { anonymous.next() } else { named.next() };
            set.handle = next?;
        }
        for (object, handle) in table.objects.iter_mut().zip(handles("objects")?) {
            Arc::make_mut(object).handle = handle;
        }
        for (flowtable, handle) in table.flowtables.iter_mut().zip(handles("flowtables")?) {
            Arc::make_mut(flowtable).handle = handle;
        }
        // The order of creation, which a listing does not keep between named and anonymous sets.
        table.chains.sort_by_key(|c| c.handle);
        table.sets.sort_by_key(|s| s.handle);
        table.objects.sort_by_key(|o| o.handle);
        table.flowtables.sort_by_key(|f| f.handle);
    }
    Some(last_table_handle)
}
