// SPDX-License-Identifier: Apache-2.0

//! Tables, chains, rules, sets and maps, elements, flowtables, stateful objects.

use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_ruleset::model::{ChainType, Family, Hook};
use serde_json::{Map, Value};

use super::Reader;
use super::commands::{Verb, handle, name};
use super::{expr, flag, maybe_text, several, type_name};
use crate::ast::cmd::{
    ChainBlock, ChainProgramSpec, FlowtableBlock, HookSpec, New, ObjKind, ObjectBlock, ObjectSpec,
    PrioritySpec, SetBlock, SetData, TableBlock, Target,
};
use crate::ast::expr::{SetExprFlags, SymbolKind, VerdictExpr};
use crate::ast::{Cmd, CmdKind, Expr, ExprKind, RuleBlock};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::hooks;
use crate::source::Loc;

/// Longest names of helpers (`NF_CT_HELPER_NAME_LEN`) and security contexts
/// (`NFT_SECMARK_CTX_MAXLEN`).
const HELPER_MAX: usize = 16;
const CONTEXT_MAX: usize = 256;

/// `NFT_TABLE_F_*`.
const TABLE_FLAGS: [(&str, u32); 3] = [("dormant", 1), ("owner", 2), ("persist", 4)];

type Object = Map<String, Value>;

fn comment(object: &Object) -> Option<Arc<str>> {
    maybe_text(object, "comment").map(Arc::from)
}

fn symbol(text: &str) -> Expr {
    expr(ExprKind::Symbol { kind: SymbolKind::Value, text: text.into() })
}

/// Longest comment of a rule or an element: with its kind and length it fills what the kernel keeps
/// for the user (`NFT_USERDATA_MAXLEN`), ending in a zero.
const COMMENT_MAX: usize = 256 - 3;

