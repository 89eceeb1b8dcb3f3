// SPDX-License-Identifier: Apache-2.0

//! The tests of a filter as a graph without cycles, and what makes it smaller.
//!
//! A node comes after those that it leads to. Equal nodes are one. An edge to a test whose result
//! is known on this edge leads to what the test would lead to, if the test cannot end the program by
//! reading beyond the packet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::condition::{Comparison, Condition, Test, Value};
use crate::tree::Operator;

/// Tests of a filter.
const MOST: usize = 8192;
/// Tests of a filter that is made smaller.
const MOST_OPTIMIZED: usize = 512;
const ROUNDS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Accept,
    Reject,
    Node(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub test: Test,
    pub yes: Target,
    pub no: Target,
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub nodes: Vec<Node>,
    known: HashMap<Node, usize>,
    root: Option<Target>,
}

impl Graph {
    pub fn new(condition: &Condition) -> Result<Graph, &'static str> {
        let mut graph = Graph::default();
        graph.root = Some(graph.build(condition, Target::Accept, Target::Reject)?);
        Ok(graph)
    }

    pub fn root(&self) -> Target {
        self.root.unwrap_or(Target::Reject)
    }

    fn node(&mut self, node: Node) -> Target {
        if let Some(&known) = self.known.get(&node) {
            return Target::Node(known);
        }
        let at = self.nodes.len();
        self.known.insert(node.clone(), at);
        self.nodes.push(node);
        Target::Node(at)
    }

    fn build(
        &mut self,
        condition: &Condition,
        yes: Target,
        no: Target,
    ) -> Result<Target, &'static str> {
        Ok(match condition {
            Condition::Constant(true) => yes,
            Condition::Constant(false) => no,
            Condition::Test(_) if self.nodes.len() == MOST => {
                return Err("the filter has too many conditions");
            }
            Condition::Test(test) => self.node(Node { test: test.clone(), yes, no }),
            Condition::And(left, right) => {
                let right = self.build(right, yes, no)?;
                self.build(left, right, no)?
            }
            Condition::Or(left, right) => {
                let right = self.build(right, yes, no)?;
                self.build(left, yes, right)?
            }
            Condition::Not(inner) => self.build(inner, no, yes)?,
        })
    }

    /// Leaves out tests with known results, until there are none.
    pub fn optimize(&mut self) {
        if self.nodes.len() > MOST_OPTIMIZED {
            return;
        }
        for _ in 0..ROUNDS {
            if !self.round() {
                return;
            }
        }
    }

    fn round(&mut self) -> bool {
        let mut changed = false;
        let mut before: Vec<Option<Facts>> = vec![None; self.nodes.len()];
        let root = self.follow(self.root(), &Facts::default());
        changed |= self.root != Some(root);
        self.root = Some(root);
        meet(&mut before, root, &Facts::default());
        for at in (0..self.nodes.len()).rev() {
            let Some(mut facts) = before.get_mut(at).and_then(Option::take) else { continue };
            let Some(node) = self.nodes.get(at).cloned() else { continue };
            facts.read(&node.test.value);
            facts.read(&node.test.with);
            let mut follow = |target, result| {
                let mut facts = facts.clone();
                facts.results.insert(node.test.clone(), result);
                let target = self.follow(target, &facts);
                meet(&mut before, target, &facts);
                target
            };
            let (yes, no) = (follow(node.yes, true), follow(node.no, false));
            changed |= (yes, no) != (node.yes, node.no);
            if let Some(place) = self.nodes.get_mut(at) {
                (place.yes, place.no) = (yes, no);
            }
        }
        self.renumber();
        changed
    }

    /// Nodes that are reached, each once.
    fn renumber(&mut self) {
        let mut reached = vec![false; self.nodes.len()];
        let reach = |target: Target, reached: &mut Vec<bool>| {
            if let Target::Node(at) = target
                && let Some(place) = reached.get_mut(at)
            {
                *place = true;
            }
        };
        reach(self.root(), &mut reached);
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if reached.get(at) == Some(&true) {
                reach(node.yes, &mut reached);
                reach(node.no, &mut reached);
            }
        }
        let old = std::mem::take(&mut self.nodes);
        self.known.clear();
        let mut now = Vec::with_capacity(old.len());
        let moved = |target, now: &Vec<Target>| match target {
            Target::Node(at) => now.get(at).copied().unwrap_or(Target::Reject),
            target => target,
        };
        for (node, reached) in old.into_iter().zip(reached) {
            now.push(match reached {
                true => {
                    let (yes, no) = (moved(node.yes, &now), moved(node.no, &now));
                    self.node(Node { test: node.test, yes, no })
                }
                false => Target::Reject,
            });
        }
        self.root = self.root.map(|root| moved(root, &now));
    }

    /// Where a target leads to after all tests with known results.
    fn follow(&self, mut target: Target, facts: &Facts) -> Target {
        while let Target::Node(at) = target {
            let Some(node) = self.nodes.get(at) else { break };
            if !facts.readable(&node.test.value) || !facts.readable(&node.test.with) {
                break;
            }
            target = match facts.result(&node.test) {
                _ if node.yes == node.no => node.yes,
                Some(true) => node.yes,
                Some(false) => node.no,
                None => break,
            };
        }
        target
    }
}

