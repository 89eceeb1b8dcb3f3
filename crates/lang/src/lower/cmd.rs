// SPDX-License-Identifier: Apache-2.0

//! Commands to changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_program::expr::{Counter, Limit, LimitType, Quota, Synproxy};
use penstock_ruleset::change::{
    Key, Mode, NewBase, NewChain, NewFlowtable, NewRule, NewSet, Position,
};
use penstock_ruleset::model::{ElementValue, Family, ObjectValue};
use penstock_ruleset::{ChainProgram, Change};
use penstock_sets::{Element, Policy};
use penstock_syntax::ast::cmd::{
    ChainBlock, FlowtableBlock, New, ObjKind, ObjectBlock, ObjectSpec, SetBlock, SetData, Target,
};
use penstock_syntax::ast::expr::VerdictExpr;
use penstock_syntax::ast::{Cmd, CmdKind, Expr, ExprKind, RuleBlock};
use penstock_syntax::ct_timeout;
use penstock_syntax::source::Loc;

use crate::cache::SetInfo;
use crate::eval::{Context, device_names, priority};
use crate::lower::expr::bytes_of;
use crate::lower::set::{
    anonymous, data_type, description, element_loc, lower_element, map_data, set_userdata,
    templates,
};
use crate::lower::{Lowered, Places, Program, rule_origin};
use crate::userdata;

/// A handle that no rule has: where `index N` is found when the rules before it are in place.
const NO_RULE: u64 = u64::MAX;
/// `NFT_LIMIT_PKT_BURST_DEFAULT`
const DEFAULT_BURST: u32 = 5;

/// Lowers a command that [`crate::eval::evaluate`] took. Commands that only ask (`list`, `get`,
/// `monitor`, …) give nothing.
pub fn lower(cmd: &Cmd, ctx: &Context<'_>) -> Vec<Lowered> {
    let target = &cmd.target;
    let family = target.family.unwrap_or(Family::Ip);
    let table: Arc<str> = target.table.as_ref().map_or_else(|| "".into(), |t| t.text.clone());
    let place = |name: &Option<penstock_syntax::ast::cmd::Name>| name.as_ref().map(|n| n.loc);
    let places = Places {
        whole: cmd.loc,
        table: place(&target.table),
        chain: place(&target.chain),
        handle: target.handle.map(|h| h.loc),
        position: target.position.or(target.index).map(|h| h.loc),
        set: place(&target.name),
        object: place(&target.name),
        flowtable: place(&target.name),
        ..Places::default()
    };
    let lowering = Lowering { ctx, family, table, target, places };
    match &cmd.kind {
        CmdKind::Add(new) => lowering.add(new, Mode::Add, RulePosition::After),
        CmdKind::Create(new) => lowering.add(new, Mode::Create, RulePosition::After),
        CmdKind::Insert(new) => lowering.add(new, Mode::Add, RulePosition::Before),
        CmdKind::Replace(new) => lowering.add(new, Mode::Add, RulePosition::Instead),
        CmdKind::Delete { object, elements, devices, destroy } => {
            lowering.delete(*object, elements.as_ref(), devices.as_ref(), *destroy)
        }
        CmdKind::Flush(object) => lowering.flush(*object),
        CmdKind::Rename { to } => lowering.rename(&to.text),
        CmdKind::Get { .. }
        | CmdKind::List { .. }
        | CmdKind::Reset { .. }
        | CmdKind::Describe(_)
        | CmdKind::Monitor { .. }
        | CmdKind::Import(_)
        | CmdKind::Export(_) => Vec::new(),
    }
}

/// The elements that a `get element` or `reset element` command, once evaluated, asks for.
pub fn elements_of(cmd: &Cmd, ctx: &Context<'_>) -> Vec<Element<ElementValue>> {
    let (CmdKind::Get { elements, .. } | CmdKind::Reset { elements: Some(elements), .. }) =
        &cmd.kind
    else {
        return Vec::new();
    };
    let family = cmd.target.family.unwrap_or(Family::Ip);
    let (Some(table), Some(name)) = (&cmd.target.table, &cmd.target.name) else {
        return Vec::new();
    };
    match ctx.set(family, &table.text, &name.text) {
        Some(info) => lower_set::<Vec<_>>(elements, &info, ctx, family, &table.text).0,
        None => Vec::new(),
    }
}

