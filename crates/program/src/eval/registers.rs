// SPDX-License-Identifier: Apache-2.0

//! The sixteen registers of 4 bytes.

/// Register bytes. Slots are taken modulo 16 and lengths cut at the end, so no access can go wrong;
/// linking has made sure that none is.
#[derive(Clone, Debug)]
#[repr(C, align(16))]
pub struct Registers([u8; 64]);

impl Default for Registers {
    fn default() -> Self {
        Registers::new()
    }
}

impl Registers {
    /// All zero.
    #[inline(always)]
    pub fn new() -> Self {
        Registers([0; 64])
    }

    #[inline(always)]
    fn at(slot: u8) -> usize {
        usize::from(slot & 15) * 4
    }

    /// One word, in memory order.
    #[inline(always)]
    pub fn word(&self, slot: u8) -> u32 {
        let at = Self::at(slot);
        u32::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// Sets one word, in memory order (`dest[0] = value`).
    #[inline(always)]
    pub fn set_word(&mut self, slot: u8, value: u32) {
        let at = Self::at(slot);
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// Sets one byte and clears the rest of its word (`nft_reg_store8()`).
    #[inline(always)]
    pub fn set_u8(&mut self, slot: u8, value: u8) {
        self.set_word(slot, u32::from_ne_bytes([value, 0, 0, 0]));
    }

    /// Sets two bytes and clears the rest of their word (`nft_reg_store16()`).
    #[inline(always)]
    pub fn set_half(&mut self, slot: u8, value: [u8; 2]) {
        self.set_word(slot, u32::from_ne_bytes([value[0], value[1], 0, 0]));
    }

    /// Bytes from a slot on.
    #[inline(always)]
    pub fn bytes(&self, slot: u8, len: u8) -> &[u8] {
        let at = Self::at(slot);
        &self.0[at..(at + usize::from(len)).min(64)]
    }

    /// Bytes from a slot on, for writing.
    #[inline(always)]
    pub fn bytes_mut(&mut self, slot: u8, len: u8) -> &mut [u8] {
        let at = Self::at(slot);
        &mut self.0[at..(at + usize::from(len)).min(64)]
    }

    /// Copies bytes in and clears the rest of the last word.
    #[inline]
    pub fn set(&mut self, slot: u8, bytes: &[u8]) {
        let at = Self::at(slot);
        let end = (at + bytes.len()).min(64);
        if !end.is_multiple_of(4) {
            self.set_word((end / 4) as u8, 0);
        }
        self.0[at..end].copy_from_slice(&bytes[..end - at]);
    }

    /// Sixteen bytes, for 128-bit addresses and names; short at the end of the registers they are
    /// padded with zeros.
    #[inline]
    pub fn sixteen(&self, slot: u8) -> [u8; 16] {
        let mut out = [0; 16];
        let bytes = self.bytes(slot, 16);
        out[..bytes.len()].copy_from_slice(bytes);
        out
    }
}
