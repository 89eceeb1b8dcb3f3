// SPDX-License-Identifier: Apache-2.0

//! Which process has the table of routes. A named counter says so: every transaction asks for it
//! first and is refused without it, so that a process whose place was taken changes nothing more.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use penstock_random::Random;

/// What the names of such counters begin with.
const PREFIX: &str = "owner_";

/// A process, as the table names it.
pub struct Owner {
    table: String,
    name: String,
    /// It had the table once.
    has_owned: bool,
}

/// Whose a table is.
#[derive(Debug, PartialEq, Eq)]
pub enum Owned {
    /// This process's.
    Mine,
    /// Nobody's, or that of one before this one.
    Free,
    /// That of one who came after.
    Taken,
}

impl Owner {
    /// This process, for a table of family inet.
    pub fn new(table: &str) -> Owner {
        let name = format!("{PREFIX}{:016x}", Random::unknown().u64());
        Owner { table: table.to_owned(), name, has_owned: false }
    }

    /// Whose a table with these counters is.
    pub fn of(&self, counters: &BTreeSet<String>) -> Owned {
        let has_other = counters.iter().any(|c| c.starts_with(PREFIX) && *c != self.name);
        match counters.contains(&self.name) {
            true => Owned::Mine,
            false if has_other && self.has_owned => Owned::Taken,
            false => Owned::Free,
        }
    }

    /// Commands that make the table this process's.
    pub fn claim(&mut self, counters: &BTreeSet<String>) -> String {
        self.has_owned = true;
        let mut text = String::new();
        for other in counters.iter().filter(|c| c.starts_with(PREFIX)) {
            let _ = writeln!(text, "delete counter inet {} {other}", self.table);
        }
        let _ = writeln!(text, "add counter inet {} {}", self.table, self.name);
        text
    }

    /// Commands that are refused if the table is another process's.
    pub fn fence(&self) -> String {
        format!("list counter inet {} {}\n", self.table, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_who_comes_has_the_table() {
        let (mut first, mut second) = (Owner::new("bgp"), Owner::new("bgp"));
        let none = BTreeSet::new();
        assert_eq!(first.of(&none), Owned::Free);
        assert_eq!(first.claim(&none), format!("add counter inet bgp {}\n", first.name));
        let of_first = BTreeSet::from([first.name.clone(), "mine".to_owned()]);
        assert_eq!((first.of(&of_first), second.of(&of_first)), (Owned::Mine, Owned::Free));
        let expected = format!(
            "delete counter inet bgp {}\nadd counter inet bgp {}\n",
            first.name, second.name
        );
        assert_eq!(second.claim(&of_first), expected);
        let of_second = BTreeSet::from([second.name.clone()]);
        assert_eq!((first.of(&of_second), second.of(&of_second)), (Owned::Taken, Owned::Mine));
        // The table was made anew by somebody else.
        assert_eq!(first.of(&none), Owned::Free);
    }
}
