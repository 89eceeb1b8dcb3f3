//! Commands: blocks are taken apart, definitions checked, the cache follows.

use std::sync::Arc;

use penstock_ruleset::model::ElementValue;
use penstock_sets::ElementList;

use crate::ast::cmd::{
    Name, New, ObjKind, ObjectBlock, ObjectSpec, RuleBlock, SetBlock, SetData, TableBlock, Target,
};
use crate::ast::expr::{ByteOrder, Expr, ExprKind, SetExprFlags};
use crate::ast::{Cmd, CmdKind};
use crate::cache::{DataKind, Field, KeyType, SetInfo, TableInfo};
use crate::datatype::{DataType, Type};
use crate::diag::{Diagnostic, most_similar, most_similar_of};
use crate::eval::context::Base;
use crate::eval::intervals;
use crate::eval::{Eval, Result, conflict, error};
use crate::intervals::number;
use crate::lower::{lower_elements, states_of};
use crate::parse::again;
use crate::parse::plain::Plain;
use crate::source::Loc;

/// Elements that are trees at the same time.
const ELEMENTS_AT_ONCE: usize = 256;

/// Takes commands apart so that each asks for one thing: a table with chains, sets and rules becomes a command for
/// the table and one for each of what is in it, chains first so that maps and rules can refer to them.
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

