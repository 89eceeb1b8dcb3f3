// SPDX-License-Identifier: Apache-2.0

//! `penstock show`: what workers know is gathered, and printed as it comes.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use penstock_dataplane::{Dataplane, Engine, FlowSummary};
use penstock_lang::datatype::Format;
use penstock_lang::session::NOT_PERMITTED;
use penstock_print::list::{Entries, List};
use penstock_print::rules::WrittenRules;
use penstock_print::show::connections::{self, Connection, ProcLine};
use penstock_print::show::flows::{self, Flow, Totals};
use penstock_print::show::stages::{Stage, Stages};
use penstock_print::show::state::State;
use penstock_print::show::status::{Status, Talker};
use penstock_print::show::{Form, Listing};
use penstock_system::SystemNames;

use super::Server;
use super::pages::{ListPage, Page, PageSize};
use super::talkers;
use crate::control::protocol::{Message, Show};
use crate::control::{Budget, Client, Exceeded, Rights, Telling};
use crate::now;
use crate::requests::Request;

/// What an answer that is no list counts as, of a worker's time.
const SHORT_ANSWER: Duration = Duration::from_micros(100);
/// How long a worker may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

impl Server {
    /// Shows a client what it asks for.
    pub(super) fn show(&self, client: &Client, show: Show, rights: Rights) -> io::Result<()> {
        let looks = rights == Rights::Look;
        if show.listing == Listing::Stages {
            return match looks {
                true => client.refuse(NOT_PERMITTED),
                false => self.stages(client, show),
            };
        }
        client.set_budget(Some(Budget::of_listing(looks)));
        let told = self.listing(client, show, client.end().filter(|_| looks));
        client.set_budget(None);
        match told {
            Ok(()) => client.say(&Message::Exit(0)),
            Err(e) => match Exceeded::of(&e) {
                Some(reason) => client.refuse(&reason.to_string()),
                None => Err(e),
            },
        }
    }

    /// Writes a listing that is within a budget. With an end, the client is read-only, and waits
    /// until the workers have time, until that end.
    fn listing(&self, client: &Client, show: Show, looks: Option<Instant>) -> io::Result<()> {
        let mut telling = Telling::new(client);
        let Show { listing, form, .. } = show;
        if form == Form::Proc && listing != Listing::Connections {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match listing {
            Listing::State => self.state(form, looks, &mut telling)?,
            Listing::Connections => self.connections(form, looks, &mut telling)?,
            Listing::Flows => self.flows(form, looks, &mut telling)?,
            Listing::Stages => return Err(io::ErrorKind::InvalidInput.into()),
        }
        telling.flush()
    }

    /// Writes the state.
    ///
    /// # Errors
    /// A worker does not answer; or the error of `to`.
    pub(super) fn state(
        &self,
        form: Form,
        looks: Option<Instant>,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        looks.map_or(Ok(()), |end| self.pace.wait(end, SHORT_ANSWER))?;
        let all: Vec<Status> = self.ask(Request::Status)?;
        let together = |mut all: Status, more| {
            all.add(more);
            all
        };
        let mut status = all.into_iter().reduce(together).ok_or(io::ErrorKind::NotFound)?;
        status.offloaded = self.offload.status();
        status.attached = self.rules.attached().map(|attached| attached.status());
        status.left_out =
            self.rules.attached().map(|attached| attached.left_out()).unwrap_or_default();
        status.in_nf_tables =
            self.rules.attached().map(|attached| attached.moved()).unwrap_or_default();
        let talkers = if form == Form::Json { self.talkers(looks)? } else { Vec::new() };
        let generation = self.rules.generation();
        let peer = self.peer_status();
        let state = State {
            status: &status,
            talkers: &talkers,
            generation: &generation,
            took: self.rules.took(),
            unconfirmed: self.rules.unconfirmed(),
            peer: peer.as_ref(),
            started: self.started,
            now: crate::now(),
        };
        penstock_print::write_state(&state, form, to)
    }

    /// Who talks most, found part by part: packets pass between two of them.
    fn talkers(&self, looks: Option<Instant>) -> io::Result<Vec<Talker>> {
        let mut all = Vec::new();
        let page = |path: &Dataplane, first, size| Page::make(path, first, size, talkers::page);
        self.pages(looks, page, |talkers| {
            all.extend(talkers);
            talkers::keep_most(&mut all);
            Ok(())
        })?;
        Ok(all)
    }

    fn connections(
        &self,
        form: Form,
        looks: Option<Instant>,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        let mut list = List::begin(form, connections::KEY, to)?;
        self.list(looks, &mut list, move |path, first, page| {
            let mut all = path.conntrack().iter_from(first);
            if form == Form::Proc {
                all.try_for_each(|c| page.push(c.number(), || Some(ProcLine(c))));
            } else {
                all.try_for_each(|c| page.push(c.number(), || Some(Connection::of(&c))));
            }
        })?;
        list.end()
    }

    fn flows(&self, form: Form, looks: Option<Instant>, to: &mut dyn Write) -> io::Result<()> {
        let mut list = List::begin(form, flows::KEY, to)?;
        self.list(looks, &mut list, |path, first, page| {
            let now = crate::now();
            path.flow_entries(first).try_for_each(|(number, entry)| {
                page.push(number, || Some(Flow::of(&entry?, path.network(), now)))
            });
        })?;
        let mut all = FlowSummary::default();
        self.look(Dataplane::flow_summary)?.iter().for_each(|summary| all.add(summary));
        list.end_with(&Totals(&all))
    }

    /// Says where time goes: rules and stages with packets and ticks, counted by code that is made
    /// for it.
    fn stages(&self, client: &Client, show: Show) -> io::Result<()> {
        /// Longest counting time; the code is slower during it.
        const LONGEST: u32 = 600_000;
        let Show { form, milliseconds, .. } = show;
        if self.config.engine == Engine::Interpreter {
            return client.refuse("time is counted by machine code: --engine jit");
        }
        let one_at_a_time = self.counting.try_lock();
        if one_at_a_time.is_err() {
            return client.refuse("time is being counted already");
        }
        self.workers.tell(|| Request::Profile(self.config.engine, true));
        let end = Instant::now() + Duration::from_millis(milliseconds.min(LONGEST).into());
        let mut there = Ok(());
        while there.is_ok() && Instant::now() < end {
            std::thread::sleep(
                Duration::from_millis(100).min(end.saturating_duration_since(Instant::now())),
            );
            there = client.is_there();
        }
        let lines = self.ask(Request::ProfileLines);
        self.workers.tell(|| Request::Profile(self.config.engine, false));
        there?;
        let mut telling = Telling::new(client);
        let names = SystemNames::default();
        let generation = self.rules.generation();
        let rules = WrittenRules::new(&generation, &names, Format::default(), now());
        penstock_print::write(&together(lines?).written(&rules), form, &mut telling)?;
        telling.flush()?;
        client.say(&Message::Exit(0))
    }

    /// Asks all workers.
    fn ask<T>(&self, request: impl Fn(Sender<T>) -> Request) -> io::Result<Vec<T>> {
        self.workers.ask(request, ANSWER).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// Asks all workers for what their paths know.
    pub(super) fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Dataplane) -> T + Copy + Send + 'static,
    ) -> io::Result<Vec<T>> {
        self.ask(|to| Request::Look(Box::new(move |path| drop(to.send(look(path))))))
    }

