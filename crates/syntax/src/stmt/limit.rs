// SPDX-License-Identifier: Apache-2.0

//! `limit`, and the amounts of bytes that limits and quotas count in

use penstock_program::expr::{LimitType, ObjectType};
use serde_json::{Map, Value, json};

use crate::ast::StmtKind;
use crate::ast::stmt::Limit;
use crate::json::Object;
use crate::json::read::{Reader, flag, maybe_text};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser, words};
use crate::print::Printer;
use crate::source::Loc;
use crate::units;

/// Packets of a limit's burst where none is written.
const BURST: u32 = 5;

impl Parser<'_> {
    /// `limit rate …`, `limit name …`
    pub(super) fn limit_stmt(&mut self) -> Parsed<StmtKind> {
        if self.at("name") { self.object_ref(ObjectType::Limit) } else { self.limit() }
    }

    fn need_rate(&mut self) -> Parsed<()> {
        if self.eat("rate") { Ok(()) } else { self.unexpected(&["name", "rate"]) }
    }

    /// `over`, `until` or nothing.
    pub(super) fn over(&mut self) -> bool {
        if self.eat("over") {
            return true;
        }
        self.eat("until");
        false
    }

    /// `rate [over] N/second [burst N packets]`, `rate [over] N mbytes/second [burst N kbytes]`
    fn limit(&mut self) -> Parsed<StmtKind> {
        let (limit, burst) = self.limit_of_rate()?;
        if limit.kind == LimitType::Packets && limit.burst == 0 {
            return self.error(burst, "packet limit burst must be > 0");
        }
        Ok(StmtKind::Limit(limit))
    }

    /// Reads the rate of a limit object, which may have no burst, and where the burst was written.
    pub(crate) fn limit_of_rate(&mut self) -> Parsed<(Limit, Loc)> {
        self.keywords = words::keywords_after("limit");
        self.need_rate()?;
        let over = self.over();
        let start = self.here();
        let rate = self.number()?;
        if self.eat_tok(Tok::Slash) {
            let unit = self.time_unit()?;
            let mut burst = BURST;
            let start = self.here();
            if self.eat("burst") {
                burst = self.number_as()?;
                self.need("packets")?;
                self.ends_by_itself();
            }
            let limit = Limit { rate, unit, kind: LimitType::Packets, burst, over };
            return Ok((limit, self.since(start)));
        }
        if !self.at_data_unit() {
            return self.unexpected(&["/", "string", "bytes"]);
        }
        // `mbytes/second` is a single word.
        let word = self.word().to_string();
        let (size, unit) = match word.split_once('/') {
            Some((size, time)) => (size, Some(time)),
            None => (&*word, None),
        };
        self.take();
        let wrong = if unit.is_some() { "Wrong rate format" } else { "wrong rate format" };
        let whole = self.since(start);
        let Some(factor) = data_unit(size) else { return self.error(whole, wrong) };
        let unit = match unit {
            Some(time) => match units::seconds(time) {
                Some(unit) => unit,
                None => return self.error(whole, wrong),
            },
            None => {
                self.need_tok(Tok::Slash)?;
                self.time_unit()?
            }
        };
        let Some(rate) = rate.checked_mul(factor) else { return self.error(whole, wrong) };
        let mut burst = 0;
        if self.eat("burst") {
            let loc = self.here();
            let n = self.number()?;
            let bytes = n.checked_mul(self.data_unit(loc)?).and_then(|n| u32::try_from(n).ok());
            let Some(bytes) = bytes else { return self.error(loc, wrong) };
            burst = bytes;
            self.ends_by_itself();
        }
        Ok((Limit { rate, unit, kind: LimitType::Bytes, burst, over }, self.since(start)))
    }

    fn time_unit(&mut self) -> Parsed<u64> {
        match units::seconds(self.word()) {
            Some(unit) => {
                self.take();
                Ok(unit)
            }
            None => self.unexpected(&[]),
        }
    }

    /// Whether a word is ahead that may be a unit: `bytes`, or one that is no keyword here.
    fn at_data_unit(&mut self) -> bool {
        let keywords = self.keywords;
        let word = self.word();
        word == "bytes"
            || !word.is_empty() && !keywords.contains(&word) && !words::is_reserved(word)
    }

    pub(super) fn data_unit(&mut self, start: Loc) -> Parsed<u64> {
        if !self.at_data_unit() {
            return self.unexpected(&["string", "bytes"]);
        }
        let factor = data_unit(self.word());
        self.take();
        match factor {
            Some(factor) => Ok(factor),
            None => {
                let loc = self.since(start);
                self.error(loc, "Wrong rate format")
            }
        }
    }
}

/// Bytes. What follows the unit in a word is not looked at, as in nft's `data_unit_parse()`.
fn data_unit(word: &str) -> Option<u64> {
    units::DATA.iter().find(|(unit, _)| word.starts_with(unit)).map(|(_, bytes)| *bytes)
}

impl Printer<'_> {
    /// `rate …`. A statement lists a burst of 5 packets, an object does not.
    pub fn limit(&mut self, limit: &Limit, in_rule: bool) {
        self.push(if limit.over { "rate over " } else { "rate " });
        let unit = units::time_word(limit.unit);
        match limit.kind {
            LimitType::Packets => {
                self.write(format_args!("{}/{unit}", limit.rate));
                if limit.burst > 0 && (in_rule || limit.burst != 5) {
                    self.write(format_args!(" burst {} packets", limit.burst));
                }
            }
            LimitType::Bytes => {
                let (rate, scale) = units::scaled(limit.rate);
                self.write(format_args!("{rate} {scale}/{unit}"));
                if limit.burst > 0 {
                    let (burst, scale) = units::scaled(limit.burst.into());
                    self.write(format_args!(" burst {burst} {scale}"));
                }
            }
        }
    }
}

/// Members of a limit.
pub(super) fn limit(l: &Limit) -> Object {
    let mut m = Map::new();
    let (rate, rate_unit) = match l.kind {
        LimitType::Packets => (l.rate, "packets"),
        LimitType::Bytes => units::scaled(l.rate),
    };
    let (burst, burst_unit) = match l.kind {
        LimitType::Packets => (u64::from(l.burst), "packets"),
        LimitType::Bytes => units::scaled(u64::from(l.burst)),
    };
    m.insert("rate".into(), json!(rate));
    m.insert("burst".into(), json!(burst));
    m.insert("per".into(), json!(units::time_word(l.unit)));
    if l.over {
        m.insert("inv".into(), json!(true));
    }
    if l.kind == LimitType::Bytes {
        m.insert("rate_unit".into(), json!(rate_unit));
        m.insert("burst_unit".into(), json!(burst_unit));
    }
    m
}

impl Reader<'_> {
    /// A limit, or the name of one.
    pub(super) fn limit_stmt(&mut self, body: &Value) -> Option<StmtKind> {
        match body.as_object().filter(|o| o.contains_key("rate") && o.contains_key("per")) {
            Some(object) => self.limit(object).map(StmtKind::Limit),
            None => self.reference(body, ObjectType::Limit, "Invalid limit reference."),
        }
    }

    /// Members of a limit, in a statement or an object.
    pub(crate) fn limit(&mut self, object: &Object) -> Option<Limit> {
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
    pub(super) fn data_unit(&mut self, word: Option<&str>) -> Option<u64> {
        let word = word.unwrap_or("bytes");
        match units::DATA.iter().find(|(unit, _)| *unit == word) {
            Some((_, bytes)) => Some(*bytes),
            None => self.error("Wrong rate format"),
        }
    }
}
