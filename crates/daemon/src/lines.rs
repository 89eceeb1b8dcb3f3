// SPDX-License-Identifier: Apache-2.0

//! What rules log, on standard error: by a separate thread, since the reader may be slow. Lines
//! that do not fit the queue are lost, and counted in the log.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::seccomp::{self, Thread};

/// Lines that wait.
const WAITING: usize = 4096;

/// Takes lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    to: SyncSender<String>,
    lost: Arc<AtomicU64>,
}

impl Lines {
    /// Begins to write.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (lines, from) = Lines::pair();
        let lost = lines.lost.clone();
        let thread = std::thread::Builder::new().name("log".into());
        thread.spawn(move || {
            seccomp::enter(Thread::Lines);
            write(&from, &lost, &mut std::io::stderr());
        })?;
        Ok(lines)
    }

    fn pair() -> (Self, Receiver<String>) {
        let (to, from) = sync_channel(WAITING);
        (Lines { to, lost: Arc::default() }, from)
    }

    /// Takes a line, with its end, unless there is no room.
    pub(crate) fn say(&self, line: &str) {
        if self.to.try_send(line.to_owned()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(from: &Receiver<String>, lost: &AtomicU64, to: &mut impl Write) {
    for line in from {
        // There is nowhere to report the failure.
        let _ = to.write_all(line.as_bytes());
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => drop(writeln!(to, "penstock: {lost} lines that rules log were lost")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let (lines, from) = Lines::pair();
        for n in 0..WAITING + 3 {
            lines.say(&format!("{n}\n"));
        }
        let lost = lines.lost.clone();
        drop(lines);
        let mut out = Vec::new();
        write(&from, &lost, &mut out);
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.lines().count(), WAITING + 1);
        assert!(
            text.starts_with("0\npenstock: 3 lines that rules log were lost\n1\n"),
            "{}",
            &text[..60]
        );
    }
}
