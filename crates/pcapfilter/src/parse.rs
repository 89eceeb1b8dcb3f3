// SPDX-License-Identifier: Apache-2.0

//! The grammar. `and` and `or` bind alike, from left to right; `not` binds tighter. An identifier
//! after `and` or `or` has the qualifiers of the one before it.

use std::ops::Range;

use crate::token::{Placed, Token, tokens};
use crate::tree::{
    Arithmetic, Direction, Filter, Id, Kind, Operator, Primitive, Protocol, Qualifiers, Relation,
};
use crate::{Error, Result};

/// Parentheses and signs within each other.
const DEEPEST: usize = 50;

/// The filter of a text; `None` for one without any condition.
pub(crate) fn parse(text: &str) -> Result<Option<Filter>> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    if parser.peek() == &Token::End {
        return Ok(None);
    }
    let (filter, _) = parser.filter(None)?;
    match parser.peek() {
        Token::End => Ok(Some(filter)),
        _ => parser.error("the filter should end here, or continue with `and` or `or`"),
    }
}

struct Parser<'a> {
    tokens: &'a [Placed],
    at: usize,
    depth: usize,
}

/// Qualifiers that an identifier takes over, if there are any.
type Context = Option<Qualifiers>;

const END: Token = Token::End;

impl Parser<'_> {
    fn peek_at(&self, ahead: usize) -> &Token {
        self.tokens.get(self.at + ahead).map_or(&END, |placed| &placed.token)
    }

    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn place(&self) -> Range<usize> {
        let last = self.tokens.last().map_or(0..0, |last| last.at.clone());
        self.tokens.get(self.at).map_or(last, |placed| placed.at.clone())
    }

    /// The bytes from a token to the one before the next.
    fn since(&self, first: usize) -> Range<usize> {
        let start = self.tokens.get(first).map_or(0, |placed| placed.at.start);
        let end = self.at.checked_sub(1).and_then(|last| self.tokens.get(last));
        start..end.map_or(start, |placed| placed.at.end).max(start)
    }

    fn error<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::new(self.place(), why))
    }

    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(found) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(found) if found == word);
        self.at += usize::from(found);
        found
    }

    fn need(&mut self, sign: &str) -> Result<()> {
        match self.sign(sign) {
            true => Ok(()),
            false => self.error(format!("`{sign}` is missing here")),
        }
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEEPEST {
            return self.error("the filter is nested too deeply");
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn and(&mut self) -> bool {
        self.sign("&&") || self.word("and")
    }

    fn or(&mut self) -> bool {
        self.sign("||") || self.word("or")
    }

    fn not(&mut self) -> bool {
        self.sign("!") || self.word("not")
    }

    /// Conditions with `and` and `or`; also the qualifiers of the last of them.
    fn filter(&mut self, context: Context) -> Result<(Filter, Context)> {
        let (mut filter, mut context) = self.term(context)?;
        loop {
            let both = match (self.and(), self.or()) {
                (false, false) => return Ok((filter, context)),
                (both, _) => both,
            };
            let (next, after) = match self.begins_identifier() {
                true => self.identifier_of(context)?,
                false => self.term(context)?,
            };
            context = after;
            filter = match both {
                true => Filter::And(filter.into(), next.into()),
                false => Filter::Or(filter.into(), next.into()),
            };
        }
    }

    /// Whether an identifier without qualifiers follows, with any number of `not` and `(` before it.
    fn begins_identifier(&self) -> bool {
        let mut ahead = 0;
        loop {
            match self.peek_at(ahead) {
                Token::Sign("(" | "!") => ahead += 1,
                Token::Word(word) if word == "not" => ahead += 1,
                Token::V4(..) | Token::V6(_) | Token::Mac(_) | Token::Name(_) => return true,
                Token::Word(word) => return !keyword(word),
                // A relation would have an operator before the next condition.
                Token::Number(_) => {
                    let mut after = ahead + 1;
                    while self.peek_at(after) == &Token::Sign(")") {
                        after += 1;
                    }
                    return match self.peek_at(after) {
                        Token::End | Token::Sign("&&" | "||") => true,
                        Token::Word(word) => word == "and" || word == "or",
                        _ => false,
                    };
                }
                _ => return false,
            }
        }
    }

    fn term(&mut self, context: Context) -> Result<(Filter, Context)> {
        if self.not() {
            let (inner, context) = self.deeper(|parser| parser.term(context))?;
            return Ok((Filter::Not(inner.into()), context));
        }
        let first = self.at;
        if self.peek() == &Token::Sign("(") {
            if self.is_arithmetic() {
                return self.relation();
            }
            self.at += 1;
            let inner = self.deeper(|parser| match parser.begins_identifier() {
                true => parser.identifiers(context),
                false => parser.filter(context),
            })?;
            self.need(")")?;
            return Ok((inner.0, context));
        }
        match self.peek().clone() {
            Token::Number(_) | Token::Sign("-") => self.relation(),
            Token::Word(word) => self.word_term(&word, first),
            Token::V4(..) | Token::V6(_) | Token::Mac(_) | Token::Name(_) => {
                self.error("say what this is: `host`, `net`, `port`, `src`, …")
            }
            Token::End => self.error("a condition is missing at the end"),
            Token::Sign(_) => self.error("a condition should begin here"),
        }
    }

    /// Whether the parenthesis that opens here is one of arithmetic: what follows the one that closes
    /// it is an operator.
    fn is_arithmetic(&self) -> bool {
        let (mut ahead, mut open) = (0, 0usize);
        loop {
            match self.peek_at(ahead) {
                Token::Sign("(" | "[") => open += 1,
                Token::Sign(")" | "]") => open = open.saturating_sub(1),
                Token::End => return false,
                Token::Word(word) if matches!(&**word, "and" | "or" | "not") => return false,
                Token::Sign("&&" | "||" | "!") => return false,
                _ => {}
            }
            ahead += 1;
            if open == 0 {
                break;
            }
        }
        match self.peek_at(ahead) {
            Token::Sign("%" | "^") => true,
            Token::Sign(sign) => relation(sign).is_some() || operator(sign).is_some(),
            _ => false,
        }
    }

    fn word_term(&mut self, word: &str, first: usize) -> Result<(Filter, Context)> {
        if let Some(why) = refused(word) {
            return self.error(why);
        }
        if word == "len" {
            return self.relation();
        }
        let whole = |parser: &Self, primitive| {
            Ok((Filter::Primitive(primitive, parser.since(first)), None))
        };
        match word {
            "vlan" | "mpls" | "pppoes" => {
                self.at += 1;
                let number = match self.peek() {
                    Token::Number(number) => Some(*number),
                    _ => None,
                };
                self.at += usize::from(number.is_some());
                return whole(
                    self,
                    match word {
                        "vlan" => Primitive::Vlan(number),
                        "mpls" => Primitive::Mpls(number),
                        _ => Primitive::PppoeSession(number),
                    },
                );
            }
            "pppoed" => {
                self.at += 1;
                return whole(self, Primitive::PppoeDiscovery);
            }
            "greater" | "less" => {
                self.at += 1;
                let Token::Number(number) = *self.peek() else {
                    return self.error("a length in bytes is missing here");
                };
                self.at += 1;
                return whole(
                    self,
                    if word == "less" {
                        Primitive::Less(number)
                    } else {
                        Primitive::Greater(number)
                    },
                );
            }
            "multicast" => {
                self.at += 1;
                return whole(self, Primitive::Multicast(Protocol::Default));
            }
            "broadcast" => {
                self.at += 1;
                return whole(self, Primitive::Broadcast(Protocol::Default));
            }
            _ => {}
        }
        let protocol = protocol(word);
        if let Some(protocol) = protocol {
            if self.peek_at(1) == &Token::Sign("[") {
                return self.relation();
            }
            self.at += 1;
            if self.word("multicast") {
                return whole(self, Primitive::Multicast(protocol));
            }
            if self.word("broadcast") {
                return whole(self, Primitive::Broadcast(protocol));
            }
        }
        let direction = self.direction();
        let kind = self.kind()?;
        let protocol = match (protocol, direction, kind) {
            (None, None, None) => {
                return self
                    .error(format!("`{word}` is no condition; names of hosts are not looked up"));
            }
            (Some(protocol), None, None) => {
                return whole(self, Primitive::Protocol(protocol));
            }
            (protocol, ..) => protocol.unwrap_or(Protocol::Default),
        };
        let qualifiers = Qualifiers {
            protocol,
            direction: direction.unwrap_or(Direction::Default),
            kind: kind.unwrap_or(Kind::Default),
        };
        self.identifier_of(Some(qualifiers))
    }

    fn direction(&mut self) -> Option<Direction> {
        let one = |parser: &mut Self| match parser.peek() {
            Token::Word(word) if word == "src" => Some(Direction::Source),
            Token::Word(word) if word == "dst" => Some(Direction::Destination),
            _ => None,
        };
        let first = one(self)?;
        self.at += 1;
        let start = self.at;
        let both = self.and();
        if both || self.or() {
            // `src host A and dst host B` has the word after the address.
            if one(self).is_some_and(|second| second != first) {
                self.at += 1;
                return Some(if both { Direction::Both } else { Direction::Either });
            }
            self.at = start;
        }
        Some(first)
    }

    fn kind(&mut self) -> Result<Option<Kind>> {
        let Token::Word(word) = self.peek() else { return Ok(None) };
        let kind = match &**word {
            "host" => Kind::Host,
            "net" => Kind::Net,
            "port" => Kind::Port,
            "portrange" => Kind::PortRange,
            "proto" => Kind::Protocol,
            word => {
                return match refused(word) {
                    Some(why) => self.error(why),
                    None => Ok(None),
                };
            }
        };
        self.at += 1;
        Ok(Some(kind))
    }

    /// One identifier, or several in parentheses.
    fn identifier_of(&mut self, context: Context) -> Result<(Filter, Context)> {
        let first = self.at;
        if self.not() {
            let (inner, context) = self.deeper(|parser| parser.identifier_of(context))?;
            return Ok((Filter::Not(inner.into()), context));
        }
        if self.sign("(") {
            let inner = self.deeper(|parser| parser.identifiers(context))?;
            self.need(")")?;
            return Ok(inner);
        }
        let Some(qualifiers) = context else {
            return self.error("say what this is: `host`, `net`, `port`, `src`, …");
        };
        let id = self.id()?;
        Ok((Filter::Primitive(Primitive::Of(qualifiers, id), self.since(first)), context))
    }

    /// Identifiers with `and` and `or` within parentheses, which whole conditions may follow.
    fn identifiers(&mut self, context: Context) -> Result<(Filter, Context)> {
        let (mut filter, mut context) = self.identifier_of(context)?;
        loop {
            let both = match (self.and(), self.or()) {
                (false, false) => return Ok((filter, context)),
                (both, _) => both,
            };
            let (next, after) = match self.begins_identifier() {
                true => self.identifier_of(context)?,
                false => self.term(context)?,
            };
            context = after;
            filter = match both {
                true => Filter::And(filter.into(), next.into()),
                false => Filter::Or(filter.into(), next.into()),
            };
        }
    }

    fn id(&mut self) -> Result<Id> {
        let found = self.peek().clone();
        let place = self.place();
        let id = match found {
            Token::Number(number) => Id::Number(number),
            Token::V4(value, bits) => Id::V4(value, bits),
            Token::V6(address) => Id::V6(address, 128),
            Token::Mac(address) => Id::Mac(address),
            Token::Name(name) => Id::Name(name),
            Token::Word(word) if !keyword(&word) => Id::Name(word),
            Token::Word(word) => {
                return self.error(format!(
                    "an address, a number or a name is missing here; the name of a protocol is written \\{word}"
                ));
            }
            _ => return self.error("an address, a number or a name is missing here"),
        };
        self.at += 1;
        let four = match id {
            // `net 10/8`
            Id::Number(number) if number < 256 => Some((number, 8)),
            Id::V4(value, bits) => Some((value, bits)),
            _ => None,
        };
        if self.sign("/") {
            let Token::Number(bits) = *self.peek() else {
                return self.error("a number of bits is missing here");
            };
            self.at += 1;
            return match (id, four) {
                (_, Some((value, have))) if bits <= 32 => {
                    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                    Ok(Id::Net4(value, have, mask))
                }
                (Id::V6(address, _), _) if bits <= 128 => Ok(Id::V6(address, bits)),
                _ => Err(Error::new(place, "this cannot have so many bits of a network")),
            };
        }
        if self.word("mask") {
            let (Some((value, have)), Token::V4(mask, bits)) = (four, self.peek().clone()) else {
                return self.error("a mask with points follows an IPv4 address");
            };
            self.at += 1;
            return Ok(Id::Net4(value, have, mask.checked_shl(32 - bits).unwrap_or(0)));
        }
        Ok(id)
    }

    fn relation(&mut self) -> Result<(Filter, Context)> {
        let first = self.at;
        let left = self.arithmetic(0)?;
        let found = match self.peek() {
            Token::Sign(sign) => relation(sign),
            _ => None,
        };
        let Some(found) = found else {
            return self.error("a comparison is missing here: =, !=, <, <=, > or >=");
        };
        self.at += 1;
        let right = self.arithmetic(0)?;
        let primitive = Primitive::Relation(found, left, right);
        Ok((Filter::Primitive(primitive, self.since(first)), None))
    }

    fn arithmetic(&mut self, least: u8) -> Result<Arithmetic> {
        self.deeper(|parser| {
            let first = parser.at;
            let mut left = parser.operand()?;
            loop {
                let next = match parser.peek() {
                    Token::Sign(sign) => operator(sign),
                    _ => None,
                };
                let Some((operator, binds)) = next.filter(|next| next.1 >= least) else {
                    return Ok(left);
                };
                parser.at += 1;
                let right = parser.arithmetic(binds + 1)?;
                let at = parser.since(first);
                left = Arithmetic::Operation(operator, left.into(), right.into(), at);
            }
        })
    }

    /// A number, a field, or something in parentheses. `%` and `^` have no rank in libpcap's grammar:
    /// they take the operand before them, and all that follows.
    fn operand(&mut self) -> Result<Arithmetic> {
        let first = self.at;
        let operand = self.plain_operand()?;
        let operator = match self.peek() {
            Token::Sign("%") => Operator::Modulo,
            Token::Sign("^") => Operator::Xor,
            _ => return Ok(operand),
        };
        self.at += 1;
        let right = self.arithmetic(0)?;
        Ok(Arithmetic::Operation(operator, operand.into(), right.into(), self.since(first)))
    }

    fn plain_operand(&mut self) -> Result<Arithmetic> {
        let first = self.at;
        if self.sign("-") {
            let inner = self.deeper(Self::operand)?;
            return Ok(Arithmetic::Negative(inner.into()));
        }
        if self.sign("(") {
            let inner = self.arithmetic(0)?;
            self.need(")")?;
            return Ok(inner);
        }
        match self.peek().clone() {
            Token::Number(number) => {
                self.at += 1;
                Ok(Arithmetic::Number(number))
            }
            Token::Word(word) if word == "len" => {
                self.at += 1;
                Ok(Arithmetic::Length)
            }
            Token::Word(word) => {
                let Some(protocol) = protocol(&word) else {
                    return self
                        .error("a number, a field such as `ip[0]`, or `len` is missing here");
                };
                self.at += 1;
                self.need("[")?;
                let index = self.arithmetic(0)?;
                let mut size = 1;
                if self.sign(":") {
                    size = match *self.peek() {
                        Token::Number(1) => 1,
                        Token::Number(2) => 2,
                        Token::Number(4) => 4,
                        _ => return self.error("a field has 1, 2 or 4 bytes"),
                    };
                    self.at += 1;
                }
                self.need("]")?;
                let at = self.since(first);
                Ok(Arithmetic::Load { protocol, index: index.into(), size, at })
            }
            _ => self.error("a number, a field such as `ip[0]`, or `len` is missing here"),
        }
    }
}

fn relation(sign: &str) -> Option<Relation> {
    Some(match sign {
        "=" => Relation::Equal,
        "!=" => Relation::NotEqual,
        ">" => Relation::Greater,
        ">=" => Relation::GreaterOrEqual,
        "<" => Relation::Less,
        "<=" => Relation::LessOrEqual,
        _ => return None,
    })
}

/// An operator and how tight it binds.
fn operator(sign: &str) -> Option<(Operator, u8)> {
    Some(match sign {
        "|" => (Operator::Or, 0),
        "&" => (Operator::And, 1),
        "<<" => (Operator::ShiftLeft, 2),
        ">>" => (Operator::ShiftRight, 2),
        "+" => (Operator::Add, 3),
        "-" => (Operator::Subtract, 3),
        "*" => (Operator::Multiply, 4),
        "/" => (Operator::Divide, 4),
        _ => return None,
    })
}

fn protocol(word: &str) -> Option<Protocol> {
    Some(match word {
        "ether" | "link" => Protocol::Link,
        "ip" => Protocol::Ip,
        "arp" => Protocol::Arp,
        "rarp" => Protocol::Rarp,
        "ip6" => Protocol::Ip6,
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        "icmp" => Protocol::Icmp,
        "icmp6" => Protocol::Icmp6,
        "igmp" => Protocol::Igmp,
        "igrp" => Protocol::Igrp,
        "pim" => Protocol::Pim,
        "vrrp" => Protocol::Vrrp,
        "carp" => Protocol::Carp,
        "ah" => Protocol::Ah,
        "esp" => Protocol::Esp,
        _ => return None,
    })
}

/// Why a word of the language has no translation.
fn refused(word: &str) -> Option<&'static str> {
    Some(match word {
        "gateway" => "`gateway` needs names of hosts, which are not looked up",
        "protochain" => "`protochain` needs loops, which classic BPF has not",
        "inbound" | "outbound" | "ifindex" => {
            "the direction and the device are no part of a packet; use `meta` in the rule"
        }
        "ifname" | "on" | "rnr" | "rulenum" | "reason" | "rset" | "ruleset" | "srnr"
        | "subrulenum" | "action" => "what pf logs is no part of a packet here",
        "wlan" | "fddi" | "tr" | "ppp" | "slip" | "radio" | "type" | "subtype" | "dir"
        | "addr1" | "addr2" | "addr3" | "addr4" | "ra" | "ta" => {
            "conditions on other links than Ethernet are not known here"
        }
        "atalk" | "aarp" | "decnet" | "lat" | "sca" | "moprc" | "mopdl" | "iso" | "esis"
        | "isis" | "clnp" | "stp" | "ipx" | "netbeui" | "llc" | "l1" | "l2" | "iih" | "lsp"
        | "snp" | "csnp" | "psnp" => {
            "this protocol is not known here; compare fields: `ether[12:2] = …`"
        }
        "vpi" | "vci" | "lane" | "oam" | "oamf4" | "connectmsg" | "metaconnect" | "bcc" | "sc"
        | "ilmic" | "fisu" | "lssu" | "lsu" | "msu" | "hfisu" | "hlssu" | "hmsu" | "sio"
        | "opc" | "dpc" | "sls" => "conditions on ATM and SS7 are not known here",
        "geneve" => "what is within a tunnel of Geneve is not known here",
        _ => return None,
    })
}

fn keyword(word: &str) -> bool {
    let more = [
        "and",
        "or",
        "not",
        "src",
        "dst",
        "host",
        "net",
        "port",
        "portrange",
        "proto",
        "mask",
        "len",
        "less",
        "greater",
        "vlan",
        "mpls",
        "pppoes",
        "pppoed",
        "multicast",
        "broadcast",
    ];
    more.contains(&word) || protocol(word).is_some() || refused(word).is_some()
}
