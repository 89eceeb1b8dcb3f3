// SPDX-License-Identifier: Apache-2.0

//! Statements that change sets from packets: `add @s { … }`, `meter`

use std::sync::Arc;

use penstock_program::expr::{Dynset, DynsetOp, Expr as Op};
use penstock_syntax::ast::expr::{SetElem, key_of};
use penstock_syntax::ast::{Expr, ExprKind, Stmt, StmtKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use crate::cache::{DataKind, SetInfo};
use crate::delinearize::program::{Reader, statements};
use crate::delinearize::{fields, raw};
use crate::eval::context::Expected;
use crate::eval::{Eval, Result, error};
use crate::key_type::KeyType;
use crate::lower::Program;

/// Slots of four bytes in a register.
const WHOLE_REGISTER: usize = 4;

impl Eval<'_, '_> {
    pub(super) fn set_update(
        &mut self,
        set: &mut Expr,
        key: &mut Expr,
        stmts: &mut [Stmt],
        loc: Loc,
    ) -> Result {
        self.expected = Expected::default();
        self.expr(set)?;
        let ExprKind::SetRef { set: name } = &set.kind else {
            return error(set.loc, "Expression does not refer to a set");
        };
        let Some(info) = self.known_set(name) else {
            return error(set.loc, "Expression does not refer to a set");
        };
        let expected = info.key.expected();
        self.update_key(key, expected, loc)?;
        for stmt in stmts {
            self.stateful(stmt)?;
        }
        self.make_dynamic(&info);
        Ok(())
    }

    pub(super) fn map_update(
        &mut self,
        map: &mut Expr,
        (key, data): (&mut Expr, &mut Expr),
        stmts: &mut [Stmt],
        loc: Loc,
    ) -> Result {
        self.expected = Expected::default();
        self.expr(map)?;
        let ExprKind::SetRef { set: name } = &map.kind else {
            return error(map.loc, "Expression does not refer to a map");
        };
        let info = match self.known_set(name) {
            Some(info) if info.is_map() => info,
            _ => return error(map.loc, "Expression does not refer to a map"),
        };
        let expected = info.key.expected();
        self.update_key(key, expected, loc)?;
        let expected = match &info.data {
            Some(DataKind::Value { ty, .. }) => ty.expected(),
            _ => Expected::new(Type::Base(DataType::Verdict), ByteOrder::Invalid, 0),
        };
        self.arg(data, loc, expected)?;
        for stmt in stmts {
            self.stateful(stmt)?;
        }
        Ok(())
    }

    pub(super) fn meter(
        &mut self,
        name: &Arc<str>,
        size: u32,
        key: &mut Expr,
        stmt: &mut Stmt,
        loc: Loc,
    ) -> Result {
        let timeout = key.elem().and_then(|elem| elem.timeout).is_some_and(|t| t > 0);
        self.update_key(key, Expected::default(), loc)?;
        let key_type = KeyType::of(key_of(key));
        self.stateful(stmt)?;
        let key_loc = key.loc;
        self.declare_meter(name, key_type, timeout, size, key_loc);
        Ok(())
    }

    /// Key of an update from the packet path: not constant, with an optional timeout.
    fn update_key(&mut self, key: &mut Expr, expected: Expected, loc: Loc) -> Result {
        let mut comment = None;
        let inner = if let ExprKind::SetElem(elem) = &mut key.kind {
            comment = elem.comment.as_ref().map(|_| elem.key.loc);
            for stmt in &mut elem.stmts {
                self.stateful(stmt)?;
            }
            &mut elem.key
        } else {
            key
        };
        if expected.dtype.is_some() {
            self.arg(inner, loc, expected)?;
        } else {
            self.expected = expected;
            self.expr(inner)?;
        }
        match comment {
            Some(place) => error(place, "Key expression comments are not supported"),
            None => Ok(()),
        }
    }

    /// A set that rules change must be of a kind that allows it.
    fn make_dynamic(&mut self, info: &Arc<SetInfo>) {
        if info.dynamic || info.anonymous {
            return;
        }
        let Some(table) = self.table.clone() else { return };
        let mut changed = (**info).clone();
        changed.dynamic = true;
        self.ctx.cache.put_set(self.family, &table, changed.into());
        // A declaration of a set that exists has to say what it is.
        if !info.existing {
            self.ctx.made_dynamic.push((self.family, table, info.name.clone()));
        }
    }
}

impl Program<'_, '_> {
    pub(super) fn update(
        &mut self,
        op: DynsetOp,
        set: &Expr,
        key: &Expr,
        data: Option<&Expr>,
        stmts: &[Stmt],
    ) {
        if let ExprKind::SetRef { set } = &set.kind {
            self.dynset(op, set.clone(), key, data, stmts);
        }
    }

    fn dynset(
        &mut self,
        op: DynsetOp,
        set: Arc<str>,
        key: &Expr,
        data: Option<&Expr>,
        stmts: &[Stmt],
    ) {
        let base = self.next;
        let elem = key.elem();
        let inner = elem.map_or(key, |elem| &elem.key);
        let timeout = elem.and_then(|elem| elem.timeout).unwrap_or(0);
        let sreg_key = self.argument(inner);
        // nft keeps no less than a whole register for the key.
        self.next = self.next.max(base + WHOLE_REGISTER);
        let sreg_data = data.map(|d| self.argument(d));
        self.release(base);
        let mut exprs = elem.map_or_else(Vec::new, |elem| self.stateful(&elem.stmts));
        exprs.extend(self.stateful(stmts));
        self.ops.push(Op::Dynset(Dynset {
            set,
            op,
            sreg_key,
            sreg_data,
            timeout,
            invert: false,
            exprs,
        }));
    }

    pub(super) fn meter(&mut self, name: &Arc<str>, key: &Expr, stmt: &Stmt) {
        let expires = key.elem().and_then(|elem| elem.timeout).is_some_and(|t| t > 0);
        let op = if expires { DynsetOp::Update } else { DynsetOp::Add };
        self.dynset(op, name.clone(), key, None, std::slice::from_ref(stmt));
    }
}

impl Reader<'_, '_> {
    pub(super) fn dynset(&mut self, e: &Dynset) -> Option<()> {
        let set = self.delinearizer.find_set(&e.set)?;
        let key_type = self.delinearizer.key_type(set)?;
        let mut key = self.registers.get_long(e.sreg_key, key_type.len())?;
        fields::set_types(&mut key, &key_type);
        let key = raw(
            ExprKind::SetElem(Box::new(SetElem {
                key,
                timeout: (e.timeout != 0).then_some(e.timeout),
                expires: None,
                comment: None,
                stmts: Vec::new(),
            })),
            key_type.len(),
        );
        // The kernel does not report them for a set with statements in its declaration.
        let exprs = if set.exprs.is_empty() { &*e.exprs } else { &[] };
        let mut stmts = statements(self.delinearizer, exprs);
        let target = raw(ExprKind::SetRef { set: e.set.clone() }, 0);
        if let Some(sreg) = e.sreg_data {
            let (data_type, _) = self.delinearizer.data_type(set)?;
            let mut data = self.registers.get_long(sreg, data_type.len())?;
            fields::set_types(&mut data, &data_type);
            self.push(StmtKind::MapUpdate { op: e.op, map: target, key, data, stmts });
        } else if set.anonymous && !stmts.is_empty() {
            let size = set.description.size.unwrap_or(0);
            let stmt = Box::new(stmts.swap_remove(0));
            self.push(StmtKind::Meter { name: e.set.clone(), size, key, stmt });
        } else {
            self.push(StmtKind::SetUpdate { op: e.op, set: target, key, stmts });
        }
        Some(())
    }
}
