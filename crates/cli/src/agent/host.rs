// SPDX-License-Identifier: Apache-2.0

//! Where an agent puts rulesets in force: the dataplane of the network namespace, as `penstock nft`
//! does; or nowhere, where they are evaluated only.

use std::io;
use std::time::Duration;

use penstock_agent::{Commit, Host, NotCommitted};
use penstock_daemon::control::client::{Caller, Client};
use penstock_daemon::control::exec::Connection;
use penstock_daemon::control::not_now::is_not_now;
use penstock_daemon::control::protocol::Message;
use penstock_daemon::errln;
use penstock_fleet::canary::Node;
use penstock_fleet::manifest::SetData;
use penstock_fleet::tree::Tree;
use penstock_ruleset::Ruleset;
use penstock_system::words;

use crate::dataplane;
use crate::published::claims::claims_hold;
use crate::published::evaluate::{TreeFiles, WHOLE, one_line, run};
use crate::published::tests::run_tests;

/// The dataplane of the network namespace.
#[derive(Default)]
pub struct Dataplane {
    /// The process that was there last.
    last: Option<u64>,
}

impl Host for Dataplane {
    fn dataplane(&mut self) -> Option<u64> {
        let there = Client::connect()
            .and_then(|client| client.map(|client| client.process().map(u64::from)).transpose());
        // One that takes no connection now is still the one that was there.
        if let Ok(there) = there {
            self.last = there;
        }
        self.last
    }

    fn test(&mut self, tree: &Tree, node: &Node, elements: &str) -> Result<(), String> {
        run_tests(tree, node, elements)
    }

    fn commit(
        &mut self,
        commit: &Commit<'_>,
        healthy: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), NotCommitted> {
        let mut client = match Client::connect() {
            Ok(Some(client)) => client,
            Ok(None) => return Err(NotCommitted::NoDataplane(one_line(dataplane::NONE))),
            Err(e) => return Err(NotCommitted::NoDataplane(words(&e))),
        };
        let files = TreeFiles::new(commit.tree, commit.whole, commit.elements);
        let mut asked = Asked { healthy, said: String::new(), well: None };
        let message = Message::Nft(arguments(commit));
        let status = client.ask_for(&message, &files, &mut asked);
        match (status, asked.well) {
            (Ok(0), _) => Ok(()),
            (_, Some(Err(why))) => Err(NotCommitted::RolledBack(why)),
            (Ok(_), Some(Ok(()))) => {
                Err(NotCommitted::RolledBack("it was not confirmed in time".into()))
            }
            (Ok(_), None) => Err(match one_line(&asked.said) {
                why if is_not_now(&why) => NotCommitted::NotNow(why),
                why => NotCommitted::Refused(why),
            }),
            (Err(e), _) => Err(NotCommitted::NoDataplane(words(&e))),
        }
    }

    fn generation(&mut self) -> Option<u64> {
        Connection::open(None).ok().flatten()?.generation().ok().map(u64::from)
    }

    fn list(&mut self, set: &SetData, elements: bool) -> Result<Option<String>, String> {
        let listed = list_of(|word| {
            let mut client = Client::connect().map_err(|e| words(&e))?.ok_or(dataplane::NONE)?;
            let mut args = vec!["list", word, &set.family, &set.table, &set.name];
            if !elements {
                args.insert(0, "-t");
            }
            let message = Message::Nft(args.into_iter().map(str::to_owned).collect());
            client.text(&message).map_err(|e| one_line(&words(&e)))
        });
        match listed {
            Err(why) if why.starts_with(NO_SET) => Ok(None),
            listed => listed.map(Some),
        }
    }

    fn listed(
        &mut self,
        tree: &Tree,
        node: &Node,
        set: &SetData,
        elements: &str,
    ) -> Result<String, String> {
        let mut ruleset = Ruleset::default();
        let defines = tree.manifest.defines_of(node);
        let told = |message: String| one_line(&message);
        run(&TreeFiles::new(tree, true, elements), &defines, &mut ruleset).map_err(told)?;
        list_of(|word| {
            let command = format!("list {word} {}\n", set.title());
            run(&TreeFiles::new(tree, false, &command), &defines, &mut ruleset).map_err(told)
        })
    }

