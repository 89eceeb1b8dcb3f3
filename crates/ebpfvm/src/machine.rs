// SPDX-License-Identifier: Apache-2.0

//! A machine: programs and the maps that they share.

use std::fmt;

use crate::code::{Code, MapPlace};
use crate::context::{Context, ProgramKind};
use crate::decode::{DecodeError, decode};
use crate::fault::{Fault, FaultKind};
use crate::helper::Helper;
use crate::host::Host;
use crate::insn::Insn;
use crate::jit::{self, CompileError, Source};
use crate::map::{Errno, Map, MapError, MapKind, MapSpec};
use crate::op::Op;
use crate::run::Run;
use crate::space::MOST_MAPS;
use crate::state::{Entry, State};

/// Bounds of what programs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions that a run may go back by jumps, calls and their ends; a run executes no more
    /// than these and the lengths of its programs.
    pub steps: u64,
    /// Bytes of all maps together.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps: 1 << 25, memory: 1 << 30 }
    }
}

/// Why a program is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramError {
    /// An instruction is wrong.
    Decode(DecodeError),
    /// It calls a function that programs of its kind do not have: the instruction and the name.
    Unavailable(usize, &'static str),
    /// It loads from a packet by instructions that its kind does not have.
    NoPacket(usize),
    /// There are too many instructions in the machine.
    Full,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Decode(error) => error.fmt(f),
            ProgramError::Unavailable(at, name) => {
                write!(f, "instruction {at}: {name} is not for programs of this type")
            }
            ProgramError::NoPacket(at) => {
                write!(f, "instruction {at}: LD_ABS and LD_IND are not for programs of this type")
            }
            ProgramError::Full => f.write_str("too many instructions"),
        }
    }
}

impl std::error::Error for ProgramError {}

/// Instructions that a machine may have.
const MOST_OPS: usize = 1 << 24;

/// Programs and maps.
#[derive(Debug)]
pub struct Machine {
    state: State,
    /// A map may have been exchanged for another since the code was made.
    maps_changed: bool,
    limits: Limits,
    memory_left: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Machine::new(Limits::default())
    }
}

impl Machine {
    /// One without programs and maps.
    pub fn new(limits: Limits) -> Machine {
        Machine { state: State::default(), maps_changed: false, limits, memory_left: limits.memory }
    }

    /// Adds a map: its number.
    ///
    /// # Errors
    /// Sizes or flags that its kind does not take, or too little memory. For a map of maps see
    /// [`Machine::add_outer_map`].
    pub fn add_map(&mut self, spec: MapSpec) -> Result<u32, MapError> {
        if spec.kind.has_maps() {
            return Err(MapError::Invalid(spec.name, "it does not say what its maps are like"));
        }
        self.push_map(spec)
    }

    /// Adds a map of maps, all of which are like one: its number.
    ///
    /// # Errors
    /// Sizes, kinds or flags that it does not take, or too little memory.
    pub fn add_outer_map(&mut self, spec: MapSpec, inner: MapSpec) -> Result<u32, MapError> {
        if !spec.kind.has_maps() {
            return Err(MapError::Invalid(spec.name, "its kind has no maps"));
        }
        if inner.kind.has_maps() || inner.kind == MapKind::Programs {
            return Err(MapError::Invalid(
                spec.name,
                "its maps are of a kind that it does not take",
            ));
        }
        let number = self.push_map(spec)?;
        if let Some(map) = self.state.maps.last_mut() {
            map.inner = Some(Box::new(inner));
        }
        Ok(number)
    }

    fn push_map(&mut self, spec: MapSpec) -> Result<u32, MapError> {
        if self.state.maps.len() == MOST_MAPS {
            return Err(MapError::Invalid(spec.name, "there are too many maps"));
        }
        self.state.maps.push(Map::new(spec, &mut self.memory_left)?);
        Ok(self.state.maps.len() as u32 - 1)
    }

