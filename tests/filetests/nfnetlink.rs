// SPDX-License-Identifier: Apache-2.0

//! Programs for the kernel as they are (`nf_tables` over netlink), for rules that its nft does not
//! know.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use penstock_program::expr::*;
use penstock_program::{Expr, Register, Verdict};

const DELTABLE: u16 = 10 << 8 | 2;
const NEWRULE: u16 = 10 << 8 | 6;
const GETRULE: u16 = 10 << 8 | 7;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

const TABLE_NAME: u16 = 1;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const LIST_ELEM: u16 = 1;
const EXPR_NAME: u16 = 1;
const EXPR_DATA: u16 = 2;
const NESTED: u16 = 1 << 15;

const HEADER: usize = 16;
const GENMSG: usize = 4;

/// Consecutive attributes.
#[derive(Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn put(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(self, kind: u16, value: impl Into<u32>) -> Self {
        self.put(kind, &value.into().to_be_bytes())
    }

    fn text(self, kind: u16, value: &str) -> Self {
        self.put(kind, &[value.as_bytes(), &[0]].concat())
    }

    fn nest(self, kind: u16, inner: Attributes) -> Self {
        self.put(kind | NESTED, &inner.0)
    }

    /// `NFTA_DATA_VALUE`
    fn value(self, kind: u16, bytes: &[u8]) -> Self {
        self.nest(kind, Attributes::default().put(1, bytes))
    }
}

/// The attributes of an expression; `None` for those that no test sends.
fn encoded(expr: &Expr) -> Option<Attributes> {
    let new = Attributes::default();
    let register = |r: Register| u32::from(r.0);
    Some(match expr {
        Expr::Payload(x) => new
            .number(1, register(x.dreg))
            .number(2, x.base as u32)
            .number(3, x.offset)
            .number(4, x.len),
        Expr::PayloadSet(x) => new
            .number(2, x.base as u32)
            .number(3, x.offset)
            .number(4, x.len)
            .number(5, register(x.sreg))
            .number(6, x.csum_type as u32)
            .number(7, x.csum_offset)
            .number(8, x.csum_flags),
        Expr::Cmp(x) => {
            new.number(1, register(x.sreg)).number(2, x.op as u32).value(3, x.data.bytes())
        }
        Expr::Meta(x) => new.number(1, register(x.dreg)).number(2, x.key as u32),
        Expr::MetaSet(x) => new.number(2, x.key as u32).number(3, register(x.sreg)),
        Expr::Ct(Ct { key, dir: None, dreg }) => {
            new.number(1, register(*dreg)).number(2, *key as u32)
        }
        Expr::CtSet(CtSet { key, dir: None, sreg }) => {
            new.number(2, *key as u32).number(4, register(*sreg))
        }
        Expr::Byteorder(x) => new
            .number(1, register(x.sreg))
            .number(2, register(x.dreg))
            .number(3, x.op as u32)
            .number(4, x.len)
            .number(5, x.size),
        Expr::Bitwise(x) => {
            let head = new.number(1, register(x.sreg)).number(2, register(x.dreg)).number(3, x.len);
            match &x.op {
                BitwiseOp::MaskXor { mask, xor } => {
                    head.number(6, 0u32).value(4, mask.bytes()).value(5, xor.bytes())
                }
                BitwiseOp::Lshift(bits) => head.number(6, 1u32).value(7, &bits.to_ne_bytes()),
                BitwiseOp::Rshift(bits) => head.number(6, 2u32).value(7, &bits.to_ne_bytes()),
                BitwiseOp::Combine(op, other) => {
                    let op = match op {
                        BoolOp::And => 3u32,
                        BoolOp::Or => 4,
                        BoolOp::Xor => 5,
                    };
                    head.number(6, op).number(8, register(*other))
                }
            }
        }
        Expr::Immediate(Immediate { dreg, data: ImmediateData::Value(data) }) => {
            new.number(1, register(*dreg)).value(2, data.bytes())
        }
        Expr::Immediate(Immediate { dreg, data: ImmediateData::Verdict(verdict) }) => {
            let code = match verdict {
                Verdict::Drop => 0u32,
                Verdict::Accept => 1,
                _ => return None,
            };
            let verdict = Attributes::default().number(1, code);
            new.number(1, register(*dreg)).nest(2, Attributes::default().nest(2, verdict))
        }
        Expr::Inner(x) => new
            .number(1, 0u32)
            .number(2, x.kind)
            .number(3, x.flags)
            .number(4, x.hdrsize)
            .nest(5, named(&x.expr)?),
        Expr::Counter(_) => new,
        Expr::Fib(x) => {
            new.number(1, register(x.dreg)).number(2, x.result as u32 + 1).number(3, x.flags)
        }
        Expr::Exthdr(x) => new
            .number(1, register(x.dreg))
            .put(2, &[x.kind])
            .number(3, x.offset)
            .number(4, x.len)
            .number(5, u32::from(x.present))
            .number(6, x.op as u32),
        // Named sets only.
        Expr::Lookup(x) => {
            let head =
                new.text(1, &x.set).number(2, register(x.sreg)).number(5, u32::from(x.inverse));
            match x.dreg {
                Some(dreg) => head.number(3, register(dreg)),
                None => head,
            }
        }
        _ => return None,
    })
}

