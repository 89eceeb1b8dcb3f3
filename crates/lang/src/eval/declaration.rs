// SPDX-License-Identifier: Apache-2.0

//! Declarations of sets and maps: the types of their keys and data.

use std::sync::Arc;

use penstock_syntax::ast::cmd::{SetBlock, SetData, Target};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::datatype::{Base, ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use crate::cache::{DataKind, SetInfo};
use crate::eval::{Eval, Result, conflict, error};
use crate::key_type::{Field, KeyType};

impl Eval<'_, '_> {
    pub(super) fn define_set(&mut self, block: &mut SetBlock, target: &Target) -> Result {
        let word = if block.map { "map" } else { "set" };
        let place = block.loc;
        if block.auto_merge && !block.flags.interval {
            // It is known nevertheless.
            block.auto_merge = false;
            drop(self.define_set(block, target));
            self.take_back_key(target);
            return error(place, "auto-merge only works with interval sets");
        }
        let Some(key) = &mut block.key else {
            if let (Some(table), Some(name)) = (&self.table, &target.name) {
                self.ctx.cache.add_table(self.family, table).untyped.insert(name.text.clone(), ());
            }
            // Only with a type is a map known as one.
            return error(place, "set definition does not specify key");
        };
        let mut key_type = self.type_of(key, block.key_typeof, place, word)?;
        if key_type.len() > 64 * 8 {
            return error(key.loc, "Key size exceeds maximum of 64 bytes");
        }
        if block.flags.interval {
            key_type = key_type.big_endian();
        }
        let data = match &mut block.data {
            None if block.map => {
                return error(place, "map definition does not specify mapping data type");
            }
            None => None,
            Some(SetData::Object(kind)) => Some(DataKind::Object(*kind)),
            Some(SetData::Expr { expr, interval }) => {
                if let ExprKind::Symbol { text, .. } = &expr.kind
                    && &**text == "verdict"
                {
                    Some(DataKind::Verdict)
                } else {
                    let ty = self.type_of(expr, block.key_typeof, place, word)?;
                    Some(DataKind::Value { ty, interval: *interval })
                }
            }
        };
        for stmt in &mut block.stmts {
            self.stateful(stmt)?;
        }
        if block.timeout.is_some() || block.gc_interval.is_some() {
            block.flags.timeout = true;
        }
        let Some(name) = &target.name else { return Ok(()) };
        let info = SetInfo {
            name: name.text.clone(),
            anonymous: false,
            meter: false,
            place: Some(place),
            existing: false,
            key: key_type,
            data,
            interval: block.flags.interval,
            timeout: block.flags.timeout,
            dynamic: block.flags.eval,
            auto_merge: block.auto_merge,
            stmts: block.stmts.iter().filter_map(|s| s.kind.stateful_name()).collect(),
            intervals: Arc::default(),
        };
        let Some(table) = self.table.clone() else { return Ok(()) };
        if let Some(known) = self.ctx.cache.set(self.family, &table, &name.text) {
            // Declaring it again leaves its content alone.
            let (intervals, existing) = (known.intervals.clone(), known.existing);
            let known = SetInfo { intervals, existing, ..info };
            self.ctx.cache.put_set(self.family, &table, known.into());
        } else {
            self.ctx.cache.put_set(self.family, &table, info.into());
        }
        Ok(())
    }

    /// A concatenation was not evaluated when the declaration was refused: it has no type.
    pub(super) fn take_back_key(&mut self, target: &Target) {
        let (Some(table), Some(name)) = (&self.table, &target.name) else { return };
        let Some(info) = self.ctx.cache.set(self.family, table, &name.text) else { return };
        if info.key.is_concat() {
            let mut info = SetInfo::clone(info);
            info.key.dtype = Type::Base(DataType::Invalid);
            self.ctx.cache.put_set(self.family, table, info.into());
        }
    }

    /// The type that `type` names or that `typeof` expressions have.
    pub(super) fn type_of(
        &mut self,
        e: &mut Expr,
        by_expression: bool,
        place: Loc,
        word: &str,
    ) -> Result<KeyType> {
        let loc = e.loc;
        let parts: Vec<&mut Expr> = if let ExprKind::Concat(parts) = &mut e.kind {
            parts.iter_mut().collect()
        } else {
            vec![e]
        };
        let mut fields = Vec::with_capacity(parts.len());
        let concat = parts.len() > 1;
        for part in parts {
            let field = match (by_expression, concat) {
                (true, _) => self.typeof_field(part)?,
                (false, true) => concat_field(part, loc)?,
                (false, false) => named_field(part, place, word)?,
            };
            fields.push(field);
        }
        Ok(match fields.as_slice() {
            [one] => KeyType::base(one.clone()),
            [] => return error(loc, "empty type"),
            many => KeyType {
                dtype: Type::Concat(many.iter().map(|f| f.dtype).collect()),
                fields: fields.into(),
            },
        })
    }

    /// The type of an expression, whatever the packet would have to be for it.
    pub(super) fn typeof_field(&mut self, e: &mut Expr) -> Result<Field> {
        if let ExprKind::Payload(payload) = &e.kind {
            return Ok(match payload.field {
                Some(field) => Field { dtype: field.dtype, order: ByteOrder::Big, len: field.len },
                None => Field { dtype: DataType::RawInteger, order: ByteOrder::Big, len: e.len },
            });
        }
        if let ExprKind::Exthdr(exthdr) = &e.kind
            && let (false, Some(field)) = (exthdr.present, exthdr.field)
        {
            return Ok(Field { dtype: field.dtype, order: ByteOrder::Big, len: field.len });
        }
        let mut copy = e.clone();
        let mut inner = Eval::new(self.ctx, self.family, self.table.clone());
        inner.expr(&mut copy)?;
        let field = Field::of(&copy);
        if field.len == 0 || copy.constant {
            return error(
                e.loc,
                format!("primary expression type '{}' lacks typeof serialization", copy.word()),
            );
        }
        Ok(field)
    }
}

/// A type by name in a concatenation.
fn concat_field(e: &Expr, whole: Loc) -> Result<Field> {
    let ExprKind::Symbol { text, .. } = &e.kind else { return error(e.loc, "type name expected") };
    match DataType::from_name(text) {
        Some(dtype) if dtype.size() > 0 => Ok(Field::base(dtype)),
        Some(dtype) => conflict(
            e.loc,
            whole,
            format!(
                "can not use variable sized data types ({}) in concat expressions",
                dtype.name()
            ),
        ),
        None => error(e.loc, format!("unknown datatype {text}")),
    }
}

/// A type by name. Its size must be known.
fn named_field(e: &Expr, place: Loc, word: &str) -> Result<Field> {
    let ExprKind::Symbol { text, .. } = &e.kind else { return error(e.loc, "type name expected") };
    let Some(dtype) = DataType::from_name(text) else {
        return error(e.loc, format!("unknown datatype {text}"));
    };
    if dtype.size() == 0 || Type::Base(dtype).kind() == Base::Verdict {
        return error(
            place,
            format!(
                "unqualified type {} specified in {word} definition. Try \"typeof expression\" instead of \"type datatype\".",
                dtype.name()
            ),
        );
    }
    Ok(Field::base(dtype))
}
