// SPDX-License-Identifier: Apache-2.0

//! Commands: definitions are checked, and the cache follows.

use std::sync::Arc;

use penstock_syntax::ast::cmd::{Markup, Name, New, ObjKind, ObjectBlock, ObjectSpec, Target};
use penstock_syntax::ast::{Cmd, CmdKind, ExprKind};
use penstock_syntax::ct_timeout;

use crate::eval::{Eval, Result, error, intervals};

impl Eval<'_, '_> {
    /// Evaluates a command.
    pub(crate) fn command(&mut self, cmd: &mut Cmd) -> Result {
        let (target, loc) = (cmd.target.clone(), cmd.loc);
        match &mut cmd.kind {
            CmdKind::Add(what)
            | CmdKind::Create(what)
            | CmdKind::Insert(what)
            | CmdKind::Replace(what) => self.add(what, &target),
            CmdKind::Delete { object, elements, devices, .. } => {
                if let Some(elements) = elements {
                    self.delete_elements(elements, &target)?;
                }
                if let Some(devices) = devices {
                    crate::eval::chain::device_names(devices, &mut Vec::new())?;
                }
                self.forget(*object, &target);
                Ok(())
            }
            CmdKind::Get { elements, .. } => self.elements(elements, &target).map(|_| ()),
            CmdKind::Reset { elements: Some(elements), .. } => {
                self.elements(elements, &target).map(|_| ())
            }
            // The kernel is asked for the object, and has nothing to suggest.
            CmdKind::Reset { object: object @ ObjKind::Object(_), elements: None } => {
                self.check_target(ObjKind::Table, &target)?;
                let asked = self.check_target(*object, &target);
                // After an earlier error it is not queried.
                match asked {
                    Err(_) if !self.ctx.refused => {
                        error(loc, "Could not process rule: No such file or directory")
                    }
                    _ => Ok(()),
                }
            }
            // nft knows only what is asked for then, so that it has nothing to suggest.
            CmdKind::List { object, .. }
                if matches!(
                    object,
                    ObjKind::Table
                        | ObjKind::Chain
                        | ObjKind::Set
                        | ObjKind::Map
                        | ObjKind::Flowtable
                ) =>
            {
                self.check_target(*object, &target)
                    .or_else(|e| error(e.loc, "No such file or directory"))
            }
            CmdKind::Reset { object, elements: None } | CmdKind::List { object, .. } => {
                self.check_target(*object, &target)
            }
            CmdKind::Flush(object) => {
                // Tables and chains are left to the kernel.
                if !matches!(object, ObjKind::Ruleset | ObjKind::Table | ObjKind::Chain) {
                    self.check_target(*object, &target)?;
                }
                self.flush(*object, &target);
                Ok(())
            }
            CmdKind::Rename { to } => self.rename(&target, to),
            // What is described need not fit anywhere.
            CmdKind::Describe(_) => Ok(()),
            CmdKind::Import(Markup::Xml) => error(loc, "this output type not supported"),
            CmdKind::Export(Markup::Xml) => error(
                loc,
                "this output type is not supported, use nft -j list ruleset for JSON support instead",
            ),
            CmdKind::Export(Markup::Json) => {
                error(loc, "JSON export is no longer supported, use 'nft -j list ruleset' instead")
            }
            CmdKind::Monitor { .. } | CmdKind::Import(Markup::Json) => Ok(()),
        }
    }

