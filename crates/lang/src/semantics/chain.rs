// SPDX-License-Identifier: Apache-2.0

//! Verdicts, and implicit chains: `jump { … }`

use std::sync::Arc;

use penstock_program::expr::{Expr as Op, Immediate, ImmediateData};
use penstock_program::{Register, Verdict};
use penstock_ruleset::Change;
use penstock_ruleset::change::{Mode, NewChain, NewRule, Position};
use penstock_syntax::ast::{Expr, ExprKind, RuleBlock, StmtKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use crate::delinearize::program::{Reader, verdict_expr};
use crate::eval::context::Expected;
use crate::eval::{Eval, Result, error};
use crate::lower::{Lowered, Places, Program, rule_origin};
use crate::userdata;

impl Eval<'_, '_> {
    pub(super) fn verdict_stmt(&mut self, e: &mut Expr, loc: Loc) -> Result {
        let expected = Expected::new(Type::Base(DataType::Verdict), ByteOrder::Invalid, 0);
        self.arg(e, loc, expected)?;
        if !matches!(e.kind, ExprKind::Verdict(_) | ExprKind::Map { .. }) {
            return error(e.loc, "invalid verdict");
        }
        Ok(())
    }

    pub(super) fn implicit_chain(&mut self, block: &mut RuleBlock) -> Result {
        for rule in &mut block.rules {
            let mut inner = Eval::new(self.ctx, self.family, self.table.clone());
            inner.rule(rule)?;
        }
        Ok(())
    }
}

impl Program<'_, '_> {
    pub(super) fn verdict(&mut self, verdict: Verdict) {
        let data = ImmediateData::Verdict(verdict);
        self.ops.push(Op::Immediate(Immediate { dreg: Register::VERDICT, data }));
    }

    /// `jump { … }`: a new chain, its rules, and the verdict that leads there.
    pub(super) fn implicit_chain(&mut self, goto: bool, block: &RuleBlock, loc: Loc) {
        self.chain_id += 1;
        let name: Arc<str> =
            format!("__chain%d#{}", u64::from(loc.start) << 8 | u64::from(self.chain_id)).into();
        let places = Places { table: self.table_loc, ..Places::default() };
        self.chains.push(Lowered {
            change: Change::AddChain {
                family: self.family,
                table: self.table.clone(),
                mode: Mode::Add,
                chain: NewChain {
                    name: name.clone(),
                    base: None,
                    policy_accept: None,
                    counter: None,
                    anonymous: true,
                    offload: false,
                    program: None,
                    userdata: userdata::with_comment(None),
                },
            },
            // A chain without a name stands nowhere.
            places: Places { whole: Loc::NOWHERE, ..Places::default() },
        });
        for rule in &block.rules {
            let mut inner = Program::new(self.ctx, self.family, self.table.clone());
            inner.table_loc = self.table_loc;
            inner.chain_id = self.chain_id;
            let expressions = inner.rule(rule);
            self.chain_id = inner.chain_id;
            self.chains.append(&mut inner.chains);
            self.chains.push(Lowered {
                change: Change::AddRule {
                    family: self.family,
                    table: self.table.clone(),
                    chain: name.clone(),
                    position: Position::After(None),
                    rule: NewRule {
                        exprs: inner.ops,
                        userdata: userdata::with_comment(rule.comment.as_deref()),
                        origin: rule_origin(rule, self.ctx),
                    },
                },
                places: Places { whole: rule.loc, expressions, ..places.clone() },
            });
        }
        self.verdict(if goto { Verdict::Goto(name) } else { Verdict::Jump(name) });
    }
}

impl Reader<'_, '_> {
    pub(crate) fn verdict(&mut self, verdict: &Verdict) {
        if let Verdict::Jump(name) | Verdict::Goto(name) = verdict
            && let Some(chain) = self.delinearizer.find_chain(name).filter(|c| c.anonymous)
        {
            let goto = matches!(verdict, Verdict::Goto(_));
            let rules = chain.rules.iter().map(|rule| self.delinearizer.rule(rule)).collect();
            let block = RuleBlock { rules, ..Default::default() };
            self.push(StmtKind::Chain { goto, block });
            return;
        }
        self.push(StmtKind::Verdict(verdict_expr(verdict)));
    }
}
