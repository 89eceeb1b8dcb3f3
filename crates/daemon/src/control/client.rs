// SPDX-License-Identifier: Apache-2.0

//! The side of those who ask.

use std::io::{self, BufRead, IsTerminal, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use penstock_lang::session::Outcome;
use penstock_lang::source::Files;

use super::address;
use super::connection::is_there;
use super::peer::Peer;
use super::protocol::{LONGEST, Message, read, write};
use super::read_ahead::ReadAhead;
use super::{CaptureCall, Captured};
use crate::{err, errln, out};

/// What a capture tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureEvent {
    /// Frames.
    Frames(Vec<Captured>),
    /// So many so far are lost. Said when the capture has begun, too.
    Lost(u64),
}

/// Who hears what a call of nft says.
pub trait Caller {
    /// Takes what is for standard output.
    ///
    /// # Errors
    /// Nobody listens any more. That is no error of the call, but its end.
    fn out(&mut self, text: &str) -> io::Result<()>;

    /// Takes what is for standard error.
    fn err(&mut self, text: &str);

    /// The addresses of a host that a text names.
    fn addresses(&mut self, host: &str) -> Vec<IpAddr> {
        resolve(host)
    }

    /// Whether a change that is in force is kept, which is taken back after a time otherwise. `None`:
    /// the user is asked.
    fn keeps(&mut self, time: Duration) -> Option<bool> {
        let _ = time;
        None
    }

    /// Takes what a text has come to, in the order in which nft prints it.
    fn outcome(&mut self, outcome: &Outcome) {
        for merge in &outcome.merges {
            self.err(&format!("{}into:\n\t", merge.rules));
            let _ = self.out(&merge.into);
            self.err("\n");
        }
        if !outcome.stdout.is_empty() {
            let _ = self.out(&outcome.stdout);
        }
        if !outcome.stderr.is_empty() {
            self.err(&outcome.stderr);
        }
    }
}

/// Standard output and standard error of this process.
#[derive(Debug)]
pub struct Console;

impl Caller for Console {
    fn out(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }

    fn err(&mut self, text: &str) {
        err!("{text}");
    }
}

/// A connection to the dataplane of the network namespace.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    lines: StandardInput,
}

/// Lines that were read. In a mutex, so that threads may share a client.
type Lines = Mutex<Receiver<io::Result<String>>>;

/// Lines of standard input. A thread reads one when it is asked for; one that comes too late is the
/// next one, and so none is lost.
#[derive(Debug, Default)]
struct StandardInput {
    /// Who asks for a line, and where it comes.
    reader: Option<(Sender<()>, Lines)>,
    /// A line was asked for, and has not come.
    waits: bool,
}

impl StandardInput {
    /// The next line, with its end; empty at the end of the input. `None` if none comes in time.
    fn next(&mut self, time: Option<Duration>) -> Option<io::Result<String>> {
        let (ask, lines) = self.reader.get_or_insert_with(|| {
            let (ask, asked) = channel::<()>();
            let (to, lines) = channel();
            std::thread::spawn(move || {
                for () in asked {
                    let mut line = String::new();
                    let read = io::stdin().lock().read_line(&mut line);
                    if to.send(read.map(|_| line)).is_err() {
                        return;
                    }
                }
            });
            (ask, Mutex::new(lines))
        });
        if !std::mem::replace(&mut self.waits, true) {
            // A reader that is gone is noticed below.
            let _ = ask.send(());
        }
        let lines = lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        let line = match time {
            Some(time) => lines.recv_timeout(time).ok()?,
            None => lines.recv().ok()?,
        };
        self.waits = false;
        Some(line)
    }
}

/// An answer that is cut off is an error.
fn cut_off(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the answer is cut off"),
        _ => error,
    }
}

impl Client {
    /// Connects. `None` if there is no dataplane.
    ///
    /// # Errors
    /// The user has no access; or the listener is neither root nor the own user, and so must not
    /// get files or run commands.
    pub fn connect() -> io::Result<Option<Client>> {
        Ok(Client::connect_in(None)?.map(|(client, _)| client))
    }

