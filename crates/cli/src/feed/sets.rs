// SPDX-License-Identifier: Apache-2.0

//! The sets of a list or of decisions: what is wanted is made in all of them, tried again after
//! failures, and compared with what is there.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use penstock_feeds::elements::Elements;
use penstock_feeds::span::Span;

use super::clock::Backoff;
use super::dataplane;
use super::metrics;
use super::options::Options;
use super::said::Said;
use super::set::{Changed, FedSet};

/// Sets with the same elements, each of its family.
pub struct FedSets {
    sets: Vec<FedSet>,
    verify: Duration,
    /// When they are listed again.
    verify_at: Instant,
    /// When what failed is tried again.
    retry_at: Option<Instant>,
    backoff: Backoff,
    tables: Receiver<()>,
    has_warned: bool,
}

impl FedSets {
    /// The sets of a call. Nothing is asked yet.
    pub fn new(options: &Options) -> FedSets {
        let (news, tables) = channel();
        dataplane::watch("tables", news, || ());
        FedSets {
            sets: options.sets.iter().cloned().map(FedSet::new).collect(),
            verify: options.verify,
            verify_at: Instant::now() + options.verify,
            retry_at: None,
            backoff: Backoff::new(),
            tables,
            has_warned: false,
        }
    }

    /// Makes the elements those that are wanted, unless that failed a moment ago. Whether they are
    /// now.
    pub fn make(&mut self, wanted: &Elements, said: &mut Said) -> bool {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        if Instant::now() >= self.verify_at {
            self.forget();
        }
        for set in &mut self.sets {
            match set.make(wanted) {
                Ok(Changed { added: 0, deleted: 0 }) => {}
                Ok(Changed { added, deleted }) => {
                    said.note(format_args!("{}: {added} added, {deleted} deleted", set.name));
                }
                Err(failure) => {
                    said.failure(format_args!("{}: {failure}", set.name));
                    self.retry_at = Some(Instant::now() + self.backoff.pause());
                    return false;
                }
            }
        }
        self.retry_at = None;
        self.backoff.reset();
        self.warn(wanted, said);
        true
    }

    /// Says once that addresses of a family have no set.
    fn warn(&mut self, wanted: &Elements, said: &mut Said) {
        let has = |span: &Span| self.sets.iter().any(|set| set.family == Some(span.family()));
        if !self.has_warned && !wanted.keys().all(has) {
            self.has_warned = true;
            said.refusal("addresses of a family for which no --set is given");
        }
    }

    /// Lists the sets before the next change.
    fn forget(&mut self) {
        self.sets.iter_mut().for_each(FedSet::forget);
        self.verify_at = Instant::now() + self.verify;
    }

    /// Waits until a time, or until there is something to do before.
    pub fn wait(&mut self, until: Instant) {
        let until = until.min(self.retry_at.unwrap_or(self.verify_at));
        let time = until.saturating_duration_since(Instant::now());
        match self.tables.recv_timeout(time) {
            Ok(()) => {
                // What comes together is one.
                while self.tables.try_recv().is_ok() {}
                self.forget();
                self.retry_at = None;
            }
            Err(RecvTimeoutError::Timeout) => {}
            // It never ends; if it did, waiting must not become a busy loop.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(time),
        }
    }

    /// Writes metrics, if that is asked for.
    pub fn write_metrics(&self, path: Option<&Path>, said: &mut Said, read: u64) {
        let Some(path) = path else { return };
        let written = metrics::write(path, |to| metrics::of_feed(to, &self.sets, said, read));
        if let Err(why) = written {
            said.failure(why);
        }
    }
}
