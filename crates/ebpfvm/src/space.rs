// SPDX-License-Identifier: Apache-2.0

//! Addresses as programs see them. The high 32 bits are the number of a region, the low ones an
//! offset in it. A program may compute any address; each access is checked, so all that it reaches
//! is memory of its own machine.

/// The context.
pub(crate) const CONTEXT: u32 = 0x11;
/// The packet: offsets in its buffer.
pub(crate) const PACKET: u32 = 0x12;
/// The stack: frame n at n * [`FRAME_STEP`].
pub(crate) const STACK: u32 = 0x13;
/// Functions, for callbacks: numbers of instructions.
pub(crate) const CODE: u32 = 0x14;
/// Structures of the kernel that a program reads.
pub(crate) const OBJECTS: u32 = 0x15;
/// Connections that a program holds.
pub(crate) const CONNECTIONS: u32 = 0x16;
/// Values of map n, at this number plus n.
pub(crate) const VALUES: u32 = 0x1000;
/// Map n itself, which cannot be read, at this number plus n.
pub(crate) const MAPS: u32 = 0x1_0000;
/// Maps that one machine may have.
pub(crate) const MOST_MAPS: usize = 1024;

/// Bytes of the stack of one function (`MAX_BPF_STACK`).
pub(crate) const FRAME: u32 = 512;
/// Bytes from frame to frame: there is nothing between them.
pub(crate) const FRAME_STEP: u32 = 1024;

/// An address.
pub(crate) fn address(region: u32, offset: u32) -> u64 {
    u64::from(region) << 32 | u64::from(offset)
}

/// Region and offset.
pub(crate) fn split(address: u64) -> (u32, u32) {
    ((address >> 32) as u32, address as u32)
}
