// SPDX-License-Identifier: Apache-2.0

//! Changes of links, and what stands on them moved from one to another.

use std::io;

use serde::{Deserialize, Serialize};

use crate::message::{Attributes, Message, put};
use crate::nexthop::OnLink;
use crate::socket::{Answers, Socket};
use crate::{address, link, neighbour, nexthop, route};

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_IFALIAS: u16 = 20;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_GROUP: u16 = 27;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;

const IFF_UP: u32 = 1;

const CREATE: u16 = 0x400;
const REPLACE: u16 = 0x100;
const APPEND: u16 = 0x800;
const EXCL: u16 = 0x200;

/// One change of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Its name; also while it is up, since Linux 6.2.
    Name(&'a str),
    /// Bytes of network-layer packet.
    Mtu(u32),
    /// Its address.
    Mac([u8; 6]),
    /// Up or down.
    Up(bool),
    /// The device that it is a part of, 0 for none.
    Master(u32),
    /// Frames that wait in its queue.
    QueueLen(u32),
    /// Its group.
    Group(u32),
    /// How its link-local address is made: 0 from its address, 1 not at all.
    Generate(u8),
    /// Free text.
    Alias(&'a str),
}

/// Carries out changes of a link, all in one.
pub fn change(socket: &mut Socket, index: u32, changes: &[Change<'_>]) -> io::Result<()> {
    let mut body = vec![0; link::HEAD];
    let place = |body: &mut Vec<u8>, at: usize, word: u32| {
        if let Some(field) = body.get_mut(at..at + 4) {
            field.copy_from_slice(&word.to_ne_bytes());
        }
    };
    place(&mut body, 4, index);
    for change in changes {
        match *change {
            Change::Name(name) => {
                put(&mut body, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
            }
            Change::Mtu(mtu) => put(&mut body, IFLA_MTU, &mtu.to_ne_bytes()),
            Change::Mac(mac) => put(&mut body, IFLA_ADDRESS, &mac),
            Change::Up(up) => {
                place(&mut body, 8, if up { IFF_UP } else { 0 });
                place(&mut body, 12, IFF_UP);
            }
            Change::Master(master) => put(&mut body, IFLA_MASTER, &master.to_ne_bytes()),
            Change::QueueLen(len) => put(&mut body, IFLA_TXQLEN, &len.to_ne_bytes()),
            Change::Group(group) => put(&mut body, IFLA_GROUP, &group.to_ne_bytes()),
            Change::Alias(text) => put(&mut body, IFLA_IFALIAS, text.as_bytes()),
            Change::Generate(mode) => {
                let mut v6 = Vec::new();
                put(&mut v6, IFLA_INET6_ADDR_GEN_MODE, &[mode]);
                let mut families = Vec::new();
                put(&mut families, libc::AF_INET6 as u16, &v6);
                put(&mut body, IFLA_AF_SPEC, &families);
            }
        }
    }
    socket.change(libc::RTM_NEWLINK, 0, &body)
}

/// Renames a link, taking it down for that where the kernel asks for it (before Linux 6.2).
pub fn rename(socket: &mut Socket, index: u32, name: &str) -> io::Result<()> {
    match change(socket, index, &[Change::Name(name)]) {
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
            change(socket, index, &[Change::Up(false)])?;
            change(socket, index, &[Change::Name(name)])?;
            change(socket, index, &[Change::Up(true)])
        }
        result => result,
    }
}

/// Gives a port of a bridge the settings of another ([`crate::Device::port_settings`]), and, if
/// given, whether it is an isolated port.
pub fn set_port(
    socket: &mut Socket,
    index: u32,
    settings: &[u8],
    isolated: Option<bool>,
) -> io::Result<()> {
    const IFLA_PROTINFO: u16 = 12;
    const NESTED: u16 = 0x8000;
    const ISOLATED: u16 = 33;
    let mut inside = Vec::new();
    for (kind, value) in
        Attributes::nested(settings).filter(|(kind, _)| isolated.is_none() || *kind != ISOLATED)
    {
        put(&mut inside, kind, value);
    }
    if let Some(isolated) = isolated {
        put(&mut inside, ISOLATED, &[u8::from(isolated)]);
    }
    let mut body = vec![0; link::HEAD];
    if let (Some(family), true) = (body.first_mut(), !inside.is_empty()) {
        *family = libc::AF_BRIDGE as u8;
    } else {
        return Ok(());
    }
    if let Some(field) = body.get_mut(4..8) {
        field.copy_from_slice(&index.to_ne_bytes());
    }
    put(&mut body, IFLA_PROTINFO | NESTED, &inside);
    socket.change(libc::RTM_SETLINK, 0, &body)
}

/// What stands on a link: addresses, routes by it, nexthop objects, neighbours on it; as messages
/// that would make them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    addresses: Vec<Vec<u8>>,
    /// Those that name it, first the ones without a gateway.
    routes: Vec<Vec<u8>>,
    nexthops: OnLink,
    /// Those that name one of these.
    by_nexthop: Vec<Vec<u8>>,
    neighbours: Vec<Vec<u8>>,
}

/// Attributes of `message` after `head` bytes, each given to `each`, which may change, drop or
/// keep it.
fn rebuilt(
    message: &Message,
    head: usize,
    mut each: impl FnMut(u16, &[u8], &mut Vec<u8>),
) -> Option<Vec<u8>> {
    let mut body = message.body.get(..head)?.to_vec();
    for (kind, value) in message.attributes(head) {
        each(kind, value, &mut body);
    }
    Some(body)
}

fn index_at(body: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?))
}

