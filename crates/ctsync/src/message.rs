// SPDX-License-Identifier: Apache-2.0

//! Messages and their headers (`network.h`). A datagram has one or more.
//!
//! A header is a byte with the type in its low and the version in its high half, flags, the length
//! of the message with its header, and its sequence number; numbers are in network order. The
//! halves of the first byte are those of little-endian machines: conntrackd has a bit field there,
//! so that big-endian machines swap them, and do not understand the others.

/// Bytes of a header.
pub(crate) const HEADER: usize = 8;
/// Bytes of a control message with a range.
pub(crate) const WITH_RANGE: usize = 16;
/// The version of the protocol.
const VERSION: u8 = 1;
/// The type of control messages.
const CONTROL: u8 = 10;

/// Flags of headers (`NET_F_*`).
pub(crate) mod flag {
    /// The peer is to send all that it has.
    pub(crate) const RESYNC: u8 = 1 << 1;
    /// Messages of a range are missing.
    pub(crate) const NACK: u8 = 1 << 2;
    /// Messages of a range have come.
    pub(crate) const ACK: u8 = 1 << 3;
    /// Nothing else.
    pub(crate) const ALIVE: u8 = 1 << 4;
    /// The sender has begun, and knows nothing of what was sent before.
    pub(crate) const HELLO: u8 = 1 << 5;
    /// The sender has seen that the other one has begun.
    pub(crate) const HELLO_BACK: u8 = 1 << 6;
    /// Control messages with one of these have a range.
    pub(crate) const RANGED: u8 = RESYNC | NACK | ACK;
}

/// What became of a connection or an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    New,
    /// It has changed.
    Update,
    /// It has ended.
    Delete,
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection.
    Connection(Change),
    /// An expectation.
    Expectation(Change),
    /// The exchange of messages itself.
    Control,
    /// Something that this version does not have.
    Unknown(u8),
}

impl Kind {
    fn of(number: u8) -> Self {
        match number {
            0 => Kind::Connection(Change::New),
            1 => Kind::Connection(Change::Update),
            2 => Kind::Connection(Change::Delete),
            3 => Kind::Expectation(Change::New),
            4 => Kind::Expectation(Change::Update),
            5 => Kind::Expectation(Change::Delete),
            CONTROL => Kind::Control,
            other => Kind::Unknown(other),
        }
    }

    fn number(self) -> u8 {
        match self {
            Kind::Connection(Change::New) => 0,
            Kind::Connection(Change::Update) => 1,
            Kind::Connection(Change::Delete) => 2,
            Kind::Expectation(Change::New) => 3,
            Kind::Expectation(Change::Update) => 4,
            Kind::Expectation(Change::Delete) => 5,
            Kind::Control => CONTROL,
            Kind::Unknown(other) => other,
        }
    }

    /// Whether it is a connection or an expectation.
    pub(crate) fn is_data(self) -> bool {
        matches!(self, Kind::Connection(_) | Kind::Expectation(_))
    }
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is about.
    pub kind: Kind,
    /// Flags of its header.
    pub(crate) flags: u8,
    /// Its sequence number.
    pub sequence: u32,
    /// The sequence numbers that a control message is about, both included.
    pub(crate) range: Option<(u32, u32)>,
    /// The attributes.
    pub body: &'a [u8],
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end within a header.
    Truncated,
    /// The length is not one of such a message.
    Size,
    /// The version is another one.
    Version,
    /// It has a type that there is not.
    Type,
    /// Its flags do not fit its type, or its mode.
    Header,
    /// Its attributes are wrong.
    Payload,
}

impl Malformed {
    /// All of them.
    pub const ALL: [Malformed; 6] = [
        Malformed::Truncated,
        Malformed::Size,
        Malformed::Version,
        Malformed::Type,
        Malformed::Header,
        Malformed::Payload,
    ];

