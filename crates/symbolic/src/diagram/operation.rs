// SPDX-License-Identifier: Apache-2.0

//! Operations on decision diagrams, node by node.

use std::time::Instant;

use super::known::{Asked, Known, Operation};
use super::node::{Edge, Nodes, Stop};

/// Nodes, and what is known of them.
pub(super) struct Work {
    pub(super) nodes: Nodes,
    known: Known,
}

impl Work {
    /// With at most so many nodes, until a point in time.
    pub(super) fn new(most: usize, end: Instant) -> Self {
        Work { nodes: Nodes::new(most, end), known: Known::new() }
    }

    /// Gives back all nodes that these do not need.
    pub(super) fn collect(&mut self, needed: impl Iterator<Item = usize>) {
        let marks = self.nodes.collect(needed);
        self.known.forget_others(&marks);
    }

    /// Fits what is known to the number of nodes. Between operations only.
    pub(super) fn fit(&mut self) {
        self.known.fit(self.nodes.len());
    }

    /// A result that is known, or one that is made of those for 0 and for 1 of the first variable.
    fn memoized(
        &mut self,
        asked: Asked,
        make: impl FnOnce(&mut Self) -> Result<Edge, Stop>,
    ) -> Result<Edge, Stop> {
        if let Some(known) = self.known.get(&asked) {
            return Ok(known);
        }
        self.nodes.step()?;
        let made = make(self)?;
        self.known.put(asked, made);
        Ok(made)
    }

    pub(super) fn and(&mut self, a: Edge, b: Edge) -> Result<Edge, Stop> {
        let (a, b) = if a <= b { (a, b) } else { (b, a) };
        match a {
            Edge::ALL => return Ok(b),
            Edge::NONE => return Ok(a),
            _ if a == b => return Ok(a),
            _ if a == b.complement() => return Ok(Edge::NONE),
            _ => {}
        }
        self.memoized(Asked::new(Operation::And, [a, b, Edge::ALL]), |work| {
            let level = work.nodes.level(a).min(work.nodes.level(b));
            let ((a0, a1), (b0, b1)) = (work.nodes.at(a, level), work.nodes.at(b, level));
            let (low, high) = (work.and(a0, b0)?, work.and(a1, b1)?);
            work.nodes.make(level, low, high)
        })
    }

    pub(super) fn or(&mut self, a: Edge, b: Edge) -> Result<Edge, Stop> {
        Ok(self.and(a.complement(), b.complement())?.complement())
    }

    pub(super) fn xor(&mut self, a: Edge, b: Edge) -> Result<Edge, Stop> {
        let sign = Edge::ALL.complement_as(a).complement_as(b);
        let (a, b) = (a.plain().min(b.plain()), a.plain().max(b.plain()));
        match a {
            _ if a == b => return Ok(Edge::NONE.complement_as(sign)),
            Edge::ALL => return Ok(b.complement().complement_as(sign)),
            _ => {}
        }
        let made = self.memoized(Asked::new(Operation::Xor, [a, b, Edge::ALL]), |work| {
            let level = work.nodes.level(a).min(work.nodes.level(b));
            let ((a0, a1), (b0, b1)) = (work.nodes.at(a, level), work.nodes.at(b, level));
            let (low, high) = (work.xor(a0, b0)?, work.xor(a1, b1)?);
            work.nodes.make(level, low, high)
        })?;
        Ok(made.complement_as(sign))
    }