/// Takes one command apart, and returns the rules that are to be added at its end, with their chains.
fn expand_one(cmd: Cmd, out: &mut Vec<Cmd>) -> Vec<(Option<Name>, RuleBlock)> {
    let create = matches!(cmd.kind, CmdKind::Create(_));
    match cmd.kind {
        CmdKind::Add(New::Table(block)) | CmdKind::Create(New::Table(block)) => {
            return expand_table(block, create, cmd.target, cmd.loc, out);
        }
        CmdKind::Add(New::Chain(mut block)) | CmdKind::Create(New::Chain(mut block)) => {
            let rules = std::mem::take(&mut block.rules);
            let chain = cmd.target.chain.clone();
            out.push(Cmd { kind: new(create, New::Chain(block)), target: cmd.target, loc: cmd.loc });
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

/// What was skipped is not what it was taken for: all of the text is to be read again.
fn misread(place: Loc) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(place, "syntax error"))
}

impl Eval<'_, '_> {
    /// Evaluates a command.
    pub(crate) fn command(&mut self, cmd: &mut Cmd) -> Result {
        let (target, loc) = (cmd.target.clone(), cmd.loc);
        match &mut cmd.kind {
            CmdKind::Add(what) | CmdKind::Create(what) | CmdKind::Insert(what) | CmdKind::Replace(what) => {
                self.add(what, &target)
            }
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
            CmdKind::Reset { elements: Some(elements), .. } => self.elements(elements, &target).map(|_| ()),
            // The kernel is asked for the object, and has nothing to suggest.
            CmdKind::Reset { object: object @ ObjKind::Object(_), elements: None } => {
                self.check_target(ObjKind::Table, &target)?;
                let asked = self.check_target(*object, &target);
                // With anything wrong before it, it is not asked.
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
                    ObjKind::Table | ObjKind::Chain | ObjKind::Set | ObjKind::Map | ObjKind::Flowtable
                ) =>
            {
                self.check_target(*object, &target).or_else(|e| error(e.loc, "No such file or directory"))
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
            CmdKind::Monitor { .. } | CmdKind::Import | CmdKind::Export => Ok(()),
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
                if rule.unread {
                    *rule = again::rule(&mut self.ctx.inputs, rule.loc).ok_or_else(|| misread(rule.loc))?;
                }
                self.rule(rule)?;
                self.check_position(target)
            }
            New::Set(block) => {
                self.check_table(target)?;
                self.define_set(block, target)
            }
            New::Elements(elements) => {
                if let ExprKind::Set { flags: SetExprFlags { unread: true, .. }, .. } = elements.kind {
                    let info = self.set_of_elements(elements, target)?;
                    if !(info.auto_merge && info.interval) {
                        return self.unread_elements(elements.loc, &info);
                    }
                    if self.ctx.skipped && self.joined_elements(elements.loc, &info) {
                        return Ok(());
                    }
                    // Those that are joined are needed all at once.
                    let read = again::elements(&mut self.ctx.inputs, elements.loc);
                    *elements = read.ok_or_else(|| misread(elements.loc))?;
                }
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
                    let added =
                        intervals::unsorted_spans_of(elements).map(|(from, to, _)| (from, to)).collect();
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
                    self.ctx.cache.add_table(family, table).flowtables.insert(name.text.clone(), ());
                }
                Ok(())
            }
        }
    }

    /// The set that elements are for.
    fn set_of_elements(&mut self, elements: &Expr, target: &Target) -> Result<Arc<SetInfo>> {
        let Some(name) = &target.name else { return error(elements.loc, "No such file or directory") };
        let info =
            match self.ctx.cache.set(self.family, self.table.as_deref().unwrap_or_default(), &name.text) {
                Some(info) => info.clone(),
                None => self.find_set(&name.text, name.loc)?,
            };
        if !matches!(elements.kind, ExprKind::Set { .. }) {
            return error(
                elements.loc,
                format!("Set {}: Unexpected initial type {}, missing {{ }}?", info.name, elements.word()),
            );
        }
        Ok(info)
    }

    /// Evaluates elements against the set of the command.
    fn elements(&mut self, elements: &mut Expr, target: &Target) -> Result<Arc<SetInfo>> {
        let info = self.set_of_elements(elements, target)?;
        self.elements_for(elements, &info)?;
        Ok(info)
    }

    fn elements_for(&mut self, elements: &mut Expr, info: &Arc<SetInfo>) -> Result {
        self.set = Some(info.clone());
        self.expected = info.key.expected();
        let evaluated = self.expr(elements);
        self.set = None;
        evaluated
    }

    /// Reads elements again, evaluates and lowers them, some at a time: a set may have millions.
    fn unread_elements(&mut self, place: Loc, info: &Arc<SetInfo>) -> Result {
        let mut reader = again::Elements::new(place);
        let (mut lowered, mut places) = (ElementList::new(), Vec::new());
        let (mut spans, mut added) = (Vec::new(), intervals::Spans::new());
        let plain_intervals = info.interval && !info.key.is_concat();
        // Where something was skipped nobody asks for the places of elements: with an error all is read again.
        let plain = if self.ctx.skipped { Plain::of(info) } else { None };
        let table = self.table.clone().unwrap_or_default();
        loop {
            let mut most = ELEMENTS_AT_ONCE;
            if let Some(plain) = &plain {
                let before = lowered.len();
                reader.plain(&self.ctx.inputs, plain, |first, last, data| {
                    if plain_intervals {
                        added.extend(number(first).zip(number(last.unwrap_or(first))));
                    }
                    lowered.push_parts(first, last, data.map(ElementValue::from), None);
                });
                // Others may stand alone among plain ones.
                if lowered.len() > before {
                    most = 1;
                }
            }
            let elements = reader.next(&mut self.ctx.inputs, most).ok_or_else(|| misread(place))?;
            if elements.is_empty() {
                break;
            }
            let kind = ExprKind::Set { elements, flags: SetExprFlags::default() };
            let mut some = Expr::new(kind, place);
            self.elements_for(&mut some, info)?;
            let ExprKind::Set { elements, .. } = &some.kind else { break };
            if plain_intervals {
                let new = intervals::unsorted_spans_of(elements);
                // What overlaps the ruleset refuses as well, though in other words: they do not count here.
                match self.ctx.skipped {
                    true => added.extend(new.map(|(from, to, _)| (from, to))),
                    false => spans.extend(new.map(|(from, to, i)| (from, to, lowered.len() + i))),
                }
            }
            lower_elements(elements, info, self.ctx, self.family, &table, &mut lowered, &mut places);
        }
        if lowered.is_empty() {
            return Err(misread(place));
        }
        if plain_intervals {
            intervals::sort(&mut spans);
            intervals::check_spans(&spans, |i| places[i], &info.intervals)?;
            added.extend(spans.into_iter().map(|(from, to, _)| (from, to)));
            self.ctx.cache.put_set(
                self.family,
                &table,
                intervals::with_added(info, added, &Vec::new()).into(),
            );
        }
        self.ctx.ready.set(Some((lowered, places)));
        Ok(())
    }

    /// Plain elements of an empty set whose intervals are joined. `false` if they are not, and nothing was done.
    fn joined_elements(&mut self, place: Loc, info: &Arc<SetInfo>) -> bool {
        let Some(plain) = Plain::of(info).filter(|_| !info.is_map() && !info.key.is_concat()) else {
            return false;
        };
        let Some(bytes) = info.key.len().checked_div(8).map(|bytes| bytes as usize) else { return false };
        if !info.intervals.is_empty() {
            return false;
        }
        let mut reader = again::Elements::new(place);
        let mut spans = intervals::Spans::new();
        reader.plain(&self.ctx.inputs, &plain, |first, last, _| {
            spans.extend(number(first).zip(number(last.unwrap_or(first))));
        });
        if spans.is_empty() || !reader.at_end() {
            return false;
        }
        spans.sort_unstable();
        spans.dedup_by(|next, last| {
            let joined = intervals::touches(last.1, next.0);
            if joined {
                last.1 = last.1.max(next.1);
            }
            joined
        });
        let mut lowered = ElementList::new();
        for (from, to) in &spans {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            let (from, to) = (&from[16 - bytes..], &to[16 - bytes..]);
            lowered.push_parts(from, Some(to).filter(|to| *to != from), None, None);
        }
        if let Some(table) = self.table.clone() {
            let after = intervals::with_added(info, spans, &Vec::new());
            self.ctx.cache.put_set(self.family, &table, after.into());
        }
        self.ctx.ready.set(Some((lowered, Vec::new())));
        true
    }

    fn delete_elements(&mut self, elements: &mut Expr, target: &Target) -> Result {
        let info = self.elements(elements, target)?;
        let ExprKind::Set { elements, .. } = &mut elements.kind else { return Ok(()) };
        if !info.interval || info.key.is_concat() {
            return Ok(());
        }
        let (gone, left) = if info.auto_merge && !info.is_map() {
            intervals::split(elements, &info.intervals)?
        } else {
            let gone = elements.iter().filter_map(|e| crate::eval::set::bounds(crate::eval::set::key_of(e)));
            (gone.collect(), Vec::new())
        };
        let mut after = (*info).clone();
        let held = Arc::make_mut(&mut after.intervals).to_mut();
        let mut sorted = gone.clone();
        sorted.sort_unstable();
        held.retain(|e| sorted.binary_search(e).is_err());
        held.extend(left.iter().copied());
        held.sort_unstable();
        if let Some(table) = self.table.clone() {
            self.ctx.cache.put_set(self.family, &table, after.into());
        }
        if info.auto_merge && !info.is_map() {
            self.ctx.purge = gone;
            self.ctx.rest = left;
            self.ctx.split = true;
        }
        Ok(())
    }

    fn define_set(&mut self, block: &mut SetBlock, target: &Target) -> Result {
        let word = if block.map { "map" } else { "set" };
        let place = block.loc;
        if block.auto_merge && !block.flags.interval {
            // It is known nevertheless.
            block.auto_merge = false;
            drop(self.define_set(block, target));
            self.take_back_key(target);
            return error(place, "auto-merge only works with interval sets");
        }
        let Some(key) = &mut block.key else {
            if let (Some(table), Some(name)) = (&self.table, &target.name) {
                self.ctx.cache.add_table(self.family, table).untyped.insert(name.text.clone(), ());
            }
            // Only with a type is a map known as one.
            return error(place, "set definition does not specify key");
        };
        let mut key_type = self.type_of(key, block.key_typeof, place, word)?;
        if key_type.len() > 64 * 8 {
            return error(key.loc, "Key size exceeds maximum of 64 bytes");
        }
        if block.flags.interval {
            key_type = key_type.big_endian();
        }
        let data = match &mut block.data {
            None if block.map => {
                return error(place, "map definition does not specify mapping data type");
            }
            None => None,
            Some(SetData::Object(kind)) => Some(DataKind::Object(*kind)),
            Some(SetData::Expr { expr, interval }) => match &expr.kind {
                ExprKind::Symbol { text, .. } if &**text == "verdict" => Some(DataKind::Verdict),
                _ => {
                    let ty = self.type_of(expr, block.key_typeof, place, word)?;
                    Some(DataKind::Value { ty, interval: *interval })
                }
            },
        };
        for stmt in &mut block.stmts {
            self.stateful(stmt)?;
        }
        if block.timeout.is_some() || block.gc_interval.is_some() {
            block.flags.timeout = true;
        }
        let Some(name) = &target.name else { return Ok(()) };
        let info = SetInfo {
            name: name.text.clone(),
            anonymous: false,
            meter: false,
            place: Some(place),
            key: key_type,
            data,
            interval: block.flags.interval,
            timeout: block.flags.timeout,
            dynamic: block.flags.eval,
            auto_merge: block.auto_merge,
            stmts: block.stmts.iter().filter_map(|s| s.kind.stateful_name()).collect(),
            intervals: Arc::default(),
        };
        let Some(table) = self.table.clone() else { return Ok(()) };
        if let Some(known) = self.ctx.cache.set(self.family, &table, &name.text) {
            // Declaring it again leaves its content alone.
            let known = SetInfo { intervals: known.intervals.clone(), ..info };
            self.ctx.cache.put_set(self.family, &table, known.into());
        } else {
            self.ctx.cache.put_set(self.family, &table, info.into());
        }
        Ok(())
    }

    /// A concatenation was not evaluated when the declaration was refused: it has no type.
    fn take_back_key(&mut self, target: &Target) {
        let (Some(table), Some(name)) = (&self.table, &target.name) else { return };
        let Some(info) = self.ctx.cache.set(self.family, table, &name.text) else { return };
        if info.key.is_concat() {
            let mut info = SetInfo::clone(info);
            info.key.dtype = Type::Base(DataType::Invalid);
            self.ctx.cache.put_set(self.family, table, info.into());
        }
    }

    /// The type that `type` names or that `typeof` expressions have.
    fn type_of(&mut self, e: &mut Expr, by_expression: bool, place: Loc, word: &str) -> Result<KeyType> {
        let loc = e.loc;
        let parts: Vec<&mut Expr> = match &mut e.kind {
            ExprKind::Concat(parts) => parts.iter_mut().collect(),
            _ => vec![e],
        };
        let mut fields = Vec::with_capacity(parts.len());
        let concat = parts.len() > 1;
        for part in parts {
            let field = match (by_expression, concat) {
                (true, _) => self.typeof_field(part)?,
                (false, true) => concat_field(part, loc)?,
                (false, false) => named_field(part, place, word)?,
            };
            fields.push(field);
        }
        Ok(match fields.as_slice() {
            [one] => KeyType::base(one.clone()),
            [] => return error(loc, "empty type"),
            many => {
                KeyType { dtype: Type::Concat(many.iter().map(|f| f.dtype).collect()), fields: fields.into() }
            }
        })
    }

    /// The type of an expression, whatever the packet would have to be for it.
    fn typeof_field(&mut self, e: &mut Expr) -> Result<Field> {
        if let ExprKind::Payload(payload) = &e.kind {
            return Ok(match payload.field {
                Some(field) => Field { dtype: field.dtype, order: ByteOrder::Big, len: field.len },
                None => Field { dtype: DataType::RawInteger, order: ByteOrder::Big, len: e.len },
            });
        }
        if let ExprKind::Exthdr(exthdr) = &e.kind
            && let (false, Some(field)) = (exthdr.present, exthdr.field)
        {
            return Ok(Field { dtype: field.dtype, order: ByteOrder::Big, len: field.len });
        }
        let mut copy = e.clone();
        let mut inner = Eval::new(self.ctx, self.family, self.table.clone());
        inner.expr(&mut copy)?;
        let field = Field::of(&copy);
        if field.len == 0 || copy.constant {
            return error(
                e.loc,
                format!("primary expression type '{}' lacks typeof serialization", copy.word()),
            );
        }
        Ok(field)
    }

    /// What is deleted is not known any more.
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

    /// What is listed, reset or flushed must be there.
    /// A rule can be put beside those that were there when the run began.
    fn check_position(&mut self, target: &Target) -> Result {
        if self.ctx.has_positions {
            self.check_target(ObjKind::Chain, target)?;
        }
        let (Some(position), Some(table), Some(chain)) = (&target.position, &target.table, &target.chain)
        else {
            return Ok(());
        };
        let before = &self.ctx.before;
        let table = before.tables.iter().find(|t| t.family == self.family && t.name == table.text);
        let chain = table.and_then(|t| t.chains.iter().find(|c| c.name == chain.text));
        match chain {
            Some(chain) if chain.rules.iter().all(|r| r.handle != position.value) => {
                error(position.loc, "Could not process rule: No such file or directory")
            }
            _ => Ok(()),
        }
    }

    /// The table that something is added to.
    fn check_table(&self, target: &Target) -> Result {
        match &target.table {
            Some(table) if self.ctx.cache.table(self.family, &table.text).is_none() => {
                Err(self.table_not_found(table))
            }
            _ => Ok(()),
        }
    }

    /// What a command speaks of must be there; if not, something like it in any table could have been meant.
    fn check_target(&mut self, object: ObjKind, target: &Target) -> Result {
        let Some(table) = &target.table else { return Ok(()) };
        let Some(info) = self.ctx.cache.table(self.family, &table.text) else {
            return Err(self.table_not_found(table));
        };
        let Some(name) = (if object == ObjKind::Chain { &target.chain } else { &target.name }) else {
            return Ok(());
        };
        let there = match object {
            ObjKind::Chain => info.chains.contains_key(&name.text),
            ObjKind::Set | ObjKind::Map | ObjKind::Meter => match info.sets.get(&name.text) {
                Some(set) if object == ObjKind::Meter || set.is_map() == (object == ObjKind::Map) => true,
                Some(_) => return Err(absent(name.loc, None)),
                None => info.untyped.contains_key(&name.text),
            },
            ObjKind::Flowtable => info.flowtables.contains_key(&name.text),
            ObjKind::Object(kind) => info.objects.contains_key(&(kind, name.text.clone())),
            _ => true,
        };
        if there {
            return Ok(());
        }
        let near = self.near(&name.text, |info| match object {
            ObjKind::Chain => info.chains.keys().map(|n| ("chain", n)).collect(),
            ObjKind::Flowtable => info.flowtables.keys().map(|n| ("flowtable", n)).collect(),
            ObjKind::Object(_) => info.objects.keys().map(|(_, n)| ("obj", n)).collect(),
            _ => sets_by_name(info),
        });
        Err(absent(name.loc, near))
    }

    /// That a set is not there, and one of any table that could have been meant.
    pub(crate) fn set_not_found(&self, name: &str, loc: Loc) -> Box<Diagnostic> {
        absent(loc, self.near(name, sets_by_name))
    }

    /// The first thing of that name, or else the one most like it, of what tables have.
    fn near<'i>(
        &'i self,
        name: &str,
        names: impl Fn(&'i TableInfo) -> Vec<(&'static str, &'i Arc<str>)>,
    ) -> Option<String> {
        let tables = self.ctx.cache.tables();
        let all: Vec<_> = tables
            .flat_map(|(family, table, info)| {
                names(info).into_iter().map(move |found| (family, table, found))
            })
            .collect();
        let (family, table, (word, found)) = most_similar_of(name, all, |(_, _, (_, found))| &***found)?;
        Some(format!("{word} ‘{found}’ in table {} ‘{table}’", family.name()))
    }

    /// That a table is not there, and one that could have been meant.
    pub(crate) fn table_not_found(&self, table: &Name) -> Box<Diagnostic> {
        let near = nearest(&table.text, self.ctx.cache.tables().map(|(_, name, _)| name));
        let family = |near: &Arc<str>| {
            let found = self.ctx.cache.tables().find(|(_, name, _)| *name == near);
            found.map_or("", |(family, _, _)| family.name())
        };
        absent(table.loc, near.map(|n| format!("table ‘{n}’ in family {}", family(&n))))
    }
}

