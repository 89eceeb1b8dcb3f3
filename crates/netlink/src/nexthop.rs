// SPDX-License-Identifier: Apache-2.0

//! Nexthop objects (`RTM_NEWNEXTHOP`, `<linux/nexthop.h>`): ways, and groups of them, that routes
//! name by a number.
//!
//! The kernel writes their ways out in routes only as long as `net.ipv4.nexthop_compat_mode` is
//! set, so routes are always read together with them. Those of forwarding tables of tunnels (`fdb`)
//! are no business of routes.

use std::collections::HashMap;
use std::io;

use penstock_net::{Nexthop, Scope};
use serde::{Deserialize, Serialize};

use crate::message::{Attributes, Message, address, put};
use crate::socket::{Answers, Socket};

/// `RTM_NEWNEXTHOP`, `RTM_DELNEXTHOP`, `RTM_GETNEXTHOP`
pub(crate) const NEW: u16 = 104;
pub(crate) const DEL: u16 = 105;
const GET: u16 = 106;
/// `RTNLGRP_NEXTHOP`
pub(crate) const GROUP: i32 = 32;

/// Bytes of `struct nhmsg`.
const HEAD: usize = 8;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_FDB: u16 = 11;
const NHA_RES_GROUP: u16 = 12;
/// How long a resilient group has been unbalanced, which is only told.
const NHA_RES_GROUP_UNBALANCED_TIME: u16 = 4;

/// `NLA_F_NESTED`, which the kernel asks for here.
const NESTED: u16 = 0x8000;

const DEAD: u32 = 1;
const ONLINK: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Object {
    /// Not if it is dead.
    Way(Option<Nexthop>),
    /// Which refuses; the type of a route by it says that.
    Blackhole,
    /// Numbers of others, and their weights.
    Group(Vec<(u32, u32)>),
}

/// Those of a namespace, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects(HashMap<u32, Object>);

impl Objects {
    /// Reads all. A kernel without them (before 5.3) has none.
    pub(crate) fn read(socket: &mut impl Answers) -> io::Result<Objects> {
        Ok(Objects(all(socket)?.iter().filter_map(read).collect()))
    }

    /// The ways of a route by the object with a number; `None` if it is not known.
    pub(crate) fn ways(&self, id: u32) -> Option<Vec<Nexthop>> {
        let way = |id: &u32, weight: u32| match self.0.get(id)? {
            Object::Way(way) => Some(Nexthop { weight, ..way.clone()? }),
            // The kernel has no groups in groups.
            Object::Blackhole | Object::Group(_) => None,
        };
        Some(match self.0.get(&id)? {
            Object::Group(members) => {
                members.iter().filter_map(|(id, weight)| way(id, *weight)).collect()
            }
            Object::Way(_) => way(&id, 1).into_iter().collect(),
            Object::Blackhole => {
                vec![Nexthop {
                    oif: 0,
                    gateway: None,
                    onlink: false,
                    weight: 1,
                    scope: Scope::NOWHERE,
                }]
            }
        })
    }
}

pub(crate) fn all(socket: &mut impl Answers) -> io::Result<Vec<Message>> {
    match socket.dump(GET, &[0; HEAD]) {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Vec::new()),
        result => result,
    }
}

fn flags(message: &Message) -> u32 {
    message.head::<HEAD>().map_or(0, |&[_, _, _, _, a, b, c, d]| u32::from_ne_bytes([a, b, c, d]))
}

/// Number and object; `None` of one that no route goes by.
fn read(message: &Message) -> Option<(u32, Object)> {
    let all = message.attributes(HEAD);
    let id = all.u32(NHA_ID)?;
    if all.get(NHA_FDB).is_some() {
        return None;
    }
    if let Some(members) = all.get(NHA_GROUP) {
        return Some((id, Object::Group(self::members(members))));
    }
    if all.get(NHA_BLACKHOLE).is_some() {
        return Some((id, Object::Blackhole));
    }
    let gateway = all.get(NHA_GATEWAY).and_then(address).filter(|g| !g.is_unspecified());
    let scope = if gateway.is_some() { Scope::LINK } else { Scope::HOST };
    let flags = flags(message);
    let way =
        Nexthop { oif: all.u32(NHA_OIF)?, gateway, onlink: flags & ONLINK != 0, weight: 1, scope };
    Some((id, Object::Way((flags & DEAD == 0).then_some(way))))
}

/// The members of a group, `struct nexthop_grp` each, with their weights.
fn members(bytes: &[u8]) -> Vec<(u32, u32)> {
    let member = |b: &[u8]| {
        let &[i0, i1, i2, i3, low, high, ..] = b.first_chunk::<8>()?;
        Some((u32::from_ne_bytes([i0, i1, i2, i3]), u32::from(u16::from_le_bytes([low, high])) + 1))
    };
    bytes.chunks_exact(8).filter_map(member).collect()
}

