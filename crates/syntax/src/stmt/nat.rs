// SPDX-License-Identifier: Apache-2.0

//! `snat`, `dnat`, `masquerade`, `redirect`

use penstock_program::Family;
use penstock_program::expr::NatType;
use serde_json::{Map, Value, json};

use crate::ast::StmtKind;
use crate::ast::stmt::{Nat, NatKind};
use crate::json::read::{Reader, several, type_name};
use crate::json::{Writer, family_word, one_or_many, tagged};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

/// `NF_NAT_RANGE_*`.
const RANDOM: u32 = 1 << 2;
const PERSISTENT: u32 = 1 << 3;
const FULLY_RANDOM: u32 = 1 << 4;

/// The flags, in the order they are listed.
const FLAGS: [(&str, u32); 3] =
    [("random", RANDOM), ("fully-random", FULLY_RANDOM), ("persistent", PERSISTENT)];

impl Parser<'_> {
    /// `ip` or `ip6` before one of `next`.
    fn family_before(&mut self, next: &[&str]) -> Option<Family> {
        let second = self.second_word();
        if next.contains(&second) { self.address_family() } else { None }
    }

    /// `random,persistent`, nothing for 0.
    fn nat_flags(&mut self) -> Parsed<u32> {
        let mut flags = 0;
        loop {
            flags |= match self.word() {
                "random" => RANDOM,
                "fully-random" => FULLY_RANDOM,
                "persistent" => PERSISTENT,
                _ if flags == 0 => return Ok(0),
                _ => return self.unexpected(&["random", "fully-random", "persistent"]),
            };
            self.take();
            if !self.eat_tok(Tok::Comma) {
                return Ok(flags);
            }
        }
    }

    /// `snat …`, `dnat …`
    pub(super) fn nat(&mut self, kind: NatType) -> Parsed<StmtKind> {
        self.take();
        let mut nat = Nat {
            kind: NatKind::Nat(kind),
            family: self.family_before(&["to", "addr", "interval", "prefix"]),
            addr: None,
            port: None,
            flags: 0,
            interval: false,
            concat: false,
            prefix: false,
        };
        match self.word() {
            "addr" if nat.family.is_some() => {
                self.take();
                self.need_tok(Tok::Dot)?;
                self.need("port")?;
                nat.concat = true;
            }
            "interval" => {
                self.take();
                nat.interval = true;
            }
            "prefix" => {
                self.take();
                nat.prefix = true;
            }
            _ => {}
        }
        if nat.family.is_some() || nat.concat || nat.interval || nat.prefix {
            self.need("to")?;
        } else {
            self.eat("to");
        }
        if self.tok() != Tok::Colon {
            nat.addr = Some(self.target()?);
        }
        if self.eat_tok(Tok::Colon) {
            nat.port = Some(self.target()?);
        }
        loop {
            match self.nat_flags()? {
                0 => return Ok(StmtKind::Nat(nat)),
                flags => nat.flags |= flags,
            }
        }
    }

    /// `masquerade …`, `redirect …`
    pub(super) fn local_nat(&mut self, kind: NatKind) -> Parsed<StmtKind> {
        self.take();
        let mut nat = Nat {
            kind,
            family: None,
            addr: None,
            port: None,
            flags: 0,
            interval: false,
            concat: false,
            prefix: false,
        };
        if self.eat("to") {
            let colon = self.eat_tok(Tok::Colon);
            if !colon && kind == NatKind::Masquerade {
                return self.unexpected(&["colon"]);
            }
            nat.port = Some(self.target()?);
        }
        nat.flags = self.nat_flags()?;
        Ok(StmtKind::Nat(nat))
    }
}

impl Printer<'_> {
    pub(super) fn nat(&mut self, nat: &Nat) {
        self.push(match nat.kind {
            NatKind::Nat(NatType::Snat) => "snat",
            NatKind::Nat(NatType::Dnat) => "dnat",
            NatKind::Masquerade => "masquerade",
            NatKind::Redirect => "redirect",
        });
        if nat.addr.is_some() || nat.port.is_some() {
            self.family(nat.family);
            if nat.prefix {
                self.push(" prefix");
            }
            self.push(" to ");
        }
        if let Some(addr) = &nat.addr {
            self.address(addr, nat.port.is_some());
        }
        if let Some(port) = &nat.port {
            self.push(":");
            self.expr(port);
        }
        let mut separator = " ";
        for (name, bit) in FLAGS {
            if nat.flags & bit != 0 {
                self.push(separator);
                self.push(name);
                separator = ",";
            }
        }
    }
}

impl Writer<'_> {
    pub(super) fn nat(&self, nat: &Nat) -> Value {
        let word = match nat.kind {
            NatKind::Nat(NatType::Snat) => "snat",
            NatKind::Nat(NatType::Dnat) => "dnat",
            NatKind::Masquerade => "masquerade",
            NatKind::Redirect => "redirect",
        };
        let mut m = Map::new();
        if let Some(a) = &nat.addr {
            if let Some(f) = family_word(nat.family) {
                m.insert("family".into(), json!(f));
            }
            m.insert("addr".into(), self.expr(a));
        }
        if let Some(p) = &nat.port {
            m.insert("port".into(), self.expr(p));
        }
        let mut flags: Vec<Value> = FLAGS
            .iter()
            .filter(|(_, bit)| nat.flags & bit != 0)
            .map(|(word, _)| json!(word))
            .collect();
        if nat.prefix {
            flags.push(json!("netmap"));
        }
        if !flags.is_empty() {
            m.insert("flags".into(), one_or_many(flags));
        }
        // Of the types, the others follow from the map.
        if nat.prefix {
            m.insert("type_flags".into(), json!("prefix"));
        }
        tagged(word, if m.is_empty() { Value::Null } else { Value::Object(m) })
    }
}

impl Reader<'_> {
    pub(super) fn nat(&mut self, body: &Value, kind: NatKind) -> Option<StmtKind> {
        let empty = Map::new();
        let object = if body.is_null() { &empty } else { self.object(body)? };
        let family = self.address_family(object)?;
        let addr = self.maybe_expr(object, "addr", "Invalid nat addr.")?;
        let port = self.maybe_expr(object, "port", "Invalid nat port.")?;
        let mut nat = Nat {
            kind,
            family,
            addr,
            port,
            flags: 0,
            interval: false,
            concat: false,
            prefix: false,
        };
        for word in object.get("flags").map_or(&[][..], several) {
            let Some(word) = word.as_str() else {
                let kind = type_name(word);
                return self.error(format!("Invalid nat flag type {kind}, expected string."));
            };
            match FLAGS.iter().find(|(w, _)| *w == word) {
                Some((_, bit)) => nat.flags |= bit,
                // A prefix says itself that it maps whole nets.
                None if word == "netmap" => {}
                None => return self.error(format!("Unknown nat flag '{word}'.")),
            }
        }
        for word in object.get("type_flags").map_or(&[][..], several) {
            match word.as_str() {
                Some("interval") => nat.interval = true,
                Some("prefix") => nat.prefix = true,
                Some("concat") => nat.concat = true,
                Some(other) => return self.error(format!("Unknown nat type flag '{other}'.")),
                None => {
                    let kind = type_name(word);
                    return self
                        .error(format!("Invalid nat type flag type {kind}, expected string."));
                }
            }
        }
        Some(StmtKind::Nat(nat))
    }
}
