// SPDX-License-Identifier: Apache-2.0

//! Tables, chains, rules and flowtables to text.

use penstock_ruleset::model::{BaseChain, Chain, ChainType, Family, Flowtable, Table};

use super::Printer;
use super::priority;
use crate::ast::RuleBlock;
use crate::hooks;
use crate::userdata;

/// `NFT_TABLE_F_*` beyond dormant.
const TABLE_FLAGS: [(u32, &str); 2] = [(2, "owner"), (4, "persist")];
/// `NFT_FLOWTABLE_*`.
const FLOWTABLE_OFFLOAD: u32 = 1;
const FLOWTABLE_COUNTER: u32 = 2;

impl Printer<'_> {
    /// ` # handle N`, where handles are asked for.
    pub(super) fn handle_after(&mut self, handle: u64) {
        if self.format.handles {
            self.write(format_args!(" # handle {handle}"));
        }
    }

    pub(super) fn table_start(&mut self, table: &Table) {
        self.write(format_args!("table {} {} {{", table.family.name(), table.name));
        self.handle_after(table.handle);
        self.push("\n");
    }

    /// Flags and comment; returns what separates them from what follows.
    pub(super) fn table_attributes(&mut self, table: &Table) -> &'static str {
        let mut separator = "";
        let dormant = table.dormant.then_some("dormant");
        let flags =
            TABLE_FLAGS.iter().filter(|(bit, _)| table.flags & bit != 0).map(|(_, name)| *name);
        let flags: Vec<_> = dormant.into_iter().chain(flags).collect();
        if !flags.is_empty() {
            self.write(format_args!("\tflags {}\n", flags.join(",")));
            separator = "\n";
        }
        if let Some(comment) = userdata::comment(&table.userdata) {
            // As nft does: no empty line follows it.
            self.write(format_args!("\tcomment \"{comment}\"\n"));
        }
        separator
    }

    /// Everything of a chain before its rules.
    pub(super) fn chain_start(&mut self, family: Family, chain: &Chain) {
        self.write(format_args!("\tchain {} {{", chain.name));
        self.handle_after(chain.handle);
        self.push("\n");
        if let Some(comment) = userdata::comment(&chain.userdata) {
            self.write(format_args!("\t\tcomment \"{comment}\"\n"));
        }
        if let Some(base) = &chain.base {
            self.push("\t\t");
            self.base_chain(family, base);
            self.push("\n");
        }
    }

    /// `type … hook … priority …; policy …;`
    pub(super) fn base_chain(&mut self, family: Family, base: &BaseChain) {
        let kind = match base.kind {
            ChainType::Filter => "filter",
            ChainType::Nat => "nat",
            ChainType::Route => "route",
        };
        self.write(format_args!("type {kind} hook {}", hooks::name(base.hook)));
        match base.devices.as_slice() {
            [] => {}
            [one] => self.write(format_args!(" device \"{one}\"")),
            many => {
                let names: Vec<&str> = many.iter().map(|d| &**d).collect();
                self.write(format_args!(" devices = {{ {} }}", names.join(", ")));
            }
        }
        let priority =
            priority::text(base.priority, family, base.hook, self.format.numeric_priority);
        let policy = if base.policy_accept { "accept" } else { "drop" };
        self.write(format_args!(" priority {priority}; policy {policy};"));
        if base.offload {
            self.push(" flags offload;");
        }
    }

    /// Statements and comment of a rule.
    pub fn rule(&mut self, rule: &RuleBlock) {
        self.stmts(&rule.stmts);
        if let Some(comment) = &rule.comment {
            self.write(format_args!(" comment \"{comment}\""));
        }
    }

    pub(super) fn flowtable(&mut self, family: Family, flowtable: &Flowtable) {
        self.write(format_args!("\tflowtable {} {{", flowtable.name));
        self.handle_after(flowtable.handle);
        let numeric = self.format.numeric_priority;
        // Only `filter` names a priority here, in every family.
        let _ = family;
        let priority = priority::text(flowtable.priority, Family::Netdev, flowtable.hook, numeric);
        let hook = if flowtable.early { "early_ingress" } else { hooks::name(flowtable.hook) };
        self.write(format_args!("\n\t\thook {hook} priority {priority}\n"));
        if !flowtable.devices.is_empty() {
            let devices: Vec<&str> = flowtable.devices.iter().map(|d| &**d).collect();
            self.write(format_args!("\t\tdevices = {{ {} }}\n", devices.join(", ")));
        }
        if flowtable.flags & FLOWTABLE_OFFLOAD != 0 {
            self.push("\t\tflags offload\n");
        }
        if flowtable.flags & FLOWTABLE_COUNTER != 0 {
            self.push("\t\tcounter\n");
        }
        self.push("\t}\n");
    }
}