    /// Asks one worker after the other for page after page, between which packets pass.
    fn pages<T: Send + 'static>(
        &self,
        looks: Option<Instant>,
        make: impl FnOnce(&Dataplane, u32, PageSize) -> Page<T> + Clone + Send + 'static,
        mut take: impl FnMut(T) -> io::Result<()>,
    ) -> io::Result<()> {
        /// What a page costs besides its contents.
        const LEAST: Duration = Duration::from_micros(20);
        let size = if looks.is_some() { PageSize::SMALL } else { PageSize::LARGE };
        for worker in 0..self.workers.count() {
            let mut next = Some(0);
            while let Some(first) = next {
                looks.map_or(Ok(()), |end| self.pace.wait(end, LEAST))?;
                let make = make.clone();
                let request = |to: Sender<Page<T>>| {
                    Request::Look(Box::new(move |path| drop(to.send(make(path, first, size)))))
                };
                let page = self.workers.ask_one(worker, request, ANSWER);
                let page = page.ok_or(io::ErrorKind::TimedOut)?;
                take(page.content)?;
                next = page.next;
                if looks.is_some() {
                    self.pace.took(page.took);
                }
            }
        }
        Ok(())
    }

    /// Writes the entries of a list. Workers format them, page by page; `fill` puts those into a
    /// page that begin with the connection of a number.
    pub(super) fn list(
        &self,
        looks: Option<Instant>,
        list: &mut List<'_>,
        fill: impl FnOnce(&Dataplane, u32, &mut ListPage<'_>) + Clone + Send + 'static,
    ) -> io::Result<()> {
        let form = list.form();
        let make = move |path: &Dataplane, first, size| {
            Page::make(path, first, size, |path, first, bounds| {
                let mut page = ListPage { entries: Entries::new(form), bounds };
                fill(path, first, &mut page);
                page.entries
            })
        };
        self.pages(looks, make, |entries| list.entries(&entries))
    }
}

/// What the code of all workers has counted, stage by stage.
fn together(all: Vec<Vec<(String, u64, u64)>>) -> Stages {
    let mut stages: Vec<Stage> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (name, times, ticks) in all.into_iter().flatten() {
        match places.get(&name).and_then(|place| stages.get_mut(*place)) {
            Some(stage) => (stage.times, stage.ticks) = (stage.times + times, stage.ticks + ticks),
            None => {
                places.insert(name.clone(), stages.len());
                stages.push(Stage::from((name, times, ticks)));
            }
        }
    }
    Stages::new(stages)
}
