// SPDX-License-Identifier: Apache-2.0

//! How each selector that a keyword begins is written, in text and in JSON: a file for each.
//!
//! A file has what is particular to its selector: text to the tree ([`Parser`]), JSON to the tree
//! ([`Reader`]) and back ([`Writer`]). This file has the matches that lead there. The kinds, and
//! how each is listed, are [`Key`]; names of keys such as those of `meta` are in [`crate::keys`].

mod ct;
mod fib;
mod generator;
mod ipsec;
mod meta;
mod osf;
mod rt;
mod socket;
mod tunnel;

use penstock_program::Family;
use serde_json::Value;

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, maybe_text};
use crate::json::{Object, Writer};
use crate::parse::{Parsed, Parser, words};
use crate::source::Loc;

impl Parser<'_> {
    /// The selector that the word ahead begins, if it begins one.
    pub(crate) fn selector(&mut self, start: Loc) -> Parsed<Option<Expr>> {
        let route = words::is_route_key(self.second_word());
        let tunnel = matches!(self.second_word(), "id" | "path");
        let transform = matches!(self.second_word(), "in" | "out");
        match self.word() {
            "meta" => {
                self.take();
                let meta = self.meta(start)?;
                self.close("meta")?;
                Ok(meta)
            }
            "ct" => {
                self.take();
                self.scoped("ct", |p| p.ct(start))
            }
            "rt" if route => {
                self.take();
                self.scoped("rt", |p| p.rt(start))
            }
            "socket" => self.socket(start),
            "fib" => self.scoped("fib", |p| p.fib(start)),
            "osf" => self.osf(start),
            "ipsec" if transform => self.scoped("ipsec", |p| p.ipsec(start)),
            "tunnel" if tunnel => self.tunnel(start),
            "numgen" => self.scoped("numgen", |p| p.numgen(start)),
            "jhash" => self.scoped("jhash", |p| p.deeper(|p| p.jhash(start))),
            "symhash" => self.scoped("symhash", |p| p.symhash(start)),
            _ => return self.bare_meta(start),
        }
        .map(Some)
    }

    /// A key of `meta` that is written without `meta`.
    fn bare_meta(&mut self, start: Loc) -> Parsed<Option<Expr>> {
        let Some(key) = meta::bare_meta_key(self.word()) else { return Ok(None) };
        let ipsec = self.at("ipsec");
        self.take();
        if ipsec {
            self.close("ipsec")?;
        }
        Ok(Some(Expr::new(ExprKind::Key(Key::Meta { key }), start)))
    }
}

impl Writer<'_> {
    /// A selector.
    pub(crate) fn selector(&self, key: &Key) -> Value {
        match *key {
            Key::Meta { key } => self.meta(key),
            Key::Ct { key, dir, .. } => self.ct(key, dir),
            Key::Rt { key } => self.rt(key),
            Key::Fib { flags, result } => self.fib(flags, result),
            Key::Socket { key, level } => self.socket(key, level),
            Key::Osf { ttl, version } => self.osf(ttl, version),
            Key::Xfrm { key, out, spnum } => self.ipsec(key, out, spnum),
            Key::Tunnel { key } => self.tunnel(key),
            Key::Numgen { mode, modulus, offset } => self.numgen(mode, modulus, offset),
            Key::Symhash { modulus, offset } => self.symhash(modulus, offset),
        }
    }
}

impl Reader<'_> {
    /// A selector by its name.
    pub(crate) fn selector(&mut self, name: &str, object: &Object) -> Option<Expr> {
        match name {
            "meta" => self.meta(object),
            "ct" => self.ct(object),
            "rt" => self.rt(object),
            "osf" => self.osf(object),
            "ipsec" => self.ipsec(object),
            "socket" => self.socket(object),
            "tunnel" => self.tunnel_key(object),
            "numgen" => self.numgen(object),
            "jhash" => self.hash(object, true),
            "symhash" => self.hash(object, false),
            "fib" => self.fib(object),
            other => self.error(format!("Unknown expression type '{other}'.")),
        }
    }

    /// `ip`, `ip6`, or no family.
    fn protocol_family(&mut self, object: &Object) -> Option<Option<Family>> {
        match maybe_text(object, "family") {
            None => Some(None),
            Some("ip") => Some(Some(Family::Ip)),
            Some("ip6") => Some(Some(Family::Ip6)),
            Some(other) => self.error(format!("Unknown family '{other}'.")),
        }
    }
}
