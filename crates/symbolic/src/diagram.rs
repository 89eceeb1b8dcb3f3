// SPDX-License-Identifier: Apache-2.0

//! Sets of packets as decision diagrams, within limits of memory and time.
//!
//! A [`Region`] is a Boolean function of numbered variables; variables with lower numbers are
//! nearer to the root. All regions of one [`Diagrams`] share their nodes.

mod known;
mod node;
mod operation;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::{Duration, Instant};

use node::{Edge, MOST_NODES, Nodes, Stop};
use operation::Work;

/// Bytes that a node takes with its places in the tables of nodes, regions and results.
const NODE_BYTES: usize = 40;
/// Nodes that are there at least, however little memory is given.
const LEAST_NODES: usize = 1 << 12;

/// How much work an evaluation may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes for diagrams.
    pub memory: usize,
    /// Time for all of it.
    pub time: Duration,
}

impl Default for Limits {
    /// 1 GiB and a minute.
    fn default() -> Self {
        Limits { memory: 1 << 30, time: Duration::from_secs(60) }
    }
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Diagrams need more than [`Limits::memory`].
    Memory(usize),
    /// It takes longer than [`Limits::time`].
    Time(Duration),
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undecided::Memory(bytes) => write!(f, "diagrams need more than {} MiB", bytes >> 20),
            Undecided::Time(time) => write!(f, "it takes longer than {} s", time.as_secs()),
        }
    }
}

impl std::error::Error for Undecided {}

/// The answer of an operation on regions.
pub type Decided<T> = Result<T, Undecided>;

/// A set of packets.
pub struct Region {
    edge: Edge,
    shared: Rc<Shared>,
}

/// What all regions of one [`Diagrams`] share.
struct Shared {
    work: RefCell<Work>,
    /// How many regions lead to each node: these nodes, and what they lead to, are kept.
    held: RefCell<Vec<u32>>,
}

impl Region {
    fn new(edge: Edge, shared: &Rc<Shared>) -> Self {
        let mut held = shared.held.borrow_mut();
        if edge.node() >= held.len() {
            held.resize(edge.node() + 1, 0);
        }
        held[edge.node()] += 1;
        Region { edge, shared: Rc::clone(shared) }
    }

    /// Whether no packet is in it.
    pub fn is_none(&self) -> bool {
        self.edge == Edge::NONE
    }

    /// Whether all packets are in it.
    pub fn is_all(&self) -> bool {
        self.edge == Edge::ALL
    }

    /// Whether a packet is in it: the value of each variable.
    pub fn contains(&self, point: &[bool]) -> bool {
        let nodes = &self.shared.work.borrow().nodes;
        let mut edge = self.edge;
        while !edge.is_constant() {
            let level = nodes.level(edge);
            let (low, high) = nodes.at(edge, level);
            edge = if point[level as usize] { high } else { low };
        }
        edge == Edge::ALL
    }
}

impl Clone for Region {
    fn clone(&self) -> Self {
        Region::new(self.edge, &self.shared)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.shared.held.borrow_mut()[self.edge.node()] -= 1;
    }
}

impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        debug_assert!(Rc::ptr_eq(&self.shared, &other.shared), "regions of the same diagrams");
        self.edge == other.edge
    }
}

impl Eq for Region {}

impl Hash for Region {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.edge.hash(state);
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_none(), self.is_all()) {
            (true, _) => f.write_str("none"),
            (_, true) => f.write_str("all"),
            _ => write!(f, "region {}", self.edge.bits()),
        }
    }
}

/// Where regions live.
pub struct Diagrams {
    shared: Rc<Shared>,
    variables: u32,
    limits: Limits,
    /// When time is over.
    end: Instant,
}

impl Diagrams {
    /// A place for regions without variables. The time of the limits begins.
    pub fn new(limits: Limits) -> Self {
        let most = (limits.memory / NODE_BYTES).clamp(LEAST_NODES, MOST_NODES);
        let end = Instant::now() + limits.time;
        let work = RefCell::new(Work::new(most, end));
        let shared = Rc::new(Shared { work, held: RefCell::default() });
        Diagrams { shared, variables: 0, limits, end }
    }

