// SPDX-License-Identifier: Apache-2.0

//! A packet of a region, with all that rules can ask about it: its bytes (`frame`) and its metadata.
//! `run` has the interpreter's word on what becomes of it.

mod followed;
mod frame;
mod link;
mod run;
mod way;

pub use followed::Followed;
pub use run::{Verified, check};

use std::collections::HashMap;

use penstock_packet::{Ct, CtInfo, Packet, PacketType};
use penstock_program::env::Interface;
use penstock_program::expr::{CtDir, CtKey, ExthdrOp, MetaKey};
use penstock_program::op::Op;
use penstock_program::{Family, Hook};
use penstock_wire::ethernet;

use crate::field::{Base, Field, What, state};
use crate::layout;
use crate::preferred::{ARRIVAL, LEAVING};
use crate::universe::Universe;
use frame::{link_bytes, link_seen, network_bytes};

/// A packet, and all that rules can ask about it.
pub struct Example<'u> {
    /// The packet as it comes to the hook.
    pub packet: Packet,
    /// Name of the interface of arrival, where there is one and rules ask for it.
    pub arrival: Option<String>,
    universe: &'u Universe,
    point: Vec<bool>,
    /// Family of the hook.
    family: Family,
    interfaces: HashMap<u32, Interface>,
    connection: HashMap<(CtKey, Option<CtDir>), Vec<u8>>,
}

impl<'u> Example<'u> {
    /// Makes the packet that a value of all variables describes. `None` if there can be none, which
    /// [`Universe::possible`] does not always see: header fields that overlap, lengths that do not
    /// go together.
    pub fn new(universe: &'u Universe, point: &[bool]) -> Option<Self> {
        let place = universe.place;
        let version = match layout::version(universe, point) {
            Some(version) => Some(version),
            None if place.family == Family::Arp => None,
            None if universe.has(Field::Meta(MetaKey::Protocol)) && !place.family.is_ip() => None,
            None => Some(4),
        };
        let network = network_bytes(universe, point, version)?;
        let at_link = link_bytes(universe, point, version)?;
        let mut packet = Packet::new();
        let (frame, link_len, vlan, ethertype) = match at_link {
            Some((link, vlan, ethertype)) => {
                let len = link.len();
                ([link, network].concat(), len, vlan, ethertype)
            }
            None => {
                let ethertype = if version == Some(6) { ethernet::IPV6 } else { ethernet::IPV4 };
                (network, 0, None, ethertype)
            }
        };
        packet.load(&frame, link_len);
        packet.meta.vlan = vlan;
        packet.meta.protocol = ethertype;
        let family = match (place.family, version) {
            (Family::Inet, Some(6)) => Family::Ip6,
            (Family::Inet, _) => Family::Ip,
            (family, _) => family,
        };
        match place.family.is_ip() && place.hook != Hook::Ingress {
            true => packet.find_transport(),
            false => {
                packet.find_transport_checked();
            }
        }
        let mut example = Example {
            packet,
            arrival: None,
            universe,
            point: point.to_vec(),
            family,
            interfaces: HashMap::new(),
            connection: HashMap::new(),
        };
        example.metadata()?;
        example.disagrees().is_none().then_some(example)
    }

    /// The name of an interface that the packet has.
    pub fn interface_name(&self, index: u32) -> String {
        let name = self.interfaces.get(&index).map_or([0; 16], |interface| interface.name);
        let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        String::from_utf8_lossy(name).into_owned()
    }

    /// The value of a field that rules ask, as bytes of the number.
    pub fn value(&self, field: Field) -> Option<Vec<u8>> {
        self.universe.value(field, &self.point)
    }

    /// What the network chooses for the packet of some.
    fn chosen(&self, what: What, of: &[u8]) -> Option<Vec<u8>> {
        self.universe.chosen(what, of, &self.point)
    }

    fn number(&self, field: Field) -> Option<u32> {
        let value = self.universe.value(field, &self.point)?;
        let mut bytes = [0; 4];
        let from = value.len().min(4);
        bytes[4 - from..].copy_from_slice(&value[value.len() - from..]);
        Some(u32::from_be_bytes(bytes))
    }

    fn meta(&self, key: MetaKey) -> Option<u32> {
        self.number(Field::Meta(key))
    }

