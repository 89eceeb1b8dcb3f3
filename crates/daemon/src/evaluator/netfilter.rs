// SPDX-License-Identifier: Apache-2.0

//! Netfilter sockets of a client, answered by a child on its copy of the ruleset.
//!
//! A batch runs on the copy, and its changes go to the dataplane, which has the last word. If
//! another batch came first, or the copy lacks something that packets have changed, the batch runs
//! again from its bytes. What packets change is fetched for each request that shows it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use penstock_lang::session::remote::Changes;
use penstock_nfnetlink::{
    Answers, Backend, Client, Connections, IpSetTable, Notification, PacketListeners, Process,
    Refused, Show, SocketOption, begins_batch, only_decides,
};
use penstock_ruleset::link::{ErrorPlace, LinkError, Linked};
use penstock_ruleset::reset::Reset;
use penstock_ruleset::transaction::Applied;
use penstock_ruleset::{Blame, Change, Errno, Error, Family, Generation, Ruleset, Transaction};
use penstock_system::SystemNames;

use super::child::{Child, GRACE, becoming, has_dynamic_sets, unexpected};
use super::names::ChildNames;
use super::protocol::{ANSWER, Answer, Ask};
use super::recorder::{Delivery, Recorder};
use super::sandbox;
use crate::connections;
use crate::control::netfilter::{Datagram, Recipient, Request};
use crate::control::protocol::Message;
use crate::control::{Budget, PATIENCE, Rights};
use crate::log;
use crate::now;
use crate::packet_listeners;
use crate::rules::{InForce, Refused as Refusal};

/// Bytes of datagrams that are said at once.
const TOGETHER: usize = 1 << 20;
/// Bytes of what happened to connections that a client is told of at once: a socket that has room
/// takes as much without waiting.
const AT_A_TIME: usize = 32 << 10;
/// The group of the ruleset, and those that workers tell of: connections and expectations, and
/// quotas, of objects of the ruleset and of accounts. Group 1 is in the lowest bit.
const RULESET: u32 = 1 << (penstock_nfnetlink::GROUP - 1);
const EVENTS: u32 = 0b11_1111 | RULESET | 1 << (penstock_nfnetlink::ACCOUNT_GROUP - 1);
/// Most runs of one batch. Reasons to run it again come once each, but for others who change the
/// ruleset at the same time: they wait from the second run on.
const RUNS: usize = 8;

