// SPDX-License-Identifier: Apache-2.0

//! What the runs of a machine work on, one after another: programs, maps, and registers. It stays
//! at its place from run to run, so a run begins with little to write.

use crate::code::{Code, Function};
use crate::connection::Connections;
use crate::context::ProgramKind;
use crate::fault::FaultKind;
use crate::map::{Map, READ_ONLY};
use crate::memory::Memory;
use crate::op::Op;
use crate::space::{CONTEXT, FRAME, FRAME_STEP, MAPS, STACK, VALUES, address, split};

/// Functions that call each other (`MAX_CALL_FRAMES`).
pub(crate) const DEPTH: usize = 8;
/// Bytes of all frames of the stack.
const STACK_LEN: usize = DEPTH * FRAME as usize;

/// Where a function was called from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    /// The instruction that called.
    pub(crate) from: u32,
    /// R6 to R9.
    pub(crate) kept: [u64; 4],
}

/// A program of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: ProgramKind,
    /// Its first instruction, and how many it has.
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// The function of the code there that begins runs.
    pub(crate) first: Option<Function>,
}

/// What runs work on.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ops: Vec<Op>,
    pub(crate) programs: Vec<Entry>,
    pub(crate) maps: Vec<Map>,
    /// [`STACK_LEN`] bytes.
    pub(crate) stack: Memory,
    pub(crate) connections: Connections,
    /// Machine code of the programs; see [`State::set_code`].
    code: Option<Code>,
    /// R0 to R10; there are 16, so that four bits need no check.
    pub(crate) r: [u64; 16],
    pub(crate) frames: [Frame; DEPTH],
    pub(crate) depth: usize,
    /// The instruction that runs.
    pub(crate) pc: u32,
    pub(crate) steps: u64,
    pub(crate) tail_calls: u32,
    /// What a call of machine code went wrong with.
    #[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
    pub(crate) fault: Option<FaultKind>,
    /// Where what is known of the packet is, for machine code.
    #[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
    pub(crate) context_at: u64,
    /// What a call of machine code has loaded.
    #[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
    pub(crate) loaded: u64,
    /// Where a tail call leads.
    #[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
    pub(crate) target: u32,
}

impl Default for State {
    fn default() -> Self {
        State {
            ops: Vec::new(),
            programs: Vec::new(),
            maps: Vec::new(),
            stack: Memory::new(STACK_LEN),
            connections: Connections::default(),
            code: None,
            r: [0; 16],
            frames: [Frame::default(); DEPTH],
            depth: 0,
            pc: 0,
            steps: 0,
            tail_calls: 0,
            fault: None,
            context_at: 0,
            loaded: 0,
            target: 0,
        }
    }
}

impl State {
    /// A run begins that may take so many steps.
    #[inline]
    pub(crate) fn begin(&mut self, steps: u64) {
        self.connections.begin();
        self.depth = 0;
        self.tail_calls = 0;
        self.steps = steps;
    }

    /// Registers as a run begins with them.
    #[inline]
    pub(crate) fn clear_registers(&mut self) {
        self.r = [0; 16];
        self.r[1] = address(CONTEXT, 0);
    }

    /// Machine code of the programs.
    pub(crate) fn code(&self) -> Option<&Code> {
        self.code.as_ref()
    }

    /// Takes code in place of the code there is, if it is for these programs and maps. Programs have
    /// no function of any other code afterwards.
    pub(crate) fn set_code(&mut self, code: Option<Code>) {
        let code = code.filter(|code| code.is_for(&self.ops, &self.maps, &self.stack));
        for entry in &mut self.programs {
            entry.first = code.as_ref().and_then(|code| code.first(entry.start, entry.kind));
        }
        self.code = code;
    }

    /// Forgets code that is for other maps than there are now.
    #[cold]
    pub(crate) fn check_code(&mut self) {
        let code = self.code.take();
        self.set_code(code);
    }

    fn stack_at(offset: u32, len: usize) -> Option<usize> {
        let (frame, within) = (offset / FRAME_STEP, offset % FRAME_STEP);
        if within as usize + len > FRAME as usize {
            return None;
        }
        Some((frame * FRAME + within) as usize)
    }

    /// Memory of the stack and of maps, to be read.
    #[inline]
    pub(crate) fn memory(&self, at: u64, len: usize) -> Option<&[u8]> {
        let (region, offset) = split(at);
        match region {
            STACK => {
                let from = Self::stack_at(offset, len)?;
                self.stack.get(from..from + len)
            }
            VALUES..MAPS => {
                let map = self.maps.get((region - VALUES) as usize)?;
                map.memory.get(offset as usize..)?.get(..len)
            }
            _ => None,
        }
    }

    /// Memory of the stack and of maps, to be written.
    #[inline]
    pub(crate) fn memory_mut(&mut self, at: u64, len: usize) -> Option<&mut [u8]> {
        let (region, offset) = split(at);
        match region {
            STACK => {
                let from = Self::stack_at(offset, len)?;
                self.stack.get_mut(from..from + len)
            }
            VALUES..MAPS => {
                let map = self.maps.get_mut((region - VALUES) as usize)?;
                if map.spec().flags & READ_ONLY != 0 {
                    return None;
                }
                map.memory.get_mut(offset as usize..)?.get_mut(..len)
            }
            _ => None,
        }
    }
}