    fn sixteen(&self, key: MetaKey, otherwise: &str) -> [u8; 16] {
        let mut out = [0; 16];
        match self.universe.value(Field::Meta(key), &self.point) {
            Some(value) => out.copy_from_slice(&value),
            None => out[..otherwise.len()].copy_from_slice(otherwise.as_bytes()),
        }
        out
    }

    fn metadata(&mut self) -> Option<()> {
        let has = |example: &Self, index: MetaKey, name: MetaKey, default: bool| {
            let flag = example.universe.flag(Field::HasMeta(index), &example.point);
            let by_name = example.universe.value(Field::Meta(name), &example.point);
            let by_name = by_name.map(|name| name != [0; 16]);
            flag.or(example.meta(index).map(|index| index != 0)).or(by_name).unwrap_or(default)
        };
        let hook = self.universe.place.hook;
        use Hook::*;
        let arrives = matches!(hook, Ingress | Prerouting | Input | Forward);
        let leaves = matches!(hook, Forward | Output | Postrouting | Egress);
        let iif = match has(self, MetaKey::Iif, MetaKey::IifName, arrives) {
            true => self.meta(MetaKey::Iif).unwrap_or(ARRIVAL),
            false => 0,
        };
        let mut oif = match has(self, MetaKey::Oif, MetaKey::OifName, leaves) {
            true => self.meta(MetaKey::Oif).unwrap_or(LEAVING),
            false => 0,
        };
        let names = [MetaKey::IifName, MetaKey::OifName];
        let same = names.iter().all(|key| self.universe.has(Field::Meta(*key)))
            && self.sixteen(MetaKey::IifName, "") == self.sixteen(MetaKey::OifName, "");
        if same && iif != 0 && !self.universe.has(Field::Meta(MetaKey::Oif)) {
            oif = iif;
        }
        let keys = |arrives| match arrives {
            true => [MetaKey::IifName, MetaKey::IifKind, MetaKey::IifType, MetaKey::IifGroup],
            false => [MetaKey::OifName, MetaKey::OifKind, MetaKey::OifType, MetaKey::OifGroup],
        };
        for (index, arrives) in [(iif, true), (oif, false)] {
            if index == 0 || !arrives && index == iif {
                continue;
            }
            let [name, kind, arphrd, group] = keys(arrives);
            // `iiftype` on the way out is of the device that the packet leaves by.
            let arphrd = match (arrives, hook) {
                (false, Postrouting | Egress) if self.meta(arphrd).is_none() => MetaKey::IifType,
                (true, Postrouting | Egress) => MetaKey::OifType,
                _ => arphrd,
            };
            let interface = Interface {
                name: self.sixteen(name, if arrives { "in0" } else { "out0" }),
                kind: self.sixteen(kind, "veth"),
                arphrd: self.meta(arphrd).unwrap_or(1) as u16,
                group: self.meta(group).unwrap_or(0),
            };
            if arrives {
                let name = interface.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
                self.arrival = Some(String::from_utf8_lossy(name).into_owned());
            }
            self.interfaces.insert(index, interface);
        }
        let meta = |key| self.meta(key);
        let (mark, priority) = (meta(MetaKey::Mark), meta(MetaKey::Priority));
        let (trace, secmark) = (meta(MetaKey::NfTrace), meta(MetaKey::SecMark));
        let packet_type = meta(MetaKey::PktType);
        let (uid, gid) = (meta(MetaKey::SkUid), meta(MetaKey::SkGid));
        let owner = self.universe.flag(Field::HasMeta(MetaKey::SkUid), &self.point);
        let routed = self.universe.flag(Field::HasMeta(MetaKey::RtClassid), &self.point);
        let realm = meta(MetaKey::RtClassid);
        let broute = meta(MetaKey::BriBroute);
        let to = &mut self.packet.meta;
        (to.iif, to.oif) = (iif, oif);
        to.mark = mark.unwrap_or(0);
        to.priority = priority.unwrap_or(0);
        to.nftrace = trace.is_some_and(|trace| trace != 0);
        to.secmark = secmark.unwrap_or(0);
        to.broute = broute.is_some_and(|broute| broute != 0);
        to.packet_type = match packet_type.unwrap_or(0) {
            0 => PacketType::Host,
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::OtherHost,
            _ => PacketType::Outgoing,
        };
        if owner == Some(true) {
            to.owner = Some((uid.unwrap_or(0), gid.unwrap_or(0)));
        }
        if routed == Some(true) {
            (to.route, to.realm) = (Some(1), realm.unwrap_or(0));
        }
        for field in self.universe.fields() {
            let Field::Ct(key, dir) = field else { continue };
            if self.universe.flag(Field::HasCt(*key, *dir), &self.point) == Some(false) {
                continue;
            }
            let Some(value) = self.universe.value(*field, &self.point) else { continue };
            let mut bytes = vec![0; value.len()];
            for (i, byte) in value.iter().enumerate() {
                bytes[field.in_register(i)] = *byte;
            }
            self.connection.insert((*key, *dir), bytes);
        }
        Some(())
    }

