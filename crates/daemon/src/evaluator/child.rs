// SPDX-License-Identifier: Apache-2.0

//! A child of the evaluator: serves one client, and ends with it.
//!
//! It has a copy of the ruleset, as the evaluator had it when it began. A text is evaluated on
//! that, and its changes go to the dataplane on the way, which applies them to the ruleset itself
//! and has the last word. Where something is refused, or the text asks for what packets change, it
//! is evaluated again on a copy that has all that it needs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_lang::session::remote::{Again, Changes, Copy};
use penstock_lang::session::{Options, Outcome, Refusal, Session, events};
use penstock_lang::source::{Files, Origin, cannot_read};
use penstock_ruleset::link::{Linked, LinkedFlowtable};
use penstock_ruleset::model::Generation;
use penstock_ruleset::reset::Reset;
use penstock_ruleset::{Change, Errno, Ruleset, received};
use penstock_system::SystemNames;

use super::files::Remembered;
use super::kept::Kept;
use super::mirror::Mirror;
use super::names::ChildNames;
use super::protocol::{ANSWER, Answer, Ask, Call, Task};
use super::recorder::{Delivery, Recorder};
use super::sandbox;
use crate::channel::Channel;
use crate::config::Config;
use crate::control::not_now;
use crate::control::protocol::Message;
use crate::control::{CaptureCall, Client, ClientFiles, NftCall, PATIENCE, Rights, Source};
use crate::packet_listeners::Decision;
use crate::proofs::{Becoming, ClaimsText, Proofs};
use crate::rules::{Refused, Update};
use crate::{now, probe};

/// Bytes of memory for those who may only look.
const LOOKERS: u64 = 512 << 20;
/// Bytes of changes that devices look at for those who may only look.
const LOOKED_AT: usize = 1 << 20;
/// Seconds after which a child ends that has not noticed that its time is over.
pub(super) const GRACE: u64 = 2;

/// How it ended.
enum End {
    /// With this exit status.
    Status(u8),
    /// The dataplane serves the client from here on.
    HandedOver,
}

/// How it is found out what comes of a verdict.
#[derive(Debug, Default)]
pub(super) enum Verdicts {
    /// The dataplane is asked.
    #[default]
    Asked,
    /// It is taken for right, and noted, to be asked with others.
    Noted(Vec<Decision>),
    /// It is known.
    Known(VecDeque<Result<(), Errno>>),
}

pub(super) struct Child<'c> {
    pub(super) channel: &'c Channel,
    pub(super) client: &'c Client,
    pub(super) call: &'c Call,
    config: &'c Config,
    pub(super) mirror: Mirror,
    /// The dataplane has said that there is another generation.
    pub(super) changed: Cell<bool>,
    /// What happened to connections, and the client has yet to be told.
    pub(super) kept: RefCell<Kept>,
    /// How verdicts about packets are asked.
    pub(super) verdicts: Verdicts,
}

/// A session and what it asks.
struct Talk<'c, 's> {
    session: Session<'s>,
    files: &'s Remembered<'c>,
    names: &'s ChildNames<'c>,
    recorder: &'s Recorder<'c>,
    /// Changes are for the dataplane.
    submits: bool,
    /// What is asked of changes before they are.
    proofs: Proofs,
}

/// The changes of one evaluation, and what the dataplane answers to them.
struct Submission<'s> {
    recorder: &'s Recorder<'s>,
    /// They are for the dataplane; otherwise it is asked about devices only.
    submits: bool,
    copy: Copy,
    ask: Ask,
    names: &'s ChildNames<'s>,
    proofs: &'s Proofs,
    /// The ruleset before the changes.
    before: Arc<Generation>,
    /// What they do to packets, if that is asked.
    difference: Option<String>,
    /// The answer, once the dataplane was asked.
    answered: Option<io::Result<Answer>>,
}