    /// Adds variables, after those that there are; the number of the first.
    pub fn add_variables(&mut self, count: u32) -> u32 {
        let first = self.variables;
        self.variables += count;
        first
    }

    /// How many variables there are.
    pub fn variables(&self) -> u32 {
        self.variables
    }

    fn region(&self, edge: Edge) -> Region {
        Region::new(edge, &self.shared)
    }

    /// All packets.
    pub fn all(&self) -> Region {
        self.region(Edge::ALL)
    }

    /// No packets.
    pub fn none(&self) -> Region {
        self.region(Edge::NONE)
    }

    /// Does an operation; where there is no room, once more after what is unused was given back.
    fn within<T>(&self, operation: impl Fn(&mut Work) -> Result<T, Stop>) -> Decided<T> {
        let work = &mut *self.shared.work.borrow_mut();
        if work.nodes.should_collect() {
            self.collect(work);
        }
        work.fit();
        let mut done = operation(work);
        if matches!(done, Err(Stop::Room)) {
            self.collect(work);
            done = operation(work);
        }
        done.map_err(|stop| match stop {
            Stop::Room => Undecided::Memory(self.limits.memory),
            Stop::Time => Undecided::Time(self.limits.time),
        })
    }

    fn collect(&self, work: &mut Work) {
        let held = self.shared.held.borrow();
        work.collect((0..held.len()).filter(|number| held[*number] > 0));
    }

    /// Does an operation that makes a region.
    fn made(&self, operation: impl Fn(&mut Work) -> Result<Edge, Stop>) -> Decided<Region> {
        self.within(operation).map(|edge| self.region(edge))
    }

    /// Whether there is time left: asked by those that loop.
    pub fn check_time(&self) -> Decided<()> {
        match Instant::now() < self.end {
            true => Ok(()),
            false => Err(Undecided::Time(self.limits.time)),
        }
    }

    /// Packets for which a variable has a value.
    pub fn variable(&self, number: u32, value: bool) -> Decided<Region> {
        let one = if value { Edge::ALL } else { Edge::NONE };
        self.made(|work| work.nodes.make(number, one.complement(), one))
    }

