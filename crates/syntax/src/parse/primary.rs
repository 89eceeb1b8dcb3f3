// SPDX-License-Identifier: Apache-2.0

//! What left sides and arguments are made of: `meta`, `ct`, `rt`, `socket`, `fib`, `osf`, `ipsec`,
//! hashes.

use penstock_program::expr::{
    CtDir, CtKey, FIB_PRESENT, FibResult, MetaKey, NumgenMode, RtKey, SocketKey, XfrmKey,
};

use super::{Parsed, Parser};
use crate::ast::{Expr, ExprKind, Key};
use crate::datatype::{DataType, Type};
use crate::keys;
use crate::lex::Tok;
use crate::source::Loc;

/// `NFPROTO_*` as written before an address.
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// `NFTA_FIB_F_*`.
const FIB_SADDR: u32 = 1;
const FIB_DADDR: u32 = 2;
const FIB_MARK: u32 = 4;
const FIB_IIF: u32 = 8;
const FIB_OIF: u32 = 16;

/// Meta keys that can be written without `meta`.
fn bare_meta_key(name: &str) -> Option<MetaKey> {
    match name {
        "mark" | "iif" | "iifname" | "iiftype" | "oif" | "oifname" | "oiftype" | "skuid"
        | "skgid" | "nftrace" | "rtclassid" | "ibriport" | "obriport" | "ibrname" | "obrname"
        | "pkttype" | "cpu" | "iifgroup" | "oifgroup" | "cgroup" | "ipsec" | "time" | "day"
        | "hour" => keys::meta_by_name(name).map(|k| k.key),
        _ => None,
    }
}

/// What `rt` asks of the route rather than of a routing header.
pub(super) fn is_route_key(word: &str) -> bool {
    matches!(word, "classid" | "nexthop" | "mtu" | "ipsec" | "ip" | "ip6")
}

