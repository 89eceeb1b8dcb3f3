// SPDX-License-Identifier: Apache-2.0

//! What dataplane, evaluator and the children of that say to each other.

use std::time::Duration;

use penstock_ruleset::Errno;
use penstock_ruleset::reset::Reset;
use serde::{Deserialize, Serialize};

use crate::config::{BatchLimits, Config};
use crate::connections;
use crate::control::Rights;
use crate::packet_listeners;
use crate::proofs::ClaimsText;
use crate::rules::{InForce, Process, Refused, Update};

/// Longest message of a child but for changes: what it asks.
pub(super) const QUESTION: usize = 1 << 20;
/// Longest message that a child is sent: a ruleset.
pub(super) const ANSWER: usize = usize::MAX;

/// The dataplane to the evaluator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The ruleset is another one.
    Update(Update),
    /// A child is to serve a client; two descriptors come along: the client's connection, and the
    /// child's end of a channel to the dataplane.
    Serve,
}

/// The evaluator to the dataplane: it has just begun, or has lost its way, and knows no ruleset.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Unknowing;

/// What a child is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// What.
    pub(crate) task: Task,
    /// What the client may.
    pub(crate) rights: Rights,
    /// Who the client is.
    pub(crate) process: Process,
    /// How long the evaluation of a text may take.
    pub(crate) time: Duration,
    /// Bytes of memory that it may take, besides the ruleset.
    pub(crate) memory: u64,
    /// What each ruleset is to keep.
    pub(crate) claims: Option<ClaimsText>,
}

impl Call {
    /// A task of a client, within the limits of the configuration.
    pub(crate) fn of(config: &Config, task: Task, rights: Rights, process: Process) -> Self {
        let BatchLimits { time, memory } = config.batch.get();
        Call { task, rights, process, time, memory, claims: config.claims.get() }
    }
}

/// What a client wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// `nft` with these arguments.
    Nft(Vec<String>),
    /// The file with the whole ruleset.
    Load {
        /// Its name.
        name: String,
        /// It is only checked, by itself, with these interfaces that are not there yet.
        check: Option<Vec<String>>,
    },
    /// The rule of a capture: the words of its call, its number, and the devices of chains that
    /// need one.
    Probe {
        /// The words of a [`CaptureCall`](crate::control::CaptureCall).
        words: Vec<String>,
        /// Devices that are ports.
        ports: Vec<String>,
    },
    /// Messages of netfilter sockets, as the kernel answers them.
    Netfilter,
}

/// A child to the dataplane. Bytes of changes follow [`Ask::Changes`] as their own message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Said before anything else.
    Begun,
    /// The changes after this generation. With `alone` no other client commits before the child.
    Base {
        /// The generation that the child has; 0 for none.
        generation: u32,
        /// [`Ruleset::marks`](penstock_ruleset::Ruleset::marks) of it.
        marks: u64,
        /// It was overtaken before.
        alone: bool,
    },
    /// Changes of this generation follow; earlier ones are void.
    Begin {
        /// The generation.
        generation: u32,
        /// Nanoseconds since the epoch.
        now: u64,
    },
    /// Bytes of changes follow: [`penstock_ruleset::received`].
    Changes,
    /// The changes are all.
    Submit {
        /// They are only checked.
        check: bool,
        /// They are taken back unless they are confirmed in that time.
        confirm: Option<Duration>,
        /// Who makes them, if it is not the client itself.
        by: Option<Process>,
    },
    /// All changes of a generation, in one message: [`Ask::Begin`], [`Ask::Changes`] and
    /// [`Ask::Submit`].
    SubmitAll {
        /// The generation.
        generation: u32,
        /// Nanoseconds since the epoch.
        now: u64,
        /// The changes.
        #[serde(with = "crate::rules::update::bytes")]
        changes: Vec<u8>,
        /// Who makes them.
        by: Process,
    },
    /// The changes are not submitted, and others need not wait for the child.
    Drop,
    /// The ruleset as it is, with what packets have changed. What is named is set to zero after
    /// that.
    Whole(Vec<Reset>),
    /// Of the ruleset as it is what is named, with what packets have changed of it; and what is set
    /// to zero after that. The answer is [`Answer::Whole`].
    Part(Vec<Reset>, Vec<Reset>),
    /// Index of an interface.
    InterfaceIndex(String),
    /// Name of an interface.
    InterfaceName(u32),
    /// Whether a change waits for its confirmation.
    Waits(u32),
    /// Whether a change is the last one that was confirmed.
    IsConfirmed(u32),
    /// A change is right.
    Confirm(u32),
    /// A change is wrong.
    TakeBack(u32),
    /// All changes from here on.
    Watch,
    /// [`Answer::Changed`] whenever there is another generation from here on.
    Notice,
    /// Something about connections. The answer is [`Answer::Connections`].
    Connections(connections::Ask),
    /// Something about packets of queues and logs. The answer is [`Answer::Packets`].
    Packets(packet_listeners::Ask),
    /// Verdicts about packets. The answer is [`Answer::Refusals`].
    Verdicts(Vec<packet_listeners::Decision>),
    /// Something about sets of ipset. The answer is [`Answer::IpSets`].
    IpSets(penstock_ipset::Request),
    /// What happens to connections from here on, of groups, group 1 in the lowest bit:
    /// [`Answer::Told`].
    Listen(u32),
    /// The dataplane serves the client from here on: it requests traces, or frames of a capture.
    HandOver,
    /// The client has been told all.
    Done,
    /// Said by the evaluator in the place of a child: a signal has ended it; 0: it could not begin;
    /// -1: it has panicked.
    Ended(i32),
}

/// The dataplane to a child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Said before anything else.
    Call(Call),
    /// What came after the generation of the child.
    Updates(Vec<Update>),
    /// The changes are in force, or right.
    Accepted(InForce),
    /// The changes are refused.
    Refused(Refused),
    /// The ruleset, as [`Ruleset::save`](penstock_ruleset::Ruleset::save) returns it.
    Whole(#[serde(with = "crate::rules::update::bytes")] Vec<u8>),
    /// An interface's index.
    Index(Option<u32>),
    /// An interface's name.
    Name(Option<String>),
    /// Yes, or no.
    Yes(bool),
    /// For those who watch: a change.
    Committed(Update),
    /// There may be another generation. It may come before the answer to a question.
    Changed,
    /// For those who watch: changes were lost.
    Lost,
    /// What comes of a question about connections.
    Connections(Result<connections::Answer, Errno>),
    /// What comes of a question about sets of ipset.
    IpSets(Result<penstock_ipset::Reply, penstock_ipset::Refused>),
    /// What comes of a question about packets.
    Packets(Result<(), Errno>),
    /// Those of several verdicts that are refused, by their places.
    Refusals(Vec<(u32, Errno)>),
    /// Packets for sockets with port ids; an empty one says that some were missed. It may come
    /// before the answer to a question.
    Given(Vec<(u32, Vec<u8>)>),
    /// What happened to connections: groups, and their messages. The number has a bit for each
    /// group of which something was missed before, group 1 in the lowest. It may come before the
    /// answer to a question.
    Told(Vec<(u32, Vec<u8>)>, u32),
}
