// SPDX-License-Identifier: Apache-2.0

//! `quota`

use penstock_program::expr::ObjectType;
use serde_json::{Map, Value, json};

use crate::ast::StmtKind;
use crate::json::Writer;
use crate::json::read::{Reader, flag, maybe_text};
use crate::parse::{Parsed, Parser};
use crate::print::Printer;
use crate::source::Loc;
use crate::units;

impl Parser<'_> {
    /// `quota over …`, `quota name …`, which began at `start`
    pub(super) fn quota_stmt(&mut self, start: Loc) -> Parsed<StmtKind> {
        if self.at("name") { self.object_ref(ObjectType::Quota) } else { self.quota(start) }
    }

    /// `[over|until] N mbytes [used N bytes]`
    pub(crate) fn quota(&mut self, start: Loc) -> Parsed<StmtKind> {
        let over = self.over();
        let bytes = self.bytes(start)?;
        let mut used = 0;
        let start = self.here();
        if self.eat("used") {
            used = self.bytes(start)?;
            self.ends_by_itself();
        }
        Ok(StmtKind::Quota { bytes, used, over })
    }

    /// `N mbytes`
    fn bytes(&mut self, start: Loc) -> Parsed<u64> {
        let n = self.number()?;
        let factor = self.data_unit(start)?;
        match n.checked_mul(factor) {
            Some(bytes) => Ok(bytes),
            None => {
                let loc = self.since(start);
                self.error(loc, "Wrong rate format")
            }
        }
    }
}

impl Printer<'_> {
    /// `over 5 mbytes used 3 bytes`
    pub fn quota(&mut self, bytes: u64, used: u64, over: bool) {
        let (value, scale) = units::scaled(bytes);
        let over = if over { "over " } else { "" };
        self.write(format_args!("{over}{value} {scale}"));
        if !self.format.stateless && used != 0 {
            let (value, scale) = units::scaled(used);
            self.write(format_args!(" used {value} {scale}"));
        }
    }
}

impl Writer<'_> {
    /// The quota statement: amounts in the largest unit that divides them.
    pub(super) fn quota(&self, bytes: u64, used: u64, over: bool) -> Value {
        let (val, unit) = units::scaled(bytes);
        let mut m = Map::new();
        m.insert("val".into(), json!(val));
        m.insert("val_unit".into(), json!(unit));
        if over {
            m.insert("inv".into(), json!(true));
        }
        if used != 0 && !self.format.stateless {
            let (val, unit) = units::scaled(used);
            m.insert("used".into(), json!(val));
            m.insert("used_unit".into(), json!(unit));
        }
        Value::Object(m)
    }
}

impl Reader<'_> {
    /// A quota, or the name of one.
    pub(super) fn quota_stmt(&mut self, body: &Value) -> Option<StmtKind> {
        let Some(object) = body.as_object().filter(|o| o.contains_key("val")) else {
            return self.reference(body, ObjectType::Quota, "Invalid quota reference.");
        };
        let val: u64 = self.number(object, "val", 0)?;
        let used: u64 = self.maybe_number(object, "used")?.unwrap_or(0);
        let bytes = val.checked_mul(self.data_unit(maybe_text(object, "val_unit"))?);
        let used = used.checked_mul(self.data_unit(maybe_text(object, "used_unit"))?);
        match (bytes, used) {
            (Some(bytes), Some(used)) => {
                Some(StmtKind::Quota { bytes, used, over: flag(object, "inv") })
            }
            _ => self.error("Wrong rate format"),
        }
    }
}