    fn say(&mut self, line: &str) {
        errln!("penstock agent: {line}");
    }
}

/// What nft says of a set that is not there, or whose table is not.
const NO_SET: &str = "No such file or directory";

/// A listing of what is a set or a map: elements are published in the same way for both.
fn list_of(mut list: impl FnMut(&str) -> Result<String, String>) -> Result<String, String> {
    list("set").or_else(|e| list("map").map_err(|_| e))
}

/// The call of nft.
fn arguments(commit: &Commit<'_>) -> Vec<String> {
    let manifest = &commit.tree.manifest;
    let mut args: Vec<String> =
        ["--no-includepath", "-I", &manifest.root].map(str::to_owned).into();
    for (name, value) in manifest.defines_of(commit.node) {
        args.extend(["-D".to_owned(), format!("{name}={value}")]);
    }
    if let Some(claims) = &manifest.claims {
        args.extend(["--claims".to_owned(), format!("{}/{claims}", manifest.root)]);
    }
    if !commit.confirm.is_zero() {
        args.extend(["--confirm".to_owned(), format!("{}s", commit.confirm.as_secs().max(1))]);
    }
    args.extend(["-f".to_owned(), WHOLE.to_owned()]);
    args
}

/// Hears what nft says, and decides whether the change is kept.
struct Asked<'h> {
    healthy: &'h mut dyn FnMut() -> Result<(), String>,
    said: String,
    /// What the health checks said.
    well: Option<Result<(), String>>,
}

impl Caller for Asked<'_> {
    fn out(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    fn err(&mut self, text: &str) {
        /// A message is not longer than this, in bytes.
        const LONGEST: usize = 64 << 10;
        if self.said.len() < LONGEST {
            self.said.push_str(text);
        }
    }

    fn keeps(&mut self, _time: Duration) -> Option<bool> {
        let well = (self.healthy)();
        let keeps = well.is_ok();
        self.well = Some(well);
        Some(keeps)
    }
}

/// No dataplane: rulesets are evaluated, and claims decided.
#[derive(Default)]
pub struct DryRun {
    ruleset: Ruleset,
}

impl Host for DryRun {
    fn dataplane(&mut self) -> Option<u64> {
        Some(0)
    }

    fn test(&mut self, tree: &Tree, node: &Node, elements: &str) -> Result<(), String> {
        run_tests(tree, node, elements)
    }

    fn commit(
        &mut self,
        commit: &Commit<'_>,
        _healthy: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), NotCommitted> {
        let files = TreeFiles::new(commit.tree, commit.whole, commit.elements);
        let defines = commit.tree.manifest.defines_of(commit.node);
        let refused = |message: String| NotCommitted::Refused(one_line(&message));
        let before = self.ruleset.generation();
        run(&files, &defines, &mut self.ruleset).map_err(refused)?;
        if let Err(message) = claims_hold(&files, &self.ruleset) {
            self.ruleset.restore(&before);
            return Err(refused(message));
        }
        Ok(())
    }

    fn say(&mut self, line: &str) {
        errln!("penstock agent: {line}");
    }
}

/// A node that is only there for its store.
pub struct Simulated;

impl Host for Simulated {
    fn dataplane(&mut self) -> Option<u64> {
        Some(0)
    }

    fn test(&mut self, _tree: &Tree, _node: &Node, _elements: &str) -> Result<(), String> {
        Ok(())
    }

    fn commit(
        &mut self,
        _commit: &Commit<'_>,
        _healthy: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), NotCommitted> {
        Ok(())
    }

    fn reads_elements(&self) -> bool {
        false
    }

    fn say(&mut self, _line: &str) {}
}
