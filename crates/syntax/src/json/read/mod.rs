// SPDX-License-Identifier: Apache-2.0

//! JSON of libnftables-json(5) to commands: what `nft -j -f` reads.
//!
//! | file | reads |
//! | --- | --- |
//! | `commands` | `add`, `list`, `flush`, … and what they speak of |
//! | `objects` | tables, chains, rules, sets, counters and the like |
//! | `stmts` | statements of rules, each by its file in [`crate::stmt`] |
//! | `exprs` | operators, sets, maps, immediate values |
//! | `headers` | header fields and options; each other selector is in [`crate::selector`] |
//!
//! The tree is the one that [`crate::parse`] makes of text, so that evaluation knows no difference.
//! Places in JSON mean little: messages come from `internal:0:0-0`, as nft's do, and one error ends
//! the reading.

mod commands;
pub(crate) mod exprs;
mod headers;
mod objects;
mod stmts;
mod tunnel;

use serde_json::{Map, Value};

use crate::ast::cmd::New;
use crate::ast::{Cmd, CmdKind, Expr, ExprKind};
use crate::diag::{Diagnostic, Diagnostics};
use crate::source::Loc;

/// The newest schema that is understood.
const SCHEMA: i64 = 1;

/// Reads commands. `None` if the text is no JSON document: it may be commands in text then, as nft
/// takes it. Errors are in `diags`; `input` is the number of the text among the inputs.
pub fn read(text: &str, input: u32, diags: &mut Diagnostics) -> Option<Vec<Cmd>> {
    let document: Value = serde_json::from_str(text).ok()?;
    if !document.is_object() && !document.is_array() {
        return None;
    }
    // jansson, by which nft reads, takes no text with such a character in it.
    if text.contains("u0000") && has_nul(&document) {
        return None;
    }
    let mut reader = Reader { diags, input, context: 0, operators: 0 };
    Some(reader.document(&document).unwrap_or_default())
}

/// Whether a text anywhere in a value has the character that ends a string in C.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(list) => list.iter().any(has_nul),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains('\0') || has_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Messages go to the diagnostics, the commands come back.
pub(crate) struct Reader<'a> {
    diags: &'a mut Diagnostics,
    input: u32,
    /// The kind of place of the current expression: bits of [`exprs::Place`].
    context: u32,
    /// Operators around the current expression: each nests the tree a level deeper.
    operators: usize,
}

impl Reader<'_> {
    fn document(&mut self, document: &Value) -> Option<Vec<Cmd>> {
        let object = self.object(document)?;
        let commands = self.member(object, "nftables", 0)?;
        let Value::Array(commands) = commands else {
            return self.error("Value of property \"nftables\" must be an array.");
        };
        let mut out: Vec<Cmd> = Vec::new();
        // Where the objects without a command began that end what is read.
        let mut listed = 0;
        for (i, command) in commands.iter().enumerate() {
            let Value::Object(object) = command else {
                let kind = type_name(command);
                return self.error(format!(
                    "Unexpected command array element of type {kind}, expected object."
                ));
            };
            if let Some(info) = object.get("metainfo") {
                match info.get("json_schema_version").and_then(Value::as_i64) {
                    Some(version) if version > SCHEMA => {
                        self.error::<()>(format!(
                            "Schema version {version} not supported, maximum supported version is {SCHEMA}\n"
                        ));
                        return self.error("Metainfo verification failed.");
                    }
                    _ => continue,
                }
            }
            match self.command(object) {
                Some(cmd) => {
                    out.push(Cmd { loc: place_of(i), ..cmd });
                    if commands::has_verb(object) {
                        listed = out.len();
                    } else if let Some(run) = out.get_mut(listed..) {
                        chains_first(run);
                    }
                }
                None => return self.error(format!("Parsing command array at index {i} failed.")),
            }
        }
        Some(out)
    }

    /// An error at no place.
    pub(crate) fn error<T>(&mut self, message: impl Into<String>) -> Option<T> {
        self.diags.push(Diagnostic::error(Loc::NOWHERE, message));
        None
    }

    /// An error of the form of the document. The column is that in the pattern that nft holds
    /// objects against.
    fn malformed<T>(&mut self, column: u32, message: String) -> Option<T> {
        let loc = Loc { input: self.input, start: column - 1, end: column };
        self.diags.push(Diagnostic::error(loc, message));
        None
    }

    pub(crate) fn object<'v>(&mut self, value: &'v Value) -> Option<&'v Map<String, Value>> {
        match value {
            Value::Object(object) => Some(object),
            other => self.malformed(1, format!("Expected object, got {}", type_name(other))),
        }
    }

    /// The member `name`, the `nth` of those that must be there.
    pub(crate) fn member<'v>(
        &mut self,
        object: &'v Map<String, Value>,
        name: &str,
        nth: u32,
    ) -> Option<&'v Value> {
        match object.get(name) {
            Some(value) => Some(value),
            None => self.malformed(4 + 5 * nth, format!("Object item not found: {name}")),
        }
    }

    pub(crate) fn text<'v>(
        &mut self,
        object: &'v Map<String, Value>,
        name: &str,
        nth: u32,
    ) -> Option<&'v str> {
        match self.member(object, name, nth)? {
            Value::String(text) => Some(text),
            other => {
                let kind = type_name(other);
                self.malformed(4 + 5 * nth, format!("Expected string, got {kind}"))
            }
        }
    }

    pub(crate) fn number<T: TryFrom<i128>>(
        &mut self,
        object: &Map<String, Value>,
        name: &str,
        nth: u32,
    ) -> Option<T> {
        match self.member(object, name, nth)? {
            Value::Number(n) if n.is_i64() || n.is_u64() => match in_range(n) {
                Some(n) => Some(n),
                None => self.error(format!("Value {n} of property \"{name}\" is out of range.")),
            },
            other => {
                let kind = type_name(other);
                self.malformed(4 + 5 * nth, format!("Expected integer, got {kind}"))
            }
        }
    }

    /// A number that may be absent. One that does not fit is an error.
    pub(crate) fn maybe_number<T: TryFrom<i128>>(
        &mut self,
        object: &Map<String, Value>,
        name: &str,
    ) -> Option<Option<T>> {
        match object.get(name) {
            Some(Value::Number(n)) if n.is_i64() || n.is_u64() => match in_range(n) {
                Some(n) => Some(Some(n)),
                None => self.error(format!("Value {n} of property \"{name}\" is out of range.")),
            },
            _ => Some(None),
        }
    }

    /// The only member of an object.
    pub(crate) fn only<'v>(&mut self, value: &'v Value) -> Option<(&'v str, &'v Value)> {
        let mut members = value.as_object().into_iter().flatten();
        match (members.next(), members.next()) {
            (Some((name, value)), None) => Some((name, value)),
            _ => {
                let shown = if value.is_object() { super::to_text(value) } else { "(null)".into() };
                self.error(format!("Malformed object (too many properties): '{shown}'."))
            }
        }
    }
}

