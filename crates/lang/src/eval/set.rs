// SPDX-License-Identifier: Apache-2.0

//! Sets, maps and their elements: anonymous ones become declarations, named ones are looked up.

use std::sync::Arc;

use penstock_program::expr::{CtKey, ObjectType};
use penstock_syntax::ast::expr::{SetElem, SymbolKind, key_of};
use penstock_syntax::ast::{Expr, ExprKind, Key, Stmt};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use crate::cache::{DataKind, SetInfo};
use crate::eval::context::Expected;
use crate::eval::{AnonymousSet, Eval, Result, conflict, error, intervals};
use crate::key_type::{Field, KeyType};

impl KeyType {
    /// What a key of this type is expected to be.
    pub(crate) fn expected(&self) -> Expected {
        Expected {
            key: self.is_concat().then(|| self.fields.clone()),
            ..Expected::new(self.dtype.clone(), self.order(), self.len())
        }
    }

    /// Of what is expected; fields of a concatenation without known fields at their types' own
    /// lengths.
    pub(crate) fn of_expected(expected: &Expected) -> Option<KeyType> {
        let dtype = expected.dtype.clone()?;
        let fields = match (&dtype, &expected.key) {
            (Type::Base(dtype), _) => {
                Arc::from([Field { dtype: *dtype, order: expected.order, len: expected.len }])
            }
            (Type::Concat(_), Some(key)) => key.clone(),
            (Type::Concat(parts), None) => parts.iter().map(|p| Field::base(*p)).collect(),
        };
        Some(KeyType { dtype, fields })
    }
}

/// Whether a key has an interval in it.
pub(crate) fn interval_part(key: &Expr) -> Option<&Expr> {
    let is_interval =
        |e: &&Expr| matches!(e.kind, ExprKind::Prefix { .. } | ExprKind::Range { .. });
    key.parts().iter().find(is_interval)
}

impl Eval<'_, '_> {
    /// A set of the table by name.
    pub(crate) fn find_set(&self, name: &str, loc: Loc) -> Result<Arc<SetInfo>> {
        let table = self.table.as_deref().unwrap_or_default();
        let Some(known) = self.ctx.cache.table(self.family, table) else {
            return match &self.table_name {
                Some(table) => Err(self.table_not_found(table)),
                None => error(loc, "No such file or directory"),
            };
        };
        match known.sets.get(name) {
            Some(set) => Ok(set.clone()),
            None => Err(self.set_not_found(name, loc)),
        }
    }

    /// The set that a reference was resolved to.
    pub(crate) fn known_set(&self, name: &str) -> Option<Arc<SetInfo>> {
        self.ctx.set(self.family, self.table.as_deref().unwrap_or_default(), name)
    }

    pub(crate) fn set_expr(&mut self, e: &mut Expr) -> Result {
        let expected = self.expected.clone();
        let ExprKind::Set { elements, flags } = &mut e.kind else { return Ok(()) };
        let mut nested = false;
        let mut other_type = None;
        for element in elements.iter_mut() {
            if !matches!(element.kind, ExprKind::SetElem(_) | ExprKind::Mapping { .. }) {
                let (key, loc) = (element.take(), element.loc);
                *element = Expr::new(ExprKind::SetElem(Box::new(SetElem::of(key))), loc);
            }
            self.expr(element)?;
            let key = key_of(element);
            if let ExprKind::SetRef { .. } = key.kind {
                return error(element.loc, "Set reference cannot be part of another set");
            }
            if let ExprKind::Set { flags: inner, .. } = key.kind {
                flags.interval |= inner.interval;
                flags.concat |= inner.concat;
                nested = true;
            } else {
                if !element.constant {
                    return error(element.loc, "Set member is not constant");
                }
                if !element.singleton {
                    flags.interval = true;
                    flags.concat |= matches!(key.kind, ExprKind::Concat(_));
                }
            }
            // A concatenation is of the types of its parts, whatever was expected, and the set is
            // of the last one's type.
            if let (ExprKind::Concat(_), Some(wanted)) = (&key.kind, &expected.dtype) {
                other_type = Some(key.dtype.clone()).filter(|dtype| dtype.id() != wanted.id());
            }
            self.expected = expected.clone();
        }
        if nested {
            flatten(elements);
        }
        flags.constant = true;
        self.adopt(e);
        if let Some(dtype) = other_type {
            e.dtype = dtype;
        }
        e.constant = true;
        e.singleton = false;
        Ok(())
    }

