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
