// SPDX-License-Identifier: Apache-2.0

//! Rules: adding, replacing, removing, with the sets and chains that live and die with them.

use std::sync::Arc;

use penstock_program::Hooks;
use penstock_program::Register;
use penstock_program::expr::SetAccess;
use penstock_program::expr::{Dynset, DynsetOp, Expr, Lookup};
use penstock_program::reference::Reference;
use penstock_program::verify::{Sets, verify};

use super::gone::Gone;
use super::index::{by_handle, by_handle_mut, place};
use super::reach::Reach;
use super::sets::STATEMENTS_MAX;
use super::{Applied, OpenTable};
use crate::change::{NewRule, Position};
use crate::model::{MapData, Rule, Set};
use crate::{Blame, Errno, Error, live};

/// Most expressions of a rule (`NFT_RULE_MAXEXPRS`).
pub(super) const EXPRS_MAX: usize = 128;
/// Bytes of all data registers.
const REGISTERS: usize = 64;

impl OpenTable<'_> {
    pub(super) fn add_rule(
        &mut self,
        chain: &Arc<str>,
        position: Position,
        new: NewRule,
    ) -> Result<Applied, Error> {
        let name = self.final_name(chain);
        let there = self.index.chains.get(&name).and_then(|&h| by_handle(&self.table.chains, h));
        let Some(chain) = there else { return Err(Error::new(Errno::Enoent, Blame::Chain)) };
        let chain_handle = chain.handle;
        self.check_mutable(chain_handle)?;
        if chain.anonymous && self.index.uses(chain_handle) > 0 {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        let there = |handle| chain.rules.iter().position(|r| r.handle == handle);
        let none = Gone::default();
        let gone = self.index.gone.get(&chain_handle).unwrap_or(&none);
        let not_found = |blame| Error::new(Errno::Enoent, blame);
        let next_to = |handle, after| match there(handle) {
            Some(at) if after => Ok(gone.after(at)),
            Some(at) => Ok(gone.before(at)),
            None => gone.next_to(handle, after).ok_or(not_found(Blame::Position)),
        };
        let (spot, replaced) = match position {
            Position::After(None) => (gone.end(chain.rules.len()), None),
            Position::Before(None) => (gone.head(), None),
            Position::After(Some(handle)) => (next_to(handle, true)?, None),
            Position::Before(Some(handle)) => (next_to(handle, false)?, None),
            Position::Replace(handle) => {
                (gone.before(there(handle).ok_or(not_found(Blame::Handle))?), Some(handle))
            }
        };
        let at = spot.at;
        let mut exprs = new.exprs;
        if exprs.len() > EXPRS_MAX {
            return Err(Error::new(Errno::Einval, Blame::Whole));
        }
        if !self.batch.names.is_empty() {
            let names = &self.batch.names;
            let renamed = |reference: Reference<'_>| match reference {
                Reference::Chain(name) | Reference::Set(name) => names.get(name).cloned(),
                Reference::Object(..) | Reference::Flowtable(_) => None,
            };
            exprs.iter_mut().for_each(|e| e.rename(&renamed));
        }
        self.check_program(&exprs)?;
        self.check_room(&exprs)?;
        let handle = match replaced {
            Some(handle) => handle,
            None => self.table.last_handle + 1,
        };
        let states = self.batch.shared.states_of(&exprs, self.table.family, self.batch.now);
        let NewRule { userdata, origin, .. } = new;
        let rule = Arc::new(Rule { handle, exprs, states, userdata, origin });
        let check = self.ready_to_check_reach(&rule);
        let Some(chain) = by_handle_mut(&mut self.table.chains, chain_handle) else {
            return Err(Error::new(Errno::Enoent, Blame::Chain));
        };
        // It has to stand in its chain to be seen as part of a loop.
        let old = if replaced.is_some() {
            Some(std::mem::replace(&mut chain.rules[at], rule.clone()))
        } else {
            chain.rules.insert(at, rule.clone());
            None
        };
        if check {
            self.check_reach(chain_handle, &rule);
        }
        self.batch.changed = true;
        self.make_dynamic(&rule);
        self.index.count_rule(&rule, true);
        match old {
            Some(old) => self.release(&old),
            None => {
                self.table.last_handle = handle;
                if let Some(gone) = self.index.gone.get_mut(&chain_handle) {
                    gone.inserted(spot);
                }
            }
        }
        Ok(Applied { handle: Some(handle), name: None })
    }

    /// Whether there is memory for the sets that a rule is to change.
    fn check_room(&self, exprs: &[Expr]) -> Result<(), Error> {
        for (i, expr) in exprs.iter().enumerate() {
            if let Expr::Dynset(dynset) = expr
                && let Some(&handle) = self.index.sets.get(&dynset.set)
                && let Some(set) = by_handle(&self.table.sets, handle)
                && set.dynamic().is_none()
                && !set.has_room_for(set.description.size)
            {
                return Err(Error::new(Errno::Enomem, Blame::Expression(i)));
            }
        }
        Ok(())
    }

    /// Makes the sets that the rule changes such that packets can do so.
    fn make_dynamic(&mut self, rule: &Rule) {
        for expr in &rule.exprs {
            if let Expr::Dynset(dynset) = expr
                && let Some(&handle) = self.index.sets.get(&dynset.set)
                && let Some(set) = by_handle_mut(&mut self.table.sets, handle)
            {
                set.become_dynamic();
            }
        }
    }

    /// Whether base chains that reach the rule may not take it; then it is known which do, and how.
    fn ready_to_check_reach(&mut self, rule: &Rule) -> bool {
        if self.is_suspect() {
            return false;
        }
        let leads_on = |e: &Expr| {
            let mut leads = e.hooks(self.table.family) != Hooks::ANY;
            e.references(&mut |r| {
                leads |= match r {
                    Reference::Chain(_) => true,
                    Reference::Set(name) => self.is_verdict_map(name),
                    Reference::Object(..) | Reference::Flowtable(_) => false,
                }
            });
            leads
        };
        if !rule.exprs.iter().any(leads_on) {
            return false;
        }
        if self.index.reach.is_none() {
            self.index.reach = Some(Reach::new(self.table, self.index));
        }
        true
    }

    fn is_verdict_map(&self, set: &Arc<str>) -> bool {
        let set = self.index.sets.get(set).and_then(|&handle| by_handle(&self.table.sets, handle));
        set.is_some_and(|set| set.data == Some(MapData::Verdict))
    }

    /// Checks a rule that stands in its chain under all base chains that reach it.
    fn check_reach(&mut self, chain: u64, rule: &Rule) {
        let Some(mut reach) = self.index.reach.take() else { return };
        match reach.follow_rule(self.table, self.index, chain, rule) {
            Ok(()) => self.index.reach = Some(reach),
            Err(_) => self.suspect(),
        }
    }

    /// Whether a change has left the table wrong as a whole: what base chains reach is not known
    /// then.
    pub(super) fn is_suspect(&self) -> bool {
        self.batch.suspects.contains(&self.table.handle)
    }

    /// A change has left the table wrong as a whole.
    pub(super) fn suspect(&mut self) {
        self.index.reach = None;
        self.batch.suspects.push(self.table.handle);
    }

    /// What the kernel checks when it makes the expressions, one after the other (`ops->init`).
    pub(super) fn check_program(&self, exprs: &[Expr]) -> Result<(), Error> {
        // All of them are looked up before the first one is made (nft_expr_type_get()).
        let is_known = |e: &Expr| e.available(self.table.family) != Err(Errno::Enoent);
        if let Some(i) = exprs.iter().position(|e| !is_known(e)) {
            return Err(Error::new(Errno::Enoent, Blame::Expression(i)));
        }
        let names = exprs
            .iter()
            .enumerate()
            .find_map(|(i, e)| self.check_expr(e).err().map(|errno| (i, errno)));
        let verified = verify(exprs, self.table.family, &SetsOf { open: self });
        match (names, verified) {
            (None, Ok(())) => Ok(()),
            (Some((i, errno)), Err(e)) if i <= e.expression => {
                Err(Error::new(errno, Blame::Expression(i)))
            }
            (Some((i, errno)), Ok(())) => Err(Error::new(errno, Blame::Expression(i))),
            (_, Err(e)) => Err(Error {
                errno: e.reason.errno(),
                blame: Blame::Expression(e.expression),
                detail: Some(e.reason.to_string()),
            }),
        }
    }

    /// One expression, by what it names and where it may stand.
    fn check_expr(&self, expr: &Expr) -> Result<(), Errno> {
        expr.available(self.table.family)?;
        match expr.set_access() {
            Some(SetAccess::Lookup(lookup)) => self.check_lookup(lookup),
            Some(SetAccess::Update(dynset)) => self.check_dynset(dynset),
            Some(SetAccess::Objects { sreg, set }) => {
                let set = self.bindable_set(set)?;
                fits(sreg, set.description.key_len)?;
                if matches!(set.data, Some(MapData::Object(_))) {
                    Ok(())
                } else {
                    Err(Errno::Einval)
                }
            }
            None => {
                let mut result = live::check(expr);
                expr.references(&mut |reference| {
                    if result.is_ok() {
                        result = match reference {
                            Reference::Chain(name) => self.check_target(name, true),
                            _ => self.index.handle_of(reference).map(|_| ()).ok_or(Errno::Enoent),
                        }
                    }
                });
                result
            }
        }
    }

    /// A chain that can be jumped to; only rules can jump to anonymous ones, and only one of them.
    pub(super) fn check_target(&self, name: &Arc<str>, from_rule: bool) -> Result<(), Errno> {
        let handle = self.index.chains.get(name).ok_or(Errno::Enoent)?;
        let chain = by_handle(&self.table.chains, *handle).ok_or(Errno::Enoent)?;
        if chain.base.is_some() {
            return Err(Errno::Eopnotsupp);
        }
        if chain.anonymous && (!from_rule || self.index.uses(chain.handle) > 0) {
            return Err(Errno::Einval);
        }
        Ok(())
    }

    /// A set that a rule can be bound to: an anonymous one has one rule.
    fn bindable_set(&self, name: &Arc<str>) -> Result<&Arc<Set>, Errno> {
        let handle = self.index.sets.get(name).ok_or(Errno::Enoent)?;
        let set = by_handle(&self.table.sets, *handle).ok_or(Errno::Enoent)?;
        if set.anonymous && self.index.uses(set.handle) > 0 {
            return Err(Errno::Ebusy);
        }
        Ok(set)
    }

    fn check_lookup(&self, lookup: &Lookup) -> Result<(), Errno> {
        let set = self.bindable_set(&lookup.set)?;
        fits(lookup.sreg, set.description.key_len)?;
        match (lookup.dreg, set.data) {
            // A map may be asked only for its keys.
            (None, _) => Ok(()),
            (Some(dreg), Some(MapData::Verdict))
                if !lookup.inverse && dreg == Register::VERDICT =>
            {
                Ok(())
            }
            (Some(dreg), Some(MapData::Value { len })) if !lookup.inverse => {
                fits(dreg, len as usize)
            }
            _ => Err(Errno::Einval),
        }
    }

    fn check_dynset(&self, dynset: &Dynset) -> Result<(), Errno> {
        let set = self.bindable_set(&dynset.set)?;
        if set.backend() != penstock_sets::Backend::ResizableHash {
            return Err(Errno::Eopnotsupp);
        }
        if set.description.constant {
            return Err(Errno::Ebusy);
        }
        if !set.description.timeout && dynset.timeout != 0 {
            return Err(Errno::Eopnotsupp);
        }
        fits(dynset.sreg_key, set.description.key_len)?;
        match (dynset.sreg_data, set.data) {
            (None, None) => {}
            (Some(sreg), Some(MapData::Value { len })) => fits(sreg, len as usize)?,
            (Some(_), None | Some(MapData::Verdict | MapData::Object(_))) => {
                return Err(Errno::Eopnotsupp);
            }
            (None, Some(_)) if dynset.op == DynsetOp::Delete => {}
            (None, Some(_)) => return Err(Errno::Einval),
        }
        if !dynset.exprs.is_empty() {
            dynset.exprs.iter().try_for_each(|e| e.available(self.table.family))?;
            if !set.description.dynamic {
                return Err(Errno::Einval);
            }
            // One after the other, as nft_dynset_init() does, for the same error.
            for (n, statement) in dynset.exprs.iter().enumerate() {
                if n == STATEMENTS_MAX {
                    return Err(Errno::E2big);
                }
                let timeout = set.description.timeout;
                match statement.as_statement() {
                    Some(statement) if !(timeout && statement.collects()) => statement.check()?,
                    Some(_) | None => return Err(Errno::Eopnotsupp),
                }
                match set.exprs.get(n) {
                    None if set.exprs.is_empty() => {}
                    None => return Err(Errno::Einval),
                    Some(wanted) if wanted.is_of_kind(statement) => {}
                    Some(_) => return Err(Errno::Eopnotsupp),
                }
            }
            if set.exprs.len() > dynset.exprs.len() {
                return Err(Errno::Eopnotsupp);
            }
        }
        Ok(())
    }

    /// One rule, all of a chain, or all of the table.
    pub(super) fn delete_rule(
        &mut self,
        chain: Option<&str>,
        handle: Option<u64>,
        destroy: bool,
    ) -> Result<Applied, Error> {
        let Some(name) = chain else {
            let chains: Vec<u64> =
                self.table.chains.iter().filter(|c| !c.anonymous).map(|c| c.handle).collect();
            chains.into_iter().for_each(|chain| self.remove_rules_of(chain));
            return Ok(Applied::default());
        };
        let name = self.final_name(&name.into());
        let Some(&chain_handle) = self.index.chains.get(&name) else {
            return if destroy {
                Ok(Applied::default())
            } else {
                Err(Error::new(Errno::Enoent, Blame::Chain))
            };
        };
        if by_handle(&self.table.chains, chain_handle).is_some_and(|c| c.anonymous) {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        let Some(handle) = handle else {
            self.remove_rules_of(chain_handle);
            return Ok(Applied::default());
        };
        self.check_mutable(chain_handle)?;
        let there = by_handle(&self.table.chains, chain_handle);
        match there.and_then(|chain| chain.rules.iter().position(|r| r.handle == handle)) {
            Some(at) => {
                if let Some(chain) = by_handle_mut(&mut self.table.chains, chain_handle) {
                    let rule = chain.rules.remove(at);
                    self.index.gone.entry(chain_handle).or_default().removed(at, handle);
                    self.release(&rule);
                }
            }
            None if destroy => {}
            None => return Err(Error::new(Errno::Enoent, Blame::Handle)),
        }
        Ok(Applied::default())
    }

    /// Empties a chain.
    pub(super) fn remove_rules_of(&mut self, chain: u64) {
        if by_handle(&self.table.chains, chain).is_none_or(|c| c.rules.is_empty()) {
            return;
        }
        if let Some(emptied) = by_handle_mut(&mut self.table.chains, chain) {
            let rules = std::mem::take(&mut emptied.rules);
            self.index.gone.entry(chain).or_default().emptied(rules.iter().map(|r| r.handle));
            rules.iter().for_each(|rule| self.release(rule));
        }
    }

    /// Undoes what a rule that is gone held: counts, anonymous sets and chains.
    fn release(&mut self, rule: &Rule) {
        self.batch.changed = true;
        self.index.count_rule(rule, false);
        let (mut sets, mut chains) = (Vec::new(), Vec::new());
        for expr in &rule.exprs {
            expr.references(&mut |reference| match (reference, self.index.handle_of(reference)) {
                (Reference::Chain(_), Some(handle)) => chains.push(handle),
                (Reference::Set(_), Some(handle)) => sets.push(handle),
                _ => {}
            });
        }
        for handle in sets {
            if let Some(set) = by_handle(&self.table.sets, handle) {
                if set.data == Some(MapData::Verdict) {
                    self.index.reach = None;
                }
                if set.anonymous && self.index.uses(handle) == 0 {
                    self.remove_set(handle);
                }
            }
        }
        for handle in chains {
            self.index.reach = None;
            if let Some(at) = place(&self.table.chains, handle)
                && self.table.chains[at].anonymous
                && self.index.uses(handle) == 0
            {
                self.remove_chain(handle);
            }
        }
    }
}

/// The sets of a table, as the verifier asks for them.
struct SetsOf<'a> {
    open: &'a OpenTable<'a>,
}

impl SetsOf<'_> {
    fn set(&self, name: &str) -> Option<&Arc<Set>> {
        by_handle(&self.open.table.sets, *self.open.index.sets.get(name)?)
    }
}

impl Sets for SetsOf<'_> {
    fn key_len(&self, set: &str) -> Option<u32> {
        self.set(set).map(|set| set.description.key_len as u32)
    }

    fn value_len(&self, set: &str) -> Option<u32> {
        match self.set(set)?.data? {
            MapData::Value { len } => Some(len),
            MapData::Verdict | MapData::Object(_) => None,
        }
    }

    fn is_verdict_map(&self, set: &str) -> bool {
        self.set(set).is_some_and(|set| set.data == Some(MapData::Verdict))
    }
}

/// Whether a register holds so many bytes.
fn fits(register: Register, len: usize) -> Result<(), Errno> {
    match register.slot() {
        Some(slot) if slot * 4 + len <= REGISTERS => Ok(()),
        Some(_) => Err(Errno::Erange),
        None => Err(Errno::Einval),
    }
}