/// The objects that leave by a link, as messages that would make them, and the numbers of these and
/// of groups with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OnLink {
    bodies: Vec<Vec<u8>>,
    /// Groups that have some of them.
    groups: Vec<Vec<u8>>,
    ids: Vec<u32>,
}

impl OnLink {
    /// Of all objects of the namespace.
    pub(crate) fn of(all: &[Message], index: u32) -> OnLink {
        let mut on = OnLink::default();
        for message in all {
            let attributes = message.attributes(HEAD);
            if attributes.u32(NHA_OIF) == Some(index) {
                on.ids.extend(attributes.u32(NHA_ID));
                on.bodies.push(body(message));
            }
        }
        for message in all {
            if let Some((id, Object::Group(members))) = read(message)
                && members.iter().any(|(member, _)| on.ids.contains(member))
            {
                on.ids.push(id);
                on.groups.push(group_body(message));
            }
        }
        on
    }

    /// Recreates the groups, or restores their members. Returns what failed.
    pub(crate) fn put_groups(&self, socket: &mut Socket) -> Vec<String> {
        const CREATE: u16 = 0x400;
        const REPLACE: u16 = 0x100;
        let put = |body: &Vec<u8>| socket.change(NEW, CREATE | REPLACE, body).err();
        self.groups.iter().filter_map(put).map(|e| format!("a group of nexthops: {e}")).collect()
    }

    /// Whether a route by the object with this number may leave by the link.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }

    /// Has all of them leave by another link, where their gateways are reached by now. They stay
    /// what they are, so groups and routes know nothing of it. Says what could not be.
    pub(crate) fn put(&self, socket: &mut Socket, to: u32) -> Vec<String> {
        const CREATE: u16 = 0x400;
        const REPLACE: u16 = 0x100;
        let mut waiting: Vec<Vec<u8>> = self.bodies.iter().map(|body| moved(body, to)).collect();
        loop {
            let before = waiting.len();
            let mut refused = Vec::new();
            waiting.retain(|body| match socket.change(NEW, CREATE | REPLACE, body) {
                Ok(()) => false,
                Err(e) => {
                    refused.push(format!("a nexthop: {e}"));
                    true
                }
            });
            // The gateway of one may be reached by a route by another.
            if waiting.is_empty() || waiting.len() == before {
                return refused;
            }
        }
    }
}

/// As a message that would make it: without what the kernel only tells.
fn body(message: &Message) -> Vec<u8> {
    const GIVEN: [u16; 5] = [NHA_ID, NHA_OIF, NHA_GATEWAY, NHA_ENCAP_TYPE, NHA_ENCAP];
    let Some(&[family, _, protocol, ..]) = message.head::<HEAD>() else { return Vec::new() };
    let [a, b, c, d] = (flags(message) & ONLINK).to_ne_bytes();
    let mut body = vec![family, 0, protocol, 0, a, b, c, d];
    for (kind, value) in message.attributes(HEAD).filter(|(kind, _)| GIVEN.contains(kind)) {
        put(&mut body, kind | if kind == NHA_ENCAP { NESTED } else { 0 }, value);
    }
    body
}

/// A group as a message that would make it: without what the kernel only tells.
fn group_body(message: &Message) -> Vec<u8> {
    let Some(&[_, _, protocol, ..]) = message.head::<HEAD>() else { return Vec::new() };
    let mut body = vec![0, 0, protocol, 0, 0, 0, 0, 0];
    for (kind, value) in message.attributes(HEAD) {
        match kind {
            NHA_ID | NHA_GROUP | NHA_GROUP_TYPE => put(&mut body, kind, value),
            NHA_RES_GROUP => {
                let mut inside = Vec::new();
                for (kind, value) in Attributes::nested(value) {
                    if kind != NHA_RES_GROUP_UNBALANCED_TIME {
                        put(&mut inside, kind, value);
                    }
                }
                put(&mut body, kind | NESTED, &inside);
            }
            _ => {}
        }
    }
    body
}

fn moved(body: &[u8], to: u32) -> Vec<u8> {
    let message = Message { kind: NEW, flags: 0, sequence: 0, body: body.to_vec() };
    let mut moved = body.get(..HEAD).unwrap_or_default().to_vec();
    for (kind, value) in message.attributes(HEAD) {
        match kind {
            NHA_OIF => put(&mut moved, kind, &to.to_ne_bytes()),
            NHA_ENCAP => put(&mut moved, kind | NESTED, value),
            _ => put(&mut moved, kind, value),
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_sixteen_bits() {
        // As `ip nexthop add id 10 group 1,3/2` is dumped, and a weight of 1000.
        let member = |id: u32, low, high| [id.to_ne_bytes(), [low, high, 0, 0]].concat();
        let bytes = [member(1, 2, 0), member(2, 0, 0), member(3, 0xe7, 3)].concat();
        assert_eq!(members(&bytes), [(1, 3), (2, 1), (3, 1000)]);
        (0..bytes.len()).for_each(|len| drop(members(&bytes[..len])));
    }
}
