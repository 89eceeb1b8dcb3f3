// SPDX-License-Identifier: Apache-2.0

//! Expressions about connections, translations, queues and sockets.

use super::{Parsed, Words, number};
use penstock_program::Register;
use penstock_program::expr::*;

const CT_KEYS: [CtKey; 24] = {
    use CtKey::*;
    [
        State, Direction, Status, Mark, SecMark, Expiration, Helper, L3Protocol, Src, Dst,
        Protocol, ProtoSrc, ProtoDst, Labels, Pkts, Bytes, AvgPkt, Zone, EventMask, SrcIp, DstIp,
        SrcIp6, DstIp6, Id,
    ]
};

impl Words<'_> {
    /// The register after a word, if that word comes next.
    fn register_after(&mut self, word: &str) -> Parsed<Option<Register>> {
        if self.next_is(word) { self.register().map(Some) } else { Ok(None) }
    }

    /// The number of a register after a word, if that word comes next.
    fn bare_register_after(&mut self, word: &str) -> Parsed<Option<Register>> {
        if self.next_is(word) { Ok(Some(Register(self.number()?))) } else { Ok(None) }
    }

    fn flags(&mut self) -> Parsed<u32> {
        if !self.next_is("flags") {
            return Ok(0);
        }
        let digits = self.word()?.strip_prefix("0x").ok_or("flags are hexadecimal")?;
        u32::from_str_radix(digits, 16).map_err(|_| "flags are hexadecimal")
    }

    fn ct_dir(&mut self) -> Parsed<Option<CtDir>> {
        if !self.next_is("dir") {
            return Ok(None);
        }
        match self.word()? {
            "original" => Ok(Some(CtDir::Original)),
            "reply" => Ok(Some(CtDir::Reply)),
            _ => Err("no direction"),
        }
    }

    pub(super) fn ct(&mut self) -> Parsed<Expr> {
        let load = match self.word()? {
            "load" => true,
            "set" => false,
            _ => return Err("load or set is expected"),
        };
        let word = self.word()?;
        let key = CT_KEYS
            .into_iter()
            .find(|key| key.to_string() == word)
            .ok_or("no key of a connection")?;
        if load {
            return Ok(Expr::Ct(Ct { key, dreg: self.target()?, dir: self.ct_dir()? }));
        }
        self.expect("with")?;
        Ok(Expr::CtSet(CtSet { key, sreg: self.register()?, dir: self.ct_dir()? }))
    }

    fn family(&mut self) -> Parsed<u8> {
        match self.word()? {
            "ip" => Ok(NFPROTO_IPV4),
            "ip6" => Ok(NFPROTO_IPV6),
            "inet" => Ok(1),
            _ => Err("no family"),
        }
    }

    pub(super) fn nat(&mut self) -> Parsed<Expr> {
        let kind = match self.word()? {
            "snat" => NatType::Snat,
            "dnat" => NatType::Dnat,
            _ => return Err("snat or dnat is expected"),
        };
        Ok(Expr::Nat(Nat {
            kind,
            family: self.family()?,
            addr_min: self.register_after("addr_min")?,
            addr_max: self.register_after("addr_max")?,
            proto_min: self.register_after("proto_min")?,
            proto_max: self.register_after("proto_max")?,
            flags: self.flags()?,
        }))
    }

    pub(super) fn masq(&mut self) -> Parsed<Expr> {
        let (proto_min, proto_max) =
            (self.register_after("proto_min")?, self.register_after("proto_max")?);
        Ok(Expr::Masq(Masq { proto_min, proto_max, flags: self.flags()? }))
    }

    pub(super) fn redir(&mut self) -> Parsed<Expr> {
        let (proto_min, proto_max) =
            (self.register_after("proto_min")?, self.register_after("proto_max")?);
        Ok(Expr::Redir(Redir { proto_min, proto_max, flags: self.flags()? }))
    }

    pub(super) fn queue(&mut self) -> Parsed<Expr> {
        let sreg = self.bare_register_after("sreg_qnum")?;
        let (mut num, mut total) = (0, 0);
        if sreg.is_none() {
            self.expect("num")?;
            let (first, last) = match self.word()?.split_once('-') {
                Some((first, last)) => (number::<u16>(first)?, number::<u16>(last)?),
                None => return Err("one queue is not told from none"),
            };
            (num, total) =
                (first, last.checked_sub(first).ok_or("the last queue is below the first")? + 1);
        }
        let bypass = self.next_is("bypass");
        Ok(Expr::Queue(Queue { num, total, sreg, bypass, fanout: self.next_is("fanout") }))
    }

    pub(super) fn tproxy(&mut self) -> Parsed<Expr> {
        let family = if self.next_is("ip") {
            NFPROTO_IPV4
        } else if self.next_is("ip6") {
            NFPROTO_IPV6
        } else {
            0
        };
        Ok(Expr::Tproxy(Tproxy {
            family,
            addr: self.register_after("addr")?,
            port: self.register_after("port")?,
        }))
    }

    pub(super) fn socket(&mut self) -> Parsed<Expr> {
        self.expect("load")?;
        let key = match self.word()? {
            "transparent" => SocketKey::Transparent,
            "mark" => SocketKey::Mark,
            "wildcard" => SocketKey::Wildcard,
            _ => return Err("no key of a socket, or one without its level"),
        };
        Ok(Expr::Socket(Socket { key, level: 0, dreg: self.target()? }))
    }

    pub(super) fn xfrm(&mut self) -> Parsed<Expr> {
        self.expect("load")?;
        let out = match self.word()? {
            "in" => false,
            "out" => true,
            _ => return Err("in or out is expected"),
        };
        let spnum = self.number()?;
        let key = match self.word()? {
            "daddr4" => XfrmKey::DaddrIp4,
            "daddr6" => XfrmKey::DaddrIp6,
            "saddr4" => XfrmKey::SaddrIp4,
            "saddr6" => XfrmKey::SaddrIp6,
            "reqid" => XfrmKey::Reqid,
            "spi" => XfrmKey::Spi,
            _ => return Err("no key of a transformation"),
        };
        Ok(Expr::Xfrm(Xfrm { key, out, spnum, dreg: self.target()? }))
    }

    pub(super) fn tunnel(&mut self) -> Parsed<Expr> {
        self.expect("load")?;
        let key = match self.word()? {
            "path" => TunnelKey::Path,
            "id" => TunnelKey::Id,
            _ => return Err("no key of a tunnel"),
        };
        Ok(Expr::Tunnel(Tunnel { key, dreg: self.target()? }))
    }
}
