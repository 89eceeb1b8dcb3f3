// SPDX-License-Identifier: Apache-2.0

//! Devices that packets do not have at a hook: where they leave at `input`, where they came from
//! at `output`.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_program::expr::MetaKey;
use penstock_ruleset::model::{Family, Generation, Hook};
use penstock_syntax::ast::cmd::{ChainBlock, New};
use penstock_syntax::ast::{Cmd, CmdKind, Expr, ExprKind, Key, RuleBlock, walk};
use penstock_syntax::diag::Diagnostic;
use penstock_syntax::hooks;

type ChainKey = (Family, Arc<str>, Arc<str>);

/// Warns of rules of base chains that ask for such a device.
pub(super) fn find(cmds: &[Cmd], generation: &Generation, out: &mut Vec<Diagnostic>) {
    let mut known: HashMap<ChainKey, Hook> = HashMap::new();
    for table in &generation.tables {
        for chain in &table.chains {
            if let Some(base) = &chain.base {
                known.insert((table.family, table.name.clone(), chain.name.clone()), base.hook);
            }
        }
    }
    for cmd in cmds {
        let (CmdKind::Add(new)
        | CmdKind::Create(new)
        | CmdKind::Insert(new)
        | CmdKind::Replace(new)) = &cmd.kind
        else {
            continue;
        };
        let family = cmd.target.family.unwrap_or(Family::Ip);
        let Some(table) = &cmd.target.table else { continue };
        let key = |chain: &Arc<str>| (family, table.text.clone(), chain.clone());
        let mut read = |name: &Arc<str>, block: &ChainBlock, out: &mut Vec<Diagnostic>| {
            if let Some(spec) = &block.hook {
                known.insert(key(name), spec.hook);
            }
            if let Some(hook) = known.get(&key(name)) {
                block.rules.iter().for_each(|rule| look(rule, *hook, out));
            }
        };
        match (new, &cmd.target.chain) {
            (New::Table(block), _) => {
                block.chains.iter().for_each(|(name, chain)| read(&name.text, chain, out));
            }
            (New::Chain(block), Some(name)) => read(&name.text, block, out),
            (New::Rule(rule), Some(name)) => {
                if let Some(hook) = known.get(&key(&name.text)) {
                    look(rule, *hook, out);
                }
            }
            (
                New::Chain(_)
                | New::Rule(_)
                | New::Set(_)
                | New::Elements(_)
                | New::Object(_)
                | New::Flowtable(_),
                _,
            ) => {}
        }
    }
}

/// Looks for devices that a hook does not have (`nf_hook_state`).
fn look(rule: &RuleBlock, hook: Hook, out: &mut Vec<Diagnostic>) {
    let missing: fn(MetaKey) -> bool = match hook {
        Hook::Prerouting | Hook::Input | Hook::Ingress => is_of_output,
        Hook::Output | Hook::Egress => is_of_input,
        Hook::Forward | Hook::Postrouting => return,
    };
    let word = if missing(MetaKey::Oif) { "output" } else { "input" };
    let mut note = |e: &Expr| {
        if let ExprKind::Key(Key::Meta { key }) = e.kind
            && missing(key)
        {
            let hook = hooks::name(hook);
            let message = format!("a packet has no {word} device at hook ‘{hook}’");
            out.push(Diagnostic::warning(e.loc, message));
        }
    };
    walk::rule(rule, &mut note);
}

fn is_of_output(key: MetaKey) -> bool {
    matches!(
        key,
        MetaKey::Oif
            | MetaKey::OifName
            | MetaKey::OifType
            | MetaKey::OifGroup
            | MetaKey::OifKind
            | MetaKey::BriOifName
    )
}

fn is_of_input(key: MetaKey) -> bool {
    matches!(
        key,
        MetaKey::Iif
            | MetaKey::IifName
            | MetaKey::IifType
            | MetaKey::IifGroup
            | MetaKey::IifKind
            | MetaKey::BriIifName
    )
}