impl Parser<'_> {
    /// An operand of a left side.
    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::Word => {}
            Tok::At => return self.raw_payload(),
            _ => return self.symbol_or_number(),
        }
        let start = self.here();
        let route = is_route_key(self.second_word());
        let tunnel = matches!(self.second_word(), "id" | "path");
        let transform = matches!(self.second_word(), "in" | "out");
        match self.word() {
            "meta" => {
                self.take();
                let meta = self.meta(start)?;
                self.close("meta")?;
                return Ok(meta);
            }
            "ct" => {
                self.take();
                return self.scoped("ct", |p| p.ct(start));
            }
            "rt" if route => {
                self.take();
                return self.scoped("rt", |p| p.rt(start));
            }
            "socket" => return self.socket(start),
            "fib" => return self.scoped("fib", |p| p.fib(start)),
            "osf" => return self.osf(start),
            "ipsec" if transform => return self.scoped("ipsec", |p| p.xfrm(start)),
            "tunnel" if tunnel => return self.tunnel(start),
            "numgen" => return self.scoped("numgen", |p| p.numgen(start)),
            "jhash" => return self.scoped("jhash", |p| p.deeper(|p| p.jhash(start))),
            "symhash" => return self.scoped("symhash", |p| p.symhash(start)),
            _ => {}
        }
        if let Some(key) = bare_meta_key(self.word()) {
            let ipsec = self.at("ipsec");
            self.take();
            if ipsec {
                self.close("ipsec")?;
            }
            return Ok(Expr::new(ExprKind::Key(Key::Meta { key }), start));
        }
        match self.header()? {
            Some(expr) => Ok(expr),
            None => self.symbol_or_number(),
        }
    }

    /// What `describe` takes: a type's name is a symbol like any other.
    pub(super) fn describable(&mut self) -> Parsed<Expr> {
        self.primary()
    }

    /// The key behind `meta`.
    fn meta(&mut self, start: Loc) -> Parsed<Expr> {
        let token = self.peek();
        if !matches!(token.tok, Tok::Word | Tok::Str) {
            return self.unexpected(&[]);
        }
        match keys::meta_by_name(self.word()).map(|k| k.key) {
            Some(key) => {
                self.take();
                Ok(Expr::new(ExprKind::Key(Key::Meta { key }), self.since(start)))
            }
            None if super::words::is_reserved(self.word()) => self.unexpected(&[]),
            None => {
                let word = self.text(token).to_string();
                self.take();
                // The name is looked at when the statement is complete.
                if self.eat("set") {
                    self.argument()?;
                }
                let loc = self.since(start);
                let known = keys::meta_names();
                self.error(loc, format!("syntax error, unexpected {word}, known keys are {known}"))
            }
        }
    }

    /// What stands behind `ct`.
    pub(super) fn ct(&mut self, start: Loc) -> Parsed<Expr> {
        let dir = match self.word() {
            "original" => Some(CtDir::Original),
            "reply" => Some(CtDir::Reply),
            _ => None,
        };
        if dir.is_some() {
            self.take();
        }
        let family = match self.word() {
            "ip" if dir.is_some() => IPV4,
            "ip6" if dir.is_some() => IPV6,
            _ => 0,
        };
        if family != 0 {
            self.keywords =
                super::words::keywords_behind(if family == IPV4 { "ip" } else { "ip6" });
            self.take();
        }
        let key = match (self.word(), dir.is_some(), family) {
            ("saddr", true, IPV4) => CtKey::SrcIp,
            ("daddr", true, IPV4) => CtKey::DstIp,
            ("saddr", true, IPV6) => CtKey::SrcIp6,
            ("daddr", true, IPV6) => CtKey::DstIp6,
            (_, true, IPV4 | IPV6) => return self.unexpected(&["saddr", "daddr"]),
            ("saddr", _, _) => CtKey::Src,
            ("daddr", _, _) => CtKey::Dst,
            ("l3proto", _, _) => CtKey::L3Protocol,
            ("protocol", _, _) => CtKey::Protocol,
            ("proto-src", _, _) => CtKey::ProtoSrc,
            ("proto-dst", _, _) => CtKey::ProtoDst,
            ("bytes", _, _) => CtKey::Bytes,
            ("packets", _, _) => CtKey::Pkts,
            ("avgpkt", _, _) => CtKey::AvgPkt,
            ("zone", _, _) => CtKey::Zone,
            ("state", false, _) => CtKey::State,
            ("direction", false, _) => CtKey::Direction,
            ("status", false, _) => CtKey::Status,
            ("mark", false, _) => CtKey::Mark,
            ("expiration", false, _) => CtKey::Expiration,
            ("helper", false, _) => CtKey::Helper,
            ("label", false, _) => CtKey::Labels,
            ("event", false, _) => CtKey::EventMask,
            ("secmark", false, _) => CtKey::SecMark,
            ("id", false, _) => CtKey::Id,
            _ => return self.unexpected(&[]),
        };
        self.take();
        let expr =
            Expr::new(ExprKind::Key(Key::Ct { key, dir, nfproto: family }), self.since(start));
        // Of a direction nft knows these to be complete; behind all others a keyword of `ct` is
        // still one where the statement begins with it, since `set` could follow.
        let complete = dir.is_some()
            && !matches!(key, CtKey::Bytes | CtKey::Pkts | CtKey::AvgPkt | CtKey::Zone);
        let begins = self.stmt.start == start.start;
        if begins && !complete && !super::words::is_symbol_behind_ct(self.word()) {
            self.close("ct")?;
        }
        Ok(expr)
    }

    /// What stands behind `rt`.
    fn rt(&mut self, start: Loc) -> Parsed<Expr> {
        let family = match self.word() {
            "ip" => IPV4,
            "ip6" => IPV6,
            _ => 0,
        };
        if family != 0 {
            self.take();
        }
        let key = match self.word() {
            "classid" => RtKey::Classid,
            "nexthop" if family == IPV6 => RtKey::Nexthop6,
            "nexthop" => RtKey::Nexthop4,
            "mtu" => RtKey::TcpMss,
            "ipsec" => RtKey::Xfrm,
            _ => return self.unexpected(&["mtu", "classid", "nexthop", "ipsec"]),
        };
        self.take();
        let mut expr = Expr::new(ExprKind::Key(Key::Rt { key }), self.since(start));
        expr.dtype = Type::Base(match family {
            IPV4 => DataType::IpAddr,
            IPV6 => DataType::Ip6Addr,
            _ => DataType::Invalid,
        });
        Ok(expr)
    }

    fn socket(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        self.scoped("socket", |p| p.socket_key(start))
    }

    fn socket_key(&mut self, start: Loc) -> Parsed<Expr> {
        let (key, leveled) = match self.word() {
            "transparent" => (SocketKey::Transparent, false),
            "mark" => (SocketKey::Mark, false),
            "wildcard" => (SocketKey::Wildcard, false),
            "cgroupv2" => (SocketKey::Cgroupv2, true),
            _ => return self.unexpected(&["transparent", "wildcard", "cgroupv2", "mark"]),
        };
        self.take();
        let mut level = 0;
        if leveled {
            self.need("level")?;
            level = self.number_as()?;
        }
        Ok(Expr::new(ExprKind::Key(Key::Socket { key, level }), self.since(start)))
    }

    fn fib(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let mut flags = 0;
        let tuple = self.here();
        loop {
            flags |= match self.word() {
                "saddr" => FIB_SADDR,
                "daddr" => FIB_DADDR,
                "mark" => FIB_MARK,
                "iif" => FIB_IIF,
                "oif" => FIB_OIF,
                _ => return self.unexpected(&[]),
            };
            self.take();
            if !self.eat_tok(Tok::Dot) {
                break;
            }
        }
        let tuple = self.since(tuple);
        let result = match self.word() {
            "oif" => FibResult::Oif,
            "oifname" => FibResult::OifName,
            "type" => FibResult::AddrType,
            "check" => {
                flags |= FIB_PRESENT;
                FibResult::Oif
            }
            _ => return self.unexpected(&["type", "oif", "oifname"]),
        };
        self.take();
        let both = |mask: u32| flags & mask == mask;
        let refused = if flags & (FIB_SADDR | FIB_DADDR) == 0 {
            Some("fib: need either saddr or daddr")
        } else if both(FIB_SADDR | FIB_DADDR) {
            Some("fib: saddr and daddr are mutually exclusive")
        } else if both(FIB_IIF | FIB_OIF) {
            Some("fib: iif and oif are mutually exclusive")
        } else {
            None
        };
        if let Some(message) = refused {
            return self.error(tuple, message);
        }
        Ok(Expr::new(ExprKind::Key(Key::Fib { flags, result }), self.since(start)))
    }

    fn osf(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let mut ttl = 0;
        if self.eat("ttl") {
            let token = self.peek();
            ttl = match self.word() {
                "loose" => 1,
                "skip" => 2,
                _ if token.tok == Tok::Word => return self.error(token.loc, "invalid ttl option"),
                _ => return self.unexpected(&["string"]),
            };
            self.take();
        }
        let version = match self.word() {
            "version" => true,
            "name" => false,
            _ => return self.unexpected(&["version", "name"]),
        };
        self.take();
        Ok(Expr::new(ExprKind::Key(Key::Osf { ttl, version }), self.since(start)))
    }

    fn xfrm(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let out = self.at("out");
        self.take();
        let mut spnum = 0;
        if self.eat("spnum") {
            let loc = self.here();
            let n = self.number()?;
            if n > 255 {
                return self.error(loc, "value too large");
            }
            spnum = n as u32;
        }
        let family = match self.word() {
            "ip" => IPV4,
            "ip6" => IPV6,
            _ => 0,
        };
        if family != 0 {
            self.take();
        }
        let key = match (self.word(), family) {
            ("reqid", 0) => XfrmKey::Reqid,
            ("spi", 0) => XfrmKey::Spi,
            ("saddr", IPV4) => XfrmKey::SaddrIp4,
            ("daddr", IPV4) => XfrmKey::DaddrIp4,
            ("saddr", IPV6) => XfrmKey::SaddrIp6,
            ("daddr", IPV6) => XfrmKey::DaddrIp6,
            (_, IPV4 | IPV6) => return self.unexpected(&["saddr", "daddr"]),
            _ => return self.unexpected(&["ip", "ip6", "spi", "reqid"]),
        };
        self.take();
        Ok(Expr::new(ExprKind::Key(Key::Xfrm { key, out, spnum }), self.since(start)))
    }

    fn numgen(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let mode = match self.word() {
            "inc" => NumgenMode::Inc,
            "random" => NumgenMode::Random,
            _ => return self.unexpected(&["random", "inc"]),
        };
        self.take();
        let (modulus, _, offset) = self.hash_arguments(false)?;
        self.close("numgen")?;
        Ok(Expr::new(ExprKind::Key(Key::Numgen { mode, modulus, offset }), self.since(start)))
    }

    fn symhash(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let (modulus, _, offset) = self.hash_arguments(false)?;
        self.close("symhash")?;
        let kind = ExprKind::Key(Key::Symhash { modulus, offset });
        Ok(Expr::new(kind, self.since(start)))
    }

    fn jhash(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        self.close("jhash")?;
        let expr = self.lhs()?;
        let (modulus, seed, offset) = self.hash_arguments(true)?;
        self.close("jhash")?;
        let kind = ExprKind::Hash { expr: Box::new(expr), modulus, seed, offset };
        Ok(Expr::new(kind, self.since(start)))
    }

    /// `mod N [seed N] [offset N]`
    fn hash_arguments(&mut self, seeded: bool) -> Parsed<(u32, Option<u32>, u32)> {
        self.need("mod")?;
        let modulus = self.number_as()?;
        let mut seed = None;
        if seeded && self.eat("seed") {
            seed = Some(self.number_as()?);
        }
        let offset = if self.eat("offset") { self.number_as()? } else { 0 };
        Ok((modulus, seed, offset))
    }
}