    fn add(&mut self, what: &mut New, target: &Target) -> Result {
        let family = self.family;
        match what {
            New::Table(_) => {
                if let Some(table) = &self.table {
                    self.ctx.cache.add_table(family, table);
                }
                Ok(())
            }
            New::Chain(block) => {
                self.check_table(target)?;
                self.chain(block)?;
                if let (Some(table), Some(chain)) = (&self.table, &target.chain) {
                    let base = block.hook.is_some();
                    let table = self.ctx.cache.add_table(family, table);
                    let info = table.chains.entry(chain.text.clone()).or_default();
                    info.base |= base;
                }
                Ok(())
            }
            New::Rule(rule) => {
                self.rule(rule)?;
                self.check_position(target)
            }
            New::Set(block) => {
                self.check_table(target)?;
                self.define_set(block, target)
            }
            New::Elements(elements) => {
                let info = self.elements(elements, target)?;
                let ExprKind::Set { elements, .. } = &mut elements.kind else { return Ok(()) };
                if info.interval && !info.key.is_concat() {
                    let mut purge = Vec::new();
                    if info.auto_merge && !info.is_map() {
                        purge = intervals::auto_merge(elements, &info.intervals);
                        purge.sort_unstable();
                    } else {
                        intervals::check_overlap(elements, &info.intervals)?;
                    }
                    let added = intervals::unsorted_spans_of(elements)
                        .map(|(from, to, _)| (from, to))
                        .collect();
                    let after = intervals::with_added(&info, added, &purge);
                    if let Some(table) = self.table.clone() {
                        self.ctx.cache.put_set(family, &table, after.into());
                    }
                    self.ctx.purge = purge;
                }
                Ok(())
            }
            New::Object(object) => {
                self.check_table(target)?;
                if let ObjectSpec::Tunnel(tunnel) = &mut object.value {
                    self.tunnel_object(tunnel, object.loc)?;
                }
                if let (Some(table), Some(name)) = (&self.table, &target.name) {
                    let table = self.ctx.cache.add_table(family, table);
                    table.objects.insert((object.kind, name.text.clone()), ());
                }
                check_object(object, target)
            }
            New::Flowtable(block) => {
                self.check_table(target)?;
                self.flowtable(block)?;
                if let (Some(table), Some(name)) = (&self.table, &target.name) {
                    self.ctx
                        .cache
                        .add_table(family, table)
                        .flowtables
                        .insert(name.text.clone(), ());
                }
                Ok(())
            }
        }
    }

    /// Removes a deleted object from the cache.
    fn forget(&mut self, object: ObjKind, target: &Target) {
        let Some(table) = self.table.clone() else { return };
        if object == ObjKind::Table {
            self.ctx.cache.remove_table(self.family, &table);
            return;
        }
        let Some(info) = self.ctx.cache.table_mut(self.family, &table) else { return };
        let name = target.name.as_ref().map(|n| n.text.clone());
        match (object, name) {
            (ObjKind::Chain, _) => {
                if let Some(chain) = &target.chain {
                    info.chains.swap_remove(&chain.text);
                }
            }
            (ObjKind::Set | ObjKind::Map | ObjKind::Meter, Some(name)) => {
                info.sets.swap_remove(&name);
            }
            (ObjKind::Flowtable, Some(name)) => {
                info.flowtables.swap_remove(&name);
            }
            (ObjKind::Object(kind), Some(name)) => {
                info.objects.swap_remove(&(kind, name));
            }
            _ => {}
        }
    }

    fn flush(&mut self, object: ObjKind, target: &Target) {
        if object == ObjKind::Ruleset {
            self.ctx.cache.flush(target.family);
            return;
        }
        let Some(table) = self.table.clone() else { return };
        let Some(info) = self.ctx.cache.table_mut(self.family, &table) else { return };
        match object {
            ObjKind::Set | ObjKind::Map | ObjKind::Meter => {
                if let Some(set) = target.name.as_ref().and_then(|n| info.sets.get_mut(&n.text)) {
                    Arc::make_mut(set).intervals = Arc::default();
                }
            }
            _ => {}
        }
    }

    fn rename(&mut self, target: &Target, to: &Name) -> Result {
        let Some(table) = self.table.clone() else { return Ok(()) };
        let Some(chain) = &target.chain else { return Ok(()) };
        self.check_target(ObjKind::Chain, target)?;
        if let Some(info) = self.ctx.cache.table_mut(self.family, &table)
            && let Some(found) = info.chains.swap_remove(&chain.text)
        {
            info.chains.insert(to.text.clone(), found);
        }
        Ok(())
    }
}

/// What an object lacks, or has in vain.
fn check_object(object: &ObjectBlock, target: &Target) -> Result {
    match &object.value {
        ObjectSpec::CtTimeout { l4proto, policy, .. } => {
            let known = |name: &str| *l4proto != 0 && ct_timeout::by_name(*l4proto, name).is_some();
            match policy.iter().find(|(name, _)| !known(&name.text)) {
                Some((name, _)) => error(name.loc, "invalid state for this protocol"),
                None => Ok(()),
            }
        }
        ObjectSpec::CtExpect { l4proto, dport, timeout, size, .. }
            if *l4proto == 0 || *dport == 0 || *timeout == 0 || *size == 0 =>
        {
            error(target.name.as_ref().map_or(object.loc, |name| name.loc), "missing options")
        }
        _ => Ok(()),
    }
}