    /// The number of the process that listens: another one after the dataplane was started again.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn process(&self) -> io::Result<u32> {
        Ok(Peer::of(&self.stream)?.process)
    }

    /// Connects to the dataplane of this network namespace, or of another one, and says whether the
    /// client may do everything. `None` if there is no dataplane.
    pub(super) fn connect_in(
        namespace: Option<BorrowedFd<'_>>,
    ) -> io::Result<Option<(Client, bool)>> {
        match address::connect(namespace)? {
            Some((stream, all)) if Peer::of(&stream)?.is_trusted() => {
                Ok(Some((Client { stream, lines: StandardInput::default() }, all)))
            }
            Some(_) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the dataplane of this network namespace is another user's",
            )),
            None => Ok(None),
        }
    }

    /// Asks, prints what is said, and gives the exit status. `files` are what rulesets may include.
    pub fn ask(&mut self, message: &Message, files: &dyn Files) -> io::Result<u8> {
        self.ask_for(message, files, &mut Console)
    }

    /// Asks, tells a caller what is said, and gives the exit status. `files` are what rulesets may
    /// include.
    pub fn ask_for(
        &mut self,
        message: &Message,
        files: &dyn Files,
        caller: &mut dyn Caller,
    ) -> io::Result<u8> {
        self.say(message)?;
        self.answers(files, caller)
    }

    /// Sends a message. A dataplane that refuses a client answers and closes the connection before
    /// it reads the message: that is no error here, since the answer can be read.
    pub(super) fn say(&mut self, message: &Message) -> io::Result<()> {
        match write(&mut self.stream, message) {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(())
            }
            said => said,
        }
    }

    /// Asks, and gives what is for standard output. What is for standard error is an error.
    pub fn text(&mut self, message: &Message) -> io::Result<String> {
        self.say(message)?;
        let (mut out, mut error) = (String::new(), String::new());
        loop {
            match self.hear()? {
                Message::Out(text) => out.push_str(&text),
                Message::Err(text) => error.push_str(&text),
                Message::Exit(0) => return Ok(out),
                Message::Exit(_) => {
                    let error = error.trim_end();
                    return Err(io::Error::other(
                        error.strip_prefix("Error: ").unwrap_or(error).to_owned(),
                    ));
                }
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer")),
            }
        }
    }

    /// The ruleset in force, as bytes of [`Ruleset::save`](penstock_ruleset::Ruleset::save).
    ///
    /// # Errors
    /// Those of the connection, and what the dataplane refuses.
    pub fn ruleset(&mut self) -> io::Result<Vec<u8>> {
        self.say(&Message::Ruleset)?;
        let (mut bytes, mut error) = (None, String::new());
        loop {
            match self.hear()? {
                Message::Data(data) => bytes = Some(data),
                Message::Err(text) => error.push_str(text.trim_start_matches("Error: ")),
                Message::Exit(_) => {
                    return bytes.ok_or_else(|| io::Error::other(error.trim_end().to_owned()));
                }
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer")),
            }
        }
    }

    /// Requests the end, and waits until the devices are returned.
    pub fn down(&mut self) -> io::Result<u8> {
        self.end(&Message::Down)
    }

    /// Requests that the attached ruleset be taken away, and waits until it is. A dataplane with
    /// ports refuses.
    pub fn detach(&mut self) -> io::Result<u8> {
        self.end(&Message::Detach)
    }

    fn end(&mut self, request: &Message) -> io::Result<u8> {
        self.say(request)?;
        loop {
            match read(&mut self.stream, LONGEST) {
                Ok(Message::Err(text)) => err!("{text}"),
                Ok(Message::Exit(status)) => return Ok(status),
                Ok(_) => {}
                // It has ended, as it was to.
                Err(_) => return Ok(0),
            }
        }
    }

    /// Captures: calls `take` with frames, or with how many are lost so far, until it gives
    /// `false`, or the connection is cut, which is no error. Returns the exit status.
    pub fn capture(
        &mut self,
        call: &CaptureCall,
        take: &mut dyn FnMut(CaptureEvent) -> io::Result<bool>,
    ) -> io::Result<u8> {
        self.say(&Message::Capture(call.words().to_vec()))?;
        loop {
            let seen = match read(&mut self.stream, LONGEST) {
                Ok(Message::Frames(bytes)) => CaptureEvent::Frames(
                    Captured::all(&bytes)
                        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not frames"))?,
                ),
                Ok(Message::Lost(count)) => CaptureEvent::Lost(count),
                Ok(Message::Err(text)) => {
                    err!("{text}");
                    continue;
                }
                Ok(Message::Exit(status)) => return Ok(status),
                Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer")),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(e) => return Err(e),
            };
            if !take(seen)? {
                return Ok(0);
            }
        }
    }

    /// What is answered next. An answer that is cut off is an error.
    fn hear(&mut self) -> io::Result<Message> {
        read(&mut self.stream, LONGEST).map_err(cut_off)
    }

    /// What is said next, within a time; what is received with it is kept.
    pub(super) fn hear_within(
        &mut self,
        ahead: &mut ReadAhead,
        time: Duration,
    ) -> io::Result<Message> {
        if !ahead.has_some() {
            self.stream.set_read_timeout(Some(time))?;
        }
        read(&mut ahead.over(&mut self.stream), LONGEST).map_err(cut_off)
    }

    /// Says what was written before.
    pub(super) fn say_written(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Whether something is said, or the connection is closed.
    pub(super) fn has_said(&self) -> bool {
        let mut poll =
            libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives through the call.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// The connection's descriptor.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Another handle of the connection, to cut it from another thread.
    pub fn connection(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }

    fn answers(&mut self, files: &dyn Files, caller: &mut dyn Caller) -> io::Result<u8> {
        loop {
            match self.hear()? {
                Message::Out(text) => {
                    // A reader that has seen enough is no error of ours, but the end.
                    if caller.out(&text).is_err() {
                        return Ok(0);
                    }
                }
                Message::Err(text) => caller.err(&text),
                Message::Exit(status) => return Ok(status),
                Message::Read(path) => self.answer(files.read(&path).map(String::into_bytes))?,
                Message::ReadBytes(path) => self.answer(files.read_bytes(&path))?,
                Message::Glob(pattern) => {
                    let names = files.glob(&pattern);
                    self.answer(Ok(names
                        .into_iter()
                        .flat_map(|n| [n.as_bytes(), &[0]].concat())
                        .collect()))?;
                }
                Message::Exec(command) => {
                    self.answer(files.exec(&command).map(String::into_bytes))?
                }
                Message::Resolve(host) => self.answer(Ok(as_texts(&caller.addresses(&host))))?,
                Message::Unconfirmed(milliseconds) => {
                    let time = Duration::from_millis(milliseconds);
                    match caller.keeps(time) {
                        None => self.confirm(time)?,
                        Some(true) => write(&mut self.stream, &Message::Confirm)?,
                        Some(false) => self.say(&Message::Failed("no".into()))?,
                    }
                }
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer")),
            }
        }
    }

    fn answer(&mut self, answer: Result<Vec<u8>, String>) -> io::Result<()> {
        self.say(&answer.map_or_else(Message::Failed, Message::Data))
    }

    /// Asks the user. No answer is no confirmation: the dataplane takes the change back then. A line
    /// that comes after that is no answer, and is kept for who reads lines next.
    fn confirm(&mut self, time: Duration) -> io::Result<()> {
        err!("The change is in force. Type \"yes\" within {} s to keep it: ", time.as_secs());
        match self.wait_for_line(time)? {
            Some(line) if line.trim() == "yes" => write(&mut self.stream, &Message::Confirm),
            // Without a terminal the end of the input says nothing: another call may confirm.
            Some(line) if line.is_empty() && !io::stdin().is_terminal() => {
                errln!("\nNobody is asked; `penstock confirm` keeps it.");
                Ok(())
            }
            Some(_) => write(&mut self.stream, &Message::Failed("no".into())),
            None => {
                errln!("");
                Ok(())
            }
        }
    }

    /// Waits for a line of the user's, as long as the dataplane is there and has nothing to say:
    /// `None` if the change was confirmed elsewhere, or taken back.
    fn wait_for_line(&mut self, time: Duration) -> io::Result<Option<String>> {
        /// How soon a closed connection, or an answer, is noticed.
        const PULSE: Duration = Duration::from_millis(100);
        /// How long after its time the dataplane may take a change back.
        const LATE: Duration = Duration::from_secs(10);
        let end = Instant::now() + time + LATE;
        loop {
            match self.lines.next(Some(PULSE)) {
                Some(line) => return line.map(Some),
                None => {
                    is_there(&self.stream)?;
                    if self.has_said() || Instant::now() >= end {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Commands line by line until `quit` or the end. Returns whether all went well.
    pub fn interact(&mut self, args: Vec<String>, files: &dyn Files) -> io::Result<u8> {
        let status = self.ask(&Message::Nft(args), files)?;
        if status != 0 {
            return Ok(status);
        }
        let prompt = io::stdin().is_terminal();
        loop {
            if prompt {
                out!("nft> ");
            }
            let Some(mut line) = self.lines.next(None).transpose()? else { return Ok(0) };
            if line.is_empty() {
                return Ok(0);
            }
            // A backslash at the end continues a line.
            while line.ends_with("\\\n")
                && let Some(more) = self.lines.next(None).transpose()?
                && !more.is_empty()
            {
                line.push_str(&more);
            }
            let text = line.trim_end_matches('\n');
            if text.trim() == "quit" {
                return Ok(0);
            }
            self.ask(&Message::Line(text.to_owned()), files)?;
        }
    }
}

/// Addresses of a host, as this machine resolves its name.
fn resolve(host: &str) -> Vec<IpAddr> {
    let found = (host, 0u16).to_socket_addrs();
    found.map(|all| all.map(|address| address.ip()).collect()).unwrap_or_default()
}

/// Addresses as texts, with zeroes between them.
fn as_texts(addresses: &[IpAddr]) -> Vec<u8> {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join("\0").into_bytes()
}

/// Addresses of a host, as texts, with zeroes between them.
pub(crate) fn addresses_of(host: &str) -> Vec<u8> {
    as_texts(&resolve(host))
}
