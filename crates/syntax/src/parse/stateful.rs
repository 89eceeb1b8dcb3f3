// SPDX-License-Identifier: Apache-2.0

//! Stateful statements: those that elements of sets may carry, too.

use penstock_program::expr::{LimitType, ObjectType};

use super::{Parsed, Parser};
use crate::ast::stmt::Limit;
use crate::ast::{Stmt, StmtKind};
use crate::lex::Tok;
use crate::source::Loc;
use crate::units;

/// Packets of a limit's burst where none is written.
const BURST: u32 = 5;

impl Parser<'_> {
    /// A stateful statement, if one is ahead.
    pub(super) fn stateful_stmt(&mut self) -> Parsed<Option<Stmt>> {
        if self.tok() != Tok::Word {
            return Ok(None);
        }
        let start = self.here();
        let kind = self.stateful()?;
        Ok(kind.map(|kind| Stmt { kind, loc: self.since(start) }))
    }

    pub(super) fn stateful(&mut self) -> Parsed<Option<StmtKind>> {
        let start = self.here();
        let counts = self.at("ct") && self.second_word() == "count";
        let last = self.at("last") && self.last_is_stmt();
        let kind = match self.word() {
            "counter" => {
                self.take();
                self.counter()?
            }
            "limit" => {
                self.take();
                if self.at("name") { self.object_ref(ObjectType::Limit)? } else { self.limit()? }
            }
            "quota" => {
                self.take();
                if self.at("name") {
                    self.object_ref(ObjectType::Quota)?
                } else {
                    self.quota(start)?
                }
            }
            "ct" if counts => {
                self.take();
                self.take();
                self.keywords = super::words::keywords_behind("ct");
                let over = self.eat("over");
                if !over && !matches!(self.tok(), Tok::Num(_)) {
                    return self.unexpected(&["number", "over"]);
                }
                StmtKind::CtCount { count: self.number_as()?, over }
            }
            "last" if last => {
                self.take();
                self.last_use()?
            }
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    /// `last` also is a name that a set's element may have; as a statement `used` or no operand
    /// follows.
    pub(super) fn last_is_stmt(&mut self) -> bool {
        let token = self.peek_second();
        match token.tok {
            Tok::Word => true,
            Tok::Num(_) | Tok::Str | Tok::Quoted => false,
            tok => !matches!(
                tok,
                Tok::Eq | Tok::Neq | Tok::Lt | Tok::Gt | Tok::Lte | Tok::Gte | Tok::Dot
            ),
        }
    }

    pub(super) fn last_use(&mut self) -> Parsed<StmtKind> {
        if !self.eat("used") {
            return Ok(StmtKind::Last { set: false, msecs: 0 });
        }
        if self.eat("never") {
            return Ok(StmtKind::Last { set: false, msecs: 0 });
        }
        Ok(StmtKind::Last { set: true, msecs: self.time()? })
    }

    pub(super) fn object_ref(&mut self, kind: ObjectType) -> Parsed<StmtKind> {
        self.need("name")?;
        Ok(StmtKind::ObjRef { kind, expr: self.target()? })
    }

    pub(super) fn counter(&mut self) -> Parsed<StmtKind> {
        if self.at("name") {
            return self.object_ref(ObjectType::Counter);
        }
        let (mut packets, mut bytes) = (0, 0);
        loop {
            match self.word() {
                "packets" => {
                    self.take();
                    packets = self.number()?;
                }
                "bytes" => {
                    self.take();
                    bytes = self.number()?;
                }
                _ => return Ok(StmtKind::Counter { packets, bytes }),
            }
        }
    }

    pub(super) fn need_rate(&mut self) -> Parsed<()> {
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
    pub(super) fn limit(&mut self) -> Parsed<StmtKind> {
        let (limit, burst) = self.limit_of_rate()?;
        if limit.kind == LimitType::Packets && limit.burst == 0 {
            return self.error(burst, "packet limit burst must be > 0");
        }
        Ok(StmtKind::Limit(limit))
    }

    /// The same of an object, which may have no burst; and where the burst was written.
    pub(super) fn limit_of_rate(&mut self) -> Parsed<(Limit, Loc)> {
        self.keywords = super::words::keywords_behind("limit");
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

    pub(super) fn time_unit(&mut self) -> Parsed<u64> {
        match units::seconds(self.word()) {
            Some(unit) => {
                self.take();
                Ok(unit)
            }
            None => self.unexpected(&[]),
        }
    }

    /// Whether a word is ahead that may be a unit: `bytes`, or one that is no keyword here.
    pub(super) fn at_data_unit(&mut self) -> bool {
        let keywords = self.keywords;
        let word = self.word();
        word == "bytes"
            || !word.is_empty() && !keywords.contains(&word) && !super::words::is_reserved(word)
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

    /// `[over|until] N mbytes [used N bytes]`
    pub(super) fn quota(&mut self, start: Loc) -> Parsed<StmtKind> {
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
    pub(super) fn bytes(&mut self, start: Loc) -> Parsed<u64> {
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

/// Bytes. What follows the unit in a word is not looked at, as in nft's `data_unit_parse()`.
fn data_unit(word: &str) -> Option<u64> {
    units::DATA.iter().find(|(unit, _)| word.starts_with(unit)).map(|(_, bytes)| *bytes)
}