fn set_byte(body: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = body.get_mut(at) {
        *byte = value;
    }
}

/// What stands on all links of a namespace, as the kernel tells of it.
#[derive(Debug)]
pub(crate) struct Dumps {
    addresses: Vec<Message>,
    routes: Vec<Message>,
    nexthops: Vec<Message>,
    neighbours: Vec<Message>,
}

impl Dumps {
    /// Reads all of it.
    pub(crate) fn read(socket: &mut impl Answers) -> io::Result<Dumps> {
        let addresses = socket.dump(libc::RTM_GETADDR, &[0; address::HEAD])?;
        let nexthops = nexthop::all(socket)?;
        let (mut routes, mut neighbours) = (Vec::new(), Vec::new());
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut head = [0; route::HEAD];
            head[0] = family as u8;
            routes.extend(socket.dump(libc::RTM_GETROUTE, &head)?.into_iter().filter(was_made));
            let mut head = [0; neighbour::HEAD];
            head[0] = family as u8;
            neighbours.extend(socket.dump(libc::RTM_GETNEIGH, &head)?);
        }
        Ok(Dumps { addresses, routes, nexthops, neighbours })
    }
}

impl Standing {
    /// Whether nothing stands there.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.routes.is_empty() && self.neighbours.is_empty()
    }

    /// Reads what stands on a link. Temporary IPv6 addresses (RFC 8981), which a program cannot
    /// give, and what the kernel makes for addresses are left out.
    pub fn read(socket: &mut impl Answers, index: u32) -> io::Result<Standing> {
        Ok(Standing::of(&Dumps::read(socket)?, index))
    }

    /// What of all stands on a link.
    pub(crate) fn of(dumps: &Dumps, index: u32) -> Standing {
        let on_it = |message: &&Message| index_at(&message.body, 4) == Some(index);
        let mut all = Standing {
            addresses: dumps.addresses.iter().filter(on_it).filter_map(address_body).collect(),
            neighbours: dumps.neighbours.iter().filter(on_it).filter_map(neighbour_body).collect(),
            nexthops: OnLink::of(&dumps.nexthops, index),
            ..Standing::default()
        };
        for message in &dumps.routes {
            match message.attributes(route::HEAD).u32(route::RTA_NH_ID) {
                Some(id) if all.nexthops.has(id) => all.by_nexthop.extend(route_body(message)),
                None if goes_by(message, index) => all.routes.extend(route_body(message)),
                _ => {}
            }
        }
        // Gateways must be on a link by the time that they are named.
        all.routes.sort_by_key(|body| has_gateway(body));
        all
    }

    /// Without neighbours that come back by themselves.
    pub(crate) fn without_learned(mut self) -> Standing {
        self.neighbours.retain(|body| is_permanent(body));
        self
    }

    /// The configuration after so many seconds: addresses and routes with a lifetime have less of
    /// it left, or are gone.
    pub(crate) fn aged(&self, seconds: u32) -> Standing {
        let addresses =
            self.addresses.iter().filter_map(|body| address_aged(body, seconds)).collect();
        let aged = |routes: &[Vec<u8>]| {
            routes.iter().filter_map(|body| route_aged(body, seconds)).collect()
        };
        let (routes, by_nexthop) = (aged(&self.routes), aged(&self.by_nexthop));
        Standing { addresses, routes, by_nexthop, ..self.clone() }
    }

    /// Takes it off its link, but nexthop objects: these stay, with groups and routes by them,
    /// until they are put on another.
    pub fn remove(&self, socket: &mut Socket) {
        // Whatever is gone by now is gone.
        for body in self.routes.iter().rev() {
            let _ = socket.change(libc::RTM_DELROUTE, 0, body);
        }
        for body in self.addresses.iter().rev() {
            let _ = socket.change(libc::RTM_DELADDR, 0, &unlabelled(body));
        }
    }

    /// Puts it on another link, and says what could not be.
    pub fn put(&self, socket: &mut Socket, from: u32, to: u32) -> Vec<String> {
        self.put_by(socket, to, &|index| if index == from { to } else { index }, false)
    }

    /// Puts it on another link, after links got new indexes; `groups` if groups of nexthop objects
    /// must be recreated. Returns what could not be put there.
    pub(crate) fn put_by(
        &self,
        socket: &mut Socket,
        to: u32,
        index_of: &dyn Fn(u32) -> u32,
        groups: bool,
    ) -> Vec<String> {
        let mut refused = Vec::new();
        for body in &self.addresses {
            let result = socket.change(libc::RTM_NEWADDR, CREATE | REPLACE, &moved(body, 4, to));
            refused.extend(result.err().map(|e| format!("an address: {e}")));
        }
        let there = |e: &io::Error| e.raw_os_error() == Some(libc::EEXIST);
        let put_route = |socket: &mut Socket, body: &[u8], how: u16| {
            let result = socket.change(libc::RTM_NEWROUTE, CREATE | how, body);
            result.err().filter(|e| !there(e)).map(|e| format!("a route: {e}"))
        };
        let (direct, by_gateway) =
            self.routes.split_at(self.routes.partition_point(|b| !has_gateway(b)));
        for (number, routes) in [direct, by_gateway].into_iter().enumerate() {
            for body in routes {
                let body = route_moved(body, index_of);
                let append = body.first().is_some_and(|f| i32::from(*f) == libc::AF_INET6);
                refused.extend(put_route(socket, &body, if append { APPEND } else { REPLACE }));
            }
            // Their gateways are on the link by now.
            if number == 0 {
                refused.extend(self.nexthops.put(socket, to));
            }
        }
        if groups {
            refused.extend(self.nexthops.put_groups(socket));
        }
        for body in &self.by_nexthop {
            // Most have stayed; those with a source address that was taken off have not.
            refused.extend(put_route(socket, body, EXCL));
        }
        for body in &self.neighbours {
            // Neighbours come back by themselves.
            let _ = socket.change(libc::RTM_NEWNEIGH, CREATE | REPLACE, &moved(body, 4, to));
        }
        refused
    }
}

