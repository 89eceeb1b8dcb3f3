// SPDX-License-Identifier: Apache-2.0

//! What rules log, as lines: written by a separate thread, since the reader may be slow. Lines that
//! do not fit the queue are lost, and counted in the log.

mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::config::RuleLog;
use crate::log;
use crate::seccomp::{self, Thread};
use target::Target;

/// Lines that wait.
const WAITING: usize = 4096;

/// Takes lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    to: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

/// What the thread is told.
#[derive(Debug)]
enum Line {
    /// Write this.
    Text(String),
    /// Open the file again.
    Reopen,
    /// Write to another target from now on, if it can be opened.
    To(RuleLog),
}

/// Opens the target of lines, with the rights that this thread has. The error is a sentence.
pub(crate) fn open(wanted: &RuleLog) -> Result<Target, String> {
    Target::open(wanted).map_err(|e| match wanted {
        RuleLog::File { path, .. } => format!("--rule-log {}: {e}", path.display()),
        RuleLog::Stderr | RuleLog::Journal | RuleLog::Syslog => {
            format!("--rule-log: no logger is there: {e}")
        }
    })
}

impl Lines {
    /// Begins to write to an open target. The error is a sentence.
    pub(crate) fn start(mut target: Target) -> Result<Self, String> {
        let (lines, from) = Lines::pair();
        let lost = lines.lost.clone();
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
            seccomp::enter(Thread::Lines);
            write(&from, &lost, &mut target);
        });
        thread.map(|_| lines).map_err(|e| format!("a thread: {e}"))
    }

    fn pair() -> (Self, Receiver<Line>) {
        let (to, from) = sync_channel(WAITING);
        (Lines { to, lost: Arc::default() }, from)
    }

    /// Takes a line, with its end, unless there is no room.
    pub(crate) fn say(&self, line: &str) {
        if self.to.try_send(Line::Text(line.to_owned())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has the file opened again, where it is one.
    pub(crate) fn reopen(&self) {
        // Where there is no room, the file is written to, and opened again some other time.
        let _ = self.to.try_send(Line::Reopen);
    }

    /// Has lines go to another target. If it cannot be opened, that is logged, and they go where
    /// they went. `false` if there is no room for the request.
    #[must_use]
    pub(crate) fn move_to(&self, wanted: RuleLog) -> bool {
        self.to.try_send(Line::To(wanted)).is_ok()
    }
}

fn write(from: &Receiver<Line>, lost: &AtomicU64, to: &mut Target) {
    let mut failed = false;
    let mut done = |result: std::io::Result<()>| match result {
        Ok(()) => failed = false,
        // It is said once until it works again.
        Err(e) if !std::mem::replace(&mut failed, true) => {
            log(format_args!("lines that rules log are LOST: {e}"));
        }
        Err(_) => {}
    };
    for line in from {
        done(match line {
            Line::Text(text) => to.write(&text),
            Line::Reopen => to.reopen(),
            Line::To(wanted) => {
                match open(&wanted) {
                    Ok(target) => *to = target,
                    Err(e) => log(format_args!("the log of rules stays where it is: {e}")),
                }
                Ok(())
            }
        });
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => done(to.write(&format!("penstock: {lost} lines that rules log were lost\n"))),
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
        let path = std::env::temp_dir().join(format!("lines-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let wanted = RuleLog::File { path: path.clone(), size: 0, files: 1 };
        write(&from, &lost, &mut Target::open(&wanted).expect("a file"));
        let text = std::fs::read_to_string(&path).expect("text");
        std::fs::remove_file(path).expect("removed");
        assert_eq!(text.lines().count(), WAITING + 1);
        assert!(
            text.starts_with("0\npenstock: 3 lines that rules log were lost\n1\n"),
            "{}",
            &text[..60]
        );
    }
}
