// SPDX-License-Identifier: Apache-2.0

//! Queued packets on their way to a program and back: the messages of `docs/queue.md`.
//!
//! A message is its length without these four bytes (`u32`), a byte that says what it is, and its
//! fields. All numbers are little-endian. [`Message`] is what either side says; [`read`] and
//! [`write`](write()) carry it over any stream.

use std::io::{self, Read, Write};

/// Version of the protocol.
pub const VERSION: u16 = 1;
/// The longest message that is taken: a packet with its headers and room to spare.
const LONGEST: usize = 128 << 10;

/// A listener's first message: it opens the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// [`VERSION`].
    pub version: u16,
    /// When too many packets wait, further ones pass by instead of being dropped.
    pub fail_open: bool,
    /// Bytes of each packet that are sent, from the network header on; 0 for none.
    pub copy: u32,
    /// Packets that wait at most.
    pub length: u32,
    /// Packets that the other side sends before it waits for an answer, where it can wait.
    pub window: u32,
}

impl Default for Open {
    /// Whole packets, up to 1024 of them, each of which is waited for.
    fn default() -> Self {
        Open { version: VERSION, fail_open: false, copy: 65_535, length: 1024, window: 1 }
    }
}

/// The connection of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// `enum ip_conntrack_info`.
    pub info: u8,
    /// `IPS_*` bits.
    pub status: u32,
    /// `ct mark`.
    pub mark: u32,
    /// `ct id`.
    pub id: u32,
    /// Zone of the original direction.
    pub zone: u16,
}

/// A queued packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is answered by.
    pub id: u64,
    /// Time in nanoseconds since the epoch.
    pub time: u64,
    /// Number of the queue.
    pub queue: u16,
    /// Ethertype.
    pub protocol: u16,
    /// `NF_INET_*`: 0 prerouting, 1 input, 2 forward, 3 output, 4 postrouting.
    pub hook: u8,
    /// `NFPROTO_*`: 2 IPv4, 10 IPv6.
    pub family: u8,
    /// Packet mark.
    pub mark: u32,
    /// Packet priority.
    pub priority: u32,
    /// Index and name of the interface of arrival; 0 and empty for none.
    pub input: (u32, String),
    /// Index and name of the interface on the way out.
    pub output: (u32, String),
    /// Its connection.
    pub connection: Option<Connection>,
    /// Link header of arrival, empty if there is none.
    pub link: Vec<u8>,
    /// Length from the network header on.
    pub len: u32,
    /// Bytes from the network header on, at most [`Open::copy`].
    pub payload: Vec<u8>,
}

/// What a listener decides (`NF_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// The packet ends.
    Drop = 0,
    /// On to the next chain.
    Accept = 1,
    /// To another queue.
    Queue = 3,
    /// Through the chain that queued it again.
    Repeat = 4,
    /// Continue after the hook, without its other chains.
    Stop = 5,
}

/// A listener's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The packet's.
    pub id: u64,
    /// Also all earlier packets without a verdict.
    pub up_to: bool,
    /// Its verdict.
    pub verdict: Verdict,
    /// Of [`Verdict::Queue`]: which.
    pub queue: u16,
    /// Of [`Verdict::Queue`]: without a listener there it is accepted.
    pub bypass: bool,
    /// New mark.
    pub mark: Option<u32>,
    /// New bytes from the network header on; not with `up_to`.
    pub payload: Option<Vec<u8>>,
}

impl Answer {
    /// A verdict and nothing else.
    pub fn new(id: u64, verdict: Verdict) -> Self {
        Answer { id, up_to: false, verdict, queue: 0, bypass: false, mark: None, payload: None }
    }
}

/// What either side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// From the listener, first.
    Open(Open),
    /// From the listener.
    Answer(Answer),
    /// To the listener.
    Packet(Box<Packet>),
    /// To the listener: no more packets come; waiting ones need a verdict.
    End,
}

const OPEN: u8 = 1;
const ANSWER: u8 = 2;
const ANSWER_UP_TO: u8 = 3;
const PACKET: u8 = 16;
const END: u8 = 17;

const FAIL_OPEN: u16 = 1;
const NEW_MARK: u8 = 1;
const NEW_PAYLOAD: u8 = 2;
const BYPASS: u8 = 4;
const NO_CONNECTION: u8 = 0xff;
const NAME: usize = 16;