/// What an object lacks, or has in vain.
fn check_object(object: &ObjectBlock, target: &Target) -> Result {
    match &object.value {
        ObjectSpec::CtTimeout { l4proto, policy, .. } => {
            let states = if *l4proto == 0 { &[] } else { states_of(*l4proto) };
            match policy.iter().find(|(name, _)| !states.iter().any(|(state, _)| **state == *name.text)) {
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

fn absent(loc: Loc, near: Option<String>) -> Box<Diagnostic> {
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Box::new(Diagnostic::error(loc, format!("No such file or directory{near}")))
}

fn sets_by_name(info: &TableInfo) -> Vec<(&'static str, &Arc<str>)> {
    let sets = info.sets.values().filter(|set| !set.anonymous).map(|set| (set.word(), &set.name));
    sets.chain(info.untyped.keys().map(|name| ("set", name))).collect()
}

/// A name that could have been meant.
fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n Arc<str>>) -> Option<Arc<str>> {
    most_similar(wanted, names.map(|n| &**n)).map(Arc::from)
}

/// A type by name in a concatenation.
fn concat_field(e: &Expr, whole: Loc) -> Result<Field> {
    let ExprKind::Symbol { text, .. } = &e.kind else { return error(e.loc, "type name expected") };
    match DataType::from_name(text) {
        Some(dtype) if dtype.size() > 0 => Ok(Field::base(dtype)),
        Some(dtype) => conflict(
            e.loc,
            whole,
            format!("can not use variable sized data types ({}) in concat expressions", dtype.name()),
        ),
        None => error(e.loc, format!("unknown datatype {text}")),
    }
}

/// A type by name: one whose size is known.
fn named_field(e: &Expr, place: Loc, word: &str) -> Result<Field> {
    let ExprKind::Symbol { text, .. } = &e.kind else { return error(e.loc, "type name expected") };
    let Some(dtype) = DataType::from_name(text) else {
        return error(e.loc, format!("unknown datatype {text}"));
    };
    if dtype.size() == 0 || Type::Base(dtype).kind() == Base::Verdict {
        return error(
            place,
            format!(
                "unqualified type {} specified in {word} definition. Try \"typeof expression\" instead of \"type datatype\".",
                dtype.name()
            ),
        );
    }
    Ok(Field::base(dtype))
}
