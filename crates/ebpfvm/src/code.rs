// SPDX-License-Identifier: Apache-2.0

//! Finished machine code: where its functions begin, and what it was made for.

use std::ffi::c_void;
use std::fmt;

use crate::context::ProgramKind;
use crate::map::{Map, MapKind};
use crate::memory::Memory;
use crate::op::Op;

/// A function of a program as machine code. Its argument is the [`Run`](crate::run::Run) that it
/// belongs to. It gives the number of the instruction that ended it, or what is left to do.
pub(crate) type Function = unsafe extern "C" fn(*mut c_void) -> u64;

/// A function of a program, and what it is for.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
pub(crate) struct Compiled {
    pub(crate) function: Function,
    pub(crate) kind: ProgramKind,
    /// It begins runs only: it reads no registers, and has the first frame.
    pub(crate) begins_runs: bool,
}

/// Machine code of the programs of a machine.
pub(crate) struct Code {
    /// By the number of the first instruction.
    functions: Vec<Option<Compiled>>,
    /// The maps whose addresses are in the code.
    maps: Vec<MapPlace>,
    /// Where the stack is whose address is in the code.
    stack: usize,
    /// What has the code in it, and frees it.
    _memory: Box<dyn Send + Sync>,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({} functions)", self.functions.iter().flatten().count())
    }
}

#[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
impl Code {
    /// Functions by the number of their first instruction, in a memory, for machines with these
    /// maps and this stack.
    pub(crate) fn new(
        functions: Vec<Option<Compiled>>,
        maps: Vec<MapPlace>,
        stack: usize,
        memory: Box<dyn Send + Sync>,
    ) -> Code {
        Code { functions, maps, stack, _memory: memory }
    }

    /// The function that begins at an instruction, if it is for programs of this kind.
    #[inline]
    fn find(&self, start: u32, kind: ProgramKind) -> Option<Compiled> {
        let compiled = (*self.functions.get(start as usize)?)?;
        (compiled.kind == kind).then_some(compiled)
    }

    /// A function for a run that begins, if it needs no registers.
    #[inline]
    pub(crate) fn first(&self, start: u32, kind: ProgramKind) -> Option<Function> {
        self.find(start, kind).filter(|found| found.begins_runs).map(|found| found.function)
    }

    /// A function for a run that has registers. A program may compute the address of a function
    /// that it does not name, also of one that only begins runs: the interpreter runs that.
    pub(crate) fn later(&self, start: u32, kind: ProgramKind) -> Option<Function> {
        self.find(start, kind).filter(|found| !found.begins_runs).map(|found| found.function)
    }

    /// Whether these are the programs, which nobody changes, the maps and the stack that the code is
    /// for.
    pub(crate) fn is_for(&self, ops: &[Op], maps: &[Map], stack: &Memory) -> bool {
        // Later maps are in no code.
        ops.len() == self.functions.len()
            && stack.address().addr() == self.stack
            && maps.len() >= self.maps.len()
            && self.maps.iter().zip(maps).all(|(place, map)| *place == MapPlace::of(map))
    }
}

/// What code knows of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
pub(crate) struct MapPlace {
    pub(crate) kind: MapKind,
    pub(crate) key: u32,
    pub(crate) value: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
    /// Bytes from value to value.
    pub(crate) stride: usize,
    /// Where the values begin, and how many bytes they have together.
    pub(crate) address: usize,
    pub(crate) len: usize,
}

impl MapPlace {
    pub(crate) fn of(map: &Map) -> MapPlace {
        let spec = map.spec();
        MapPlace {
            kind: spec.kind,
            key: spec.key,
            value: spec.value,
            entries: spec.entries,
            flags: spec.flags,
            stride: map.stride,
            address: map.memory.address().expose_provenance(),
            len: map.memory.len(),
        }
    }
}
