//! Statements of rules.

use std::sync::Arc;

use penstock_program::expr::{
    CtKey, DynsetOp, ExthdrOp, LimitType, MetaKey, NatType, ObjectType, RejectType,
};

use super::sets::Maps;
use super::{Parsed, Parser};
use crate::ast::cmd::RuleBlock;
use crate::ast::expr::{Expr, ExprKind};
use crate::ast::stmt::{Limit, Log, NatKind, Reject, Stmt, StmtKind};
use crate::datatype::symbols;
use crate::lex::Tok;
use crate::source::Loc;
use crate::units;

/// `NF_LOG_*`.
const LOG_TCP_SEQUENCE: u32 = 0x01;
const LOG_TCP_OPTIONS: u32 = 0x02;
const LOG_IP_OPTIONS: u32 = 0x04;
const LOG_SKUID: u32 = 0x08;
const LOG_ETHER: u32 = 0x20;
const LOG_ALL: u32 = 0x2f;

/// Packets of a limit's burst where none is written.
const BURST: u32 = 5;

impl Parser<'_> {
    /// Statements up to the end of the rule, and its comment.
    pub(super) fn rule(&mut self) -> Parsed<RuleBlock> {
        let start = self.here();
        let mut rule = RuleBlock::default();
        loop {
            match self.tok() {
                Tok::Newline | Tok::Semicolon | Tok::Eof | Tok::RightBrace if !rule.stmts.is_empty() => break,
                // Left to whoever knows what may follow a rule here.
                tok if !rule.stmts.is_empty() && !matches!(tok, Tok::Word) && !self.at_stmt() => break,
                Tok::Word if !rule.stmts.is_empty() && self.cannot_begin_stmt() => {
                    break;
                }
                _ if !rule.stmts.is_empty() && self.at("comment") => {
                    rule.comment = Some(self.comment()?);
                    break;
                }
                _ => rule.stmts.push(self.stmt()?),
            }
        }
        rule.loc = self.since(start);
        Ok(rule)
    }

    /// Whether the word ahead is a keyword that no statement begins with, be it only behind the statement just read.
    fn cannot_begin_stmt(&mut self) -> bool {
        let keywords = self.keywords;
        let word = self.word();
        keywords.contains(&word) || super::words::is_reserved(word) && !super::words::begins_stmt(word)
    }

    /// Whether a token that is no word can start a statement.
    fn at_stmt(&mut self) -> bool {
        let token = self.peek();
        match token.tok {
            Tok::Num(_) | Tok::Dollar | Tok::LeftParen | Tok::LeftBrace | Tok::At => true,
            _ => self.is_string(token),
        }
    }

    fn stmt(&mut self) -> Parsed<Stmt> {
        let start = self.here();
        self.keywords = match self.word() {
            word if super::words::begins_effect(word) => super::words::keywords_behind(word),
            _ => self.outer_keywords(),
        };
        // A queue's number is no part of the older form to nft.
        let older_queue = self.at("queue") && !matches!(self.second_word(), "to" | "flags");
        let kind = self.stmt_kind(start)?;
        let loc = if older_queue { start } else { self.since(start) };
        Ok(Stmt { kind, loc })
    }

    fn stmt_kind(&mut self, start: Loc) -> Parsed<StmtKind> {
        if self.tok() != Tok::Word {
            return self.match_or_write(start);
        }
        if self.at("tunnel") && self.second_word() == "name" {
            return self.tunnel_stmt();
        }
        match self.word() {
            "jump" | "goto" => {
                let target = self.peek_second();
                if target.tok == Tok::Dollar
                    || matches!(target.tok, Tok::Word | Tok::Str) && self.is_string(target)
                {
                    return match self.verdict()? {
                        Some(verdict) => Ok(StmtKind::Verdict(verdict)),
                        None => self.unexpected(&[]),
                    };
                }
                let goto = self.at("goto");
                self.take();
                let block = self.implicit_chain()?;
                Ok(StmtKind::Chain { goto, block })
            }
            "accept" | "drop" | "continue" | "return" => match self.verdict()? {
                Some(verdict) => Ok(StmtKind::Verdict(verdict)),
                None => self.unexpected(&[]),
            },
            "counter" | "limit" | "quota" => match self.stateful()? {
                Some(kind) => Ok(kind),
                None => self.unexpected(&[]),
            },
            "last" => match self.stateful()? {
                Some(kind) => Ok(kind),
                None => self.match_or_write(start),
            },
            "ct" => match self.second_word() {
                "count" => match self.stateful()? {
                    Some(kind) => Ok(kind),
                    None => self.unexpected(&[]),
                },
                "timeout" | "expectation" => {
                    self.take();
                    let kind = if self.at("timeout") { ObjectType::CtTimeout } else { ObjectType::CtExpect };
                    self.take();
                    self.keywords = super::words::keywords_behind("ct");
                    self.need("set")?;
                    Ok(StmtKind::ObjRef { kind, expr: self.scoped("ct", Self::target)? })
                }
                _ => self.match_or_write(start),
            },
            "log" => self.log(),
            "reject" => self.reject(),
            "snat" => self.nat(NatType::Snat),
            "dnat" => self.nat(NatType::Dnat),
            "masquerade" => self.local_nat(NatKind::Masquerade),
            "redirect" => self.local_nat(NatKind::Redirect),
            "tproxy" => self.tproxy(),
            "synproxy" => self.synproxy(),
            "queue" => self.queue(),
            "dup" => self.dup(),
            "fwd" => self.fwd(),
            "notrack" => {
                self.take();
                Ok(StmtKind::Notrack)
            }
            "flow" => self.flow(),
            "set" => self.set_stmt(),
            "add" | "update" | "delete" => {
                let op = self.set_op()?;
                self.update(op)
            }
            "meter" => self.meter(),
            "reset" => {
                self.take();
                self.keywords = super::words::keywords_behind("reset");
                self.need("tcp")?;
                self.keywords = super::words::keywords_behind("tcp");
                if !self.at("option") {
                    return self.unexpected(&["option"]);
                }
                let target = self.whole_tcp_option(start)?;
                self.ends_by_itself();
                Ok(StmtKind::ExthdrReset { target })
            }
            "xt" => self.xt(start),
            _ => self.match_or_write(start),
        }
    }

    /// An expression that is compared with something, looked up, or (`set`) written to.
    fn match_or_write(&mut self, start: Loc) -> Parsed<StmtKind> {
        let left = self.lhs()?;
        match self.word() {
            "vmap" => {
                self.take();
                let mappings = match self.tok() {
                    Tok::LeftBrace => self.set_expr(Maps::Verdicts)?,
                    _ => match self.tok() {
                        Tok::At | Tok::Dollar => self.set_ref()?,
                        _ => return self.unexpected(&["@", "'{'", "'$'"]),
                    },
                };
                let kind = ExprKind::Map { key: Box::new(left), mappings: Box::new(mappings) };
                Ok(StmtKind::Verdict(Expr::new(kind, self.since(start))))
            }
            "set" if is_writable(&left) => {
                self.take();
                let expr = match left.kind {
                    ExprKind::Meta { .. } if self.inputs.slice(start) == "meta" => self.written("meta")?,
                    ExprKind::Ct { .. } => self.written("ct")?,
                    _ => self.argument()?,
                };
                Ok(match left.kind {
                    // Bytes of a packet's mark are written, objects are attached.
                    ExprKind::Meta { key: MetaKey::SecMark } if !matches!(expr.kind, ExprKind::Ct { .. }) => {
                        StmtKind::ObjRef { kind: ObjectType::SecMark, expr }
                    }
                    ExprKind::Meta { key } => StmtKind::MetaSet { key, expr },
                    ExprKind::Ct { key: CtKey::Helper, .. } => {
                        StmtKind::ObjRef { kind: ObjectType::CtHelper, expr }
                    }
                    ExprKind::Ct { key, dir, .. } => StmtKind::CtSet { key, dir, expr },
                    ExprKind::Exthdr(_) => StmtKind::ExthdrSet { target: left, value: expr },
                    _ => StmtKind::PayloadSet { target: left, value: expr },
                })
            }
            _ => Ok(StmtKind::Match(self.relational(left, start)?)),
        }
    }

    // Stateful statements: those that elements of sets may carry, too.

    /// A stateful statement, if one is ahead.
    pub(super) fn stateful_stmt(&mut self) -> Parsed<Option<Stmt>> {
        if self.tok() != Tok::Word {
            return Ok(None);
        }
        let start = self.here();
        let kind = self.stateful()?;
        Ok(kind.map(|kind| Stmt { kind, loc: self.since(start) }))
    }

    fn stateful(&mut self) -> Parsed<Option<StmtKind>> {
        let start = self.here();
        let counts = self.at("ct") && self.second_word() == "count";
        let last = self.at("last") && self.last_is_stmt();
        let kind = match self.word() {
            "counter" => {
                self.take();
                self.counter()?
            }
            "limit" => {
                self.take();
                if self.at("name") { self.object_ref(ObjectType::Limit)? } else { self.limit()? }
            }
            "quota" => {
                self.take();
                if self.at("name") { self.object_ref(ObjectType::Quota)? } else { self.quota(start)? }
            }
            "ct" if counts => {
                self.take();
                self.take();
                self.keywords = super::words::keywords_behind("ct");
                let over = self.eat("over");
                if !over && !matches!(self.tok(), Tok::Num(_)) {
                    return self.unexpected(&["number", "over"]);
                }
                StmtKind::CtCount { count: self.number_as()?, over }
            }
            "last" if last => {
                self.take();
                self.last_use()?
            }
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    /// `last` also is a name that a set's element may have; as a statement `used` or no operand follows.
    fn last_is_stmt(&mut self) -> bool {
        let token = self.peek_second();
        match token.tok {
            Tok::Word => true,
            Tok::Num(_) | Tok::Str | Tok::Quoted => false,
            tok => !matches!(tok, Tok::Eq | Tok::Neq | Tok::Lt | Tok::Gt | Tok::Lte | Tok::Gte | Tok::Dot),
        }
    }

    fn last_use(&mut self) -> Parsed<StmtKind> {
        if !self.eat("used") {
            return Ok(StmtKind::Last { set: false, msecs: 0 });
        }
        if self.eat("never") {
            return Ok(StmtKind::Last { set: false, msecs: 0 });
        }
        Ok(StmtKind::Last { set: true, msecs: self.time()? })
    }

    pub(super) fn object_ref(&mut self, kind: ObjectType) -> Parsed<StmtKind> {
        self.need("name")?;
        Ok(StmtKind::ObjRef { kind, expr: self.target()? })
    }

    fn counter(&mut self) -> Parsed<StmtKind> {
        if self.at("name") {
            return self.object_ref(ObjectType::Counter);
        }
        let (mut packets, mut bytes) = (0, 0);
        loop {
            match self.word() {
                "packets" => {
                    self.take();
                    packets = self.number()?;
                }
                "bytes" => {
                    self.take();
                    bytes = self.number()?;
                }
                _ => return Ok(StmtKind::Counter { packets, bytes }),
            }
        }
    }

    fn need_rate(&mut self) -> Parsed<()> {
        if self.eat("rate") { Ok(()) } else { self.unexpected(&["name", "rate"]) }
    }

    /// `over`, `until` or nothing.
    fn over(&mut self) -> bool {
        if self.eat("over") {
            return true;
        }
        self.eat("until");
        false
    }

    /// `rate [over] N/second [burst N packets]`, `rate [over] N mbytes/second [burst N kbytes]`
    pub(super) fn limit(&mut self) -> Parsed<StmtKind> {
        let (limit, burst) = self.limit_of_rate()?;
        if limit.kind == LimitType::Packets && limit.burst == 0 {
            return self.error(burst, "packet limit burst must be > 0");
        }
        Ok(StmtKind::Limit(limit))
    }

    /// The same of an object, which may have no burst; and where the burst was written.
    pub(super) fn limit_of_rate(&mut self) -> Parsed<(Limit, Loc)> {
        self.keywords = super::words::keywords_behind("limit");
        self.need_rate()?;
        let over = self.over();
        let start = self.here();
        let rate = self.number()?;
        if self.eat_tok(Tok::Slash) {
            let unit = self.time_unit()?;
            let mut burst = BURST;
            let start = self.here();
            if self.eat("burst") {
                burst = self.number_as()?;
                self.need("packets")?;
                self.ends_by_itself();
            }
            let limit = Limit { rate, unit, kind: LimitType::Packets, burst, over };
            return Ok((limit, self.since(start)));
        }
        if !self.at_data_unit() {
            return self.unexpected(&["/", "string", "bytes"]);
        }
        // `mbytes/second` is a single word.
        let word = self.word().to_string();
        let (size, unit) = match word.split_once('/') {
            Some((size, time)) => (size, Some(time)),
            None => (&*word, None),
        };
        self.take();
        let wrong = if unit.is_some() { "Wrong rate format" } else { "wrong rate format" };
        let whole = self.since(start);
        let Some(factor) = data_unit(size) else { return self.error(whole, wrong) };
        let unit = match unit {
            Some(time) => match units::seconds(time) {
                Some(unit) => unit,
                None => return self.error(whole, wrong),
            },
            None => {
                self.need_tok(Tok::Slash)?;
                self.time_unit()?
            }
        };
        let Some(rate) = rate.checked_mul(factor) else { return self.error(whole, wrong) };
        let mut burst = 0;
        if self.eat("burst") {
            let loc = self.here();
            let n = self.number()?;
            let bytes = n.checked_mul(self.data_unit(loc)?).and_then(|n| u32::try_from(n).ok());
            let Some(bytes) = bytes else { return self.error(loc, wrong) };
            burst = bytes;
            self.ends_by_itself();
        }
        Ok((Limit { rate, unit, kind: LimitType::Bytes, burst, over }, self.since(start)))
    }

    fn time_unit(&mut self) -> Parsed<u64> {
        match units::seconds(self.word()) {
            Some(unit) => {
                self.take();
                Ok(unit)
            }
            None => self.unexpected(&[]),
        }
    }

    /// Whether a word is ahead that may be a unit: `bytes`, or one that is no keyword here.
    fn at_data_unit(&mut self) -> bool {
        let keywords = self.keywords;
        let word = self.word();
        word == "bytes" || !word.is_empty() && !keywords.contains(&word) && !super::words::is_reserved(word)
    }

    fn data_unit(&mut self, start: Loc) -> Parsed<u64> {
        if !self.at_data_unit() {
            return self.unexpected(&["string", "bytes"]);
        }
        let factor = data_unit(self.word());
        self.take();
        match factor {
            Some(factor) => Ok(factor),
            None => {
                let loc = self.since(start);
                self.error(loc, "Wrong rate format")
            }
        }
    }

    /// `[over|until] N mbytes [used N bytes]`
    pub(super) fn quota(&mut self, start: Loc) -> Parsed<StmtKind> {
        let over = self.over();
        let bytes = self.bytes(start)?;
        let mut used = 0;
        let start = self.here();
        if self.eat("used") {
            used = self.bytes(start)?;
            self.ends_by_itself();
        }
        Ok(StmtKind::Quota { bytes, used, over })
    }

    /// Nothing more is read to know that the statement ends, so that its keywords are none behind it.
    fn ends_by_itself(&mut self) {
        self.keywords = &[];
    }

    /// `N mbytes`
    fn bytes(&mut self, start: Loc) -> Parsed<u64> {
        let n = self.number()?;
        let factor = self.data_unit(start)?;
        match n.checked_mul(factor) {
            Some(bytes) => Ok(bytes),
            None => {
                let loc = self.since(start);
                self.error(loc, "Wrong rate format")
            }
        }
    }

    // log, reject

    fn log(&mut self) -> Parsed<StmtKind> {
        self.take();
        let mut log = Log::default();
        loop {
            match self.word() {
                "prefix" => {
                    self.take();
                    log.prefix = Some(self.log_prefix()?);
                }
                "group" => {
                    self.take();
                    log.group = Some(self.number_as()?);
                }
                "snaplen" => {
                    self.take();
                    log.snaplen = Some(self.number_as()?);
                }
                "queue-threshold" => {
                    self.take();
                    log.queue_threshold = Some(self.number_as()?);
                }
                "level" => {
                    self.take();
                    let name = self.string_but_no_keyword()?;
                    match log_level(&name.text) {
                        Some(level) => log.level = Some(level),
                        None => return self.error(name.loc, "invalid log level"),
                    }
                }
                "flags" => {
                    self.take();
                    log.flags |= self.log_flags()?;
                }
                _ => return Ok(StmtKind::Log(log)),
            }
        }
    }

    fn log_flags(&mut self) -> Parsed<u32> {
        let flags = match self.word() {
            "tcp" => {
                self.take();
                return self.scoped("tcp", Self::log_tcp_flags);
            }
            "ip" => {
                self.take();
                self.scoped("ip", |p| p.need("options"))?;
                return Ok(LOG_IP_OPTIONS);
            }
            "skuid" => LOG_SKUID,
            "ether" => LOG_ETHER,
            "all" => LOG_ALL,
            _ => return self.unexpected(&[]),
        };
        self.take();
        Ok(flags)
    }

    fn log_tcp_flags(&mut self) -> Parsed<u32> {
        let mut flags = 0;
        loop {
            flags |= match self.word() {
                "sequence" => LOG_TCP_SEQUENCE,
                "options" => LOG_TCP_OPTIONS,
                _ => return self.unexpected(&["seq", "options"]),
            };
            self.take();
            if !self.eat_tok(Tok::Comma) {
                break;
            }
        }
        self.no_keyword_behind()?;
        Ok(flags)
    }

    /// What follows a statement is still read as if it belonged to it: a keyword there begins no further statement.
    fn no_keyword_behind(&mut self) -> Parsed<()> {
        if !self.at_keyword() {
            return Ok(());
        }
        let ends = if self.depth == 0 {
            &["end of file", "newline", "semicolon"][..]
        } else {
            &["newline", "semicolon"]
        };
        self.unexpected(ends)
    }

    /// What `first`, a keyword of the statement, is set to.
    fn written(&mut self, first: &str) -> Parsed<Expr> {
        self.scoped(first, |parser| {
            let expr = parser.target()?;
            parser.no_keyword_behind()?;
            Ok(expr)
        })
    }

    /// A string among which the keywords of the statement are still keywords.
    fn string_but_no_keyword(&mut self) -> Parsed<crate::ast::cmd::Name> {
        self.in_target = true;
        let name = self.string();
        self.in_target = false;
        name
    }

    /// The prefix with what its `$variables` stand for.
    fn log_prefix(&mut self) -> Parsed<Expr> {
        let name = self.string_but_no_keyword()?;
        if !name.text.contains('$') {
            return Ok(Expr::new(ExprKind::String(name.text), name.loc));
        }
        let mut out = String::new();
        let mut rest = &*name.text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let (variable, tail) = rest.split_at(len);
            match self.scope.get(variable).map(|value| &value.kind) {
                Some(ExprKind::Symbol { text, .. } | ExprKind::String(text)) => out.push_str(text),
                Some(_) => return self.error(name.loc, "Value type cannot be used in log prefix"),
                None => {
                    let message = format!("unknown identifier '{variable}'");
                    return self.error(name.loc, message);
                }
            }
            rest = tail;
        }
        out.push_str(rest);
        Ok(Expr::new(ExprKind::String(Arc::from(out)), name.loc))
    }

    fn reject(&mut self) -> Parsed<StmtKind> {
        self.take();
        let mut reject = Reject { kind: None, family: 0, expr: None, code: 0 };
        if !self.eat("with") {
            return Ok(StmtKind::Reject(reject));
        }
        match self.word() {
            "icmp" => (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), 2),
            "icmpv6" => (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), 10),
            "icmpx" => reject.kind = Some(RejectType::IcmpxUnreach),
            "tcp" => {
                self.take();
                self.need("reset")?;
                reject.kind = Some(RejectType::TcpRst);
                return Ok(StmtKind::Reject(reject));
            }
            _ => return self.unexpected(&["icmp", "icmpv6", "tcp", "icmpx"]),
        }
        let scope = if self.at("icmpx") { "reject" } else { "icmp" };
        self.keywords = super::words::keywords_behind(scope);
        self.take();
        let typed = self.eat("type");
        let token = self.peek();
        let number = matches!(token.tok, Tok::Num(_));
        let keyword = super::words::keywords_behind(scope).contains(&self.word());
        let word = matches!(token.tok, Tok::Word | Tok::Str) && self.is_string(token) && !keyword;
        if !number && !word {
            return self.unexpected(if typed {
                &["number", "string"]
            } else {
                &["number", "string", "type"]
            });
        }
        reject.expr = Some(self.symbol_or_number()?);
        Ok(StmtKind::Reject(reject))
    }

    // Others.

    fn synproxy(&mut self) -> Parsed<StmtKind> {
        self.take();
        if self.at("name") {
            return self.object_ref(ObjectType::Synproxy);
        }
        let (mut mss, mut wscale, mut flags) = (0, 0, 0);
        while self.synproxy_option(&mut mss, &mut wscale, &mut flags)? {}
        Ok(StmtKind::Synproxy { mss, wscale, flags })
    }

    /// `flow add @ft`, `flow offload @ft`
    fn flow(&mut self) -> Parsed<StmtKind> {
        self.take();
        if self.at("table") || self.tok() == Tok::LeftBrace {
            let mut name = Arc::from("");
            if self.eat("table") {
                name = self.identifier()?.text;
            }
            return self.meter_block(name, 0);
        }
        if !self.eat("add") && !self.eat("offload") {
            return self.unexpected(&["table"]);
        }
        self.need_tok(Tok::At)?;
        Ok(StmtKind::FlowOffload { table: self.string()?.text })
    }

    fn set_op(&mut self) -> Parsed<DynsetOp> {
        let op = match self.word() {
            "add" => DynsetOp::Add,
            "update" => DynsetOp::Update,
            "delete" => DynsetOp::Delete,
            _ => return self.unexpected(&["add", "update", "delete"]),
        };
        self.take();
        Ok(op)
    }

    /// `set add key @name`, the older order
    fn set_stmt(&mut self) -> Parsed<StmtKind> {
        self.take();
        let op = self.set_op()?;
        let key = self.update_key()?;
        let set = self.set_ref()?;
        self.updates_sets = true;
        Ok(StmtKind::SetUpdate { op, set, key, stmts: Vec::new() })
    }

    /// `add @name { key [statements] [: data] }`
    fn update(&mut self, op: DynsetOp) -> Parsed<StmtKind> {
        let set = self.set_ref()?;
        self.need_tok(Tok::LeftBrace)?;
        let key = self.update_key()?;
        let stmts = self.stateful_stmts()?;
        if self.eat_tok(Tok::Colon) {
            let data = self.map_value()?;
            self.need_tok(Tok::RightBrace)?;
            self.updates_sets = true;
            return Ok(StmtKind::MapUpdate { op, map: set, key, data, stmts });
        }
        if !self.eat_tok(Tok::RightBrace) {
            return self.unexpected(&[]);
        }
        self.updates_sets = true;
        Ok(StmtKind::SetUpdate { op, set, key, stmts })
    }

    fn map_value(&mut self) -> Parsed<Expr> {
        match self.verdict()? {
            Some(verdict) => Ok(verdict),
            None => self.update_key(),
        }
    }

    /// `meter name [size N] { key statement }`
    fn meter(&mut self) -> Parsed<StmtKind> {
        self.take();
        let name = self.identifier()?.text;
        let size = if self.eat("size") {
            self.number_as()?
        } else if self.tok() == Tok::LeftBrace {
            0
        } else {
            return self.unexpected(&["size", "'{'"]);
        };
        self.meter_block(name, size)
    }

    fn meter_block(&mut self, name: Arc<str>, size: u32) -> Parsed<StmtKind> {
        self.need_tok(Tok::LeftBrace)?;
        let key = self.update_key()?;
        let stmt = Box::new(self.deeper(|p| p.stmt())?);
        self.need_tok(Tok::RightBrace)?;
        self.updates_sets = true;
        Ok(StmtKind::Meter { name, size, key, stmt })
    }

    fn xt(&mut self, start: Loc) -> Parsed<StmtKind> {
        self.take();
        self.identifier()?;
        self.identifier()?;
        let loc = self.since(start);
        self.error(loc, "unsupported xtables compat expression, use iptables-nft with this ruleset")
    }
}

fn is_writable(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Meta { .. } | ExprKind::Ct { .. } | ExprKind::Payload(_) => true,
        ExprKind::Exthdr(exthdr) => exthdr.op != ExthdrOp::Ipv6,
        _ => false,
    }
}

/// Bytes. What follows the unit in a word is not looked at, as in nft's `data_unit_parse()`.
fn data_unit(word: &str) -> Option<u64> {
    units::DATA.iter().find(|(unit, _)| word.starts_with(unit)).map(|(_, bytes)| *bytes)
}

/// Syslog levels; 8 is the audit subsystem.
fn log_level(word: &str) -> Option<u32> {
    symbols::LOG_LEVEL.value(word)
}
