// SPDX-License-Identifier: Apache-2.0

//! Keeps the state in a file: regularly, and when the dataplane ends.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use penstock_state::State;

use crate::clock;
use crate::devices::taken_ports::TakenPorts;
use crate::log;
use crate::requests::Request;
use crate::requests::workers::Workers;
use crate::rules::Rules;
use crate::seccomp::{self, Thread};

/// Time between two writings where the ruleset is not changed.
const PERIOD: Duration = Duration::from_secs(60);
/// How soon a change of the ruleset is written.
const SOON: Duration = Duration::from_secs(1);
/// Connections that a worker writes down between two bursts: some milliseconds.
const TOGETHER: u32 = 4096;
/// How long the worker may take for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// The file, and the sources of its contents.
pub(crate) struct Keeper {
    pub(crate) path: PathBuf,
    pub(crate) ports: Arc<TakenPorts>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) workers: Arc<Workers>,
}

impl Keeper {
    /// Writes the file.
    fn save(&self) {
        if let Err(e) = self.connections().and_then(|connections| {
            let ruleset = self.rules.confirmed_ruleset();
            let state =
                State { links: self.ports.links(), ruleset, connections, ahead: clock::look() };
            state.write(&self.path, crate::now()).map_err(|e| e.to_string())
        }) {
            log(format_args!("the state is not saved to {}: {e}", self.path.display()));
        }
    }

    fn connections(&self) -> Result<String, String> {
        let mut parts = Vec::new();
        for worker in 0..self.workers.count() {
            let mut next = Some(0);
            while let Some(from) = next {
                let part =
                    self.workers.ask_one(worker, |to| Request::Dump(from, TOGETHER, to), PATIENCE);
                let (text, more) = part.ok_or("the dataplane does not answer")?;
                parts.push(text);
                next = more;
            }
        }
        Ok(sound(&crate::requests::workers::whole(&parts)))
    }

    /// Writes the file from time to time, and soon after each change of the ruleset, until the
    /// sender is dropped.
    fn run(&self, end: &Receiver<()>) {
        let mut saved = self.rules.confirmed();
        let (mut last, mut pause) = (Instant::now(), SOON);
        while end.recv_timeout(SOON) == Err(RecvTimeoutError::Timeout) {
            let now = self.rules.confirmed();
            let due = last.elapsed() >= PERIOD || now != saved;
            if due && last.elapsed() >= pause {
                let begun = Instant::now();
                self.save();
                // Never more than a tenth of the time.
                (saved, last, pause) = (now, Instant::now(), SOON.max(begun.elapsed() * 10));
            }
        }
    }
}

/// A keeper running on its own thread.
pub(crate) struct Keeping {
    keeper: Arc<Keeper>,
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Keeping {
    /// Writes the file at once, to check that it can be written, and continues.
    pub(crate) fn begin(keeper: Keeper) -> std::io::Result<Keeping> {
        let keeper = Arc::new(keeper);
        let (end, ended) = channel();
        let own = keeper.clone();
        let thread = Builder::new().name("keep".into()).spawn(move || {
            seccomp::enter(Thread::Keep);
            own.save();
            own.run(&ended);
        })?;
        Ok(Keeping { keeper, end, thread })
    }

    /// Writes the file for the last time.
    pub(crate) fn end(self) {
        drop(self.end);
        // One that has panicked has said so.
        let _ = self.thread.join();
        self.keeper.save();
    }
}

/// One dump from parts taken while packets passed: a connection in two parts is kept once, and
/// expectations of missing connections are left out.
fn sound(dump: &str) -> String {
    let mut out = String::new();
    let mut tuples: HashSet<(&str, &str)> = HashSet::new();
    let mut numbers: HashSet<&str> = HashSet::new();
    for line in dump.lines() {
        let field = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key));
        let tuple = |key: &str| Some((field("proto=")?, field(key)?));
        let good = match line.split(' ').next() {
            Some("flow") => {
                let both = [tuple("orig="), tuple("reply=")];
                let good =
                    both.iter().all(|tuple| tuple.is_some_and(|tuple| !tuples.contains(&tuple)));
                if good {
                    tuples.extend(both.into_iter().flatten());
                    numbers.extend(field("id="));
                }
                good
            }
            Some("expect") => field("master=").is_some_and(|master| numbers.contains(master)),
            _ => true,
        };
        if good {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_moves_between_pages_is_kept_once() {
        let flow = |id: u32, port: u32| {
            format!("flow id={id} proto=17 orig=a,b,{port},53,0 reply=b,a,53,{port},0\n")
        };
        let parts = [
            format!("penstock-conntrack 1\n{}{}", flow(1, 7), flow(2, 8)),
            format!("{}{}expect master=9 x\nexpect master=2 y\n", flow(5, 7), flow(6, 9)),
        ];
        let expected = format!("{}{}expect master=2 y\n", parts[0], flow(6, 9));
        assert_eq!(sound(&parts.concat()), expected);
    }
}
