// SPDX-License-Identifier: Apache-2.0

//! `log`

use penstock_program::expr::{self as vm, Expr as Op};
use penstock_syntax::ast::stmt::{LOG_PREFIX_LENGTH, Log};
use penstock_syntax::ast::{Expr, ExprKind, StmtKind};
use penstock_syntax::source::Loc;

use crate::delinearize::program::Reader;
use crate::delinearize::raw;
use crate::eval::{Result, error};
use crate::lower::Program;

/// nft's number for `log level audit`.
const LOG_AUDIT: u32 = 8;

pub(super) fn evaluate(log: &mut Log, loc: Loc) -> Result {
    let to_group = log.group.is_some() || log.snaplen.is_some() || log.queue_threshold.is_some();
    if to_group && log.level.is_some() {
        return error(loc, "level and group are mutually exclusive");
    }
    if to_group && log.flags != 0 {
        return error(loc, "flags and group are mutually exclusive");
    }
    if log.level == Some(LOG_AUDIT) && (log.prefix.is_some() || to_group || log.flags != 0) {
        return error(loc, "log level audit doesn't support any further options");
    }
    if let Some(prefix) = &mut log.prefix {
        let text = prefix_text(prefix)?;
        if text.len() >= LOG_PREFIX_LENGTH {
            return error(prefix.loc, "log prefix is too long");
        }
        prefix.kind = ExprKind::String(text.into());
    }
    Ok(())
}

/// A log prefix may be composed of strings and variables.
fn prefix_text(e: &Expr) -> Result<String> {
    if let Some(text) = e.text() {
        Ok(text.to_string())
    } else if let ExprKind::List(parts) = &e.kind {
        parts.iter().map(prefix_text).collect()
    } else if let Some(value) = e.value() {
        let bytes = value.to_le_bytes();
        let used = bytes.iter().position(|b| *b == 0).unwrap_or(16);
        Ok(String::from_utf8_lossy(&bytes[..used]).into_owned())
    } else {
        error(e.loc, "log prefix must be a string")
    }
}

impl Program<'_, '_> {
    pub(super) fn log(&mut self, log: &Log) {
        // Evaluation made it a string.
        let prefix = log.prefix.as_ref().and_then(Expr::text).cloned();
        self.ops.push(Op::Log(vm::Log {
            prefix,
            group: log.group,
            snaplen: log.snaplen,
            queue_threshold: log.queue_threshold,
            level: log.level,
            flags: Some(log.flags).filter(|f| *f != 0),
        }));
    }
}

impl Reader<'_, '_> {
    pub(super) fn log(&mut self, e: &vm::Log) {
        self.push(StmtKind::Log(Log {
            prefix: e.prefix.as_ref().map(|p| raw(ExprKind::String(p.clone()), 0)),
            group: e.group,
            snaplen: e.snaplen.filter(|n| *n != 0),
            queue_threshold: e.queue_threshold.filter(|n| *n != 0),
            level: e.level,
            flags: e.flags.unwrap_or(0),
        }));
    }
}