    /// Adds a program: its number. A constant of 64 bits whose source register is 1 or 2 names a
    /// map of the machine by its number, a call whose source register is 2 a kfunc by
    /// [`Helper::number`].
    ///
    /// # Errors
    /// An instruction that is not supported, or that programs of its kind do not have.
    pub fn add_program(&mut self, kind: ProgramKind, insns: &[Insn]) -> Result<u32, ProgramError> {
        let start = self.state.ops.len();
        if start + insns.len() > MOST_OPS {
            return Err(ProgramError::Full);
        }
        let ops =
            decode(insns, self.state.maps.len(), start as u32).map_err(ProgramError::Decode)?;
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Call(helper) if !helper.is_for(kind) => {
                    return Err(ProgramError::Unavailable(at, helper.name()));
                }
                Op::Absolute(..) | Op::Indirect(..)
                    if !matches!(kind, ProgramKind::SocketFilter | ProgramKind::Tc) =>
                {
                    return Err(ProgramError::NoPacket(at));
                }
                _ => {}
            }
        }
        self.state.set_code(None);
        self.state.programs.push(Entry {
            kind,
            start: start as u32,
            len: ops.len() as u32,
            first: None,
        });
        self.state.ops.extend(ops);
        Ok(self.state.programs.len() as u32 - 1)
    }

    /// Makes machine code for the programs that there are, which runs from then on in place of the
    /// interpreter and does the same. A program that is added later has none, and then the others
    /// have none any more, either. Memory is made executable, which the calling thread must be
    /// allowed to do.
    ///
    /// # Errors
    /// The build has no code generator (feature `cranelift`), or no code can be made for this
    /// machine or these programs. The interpreter runs them.
    pub fn compile(&mut self) -> Result<(), CompileError> {
        let code = jit::make(&self.source())?;
        self.take_code(code);
        Ok(())
    }

    /// What code is made from.
    pub(crate) fn source(&self) -> Source {
        Source {
            ops: self.state.ops.clone(),
            programs: self.state.programs.clone(),
            maps: self.state.maps.iter().map(MapPlace::of).collect(),
            stack: self.state.stack.address().expose_provenance(),
        }
    }

    /// Runs code that was made from [`Machine::source`], unless programs were added or maps
    /// exchanged meanwhile.
    pub(crate) fn take_code(&mut self, code: Code) {
        self.state.set_code(Some(code));
    }

    /// Whether there is machine code.
    pub fn is_compiled(&self) -> bool {
        self.state.code().is_some()
    }

    /// A map by its number.
    pub fn map(&self, number: u32) -> Option<&Map> {
        self.state.maps.get(number as usize)
    }

    /// A map by its number, to be changed.
    pub fn map_mut(&mut self, number: u32) -> Option<&mut Map> {
        self.maps_changed = true;
        self.state.maps.get_mut(number as usize)
    }

    /// All maps, in the order of their numbers.
    pub fn maps(&self) -> &[Map] {
        &self.state.maps
    }

    /// The kind of a program.
    pub fn kind(&self, program: u32) -> Option<ProgramKind> {
        self.state.programs.get(program as usize).map(|entry| entry.kind)
    }

    /// Makes a program element `index` of an array of programs.
    ///
    /// # Errors
    /// `EINVAL` for another map or a program that is not there, `E2BIG` for an index that is too
    /// large.
    pub fn set_program(&mut self, map: u32, index: u32, program: u32) -> Result<(), Errno> {
        self.kind(program).ok_or(Errno::INVAL)?;
        self.map_mut(map).ok_or(Errno::INVAL)?.set_program(index, Some(program))
    }

    /// Makes a map the value of a key of a map of maps.
    ///
    /// # Errors
    /// `EINVAL` for a map that has no maps, or a value that is not like its others; otherwise those
    /// of [`Map::set`].
    pub fn set_map(&mut self, outer: u32, key: &[u8], inner: u32) -> Result<(), Errno> {
        let spec = self.map(inner).ok_or(Errno::INVAL)?.spec().clone();
        self.map_mut(outer).ok_or(Errno::INVAL)?.set_map(key, inner, &spec)
    }

    /// Runs a program: what it returns.
    ///
    /// # Errors
    /// It did what it may not, or ran too long. Its packet and its maps are as it left them.
    pub fn run(
        &mut self,
        program: u32,
        context: &mut Context,
        host: &mut dyn Host,
    ) -> Result<u64, Fault> {
        if self.maps_changed {
            self.maps_changed = false;
            self.state.check_code();
        }
        let entry = self.state.programs.get(program as usize);
        let Some(entry) = entry.filter(|entry| context.begin(entry.kind)) else {
            return Err(Fault { kind: FaultKind::Unavailable("this context"), at: 0 });
        };
        let (start, kind, first) = (entry.start, entry.kind, entry.first);
        self.state.begin(self.limits.steps);
        let mut run = Run { state: &mut self.state, context, host };
        let kind = match run.program_from(first, start, kind) {
            // NF_DROP and NF_ACCEPT: the kernel's verifier knows no others.
            Ok(verdict) if kind == ProgramKind::Netfilter && verdict as u32 > 1 => {
                FaultKind::Verdict(verdict)
            }
            Ok(_) if run.connections.held() != 0 => FaultKind::References,
            Ok(result) => return Ok(result),
            Err(kind) => kind,
        };
        Err(Fault { kind, at: self.place_of(self.state.pc) })
    }

    /// The number of an instruction in its program.
    fn place_of(&self, pc: u32) -> u32 {
        let entry = self.state.programs.iter().find(|e| (e.start..e.start + e.len).contains(&pc));
        pc - entry.map_or(0, |entry| entry.start)
    }

    /// The functions of the kernel that a program calls, in no order.
    pub fn calls(&self, program: u32) -> impl Iterator<Item = Helper> {
        let range = self
            .state
            .programs
            .get(program as usize)
            .map_or(0..0, |entry| entry.start as usize..(entry.start + entry.len) as usize);
        self.state.ops[range].iter().filter_map(|op| match op {
            Op::Call(helper) => Some(*helper),
            _ => None,
        })
    }
}
