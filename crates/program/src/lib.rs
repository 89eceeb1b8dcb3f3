// SPDX-License-Identifier: Apache-2.0

//! VM programs: nft's register machine, expression by expression.
//!
//! A rule is a list of [`Expr`]s over sixteen 32-bit registers and a verdict register. What
//! `nft --debug=netlink` prints for a rule is what [`Expr`] prints. This crate holds
//!
//! - the expressions themselves, symbolic: sets, chains and objects by name ([`expr`]);
//! - the verifier: no register read before it was written, nothing out of bounds
//!   ([`verify`](mod@verify));
//! - the linked form with everything resolved, as it is executed ([`image`], [`link`]);
//! - lookups that stand in for walks through long chains ([`classify`]);
//! - the interpreter, which defines what a program means ([`interp`]).
//!
//! What an expression asks of the outside (sets, routes, the clock) is one trait, [`Env`]. This
//! crate does not know where sets live, and knows no devices and no text but the debug form.
//!
//! ```
//! use penstock_packet::Packet;
//! use penstock_program::image::ChainIndex;
//! use penstock_program::{Family, Hook, Outcome, run};
//! use penstock_testkit::program::{MockEnv, Table, parse};
//!
//! // What nft makes of `meta mark 7 drop`.
//! let rule = "[ meta load mark => reg 1 ]\n[ cmp eq reg 1 0x00000007 ]\n[ immediate reg 0 drop ]";
//! let table = Table::of(vec![parse::program(rule).unwrap()]);
//! let (image, _) = table.link(Family::Ip).unwrap();
//! let mut env = MockEnv::at(Family::Ip, Hook::Forward);
//! let mut packet = Packet::new();
//! let mut verdict = |mark| {
//!     packet.meta.mark = mark;
//!     run(&image, ChainIndex(0), &mut packet, &mut env)
//! };
//! assert!(matches!(verdict(7), Outcome::Drop { .. }));
//! assert!(!matches!(verdict(8), Outcome::Drop { .. }));
//! ```

mod c_struct;
pub mod cells;
mod check;
pub mod classify;
mod data;
pub mod env;
mod errno;
mod eval;
pub mod expr;
mod family;
mod hook;
pub mod image;
pub mod interp;
pub mod link;
mod linked;
mod linking;
pub mod needs;
pub mod op;
mod operand;
pub mod osf;
pub mod reference;
mod register;
pub mod state;
mod sync;
mod verdict;
pub mod verify;

pub use cells::WorkerNumber;
pub use data::Data;
pub use env::{Context, Env};
pub use errno::Errno;
pub use expr::{Expr, Expression};
pub use family::Family;
pub use hook::{ChainType, Hook, Hooks};
pub use image::Image;
pub use interp::{Outcome, run};
pub use register::Register;
pub use state::State;
pub use state::dynamic::{self, DynamicSet};
pub use verdict::Verdict;
