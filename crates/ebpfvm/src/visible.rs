// SPDX-License-Identifier: Apache-2.0

//! What machine code sees of the packet and the context: a copy of what it reads often, which is
//! made when a run begins and after calls that may change it.

/// Fields of contexts that code reads without a call.
pub(crate) const FIELDS: usize = 8;

/// What code sees.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
pub(crate) struct Visible {
    /// The address of the first byte of the packet, metadata included.
    pub(crate) start: u64,
    /// What is added to an address in the packet for the machine's address.
    pub(crate) bias: u64,
    /// Bytes from `start` that may be accessed, plus one; 0 if the packet has no addresses.
    pub(crate) places: u64,
    /// Where the stack begins, for the machine.
    pub(crate) stack: u64,
    /// Values of fields, by the number that `field_of` gives.
    pub(crate) fields: [u64; FIELDS],
    /// What a call has loaded.
    pub(crate) value: u64,
    /// Where a tail call leads.
    pub(crate) target: u32,
}