/// Serves a client, whatever it wants. `confined` says whether system calls are restricted.
pub(super) fn serve(
    stream: UnixStream,
    channel: Channel,
    mirror: Mirror,
    config: &Config,
    confined: io::Result<()>,
) {
    if channel.say(&Ask::Begun).is_err() {
        return;
    }
    let Ok(Some(Answer::Call(call))) = channel.hear(ANSWER, Some(PATIENCE)) else { return };
    let Ok(client) = Client::new(stream, call.rights.longest()) else { return };
    // The process ends with the conversation. Skipping the drop also avoids copying pages to free
    // them.
    let mut child = ManuallyDrop::new(Child {
        channel: &channel,
        client: &client,
        call: &call,
        config,
        mirror,
        changed: Cell::new(false),
        kept: RefCell::default(),
        verdicts: Verdicts::default(),
    });
    let said = match child.run(confined) {
        Ok(End::Status(status)) => client.say(&Message::Exit(status)),
        Ok(End::HandedOver) => return,
        // A client that goes away needs no answer.
        Err(_) => Ok(()),
    };
    let _ = said.and_then(|()| channel.say(&Ask::Done));
}

pub(super) fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an answer")
}

/// A ruleset that is to be in force. Answers about it may take half of what a child for this call may.
pub(super) fn becoming<'a>(
    call: &Call,
    after: &'a Generation,
    names: &'a ChildNames<'_>,
) -> Becoming<'a> {
    let memory = match call.rights {
        Rights::Look => call.memory.min(LOOKERS),
        _ => call.memory,
    };
    Becoming { after, names, now: now(), memory: memory / 2, time: call.time }
}

/// Whether devices are to do something of a generation.
fn wants_devices(generation: &Generation, linked: &Linked) -> bool {
    let chains = generation.tables.iter().flat_map(|table| &table.chains);
    linked.flowtables.iter().any(LinkedFlowtable::is_for_devices)
        || chains.filter_map(|chain| chain.base.as_ref()).any(|base| base.offload)
}

/// Whether packets change elements of some set.
pub(super) fn has_dynamic_sets(generation: &Generation) -> bool {
    generation.tables.iter().flat_map(|table| &table.sets).any(|set| set.dynamic().is_some())
}

