// SPDX-License-Identifier: Apache-2.0

//! `counter`

use penstock_program::expr::ObjectType;
use serde_json::{Value, json};

use crate::ast::StmtKind;
use crate::json::read::Reader;
use crate::json::{Writer, tagged};
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

impl Parser<'_> {
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
}

impl Printer<'_> {
    pub(super) fn counter(&mut self, packets: u64, bytes: u64) {
        self.push("counter");
        if !self.format.stateless {
            self.write(format_args!(" packets {packets} bytes {bytes}"));
        }
    }
}

impl Writer<'_> {
    pub(super) fn counter(&self, packets: u64, bytes: u64) -> Value {
        if self.format.stateless {
            tagged("counter", Value::Null)
        } else {
            json!({"counter": {"packets": packets, "bytes": bytes}})
        }
    }
}

impl Reader<'_> {
    pub(super) fn counter(&mut self, body: &Value) -> Option<StmtKind> {
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
}
