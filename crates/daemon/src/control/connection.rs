// SPDX-License-Identifier: Apache-2.0

//! A client's connection: what is said and heard over it, in time.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use penstock_lang::session::Outcome;
use penstock_lang::source::Files;

use super::budget::{Budget, Exceeded};
use super::protocol::{Message, read, write};
use super::read_ahead::ReadAhead;

/// A connection.
pub(crate) struct Client {
    stream: RefCell<UnixStream>,
    /// Bytes of a message of it.
    limit: usize,
    /// What it may be told, if that is bounded.
    budget: RefCell<Option<Budget>>,
    /// What was received with what was heard; `None` if no more is received than that.
    ahead: RefCell<Option<ReadAhead>>,
}

/// Bytes of a text that are sent at once: a slow reader holds no more of it.
pub(crate) const PIECE: usize = 64 << 10;

/// How long a client may take to say something that is waited for, and to take what is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Reads and writes until a point in time, however little comes and goes at once.
struct Until<'s>(&'s UnixStream, Instant);

impl Until<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl io::Read for Until<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.set_read_timeout(Some(self.left()?))?;
        self.0.read(to)
    }
}

impl io::Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set_write_timeout(Some(self.left()?))?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An error if the other side has closed the connection.
pub(crate) fn is_there(stream: &UnixStream) -> io::Result<()> {
    let mut byte = 0u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: room for one byte, which lives through the call.
    let got = unsafe { libc::recv(stream.as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
    if got == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let fd = self.stream.borrow().as_raw_fd();
        // SAFETY: the stream is open as long as the client is there, and never exchanged.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Client {
    /// A client; its messages have at most so many bytes.
    pub(crate) fn new(stream: UnixStream, limit: usize) -> io::Result<Self> {
        let (budget, ahead) = Default::default();
        Ok(Client { stream: RefCell::new(stream), limit, budget, ahead })
    }

    /// Has messages received together from now on. No other process hears the rest of the connection
    /// then.
    pub(crate) fn read_ahead(&self) {
        self.ahead.borrow_mut().get_or_insert_default();
    }

    /// Whether there is something to hear that was received already.
    pub(crate) fn has_received(&self) -> bool {
        self.ahead.borrow().as_ref().is_some_and(ReadAhead::has_some)
    }

    /// Everything sent from now on is charged to the budget; `None` ends it.
    pub(crate) fn set_budget(&self, budget: Option<Budget>) {
        *self.budget.borrow_mut() = budget;
    }

    /// The deadline for sending, if there is one.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.budget.borrow().as_ref().map(Budget::end)
    }

    /// A message, all of which has to come in that time.
    pub(crate) fn hear(&self, time: Duration) -> io::Result<Message> {
        let stream = self.stream.borrow();
        let mut until = Until(&stream, Instant::now() + time);
        match &mut *self.ahead.borrow_mut() {
            Some(ahead) => read(&mut ahead.over(until), self.limit),
            None => read(&mut until, self.limit),
        }
    }

    /// Whether a message begins within that time. An error if the client has gone.
    pub(crate) fn has_said(&self, time: Duration) -> io::Result<bool> {
        if self.has_received() {
            return Ok(true);
        }
        let mut poll =
            libc::pollfd { fd: self.stream.borrow().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives through the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, time.as_millis() as libc::c_int) };
        if ready > 0 {
            self.is_there()?;
        }
        Ok(ready > 0)
    }

    /// Says why it is not served, and the end.
    pub(crate) fn refuse(&self, reason: &str) -> io::Result<()> {
        self.say(&Message::Err(format!("Error: {reason}\n")))?;
        self.say(&Message::Exit(1))
    }

    /// Says something, texts piece by piece.
    pub(crate) fn say(&self, message: &Message) -> io::Result<()> {
        match message {
            Message::Out(text) => self.say_pieces(text, Message::Out),
            Message::Err(text) => self.say_pieces(text, Message::Err),
            other => self.say_at_once(other, 0),
        }
    }

    /// Says two things, which arrive together.
    pub(crate) fn say_two(&self, first: &Message, second: &Message) -> io::Result<()> {
        let mut bytes = Vec::new();
        write(&mut bytes, first)?;
        write(&mut bytes, second)?;
        self.send(&bytes, 0)
    }

    /// What is for standard output, piece by piece.
    pub(crate) fn say_text(&self, text: &str) -> io::Result<()> {
        self.say_pieces(text, Message::Out)
    }

    fn say_pieces(&self, mut text: &str, message: fn(String) -> Message) -> io::Result<()> {
        while !text.is_empty() {
            let mut len = text.len().min(PIECE);
            while !text.is_char_boundary(len) {
                len -= 1;
            }
            let (piece, rest) = text.split_at(len);
            self.say_at_once(&message(piece.to_owned()), len)?;
            text = rest;
        }
        Ok(())
    }

    fn say_at_once(&self, message: &Message, bytes: usize) -> io::Result<()> {
        let mut encoded = Vec::new();
        write(&mut encoded, message)?;
        self.send(&encoded, bytes)
    }

    /// Sends encoded messages, of which so many bytes are charged to the budget.
    fn send(&self, encoded: &[u8], bytes: usize) -> io::Result<()> {
        let mut until = Instant::now() + PATIENCE;
        if let Some(budget) = &*self.budget.borrow() {
            budget.spend(bytes)?;
            until = until.min(budget.end());
        }
        io::Write::write_all(&mut Until(&self.stream.borrow(), until), encoded)
    }

    /// An error if the client has closed the connection, and said no more before.
    pub(crate) fn is_there(&self) -> io::Result<()> {
        if self.has_received() {
            return Ok(());
        }
        is_there(&self.stream.borrow())
    }

    /// Sends the output of a run, in its order, within the budget of a listing. `false` if the
    /// budget was exceeded: then the client gets a notice.
    pub(crate) fn outcome(&self, outcome: &Outcome, looks: bool) -> io::Result<bool> {
        self.set_budget(Some(Budget::of_listing(looks)));
        let told = self.all_of(outcome);
        self.set_budget(None);
        let Err(e) = told else { return Ok(true) };
        let reason = Exceeded::of(&e).ok_or(e)?;
        self.say(&Message::Err(format!("Error: {reason}\n")))?;
        Ok(false)
    }

    fn all_of(&self, outcome: &Outcome) -> io::Result<()> {
        for merge in &outcome.merges {
            self.say(&Message::Err(format!("{}into:\n\t", merge.rules)))?;
            self.say(&Message::Out(merge.into.clone()))?;
            self.say(&Message::Err("\n".into()))?;
        }
        if !outcome.stdout.is_empty() {
            self.say_text(&outcome.stdout)?;
        }
        if !outcome.stderr.is_empty() {
            self.say(&Message::Err(outcome.stderr.clone()))?;
        }
        Ok(())
    }

    /// Asks the client, and gives its answer.
    pub(crate) fn question(&self, message: &Message) -> Result<Vec<u8>, String> {
        let answer = self.say(message).and_then(|()| self.hear(PATIENCE));
        match answer {
            Ok(Message::Data(bytes)) => Ok(bytes),
            Ok(Message::Failed(reason)) => Err(reason),
            Ok(_) => Err("not an answer".into()),
            Err(e) => Err(e.to_string()),
        }
    }
}