fn lower_set<L: Default + Extend<Element<ElementValue>>>(
    elements: &Expr,
    info: &SetInfo,
    ctx: &Context<'_>,
    family: Family,
    table: &Arc<str>,
) -> (L, Vec<Loc>) {
    let (mut out, mut places) = (L::default(), Vec::new());
    if let ExprKind::Set { elements, .. } = &elements.kind {
        let mut program = Program::new(ctx, family, table.clone());
        out.extend(lower_elements(elements, info, ctx, &mut program));
        places = elements.iter().map(element_loc).collect();
    }
    (out, places)
}

/// Lowers elements of a set. `program` is of the set's family and table.
pub(crate) fn lower_elements<'e>(
    elements: &'e [Expr],
    info: &'e SetInfo,
    ctx: &'e Context<'_>,
    program: &'e mut Program<'_, '_>,
) -> impl Iterator<Item = Element<ElementValue>> + 'e {
    elements.iter().map(move |element| lower_element(element, info, ctx, program))
}

#[derive(Clone, Copy, PartialEq)]
enum RulePosition {
    After,
    Before,
    Instead,
}

struct Lowering<'c, 'a> {
    ctx: &'c Context<'a>,
    family: Family,
    table: Arc<str>,
    target: &'c Target,
    places: Places,
}

impl Lowering<'_, '_> {
    fn one(&self, change: Change) -> Vec<Lowered> {
        vec![Lowered { change, places: self.places.clone() }]
    }

    fn name(&self) -> Arc<str> {
        self.target.name.as_ref().map_or_else(|| "".into(), |n| n.text.clone())
    }

    fn chain_name(&self) -> Arc<str> {
        self.target.chain.as_ref().map_or_else(|| "".into(), |n| n.text.clone())
    }

    /// The handle or name of what is deleted.
    fn key(&self, name: Arc<str>) -> Key {
        match self.target.handle {
            Some(handle) => Key::Handle(handle.value),
            None => Key::Name(name),
        }
    }

    fn add(&self, new: &New, mode: Mode, place: RulePosition) -> Vec<Lowered> {
        match new {
            New::Table(block) => self.one(Change::AddTable {
                family: self.family,
                name: self.table.clone(),
                mode,
                flags: block.flags,
                userdata: userdata::with_comment(block.comment.as_deref()),
            }),
            New::Chain(block) => self.add_chain(block, mode),
            New::Rule(rule) => self.add_rule(rule, place),
            New::Set(block) => self.add_set(block, mode),
            New::Elements(elements) => self.add_elements(elements, mode),
            New::Object(block) => self.one(Change::AddObject {
                family: self.family,
                table: self.table.clone(),
                mode,
                name: self.name(),
                value: object_value(block, self.family),
                userdata: userdata::with_comment(block.comment.as_deref()),
            }),
            New::Flowtable(block) => self.add_flowtable(block, mode),
        }
    }

    fn devices(&self, e: Option<&Expr>) -> Vec<Arc<str>> {
        let mut found = Vec::new();
        if let Some(e) = e {
            // Evaluation has checked it.
            let _ = device_names(e, &mut found);
        }
        found.into_iter().map(|(name, _)| name).collect()
    }

    fn add_chain(&self, block: &ChainBlock, mode: Mode) -> Vec<Lowered> {
        let base = block.hook.as_ref().map(|spec| {
            let mut devices = self.devices(spec.devices.as_ref());
            devices.extend(self.devices(block.devices.as_ref()));
            NewBase {
                kind: spec.kind,
                hook: spec.hook,
                priority: priority(&spec.priority, self.family, spec.hook).unwrap_or(0),
                devices,
            }
        });
        let policy_accept =
            block.policy.as_ref().map(|p| matches!(p.kind, ExprKind::Verdict(VerdictExpr::Accept)));
        let mut lowered = self.one(Change::AddChain {
            family: self.family,
            table: self.table.clone(),
            mode,
            chain: NewChain {
                name: self.chain_name(),
                base,
                policy_accept,
                counter: None,
                anonymous: false,
                offload: block.offload,
                program: block.program.as_ref().map(|p| {
                    ChainProgram::new(p.object.clone(), p.section.clone(), p.bytes.clone())
                }),
                userdata: userdata::with_comment(block.comment.as_deref()),
            },
        });
        for l in &mut lowered {
            l.places.hook = block.hook.as_ref().map(|h| h.loc);
            l.places.kind = block.hook.as_ref().map(|h| h.type_loc);
            l.places.policy = block.policy.as_ref().map(|p| p.loc);
            l.places.program = block.program.as_ref().map(|p| p.loc);
        }
        lowered
    }

