// SPDX-License-Identifier: Apache-2.0

//! eBPF programs in user space.
//!
//! | module | it is |
//! | --- | --- |
//! | [`insn`], `decode`, `op` | instructions in their encoding, and as they run |
//! | `interp`, `alu`, `run`, `space` | the interpreter, its memory by address |
//! | `state` | what runs work on, one after another: registers, programs, maps |
//! | [`helper`], `call` | functions of the kernel: which there are, what they do |
//! | [`map`] | maps |
//! | [`context`], [`types`], [`packet`] | what a program of each type is given |
//! | [`object`] | ELF objects as clang makes them: programs, maps, relocations |
//! | `machine` | programs and the maps that they share: [`Machine`] |
//! | `instance`, `counts` | objects that are loaded, for several who run them: [`Instance`] |
//! | `host`, [`routing`], [`connection`] | time, randomness, routes, connections: [`Host`] |
//! | `jit` | machine code for programs, with the feature `cranelift` |
//! | `code`, `memory` | finished code, and what it reaches |
//!
//! A program can do what it likes: each access to memory is checked, and what it may reach is its
//! packet, its stack and its maps. It ends with a [`Fault`] if it does otherwise, or runs too long.
//!
//! ```
//! use penstock_ebpfvm::{Context, Machine, ProgramKind, Still, Xdp};
//! use penstock_ebpfvm::insn::Insn;
//!
//! // r0 = 2 (XDP_PASS); exit
//! let code = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
//! let mut machine = Machine::default();
//! let program = machine.add_program(ProgramKind::Xdp, &Insn::read_all(&code).unwrap())?;
//! let mut xdp = Xdp::default();
//! xdp.packet.set(&[0; 64]);
//! assert_eq!(machine.run(program, &mut Context::Xdp(xdp), &mut Still)?, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod alu;
mod call;
mod code;
pub mod connection;
pub mod context;
mod counts;
mod decode;
mod fault;
pub mod helper;
mod host;
pub mod insn;
mod instance;
mod interp;
mod jit;
mod machine;
pub mod map;
mod memory;
pub mod object;
mod op;
pub mod packet;
pub mod routing;
mod run;
mod space;
mod state;
pub mod types;

pub use context::{Context, Netfilter, ProgramKind, Redirect, Skb, Xdp};
pub use counts::Counts;
pub use decode::{DecodeError, DecodeErrorKind};
pub use fault::{Fault, FaultKind};
pub use host::{Host, Still};
pub use instance::{Instance, Program};
pub use jit::CompileError;
pub use machine::{Limits, Machine, ProgramError};
