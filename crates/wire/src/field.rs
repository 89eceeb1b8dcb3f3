// SPDX-License-Identifier: Apache-2.0

//! Reading and writing of fields at constant offsets. The offsets are constants smaller than `N` at
//! every call, so the checks vanish when inlined.

#[inline(always)]
pub(crate) fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(crate) fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
pub(crate) fn array<const N: usize, const M: usize>(bytes: &[u8; N], at: usize) -> [u8; M] {
    // As a whole: what is put together from smaller parts is slow to read again.
    bytes[at..].first_chunk().copied().unwrap_or([0; M])
}

#[inline(always)]
pub(crate) fn put<const N: usize, const M: usize>(bytes: &mut [u8; N], at: usize, value: [u8; M]) {
    if let Some(field) = bytes[at..].first_chunk_mut() {
        *field = value;
    }
}

#[inline(always)]
pub(crate) fn put16<const N: usize>(bytes: &mut [u8; N], at: usize, value: u16) {
    put(bytes, at, value.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put32<const N: usize>(bytes: &mut [u8; N], at: usize, value: u32) {
    put(bytes, at, value.to_be_bytes());
}

/// Big-endian 16-bit word of a slice, if it is there.
#[inline(always)]
pub(crate) fn get16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
