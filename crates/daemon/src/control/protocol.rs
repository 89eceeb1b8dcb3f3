// SPDX-License-Identifier: Apache-2.0

//! What client and server say: a message is its length without these four bytes (`u32`,
//! little-endian), a letter that says what it is, and its contents. Lists are separated by zeroes.

use std::io::{self, Read, Write};

use penstock_print::show::{Form, Listing};

use super::bpf_call::BpfCall;
use super::netfilter::{Datagram, Request};

/// The longest message: a ruleset with a large set.
pub const LONGEST: usize = 256 << 20;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The client calls `nft` with these arguments.
    Nft(Vec<String>),
    /// A line of an interactive client.
    Line(String),
    /// The client requests a listing.
    Show(Show),
    /// The dataplane is to end.
    Down,
    /// The attached ruleset is to be taken away.
    Detach,
    /// The change that waits is right.
    Confirm,
    /// The client requests a capture: the words of a [`CaptureCall`](super::CaptureCall).
    Capture(Vec<String>),
    /// The client asks something about BPF programs.
    Bpf(BpfCall),
    /// Something is wanted of the ports: `add` and, for each, device, name and driver; `del` and
    /// names; `list`, and `json` for JSON.
    Port(Vec<String>),
    /// The client requests the ruleset in force: [`Ruleset::save`](penstock_ruleset::Ruleset::save).
    Ruleset,
    /// The client calls `conntrack` with these arguments.
    Conntrack(Vec<String>),
    /// The client tells what became of this firewall of a pair: `primary`, `backup` or `fault`; or
    /// it asks for its `status`, and `json` for JSON.
    Failover(Vec<String>),
    /// The client calls `flows` with these arguments.
    Flows(Vec<String>),
    /// The client has netfilter sockets.
    Netfilter,
    /// The groups that netfilter sockets of the client are members of, group 1 in the lowest bit.
    Listen(u32),
    /// A request of a netfilter socket.
    Request(Request),
    /// A request of a netfilter socket that the client does not wait for: what answers it is for the
    /// socket's port id.
    Send(Request),
    /// A netfilter socket of the client is closed, which had this port id.
    Closed(u32),
    /// The server's datagrams for netfilter sockets. [`Message::Exit`] ends those that answer.
    Datagrams(Vec<Datagram>),
    /// The server requests the contents of a file of the client.
    Read(String),
    /// The server requests the contents of a file of the client that is no text.
    ReadBytes(String),
    /// The server requests names that match a pattern.
    Glob(String),
    /// The server requests the output of a command.
    Exec(String),
    /// The server requests the addresses of a host, as the client resolves them.
    Resolve(String),
    /// The client's answer.
    Data(Vec<u8>),
    /// The client's answer: it went wrong.
    Failed(String),
    /// For standard output.
    Out(String),
    /// For standard error.
    Err(String),
    /// The change has to be confirmed in so many milliseconds.
    Unconfirmed(u64),
    /// Frames of a capture: [`Captured::all`](super::Captured::all).
    Frames(Vec<u8>),
    /// Frames of a capture, so many so far, are lost. Said when the capture has begun, too.
    Lost(u64),
    /// The end, with an exit status; of an interactive client: of one line.
    Exit(u8),
}

/// A listing that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Show {
    /// The listing.
    pub listing: Listing,
    /// Its form.
    pub form: Form,
    /// For how many milliseconds the dataplane counts, where the listing needs that.
    pub milliseconds: u32,
}

impl Show {
    /// A listing in a form, with the time that it counts for by default.
    pub fn new(listing: Listing, form: Form) -> Self {
        Show { listing, form, milliseconds: listing.about().milliseconds.unwrap_or_default() }
    }

    /// Numbers of form and listing (a byte each), and the milliseconds (`u32`, little-endian).
    fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![self.form as u8, self.listing as u8];
        bytes.extend(self.milliseconds.to_le_bytes());
        bytes
    }

    /// What is left out at the end has its default: the state, and the listing's own time.
    fn of(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| bytes.get(at).copied().map(usize::from);
        let form = *Form::ALL.get(number(0)?)?;
        let listing = *Listing::ALL.get(number(1).unwrap_or_default())?;
        let show = Show::new(listing, form);
        match bytes.get(2..).filter(|rest| !rest.is_empty()) {
            None => Some(show),
            Some(time) => {
                let milliseconds = u32::from_le_bytes(time.try_into().ok()?);
                Some(Show { milliseconds, ..show })
            }
        }
    }
}

