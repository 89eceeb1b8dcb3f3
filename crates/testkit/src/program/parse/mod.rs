// SPDX-License-Identifier: Apache-2.0

//! The debug text back into expressions, for tests: what [`Expr`] prints for the expressions that
//! the path runs.
//!
//! The text does not say how long constants are, so a comparison, mask or range is as long as what
//! was last written into its register, and a constant in a register has whole words.

mod connections;

use std::collections::HashMap;
use std::fmt;
use std::str::SplitWhitespace;
use std::sync::Arc;

use penstock_program::expr::*;
use penstock_program::{Data, Family, Register, Verdict};

/// A line that is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line.
    pub line: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// Parses the program of a rule: one expression in brackets per line, empty lines left out.
pub fn program(text: &str) -> Result<Vec<Expr>, ParseError> {
    let mut widths = Widths::default();
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    lines
        .map(|line| {
            let error = |reason| ParseError { line: line.to_string(), reason };
            let inside = line
                .strip_prefix('[')
                .and_then(|l| l.strip_suffix(']'))
                .ok_or(error("no brackets"))?;
            // Brackets and commas of the text are no words.
            let inside = inside.replace(['(', ')', ','], " ");
            let mut words = Words { words: inside.split_whitespace(), widths: &widths };
            let expr = words.expr().map_err(error)?;
            if words.words.next().is_some() {
                return Err(error("too many words"));
            }
            expr.uses(Family::Inet, &mut |access| {
                if let Use::Write(register, Width::Bytes(len)) = access {
                    widths.0.insert(register, len as usize);
                }
            });
            Ok(expr)
        })
        .collect()
}

/// Bytes last written into each register.
#[derive(Default)]
struct Widths(HashMap<Register, usize>);

struct Words<'a> {
    words: SplitWhitespace<'a>,
    widths: &'a Widths,
}

type Parsed<T> = Result<T, &'static str>;