    fn add_rule(&self, rule: &RuleBlock, place: RulePosition) -> Vec<Lowered> {
        let chain = self.chain_name();
        let mut out = Vec::new();
        for set in self.ctx.anonymous.values() {
            out.extend(anonymous(set, self.ctx, self.family, &self.table, self.places.table));
        }
        let mut program = Program::new(self.ctx, self.family, self.table.clone());
        program.table_loc = self.places.table;
        let expressions = program.rule(rule);
        out.append(&mut program.chains);
        let neighbour =
            self.target.position.map(|p| p.value).or(self.target.index.map(|_| NO_RULE));
        let position = match place {
            RulePosition::After => Position::After(neighbour),
            RulePosition::Before => Position::Before(neighbour),
            RulePosition::Instead => Position::Replace(self.target.handle.map_or(0, |h| h.value)),
        };
        out.push(Lowered {
            change: Change::AddRule {
                family: self.family,
                table: self.table.clone(),
                chain,
                position,
                rule: NewRule {
                    exprs: program.ops,
                    userdata: userdata::with_comment(rule.comment.as_deref()),
                    origin: rule_origin(rule, self.ctx),
                },
            },
            places: Places { expressions, ..self.places.clone() },
        });
        out
    }

    fn add_set(&self, block: &SetBlock, mode: Mode) -> Vec<Lowered> {
        let name = self.name();
        let Some(info) = self.ctx.set(self.family, &self.table, &name) else { return Vec::new() };
        let mut description = description(&info);
        description.constant = block.flags.constant;
        // Of a constant set the size is that of its elements, and nothing else is told to the
        // kernel.
        if !description.constant {
            description.size = block.size;
            if block.policy_memory == Some(true) {
                description.policy = Policy::Memory;
            }
        }
        let mut program = Program::new(self.ctx, self.family, self.table.clone());
        let mut userdata = set_userdata(&info);
        userdata.comment = block.comment.as_deref().map(str::to_owned);
        if block.key_typeof {
            userdata.key_typeof = block.key.as_ref().map(|e| self.typeof_text(e));
            if let Some(SetData::Expr { expr, .. }) = &block.data
                && !matches!(&expr.kind, ExprKind::Symbol { text, .. } if &**text == "verdict")
            {
                userdata.data_typeof = Some(self.typeof_text(expr));
            }
        }
        self.one(Change::AddSet {
            family: self.family,
            table: self.table.clone(),
            mode,
            set: NewSet {
                name,
                id: 0,
                anonymous: false,
                key_type: info.key.dtype.id(),
                data_type: data_type(&info),
                data: map_data(&info),
                description,
                timeout: block.timeout.unwrap_or(0),
                gc_interval: block.gc_interval.unwrap_or(0),
                exprs: templates(&block.stmts, &mut program),
                userdata: userdata.encode(),
            },
        })
    }

    /// What `typeof` was given, as it is listed.
    fn typeof_text(&self, e: &Expr) -> String {
        crate::lower::typeof_text::typeof_text(e)
    }

    fn add_elements(&self, elements: &Expr, mode: Mode) -> Vec<Lowered> {
        let set = self.name();
        let Some(info) = self.ctx.set(self.family, &self.table, &set) else { return Vec::new() };
        let mut out = Vec::new();
        if !self.ctx.purge.is_empty() {
            out.extend(self.delete_spans(&info, &self.ctx.purge));
        }
        let (elements, locs) = match self.ctx.ready.take() {
            Some(ready) => ready,
            None => lower_set(elements, &info, self.ctx, self.family, &self.table),
        };
        out.push(Lowered {
            change: Change::AddElements {
                family: self.family,
                table: self.table.clone(),
                set,
                mode,
                elements,
            },
            places: Places { elements: locs, ..self.places.clone() },
        });
        out
    }

