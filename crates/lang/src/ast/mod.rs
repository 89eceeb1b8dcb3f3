// SPDX-License-Identifier: Apache-2.0

//! The tree that all stages share.

pub mod cmd;
pub mod expr;
pub mod stmt;
pub(crate) mod walk;

pub use cmd::{Cmd, CmdKind};
pub use expr::{Expr, ExprKind};
pub use stmt::{Stmt, StmtKind};
