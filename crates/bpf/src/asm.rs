// SPDX-License-Identifier: Apache-2.0

//! Instructions of the kernel's BPF machine, and labels (RFC 9669, `<linux/bpf.h>`).

use crate::insn::Insn;
use crate::map::Map;
use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

/// A register: R0 results, R1 to R5 arguments that calls destroy, R6 to R9 kept, R10 the frame
/// (read only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// Four bytes.
    W = 0x00,
    /// Two bytes.
    H = 0x08,
    /// One byte.
    B = 0x10,
    /// Eight bytes.
    D = 0x18,
}

/// Arithmetic. Divisions are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Neg = 0x80,
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
}

/// Condition of a jump; orders are unsigned but for those that say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Cond {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    /// Some of the bits are set.
    Set = 0x40,
    Ne = 0x50,
    /// Greater, of signed numbers.
    SignedGt = 0x60,
    Lt = 0xa0,
    Le = 0xb0,
}

/// Second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant, sign-extended where 64 bits are computed.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Operand::Imm(imm)
    }
}

/// Functions of the kernel (`BPF_FUNC_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeGetNs = 5,
    Prandom = 7,
    ProcessorId = 8,
    SkbStoreBytes = 9,
    L3CsumReplace = 10,
    L4CsumReplace = 11,
    TailCall = 12,
    SkbVlanPush = 18,
    SkbVlanPop = 19,
    Redirect = 23,
    SkbLoadBytes = 26,
    SkbChangeType = 32,
    SkbChangeTail = 38,
    SkbPullData = 39,
    SkbChangeHead = 43,
    XdpAdjustHead = 44,
    SkbAdjustRoom = 50,
    RedirectMap = 51,
    XdpAdjustMeta = 54,
    XdpAdjustTail = 65,
    ProbeReadKernel = 113,
    ProbeReadKernelStr = 115,
    Jiffies64 = 118,
    RedirectPeer = 155,
    KtimeGetCoarseNs = 160,
    Loop = 181,
    XdpBuffLen = 188,
    XdpLoadBytes = 189,
    XdpStoreBytes = 190,
    RingOutput = 130,
    RingReserve = 198,
    RingSubmit = 199,
    RingDiscard = 200,
    DynptrRead = 201,
    DynptrData = 203,
}

/// A place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(u32);

/// What a map is to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MapUse {
    /// `BPF_PSEUDO_MAP_FD`.
    Map = 1,
    /// `BPF_PSEUDO_MAP_VALUE`.
    Value = 2,
}

/// `BPF_PSEUDO_KFUNC_CALL`.
const KFUNC: u8 = 2;

/// `BPF_PSEUDO_CALL`.
const OWN: u8 = 1;

/// `BPF_PSEUDO_FUNC`.
const FUNCTION: u8 = 4;

const LD: u8 = 0x00;
const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const ALU32: u8 = 0x04;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
const ALU64: u8 = 0x07;
const MEM: u8 = 0x60;
const ATOMIC: u8 = 0xc0;
/// `BPF_FETCH`, `BPF_CMPXCHG`
const FETCH: i32 = 0x01;
const EXCHANGE: i32 = 0xf0;
const IMM64: u8 = LD | 0x18;
const FROM_REG: u8 = 0x08;
const JA: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
const CALL_CODE: u8 = JMP | CALL;
/// `BPF_JCOND`, of the kind `BPF_MAY_GOTO`.
const MAY_GOTO: u8 = 0xe0;
const TO_BE: u8 = ALU32 | 0xd0 | 0x08;

/// Instructions from which on a jump is a long one: the kernel puts several in the place of some,
/// so distances grow.
const LONG: u16 = 1 << 13;

/// Why there is no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsmError {
    /// A conditional jump goes further than an instruction can say.
    TooFar,
    /// A label stands nowhere: a mistake of who wrote the code.
    Unbound,
}

impl fmt::Display for AsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AsmError::TooFar => "a jump is too long",
            AsmError::Unbound => "a label is bound nowhere",
        })
    }
}

impl std::error::Error for AsmError {}

/// A program with everything but the file descriptors of its maps.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub(crate) insns: Vec<Insn>,
    /// Which instruction uses which map.
    pub(crate) maps: Vec<(usize, Arc<Map>)>,
    /// Functions, in order.
    pub(crate) functions: Vec<Function>,
}

/// A function of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    /// Where it begins.
    pub(crate) at: usize,
    /// Bytes that it is given, if it is looked at by itself ([`Asm::call_global`]).
    pub(crate) memory: Option<u32>,
}

impl Code {
    /// The maps that it uses, each once. They are distinguished by address: clones of an `Arc` are
    /// the same map.
    pub fn used_maps(&self) -> Vec<Arc<Map>> {
        let mut maps: Vec<Arc<Map>> = Vec::new();
        for (_, map) in &self.maps {
            if !maps.iter().any(|known| Arc::ptr_eq(known, map)) {
                maps.push(map.clone());
            }
        }
        maps
    }

