// SPDX-License-Identifier: Apache-2.0

//! What most packets and bytes are of: rules with counters, named counters, flows.

use std::net::{IpAddr, SocketAddr};

use penstock_lang::datatype::Format;
use penstock_lang::listing::Listing;
use penstock_program::expr::Expr;
use penstock_ruleset::Generation;
use penstock_ruleset::model::ObjectValue;
use penstock_system::SystemNames;
use penstock_wire::protocol::{DCCP, ICMP, ICMPV6, SCTP, TCP, UDP, UDPLITE};
use serde::{Serialize, Serializer, ser::SerializeSeq};

use super::status;
use crate::rules::Written;

/// A rule with a counter, as `nft list` has it but for the counter's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Rule<'a> {
    family: &'static str,
    table: &'a str,
    chain: &'a str,
    handle: u64,
    #[serde(flatten)]
    written: Written,
    packets: u64,
    bytes: u64,
}

/// A named counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Counter<'a> {
    family: &'static str,
    table: &'a str,
    name: &'a str,
    packets: u64,
    bytes: u64,
}

/// A flow or connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Talker {
    protocol: String,
    source: String,
    destination: String,
    by: &'static str,
    packets: u64,
    bytes: u64,
}

/// Rules with counters, serialized one by one: the whole list is never in memory.
pub(super) struct Rules<'v> {
    pub(super) generation: &'v Generation,
    /// Nanoseconds since the epoch.
    pub(super) now: u64,
}

/// Named counters, serialized one by one.
pub(super) struct Counters<'v> {
    pub(super) generation: &'v Generation,
    /// Nanoseconds since the epoch.
    pub(super) now: u64,
}

impl Serialize for Rules<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Rules { generation, now } = *self;
        let names = SystemNames::default();
        let format = Format { stateless: true, ..Format::default() };
        let listing = Listing { generation, format, names: &names, now };
        let mut list = serializer.serialize_seq(None)?;
        for table in &generation.tables {
            for chain in &table.chains {
                for rule in &chain.rules {
                    let counter = |expr| match expr {
                        Expr::Counter(counter) => Some(counter),
                        _ => None,
                    };
                    let Some(counter) = rule.snapshot(now).into_iter().find_map(counter) else {
                        continue;
                    };
                    list.serialize_element(&Rule {
                        family: table.family.name(),
                        table: &table.name,
                        chain: &chain.name,
                        handle: rule.handle,
                        written: Written::of(&listing, table, rule),
                        packets: counter.packets,
                        bytes: counter.bytes,
                    })?;
                }
            }
        }
        list.end()
    }
}

impl Serialize for Counters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for table in &self.generation.tables {
            for object in &table.objects {
                if let ObjectValue::Counter(counter) = object.snapshot(self.now) {
                    list.serialize_element(&Counter {
                        family: table.family.name(),
                        table: &table.name,
                        name: &object.name,
                        packets: counter.packets,
                        bytes: counter.bytes,
                    })?;
                }
            }
        }
        list.end()
    }
}

impl Talker {
    /// With the names of what a tuple has.
    pub(super) fn of(talker: &status::Talker) -> Self {
        let status::Talker { tuple, packets, bytes, by } = talker;
        let names = [
            (TCP, "tcp"),
            (UDP, "udp"),
            (UDPLITE, "udplite"),
            (SCTP, "sctp"),
            (DCCP, "dccp"),
            (ICMP, "icmp"),
            (ICMPV6, "ipv6-icmp"),
        ];
        let known = names.iter().find(|(number, _)| *number == tuple.protocol);
        let protocol =
            known.map_or_else(|| tuple.protocol.to_string(), |(_, name)| (*name).to_owned());
        let has_ports = matches!(tuple.protocol, TCP | UDP | UDPLITE | SCTP | DCCP);
        let end = |address: IpAddr, port: u16| match address {
            _ if !has_ports => address.to_string(),
            address => SocketAddr::new(address, port).to_string(),
        };
        Talker {
            protocol,
            source: end(tuple.source(), tuple.src_id),
            destination: end(tuple.destination(), tuple.dst_id),
            by,
            packets: *packets,
            bytes: *bytes,
        }
    }
}
