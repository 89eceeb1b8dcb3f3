// SPDX-License-Identifier: Apache-2.0

//! Commands.

use penstock_program::expr::ObjectType;
use penstock_ruleset::model::Family;
use serde_json::{Map, Value};

use super::{Reader, maybe_text, type_name};
use crate::ast::cmd::{Handle, Name, New, ObjKind, Target};
use crate::ast::{Cmd, CmdKind};
use crate::objects;
use crate::source::Loc;

/// Verbs that take what `add` takes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Verb {
    Add,
    Create,
    Delete { destroy: bool },
}

pub(super) fn name(text: &str) -> Name {
    Name { text: text.into(), loc: Loc::NOWHERE }
}

pub(super) fn handle(value: u64) -> Handle {
    Handle { value, loc: Loc::NOWHERE }
}

fn cmd(kind: CmdKind, target: Target) -> Cmd {
    Cmd { kind, target, loc: Loc::NOWHERE }
}

/// Stateful objects by their name in commands.
const OBJECTS: [ObjectType; 9] = [
    ObjectType::Counter,
    ObjectType::CtHelper,
    ObjectType::CtTimeout,
    ObjectType::CtExpect,
    ObjectType::Limit,
    ObjectType::SecMark,
    ObjectType::Synproxy,
    ObjectType::Quota,
    ObjectType::Tunnel,
];

/// Kinds that `list` takes.
const LISTS: [(&str, ObjKind); 34] = [
    ("table", ObjKind::Table),
    ("tables", ObjKind::Tables),
    ("chain", ObjKind::Chain),
    ("chains", ObjKind::Chains),
    ("set", ObjKind::Set),
    ("sets", ObjKind::Sets),
    ("map", ObjKind::Map),
    ("maps", ObjKind::Maps),
    ("counter", ObjKind::Object(ObjectType::Counter)),
    ("counters", ObjKind::Objects(ObjectType::Counter)),
    ("quota", ObjKind::Object(ObjectType::Quota)),
    ("quotas", ObjKind::Objects(ObjectType::Quota)),
    ("limit", ObjKind::Object(ObjectType::Limit)),
    ("limits", ObjKind::Objects(ObjectType::Limit)),
    ("ct helper", ObjKind::Object(ObjectType::CtHelper)),
    ("ct helpers", ObjKind::Objects(ObjectType::CtHelper)),
    ("ct timeout", ObjKind::Object(ObjectType::CtTimeout)),
    ("ct timeouts", ObjKind::Objects(ObjectType::CtTimeout)),
    ("ct expectation", ObjKind::Object(ObjectType::CtExpect)),
    ("ct expectations", ObjKind::Objects(ObjectType::CtExpect)),
    ("synproxy", ObjKind::Object(ObjectType::Synproxy)),
    ("synproxys", ObjKind::Objects(ObjectType::Synproxy)),
    ("secmark", ObjKind::Object(ObjectType::SecMark)),
    ("secmarks", ObjKind::Objects(ObjectType::SecMark)),
    ("tunnel", ObjKind::Object(ObjectType::Tunnel)),
    ("tunnels", ObjKind::Objects(ObjectType::Tunnel)),
    ("ruleset", ObjKind::Ruleset),
    ("meter", ObjKind::Meter),
    ("meters", ObjKind::Meters),
    ("flowtable", ObjKind::Flowtable),
    ("flowtables", ObjKind::Flowtables),
    ("rule", ObjKind::Rule),
    ("rules", ObjKind::Rules),
    ("hooks", ObjKind::Hooks),
];

const VERBS: [&str; 10] =
    ["add", "replace", "create", "insert", "delete", "destroy", "list", "reset", "flush", "rename"];

/// Whether an object has a command verb, rather than being an object to add.
pub(super) fn has_verb(object: &Map<String, Value>) -> bool {
    VERBS.iter().any(|verb| object.contains_key(*verb))
}