    pub(crate) fn set_elem(&mut self, e: &mut Expr) -> Result {
        let ExprKind::SetElem(elem) = &mut e.kind else { return Ok(()) };
        if let Some(set) = self.set.clone() {
            check_statements(&set, elem)?;
        }
        self.expr(&mut elem.key)?;
        for stmt in &mut elem.stmts {
            self.stateful(stmt)?;
        }
        if let Some(set) = &self.set
            && !set.anonymous
            && !set.interval
            && let Some(part) = interval_part(&elem.key)
        {
            return error(
                part.loc,
                format!(
                    "You must add 'flags interval' to your {} declaration if you want to add {} elements",
                    set.word(),
                    part.word()
                ),
            );
        }
        let key = &elem.key;
        let (dtype, order, len, constant, singleton) =
            (key.dtype.clone(), key.order, key.len, key.constant, key.singleton);
        e.dtype = dtype;
        e.order = order;
        e.len = len;
        e.constant = constant;
        e.singleton = singleton;
        Ok(())
    }

    pub(crate) fn mapping(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let ExprKind::Mapping { left, right } = &mut e.kind else { return Ok(()) };
        let Some(set) = self.set.clone() else {
            return error(left.loc, "mapping outside of map context");
        };
        let Some(data) = &set.data else {
            return error(set.place.unwrap_or(loc), "set is not a map");
        };
        self.expected = set.key.expected();
        if !matches!(left.kind, ExprKind::SetElem(_)) {
            let (key, loc) = (left.take(), left.loc);
            **left = Expr::new(ExprKind::SetElem(Box::new(SetElem::of(key))), loc);
        }
        self.expr(left)?;
        if !left.constant {
            return error(left.loc, "Key must be a constant");
        }
        match data {
            DataKind::Value { ty, .. } => self.expected = ty.expected(),
            DataKind::Verdict => {
                self.expected = Expected::new(Type::Base(DataType::Verdict), ByteOrder::Invalid, 0)
            }
            DataKind::Object(_) => {
                self.expected =
                    Expected::new(Type::Base(DataType::String), ByteOrder::Host, 255 * 8);
                if let ExprKind::Symbol { text, .. } = &right.kind {
                    right.kind = ExprKind::String(text.clone());
                }
                if let ExprKind::String(_) = right.kind {
                    right.constant = true;
                    right.singleton = true;
                    right.dtype = Type::Base(DataType::String);
                } else {
                    return error(right.loc, "Value must be a string");
                }
            }
        }
        if !matches!(data, DataKind::Object(_)) {
            self.expr(right)?;
        }
        if !right.constant {
            return error(right.loc, "Value must be a constant");
        }
        match data {
            DataKind::Verdict if !matches!(right.kind, ExprKind::Verdict(_)) => {
                return error(right.loc, "datatype mismatch: expected netfilter verdict");
            }
            DataKind::Value { ty, interval } => {
                if matches!(right.kind, ExprKind::Verdict(_)) || right.dtype != ty.dtype {
                    // The kernel refuses it, unless it is not asked.
                    if !self.ctx.refused {
                        return error(left.loc, "Could not process rule: Invalid argument");
                    }
                }
                if !right.singleton && !*interval && !set.anonymous {
                    return error(right.loc, "Value must be a singleton");
                }
            }
            _ => {}
        }
        e.constant = true;
        let singleton = left.singleton;
        e.singleton = singleton;
        let (dtype, order, len) = (left.dtype.clone(), left.order, left.len);
        e.dtype = dtype;
        e.order = order;
        e.len = len;
        Ok(())
    }