impl Reader<'_> {
    /// The comment of a rule or an element, if there.
    pub(super) fn short_comment(&mut self, object: &Object) -> Option<Option<Arc<str>>> {
        match comment(object) {
            Some(comment) if comment.len() > COMMENT_MAX => {
                self.error(format!("comment too long, {COMMENT_MAX} characters maximum allowed"))
            }
            comment => Some(comment),
        }
    }

    /// Family and table of something that goes by name or, to be deleted, by handle.
    fn name_or_handle(&mut self, object: &Object, verb: Verb, what: &str) -> Option<Target> {
        if !matches!(verb, Verb::Delete { .. }) {
            return self.named_target(object);
        }
        let mut target = self.table_target(object, "table")?;
        target.name = maybe_text(object, "name").map(name);
        if target.name.is_none() {
            let Some(at) = self.maybe_number(object, "handle")? else {
                return self.error(format!("Either name or handle required to delete {what}."));
            };
            target.handle = Some(handle(at));
        }
        Some(target)
    }

    pub(super) fn table(&mut self, object: &Object, verb: Verb) -> Option<Cmd> {
        let target = if matches!(verb, Verb::Delete { .. }) {
            let family = self.text(object, "family", 0)?;
            let mut target = Target { family: Some(self.family(family)?), ..Target::default() };
            target.table = maybe_text(object, "name").map(name);
            if target.table.is_none() {
                let Some(at) = self.maybe_number(object, "handle")? else {
                    return self.error("Either name or handle required to delete a table.");
                };
                target.handle = Some(handle(at));
            }
            target
        } else {
            self.table_target(object, "name")?
        };
        let mut flags = 0;
        for word in object.get("flags").map_or(&[][..], several) {
            match TABLE_FLAGS.iter().find(|(w, _)| word == w) {
                Some((_, bit)) => flags |= bit,
                None => return self.error("Invalid table flag."),
            }
        }
        let block = TableBlock { flags, comment: comment(object), ..TableBlock::default() };
        Some(self.with_verb(verb, ObjKind::Table, target, || New::Table(block)))
    }

    pub(super) fn chain(&mut self, object: &Object, verb: Verb) -> Option<Cmd> {
        let target = if matches!(verb, Verb::Delete { .. }) {
            let mut target = self.table_target(object, "table")?;
            target.chain = maybe_text(object, "name").map(name);
            if target.chain.is_none() {
                let Some(at) = self.maybe_number(object, "handle")? else {
                    return self.error("Either name or handle required to delete a chain.");
                };
                target.handle = Some(handle(at));
            }
            target
        } else {
            self.chain_target(object, "name")?
        };
        let mut block = ChainBlock { comment: comment(object), ..ChainBlock::default() };
        block.hook = self.hook(object)?;
        if let Some(Value::Object(program)) = object.get("bpf") {
            let Some(file) = maybe_text(program, "object") else {
                return self.error("The program of a chain needs an object.");
            };
            block.program = Some(ChainProgramSpec {
                object: file.into(),
                section: maybe_text(program, "section").map(Into::into),
                bytes: Arc::default(),
                loc: Loc::NOWHERE,
            });
        }
        if let Some(policy) = maybe_text(object, "policy") {
            let verdict = match policy {
                "accept" => VerdictExpr::Accept,
                "drop" => VerdictExpr::Drop,
                other => return self.error(format!("Unknown policy '{other}'.")),
            };
            block.policy = Some(expr(ExprKind::Verdict(verdict)));
        }
        Some(self.with_verb(verb, ObjKind::Chain, target, || New::Chain(block)))
    }

    /// What makes a chain a base chain: like nft's, it is one if all of type, hook and priority are
    /// there.
    fn hook(&mut self, object: &Object) -> Option<Option<HookSpec>> {
        let (Some(kind), Some(hook)) = (maybe_text(object, "type"), maybe_text(object, "hook"))
        else {
            return Some(None);
        };
        let Some(priority) = self.maybe_number::<i32>(object, "prio")? else { return Some(None) };
        let kind = match kind {
            "filter" => ChainType::Filter,
            "nat" => ChainType::Nat,
            "route" => ChainType::Route,
            _ => return self.error("unknown chain type"),
        };
        let Some(hook) = hooks::by_name(hook) else {
            return self.error(format!("Invalid chain hook '{hook}'."));
        };
        let devices = match object.get("dev") {
            Some(devices) => Some(self.devices(devices, "chain")?),
            None => None,
        };
        Some(Some(HookSpec {
            kind,
            type_loc: Loc::NOWHERE,
            hook,
            hook_loc: Loc::NOWHERE,
            priority: priority_of(priority),
            devices,
            loc: Loc::NOWHERE,
        }))
    }

    fn devices(&mut self, value: &Value, of: &str) -> Option<Expr> {
        if let Value::String(device) = value {
            return Some(symbol(device));
        }
        let Value::Array(list) = value else { return self.error(format!("Invalid {of} dev.")) };
        let mut elements = Vec::new();
        for (i, device) in list.iter().enumerate() {
            match device {
                Value::String(device) => elements.push(symbol(device)),
                _ => return self.error(format!("Invalid {of} dev at index {i}.")),
            }
        }
        Some(expr(ExprKind::Set { elements, flags: SetExprFlags::default() }))
    }

    pub(super) fn rule(&mut self, object: &Object, verb: Verb) -> Option<Cmd> {
        let mut target = self.chain_target(object, "chain")?;
        if matches!(verb, Verb::Delete { .. }) {
            target.handle = Some(handle(self.number(object, "handle", 0)?));
            return Some(
                self.with_verb(verb, ObjKind::Rule, target, || New::Rule(RuleBlock::default())),
            );
        }
        // A handle that was listed means nothing here.
        if let Some(index) = self.maybe_number(object, "index")? {
            target.index = Some(handle(index));
        }
        let block = self.rule_block(object)?;
        Some(self.with_verb(verb, ObjKind::Rule, target, || New::Rule(block)))
    }

    /// Statements and comment of a rule.
    pub(super) fn rule_block(&mut self, object: &Object) -> Option<RuleBlock> {
        let Value::Array(list) = self.member(object, "expr", 0)? else {
            return self.error("Value of property \"expr\" must be an array.");
        };
        let mut stmts = Vec::new();
        for (i, value) in list.iter().enumerate() {
            if !value.is_object() {
                let kind = type_name(value);
                return self.error(format!(
                    "Unexpected expr array element of type {kind}, expected object."
                ));
            }
            match self.stmt(value) {
                Some(stmt) => stmts.push(stmt),
                None => return self.error(format!("Parsing expr array at index {i} failed.")),
            }
        }
        let comment = self.short_comment(object)?;
        Some(RuleBlock { stmts, comment, loc: Loc::NOWHERE, ..RuleBlock::default() })
    }

    pub(super) fn set(&mut self, object: &Object, verb: Verb, map: bool) -> Option<Cmd> {
        let target = self.name_or_handle(object, verb, "a set")?;
        let kind = if map { ObjKind::Map } else { ObjKind::Set };
        if matches!(verb, Verb::Delete { .. }) {
            return Some(self.with_verb(verb, kind, target, || New::Set(SetBlock::default())));
        }
        let mut set =
            SetBlock { map, loc: Loc::NOWHERE, comment: comment(object), ..SetBlock::default() };
        let key = object.get("type");
        set.key_typeof = key.is_some_and(|key| key.get("typeof").is_some());
        set.key = match key.and_then(|value| self.type_names(value)) {
            Some(key) => Some(key),
            None => return self.error("Invalid set type."),
        };
        if map {
            let data = self.member(object, "map", 0)?;
            set.data = Some(self.map_data(data)?);
        }
        match maybe_text(object, "policy") {
            Some("performance") => set.policy_memory = Some(false),
            Some("memory") => set.policy_memory = Some(true),
            Some(other) => return self.error(format!("Unknown set policy '{other}'.")),
            None => {}
        }
        for (i, word) in object.get("flags").map_or(&[][..], several).iter().enumerate() {
            match word.as_str() {
                Some("constant") => set.flags.constant = true,
                Some("interval") => set.flags.interval = true,
                Some("timeout") => set.flags.timeout = true,
                Some("dynamic") => set.flags.eval = true,
                _ => return self.error(format!("Invalid set flag at index {i}.")),
            }
            set.flags_written = true;
        }
        if let Some(elements) = object.get("elem") {
            set.elements = Some(self.element_set(elements)?);
        }
        if let Some(seconds) = self.maybe_number::<u32>(object, "timeout")? {
            set.timeout = Some(u64::from(seconds) * 1000);
        }
        if let Some(seconds) = self.maybe_number::<u32>(object, "gc-interval")? {
            set.gc_interval = Some(seconds.saturating_mul(1000));
        }
        set.size = self.maybe_number(object, "size")?;
        set.auto_merge = flag(object, "auto-merge");
        if let Some(stmts) = object.get("stmt") {
            set.stmts = self.stateful_stmts(stmts)?;
        }
        Some(self.with_verb(verb, kind, target, || New::Set(set)))
    }

    /// A data type, or those of a concatenation; `{"typeof": …}` for those of an expression.
    fn type_names(&mut self, value: &Value) -> Option<Expr> {
        match value {
            Value::Object(object) if object.contains_key("typeof") => {
                let selector = self.member(object, "typeof", 0)?;
                self.expr(selector)
            }
            Value::String(text) if text == "verdict" || DataType::from_name(text).is_some() => {
                Some(symbol(text))
            }
            Value::String(text) => self.error(format!("Invalid datatype '{text}'.")),
            Value::Array(list) => {
                let mut parts = Vec::new();
                for (i, part) in list.iter().enumerate() {
                    match self.type_names(part) {
                        Some(part) if !matches!(part.kind, ExprKind::Concat(_)) => parts.push(part),
                        _ => return self.error(format!("Invalid datatype at index {i}.")),
                    }
                }
                match parts.pop() {
                    Some(only) if parts.is_empty() => Some(only),
                    Some(last) => {
                        parts.push(last);
                        Some(expr(ExprKind::Concat(parts)))
                    }
                    None => self.error("Invalid set datatype."),
                }
            }
            _ => self.error("Invalid set datatype."),
        }
    }

    /// What a map maps to. The listed form of a concatenation is one text.
    fn map_data(&mut self, value: &Value) -> Option<SetData> {
        let object = match value.as_str() {
            Some("counter") => Some(ObjectType::Counter),
            Some("quota") => Some(ObjectType::Quota),
            Some("limit") => Some(ObjectType::Limit),
            Some("secmark") => Some(ObjectType::SecMark),
            Some("synproxy") => Some(ObjectType::Synproxy),
            Some("ct helper") => Some(ObjectType::CtHelper),
            Some("ct timeout") => Some(ObjectType::CtTimeout),
            Some("ct expectation") => Some(ObjectType::CtExpect),
            _ => None,
        };
        if let Some(kind) = object {
            return Some(SetData::Object(kind));
        }
        if value.get("typeof").is_some() {
            return Some(SetData::Expr { expr: self.type_names(value)?, interval: false });
        }
        let listed = value.as_str().filter(|t| t.contains(" . "));
        let listed = listed.map(|t| Value::from(t.split(" . ").collect::<Vec<_>>()));
        let known = |v: &Value| {
            v.as_str().is_some_and(|t| t == "verdict" || DataType::from_name(t).is_some())
        };
        let types = listed.as_ref().unwrap_or(value);
        if !types.is_array() && !known(types) || !several(types).iter().all(known) {
            let shown = value.as_str().map_or_else(|| super::super::to_text(value), Into::into);
            return self.error(format!("Invalid map type '{shown}'."));
        }
        Some(SetData::Expr { expr: self.type_names(types)?, interval: false })
    }

    /// Elements of a set: a list, or a single one for itself.
    fn element_set(&mut self, value: &Value) -> Option<Expr> {
        let elements = match value {
            Value::Array(_) => self.set_elements(value),
            single => {
                let list = Value::Array(vec![single.clone()]);
                self.set_elements(&list)
            }
        };
        match elements {
            Some(elements) => Some(elements),
            None => self.error("Invalid set elem expression."),
        }
    }

    /// The `elem` member of an `element` object.
    pub(super) fn element_list(&mut self, object: &Object) -> Option<Expr> {
        let elements = self.member(object, "elem", 3)?;
        // Echo and monitor put a set around them.
        let elements = elements.get("set").unwrap_or(elements);
        self.element_set(elements)
    }

    pub(super) fn elements(&mut self, object: &Object, verb: Verb) -> Option<Cmd> {
        let target = self.named_target(object)?;
        let elements = self.element_list(object)?;
        let mut cmd =
            self.with_verb(verb, ObjKind::Elements, target, || New::Elements(elements.clone()));
        if let CmdKind::Delete { elements: place, .. } = &mut cmd.kind {
            *place = Some(elements);
        }
        Some(cmd)
    }

    pub(super) fn flowtable(&mut self, object: &Object, verb: Verb) -> Option<Cmd> {
        let target = self.name_or_handle(object, verb, "a flowtable")?;
        let mut block = FlowtableBlock::default();
        if !matches!(verb, Verb::Delete { .. }) {
            let hook = self.text(object, "hook", 0)?;
            block.early = hook == "early_ingress";
            block.hook = if block.early { Some(Hook::Ingress) } else { hooks::by_name(hook) };
            if block.hook.is_none() {
                return self.error(format!("Invalid flowtable hook '{hook}'."));
            }
            block.priority = Some(priority_of(self.number(object, "prio", 1)?));
            for word in object.get("flags").map_or(&[][..], several) {
                match word.as_str() {
                    Some("offload") => block.flags |= 1,
                    Some("counter") => block.flags |= 2,
                    _ => return self.error("Invalid flowtable flag."),
                }
            }
        }
        if let Some(devices) = object.get("dev") {
            let devices = self.devices(devices, "flowtable")?;
            // One device is a list, too.
            block.devices = Some(if devices.elements().is_some() {
                devices
            } else {
                expr(ExprKind::Set { elements: vec![devices], flags: SetExprFlags::default() })
            });
        }
        let devices = block.devices.clone();
        let mut cmd = self.with_verb(verb, ObjKind::Flowtable, target, || New::Flowtable(block));
        if let CmdKind::Delete { devices: place, .. } = &mut cmd.kind {
            *place = devices;
        }
        Some(cmd)
    }

    pub(super) fn stateful_object(
        &mut self,
        object: &Object,
        verb: Verb,
        kind: ObjectType,
    ) -> Option<Cmd> {
        let target = self.name_or_handle(object, verb, "an object")?;
        let value = if matches!(verb, Verb::Delete { .. }) {
            ObjectSpec::Counter { packets: 0, bytes: 0 }
        } else {
            self.spec(object, kind)?
        };
        let block = ObjectBlock { kind, value, comment: comment(object), loc: Loc::NOWHERE };
        Some(self.with_verb(verb, ObjKind::Object(kind), target, || New::Object(block)))
    }

    fn spec(&mut self, object: &Object, kind: ObjectType) -> Option<ObjectSpec> {
        Some(match kind {
            ObjectType::Counter => ObjectSpec::Counter {
                packets: self.maybe_number(object, "packets")?.unwrap_or(0),
                bytes: self.maybe_number(object, "bytes")?.unwrap_or(0),
            },
            ObjectType::Quota => ObjectSpec::Quota {
                bytes: self.maybe_number(object, "bytes")?.unwrap_or(0),
                used: self.maybe_number(object, "used")?.unwrap_or(0),
                over: flag(object, "inv"),
            },
            ObjectType::Limit => ObjectSpec::Limit(self.limit(object)?),
            ObjectType::SecMark => {
                let context = self.text(object, "context", 0)?;
                if context.len() >= CONTEXT_MAX {
                    return self.error(format!(
                        "Invalid secmark context '{context}', max length is {CONTEXT_MAX}."
                    ));
                }
                ObjectSpec::SecMark(context.into())
            }
            ObjectType::Synproxy => {
                let (mss, wscale, flags) = self.synproxy_options(object)?;
                ObjectSpec::Synproxy { mss, wscale, flags }
            }
            ObjectType::CtHelper => {
                let helper = self.text(object, "type", 0)?;
                if helper.is_empty() {
                    return self.error("Could not process rule: Numerical result out of range");
                }
                if helper.len() >= HELPER_MAX {
                    return self.error(format!(
                        "Invalid CT helper type '{helper}', max length is {HELPER_MAX}."
                    ));
                }
                ObjectSpec::CtHelper {
                    helper: helper.into(),
                    l4proto: self.l4proto(object, "helper")?,
                    l3proto: self.l3proto(object, "helper")?,
                }
            }
            ObjectType::CtTimeout => {
                let l4proto = self.l4proto(object, "timeout")?;
                let l3proto = self.l3proto(object, "timeout")?;
                let mut policy = Vec::new();
                let Some(Value::Object(states)) = object.get("policy") else {
                    return self.error("Invalid ct timeout policy.");
                };
                for (state, seconds) in states {
                    match seconds.as_u64().and_then(|s| u32::try_from(s).ok()) {
                        Some(seconds) => policy.push((name(state), seconds)),
                        None => {
                            return self
                                .error(format!("Invalid ct timeout policy value for '{state}'."));
                        }
                    }
                }
                ObjectSpec::CtTimeout { l4proto, l3proto, policy }
            }
            ObjectType::CtExpect => ObjectSpec::CtExpect {
                l3proto: self.l3proto(object, "expectation")?,
                l4proto: self.l4proto(object, "expectation")?,
                dport: self.maybe_number(object, "dport")?.unwrap_or(0),
                timeout: self.maybe_number(object, "timeout")?.unwrap_or(0),
                size: self.maybe_number(object, "size")?.unwrap_or(0),
            },
            ObjectType::Tunnel => ObjectSpec::Tunnel(Box::new(self.tunnel(object)?)),
            ObjectType::Connlimit => return self.error("Unknown object passed to add command."),
        })
    }

    fn l4proto(&mut self, object: &Object, of: &str) -> Option<u8> {
        match maybe_text(object, "protocol") {
            Some("tcp") => Some(6),
            Some("udp") => Some(17),
            Some(other) => self.error(format!("Invalid ct {of} protocol '{other}'.")),
            None => Some(0),
        }
    }

    fn l3proto(&mut self, object: &Object, of: &str) -> Option<Option<Family>> {
        match maybe_text(object, "l3proto") {
            Some("ip") => Some(Some(Family::Ip)),
            Some("ip6") => Some(Some(Family::Ip6)),
            Some("inet") => Some(Some(Family::Inet)),
            Some("bridge") => Some(Some(Family::Bridge)),
            Some(other) => self.error(format!("Invalid ct {of} l3proto '{other}'.")),
            None => Some(None),
        }
    }
}

fn priority_of(number: i32) -> PrioritySpec {
    let zero = Expr::typed(
        ExprKind::Value(0),
        Loc::NOWHERE,
        Type::Base(DataType::Integer),
        ByteOrder::Host,
        32,
    );
    PrioritySpec { expr: zero, offset: number, loc: Loc::NOWHERE }
}
