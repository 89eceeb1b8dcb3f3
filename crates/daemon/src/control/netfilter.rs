// SPDX-License-Identifier: Apache-2.0

//! What `penstock exec` and the dataplane say to each other about netfilter sockets: a request is
//! one datagram of a program, with all that its socket is. So the dataplane keeps nothing of a
//! socket.

use std::io;

/// A datagram that a program sends, and its socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Port id of the socket.
    pub port: u32,
    /// Longest buffer that the program receives into, in bytes.
    pub receives_into: u32,
    /// Thread that sends, for `NFTA_GEN_PROC_PID`.
    pub thread: u32,
    /// Its name, for `NFTA_GEN_PROC_NAME`.
    pub name: String,
    /// Whether it may change anything, as far as the connection may.
    pub may_change: bool,
    /// Whether other sockets are members of a group.
    pub listened: bool,
    /// Options of level `SOL_NETLINK`: the numbers of those that are set, a bit for each.
    pub options: u32,
    /// The messages.
    pub datagram: Vec<u8>,
}

/// Who gets a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The socket of the request.
    Sender,
    /// Members of a group, the socket of the request left aside.
    Others(u32),
    /// The socket with a port id. Such datagrams come without a request, too.
    Port(u32),
    /// All members of a group. Such datagrams come without a request, too.
    All(u32),
}

/// A datagram for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Who gets it.
    pub to: Recipient,
    /// The messages.
    pub bytes: Vec<u8>,
}

const MAY_CHANGE: u8 = 1;
const LISTENED: u8 = 2;
/// Bytes of a request before its name.
const HEAD: usize = 18;
/// Most bytes of a request but for its messages, the letter of the message included.
pub(super) const AROUND: usize = HEAD + u8::MAX as usize + 1;
/// Bytes of a datagram before its messages.
const DATAGRAM_HEAD: usize = 9;

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a message of netfilter")
}

fn number(bytes: &[u8], at: usize) -> io::Result<u32> {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(wrong)?;
    Ok(u32::from_le_bytes(*bytes))
}

impl Request {
    /// Four numbers, flags, the length of the name (a byte each), the name, the datagram.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut len = self.name.len().min(usize::from(u8::MAX));
        while !self.name.is_char_boundary(len) {
            len -= 1;
        }
        let name = self.name.get(..len).unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEAD + name.len() + self.datagram.len());
        for number in [self.port, self.receives_into, self.thread, self.options] {
            bytes.extend(number.to_le_bytes());
        }
        let flag = |on, flag| if on { flag } else { 0 };
        bytes.push(flag(self.may_change, MAY_CHANGE) | flag(self.listened, LISTENED));
        bytes.push(name.len() as u8);
        bytes.extend(name.as_bytes());
        bytes.extend(&self.datagram);
        bytes
    }

    pub(super) fn of(bytes: &[u8]) -> io::Result<Self> {
        let (flags, len) = match bytes.get(16..HEAD) {
            Some([flags, len]) => (*flags, usize::from(*len)),
            _ => return Err(wrong()),
        };
        let name = bytes.get(HEAD..HEAD + len).ok_or_else(wrong)?;
        Ok(Request {
            port: number(bytes, 0)?,
            receives_into: number(bytes, 4)?,
            thread: number(bytes, 8)?,
            options: number(bytes, 12)?,
            name: String::from_utf8(name.to_vec()).map_err(|_| wrong())?,
            may_change: flags & MAY_CHANGE != 0,
            listened: flags & LISTENED != 0,
            datagram: bytes.get(HEAD + len..).unwrap_or_default().to_vec(),
        })
    }
}

impl Datagram {
    /// All of them: a letter for the recipient, its group or port id, the length, the messages.
    pub(super) fn bytes(all: &[Datagram]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Datagram { to, bytes: messages } in all {
            let (letter, group) = match to {
                Recipient::Sender => (b's', 0),
                Recipient::Others(group) => (b'o', *group),
                Recipient::All(group) => (b'a', *group),
                Recipient::Port(port) => (b'p', *port),
            };
            bytes.push(letter);
            bytes.extend(group.to_le_bytes());
            bytes.extend((messages.len() as u32).to_le_bytes());
            bytes.extend(messages);
        }
        bytes
    }

    pub(super) fn all(mut bytes: &[u8]) -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        while let Some(letter) = bytes.first() {
            let (group, len) = (number(bytes, 1)?, number(bytes, 5)? as usize);
            let to = match letter {
                b's' => Recipient::Sender,
                b'o' => Recipient::Others(group),
                b'a' => Recipient::All(group),
                b'p' => Recipient::Port(group),
                _ => return Err(wrong()),
            };
            let messages = bytes.get(DATAGRAM_HEAD..).and_then(|b| b.get(..len));
            all.push(Datagram { to, bytes: messages.ok_or_else(wrong)?.to_vec() });
            bytes = bytes.get(DATAGRAM_HEAD + len..).unwrap_or_default();
        }
        Ok(all)
    }
}
