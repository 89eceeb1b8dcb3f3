// SPDX-License-Identifier: Apache-2.0

//! Commands: the verb, and what it speaks of.

use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_ruleset::model::Family;

use super::objects::Form;
use super::{Bad, Parsed, Parser};
use crate::ast::cmd::{
    ChainBlock, Cmd, CmdKind, FlowtableBlock, Markup, New, ObjKind, TableBlock, Target,
};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::source::Loc;

/// What makes something: `add`, and the four like it.
#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Add,
    Create,
    Insert,
    Replace,
}

impl Verb {
    fn cmd(self, new: New) -> CmdKind {
        match self {
            Verb::Add => CmdKind::Add(new),
            Verb::Create => CmdKind::Create(new),
            Verb::Insert => CmdKind::Insert(new),
            Verb::Replace => CmdKind::Replace(new),
        }
    }
}

/// What may follow a complete command on the command's line.
const END: [&str; 3] = ["end of file", "newline", "semicolon"];

/// What can be listed, but for what two words stand for.
const LISTED: [(&str, ObjKind); 25] = [
    ("ruleset", ObjKind::Ruleset),
    ("tables", ObjKind::Tables),
    ("table", ObjKind::Table),
    ("chains", ObjKind::Chains),
    ("chain", ObjKind::Chain),
    ("sets", ObjKind::Sets),
    ("maps", ObjKind::Maps),
    ("meters", ObjKind::Meters),
    ("set", ObjKind::Set),
    ("map", ObjKind::Map),
    ("meter", ObjKind::Meter),
    ("flowtables", ObjKind::Flowtables),
    ("flowtable", ObjKind::Flowtable),
    ("counters", ObjKind::Objects(ObjectType::Counter)),
    ("quotas", ObjKind::Objects(ObjectType::Quota)),
    ("limits", ObjKind::Objects(ObjectType::Limit)),
    ("secmarks", ObjKind::Objects(ObjectType::SecMark)),
    ("synproxys", ObjKind::Objects(ObjectType::Synproxy)),
    ("tunnels", ObjKind::Objects(ObjectType::Tunnel)),
    ("counter", ObjKind::Object(ObjectType::Counter)),
    ("quota", ObjKind::Object(ObjectType::Quota)),
    ("limit", ObjKind::Object(ObjectType::Limit)),
    ("secmark", ObjKind::Object(ObjectType::SecMark)),
    ("synproxy", ObjKind::Object(ObjectType::Synproxy)),
    ("tunnel", ObjKind::Object(ObjectType::Tunnel)),
];

/// What can be reset, but for elements.
const RESET: [(&str, ObjKind); 8] = [
    ("counters", ObjKind::Objects(ObjectType::Counter)),
    ("quotas", ObjKind::Objects(ObjectType::Quota)),
    ("counter", ObjKind::Object(ObjectType::Counter)),
    ("quota", ObjKind::Object(ObjectType::Quota)),
    ("rules", ObjKind::Rules),
    ("rule", ObjKind::Rule),
    ("set", ObjKind::Set),
    ("map", ObjKind::Map),
];

/// What can be emptied.
const FLUSHED: [(&str, ObjKind); 6] = [
    ("ruleset", ObjKind::Ruleset),
    ("table", ObjKind::Table),
    ("chain", ObjKind::Chain),
    ("set", ObjKind::Set),
    ("map", ObjKind::Map),
    ("meter", ObjKind::Meter),
];

