// SPDX-License-Identifier: Apache-2.0

//! The dataplane's side of a child: answers what it asks, and applies its changes to the ruleset.
//!
//! A child is not trusted with more than its client may: what it sends is checked like anything
//! from outside, and a message that is none ends the conversation.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use penstock_lang::names::Names;
use penstock_ruleset::model::Generation;
use penstock_ruleset::reset::Reset;
use penstock_ruleset::{Ruleset, received};

use super::Evaluator;
use super::protocol::{Answer, Ask, Call, QUESTION, Task};
use crate::channel::Channel;
use crate::connections::Tables;
use crate::control::{PATIENCE, Rights, not_now};
use crate::now;
use crate::packet_listeners::PacketListeners;
use crate::rules::{Alone, ChangeWatchers, Process, Refused, Rules, Submission, Update};

/// Most bytes of changes of a client that may do everything, and of one that may only look.
const CHANGES: (usize, usize) = (1 << 30, 1 << 20);
/// The bytes of one message of changes: an element list is one change.
const AT_ONCE: usize = 256 << 20;

/// How a conversation ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client has been told all.
    Done,
    /// The dataplane serves the client from here on; the changes, if there were any, made this.
    HandedOver(Arc<Generation>),
    /// The child has ended; the sentence is for the client.
    Failed(String),
}

/// Changes as they come in.
pub(super) struct Incoming {
    submission: Submission,
    /// The generation is outdated: the changes are ignored.
    overtaken: bool,
    refused: Option<(usize, penstock_ruleset::Error)>,
    count: usize,
}

/// A conversation with a child.
pub(crate) struct Attendance<'a> {
    pub(crate) evaluator: &'a Evaluator,
    pub(crate) channel: Channel,
    /// The ruleset that it changes, if it may change one.
    pub(crate) rules: Option<&'a Rules>,
    /// The connections that it may see.
    pub(crate) tables: Option<&'a Tables>,
    /// Those that packets of queues and logs go to.
    pub(crate) listeners: Option<&'a PacketListeners>,
    pub(crate) names: Box<dyn Names>,
    pub(crate) call: Call,
}

