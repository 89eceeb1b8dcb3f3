// SPDX-License-Identifier: Apache-2.0

//! What requests read and change.

use std::sync::Arc;

use penstock_conntrack::Conntrack;
use penstock_ipset::{Refused as IpSetRefused, Reply, Request};
use penstock_ruleset::reset::Reset;
use penstock_ruleset::transaction::Applied;
use penstock_ruleset::{Change, Errno, Error, Generation, Ruleset, Transaction};

use crate::connections::Connections;
use crate::ipset::IpSetTable;
use crate::packets::PacketListeners;
use crate::process::Process;

/// Why a batch was not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The change to blame, counted from 0 over those that were applied; `None` for the batch.
    pub change: Option<usize>,
    /// The error, and the part of the change.
    pub error: Error,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused { change: None, error }
    }
}

/// What answers a request from a generation. It returns what is to be set to zero after that, if
/// anything.
pub type Show<'s> = dyn FnMut(&Generation) -> Vec<Reset> + 's;

/// A ruleset that requests read and change. One batch is one transaction.
pub trait Backend {
    /// Time of the packet clock, in nanoseconds since the epoch.
    fn now(&self) -> u64;

    /// The generation in force. What packets change in it may be missing.
    fn generation(&self) -> Arc<Generation>;

    /// Starts a batch on top of the generation in force.
    fn begin(&mut self) -> Transaction;

    /// Takes one change into a batch. A backend that hands changes on to another process notes them
    /// here.
    ///
    /// # Errors
    /// The kernel's error, and the part of the change that it blames. The batch is as before.
    fn apply(&mut self, batch: &mut Transaction, change: Change) -> Result<Applied, Error> {
        batch.apply(change)
    }

    /// Puts a batch in force, in the name of a process.
    ///
    /// # Errors
    /// The reason, where the ruleset stays as it was: `ERESTART` if another batch was committed
    /// since this one began.
    fn commit(&mut self, batch: Transaction, by: &Process) -> Result<(), Refused>;

    /// Shows the generation in force, with what packets change of what is named, and sets to zero
    /// what `show` returns. It may be shown several times: the last time counts.
    ///
    /// # Errors
    /// The reason, where nothing is set to zero.
    fn observe(&mut self, named: &[Reset], show: &mut Show<'_>) -> Result<(), Error>;

    /// The connections that requests read and change. Without them the subsystems for connections
    /// are refused with `EINVAL`, as by a kernel without them.
    fn connections(&mut self) -> Option<&mut dyn Connections> {
        None
    }

    /// The sets of ipset that requests read and change. Without them the subsystem is refused with
    /// `EINVAL`, as by a kernel without it.
    fn ip_sets(&mut self) -> Option<&mut dyn IpSetTable> {
        None
    }

    /// Keeps what the requests of a datagram have changed of the sets of ipset: they are not
    /// answered before.
    ///
    /// # Errors
    /// The reason, where the sets stay as they were before the datagram.
    fn keep_ip_sets(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    /// What listens to packets of queues and logs. Without it the subsystems for packets are refused
    /// with `EINVAL`, as by a kernel without them.
    fn packets(&mut self) -> Option<&mut dyn PacketListeners> {
        None
    }

    /// Keeps what the requests of a datagram have changed of the connections: they are not answered
    /// before.
    ///
    /// # Errors
    /// The reason, where the connections stay as they were before the datagram.
    fn keep_connections(&mut self) -> Result<(), Errno> {
        Ok(())
    }
}

/// A ruleset in this process that no packet meets.
#[derive(Debug, Default)]
pub struct Local {
    /// The ruleset.
    pub ruleset: Ruleset,
    /// Time in nanoseconds since the epoch.
    pub now: u64,
    /// Connections, if requests may see any.
    pub connections: Option<Conntrack>,
}

impl Backend for Local {
    fn now(&self) -> u64 {
        self.now
    }

    fn generation(&self) -> Arc<Generation> {
        self.ruleset.generation()
    }

    fn begin(&mut self) -> Transaction {
        self.ruleset.begin_at(self.now)
    }

    fn commit(&mut self, mut batch: Transaction, _: &Process) -> Result<(), Refused> {
        batch.settle();
        Ok(self.ruleset.commit(batch)?)
    }

    fn observe(&mut self, _: &[Reset], show: &mut Show<'_>) -> Result<(), Error> {
        let generation = self.ruleset.generation();
        show(&generation).iter().for_each(|what| generation.reset(what, self.now));
        Ok(())
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        self.connections.as_mut().map(|table| table as &mut dyn Connections)
    }

    fn ip_sets(&mut self) -> Option<&mut dyn IpSetTable> {
        Some(self)
    }
}

impl IpSetTable for Local {
    fn ask(&mut self, request: Request) -> Result<Reply, IpSetRefused> {
        self.ruleset.ask_ip_sets(&request, self.now)
    }
}
