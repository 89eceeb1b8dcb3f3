// SPDX-License-Identifier: Apache-2.0

//! Where the contents of the VM's registers are, while the code of a rule is written.

/// A register word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Known, in memory order.
    Constant(u32),
    /// In the stack frame.
    At {
        /// Where.
        at: i16,
        /// Bytes that may be other than zero, from the first on.
        bytes: u8,
    },
}

/// A word, in memory order, with its first bytes set.
pub(super) fn first_bytes(bytes: u8) -> u32 {
    let mut word = [0; 4];
    word.iter_mut().take(usize::from(bytes)).for_each(|b| *b = 0xff);
    u32::from_ne_bytes(word)
}

/// All sixteen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words([Word; 16]);

impl Words {
    /// Nothing is known; nothing may be read before it is written.
    pub(super) fn new() -> Self {
        Words([Word::Constant(0); 16])
    }

    pub(super) fn get(&self, slot: u8) -> Word {
        self.0.get(usize::from(slot & 15)).copied().unwrap_or(Word::Constant(0))
    }

    pub(super) fn set(&mut self, slot: u8, word: Word) {
        if let Some(place) = self.0.get_mut(usize::from(slot & 15)) {
            *place = word;
        }
    }

    /// `len` bytes from a slot on are in the stack frame at `at`, the rest of the last word zero.
    pub(super) fn set_at(&mut self, slot: u8, at: i16, len: u8) {
        for word in 0..len.div_ceil(4) {
            let place = Word::At { at: at + i16::from(word) * 4, bytes: (len - word * 4).min(4) };
            self.set(slot + word, place);
        }
    }

    /// `bytes` from a slot on, the rest of the last word zero.
    pub(super) fn set_constant(&mut self, slot: u8, bytes: &[u8]) {
        for (word, part) in (0..).zip(bytes.chunks(4)) {
            let mut filled = [0; 4];
            if let Some(start) = filled.get_mut(..part.len()) {
                start.copy_from_slice(part);
            }
            self.set(slot + word, Word::Constant(u32::from_ne_bytes(filled)));
        }
    }
}