pub(super) fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Attendance<'_> {
    /// Answers until it is over.
    pub(crate) fn attend(self) -> End {
        let begun = Instant::now();
        if !self.has_begun() {
            return End::Failed(not_now::NO_EVALUATOR.into());
        }
        let mut incoming = None;
        let mut alone = None;
        let mut in_force = false;
        let ended = match self.call.task {
            Task::Netfilter => self.netfilter(),
            _ => self.talk(&mut incoming, &mut alone, &mut in_force),
        };
        if let (true, Some(rules)) = (in_force, self.rules) {
            // Not while the child is there: pages of the ruleset that either of them writes to
            // would be copied.
            self.evaluator.update(rules);
        }
        match ended {
            Ok(End::Failed(_)) | Err(_) if in_force => End::Failed(not_now::ENDED_IN_FORCE.into()),
            Ok(End::HandedOver(_)) => {
                let generation = incoming.and_then(|incoming: Incoming| {
                    let Submission { mut ruleset, transaction, .. } = incoming.submission;
                    let applied = incoming.refused.is_none() && ruleset.commit(transaction).is_ok();
                    applied.then(|| ruleset.generation())
                });
                End::HandedOver(generation.unwrap_or_default())
            }
            Ok(end) => end,
            Err(_) if begun.elapsed() >= self.call.time => End::Failed(LATE.into()),
            Err(_) => End::Failed(not_now::EVALUATOR_ENDED.into()),
        }
    }

    /// Whether there is a child: an evaluator that hangs starts none.
    fn has_begun(&self) -> bool {
        matches!(self.channel.hear(QUESTION, Some(PATIENCE)), Ok(Some(Ask::Begun)))
    }

    fn talk<'r>(
        &'r self,
        incoming: &mut Option<Incoming>,
        alone: &mut Option<Alone<'r>>,
        in_force: &mut bool,
    ) -> io::Result<End> {
        loop {
            // Others wait for one that is alone: no longer than the evaluation may take.
            let patience = alone.is_some().then(|| self.call.time.saturating_add(PATIENCE));
            let (bytes, _) =
                self.channel.receive(QUESTION, patience)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let ask = postcard::from_bytes(&bytes).map_err(|_| broken("not a question"))?;
            match ask {
                Ask::Begun => return Err(broken("it has begun before")),
                Ask::Done => return Ok(End::Done),
                Ask::Ended(signal) => return Ok(End::Failed(ended_by(signal).into())),
                Ask::HandOver => return Ok(End::HandedOver(Default::default())),
                Ask::Begin { now: at, .. } if matches!(self.call.task, Task::Probe { .. }) => {
                    *incoming = Some(Incoming::new(
                        Submission::begin(Ruleset::default(), plausible(at)),
                        false,
                    ));
                }
                Ask::Begin { generation, now: at } => {
                    *incoming = Some(self.begin_changes(generation, at)?);
                }
                Ask::Changes => self.take_changes(incoming)?,
                Ask::InterfaceIndex(name) => {
                    self.channel.say(&Answer::Index(self.names.interface_index(&name)))?;
                }
                Ask::InterfaceName(index) => {
                    self.channel.say(&Answer::Name(self.names.interface_name(index)))?;
                }
                Ask::Base { generation, marks, alone: wants } => {
                    if wants && alone.is_none() {
                        self.must_be_all()?;
                        *alone = Some(self.rules()?.alone());
                    }
                    let updates = self.rules()?.since(generation, marks);
                    self.channel.say(&Answer::Updates(updates))?;
                }
                Ask::Whole(resets) => {
                    self.channel.say(&self.copy(&resets, |rules| rules.whole(&resets))?)?;
                }
                Ask::Submit { check, confirm, by: None } => {
                    if !check {
                        self.must_be_all()?;
                    }
                    let incoming = incoming.take().ok_or_else(|| broken("nothing is submitted"))?;
                    let how = (check, alone.is_some());
                    let answer = self.submit(incoming, &self.call.process, how, confirm)?;
                    let accepted = matches!(answer, Answer::Accepted(_));
                    *in_force = accepted && !check;
                    *alone = None;
                    self.channel.say(&answer)?;
                }
                Ask::Waits(id) => self.yes(self.rules()?.waits(id))?,
                Ask::IsConfirmed(id) => self.yes(self.rules()?.is_confirmed(id))?,
                Ask::Confirm(id) => {
                    self.must_be_all()?;
                    self.yes(self.rules()?.confirm(Some(id)))?;
                }
                Ask::TakeBack(id) => {
                    self.must_be_all()?;
                    self.rules()?.take_back(id);
                    self.yes(true)?;
                }
                Ask::Watch => return self.watch(),
                Ask::Submit { .. }
                | Ask::SubmitAll { .. }
                | Ask::Drop
                | Ask::Part(..)
                | Ask::Notice
                | Ask::Connections(_)
                | Ask::IpSets(_)
                | Ask::Packets(_)
                | Ask::Verdicts(_)
                | Ask::Listen(_) => {
                    return Err(broken("not for this task"));
                }
            }
        }
    }

    /// A copy of the ruleset, with resets after it.
    pub(super) fn copy(
        &self,
        resets: &[Reset],
        of: impl FnOnce(&Rules) -> Vec<u8>,
    ) -> io::Result<Answer> {
        if !resets.is_empty() {
            self.must_be_all()?;
        }
        let look = self.call.rights == Rights::Look;
        let copies = &self.evaluator.copies;
        let _one = look.then(|| copies.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Answer::Whole(of(self.rules()?)))
    }

    /// Takes changes that follow.
    pub(super) fn take_changes(&self, incoming: &mut Option<Incoming>) -> io::Result<()> {
        let most = self.most(CHANGES);
        let incoming = incoming.as_mut().ok_or_else(|| broken("changes of nothing"))?;
        let left = most.saturating_sub(incoming.submission.changes.len());
        let (bytes, _) = self
            .channel
            .receive(left.min(AT_ONCE), Some(PATIENCE))?
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        incoming.take(&bytes)
    }

    /// Changes of a generation follow, made at a time in nanoseconds since the epoch.
    pub(super) fn begin_changes(&self, generation: u32, at: u64) -> io::Result<Incoming> {
        let submission = self.rules()?.begin(plausible(at));
        let overtaken = submission.ruleset.generation().id != generation;
        Ok(Incoming::new(submission, overtaken))
    }

    pub(super) fn rules(&self) -> io::Result<&Rules> {
        self.rules.ok_or_else(|| broken("there is no ruleset yet"))
    }

    pub(super) fn tables(&self) -> io::Result<&Tables> {
        self.tables.ok_or_else(|| broken("there are no connections"))
    }

    pub(super) fn listeners(&self) -> io::Result<&PacketListeners> {
        self.listeners.ok_or_else(|| broken("there are no packets"))
    }

    pub(super) fn must_be_all(&self) -> io::Result<()> {
        if self.call.rights == Rights::All { Ok(()) } else { Err(broken("not permitted")) }
    }

    fn most(&self, (all, look): (usize, usize)) -> usize {
        if self.call.rights == Rights::All { all } else { look }
    }

    fn yes(&self, yes: bool) -> io::Result<()> {
        self.channel.say(&Answer::Yes(yes))
    }

    pub(super) fn submit(
        &self,
        incoming: Incoming,
        process: &Process,
        how: (bool, bool),
        confirm: Option<Duration>,
    ) -> io::Result<Answer> {
        let Incoming { submission, overtaken, refused, .. } = incoming;
        let result = match refused {
            _ if overtaken => Err(Refused::Overtaken),
            Some((number, error)) => Err(Refused::Change(number, error)),
            None => self.rules()?.submit(submission, process, how, confirm),
        };
        Ok(match result {
            Ok(in_force) => Answer::Accepted(in_force),
            Err(refused) => Answer::Refused(refused),
        })
    }

    /// Tells of changes until the child goes.
    fn watch(&self) -> io::Result<End> {
        let rules = self.rules()?;
        let changes = rules.changes.subscribe();
        let (over, speaker) = (AtomicBool::new(false), Speaker::new(&self.channel));
        let say = |answer: &Answer| speaker.say(answer);
        std::thread::scope(|scope| {
            let (over, say) = (&over, &say);
            let teller = Builder::new().name("watch".into());
            let teller = teller.spawn_scoped(scope, move || tell(&changes, over, say))?;
            let answered = self.answer_watcher(rules, say);
            over.store(true, Ordering::Relaxed);
            // One that has panicked has said so.
            let _ = teller.join();
            answered
        })
    }

    fn answer_watcher(
        &self,
        rules: &Rules,
        say: impl Fn(&Answer) -> io::Result<()>,
    ) -> io::Result<End> {
        loop {
            let (bytes, _) =
                self.channel.receive(QUESTION, None)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            match postcard::from_bytes::<Ask>(&bytes) {
                Ok(Ask::Base { generation, marks, alone: false }) => {
                    say(&Answer::Updates(rules.since(generation, marks)))?;
                }
                Ok(Ask::InterfaceIndex(name)) => {
                    say(&Answer::Index(self.names.interface_index(&name)))?
                }
                Ok(Ask::InterfaceName(index)) => {
                    say(&Answer::Name(self.names.interface_name(index)))?
                }
                Ok(Ask::Ended(signal)) => return Ok(End::Failed(ended_by(signal).into())),
                _ => return Ok(End::Done),
            }
        }
    }
}

