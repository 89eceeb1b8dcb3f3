// SPDX-License-Identifier: Apache-2.0

//! Stateful objects to text.

use penstock_program::Expr as VmExpr;
use penstock_ruleset::model::{Family, Object, ObjectValue};
use penstock_ruleset::tunnel::{GeneveOption, Tunnel, TunnelOptions};
use penstock_syntax::ast::stmt::Limit;
use penstock_syntax::ct_timeout;
use penstock_syntax::objects;
use penstock_syntax::print::Printer;
use penstock_syntax::stmt::synproxy;

use super::tables;
use crate::userdata;

/// The data of a Geneve option in digits.
pub(crate) fn geneve_data(option: &GeneveOption) -> String {
    use std::fmt::Write;
    option.data.iter().fold("0x".to_owned(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes an object, one level deep, with its present state.
pub(super) fn object(p: &mut Printer<'_>, family: Family, object: &Object, now: u64) {
    if let ObjectValue::Connlimit(limit) = &object.value {
        // The language has no words for it: nft ends itself where it lists one.
        let over = if limit.over { "over " } else { "" };
        p.write(format_args!("\t# ct count {}: {over}{} connections", object.name, limit.count));
        tables::handle_after(p, object.handle);
        p.push("\n");
        return;
    }
    p.write(format_args!("\t{} {} {{", objects::name(object.value.kind()), object.name));
    tables::handle_after(p, object.handle);
    if let Some(comment) = userdata::comment(&object.userdata) {
        p.write(format_args!("\n\t\tcomment \"{comment}\""));
    }
    p.push("\n");
    let present = |expr: VmExpr| match &object.state {
        Some(state) => expr.snapshot(state, now),
        None => expr,
    };
    match &object.value {
        ObjectValue::Counter(counter) => {
            if !p.format.stateless
                && let VmExpr::Counter(counter) = present(VmExpr::Counter(counter.clone()))
            {
                p.write(format_args!("\t\tpackets {} bytes {}\n", counter.packets, counter.bytes));
            }
        }
        ObjectValue::Quota(quota) => {
            if let VmExpr::Quota(quota) = present(VmExpr::Quota(quota.clone())) {
                p.push("\t\t");
                p.quota(quota.bytes, quota.consumed, quota.over);
                p.push("\n");
            }
        }
        ObjectValue::Limit(limit) => {
            p.push("\t\t");
            let limit = Limit {
                rate: limit.rate,
                unit: limit.unit,
                kind: limit.kind,
                burst: limit.burst,
                over: limit.over,
            };
            p.limit(&limit, false);
            p.push("\n");
        }
        ObjectValue::CtHelper { helper, l4proto, l3proto } => {
            p.write(format_args!("\t\ttype \"{helper}\" protocol "));
            push_protocol(p, *l4proto);
            p.push("\n");
            push_l3proto(p, family, *l3proto);
        }
        ObjectValue::CtTimeout { l4proto, l3proto, values } => {
            p.push("\t\tprotocol ");
            push_protocol(p, *l4proto);
            p.push("\n");
            push_l3proto(p, family, *l3proto);
            push_timeouts(p, *l4proto, values);
        }
        ObjectValue::CtExpect { l4proto, l3proto, dport, timeout, size } => {
            p.push("\t\tprotocol ");
            push_protocol(p, *l4proto);
            p.write(format_args!("\n\t\tdport {dport}\n\t\ttimeout "));
            p.duration((*timeout).into());
            p.write(format_args!("\n\t\tsize {size}\n"));
            push_l3proto(p, family, *l3proto);
        }
        ObjectValue::Synproxy(synproxy) => {
            if synproxy.flags & 1 != 0 {
                p.write(format_args!("\t\tmss {}\n", synproxy.mss));
            }
            if synproxy.flags & 2 != 0 {
                p.write(format_args!("\t\twscale {}\n", synproxy.wscale));
            }
            let flags = synproxy::flag_words(synproxy.flags);
            if !flags.is_empty() {
                // As nft does: with a space where only the second one is there.
                let flags = flags.strip_prefix(" timestamp").map_or(flags, |_| &flags[1..]);
                p.write(format_args!("\t\t{flags}\n"));
            }
        }
        // Written above.
        ObjectValue::Connlimit(_) => {}
        ObjectValue::SecMark(context) => p.write(format_args!("\t\t\"{context}\"\n")),
        ObjectValue::Tunnel(tunnel) => push_tunnel(p, tunnel),
    }
    p.push("\t}\n");
}

fn push_tunnel(p: &mut Printer<'_>, tunnel: &Tunnel) {
    p.write(format_args!("\t\tid {}\n", tunnel.id));
    for (name, address) in [("saddr", tunnel.source), ("daddr", tunnel.destination)] {
        let Some(address) = address else { continue };
        let family = if address.is_ipv4() { "ip" } else { "ip6" };
        p.write(format_args!("\t\t{family} {name} {address}\n"));
    }
    let numbers = [
        ("sport", tunnel.sport),
        ("dport", tunnel.dport),
        ("tos", tunnel.tos.into()),
        ("ttl", tunnel.ttl.into()),
    ];
    for (name, number) in numbers.into_iter().filter(|(_, n)| *n > 0) {
        p.write(format_args!("\t\t{name} {number}\n"));
    }
    match &tunnel.options {
        TunnelOptions::None => {}
        TunnelOptions::Erspan { index } => {
            p.write(format_args!("\t\terspan {{\n\t\t\tversion 1\n\t\t\tindex {index}\n\t\t}}\n"));
        }
        TunnelOptions::Erspan2 { egress, hwid } => {
            let direction = if *egress { "egress" } else { "ingress" };
            p.push("\t\terspan {\n\t\t\tversion 2\n");
            p.write(format_args!("\t\t\tdirection {direction}\n\t\t\tid {hwid}\n\t\t}}\n"));
        }
        TunnelOptions::Vxlan { gbp } => {
            p.write(format_args!("\t\tvxlan {{\n\t\t\tgbp {gbp}\n\t\t}}\n"));
        }
        TunnelOptions::Geneve(options) => {
            p.push("\t\tgeneve {\n");
            for option in options {
                let data = geneve_data(option);
                let (class, kind) = (option.class, option.kind);
                p.write(format_args!(
                    "\t\t\tclass {class:#x} opt-type {kind:#x} data \"{data}\"\n"
                ));
            }
            p.push("\t\t}\n");
        }
    }
}

/// A transport protocol by name where one is known.
fn push_protocol(p: &mut Printer<'_>, number: u8) {
    match p.names.protocol_name(number) {
        Some(name) => p.push(&name),
        None => p.write(format_args!("{number}")),
    }
}

fn push_l3proto(p: &mut Printer<'_>, family: Family, number: u16) {
    let name = match number {
        1 => "inet",
        2 | 0x0800 => "ip",
        10 | 0x86dd => "ip6",
        _ => family.name(),
    };
    p.write(format_args!("\t\tl3proto {name}\n"));
}

/// States with a timeout that is not the default.
fn push_timeouts(p: &mut Printer<'_>, protocol: u8, values: &[(u8, u32)]) {
    p.push("\t\tpolicy = { ");
    let mut separator = "";
    for (number, seconds) in values {
        let Some(state) = ct_timeout::by_number(protocol, *number) else { continue };
        if *seconds == state.timeout {
            continue;
        }
        p.write(format_args!("{separator}{} : ", state.name));
        p.duration(u64::from(*seconds) * 1000);
        separator = ", ";
    }
    p.push(" }\n");
}
