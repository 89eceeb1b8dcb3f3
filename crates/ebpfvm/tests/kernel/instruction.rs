// SPDX-License-Identifier: Apache-2.0

//! Instructions as tests write them.

use penstock_ebpfvm::insn::Insn;

/// An instruction by its fields, in their order.
pub fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}
