// SPDX-License-Identifier: Apache-2.0

//! Connections: who they are, what they may, and what they ask.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use penstock_lang::session::NOT_PERMITTED;
use penstock_path::{Engine, FlowSummary};

use super::address::Listeners;
use super::admission::{Admission, Rights, SHORT};
use super::budget::{Budget, Exceeded, Pace};
use super::connection::{Client, PATIENCE, Telling};
use super::peer::Peer;
use super::protocol::Message;
use super::{CaptureCall, Rules, ShowAs};
use crate::daemon::{Config, View};
use crate::evaluator::Evaluator;
use crate::listing::{List, Page, PageSize};
use crate::offload::Offload;
use crate::seccomp::{self, Thread};
use crate::status::Status;
use crate::talkers::{Talker, TalkersPage, keep_most};
use crate::worker::Request;
use crate::workers::Workers;
use crate::{log, rights};

/// How long those who may only look have to say what they want.
const HEARD: Duration = Duration::from_secs(5);
/// What an answer that is no listing counts as, of a worker's time.
const SHORT_ANSWER: Duration = Duration::from_micros(100);
/// How long the worker may take.
const ANSWER: Duration = Duration::from_secs(5);

/// What connections share.
pub(crate) struct Server {
    pub(crate) rules: Arc<Rules>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) offload: Arc<Offload>,
    pub(crate) config: Arc<Config>,
    pub(crate) evaluator: Arc<Evaluator>,
    /// Said once when the dataplane is to end.
    pub(crate) end: Box<dyn Fn() + Send + Sync>,
    admission: Arc<Admission>,
    /// How often workers are asked for those who may only look.
    pace: Pace,
    /// Held by who counts time.
    counting: Mutex<()>,
    /// Nanoseconds since the epoch.
    started: u64,
}

/// Connections are being served.
pub(crate) struct Serving(Vec<(UnixListener, JoinHandle<()>)>);

impl Serving {
    /// Begins.
    pub(crate) fn begin(server: &Arc<Server>, listeners: Listeners) -> io::Result<Self> {
        let Listeners { private, public } = listeners;
        let doors = [(Rights::All, Some(private)), (Rights::Look, public)];
        let mut serving = Vec::new();
        for (most, listener) in doors {
            let Some(listener) = listener else { continue };
            let (own, server) = (listener.try_clone()?, server.clone());
            let thread = Builder::new().name("control".into()).spawn(move || {
                seccomp::enter(Thread::Control);
                server.serve(&own, most);
            })?;
            serving.push((listener, thread));
        }
        Ok(Serving(serving))
    }

    /// Ends: nobody can connect any more. Clients that are there stay connected.
    pub(crate) fn end(self) {
        for (listener, thread) in self.0 {
            // SAFETY: no pointers. Whoever waits for connections is told that there are none.
            let told = unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) } == 0;
            // One that was not told ends with the process; one that has panicked has said so.
            if told {
                let _ = thread.join();
            }
        }
    }
}

/// What the code of all workers has counted, line by line.
fn together(all: Vec<Vec<(String, u64, u64)>>) -> Vec<(String, u64, u64)> {
    let mut lines: Vec<(String, u64, u64)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (name, count, ticks) in all.into_iter().flatten() {
        match places.get(&name).and_then(|place| lines.get_mut(*place)) {
            Some(line) => (line.1, line.2) = (line.1 + count, line.2 + ticks),
            None => {
                places.insert(name.clone(), lines.len());
                lines.push((name, count, ticks));
            }
        }
    }
    lines
}

