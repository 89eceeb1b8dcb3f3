// SPDX-License-Identifier: Apache-2.0

//! What rules see of connections, and change about them (`net/netfilter/nft_ct.c`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use penstock_conntrack::status::CONFIRMED;
use penstock_conntrack::tuple::{IPV4, IPV6};
use penstock_conntrack::{Conntrack, Direction, Expectation, Template, Tracker, Tuple};
use penstock_packet::{Ct, CtInfo, Packet};
use penstock_program::env::{CtSources, Decision};
use penstock_program::expr::{CtDir, CtKey};
use penstock_program::image::{CtObject, NewConnection};
use penstock_wire::ethernet;

const MILLISECOND: u64 = 1_000_000;
/// `NFPROTO_INET`.
const INET: u8 = 1;

fn direction(dir: CtDir) -> Direction {
    match dir {
        CtDir::Original => Direction::Original,
        CtDir::Reply => Direction::Reply,
    }
}

/// Writes bytes at the start of a register; their number.
fn put<const N: usize>(out: &mut [u8; 16], bytes: [u8; N]) -> Option<u8> {
    out.get_mut(..N)?.copy_from_slice(&bytes);
    Some(N as u8)
}

/// A key of the packet's connection, as [`Env::ct_get`](penstock_program::Env::ct_get) wants it.
pub(crate) fn get(
    conntrack: &Conntrack,
    packet: &Packet,
    key: CtKey,
    dir: Option<CtDir>,
    out: &mut [u8; 16],
) -> Option<u8> {
    let ct = &packet.meta.ct;
    let dir = dir.map(direction);
    let connection = conntrack.connection(ct)?;
    let counter = |of: fn(penstock_conntrack::Counter) -> u64| {
        let one = |dir| connection.counters(dir).map_or(0, of);
        match dir {
            Some(dir) => one(dir),
            None => one(Direction::Original) + one(Direction::Reply),
        }
    };
    match key {
        CtKey::Mark => put(out, connection.mark().to_ne_bytes()),
        CtKey::Status => put(out, connection.status().to_ne_bytes()),
        CtKey::SecMark => put(out, connection.secmark().to_ne_bytes()),
        CtKey::Expiration => {
            // Before it is in the table a connection has none (nf_ct_expires(), observed).
            let confirmed = connection.status() & CONFIRMED != 0;
            let milliseconds = if confirmed { connection.remaining() / MILLISECOND } else { 0 };
            put(out, (milliseconds.min(u32::MAX.into()) as u32).to_ne_bytes())
        }
        CtKey::Labels => {
            let labels = connection.labels().unwrap_or_default();
            for (to, word) in out.chunks_exact_mut(4).zip(labels) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            Some(16)
        }
        CtKey::Pkts => put(out, counter(|c| c.packets).to_ne_bytes()),
        CtKey::Bytes => put(out, counter(|c| c.bytes).to_ne_bytes()),
        CtKey::AvgPkt => {
            let average = counter(|c| c.bytes).checked_div(counter(|c| c.packets));
            put(out, average.unwrap_or(0).to_ne_bytes())
        }
        CtKey::L3Protocol => put(out, [connection.tuple(Direction::Original).l3]),
        CtKey::Protocol => put(out, [connection.tuple(Direction::Original).protocol]),
        CtKey::Zone => {
            let zone = match dir {
                Some(dir) => connection.zone(dir),
                None => id_of_zones(
                    connection.zone(Direction::Original),
                    connection.zone(Direction::Reply),
                ),
            };
            put(out, zone.to_ne_bytes())
        }
        CtKey::Id => put(out, connection.id().to_ne_bytes()),
        CtKey::Helper => {
            let name = connection.master()?.helper()?.as_bytes();
            let mut bytes = [0; 16];
            bytes.get_mut(..name.len()).filter(|_| name.len() < 16)?.copy_from_slice(name);
            put(out, bytes)
        }
        CtKey::Src
        | CtKey::Dst
        | CtKey::ProtoSrc
        | CtKey::ProtoDst
        | CtKey::SrcIp
        | CtKey::DstIp
        | CtKey::SrcIp6
        | CtKey::DstIp6 => of_tuple(connection.tuple(dir.unwrap_or(Direction::Original)), key, out),
        // Properties of the packet, not of the connection; and keys that can only be set.
        CtKey::State | CtKey::Direction | CtKey::EventMask => None,
    }
}

/// A zone that holds for one direction only is 0 in the other.
fn id_of_zones(original: u16, reply: u16) -> u16 {
    if original != 0 { original } else { reply }
}

