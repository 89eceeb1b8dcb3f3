// SPDX-License-Identifier: Apache-2.0

//! Commands that ask: `list`, `get`, `reset`, `describe`.

use penstock_ruleset::model::{Chain, Family, Generation, Set, Table};
use penstock_syntax::ast::cmd::{ObjKind, Target};
use penstock_syntax::ast::{Cmd, CmdKind, Expr, ExprKind};
use penstock_syntax::datatype::DataType;
use penstock_syntax::describe::{describe_expr, describe_type};
use penstock_syntax::diag::Diagnostic;
use penstock_syntax::hooks;
use penstock_syntax::json::to_text;
use penstock_syntax::source::Loc;

use super::Session;
use super::reset::reset_of;
use super::step::Step;
use crate::delinearize::Delinearizer;
use crate::listing::json::{self, Tables};
use crate::listing::{Listing, Missing};
use crate::userdata::SetUserData;

type Answer = Result<String, Box<Diagnostic>>;

fn error<T>(loc: Loc, message: impl Into<String>) -> Result<T, Box<Diagnostic>> {
    Err(Box::new(Diagnostic::error(loc, message)))
}

impl Session<'_> {
    pub(super) fn answer(&self, step: &Step, generation: &Generation, now: u64) -> Answer {
        let listing = Listing { generation, format: self.options.format, names: self.names, now };
        let cmd = &step.cmd;
        match &cmd.kind {
            CmdKind::List { object: ObjKind::Hooks, device } => {
                Ok(hooks(generation, cmd.target.family, device.as_deref()))
            }
            CmdKind::List { object, .. } => self.list(&listing, *object, cmd),
            CmdKind::Get { .. } => self.get(&listing, step, false),
            CmdKind::Reset { object: ObjKind::Elements, .. } => self.get(&listing, step, true),
            CmdKind::Reset { object, .. } => {
                let text = match object {
                    ObjKind::Rule => self.rule(&listing, cmd)?,
                    // Only what is reset is known then: tables without such objects are not there.
                    ObjKind::Objects(kind) => {
                        let mut generation = generation.clone();
                        generation
                            .tables
                            .retain(|t| t.objects.iter().any(|o| o.value.kind() == *kind));
                        match cmd.target.table {
                            Some(_) if find_table(&generation, &cmd.target).is_none() => {
                                String::new()
                            }
                            _ => self.list(
                                &Listing { generation: &generation, ..listing },
                                *object,
                                cmd,
                            )?,
                        }
                    }
                    _ => self.list(&listing, *object, cmd)?,
                };
                if !self.options.check
                    && let Some(reset) = reset_of(*object, &cmd.target, &[])
                {
                    generation.reset(&reset, now);
                }
                Ok(text)
            }
            CmdKind::Describe(expr) => Ok(self.describe(expr)),
            CmdKind::Monitor { .. } => {
                error(cmd.loc, "monitor needs a dataplane, and this ruleset has none")
            }
            CmdKind::Import(_) | CmdKind::Export(_) => {
                error(cmd.loc, "Could not process rule: Operation not supported")
            }
            // Changes that came to nothing, such as rules of an empty table.
            CmdKind::Add(_)
            | CmdKind::Create(_)
            | CmdKind::Insert(_)
            | CmdKind::Replace(_)
            | CmdKind::Delete { .. }
            | CmdKind::Flush(_)
            | CmdKind::Rename { .. } => Ok(String::new()),
        }
    }

    fn list(&self, listing: &Listing<'_>, object: ObjKind, cmd: &Cmd) -> Answer {
        let answer = if self.options.json {
            json::list(listing, object, &cmd.target)
                .map(|answer| answer.map(|v| to_text(&v) + "\n"))
        } else {
            listing.list(object, &cmd.target)
        };
        let place = |name: &Option<penstock_syntax::ast::cmd::Name>| {
            name.as_ref().map_or(cmd.loc, |n| n.loc)
        };
        match answer {
            Some(Ok(text)) => Ok(text),
            Some(Err(missing)) => {
                let loc = match missing {
                    Missing::Table => place(&cmd.target.table),
                    Missing::Chain => place(&cmd.target.chain),
                    Missing::Name => place(&cmd.target.name),
                };
                error(loc, "No such file or directory")
            }
            None => error(cmd.loc, "this cannot be listed"),
        }
    }

    fn describe(&self, expr: &Expr) -> String {
        if let ExprKind::Symbol { text, .. } = &expr.kind
            && let Some(dtype) = DataType::from_name(text)
        {
            return describe_type(dtype, self.names);
        }
        describe_expr(expr, self.names)
    }

    /// The one rule of a target with a handle, in its chain.
    fn rule(&self, listing: &Listing<'_>, cmd: &Cmd) -> Answer {
        let chain = find_chain(listing.generation, &cmd.target);
        let handle = cmd.target.handle;
        let rule = chain
            .and_then(|(_, c)| c.rules.iter().find(|r| Some(r.handle) == handle.map(|h| h.value)));
        let (Some((table, chain)), Some(rule)) = (chain, rule) else {
            return error(
                handle.map_or(cmd.loc, |h| h.loc),
                "Could not process rule: No such file or directory",
            );
        };
        let mut only = chain.clone();
        only.rules = vec![rule.clone()];
        if self.options.json {
            let tables = Tables { listing, table };
            let objects = [tables.chain(&only), tables.rule(&only, rule)];
            return Ok(to_text(&json::document(self.options.format.release, objects)) + "\n");
        }
        Ok(listing.chain(table, &only))
    }

    /// `get element`, and `reset element`: the elements that hold the ones asked for.
    fn get(&self, listing: &Listing<'_>, step: &Step, reset: bool) -> Answer {
        let cmd = &step.cmd;
        let found =
            cmd.target.table.as_ref().zip(cmd.target.name.as_ref()).and_then(|(table, name)| {
                let table =
                    listing.table_named(cmd.target.family.unwrap_or(Family::Ip), &table.text)?;
                Some((table, table.sets.iter().find(|s| s.name == name.text)?))
            });
        let Some((table, set)) = found else {
            return error(cmd.loc, "Could not process rule: No such file or directory");
        };
        let mut committed = set.elements().into_owned();
        committed.commit();
        let delinearizer = Delinearizer { table, now: listing.now };
        let mut shown = Vec::new();
        for asked in &step.elements {
            let element = if asked.key.is_empty() {
                committed.catch_all(listing.now)
            } else {
                let holds_end = |found: &penstock_sets::ElementRef<'_, _>| match (
                    asked.key_end.as_deref(),
                    found.key_end,
                ) {
                    (Some(end), Some(found_end)) => end <= found_end,
                    (Some(end), None) => end == found.key,
                    (None, _) => true,
                };
                committed.get(&asked.key, listing.now).filter(holds_end)
            };
            let Some(element) = element else {
                return error(cmd.loc, "Could not process rule: No such file or directory");
            };
            shown.extend(delinearizer.element(set, element));
            if reset && !self.options.check {
                element.value.reset(listing.now);
            }
        }
        if self.options.json {
            let set = Tables { listing, table }.set(set, shown);
            return Ok(to_text(&json::document(self.options.format.release, [set])) + "\n");
        }
        // nft then knows only the name of the type, and no comment.
        let mut userdata = SetUserData::decode(&set.userdata);
        (userdata.key_typeof, userdata.data_typeof, userdata.comment) = (None, None, None);
        let named = Set { userdata: userdata.encode(), ..Set::clone(set) };
        Ok(listing.set_with(table, &named, &shown))
    }
}