/// Removes neighbours on a link that the kernel resolved, or is resolving: it resolves them again.
/// Those entered by a user stay.
pub fn forget_asked(socket: &mut Socket, index: u32) -> io::Result<()> {
    for message in socket.dump(libc::RTM_GETNEIGH, &[0; neighbour::HEAD])? {
        let state = neighbour_state(&message.body).unwrap_or(0);
        if index_at(&message.body, 4) == Some(index) && state & (PERMANENT | NOARP) == 0 {
            // It may be gone by now.
            let _ = socket.change(libc::RTM_DELNEIGH, 0, &message.body);
        }
    }
    Ok(())
}

/// An address without its label, which changes with the name of its link.
fn unlabelled(body: &[u8]) -> Vec<u8> {
    const IFA_LABEL: u16 = 3;
    let message = Message { kind: libc::RTM_DELADDR, flags: 0, sequence: 0, body: body.to_vec() };
    let without = rebuilt(&message, address::HEAD, |kind, value, body| {
        if kind != IFA_LABEL {
            put(body, kind, value);
        }
    });
    without.unwrap_or_default()
}

fn moved(body: &[u8], at: usize, to: u32) -> Vec<u8> {
    let mut body = body.to_vec();
    if let Some(field) = body.get_mut(at..at + 4) {
        field.copy_from_slice(&to.to_ne_bytes());
    }
    body
}

