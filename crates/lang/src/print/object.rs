// SPDX-License-Identifier: Apache-2.0

//! Stateful objects to text.

use penstock_program::Expr as VmExpr;
use penstock_ruleset::model::{Family, Object, ObjectValue};
use penstock_ruleset::tunnel::{GeneveOption, Tunnel, TunnelOptions};

use super::Printer;
use super::stmt::synproxy_flags;
use crate::ast::stmt::Limit;
use crate::ct_timeout;
use crate::objects;
use crate::userdata;

/// The data of a Geneve option in digits.
pub(crate) fn geneve_data(option: &GeneveOption) -> String {
    use std::fmt::Write;
    option.data.iter().fold("0x".to_owned(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

impl Printer<'_> {
    /// Writes an object, one level deep, with its present state.
    pub(super) fn object(&mut self, family: Family, object: &Object, now: u64) {
        self.write(format_args!("\t{} {} {{", objects::name(object.value.kind()), object.name));
        self.handle_after(object.handle);
        if let Some(comment) = userdata::comment(&object.userdata) {
            self.write(format_args!("\n\t\tcomment \"{comment}\""));
        }
        self.push("\n");
        let present = |expr: VmExpr| match &object.state {
            Some(state) => state.snapshot(&expr, now),
            None => expr,
        };
        match &object.value {
            ObjectValue::Counter(counter) => {
                if !self.format.stateless
                    && let VmExpr::Counter(counter) = present(VmExpr::Counter(counter.clone()))
                {
                    self.write(format_args!(
                        "\t\tpackets {} bytes {}\n",
                        counter.packets, counter.bytes
                    ));
                }
            }
            ObjectValue::Quota(quota) => {
                if let VmExpr::Quota(quota) = present(VmExpr::Quota(quota.clone())) {
                    self.push("\t\t");
                    self.quota(quota.bytes, quota.consumed, quota.over);
                    self.push("\n");
                }
            }
            ObjectValue::Limit(limit) => {
                self.push("\t\t");
                let limit = Limit {
                    rate: limit.rate,
                    unit: limit.unit,
                    kind: limit.kind,
                    burst: limit.burst,
                    over: limit.over,
                };
                self.limit(&limit, false);
                self.push("\n");
            }
            ObjectValue::CtHelper { helper, l4proto, l3proto } => {
                self.write(format_args!("\t\ttype \"{helper}\" protocol "));
                self.protocol(*l4proto);
                self.push("\n");
                self.l3proto(family, *l3proto);
            }
            ObjectValue::CtTimeout { l4proto, l3proto, values } => {
                self.push("\t\tprotocol ");
                self.protocol(*l4proto);
                self.push("\n");
                self.l3proto(family, *l3proto);
                self.timeouts(*l4proto, values);
            }
            ObjectValue::CtExpect { l4proto, l3proto, dport, timeout, size } => {
                self.push("\t\tprotocol ");
                self.protocol(*l4proto);
                self.write(format_args!("\n\t\tdport {dport}\n\t\ttimeout "));
                self.duration((*timeout).into());
                self.write(format_args!("\n\t\tsize {size}\n"));
                self.l3proto(family, *l3proto);
            }
            ObjectValue::Synproxy(synproxy) => {
                if synproxy.flags & 1 != 0 {
                    self.write(format_args!("\t\tmss {}\n", synproxy.mss));
                }
                if synproxy.flags & 2 != 0 {
                    self.write(format_args!("\t\twscale {}\n", synproxy.wscale));
                }
                let flags = synproxy_flags(synproxy.flags);
                if !flags.is_empty() {
                    // As nft does: with a space where only the second one is there.
                    let flags = flags.strip_prefix(" timestamp").map_or(flags, |_| &flags[1..]);
                    self.write(format_args!("\t\t{flags}\n"));
                }
            }
            ObjectValue::SecMark(context) => self.write(format_args!("\t\t\"{context}\"\n")),
            ObjectValue::Tunnel(tunnel) => self.tunnel(tunnel),
        }
        self.push("\t}\n");
    }

    fn tunnel(&mut self, tunnel: &Tunnel) {
        self.write(format_args!("\t\tid {}\n", tunnel.id));
        for (name, address) in [("saddr", tunnel.source), ("daddr", tunnel.destination)] {
            let Some(address) = address else { continue };
            let family = if address.is_ipv4() { "ip" } else { "ip6" };
            self.write(format_args!("\t\t{family} {name} {address}\n"));
        }
        let numbers = [
            ("sport", tunnel.sport),
            ("dport", tunnel.dport),
            ("tos", tunnel.tos.into()),
            ("ttl", tunnel.ttl.into()),
        ];
        for (name, number) in numbers.into_iter().filter(|(_, n)| *n > 0) {
            self.write(format_args!("\t\t{name} {number}\n"));
        }
        match &tunnel.options {
            TunnelOptions::None => {}
            TunnelOptions::Erspan { index } => {
                self.write(format_args!(
                    "\t\terspan {{\n\t\t\tversion 1\n\t\t\tindex {index}\n\t\t}}\n"
                ));
            }
            TunnelOptions::Erspan2 { egress, hwid } => {
                let direction = if *egress { "egress" } else { "ingress" };
                self.push("\t\terspan {\n\t\t\tversion 2\n");
                self.write(format_args!("\t\t\tdirection {direction}\n\t\t\tid {hwid}\n\t\t}}\n"));
            }
            TunnelOptions::Vxlan { gbp } => {
                self.write(format_args!("\t\tvxlan {{\n\t\t\tgbp {gbp}\n\t\t}}\n"));
            }
            TunnelOptions::Geneve(options) => {
                self.push("\t\tgeneve {\n");
                for option in options {
                    let data = geneve_data(option);
                    let (class, kind) = (option.class, option.kind);
                    self.write(format_args!(
                        "\t\t\tclass {class:#x} opt-type {kind:#x} data \"{data}\"\n"
                    ));
                }
                self.push("\t\t}\n");
            }
        }
    }

    /// A transport protocol by name where one is known.
    fn protocol(&mut self, number: u8) {
        match self.names.protocol_name(number) {
            Some(name) => self.push(&name),
            None => self.write(format_args!("{number}")),
        }
    }

    fn l3proto(&mut self, family: Family, number: u16) {
        let name = match number {
            1 => "inet",
            2 | 0x0800 => "ip",
            10 | 0x86dd => "ip6",
            _ => family.name(),
        };
        self.write(format_args!("\t\tl3proto {name}\n"));
    }

    /// States whose timeout is not the default.
    fn timeouts(&mut self, protocol: u8, values: &[(u8, u32)]) {
        self.push("\t\tpolicy = { ");
        let mut separator = "";
        for (number, seconds) in values {
            let Some(state) = ct_timeout::by_number(protocol, *number) else { continue };
            if *seconds == state.timeout {
                continue;
            }
            self.write(format_args!("{separator}{} : ", state.name));
            self.duration(u64::from(*seconds) * 1000);
            separator = ", ";
        }
        self.push(" }\n");
    }
}
