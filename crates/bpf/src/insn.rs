// SPDX-License-Identifier: Apache-2.0

//! Instructions in the kernel's encoding.

/// One instruction (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Insn {
    pub(crate) code: u8,
    /// Destination in the low half, source in the high one.
    pub(crate) regs: u8,
    pub(crate) off: i16,
    pub(crate) imm: i32,
}
