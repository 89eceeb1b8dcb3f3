// SPDX-License-Identifier: Apache-2.0

//! `synproxy`

use penstock_program::expr::ObjectType;
use serde_json::{Map, Value, json};

use crate::ast::StmtKind;
use crate::json::read::{Reader, several, type_name};
use crate::json::{Object, Writer, one_or_many, tagged};
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

/// `NF_SYNPROXY_OPT_*`.
const MSS: u32 = 0x01;
const WSCALE: u32 = 0x02;
const SACK_PERM: u32 = 0x04;
const TIMESTAMP: u32 = 0x08;

impl Parser<'_> {
    pub(super) fn synproxy(&mut self) -> Parsed<StmtKind> {
        self.take();
        if self.at("name") {
            return self.object_ref(ObjectType::Synproxy);
        }
        let (mut mss, mut wscale, mut flags) = (0, 0, 0);
        while self.synproxy_option(&mut mss, &mut wscale, &mut flags)? {}
        Ok(StmtKind::Synproxy { mss, wscale, flags })
    }

    /// One of the options of `synproxy`, in a statement or an object. `false` if there is none.
    pub(crate) fn synproxy_option(
        &mut self,
        mss: &mut u16,
        wscale: &mut u8,
        flags: &mut u32,
    ) -> Parsed<bool> {
        match self.word() {
            "mss" => {
                self.take();
                *mss = self.number_as()?;
                *flags |= MSS;
            }
            "wscale" => {
                self.take();
                *wscale = self.number_as()?;
                *flags |= WSCALE;
            }
            "timestamp" => {
                self.take();
                *flags |= TIMESTAMP;
            }
            "sack-perm" | "sack-permitted" => {
                self.take();
                *flags |= SACK_PERM;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Printer<'_> {
    pub(super) fn synproxy(&mut self, mss: u16, wscale: u8, flags: u32) {
        self.push("synproxy");
        if flags & (MSS | WSCALE) != 0 {
            self.write(format_args!(" mss {mss} wscale {wscale}"));
        }
        self.push(flag_words(flags));
    }
}

/// The options of a synproxy that have no value.
pub fn flag_words(flags: u32) -> &'static str {
    match (flags & TIMESTAMP != 0, flags & SACK_PERM != 0) {
        (true, true) => " timestamp sack-perm",
        (true, false) => " timestamp",
        (false, true) => " sack-perm",
        (false, false) => "",
    }
}

impl Writer<'_> {
    pub(super) fn synproxy(&self, mss: u16, wscale: u8, flags: u32) -> Value {
        let mut m = Map::new();
        members(&mut m, mss, wscale, flags);
        tagged("synproxy", if m.is_empty() { Value::Null } else { Value::Object(m) })
    }
}

/// Members of a proxy's options, of a statement or an object.
pub fn members(m: &mut Object, mss: u16, wscale: u8, flags: u32) {
    if flags & MSS != 0 {
        m.insert("mss".into(), json!(mss));
    }
    if flags & WSCALE != 0 {
        m.insert("wscale".into(), json!(wscale));
    }
    let mut words = Vec::new();
    if flags & TIMESTAMP != 0 {
        words.push(json!("timestamp"));
    }
    if flags & SACK_PERM != 0 {
        words.push(json!("sack-perm"));
    }
    if !words.is_empty() {
        m.insert("flags".into(), one_or_many(words));
    }
}

impl Reader<'_> {
    pub(super) fn synproxy(&mut self, body: &Value) -> Option<StmtKind> {
        match body {
            Value::Null => Some(StmtKind::Synproxy { mss: 0, wscale: 0, flags: 0 }),
            Value::Object(object) if !object.contains_key("map") => {
                let (mss, wscale, flags) = self.synproxy_options(object)?;
                Some(StmtKind::Synproxy { mss, wscale, flags })
            }
            other => self.reference(other, ObjectType::Synproxy, "Invalid synproxy reference"),
        }
    }

    /// Options of `synproxy`, in a statement or an object.
    pub(crate) fn synproxy_options(&mut self, object: &Object) -> Option<(u16, u8, u32)> {
        let (mut mss, mut wscale, mut flags) = (0, 0, 0);
        if let Some(n) = self.maybe_number::<i64>(object, "mss")? {
            match u16::try_from(n) {
                Ok(n) => mss = n,
                Err(_) => return self.error(format!("Invalid synproxy mss value '{n}'")),
            }
            flags |= MSS;
        }
        if let Some(n) = self.maybe_number::<i64>(object, "wscale")? {
            match u8::try_from(n) {
                Ok(n) if n <= 14 => wscale = n,
                _ => return self.error(format!("Invalid synproxy wscale value '{n}'")),
            }
            flags |= WSCALE;
        }
        for word in object.get("flags").map_or(&[][..], several) {
            flags |= match word.as_str() {
                Some("timestamp") => TIMESTAMP,
                Some("sack-perm") => SACK_PERM,
                Some(other) => return self.error(format!("Unknown synproxy flag '{other}'.")),
                None => {
                    let kind = type_name(word);
                    return self
                        .error(format!("Invalid synproxy flag type {kind}, expected string."));
                }
            };
        }
        Some((mss, wscale, flags))
    }
}
