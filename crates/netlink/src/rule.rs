// SPDX-License-Identifier: Apache-2.0

//! Routing policy rules (`RTM_NEWRULE`, `<linux/fib_rules.h>`).

use penstock_net::{Action, Rule};

use crate::message::{Message, number};

/// Bytes of `struct fib_rule_hdr`.
pub(crate) const HEAD: usize = 12;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_FLOW: u16 = 11;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;

/// `FIB_RULE_INVERT`
const INVERT: u32 = 2;

/// Reads a rule, and whether it is of IPv6. Rules that ask for virtual routing devices are left
/// out.
pub(crate) fn read(message: &Message) -> Option<(bool, Rule)> {
    let &[family, dst_len, src_len, tos, table, _, _, action, f0, f1, f2, f3] =
        message.head::<HEAD>()?;
    let v6 = match i32::from(family) {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return None,
    };
    if dst_len.max(src_len) > if v6 { 128 } else { 32 } {
        return None;
    }
    let all = message.attributes(HEAD);
    if all.u8(FRA_L3MDEV).is_some_and(|on| on != 0) {
        return None;
    }
    let range = |kind: u16| {
        let bytes = all.get(kind)?.first_chunk::<4>()?;
        let [a, b, c, d] = *bytes;
        Some((u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])))
    };
    let action = match action {
        1 => Action::Lookup(all.u32(FRA_TABLE).unwrap_or(table.into())),
        2 => Action::Goto(all.u32(FRA_GOTO)?),
        3 => Action::Nop,
        6 => Action::Blackhole,
        7 => Action::Unreachable,
        8 => Action::Prohibit,
        _ => return None,
    };
    let mark = all.u32(FRA_FWMARK).unwrap_or(0);
    let mut rule = Rule::all(all.u32(FRA_PRIORITY).unwrap_or(0), action);
    rule.invert = u32::from_ne_bytes([f0, f1, f2, f3]) & INVERT != 0;
    rule.from = (all.get(FRA_SRC).map_or(0, number), src_len);
    rule.to = (all.get(FRA_DST).map_or(0, number), dst_len);
    rule.tos = tos;
    rule.mark = (mark, all.u32(FRA_FWMASK).unwrap_or(0));
    rule.iif = all.text(FRA_IIFNAME).map(str::to_owned);
    rule.oif = all.text(FRA_OIFNAME).map(str::to_owned);
    rule.protocol = all.u8(FRA_IP_PROTO);
    rule.sport = range(FRA_SPORT_RANGE);
    rule.dport = range(FRA_DPORT_RANGE);
    let suppress = |kind: u16| all.u32(kind).filter(|n| *n != u32::MAX);
    rule.suppress_prefix_length = suppress(FRA_SUPPRESS_PREFIXLEN).map(|n| n as u8);
    rule.suppress_group = suppress(FRA_SUPPRESS_IFGROUP);
    rule.realm = all.u32(FRA_FLOW).unwrap_or(0);
    Some((v6, rule))
}