    /// `key map { … }`, `key map @m`: what is expected here is what the map must hold.
    pub(crate) fn map(&mut self, e: &mut Expr) -> Result {
        let data = match self.expected.dtype {
            Some(Type::Base(DataType::Verdict)) => Some(DataKind::Verdict),
            Some(_) => KeyType::of_expected(&self.expected)
                .map(|ty| DataKind::Value { ty, interval: false }),
            None => None,
        };
        self.map_to(e, data)
    }

    /// A map to data of a known kind; `None` where only a named map can tell.
    pub(crate) fn map_to(&mut self, e: &mut Expr, data: Option<DataKind>) -> Result {
        let outer = self.expected.clone();
        let loc = e.loc;
        let ExprKind::Map { key, mappings } = &mut e.kind else { return Ok(()) };
        if let Some(part) = key.parts().iter().find(|part| is_plain_ct_address(part)) {
            return error(part.loc, "specify either ip or ip6 for address matching");
        }
        if let ExprKind::Symbol { kind: SymbolKind::Value, .. } = key.kind {
            return error(key.loc, "No symbol type information");
        }
        self.expected = Expected::default();
        self.expr(key)?;
        if key.constant {
            return error(key.loc, "Map expression can not be constant");
        }
        let kind = match &mut mappings.kind {
            ExprKind::Set { flags, .. } => {
                let Some(data) = data else {
                    return error(loc, "Implicit map expression without known datatype");
                };
                flags.map = true;
                flags.object = matches!(data, DataKind::Object(_));
                // nft keeps with a map what is looked up in it only if that is a concatenation.
                let key = KeyType::of(key).without_expression();
                self.declare_map(key, self.expected.len, data, mappings)?
            }
            ExprKind::Symbol { .. } | ExprKind::SetRef { .. } => {
                self.expr(mappings)?;
                let ExprKind::SetRef { set } = &mappings.kind else {
                    return error(mappings.loc, "Expression is not a map");
                };
                match self.known_set(set) {
                    Some(set) if set.is_map() => set,
                    _ => return error(mappings.loc, "Expression is not a map"),
                }
            }
            ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::Concat(_)
            | ExprKind::List(_)
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Mapping { .. }
            | ExprKind::Map { .. }
            | ExprKind::Payload(_)
            | ExprKind::Exthdr(_)
            | ExprKind::Key(_)
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binop { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => return error(mappings.loc, "Expression is not a map"),
        };
        let mapped = match &kind.data {
            Some(DataKind::Object(_)) if !outer.is_object() => {
                return error(mappings.loc, "Expression is not a map");
            }
            Some(DataKind::Value { ty, .. }) => (ty.dtype.clone(), ty.order(), ty.len()),
            Some(DataKind::Verdict) => (Type::Base(DataType::Verdict), ByteOrder::Invalid, 0),
            Some(DataKind::Object(_)) => (Type::Base(DataType::String), ByteOrder::Host, 0),
            None => return error(mappings.loc, "Expression is not a map"),
        };
        if key.dtype.id() != kind.key.dtype.id() {
            return conflict(
                mappings.loc,
                key.loc,
                format!(
                    "datatype mismatch, map expects {}, mapping expression has type {}",
                    kind.key.dtype.desc(),
                    key.dtype.desc()
                ),
            );
        }
        if kind.interval {
            self.convert_key(key)?;
        }
        let (mut left, mut right) = (key.take(), mappings.take());
        self.transfer(&mut left, &mut right)?;
        **key = left;
        **mappings = right;
        (e.dtype, e.order, e.len) = mapped;
        e.constant = true;
        e.singleton = true;
        Ok(())
    }

    /// The right side of a match becomes an anonymous set. Returns whether it holds intervals.
    pub(crate) fn declare_set(
        &mut self,
        key: KeyType,
        data: Option<DataKind>,
        right: &mut Expr,
    ) -> Result<bool> {
        let set = self.declare(key, data, right)?;
        Ok(set.interval)
    }

    /// The mappings of a map become an anonymous map; their elements are evaluated here. Keys have
    /// so many bits before they are shifted to where they stand in the packet.
    fn declare_map(
        &mut self,
        key: KeyType,
        bits: u32,
        data: DataKind,
        mappings: &mut Expr,
    ) -> Result<Arc<SetInfo>> {
        let mut info = SetInfo::anonymous("__map%d".into(), key, Some(data));
        let mut unshifted = info.clone();
        if let ([field], 1..) = (&*info.key.fields, bits)
            && !info.key.is_concat()
        {
            unshifted.key.fields = Arc::from([Field { len: bits, ..field.clone() }]);
        }
        self.expected = unshifted.key.expected();
        self.set = Some(Arc::new(unshifted));
        let evaluated = self.expr(mappings);
        self.set = None;
        evaluated?;
        if let (ExprKind::Set { elements, .. }, Some(DataKind::Value { interval, .. })) =
            (&mappings.kind, &mut info.data)
        {
            *interval = elements.iter().any(
                |e| matches!(&e.kind, ExprKind::Mapping { right, .. } if interval_part(right).is_some()),
            );
        }
        self.declare(info.key, info.data, mappings)
    }

    fn declare(
        &mut self,
        key: KeyType,
        data: Option<DataKind>,
        e: &mut Expr,
    ) -> Result<Arc<SetInfo>> {
        let id = self.next_id();
        let word = match &data {
            None => "__set%d",
            Some(DataKind::Object(_)) => "__objmap%d",
            Some(_) => "__map%d",
        };
        let name: Arc<str> = format!("{word}#{id}").into();
        let interval = matches!(&e.kind, ExprKind::Set { flags, .. } if flags.interval);
        let key = if interval { key.big_endian() } else { key };
        let mut info = SetInfo::anonymous(name.clone(), key, data);
        info.interval = interval;
        info.auto_merge = interval && info.data.is_none();
        if interval
            && !info.key.is_concat()
            && let ExprKind::Set { elements, .. } = &mut e.kind
        {
            if info.data.is_none() {
                intervals::auto_merge(elements, &[]);
            } else {
                intervals::check_overlap(elements, &[])?;
            }
        }
        let info = Arc::new(info);
        let loc = e.loc;
        let elements = e.take();
        *e = Expr {
            dtype: info.key.dtype.clone(),
            order: info.key.order(),
            len: info.key.len(),
            constant: true,
            ..Expr::new(ExprKind::SetRef { set: name.clone() }, loc)
        };
        let set = AnonymousSet {
            info: info.clone(),
            id,
            elements: Some(elements),
            constant: true,
            size: None,
            loc,
        };
        self.ctx.anonymous.insert(id, set);
        Ok(info)
    }

    /// The set that a `meter` statement keeps its elements in.
    pub(crate) fn declare_meter(
        &mut self,
        name: &Arc<str>,
        key: KeyType,
        timeout: bool,
        size: u32,
        loc: Loc,
    ) {
        let id = self.next_id();
        let mut info = SetInfo::anonymous(name.clone(), key, None);
        info.meter = true;
        info.dynamic = true;
        info.timeout = timeout;
        let set = AnonymousSet {
            info: Arc::new(info),
            id,
            elements: None,
            constant: false,
            size: Some(size).filter(|s| *s > 0),
            loc,
        };
        self.ctx.anonymous.insert(id, set);
    }

    /// Evaluates a stateful statement of an element or a set.
    pub(crate) fn stateful(&mut self, stmt: &mut Stmt) -> Result {
        if stmt.kind.stateful_name().is_none() {
            return error(stmt.loc, "statement must be stateful");
        }
        self.statement(stmt)
    }
}

impl SetInfo {
    /// An anonymous set or map.
    pub(crate) fn anonymous(name: Arc<str>, key: KeyType, data: Option<DataKind>) -> Self {
        SetInfo {
            name,
            anonymous: true,
            meter: false,
            place: None,
            existing: false,
            key,
            data,
            interval: false,
            timeout: false,
            dynamic: false,
            auto_merge: false,
            stmts: Vec::new(),
            intervals: Arc::default(),
        }
    }
}

impl Expected {
    /// Whether the name of an object is expected.
    fn is_object(&self) -> bool {
        self.dtype == Some(Type::Base(DataType::String)) && self.len == 0
    }

