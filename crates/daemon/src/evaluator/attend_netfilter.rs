// SPDX-License-Identifier: Apache-2.0

//! The dataplane's side of a child that answers netfilter sockets. It lives as long as its client,
//! and submits batch after batch.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use penstock_ruleset::Errno;

use super::attend::{Attendance, End, Incoming, Notices, PULSE, Speaker, broken, ended_by, notice};
use super::protocol::{Answer, Ask, QUESTION};
use crate::clock::now;
use crate::control::{PATIENCE, Rights};
use crate::events::{Heard, Watcher};
use crate::packet_line::Packet;
use crate::packet_listeners::{Line, PacketListeners};
use crate::rules::{Alone, Process, Rules};

/// After so long without a question the evaluator gets what the child has changed.
const QUIET: Duration = Duration::from_millis(50);

/// What a child is in the middle of.
#[derive(Default)]
struct Batch<'r> {
    incoming: Option<Incoming>,
    alone: Option<Alone<'r>>,
    /// A change is in force that the evaluator has not been told of.
    untold: bool,
    /// The child listens to what happens to connections.
    watcher: Option<Watcher>,
    /// Packets for it go there.
    line: Option<Line>,
}

/// How many bytes of messages a child is told at once.
const TOGETHER: usize = 32 << 10;
/// After less than that more may come: telling of each one alone takes longer.
const GATHERING: Duration = Duration::from_millis(1);

