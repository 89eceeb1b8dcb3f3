// SPDX-License-Identifier: Apache-2.0

//! Tunnel objects.

use std::net::IpAddr;

use penstock_ruleset::tunnel::GeneveOption;
use serde_json::{Map, Value};

use super::{Reader, maybe_text, several};
use crate::ast::cmd::{TunnelSpec, TunnelSpecOptions};
use crate::ast::expr::SymbolKind;
use crate::ast::{Expr, ExprKind};
use crate::parse::tunnel::geneve_data;
use crate::source::Loc;

type Object = Map<String, Value>;

impl Reader<'_> {
    /// Configuration of a tunnel object.
    pub(super) fn tunnel(&mut self, object: &Object) -> Option<TunnelSpec> {
        let default = TunnelSpec::default();
        Some(TunnelSpec {
            id: self.maybe_number(object, "id")?.unwrap_or(0),
            source: self.tunnel_end(object, "src")?,
            destination: self.tunnel_end(object, "dst")?,
            sport: self.maybe_number(object, "sport")?.unwrap_or(0),
            dport: self.maybe_number(object, "dport")?.unwrap_or(0),
            tos: self.maybe_number(object, "tos")?.unwrap_or(0),
            ttl: self.maybe_number(object, "ttl")?.unwrap_or(default.ttl),
            options: self.tunnel_options(object)?,
        })
    }

    /// An address by a name that says its family, or by one (`src`) that leaves it to the address.
    fn tunnel_end(&mut self, object: &Object, end: &str) -> Option<Option<(bool, Expr)>> {
        let names = [
            (format!("{end}-ipv4"), Some(false)),
            (format!("{end}-ipv6"), Some(true)),
            (end.into(), None),
        ];
        for (name, family) in names {
            let Some(value) = object.get(&name) else { continue };
            let Some(text) = value.as_str() else {
                return self.error(format!("Invalid tunnel address '{name}'."));
            };
            let v6 = family.unwrap_or_else(|| text.parse::<IpAddr>().is_ok_and(|a| a.is_ipv6()));
            let kind = ExprKind::Symbol { kind: SymbolKind::Value, text: text.into() };
            return Some(Some((v6, Expr::new(kind, Loc::NOWHERE))));
        }
        Some(None)
    }

    fn tunnel_options(&mut self, object: &Object) -> Option<TunnelSpecOptions> {
        let Some(kind) = maybe_text(object, "type") else { return Some(TunnelSpecOptions::None) };
        let body = self.member(object, "tunnel", 0)?;
        Some(match kind {
            "erspan" => {
                let body = self.object(body)?;
                let egress = match maybe_text(body, "dir") {
                    None | Some("ingress") => false,
                    Some("egress") => true,
                    Some(other) => return self.error(format!("Invalid direction '{other}'.")),
                };
                TunnelSpecOptions::Erspan {
                    version: self.maybe_number(body, "version")?.unwrap_or(0),
                    index: self.maybe_number(body, "index")?.unwrap_or(0),
                    egress,
                    hwid: self.maybe_number(body, "hwid")?.unwrap_or(0),
                }
            }
            "vxlan" => {
                let body = self.object(body)?;
                TunnelSpecOptions::Vxlan { gbp: self.maybe_number(body, "gbp")?.unwrap_or(0) }
            }
            "geneve" => {
                let mut options = Vec::new();
                for option in several(body) {
                    let option = self.object(option)?;
                    let class = self.number(option, "class", 0)?;
                    let kind = self.number(option, "opt-type", 1)?;
                    let text = self.text(option, "data", 2)?;
                    match geneve_data(text) {
                        Some(data) => options.push(GeneveOption { class, kind, data }),
                        None => return self.error(format!("Invalid data array {text}")),
                    }
                }
                TunnelSpecOptions::Geneve(options)
            }
            other => return self.error(format!("Invalid tunnel type '{other}'.")),
        })
    }
}