    fn delete_spans(&self, info: &SetInfo, spans: &[(u128, u128)]) -> Vec<Lowered> {
        self.one(Change::DeleteElements {
            family: self.family,
            table: self.table.clone(),
            set: info.name.clone(),
            elements: Some(span_elements(info, spans)),
            destroy: false,
        })
    }

    fn add_flowtable(&self, block: &FlowtableBlock, mode: Mode) -> Vec<Lowered> {
        let hook = block
            .hook
            .zip(block.priority.as_ref())
            .map(|(hook, spec)| (hook, priority(spec, Family::Netdev, hook).unwrap_or(0)));
        self.one(Change::AddFlowtable {
            family: self.family,
            table: self.table.clone(),
            mode,
            flowtable: NewFlowtable {
                name: self.name(),
                hook,
                early: block.early,
                devices: self.devices(block.devices.as_ref()),
                flags: block.flags,
            },
        })
    }

    fn delete(
        &self,
        object: ObjKind,
        elements: Option<&Expr>,
        devices: Option<&Expr>,
        destroy: bool,
    ) -> Vec<Lowered> {
        let (family, table) = (self.family, self.table.clone());
        match object {
            ObjKind::Ruleset => {
                self.one(Change::DeleteTable { family: self.target.family, key: None, destroy })
            }
            ObjKind::Table | ObjKind::Tables => self.one(Change::DeleteTable {
                family: Some(family),
                key: Some(self.key(table)),
                destroy,
            }),
            ObjKind::Chain | ObjKind::Chains => self.one(Change::DeleteChain {
                family,
                table,
                key: self.key(self.chain_name()),
                devices: self.devices(devices),
                destroy,
            }),
            ObjKind::Rule | ObjKind::Rules => self.one(Change::DeleteRule {
                family,
                table,
                chain: Some(self.chain_name()),
                handle: self.target.handle.map(|h| h.value),
                destroy,
            }),
            ObjKind::Elements => self.delete_elements(elements, destroy),
            ObjKind::Set
            | ObjKind::Sets
            | ObjKind::Map
            | ObjKind::Maps
            | ObjKind::Meter
            | ObjKind::Meters => {
                self.one(Change::DeleteSet { family, table, key: self.key(self.name()), destroy })
            }
            ObjKind::Flowtable | ObjKind::Flowtables => self.one(Change::DeleteFlowtable {
                family,
                table,
                key: self.key(self.name()),
                devices: self.devices(devices),
                destroy,
            }),
            ObjKind::Object(kind) | ObjKind::Objects(kind) => self.one(Change::DeleteObject {
                family,
                table,
                kind,
                key: self.key(self.name()),
                destroy,
            }),
            ObjKind::Hooks => Vec::new(),
        }
    }

    fn delete_elements(&self, elements: Option<&Expr>, destroy: bool) -> Vec<Lowered> {
        let set = self.name();
        let (Some(elements), Some(info)) = (elements, self.ctx.set(self.family, &self.table, &set))
        else {
            return Vec::new();
        };
        if self.ctx.split {
            let mut out = self.delete_spans(&info, &self.ctx.purge);
            if !self.ctx.rest.is_empty() {
                out.extend(self.one(Change::AddElements {
                    family: self.family,
                    table: self.table.clone(),
                    set,
                    mode: Mode::Add,
                    elements: span_elements(&info, &self.ctx.rest).into(),
                }));
            }
            return out;
        }
        let (elements, locs) = lower_set(elements, &info, self.ctx, self.family, &self.table);
        vec![Lowered {
            change: Change::DeleteElements {
                family: self.family,
                table: self.table.clone(),
                set,
                elements: Some(elements),
                destroy,
            },
            places: Places { elements: locs, ..self.places.clone() },
        }]
    }