impl Child<'_> {
    /// Answers requests until the client goes, and its sockets with it.
    pub(super) fn netfilter(&mut self) -> io::Result<()> {
        self.client.read_ahead();
        let mut ports = BTreeSet::new();
        let ended = self.serve_sockets(&mut ports);
        for port in ports {
            self.close(port, false)?;
        }
        ended
    }

    /// Answers requests, and notes the port ids of sockets that may own something.
    fn serve_sockets(&mut self, ports: &mut BTreeSet<u32>) -> io::Result<()> {
        let mut groups = 0;
        // What the client said while it was heard for verdicts.
        let mut said = None;
        loop {
            let listens = groups & RULESET != 0;
            if self.changed.take() && listens {
                let told = self.catch_up(false)?;
                self.say_datagrams(all(told))?;
                continue;
            }
            let heard = said.is_some() || self.client.has_received();
            let next = if heard { Next::Client } else { self.wait()? };
            match next {
                Next::Room => {
                    let some = self.kept.borrow_mut().take(AT_A_TIME);
                    self.say_datagrams(some)?;
                }
                Next::Dataplane => match self.channel.hear(ANSWER, None)? {
                    Some(Answer::Changed) => self.changed.set(true),
                    Some(Answer::Told(told, missed)) => self.kept.borrow_mut().keep(told, missed),
                    Some(Answer::Given(given)) => self.kept.borrow_mut().keep_packets(given),
                    Some(_) => return Err(unexpected()),
                    None => return Ok(()),
                },
                Next::Client => {
                    if said.is_none() && self.client.is_there().is_err() {
                        return Ok(());
                    }
                    let message = match said.take() {
                        Some(message) => message,
                        None => self.client.hear(PATIENCE)?,
                    };
                    match message {
                        Message::Listen(new) => {
                            self.listen(groups, new)?;
                            groups = new;
                        }
                        Message::Request(request) => {
                            if request.may_change && self.call.rights == Rights::All {
                                ports.insert(request.port);
                            }
                            self.request(request, listens)?;
                            self.client.set_budget(None);
                            continue;
                        }
                        Message::Send(request) => {
                            said = self.carry_out(request)?;
                            continue;
                        }
                        Message::Closed(port) => {
                            let closed = packet_listeners::Ask::Closed(port);
                            self.ask(&Ask::Packets(closed))?;
                            if ports.remove(&port) {
                                let told = self.close(port, listens)?;
                                self.say_datagrams(told)?;
                            }
                        }
                        _ => return Err(unexpected()),
                    }
                    self.client.say(&Message::Exit(0))?;
                    self.client.set_budget(None);
                }
            }
        }
    }

    /// Listens to other groups than before.
    fn listen(&mut self, before: u32, now: u32) -> io::Result<()> {
        if now & RULESET != 0 && before & RULESET == 0 {
            self.ask(&Ask::Notice)?;
            // What came before nobody has listened to.
            self.update(false)?;
        }
        if now & EVENTS != before & EVENTS {
            self.ask(&Ask::Listen(now & EVENTS))?;
        }
        Ok(())
    }

    fn request(&mut self, request: Request, listens: bool) -> io::Result<()> {
        sandbox::alarm(self.call.time.as_secs().saturating_add(GRACE));
        let answered = self.answer(&request, listens);
        sandbox::stop_alarm();
        self.client
            .set_budget((self.call.rights == Rights::Look).then(|| Budget::of_listing(true)));
        self.say_before(answered?, Some(&Message::Exit(0)))
    }

    /// Waits until the client says something, or has room for what it has yet to be told, or the
    /// dataplane says something. What a client says comes first: while it waits for room, and the
    /// client for it to hear, nothing would go on.
    fn wait(&self) -> io::Result<Next> {
        let kept = self.kept.borrow();
        let (is_empty, is_full) = (kept.is_empty(), kept.is_full());
        drop(kept);
        let room = if is_empty { 0 } else { libc::POLLOUT };
        let event = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let mut polls = [
            event(self.client.as_fd().as_raw_fd(), libc::POLLIN | room),
            // A client that takes nothing has the dataplane wait, which misses what finds no room.
            event(self.channel.raw(), if is_full { 0 } else { libc::POLLIN }),
        ];
        loop {
            // SAFETY: two structures, which live through the call.
            match unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) } {
                -1 => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
                _ if polls[0].revents & !libc::POLLOUT != 0 => return Ok(Next::Client),
                _ if polls[0].revents != 0 => return Ok(Next::Room),
                _ => return Ok(Next::Dataplane),
            }
        }
    }

    /// Catches up with the ruleset, and gives what members of groups are told. With `alone` nobody
    /// else commits until the next submission.
    fn catch_up(&mut self, alone: bool) -> io::Result<Vec<Notification>> {
        let before = self.mirror.ruleset.generation();
        let marks = self.mirror.ruleset.marks();
        let base = Ask::Base { generation: before.id, marks, alone };
        let Answer::Updates(updates) = self.ask(&base)? else { return Err(unexpected()) };
        let mut told = Vec::new();
        for update in &updates {
            match self.mirror.follow_and_tell(update, now()) {
                Ok(notifications) => told.extend(notifications),
                Err(_) => {
                    self.update(alone)?;
                    let after = self.mirror.ruleset.generation();
                    return Ok(penstock_nfnetlink::changes_between(&before, &after, now()));
                }
            }
        }
        Ok(told)
    }

    /// Catches up with the ruleset; what is told is for those who listen.
    fn follow(&mut self, alone: bool, listens: bool) -> io::Result<Vec<Notification>> {
        match listens {
            true => self.catch_up(alone),
            false => self.update(alone).map(|()| Vec::new()),
        }
    }

    /// All that comes of a request, in order.
    pub(super) fn answer(&mut self, request: &Request, listens: bool) -> io::Result<Vec<Datagram>> {
        let mut socket = Client::new(request.port);
        let options = (0..32).filter(|bit| request.options >> bit & 1 != 0);
        for option in options.filter_map(SocketOption::from_number) {
            socket.set_option(option, true);
        }
        socket.receives_into(request.receives_into as usize);
        socket.set_listened(request.listened);
        let may_change = request.may_change && self.call.rights == Rights::All;
        let process =
            Process { id: request.thread, name: request.name.as_str().into(), may_change };
        // Verdicts about packets are about no ruleset. A batch begins on the ruleset as it was last
        // known: the dataplane says if that is not right.
        let guesses = begins_batch(&request.datagram);
        let mut told = match guesses || only_decides(&request.datagram) {
            true => Vec::new(),
            false => self.follow(false, listens)?,
        };
        let mut whole = None;
        for run in 1.. {
            let mut batch = Batch::new(self, whole.take());
            let Answers { before, datagrams, notifications } =
                socket.receive(&request.datagram, &process, &mut batch);
            let is_accepted = batch.is_accepted;
            let end = batch.end()?;
            if guesses && run == 1 && !is_accepted && end != Run::Overtaken {
                let before = self.mirror.ruleset.generation().id;
                told.extend(self.follow(false, listens)?);
                if self.mirror.ruleset.generation().id != before {
                    continue;
                }
            }
            match end {
                Run::Overtaken if run < RUNS => told.extend(self.follow(true, listens)?),
                Run::Whole if run < RUNS => whole = Some(self.whole(Vec::new())?),
                Run::Done | Run::Overtaken | Run::Whole => {
                    told.extend(before);
                    let mut said = all(told);
                    let to = |to| move |bytes| Datagram { to, bytes };
                    said.extend(datagrams.into_iter().map(to(Recipient::Sender)));
                    said.extend(
                        notifications.into_iter().map(|n| Datagram {
                            to: Recipient::Others(n.group),
                            bytes: n.datagram,
                        }),
                    );
                    return Ok(said);
                }
            }
        }
        Err(unexpected())
    }

    /// Closes a socket: what it owns goes. Gives what members of groups are told of what came
    /// before.
    fn close(&mut self, port: u32, listens: bool) -> io::Result<Vec<Datagram>> {
        let mut told = self.follow(false, listens)?;
        for _ in 0..RUNS {
            let mut batch = Batch::new(self, None);
            // Nobody is there to be told of a refusal; the tables stay then.
            let _ = penstock_nfnetlink::close(port, &mut batch);
            match batch.end()? {
                Run::Overtaken => told.extend(self.follow(true, listens)?),
                Run::Done | Run::Whole => break,
            }
        }
        Ok(all(told))
    }

    /// Says datagrams, some at once.
    pub(super) fn say_datagrams(&self, datagrams: Vec<Datagram>) -> io::Result<()> {
        self.say_before(datagrams, None)
    }

    /// Says datagrams, some at once, and the last of them together with the end of an answer: who
    /// waits for it wakes once.
    fn say_before(&self, datagrams: Vec<Datagram>, end: Option<&Message>) -> io::Result<()> {
        let (mut together, mut bytes) = (Vec::new(), 0);
        for datagram in datagrams {
            if bytes + datagram.bytes.len() > TOGETHER && !together.is_empty() {
                self.client.say(&Message::Datagrams(std::mem::take(&mut together)))?;
                bytes = 0;
            }
            bytes += datagram.bytes.len();
            together.push(datagram);
        }
        match (together.is_empty(), end) {
            (true, None) => Ok(()),
            (true, Some(end)) => self.client.say(end),
            (false, None) => self.client.say(&Message::Datagrams(together)),
            (false, Some(end)) => self.client.say_two(&Message::Datagrams(together), end),
        }
    }
}