fn address_body(message: &Message) -> Option<Vec<u8>> {
    const IFA_FLAGS: u16 = 8;
    const TEMPORARY: u32 = 0x01;
    /// No duplicate address detection: the address is in use already.
    const NODAD: u32 = 0x02;
    /// Home address, managed temporary ones, no prefix route, automatic join.
    const KEPT: u32 = 0x10 | 0x100 | 0x200 | 0x400;
    let v6 = i32::from(*message.body.first()?) == libc::AF_INET6;
    let flags = message.attributes(address::HEAD).u32(IFA_FLAGS).unwrap_or(0);
    if v6 && flags & TEMPORARY != 0 {
        return None;
    }
    let kept = flags & KEPT | if v6 { NODAD } else { 0 };
    let mut body = rebuilt(message, address::HEAD, |kind, value, body| {
        if kind != IFA_FLAGS {
            put(body, kind, value);
        }
    })?;
    set_byte(&mut body, 2, kept as u8);
    put(&mut body, IFA_FLAGS, &kept.to_ne_bytes());
    Some(body)
}

/// The ways of a multipath route: offset of each one's index, and what it is.
fn hops(bytes: &[u8]) -> Vec<(usize, u32)> {
    let (mut at, mut all) = (0, Vec::new());
    while let Some(&[l0, l1, _, _, i0, i1, i2, i3]) =
        bytes.get(at..).and_then(|b| b.first_chunk::<8>())
    {
        all.push((at + 4, u32::from_ne_bytes([i0, i1, i2, i3])));
        match usize::from(u16::from_ne_bytes([l0, l1])).next_multiple_of(4) {
            0 => break,
            len => at += len,
        }
    }
    all
}

/// Whether it is a configured route with a destination device.
fn was_made(message: &Message) -> bool {
    const CLONED: u32 = 0x200;
    const UNICAST: u8 = 1;
    let Some(head) = message.head::<{ route::HEAD }>() else { return false };
    let flags = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
    head[5] != route::KERNEL && head[7] == UNICAST && flags & CLONED == 0
}

/// Whether a route goes by the link.
fn goes_by(message: &Message, index: u32) -> bool {
    let all = message.attributes(route::HEAD);
    let several = all.get(route::RTA_MULTIPATH).map(hops).unwrap_or_default();
    all.u32(route::RTA_OIF) == Some(index) || several.iter().any(|(_, hop)| *hop == index)
}

const RTA_EXPIRES: u16 = 23;

/// As a message that would make the route: by its nexthop object, or with its ways.
fn route_body(message: &Message) -> Option<Vec<u8>> {
    const RTA_CACHEINFO: u16 = 12;
    const RTA_ENCAP_TYPE: u16 = 21;
    const RTA_ENCAP: u16 = 22;
    /// What an object says in place of the route.
    const WAYS: [u16; 6] = [
        route::RTA_OIF,
        route::RTA_GATEWAY,
        route::RTA_MULTIPATH,
        route::RTA_VIA,
        RTA_ENCAP_TYPE,
        RTA_ENCAP,
    ];
    let by_object = message.attributes(route::HEAD).get(route::RTA_NH_ID).is_some();
    /// `RTNH_F_ONLINK`
    const KEPT: u8 = 4;
    /// Ticks per second of the times in cache information.
    const TICKS: i32 = 100;
    let mut body = rebuilt(message, route::HEAD, |kind, value, body| match kind {
        _ if by_object && WAYS.contains(&kind) => {}
        RTA_CACHEINFO => {
            let expires =
                value.get(8..).and_then(|v| v.first_chunk::<4>()).map(|v| i32::from_ne_bytes(*v));
            if let Some(expires) = expires.filter(|e| *e > 0) {
                put(body, RTA_EXPIRES, &((expires / TICKS).max(1) as u32).to_ne_bytes());
            }
        }
        _ => put(body, kind, value),
    })?;
    let flags = body.get(8).copied().unwrap_or(0);
    body.get_mut(8..12)?.copy_from_slice(&[flags & KEPT, 0, 0, 0]);
    Some(body)
}

