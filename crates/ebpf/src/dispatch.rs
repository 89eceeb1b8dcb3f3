// SPDX-License-Identifier: Apache-2.0

//! Gates: what stands at a hook or a device and passes packets to the program of the generation in
//! force.
//!
//! ```text
//! hook -> gate -> [ programs ] at the parity of the generation -> chains
//!                                       empty: the packet continues
//! ```
//!
//! All gates read the number of the generation in one map. One write of it exchanges the programs
//! of all gates at once: each packet that meets a gate after the write meets the new program there.

use std::io;
use std::path::Path;
use std::sync::Arc;

use penstock_bpf::asm::{Alu, Asm, Helper, Reg::*, Width};
use penstock_bpf::{LoadError, Map, MapKind, MapSpec, Next, Program, ProgramKind};

/// Programs of a gate: one for each parity of a generation's number.
const PARITIES: u32 = 2;

fn number() -> MapSpec {
    MapSpec { name: "generation", kind: MapKind::Array, key: 4, value: 8, entries: 1 }
}

fn programs() -> MapSpec {
    MapSpec { name: "generations", kind: MapKind::Programs, key: 4, value: 4, entries: PARITIES }
}

/// The number of the generation in force, which gates read.
#[derive(Debug)]
pub struct Generations {
    map: Arc<Map>,
    number: u64,
}

impl Generations {
    /// Generation 0 is in force.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn new() -> io::Result<Self> {
        let map = Map::new(number());
        map.create()?;
        Ok(Generations { map: Arc::new(map), number: 0 })
    }

    /// The number that another process has given a name in a file system of type bpf.
    ///
    /// # Errors
    /// Those of bpf(2); it is something else.
    pub fn pinned(path: &Path) -> io::Result<Self> {
        let map = Map::pinned(number(), path)?;
        let value = map.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let number = value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Ok(Generations { map: Arc::new(map), number })
    }

    /// Gives the number a name in a file system of type bpf.
    ///
    /// # Errors
    /// Those of bpf(2); `EEXIST` if there is such a name.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        self.map.pin(path)
    }

    /// The next generation is in force, at all gates.
    ///
    /// # Errors
    /// Those of bpf(2); then the generation before stays in force.
    pub fn switch(&mut self) -> io::Result<()> {
        let next = self.number.wrapping_add(1);
        self.map.set(&0_u32.to_ne_bytes(), &next.to_ne_bytes())?;
        self.number = next;
        Ok(())
    }

    /// Waits until no packet is in a program any more that it met before the call
    /// (membarrier(2), which waits for a grace period of RCU).
    pub fn wait(&self) {
        const GLOBAL: libc::c_int = 1;
        // SAFETY: no pointers.
        if unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) } != 0 {
            // Processors without ticks refuse it. A packet takes far less.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    fn now(&self) -> u32 {
        (self.number % u64::from(PARITIES)) as u32
    }

    fn next(&self) -> u32 {
        (self.now() + 1) % PARITIES
    }
}

/// What a program at a hook or a device passes packets to: a program for each parity.
#[derive(Debug)]
pub struct Gate {
    programs: Arc<Map>,
}

impl Gate {
    /// One without programs: packets continue.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn new() -> io::Result<Self> {
        let map = Map::new(programs());
        map.create()?;
        Ok(Gate { programs: Arc::new(map) })
    }

    /// One whose programs another process has given a name.
    ///
    /// # Errors
    /// Those of bpf(2); the name is that of something else.
    pub fn pinned(path: &Path) -> io::Result<Self> {
        Ok(Gate { programs: Arc::new(Map::pinned(programs(), path)?) })
    }

    /// Loads the program that is to be attached, for programs of a kind.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load(&self, kind: ProgramKind, generations: &Generations) -> Result<Program, LoadError> {
        let mut asm = Asm::new();
        asm.mov(R6, R1);
        asm.map_value(R1, &generations.map, 0);
        asm.load(Width::D, R3, R1, 0);
        asm.alu(Alu::And, R3, (PARITIES - 1) as i32);
        asm.mov(R1, R6);
        asm.map(R2, &self.programs);
        asm.call(Helper::TailCall);
        Next::Pass.emit(&mut asm, kind);
        let code = asm.finish().map_err(io::Error::other)?;
        Program::load(kind, "penstock_gate", &code)
    }

    /// Gives its programs a name in a file system of type bpf.
    ///
    /// # Errors
    /// Those of bpf(2); `EEXIST` if there is such a name.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        self.programs.pin(path)
    }

    /// What packets meet when the next generation is in force.
    ///
    /// # Errors
    /// Those of bpf(2): the program is of another kind.
    pub fn set_next(&self, generations: &Generations, program: &Program) -> io::Result<()> {
        program.enter_into(&self.programs, generations.next())
    }

    /// Packets continue when the next generation is in force. After a switch the next generation
    /// has what the one before had: this lets go of it.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn clear_next(&self, generations: &Generations) -> io::Result<()> {
        self.programs.remove(&generations.next().to_ne_bytes()).map(drop)
    }
}