/// What there is to do.
enum Next {
    /// The client has said something, or has gone.
    Client,
    /// The client has room.
    Room,
    /// The dataplane has said something, or has gone.
    Dataplane,
}

fn all(told: Vec<Notification>) -> Vec<Datagram> {
    let datagram = |n: Notification| Datagram { to: Recipient::All(n.group), bytes: n.datagram };
    told.into_iter().map(datagram).collect()
}

/// How a run of a request has ended.
#[derive(PartialEq)]
enum Run {
    /// The answers are right.
    Done,
    /// Another batch was committed since this one began.
    Overtaken,
    /// It may be right on a copy with all that packets have changed.
    Whole,
}

/// What a change has made that may turn out not to run.
type Made = (Family, Arc<str>, MadePlace);

#[derive(PartialEq)]
enum MadePlace {
    Rule(u64),
    Chain(Arc<str>),
    Other,
}

/// One run of a request: the ruleset that it reads and changes.
pub(super) struct Batch<'b, 'c> {
    pub(super) child: &'b mut Child<'c>,
    recorder: Recorder<'c>,
    /// A copy with all that packets have changed; otherwise the mirror is the base.
    whole: Option<Ruleset>,
    /// Time of the packet clock, in nanoseconds since the epoch.
    now: u64,
    begun: bool,
    /// A change was refused here: the dataplane need not learn of more.
    failed: bool,
    /// For each change that was noted: what it has made.
    made: Vec<Made>,
    /// It is right, and changes nothing.
    complete: bool,
    /// The dataplane was asked.
    submitted: bool,
    /// It has put the changes in force.
    is_accepted: bool,
    end: Run,
    /// The conversation with the dataplane is broken.
    broken: Option<io::Error>,
}