/// A text for a client's standard output, sent in pieces as it grows.
pub(crate) struct Telling<'c> {
    client: &'c Client,
    bytes: Vec<u8>,
}

impl<'c> Telling<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Telling { client, bytes: Vec::new() }
    }
}

impl io::Write for Telling<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.get(..PIECE.saturating_sub(self.bytes.len())).unwrap_or(bytes);
        self.bytes.extend_from_slice(taken);
        if self.bytes.len() >= PIECE {
            self.flush()?;
        }
        Ok(taken.len())
    }

    /// Sends what is there; an incomplete UTF-8 character waits for its rest.
    fn flush(&mut self) -> io::Result<()> {
        let whole = match std::str::from_utf8(&self.bytes) {
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            Ok(_) | Err(_) => self.bytes.len(),
        };
        let rest = self.bytes.split_off(whole);
        let text = text(std::mem::replace(&mut self.bytes, rest));
        if text.is_empty() { Ok(()) } else { self.client.say(&Message::Out(text)) }
    }
}

/// The files of the client, which reads them with its own rights, and its shell.
pub(crate) struct ClientFiles<'c>(pub(crate) &'c Client);

impl Files for ClientFiles<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        self.0.question(&Message::Read(path.to_owned())).map(text)
    }

    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.question(&Message::ReadBytes(path.to_owned()))
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let names = self.0.question(&Message::Glob(pattern.to_owned())).unwrap_or_default();
        names.split(|b| *b == 0).filter(|n| !n.is_empty()).map(|n| text(n.to_vec())).collect()
    }

    fn exec(&self, command: &str) -> Result<String, String> {
        self.0.question(&Message::Exec(command.to_owned())).map(text)
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn long_texts_are_sent_in_pieces_and_arrive_whole() {
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
        // Pieces would end inside of a letter.
        let text = "xé".repeat(PIECE);
        let said = text.clone();
        let teller = std::thread::spawn(move || {
            let client = Client::new(ours, PIECE).expect("a client");
            client.say(&Message::Err(said.clone())).expect("somebody reads");
            let mut telling = Telling::new(&client);
            for byte in said.as_bytes() {
                telling.write_all(&[*byte]).expect("somebody reads");
            }
            telling.flush().expect("somebody reads");
            client.say(&Message::Exit(0)).expect("somebody reads");
        });
        let (mut out, mut errors) = (String::new(), String::new());
        loop {
            match read(&mut theirs, PIECE + 1).expect("no message is longer") {
                Message::Out(piece) => out += &piece,
                Message::Err(piece) => errors += &piece,
                message => break assert_eq!(message, Message::Exit(0)),
            }
        }
        teller.join().expect("it is done");
        assert!(out == text && errors == text);
    }

    #[test]
    fn output_over_budget_is_cut_with_a_notice() {
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
        let client = Client::new(ours, PIECE).expect("a client");
        client.set_budget(Some(Budget::for_test(10)));
        client.say(&Message::Out("12345678".into())).expect("there is room");
        let error = client.say(&Message::Out("123".into())).expect_err("it is too much");
        let reason = Exceeded::of(&error).expect("that is the reason");
        client.set_budget(None);
        client.refuse(&reason.to_string()).expect("there is room");
        let mut heard = || read(&mut theirs, PIECE).expect("a message");
        assert_eq!(heard(), Message::Out("12345678".into()));
        let said = "Error: the listing is incomplete: it is longer than is allowed\n";
        assert_eq!((heard(), heard()), (Message::Err(said.into()), Message::Exit(1)));
    }
}