/// A channel on which several threads speak.
pub(super) struct Speaker<'c> {
    channel: &'c Channel,
    one_at_a_time: Mutex<()>,
}

impl<'c> Speaker<'c> {
    pub(super) fn new(channel: &'c Channel) -> Self {
        Speaker { channel, one_at_a_time: Mutex::new(()) }
    }

    pub(super) fn say(&self, answer: &Answer) -> io::Result<()> {
        let _saying = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        self.channel.say(answer)
    }
}

/// What those who tell a child of changes, and those who answer it, know of each other.
#[derive(Default)]
pub(super) struct Notices {
    /// The child goes.
    pub(super) over: AtomicBool,
    /// It has been told that there is another generation, and has not asked for it yet.
    pub(super) told: AtomicBool,
}

/// Tells a child that there is another generation, until it is over: once, until it asks for it.
pub(super) fn notice(
    watchers: &ChangeWatchers,
    mut changes: Receiver<Update>,
    notices: &Notices,
    speaker: &Speaker<'_>,
) {
    while !notices.over.load(Ordering::Relaxed) {
        match changes.recv_timeout(PULSE) {
            Ok(_) => while changes.try_recv().is_ok() {},
            Err(RecvTimeoutError::Timeout) => continue,
            // It was dropped, since it was slow.
            Err(RecvTimeoutError::Disconnected) => changes = watchers.subscribe(),
        }
        if !notices.told.swap(true, Ordering::AcqRel) && speaker.say(&Answer::Changed).is_err() {
            return;
        }
    }
}

/// How soon a thread that tells of changes notices that it is over.
pub(super) const PULSE: Duration = Duration::from_millis(200);

/// Tells a watcher of changes until it is over.
fn tell(changes: &Receiver<Update>, over: &AtomicBool, say: impl Fn(&Answer) -> io::Result<()>) {
    while !over.load(Ordering::Relaxed) {
        let said = match changes.recv_timeout(PULSE) {
            Ok(update) => say(&Answer::Committed(update)),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                // The child tells the client, and ends.
                let _ = say(&Answer::Lost);
                return;
            }
        };
        if said.is_err() {
            return;
        }
    }
}

const LATE: &str = "evaluation takes longer than is allowed; nothing is changed";

/// The error for a client after a signal ended its child.
pub(super) fn ended_by(signal: i32) -> &'static str {
    match signal {
        // A program that gets no memory aborts.
        libc::SIGABRT => "evaluation takes more memory than is allowed; nothing is changed",
        libc::SIGALRM | libc::SIGXCPU => LATE,
        -1 => "the evaluation of the text has failed; nothing is changed",
        0 => not_now::NO_PROCESS,
        _ => "the evaluation of the text was ended by a signal; nothing is changed",
    }
}

/// A time that a child has said, as far as it can be right.
fn plausible(at: u64) -> u64 {
    /// Nanoseconds that an evaluation may have begun ago.
    const AGO: u64 = 3_600_000_000_000;
    let now = now();
    at.clamp(now.saturating_sub(AGO), now)
}

impl Incoming {
    fn new(submission: Submission, overtaken: bool) -> Self {
        Incoming { submission, overtaken, refused: None, count: 0 }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.overtaken || self.refused.is_some() {
            return Ok(());
        }
        let Incoming { submission, refused, count, .. } = self;
        let read = received::each(bytes, |change| {
            match submission.transaction.apply(change) {
                Ok(_) => *count += 1,
                Err(e) => *refused = Some((*count, e)),
            }
            refused.is_none()
        });
        submission.changes.extend_from_slice(bytes);
        read.map_err(|_| broken("not changes"))
    }
}
