// SPDX-License-Identifier: Apache-2.0

//! Messages: a header, the fixed part of their kind, attributes (`<linux/netlink.h>`).

/// Bytes of a message's header.
const HEADER: usize = 16;

/// A message from the kernel, or one to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `RTM_*`, or what all families have: an error, the end of a dump.
    pub kind: u16,
    /// `NLM_F_*`
    pub flags: u16,
    /// Number of the request.
    pub sequence: u32,
    /// Everything after the header.
    pub body: Vec<u8>,
}

/// Bytes up to a multiple of four.
fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

impl Message {
    /// The messages of a datagram; what is cut off is left out.
    pub fn all(mut bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(header) = bytes.first_chunk::<HEADER>() {
            let word = |at: usize| {
                u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            };
            let len = word(0) as usize;
            let Some(body) = bytes.get(HEADER..len) else { break };
            messages.push(Message {
                kind: u16::from_ne_bytes([header[4], header[5]]),
                flags: u16::from_ne_bytes([header[6], header[7]]),
                sequence: word(8),
                body: body.to_vec(),
            });
            bytes = bytes.get(aligned(len)..).unwrap_or_default();
        }
        messages
    }

    /// As it is sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = ((HEADER + self.body.len()) as u32).to_ne_bytes().to_vec();
        out.extend(self.kind.to_ne_bytes());
        out.extend(self.flags.to_ne_bytes());
        out.extend(self.sequence.to_ne_bytes());
        out.extend([0; 4]);
        out.extend(&self.body);
        out
    }

    /// The fixed part, if all of it is there.
    pub(crate) fn head<const N: usize>(&self) -> Option<&[u8; N]> {
        self.body.first_chunk()
    }

    /// The attributes after a fixed part of `head` bytes.
    pub fn attributes(&self, head: usize) -> Attributes<'_> {
        Attributes { bytes: self.body.get(aligned(head)..).unwrap_or_default() }
    }
}

/// Attributes one after the other: kind and value.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Those nested in an attribute's value.
    pub fn nested(bytes: &'a [u8]) -> Self {
        Attributes { bytes }
    }

    /// The value of the first one of a kind.
    pub fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.into_iter().find(|(k, _)| *k == kind).map(|(_, value)| value)
    }

    /// A number of 32 bits in the machine's order.
    pub fn u32(self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.get(kind)?.first_chunk()?))
    }

    /// A number of 64 bits in the machine's order.
    pub fn u64(self, kind: u16) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.get(kind)?.first_chunk()?))
    }

    /// A number of 16 bits in the machine's order.
    pub fn u16(self, kind: u16) -> Option<u16> {
        Some(u16::from_ne_bytes(*self.get(kind)?.first_chunk()?))
    }

    /// A byte.
    pub fn u8(self, kind: u16) -> Option<u8> {
        self.get(kind)?.first().copied()
    }

    /// A string, which may end with a zero.
    pub fn text(self, kind: u16) -> Option<&'a str> {
        let bytes = self.get(kind)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        std::str::from_utf8(bytes.get(..end)?).ok()
    }

    /// Attributes in an attribute.
    pub fn inside(self, kind: u16) -> Option<Attributes<'a>> {
        self.get(kind).map(Attributes::nested)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        /// `NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`
        const FLAGS: u16 = 0xc000;
        let header = self.bytes.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = self.bytes.get(4..len)?;
        self.bytes = self.bytes.get(aligned(len)..).unwrap_or_default();
        Some((u16::from_ne_bytes([header[2], header[3]]) & !FLAGS, value))
    }
}

/// Adds an attribute to a body.
pub(crate) fn put(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.resize(aligned(body.len()), 0);
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(aligned(body.len()), 0);
}

/// An address of a message as a number, whatever its length.
pub(crate) fn number(bytes: &[u8]) -> u128 {
    bytes.iter().take(16).fold(0, |n, b| n << 8 | u128::from(*b))
}

/// An address of a message.
pub(crate) fn address(bytes: &[u8]) -> Option<std::net::IpAddr> {
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_encoding() {
        let mut body = vec![0; 12];
        put(&mut body, 1, b"abc");
        put(&mut body, 2, &7u32.to_ne_bytes());
        put(&mut body, 3, b"lo\0");
        let message = Message { kind: 5, flags: 6, sequence: 7, body };
        let both = [message.bytes(), message.bytes()].concat();
        assert_eq!(Message::all(&both), [message.clone(), message.clone()]);
        let attributes = message.attributes(12);
        assert_eq!(attributes.get(1), Some(&b"abc"[..]));
        assert_eq!(
            (attributes.u32(2), attributes.text(3), attributes.get(4)),
            (Some(7), Some("lo"), None)
        );
    }

    #[test]
    fn truncated_messages_are_skipped() {
        let mut body = vec![0; 12];
        put(&mut body, 1, b"abcdefgh");
        let bytes = Message { kind: 5, flags: 6, sequence: 7, body }.bytes();
        for len in 0..bytes.len() {
            assert!(Message::all(&bytes[..len]).is_empty());
            let _ = Attributes::nested(&bytes[..len]).count();
        }
    }
}
