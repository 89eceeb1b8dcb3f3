// SPDX-License-Identifier: Apache-2.0

//! Frames of a capture, as messages have them.

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Where it came from, or leaves by.
    pub interface: String,
    /// `LINKTYPE_*`.
    pub link_type: u16,
    /// It leaves.
    pub outgoing: bool,
    /// Nanoseconds since the epoch.
    pub time: u64,
    /// Bytes that it had.
    pub len: u32,
    /// The first of them.
    pub bytes: Vec<u8>,
}

impl Captured {
    /// Appends it as a message has it: length of the name, name, link type, direction, time,
    /// length, bytes that follow, bytes: all little-endian.
    pub fn put(&self, out: &mut Vec<u8>) {
        let name = self.interface.as_bytes().get(..255).unwrap_or(self.interface.as_bytes());
        out.push(name.len() as u8);
        out.extend_from_slice(name);
        out.extend_from_slice(&self.link_type.to_le_bytes());
        out.push(u8::from(self.outgoing));
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.bytes);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        fn bytes<'a>(from: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
            let (first, rest) = from.split_at_checked(count)?;
            *from = rest;
            Some(first)
        }
        fn number<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
            bytes(from, N)?.try_into().ok()
        }
        let [name] = number(from)?;
        let interface = String::from_utf8_lossy(bytes(from, usize::from(name))?).into_owned();
        let link_type = u16::from_le_bytes(number(from)?);
        let [outgoing] = number(from)?;
        let time = u64::from_le_bytes(number(from)?);
        let len = u32::from_le_bytes(number(from)?);
        let count = u32::from_le_bytes(number(from)?) as usize;
        let bytes = bytes(from, count)?.to_vec();
        Some(Captured { interface, link_type, outgoing: outgoing != 0, time, len, bytes })
    }

    /// The frames of a message; `None` if it is broken.
    pub fn all(mut bytes: &[u8]) -> Option<Vec<Captured>> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            frames.push(Captured::take(&mut bytes)?);
        }
        Some(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_frames_survive_encoding() {
        let frame = Captured {
            interface: "eth0".into(),
            link_type: 101,
            outgoing: true,
            time: 1_700_000_000_123_456_789,
            len: 1500,
            bytes: vec![0x45, 0, 3],
        };
        let mut bytes = Vec::new();
        frame.put(&mut bytes);
        Captured { interface: String::new(), bytes: vec![], ..frame.clone() }.put(&mut bytes);
        let all = Captured::all(&bytes).expect("two frames");
        assert_eq!((all.len(), &all[0]), (2, &frame));
        // Wherever it is cut, it is whole frames or none.
        for cut in 1..bytes.len() {
            assert!(Captured::all(&bytes[..cut]).is_none_or(|frames| frames.len() == 1), "{cut}");
        }
    }
}