/// An expression with its name; `None` for those that no test sends.
fn named(expr: &Expr) -> Option<Attributes> {
    let data = encoded(expr)?;
    Some(Attributes::default().text(EXPR_NAME, expr.name()).nest(EXPR_DATA, data))
}

/// `struct nlmsghdr` and `struct nfgenmsg` in front of attributes.
fn message(
    kind: u16,
    flags: i32,
    sequence: u32,
    family: u8,
    id: u16,
    attributes: &[u8],
) -> Vec<u8> {
    let mut message = Vec::new();
    message.extend(((HEADER + GENMSG + attributes.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend([0; 4]);
    message.extend([family, 0]);
    message.extend(id.to_be_bytes());
    message.extend(attributes);
    message
}

/// A connection to the `nf_tables` of the namespace that the calling thread was in.
pub struct Socket(OwnedFd);

impl Socket {
    pub fn new() -> io::Result<Socket> {
        // SAFETY: socket takes no pointer.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let socket = Socket(fd);
        socket.option(libc::SO_RCVTIMEO, libc::timeval { tv_sec: 10, tv_usec: 0 })?;
        socket.option::<libc::c_int>(libc::SO_SNDBUFFORCE, 16 << 20)?;
        Ok(socket)
    }

    fn option<T>(&self, name: libc::c_int, value: T) -> io::Result<()> {
        let length = std::mem::size_of::<T>() as libc::socklen_t;
        let at = std::ptr::from_ref(&value).cast();
        // SAFETY: the pointer and the length are those of a value that outlives the call.
        match unsafe { libc::setsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, name, at, length) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of a slice that outlives the call.
        match unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) } {
            n if n as usize == bytes.len() => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The messages of one datagram: kind and what follows the header.
    fn receive(&self) -> io::Result<Vec<(u16, Vec<u8>)>> {
        let mut buffer = vec![0u8; 64 << 10];
        // SAFETY: the pointer and the length are those of a buffer that outlives the call.
        let n =
            unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let mut rest = match usize::try_from(n) {
            Ok(n) => &buffer[..n],
            Err(_) => return Err(io::Error::last_os_error()),
        };
        let mut found = Vec::new();
        while let Some(head) = rest.first_chunk::<HEADER>() {
            let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            if length < HEADER || length > rest.len() {
                break;
            }
            found.push((u16::from_ne_bytes([head[4], head[5]]), rest[HEADER..length].to_vec()));
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
        Ok(found)
    }

    /// Appends rules to a chain, all or none. The error is that of the first refused one.
    pub fn add_rules(
        &self,
        family: u8,
        table: &str,
        chain: &str,
        rules: &[&[Expr]],
    ) -> Result<(), String> {
        let mut messages = Vec::new();
        for (number, exprs) in (1..).zip(rules) {
            let mut list = Attributes::default();
            for expr in *exprs {
                let expr = named(expr).ok_or_else(|| format!("{expr}: not sent as it is"))?;
                list = list.nest(LIST_ELEM, expr);
            }
            let rule = Attributes::default().text(RULE_TABLE, table).text(RULE_CHAIN, chain);
            let rule = rule.nest(RULE_EXPRESSIONS, list);
            let answer = if number as usize == rules.len() { libc::NLM_F_ACK } else { 0 };
            let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND | answer;
            messages.push(message(NEWRULE, flags, number, family, 0, &rule.0));
        }
        self.commit(&messages)
    }

    /// Deletes a table with all that is in it. nft would not even list it with rules that it does
    /// not know.
    pub fn delete_table(&self, family: u8, table: &str) -> Result<(), String> {
        let name = Attributes::default().text(TABLE_NAME, table);
        self.commit(&[message(DELTABLE, libc::NLM_F_ACK, 1, family, 0, &name.0)])
    }

    /// Sends messages, the last of which asks for an answer, as one transaction.
    fn commit(&self, messages: &[Vec<u8>]) -> Result<(), String> {
        let text = |e: io::Error| e.to_string();
        let mut batch = message(BATCH_BEGIN, 0, 0, 0, 10, &[]);
        batch.extend(messages.concat());
        batch.extend(message(BATCH_END, 0, 0, 0, 10, &[]));
        self.send(&batch).map_err(text)?;
        let answers = if messages.is_empty() { vec![] } else { self.receive().map_err(text)? };
        for (kind, body) in answers {
            let code = body.first_chunk::<4>().map_or(0, |b| i32::from_ne_bytes(*b));
            if i32::from(kind) == libc::NLMSG_ERROR && code != 0 {
                // A refused message is returned as it was sent, with its number in the header.
                let number =
                    body.get(12..16).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
                return Err(format!("message {number}: {}", io::Error::from_raw_os_error(-code)));
            }
        }
        Ok(())
    }

    /// What the rules of a chain have counted, packets and bytes of each rule's first counter.
    pub fn counted(
        &self,
        family: u8,
        table: &str,
        chain: &str,
    ) -> io::Result<Vec<Option<(u64, u64)>>> {
        let which = Attributes::default().text(RULE_TABLE, table).text(RULE_CHAIN, chain);
        self.send(&message(GETRULE, libc::NLM_F_DUMP, 1, family, 0, &which.0))?;
        let mut rules = Vec::new();
        loop {
            for (kind, body) in self.receive()? {
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(rules),
                    libc::NLMSG_ERROR => return Err(io::Error::other("the rules are not told")),
                    _ => rules.push(body.get(GENMSG..).and_then(counter)),
                }
            }
        }
    }
}

/// The attributes in some bytes.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = bytes.get(4..length)?;
        let kind = u16::from_ne_bytes([head[2], head[3]]) & !NESTED;
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        Some((kind, value))
    })
}

/// The first counter among the expressions of a rule.
fn counter(rule: &[u8]) -> Option<(u64, u64)> {
    let get = |bytes, kind| attributes(bytes).find(|(k, _)| *k == kind).map(|(_, value)| value);
    let number = |bytes: &[u8]| bytes.first_chunk::<8>().map(|b| u64::from_be_bytes(*b));
    let mut exprs = attributes(get(rule, RULE_EXPRESSIONS)?);
    let (_, counter) = exprs.find(|(_, expr)| get(expr, EXPR_NAME) == Some(b"counter\0"))?;
    let data = get(counter, EXPR_DATA)?;
    Some((number(get(data, 2)?)?, number(get(data, 1)?)?))
}
