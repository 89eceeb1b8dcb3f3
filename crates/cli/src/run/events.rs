// SPDX-License-Identifier: Apache-2.0

//! `--conntrack-events FILE`: what happens to connections and expectations, as `conntrack -E` and
//! `conntrack -E expect` print it.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_conntrack::{Connection, EventKind, Expectation, ExpectationLine, Observer};

/// Where the lines go.
struct Lines {
    out: Box<dyn Write + Send>,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
}

/// The file, for the run, which tells how writing went.
pub struct Events(Arc<Mutex<Lines>>);

/// The file, for the table of connections.
struct Listener(Arc<Mutex<Lines>>);

impl Events {
    /// Writes lines to `out`.
    pub fn to(out: Box<dyn Write + Send>) -> Self {
        Events(Arc::new(Mutex::new(Lines { out, error: None })))
    }

    /// What a table of connections tells.
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(Listener(self.0.clone()))
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    /// The first error of the file.
    pub fn finish(self) -> io::Result<()> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.error.take() {
            Some(error) => Err(error),
            None => lines.out.flush(),
        }
    }
}

impl Listener {
    fn write(&self, line: impl Display) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.error.is_none()
            && let Err(error) = writeln!(lines.out, "{line}")
        {
            lines.error = Some(error);
        }
    }
}

impl Observer for Listener {
    fn event(&mut self, kind: EventKind, what: u16, connection: Connection<'_>) {
        self.write(connection.event_line(kind, what));
    }

    fn expectation(
        &mut self,
        ends: bool,
        expectation: &Expectation,
        left: u64,
        master: Connection<'_>,
    ) {
        let kind = if ends { EventKind::Destroy } else { EventKind::New };
        let line = ExpectationLine::new(expectation, left, Some(master));
        self.write(format_args!("{:>9} {line}", kind.word()));
    }
}
