// SPDX-License-Identifier: Apache-2.0

//! Random programs that the kernel's verifier accepts.

use fastrand::Rng;
use penstock_ebpfvm::ProgramKind;
use penstock_ebpfvm::insn::Insn;

use crate::instruction::insn;

/// Registers with numbers; R6 has the context, R7 the packet's address.
const NUMBERS: [u8; 8] = [0, 1, 2, 3, 4, 5, 8, 9];
/// Bytes of the stack, below R10, that programs use as memory.
const SCRATCH: i16 = 64;
/// Where the verifier forgets the value of a register, below what programs leave behind.
const FORGOTTEN: i16 = -SCRATCH - 80;
/// Bytes that a packet has at least.
pub const PACKET: usize = 64;
/// Bytes of the value in which programs leave their registers and their memory.
pub const VALUE: u32 = 128;

/// A number that is interesting often.
fn number(rng: &mut Rng) -> i64 {
    const EDGES: [i64; 12] =
        [0, 1, -1, 2, 7, 0x7f, 0x80, 0x8000, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];
    match rng.u8(..4) {
        0 => EDGES[rng.usize(..EDGES.len())],
        1 => rng.i64(-16..16),
        2 => i64::from(rng.i32(..)),
        _ => rng.i64(..),
    }
}

struct Writer<'a> {
    rng: &'a mut Rng,
    code: Vec<Insn>,
    kind: ProgramKind,
    /// Jumps that are left: many make the verifier slow.
    jumps: u32,
}

