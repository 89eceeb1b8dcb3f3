// SPDX-License-Identifier: Apache-2.0

//! The ring buffer (`kernel/bpf/ringbuf.c`): records that a program writes and user space takes, in
//! order.

/// Set in the length of a record that is still being written (`BPF_RINGBUF_BUSY_BIT`).
const BUSY: u32 = 1 << 31;
/// Set in the length of one that is not wanted any more (`BPF_RINGBUF_DISCARD_BIT`).
const DISCARD: u32 = 1 << 30;
/// Bytes in front of each record.
pub(crate) const HEADER: u32 = 8;

/// Positions in a ring. Its memory is twice its size, so that a record is in one piece.
#[derive(Debug)]
pub(crate) struct Ring {
    size: u32,
    /// Bytes that were taken and written since the beginning.
    consumer: u64,
    producer: u64,
}

impl Ring {
    pub(super) fn new(size: u32) -> Ring {
        Ring { size, consumer: 0, producer: 0 }
    }

    fn header(memory: &mut [u8], at: u32) -> Option<&mut [u8; 4]> {
        memory.get_mut(at as usize..)?.first_chunk_mut()
    }

    /// Room for a record: where its bytes begin in the memory.
    pub(crate) fn reserve(&mut self, memory: &mut [u8], len: u64) -> Option<u32> {
        let len = u32::try_from(len).ok().filter(|len| *len < DISCARD)?;
        let whole = (u64::from(len) + u64::from(HEADER)).next_multiple_of(8);
        if self.producer + whole - self.consumer >= u64::from(self.size) {
            return None;
        }
        let at = (self.producer & u64::from(self.size - 1)) as u32;
        *Ring::header(memory, at)? = (len | BUSY).to_le_bytes();
        self.producer += whole;
        Some(at + HEADER)
    }

    /// The length of the record whose bytes begin at `at`, if it is still being written.
    pub(crate) fn reserved(&self, memory: &[u8], at: u32) -> Option<u32> {
        let header = memory.get(at.checked_sub(HEADER)? as usize..)?.first_chunk()?;
        let len = u32::from_le_bytes(*header);
        (len & BUSY != 0).then_some(len & !BUSY)
    }

    /// Gives a record to user space, or says that it is not wanted.
    pub(crate) fn commit(&self, memory: &mut [u8], at: u32, discard: bool) -> Option<()> {
        let len = self.reserved(memory, at)?;
        let flag = if discard { DISCARD } else { 0 };
        *Ring::header(memory, at - HEADER)? = (len | flag).to_le_bytes();
        Some(())
    }

    /// `bpf_ringbuf_query()`: bytes to be taken, size, positions.
    pub(crate) fn query(&self, flags: u64) -> u64 {
        match flags {
            0 => self.producer - self.consumer,
            1 => u64::from(self.size),
            2 => self.consumer,
            3 => self.producer,
            _ => 0,
        }
    }

    /// Takes the next record that is wanted; stops at one that is still being written.
    pub(super) fn take(&mut self, memory: &[u8]) -> Option<Vec<u8>> {
        while self.consumer < self.producer {
            let at = (self.consumer & u64::from(self.size - 1)) as usize;
            let header = u32::from_le_bytes(*memory.get(at..)?.first_chunk()?);
            if header & BUSY != 0 {
                return None;
            }
            let len = header & !DISCARD;
            let whole = (u64::from(len) + u64::from(HEADER)).next_multiple_of(8);
            // A program can write over the lengths of records.
            self.consumer = (self.consumer + whole).min(self.producer);
            if header & DISCARD == 0 {
                let from = at + HEADER as usize;
                return memory.get(from..from + len as usize).map(<[u8]>::to_vec);
            }
        }
        None
    }
}
