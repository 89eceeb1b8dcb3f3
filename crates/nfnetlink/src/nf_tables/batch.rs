// SPDX-License-Identifier: Apache-2.0

//! One batch of changes on its way into the ruleset: one transaction.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_ipset::{Code, Request};
use penstock_program::state::RateParameters;
use penstock_ruleset::transaction::{Applied, Wrong};
use penstock_ruleset::{Blame, Change, Error, Generation, Table, Transaction};

use super::answer::Stamp;
use super::interval::Open;
use crate::backend::{Backend, Refused};
use crate::expression::Ids;
use crate::message::{Attribute, Failure, Message, Writer, flags};
use crate::process::Process;

/// `NFT_TABLE_F_OWNER`
const OWNER: u32 = 2;

/// A message about a change, for those who listen.
#[derive(Clone, Debug)]
pub struct Event {
    /// The one who made the change wants it, too (`NLM_F_ECHO`).
    pub echo: bool,
    /// The message.
    pub bytes: Vec<u8>,
}

/// A batch of changes.
pub struct Batch<'b> {
    backend: &'b mut dyn Backend,
    transaction: Transaction,
    /// Names by the batch's own numbers.
    pub ids: Ids,
    /// Rules that the batch has made, by `NFTA_RULE_ID`.
    pub rules: HashMap<u32, u64>,
    /// The start of an interval that ends in a later message.
    pub open: Option<Open>,
    /// Time of the packet clock in nanoseconds.
    pub now: u64,
    /// The sender's port.
    port: u32,
    /// Whether anybody listens to events.
    listened: bool,
    events: Vec<Event>,
    /// For each change that was applied: the number of its message.
    messages: Vec<usize>,
    message: usize,
    /// There were tables with an owner before.
    owners: bool,
    /// The ruleset knows who makes the changes.
    sender_said: bool,
    /// Number of the last message with elements, from which an open interval is.
    elements: usize,
}

impl<'b> Batch<'b> {
    /// Whether there is a set of ipset with a number.
    ///
    /// # Errors
    /// The sets cannot be asked.
    pub fn has_ip_set(&mut self, index: u16) -> Result<bool, Failure> {
        let Some(sets) = self.backend.ip_sets() else { return Ok(false) };
        match sets.ask(Request::ByIndex(index)) {
            Ok(_) => Ok(true),
            Err(refused) if refused.code == Code::ENOENT => Ok(false),
            Err(refused) => Err(Failure { errno: refused.code.0, at: None, text: None }),
        }
    }

    /// A batch on top of the generation in force.
    pub fn new(backend: &'b mut dyn Backend, port: u32, listened: bool) -> Self {
        let transaction = backend.begin();
        let now = backend.now();
        let owners = transaction.working().tables.iter().any(|table| table.owner != 0);
        Batch {
            backend,
            transaction,
            ids: Ids::default(),
            rules: HashMap::new(),
            open: None,
            now,
            port,
            listened,
            events: Vec::new(),
            messages: Vec::new(),
            message: 0,
            owners,
            sender_said: false,
            elements: 0,
        }
    }

    /// The ruleset as it is with the changes so far.
    pub fn working(&self) -> &Generation {
        self.transaction.working()
    }

    /// The estimator of a name (`RATEEST`), if a rule counts in it or compares it, and how it
    /// estimates.
    pub fn estimator(&self, name: &str) -> Option<Option<RateParameters>> {
        self.transaction.estimator(name)
    }

    /// Whether the sender may change a table, which may have another owner.
    pub fn may_change(&self, table: &Table) -> bool {
        table.owner == 0 || table.owner == self.port
    }

    /// Whether anybody listens to events.
    pub fn is_listened(&self) -> bool {
        self.listened
    }

    /// Begins the message with a number, which later changes belong to.
    pub fn begin_message(&mut self, number: usize) {
        self.message = number;
    }

    /// The message that was begun last had elements.
    pub fn had_elements(&mut self) {
        self.elements = self.message;
    }

    /// Takes the start of an interval, and does something in the name of the message that it is
    /// from.
    pub fn close_with(
        &mut self,
        close: impl FnOnce(&mut Self, Open) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let message = std::mem::replace(&mut self.message, self.elements);
        let closed = close(self, open);
        self.message = message;
        closed
    }

    /// Makes a change. `blamed` finds the attribute for the part of the change that is to blame.
    ///
    /// # Errors
    /// The ruleset's.
    pub fn apply<'a>(
        &mut self,
        change: Change,
        blamed: impl FnOnce(Blame) -> Option<Attribute<'a>>,
    ) -> Result<Applied, Failure> {
        self.say_sender(&change);
        match self.backend.apply(&mut self.transaction, change) {
            Ok(applied) => {
                self.messages.push(self.message);
                Ok(applied)
            }
            Err(Error { errno, blame, .. }) => {
                let failure = Failure::from(errno);
                Err(match blamed(blame) {
                    Some(attribute) => failure.blaming(&attribute),
                    None => failure,
                })
            }
        }
    }

    /// Says who makes the changes, as far as that matters: tables have owners.
    fn say_sender(&mut self, change: &Change) {
        let owns = matches!(change, Change::AddTable { flags, .. } if flags & OWNER != 0);
        if self.sender_said || !owns && !self.owners {
            return;
        }
        self.sender_said = true;
        if self.backend.apply(&mut self.transaction, Change::Sender { port: self.port }).is_ok() {
            self.messages.push(self.message);
        }
    }

    /// Tells of a change, if anybody wants to know. `write` gets what the messages about it have in
    /// common.
    pub fn tell(
        &mut self,
        message: &Message<'_>,
        write: impl FnOnce(&mut Writer, Stamp, &Generation),
    ) {
        let echo = message.header.has(flags::ECHO);
        if !echo && !self.listened {
            return;
        }
        let working = self.transaction.working();
        let generation = working.id.wrapping_add(1);
        let stamp = Stamp { sequence: message.header.sequence, port: self.port, generation };
        let mut to = Writer::default();
        write(&mut to, stamp, working);
        if !to.is_empty() {
            self.events.push(Event { echo, bytes: to.finish() });
        }
    }

    /// Looks at the tables as a whole, as the kernel does if no message was refused.
    ///
    /// # Errors
    /// The numbers of the messages that are to blame, in their order, and why.
    pub fn validate(&self) -> Result<(), Vec<(usize, Failure)>> {
        self.transaction.validate().map_err(|wrong| {
            let number = |wrong: &Wrong| self.messages.get(wrong.change).copied();
            wrong.iter().filter_map(|w| Some((number(w)?, Failure::from(w.errno)))).collect()
        })
    }

    /// Commits the changes, and returns their notifications.
    ///
    /// # Errors
    /// What the ruleset refuses, and the number of the message to blame.
    pub fn commit(self, by: &Process) -> Result<Vec<Event>, (Option<usize>, Failure)> {
        let Batch { backend, transaction, events, messages, .. } = self;
        match backend.commit(transaction, by) {
            Ok(()) => Ok(events),
            Err(Refused { change, error }) => {
                let message = change.and_then(|change| messages.get(change)).copied();
                Err((message, Failure::from(error.errno)))
            }
        }
    }
}

/// A name as the ruleset keeps it.
///
/// # Errors
/// `EINVAL` for bytes that are no UTF-8.
pub fn name_of(attribute: Attribute<'_>) -> Result<Arc<str>, Failure> {
    Ok(attribute.text()?.into())
}