/// Writes a message; `buffer` is used again from one to the next.
///
/// # Errors
/// Those of the stream.
pub fn write(stream: &mut impl Write, message: &Message, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    buffer.extend([0; 4]);
    match message {
        Message::Open(open) => {
            buffer.push(OPEN);
            buffer.extend(open.version.to_le_bytes());
            buffer.extend(if open.fail_open { FAIL_OPEN } else { 0 }.to_le_bytes());
            [open.copy, open.length, open.window]
                .iter()
                .for_each(|n| buffer.extend(n.to_le_bytes()));
        }
        Message::Answer(answer) => {
            buffer.push(if answer.up_to { ANSWER_UP_TO } else { ANSWER });
            buffer.extend(answer.id.to_le_bytes());
            buffer.push(answer.verdict as u8);
            let flag = |set: bool, bit| if set { bit } else { 0 };
            buffer.push(
                flag(answer.mark.is_some(), NEW_MARK)
                    | flag(answer.payload.is_some(), NEW_PAYLOAD)
                    | flag(answer.bypass, BYPASS),
            );
            buffer.extend(answer.queue.to_le_bytes());
            buffer.extend(answer.mark.unwrap_or(0).to_le_bytes());
            buffer.extend(answer.payload.as_deref().unwrap_or_default());
        }
        Message::Packet(packet) => packet.write(buffer),
        Message::End => buffer.push(END),
    }
    let len = u32::try_from(buffer.len() - 4).map_err(|_| invalid("the message is too long"))?;
    if let Some(start) = buffer.first_chunk_mut() {
        *start = len.to_le_bytes();
    }
    stream.write_all(buffer)?;
    stream.flush()
}

