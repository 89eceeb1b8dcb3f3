// SPDX-License-Identifier: Apache-2.0

//! `ct count`

use serde_json::{Map, Value, json};

use crate::ast::StmtKind;
use crate::json::read::{Reader, flag};
use crate::json::{Writer, tagged};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser, words};
use crate::print::Printer;

impl Parser<'_> {
    pub(super) fn ct_count(&mut self) -> Parsed<StmtKind> {
        self.take();
        self.take();
        self.keywords = words::keywords_after("ct");
        let over = self.eat("over");
        if !over && !matches!(self.tok(), Tok::Num(_)) {
            return self.unexpected(&["number", "over"]);
        }
        Ok(StmtKind::CtCount { count: self.number_as()?, over })
    }
}

impl Printer<'_> {
    pub(super) fn ct_count(&mut self, count: u32, over: bool) {
        let over = if over { "over " } else { "" };
        self.write(format_args!("ct count {over}{count}"));
    }
}

impl Writer<'_> {
    pub(super) fn ct_count(&self, count: u32, over: bool) -> Value {
        let mut m = Map::new();
        m.insert("val".into(), json!(count));
        if over {
            m.insert("inv".into(), json!(true));
        }
        tagged("ct count", m)
    }
}

impl Reader<'_> {
    pub(super) fn ct_count(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        Some(StmtKind::CtCount { count: self.number(object, "val", 0)?, over: flag(object, "inv") })
    }
}
