// SPDX-License-Identifier: Apache-2.0

//! From a commit to effect.
//!
//! `commit-…` is what the dataplane does between a text and the moment when packets meet it: read
//! and evaluate, apply, link after the generation before, commit, and set it. Machine code and
//! lookups of long chains are made afterwards, on separate threads; until then the interpreter
//! runs. A number alone is all of it for so many rules: linked, lookups and code made, and a packet
//! sent through it.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use penstock_dataplane::{Dataplane, Settings};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Refusal, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::link::Linked;
use penstock_ruleset::{Generation, Ruleset};

use crate::frames::{Frames, flow};
use crate::router::{Fate, Router, network, ruleset};
use crate::rules::linear;
use crate::{Scale, Variant};

/// A ruleset in force, and commits to it that are forgotten again.
struct Commits {
    ruleset: Ruleset,
    linked: Arc<Linked>,
    path: Dataplane,
    /// Another thread frees generations that are no longer in force.
    forget: Sender<(Ruleset, Arc<Linked>)>,
}

impl Commits {
    fn new(text: &str) -> Self {
        let ruleset = ruleset(text);
        let linked = Arc::new(Linked::new(&ruleset.generation()).expect("rules that run"));
        linked.image.build_lookups();
        let mut path = Dataplane::new(Arc::new(network()), Settings::default());
        path.set_rules(linked.clone());
        let (forget, gone) = channel();
        std::thread::spawn(move || gone.into_iter().for_each(drop));
        Commits { ruleset, linked, path, forget }
    }

    /// Puts a text in force, as the dataplane does.
    fn commit(&mut self, text: &str) {
        let mut ruleset = self.ruleset.clone();
        let options = Options { runnable_only: true, ..Options::default() };
        let mut session = Session::new(options, &NoFiles, &NoNames);
        let mut linked = None;
        let mut gate = |generation: &Generation| {
            linked = Some(self.linked.next(generation).map_err(Refusal::Link)?);
            Ok(())
        };
        let outcome =
            session.run_gated(Origin::CommandLine, text.to_owned(), &mut ruleset, 0, &mut gate);
        assert!(outcome.ok, "{}", outcome.stderr);
        let linked = Arc::new(linked.expect("another generation"));
        self.path.set_rules(linked.clone());
        // The receiver lives as long as this does.
        let _ = self.forget.send((ruleset, linked));
    }
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let links = [1_000u32, 10_000].into_iter().map(move |count| {
        let generation = ruleset(&linear(scale.count(count))).generation();
        Variant::new(format!("link-{count}"), 1, move || {
            black_box(Linked::new(&generation).expect("rules that run"));
        })
    });
    let rules = linear(scale.count(10_000));
    let mut commits = Commits::new(&rules);
    let one = Variant::new("commit-1-of-10000", 1, move || {
        commits.commit("add rule netdev t c ip saddr 11.0.0.1 drop");
    });
    let mut commits = Commits::new(&rules);
    let reload = format!("flush ruleset; {rules}");
    let all = Variant::new("commit-10000", 1, move || commits.commit(&reload));
    let compiled = [1_000u32, 10_000].into_iter().map(move |count| {
        let generation = ruleset(&linear(scale.count(count))).generation();
        let frame = Frames::hot([flow(0, 9)].into_iter());
        let mut router = Router::new("");
        Variant::new(count.to_string(), 1, move || {
            router.set_rules(Arc::new(Linked::new(&generation).expect("rules that run")));
            router.check(&frame, Fate::Dropped);
        })
    });
    links.chain([one, all]).chain(compiled).collect()
}
