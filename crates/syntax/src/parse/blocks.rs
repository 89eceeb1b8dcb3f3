// SPDX-License-Identifier: Apache-2.0

//! Tables, chains and flowtables in braces.

use std::sync::Arc;

use penstock_ruleset::model::{ChainType, Hook};

use super::objects::Form;
use super::{Bad, Parsed, Parser};
use crate::ast::cmd::{
    ChainBlock, ChainProgramSpec, FlowtableBlock, HookSpec, PrioritySpec, TableBlock,
};
use crate::ast::expr::{SetExprFlags, VerdictExpr};
use crate::ast::{Expr, ExprKind, RuleBlock};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::hooks;
use crate::lex::Tok;

/// `NFT_TABLE_F_*`.
const TABLE_FLAGS: [(&str, u32); 3] = [("dormant", 1), ("owner", 2), ("persist", 4)];

/// `NFT_FLOWTABLE_*`.
const FLOWTABLE_OFFLOAD: u32 = 1;
const FLOWTABLE_COUNTER: u32 = 2;

impl Parser<'_> {
    pub(super) fn table_block(&mut self, table: &mut TableBlock) -> Parsed<()> {
        self.block(|p| {
            p.keywords = p.outer_keywords();
            p.in_table = true;
            let result = p.table_item(table);
            p.in_table = false;
            result
        })
    }

    fn table_item(&mut self, table: &mut TableBlock) -> Parsed<()> {
        let start = self.here();
        match self.word() {
            "chain" => {
                self.take();
                let name = self.identifier()?;
                let mut chain = ChainBlock::default();
                if self.tok() != Tok::LeftBrace {
                    return self.unexpected(&["'{'"]);
                }
                self.chain_block(&mut chain)?;
                self.separator()?;
                table.chains.push((name, chain));
            }
            "set" | "map" => {
                let map = self.at("map");
                self.take();
                let name = self.identifier()?;
                let mut set = self.set_block(map)?;
                // In a table's block the name stands for the set.
                set.loc = name.loc;
                self.separator()?;
                table.sets.push((name, set));
            }
            "flowtable" => {
                self.take();
                let name = self.identifier()?;
                let mut flowtable = FlowtableBlock::default();
                if self.tok() != Tok::LeftBrace {
                    return self.unexpected(&["'{'"]);
                }
                self.flowtable_block(&mut flowtable)?;
                self.separator()?;
                table.flowtables.push((name, flowtable));
            }
            "counter" | "quota" | "limit" | "ct" | "secmark" | "synproxy" | "tunnel" => {
                let kind = self.object_type()?;
                let object = self.within_object(|p| {
                    let name = p.scoped_name()?;
                    Ok((name, p.object(kind, start, Form::Braces)?))
                })?;
                self.separator()?;
                table.objects.push(object);
            }
            "flags" => {
                self.take();
                loop {
                    let name = self.identifier()?;
                    match TABLE_FLAGS.iter().find(|(word, _)| *word == &*name.text) {
                        Some((_, flag)) => table.flags |= flag,
                        None => {
                            return self
                                .error(name.loc, format!("unknown table option {}", name.text));
                        }
                    }
                    if !self.eat_tok(Tok::Comma) {
                        break;
                    }
                }
                self.separator()?;
            }
            "comment" => {
                self.comment_once(&mut table.comment, Bad::Item)?;
                self.separator()?;
            }
            _ => return self.unexpected(&[]),
        }
        Ok(())
    }

    pub(super) fn chain_block(&mut self, chain: &mut ChainBlock) -> Parsed<()> {
        self.block(|p| p.chain_item(chain))
    }

    fn chain_item(&mut self, chain: &mut ChainBlock) -> Parsed<()> {
        let start = self.here();
        // In rules `bpf` is a match.
        if self.at("bpf") && self.second_word() == "object" {
            if chain.program.replace(self.chain_program()?).is_some() {
                let loc = self.since(start);
                return self.late_error(loc, "you cannot set the program of a chain twice");
            }
            return self.separator();
        }
        match self.word() {
            "type" => chain.hook = Some(self.hook_spec()?),
            "policy" => {
                self.take();
                let policy = self.policy()?;
                let policy = Expr { loc: self.since(start), ..policy };
                if chain.policy.replace(policy).is_some() {
                    let loc = self.since(start);
                    return self.late_error(loc, "you cannot set chain policy twice");
                }
            }
            "flags" => {
                self.take();
                self.keywords = &[];
                self.need("offload")?;
                chain.offload = true;
            }
            "devices" => {
                self.take();
                self.need_tok(Tok::Assign)?;
                chain.devices = Some(self.device_list()?);
            }
            "comment" => return self.separated_comment(&mut chain.comment),
            _ => {
                let unread = |loc| RuleBlock { loc, unread: true, ..RuleBlock::default() };
                let rule = match self.skip_rule() {
                    Some(place) => unread(place),
                    None => {
                        let variables = self.variables;
                        let rule = self.rule()?;
                        let place = self.can_be_read_again(start, variables).then_some(rule.loc);
                        place.map_or(rule, unread)
                    }
                };
                self.separator()?;
                chain.rules.push(rule);
                return Ok(());
            }
        }
        self.separator()
    }

    /// `bpf object "FILE" section "NAME"`
    fn chain_program(&mut self) -> Parsed<ChainProgramSpec> {
        let start = self.take().loc;
        self.take();
        let object = self.string()?.text;
        let section = if self.eat("section") { Some(self.string()?.text) } else { None };
        Ok(ChainProgramSpec { object, section, bytes: Arc::default(), loc: self.since(start) })
    }

    /// `{ rule; rule … }` after `jump` and `goto`.
    pub(crate) fn implicit_chain(&mut self) -> Parsed<RuleBlock> {
        let start = self.here();
        let mut rules = Vec::new();
        self.plain_block(|p| {
            rules.push(p.rule()?);
            Ok(())
        })?;
        Ok(RuleBlock { rules, loc: self.since(start), ..RuleBlock::default() })
    }

    /// `type T hook H [device D] priority P`
    fn hook_spec(&mut self) -> Parsed<HookSpec> {
        let start = self.take().loc;
        let type_name = self.identifier()?;
        self.need("hook")?;
        let hook_name = self.identifier()?;
        let devices = match self.word() {
            "device" => {
                self.take();
                if self.tok() == Tok::Dollar {
                    Some(self.variable()?)
                } else {
                    let token = self.peek();
                    if !self.is_string(token) {
                        return self.unexpected(&[
                            "string",
                            "quoted string",
                            "string with a trailing asterisk",
                            "'$'",
                        ]);
                    }
                    let name = self.string()?;
                    Some(Self::symbol(name.text, name.loc))
                }
            }
            "devices" => {
                self.take();
                self.need_tok(Tok::Assign)?;
                Some(self.device_list()?)
            }
            "priority" => None,
            _ => return self.unexpected(&["priority"]),
        };
        let priority = self.priority()?;
        // Names are looked at when all is read.
        let kind = match &*type_name.text {
            "filter" => ChainType::Filter,
            "nat" => ChainType::Nat,
            "route" => ChainType::Route,
            _ => return self.error(type_name.loc, "unknown chain type"),
        };
        let Some(hook) = hooks::by_name(&hook_name.text) else {
            return self.error(hook_name.loc, "unknown chain hook");
        };
        Ok(HookSpec {
            kind,
            type_loc: type_name.loc,
            hook,
            hook_loc: hook_name.loc,
            priority,
            devices,
            loc: self.since(start),
        })
    }

    /// `priority N`, `priority -N`, `priority name`, `priority name + N`, `priority $v`
    fn priority(&mut self) -> Parsed<PrioritySpec> {
        let place = self.here();
        self.need("priority")?;
        let start = self.here();
        let zero = |loc| {
            Expr::typed(ExprKind::Value(0), loc, Type::Base(DataType::Integer), ByteOrder::Host, 32)
        };
        let (expr, offset) = match self.tok() {
            Tok::Num(_) => {
                let n = self.number_as::<u32>()?;
                (zero(start), n as i32)
            }
            Tok::Dash => {
                self.take();
                let n = self.number_as::<u32>()?;
                (zero(start), (n as i32).wrapping_neg())
            }
            Tok::Dollar => (self.variable()?, 0),
            Tok::Word | Tok::Str => {
                let token = self.peek();
                if !self.is_string(token) {
                    return self.unexpected(&[]);
                }
                let name = self.identifier()?;
                let sign = match self.tok() {
                    Tok::Plus => 1,
                    Tok::Dash => -1,
                    _ => 0,
                };
                let mut offset = 0;
                if sign != 0 {
                    self.take();
                    let n = self.number_as::<u32>()?;
                    offset = (n as i32).wrapping_mul(sign);
                }
                (Self::symbol(name.text, name.loc), offset)
            }
            _ => return self.unexpected(&[]),
        };
        Ok(PrioritySpec { expr, offset, loc: self.since(place) })
    }

    fn policy(&mut self) -> Parsed<Expr> {
        let start = self.here();
        if self.tok() == Tok::Dollar {
            return self.variable();
        }
        let verdict = match self.word() {
            "accept" => VerdictExpr::Accept,
            "drop" => VerdictExpr::Drop,
            _ => return self.unexpected(&["accept", "drop", "'$'"]),
        };
        self.take();
        Ok(Expr::new(ExprKind::Verdict(verdict), start))
    }

    pub(super) fn flowtable_block(&mut self, flowtable: &mut FlowtableBlock) -> Parsed<()> {
        self.block(|p| p.flowtable_item(flowtable))
    }

    fn flowtable_item(&mut self, flowtable: &mut FlowtableBlock) -> Parsed<()> {
        match self.word() {
            "hook" => {
                self.take();
                let name = self.identifier()?;
                flowtable.priority = Some(self.priority()?);
                flowtable.early = &*name.text == "early_ingress";
                if flowtable.early {
                    flowtable.hook = Some(Hook::Ingress);
                    return self.separator();
                }
                // A wrong name is found only after the line.
                let hook = hooks::by_name(&name.text);
                if hook.is_none() {
                    return self.late_error(name.loc, "unknown chain hook");
                }
                flowtable.hook = hook;
            }
            "devices" => {
                self.take();
                self.need_tok(Tok::Assign)?;
                flowtable.devices = Some(self.device_list()?);
            }
            // Without a separator.
            "counter" => {
                self.take();
                flowtable.flags |= FLOWTABLE_COUNTER;
                return Ok(());
            }
            "flags" => {
                self.take();
                self.need("offload")?;
                flowtable.flags |= FLOWTABLE_OFFLOAD;
            }
            _ => return self.unexpected(&[]),
        }
        self.separator()
    }

    /// `{ eth0, "eth1", $lan }` or `$devices`
    fn device_list(&mut self) -> Parsed<Expr> {
        if self.tok() == Tok::Dollar {
            return self.variable();
        }
        let start = self.here();
        if self.tok() != Tok::LeftBrace {
            return self.unexpected(&["'{'", "'$'"]);
        }
        self.take();
        let mut elements = Vec::new();
        loop {
            self.skip_newlines();
            let token = self.peek();
            match token.tok {
                Tok::RightBrace => {
                    if elements.is_empty() {
                        return self.unexpected(&["string", "quoted string", "'$'"]);
                    }
                    break;
                }
                Tok::Dollar => elements.push(self.variable()?),
                _ if self.is_string(token) => {
                    let name = self.string()?;
                    elements.push(Self::symbol(name.text, name.loc));
                }
                _ => return self.unexpected(&["string", "quoted string", "'$'"]),
            }
            self.skip_newlines();
            if !self.eat_tok(Tok::Comma) {
                break;
            }
        }
        if !self.eat_tok(Tok::RightBrace) {
            return self.unexpected(&["comma", "'}'"]);
        }
        let flags = SetExprFlags::default();
        Ok(Expr::new(ExprKind::Set { elements, flags }, self.since(start)))
    }
}