fn words(bytes: &[u8]) -> Vec<String> {
    let mut words: Vec<_> =
        bytes.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    words.pop();
    words
}

impl Message {
    fn parts(&self) -> (u8, Vec<u8>) {
        let text = |t: &String| t.as_bytes().to_vec();
        let list = |l: &[String]| l.iter().flat_map(|a| [a.as_bytes(), &[0]].concat()).collect();
        match self {
            Message::Nft(args) => (b'n', list(args)),
            Message::Line(t) => (b'l', text(t)),
            Message::Show(show) => (b's', show.bytes()),
            Message::Down => (b'q', vec![]),
            Message::Detach => (b'a', vec![]),
            Message::Confirm => (b'c', vec![]),
            Message::Capture(words) => (b'p', list(words)),
            Message::Bpf(call) => (b'B', call.bytes()),
            Message::Port(words) => (b'P', list(words)),
            Message::Ruleset => (b'U', vec![]),
            Message::Conntrack(words) => (b'T', list(words)),
            Message::Failover(words) => (b'O', list(words)),
            Message::Flows(words) => (b'F', list(words)),
            Message::Frames(bytes) => (b'k', bytes.clone()),
            Message::Lost(count) => (b'm', count.to_le_bytes().to_vec()),
            Message::Netfilter => (b'N', vec![]),
            Message::Listen(groups) => (b'L', groups.to_le_bytes().to_vec()),
            Message::Request(request) => (b'R', request.bytes()),
            Message::Send(request) => (b'S', request.bytes()),
            Message::Closed(port) => (b'C', port.to_le_bytes().to_vec()),
            Message::Datagrams(all) => (b'D', Datagram::bytes(all)),
            Message::Read(t) => (b'r', text(t)),
            Message::ReadBytes(t) => (b'b', text(t)),
            Message::Glob(t) => (b'g', text(t)),
            Message::Exec(t) => (b'x', text(t)),
            Message::Resolve(t) => (b'h', text(t)),
            Message::Data(bytes) => (b'd', bytes.clone()),
            Message::Failed(t) => (b'f', text(t)),
            Message::Out(t) => (b'o', text(t)),
            Message::Err(t) => (b'e', text(t)),
            Message::Unconfirmed(ms) => (b'u', ms.to_le_bytes().to_vec()),
            Message::Exit(status) => (b'z', vec![*status]),
        }
    }

    fn of(kind: u8, bytes: Vec<u8>) -> io::Result<Message> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a message");
        let first = bytes.first().copied();
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
        };
        Ok(match kind {
            b'n' => Message::Nft(words(&bytes)),
            b'l' => Message::Line(text(bytes)),
            b's' => Message::Show(Show::of(&bytes).ok_or_else(wrong)?),
            b'q' => Message::Down,
            b'a' => Message::Detach,
            b'c' => Message::Confirm,
            b'p' => Message::Capture(words(&bytes)),
            b'B' => Message::Bpf(BpfCall::of(&bytes).ok_or_else(wrong)?),
            b'P' => Message::Port(words(&bytes)),
            b'U' => Message::Ruleset,
            b'T' => Message::Conntrack(words(&bytes)),
            b'O' => Message::Failover(words(&bytes)),
            b'F' => Message::Flows(words(&bytes)),
            b'k' => Message::Frames(bytes),
            b'm' => Message::Lost(u64::from_le_bytes(*bytes.first_chunk().ok_or_else(wrong)?)),
            b'N' => Message::Netfilter,
            b'L' => Message::Listen(u32::from_le_bytes(*bytes.first_chunk().ok_or_else(wrong)?)),
            b'R' => Message::Request(Request::of(&bytes)?),
            b'S' => Message::Send(Request::of(&bytes)?),
            b'C' => Message::Closed(u32::from_le_bytes(*bytes.first_chunk().ok_or_else(wrong)?)),
            b'D' => Message::Datagrams(Datagram::all(&bytes)?),
            b'r' => Message::Read(text(bytes)),
            b'b' => Message::ReadBytes(text(bytes)),
            b'g' => Message::Glob(text(bytes)),
            b'x' => Message::Exec(text(bytes)),
            b'h' => Message::Resolve(text(bytes)),
            b'd' => Message::Data(bytes),
            b'f' => Message::Failed(text(bytes)),
            b'o' => Message::Out(text(bytes)),
            b'e' => Message::Err(text(bytes)),
            b'u' => {
                Message::Unconfirmed(u64::from_le_bytes(*bytes.first_chunk().ok_or_else(wrong)?))
            }
            b'z' => Message::Exit(first.ok_or_else(wrong)?),
            _ => return Err(wrong()),
        })
    }
}

