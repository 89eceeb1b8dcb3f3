// SPDX-License-Identifier: Apache-2.0

//! Machine code for VM programs: all chains of a hook as one native function.
//!
//! [`compile`] takes a linked generation ([`Image`](penstock_program::Image)) and the lists of its
//! hooks, and makes a function of each list: rules, verdicts, jumps and the way from chain to chain
//! are direct, registers are the machine's, headers are found and checked once. What an operation
//! means is said by the interpreter (`penstock_program::interp`): everything that is seldom run is
//! a call of its function, and so is a traced packet, from the rule on that begins the trace. So
//! both have the same results, traces included, and where no code can be made (on other machines
//! than x86-64 and AArch64, or for chains that no ruleset would accept) the interpreter runs
//! instead.
//!
//! | module | it is |
//! | --- | --- |
//! | `asm` | all that is known of Cranelift |
//! | `host` | what code calls: [`Host`], [`Helpers`] |
//! | `analysis` | what is known of chains beforehand |
//! | `lowering_ctx` | the function in the making: headers, facts, registers |
//! | `lower` | operations |
//! | `chain` | rules and chains |
//! | `filter`, `rule_table` | finding among many rules those that compare a word with what it is |
//! | `list`, `compile`, `compiled` | lists of hooks, their functions, and calling them |
//! | `frames` | lists of hooks over frames that are no packets yet |
//! | `egress_precheck` | which packets will pass a list |
//! | `background` | compiling while the interpreter serves |
//! | `without` | what stands in for the compiler without the feature `cranelift` |
//!
//! The feature `cranelift`, on by default, is the code generator. Without it [`supported`] and
//! [`compile`] return an error that says so, and the interpreter runs everything.
//!
//! ```
//! use std::sync::Arc;
//! use penstock_jit::{Decision, Entry, Helpers, List, Options, compile};
//! use penstock_packet::Packet;
//! use penstock_program::image::ChainIndex;
//! use penstock_program::{Family, Hook};
//! use penstock_testkit::program::{MockEnv, Table, parse};
//!
//! let rule = parse::program("[ meta load mark => reg 1 ]\n[ cmp eq reg 1 0x00000007 ]\n[ immediate reg 0 drop ]");
//! let (image, _) = Table::of(vec![rule.unwrap()]).link(Family::Ip).unwrap();
//! let list = List::of([Entry::Chain { chain: ChainIndex(0), family: Family::Ip }]);
//! let compiled = compile(Arc::new(image), &[list], Helpers::of::<MockEnv>(), Options::default()).unwrap();
//! let mut outside = MockEnv::at(Family::Ip, Hook::Forward);
//! let mut packet = Packet::new();
//! let code = compiled.bind::<MockEnv>().unwrap();
//! assert_eq!(code.run(0, &mut packet, &mut outside), Some(Decision::Pass));
//! packet.meta.mark = 7;
//! assert!(matches!(code.run(0, &mut packet, &mut outside), Some(Decision::Chain { entry: 0, .. })));
//! ```

// Without a code generator nothing makes what these modules describe.
#![cfg_attr(not(feature = "cranelift"), allow(dead_code))]

mod background;
mod compiled;
mod host;
mod list;
mod outcome;
mod precheck;
mod profile;
mod rule_name;

#[cfg(feature = "cranelift")]
mod analysis;
#[cfg(feature = "cranelift")]
mod asm;
#[cfg(feature = "cranelift")]
mod chain;
#[cfg(feature = "cranelift")]
mod compile;
#[cfg(feature = "cranelift")]
mod each;
#[cfg(feature = "cranelift")]
mod egress_precheck;
#[cfg(feature = "cranelift")]
mod filter;
#[cfg(feature = "cranelift")]
mod frames;
#[cfg(feature = "cranelift")]
mod lower;
#[cfg(feature = "cranelift")]
mod lowering_ctx;
#[cfg(feature = "cranelift")]
mod perf;
#[cfg(feature = "cranelift")]
mod rule_table;
#[cfg(feature = "cranelift")]
mod tables;
#[cfg(not(feature = "cranelift"))]
mod without;

use std::fmt;

pub use background::{Background, Pending};
#[cfg(feature = "cranelift")]
pub use compile::{compile, supported};
pub use compiled::{Bound, Compiled, PackedDecision};
pub use host::{Helpers, Host};
pub use list::{Bursts, Entry, List, Options};
pub use outcome::Decision;
pub use profile::{ProfileLine, Profiled, clock_ticks};
pub use rule_name::rule_name;
#[cfg(not(feature = "cranelift"))]
pub use without::{compile, supported};

#[cfg(feature = "cranelift")]
use asm::Code;
#[cfg(feature = "cranelift")]
use tables::Tables;
#[cfg(not(feature = "cranelift"))]
use without::{Code, Tables};

/// Why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// No code can be made for this machine.
    Machine(String),
    /// Code could not be made, or no memory be had for it.
    Code(String),
}

impl CompileError {
    fn code(error: impl fmt::Display) -> Self {
        CompileError::Code(error.to_string())
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Machine(why) => write!(f, "no machine code on this machine: {why}"),
            CompileError::Code(why) => write!(f, "no machine code: {why}"),
        }
    }
}

impl std::error::Error for CompileError {}