/// An address with lifetimes (`struct ifa_cacheinfo`) shorter by so many seconds; `None` if it has
/// expired.
fn address_aged(body: &[u8], seconds: u32) -> Option<Vec<u8>> {
    const IFA_CACHEINFO: u16 = 6;
    const FOREVER: u32 = u32::MAX;
    let message = Message { kind: libc::RTM_NEWADDR, flags: 0, sequence: 0, body: body.to_vec() };
    let less = |time: u32| if time == FOREVER { time } else { time.saturating_sub(seconds) };
    let mut lives = true;
    let aged = rebuilt(&message, address::HEAD, |kind, value, body| {
        let times =
            (kind == IFA_CACHEINFO).then(|| index_at(value, 0).zip(index_at(value, 4))).flatten();
        match times {
            Some((preferred, valid)) => {
                lives = less(valid) > 0;
                let rest = value.get(8..).unwrap_or_default();
                let times = [less(preferred).to_ne_bytes(), less(valid).to_ne_bytes()].concat();
                put(body, kind, &[&times, rest].concat());
            }
            None => put(body, kind, value),
        }
    });
    aged.filter(|_| lives)
}

/// A route that expires sooner by so many seconds; `None` if it has expired.
fn route_aged(body: &[u8], seconds: u32) -> Option<Vec<u8>> {
    let message = Message { kind: libc::RTM_NEWROUTE, flags: 0, sequence: 0, body: body.to_vec() };
    let mut lives = true;
    let aged =
        rebuilt(&message, route::HEAD, |kind, value, body| match (kind, index_at(value, 0)) {
            (RTA_EXPIRES, Some(expires)) => {
                lives = expires > seconds;
                put(body, kind, &expires.saturating_sub(seconds).to_ne_bytes());
            }
            _ => put(body, kind, value),
        });
    aged.filter(|_| lives)
}

fn has_gateway(body: &[u8]) -> bool {
    let attributes = Attributes::nested(body.get(route::HEAD..).unwrap_or_default());
    [route::RTA_GATEWAY, route::RTA_MULTIPATH, route::RTA_VIA]
        .iter()
        .any(|kind| attributes.get(*kind).is_some())
}

fn route_moved(body: &[u8], index_of: &dyn Fn(u32) -> u32) -> Vec<u8> {
    let message = Message { kind: libc::RTM_NEWROUTE, flags: 0, sequence: 0, body: body.to_vec() };
    let body = rebuilt(&message, route::HEAD, |kind, value, body| match kind {
        route::RTA_OIF => {
            let index = index_at(value, 0).map_or(0, index_of);
            put(body, kind, &index.to_ne_bytes());
        }
        route::RTA_MULTIPATH => {
            let mut value = value.to_vec();
            for (at, index) in hops(&value.clone()) {
                if let Some(field) = value.get_mut(at..at + 4) {
                    field.copy_from_slice(&index_of(index).to_ne_bytes());
                }
            }
            put(body, kind, &value);
        }
        _ => put(body, kind, value),
    });
    body.unwrap_or_default()
}

/// `NUD_PERMANENT`
const PERMANENT: u16 = 0x80;
/// `NUD_NOARP`
const NOARP: u16 = 0x40;

fn neighbour_state(body: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(*body.get(8..)?.first_chunk()?))
}

/// Whether a neighbour was entered by a user, and stays.
pub(crate) fn is_permanent(body: &[u8]) -> bool {
    neighbour_state(body).is_some_and(|state| state & PERMANENT != 0)
}

fn neighbour_body(message: &Message) -> Option<Vec<u8>> {
    const NDA_CACHEINFO: u16 = 3;
    const NDA_PROBES: u16 = 4;
    neighbour::read(message)?.mac?;
    let state = neighbour_state(&message.body)?;
    if state & NOARP != 0 {
        return None;
    }
    let mut body = rebuilt(message, neighbour::HEAD, |kind, value, body| {
        if !matches!(kind, NDA_CACHEINFO | NDA_PROBES) {
            put(body, kind, value);
        }
    })?;
    let state = if state & PERMANENT != 0 { PERMANENT } else { neighbour::STALE };
    body.get_mut(8..10)?.copy_from_slice(&state.to_ne_bytes());
    Some(body)
}
