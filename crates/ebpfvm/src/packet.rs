// SPDX-License-Identifier: Apache-2.0

//! The packet that a program sees: bytes with room in front and behind, in one buffer that is used
//! again for the next packet.

use crate::memory::Memory;

/// Room in front of a frame (`XDP_PACKET_HEADROOM`), bytes.
pub const HEADROOM: usize = 256;
/// Bytes that a driver's page has for headroom and frame: 4096 less `struct skb_shared_info`.
const PAGE: usize = 4096 - 320;

/// Distances from the beginning of a [`Packet`] to its parts, for machine code.
#[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
pub(crate) mod at {
    use std::mem::offset_of;

    use super::Packet;
    use crate::memory::Memory;

    /// The pointer to the buffer.
    pub(crate) const BUFFER: usize = offset_of!(Packet, buffer) + Memory::START_AT;
    pub(crate) const META: usize = offset_of!(Packet, meta);
    pub(crate) const DATA: usize = offset_of!(Packet, data);
    pub(crate) const END: usize = offset_of!(Packet, end);
}

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    buffer: Memory,
    /// Where metadata, data and the room behind it begin.
    meta: usize,
    data: usize,
    end: usize,
    /// Where the buffer ends that this packet may use.
    limit: usize,
}

impl Default for Packet {
    fn default() -> Self {
        Packet {
            buffer: Memory::new(PAGE),
            meta: HEADROOM,
            data: HEADROOM,
            end: HEADROOM,
            limit: PAGE,
        }
    }
}

impl Packet {
    /// Takes a frame. The buffer grows if the frame is longer than those before it.
    pub fn set(&mut self, frame: &[u8]) {
        let end = HEADROOM + frame.len();
        self.limit = end.max(PAGE);
        if self.buffer.len() < self.limit {
            self.buffer = Memory::new(self.limit);
        }
        (self.meta, self.data, self.end) = (HEADROOM, HEADROOM, end);
        self.buffer[HEADROOM..end].copy_from_slice(frame);
    }

    /// Its bytes, from where the program sees them.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.data..self.end]
    }

    /// Its bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.data..self.end]
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.end - self.data
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The metadata in front of it.
    pub fn metadata(&self) -> &[u8] {
        &self.buffer[self.meta..self.data]
    }

    /// Where metadata, data and the room behind begin, in the buffer.
    pub(crate) fn bounds(&self) -> (usize, usize, usize) {
        (self.meta, self.data, self.end)
    }

    /// Bytes at a place in the buffer, metadata included.
    pub(crate) fn at(&self, from: usize, len: usize) -> Option<&[u8]> {
        let to = from.checked_add(len)?;
        if from < self.meta || to > self.end {
            return None;
        }
        self.buffer.get(from..to)
    }

    pub(crate) fn at_mut(&mut self, from: usize, len: usize) -> Option<&mut [u8]> {
        let to = from.checked_add(len)?;
        if from < self.meta || to > self.end {
            return None;
        }
        self.buffer.get_mut(from..to)
    }

    /// Moves the beginning of the data, and metadata with it. `None`, and nothing changes: it would
    /// leave the buffer, in whose beginning `kept` bytes stay free, or less than an Ethernet header
    /// would be left.
    pub(crate) fn adjust_head(&mut self, by: i32, kept: usize) -> Option<()> {
        let metadata = self.data - self.meta;
        let data = self.data.checked_add_signed(by as isize)?;
        if data < kept + metadata || data + ETHERNET > self.end {
            return None;
        }
        self.buffer.copy_within(self.meta..self.data, data - metadata);
        (self.meta, self.data) = (data - metadata, data);
        Some(())
    }

    /// Moves the end; what is new is zero. `None`, and nothing changes: it would leave the buffer,
    /// or less than an Ethernet header would be left.
    pub(crate) fn adjust_tail(&mut self, by: i32) -> Option<()> {
        let end = self.end.checked_add_signed(by as isize)?;
        if end > self.limit || end < self.data + ETHERNET {
            return None;
        }
        if let Some(new) = self.buffer.get_mut(self.end..end) {
            new.fill(0);
        }
        self.end = end;
        Some(())
    }

    /// Moves the beginning of the metadata. `None`, and nothing changes: it would leave the buffer.
    pub(crate) fn adjust_meta(&mut self, by: i32, kept: usize) -> Option<usize> {
        let meta = self.meta.checked_add_signed(by as isize)?;
        if meta < kept || meta > self.data { None } else { Some(meta) }
    }

    pub(crate) fn set_meta(&mut self, meta: usize) {
        self.meta = meta.min(self.data);
    }

    /// Changes the length of the data, without a lower bound; what is new is zero. `None`: there is
    /// no room.
    pub(crate) fn set_len(&mut self, len: usize) -> Option<()> {
        let end = self.data.checked_add(len)?;
        if end > self.limit {
            return None;
        }
        if let Some(new) = self.buffer.get_mut(self.end..end) {
            new.fill(0);
        }
        self.end = end;
        Some(())
    }

    /// Makes room of `by` zero bytes at a place in the data, which moves what is in front of it.
    /// `None`, and nothing changes: there is no room.
    pub(crate) fn insert(&mut self, at: usize, by: usize) -> Option<()> {
        let data = self.data.checked_sub(by)?;
        if at > self.len() {
            return None;
        }
        self.buffer.copy_within(self.data..self.data + at, data);
        self.buffer[data + at..self.data + at].fill(0);
        (self.meta, self.data) = (data, data);
        Some(())
    }

    /// Takes `by` bytes at a place out of the data. `None`, and nothing changes: they are not
    /// there.
    pub(crate) fn remove(&mut self, at: usize, by: usize) -> Option<()> {
        if at.checked_add(by)? > self.len() {
            return None;
        }
        self.buffer.copy_within(self.data..self.data + at, self.data + by);
        self.data += by;
        self.meta = self.data;
        Some(())
    }
}

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
