// SPDX-License-Identifier: Apache-2.0

//! Structures of C, as programs send them.

/// Bytes of a structure of C: integers in host order, at the offsets of 64-bit machines. What is
/// not there, or not whole, is zero.
#[derive(Clone, Copy, Debug)]
pub struct CStruct<'a>(pub &'a [u8]);

impl<'a> CStruct<'a> {
    /// Bytes at an offset.
    pub fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    /// A byte.
    pub fn u8(self, at: usize) -> u8 {
        u8::from_ne_bytes(self.bytes(at))
    }

    /// A number of 16 bits.
    pub fn u16(self, at: usize) -> u16 {
        u16::from_ne_bytes(self.bytes(at))
    }

    /// Two numbers of 16 bits.
    pub fn u16s(self, at: usize) -> [u16; 2] {
        [self.u16(at), self.u16(at + 2)]
    }

    /// A number of 32 bits.
    pub fn u32(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }

    /// A number of 64 bits.
    pub fn u64(self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(at))
    }

    /// A text that ends with a zero byte or after `len` bytes; `None` if it is no UTF-8.
    pub fn text(self, at: usize, len: usize) -> Option<&'a str> {
        let bytes = self.0.get(at..at + len)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(len);
        std::str::from_utf8(&bytes[..end]).ok()
    }
}
