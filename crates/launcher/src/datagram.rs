// SPDX-License-Identifier: Apache-2.0

//! Datagrams for programs, and which of them can be put together.

/// A datagram for a program.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    /// The group that it was sent to, 0 for an answer.
    pub group: u32,
    /// The messages.
    pub bytes: Vec<u8>,
}

impl Datagram {
    /// Whether others of its kind may be in one datagram with it: programs stop reading at an error,
    /// an acknowledgement or the end of a dump, and messages of a dump end with that.
    pub(crate) fn joins(&self) -> bool {
        /// `NLMSG_MIN_TYPE`: lower types are those; `NLM_F_MULTI`.
        const MIN_TYPE: u16 = 0x10;
        const MULTI: u16 = 2;
        let mut rest = &self.bytes[..];
        while let Some((header, _)) = rest.split_first_chunk::<16>() {
            let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
            let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let whole = len >= header.len() && len.is_multiple_of(4) && len <= rest.len();
            if !whole || half(4) < MIN_TYPE || half(6) & MULTI != 0 {
                return false;
            }
            rest = &rest[len..];
        }
        rest.is_empty()
    }

    /// Where the messages end that fit into a buffer, if others follow them: after the first one at
    /// least, and only if it has several.
    pub(crate) fn end_of_fitting(&self, room: usize) -> Option<usize> {
        if !self.joins() {
            return None;
        }
        let mut end = 0;
        while let Some(header) = self.bytes.get(end..end + 4) {
            let len = u32::from_ne_bytes(header.try_into().unwrap_or_default()) as usize;
            if end > 0 && end + len > room {
                return Some(end);
            }
            end += len;
        }
        None
    }

    /// Bytes that it counts for while it waits: about as many as in the kernel (`skb->truesize`).
    pub(crate) fn cost(&self) -> usize {
        self.bytes.len() + 768
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: u32, kind: u16, flags: u16) -> Vec<u8> {
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.resize(len.max(16).next_multiple_of(4) as usize, 0);
        bytes
    }

    #[test]
    fn packets_and_events_share_a_datagram_and_ends_do_not() {
        let [packet, event] = [message(20, 0x300, 0), message(100, 0x100, 0x600)];
        for (parts, expected) in [
            (vec![packet.clone()], true),
            (vec![event.clone(), packet.clone()], true),
            // An error or acknowledgement, the end of a dump, a message of one.
            (vec![message(36, 2, 0)], false),
            (vec![packet.clone(), message(20, 3, 0)], false),
            (vec![message(20, 0x100, 2)], false),
            // What has no end, or a length that is none.
            (vec![message(21, 0x300, 0)], false),
            (vec![message(8, 0x300, 0)], false),
            (vec![packet, vec![0; 4]], false),
        ] {
            let datagram = Datagram { group: 0, bytes: parts.concat() };
            assert_eq!(datagram.joins(), expected, "{parts:?}");
        }
    }
}
