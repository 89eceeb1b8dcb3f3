// SPDX-License-Identifier: Apache-2.0

//! The side of `penstock exec`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::client::Client;
use super::netfilter::{AROUND, Datagram, Request};
use super::protocol::{LONGEST, Message, write};
use super::read_ahead::ReadAhead;
use super::{PATIENCE, SHORT};

/// How long an answer may take: as long as a batch, which has its own limit, and those before it.
const ANSWER: Duration = Duration::from_secs(3600);

/// A connection for netfilter sockets to the dataplane of the network namespace.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    /// Bytes of the longest datagram that the dataplane takes.
    longest: usize,
    /// What the dataplane has said, and was received with what was heard.
    ahead: ReadAhead,
    /// What it is yet to be told.
    held: Vec<u8>,
}

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN`, and its answer.
const GETGEN: u16 = 10 << 8 | 16;
const NEWGEN: u16 = 10 << 8 | 15;
/// `NFTA_GEN_ID`
const GEN_ID: u16 = 1;
/// Bytes of `struct nlmsghdr` and `struct nfgenmsg`.
const HEADERS: usize = 20;

/// The message that asks for the generation.
fn get_generation() -> Vec<u8> {
    let mut message = (HEADERS as u32).to_ne_bytes().to_vec();
    message.extend(GETGEN.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.resize(HEADERS, 0);
    message
}

/// The generation of an answer.
fn generation_of(answer: &[u8]) -> Option<u32> {
    let half = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let is_first = half(4)? == NEWGEN && half(HEADERS)? == 8 && half(HEADERS + 2)? == GEN_ID;
    let bytes = answer.get(HEADERS + 4..)?.first_chunk().filter(|_| is_first)?;
    Some(u32::from_be_bytes(*bytes))
}

/// Bytes that are held at most.
const HELD: usize = 64 << 10;

impl Connection {
    /// Connects to the dataplane of this network namespace, or of another one. `None` if there is
    /// none.
    ///
    /// # Errors
    /// Those of [`Client::connect`], and for another namespace those of setns(2).
    pub fn open(namespace: Option<BorrowedFd<'_>>) -> io::Result<Option<Self>> {
        let Some((mut client, all)) = Client::connect_in(namespace)? else { return Ok(None) };
        client.say(&Message::Netfilter)?;
        let longest = if all { LONGEST } else { SHORT };
        let (ahead, held) = Default::default();
        Ok(Some(Connection { client, longest: longest - AROUND, ahead, held }))
    }

    /// Bytes of the longest datagram that a request may have.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Whether the dataplane has said something that [`Connection::hear`] gives, or is gone.
    pub fn has_said(&self) -> bool {
        self.ahead.has_some() || self.client.has_said()
    }

    /// Whether something is to be heard that no descriptor tells of.
    pub fn has_received(&self) -> bool {
        self.ahead.has_some()
    }

    /// What the dataplane says next without a request.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn hear(&mut self) -> io::Result<Vec<Datagram>> {
        match self.client.hear_within(&mut self.ahead, PATIENCE)? {
            Message::Datagrams(datagrams) => Ok(datagrams),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Says of which groups sockets are members, group 1 in the lowest bit. Gives notifications that
    /// came before.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn listen(&mut self, groups: u32) -> io::Result<Vec<Datagram>> {
        self.say(&Message::Listen(groups))?;
        self.answer()
    }

    /// Has a request carried out that is sent with others by [`Connection::send_held`]. What answers
    /// it comes later, for the port id of its socket.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn hold(&mut self, request: Request) -> io::Result<()> {
        write(&mut self.held, &Message::Send(request))?;
        if self.held.len() < HELD { Ok(()) } else { self.send_held() }
    }

    /// Sends requests that are held.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send_held(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let said = self.client.say_written(&self.held);
        self.held.clear();
        said
    }

    /// Says something, after what is held.
    fn say(&mut self, message: &Message) -> io::Result<()> {
        self.send_held()?;
        self.client.say(message)
    }

    /// Says that a socket is closed, which had this port id. Gives notifications that came before.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn closed(&mut self, port: u32) -> io::Result<Vec<Datagram>> {
        self.say(&Message::Closed(port))?;
        self.answer()
    }

    /// Has a request answered. Notifications that came before are among the answers.
    ///
    /// # Errors
    /// The connection is broken: whether the request was carried out is not known.
    pub fn ask(&mut self, request: Request) -> io::Result<Vec<Datagram>> {
        self.say(&Message::Request(request))?;
        self.answer()
    }

    /// The number of the generation in force, which each transaction changes (`NFT_MSG_GETGEN`).
    ///
    /// # Errors
    /// The connection is broken, or the answer is none.
    pub fn generation(&mut self) -> io::Result<u32> {
        let (datagram, receives_into) = (get_generation(), 8192);
        let answers = self.ask(Request { datagram, receives_into, ..Request::default() })?;
        let told = answers.iter().find_map(|answer| generation_of(&answer.bytes));
        told.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a generation"))
    }

    fn answer(&mut self) -> io::Result<Vec<Datagram>> {
        let mut all = Vec::new();
        loop {
            match self.client.hear_within(&mut self.ahead, ANSWER)? {
                Message::Datagrams(mut datagrams) => all.append(&mut datagrams),
                Message::Exit(0) => return Ok(all),
                Message::Err(sentence) => return Err(io::Error::other(sentence)),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }
}
