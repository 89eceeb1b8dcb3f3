// SPDX-License-Identifier: Apache-2.0

//! What packets do with sets: `ip_set_test()`, `ip_set_add()`, `ip_set_del()` and the `kadt`
//! functions of the types.

use crate::carried::{New, SkbInfo, Words};
use crate::element::{Device, Element, IFACE_LEN, Prefix};
use crate::kind::{Dimension, Family, Kind};
use crate::options::{Shape, TIMEOUT_MOST, mask32};
use crate::range::masked;
use crate::set::{Content, Set};
use crate::sets::IpSets;
use crate::table::{Found, Table};

/// `IPSET_FLAG_EXIST`
pub const EXIST: u32 = 1;
/// `IPSET_FLAG_PHYSDEV`
const PHYSDEV: u32 = 1 << 1;
/// `IPSET_FLAG_SKIP_COUNTER_UPDATE`
pub const SKIP_COUNTER_UPDATE: u32 = 1 << 3;
/// `IPSET_FLAG_SKIP_SUBCOUNTER_UPDATE`
pub const SKIP_SUBCOUNTER_UPDATE: u32 = 1 << 4;
/// `IPSET_FLAG_RETURN_NOMATCH`
pub const RETURN_NOMATCH: u32 = 1 << 7;
/// Sets in lists that are looked into: a list cannot be in a list.
const DEEPEST: u8 = 1;

/// What sets ask of a packet.
pub trait Fields {
    /// Its family: IPv4 or IPv6.
    fn family(&self) -> Family;
    /// Its source or destination address, as elements have it.
    fn address(&self, source: bool) -> Option<[u8; 16]>;
    /// Its source or destination port, or type and code of ICMP, and the protocol; `None` where
    /// they are not there.
    fn port(&self, source: bool) -> Option<(u16, u8)>;
    /// Its source or destination link address.
    fn mac(&self, source: bool) -> Option<[u8; 6]>;
    /// Its mark.
    fn mark(&self) -> u32;
    /// The name of the device that it came by (`source`) or leaves by, or of the port of a bridge.
    fn device(&self, source: bool, port: bool) -> Option<[u8; IFACE_LEN]>;
    /// Bytes that it counts for.
    fn bytes(&self) -> u64;
}

/// A comparison of a counter (`struct ip_set_counter_match`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterMatch {
    /// `IPSET_COUNTER_*`: 0 for none, then equal, not equal, less, more.
    pub op: u8,
    /// Compared with this.
    pub value: u64,
}

impl CounterMatch {
    fn is_met(self, counter: u64) -> bool {
        match self.op {
            1 => counter == self.value,
            2 => counter != self.value,
            3 => counter < self.value,
            4 => counter > self.value,
            _ => true,
        }
    }
}

/// How a rule looks into a set (`struct ip_set_adt_opt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Number of the set.
    pub index: u16,
    /// How many dimensions it names.
    pub dimensions: u8,
    /// Bit n, from 1 on: dimension n is of the source.
    pub sources: u8,
    /// `IPSET_FLAG_*`.
    pub flags: u32,
    /// Packets and bytes that the element must have counted.
    pub counters: Option<[CounterMatch; 2]>,
    /// Seconds that a new element lives; `None` as the set says.
    pub timeout: Option<u32>,
}

impl Query {
    fn is_source(&self, dimension: u8) -> bool {
        self.sources >> dimension & 1 != 0
    }
}

/// What a packet is told of an element that it matches.
enum Outcome {
    Match(SkbInfo),
    /// It matches an exception.
    Exception,
    No,
}

impl IpSets {
    /// Whether a packet matches a set, and what it gets then (`ip_set_test()`). Nothing matches a
    /// set that is not there.
    #[inline]
    pub fn test(&self, query: &Query, packet: &impl Fields, now: u64) -> Option<SkbInfo> {
        self.test_at(query, packet, now, 0)
    }

    fn test_at(&self, query: &Query, packet: &impl Fields, now: u64, depth: u8) -> Option<SkbInfo> {
        let slots = self.slots();
        let set = slots.set(query.index)?;
        if !is_for(set, query, packet) {
            return None;
        }
        let table = match &set.content {
            Content::Table(table) => table,
            Content::List(_) if depth >= DEEPEST => return None,
            Content::List(members) => {
                let mut inner = Query { counters: None, ..*query };
                if query.flags & SKIP_SUBCOUNTER_UPDATE != 0 {
                    inner.flags |= SKIP_COUNTER_UPDATE;
                }
                let mut info = None;
                members.each(now, |member| {
                    inner.index = member.index;
                    let Some(found) = self.test_at(&inner, packet, now, depth + 1) else {
                        return false;
                    };
                    if !set.meets(member.words(), query, packet) {
                        return false;
                    }
                    let own = member.words().skbinfo();
                    info = Some(if set.header.options.skbinfo { own } else { found });
                    true
                });
                return info;
            }
        };
        let returns_exceptions = query.flags & RETURN_NOMATCH != 0 && set.header.kind.has_nets();
        match set.look(table, query, packet, now) {
            Outcome::Match(info) => (!returns_exceptions).then_some(info),
            Outcome::Exception => returns_exceptions.then(SkbInfo::default),
            Outcome::No => None,
        }
    }

    /// Adds what a packet has to a set, or deletes it, as far as that can be done (`ip_set_add()`,
    /// `ip_set_del()`); whether it was.
    pub fn change(&self, query: &Query, delete: bool, packet: &impl Fields, now: u64) -> bool {
        self.change_at(query, delete, packet, now, 0)
    }