impl<'b, 'c> Batch<'b, 'c> {
    fn new(child: &'b mut Child<'c>, whole: Option<Ruleset>) -> Self {
        let recorder = Recorder::new(child.channel, Delivery::Sent);
        Batch {
            child,
            recorder,
            whole,
            now: now(),
            begun: false,
            failed: false,
            made: Vec::new(),
            complete: false,
            submitted: false,
            is_accepted: false,
            end: Run::Done,
            broken: None,
        }
    }

    /// The ruleset that it runs on.
    fn base(&self) -> &Ruleset {
        self.whole.as_ref().unwrap_or(&self.child.mirror.ruleset)
    }

    /// How it has ended. Changes that were not submitted are dropped.
    fn end(self) -> io::Result<Run> {
        if let Some(e) = self.broken {
            return Err(e);
        }
        if !self.begun || self.submitted {
            return Ok(self.end);
        }
        self.child.channel.say(&Ask::Drop)?;
        if self.complete {
            return Ok(Run::Done);
        }
        let dynamic = has_dynamic_sets(&self.child.mirror.ruleset.generation());
        Ok(if dynamic && self.whole.is_none() { Run::Whole } else { Run::Done })
    }

    /// What the dataplane answers to a question about connections.
    pub(super) fn connections_answer(
        &mut self,
        ask: connections::Ask,
    ) -> Result<connections::Answer, Errno> {
        match self.child.ask(&Ask::Connections(ask)) {
            Ok(Answer::Connections(answer)) => answer,
            Ok(_) => Err(self.wrong_answer()),
            Err(e) => Err(self.broke(e).errno),
        }
    }

    pub(super) fn ip_sets_answer(
        &mut self,
        ask: penstock_ipset::Request,
    ) -> Result<penstock_ipset::Reply, penstock_ipset::Refused> {
        match self.child.ask(&Ask::IpSets(ask)) {
            Ok(Answer::IpSets(answer)) => answer,
            Ok(_) => {
                self.wrong_answer();
                Err(penstock_ipset::Code::EIO.into())
            }
            Err(e) => {
                self.broke(e);
                Err(penstock_ipset::Code::EIO.into())
            }
        }
    }

    /// The dataplane has answered something else than it was asked.
    pub(super) fn wrong_answer(&mut self) -> Errno {
        self.broke(unexpected()).errno
    }

    pub(super) fn broke(&mut self, e: io::Error) -> Error {
        self.broken.get_or_insert(e);
        Error::new(Errno::Eio, Blame::Whole)
    }

    fn part(&mut self, named: &[Reset], resets: Vec<Reset>) -> Result<Ruleset, Error> {
        let ask = Ask::Part(named.to_vec(), resets);
        let bytes = match self.child.ask(&ask) {
            Ok(Answer::Whole(bytes)) => bytes,
            Ok(_) => return Err(self.broke(unexpected())),
            Err(e) => return Err(self.broke(e)),
        };
        Ruleset::from_saved(&bytes).map_err(|_| self.broke(unexpected()))
    }

    /// Takes over what the dataplane has put in force.
    fn accepted(&mut self, batch: Transaction, in_force: InForce) -> io::Result<()> {
        if in_force.generation == batch.working().id {
            return Ok(());
        }
        let mirror = &mut self.child.mirror;
        let own = self.whole.take().is_none();
        if own && mirror.take_over(batch, in_force.generation, in_force.marks).is_ok() {
            return Ok(());
        }
        let (generation, marks) = (mirror.ruleset.generation().id, mirror.ruleset.marks());
        let base = Ask::Base { generation, marks, alone: false };
        let Answer::Updates(updates) = self.child.ask(&base)? else { return Err(unexpected()) };
        let mirror = &mut self.child.mirror;
        for update in &updates {
            if mirror.follow(update).is_err() {
                return self.child.update(false);
            }
            // What came after it others are told of.
            if update.leads_to().0 == in_force.generation {
                break;
            }
        }
        Ok(())
    }

    /// The change that made what cannot run.
    fn blamed(&self, error: &LinkError) -> Option<usize> {
        let is_it = |place: &MadePlace| match (place, &error.place) {
            (MadePlace::Rule(made), ErrorPlace::Rule { handle, .. }) => made == handle,
            (MadePlace::Chain(made), ErrorPlace::Chain(name)) => made == name,
            _ => false,
        };
        self.made.iter().rposition(|(family, table, place)| {
            *family == error.family && *table == error.table && is_it(place)
        })
    }

