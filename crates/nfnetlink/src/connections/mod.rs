// SPDX-License-Identifier: Apache-2.0

//! The connections that requests read and change.

mod event;
mod table;

use penstock_conntrack::{Direction, Expectation, Flow, FlowChange, Follow, Statistics, Tuple};
use penstock_nat::Range;
use penstock_ruleset::Errno;
use serde::{Deserialize, Serialize};

pub use event::ConnectionEvent;
pub use table::{expect, of_connection};

/// Names a direction of a connection: a tuple, whatever its own zone, and the zones of the original
/// and of the reply direction. Where those are the same it may be either direction, otherwise it is
/// the one of its zone (`nf_conntrack_find_get()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The tuple.
    pub tuple: Tuple,
    /// Zones by direction.
    pub zones: [u16; 2],
}

impl Wanted {
    /// The tuple in the zone of a direction.
    pub fn in_zone(&self, direction: Direction) -> Tuple {
        Tuple { zone: self.zones[direction as usize], ..self.tuple }
    }
}

/// A connection to enter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFlow {
    /// Its original tuple.
    pub original: Tuple,
    /// Its reply tuple, before it is translated.
    pub reply: Tuple,
    /// A direction of the connection that expected it.
    pub master: Option<Wanted>,
    /// Where its destination and its source go, each without a range for its own; `None` if it is
    /// not for NAT to decide.
    pub translation: Option<[Option<Range>; 2]>,
    /// What it begins with.
    pub change: FlowChange,
}

/// An expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// A number that names it.
    pub id: u32,
    /// The expectation.
    pub expectation: Expectation,
    /// What is left of its life, in nanoseconds.
    pub left: u64,
    /// The original tuple of its master.
    pub master: Tuple,
    /// Name of its master's helper.
    pub helper: Option<Box<str>>,
}

/// A connection to expect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewExpected {
    /// Its original tuple.
    pub tuple: Tuple,
    /// Which bits of its source address count.
    pub source_mask: [u8; 16],
    /// Whether its source port counts.
    pub source_port: bool,
    /// A direction of its master.
    pub master: Wanted,
    /// Number of its helper, 0 for none.
    pub helper: u16,
    /// Class.
    pub class: u8,
    /// Bits of `expect_flag`.
    pub flags: u8,
    /// How it is translated.
    pub follow: Option<Follow>,
}

/// Connections that requests read and change. Each call is whole: it sees, or leaves, no half of a
/// change.
///
/// # Errors
/// Those of `nf_conntrack_netlink.c`, as each method says; and whatever keeps connections from
/// being reached.
pub trait Connections {
    /// Shows each connection.
    fn each(&mut self, see: &mut dyn FnMut(&Flow)) -> Result<(), Errno>;

    /// Finds a connection by one of its directions.
    fn find(&mut self, wanted: &Wanted) -> Result<Option<Flow>, Errno>;

    /// Enters a connection, and gives it as it is then: `EEXIST`, `ENOMEM` where the table is full,
    /// `ENOSPC` where too many have near hashes, `ENOENT` without its master.
    fn add(&mut self, new: &NewFlow) -> Result<Flow, Errno>;

    /// Changes a connection, and gives it as it is then: `ENOENT` if it is not there.
    fn change(&mut self, flow: &Flow, change: &FlowChange) -> Result<Flow, Errno>;

    /// Ends connections: for each whether it was there.
    fn remove(&mut self, flows: &[Flow]) -> Result<Vec<bool>, Errno>;

    /// Sets the counters of connections to zero.
    fn zero_counters(&mut self, flows: &[Flow]) -> Result<(), Errno>;

    /// How many connections there are, and how many there may be.
    fn count(&mut self) -> Result<(u32, u32), Errno>;

    /// What happened to packets and connections, for each worker.
    fn statistics(&mut self) -> Result<Vec<Statistics>, Errno>;

    /// All expectations.
    fn expectations(&mut self) -> Result<Vec<Expected>, Errno>;

    /// Expects a connection, with the timeout of its master's helper: `ENOENT` without its master,
    /// `EOPNOTSUPP` if that has no helper, `EBUSY` if another connection expects the same,
    /// `EINVAL` without such a class.
    fn expect(&mut self, new: &NewExpected) -> Result<Expected, Errno>;

    /// Expects a connection for some nanoseconds from now on: `ENOENT` if it is not expected.
    fn prolong(&mut self, expected: &Expected, timeout: u64) -> Result<(), Errno>;

    /// Ends an expectation; `false` if it is not there.
    fn unexpect(&mut self, expected: &Expected) -> Result<bool, Errno>;

    /// Timeouts of connections without a policy, for an IP protocol: states, by the kernel's
    /// number, and seconds.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: no packets meet these connections, which have no such timeouts then.
    fn usual_timeouts(&mut self, protocol: u8) -> Result<Vec<(u8, u32)>, Errno> {
        let _ = protocol;
        Err(Errno::Eopnotsupp)
    }

    /// Sets timeouts of connections without a policy, for an IP protocol: states, by the kernel's
    /// number, and seconds. Others stay as they are.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: no packets meet these connections, which have no such timeouts then.
    fn set_usual_timeouts(&mut self, protocol: u8, values: &[(u8, u32)]) -> Result<(), Errno> {
        let _ = (protocol, values);
        Err(Errno::Eopnotsupp)
    }

    /// Whether [`Connections::tell`] tells the members of groups. Otherwise answers do.
    fn tells(&self) -> bool {
        false
    }

    /// Tells the members of groups, wherever they are, of what a socket with a port id has caused.
    fn tell(&mut self, port: u32, events: Vec<ConnectionEvent>) -> Result<(), Errno> {
        let _ = (port, events);
        Ok(())
    }
}