/// Reads a message; `None` at the end of the stream. `buffer` is used again from one to the next.
///
/// # Errors
/// Those of the stream, and `InvalidData` for what is no message.
pub fn read(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<Message>> {
    let mut len = [0; 4];
    match stream.read(&mut len)? {
        0 => return Ok(None),
        n => stream.read_exact(&mut len[n..])?,
    }
    let len = u32::from_le_bytes(len) as usize;
    if len == 0 || len > LONGEST {
        return Err(invalid("a message of no or too many bytes"));
    }
    buffer.resize(len, 0);
    stream.read_exact(buffer)?;
    let (kind, body) = buffer.split_first().ok_or_else(|| invalid("an empty message"))?;
    let mut fields = Fields(body);
    parse(*kind, &mut fields).map(Some).ok_or_else(|| invalid("a message that is cut or unknown"))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What is left of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn device(&mut self) -> Option<(u32, String)> {
        let index = self.u32()?;
        let name = self.bytes::<NAME>()?;
        let end = name.iter().position(|b| *b == 0).unwrap_or(NAME);
        Some((index, String::from_utf8_lossy(name.get(..end)?).into_owned()))
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }
}

fn parse(kind: u8, fields: &mut Fields<'_>) -> Option<Message> {
    Some(match kind {
        OPEN => {
            let (version, flags) = (fields.u16()?, fields.u16()?);
            let (copy, length, window) = (fields.u32()?, fields.u32()?, fields.u32()?);
            Message::Open(Open { version, fail_open: flags & FAIL_OPEN != 0, copy, length, window })
        }
        ANSWER | ANSWER_UP_TO => {
            let id = fields.u64()?;
            let verdict = match fields.u8()? {
                0 => Verdict::Drop,
                1 => Verdict::Accept,
                3 => Verdict::Queue,
                4 => Verdict::Repeat,
                5 => Verdict::Stop,
                _ => return None,
            };
            let (flags, queue, mark) = (fields.u8()?, fields.u16()?, fields.u32()?);
            let up_to = kind == ANSWER_UP_TO;
            let payload = (flags & NEW_PAYLOAD != 0).then(|| fields.0.to_vec());
            if up_to && payload.is_some() {
                return None;
            }
            Message::Answer(Answer {
                id,
                up_to,
                verdict,
                queue,
                bypass: flags & BYPASS != 0,
                mark: (flags & NEW_MARK != 0).then_some(mark),
                payload,
            })
        }
        PACKET => Message::Packet(Box::new(Packet::parse(fields)?)),
        END => Message::End,
        _ => return None,
    })
}

impl Packet {
    fn write(&self, buffer: &mut Vec<u8>) {
        buffer.push(PACKET);
        buffer.extend(self.id.to_le_bytes());
        buffer.extend(self.time.to_le_bytes());
        buffer.extend(self.queue.to_le_bytes());
        buffer.extend(self.protocol.to_le_bytes());
        buffer.extend([self.hook, self.family]);
        buffer.extend(self.mark.to_le_bytes());
        buffer.extend(self.priority.to_le_bytes());
        for (index, name) in [&self.input, &self.output] {
            buffer.extend(index.to_le_bytes());
            let mut padded = [0; NAME];
            // The last byte stays zero.
            padded.iter_mut().take(NAME - 1).zip(name.bytes()).for_each(|(to, b)| *to = b);
            buffer.extend(padded);
        }
        let none = Connection { info: NO_CONNECTION, status: 0, mark: 0, id: 0, zone: 0 };
        let ct = self.connection.unwrap_or(none);
        buffer.extend([ct.info, 0]);
        buffer.extend(ct.zone.to_le_bytes());
        [ct.status, ct.mark, ct.id].iter().for_each(|n| buffer.extend(n.to_le_bytes()));
        buffer.extend((self.link.len() as u16).to_le_bytes());
        buffer.extend([0; 2]);
        buffer.extend(self.len.to_le_bytes());
        buffer.extend(&self.link);
        buffer.extend(&self.payload);
    }

    fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        let (id, time, queue, protocol) =
            (fields.u64()?, fields.u64()?, fields.u16()?, fields.u16()?);
        let (hook, family, mark, priority) =
            (fields.u8()?, fields.u8()?, fields.u32()?, fields.u32()?);
        let (input, output) = (fields.device()?, fields.device()?);
        let [info, _] = fields.bytes()?;
        let (zone, status, ct_mark, ct_id) =
            (fields.u16()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let (link_len, _, len) = (fields.u16()?, fields.u16()?, fields.u32()?);
        Some(Packet {
            id,
            time,
            queue,
            protocol,
            hook,
            family,
            mark,
            priority,
            input,
            output,
            connection: (info != NO_CONNECTION).then_some(Connection {
                info,
                status,
                mark: ct_mark,
                id: ct_id,
                zone,
            }),
            link: fields.slice(link_len.into())?.to_vec(),
            len,
            payload: fields.0.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> Packet {
        Packet {
            id: 7,
            time: 1 << 60,
            queue: 3,
            protocol: 0x0800,
            hook: 2,
            family: 2,
            mark: 9,
            priority: 1,
            input: (2, "wan".into()),
            output: (3, "fifteen-letters".into()),
            connection: Some(Connection { info: 2, status: 8, mark: 5, id: 6, zone: 1 }),
            link: vec![1; 14],
            len: 30,
            payload: vec![2; 20],
        }
    }

    #[test]
    fn queue_messages_survive_encoding() {
        let answer = Answer {
            mark: Some(4),
            payload: Some(vec![1, 2, 3]),
            ..Answer::new(7, Verdict::Accept)
        };
        let to_other =
            Answer { queue: 5, bypass: true, up_to: true, ..Answer::new(8, Verdict::Queue) };
        let messages = [
            Message::Open(Open { fail_open: true, ..Open::default() }),
            Message::Answer(answer),
            Message::Answer(to_other),
            Message::Packet(Box::new(packet())),
            Message::Packet(Box::new(Packet { connection: None, link: vec![], ..packet() })),
            Message::End,
        ];
        let (mut stream, mut buffer) = (Vec::new(), Vec::new());
        for message in &messages {
            write(&mut stream, message, &mut buffer).unwrap();
        }
        let mut stream = &stream[..];
        for message in messages {
            assert_eq!(read(&mut stream, &mut buffer).unwrap(), Some(message));
        }
        assert_eq!(read(&mut stream, &mut buffer).unwrap(), None);
    }

    #[test]
    fn malformed_queue_messages_are_refused() {
        let mut whole = Vec::new();
        write(&mut whole, &Message::Packet(Box::new(packet())), &mut Vec::new()).unwrap();
        let link_cut = 4 + 1 + 8 + 8 + 2 + 2 + 2 + 8 + 40 + 4 + 12 + 8 + 13;
        for end in 1..link_cut {
            // Cut, and cut with a length that fits.
            assert!(read(&mut &whole[..end], &mut Vec::new()).is_err(), "{end}");
            let mut fitting = whole[..end].to_vec();
            if end >= 4 {
                fitting[..4].copy_from_slice(&(end as u32 - 4).to_le_bytes());
                assert!(read(&mut &fitting[..], &mut Vec::new()).is_err(), "{end}");
            }
        }
        for bytes in [&[0, 0, 0, 0][..], &[1, 0, 0, 0, 99], &[255; 8], &[1, 0, 0, 0, 1]] {
            assert!(read(&mut &bytes[..], &mut Vec::new()).is_err(), "{bytes:?}");
        }
    }
}
