// SPDX-License-Identifier: Apache-2.0

//! The connections of all workers, as ctnetlink reads and changes them. Each worker has a table of
//! its own, and does what is asked between two bursts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use penstock_conntrack::{Conntrack, Flow, FlowChange, Statistics, Tracker, Tuple};
use penstock_dataplane::Dataplane;
use penstock_net::Network;
use penstock_nfnetlink::{
    ConnectionEvent, Connections, Expected, NewExpected, NewFlow, Wanted, of_connection,
};
use penstock_print::list::Entries;
use penstock_print::show::Form;
use penstock_print::show::connections::Connection as Listed;
use penstock_ruleset::Errno;
use serde::{Deserialize, Serialize};

use crate::control::{Pace, TableCall};
use crate::events::{Heard, LineWatcher, Listeners, Watcher};
use crate::peer_watcher::PeerWatcher;
use crate::requests::Request;
use crate::requests::workers::Workers;

/// How long a worker may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a listing of those who may only look waits for its next page.
const TURN: Duration = Duration::from_secs(60);
/// What a page costs a worker besides its contents.
const LEAST: Duration = Duration::from_micros(20);
/// Connections that a worker lists between two bursts: some tenths of a millisecond, and some
/// hundredths for those who may only look.
const PAGE: (usize, usize) = (1024, 128);

/// What is asked of connections: a method of [`Connections`] each, but for [`Ask::Page`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Some connections of a worker, from a number on.
    Page(u32, u32),
    Find(Wanted),
    Add(Box<NewFlow>),
    Change(Box<Flow>, Box<FlowChange>),
    Remove(Vec<Flow>),
    ZeroCounters(Vec<Flow>),
    Count,
    Statistics,
    Expectations,
    Expect(Box<NewExpected>),
    Prolong(Box<Expected>, u64),
    Unexpect(Box<Expected>),
    UsualTimeouts(u8),
    SetUsualTimeouts(u8, Vec<(u8, u32)>),
    /// What a socket with a port id has caused.
    Tell(u32, Vec<ConnectionEvent>),
}

impl Ask {
    /// Whether it changes anything, or is heard by others.
    pub(crate) fn changes(&self) -> bool {
        match self {
            Ask::Page(..)
            | Ask::Find(_)
            | Ask::Count
            | Ask::Statistics
            | Ask::Expectations
            | Ask::UsualTimeouts(_) => false,
            Ask::Add(_)
            | Ask::Change(..)
            | Ask::Remove(_)
            | Ask::ZeroCounters(_)
            | Ask::Expect(_)
            | Ask::Prolong(..)
            | Ask::Unexpect(_)
            | Ask::SetUsualTimeouts(..)
            | Ask::Tell(..) => true,
        }
    }
}

/// What comes of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Connections, and where the next page begins: a worker, and a number.
    Page(Vec<Flow>, Option<(u32, u32)>),
    Flow(Option<Box<Flow>>),
    Removed(Vec<bool>),
    Count(u32, u32),
    Statistics(Vec<Statistics>),
    Expectations(Vec<Expected>),
    /// States, by the kernel's number, and seconds.
    Timeouts(Vec<(u8, u32)>),
    Done,
    Yes(bool),
}

/// The tables of all workers.
pub(crate) struct Tables {
    workers: Arc<Workers>,
    pace: Arc<Pace>,
    watchers: Mutex<Watching>,
}

/// All who listen to events.
#[derive(Default)]
struct Watching {
    sockets: Vec<Watcher>,
    readers: Vec<LineWatcher>,
    /// The other firewall of a pair.
    peer: Option<PeerWatcher>,
}

/// The first answer of a worker that has what is asked for.
fn first<T>(answers: Vec<Result<T, Errno>>) -> Result<T, Errno> {
    let missing = |answer: &Result<T, Errno>| matches!(answer, Err(Errno::Enoent));
    answers.into_iter().find(|answer| !missing(answer)).unwrap_or(Err(Errno::Enoent))
}

impl Tables {
    pub(crate) fn new(workers: Arc<Workers>, pace: Arc<Pace>) -> Self {
        Tables { workers, pace, watchers: Mutex::default() }
    }

    /// Has all workers tell somebody of events of groups, group 1 in the lowest bit.
    pub(crate) fn watch(&self, groups: u32) -> (Watcher, Heard) {
        let (watcher, heard) = Watcher::new(groups);
        self.change_watchers(|all| all.sockets.push(watcher.clone()));
        (watcher, heard)
    }

    /// Nobody tells it any more.
    pub(crate) fn unwatch(&self, watcher: &Watcher) {
        self.change_watchers(|all| all.sockets.retain(|other| !other.is(watcher)));
    }

    /// Has all workers tell a reader of lines.
    pub(crate) fn watch_lines(&self, reader: &LineWatcher) {
        self.change_watchers(|all| all.readers.push(reader.clone()));
    }