    /// Whether it does the same: the same instructions, and maps of the same kind that begin with
    /// the same contents.
    pub fn is_same(&self, other: &Code) -> bool {
        let maps = self.maps.iter().zip(&other.maps);
        self.insns == other.insns
            && self.functions == other.functions
            && self.maps.len() == other.maps.len()
            && maps.into_iter().all(|((at, a), (other_at, b))| at == other_at && a.begins_as(b))
    }

    /// The licence that the program is under for the kernel, which keeps some functions for those
    /// that are compatible with its own: such programs may be used under two other licences than
    /// the rest of this project.
    pub(crate) fn licence(&self, reads_kernel: bool) -> &'static CStr {
        let restricted = |insn: &Insn| {
            let helpers = [Helper::ProbeReadKernel, Helper::ProbeReadKernelStr];
            insn.code == JMP | CALL
                && match insn.regs >> 4 {
                    0 => helpers.iter().any(|helper| *helper as i32 == insn.imm),
                    source => source == KFUNC,
                }
        };
        if reads_kernel || self.insns.iter().any(restricted) {
            c"Dual BSD/GPL"
        } else {
            c"Apache-2.0"
        }
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.insns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }
}

/// Writes a program.
#[derive(Debug, Default)]
pub struct Asm {
    code: Code,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
    globals: Vec<(Label, u32)>,
}

impl Asm {
    /// Nothing yet.
    pub fn new() -> Self {
        Asm::default()
    }

    /// Number of instructions so far.
    pub fn len(&self) -> usize {
        self.code.insns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.code.insns.is_empty()
    }

    /// A place that is not known yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// The label is here.
    pub fn bind(&mut self, label: Label) {
        let here = self.len();
        if let Some(place) = self.labels.get_mut(label.0 as usize) {
            *place = Some(here);
        }
    }

    fn push(&mut self, code: u8, dst: Reg, src: u8, off: i16, imm: i32) {
        self.code.insns.push(Insn { code, regs: dst as u8 | src << 4, off, imm });
    }

    fn operate(&mut self, class: u8, op: u8, dst: Reg, operand: Operand, off: i16) {
        match operand {
            Operand::Reg(src) => self.push(class | op | FROM_REG, dst, src as u8, off, 0),
            Operand::Imm(imm) => self.push(class | op, dst, 0, off, imm),
        }
    }

    /// `dst = dst op operand` in 64 bits.
    pub fn alu(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        self.operate(ALU64, op as u8, dst, operand.into(), 0);
    }

    /// `dst = dst op operand` in 32 bits; the upper half becomes zero.
    pub fn alu32(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        self.operate(ALU32, op as u8, dst, operand.into(), 0);
    }

    /// `dst = operand`, a constant sign-extended.
    pub fn mov(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu(Alu::Mov, dst, operand);
    }

    /// `dst = value`, the upper half zero.
    pub fn mov32(&mut self, dst: Reg, value: u32) {
        self.alu32(Alu::Mov, dst, value as i32);
    }

    /// `dst = value`.
    pub fn mov64(&mut self, dst: Reg, value: u64) {
        match i32::try_from(value as i64) {
            Ok(small) => self.mov(dst, small),
            Err(_) => self.imm64(dst, 0, value as u32 as i32, (value >> 32) as i32),
        }
    }

    fn imm64(&mut self, dst: Reg, pseudo: u8, low: i32, high: i32) {
        self.push(IMM64, dst, pseudo, 0, low);
        self.push(0, Reg::R0, 0, 0, high);
    }

    /// `dst` = a map, for helpers.
    pub fn map(&mut self, dst: Reg, map: &Arc<Map>) {
        self.code.maps.push((self.len(), map.clone()));
        self.imm64(dst, MapUse::Map as u8, 0, 0);
    }

    /// `dst` = address of byte `offset` in the only value of an array map.
    pub fn map_value(&mut self, dst: Reg, map: &Arc<Map>, offset: u32) {
        self.code.maps.push((self.len(), map.clone()));
        self.imm64(dst, MapUse::Value as u8, 0, offset as i32);
    }

    /// `dst` = address of a function of this program.
    pub fn function(&mut self, dst: Reg, function: Label) {
        self.jumps.push((self.len(), function));
        self.imm64(dst, FUNCTION, 0, 0);
    }

    /// Turns the number of `bits` (16, 32, 64) from host order to network order or back; what is
    /// above is cleared.
    pub fn swap(&mut self, dst: Reg, bits: i32) {
        self.push(TO_BE, dst, 0, 0, bits);
    }

