// SPDX-License-Identifier: Apache-2.0

//! Messages of one transaction of the kernel's nf_tables (`nfnetlink_rcv_batch()`).

use std::collections::HashMap;
use std::sync::Arc;

use penstock_program::State;
use penstock_program::state::Words;
use penstock_ruleset::Family;

use crate::batch::{BEGIN, END};
use crate::message::{Writer, flags};
use crate::nf_tables::SUBSYSTEM;

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Family of the table.
    pub family: Family,
    /// The table.
    pub table: Arc<str>,
    /// The part of the table; `None` for the table itself.
    pub part: Option<Part>,
}

/// A part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A chain by its name.
    Chain(Arc<str>),
    /// A rule: its chain, and its handle in the ruleset.
    Rule(Arc<str>, u64),
    /// A set or map, or its elements.
    Set(Arc<str>),
    /// A stateful object.
    Object(Arc<str>),
    /// A flowtable.
    Flowtable(Arc<str>),
}

impl Subject {
    /// The chain and the rule's handle, if it is a chain or a rule.
    pub fn chain(&self) -> Option<(&Arc<str>, Option<u64>)> {
        match &self.part {
            Some(Part::Chain(chain)) => Some((chain, None)),
            Some(Part::Rule(chain, handle)) => Some((chain, Some(*handle))),
            _ => None,
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Subject { family, table, part } = self;
        let (kind, name): (&str, &str) = match part {
            None => return write!(f, "table {} {table}", family.name()),
            Some(Part::Chain(name) | Part::Rule(name, _)) => ("chain", name),
            Some(Part::Set(name)) => ("set", name),
            Some(Part::Object(name)) => ("object", name),
            Some(Part::Flowtable(name)) => ("flowtable", name),
        };
        write!(f, "{kind} {} {table} {name}", family.name())?;
        match part {
            Some(Part::Rule(_, handle)) => write!(f, " rule handle {handle}"),
            _ => Ok(()),
        }
    }
}

/// Messages of one transaction. Numbers of messages are their sequence numbers: the first one after
/// the beginning has 1.
#[derive(Debug)]
pub struct KernelBatch {
    to: Writer,
    subjects: Vec<Subject>,
    /// Time of the packet clock (ns).
    pub(super) now: u64,
    /// What the kernel counts from for states that the batch brings, by the state's address.
    sent: HashMap<usize, (Arc<State>, Words)>,
    /// The last number that was given to a set or rule of the batch.
    last_id: u32,
    /// Where the last message begins.
    last: usize,
}

fn mark_of_batch(to: &mut Writer, kind: u16, sequence: u32) {
    let start = to.begin(kind, flags::REQUEST, sequence, 0);
    to.raw(&[0, 0]);
    to.raw(&u16::from(SUBSYSTEM).to_be_bytes());
    to.end(start);
}

impl KernelBatch {
    /// One without messages, at a time of the packet clock in nanoseconds.
    pub fn new(now: u64) -> Self {
        let mut to = Writer::default();
        mark_of_batch(&mut to, BEGIN, 0);
        KernelBatch { to, subjects: Vec::new(), now, sent: HashMap::new(), last_id: 0, last: 0 }
    }

    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// The number of the last message.
    pub fn last_number(&self) -> u32 {
        self.subjects.len() as u32
    }

    /// What the message with a number is about; `None` for the beginning and the end.
    pub fn subject(&self, number: u32) -> Option<&Subject> {
        self.subjects.get((number as usize).checked_sub(1)?)
    }

    /// What the kernel counts from for states that the batch brings.
    pub fn sent(&self) -> impl Iterator<Item = &(Arc<State>, Words)> {
        self.sent.values()
    }

    pub(super) fn sends(&mut self, state: &Arc<State>, words: Words) {
        self.sent.insert(Arc::as_ptr(state).addr(), (state.clone(), words));
    }

    pub(super) fn id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// Appends a message.
    pub(super) fn message(
        &mut self,
        (number, flags): (u8, u16),
        subject: Subject,
        write: impl FnOnce(&mut Writer),
    ) {
        self.subjects.push(subject.clone());
        self.last = self.to.len();
        let kind = u16::from(SUBSYSTEM) << 8 | u16::from(number);
        let flags = flags | flags::REQUEST;
        let start = self.to.begin(kind, flags, self.subjects.len() as u32, 0);
        self.to.raw(&[subject.family as u8, 0, 0, 0]);
        write(&mut self.to);
        self.to.end(start);
    }

    /// The bytes to send. The last message asks for an answer. Without an end the kernel only
    /// checks the batch.
    pub fn bytes(&self, check: bool) -> Vec<u8> {
        let mut to = self.to.clone();
        if !check {
            mark_of_batch(&mut to, END, self.last_number() + 1);
        }
        let mut bytes = to.finish();
        // `nlmsg_flags`
        if let Some(low) = bytes.get_mut(self.last + 6..self.last + 8)
            && !self.is_empty()
            && let Ok(flags) = <[u8; 2]>::try_from(&*low)
        {
            low.copy_from_slice(&(u16::from_ne_bytes(flags) | flags::ACK).to_ne_bytes());
        }
        bytes
    }
}