    /// Nobody tells it any more.
    pub(crate) fn unwatch_lines(&self, reader: &LineWatcher) {
        self.change_watchers(|all| all.readers.retain(|other| !other.is(reader)));
    }

    /// Has all workers tell the other firewall of a pair.
    pub(crate) fn tell_peer(&self, peer: PeerWatcher) {
        self.change_watchers(|all| all.peer = Some(peer));
    }

    /// There is no other firewall any more.
    pub(crate) fn tell_no_peer(&self) {
        self.change_watchers(|all| all.peer = None);
    }

    /// Tells programs that listen, but not the peer, of connections that were taken over from it.
    pub(crate) fn tell_programs(&self, events: &[ConnectionEvent]) {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            watchers.sockets.iter().for_each(|watcher| watcher.tell_caused(event, 0));
        }
    }

    /// The network that packets meet.
    ///
    /// # Errors
    /// `EIO` if the worker does not answer.
    pub(crate) fn network(&self) -> Result<Arc<Network>, Errno> {
        let request = |to: Sender<Arc<Network>>| {
            Request::Look(Box::new(move |path| drop(to.send(path.network().clone()))))
        };
        self.workers.ask_one(0, request, ANSWER).ok_or(Errno::Eio)
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers.count()
    }

    /// Removes connections of a worker that are chosen, some from a number on. Returns their
    /// entries in a list, how many they are, and where the next ones begin.
    ///
    /// # Errors
    /// `EIO` if the worker does not answer.
    pub(crate) fn remove_chosen(
        &self,
        worker: usize,
        first: u32,
        call: &Arc<TableCall>,
    ) -> Result<(Entries, u32, Option<u32>), Errno> {
        let call = call.clone();
        self.one(worker, move |table| {
            let form = if call.json { Form::Json } else { Form::Text };
            let (mut entries, mut numbers, mut next) = (Entries::new(form), Vec::new(), None);
            for (seen, c) in table.iter_from(first).enumerate() {
                if seen >= PAGE.0 {
                    next = Some(c.number());
                    break;
                }
                if call.filter.has(&c) {
                    entries.push(&Listed::styled(&c, call.style));
                    numbers.push(c.number());
                }
            }
            let count = numbers.len() as u32;
            // All who listen are told.
            numbers.into_iter().for_each(|number| table.kill(number));
            (entries, count, next)
        })
    }

    fn change_watchers(&self, change: impl FnOnce(&mut Watching)) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut watchers);
        let all = Listeners::new(&watchers.sockets, &watchers.readers, watchers.peer.clone());
        // While it is locked: the workers get them in this order.
        self.workers.tell(|| Request::WatchConnections(all.clone()));
    }

    /// Has each worker do something with its table.
    pub(crate) fn all<T: Send + 'static>(
        &self,
        act: impl Fn(&mut Conntrack) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, Errno> {
        let request = |to: Sender<T>| {
            let act = act.clone();
            Request::Connections(Box::new(move |table| drop(to.send(act(table)))))
        };
        self.workers.ask(request, ANSWER).ok_or(Errno::Eio)
    }

    /// Has one worker do something with its table.
    pub(crate) fn one<T: Send + 'static>(
        &self,
        worker: usize,
        act: impl FnOnce(&mut Conntrack) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let request =
            |to: Sender<T>| Request::Connections(Box::new(move |table| drop(to.send(act(table)))));
        self.workers.ask_one(worker, request, ANSWER).ok_or(Errno::Eio)
    }

    /// Carries out what is asked, for somebody who may only look (`looks`) or may do everything.
    ///
    /// # Errors
    /// Those of [`Connections`]; `EPERM` for a change by those who may only look; `EIO` if a worker
    /// does not answer.
    pub(crate) fn carry_out(&self, ask: Ask, looks: bool) -> Result<Answer, Errno> {
        if looks {
            if ask.changes() {
                return Err(Errno::Eperm);
            }
            self.pace.wait(Instant::now() + TURN, LEAST).map_err(|_| Errno::Eio)?;
        }
        let begun = Instant::now();
        let answer = self.act(ask, looks);
        if looks {
            self.pace.took(begun.elapsed().min(TURN));
        }
        answer
    }

    fn act(&self, ask: Ask, looks: bool) -> Result<Answer, Errno> {
        Ok(match ask {
            Ask::Page(worker, from) => {
                let (flows, next) =
                    self.page((worker, from), if looks { PAGE.1 } else { PAGE.0 })?;
                Answer::Page(flows, next)
            }
            Ask::Find(wanted) => {
                let found = self.all(move |table| table.find(&wanted))?;
                let found: Result<Vec<_>, _> = found.into_iter().collect();
                Answer::Flow(found?.into_iter().flatten().next().map(Box::new))
            }
            Ask::Add(new) => Answer::Flow(Some(Box::new(self.add(*new)?))),
            Ask::Change(flow, change) => {
                let changed = self.all(move |table| table.change(&flow, &change))?;
                Answer::Flow(Some(Box::new(first(changed)?)))
            }
            Ask::Remove(flows) => {
                let mut all = vec![false; flows.len()];
                for removed in self.all(move |table| table.remove(&flows))? {
                    all.iter_mut().zip(removed?).for_each(|(all, removed)| *all |= removed);
                }
                Answer::Removed(all)
            }
            Ask::ZeroCounters(flows) => {
                let done = self.all(move |table| Connections::zero_counters(table, &flows))?;
                done.into_iter().collect::<Result<(), _>>()?;
                Answer::Done
            }
            Ask::Count => {
                let counts = self.all(|table| (Conntrack::count(table), table.settings().max()))?;
                let count = counts.iter().map(|(count, _)| count).sum();
                Answer::Count(count, counts.first().map_or(0, |(_, most)| *most))
            }
            Ask::Statistics => Answer::Statistics(self.all(|table| *Conntrack::statistics(table))?),
            Ask::Expectations => {
                let all = self.all(Connections::expectations)?;
                let all: Result<Vec<_>, _> = all.into_iter().collect();
                Answer::Expectations(all?.concat())
            }
            Ask::Expect(new) => {
                let expected = self.all(move |table| Connections::expect(table, &new))?;
                Answer::Expectations(vec![first(expected)?])
            }
            Ask::Prolong(expected, timeout) => {
                first(self.all(move |table| table.prolong(&expected, timeout))?)?;
                Answer::Done
            }
            Ask::Unexpect(expected) => {
                let done = self.all(move |table| table.unexpect(&expected))?;
                Answer::Yes(done.into_iter().any(|done| done == Ok(true)))
            }
            Ask::UsualTimeouts(protocol) => {
                let tracker = Tracker::of(protocol);
                let all = self.one(0, move |table| *table.settings().timeouts(tracker))?;
                let seconds = |ns: u64| u32::try_from(ns / 1_000_000_000).unwrap_or(u32::MAX);
                Answer::Timeouts((0..).zip(all.map(seconds)).collect())
            }
            Ask::SetUsualTimeouts(protocol, values) => {
                let values: Arc<[(u8, u32)]> = values.into();
                let request = |to: Sender<()>| {
                    let values = values.clone();
                    Request::Change(Box::new(move |path: &mut Dataplane| {
                        path.set_usual_timeouts(Tracker::of(protocol), &values);
                        let _ = to.send(());
                    }))
                };
                self.workers.ask(request, ANSWER).ok_or(Errno::Eio)?;
                Answer::Done
            }
            Ask::Tell(port, events) => {
                let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
                for event in &events {
                    watchers.sockets.iter().for_each(|watcher| watcher.tell_caused(event, port));
                    watchers.peer.iter().for_each(|peer| peer.tell_caused(event));
                }
                Answer::Done
            }
        })
    }

    /// The worker that a connection without a master is entered at. The zone does not count: packets
    /// find their worker before they have one.
    pub(crate) fn worker_for(&self, original: &Tuple) -> usize {
        let mut hasher = DefaultHasher::new();
        Tuple { zone: 0, ..*original }.hash(&mut hasher);
        hasher.finish() as usize % self.workers.count()
    }

    /// Enters a connection at the worker that has its master, or else at any.
    pub(crate) fn add(&self, new: NewFlow) -> Result<Flow, Errno> {
        if new.master.is_some() {
            for worker in 0..self.workers.count() {
                let new = new.clone();
                let added = self.one(worker, move |table| Connections::add(table, &new))?;
                if added != Err(Errno::Enoent) {
                    return added;
                }
            }
            return Err(Errno::Enoent);
        }
        let worker = self.worker_for(&new.original);
        self.one(worker, move |table| Connections::add(table, &new))?
    }

    /// At most so many connections of a worker from a number on, and where the next page begins.
    #[expect(clippy::type_complexity, reason = "a page and a place")]
    pub(crate) fn page(
        &self,
        (worker, from): (u32, u32),
        most: usize,
    ) -> Result<(Vec<Flow>, Option<(u32, u32)>), Errno> {
        let (flows, next) = self.one(worker as usize, move |table| {
            let mut all = table.iter_from(from);
            let flows: Vec<Flow> = all.by_ref().take(most).map(|c| of_connection(&c)).collect();
            (flows, all.next().map(|connection| connection.number()))
        })?;
        let after = worker.saturating_add(1);
        let more = || ((after as usize) < self.workers.count()).then_some((after, 0));
        Ok((flows, next.map(|number| (worker, number)).or_else(more)))
    }
}
