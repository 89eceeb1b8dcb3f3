// SPDX-License-Identifier: Apache-2.0

//! What commands speak of: tables, chains, rules and what has a name in a table.

use penstock_ruleset::model::Family;

use super::{Parsed, Parser};
use crate::ast::cmd::{Handle, Target};
use crate::lex::Tok;

impl Parser<'_> {
    /// `[family] table`
    pub(super) fn table_target(&mut self) -> Parsed<Target> {
        let family = self.family().unwrap_or(Family::Ip);
        let table = self.scoped_name()?;
        Ok(Target { family: Some(family), table: Some(table), ..Target::default() })
    }

    /// `[family] table` or `[family] handle N`
    pub(super) fn table_or_handle(&mut self) -> Parsed<Target> {
        let family = self.family().unwrap_or(Family::Ip);
        if self.at("handle") {
            let handle = self.handle()?;
            return Ok(Target { family: Some(family), handle: Some(handle), ..Target::default() });
        }
        self.name_or_handle_ahead()?;
        let table = self.identifier()?;
        Ok(Target { family: Some(family), table: Some(table), ..Target::default() })
    }

    /// `[family] table chain`
    pub(super) fn chain_target(&mut self) -> Parsed<Target> {
        let mut target = self.table_target()?;
        target.chain = Some(self.scoped_name()?);
        Ok(target)
    }

    /// `[family] table name`
    pub(super) fn named(&mut self) -> Parsed<Target> {
        let mut target = self.table_target()?;
        target.name = Some(self.scoped_name()?);
        Ok(target)
    }

    /// `[family] table name` or `[family] table handle N`
    pub(super) fn named_or_handle(&mut self) -> Parsed<Target> {
        let mut target = self.table_target()?;
        if self.at("handle") {
            target.handle = Some(self.handle()?);
        } else {
            self.name_or_handle_ahead()?;
            target.name = Some(self.identifier()?);
        }
        Ok(target)
    }

    pub(super) fn name_or_handle_ahead(&mut self) -> Parsed<()> {
        let token = self.peek();
        match token.tok {
            Tok::Word | Tok::Str if self.is_string(token) => Ok(()),
            _ => self.unexpected(&["handle", "string"]),
        }
    }

    /// `handle N`, the place being that of the number.
    pub(super) fn handle(&mut self) -> Parsed<Handle> {
        self.need("handle")?;
        let value = self.number()?;
        Ok(Handle { value, loc: self.last })
    }

    /// `chain handle N` of a rule.
    pub(super) fn rule_handle(&mut self) -> Parsed<Target> {
        let mut target = self.chain_target()?;
        target.handle = Some(self.handle()?);
        Ok(target)
    }

    /// `chain [handle N|position N|index N]`
    pub(super) fn rule_position(&mut self) -> Parsed<Target> {
        let mut target = self.chain_target()?;
        let start = self.here();
        match self.word() {
            "position" => {
                self.take();
                let value = self.number()?;
                target.position = Some(Handle { value, loc: self.since(start) });
            }
            "handle" => target.position = Some(self.handle()?),
            "index" => {
                self.take();
                let value = self.number()?;
                target.index = Some(Handle { value, loc: self.since(start) });
            }
            _ => {}
        }
        Ok(target)
    }

    /// `[family]`, nothing for all.
    pub(super) fn any_family(&mut self) -> Target {
        Target { family: self.family(), ..Target::default() }
    }

    pub(super) fn family_ahead(&mut self) -> bool {
        Family::from_name(self.word()).is_some()
    }
}