fn meet(before: &mut [Option<Facts>], target: Target, facts: &Facts) {
    let Target::Node(at) = target else { return };
    let Some(place) = before.get_mut(at) else { return };
    match place {
        Some(there) => there.meet(facts),
        None => *place = Some(facts.clone()),
    }
}

/// What is known of a packet at a place in the graph.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// Bytes that the packet has at least.
    bytes: u64,
    /// Bytes after the IPv4 header at an offset, counted from its offset.
    after: BTreeMap<u32, u64>,
    /// Other values that were worked out.
    done: BTreeSet<Rc<Value>>,
    results: BTreeMap<Test, bool>,
}

impl Facts {
    fn meet(&mut self, other: &Facts) {
        self.bytes = self.bytes.min(other.bytes);
        self.after.retain(|offset, end| match other.after.get(offset) {
            Some(there) => {
                *end = (*end).min(*there);
                true
            }
            None => false,
        });
        self.done.retain(|value| other.done.contains(value));
        self.results.retain(|test, result| other.results.get(test) == Some(result));
    }

    /// What follows from a value that was worked out without an end of the program.
    fn read(&mut self, value: &Rc<Value>) {
        match &**value {
            Value::Constant(_) | Value::Length => {}
            Value::Load { size, offset } => {
                self.bytes = self.bytes.max(u64::from(*offset) + u64::from(*size));
            }
            Value::HeaderLength(offset) => self.bytes = self.bytes.max(u64::from(*offset) + 1),
            Value::LoadAt { size, index, offset } => {
                self.read(index);
                if let Value::HeaderLength(header) = **index {
                    let end = u64::from(*offset) + u64::from(*size);
                    let place = self.after.entry(header).or_default();
                    *place = (*place).max(end);
                }
                self.done.insert(value.clone());
            }
            Value::Operation(_, left, right) => {
                self.read(left);
                self.read(right);
                self.done.insert(value.clone());
            }
            Value::Negative(inner) => self.read(inner),
        }
    }

    /// Whether a value can be worked out without an end of the program.
    fn readable(&self, value: &Rc<Value>) -> bool {
        match &**value {
            Value::Constant(_) | Value::Length => true,
            Value::Load { size, offset } => u64::from(*offset) + u64::from(*size) <= self.bytes,
            Value::HeaderLength(offset) => u64::from(*offset) < self.bytes,
            Value::LoadAt { size, index, offset } => {
                let end = u64::from(*offset) + u64::from(*size);
                let header = match **index {
                    Value::HeaderLength(header) => self.after.get(&header),
                    _ => None,
                };
                header.is_some_and(|there| end <= *there) || self.done.contains(value)
            }
            Value::Operation(operator, left, right) => {
                let divides = matches!(operator, Operator::Divide | Operator::Modulo);
                self.done.contains(value)
                    || (!divides || right.constant().is_some_and(|by| by != 0))
                        && self.readable(left)
                        && self.readable(right)
            }
            Value::Negative(inner) => self.readable(inner),
        }
    }

    /// The number that a value is known to be.
    fn number(&self, value: &Rc<Value>) -> Option<u32> {
        if let Some(number) = value.constant() {
            return Some(number);
        }
        let known = self.results.iter().find_map(|(test, result)| {
            let equal = *result && test.comparison == Comparison::Equal && test.value == *value;
            test.with.constant().filter(|_| equal)
        });
        match &**value {
            _ if known.is_some() => known,
            Value::Operation(operator, left, right) => {
                let right = right.constant()?;
                crate::condition::apply(*operator, self.number(left)?, right)
            }
            _ => None,
        }
    }

    fn result(&self, test: &Test) -> Option<bool> {
        if let Some(result) = self.results.get(test) {
            return Some(*result);
        }
        let with = test.with.constant()?;
        if let Some(number) = self.number(&test.value) {
            return Some(test.comparison.holds(number, with));
        }
        let (mut least, mut most) = (0, test.value.most());
        for (known, result) in self.results.iter().filter(|(known, _)| known.value == test.value) {
            let Some(bound) = known.with.constant() else { continue };
            match (known.comparison, result) {
                (Comparison::Greater, true) => least = least.max(bound.saturating_add(1)),
                (Comparison::GreaterOrEqual, true) => least = least.max(bound),
                (Comparison::Greater, false) => most = most.min(bound),
                (Comparison::GreaterOrEqual, false) => most = most.min(bound.saturating_sub(1)),
                _ => {}
            }
        }
        match test.comparison {
            Comparison::Equal if with < least || with > most => Some(false),
            Comparison::Greater if least > with => Some(true),
            Comparison::Greater if most <= with => Some(false),
            Comparison::GreaterOrEqual if least >= with => Some(true),
            Comparison::GreaterOrEqual if most < with => Some(false),
            Comparison::AnyBit if with == 0 => Some(false),
            _ => None,
        }
    }
}
