// SPDX-License-Identifier: Apache-2.0

//! Commands taken apart: blocks into what they define.

use penstock_syntax::ast::cmd::{Name, New, SetBlock, TableBlock, Target};
use penstock_syntax::ast::{Cmd, CmdKind, RuleBlock};
use penstock_syntax::source::Loc;

/// Takes commands apart so that each asks for one thing: a table with chains, sets and rules
/// becomes a command for the table and one for each of what is in it, chains first so that maps and
/// rules can refer to them.
pub fn expand(cmds: Vec<Cmd>) -> impl Iterator<Item = Cmd> {
    cmds.into_iter().flat_map(|cmd| {
        let mut out = Vec::new();
        let target = cmd.target.clone();
        let rules = expand_one(cmd, &mut out);
        // There may be many rules, and a command is large.
        out.into_iter().chain(rules.into_iter().map(move |(chain, rule)| {
            let loc = rule.loc;
            let target = Target { chain, ..target.clone() };
            Cmd { kind: CmdKind::Add(New::Rule(rule)), target, loc }
        }))
    })
}

/// Splits one command, and returns the rules to add at its end, with their chains.
fn expand_one(cmd: Cmd, out: &mut Vec<Cmd>) -> Vec<(Option<Name>, RuleBlock)> {
    let create = matches!(cmd.kind, CmdKind::Create(_));
    match cmd.kind {
        CmdKind::Add(New::Table(block)) | CmdKind::Create(New::Table(block)) => {
            return expand_table(block, create, cmd.target, cmd.loc, out);
        }
        CmdKind::Add(New::Chain(mut block)) | CmdKind::Create(New::Chain(mut block)) => {
            let rules = std::mem::take(&mut block.rules);
            let chain = cmd.target.chain.clone();
            out.push(Cmd {
                kind: new(create, New::Chain(block)),
                target: cmd.target,
                loc: cmd.loc,
            });
            return rules.into_iter().map(|rule| (chain.clone(), rule)).collect();
        }
        CmdKind::Add(New::Set(block)) | CmdKind::Create(New::Set(block)) => {
            expand_set(block, create, cmd.target, cmd.loc, out);
        }
        kind => out.push(Cmd { kind, target: cmd.target, loc: cmd.loc }),
    }
    Vec::new()
}

fn new(create: bool, what: New) -> CmdKind {
    if create { CmdKind::Create(what) } else { CmdKind::Add(what) }
}

fn expand_table(
    mut block: TableBlock,
    create: bool,
    target: Target,
    loc: Loc,
    out: &mut Vec<Cmd>,
) -> Vec<(Option<Name>, RuleBlock)> {
    let chains = std::mem::take(&mut block.chains);
    let sets = std::mem::take(&mut block.sets);
    let objects = std::mem::take(&mut block.objects);
    let flowtables = std::mem::take(&mut block.flowtables);
    out.push(Cmd { kind: new(create, New::Table(block)), target: target.clone(), loc });
    let mut rules = Vec::new();
    for (name, mut chain) in chains {
        for rule in std::mem::take(&mut chain.rules) {
            rules.push((Some(name.clone()), rule));
        }
        let target = Target { chain: Some(name.clone()), ..target.clone() };
        out.push(Cmd { kind: CmdKind::Add(New::Chain(chain)), target, loc: name.loc });
    }
    for (name, object) in objects {
        let loc = name.loc;
        let target = Target { name: Some(name), ..target.clone() };
        out.push(Cmd { kind: CmdKind::Add(New::Object(object)), target, loc });
    }
    for (name, set) in sets {
        let loc = name.loc;
        let target = Target { name: Some(name), ..target.clone() };
        expand_set(set, false, target, loc, out);
    }
    for (name, flowtable) in flowtables {
        let loc = name.loc;
        let target = Target { name: Some(name), ..target.clone() };
        out.push(Cmd { kind: CmdKind::Add(New::Flowtable(flowtable)), target, loc });
    }
    rules
}

fn expand_set(mut block: SetBlock, create: bool, target: Target, loc: Loc, out: &mut Vec<Cmd>) {
    let elements = block.elements.take();
    out.push(Cmd { kind: new(create, New::Set(block)), target: target.clone(), loc });
    if let Some(elements) = elements {
        let loc = elements.loc;
        out.push(Cmd { kind: CmdKind::Add(New::Elements(elements)), target, loc });
    }
}