    /// The second where the first holds, the third elsewhere.
    pub(super) fn select(&mut self, a: Edge, b: Edge, c: Edge) -> Result<Edge, Stop> {
        let (a, b, c) = if a.is_complement() { (a.complement(), c, b) } else { (a, b, c) };
        match (a, b, c) {
            (Edge::ALL, _, _) => return Ok(b),
            _ if b == c => return Ok(b),
            _ if b == c.complement() => return self.xor(a, c),
            _ if b == Edge::ALL || a == b => return self.or(a, c),
            _ if b == Edge::NONE || a == b.complement() => return self.and(a.complement(), c),
            _ if c == Edge::NONE || a == c => return self.and(a, b),
            _ if c == Edge::ALL || a == c.complement() => return self.or(a.complement(), b),
            _ => {}
        }
        let sign = Edge::ALL.complement_as(b);
        let (b, c) = (b.plain(), c.complement_as(sign));
        let made = self.memoized(Asked::new(Operation::Select, [a, b, c]), |work| {
            let level = [a, b, c].map(|edge| work.nodes.level(edge)).into_iter().min();
            let level = level.expect("three of them");
            let [(a0, a1), (b0, b1), (c0, c1)] = [a, b, c].map(|edge| work.nodes.at(edge, level));
            let (low, high) = (work.select(a0, b0, c0)?, work.select(a1, b1, c1)?);
            work.nodes.make(level, low, high)
        })?;
        Ok(made.complement_as(sign))
    }

    /// A function with any value of some variables: those that `free`, their product, asks.
    pub(super) fn whatever(&mut self, a: Edge, free: Edge) -> Result<Edge, Stop> {
        let level = self.nodes.level(a);
        let mut free = free;
        while self.nodes.level(free) < level {
            free = self.nodes.at(free, self.nodes.level(free)).1;
        }
        if a.is_constant() || free == Edge::ALL {
            return Ok(a);
        }
        self.memoized(Asked::new(Operation::Whatever, [a, free, Edge::ALL]), |work| {
            let (low, high) = work.nodes.at(a, level);
            let low = work.whatever(low, free)?;
            if work.nodes.level(free) != level {
                let high = work.whatever(high, free)?;
                return work.nodes.make(level, low, high);
            }
            if low == Edge::ALL {
                return Ok(low);
            }
            let high = work.whatever(high, free)?;
            work.or(low, high)
        })
    }

    /// A function that is the first one where the second holds, and anything elsewhere: one of few
    /// nodes (O. Coudert, J. C. Madre, "A unified framework for the formal verification of
    /// sequential circuits", 1990).
    pub(super) fn among(&mut self, a: Edge, care: Edge) -> Result<Edge, Stop> {
        if a.is_constant() || care.is_constant() {
            return Ok(a);
        }
        if a == care {
            return Ok(Edge::ALL);
        }
        if a == care.complement() {
            return Ok(Edge::NONE);
        }
        self.memoized(Asked::new(Operation::Among, [a, care, Edge::ALL]), |work| {
            let level = work.nodes.level(a);
            let (c0, c1) = work.nodes.at(care, level.min(work.nodes.level(care)));
            if work.nodes.level(care) < level {
                let either = work.or(c0, c1)?;
                return work.among(a, either);
            }
            let (low, high) = work.nodes.at(a, level);
            match (c0, c1) {
                (Edge::NONE, _) => work.among(high, c1),
                (_, Edge::NONE) => work.among(low, c0),
                _ => {
                    let (low, high) = (work.among(low, c0)?, work.among(high, c1)?);
                    work.nodes.make(level, low, high)
                }
            }
        })
    }

    /// Whether two functions have nothing in common. Makes no node.
    pub(super) fn are_apart(&mut self, a: Edge, b: Edge) -> Result<bool, Stop> {
        let (a, b) = if a <= b { (a, b) } else { (b, a) };
        match a {
            Edge::ALL => return Ok(b == Edge::NONE),
            Edge::NONE => return Ok(true),
            _ if a == b => return Ok(false),
            _ if a == b.complement() => return Ok(true),
            _ => {}
        }
        let answer = self.memoized(Asked::new(Operation::Apart, [a, b, Edge::ALL]), |work| {
            let level = work.nodes.level(a).min(work.nodes.level(b));
            let ((a0, a1), (b0, b1)) = (work.nodes.at(a, level), work.nodes.at(b, level));
            let apart = work.are_apart(a0, b0)? && work.are_apart(a1, b1)?;
            Ok(if apart { Edge::ALL } else { Edge::NONE })
        })?;
        Ok(answer == Edge::ALL)
    }
}