    /// `dst = *(base + off)`, zero-extended.
    pub fn load(&mut self, width: Width, dst: Reg, base: Reg, off: i16) {
        self.push(LDX | MEM | width as u8, dst, base as u8, off, 0);
    }

    /// `*(base + off) = operand`.
    pub fn store(&mut self, width: Width, base: Reg, off: i16, operand: impl Into<Operand>) {
        match operand.into() {
            Operand::Reg(src) => self.push(STX | MEM | width as u8, base, src as u8, off, 0),
            Operand::Imm(imm) => self.push(ST | MEM | width as u8, base, 0, off, imm),
        }
    }

    /// `*(base + off) += src`, at once for all processors; four or eight bytes.
    pub fn atomic_add(&mut self, width: Width, base: Reg, off: i16, src: Reg) {
        self.push(STX | ATOMIC | width as u8, base, src as u8, off, 0);
    }

    /// `*(base + off) += reg` in eight bytes, at once for all processors; `reg` becomes what was
    /// there before.
    pub fn atomic_fetch_add(&mut self, base: Reg, off: i16, reg: Reg) {
        self.push(STX | ATOMIC | Width::D as u8, base, reg as u8, off, FETCH);
    }

    /// Eight bytes at `base + off` become `reg` if they are R0, at once for all processors; R0
    /// becomes what was there before.
    pub fn exchange_if(&mut self, base: Reg, off: i16, reg: Reg) {
        self.push(STX | ATOMIC | Width::D as u8, base, reg as u8, off, EXCHANGE | FETCH);
    }

    /// Goes to a label.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.len(), to));
        self.push(JMP | JA, Reg::R0, 0, 0, 0);
    }

    /// Goes to a label if `a cond b` in 64 bits. The label is at most 32767 instructions away.
    pub fn jump_if(&mut self, cond: Cond, a: Reg, b: impl Into<Operand>, to: Label) {
        self.jumps.push((self.len(), to));
        self.operate(JMP, cond as u8, a, b.into(), 0);
    }

    /// As [`Asm::jump_if`], in 32 bits.
    pub fn jump_if32(&mut self, cond: Cond, a: Reg, b: impl Into<Operand>, to: Label) {
        self.jumps.push((self.len(), to));
        self.operate(JMP32, cond as u8, a, b.into(), 0);
    }

    /// Goes on, or to a label after very many times, some million or a quarter of a second: so the
    /// kernel knows that a loop with this in it ends (Linux 6.9). The label is at most 32767
    /// instructions away.
    pub fn may_goto(&mut self, to: Label) {
        self.jumps.push((self.len(), to));
        self.push(JMP | MAY_GOTO, Reg::R0, 0, 0, 0);
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) {
        self.push(JMP | CALL, Reg::R0, 0, 0, helper as i32);
    }

    /// Calls a kfunc of the running kernel, by [its number](crate::Types::function).
    pub fn call_kfunc(&mut self, number: u32) {
        self.push(JMP | CALL, Reg::R0, KFUNC, 0, number as i32);
    }

    /// Calls a function of this program, which has its own R6 to R9 and its own frame.
    pub fn call_function(&mut self, function: Label) {
        self.jumps.push((self.len(), function));
        self.push(JMP | CALL, Reg::R0, OWN, 0, 0);
    }

    /// Calls a function as [`Asm::call_function`] does, which the kernel's verifier looks at once,
    /// and not at each call. It gets the context of the program in R1, and in R2 so many bytes of
    /// memory, or 0 as far as the verifier knows.
    pub fn call_global(&mut self, function: Label, memory: u32) {
        self.globals.push((function, memory));
        self.call_function(function);
    }

    /// Returns R0.
    pub fn exit(&mut self) {
        self.push(JMP | EXIT, Reg::R0, 0, 0, 0);
    }

    /// Returns a number.
    pub fn exit_with(&mut self, value: i32) {
        self.mov(Reg::R0, value);
        self.exit();
    }

    /// The program, jumps filled in and what no way leads to left out, which the kernel would
    /// refuse.
    ///
    /// # Errors
    /// A jump cannot be written.
    pub fn finish(self) -> Result<Code, AsmError> {
        let Asm { code: Code { insns, maps, .. }, labels, jumps, globals } = self;
        let mut targets = vec![None; insns.len()];
        let mut memory = vec![None; insns.len()];
        for (label, bytes) in globals {
            let place = labels.get(label.0 as usize).copied().flatten();
            if let Some(place) = place.and_then(|at| memory.get_mut(at)) {
                *place = Some(bytes);
            }
        }
        for (at, label) in jumps {
            let target =
                labels.get(label.0 as usize).copied().flatten().ok_or(AsmError::Unbound)?;
            if let Some(place) = targets.get_mut(at) {
                *place = Some(target);
            }
        }
        let places = places(&insns, &targets);
        let place = |at: usize| places.get(at).copied().flatten();
        let mut code = Code::default();
        for (at, mut insn) in insns.into_iter().enumerate() {
            let Some(here) = place(at) else { continue };
            if let Some(target) = targets.get(at).copied().flatten() {
                let memory = memory.get(target).copied().flatten();
                let target = place(target).ok_or(AsmError::Unbound)?;
                let distance = target as i64 - here as i64 - 1;
                match (insn.code, i16::try_from(distance).ok()) {
                    (IMM64, _) | (CALL_CODE, _) => {
                        insn.imm = distance as i32;
                        code.functions.push(Function { at: target, memory });
                    }
                    // A long jump has its distance in the constant (Linux 6.6).
                    (code, near)
                        if code == JMP | JA
                            && near.is_none_or(|near| near.unsigned_abs() >= LONG) =>
                    {
                        (insn.code, insn.imm) = (JMP32 | JA, distance as i32);
                    }
                    (_, Some(near)) => insn.off = near,
                    (_, None) => return Err(AsmError::TooFar),
                }
            }
            code.insns.push(insn);
        }
        code.functions.sort_unstable();
        code.functions.dedup();
        code.maps = maps.into_iter().filter_map(|(at, map)| Some((place(at)?, map))).collect();
        Ok(code)
    }
}