    /// Packets for which each of some variables has a value.
    pub fn cube(&self, mut values: Vec<(u32, bool)>) -> Decided<Region> {
        values.sort_unstable();
        values.dedup();
        if values.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Ok(self.none());
        }
        self.made(|work| {
            // From the last variable on: each step adds a node at the top.
            values.iter().rev().try_fold(Edge::ALL, |rest, (number, value)| match value {
                true => work.nodes.make(*number, Edge::NONE, rest),
                false => work.nodes.make(*number, rest, Edge::NONE),
            })
        })
    }

    /// Packets in both.
    pub fn and(&self, a: &Region, b: &Region) -> Decided<Region> {
        self.made(|work| work.and(a.edge, b.edge))
    }

    /// Packets in one of them, or in both.
    pub fn or(&self, a: &Region, b: &Region) -> Decided<Region> {
        self.made(|work| work.or(a.edge, b.edge))
    }

    /// Packets of the first that are not in the second.
    pub fn minus(&self, a: &Region, b: &Region) -> Decided<Region> {
        self.made(|work| work.and(a.edge, b.edge.complement()))
    }

    /// Packets in exactly one of them.
    pub fn xor(&self, a: &Region, b: &Region) -> Decided<Region> {
        self.made(|work| work.xor(a.edge, b.edge))
    }

    /// All other packets.
    pub fn not(&self, a: &Region) -> Region {
        self.region(a.edge.complement())
    }

    /// Packets of `then` where the condition holds, of `otherwise` where it does not.
    pub fn select(&self, condition: &Region, then: &Region, otherwise: &Region) -> Decided<Region> {
        self.made(|work| work.select(condition.edge, then.edge, otherwise.edge))
    }

    /// All of several, joined pair by pair, so that large diagrams are touched seldom.
    pub fn union(&self, all: &[Region]) -> Decided<Region> {
        match all {
            [] => Ok(self.none()),
            [one] => Ok(one.clone()),
            _ => {
                let (a, b) = all.split_at(all.len() / 2);
                self.or(&self.union(a)?, &self.union(b)?)
            }
        }
    }

    /// Whether two regions have a packet in common.
    pub fn meet(&self, a: &Region, b: &Region) -> Decided<bool> {
        self.within(|work| work.are_apart(a.edge, b.edge)).map(|apart| !apart)
    }

    /// Whether each packet of the first is in the second.
    pub fn within_other(&self, a: &Region, b: &Region) -> Decided<bool> {
        self.within(|work| work.are_apart(a.edge, b.edge.complement()))
    }

    /// Packets that are in the region after a change of some variables.
    pub fn whatever(&self, a: &Region, variables: impl Iterator<Item = u32>) -> Decided<Region> {
        let mut numbers: Vec<u32> = variables.collect();
        numbers.sort_unstable();
        self.made(|work| {
            let mut free = Edge::ALL;
            for number in numbers.iter().rev() {
                free = work.nodes.make(*number, Edge::NONE, free)?;
            }
            work.whatever(a.edge, free)
        })
    }

    /// A region that has the packets of one that are in another, and of those that are not in it
    /// some: so that it is easier to work with.
    pub fn among(&self, a: &Region, care: &Region) -> Decided<Region> {
        self.made(|work| work.among(a.edge, care.edge))
    }

    /// A packet of a region, with zeros where it has the choice; `None` if it has no packet.
    pub fn packet_of(&self, a: &Region) -> Option<Vec<bool>> {
        self.packet_like(a, &vec![false; self.variables as usize])
    }

    /// A packet of a region, with the values of a point where it has the choice; `None` if it has no
    /// packet.
    pub fn packet_like(&self, a: &Region, point: &[bool]) -> Option<Vec<bool>> {
        let nodes = &self.shared.work.borrow().nodes;
        let mut point = point.to_vec();
        let mut edge = a.edge;
        while !edge.is_constant() {
            let level = nodes.level(edge);
            let (low, high) = nodes.at(edge, level);
            let value = &mut point[level as usize];
            *value = (*value || low == Edge::NONE) && high != Edge::NONE;
            edge = if *value { high } else { low };
        }
        (edge == Edge::ALL).then_some(point)
    }

    /// The part of all values of the variables that is in a region, 0 to 1.
    pub fn share(&self, a: &Region) -> f64 {
        fn of(edge: Edge, nodes: &Nodes, known: &mut HashMap<Edge, f64>) -> f64 {
            // A small share of a complement would be lost in the difference to 1.
            match edge {
                Edge::ALL => return 1.0,
                Edge::NONE => return 0.0,
                _ => {}
            }
            if let Some(share) = known.get(&edge) {
                return *share;
            }
            let (low, high) = nodes.at(edge, nodes.level(edge));
            let share = (of(low, nodes, known) + of(high, nodes, known)) / 2.0;
            known.insert(edge, share);
            share
        }
        of(a.edge, &self.shared.work.borrow().nodes, &mut HashMap::new())
    }

    /// The region at its first variable: which, and the regions with 0 and with 1 there. `None` for
    /// all and no packets.
    pub fn split(&self, a: &Region) -> Option<(u32, Region, Region)> {
        if a.edge.is_constant() {
            return None;
        }
        let nodes = &self.shared.work.borrow().nodes;
        let level = nodes.level(a.edge);
        let (low, high) = nodes.at(a.edge, level);
        Some((level, self.region(low), self.region(high)))
    }

    /// The variables whose value makes a difference for a region. The numbers ascend.
    pub fn support(&self, a: &Region) -> Vec<u32> {
        let nodes = &self.shared.work.borrow().nodes;
        let mut seen = HashSet::new();
        let mut numbers = BTreeSet::new();
        let mut open = vec![a.edge.plain()];
        while let Some(edge) = open.pop() {
            if !edge.is_constant() && seen.insert(edge) {
                let level = nodes.level(edge);
                let (low, high) = nodes.at(edge, level);
                numbers.insert(level);
                open.extend([low.plain(), high.plain()]);
            }
        }
        numbers.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of seven variables: bit `p` of a truth table is the value for the point `p`.
    const VARIABLES: u32 = 7;
    type Table = u128;

    fn point(number: u32) -> Vec<bool> {
        (0..VARIABLES).map(|v| number >> v & 1 == 1).collect()
    }

    fn table_of_variable(variable: u32) -> Table {
        (0..1 << VARIABLES).filter(|p| p >> variable & 1 == 1).fold(0, |t, p: u32| t | 1 << p)
    }

    fn table_of(region: &Region) -> Table {
        (0..1 << VARIABLES).filter(|p| region.contains(&point(*p))).fold(0, |t, p| t | 1 << p)
    }

    /// What is left of a table after a variable may have any value.
    fn whatever(table: Table, variable: u32) -> Table {
        let ones = table_of_variable(variable);
        let shift = 1 << variable;
        let (with, without) = (table & ones, table & !ones);
        with | with >> shift | without | without << shift
    }

    /// Random operations on regions, and the same on truth tables.
    fn play(diagrams: &Diagrams, rng: &mut fastrand::Rng, operations: usize) {
        let mut all = vec![(diagrams.all(), Table::MAX), (diagrams.none(), 0)];
        for variable in 0..VARIABLES {
            let region = diagrams.variable(variable, true).unwrap();
            all.push((region, table_of_variable(variable)));
        }
        for _ in 0..operations {
            let pick = |rng: &mut fastrand::Rng| all[rng.usize(..all.len())].clone();
            let ((a, ta), (b, tb), (c, tc)) = (pick(rng), pick(rng), pick(rng));
            let made = match rng.u8(..9) {
                0 => (diagrams.and(&a, &b), ta & tb),
                1 => (diagrams.or(&a, &b), ta | tb),
                2 => (diagrams.minus(&a, &b), ta & !tb),
                3 => (diagrams.xor(&a, &b), ta ^ tb),
                4 => (Ok(diagrams.not(&a)), !ta),
                5 => (diagrams.select(&a, &b, &c), ta & tb | !ta & tc),
                7 => {
                    let pick = |rng: &mut fastrand::Rng| (rng.u32(..VARIABLES), rng.bool());
                    let values: Vec<(u32, bool)> = (0..rng.usize(..5)).map(|_| pick(rng)).collect();
                    let of = |(v, value): &(u32, bool)| match value {
                        true => table_of_variable(*v),
                        false => !table_of_variable(*v),
                    };
                    let table = values.iter().fold(Table::MAX, |table, one| table & of(one));
                    (diagrams.cube(values), table)
                }
                6 => (diagrams.union(&[a.clone(), b.clone(), c.clone()]), ta | tb | tc),
                _ => {
                    let free: Vec<u32> = (0..VARIABLES).filter(|_| rng.u8(..4) == 0).collect();
                    let table = free.iter().fold(ta, |t, v| whatever(t, *v));
                    (diagrams.whatever(&a, free.into_iter()), table)
                }
            };
            let (region, table) = (made.0.unwrap(), made.1);
            assert_eq!(table_of(&region), table);
            assert_eq!(region.is_none(), table == 0);
            assert_eq!(region.is_all(), table == Table::MAX);
            assert_eq!(diagrams.meet(&a, &b).unwrap(), ta & tb != 0);
            let among = diagrams.among(&a, &b).unwrap();
            assert_eq!(table_of(&among) & tb, ta & tb);
            assert_eq!(diagrams.within_other(&a, &b).unwrap(), ta & !tb == 0);
            let share = f64::from(table.count_ones()) / f64::from(1 << VARIABLES);
            assert_eq!(diagrams.share(&region), share);
            let support: Vec<u32> =
                (0..VARIABLES).filter(|v| whatever(table, *v) != table).collect();
            assert_eq!(diagrams.support(&region), support);
            let wish = point(rng.u32(..1 << VARIABLES));
            for packet in [diagrams.packet_of(&region), diagrams.packet_like(&region, &wish)] {
                assert_eq!(packet.is_none(), table == 0);
                assert!(packet.is_none_or(|packet| region.contains(&packet)));
            }
            if region.contains(&wish) {
                assert_eq!(diagrams.packet_like(&region, &wish), Some(wish));
            }
            if let Some((variable, low, high)) = diagrams.split(&region) {
                assert_eq!(Some(&variable), support.first());
                let ones = table_of_variable(variable);
                assert_eq!(table_of(&low) & !ones | table_of(&high) & ones, table);
            }
            for (other, t) in &all {
                assert_eq!(*other == region, *t == table, "one diagram for one set");
            }
            // Some are forgotten, so that there is something to give back.
            match rng.u8(..3) {
                0 if all.len() > 20 => {
                    let at = rng.usize(2..all.len());
                    all[at] = (region, table);
                }
                _ => all.push((region, table)),
            }
        }
    }

    #[test]
    fn the_share_of_one_packet_of_many_is_told() {
        let mut diagrams = Diagrams::new(Limits::default());
        diagrams.add_variables(300);
        let one = (0..300).rev().fold(diagrams.all(), |all, number| {
            diagrams.and(&diagrams.variable(number, number % 3 == 0).unwrap(), &all).unwrap()
        });
        assert_eq!(diagrams.share(&one), 0.5f64.powi(300));
        assert_eq!(diagrams.share(&diagrams.not(&one)), 1.0);
    }

    #[test]
    fn what_is_unused_is_given_back_and_what_is_held_is_not() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut diagrams = Diagrams::new(Limits { memory: 0, ..Limits::default() });
        diagrams.add_variables(VARIABLES);
        // Far more nodes than there may be at one time.
        for _ in 0..100 {
            play(&diagrams, &mut rng, 40);
        }
    }

    #[test]
    fn limits_are_told_and_later_work_goes_on() {
        let limits = Limits { memory: 0, time: Duration::from_secs(3600) };
        let mut diagrams = Diagrams::new(limits);
        diagrams.add_variables(64);
        // Equality of two numbers whose bits are far apart: the diagram doubles with each bit.
        let mut equal = diagrams.all();
        let full = (0..32).find_map(|bit| {
            let [a, b] = [bit, bit + 32].map(|v| diagrams.variable(v, true).unwrap());
            let step = diagrams.xor(&a, &b).map(|differ| diagrams.not(&differ));
            match step.and_then(|same| diagrams.and(&equal, &same)) {
                Ok(region) => equal = region,
                Err(undecided) => return Some(undecided),
            }
            None
        });
        assert_eq!(full, Some(Undecided::Memory(0)));
        assert!(equal.contains(&[false; 64]));
        equal = diagrams.none();
        play(&diagrams, &mut fastrand::Rng::with_seed(4), 50);
        assert!(equal.is_none());
    }

    #[test]
    fn regions_are_what_truth_tables_are() {
        for seed in 0..20 {
            let mut diagrams = Diagrams::new(Limits::default());
            diagrams.add_variables(VARIABLES);
            play(&diagrams, &mut fastrand::Rng::with_seed(seed), 150);
        }
    }

    #[test]
    fn diagrams_can_be_made_one_after_another_and_side_by_side() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..60 {
            let mut first = Diagrams::new(Limits::default());
            first.add_variables(VARIABLES);
            let mut second = Diagrams::new(Limits::default());
            second.add_variables(VARIABLES);
            play(&first, &mut rng, 10);
            play(&second, &mut rng, 10);
            drop(first);
            play(&second, &mut rng, 10);
        }
    }

    #[test]
    fn large_diagrams_one_after_another() {
        let mut rng = fastrand::Rng::with_seed(1);
        for round in 0..12 {
            let mut diagrams = Diagrams::new(Limits::default());
            diagrams.add_variables(32);
            let member = |number: u32, diagrams: &Diagrams| {
                (0..32).rev().fold(diagrams.all(), |all, bit| {
                    let bit = diagrams.variable(bit, number >> (31 - bit) & 1 == 1).unwrap();
                    diagrams.and(&bit, &all).unwrap()
                })
            };
            let numbers: Vec<u32> = (0..[100, 8000][round % 2]).map(|_| rng.u32(..)).collect();
            let regions: Vec<Region> = numbers.iter().map(|n| member(*n, &diagrams)).collect();
            let all = diagrams.union(&regions).unwrap();
            let inside = |number: u32| {
                all.contains(&(0..32).map(|bit| number >> (31 - bit) & 1 == 1).collect::<Vec<_>>())
            };
            for number in &numbers {
                assert!(inside(*number), "{round}");
            }
            for _ in 0..10_000 {
                let number = rng.u32(..);
                assert_eq!(inside(number), numbers.contains(&number));
            }
        }
    }
}
