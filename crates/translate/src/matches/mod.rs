// SPDX-License-Identifier: Apache-2.0

//! Matches of iptables as those of nft.
//!
//! | file | matches |
//! | --- | --- |
//! | `header` | of the headers of packets |
//! | `metadata` | of what is known of packets |
//! | `connection` | of connections |
//! | `remembered` | that remember packets |

mod connection;
mod header;
mod metadata;
mod remembered;

use crate::args::Args;
use crate::context::{Cond, Rule};

/// What a match becomes, or why it has no equal.
type Found = Result<Vec<Cond>, String>;

/// Translates a match. Options that it does not know stay in `args`.
pub fn translate(rule: &mut Rule<'_>, name: &str, args: &mut Args) -> Found {
    match name {
        "comment" => {
            let text = args.value(&["--comment"])?;
            rule.comment = text;
            Ok(vec![])
        }
        "tcp" => header::tcp(args),
        "udp" | "udplite" | "sctp" | "dccp" => header::ports(name, args),
        "icmp" => header::icmp("icmp", &["--icmp-type"], args),
        "icmp6" | "icmpv6" => header::icmp("icmpv6", &["--icmpv6-type", "--icmp6-type"], args),
        "esp" => header::spi("esp", "--espspi", args),
        "ah" => header::spi("ah", "--ahspi", args),
        "multiport" => header::multiport(rule, args),
        "iprange" => header::iprange(rule, args),
        "ttl" => header::ttl("ip ttl", "ttl", args),
        "hl" => header::ttl("ip6 hoplimit", "hl", args),
        "tos" => header::tos(rule, args),
        "dscp" => header::dscp(rule, args),
        "tcpmss" => header::tcpmss(args),
        "length" => metadata::length(args),
        "mark" => metadata::mark(args, "meta mark"),
        "mac" => metadata::mac(args),
        "pkttype" => metadata::pkttype(args),
        "addrtype" => metadata::addrtype(rule, args),
        "owner" => metadata::owner(args),
        "rpfilter" => metadata::rpfilter(args),
        "devgroup" => metadata::devgroup(args),
        "realm" => metadata::realm(args),
        "cpu" => metadata::cpu(args),
        "statistic" => metadata::statistic(args),
        "set" => metadata::set(rule, args),
        "physdev" => {
            Err("devices of bridges are matched in tables of the family bridge".to_owned())
        }
        "conntrack" => connection::conntrack(rule, args),
        "state" => connection::state(args, &["--state"]).map(|c| c.into_iter().collect()),
        "connmark" => metadata::mark(args, "ct mark"),
        "helper" => connection::helper(args),
        "limit" => remembered::limit(args),
        "hashlimit" => remembered::hashlimit(rule, args),
        "connlimit" => remembered::connlimit(rule, args),
        "quota" => remembered::quota(args),
        _ => Err("there is no translation of it".to_owned()),
    }
}

/// A condition, as the only one.
fn one(text: String) -> Found {
    Ok(vec![Cond::If(text)])
}
