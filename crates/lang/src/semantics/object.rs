// SPDX-License-Identifier: Apache-2.0

//! References to objects by name

use penstock_program::expr::{Expr as Op, ObjectType, Objref};
use penstock_ruleset::model::MapData;
use penstock_syntax::ast::{Expr, ExprKind, StmtKind};
use penstock_syntax::datatype::{DataType, Type};
use penstock_syntax::source::Loc;

use crate::delinearize::program::Reader;
use crate::delinearize::raw;
use crate::eval::context::Expected;
use crate::eval::set::object_data;
use crate::eval::{Eval, Result, conflict};
use crate::lower::{Program, register};

impl Eval<'_, '_> {
    pub(super) fn object_ref(&mut self, kind: ObjectType, expr: &mut Expr, loc: Loc) -> Result {
        if let ExprKind::Map { .. } = expr.kind {
            self.expected = Expected::object();
            return self.map_to(expr, object_data(kind));
        }
        match expr.text() {
            Some(text) => {
                expr.kind = ExprKind::String(text.clone());
                expr.constant = true;
                expr.singleton = true;
                expr.dtype = Type::Base(DataType::String);
                Ok(())
            }
            None => {
                self.expr(expr)?;
                let found = expr.dtype.desc();
                conflict(
                    expr.loc,
                    loc,
                    format!("datatype mismatch: expected string, expression has type {found}"),
                )
            }
        }
    }
}

impl Program<'_, '_> {
    /// An object by its name, or by a map from what a packet has.
    pub(super) fn object_reference(&mut self, kind: ObjectType, expr: &Expr) {
        if let ExprKind::String(name) = &expr.kind {
            self.ops.push(Op::Objref(Objref::Named { kind, name: name.clone() }));
        } else if let ExprKind::Map { key, mappings } = &expr.kind
            && let ExprKind::SetRef { set } = &mappings.kind
        {
            let slot = self.take(key);
            self.load(key, slot);
            self.release(slot);
            self.ops.push(Op::Objref(Objref::Map { sreg: register(slot), set: set.clone() }));
        }
    }
}

impl Reader<'_, '_> {
    pub(super) fn objref(&mut self, e: &Objref) -> Option<()> {
        match e {
            Objref::Named { kind, name } => {
                let expr = raw(ExprKind::String(name.clone()), 0);
                self.push(StmtKind::ObjRef { kind: *kind, expr });
            }
            Objref::Map { sreg, set } => {
                let set = self.delinearizer.find_set(set)?;
                let Some(MapData::Object(kind)) = set.data else { return None };
                let key = self.delinearizer.key_type(set)?;
                let left = self.registers.get_long(*sreg, key.len())?;
                let mappings = self.delinearizer.set_operand(set);
                let expr = self.map(left, set, mappings);
                self.push(StmtKind::ObjRef { kind, expr });
            }
        }
        Some(())
    }
}