impl Server {
    pub(crate) fn new(
        rules: Arc<Rules>,
        workers: Arc<Workers>,
        offload: Arc<Offload>,
        config: Arc<Config>,
        evaluator: Arc<Evaluator>,
        end: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Self> {
        let admission = Admission::new(config.readers, rights::spare_descriptors());
        let (pace, counting, started) = (Pace::new(), Mutex::default(), crate::now());
        Arc::new(Server {
            rules,
            workers,
            offload,
            config,
            evaluator,
            end,
            admission,
            pace,
            counting,
            started,
        })
    }

    /// Serves connections, each on a thread of its own, until the listener is shut down. Who
    /// connects there has those rights at most.
    fn serve(self: Arc<Self>, listener: &UnixListener, most: Rights) {
        for stream in listener.incoming() {
            let stream = match stream {
                Ok(stream) => stream,
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => return,
                // The client has gone meanwhile, or there are no descriptors.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            // Whoever goes away in the middle has no more to be told.
            let _ = self.clone().begin(stream, most);
        }
    }

    /// Serves a client on a thread of its own, or turns it away.
    fn begin(self: Arc<Self>, stream: UnixStream, most: Rights) -> io::Result<()> {
        let peer = Peer::of(&stream)?;
        let place = match self.admission.admit(peer, most) {
            Ok(place) => place,
            Err(reason) => {
                // There is room for it in a socket that is new: nobody waits.
                stream.set_nonblocking(true)?;
                return Client::new(stream, SHORT)?.refuse(reason);
            }
        };
        Builder::new().name("client".into()).spawn(move || {
            seccomp::inherit("client");
            // As above.
            let _ = self.client(peer, stream, place.rights);
            drop(place);
        })?;
        Ok(())
    }

    fn client(&self, peer: Peer, stream: UnixStream, rights: Rights) -> io::Result<()> {
        if rights == Rights::Look {
            // What they make us do has time.
            // SAFETY: no pointers; 0 is the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        }
        self.serve_one(peer, Client::new(stream, rights.longest())?, rights)
    }

    fn serve_one(&self, peer: Peer, client: Client, rights: Rights) -> io::Result<()> {
        let name =
            std::fs::read_to_string(format!("/proc/{}/comm", peer.process)).unwrap_or_default();
        let process = (peer.process, name.trim().to_owned());
        let looks = rights == Rights::Look;
        let message = client.hear(if looks { HEARD } else { PATIENCE })?;
        if matches!(message, Message::Show(_) | Message::Connections | Message::Flows) {
            client.set_budget(Some(Budget::of_listing(looks)));
            let told = self.listing(&client, &message, looks);
            client.set_budget(None);
            return match told {
                Ok(()) => client.say(&Message::Exit(0)),
                Err(e) => match Exceeded::of(&e) {
                    Some(reason) => client.refuse(&reason.to_string()),
                    None => Err(e),
                },
            };
        }
        let status = match message {
            Message::Nft(args) => match self.nft(&client, args, rights, &process)? {
                Some(status) => status,
                // A child has told it all.
                None => return Ok(()),
            },
            Message::Stages(milliseconds) if rights == Rights::All => {
                self.stages(&client, milliseconds)?
            }
            Message::Down | Message::Confirm | Message::Capture(_) | Message::Stages(_)
                if rights == Rights::Look =>
            {
                return client.refuse(NOT_PERMITTED);
            }
            Message::Capture(words) => match CaptureCall::of(words) {
                Some(call) => match self.capture(&client, &call, &process)? {
                    Some(status) => status,
                    None => return Ok(()),
                },
                None => return Err(io::ErrorKind::InvalidData.into()),
            },
            Message::Confirm => match self.rules.confirm(None) {
                true => 0,
                false => {
                    client.say(&Message::Err(
                        "Error: no change waits for its confirmation\n".into(),
                    ))?;
                    1
                }
            },
            Message::Down => {
                log(format_args!("ended by process {} ({})", process.0, process.1));
                (self.end)();
                // The connection closes when all is given back.
                std::thread::sleep(Duration::from_secs(60));
                0
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        client.say(&Message::Exit(status))
    }

    /// Asks all workers.
    fn ask<T>(
        &self,
        request: impl Fn(std::sync::mpsc::Sender<T>) -> Request,
    ) -> io::Result<Vec<T>> {
        self.workers.ask(request, ANSWER).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// Asks one worker after the other for page after page, between which packets pass. A page says
    /// with which number the next one begins, and how long it took. With an end, somebody asks who
    /// may only look, and who waits until the workers have time, until that end.
    fn pages<T>(
        &self,
        looks: Option<Instant>,
        request: impl Fn(u32, PageSize, std::sync::mpsc::Sender<T>) -> Request,
        mut page: impl FnMut(T) -> io::Result<(Option<u32>, Duration)>,
    ) -> io::Result<()> {
        /// What a page costs besides its contents.
        const LEAST: Duration = Duration::from_micros(20);
        let size = if looks.is_some() { PageSize::SMALL } else { PageSize::LARGE };
        for worker in 0..self.workers.count() {
            let mut next = Some(0);
            while let Some(first) = next {
                looks.map_or(Ok(()), |end| self.pace.wait(end, LEAST))?;
                let answer = self.workers.ask_one(worker, |to| request(first, size, to), ANSWER);
                let took;
                (next, took) = page(answer.ok_or(io::ErrorKind::TimedOut)?)?;
                if looks.is_some() {
                    self.pace.took(took);
                }
            }
        }
        Ok(())
    }

    /// Tells a client of the state, or of connections or flows.
    fn listing(&self, client: &Client, message: &Message, looks: bool) -> io::Result<()> {
        let looks = client.end().filter(|_| looks);
        match message {
            Message::Show(how) => {
                let mut telling = Telling::new(client);
                self.show_to(*how, looks, &mut telling)?;
                telling.flush()
            }
            Message::Flows => self.list(client, List::Flows, looks),
            _ => self.list(client, List::Connections, looks),
        }
    }

    /// Writes what there is to show.
    ///
    /// # Errors
    /// A worker does not answer; or what `to` says.
    pub(crate) fn show(&self, how: ShowAs, to: &mut dyn Write) -> io::Result<()> {
        self.show_to(how, None, to)
    }

    fn show_to(&self, how: ShowAs, looks: Option<Instant>, to: &mut dyn Write) -> io::Result<()> {
        looks.map_or(Ok(()), |end| self.pace.wait(end, SHORT_ANSWER))?;
        let all: Vec<Status> = self.ask(Request::Status)?;
        let together = |mut all: Status, more| {
            all.add(more);
            all
        };
        let mut status = all.into_iter().reduce(together).ok_or(io::ErrorKind::NotFound)?;
        status.offloaded = self.offload.status();
        let talkers = if how == ShowAs::Json { self.talkers(looks)? } else { Vec::new() };
        let generation = self.rules.generation();
        let view = View {
            status: &status,
            talkers: &talkers,
            generation: &generation,
            took: self.rules.took(),
            unconfirmed: self.rules.unconfirmed(),
            started: self.started,
            now: crate::now(),
        };
        (self.config.show)(&view, how, to)
    }

    /// Who talks most, found part by part: packets pass between two of them.
    fn talkers(&self, looks: Option<Instant>) -> io::Result<Vec<Talker>> {
        let mut all = Vec::new();
        self.pages(looks, Request::Talkers, |page: TalkersPage| {
            all.extend(page.talkers);
            keep_most(&mut all);
            Ok((page.next, page.took))
        })?;
        Ok(all)
    }

    /// Says where time goes: rules and stages with packets and ticks, counted by code that is made
    /// for it.
    fn stages(&self, client: &Client, milliseconds: u32) -> io::Result<u8> {
        /// Longest that is counted; the code is slower meanwhile.
        const LONGEST: u32 = 600_000;
        if self.config.engine == Engine::Interpreter {
            client.say(&Message::Err(
                "Error: time is counted by machine code: --engine jit\n".into(),
            ))?;
            return Ok(1);
        }
        let one_at_a_time = self.counting.try_lock();
        if one_at_a_time.is_err() {
            client.say(&Message::Err("Error: time is being counted already\n".into()))?;
            return Ok(1);
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
        client.say(&Message::Out((self.config.profile)(together(lines?))))?;
        Ok(0)
    }

    /// Says a listing page by page, between which packets pass.
    fn list(&self, client: &Client, list: List, looks: Option<Instant>) -> io::Result<()> {
        let mut telling = Telling::new(client);
        let request = |first, size, to| Request::List(list, first, size, to);
        self.pages(looks, request, |page: Page| {
            telling.write_all(page.text.as_bytes())?;
            Ok((page.next, page.took))
        })?;
        if list == List::Flows {
            let mut all = FlowSummary::default();
            self.ask(Request::FlowSummary)?.iter().for_each(|summary| all.add(summary));
            write!(telling, "{all}")?;
        }
        telling.flush()
    }
}
