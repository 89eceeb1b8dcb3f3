// SPDX-License-Identifier: Apache-2.0

//! Room for the super-packets of a burst.

use std::io;

use super::BURST;
use super::sys::Mapping;

/// Bytes of the largest frame that a device gives, with a virtio-net header and link headers before
/// it.
const SUPER: usize = 65_536 + 64;

/// A place for each frame of a burst. Pages that no frame was in take no memory.
#[derive(Debug)]
pub(super) struct Supers(Mapping);

impl Supers {
    /// Asks the system for room.
    pub(super) fn new() -> io::Result<Self> {
        Mapping::reserved(BURST * SUPER).map(Supers)
    }

    /// The place of a number under [`BURST`].
    pub(super) fn get(&self, number: usize) -> Option<&[u8]> {
        let start = Self::place(number)?;
        // SAFETY: it ends within the mapping, which is zeroed and borrowed.
        Some(unsafe { std::slice::from_raw_parts(self.0.start().add(start), SUPER) })
    }

    /// The place of a number under [`BURST`], to write to.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut [u8]> {
        let start = Self::place(number)?;
        // SAFETY: it ends within the mapping, which is zeroed and not borrowed elsewhere.
        Some(unsafe { std::slice::from_raw_parts_mut(self.0.start().add(start), SUPER) })
    }

    fn place(number: usize) -> Option<usize> {
        (number < BURST).then(|| number * SUPER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_slots_cover_a_burst_without_overlap() {
        let mut supers = Supers::new().unwrap();
        for number in 0..BURST {
            let place = supers.get_mut(number).unwrap();
            place[0] = number as u8;
            place[SUPER - 1] = number as u8;
        }
        for number in 0..BURST {
            let place = supers.get(number).unwrap();
            assert_eq!([place[0], place[1], place[SUPER - 1]], [number as u8, 0, number as u8]);
        }
        assert!(supers.get(BURST).is_none() && supers.get_mut(usize::MAX).is_none());
    }
}
