// SPDX-License-Identifier: Apache-2.0

//! Stateful statements: those that elements of sets may carry, too.

use penstock_program::expr::{LimitType, ObjectType};
use serde_json::{Map, Value};

use super::{Reader, flag, maybe_text, several};
use crate::ast::stmt::Limit;
use crate::ast::{Stmt, StmtKind};
use crate::source::Loc;
use crate::units;

/// Packets of a limit's burst where none is given.
const BURST: u32 = 5;

/// `NF_SYNPROXY_OPT_*`.
const SYNPROXY_MSS: u32 = 1;
const SYNPROXY_WSCALE: u32 = 2;
const SYNPROXY_SACK: u32 = 4;
const SYNPROXY_TIMESTAMP: u32 = 8;

type Object = Map<String, Value>;

impl Reader<'_> {
    /// The statements of which each element of a set gets its own.
    pub(super) fn stateful_stmts(&mut self, value: &Value) -> Option<Vec<Stmt>> {
        let mut stmts = Vec::new();
        for (i, value) in several(value).iter().enumerate() {
            let found = self.only(value).and_then(|(name, body)| match self.stateful(name, body) {
                Some(kind) => kind,
                None => self.error("Unexpected object type in stmt"),
            });
            match found {
                Some(kind) => stmts.push(Stmt { kind, loc: Loc::NOWHERE }),
                None => return self.error(format!("Parsing expr array at index {i} failed.")),
            }
        }
        Some(stmts)
    }

    /// A stateful statement by its name; the outer `None` if it is none.
    pub(super) fn stateful(&mut self, name: &str, body: &Value) -> Option<Option<StmtKind>> {
        Some(match name {
            "counter" => self.counter(body),
            "limit" => {
                match body.as_object().filter(|o| o.contains_key("rate") && o.contains_key("per")) {
                    Some(object) => self.limit(object).map(StmtKind::Limit),
                    None => self.reference(body, ObjectType::Limit, "Invalid limit reference."),
                }
            }
            "quota" => match body.as_object().filter(|o| o.contains_key("val")) {
                Some(object) => self.quota(object),
                None => self.reference(body, ObjectType::Quota, "Invalid quota reference."),
            },
            "ct count" => self.connections(body),
            "last" => self.last_use(body),
            _ => return None,
        })
    }

    /// A named object, or a map that gives one.
    pub(super) fn reference(
        &mut self,
        body: &Value,
        kind: ObjectType,
        message: &str,
    ) -> Option<StmtKind> {
        match self.stmt_expr(body) {
            Some(expr) => Some(StmtKind::ObjRef { kind, expr }),
            None => self.error(message),
        }
    }

    fn counter(&mut self, body: &Value) -> Option<StmtKind> {
        match body {
            Value::Null => return Some(StmtKind::Counter { packets: 0, bytes: 0 }),
            Value::Object(object) => {
                let number = |key: &str| object.get(key).and_then(Value::as_u64);
                if let (Some(packets), Some(bytes)) = (number("packets"), number("bytes")) {
                    return Some(StmtKind::Counter { packets, bytes });
                }
            }
            _ => {}
        }
        self.reference(body, ObjectType::Counter, "Invalid counter reference.")
    }

    /// Members of a limit, in a statement or an object.
    pub(super) fn limit(&mut self, object: &Object) -> Option<Limit> {
        let rate: u64 = self.number(object, "rate", 0)?;
        let per = self.text(object, "per", 1)?;
        let Some(unit) = units::seconds(per) else {
            return self.error(format!("Unknown limit unit '{per}'."));
        };
        let burst: Option<u32> = self.maybe_number(object, "burst")?;
        let over = flag(object, "inv");
        let packets = match maybe_text(object, "rate_unit").or_else(|| maybe_text(object, "unit")) {
            None | Some("packets") => return self.packets(rate, unit, burst, over),
            Some(bytes) => bytes,
        };
        let factor = self.data_unit(Some(packets))?;
        let burst_factor = self.data_unit(maybe_text(object, "burst_unit"))?;
        let rate = rate.checked_mul(factor);
        let burst = u64::from(burst.unwrap_or(0)).checked_mul(burst_factor);
        let burst = burst.and_then(|b| u32::try_from(b).ok());
        match (rate, burst) {
            (Some(rate), Some(burst)) => {
                Some(Limit { rate, unit, kind: LimitType::Bytes, burst, over })
            }
            _ => self.error("Wrong rate format"),
        }
    }

    fn packets(&mut self, rate: u64, unit: u64, burst: Option<u32>, over: bool) -> Option<Limit> {
        let burst = burst.filter(|&b| b > 0).unwrap_or(BURST);
        Some(Limit { rate, unit, kind: LimitType::Packets, burst, over })
    }

    /// Bytes of a unit.
    fn data_unit(&mut self, word: Option<&str>) -> Option<u64> {
        let word = word.unwrap_or("bytes");
        match units::DATA.iter().find(|(unit, _)| *unit == word) {
            Some((_, bytes)) => Some(*bytes),
            None => self.error("Wrong rate format"),
        }
    }

    fn quota(&mut self, object: &Object) -> Option<StmtKind> {
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

    fn connections(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        Some(StmtKind::CtCount { count: self.number(object, "val", 0)?, over: flag(object, "inv") })
    }

    fn last_use(&mut self, body: &Value) -> Option<StmtKind> {
        match body {
            Value::Null => Some(StmtKind::Last { set: false, msecs: 0 }),
            other => {
                let object = self.object(other)?;
                let msecs = self.maybe_number(object, "used")?;
                Some(StmtKind::Last { set: msecs.is_some(), msecs: msecs.unwrap_or(0) })
            }
        }
    }

    /// Options of `synproxy`, in a statement or an object.
    pub(super) fn synproxy_options(&mut self, object: &Object) -> Option<(u16, u8, u32)> {
        let (mut mss, mut wscale, mut flags) = (0, 0, 0);
        if let Some(n) = self.maybe_number::<i64>(object, "mss")? {
            match u16::try_from(n) {
                Ok(n) => mss = n,
                Err(_) => return self.error(format!("Invalid synproxy mss value '{n}'")),
            }
            flags |= SYNPROXY_MSS;
        }
        if let Some(n) = self.maybe_number::<i64>(object, "wscale")? {
            match u8::try_from(n) {
                Ok(n) if n <= 14 => wscale = n,
                _ => return self.error(format!("Invalid synproxy wscale value '{n}'")),
            }
            flags |= SYNPROXY_WSCALE;
        }
        for word in object.get("flags").map_or(&[][..], several) {
            flags |= match word.as_str() {
                Some("timestamp") => SYNPROXY_TIMESTAMP,
                Some("sack-perm") => SYNPROXY_SACK,
                Some(other) => return self.error(format!("Unknown synproxy flag '{other}'.")),
                None => {
                    let kind = super::type_name(word);
                    return self
                        .error(format!("Invalid synproxy flag type {kind}, expected string."));
                }
            };
        }
        Some((mss, wscale, flags))
    }
}
