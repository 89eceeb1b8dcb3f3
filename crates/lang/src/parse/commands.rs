//! Commands: the verb, and what it speaks of.

use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_ruleset::model::Family;

use super::{Bad, Parsed, Parser};
use crate::ast::cmd::{ChainBlock, Cmd, CmdKind, FlowtableBlock, Handle, New, ObjKind, TableBlock, Target};
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
            "delete" | "destroy" | "get" | "list" | "reset" | "flush" | "rename" | "import" | "export"
            | "monitor" | "describe" => return self.other_command(),
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
                let kind = if self.at("import") { CmdKind::Import } else { CmdKind::Export };
                self.take();
                self.eat("ruleset");
                match self.word() {
                    "xml" | "json" | "vm" => {
                        self.take();
                        Ok((kind, Target::default()))
                    }
                    _ => self.unexpected(&["ruleset", "xml", "json", "vm"]),
                }
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

    // Targets.

    /// `[family] table`
    pub(super) fn table_target(&mut self) -> Parsed<Target> {
        let family = self.family().unwrap_or(Family::Ip);
        let table = self.scoped_name()?;
        Ok(Target { family: Some(family), table: Some(table), ..Target::default() })
    }

    /// `[family] table` or `[family] handle N`
    fn table_or_handle(&mut self) -> Parsed<Target> {
        let family = self.family().unwrap_or(Family::Ip);
        if self.at("handle") {
            let handle = self.handle()?;
            return Ok(Target { family: Some(family), handle: Some(handle), ..Target::default() });
        }
        self.name_or_handle_ahead()?;
        let table = self.identifier()?;
        Ok(Target { family: Some(family), table: Some(table), ..Target::default() })
    }

    /// `[family] table chain`
    fn chain_target(&mut self) -> Parsed<Target> {
        let mut target = self.table_target()?;
        target.chain = Some(self.scoped_name()?);
        Ok(target)
    }

    /// `[family] table name`
    fn named(&mut self) -> Parsed<Target> {
        let mut target = self.table_target()?;
        target.name = Some(self.scoped_name()?);
        Ok(target)
    }

    /// `[family] table name` or `[family] table handle N`
    fn named_or_handle(&mut self) -> Parsed<Target> {
        let mut target = self.table_target()?;
        if self.at("handle") {
            target.handle = Some(self.handle()?);
        } else {
            self.name_or_handle_ahead()?;
            target.name = Some(self.identifier()?);
        }
        Ok(target)
    }

    fn name_or_handle_ahead(&mut self) -> Parsed<()> {
        let token = self.peek();
        match token.tok {
            Tok::Word | Tok::Str if self.is_string(token) => Ok(()),
            _ => self.unexpected(&["handle", "string"]),
        }
    }

    /// `handle N`, the place being that of the number.
    fn handle(&mut self) -> Parsed<Handle> {
        self.need("handle")?;
        let value = self.number()?;
        Ok(Handle { value, loc: self.last })
    }

    /// `chain handle N` of a rule.
    fn rule_handle(&mut self) -> Parsed<Target> {
        let mut target = self.chain_target()?;
        target.handle = Some(self.handle()?);
        Ok(target)
    }

    /// `chain [handle N|position N|index N]`
    fn rule_position(&mut self) -> Parsed<Target> {
        let mut target = self.chain_target()?;
        let start = self.here();
        match self.word() {
            "position" => {
                self.take();
                let value = self.number()?;
                target.position = Some(Handle { value, loc: self.since(start) });
            }
            "handle" => target.position = Some(self.handle()?),
            "index" => {
                self.take();
                let value = self.number()?;
                target.index = Some(Handle { value, loc: self.since(start) });
            }
            _ => {}
        }
        Ok(target)
    }

    /// `[family]`, nothing for all.
    fn any_family(&mut self) -> Target {
        Target { family: self.family(), ..Target::default() }
    }

    // add, create, insert, replace

    fn family_ahead(&mut self) -> bool {
        matches!(self.word(), "ip" | "ip6" | "inet" | "arp" | "bridge" | "netdev")
    }

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
                    Ok((New::Object(p.object(kind, start, false)?), target))
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
                self.keywords = super::words::keywords_behind("ct");
                match self.word() {
                    "helper" => ObjectType::CtHelper,
                    "timeout" => ObjectType::CtTimeout,
                    "expectation" => ObjectType::CtExpect,
                    _ => return self.unexpected(&["timeout", "expectation", "helper"]),
                }
            }
            _ => return self.unexpected(&[]),
        };
        self.keywords = super::words::keywords_behind(self.inputs.slice(first.loc));
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
        self.keywords = super::words::keywords_behind("list");
        let mut device = None;
        let (object, target) = match self.word() {
            "ruleset" => {
                self.take();
                (ObjKind::Ruleset, self.any_family())
            }
            "tables" => {
                self.take();
                (ObjKind::Tables, self.any_family())
            }
            "table" => {
                self.take();
                (ObjKind::Table, self.table_target()?)
            }
            "chains" => {
                self.take();
                (ObjKind::Chains, self.any_family())
            }
            "chain" => {
                self.take();
                (ObjKind::Chain, self.chain_target()?)
            }
            "sets" => self.several(ObjKind::Sets)?,
            "maps" => self.several(ObjKind::Maps)?,
            "meters" => self.several(ObjKind::Meters)?,
            "set" => {
                self.take();
                (ObjKind::Set, self.named()?)
            }
            "map" => {
                self.take();
                (ObjKind::Map, self.named()?)
            }
            "meter" => {
                self.take();
                (ObjKind::Meter, self.named()?)
            }
            "flow" => {
                self.take();
                match self.word() {
                    "tables" => {
                        self.take();
                        (ObjKind::Meters, self.any_family())
                    }
                    "table" => {
                        self.take();
                        (ObjKind::Meter, self.named()?)
                    }
                    _ => return self.unexpected(&["table", "tables"]),
                }
            }
            "flowtables" => self.several(ObjKind::Flowtables)?,
            "flowtable" => {
                self.take();
                (ObjKind::Flowtable, self.named()?)
            }
            "hooks" => {
                self.take();
                let target = self.any_family();
                if self.eat("device") {
                    device = Some(self.string()?.text);
                }
                (ObjKind::Hooks, target)
            }
            "counters" => self.several(ObjKind::Objects(ObjectType::Counter))?,
            "quotas" => self.several(ObjKind::Objects(ObjectType::Quota))?,
            "limits" => self.several(ObjKind::Objects(ObjectType::Limit))?,
            "secmarks" => self.several(ObjKind::Objects(ObjectType::SecMark))?,
            "synproxys" => self.several(ObjKind::Objects(ObjectType::Synproxy))?,
            "tunnels" => self.several(ObjKind::Objects(ObjectType::Tunnel))?,
            "ct" => self.list_ct()?,
            "counter" | "quota" | "limit" | "secmark" | "synproxy" | "tunnel" => {
                let kind = self.object_type()?;
                (ObjKind::Object(kind), self.named()?)
            }
            _ => return self.unexpected(&[]),
        };
        if target.family.is_some() {
            self.keywords = self.outer_keywords();
        }
        Ok((CmdKind::List { object, device }, target))
    }

    /// `sets [family]`, `sets table [family] T`
    fn several(&mut self, object: ObjKind) -> Parsed<(ObjKind, Target)> {
        self.take();
        if self.eat("table") {
            return Ok((object, self.table_target()?));
        }
        let family = self.any_family();
        // The name of a table alone is taken as well.
        if self.tok() == Tok::Word && !super::words::is_reserved(self.word()) && !self.at_keyword() {
            let name = self.identifier()?;
            let family = family.family.or(Some(Family::Ip));
            return Ok((object, Target { family, table: Some(name), ..Target::default() }));
        }
        Ok((object, family))
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

    fn reset(&mut self) -> Parsed<(CmdKind, Target)> {
        self.take();
        self.keywords = super::words::keywords_behind("reset");
        let mut elements = None;
        let (object, target) = match self.word() {
            "counters" => self.several(ObjKind::Objects(ObjectType::Counter))?,
            "quotas" => self.several(ObjKind::Objects(ObjectType::Quota))?,
            "counter" | "quota" => {
                let kind = self.object_type()?;
                (ObjKind::Object(kind), self.named()?)
            }
            "rules" => {
                self.take();
                self.reset_rules()?
            }
            "rule" => {
                self.take();
                (ObjKind::Rule, self.rule_handle()?)
            }
            "element" => {
                self.take();
                let target = self.named()?;
                elements = Some(self.element_block()?);
                (ObjKind::Elements, target)
            }
            "set" => {
                self.take();
                (ObjKind::Set, self.named()?)
            }
            "map" => {
                self.take();
                (ObjKind::Map, self.named()?)
            }
            _ => return self.unexpected(&["counter", "counters", "quotas", "quota"]),
        };
        if target.family.is_some() {
            self.keywords = self.outer_keywords();
        }
        Ok((CmdKind::Reset { object, elements }, target))
    }

    /// All rules, those of a table, or those of a chain.
    fn reset_rules(&mut self) -> Parsed<(ObjKind, Target)> {
        if self.eat("table") {
            return Ok((ObjKind::Rules, self.table_target()?));
        }
        if self.eat("chain") {
            return Ok((ObjKind::Rules, self.chain_target()?));
        }
        let family = self.family();
        if !matches!(self.tok(), Tok::Word | Tok::Str) {
            return Ok((ObjKind::Rules, Target { family, ..Target::default() }));
        }
        let table = self.identifier()?;
        let chain = if self.tok() == Tok::Word { Some(self.identifier()?) } else { None };
        let family = Some(family.unwrap_or(Family::Ip));
        Ok((ObjKind::Rules, Target { family, table: Some(table), chain, ..Target::default() }))
    }

    fn flush(&mut self) -> Parsed<(CmdKind, Target)> {
        self.take();
        let (object, target) = match self.word() {
            "ruleset" => {
                self.take();
                (ObjKind::Ruleset, self.any_family())
            }
            "table" => {
                self.take();
                (ObjKind::Table, self.table_target()?)
            }
            "chain" => {
                self.take();
                (ObjKind::Chain, self.chain_target()?)
            }
            "set" => {
                self.take();
                (ObjKind::Set, self.named()?)
            }
            "map" => {
                self.take();
                (ObjKind::Map, self.named()?)
            }
            "meter" => {
                self.take();
                (ObjKind::Meter, self.named()?)
            }
            "flow" => {
                self.take();
                self.need("table")?;
                (ObjKind::Meter, self.named()?)
            }
            _ => return self.unexpected(&[]),
        };
        Ok((CmdKind::Flush(object), target))
    }

    /// Refuses what follows a word that this version does not know.
    pub(super) fn refuse<T>(&mut self, loc: Loc, message: &str) -> Parsed<T> {
        self.diags.push(Diagnostic::error(loc, message));
        Err(Bad::Item)
    }
}
