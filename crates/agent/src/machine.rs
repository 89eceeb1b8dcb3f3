// SPDX-License-Identifier: Apache-2.0

//! What an agent does next, of what it has seen so far. There is no input or output here.

use penstock_fleet::canary::Node;
use penstock_fleet::key::PublicKey;
use penstock_fleet::report::{Report, State};
use penstock_fleet::{Digest, SignedHead};

use crate::memory::{Good, Memory, Seen};

/// What an agent does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for another head.
    Wait,
    /// Try a tree.
    Try(Goal),
}

/// A tree of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The generation.
    pub generation: u64,
    /// The manifest.
    pub tree: Digest,
}

/// What became of a tree that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force.
    InForce,
    /// It is not what it should be. It is not tried again.
    Refused(String),
    /// It was in force, and was taken back. It is not tried again.
    RolledBack(String),
    /// There is no dataplane. It is tried again.
    NoDataplane(String),
    /// Not all of it could be read, or it could not be decided now. It is tried again.
    NotYet(String),
}

/// What an agent knows.
#[derive(Clone, Debug)]
pub struct Machine {
    node: Node,
    keys: Vec<PublicKey>,
    seen: Option<Seen>,
    /// What the head that was seen last wants of this node.
    wanted: Option<Goal>,
    good: Option<Good>,
    /// The good one is in force on the dataplane that runs.
    in_force: bool,
    /// What was refused, on the dataplane that runs.
    refused: Vec<Goal>,
    /// What was tried cannot be now.
    blocked: bool,
    state: State,
    why: String,
}

impl Machine {
    /// An agent that begins, with what an earlier one knew.
    pub fn new(node: Node, keys: Vec<PublicKey>, memory: Memory) -> Machine {
        let Memory { seen, good } = memory;
        let (wanted, refused) = (None, Vec::new());
        let (state, why) = (State::Trying, String::new());
        Machine {
            node,
            keys,
            seen,
            wanted,
            good,
            in_force: false,
            refused,
            blocked: false,
            state,
            why,
        }
    }

    /// What has to outlive the agent.
    pub fn memory(&self) -> Memory {
        Memory { seen: self.seen, good: self.good }
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// A store has this head. Returns whether it is one to follow; if it is not, everything stays as
    /// it is.
    pub fn head(&mut self, bytes: &[u8]) -> bool {
        let head = SignedHead::read(bytes).and_then(|signed| signed.verify(&self.keys));
        let head = match head {
            Ok(head) => head,
            Err(e) => return self.refuse(e.to_string()),
        };
        let digest = Digest::of(bytes);
        if let Some(seen) = self.seen {
            if head.generation < seen.generation {
                return self.refuse(format!(
                    "the head of generation {} is older than that of generation {}, which was seen before",
                    head.generation, seen.generation
                ));
            }
            if head.generation == seen.generation && digest != seen.head {
                return self.refuse(format!(
                    "there are two heads of generation {}: keys sign on two places",
                    head.generation
                ));
            }
        }
        self.seen = Some(Seen { generation: head.generation, head: digest });
        let (tree, _) = self.node.tree_of(&head);
        self.wanted = Some(Goal { generation: head.generation, tree });
        self.blocked = false;
        if self.is_in_force(tree) {
            self.arrived(head.generation);
        }
        true
    }

    fn refuse(&mut self, why: String) -> bool {
        self.state = State::Refused;
        self.why = why;
        false
    }

    fn is_in_force(&self, tree: Digest) -> bool {
        self.in_force && self.good.is_some_and(|good| good.tree == tree)
    }

    /// The tree that is in force is also that of a later generation.
    fn arrived(&mut self, generation: u64) {
        if let Some(good) = &mut self.good {
            good.generation = generation;
        }
        self.state = State::InForce;
        self.why.clear();
    }

    /// The store cannot be asked: everything stays as it is.
    pub fn away(&mut self, why: String) {
        self.why = why;
    }

    /// The store can be asked, and has the head that is known.
    pub fn unchanged(&mut self) {
        if self.in_force && self.state == State::InForce {
            self.why.clear();
        }
    }

    /// Another dataplane runs than before, or none: nothing is in force, and what was refused may
    /// be right for this one.
    pub fn dataplane_changed(&mut self) {
        self.in_force = false;
        self.refused.clear();
        self.blocked = false;
    }

    /// Some time has passed: what could not be done may be possible now.
    pub fn again(&mut self) {
        self.blocked = false;
    }

    /// Whether the dataplane has refused what was good before, and has nothing in its place.
    pub fn is_without_good(&self) -> bool {
        let refused = |good: &Good| self.refused.iter().any(|goal| goal.tree == good.tree);
        !self.in_force && self.good.as_ref().is_some_and(refused)
    }

    /// What was good before may be tried once more: it was right, so the refusal may pass.
    pub fn good_again(&mut self) {
        let Some(good) = self.good else { return };
        self.refused.retain(|goal| goal.tree != good.tree);
    }

    /// What is to be done next. A dataplane without rules gets the last good ones first.
    pub fn next(&self) -> Step {
        let good = self.good.map(|good| Goal { generation: good.generation, tree: good.tree });
        let may = |goal: &Goal| !self.blocked && !self.refused.contains(goal);
        if !self.in_force
            && let Some(goal) = good.filter(may)
        {
            return Step::Try(goal);
        }
        match self.wanted.filter(|goal| !self.is_in_force(goal.tree)).filter(may) {
            Some(goal) => Step::Try(goal),
            None => Step::Wait,
        }
    }

    /// Whether something is to be tried again soon.
    pub fn waits_to_try(&self) -> bool {
        self.blocked
    }

    /// What became of a tree, at a time in seconds since the epoch.
    pub fn tried(&mut self, goal: Goal, outcome: Outcome, now: u64) {
        let Goal { generation, tree } = goal;
        match outcome {
            Outcome::InForce => {
                self.good = Some(Good { generation, tree, since: now });
                self.in_force = true;
                // A head that was refused, or a tree, is still what is told of if there is one.
                let other = self.wanted.is_some_and(|wanted| self.refused.contains(&wanted));
                if !other {
                    self.state = State::InForce;
                    self.why.clear();
                }
            }
            Outcome::Refused(why) => {
                self.refused.push(goal);
                (self.state, self.why) = (State::Refused, why);
            }
            Outcome::RolledBack(why) => {
                self.refused.push(goal);
                (self.state, self.why) = (State::RolledBack, why);
            }
            Outcome::NoDataplane(why) => {
                self.in_force = false;
                self.blocked = true;
                (self.state, self.why) = (State::NoDataplane, why);
            }
            Outcome::NotYet(why) => {
                self.blocked = true;
                (self.state, self.why) = (State::Trying, why);
            }
        }
    }

    /// The report, at a time in seconds since the epoch.
    pub fn report(&self, took: u64, until: u64) -> Report {
        let good = self.good.filter(|_| self.in_force);
        Report {
            node: self.node.name.clone(),
            labels: self.node.labels.clone(),
            generation: good.map_or(0, |good| good.generation),
            tree: good.map(|good| good.tree),
            since: good.map_or(0, |good| good.since),
            seen: self.seen.map_or(0, |seen| seen.generation),
            state: self.state,
            why: self.why.clone(),
            took,
            repairs: 0,
            repaired: String::new(),
            until,
            lease: 0,
        }
    }
}