impl Child<'_> {
    fn run(&mut self, confined: io::Result<()>) -> io::Result<End> {
        if let Err(e) = confined.and_then(|()| self.limit()) {
            self.client
                .say(&Message::Err(format!("Error: rule texts cannot be evaluated: {e}\n")))?;
            return Ok(End::Status(1));
        }
        match self.call.task.clone() {
            Task::Nft(args) => self.nft(&args),
            Task::Load { name, check } => self.load(name, check),
            Task::Probe { words, ports } => self.probe(words, &ports),
            Task::Netfilter => self.netfilter().map(|()| End::Status(0)),
        }
    }

    /// Sets limits of memory, and of the processor's time for those who may only look.
    fn limit(&self) -> io::Result<()> {
        let look = self.call.rights == Rights::Look;
        sandbox::limit_memory(if look { self.call.memory.min(LOOKERS) } else { self.call.memory })?;
        if look {
            // What they make us do has time.
            // SAFETY: no pointers; 0 is the calling process.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        }
        Ok(())
    }

    /// A child evaluates one text only.
    fn limit_time(&self) -> io::Result<()> {
        const PRINTING: u64 = 60;
        sandbox::limit_time(self.call.time.as_secs().saturating_mul(2).saturating_add(PRINTING))
    }

    /// Queries the dataplane. Its time is not charged: a child that evaluated in time waits for
    /// others, and for the result.
    pub(super) fn ask(&self, ask: &Ask) -> io::Result<Answer> {
        let left = sandbox::stop_alarm();
        self.channel.say(ask)?;
        let answer = loop {
            match self.channel.hear(ANSWER, None)? {
                Some(Answer::Changed) => self.changed.set(true),
                Some(Answer::Told(told, missed)) => self.kept.borrow_mut().keep(told, missed),
                Some(Answer::Given(given)) => self.kept.borrow_mut().keep_packets(given),
                Some(answer) => break Ok(answer),
                None => break Err(io::ErrorKind::UnexpectedEof.into()),
            }
        };
        sandbox::alarm(left);
        answer
    }

    /// Catches up with the ruleset.
    pub(super) fn update(&mut self, alone: bool) -> io::Result<()> {
        let (mut generation, mut marks) =
            (self.mirror.ruleset.generation().id, self.mirror.ruleset.marks());
        for _ in 0..2 {
            let Answer::Updates(updates) = self.ask(&Ask::Base { generation, marks, alone })?
            else {
                return Err(unexpected());
            };
            if updates.iter().all(|update| self.mirror.follow(update).is_ok()) {
                return Ok(());
            }
            // All of it, from scratch.
            (generation, marks) = (0, 0);
        }
        Err(unexpected())
    }

    pub(super) fn whole(&self, resets: Vec<Reset>) -> io::Result<Ruleset> {
        let Answer::Whole(bytes) = self.ask(&Ask::Whole(resets))? else { return Err(unexpected()) };
        Ruleset::from_saved(&bytes).map_err(|_| unexpected())
    }

    fn nft(&mut self, args: &[String]) -> io::Result<End> {
        let NftCall { mut options, source, confirm, claims, diff } = match (self.config.nft)(args) {
            Ok(call) => call,
            Err(message) => {
                self.client.say(&Message::Err(message))?;
                return Ok(End::Status(1));
            }
        };
        options.runnable_only = true;
        options.process = Some(self.call.process.clone());
        // A client that may only look may have a change checked, and nothing more.
        if self.call.rights == Rights::Look {
            options.read_only = !options.check;
            options.check = true;
        }
        let names = ChildNames::new(SystemNames::default(), self.channel, self.client);
        if let Source::Commands(text) = &source
            && let Some(watch) = events::Watch::parse(text)
        {
            return match watch {
                Ok(watch) if watch.traces() => {
                    self.channel.say(&Ask::HandOver)?;
                    Ok(End::HandedOver)
                }
                Ok(watch) => self.monitor(&options, &watch, &names),
                Err(message) => {
                    self.client.say(&Message::Err(message))?;
                    Ok(End::Status(1))
                }
            };
        }
        let files = Remembered::new(ClientFiles(self.client));
        let submits = self.call.rights == Rights::All;
        let recorder = Recorder::new(
            self.channel,
            if submits { Delivery::Sent } else { Delivery::Held(LOOKED_AT) },
        );
        let mut proofs = Proofs { diff, ..self.proofs() };
        if let Some(name) = claims {
            let read = |file: &str| ClientFiles(self.client).read(file);
            match ClaimsText::read(name, &self.config.prover, read) {
                Ok(claims) => proofs.claims.push(claims),
                Err(reason) => {
                    self.client.say(&Message::Err(format!("Error: {reason}\n")))?;
                    return Ok(End::Status(1));
                }
            }
        }
        let (call, prover) = (self.call, self.config.prover);
        let review = |after: &Generation| (prover.review)(&becoming(call, after, &names));
        let session = Session::new(options, &files, &names);
        let session = session.noting(&recorder).reviewed_by(&review);
        let (files, names, recorder) = (&files, &names, &recorder);
        let mut talk = Talk { session, files, names, recorder, submits, proofs };
        let (origin, text) = match source {
            Source::Interactive => return self.interactive(&mut talk, confirm),
            Source::Commands(text) => (Origin::CommandLine, text),
            Source::File(name) => match ClientFiles(self.client).read(&name) {
                Ok(text) => {
                    let name = if name == "-" { "/dev/stdin".to_owned() } else { name };
                    (Origin::File { name, from: None }, text)
                }
                Err(reason) => {
                    let text =
                        format!("internal:0:0-0: Error: {}\n\n\n", cannot_read(&name, &reason));
                    self.client.say(&Message::Err(text))?;
                    return Ok(End::Status(1));
                }
            },
        };
        self.limit_time()?;
        self.text(&mut talk, origin, text, confirm).map(End::Status)
    }

    /// Runs a text and tells the client of it. Returns the exit status.
    fn text(
        &mut self,
        talk: &mut Talk<'_, '_>,
        origin: Origin,
        text: String,
        confirm: Option<Duration>,
    ) -> io::Result<u8> {
        sandbox::alarm(self.call.time.as_secs().saturating_add(GRACE));
        let evaluated = self.evaluate(talk, &origin, &text, confirm);
        sandbox::stop_alarm();
        let (outcome, waits) = evaluated?;
        drop(text);
        let told = self.client.outcome(&outcome, self.call.rights == Rights::Look)?;
        match (waits, confirm) {
            (Some(id), Some(time)) => self.confirmation(id, time),
            _ => Ok(u8::from(!outcome.ok || !told)),
        }
    }

    fn interactive(
        &mut self,
        talk: &mut Talk<'_, '_>,
        confirm: Option<Duration>,
    ) -> io::Result<End> {
        self.client.say(&Message::Exit(0))?;
        loop {
            while !self.client.has_said(PATIENCE)? {}
            let text = match self.client.hear(PATIENCE)? {
                Message::Line(text) => text,
                // The answer to a question that was settled in the meantime.
                Message::Confirm | Message::Failed(_) => continue,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            self.update(false)?;
            let status = self.text(talk, Origin::CommandLine, text, confirm)?;
            self.client.say(&Message::Exit(status))?;
        }
    }

    /// Loads the ruleset's file, or checks it.
    fn load(&mut self, name: String, check: Option<Vec<String>>) -> io::Result<End> {
        let options = Options {
            runnable_only: true,
            include_paths: vec!["/etc".to_owned()],
            anew: true,
            ..Options::default()
        };
        let submits = check.is_none();
        let system = SystemNames::expecting(&check.unwrap_or_default());
        let names = ChildNames::new(system, self.channel, self.client);
        let files = Remembered::new(ClientFiles(self.client));
        let recorder =
            Recorder::new(self.channel, if submits { Delivery::Sent } else { Delivery::Kept });
        let text = match ClientFiles(self.client).read(&name) {
            Ok(text) => text,
            Err(reason) => {
                self.client.say(&Message::Err(format!("{name}: {reason}\n")))?;
                return Ok(End::Status(1));
            }
        };
        self.limit_time()?;
        let session = Session::new(options, &files, &names).noting(&recorder);
        let (files, names, recorder, proofs) = (&files, &names, &recorder, self.proofs());
        let mut talk = Talk { session, files, names, recorder, submits, proofs };
        self.text(&mut talk, Origin::File { name, from: None }, text, None).map(End::Status)
    }

    /// What is asked of each change.
    pub(super) fn proofs(&self) -> Proofs {
        let claims = self.call.claims.iter().cloned().collect();
        Proofs { prover: self.config.prover, claims, diff: false }
    }

    /// Submits the changes of a text that was evaluated to the dataplane, if it has to decide.
    fn submit(
        &self,
        submission: &mut Submission<'_>,
        generation: &Generation,
    ) -> Result<(), Refusal> {
        let mut devices = false;
        if submission.copy != Copy::Unchecked {
            let linked = Linked::new(generation).map_err(Refusal::Link)?;
            let elsewhere = self.config.attach.is_some() || wants_devices(generation, &linked);
            devices = self.call.rights == Rights::Look && elsewhere;
        }
        if submission.proofs.are_asked() {
            let becoming = becoming(self.call, generation, submission.names);
            let difference = submission.proofs.of(&submission.before, &becoming);
            submission.difference = difference.map_err(Refusal::Other)?;
        }
        if !submission.submits && !devices {
            return Ok(());
        }
        let answer = submission.recorder.flush().and_then(|()| self.ask(&submission.ask));
        let refusal = match &answer {
            Ok(Answer::Accepted(_)) => Ok(()),
            Ok(Answer::Refused(refused)) => Err(refusal(refused, submission.copy)),
            Ok(_) => Err(Refusal::Other("not an answer".into())),
            Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
                let sentence =
                    "a ruleset this large, with parts for devices, is checked for root alone";
                return Err(Refusal::Other(sentence.into()));
            }
            Err(e) => Err(Refusal::Other(e.to_string())),
        };
        submission.answered = Some(answer);
        refusal
    }

    /// Evaluates a text until it is right, or wrong, on a copy of the ruleset that does for it.
    /// Gives the number of the change that waits for its confirmation, too.
    fn evaluate(
        &mut self,
        talk: &mut Talk<'_, '_>,
        origin: &Origin,
        text: &str,
        confirm: Option<Duration>,
    ) -> io::Result<(Outcome, Option<u32>)> {
        /// Each reason to try again comes once, but for others who change the ruleset at the same
        /// time.
        const MOST: usize = 8;
        talk.files.forget();
        talk.names.forget();
        let begun = Instant::now();
        talk.session.options.deadline = begun.checked_add(self.call.time);
        let scope = talk.session.scope();
        let dynamic = has_dynamic_sets(&self.mirror.ruleset.generation());
        let check = talk.session.options.check;
        let mut copy = match (talk.submits, talk.session.options.echo) {
            (_, true) if dynamic => Copy::Whole,
            (true, false) if !talk.proofs.are_asked() && !talk.session.options.lint => {
                Copy::Unchecked
            }
            _ => Copy::WithoutState,
        };
        let (mut resets, mut reset) = (Vec::new(), false);
        for _ in 0..MOST {
            let mut ruleset = match copy {
                Copy::Whole => self.whole(if reset { resets.clone() } else { Vec::new() })?,
                Copy::WithoutState | Copy::Unchecked => self.mirror.ruleset.clone(),
            };
            talk.session.options.copy = copy;
            // Reset values are printed once the whole text is known to be valid.
            let rehearses = !resets.is_empty() && !reset && !check;
            talk.session.options.check = check || rehearses;
            let mut submission = Submission {
                recorder: talk.recorder,
                submits: talk.submits && !rehearses,
                copy,
                ask: Ask::Submit { check, confirm, by: None },
                names: talk.names,
                proofs: &talk.proofs,
                before: ruleset.generation(),
                difference: None,
                answered: None,
            };
            let mut outcome = talk.session.run_gated(
                origin.clone(),
                text.to_owned(),
                &mut ruleset,
                now(),
                &mut |generation: &Generation| self.submit(&mut submission, generation),
            );
            let Submission { answered, difference, .. } = submission;
            if let Some(difference) = difference.filter(|_| outcome.ok) {
                outcome.stdout.insert_str(0, &difference);
            }
            talk.session.options.check = check;
            let again = match (&answered, outcome.again) {
                (_, Some(Again::Whole)) => {
                    resets = outcome.resets.clone();
                    Some(Copy::Whole)
                }
                (_, Some(Again::Applied)) => Some(Copy::WithoutState),
                (Some(Ok(Answer::Refused(Refused::Overtaken))), _) => {
                    self.update(talk.submits)?;
                    Some(copy)
                }
                (Some(Ok(Answer::Refused(refused))), _)
                    if !matches!(refused, Refused::Other(_)) =>
                {
                    match copy {
                        Copy::Unchecked if !dynamic => Some(Copy::WithoutState),
                        Copy::Unchecked | Copy::WithoutState if dynamic => Some(Copy::Whole),
                        _ => None,
                    }
                }
                // It may be right with what packets have changed.
                (None, None) if !outcome.ok && dynamic && copy != Copy::Whole => Some(Copy::Whole),
                (None, None) if rehearses && outcome.ok => {
                    reset = true;
                    Some(Copy::Whole)
                }
                _ => None,
            };
            let Some(better) = again else {
                let waits = match answered {
                    Some(Ok(Answer::Accepted(in_force))) => in_force.waits,
                    Some(Err(e)) => return Err(e),
                    _ => None,
                };
                return Ok((outcome, waits));
            };
            copy = better;
            talk.session.go_back(scope.clone());
            talk.files.rewind();
        }
        let stderr = format!("Error: {}\n", not_now::OVERTAKEN);
        Ok((Outcome { stderr, ..Outcome::default() }, None))
    }

    /// Waits for a confirmation by this client or another. Without one, or without the client, the
    /// change is rolled back at its timeout.
    fn confirmation(&self, id: u32, time: Duration) -> io::Result<u8> {
        /// How soon a confirmation by another client is noticed.
        const PULSE: Duration = Duration::from_millis(200);
        let yes = |ask: Ask| match self.ask(&ask)? {
            Answer::Yes(yes) => Ok(yes),
            _ => Err(unexpected()),
        };
        self.client.say(&Message::Unconfirmed(time.as_millis() as u64))?;
        let answer = loop {
            if self.client.has_said(PULSE)? {
                break Some(self.client.hear(PATIENCE)?);
            }
            if !yes(Ask::Waits(id))? {
                break None;
            }
        };
        match answer {
            Some(Message::Confirm) => drop(yes(Ask::Confirm(id))?),
            Some(_) => drop(yes(Ask::TakeBack(id))?),
            None => {}
        }
        if yes(Ask::IsConfirmed(id))? {
            return Ok(0);
        }
        self.client.say(&Message::Err("The change is taken back.\n".into()))?;
        Ok(1)
    }

    /// Tells the client of changes until it goes.
    fn monitor(
        &mut self,
        options: &Options,
        watch: &events::Watch,
        names: &ChildNames<'_>,
    ) -> io::Result<End> {
        /// How soon a client that went away is noticed where nothing happens.
        const PULSE: Duration = Duration::from_millis(500);
        self.channel.say(&Ask::Watch)?;
        self.update(false)?;
        loop {
            if !self.channel.is_ready(Some(PULSE))? {
                self.client.is_there()?;
                continue;
            }
            let said = self.channel.hear(ANSWER, None)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let Answer::Committed(update) = said else { break };
            let before = self.mirror.ruleset.generation();
            if let Update::Commit(commit) = &update
                && commit.before != before.id
                && commit.after.wrapping_sub(before.id) as i32 <= 0
            {
                // Known from the beginning.
                continue;
            }
            if self.mirror.follow(&update).is_err() {
                break;
            }
            names.forget();
            let after = self.mirror.ruleset.generation();
            let mut text = watch.lines(&before, &after, options, names, now());
            if !options.json && !text.is_empty() {
                let (pid, name) = update.by();
                text.push_str(&format!(
                    "# new generation {} by process {pid} ({name})\n",
                    after.id
                ));
            }
            self.client.say_text(&text)?;
        }
        self.client
            .say(&Message::Err("Error: too many changes at once, some were lost\n".into()))?;
        Ok(End::Status(1))
    }
}

