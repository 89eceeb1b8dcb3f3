// SPDX-License-Identifier: Apache-2.0

//! Tunnel objects, and what is asked of a packet's tunnel.

use penstock_program::expr::ObjectType;
use penstock_ruleset::tunnel::GeneveOption;

use super::{Parsed, Parser};
use crate::ast::StmtKind;
use crate::ast::cmd::{ObjectSpec, TunnelSpec, TunnelSpecOptions};
use crate::lex::Tok;
use crate::source::Loc;

/// Bytes of data that a Geneve option has at most.
const DATA_MAX: usize = 127;

/// The bytes of a Geneve option's data as written: `0x`, and digits for whole 16 bits.
pub(crate) fn geneve_data(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    if digits.len() % 4 != 0 || digits.len() / 2 > DATA_MAX {
        return None;
    }
    let nibbles: Vec<u8> =
        digits.chars().map(|c| Some(c.to_digit(16)? as u8)).collect::<Option<_>>()?;
    Some(
        nibbles
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, nibble| byte << 4 | nibble))
            .collect(),
    )
}

impl Parser<'_> {
    /// `tunnel name "t"`
    pub(crate) fn tunnel_stmt(&mut self) -> Parsed<StmtKind> {
        self.take();
        self.object_ref(ObjectType::Tunnel)
    }

    /// A line in the braces of a tunnel object.
    pub(super) fn tunnel_item(&mut self, spec: &mut ObjectSpec) -> Parsed<()> {
        let ObjectSpec::Tunnel(tunnel) = spec else { return Ok(()) };
        let start = self.here();
        match self.word() {
            "id" => tunnel.id = self.tunnel_number()?,
            "sport" => tunnel.sport = self.tunnel_number()?,
            "dport" => tunnel.dport = self.tunnel_number()?,
            "ttl" => tunnel.ttl = self.tunnel_number()?,
            "tos" => tunnel.tos = self.tunnel_number()?,
            "ip" | "ip6" => self.tunnel_address(tunnel, start)?,
            "erspan" | "vxlan" | "geneve" => {
                let word = self.word().to_owned();
                self.take();
                let loc = self.since(start);
                if self.tok() != Tok::LeftBrace {
                    return self.unexpected(&["'{'"]);
                }
                let options = match &*word {
                    "erspan" => self.erspan()?,
                    "vxlan" => self.vxlan()?,
                    _ => self.geneve()?,
                };
                if tunnel.options != TunnelSpecOptions::None {
                    return self.late_error(
                        loc,
                        &format!("Cannot create new {word} section inside another tunnel"),
                    );
                }
                tunnel.options = options;
            }
            _ => return self.unexpected(&[]),
        }
        Ok(())
    }

    fn tunnel_number<T: TryFrom<u64>>(&mut self) -> Parsed<T> {
        self.take();
        self.number_as()
    }

    /// `ip saddr 198.18.0.1`
    fn tunnel_address(&mut self, tunnel: &mut TunnelSpec, start: Loc) -> Parsed<()> {
        let v6 = self.at("ip6");
        self.take();
        let place = match self.word() {
            "saddr" => &mut tunnel.source,
            "daddr" => &mut tunnel.destination,
            _ => return self.unexpected(&["saddr", "daddr"]),
        };
        self.take();
        let address = self.symbol_or_number()?;
        if place.is_some() {
            let loc = self.since(start);
            return self.late_error(loc, super::TWICE);
        }
        *place = Some((v6, address));
        Ok(())
    }

    fn erspan(&mut self) -> Parsed<TunnelSpecOptions> {
        let (mut version, mut index, mut egress, mut hwid) = (0, 0, false, 0);
        self.plain_block(|p| {
            match p.word() {
                "version" => version = p.tunnel_number()?,
                "index" => index = p.tunnel_number()?,
                "id" => hwid = p.tunnel_number()?,
                "direction" => {
                    p.take();
                    egress = match p.word() {
                        "ingress" => false,
                        "egress" => true,
                        _ => return p.unexpected(&["ingress", "egress"]),
                    };
                    p.take();
                }
                _ => return p.unexpected(&[]),
            }
            Ok(())
        })?;
        Ok(TunnelSpecOptions::Erspan { version, index, egress, hwid })
    }

    fn vxlan(&mut self) -> Parsed<TunnelSpecOptions> {
        let mut gbp = 0;
        self.plain_block(|p| {
            if !p.at("gbp") {
                return p.unexpected(&[]);
            }
            gbp = p.tunnel_number()?;
            Ok(())
        })?;
        Ok(TunnelSpecOptions::Vxlan { gbp })
    }

    /// `class 0x1010 opt-type 0x1 data "0x12345678"`, as often as there are options
    fn geneve(&mut self) -> Parsed<TunnelSpecOptions> {
        let mut options = Vec::new();
        self.plain_block(|p| {
            if !p.at("class") {
                return p.unexpected(&[]);
            }
            let class: u16 = p.tunnel_number()?;
            if !p.at("opt-type") {
                return p.unexpected(&["opt-type"]);
            }
            let kind: u8 = p.tunnel_number()?;
            p.need("data")?;
            let token = p.peek();
            if !p.is_string(token) {
                return p.unexpected(&["string"]);
            }
            let text = p.string()?.text;
            match geneve_data(&text) {
                Some(data) => options.push(GeneveOption { class, kind, data }),
                None => return p.error(token.loc, format!("Invalid data array {text}")),
            }
            Ok(())
        })?;
        Ok(TunnelSpecOptions::Geneve(options))
    }
}
