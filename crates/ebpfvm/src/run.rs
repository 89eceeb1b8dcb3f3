// SPDX-License-Identifier: Apache-2.0

//! One run of a program: its registers, and its memory by address. Every access is checked here.

use crate::code::Code;
use crate::connection::Connections;
use crate::context::Context;
use crate::context::ProgramKind;
use crate::fault::FaultKind;
use crate::host::Host;
use crate::map::{Map, READ_ONLY};
use crate::memory::Memory;
use crate::op::{Op, Size};
use crate::space::{
    CONNECTIONS, CONTEXT, FRAME, FRAME_STEP, MAPS, OBJECTS, PACKET, STACK, VALUES, split,
};
use crate::visible::Visible;

/// Functions that call each other (`MAX_CALL_FRAMES`).
pub(crate) const DEPTH: usize = 8;
/// Bytes of all frames of the stack.
pub(crate) const STACK_LEN: usize = DEPTH * FRAME as usize;

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
}

/// What a run works on.
pub(crate) struct Run<'a> {
    pub(crate) ops: &'a [Op],
    pub(crate) programs: &'a [Entry],
    pub(crate) maps: &'a mut [Map],
    /// [`STACK_LEN`] bytes.
    pub(crate) stack: &'a mut Memory,
    pub(crate) context: &'a mut Context,
    pub(crate) host: &'a mut dyn Host,
    pub(crate) connections: &'a mut Connections,
    /// R0 to R10; there are 16, so that four bits need no check.
    pub(crate) r: [u64; 16],
    pub(crate) frames: &'a mut [Frame; DEPTH],
    pub(crate) depth: usize,
    /// The instruction that runs.
    pub(crate) pc: u32,
    pub(crate) steps: u64,
    pub(crate) tail_calls: u32,
    pub(crate) direct: bool,
    pub(crate) writable: bool,
    /// Machine code of the programs.
    #[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
    pub(crate) code: Option<&'a Code>,
    /// What a call of machine code went wrong with.
    #[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
    pub(crate) fault: Option<FaultKind>,
    /// What machine code sees of the packet and the context.
    #[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
    pub(crate) visible: Visible,
}

impl Run<'_> {
    /// Pays for work; a run has a limit of it.
    #[inline]
    pub(crate) fn pay(&mut self, steps: u64) -> Result<(), FaultKind> {
        self.steps = self.steps.checked_sub(steps).ok_or(FaultKind::Steps)?;
        Ok(())
    }

    fn stack_at(offset: u32, len: usize) -> Option<usize> {
        let (frame, within) = (offset / FRAME_STEP, offset % FRAME_STEP);
        if within as usize + len > FRAME as usize {
            return None;
        }
        Some((frame * FRAME + within) as usize)
    }

    /// Memory to be read. The context and structures of the kernel are none of it: they have
    /// fields.
    #[inline]
    pub(crate) fn memory(&self, at: u64, len: usize) -> Option<&[u8]> {
        let (region, offset) = split(at);
        match region {
            STACK => {
                let from = Self::stack_at(offset, len)?;
                self.stack.get(from..from + len)
            }
            PACKET if self.direct => self.context.packet().at(offset as usize, len),
            VALUES..MAPS => {
                let map = self.maps.get((region - VALUES) as usize)?;
                map.memory.get(offset as usize..)?.get(..len)
            }
            _ => None,
        }
    }

    /// Memory to be written.
    #[inline]
    pub(crate) fn memory_mut(&mut self, at: u64, len: usize) -> Option<&mut [u8]> {
        let (region, offset) = split(at);
        match region {
            STACK => {
                let from = Self::stack_at(offset, len)?;
                self.stack.get_mut(from..from + len)
            }
            PACKET if self.writable => self.context.packet_mut().at_mut(offset as usize, len),
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

    #[inline]
    pub(crate) fn load(&self, at: u64, size: Size) -> Result<u64, FaultKind> {
        let wrong = FaultKind::Read(at, size as u32);
        let Some(bytes) = self.memory(at, size as usize) else {
            return match split(at) {
                (CONTEXT, offset) => self.context.load(offset, size as u32),
                (OBJECTS, offset) => self.context.object(offset, size as u32),
                (CONNECTIONS, offset) => self.connections.load(offset, size as u32).ok_or(wrong),
                _ => Err(wrong),
            };
        };
        let value = match size {
            Size::B => bytes.first().map(|b| u64::from(*b)),
            Size::H => bytes.first_chunk().map(|b| u64::from(u16::from_le_bytes(*b))),
            Size::W => bytes.first_chunk().map(|b| u64::from(u32::from_le_bytes(*b))),
            Size::D => bytes.first_chunk().map(|b| u64::from_le_bytes(*b)),
        };
        value.ok_or(wrong)
    }

    #[inline]
    pub(crate) fn store(&mut self, at: u64, size: Size, value: u64) -> Result<(), FaultKind> {
        let wrong = FaultKind::Write(at, size as u32);
        let Some(place) = self.memory_mut(at, size as usize) else {
            return match split(at) {
                (CONTEXT, offset) => self.context.store(offset, size as u32, value),
                _ => Err(wrong),
            };
        };
        match size {
            Size::B => {
                if let Some(byte) = place.first_mut() {
                    *byte = value as u8;
                }
            }
            Size::H => place.copy_from_slice(&(value as u16).to_le_bytes()),
            Size::W => place.copy_from_slice(&(value as u32).to_le_bytes()),
            Size::D => place.copy_from_slice(&value.to_le_bytes()),
        }
        Ok(())
    }

    /// Whether words at an address may be changed at once: not in packets.
    pub(crate) fn is_atomic(&self, at: u64, size: Size) -> bool {
        split(at).0 != PACKET && at.is_multiple_of(size as u64)
    }

    /// The map that a register names.
    pub(crate) fn map_number(&self, register: u64) -> Option<usize> {
        match split(register) {
            (region, 0) if region >= MAPS => {
                let number = (region - MAPS) as usize;
                (number < self.maps.len()).then_some(number)
            }
            _ => None,
        }
    }
}