    /// A field that the packet does not have as it should: a byte that is not in its place, a
    /// length.
    fn disagrees(&self) -> Option<Field> {
        let packet = &self.packet;
        self.universe.fields().iter().copied().find(|field| !{
            let Some(value) = self.universe.value(*field, &self.point) else { return false };
            let of = |base| match base {
                Base::Link => packet.has_link().then(|| link_seen(packet)),
                Base::Network => Some(packet.network().to_vec()),
                Base::Transport => packet.transport_bytes_of_fragment().map(<[u8]>::to_vec),
                Base::Inner | Base::Tunnel => None,
            };
            match *field {
                // Tags are those of the devices on the way.
                Field::Header { base: Base::Link, at: 12.. } if self.universe.has_way() => true,
                Field::Header { base, at } => of(base)
                    .and_then(|bytes| bytes.get(usize::from(at)).copied())
                    .is_none_or(|byte| byte == value[0]),
                Field::Present { base, bytes } => {
                    of(base).is_some_and(|all| all.len() >= usize::from(bytes)) == (value[0] != 0)
                }
                Field::HasExthdr { op, kind, bytes } => {
                    self.exthdr(op, kind, bytes, true) == Some(value[0])
                        // A packet of another family has none.
                        || self.exthdr(op, kind, bytes, true).is_none() && value[0] == 0
                }
                Field::Exthdr { op, kind, at } => {
                    self.exthdr(op, kind, at, false).is_none_or(|byte| byte == value[0])
                }
                Field::Transport => packet.transport().is_some() == (value[0] != 0),
                Field::LaterFragment => {
                    packet.transport().is_some_and(|t| t.fragment_offset != 0) == (value[0] != 0)
                }
                Field::Meta(MetaKey::L4Proto) => {
                    packet.transport().is_none_or(|t| t.protocol == value[0])
                }
                Field::Meta(MetaKey::Len) => Some(packet.len() as u32) == self.number(*field),
                Field::Meta(MetaKey::Protocol) => value == packet.meta.protocol.to_be_bytes(),
                _ => true,
            }
        })
    }

    /// What the interpreter finds of an extension header or an option: a byte, or whether there are
    /// so many.
    fn exthdr(&self, op: ExthdrOp, kind: u8, at: u16, present: bool) -> Option<u8> {
        // Only of TCP options `present` asks for bytes.
        let by_byte = present && at > 0 && op != ExthdrOp::TcpOpt;
        let at = if present { at.saturating_sub(1) } else { at };
        let offset = u8::try_from(at).ok()?;
        let asks = present && !by_byte;
        let load = Op::Exthdr { op, kind, offset, len: 1, present: asks, dst: 0 };
        let byte = self.loads(&load, 0, 1).map(|bytes| bytes[0]);
        if by_byte { Some(byte.is_some().into()) } else { byte }
    }

    /// The packet as a frame on a wire, with a link header if it has one.
    pub fn frame(&self) -> Vec<u8> {
        let mut packet = self.packet.clone();
        packet.put_tag_into_frame();
        packet.frame().to_vec()
    }

    /// The state that connection tracking gives the packet.
    fn tracked(&self) -> Ct {
        let state = self.universe.value(Field::CtState, &self.point).map_or(state::NEW, |v| v[0]);
        let reply = self.number(Field::Ct(CtKey::Direction, None)) == Some(1);
        let info = match (state, reply) {
            (state::ESTABLISHED, false) => CtInfo::Established,
            (state::ESTABLISHED, true) => CtInfo::EstablishedReply,
            (state::RELATED, false) => CtInfo::Related,
            (state::RELATED, true) => CtInfo::RelatedReply,
            (state::NEW, _) => CtInfo::New,
            (state::UNTRACKED, _) => {
                return Ct { info: CtInfo::Untracked, ..Ct::default() };
            }
            _ => return Ct::default(),
        };
        Ct { entry: 1, info, ..Ct::default() }
    }
}