impl<'a> Words<'a> {
    fn word(&mut self) -> Parsed<&'a str> {
        self.words.next().ok_or("too few words")
    }

    fn expect(&mut self, word: &str) -> Parsed<()> {
        if self.word()? == word { Ok(()) } else { Err("another word is expected") }
    }

    /// Whether the next word is this one, which is then taken.
    fn next_is(&mut self, word: &str) -> bool {
        let mut ahead = self.words.clone();
        let is = ahead.next() == Some(word);
        if is {
            self.words = ahead;
        }
        is
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Parsed<T> {
        number(self.word()?)
    }

    fn register(&mut self) -> Parsed<Register> {
        self.expect("reg")?;
        Ok(Register(self.number()?))
    }

    /// `=> reg 1`
    fn target(&mut self) -> Parsed<Register> {
        self.expect("=>")?;
        self.register()
    }

    /// Words in hexadecimal, cut to what the register holds.
    fn data(&mut self, register: Register) -> Parsed<Data> {
        let len = self.widths.0.get(&register).copied().unwrap_or(4);
        let mut data = self.whole_words(len.div_ceil(4))?;
        data.truncate(len);
        Ok(data.into())
    }

    fn whole_words(&mut self, most: usize) -> Parsed<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < most * 4 {
            let mut ahead = self.words.clone();
            let Some(digits) = ahead.next().and_then(|w| w.strip_prefix("0x")) else { break };
            let word = u32::from_str_radix(digits, 16).map_err(|_| "not a number")?;
            bytes.extend(word.to_ne_bytes());
            self.words = ahead;
        }
        if bytes.is_empty() { Err("a constant is expected") } else { Ok(bytes) }
    }

    fn expr(&mut self) -> Parsed<Expr> {
        Ok(match self.word()? {
            "immediate" => self.immediate()?,
            "payload" => self.payload()?,
            "inner" => self.inner()?,
            "meta" => self.meta()?,
            "cmp" => self.cmp()?,
            "range" => self.range()?,
            "bitwise" => self.bitwise()?,
            "byteorder" => self.byteorder()?,
            "lookup" => self.lookup()?,
            "objref" => self.objref()?,
            "counter" => self.counter()?,
            "limit" => self.limit()?,
            "quota" => self.quota()?,
            "last" => self.last()?,
            "log" => self.log()?,
            "exthdr" => self.exthdr()?,
            "numgen" => self.numgen()?,
            "hash" => self.hash()?,
            "fib" => self.fib()?,
            "rt" => self.rt()?,
            "reject" => self.reject()?,
            "dup" => self.dup()?,
            "fwd" => self.fwd()?,
            "notrack" => Expr::Notrack(Notrack),
            "ct" => self.ct()?,
            "nat" => self.nat()?,
            "masq" => self.masq()?,
            "redir" => self.redir()?,
            "queue" => self.queue()?,
            "tproxy" => self.tproxy()?,
            "socket" => self.socket()?,
            "xfrm" => self.xfrm()?,
            "tunnel" => self.tunnel()?,
            _ => return Err("an expression that is not parsed"),
        })
    }

    fn inner(&mut self) -> Parsed<Expr> {
        self.expect("type")?;
        let kind = self.number()?;
        self.expect("hdrsize")?;
        let hdrsize = self.number()?;
        self.expect("flags")?;
        let flags = u32::from_str_radix(self.word()?, 16).map_err(|_| "flags are hexadecimal")?;
        self.expect("[")?;
        let expr = Box::new(self.expr()?);
        self.expect("]")?;
        Ok(Expr::Inner(Inner { kind, hdrsize, flags, expr }))
    }

    fn meta(&mut self) -> Parsed<Expr> {
        Ok(match self.word()? {
            "load" => Expr::Meta(Meta { key: meta_key(self.word()?)?, dreg: self.target()? }),
            "set" => {
                let key = meta_key(self.word()?)?;
                self.expect("with")?;
                Expr::MetaSet(MetaSet { key, sreg: self.register()? })
            }
            _ => return Err("load or set is expected"),
        })
    }

    fn cmp(&mut self) -> Parsed<Expr> {
        let (op, sreg) = (cmp_op(self.word()?)?, self.register()?);
        Ok(Expr::Cmp(Cmp { op, sreg, data: self.data(sreg)? }))
    }

    fn range(&mut self) -> Parsed<Expr> {
        let (op, sreg) = (cmp_op(self.word()?)?, self.register()?);
        Ok(Expr::Range(Range { op, sreg, from: self.data(sreg)?, to: self.data(sreg)? }))
    }

    fn byteorder(&mut self) -> Parsed<Expr> {
        let dreg = self.register()?;
        self.expect("=")?;
        let op = match self.word()? {
            "ntoh" => ByteorderOp::Ntoh,
            "hton" => ByteorderOp::Hton,
            _ => return Err("ntoh or hton is expected"),
        };
        let (sreg, size, len) = (self.register()?, self.number()?, self.number()?);
        Ok(Expr::Byteorder(Byteorder { op, sreg, dreg, len, size }))
    }

    fn lookup(&mut self) -> Parsed<Expr> {
        let sreg = self.register()?;
        self.expect("set")?;
        let set = self.word()?.into();
        let dreg = if self.next_is("dreg") { Some(Register(self.number()?)) } else { None };
        Ok(Expr::Lookup(Lookup { set, sreg, dreg, inverse: self.next_is("0x1") }))
    }

    fn objref(&mut self) -> Parsed<Expr> {
        if self.next_is("sreg") {
            let sreg = Register(self.number()?);
            self.expect("set")?;
            return Ok(Expr::Objref(Objref::Map { sreg, set: self.word()?.into() }));
        }
        self.expect("type")?;
        let kind = match self.word()? {
            "1" => ObjectType::Counter,
            "2" => ObjectType::Quota,
            "4" => ObjectType::Limit,
            _ => return Err("an object that the path cannot run"),
        };
        self.expect("name")?;
        Ok(Expr::Objref(Objref::Named { kind, name: self.word()?.into() }))
    }

    fn counter(&mut self) -> Parsed<Expr> {
        self.expect("pkts")?;
        let packets = self.number()?;
        self.expect("bytes")?;
        Ok(Expr::Counter(Counter { packets, bytes: self.number()? }))
    }

    fn quota(&mut self) -> Parsed<Expr> {
        self.expect("bytes")?;
        let bytes = self.number()?;
        self.expect("consumed")?;
        let consumed = self.number()?;
        self.expect("flags")?;
        let flags: u32 = self.number()?;
        Ok(Expr::Quota(Quota { bytes, consumed, over: flags & 1 != 0, depleted: flags & 2 != 0 }))
    }

    fn last(&mut self) -> Parsed<Expr> {
        Ok(match self.word()? {
            "never" => Expr::Last(Last::default()),
            msecs => Expr::Last(Last { set: true, msecs: number(msecs)? }),
        })
    }

    fn numgen(&mut self) -> Parsed<Expr> {
        let dreg = self.register()?;
        self.expect("=")?;
        let mode = match self.word()? {
            "inc" => NumgenMode::Inc,
            "random" => NumgenMode::Random,
            _ => return Err("inc or random is expected"),
        };
        self.expect("mod")?;
        let modulus = self.number()?;
        Ok(Expr::Numgen(Numgen { mode, modulus, offset: self.offset()?, dreg }))
    }

    fn rt(&mut self) -> Parsed<Expr> {
        self.expect("load")?;
        let key = match self.word()? {
            "classid" => RtKey::Classid,
            "nexthop4" => RtKey::Nexthop4,
            "nexthop6" => RtKey::Nexthop6,
            "tcpmss" => RtKey::TcpMss,
            "ipsec" => RtKey::Xfrm,
            _ => return Err("no key of a route"),
        };
        Ok(Expr::Rt(Rt { key, dreg: self.target()? }))
    }

    fn reject(&mut self) -> Parsed<Expr> {
        self.expect("type")?;
        let kind = match self.word()? {
            "0" => RejectType::IcmpUnreach,
            "1" => RejectType::TcpRst,
            "2" => RejectType::IcmpxUnreach,
            _ => return Err("no type of reject"),
        };
        self.expect("code")?;
        Ok(Expr::Reject(Reject { kind, code: self.number()? }))
    }

    fn dup(&mut self) -> Parsed<Expr> {
        let addr = if self.next_is("sreg_addr") { Some(Register(self.number()?)) } else { None };
        let dev = if self.next_is("sreg_dev") { Some(Register(self.number()?)) } else { None };
        Ok(Expr::Dup(Dup { addr, dev }))
    }

    fn fwd(&mut self) -> Parsed<Expr> {
        self.expect("sreg_dev")?;
        let dev = Register(self.number()?);
        if !self.next_is("sreg_addr") {
            return Ok(Expr::Fwd(Fwd { dev, addr: None, nfproto: 0 }));
        }
        let addr = Some(Register(self.number()?));
        self.expect("nfproto")?;
        Ok(Expr::Fwd(Fwd { dev, addr, nfproto: self.number()? }))
    }

    fn immediate(&mut self) -> Parsed<Expr> {
        let dreg = self.register()?;
        if dreg != Register::VERDICT {
            return Ok(Expr::Immediate(Immediate {
                dreg,
                data: ImmediateData::Value(self.whole_words(4)?.into()),
            }));
        }
        let word = self.word()?;
        let chain = if self.next_is("->") { Arc::from(self.word()?) } else { Arc::from("") };
        let verdict = match word {
            "accept" => Verdict::Accept,
            "drop" => Verdict::Drop,
            "queue" => Verdict::Queue,
            "continue" => Verdict::Continue,
            "break" => Verdict::Break,
            "return" => Verdict::Return,
            "jump" => Verdict::Jump(chain),
            "goto" => Verdict::Goto(chain),
            _ => return Err("no verdict"),
        };
        Ok(Expr::Immediate(Immediate { dreg, data: ImmediateData::Verdict(verdict) }))
    }

    fn payload(&mut self) -> Parsed<Expr> {
        let sreg = match self.word()? {
            "load" => None,
            "write" => {
                let sreg = self.register()?;
                self.expect("=>")?;
                Some(sreg)
            }
            _ => return Err("load or write is expected"),
        };
        let len = self.bytes()?;
        self.expect("@")?;
        let base = match self.word()? {
            "link" => PayloadBase::Link,
            "network" => PayloadBase::Network,
            "transport" => PayloadBase::Transport,
            "inner" => PayloadBase::Inner,
            "tunnel" => PayloadBase::Tunnel,
            _ => return Err("no header"),
        };
        self.expect("header")?;
        self.expect("+")?;
        let offset = self.number()?;
        let Some(sreg) = sreg else {
            return Ok(Expr::Payload(Payload { base, offset, len, dreg: self.target()? }));
        };
        self.expect("csum_type")?;
        let csum_type = match self.word()? {
            "0" => ChecksumType::None,
            "1" => ChecksumType::Inet,
            "2" => ChecksumType::Sctp,
            _ => return Err("no type of checksum"),
        };
        self.expect("csum_off")?;
        let csum_offset = self.number()?;
        self.expect("csum_flags")?;
        let csum_flags = self.number()?;
        Ok(Expr::PayloadSet(PayloadSet {
            base,
            offset,
            len,
            sreg,
            csum_type,
            csum_offset,
            csum_flags,
        }))
    }

    /// `4b`
    fn bytes(&mut self) -> Parsed<u32> {
        number(self.word()?.strip_suffix('b').ok_or("a length in bytes is expected")?)
    }

    fn bitwise(&mut self) -> Parsed<Expr> {
        let dreg = self.register()?;
        self.expect("=")?;
        let sreg = self.register()?;
        let len = self.widths.0.get(&sreg).copied().unwrap_or(4) as u32;
        let op = match self.word()? {
            "&" if self.next_is("reg") => BitwiseOp::Combine(BoolOp::And, Register(self.number()?)),
            "|" => BitwiseOp::Combine(BoolOp::Or, self.register()?),
            "^" => BitwiseOp::Combine(BoolOp::Xor, self.register()?),
            "&" => {
                let mask = self.data(sreg)?;
                self.expect("^")?;
                BitwiseOp::MaskXor { mask, xor: self.data(sreg)? }
            }
            "<<" => BitwiseOp::Lshift(self.number()?),
            ">>" => BitwiseOp::Rshift(self.number()?),
            _ => return Err("no operation"),
        };
        Ok(Expr::Bitwise(Bitwise { sreg, dreg, len, op }))
    }

    fn limit(&mut self) -> Parsed<Expr> {
        self.expect("rate")?;
        let (rate, unit) = self.word()?.split_once('/').ok_or("a rate is expected")?;
        let unit = match unit {
            "second" => 1,
            "minute" => 60,
            "hour" => 3600,
            "day" => 86_400,
            "week" => 604_800,
            _ => return Err("no unit of time"),
        };
        self.expect("burst")?;
        let burst = self.number()?;
        self.expect("type")?;
        let kind = match self.word()? {
            "packets" => LimitType::Packets,
            "bytes" => LimitType::Bytes,
            _ => return Err("packets or bytes are expected"),
        };
        self.expect("flags")?;
        let over = self.number::<u32>()? & 1 != 0;
        Ok(Expr::Limit(Limit { rate: number(rate)?, unit, burst, kind, over }))
    }

    fn log(&mut self) -> Parsed<Expr> {
        let mut log = Log::default();
        while let Some(word) = self.words.next() {
            let flag = match word {
                "prefix" => {
                    log.prefix = Some(self.word()?.into());
                    continue;
                }
                "group" => {
                    log.group = Some(self.number()?);
                    self.expect("snaplen")?;
                    log.snaplen = Some(self.number()?).filter(|n| *n != 0);
                    self.expect("qthreshold")?;
                    log.queue_threshold = Some(self.number()?).filter(|n| *n != 0);
                    continue;
                }
                "level" => {
                    log.level = Some(self.number()?);
                    continue;
                }
                "tcpseq" => LOG_TCPSEQ,
                "tcpopt" => LOG_TCPOPT,
                "ipopt" => LOG_IPOPT,
                "uid" => LOG_UID,
                "macdecode" => LOG_MACDECODE,
                _ => return Err("no option of log"),
            };
            log.flags = Some(log.flags.unwrap_or(0) | flag);
        }
        Ok(Expr::Log(log))
    }

    fn exthdr(&mut self) -> Parsed<Expr> {
        let what = self.word()?;
        if what == "reset" {
            self.expect("tcpopt")?;
            return Ok(Expr::ExthdrReset(ExthdrReset {
                op: ExthdrOp::TcpOpt,
                kind: self.number()?,
            }));
        }
        // SCTP chunks and DCCP options look the same; those with bytes are chunks.
        let op = match () {
            _ if self.next_is("ipv6") => ExthdrOp::Ipv6,
            _ if self.next_is("ipv4") => ExthdrOp::Ipv4Opt,
            _ if self.next_is("tcpopt") => ExthdrOp::TcpOpt,
            _ => ExthdrOp::Sctp,
        };
        let sreg = match what {
            "load" => None,
            "write" => {
                let sreg = self.register()?;
                self.expect("=>")?;
                Some(sreg)
            }
            _ => return Err("load, write or reset is expected"),
        };
        let len = self.bytes()?;
        self.expect("@")?;
        let kind = self.number()?;
        self.expect("+")?;
        let offset = self.number()?;
        if let Some(sreg) = sreg {
            return Ok(Expr::ExthdrSet(ExthdrSet { op, kind, offset, len, sreg }));
        }
        let present = self.next_is("present");
        Ok(Expr::Exthdr(Exthdr { op, kind, offset, len, present, dreg: self.target()? }))
    }

    /// ` offset 5`, or nothing
    fn offset(&mut self) -> Parsed<u32> {
        if self.next_is("offset") { self.number() } else { Ok(0) }
    }

    fn hash(&mut self) -> Parsed<Expr> {
        let dreg = self.register()?;
        self.expect("=")?;
        let operands = match self.word()? {
            "symhash" => None,
            "jhash" => Some((self.register()?, self.number()?, self.number::<u32>()?)),
            _ => return Err("jhash or symhash is expected"),
        };
        self.expect("%")?;
        self.expect("mod")?;
        let (modulus, offset) = (self.number()?, self.offset()?);
        Ok(Expr::Hash(match operands {
            Some((sreg, len, seed)) => {
                Hash::Jenkins { sreg, len, seed: Some(seed), modulus, offset, dreg }
            }
            None => Hash::Sym { modulus, offset, dreg },
        }))
    }

    fn fib(&mut self) -> Parsed<Expr> {
        let mut flags = 0;
        loop {
            flags |= match self.word()? {
                "saddr" => FIB_SADDR,
                "daddr" => FIB_DADDR,
                "mark" => FIB_MARK,
                "iif" => FIB_IIF,
                "oif" => FIB_OIF,
                _ => return Err("nothing that fib looks up"),
            };
            if !self.next_is(".") {
                break;
            }
        }
        let result = match self.word()? {
            "oif" => FibResult::Oif,
            "oifname" => FibResult::OifName,
            "type" => FibResult::AddrType,
            _ => return Err("no result of fib"),
        };
        if self.next_is("present") {
            flags |= FIB_PRESENT;
        }
        Ok(Expr::Fib(Fib { result, flags, dreg: self.target()? }))
    }
}

/// Decimal, or hexadecimal with `0x`.
fn number<T: TryFrom<u64>>(word: &str) -> Parsed<T> {
    let value = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    value.ok().and_then(|n| T::try_from(n).ok()).ok_or("not a number")
}

fn cmp_op(word: &str) -> Parsed<CmpOp> {
    [CmpOp::Eq, CmpOp::Neq, CmpOp::Lt, CmpOp::Lte, CmpOp::Gt, CmpOp::Gte]
        .into_iter()
        .find(|op| op.to_string() == word)
        .ok_or("no comparison")
}

fn meta_key(word: &str) -> Parsed<MetaKey> {
    MetaKey::ALL.into_iter().find(|key| key.to_string() == word).ok_or("no key of meta")
}
