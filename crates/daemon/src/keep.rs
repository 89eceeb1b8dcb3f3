// SPDX-License-Identifier: Apache-2.0

//! Keeps the state in a file: regularly, and when the dataplane ends.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use penstock_state::State;

use crate::clock;
use crate::devices::taken_ports::TakenPorts;
use crate::log;
use crate::on_disk::Turn;
use crate::requests::Request;
use crate::requests::workers::Workers;
use crate::rules::{Rules, has_base_chain};
use crate::seccomp::{self, Thread};

/// Time between two writings where the ruleset is not changed.
const PERIOD: Duration = Duration::from_secs(60);
/// How soon a change of the ruleset is written.
const SOON: Duration = Duration::from_secs(1);
/// Connections that a worker writes down between two bursts: some milliseconds.
const TOGETHER: u32 = 4096;
/// How long the worker may take for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which connections a file gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connections {
    /// Those that there are.
    Present,
    /// Those that the file has: only the ruleset is another one.
    Written,
}

/// The file, and the sources of its contents.
pub(crate) struct Keeper {
    pub(crate) path: PathBuf,
    pub(crate) ports: Arc<TakenPorts>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) workers: Arc<Workers>,
}

impl Keeper {
    /// Writes the file.
    fn save(&self, connections: Connections) {
        self.rules.on_disk.write(|| match self.write(connections) {
            Ok(has_rules) => Some(has_rules),
            Err(e) => {
                log(format_args!("the state is not saved to {}: {e}", self.path.display()));
                None
            }
        });
    }

    /// Writes the file, and returns whether it has rules for packets.
    fn write(&self, connections: Connections) -> Result<bool, String> {
        let written = match connections {
            Connections::Present => None,
            Connections::Written => State::read_connections(&self.path),
        };
        let connections = written.map_or_else(|| self.connections(), Ok)?;
        let ruleset = self.rules.confirmed_ruleset();
        let has_rules = has_base_chain(&ruleset.generation());
        let state = State { links: self.ports.links(), ruleset, connections, ahead: clock::look() };
        state.write(&self.path, crate::now()).map_err(|e| e.to_string())?;
        Ok(has_rules)
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

    /// Writes the file at once, from time to time, soon after each change of the ruleset, and when
    /// somebody waits for it.
    fn run(&self) {
        let mut saved = self.rules.confirmed();
        self.save(Connections::Present);
        let (mut last, mut pause) = (Instant::now(), SOON);
        loop {
            let turn = self.rules.on_disk.turn(SOON);
            let now = self.rules.confirmed();
            let changed = now != saved && turn == Turn::Quiet;
            if turn == Turn::End {
                return;
            } else if (last.elapsed() >= PERIOD || changed) && last.elapsed() >= pause {
                let begun = Instant::now();
                self.save(Connections::Present);
                // Never more than a tenth of the time.
                (last, pause) = (Instant::now(), SOON.max(begun.elapsed() * 10));
            } else if turn == Turn::Asked {
                self.save(Connections::Written);
            } else {
                continue;
            }
            saved = now;
        }
    }
}

/// A keeper running on its own thread.
pub(crate) struct Keeping {
    keeper: Arc<Keeper>,
    thread: JoinHandle<()>,
}

impl Keeping {
    /// Writes the file at once, to check that it can be written, and continues.
    pub(crate) fn begin(keeper: Keeper) -> std::io::Result<Keeping> {
        let keeper = Arc::new(keeper);
        let own = keeper.clone();
        keeper.rules.on_disk.begin();
        let thread = Builder::new().name("keep".into()).spawn(move || {
            seccomp::enter(Thread::Keep);
            own.run();
        });
        let thread = thread.inspect_err(|_| keeper.rules.on_disk.end())?;
        Ok(Keeping { keeper, thread })
    }

    /// Writes the file for the last time.
    pub(crate) fn end(self) {
        self.keeper.rules.on_disk.end();
        // One that has panicked has said so.
        let _ = self.thread.join();
        self.keeper.save(Connections::Present);
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