impl Writer<'_> {
    fn put(&mut self, code: u8, dst: u8, src: u8, off: i16, imm: i32) {
        self.code.push(insn(code, dst, src, off, imm));
    }

    fn constant(&mut self, dst: u8) {
        let value = number(self.rng);
        self.put(0x18, dst, 0, 0, value as i32);
        self.put(0, 0, 0, 0, (value >> 32) as i32);
    }

    fn any(&mut self) -> u8 {
        NUMBERS[self.rng.usize(..NUMBERS.len())]
    }

    fn alu(&mut self) {
        // Operation, and whether it has a signed form.
        const OPS: [u8; 12] =
            [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0, 0xb0, 0xc0];
        let op = OPS[self.rng.usize(..OPS.len())];
        let class = if self.rng.bool() { 7 } else { 4 };
        let (dst, src) = (self.any(), self.any());
        let signed = matches!(op, 0x30 | 0x90) && self.rng.bool();
        if self.rng.bool() {
            let off = match op {
                0xb0 => {
                    let widths: &[i16] = if class == 7 { &[0, 8, 16, 32] } else { &[0, 8, 16] };
                    widths[self.rng.usize(..widths.len())]
                }
                _ => i16::from(signed),
            };
            return self.put(class | op | 8, dst, src, off, 0);
        }
        let imm = match op {
            0x60 | 0x70 | 0xc0 => self.rng.i32(0..if class == 7 { 64 } else { 32 }),
            0x30 | 0x90 => match number(self.rng) as i32 {
                0 => 3,
                imm => imm,
            },
            _ => number(self.rng) as i32,
        };
        self.put(class | op, dst, 0, i16::from(signed), imm);
    }

    fn unary(&mut self) {
        let dst = self.any();
        let width = [16, 32, 64][self.rng.usize(..3)];
        match self.rng.u8(..5) {
            0 => self.put(0x87, dst, 0, 0, 0),
            1 => self.put(0x84, dst, 0, 0, 0),
            2 => self.put(0xd4, dst, 0, 0, width),
            3 => self.put(0xdc, dst, 0, 0, width),
            _ => self.put(0xd7, dst, 0, 0, width),
        }
    }

    /// A place on the stack for an access of a size.
    fn scratch(&mut self, size: i16) -> i16 {
        -SCRATCH + self.rng.i16(0..SCRATCH / size) * size
    }

    fn size(&mut self) -> (u8, i16) {
        [(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8)][self.rng.usize(..4)]
    }

    fn memory(&mut self) {
        let (code, size) = self.size();
        let (at, number) = (self.scratch(size), self.any());
        let imm = self.rng.i32(..);
        match self.rng.u8(..4) {
            0 => self.put(0x61 & !0x18 | code, number, 10, at, 0),
            1 if size < 8 => self.put(0x81 & !0x18 | code, number, 10, at, 0),
            2 => self.put(0x62 & !0x18 | code, 10, 0, at, imm),
            _ => self.put(0x63 & !0x18 | code, 10, number, at, 0),
        }
    }

    fn atomic(&mut self) {
        const OPS: [i32; 10] = [0x00, 0x40, 0x50, 0xa0, 0x01, 0x41, 0x51, 0xa1, 0xe1, 0xf1];
        let (code, size) = if self.rng.bool() { (0x18, 8) } else { (0x00, 4) };
        let (at, number) = (self.scratch(size), self.any());
        let op = OPS[self.rng.usize(..OPS.len())];
        self.put(0xc3 | code, 10, number, at, op);
        match op {
            0xf1 => self.forget(0),
            op if op & 1 != 0 => self.forget(number),
            _ => {}
        }
    }

    /// Takes from the verifier what it knows of a register's value. What an atomic operation has
    /// fetched from the stack it may think to be that of another path: the verifier of Linux 6.18
    /// does not ask which value was there (`backtrack_insn()`), and takes the branch of that path.
    fn forget(&mut self, register: u8) {
        self.put(0x63, 10, register, FORGOTTEN, 0);
        self.put(0x77, register, 0, 0, 32);
        self.put(0x63, 10, register, FORGOTTEN + 4, 0);
        self.put(0x79, register, 10, FORGOTTEN, 0);
    }

    /// Loads that acquire, stores that release.
    fn ordered(&mut self) {
        let (code, size) = self.size();
        let (at, number) = (self.scratch(size), self.any());
        if self.rng.bool() {
            self.put(0xc3 | code, number, 10, at, 0x100);
        } else {
            self.put(0xc3 | code, 10, number, at, 0x110);
        }
    }

    fn packet(&mut self) {
        let (code, size) = self.size();
        let at = self.rng.i16(0..PACKET as i16 - size + 1);
        let number = self.any();
        let imm = self.rng.i32(..);
        if self.kind == ProgramKind::SocketFilter || self.rng.u8(..4) == 0 {
            return self.absolute();
        }
        match self.rng.u8(..4) {
            0 => self.put(0x61 | code, number, 7, at, 0),
            1 if size < 8 => self.put(0x81 | code, number, 7, at, 0),
            2 => self.put(0x62 | code, 7, 0, at, imm),
            _ => self.put(0x63 | code, 7, number, at, 0),
        }
    }

    /// `LD_ABS` and `LD_IND`, after which R1 to R5 have nothing.
    fn absolute(&mut self) {
        if self.kind == ProgramKind::Xdp {
            return;
        }
        const BASES: [i32; 3] = [0, -0x10_0000, -0x20_0000];
        let base = BASES[self.rng.usize(..3)];
        // Sometimes behind the end, where the program ends.
        let last = if self.rng.u8(..16) == 0 { 200 } else { 40 };
        let at = base + self.rng.i32(0..last);
        let code = [0x00, 0x08, 0x10][self.rng.usize(..3)];
        if self.rng.bool() {
            self.put(0x20 | code, 0, 0, 0, at);
        } else {
            let by = self.rng.i32(-8..8);
            self.put(0xb7, 1, 0, 0, by);
            self.put(0x40 | code, 0, 1, 0, at - by);
        }
        for register in 1..=5 {
            self.constant(register);
        }
    }

    /// A jump over a few of these.
    fn jump(&mut self) {
        if self.jumps == 0 {
            return self.alu();
        }
        self.jumps -= 1;
        const CONDITIONS: [u8; 11] =
            [0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0];
        let at = self.code.len();
        let class = if self.rng.bool() { 5 } else { 6 };
        let condition = CONDITIONS[self.rng.usize(..CONDITIONS.len())];
        let (dst, src) = (self.any(), self.any());
        let imm = number(self.rng) as i32;
        if self.rng.bool() {
            self.put(class | condition | 8, dst, src, 0, 0);
        } else {
            self.put(class | condition, dst, 0, 0, imm);
        }
        for _ in 0..self.rng.usize(1..4) {
            self.simple();
        }
        let by = (self.code.len() - at - 1) as i16;
        self.code[at].off = by;
    }

    fn simple(&mut self) {
        match self.rng.u8(..10) {
            0..4 => self.alu(),
            4 => self.unary(),
            5 => self.memory(),
            6 => self.atomic(),
            7 => self.ordered(),
            8 => self.packet(),
            _ => {
                let to = self.any();
                self.constant(to);
            }
        }
    }

    fn begin(&mut self) {
        self.put(0xbf, 6, 1, 0, 0);
        let (data, end) = match self.kind {
            ProgramKind::Xdp => (0, 4),
            _ => (76, 80),
        };
        if self.kind != ProgramKind::SocketFilter {
            // r7 = data; if data + 64 > data_end, return 0
            self.put(0x61, 7, 1, data, 0);
            self.put(0x61, 8, 1, end, 0);
            self.put(0xbf, 2, 7, 0, 0);
            self.put(0x07, 2, 0, 0, PACKET as i32);
            self.put(0xbd, 2, 8, 2, 0);
            self.put(0xb7, 0, 0, 0, 0);
            self.put(0x95, 0, 0, 0, 0);
        }
        for register in NUMBERS {
            self.constant(register);
        }
        for at in (-SCRATCH..0).step_by(8) {
            let imm = self.rng.i32(..);
            self.put(0x7a, 10, 0, at, imm);
        }
        self.put(0x7a, 10, 0, FORGOTTEN, 0);
    }

    /// Leaves registers and memory in the value of map 0, and returns R9.
    fn end(&mut self) {
        for (number, register) in NUMBERS.into_iter().enumerate() {
            self.put(0x7b, 10, register, -SCRATCH - 8 - 8 * number as i16, 0);
        }
        // The key, and the map.
        self.put(0x62, 10, 0, -SCRATCH - 72, 0);
        self.put(0xbf, 2, 10, 0, 0);
        self.put(0x07, 2, 0, 0, i32::from(-SCRATCH - 72));
        self.put(0x18, 1, 1, 0, 0);
        self.put(0, 0, 0, 0, 0);
        self.put(0x85, 0, 0, 0, 1);
        self.put(0x55, 0, 0, 1, 0);
        self.put(0x95, 0, 0, 0, 0);
        for at in (0..VALUE as i16).step_by(8) {
            self.put(0x79, 1, 10, -(VALUE as i16) + at, 0);
            self.put(0x7b, 0, 1, at, 0);
        }
        self.put(0xbf, 0, 9, 0, 0);
        self.put(0x95, 0, 0, 0, 0);
    }
}

/// A program of a kind. It leaves its registers in the value of map 0.
pub fn program(rng: &mut Rng, kind: ProgramKind) -> Vec<Insn> {
    let mut writer = Writer { rng, code: Vec::new(), kind, jumps: 8 };
    writer.begin();
    for _ in 0..writer.rng.usize(10..60) {
        match writer.rng.u8(..6) {
            0 => writer.jump(),
            _ => writer.simple(),
        }
    }
    writer.end();
    writer.code
}