impl Reader<'_> {
    /// A command; an object without one is added, so that what was listed can be read again.
    pub(super) fn command(&mut self, object: &Map<String, Value>) -> Option<Cmd> {
        let Some((verb, value)) =
            VERBS.iter().find_map(|v| object.get(*v).map(|value| (*v, value)))
        else {
            return self.add(object, Verb::Add);
        };
        match verb {
            "rename" => return self.rename(value),
            "insert" | "replace" => return self.put_rule(value, verb == "replace"),
            _ => {}
        }
        let Value::Object(object) = value else {
            let kind = type_name(value);
            let verb = if matches!(verb, "list" | "reset" | "flush") { verb } else { "add" };
            return self
                .error(format!("Value of {verb} command must be object (got {kind} instead)."));
        };
        match verb {
            "add" => self.add(object, Verb::Add),
            "create" => self.add(object, Verb::Create),
            "delete" => self.add(object, Verb::Delete { destroy: false }),
            "destroy" => self.add(object, Verb::Delete { destroy: true }),
            "list" => self.list(object),
            "reset" => self.reset(object),
            _ => self.flush(object),
        }
    }

    fn add(&mut self, object: &Map<String, Value>, verb: Verb) -> Option<Cmd> {
        const KINDS: [&str; 7] = ["table", "chain", "rule", "set", "map", "element", "flowtable"];
        if let Some((kind, value)) =
            KINDS.iter().find_map(|k| object.get(*k).map(|value| (*k, value)))
        {
            let body = self.object(value)?;
            return match kind {
                "table" => self.table(body, verb),
                "chain" => self.chain(body, verb),
                "rule" => self.rule(body, verb),
                "set" | "map" => self.set(body, verb, kind == "map"),
                "element" => self.elements(body, verb),
                _ => self.flowtable(body, verb),
            };
        }
        for object_type in OBJECTS {
            if let Some(value) = object.get(objects::name(object_type)) {
                let body = self.object(value)?;
                return self.stateful_object(body, verb, object_type);
            }
        }
        self.error("Unknown object passed to add command.")
    }

    /// Command of a verb, for what is new or what is to go.
    pub(super) fn with_verb(
        &self,
        verb: Verb,
        object: ObjKind,
        target: Target,
        new: impl FnOnce() -> New,
    ) -> Cmd {
        match verb {
            Verb::Add => cmd(CmdKind::Add(new()), target),
            Verb::Create => cmd(CmdKind::Create(new()), target),
            Verb::Delete { destroy } => {
                cmd(CmdKind::Delete { object, elements: None, devices: None, destroy }, target)
            }
        }
    }

    /// `replace` and `insert`, which take rules only.
    fn put_rule(&mut self, value: &Value, replace: bool) -> Option<Cmd> {
        let object = self.object(value)?;
        let rule = self.member(object, "rule", 0)?;
        let rule = self.object(rule)?;
        let mut target = self.chain_target(rule, "chain")?;
        self.member(rule, "expr", 3)?;
        let at: Option<u64> = self.maybe_number(rule, "handle")?;
        let at = at.filter(|&h| h != 0);
        if let Some(index) = self.maybe_number(rule, "index")? {
            target.index = Some(handle(index));
        }
        if replace {
            let Some(at) = at else {
                return self.error("Handle is required when replacing a rule.");
            };
            target.handle = Some(handle(at));
        } else {
            target.position = at.map(handle);
        }
        let block = New::Rule(self.rule_block(rule)?);
        let kind = if replace { CmdKind::Replace(block) } else { CmdKind::Insert(block) };
        Some(cmd(kind, target))
    }

    fn rename(&mut self, value: &Value) -> Option<Cmd> {
        let object = self.object(value)?;
        let chain = self.member(object, "chain", 0)?;
        let chain = self.object(chain)?;
        let target = self.chain_target(chain, "name")?;
        let to = name(self.text(chain, "newname", 3)?);
        Some(cmd(CmdKind::Rename { to }, target))
    }

    fn list(&mut self, object: &Map<String, Value>) -> Option<Cmd> {
        let found = LISTS.iter().find_map(|(k, kind)| object.get(*k).map(|value| (*kind, value)));
        let Some((kind, value)) = found else {
            return self.error("Unknown object passed to list command.");
        };
        let target = self.listed(kind, value)?;
        let device = value.get("device").and_then(Value::as_str).map(Into::into);
        Some(cmd(CmdKind::List { object: kind, device }, target))
    }

    /// What a listing is of. Names that it needs are there.
    fn listed(&mut self, kind: ObjKind, value: &Value) -> Option<Target> {
        let empty = Map::new();
        let body = match value {
            Value::Null => &empty,
            other => self.object(other)?,
        };
        match kind {
            ObjKind::Table => self.table_target(body, "name"),
            ObjKind::Chain => self.chain_target(body, "name"),
            ObjKind::Rule => {
                let mut target = self.chain_target(body, "chain")?;
                target.handle = Some(handle(self.number(body, "handle", 3)?));
                Some(target)
            }
            ObjKind::Set
            | ObjKind::Map
            | ObjKind::Meter
            | ObjKind::Flowtable
            | ObjKind::Object(_) => self.named_target(body),
            _ => {
                let mut target = Target { family: self.maybe_family(body)?, ..Target::default() };
                if let Some(table) = maybe_text(body, "table") {
                    target.family = target.family.or(Some(Family::Ip));
                    target.table = Some(name(table));
                    target.chain = maybe_text(body, "chain").map(name);
                }
                Some(target)
            }
        }
    }

    fn reset(&mut self, object: &Map<String, Value>) -> Option<Cmd> {
        const KINDS: [(&str, ObjKind); 8] = [
            ("counter", ObjKind::Object(ObjectType::Counter)),
            ("counters", ObjKind::Objects(ObjectType::Counter)),
            ("quota", ObjKind::Object(ObjectType::Quota)),
            ("quotas", ObjKind::Objects(ObjectType::Quota)),
            ("rule", ObjKind::Rule),
            ("rules", ObjKind::Rules),
            ("set", ObjKind::Set),
            ("map", ObjKind::Map),
        ];
        if let Some(value) = object.get("element") {
            let body = self.object(value)?;
            let target = self.named_target(body)?;
            let elements = Some(self.element_list(body)?);
            return Some(cmd(CmdKind::Reset { object: ObjKind::Elements, elements }, target));
        }
        let found = KINDS.iter().find_map(|(k, kind)| object.get(*k).map(|value| (*kind, value)));
        let Some((object, value)) = found else {
            return self.error("Unknown object passed to reset command.");
        };
        let target = self.listed(object, value)?;
        Some(cmd(CmdKind::Reset { object, elements: None }, target))
    }

    fn flush(&mut self, object: &Map<String, Value>) -> Option<Cmd> {
        const KINDS: [(&str, ObjKind); 6] = [
            ("table", ObjKind::Table),
            ("chain", ObjKind::Chain),
            ("set", ObjKind::Set),
            ("map", ObjKind::Map),
            ("meter", ObjKind::Meter),
            ("ruleset", ObjKind::Ruleset),
        ];
        let found = KINDS.iter().find_map(|(k, kind)| object.get(*k).map(|value| (*kind, value)));
        let Some((kind, value)) = found else {
            return self.error("Unknown object passed to flush command.");
        };
        let target = self.listed(kind, value)?;
        Some(cmd(CmdKind::Flush(kind), target))
    }

    // Targets.

    pub(super) fn family(&mut self, text: &str) -> Option<Family> {
        match Family::from_name(text) {
            Some(family) => Some(family),
            None => self.error(format!("Unknown family '{text}'.")),
        }
    }

    fn maybe_family(&mut self, object: &Map<String, Value>) -> Option<Option<Family>> {
        match maybe_text(object, "family") {
            Some(text) => self.family(text).map(Some),
            None => Some(None),
        }
    }

    /// Family and table; the table's name is the member `key`.
    pub(super) fn table_target(
        &mut self,
        object: &Map<String, Value>,
        key: &str,
    ) -> Option<Target> {
        let family = self.text(object, "family", 0)?;
        // nft asks for the two of a table one after the other.
        let table = self.text(object, key, u32::from(key != "name"))?;
        let family = Some(self.family(family)?);
        Some(Target { family, table: Some(name(table)), ..Target::default() })
    }

    /// Family, table and chain; the chain's name is the member `key`.
    pub(super) fn chain_target(
        &mut self,
        object: &Map<String, Value>,
        key: &str,
    ) -> Option<Target> {
        let mut target = self.table_target(object, "table")?;
        target.chain = Some(name(self.text(object, key, 2)?));
        Some(target)
    }

    /// Family, table and name.
    pub(super) fn named_target(&mut self, object: &Map<String, Value>) -> Option<Target> {
        let mut target = self.table_target(object, "table")?;
        target.name = Some(name(self.text(object, "name", 2)?));
        Some(target)
    }
}