fn of_tuple(tuple: &Tuple, key: CtKey, out: &mut [u8; 16]) -> Option<u8> {
    let mut address = |bytes: &[u8; 16], l3: Option<u8>| {
        if l3.is_some_and(|l3| l3 != tuple.l3) {
            return None;
        }
        *out = *bytes;
        Some(if tuple.l3 == IPV4 { 4 } else { 16 })
    };
    match key {
        CtKey::Src => address(&tuple.src, None),
        CtKey::Dst => address(&tuple.dst, None),
        CtKey::SrcIp => address(&tuple.src, Some(IPV4)),
        CtKey::DstIp => address(&tuple.dst, Some(IPV4)),
        CtKey::SrcIp6 => address(&tuple.src, Some(IPV6)),
        CtKey::DstIp6 => address(&tuple.dst, Some(IPV6)),
        CtKey::ProtoSrc => put(out, tuple.src_id.to_be_bytes()),
        CtKey::ProtoDst => put(out, tuple.dst_id.to_be_bytes()),
        _ => None,
    }
}

/// The original source of the packet's connection or of its master, as
/// [`Env::ct_first_source`](penstock_program::Env::ct_first_source) is asked for it.
pub(crate) fn first_source(conntrack: &Conntrack, packet: &Packet) -> Option<IpAddr> {
    let connection = conntrack.connection(&packet.meta.ct)?;
    let first = connection.master().unwrap_or(connection);
    Some(first.tuple(Direction::Original).source())
}

/// The sources of both directions, as [`Env::ct_sources`](penstock_program::Env::ct_sources) is asked
/// for them.
pub(crate) fn sources(conntrack: &Conntrack, packet: &Packet) -> Option<CtSources> {
    let connection = conntrack.connection(&packet.meta.ct)?;
    let [there, back] = [Direction::Original, Direction::Reply].map(|d| connection.tuple(d));
    let sources = [there, back].map(|tuple| (tuple.source(), tuple.src_id));
    Some(CtSources { protocol: there.protocol, sources })
}

/// Sets a key, as [`Env::ct_set`](penstock_program::Env::ct_set) is asked to.
pub(crate) fn set(conntrack: &mut Conntrack, packet: &Packet, key: CtKey, value: &[u8]) {
    let Some(n) = conntrack.resolve(&packet.meta.ct) else { return };
    let word = |at: usize| {
        let bytes = value.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    };
    match key {
        CtKey::Mark => conntrack.set_mark(n, word(0)),
        CtKey::SecMark => conntrack.set_secmark(n, word(0)),
        CtKey::Labels => {
            // Labels are added; a connection without room for them stays without.
            let labels = [word(0), word(4), word(8), word(12)];
            conntrack.set_labels(n, labels, labels);
        }
        // Events have 11 bits.
        CtKey::EventMask => conntrack.set_event_mask(n, word(0) as u16),
        // Linking lets no other key through.
        _ => {}
    }
}

/// Gives a packet a template with a zone, as
/// [`Env::ct_set_zone`](penstock_program::Env::ct_set_zone) is asked to.
pub(crate) fn set_zone(
    conntrack: &mut Conntrack,
    packet: &mut Packet,
    zone: u16,
    dir: Option<CtDir>,
) -> Decision {
    set_template(conntrack, packet, Template::default(), (zone, dir))
}

fn set_template(
    conntrack: &mut Conntrack,
    packet: &mut Packet,
    template: Template,
    (zone, dir): (u16, Option<CtDir>),
) -> Decision {
    let template = conntrack.template(Template {
        original_zone: if dir == Some(CtDir::Reply) { 0 } else { zone },
        reply_zone: if dir == Some(CtDir::Original) { 0 } else { zone },
        ..template
    });
    if template == 0 {
        return Decision::Drop;
    }
    packet.meta.ct.template = template;
    packet.meta.ct.info = CtInfo::New;
    Decision::Continue
}

/// Timeout policies of `ct timeout` objects by what they say: one object of the same content as
/// another is the same.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    numbers: HashMap<PolicyKey, u16>,
}

/// Transport protocol; states and seconds.
type PolicyKey = (u8, Arc<[(u8, u32)]>);

impl Policies {
    /// Creates the policies of a generation. Policies no longer in it are removed, and their
    /// connections continue with the usual timeouts (`nf_ct_untimeout()`).
    pub(crate) fn set(&mut self, conntrack: &mut Conntrack, objects: &[Arc<CtObject>]) {
        let mut old = std::mem::take(&mut self.numbers);
        for object in objects {
            let CtObject::Timeout { l4proto, values, .. } = &**object else { continue };
            let key = (*l4proto, values.clone());
            if self.numbers.contains_key(&key) {
                continue;
            }
            let number = old.remove(&key).or_else(|| add_policy(conntrack, *l4proto, values));
            if let Some(number) = number {
                self.numbers.insert(key, number);
            }
        }
        for number in old.into_values() {
            conntrack.remove_policy(number);
        }
    }