    fn flush(&self, object: ObjKind) -> Vec<Lowered> {
        let (family, table) = (self.family, self.table.clone());
        match object {
            ObjKind::Ruleset | ObjKind::Tables => self.one(Change::DeleteTable {
                family: self.target.family,
                key: None,
                destroy: false,
            }),
            ObjKind::Table | ObjKind::Rules => self.one(Change::DeleteRule {
                family,
                table,
                chain: None,
                handle: None,
                destroy: false,
            }),
            ObjKind::Chain | ObjKind::Chains | ObjKind::Rule => self.one(Change::DeleteRule {
                family,
                table,
                chain: Some(self.chain_name()),
                handle: None,
                destroy: false,
            }),
            ObjKind::Set
            | ObjKind::Sets
            | ObjKind::Map
            | ObjKind::Maps
            | ObjKind::Meter
            | ObjKind::Meters
            | ObjKind::Elements => self.one(Change::DeleteElements {
                family,
                table,
                set: self.name(),
                elements: None,
                destroy: false,
            }),
            ObjKind::Flowtables
            | ObjKind::Flowtable
            | ObjKind::Hooks
            | ObjKind::Objects(_)
            | ObjKind::Object(_) => Vec::new(),
        }
    }

    fn rename(&self, to: &Arc<str>) -> Vec<Lowered> {
        let known = self.ctx.cache.table(self.family, &self.table).and_then(|t| t.chains.get(to));
        self.one(Change::RenameChain {
            family: self.family,
            table: self.table.clone(),
            handle: known.map_or(0, |c| c.handle),
            name: to.clone(),
        })
    }
}

/// Intervals of a plain key as elements.
fn span_elements(info: &SetInfo, spans: &[(u128, u128)]) -> Vec<Element<ElementValue>> {
    let Some(field) = info.key.fields.first() else { return Vec::new() };
    let bytes = bytes_of(field.len).min(16) as usize;
    // Text was compared by its bytes, so the number is in that order, too.
    let key = |v: u128| -> Box<[u8]> { v.to_be_bytes()[16 - bytes..].into() };
    spans
        .iter()
        .map(|&(from, to)| Element {
            key: key(from),
            key_end: (from != to).then(|| key(to)),
            value: ElementValue::default(),
            expires_at: None,
        })
        .collect()
}

fn l3_number(written: Option<Family>, family: Family) -> u16 {
    match written.unwrap_or(family) {
        Family::Ip => 2,
        Family::Ip6 => 10,
        Family::Inet => 1,
        other => other as u16,
    }
}

fn object_value(block: &ObjectBlock, family: Family) -> ObjectValue {
    match &block.value {
        ObjectSpec::Counter { packets, bytes } => {
            ObjectValue::Counter(Counter { packets: *packets, bytes: *bytes })
        }
        ObjectSpec::Quota { bytes, used, over } => ObjectValue::Quota(Quota {
            bytes: *bytes,
            consumed: *used,
            over: *over,
            depleted: false,
        }),
        ObjectSpec::Limit(l) => ObjectValue::Limit(Limit {
            rate: l.rate,
            unit: l.unit,
            // As the kernel has it where nothing is said.
            burst: if l.kind == LimitType::Packets && l.burst == 0 {
                DEFAULT_BURST
            } else {
                l.burst
            },
            kind: l.kind,
            over: l.over,
        }),
        ObjectSpec::CtHelper { helper, l4proto, l3proto } => ObjectValue::CtHelper {
            helper: helper.clone(),
            l4proto: *l4proto,
            l3proto: l3_number(*l3proto, family),
        },
        ObjectSpec::CtTimeout { l4proto, l3proto, policy } => ObjectValue::CtTimeout {
            l4proto: *l4proto,
            l3proto: l3_number(*l3proto, family),
            // By the states' numbers, as the kernel lists them; of a state the last one counts.
            values: policy
                .iter()
                .filter_map(|(name, seconds)| {
                    Some((ct_timeout::by_name(*l4proto, &name.text)?.number, *seconds))
                })
                .collect::<BTreeMap<_, _>>()
                .into_iter()
                .collect(),
        },
        ObjectSpec::CtExpect { l4proto, l3proto, dport, timeout, size } => ObjectValue::CtExpect {
            l4proto: *l4proto,
            l3proto: l3_number(*l3proto, family),
            dport: *dport,
            timeout: *timeout,
            size: *size,
        },
        ObjectSpec::Synproxy { mss, wscale, flags } => {
            ObjectValue::Synproxy(Synproxy { mss: *mss, wscale: *wscale, flags: *flags })
        }
        ObjectSpec::SecMark(context) => ObjectValue::SecMark(context.clone()),
        ObjectSpec::Tunnel(tunnel) => ObjectValue::Tunnel(Box::new(super::tunnel::tunnel(tunnel))),
    }
}
