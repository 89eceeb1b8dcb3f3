// SPDX-License-Identifier: Apache-2.0

//! Sequence numbers of the peer's messages (`nethdr_track_seq()`).

/// Whether a sequence number is before another one, with wrap-around.
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// What was received, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// The last sequence number that was taken.
    pub last: Option<u32>,
    /// Messages that did not come in their turn.
    pub lost: u64,
    /// Messages that came after later ones.
    pub late: u64,
}

/// How a message follows those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// It is the first one, or the next one.
    Next,
    /// Those from this number on are missing.
    After(u32),
    /// It is older than others that came.
    Before,
}

impl Tracked {
    /// Looks at a sequence number, and counts what is missing.
    pub(crate) fn see(&mut self, sequence: u32) -> Follows {
        let Some(last) = self.last else { return Follows::Next };
        let expected = last.wrapping_add(1);
        if sequence == expected {
            Follows::Next
        } else if is_before(sequence, expected) {
            self.late += 1;
            Follows::Before
        } else {
            self.lost += u64::from(sequence.wrapping_sub(expected));
            Follows::After(expected)
        }
    }

    /// Takes a message.
    pub(crate) fn take(&mut self, sequence: u32) {
        self.last = Some(sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around() {
        let mut tracked = Tracked { last: Some(u32::MAX), ..Tracked::default() };
        assert_eq!(tracked.see(0), Follows::Next);
        assert_eq!(tracked.see(2), Follows::After(0));
        assert_eq!(tracked.see(u32::MAX - 1), Follows::Before);
        assert_eq!((tracked.lost, tracked.late), (2, 1));
    }
}