    /// Whether what is claimed of each ruleset holds of this one. The error is a text.
    fn proved(&self, after: &Generation) -> Result<(), String> {
        let proofs = self.child.proofs();
        if !proofs.are_asked() {
            return Ok(());
        }
        let Child { channel, client, .. } = *self.child;
        let names = ChildNames::new(SystemNames::default(), channel, client);
        let before = self.base().generation();
        proofs.of(&before, &becoming(self.child.call, after, &names)).map(|_| ())
    }

    fn refused(&mut self, batch: &Transaction, refusal: Refusal) -> Refused {
        let whole = |errno| Refused { change: None, error: Error::new(errno, Blame::Whole) };
        match refusal {
            Refusal::Overtaken => {
                self.end = Run::Overtaken;
                whole(Errno::Erestart)
            }
            Refusal::Change(change, error) => {
                if self.whole.is_none() {
                    self.end = Run::Whole;
                }
                Refused { change: Some(change), error }
            }
            Refusal::Link(_) => {
                let change = Linked::new(batch.working()).err().and_then(|e| self.blamed(&e));
                Refused { change, ..whole(Errno::Eopnotsupp) }
            }
            Refusal::Offload(_) => whole(Errno::Eopnotsupp),
            // A change waits for its confirmation, or workers do not answer.
            Refusal::Other(_) => whole(Errno::Ebusy),
        }
    }
}

impl Backend for Batch<'_, '_> {
    fn now(&self) -> u64 {
        self.now
    }

    fn generation(&self) -> Arc<Generation> {
        self.base().generation()
    }

    fn begin(&mut self) -> Transaction {
        self.begun = true;
        let base = self.base();
        let (generation, batch) = (base.generation(), base.begin_at(self.now));
        self.recorder.begin(&generation, self.now);
        batch
    }

    fn apply(&mut self, batch: &mut Transaction, change: Change) -> Result<Applied, Error> {
        if self.failed {
            return batch.apply(change);
        }
        self.recorder.note(&change);
        let made = match &change {
            Change::AddRule { family, table, .. } => (*family, table.clone(), MadePlace::Rule(0)),
            Change::AddChain { family, table, chain, .. } => {
                (*family, table.clone(), MadePlace::Chain(chain.name.clone()))
            }
            _ => (Family::Ip, "".into(), MadePlace::Other),
        };
        let applied = batch.apply(change).inspect_err(|_| self.failed = true)?;
        self.made.push(match (made, applied.handle) {
            ((family, table, MadePlace::Rule(_)), Some(handle)) => {
                (family, table, MadePlace::Rule(handle))
            }
            (made, _) => made,
        });
        Ok(applied)
    }

    fn commit(&mut self, mut batch: Transaction, by: &Process) -> Result<(), Refused> {
        if self.made.is_empty() {
            self.complete = true;
            return Ok(());
        }
        batch.settle();
        if let Err(sentence) = self.proved(batch.working()) {
            log(format_args!("a change by {} ({}) is refused: {sentence}", by.name, by.id));
            self.complete = true;
            return Err(Refused { change: None, error: Error::new(Errno::Eperm, Blame::Whole) });
        }
        self.submitted = true;
        let by = (by.id, by.name.to_string());
        let answer = match self.recorder.take_unsent() {
            Some((generation, now, changes)) => {
                self.child.ask(&Ask::SubmitAll { generation, now, changes, by })
            }
            None => {
                let submit = Ask::Submit { check: false, confirm: None, by: Some(by) };
                self.recorder.flush().and_then(|()| self.child.ask(&submit))
            }
        };
        match answer {
            Ok(Answer::Accepted(in_force)) => {
                self.is_accepted = true;
                self.accepted(batch, in_force).map_err(|e| self.broke(e).into())
            }
            Ok(Answer::Refused(refusal)) => Err(self.refused(&batch, refusal)),
            Ok(_) => Err(self.broke(unexpected()).into()),
            Err(e) => Err(self.broke(e).into()),
        }
    }

    fn observe(&mut self, named: &[Reset], show: &mut Show<'_>) -> Result<(), Error> {
        let mirror = self.child.mirror.ruleset.generation();
        if !named.iter().any(|what| mirror.is_live(what)) {
            show(&mirror);
            return Ok(());
        }
        let part = self.part(named, Vec::new())?;
        let resets = show(&part.generation());
        if !resets.is_empty() {
            // The values that are shown are those that were set to zero.
            let part = self.part(named, resets)?;
            show(&part.generation());
        }
        Ok(())
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        Some(self)
    }

    fn ip_sets(&mut self) -> Option<&mut dyn IpSetTable> {
        Some(self)
    }

    fn packets(&mut self) -> Option<&mut dyn PacketListeners> {
        Some(self)
    }
}
