// SPDX-License-Identifier: Apache-2.0

//! Changing a ruleset by commands of nft.

use std::sync::Arc;

use penstock_lang::scope::Scope;
use penstock_lang::session::Options;
use penstock_lang::source::{NoFiles, Origin};

use crate::loader::run;
use crate::names::NetworkNames;
use crate::{Error, Limits, Message, Network, Rules, Ruleset, RulesetError};

/// Changes a ruleset by texts of nft commands, each of them one transaction: committed whole, or
/// not at all. Names that a text defines are known to those after it, as in `nft -i`.
///
/// A session may be on another thread than the dataplane that runs its rules.
///
/// ```
/// use penstock::{Dataplane, Network, Ruleset, Session};
///
/// let network = Network::from_text("")?;
/// let mut session = Session::new(Ruleset::empty(&network))?;
/// let mut dataplane = Dataplane::new(&network, session.ruleset())?;
///
/// session.run("add table ip t; add set ip t s { type ipv4_addr; }", 0)?;
/// session.run("add element ip t s { 198.18.0.1 }", 0)?;
/// dataplane.set_rules(&session.rules());
///
/// let answer = session.run("list set ip t s", 0)?;
/// assert!(answer.output.contains("elements = { 198.18.0.1 }"));
///
/// let refused = session.run("add element ip t s { 198.18.0.2 }; add rule ip t none accept", 0);
/// assert!(refused.is_err());
/// assert_eq!(session.run("list set ip t s", 0)?.output, answer.output);
/// # Ok::<(), penstock::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    ruleset: Ruleset,
    rules: Rules,
    scope: Scope,
    limits: Limits,
}

/// What came of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What nft prints on standard output: the answers to `list`, `get` and `reset`, one after the
    /// other.
    pub output: String,
    /// Warnings.
    pub messages: Vec<Message>,
    /// Whether the ruleset is another than before, so that [`Session::rules`] are others, too.
    pub changed: bool,
}

impl Session {
    /// Begins with a ruleset.
    ///
    /// # Errors
    /// As of [`Ruleset::link`].
    pub fn new(ruleset: Ruleset) -> Result<Self, Error> {
        let rules = ruleset.link()?;
        Ok(Session { ruleset, rules, scope: Scope::default(), limits: Limits::default() })
    }

    /// Runs commands as `nft -f` runs a file: `add rule …`, `delete element …`, `list ruleset`,
    /// whole tables. `now` is the time in nanoseconds since the epoch, from which timeouts of new
    /// elements run.
    ///
    /// # Errors
    /// [`Error::Ruleset`], in nft's words: nothing is changed.
    pub fn run(&mut self, commands: &str, now: u64) -> Result<Answer, Error> {
        self.run_as(commands, now, Options::default())
    }

    /// Runs commands as `nft -j -f` does: they are JSON, and so are the answers.
    ///
    /// # Errors
    /// As of [`Session::run`].
    pub fn run_json(&mut self, commands: &str, now: u64) -> Result<Answer, Error> {
        self.run_as(commands, now, Options { json: true, ..Options::default() })
    }

    /// Says whether commands would be taken, as `nft -c -f` does. Nothing is changed.
    ///
    /// # Errors
    /// As of [`Session::run`].
    pub fn check(&mut self, commands: &str, now: u64) -> Result<Answer, Error> {
        self.run_as(commands, now, Options { check: true, ..Options::default() })
    }

    /// Bounds of texts, for those of strangers.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Rules may name the devices of another network from now on.
    pub fn set_network(&mut self, network: &Network) {
        let names: Arc<NetworkNames> = Arc::new(self.ruleset.names.of(network.inner.clone()));
        self.ruleset.names = names.clone();
        self.rules.names = names;
    }

    /// The ruleset as it is now.
    pub fn ruleset(&self) -> &Ruleset {
        &self.ruleset
    }

    /// The ruleset as it is now, ready to run
    /// ([`Dataplane::set_rules`](crate::Dataplane::set_rules)).
    pub fn rules(&self) -> Rules {
        self.rules.clone()
    }

    fn run_as(&mut self, commands: &str, now: u64, options: Options) -> Result<Answer, Error> {
        let options = Options { limits: self.limits, runnable_only: true, ..options };
        let names = self.ruleset.names.clone();
        let mut session = penstock_lang::session::Session::new(options, &NoFiles, &*names);
        session.go_back(self.scope.clone());
        let origin = Origin::File { name: "commands".to_owned(), from: None };
        let ruleset = &mut self.ruleset.inner;
        let (outcome, scope) =
            run(session, &names.network, origin, commands.to_owned(), ruleset, now)?;
        self.scope = scope;
        let generation = self.ruleset.inner.generation();
        if generation.id != self.rules.generation() {
            let linked = self.rules.linked.next(&generation);
            // It was linked once before it was committed.
            let linked =
                linked.map_err(|e| RulesetError::new(format!("Error: {e}"), Vec::new()))?;
            self.rules = Rules::new(linked, generation, names);
        }
        let penstock_lang::session::Outcome { stdout, messages, changed, .. } = outcome;
        Ok(Answer { output: stdout, messages, changed })
    }
}
