// SPDX-License-Identifier: Apache-2.0

//! Sets of packets as decision diagrams, within limits of memory and time.
//!
//! The only file that knows the library. A [`Region`] is a Boolean function of numbered variables;
//! variables with lower numbers are nearer to the root.

// A region is what its diagram is; what changes inside of it is a count of references.
#![allow(clippy::mutable_key_type)]

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use oxidd::bdd::{BDDFunction, BDDManagerRef, new_manager};
use oxidd::util::{AllocResult, OptBool};
use oxidd::{BooleanFunction, BooleanFunctionQuant, Function, Manager, ManagerRef};

/// Bytes that a node takes with its place in the table of nodes and its share of the cache
/// (measured: the largest set that a process held before a limit of nodes stopped it).
const NODE_BYTES: usize = 48;
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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Region(BDDFunction);

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_none(), self.is_all()) {
            (true, _) => f.write_str("none"),
            (_, true) => f.write_str("all"),
            _ => write!(f, "region of {} nodes", self.0.node_count()),
        }
    }
}

impl Region {
    /// Whether no packet is in it.
    pub fn is_none(&self) -> bool {
        !self.0.satisfiable()
    }

    /// Whether all packets are in it.
    pub fn is_all(&self) -> bool {
        self.0.valid()
    }

    /// Whether a packet is in it: the value of each variable.
    pub fn contains(&self, point: &[bool]) -> bool {
        self.0.eval((0..).zip(point.iter().copied()))
    }

    /// Nodes of its diagram.
    pub fn nodes(&self) -> usize {
        self.0.node_count()
    }
}

/// Where regions live.
pub struct Diagrams {
    manager: BDDManagerRef,
    all: Region,
    none: Region,
    variables: u32,
    limits: Limits,
    /// When time is over.
    end: Instant,
}

impl Diagrams {
    /// A place for regions without variables. The time of the limits begins.
    pub fn new(limits: Limits) -> Self {
        let nodes = (limits.memory / NODE_BYTES).clamp(LEAST_NODES, 1 << 30);
        let manager = new_manager(nodes, (nodes / 4).next_power_of_two(), 1);
        let (all, none) = manager.with_manager_shared(|m| (BDDFunction::t(m), BDDFunction::f(m)));
        let end = Instant::now() + limits.time;
        Diagrams { manager, all: Region(all), none: Region(none), variables: 0, limits, end }
    }

    /// Adds variables, after those that there are; the number of the first.
    pub fn add_variables(&mut self, count: u32) -> u32 {
        let first = self.variables;
        self.variables += count;
        self.manager.with_manager_exclusive(|m| m.add_vars(count));
        first
    }

    /// How many variables there are.
    pub fn variables(&self) -> u32 {
        self.variables
    }

    /// All packets.
    pub fn all(&self) -> Region {
        self.all.clone()
    }

    /// No packets.
    pub fn none(&self) -> Region {
        self.none.clone()
    }

    /// Does an operation; where there is no room, once more after what is unused was given back.
    fn within(&self, operation: impl Fn() -> AllocResult<BDDFunction>) -> Decided<Region> {
        if let Ok(region) = operation() {
            return Ok(Region(region));
        }
        self.manager.with_manager_shared(|m| m.gc());
        operation().map(Region).map_err(|_| Undecided::Memory(self.limits.memory))
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
        self.within(|| {
            self.manager.with_manager_shared(|m| match value {
                true => BDDFunction::var(m, number),
                false => BDDFunction::not_var(m, number),
            })
        })
    }

    /// Packets in both.
    pub fn and(&self, a: &Region, b: &Region) -> Decided<Region> {
        self.within(|| a.0.and(&b.0))
    }

    /// Packets in one of them, or in both.
    pub fn or(&self, a: &Region, b: &Region) -> Decided<Region> {
        self.within(|| a.0.or(&b.0))
    }

    /// Packets of the first that are not in the second.
    pub fn minus(&self, a: &Region, b: &Region) -> Decided<Region> {
        self.within(|| b.0.imp_strict(&a.0))
    }

    /// Packets in exactly one of them.
    pub fn xor(&self, a: &Region, b: &Region) -> Decided<Region> {
        self.within(|| a.0.xor(&b.0))
    }

    /// All other packets.
    pub fn not(&self, a: &Region) -> Decided<Region> {
        self.within(|| a.0.not())
    }

    /// Packets of `then` where the condition holds, of `otherwise` where it does not.
    pub fn select(&self, condition: &Region, then: &Region, otherwise: &Region) -> Decided<Region> {
        self.within(|| condition.0.ite(&then.0, &otherwise.0))
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
        Ok(!self.and(a, b)?.is_none())
    }

    /// Whether each packet of the first is in the second.
    pub fn within_other(&self, a: &Region, b: &Region) -> Decided<bool> {
        Ok(self.minus(a, b)?.is_none())
    }

    /// Packets that are in the region after a change of some variables.
    pub fn whatever(&self, a: &Region, variables: impl Iterator<Item = u32>) -> Decided<Region> {
        let mut numbers: Vec<u32> = variables.collect();
        numbers.sort_unstable();
        let mut cube = self.all();
        for number in numbers.into_iter().rev() {
            cube = self.and(&self.variable(number, true)?, &cube)?;
        }
        self.within(|| a.0.exists(&cube.0))
    }

    /// A packet of a region, with zeros where it has the choice; `None` if it has no packet.
    pub fn packet_of(&self, a: &Region) -> Option<Vec<bool>> {
        let cube = a.0.pick_cube(|_, _, _| false)?;
        let mut point: Vec<bool> = cube.into_iter().map(|bit| bit == OptBool::True).collect();
        point.resize(self.variables as usize, false);
        Some(point)
    }

    /// The part of all values of the variables that is in a region, 0 to 1.
    pub fn share(&self, a: &Region) -> f64 {
        fn of(region: &BDDFunction, known: &mut HashMap<BDDFunction, f64>) -> f64 {
            let Some((yes, no)) = region.cofactors() else {
                return if region.valid() { 1.0 } else { 0.0 };
            };
            if let Some(share) = known.get(region) {
                return *share;
            }
            let share = (of(&yes, known) + of(&no, known)) / 2.0;
            known.insert(region.clone(), share);
            share
        }
        of(&a.0, &mut HashMap::new())
    }

    /// The region at its first variable: which, and the regions with 0 and with 1 there. `None` for
    /// all and no packets.
    pub fn split(&self, a: &Region) -> Option<(u32, Region, Region)> {
        let (yes, no) = a.0.cofactors()?;
        let variable = self.manager.with_manager_shared(|m| {
            use oxidd::HasLevel as _;
            let node = m.get_node(a.0.as_edge(m));
            let oxidd::Node::Inner(node) = node else { return 0 };
            m.level_to_var(node.level())
        });
        Some((variable, Region(no), Region(yes)))
    }

    /// Whether the value of any of these variables makes a difference for a region. The numbers
    /// ascend.
    pub fn support(&self, a: &Region) -> Vec<u32> {
        let mut seen = std::collections::HashSet::new();
        let mut numbers = std::collections::BTreeSet::new();
        let mut open = vec![a.clone()];
        while let Some(region) = open.pop() {
            let Some((variable, no, yes)) = self.split(&region) else { continue };
            if seen.insert(region) {
                numbers.insert(variable);
                open.extend([no, yes]);
            }
        }
        numbers.into_iter().collect()
    }
}
