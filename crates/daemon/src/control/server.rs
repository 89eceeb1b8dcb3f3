//! Connections: who they are, what they may, and what they ask.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use penstock_lang::session::NOT_PERMITTED;
use penstock_path::{Engine, FlowSummary};
use serde::{Deserialize, Serialize};

use super::address::Listeners;
use super::connection::{Client, PATIENCE};
use super::peer::Peer;
use super::protocol::{LONGEST, Message};
use super::{CaptureCall, Rules, ShowAs};
use crate::daemon::{Config, View};
use crate::evaluator::Evaluator;
use crate::listing::{List, Page};
use crate::log;
use crate::offload::Offload;
use crate::seccomp::{self, Thread};
use crate::status::Status;
use crate::talkers::{Talker, keep_most};
use crate::worker::Request;
use crate::workers::Workers;

/// Clients at a time, and of these such that may only look: so there is always room for those who may act.
const CLIENTS: usize = 64;
const LOOKERS: usize = 32;
/// Longest message of a client that may only look: only what changes a ruleset is long.
const SHORT: usize = 64 << 10;
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
    clients: AtomicUsize,
    lookers: AtomicUsize,
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
            unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// What a client may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rights {
    All,
    Look,
}

impl Rights {
    /// Bytes of the longest message of such a client.
    pub(crate) fn longest(self) -> usize {
        match self {
            Rights::All => LONGEST,
            Rights::Look => SHORT,
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
        let (clients, lookers, counting) = Default::default();
        let started = crate::now();
        Arc::new(Server {
            rules,
            workers,
            offload,
            config,
            evaluator,
            end,
            clients,
            lookers,
            counting,
            started,
        })
    }

    /// Serves connections, each on a thread of its own, until the listener is shut down. Who connects there has those rights
    /// at most.
    fn serve(self: Arc<Self>, listener: &UnixListener, most: Rights) {
        for stream in listener.incoming() {
            let stream = match stream {
                Ok(stream) => stream,
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => return,
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            if self.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
                self.clients.fetch_sub(1, Ordering::Relaxed);
                // There is room for it in a socket that is new: nobody waits.
                let _ = Client::new(stream, SHORT).and_then(|client| client.refuse("too many clients"));
                continue;
            }
            let server = self.clone();
            let started = Builder::new().name("client".into()).spawn(move || {
                seccomp::enter(Thread::Client);
                // Whoever goes away in the middle has no more to be told.
                let _ = server.client(stream, most);
                server.clients.fetch_sub(1, Ordering::Relaxed);
            });
            if started.is_err() {
                self.clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn client(&self, stream: UnixStream, most: Rights) -> io::Result<()> {
        let peer = Peer::of(&stream)?;
        if most == Rights::All && peer.is_trusted() {
            return self.serve_one(peer, Client::new(stream, LONGEST)?, Rights::All);
        }
        let client = Client::new(stream, SHORT)?;
        if !self.config.readers {
            return client.refuse(NOT_PERMITTED);
        }
        if self.lookers.fetch_add(1, Ordering::Relaxed) >= LOOKERS {
            self.lookers.fetch_sub(1, Ordering::Relaxed);
            return client.refuse("too many clients");
        }
        // What they make us do has time.
        // SAFETY: no pointers; 0 is the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        let result = self.serve_one(peer, client, Rights::Look);
        self.lookers.fetch_sub(1, Ordering::Relaxed);
        result
    }

    fn serve_one(&self, peer: Peer, client: Client, rights: Rights) -> io::Result<()> {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", peer.process)).unwrap_or_default();
        let process = (peer.process, name.trim().to_owned());
        let message = client.hear(PATIENCE)?;
        let status = match message {
            Message::Nft(args) => match self.nft(&client, args, rights, &process)? {
                Some(status) => status,
                // A child has told it all.
                None => return Ok(()),
            },
            Message::Show(how) => {
                client.say(&Message::Out(self.shown(how)?))?;
                0
            }
            Message::Stages(milliseconds) if rights == Rights::All => self.stages(&client, milliseconds)?,
            Message::Connections => self.list(&client, List::Connections)?,
            Message::Flows => self.list(&client, List::Flows)?,
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
                    client.say(&Message::Err("Error: no change waits for its confirmation\n".into()))?;
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
    fn ask<T>(&self, request: impl Fn(std::sync::mpsc::Sender<T>) -> Request) -> io::Result<Vec<T>> {
        self.workers.ask(request, ANSWER).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// Asks one worker after the other for page after page, between which packets pass; a page says with which number the next
    /// one begins.
    fn pages<T>(
        &self,
        request: impl Fn(u32, std::sync::mpsc::Sender<T>) -> Request,
        mut page: impl FnMut(T) -> io::Result<Option<u32>>,
    ) -> io::Result<()> {
        for worker in 0..self.workers.count() {
            let mut next = Some(0);
            while let Some(first) = next {
                let answer = self.workers.ask_one(worker, |to| request(first, to), ANSWER);
                next = page(answer.ok_or(io::ErrorKind::TimedOut)?)?;
            }
        }
        Ok(())
    }

    /// What there is to show.
    pub(crate) fn shown(&self, how: ShowAs) -> io::Result<String> {
        let all: Vec<Status> = self.ask(Request::Status)?;
        let together = |mut all: Status, more| {
            all.add(more);
            all
        };
        let mut status = all.into_iter().reduce(together).ok_or(io::ErrorKind::NotFound)?;
        status.offloaded = self.offload.status();
        let generation = self.rules.generation();
        let talkers = if how == ShowAs::Json { self.talkers()? } else { Vec::new() };
        let view = View {
            status: &status,
            talkers: &talkers,
            generation: &generation,
            took: self.rules.took(),
            unconfirmed: self.rules.unconfirmed(),
            started: self.started,
            now: crate::now(),
        };
        Ok((self.config.show)(&view, how))
    }

    /// Who talks most, found part by part: packets pass between two of them.
    fn talkers(&self) -> io::Result<Vec<Talker>> {
        let mut all = Vec::new();
        self.pages(Request::Talkers, |(some, next)| {
            all.extend(some);
            keep_most(&mut all);
            Ok(next)
        })?;
        Ok(all)
    }

    /// Says where time goes: rules and stages with packets and ticks, counted by code that is made for it.
    fn stages(&self, client: &Client, milliseconds: u32) -> io::Result<u8> {
        /// Longest that is counted; the code is slower meanwhile.
        const LONGEST: u32 = 600_000;
        if self.config.engine == Engine::Interpreter {
            client.say(&Message::Err("Error: time is counted by machine code: --engine jit\n".into()))?;
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
            std::thread::sleep(Duration::from_millis(100).min(end.saturating_duration_since(Instant::now())));
            there = client.is_there();
        }
        let lines = self.ask(Request::ProfileLines);
        self.workers.tell(|| Request::Profile(self.config.engine, false));
        there?;
        client.say(&Message::Out((self.config.profile)(together(lines?))))?;
        Ok(0)
    }

    /// Says a listing page by page, between which packets pass.
    fn list(&self, client: &Client, list: List) -> io::Result<u8> {
        let request = |first, to| Request::List(list, first, to);
        self.pages(request, |page: Page| {
            if !page.text.is_empty() {
                client.say(&Message::Out(page.text))?;
            }
            Ok(page.next)
        })?;
        if list == List::Flows {
            let mut all = FlowSummary::default();
            self.ask(Request::FlowSummary)?.iter().for_each(|summary| all.add(summary));
            client.say(&Message::Out(all.to_string()))?;
        }
        Ok(0)
    }
}