/// Gives packets to a child, until it is over.
fn give(
    listeners: &PacketListeners,
    line: &Line,
    from: &Receiver<Packet>,
    notices: &Notices,
    speaker: &Speaker<'_>,
) {
    while !notices.over.load(Ordering::Relaxed) {
        match listeners.next(line, from, PULSE) {
            Ok(given) if given.is_empty() => {}
            Ok(given) => {
                if speaker.say(&Answer::Given(given)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Tells a child what happens to connections and quotas, until it is over.
fn relay(heard: &Heard, rules: &Rules, notices: &Notices, speaker: &Speaker<'_>) {
    let used_up = |state: &_| penstock_nfnetlink::used_up(state, &rules.generation(), now());
    while !notices.over.load(Ordering::Relaxed) {
        let told = match heard.next(PULSE, TOGETHER, used_up) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let missed = heard.take_missed();
        if told.is_empty() && missed == 0 {
            continue;
        }
        let told: Vec<_> = told.into_iter().map(|told| (told.group, told.datagram)).collect();
        let few = told.len() < 64;
        if speaker.say(&Answer::Told(told, missed)).is_err() {
            return;
        }
        if few {
            std::thread::sleep(GATHERING);
        }
    }
}

impl Attendance<'_> {
    /// Answers until the client or the child goes.
    pub(super) fn netfilter(&self) -> io::Result<End> {
        let (notices, speaker) = (Notices::default(), Speaker::new(&self.channel));
        std::thread::scope(|scope| {
            let mut batch = Batch::default();
            let ended = self.converse(scope, &notices, &speaker, &mut batch);
            notices.over.store(true, Ordering::Relaxed);
            drop(batch.alone);
            if let (Some(line), Some(listeners)) = (&batch.line, self.listeners) {
                listeners.gone(line);
            }
            if let (Some(watcher), Some(tables)) = (&batch.watcher, self.tables) {
                tables.unwatch(watcher);
            }
            if batch.untold {
                self.evaluator.update(self.rules()?);
            }
            ended
        })
    }

    fn converse<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        notices: &'env Notices,
        speaker: &'env Speaker<'env>,
        batch: &mut Batch<'env>,
    ) -> io::Result<End> {
        loop {
            match self.next_question(batch)? {
                Ask::Done => return Ok(End::Done),
                Ask::Ended(signal) => return Ok(End::Failed(ended_by(signal).into())),
                Ask::Notice => self.begin_notices(scope, notices, speaker)?,
                Ask::Packets(ask) => {
                    if batch.line.is_none() {
                        let listeners = self.listeners()?;
                        let (line, from) = listeners.line();
                        batch.line = Some(line.clone());
                        let giver = Builder::new().name("packets".into());
                        giver.spawn_scoped(scope, move || {
                            give(listeners, &line, &from, notices, speaker);
                        })?;
                    }
                    if let Some(answer) = self.answer(Ask::Packets(ask), batch, notices)? {
                        speaker.say(&answer)?;
                    }
                }
                Ask::Listen(groups) => {
                    match &batch.watcher {
                        Some(watcher) => watcher.set_groups(groups),
                        None => {
                            let (watcher, heard) = self.tables()?.watch(groups);
                            batch.watcher = Some(watcher);
                            let rules = self.rules()?;
                            let teller = Builder::new().name("watch".into());
                            teller.spawn_scoped(scope, move || {
                                relay(&heard, rules, notices, speaker);
                            })?;
                        }
                    }
                    speaker.say(&Answer::Yes(true))?;
                }
                ask => {
                    if let Some(answer) = self.answer(ask, batch, notices)? {
                        speaker.say(&answer)?;
                    }
                }
            }
        }
    }

    /// What the child asks next. Meanwhile the evaluator is told of changes.
    fn next_question(&self, batch: &mut Batch<'_>) -> io::Result<Ask> {
        if batch.untold && !self.channel.is_ready(Some(QUIET))? {
            self.evaluator.update(self.rules()?);
            batch.untold = false;
        }
        // Others wait for one that is alone: no longer than a batch may take.
        let patience = batch.alone.is_some().then(|| self.call.time.saturating_add(PATIENCE));
        let (bytes, _) =
            self.channel.receive(QUESTION, patience)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        postcard::from_bytes(&bytes).map_err(|_| broken("not a question"))
    }

    fn begin_notices<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        notices: &'env Notices,
        speaker: &'env Speaker<'env>,
    ) -> io::Result<()> {
        let watchers = &self.rules()?.changes;
        let changes = watchers.subscribe();
        let teller = Builder::new().name("watch".into());
        teller.spawn_scoped(scope, move || notice(watchers, changes, notices, speaker))?;
        speaker.say(&Answer::Yes(true))
    }

    fn submit_batch(
        &self,
        batch: &mut Batch<'_>,
        incoming: Incoming,
        by: &Process,
    ) -> io::Result<Answer> {
        let answer = self.submit(incoming, by, (false, batch.alone.is_some()), None)?;
        batch.untold |= matches!(answer, Answer::Accepted(_));
        batch.alone = None;
        Ok(answer)
    }

    fn answer<'r>(
        &'r self,
        ask: Ask,
        batch: &mut Batch<'r>,
        notices: &Notices,
    ) -> io::Result<Option<Answer>> {
        let rules = self.rules()?;
        Ok(match ask {
            Ask::Base { generation, marks, alone } => {
                if alone && batch.alone.is_none() {
                    self.must_be_all()?;
                    batch.alone = Some(rules.alone());
                }
                // Before it looks: a later change is told of again.
                notices.told.store(false, Ordering::Release);
                Some(Answer::Updates(rules.since(generation, marks)))
            }
            Ask::Begin { generation, now } => {
                batch.incoming = Some(self.begin_changes(generation, now)?);
                None
            }
            Ask::Changes => {
                self.take_changes(&mut batch.incoming)?;
                None
            }
            Ask::Drop => {
                (batch.incoming, batch.alone) = (None, None);
                None
            }
            Ask::Submit { check: false, confirm: None, by } => {
                self.must_be_all()?;
                let incoming =
                    batch.incoming.take().ok_or_else(|| broken("nothing is submitted"))?;
                let by = by.as_ref().unwrap_or(&self.call.process);
                Some(self.submit_batch(batch, incoming, by)?)
            }
            // No longer than a question, so within what all changes may have.
            Ask::SubmitAll { generation, now, changes, by } => {
                self.must_be_all()?;
                let mut incoming = self.begin_changes(generation, now)?;
                incoming.take(&changes)?;
                batch.incoming = None;
                Some(self.submit_batch(batch, incoming, &by)?)
            }
            Ask::Packets(ask) => {
                let listeners = self.listeners()?;
                let line = batch.line.as_ref().ok_or_else(|| broken("packets without a line"))?;
                Some(Answer::Packets(match self.call.rights {
                    Rights::All => listeners.carry_out(line, ask),
                    Rights::Look => Err(Errno::Eperm),
                }))
            }
            Ask::Verdicts(decisions) => {
                let all = |errno| (0..).zip(&decisions).map(|(n, _)| (n, errno)).collect();
                let refused = match (&batch.line, self.call.rights) {
                    (Some(line), Rights::All) => self.listeners()?.decide(line, decisions),
                    // It has no queue.
                    (None, Rights::All) => all(Errno::Enodev),
                    (_, Rights::Look) => all(Errno::Eperm),
                };
                Some(Answer::Refusals(refused))
            }
            Ask::IpSets(request) => {
                let refused = self.call.rights == Rights::Look && request.changes();
                Some(Answer::IpSets(match refused {
                    true => Err(penstock_ipset::Code::EPERM.into()),
                    false => rules.ask_ip_sets(&request),
                }))
            }
            Ask::Connections(ask) => {
                let looks = self.call.rights == Rights::Look;
                Some(Answer::Connections(self.tables()?.carry_out(ask, looks)))
            }
            Ask::Whole(resets) => Some(self.copy(&resets, |rules| rules.whole(&resets))?),
            Ask::Part(named, resets) => {
                Some(self.copy(&resets, |rules| rules.part(&named, &resets))?)
            }
            _ => return Err(broken("not for this task")),
        })
    }
}
