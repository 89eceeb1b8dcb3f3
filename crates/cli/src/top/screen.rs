// SPDX-License-Identifier: Apache-2.0

//! What is chosen on the full screen, and what keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::history::History;
use super::snapshot::{Row, Snapshot, View};

/// The keys, and what they do.
pub const KEYS: [(&str, &str); 12] = [
    ("1 2 3 4", "ports, rules, flows and connections, drops"),
    ("Tab", "the next of them; Shift-Tab: the one before"),
    ("s S", "sort by the next column, by the one before"),
    ("r", "sort the other way round"),
    ("/", "only rows with a text: Enter, or Esc for all"),
    ("j k", "a row down, up; also the arrows"),
    ("Space b", "a page down, up; also PgDn and PgUp"),
    ("g G", "the first row, the last row"),
    ("t", "totals in place of rates, and back"),
    ("p", "pause"),
    ("?", "this help"),
    ("q", "quit; also Ctrl-C"),
];

/// The full screen.
pub struct Screen {
    pub before: Snapshot,
    pub now: Snapshot,
    pub history: History,
    pub view: View,
    /// Sorted by that.
    pub column: usize,
    /// With the lowest first.
    pub reversed: bool,
    /// The row that is marked.
    pub row: usize,
    /// Shows totals, not rates.
    pub totals: bool,
    pub paused: bool,
    pub help: bool,
    /// Only rows with this text.
    pub filter: String,
    /// Keys are for the filter.
    pub typing: bool,
    /// Rows that fit, as of the last drawing.
    pub page: usize,
}

impl Screen {
    /// Shows what passed between two moments.
    pub fn new(before: Snapshot, now: Snapshot, view: View) -> Self {
        let mut history = History::default();
        history.add(&before, &now);
        Screen {
            before,
            now,
            history,
            view,
            column: 0,
            reversed: false,
            row: 0,
            totals: false,
            paused: false,
            help: false,
            filter: String::new(),
            typing: false,
            page: 10,
        }
    }

    /// Goes on to the next moment.
    pub fn advance(&mut self, next: Snapshot) {
        self.before = std::mem::replace(&mut self.now, next);
        self.history.add(&self.before, &self.now);
    }

    /// The rows that are shown, in their order.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.now.rows(&self.before, self.view, self.column);
        if self.totals {
            let total = |row: &Row| row.totals.get(self.column).copied().unwrap_or_default();
            rows.sort_by(|a, b| total(b).total_cmp(&total(a)));
        }
        let wanted = self.filter.to_lowercase();
        rows.retain(|row| row.name.to_lowercase().contains(&wanted));
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    /// Does what a key says; `false` for the end.
    pub fn take(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return true;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return false;
        }
        if self.typing {
            self.type_filter(key.code);
            return true;
        }
        if self.help {
            self.help = false;
            return true;
        }
        let columns = self.view.columns().len();
        let last = self.rows().len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Char(digit @ '1'..='4') => {
                self.see(View::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Tab => self.see(View::ALL[(self.view as usize + 1) % View::ALL.len()]),
            KeyCode::BackTab => {
                self.see(View::ALL[(self.view as usize + View::ALL.len() - 1) % View::ALL.len()]);
            }
            KeyCode::Char('s') => self.column = (self.column + 1) % columns,
            KeyCode::Char('S') => self.column = (self.column + columns - 1) % columns,
            KeyCode::Char('r') => self.reversed ^= true,
            KeyCode::Char('t') => self.totals ^= true,
            KeyCode::Char('p') => self.paused ^= true,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('j') | KeyCode::Down => self.row += 1,
            KeyCode::Char('k') | KeyCode::Up => self.row = self.row.saturating_sub(1),
            KeyCode::Char(' ') | KeyCode::PageDown => self.row += self.page,
            KeyCode::Char('b') | KeyCode::PageUp => self.row = self.row.saturating_sub(self.page),
            KeyCode::Char('g') | KeyCode::Home => self.row = 0,
            KeyCode::Char('G') | KeyCode::End => self.row = last,
            _ => {}
        }
        self.row = self.row.min(self.rows().len().saturating_sub(1));
        true
    }

    fn see(&mut self, view: View) {
        (self.view, self.column, self.row, self.reversed) = (view, 0, 0, false);
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            _ => {}
        }
        self.row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn keys_switch_views_sort_filter_and_quit() {
        let mut screen = Screen::new(Snapshot::default(), Snapshot::default(), View::Ports);
        let on = |screen: &mut Screen, keys: &str| {
            keys.chars().all(|c| screen.take(key(KeyCode::Char(c))))
        };
        assert!(on(&mut screen, "2s") && screen.view == View::Rules && screen.column == 1);
        assert!(on(&mut screen, "s") && screen.column == 0);
        assert!(on(&mut screen, "Sr") && screen.column == 1 && screen.reversed);
        assert!(screen.take(key(KeyCode::Tab)) && screen.view == View::Flows && !screen.reversed);
        assert!(screen.take(key(KeyCode::BackTab)) && screen.view == View::Rules);
        assert!(on(&mut screen, "p1") && screen.paused && screen.view == View::Ports);
        assert!(on(&mut screen, "kGj ") && screen.row == 0);
        // Keys of a filter do nothing else.
        assert!(on(&mut screen, "/q1") && screen.filter == "q1" && screen.view == View::Ports);
        assert!(screen.take(key(KeyCode::Enter)) && on(&mut screen, "3"));
        assert!(screen.filter == "q1" && screen.view == View::Flows);
        assert!(screen.take(key(KeyCode::Esc)) && screen.filter.is_empty());
        assert!(on(&mut screen, "?") && screen.help);
        assert!(on(&mut screen, "q") && !screen.help);
        assert!(!on(&mut screen, "q"));
        assert!(!screen.take(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
