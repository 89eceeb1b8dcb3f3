// SPDX-License-Identifier: Apache-2.0

//! Tables, chains, rules and flowtables to text.

use penstock_ruleset::model::{BaseChain, Chain, ChainType, Family, Flowtable, Table};
use penstock_syntax::hooks;
use penstock_syntax::print::Printer;
use penstock_syntax::priority;

use crate::userdata;

/// `NFT_TABLE_F_*` beyond dormant.
const TABLE_FLAGS: [(u32, &str); 2] = [(2, "owner"), (4, "persist")];
/// `NFT_FLOWTABLE_*`.
const FLOWTABLE_OFFLOAD: u32 = 1;
const FLOWTABLE_COUNTER: u32 = 2;

/// ` # handle N`, where handles are asked for.
pub(super) fn handle_after(p: &mut Printer<'_>, handle: u64) {
    if p.format.handles {
        p.write(format_args!(" # handle {handle}"));
    }
}

pub(super) fn table_start(p: &mut Printer<'_>, table: &Table) {
    p.write(format_args!("table {} {} {{", table.family.name(), table.name));
    handle_after(p, table.handle);
    p.push("\n");
}

/// Flags and comment; returns what separates them from what follows.
pub(super) fn table_attributes(p: &mut Printer<'_>, table: &Table) -> &'static str {
    let mut separator = "";
    let dormant = table.dormant.then_some("dormant");
    let flags = TABLE_FLAGS.iter().filter(|(bit, _)| table.flags & bit != 0).map(|(_, name)| *name);
    let flags: Vec<_> = dormant.into_iter().chain(flags).collect();
    if !flags.is_empty() {
        p.write(format_args!("\tflags {}\n", flags.join(",")));
        separator = "\n";
    }
    if let Some(comment) = userdata::comment(&table.userdata) {
        // As nft does: no empty line follows it.
        p.write(format_args!("\tcomment \"{comment}\"\n"));
    }
    separator
}

/// Everything of a chain before its rules.
pub(super) fn chain_start(p: &mut Printer<'_>, family: Family, chain: &Chain) {
    p.write(format_args!("\tchain {} {{", chain.name));
    handle_after(p, chain.handle);
    p.push("\n");
    if let Some(comment) = userdata::comment(&chain.userdata) {
        p.write(format_args!("\t\tcomment \"{comment}\"\n"));
    }
    if let Some(base) = &chain.base {
        p.push("\t\t");
        base_chain(p, family, base);
        p.push("\n");
    }
    if let Some(program) = &chain.program {
        p.write(format_args!("\t\tbpf object \"{}\"", program.object));
        if let Some(section) = &program.section {
            p.write(format_args!(" section \"{section}\""));
        }
        p.push("\n");
    }
}

/// `type … hook … priority …; policy …;`
pub(super) fn base_chain(p: &mut Printer<'_>, family: Family, base: &BaseChain) {
    let kind = match base.kind {
        ChainType::Filter => "filter",
        ChainType::Nat => "nat",
        ChainType::Route => "route",
    };
    p.write(format_args!("type {kind} hook {}", hooks::name(base.hook)));
    match base.devices.as_slice() {
        [] => {}
        [one] => p.write(format_args!(" device \"{one}\"")),
        many => {
            let names: Vec<&str> = many.iter().map(|d| &**d).collect();
            p.write(format_args!(" devices = {{ {} }}", names.join(", ")));
        }
    }
    let priority = priority::text(base.priority, family, base.hook, &p.format);
    let policy = if base.policy_accept { "accept" } else { "drop" };
    p.write(format_args!(" priority {priority}; policy {policy};"));
    if base.offload {
        p.push(" flags offload;");
    }
}

pub(super) fn flowtable(p: &mut Printer<'_>, family: Family, flowtable: &Flowtable) {
    p.write(format_args!("\tflowtable {} {{", flowtable.name));
    handle_after(p, flowtable.handle);
    // Only `filter` names a priority here, in every family.
    let _ = family;
    let priority = priority::text(flowtable.priority, Family::Netdev, flowtable.hook, &p.format);
    let hook = if flowtable.early { "early_ingress" } else { hooks::name(flowtable.hook) };
    p.write(format_args!("\n\t\thook {hook} priority {priority}\n"));
    if !flowtable.devices.is_empty() {
        let devices: Vec<&str> = flowtable.devices.iter().map(|d| &**d).collect();
        p.write(format_args!("\t\tdevices = {{ {} }}\n", devices.join(", ")));
    }
    if flowtable.flags & FLOWTABLE_OFFLOAD != 0 {
        p.push("\t\tflags offload\n");
    }
    if flowtable.flags & FLOWTABLE_COUNTER != 0 {
        p.push("\t\tcounter\n");
    }
    p.push("\t}\n");
}