    /// What it is called in listings.
    pub fn name(self) -> &'static str {
        match self {
            Malformed::Truncated => "truncated",
            Malformed::Size => "size",
            Malformed::Version => "version",
            Malformed::Type => "type",
            Malformed::Header => "header",
            Malformed::Payload => "payload",
        }
    }
}

/// The messages of a datagram. What follows a message whose end is not known is lost: the last item
/// is an error then.
pub fn split(datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        match first(rest) {
            Ok((message, len)) => {
                rest = rest.get(len..).unwrap_or_default();
                Some(message)
            }
            Err(malformed) => {
                rest = &[];
                Some(Err(malformed))
            }
        }
    })
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_be_bytes(*b))
}

/// The first message, and its length. The outer error leaves no length.
fn first(bytes: &[u8]) -> Result<(Result<Message<'_>, Malformed>, usize), Malformed> {
    let header: &[u8; HEADER] = bytes.first_chunk().ok_or(Malformed::Truncated)?;
    let [kind, flags, len @ ..] = *header;
    let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
    let message = bytes.get(..len).ok_or(Malformed::Size)?;
    let (version, kind) = (kind >> 4, Kind::of(kind & 0xf));
    let ranged = kind == Kind::Control && flags & flag::RANGED != 0;
    if len < if ranged { WITH_RANGE } else { HEADER } {
        return Err(Malformed::Size);
    }
    if version != VERSION {
        return Ok((Err(Malformed::Version), len));
    }
    let range = be32(message, HEADER).zip(be32(message, HEADER + 4)).filter(|_| ranged);
    let sequence = be32(message, 4).unwrap_or_default();
    let body = message.get(HEADER..).unwrap_or_default();
    Ok((Ok(Message { kind, flags, sequence, range, body }), len))
}

/// Begins a message without flags and sequence number.
pub(crate) fn begin(kind: Kind) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    bytes.extend([VERSION << 4 | kind.number(), 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// Completes a message: its length is known.
pub(crate) fn finish(mut bytes: Vec<u8>) -> Box<[u8]> {
    let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
    if let Some(place) = bytes.get_mut(2..4) {
        place.copy_from_slice(&len);
    }
    bytes.into()
}

/// A control message without sequence number.
pub(crate) fn control(flags: u8, range: Option<(u32, u32)>) -> Box<[u8]> {
    let mut bytes = begin(Kind::Control);
    if let Some(place) = bytes.get_mut(1) {
        *place = flags;
    }
    if let Some((from, to)) = range {
        bytes.extend(from.to_be_bytes());
        bytes.extend(to.to_be_bytes());
    }
    finish(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_datagram_are_told_apart() {
        let mut datagram = control(flag::RESYNC, Some((0, 0))).to_vec();
        datagram.extend(control(flag::ALIVE, None));
        datagram.extend([0x0a, 0, 0, 8, 0, 0, 0, 0, 0x1a]);
        let kinds: Vec<_> =
            split(&datagram).map(|m| m.map(|m| (m.kind, m.flags, m.range))).collect();
        assert_eq!(
            kinds,
            [
                Ok((Kind::Control, flag::RESYNC, Some((0, 0)))),
                Ok((Kind::Control, flag::ALIVE, None)),
                Err(Malformed::Version),
                Err(Malformed::Truncated),
            ]
        );
    }

    #[test]
    fn wrong_lengths_are_errors() {
        for (bytes, expected) in [
            (&[0x1a, 0, 0][..], Malformed::Truncated),
            (&[0x1a, 0, 0, 9, 0, 0, 0, 0], Malformed::Size),
            (&[0x1a, 0, 0, 7, 0, 0, 0, 0], Malformed::Size),
            (&[0x1a, 8, 0, 8, 0, 0, 0, 0], Malformed::Size),
        ] {
            assert_eq!(split(bytes).collect::<Vec<_>>(), [Err(expected)], "{bytes:?}");
        }
    }
}
