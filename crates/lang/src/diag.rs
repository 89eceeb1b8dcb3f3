//! Diagnostics: what went wrong, and where.

use crate::source::Loc;

/// How bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is committed.
    Error,
    /// For the user to know.
    Warning,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// What is wrong; `^` marks it.
    pub loc: Loc,
    /// What it conflicts with; `~` marks these.
    pub others: Vec<Loc>,
    /// nft's words, without `Error: `.
    pub message: String,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(loc: Loc, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Error, loc, others: Vec::new(), message: message.into() }
    }

    /// The same, conflicting with another place.
    pub fn against(mut self, other: Loc) -> Self {
        self.others.push(other);
        self
    }
}

/// Messages of a run, in order.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    /// In order.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Whether any is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }
}