/// Reorders the last of some objects as JSON input needs them: a listing has chains after the maps
/// that refer to them.
fn chains_first(run: &mut [Cmd]) {
    let rank = |cmd: &Cmd| match &cmd.kind {
        CmdKind::Add(New::Table(_)) => 0,
        CmdKind::Add(New::Chain(_)) => 1,
        _ => 2,
    };
    let Some((last, before)) = run.split_last() else { return };
    // What was put in order before has its lower ranks first.
    let at = before.partition_point(|cmd| rank(cmd) <= rank(last));
    if let Some(tail) = run.get_mut(at..) {
        tail.rotate_right(1);
    }
}

/// The place of a command: nowhere, but it still tells which one.
fn place_of(index: usize) -> Loc {
    let index = u32::try_from(index + 1).unwrap_or(0);
    Loc { start: index, end: index, ..Loc::NOWHERE }
}

/// The commands of a document with the handles that the objects they made got, as `nft -j -e -f`
/// answers. A handle comes with the place of its command.
pub fn with_handles(document: &str, handles: impl IntoIterator<Item = (Loc, u64)>) -> Value {
    let mut document: Value = serde_json::from_str(document).unwrap_or_default();
    for (loc, handle) in handles {
        let Some(index) =
            (loc.start as usize).checked_sub(1).filter(|_| loc.input == Loc::NOWHERE.input)
        else {
            continue;
        };
        let command = document.get_mut("nftables").and_then(|list| list.get_mut(index));
        let Some((name, body)) = command.and_then(|c| c.as_object_mut()?.iter_mut().next()) else {
            continue;
        };
        let body = match name.as_str() {
            "add" | "create" | "insert" | "replace" => {
                body.as_object_mut().and_then(|o| o.values_mut().next())
            }
            _ => Some(body),
        };
        if let Some(Value::Object(object)) = body {
            object.insert("handle".into(), handle.into());
        }
    }
    document
}

/// A member that is text, if there.
pub(crate) fn maybe_text<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    object.get(name).and_then(Value::as_str)
}

pub(crate) fn flag(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// Negative numbers stand for what C makes of them only where the type is signed.
fn in_range<T: TryFrom<i128>>(n: &serde_json::Number) -> Option<T> {
    let n = n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from))?;
    T::try_from(n).ok()
}

pub(crate) fn expr(kind: ExprKind) -> Expr {
    Expr::new(kind, Loc::NOWHERE)
}

pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(n) if n.is_f64() => "real",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Several texts, or one for itself.
pub(crate) fn several(value: &Value) -> &[Value] {
    match value {
        Value::Array(list) => list,
        one => std::slice::from_ref(one),
    }
}