/// Sends a message.
pub fn write(to: &mut impl Write, message: &Message) -> io::Result<()> {
    let (kind, contents) = message.parts();
    let len = u32::try_from(contents.len() + 1).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.push(kind);
    bytes.extend(contents);
    to.write_all(&bytes)?;
    to.flush()
}

/// Bytes of memory that are taken for the beginning of a message.
const AT_ONCE: usize = 64 << 10;

/// Receives a message of at most `limit` bytes.
pub fn read(from: &mut impl Read, limit: usize) -> io::Result<Message> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len == 0 || len > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message too long, or empty"));
    }
    // What is announced may never come: memory is taken as it does.
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let begin = bytes.len();
        let more = (len - begin).min(begin.max(AT_ONCE));
        bytes.resize(begin + more, 0);
        from.read_exact(&mut bytes[begin..])?;
    }
    let kind = bytes.remove(0);
    Message::of(kind, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::netfilter::Recipient;

    #[test]
    fn messages_survive_encoding() {
        let text = || "füße\nzwei".to_owned();
        for message in [
            Message::Nft(vec!["-f".into(), String::new(), text()]),
            Message::Nft(vec![]),
            Message::Line(text()),
            Message::Show(Show::new(Listing::State, Form::Metrics)),
            Message::Show(Show::new(Listing::Connections, Form::Json)),
            Message::Show(Show::new(Listing::Connections, Form::Proc)),
            Message::Show(Show { milliseconds: 2500, ..Show::new(Listing::Stages, Form::Text) }),
            Message::Down,
            Message::Confirm,
            Message::Capture(vec!["inet".into(), String::new(), text()]),
            Message::Port(vec!["del".into(), text()]),
            Message::Ruleset,
            Message::Conntrack(vec!["-s".into(), text()]),
            Message::Failover(vec!["status".into(), text()]),
            Message::Flows(vec![]),
            Message::Frames(vec![0, 255, 3]),
            Message::Lost(1 << 40),
            Message::Netfilter,
            Message::Listen(1 << 6),
            Message::Request(Request {
                port: 7,
                receives_into: 1 << 20,
                thread: 8,
                name: text(),
                may_change: true,
                listened: false,
                options: 1 << 11,
                datagram: vec![0, 255, 3],
            }),
            Message::Request(Request { listened: true, ..Request::default() }),
            Message::Closed(1 << 30),
            Message::Send(Request { port: 9, ..Request::default() }),
            Message::Datagrams(vec![]),
            Message::Datagrams(
                [Recipient::Sender, Recipient::Others(7), Recipient::All(7), Recipient::Port(7)]
                    .map(|to| Datagram { to, bytes: vec![0, 255, 3] })
                    .to_vec(),
            ),
            Message::Read(text()),
            Message::ReadBytes(text()),
            Message::Bpf(BpfCall::Show { json: true }),
            Message::Glob(text()),
            Message::Exec(text()),
            Message::Resolve(text()),
            Message::Data(vec![0, 255, 3]),
            Message::Failed(text()),
            Message::Out(text()),
            Message::Err(String::new()),
            Message::Unconfirmed(1 << 40),
            Message::Exit(3),
        ] {
            let mut bytes = Vec::new();
            write(&mut bytes, &message).unwrap();
            assert_eq!(read(&mut &bytes[..], LONGEST).unwrap(), message);
            for cut in 0..bytes.len() {
                assert!(read(&mut &bytes[..cut], LONGEST).is_err());
            }
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        for bytes in [
            &[0, 0, 0, 0][..],
            &[1, 0, 0, 0, b'?'],
            &[255, 255, 255, 255, b'o'],
            &[1, 0, 0, 0, b'z'],
            &[2, 0, 0, 0, b's', 4],
            &[3, 0, 0, 0, b's', 0, 255],
            &[4, 0, 0, 0, b's', 0, 0, 1],
            &[1, 0, 0, 0, b'L'],
            &[4, 0, 0, 0, b'R', 0, 0, 1],
            &[3, 0, 0, 0, b'D', b's', 1],
            &[11, 0, 0, 0, b'D', b's', 0, 0, 0, 0, 2, 0, 0, 0, 1],
            &[10, 0, 0, 0, b'D', b'x', 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert!(read(&mut &bytes[..], LONGEST).is_err(), "{bytes:?}");
        }
        assert!(read(&mut &[5, 0, 0, 0, b'o', 1, 2, 3, 4][..], 4).is_err());
    }
}