    /// Gives a packet the template of a new connection, as
    /// [`Env::ct_set_template`](penstock_program::Env::ct_set_template) is asked to. A helper for
    /// another protocol is none.
    pub(crate) fn set_template(
        &self,
        conntrack: &mut Conntrack,
        packet: &mut Packet,
        new: &NewConnection,
    ) -> Decision {
        let protocol = packet.transport().map(|t| t.protocol);
        let l3 = if packet.meta.protocol == ethernet::IPV6 { IPV6 } else { IPV4 };
        let number = |protocol| conntrack.helpers().number(&new.helper, l3, protocol);
        let helper = protocol.and_then(number);
        let policy = match new.timeout.as_deref() {
            Some(CtObject::Timeout { l4proto, values, .. }) => {
                self.numbers.get(&(*l4proto, values.clone())).copied()
            }
            _ => None,
        };
        let template = Template {
            helper: helper.unwrap_or(0),
            policy: policy.unwrap_or(0),
            events: new.events,
            ..Template::default()
        };
        set_template(conntrack, packet, template, (new.zone, new.dir))
    }

    /// What an object of connection tracking does to a packet's connection, as
    /// [`Env::ct_object`](penstock_program::Env::ct_object) is asked to.
    pub(crate) fn apply(
        &self,
        conntrack: &mut Conntrack,
        packet: &Packet,
        object: &CtObject,
    ) -> Decision {
        let connection = conntrack.connection(&packet.meta.ct);
        let unconfirmed = connection.filter(|c| c.status() & CONFIRMED == 0).map(|c| c.number());
        match object {
            CtObject::Timeout { l4proto, values, .. } => {
                let of_packet = packet.transport().is_some_and(|t| t.protocol == *l4proto);
                let Some(n) = unconfirmed.filter(|_| of_packet) else { return Decision::Continue };
                match self.numbers.get(&(*l4proto, values.clone())) {
                    Some(number) => conntrack.set_policy(n, *number),
                    None => return Decision::Drop,
                }
                Decision::Continue
            }
            CtObject::Helper { name, l4proto, l3proto } => {
                if let Some(connection) = unconfirmed.and_then(|n| conntrack.connection_at(n)) {
                    let n = connection.number();
                    let family = connection.tuple(Direction::Original).l3;
                    let number = conntrack.helpers().number(name, family, *l4proto);
                    if let Some(number) =
                        number.filter(|_| matches!(*l3proto, INET) || *l3proto == family)
                    {
                        conntrack.set_helper(n, number);
                    }
                }
                Decision::Continue
            }
            CtObject::Expect { l4proto, l3proto, dport, timeout, size } => {
                let Some(connection) = unconfirmed.and_then(|n| conntrack.connection_at(n)) else {
                    return Decision::Break;
                };
                let reply = packet.meta.ct.info.is_reply();
                let from = if reply { Direction::Original } else { Direction::Reply };
                let (n, back, master) =
                    (connection.number(), *connection.tuple(from), connection.reference());
                if conntrack.expecting(n, 0) >= u32::from(*size) {
                    return Decision::Break;
                }
                let l3 = if *l3proto == INET { back.l3 } else { *l3proto };
                let expectation =
                    Expectation::new(master, l3, *l4proto, Some(back.src), back.dst, *dport);
                let timeout = u64::from(*timeout) * MILLISECOND;
                match conntrack.expect(Expectation { timeout, ..expectation }, 0) {
                    Ok(()) => Decision::Continue,
                    Err(_) => Decision::Drop,
                }
            }
        }
    }
}

fn add_policy(conntrack: &mut Conntrack, protocol: u8, values: &[(u8, u32)]) -> Option<u16> {
    let names = Tracker::of(protocol).timeouts();
    let timeouts: Vec<_> = values
        .iter()
        .filter_map(|(state, seconds)| {
            let name = names.iter().find(|t| t.index == usize::from(*state))?;
            Some((name.policy, Duration::from_secs(u64::from(*seconds))))
        })
        .collect();
    conntrack.add_policy(protocol, &timeouts).ok()
}

/// What an answer to a packet is to the packet's connection (`nf_conntrack_attach()`): the host's
/// own errors and resets belong to it even where it is not in the table yet.
pub(crate) fn answer_ct(packet: &Packet) -> Ct {
    let ct = packet.meta.ct;
    if !ct.has_entry() {
        return Ct::default();
    }
    let info = if ct.info.is_reply() { CtInfo::Related } else { CtInfo::RelatedReply };
    Ct { info, ..ct }
}