/// Where instructions are when those that no way leads to are gone.
fn places(insns: &[Insn], targets: &[Option<usize>]) -> Vec<Option<usize>> {
    let mut reached = vec![false; insns.len()];
    let mut open = vec![0];
    while let Some(at) = open.pop() {
        let (Some(insn), Some(seen)) = (insns.get(at), reached.get_mut(at)) else { continue };
        if std::mem::replace(seen, true) {
            continue;
        }
        open.extend(targets.get(at).copied().flatten());
        match insn.code {
            code if code == JMP | JA || code == JMP | EXIT => {}
            _ => open.push(at + 1),
        }
    }
    let mut count = 0;
    let number = |reached: bool| {
        let here = count;
        count += usize::from(reached);
        reached.then_some(here)
    };
    reached.into_iter().map(number).collect()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use Reg::{R0, R1, R10};

    fn bytes(code: &Code) -> Vec<[u8; 8]> {
        let encode = |i: &Insn| {
            let (off, imm) = (i.off.to_le_bytes(), i.imm.to_le_bytes());
            [i.code, i.regs, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
        };
        code.insns.iter().map(encode).collect()
    }

    #[test]
    fn instructions_are_what_rfc_9669_says() {
        let mut a = Asm::new();
        let end = a.label();
        a.mov(R0, 2);
        a.alu32(Alu::And, R1, R0);
        a.load(Width::H, R1, R10, -2);
        a.store(Width::D, R10, -8, 7);
        a.swap(R1, 16);
        a.jump_if32(Cond::Ne, R1, 9, end);
        a.mov64(R1, 0x1234_5678_9abc_def0);
        a.jump(end);
        // Unreachable.
        a.mov(R1, 1);
        a.bind(end);
        a.call(Helper::KtimeGetNs);
        a.exit();
        let want: [[u8; 8]; 11] = [
            [0xb7, 0x00, 0, 0, 2, 0, 0, 0],
            [0x5c, 0x01, 0, 0, 0, 0, 0, 0],
            [0x69, 0xa1, 0xfe, 0xff, 0, 0, 0, 0],
            [0x7a, 0x0a, 0xf8, 0xff, 7, 0, 0, 0],
            [0xdc, 0x01, 0, 0, 16, 0, 0, 0],
            [0x56, 0x01, 3, 0, 9, 0, 0, 0],
            [0x18, 0x01, 0, 0, 0xf0, 0xde, 0xbc, 0x9a],
            [0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12],
            [0x05, 0x00, 0, 0, 0, 0, 0, 0],
            [0x85, 0, 0, 0, 5, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(&a.finish().unwrap()), want);
    }

    #[test]
    fn far_jumps_are_long_or_refused() {
        let far = |conditional: bool| {
            let mut a = Asm::new();
            let end = a.label();
            if conditional {
                a.jump_if(Cond::Eq, R0, 0, end);
            } else {
                let here = a.label();
                a.jump_if(Cond::Eq, R0, 0, here);
                a.jump(end);
                a.bind(here);
            }
            for _ in 0..40_000 {
                a.mov(R0, 0);
            }
            a.bind(end);
            a.exit();
            a.finish().map(|code| bytes(&code)[usize::from(!conditional)])
        };
        assert_eq!(far(false), Ok([0x06, 0, 0, 0, 0x40, 0x9c, 0, 0]));
        assert_eq!(far(true), Err(AsmError::TooFar));
        let mut a = Asm::new();
        let nowhere = a.label();
        a.jump(nowhere);
        assert_eq!(a.finish().unwrap_err(), AsmError::Unbound);
    }
}