    /// The name of an object.
    pub(crate) fn object() -> Self {
        Expected::new(Type::Base(DataType::String), ByteOrder::Host, 0)
    }
}

/// The kind of map that a reference to objects of a kind needs.
pub(crate) fn object_data(kind: ObjectType) -> Option<DataKind> {
    Some(DataKind::Object(kind))
}

fn is_plain_ct_address(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Key(Key::Ct { key: CtKey::Src | CtKey::Dst, family: None, .. }))
}

/// Sets that stood for elements (from variables) are replaced by their elements.
fn flatten(elements: &mut Vec<Expr>) {
    let mut flat = Vec::with_capacity(elements.len());
    for mut element in elements.drain(..) {
        match &mut element.kind {
            ExprKind::SetElem(elem) if matches!(elem.key.kind, ExprKind::Set { .. }) => {
                if let ExprKind::Set { elements: inner, .. } = &mut elem.key.kind {
                    flat.append(inner);
                }
            }
            ExprKind::Mapping { left, right } => {
                if let ExprKind::SetElem(elem) = &mut left.kind
                    && matches!(elem.key.kind, ExprKind::Set { .. })
                {
                    if let ExprKind::Set { elements: inner, .. } = &mut elem.key.kind {
                        for key in inner.drain(..) {
                            let mut mapping = Expr {
                                dtype: key.dtype.clone(),
                                order: key.order,
                                len: key.len,
                                constant: true,
                                singleton: key.singleton,
                                ..Expr::new(ExprKind::Value(0), element.loc)
                            };
                            mapping.kind =
                                ExprKind::Mapping { left: Box::new(key), right: right.clone() };
                            flat.push(mapping);
                        }
                    }
                } else {
                    flat.push(element)
                }
            }
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::Concat(_)
            | ExprKind::List(_)
            | ExprKind::Set { .. }
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Map { .. }
            | ExprKind::SetRef { .. }
            | ExprKind::Payload(_)
            | ExprKind::Exthdr(_)
            | ExprKind::Key(_)
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binop { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => flat.push(element),
        }
    }
    *elements = flat;
}

/// Elements carry the statements that their set declares.
fn check_statements(set: &SetInfo, elem: &SetElem) -> Result {
    if elem.stmts.is_empty() || set.anonymous {
        return Ok(());
    }
    if set.stmts.is_empty() {
        if !set.dynamic {
            return error(
                elem.stmts[0].loc,
                format!("missing statement in {} declaration", set.word()),
            );
        }
        return Ok(());
    }
    if elem.stmts.len() != set.stmts.len() {
        return error(
            elem.key.loc,
            format!(
                "number of statements mismatch, {} expects {} but element has {}",
                set.word(),
                set.stmts.len(),
                elem.stmts.len()
            ),
        );
    }
    for (stmt, wanted) in elem.stmts.iter().zip(&set.stmts) {
        let given = stmt.kind.stateful_name();
        if given != Some(wanted) {
            let given = given.unwrap_or_default();
            let message = format!(
                "statement mismatch, element expects {given}, but {} has type {wanted}",
                set.word()
            );
            return error(stmt.loc, message);
        }
    }
    Ok(())
}