impl Parser<'_> {
    pub(super) fn commands(&mut self) -> Vec<Cmd> {
        let mut cmds = Vec::new();
        loop {
            match self.tok() {
                Tok::Eof => return cmds,
                Tok::Newline | Tok::Semicolon => {
                    self.take();
                    continue;
                }
                _ => {}
            }
            self.keywords = self.outer_keywords();
            let result = match self.common() {
                Ok(true) => Ok(()),
                Ok(false) => self.line(&mut cmds),
                Err(bad) => Err(bad),
            };
            if result.is_err() && !self.recover() {
                return cmds;
            }
        }
    }

    fn line(&mut self, cmds: &mut Vec<Cmd>) -> Parsed<()> {
        let start = self.here();
        let (kind, target) = self.command()?;
        let mut loc = self.since(start);
        match self.tok() {
            // What ends a command counts to its place.
            Tok::Newline | Tok::Semicolon => {
                loc = loc.to(self.take().loc);
                cmds.push(Cmd { kind, target, loc });
                Ok(())
            }
            Tok::Eof => {
                cmds.push(Cmd { kind, target, loc });
                Ok(())
            }
            _ => self.unexpected(&END),
        }
    }

    fn command(&mut self) -> Parsed<(CmdKind, Target)> {
        if !matches!(self.tok(), Tok::Word | Tok::Str) {
            return self.unexpected(&[]);
        }
        let without_verb = self.names_table();
        let verb = match self.word() {
            "add" => Verb::Add,
            "create" => Verb::Create,
            "insert" => Verb::Insert,
            "replace" => Verb::Replace,
            "delete" | "destroy" | "get" | "list" | "reset" | "flush" | "rename" | "import"
            | "export" | "monitor" | "describe" => return self.other_command(),
            _ if without_verb => return self.new_object(Verb::Add),
            _ => return self.unexpected(&[]),
        };
        self.take();
        self.new_object(verb)
    }

    /// Whether what is ahead can be the name of a table, its family, or what is made without `add`.
    fn names_table(&mut self) -> bool {
        let token = self.peek();
        let object = matches!(
            self.word(),
            "table"
                | "chain"
                | "rule"
                | "set"
                | "map"
                | "element"
                | "flowtable"
                | "counter"
                | "quota"
                | "limit"
                | "ct"
                | "secmark"
                | "synproxy"
        );
        object || self.family_ahead() || self.is_string(token)
    }

    fn other_command(&mut self) -> Parsed<(CmdKind, Target)> {
        // `destroy` names a table in a rule without a verb as little as in nft 1.1.
        match self.word() {
            "delete" => self.delete(false),
            "destroy" => self.delete(true),
            "get" => {
                self.take();
                let map = self.at("map");
                if !self.eat("element") {
                    return self.unexpected(&["element"]);
                }
                let target = self.named()?;
                let elements = self.element_block()?;
                Ok((CmdKind::Get { elements, map }, target))
            }
            "list" => self.list(),
            "reset" => self.reset(),
            "flush" => self.flush(),
            "rename" => {
                self.take();
                self.need("chain")?;
                let target = self.chain_target()?;
                let to = self.identifier()?;
                Ok((CmdKind::Rename { to }, target))
            }
            "import" | "export" => {
                let import = self.at("import");
                self.take();
                let any = !self.eat("ruleset");
                let markup = match self.word() {
                    "xml" => Markup::Xml,
                    "json" => Markup::Json,
                    "vm" => {
                        self.take();
                        if !self.at("json") {
                            return self.unexpected(&["json"]);
                        }
                        Markup::Json
                    }
                    _ if any => return self.unexpected(&["ruleset", "xml", "json", "vm"]),
                    _ => return self.unexpected(&["xml", "json", "vm"]),
                };
                self.take();
                let kind = if import { CmdKind::Import(markup) } else { CmdKind::Export(markup) };
                Ok((kind, Target::default()))
            }
            "describe" => {
                self.take();
                let expr = self.describable()?;
                Ok((CmdKind::Describe(expr), Target::default()))
            }
            _ => self.monitor(),
        }
    }

    fn monitor(&mut self) -> Parsed<(CmdKind, Target)> {
        self.take();
        let objects = [
            "tables",
            "chains",
            "sets",
            "rules",
            "elements",
            "ruleset",
            "trace",
            "flowtables",
            "json",
            "xml",
        ];
        let mut event = None;
        let token = self.peek();
        if token.tok == Tok::Word && !objects.contains(&self.word()) {
            let name = self.identifier()?;
            if !matches!(&*name.text, "new" | "destroy") {
                return self.error(name.loc, format!("invalid event {}", name.text));
            }
            event = Some(name);
        }
        let mut object = None;
        let token = self.peek();
        let word = self.word().to_string();
        if objects[..7].contains(&&*word) {
            self.take();
            object = Some(crate::ast::cmd::Name { text: Arc::from(word), loc: token.loc });
        }
        if matches!(self.word(), "json" | "xml" | "vm") {
            self.take();
        }
        Ok((CmdKind::Monitor { event, object }, Target::default()))
    }

    // add, create, insert, replace

    fn new_object(&mut self, verb: Verb) -> Parsed<(CmdKind, Target)> {
        match verb {
            Verb::Insert => {
                self.need("rule")?;
                let target = self.rule_position()?;
                let rule = self.rule()?;
                return Ok((verb.cmd(New::Rule(rule)), target));
            }
            Verb::Replace => {
                self.need("rule")?;
                let target = self.rule_handle()?;
                let rule = self.rule()?;
                return Ok((verb.cmd(New::Rule(rule)), target));
            }
            Verb::Add | Verb::Create => {}
        }
        let (new, target) = match self.word() {
            "table" => {
                self.take();
                let target = self.table_target()?;
                let mut block = TableBlock::default();
                if self.tok() == Tok::LeftBrace {
                    self.table_block(&mut block)?;
                }
                (New::Table(block), target)
            }
            "chain" => {
                self.take();
                let target = self.chain_target()?;
                let mut block = ChainBlock::default();
                if self.tok() == Tok::LeftBrace {
                    self.chain_block(&mut block)?;
                }
                (New::Chain(block), target)
            }
            "set" | "map" => {
                let map = self.at("map");
                self.take();
                let target = self.named()?;
                let block = self.set_block(map)?;
                (New::Set(block), target)
            }
            "element" => {
                self.take();
                let target = self.named()?;
                (New::Elements(self.added_elements()?), target)
            }
            "flowtable" => {
                self.take();
                let target = self.named()?;
                let mut block = FlowtableBlock::default();
                if self.tok() != Tok::LeftBrace {
                    return self.unexpected(&["'{'"]);
                }
                self.flowtable_block(&mut block)?;
                (New::Flowtable(block), target)
            }
            "counter" | "quota" | "limit" | "ct" | "secmark" | "synproxy" | "tunnel" => {
                let start = self.here();
                let kind = self.object_type()?;
                self.within_object(|p| {
                    let target = p.named()?;
                    let form = if verb == Verb::Create { Form::Bare } else { Form::Any };
                    Ok((New::Object(p.object(kind, start, form)?), target))
                })?
            }
            _ if verb == Verb::Create => return self.unexpected(&[]),
            _ => {
                self.eat("rule");
                let target = self.rule_position()?;
                (New::Rule(self.rule()?), target)
            }
        };
        Ok((verb.cmd(new), target))
    }

    /// `counter`, `quota`, `ct helper`, …
    pub(super) fn object_type(&mut self) -> Parsed<ObjectType> {
        let first = self.peek();
        let kind = match self.word() {
            "counter" => ObjectType::Counter,
            "quota" => ObjectType::Quota,
            "limit" => ObjectType::Limit,
            "secmark" => ObjectType::SecMark,
            "synproxy" => ObjectType::Synproxy,
            "tunnel" => ObjectType::Tunnel,
            "ct" => {
                self.take();
                self.keywords = super::words::keywords_after("ct");
                match self.word() {
                    "helper" => ObjectType::CtHelper,
                    "timeout" => ObjectType::CtTimeout,
                    "expectation" => ObjectType::CtExpect,
                    _ => return self.unexpected(&["timeout", "expectation", "helper"]),
                }
            }
            _ => return self.unexpected(&[]),
        };
        self.keywords = super::words::keywords_after(self.inputs.slice(first.loc));
        self.take();
        Ok(kind)
    }

    // delete, destroy

    fn delete(&mut self, destroy: bool) -> Parsed<(CmdKind, Target)> {
        self.take();
        let (mut elements, mut devices) = (None, None);
        let (object, target) = match self.word() {
            "table" => {
                self.take();
                (ObjKind::Table, self.table_or_handle()?)
            }
            "chain" => {
                self.take();
                let mut target = self.table_target()?;
                if self.at("handle") {
                    target.handle = Some(self.handle()?);
                } else {
                    self.name_or_handle_ahead()?;
                    target.chain = Some(self.identifier()?);
                    if self.tok() == Tok::LeftBrace {
                        let mut block = ChainBlock::default();
                        self.chain_block(&mut block)?;
                        devices = block.devices.or(block.hook.and_then(|h| h.devices));
                    }
                }
                (ObjKind::Chain, target)
            }
            "set" => {
                self.take();
                (ObjKind::Set, self.named_or_handle()?)
            }
            "map" => {
                self.take();
                let mut target = self.table_target()?;
                // By handle is of later releases.
                if self.at("handle") {
                    target.handle = Some(self.handle()?);
                } else {
                    target.name = Some(self.identifier()?);
                }
                (ObjKind::Map, target)
            }
            "element" => {
                self.take();
                let target = self.named()?;
                elements = Some(self.element_block()?);
                (ObjKind::Elements, target)
            }
            "flowtable" => {
                self.take();
                let target = self.named_or_handle()?;
                if self.tok() == Tok::LeftBrace {
                    let mut block = FlowtableBlock::default();
                    self.flowtable_block(&mut block)?;
                    devices = block.devices;
                }
                (ObjKind::Flowtable, target)
            }
            "counter" | "quota" | "limit" | "ct" | "secmark" | "synproxy" | "tunnel" => {
                let kind = self.object_type()?;
                (ObjKind::Object(kind), self.named_or_handle()?)
            }
            "rule" => {
                self.take();
                (ObjKind::Rule, self.rule_handle()?)
            }
            _ => return self.unexpected(&[]),
        };
        Ok((CmdKind::Delete { object, elements, devices, destroy }, target))
    }

    // list, reset, flush

    fn list(&mut self) -> Parsed<(CmdKind, Target)> {
        self.take();
        self.keywords = super::words::keywords_after("list");
        let mut device = None;
        let (object, target) = match self.one_of(&LISTED) {
            Some(object) => self.of_target(object)?,
            None => match self.word() {
                "flow" => {
                    self.take();
                    match self.word() {
                        "tables" => {
                            self.take();
                            (ObjKind::Meters, self.any_family())
                        }
                        "table" => self.of_target(ObjKind::Meter)?,
                        _ => return self.unexpected(&["table", "tables"]),
                    }
                }
                "hooks" => {
                    self.take();
                    let target = self.any_family();
                    if self.eat("device") {
                        device = Some(self.string()?.text);
                    }
                    (ObjKind::Hooks, target)
                }
                "ct" => self.list_ct()?,
                _ => return self.unexpected(&[]),
            },
        };
        if target.family.is_some() {
            self.keywords = self.outer_keywords();
        }
        Ok((CmdKind::List { object, device }, target))
    }

    fn reset(&mut self) -> Parsed<(CmdKind, Target)> {
        self.take();
        self.keywords = super::words::keywords_after("reset");
        let mut elements = None;
        let (object, target) = match self.one_of(&RESET) {
            Some(object) => self.of_target(object)?,
            None if self.eat("element") => {
                let target = self.named()?;
                elements = Some(self.element_block()?);
                (ObjKind::Elements, target)
            }
            None => return self.unexpected(&["counter", "counters", "quotas", "quota"]),
        };
        if target.family.is_some() {
            self.keywords = self.outer_keywords();
        }
        Ok((CmdKind::Reset { object, elements }, target))
    }

    fn flush(&mut self) -> Parsed<(CmdKind, Target)> {
        self.take();
        let (object, target) = match self.one_of(&FLUSHED) {
            Some(object) => self.of_target(object)?,
            None if self.eat("flow") => {
                self.need("table")?;
                (ObjKind::Meter, self.named()?)
            }
            None => return self.unexpected(&[]),
        };
        Ok((CmdKind::Flush(object), target))
    }

    /// What the word ahead stands for, if it is one of these.
    fn one_of(&mut self, words: &[(&str, ObjKind)]) -> Option<ObjKind> {
        let word = self.word();
        words.iter().find(|(name, _)| *name == word).map(|(_, object)| *object)
    }

    /// The word ahead, which stands for `object`, and what it names.
    fn of_target(&mut self, object: ObjKind) -> Parsed<(ObjKind, Target)> {
        if let ObjKind::Object(_) = object {
            return Ok((ObjKind::Object(self.object_type()?), self.named()?));
        }
        self.take();
        let target = match object {
            ObjKind::Ruleset | ObjKind::Tables | ObjKind::Chains | ObjKind::Hooks => {
                self.any_family()
            }
            ObjKind::Table => self.table_target()?,
            ObjKind::Chain => self.chain_target()?,
            ObjKind::Rule => self.rule_handle()?,
            ObjKind::Rules => self.rules_target()?,
            ObjKind::Sets
            | ObjKind::Maps
            | ObjKind::Meters
            | ObjKind::Flowtables
            | ObjKind::Objects(_) => self.several()?,
            ObjKind::Set
            | ObjKind::Map
            | ObjKind::Meter
            | ObjKind::Flowtable
            | ObjKind::Object(_)
            | ObjKind::Elements => self.named()?,
        };
        Ok((object, target))
    }

    /// `[family]` after `sets` and the like, or `table [family] T`
    fn several(&mut self) -> Parsed<Target> {
        if self.eat("table") {
            return self.table_target();
        }
        let target = self.any_family();
        // The name of a table alone is taken as well.
        if self.tok() == Tok::Word && !super::words::is_reserved(self.word()) && !self.at_keyword()
        {
            let table = Some(self.identifier()?);
            let family = target.family.or(Some(Family::Ip));
            return Ok(Target { family, table, ..Target::default() });
        }
        Ok(target)
    }

    fn list_ct(&mut self) -> Parsed<(ObjKind, Target)> {
        self.take();
        let kind = match self.word() {
            "helper" | "helpers" => ObjectType::CtHelper,
            "timeout" | "timeouts" => ObjectType::CtTimeout,
            "expectation" | "expectations" => ObjectType::CtExpect,
            _ => return self.unexpected(&["timeout", "expectation", "helper", "helpers"]),
        };
        let plural = self.word().ends_with('s');
        self.take();
        if plural || self.at("table") {
            self.need("table")?;
            return Ok((ObjKind::Objects(kind), self.table_target()?));
        }
        Ok((ObjKind::Object(kind), self.named()?))
    }

    /// All rules, those of a table, or those of a chain.
    fn rules_target(&mut self) -> Parsed<Target> {
        if self.eat("table") {
            return self.table_target();
        }
        if self.eat("chain") {
            return self.chain_target();
        }
        let family = self.family();
        if !matches!(self.tok(), Tok::Word | Tok::Str) {
            return Ok(Target { family, ..Target::default() });
        }
        let table = self.identifier()?;
        let chain = if self.tok() == Tok::Word { Some(self.identifier()?) } else { None };
        let family = Some(family.unwrap_or(Family::Ip));
        Ok(Target { family, table: Some(table), chain, ..Target::default() })
    }

    /// Refuses what follows a word that this version does not know.
    pub(super) fn refuse<T>(&mut self, loc: Loc, message: &str) -> Parsed<T> {
        self.diags.push(Diagnostic::error(loc, message));
        Err(Bad::Item)
    }
}