    fn change_at(
        &self,
        query: &Query,
        delete: bool,
        packet: &impl Fields,
        now: u64,
        depth: u8,
    ) -> bool {
        let slots = self.slots();
        let Some(set) = slots.set(query.index).filter(|set| is_for(set, query, packet)) else {
            return false;
        };
        match &set.content {
            Content::Table(table) => set.change_by(table, query, delete, packet, now),
            Content::List(_) if depth >= DEEPEST => false,
            Content::List(members) => members.each(now, |member| {
                let inner = Query { index: member.index, ..*query };
                self.change_at(&inner, delete, packet, now, depth + 1)
            }),
        }
    }
}

fn is_for(set: &Set, query: &Query, packet: &impl Fields) -> bool {
    let header = &set.header;
    usize::from(query.dimensions) >= header.kind.least_dimensions()
        && (header.family == Family::Any || header.family == packet.family())
}

impl Set {
    /// Counts a packet, and compares (`ip_set_match_extensions()`).
    fn meets(&self, words: Words<'_>, query: &Query, packet: &impl Fields) -> bool {
        if !self.header.options.counters {
            return true;
        }
        if query.flags & SKIP_COUNTER_UPDATE == 0 {
            words.count(packet.bytes());
        }
        query.counters.is_none_or(|[packets, bytes]| {
            let counted = words.counters();
            packets.is_met(counted[0]) && bytes.is_met(counted[1])
        })
    }

    /// The element of a packet; `None` if it lacks something.
    fn element(&self, query: &Query, packet: &impl Fields, adds: bool) -> Option<Element> {
        let header = &self.header;
        let bits = header.family.bits();
        let mut element = Element::default();
        let mut net = 0;
        for (number, dimension) in (1..).zip(header.kind.dimensions()) {
            let source = query.is_source(number);
            match dimension {
                Dimension::Ip | Dimension::Net => {
                    let prefix = Prefix { address: packet.address(source)?, len: bits };
                    element.nets[net] = masked(&header.options, prefix);
                    net = 1;
                }
                Dimension::Port => (element.port, element.protocol) = packet.port(source)?,
                Dimension::Mac => {
                    element.mac = packet.mac(source).filter(|mac| *mac != [0; 6])?;
                }
                Dimension::Mark => element.mark = packet.mark(),
                Dimension::Iface => {
                    let port = query.flags & PHYSDEV != 0;
                    let name = packet.device(source, port).filter(|name| name[0] != 0)?;
                    element.device = Device { name, port, wildcard: false };
                }
            }
        }
        if header.kind == Kind::HashIp && element.nets[0].address == [0; 16] {
            return None;
        }
        if let Shape::Hash { markmask, .. } = header.options.shape {
            element.mark &= markmask;
        }
        if header.kind.is_bitmap() {
            self.in_bitmap(&mut element)?;
        }
        if adds && let Content::Table(table) = &self.content {
            self.as_network(table, &mut element);
        }
        Some(element)
    }

    /// An element that a packet adds has the longest prefix that is there.
    fn as_network(&self, table: &Table, element: &mut Element) {
        let mut net = 0;
        for dimension in self.header.kind.dimensions() {
            match dimension {
                Dimension::Net => {
                    let prefix = &mut element.nets[net];
                    *prefix = Prefix::masked(prefix.address, table.longest());
                    net = 1;
                }
                Dimension::Ip => net = 1,
                _ => {}
            }
        }
    }

    /// The element of a bitmap; `None` outside of its range, and for ports of other protocols.
    fn in_bitmap(&self, element: &mut Element) -> Option<()> {
        let Shape::Bitmap { first, last, netmask } = self.header.options.shape else {
            return None;
        };
        if self.has(Dimension::Port) {
            let known = [6, 17].contains(&element.protocol);
            element.protocol = 0;
            return (known && (first..=last).contains(&element.port.into())).then_some(());
        }
        let address = u32::from_be_bytes(*element.nets[0].address.first_chunk()?);
        let masked = address & mask32(netmask);
        element.nets[0].address[..4].copy_from_slice(&masked.to_be_bytes());
        (first..=last).contains(&address).then_some(())
    }

    fn look(&self, table: &Table, query: &Query, packet: &impl Fields, now: u64) -> Outcome {
        let Some(element) = self.element(query, packet, false) else { return Outcome::No };
        let accepts = |found: &Found| self.meets(table.words(found.slot), query, packet);
        let found = table.search(&element, now, accepts);
        let Some(found) = found else { return Outcome::No };
        if self.header.kind == Kind::BitmapIpMac {
            match found.carried.mac {
                Some(mac) if mac != element.mac => return Outcome::No,
                Some(_) => {}
                // The first packet says which one it is.
                None => table.words(found.slot).set_mac(element.mac),
            }
        }
        match found.carried.nomatch {
            true => Outcome::Exception,
            false if self.header.options.skbinfo => Outcome::Match(found.carried.skbinfo),
            false => Outcome::Match(SkbInfo::default()),
        }
    }

    fn change_by(
        &self,
        table: &Table,
        query: &Query,
        delete: bool,
        packet: &impl Fields,
        now: u64,
    ) -> bool {
        let Some(element) = self.element(query, packet, true) else { return false };
        if delete {
            return table.remove(&element, now);
        }
        let options = &self.header.options;
        let new = New {
            timeout: query.timeout.or(options.timeout).unwrap_or(0).min(TIMEOUT_MOST),
            counters: [Some(1), Some(packet.bytes())],
            ..New::default()
        };
        let new = New { timeout: if options.timeout.is_some() { new.timeout } else { 0 }, ..new };
        let mac = Some(element.mac).filter(|_| self.header.kind == Kind::BitmapIpMac);
        let exist = query.flags & EXIST != 0;
        table.add(&element, mac, &new, (exist, options), now).is_ok()
    }
}
