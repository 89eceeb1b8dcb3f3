// SPDX-License-Identifier: Apache-2.0

//! A call of `penstock conntrack` or `penstock flows`: what is done with which connections. Options
//! that choose connections are those of conntrack(8).

use penstock_conntrack::{Filter, Style};

/// Which table is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionTable {
    /// All connections.
    Connections,
    /// Those of them that are in flowtables, or were to be.
    Flows,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAction {
    /// They are listed.
    List,
    /// Those that match are removed; flows go back to connection tracking.
    Delete,
    /// All are removed.
    Flush,
    /// What happens to them is told as it happens.
    Events,
    /// How many there are.
    Count,
}

impl TableAction {
    /// Words and options of the command line.
    pub const NAMES: [(&str, &str, &str, TableAction); 5] = [
        ("list", "-L", "--dump", TableAction::List),
        ("delete", "-D", "--delete", TableAction::Delete),
        ("flush", "-F", "--flush", TableAction::Flush),
        ("events", "-E", "--event", TableAction::Events),
        ("count", "-C", "--count", TableAction::Count),
    ];

    fn of(word: &str) -> Option<TableAction> {
        let is_it = |(name, short, long, _): &&(&str, &str, &str, TableAction)| {
            [*name, *short, *long].contains(&word)
        };
        TableAction::NAMES.iter().find(is_it).map(|(.., action)| *action)
    }
}

/// Kinds of events, as bits.
pub(crate) mod kinds {
    pub(crate) const NEW: u8 = 1;
    pub(crate) const UPDATES: u8 = 2;
    pub(crate) const DESTROY: u8 = 4;
    pub(crate) const ALL: u8 = NEW | UPDATES | DESTROY;
}

/// A call.
#[derive(Clone, Debug)]
pub struct TableCall {
    /// The table.
    pub table: ConnectionTable,
    /// What is done.
    pub action: TableAction,
    /// Which connections.
    pub filter: Filter,
    /// The form of a line.
    pub style: Style,
    /// JSON instead of lines.
    pub json: bool,
    /// Kinds of events.
    pub(crate) kinds: u8,
}

impl TableCall {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn parse(table: ConnectionTable, words: &[String]) -> Result<TableCall, String> {
        let (mut action, mut style, mut json) = (None, Style::default(), false);
        let (mut kinds, mut rest) = (0, Vec::new());
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) if word.starts_with("--") => (name, Some(value)),
                _ => (word, None),
            };
            let mut value = || {
                let value = joined.or_else(|| words.next());
                value.ok_or_else(|| format!("option `{name}' needs a value"))
            };
            if let Some(found) = TableAction::of(word) {
                if action.replace(found).is_some_and(|before| before != found) {
                    return Err(format!("`{word}`: one thing at a time"));
                }
                continue;
            }
            match name {
                "--json" => json = true,
                "-o" | "--output" => output(value()?, &mut style)?,
                "-e" | "--event-mask" => kinds |= events(value()?)?,
                _ if word.starts_with('-') => {
                    rest.push(word);
                    // Its value must not be taken for a word of ours.
                    let alone = ["-n", "--src-nat", "-g", "--dst-nat", "-j", "--any-nat"];
                    if joined.is_none() && !alone.contains(&word) {
                        rest.extend(words.next());
                    }
                }
                _ => return Err(format!("unexpected argument `{word}`")),
            }
        }
        let filter = Filter::parse(&rest)?;
        let action = action.unwrap_or(TableAction::List);
        if kinds != 0 && action != TableAction::Events {
            return Err("--event-mask is for `events`".into());
        }
        match action {
            TableAction::Flush | TableAction::Count if !rest.is_empty() => {
                return Err(format!(
                    "`{}` chooses nothing; `flush` and `count` are of all",
                    rest.join(" ")
                ));
            }
            TableAction::Delete if rest.is_empty() => {
                return Err("nothing is chosen; `flush` removes all".into());
            }
            _ => {}
        }
        let kinds = if kinds == 0 { kinds::ALL } else { kinds };
        Ok(TableCall { table, action, filter, style, json, kinds })
    }

    /// Whether it changes something.
    pub(crate) fn changes(&self) -> bool {
        matches!(self.action, TableAction::Delete | TableAction::Flush)
    }
}

/// The values of `-o`.
fn output(text: &str, style: &mut Style) -> Result<(), String> {
    for word in text.split(',') {
        match word {
            "extended" => style.extended = true,
            "id" => style.id = true,
            "ktimestamp" => style.ktimestamp = true,
            "labels" => style.labels = true,
            _ => return Err(format!("bad value `{word}' of `-o'")),
        }
    }
    Ok(())
}

/// The values of `-e`.
fn events(text: &str) -> Result<u8, String> {
    let mut all = 0;
    for word in text.split(',') {
        all |= match word.to_ascii_uppercase().as_str() {
            "NEW" => kinds::NEW,
            "UPDATES" | "UPDATE" => kinds::UPDATES,
            "DESTROY" => kinds::DESTROY,
            "ALL" => kinds::ALL,
            _ => return Err(format!("bad value `{word}' of `-e'")),
        };
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(table: ConnectionTable, line: &str) -> Result<TableCall, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        TableCall::parse(table, &words)
    }

    #[test]
    fn calls_are_read_as_conntrack_reads_them() {
        let table = ConnectionTable::Connections;
        for (line, action) in [
            ("", TableAction::List),
            ("-L -p tcp --dport 80", TableAction::List),
            ("list -s 198.18.0.0/24 -o extended,id", TableAction::List),
            ("-p udp delete", TableAction::Delete),
            ("-D -m 0x1/0xff", TableAction::Delete),
            ("events -e NEW,DESTROY", TableAction::Events),
            ("-E -n -s 198.18.0.1", TableAction::Events),
            ("flush", TableAction::Flush),
            ("-C", TableAction::Count),
        ] {
            assert_eq!(call(table, line).map(|call| call.action), Ok(action), "{line}");
        }
        for (line, message) in [
            ("delete", "nothing is chosen; `flush` removes all"),
            ("flush -p tcp", "`-p tcp` chooses nothing; `flush` and `count` are of all"),
            ("list delete", "`delete`: one thing at a time"),
            ("list eth0", "unexpected argument `eth0`"),
            ("list -s", "option `-s' needs a value"),
            ("list -s nowhere", "bad value `nowhere' of `-s'"),
            ("list --nope 3", "unknown option `--nope'"),
            ("list -o xml", "bad value `xml' of `-o'"),
            ("list -e NEW", "--event-mask is for `events`"),
        ] {
            assert_eq!(call(table, line).err().as_deref(), Some(message), "{line}");
        }
        let flows = call(ConnectionTable::Flows, "events -e DESTROY -p udp").unwrap();
        assert_eq!((flows.action, flows.kinds), (TableAction::Events, kinds::DESTROY));
    }
}