/// The changes of the table of a capture, which is evaluated in two runs.
#[derive(Default)]
struct All(RefCell<Vec<u8>>);

impl Changes for All {
    fn begin(&self, _generation: &Generation, _now: u64) {}

    fn note(&self, change: &Change) {
        received::send(change, &mut self.0.borrow_mut());
    }
}

impl Child<'_> {
    /// Evaluates the rule of a capture, and gives the client back.
    fn probe(&self, words: Vec<String>, ports: &[String]) -> io::Result<End> {
        let call = CaptureCall::of(words).ok_or_else(unexpected)?;
        let names = ChildNames::new(SystemNames::default(), self.channel, self.client);
        let all = All::default();
        self.limit_time()?;
        sandbox::alarm(self.call.time.as_secs().saturating_add(GRACE));
        let evaluated = probe::evaluated(&call, ports, &names, &all);
        sandbox::stop_alarm();
        if let Err(message) = evaluated.and_then(|generation| probe::table_of(&generation, 0)) {
            self.client.say(&Message::Err(message))?;
            return Ok(End::Status(1));
        }
        self.channel.say(&Ask::Begin { generation: 0, now: now() })?;
        self.channel.say(&Ask::Changes)?;
        self.channel.send(&all.0.borrow(), &[])?;
        self.channel.say(&Ask::HandOver)?;
        Ok(End::HandedOver)
    }
}

/// The refusal for the session: with its place if the copy was complete enough; otherwise any
/// refusal, since the text is run again.
fn refusal(refused: &Refused, copy: Copy) -> Refusal {
    match refused {
        _ if copy == Copy::Unchecked && !matches!(refused, Refused::Other(_)) => {
            Refusal::Other("the change is refused".into())
        }
        Refused::Overtaken => Refusal::Other(not_now::OVERTAKEN.into()),
        Refused::Change(number, e) => Refusal::Change(*number, e.clone()),
        Refused::Link(sentence) | Refused::Other(sentence) => Refusal::Other(sentence.clone()),
        Refused::Offload(e) => Refusal::Offload(e.clone()),
    }
}