fn find_table<'g>(generation: &'g Generation, target: &Target) -> Option<&'g Table> {
    let family = target.family.unwrap_or(Family::Ip);
    let name = target.table.as_ref()?;
    generation.tables.iter().find(|t| t.family == family && t.name == name.text).map(|t| &**t)
}

fn find_chain<'g>(generation: &'g Generation, target: &Target) -> Option<(&'g Table, &'g Chain)> {
    let chain = target.chain.as_ref()?;
    let table = find_table(generation, target)?;
    Some((table, table.chains.iter().find(|c| c.name == chain.text)?))
}

/// `list hooks`: base chains by family, hook and device, lowest priority first; of equal ones the
/// one that runs first.
fn hooks(generation: &Generation, family: Option<Family>, device: Option<&str>) -> String {
    let mut out = String::new();
    for shown in [Family::Ip, Family::Ip6, Family::Arp, Family::Bridge, Family::Netdev] {
        if family.is_some_and(|f| {
            f != shown && !(f == Family::Inet && matches!(shown, Family::Ip | Family::Ip6))
        }) {
            continue;
        }
        let mut body = String::new();
        for hook in hooks::ALL {
            let mut chains = Vec::new();
            for table in generation.tables.iter().filter(|t| !t.dormant) {
                let inet =
                    table.family == Family::Inet && matches!(shown, Family::Ip | Family::Ip6);
                if table.family != shown && !inet {
                    continue;
                }
                for chain in &table.chains {
                    let Some(base) = chain.base.as_ref().filter(|b| b.hook == hook) else {
                        continue;
                    };
                    let on_device = device.is_none_or(|d| {
                        base.devices.is_empty() || base.devices.iter().any(|x| &**x == d)
                    });
                    if on_device {
                        chains.push((
                            base.priority,
                            std::cmp::Reverse(base.registered),
                            table,
                            chain,
                        ));
                    }
                }
            }
            chains.sort_by_key(|(priority, registered, _, _)| (*priority, *registered));
            if chains.is_empty() {
                continue;
            }
            body.push_str(&format!("\thook {} {{\n", hooks::name(hook)));
            for (priority, _, table, chain) in chains {
                let sign = match priority {
                    0 => ' ',
                    p if p < 0 => '-',
                    _ => '+',
                };
                let number = priority.unsigned_abs();
                let family = table.family.name();
                // The kernel shows what its programs are called by: nf_hook_run_bpf().
                let what = match &chain.program {
                    Some(_) => "[nf_hook_run_bpf]",
                    None => "[nf_tables]",
                };
                body.push_str(&format!(
                    "\t\t{sign}{number:010} chain {family} {} {} {what}\n",
                    table.name, chain.name
                ));
            }
            body.push_str("\t}\n");
        }
        if !body.is_empty() {
            out.push_str(&format!("family {} {{\n{body}}}\n", shown.name()));
        }
    }
    out
}
