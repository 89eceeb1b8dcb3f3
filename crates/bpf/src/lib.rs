// SPDX-License-Identifier: Apache-2.0

//! BPF programs for the kernel, made without a compiler and loaded without a library.
//!
//! | module | it is |
//! | --- | --- |
//! | [`asm`] | instructions, labels |
//! | `map`, `program` | what the kernel holds: [`Map`], [`Program`], [`Link`] |
//! | `sys` | bpf(2) itself, and all `unsafe` |
//! | `shared` | words that programs and this process change at once: [`SharedWords`] |
//! | `ring` | records that programs leave for this process: [`RecordRing`] |
//! | `next` | what follows a program |
//! | [`netfilter`] | netfilter hooks as places of programs: [`NetfilterHook`] |
//! | `types` | structures and functions of the running kernel: [`Types`] |
//! | [`seccomp`] | instructions of filters of system calls |
//!
//! It knows no packets and no rules; its users do.
//!
//! ```no_run
//! use penstock_bpf::asm::Asm;
//! use penstock_bpf::{AttachPoint, Mode, Program, xdp};
//!
//! let mut asm = Asm::new();
//! asm.exit_with(xdp::PASS);
//! let program = Program::load(AttachPoint::Xdp, "pass", &asm.finish()?)?;
//! // As long as the link is there, all that device 3 receives goes through it.
//! let _link = program.attach(3, Mode::Any)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(clippy::indexing_slicing)]

pub mod asm;
mod btf;
mod insn;
mod map;
mod mapping;
pub mod netfilter;
mod next;
mod program;
mod ring;
pub mod seccomp;
mod shared;
mod sys;
mod types;

pub use map::{Map, MapKind, MapSpec, possible_cpus};
pub use netfilter::{InetFamily, InetHook, NetfilterHook};
pub use next::Next;
pub use program::{
    AttachPoint, Link, Live, LoadError, Mode, Order, Program, ProgramKind, Ran, SocketFilter, tcx,
    xdp,
};
pub use ring::RecordRing;
pub use shared::SharedWords;
pub use sys::monotonic;
pub use types::{Field, Types};
