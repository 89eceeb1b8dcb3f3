// SPDX-License-Identifier: Apache-2.0

//! An example on the link layer of its way: devices below others, bridges, tags, link headers.

use penstock_packet::{CtInfo, PacketType, VlanTag};
use penstock_program::Hook;
use penstock_program::expr::MetaKey;
use penstock_wire::ethernet;

use super::followed::Followed;
use super::run::Run;
use crate::fate::{Decider, End, Refusal};
use crate::field::{Base, Field, What, state};
use crate::program::bridges_track;
use crate::walk::frames_name;
use crate::way::{Code, Device, Id, Passing, Stage, Step, Tag, Way};

/// Bytes of the link addresses.
const ADDRESSES: usize = 12;
/// Bytes of a tag.
const TAG: usize = 4;

impl Run<'_, '_> {
    /// What the frame passes to a device or from it, as the example has it.
    fn passing<'w>(
        &self,
        device: &Device,
        mut all: Vec<Passing<'w>>,
        arrive: bool,
    ) -> Option<Passing<'w>> {
        if all.len() < 2 {
            return all.pop();
        }
        let name = frames_name(device, &all, arrive);
        let chosen = self.example.chosen(What::Frames, &name);
        let number = chosen.map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let number = usize::from(number).min(all.len() - 1);
        Some(all.swap_remove(number))
    }

    /// All stages that a packet passes before IP gets it; the device by which it leaves if a bridge
    /// forwards it.
    pub(super) fn ingress(
        &mut self,
        way: &Way<'_>,
        device: &Device,
        decider: &mut Decider,
    ) -> Result<Option<u32>, End> {
        let passing = self.passing(device, way.arriving(device), true);
        let passing = passing.ok_or(End::Refused(Refusal::Absent))?;
        let lowest = passing.steps.first().and_then(|step| step.iif);
        let own = lowest.and_then(|device| way.network.link(device.link)).map(|link| link.mac.0);
        let above = passing.steps.len() > 1;
        if above && self.packet.meta.packet_type == PacketType::Host && self.is_for_another(own) {
            self.packet.meta.packet_type = PacketType::OtherHost;
        }
        let addresses = self.addresses();
        self.follow(way, &passing, addresses, decider)?;
        self.packet.meta.oif = 0;
        Ok(passing.leaves().map(|device| device.index))
    }

    /// Whether rules ask for the destination, and it is not a device's own.
    fn is_for_another(&self, own: Option<[u8; 6]>) -> bool {
        let first = Field::Header { base: Base::Link, at: 0 };
        let is_own = self.packet.link().get(..6) == own.as_ref().map(|own| &own[..]);
        self.example.value(first).is_some() && !is_own
    }

    fn addresses(&self) -> [u8; ADDRESSES] {
        self.packet.link().first_chunk().copied().unwrap_or_default()
    }

    /// A byte of the link header that the packet arrives with.
    fn link_byte(&self, at: usize) -> u8 {
        let field = Field::Header { base: Base::Link, at: at as u16 };
        self.example.value(field).map_or(0, |byte| byte[0])
    }

    /// Priority and drop eligibility of a tag that the packet arrives with.
    fn code(&self, number: usize) -> u8 {
        self.link_byte(ADDRESSES + 2 + TAG * number) & 0xf0
    }

    /// The packet passes the chains of all steps.
    fn follow(
        &mut self,
        way: &Way<'_>,
        passing: &Passing<'_>,
        addresses: [u8; ADDRESSES],
        decider: &mut Decider,
    ) -> Result<(), End> {
        // Codes that VLAN devices gave the packet.
        let mut given: Vec<(u32, u8)> = Vec::new();
        let mut before = None;
        let mut followed = Followed::default();
        if let Some(crossing) = &passing.crossing {
            let link = |device: Option<&Device>| device.map(|device| device.link);
            followed.bridge = Some(crossing.bridge);
            (followed.from, followed.to) = (link(crossing.from), link(crossing.to));
        }
        for step in &passing.steps {
            let tags: Vec<VlanTag> =
                step.tags.iter().map(|tag| self.tag(way, tag, &mut given)).collect();
            let all = || tags.iter().map(|tag| (tag.protocol, tag.tci)).collect();
            if before.is_none() && step.stage == Stage::Ingress {
                followed.arrival = step.iif.map(|device| device.link);
                followed.arrival_tags = all();
            }
            if step.stage == Stage::Egress {
                followed.leaving = step.oif.map(|device| device.link);
                followed.leaving_tags = all();
            }
            // The last of them is told of packets that end on their way.
            match self.followed.last_mut().filter(|_| before.is_some()) {
                Some(last) => last.clone_from(&followed),
                None => self.followed.push(followed.clone()),
            }
            self.put_header(&addresses, &tags);
            let index = |device: Option<&Device>| device.map_or(0, |device| device.index);
            (self.packet.meta.iif, self.packet.meta.oif) = (index(step.iif), index(step.oif));
            self.reach(way, step);
            if before == Some(Stage::Bridge(Hook::Input)) && bridges_track(self.program) {
                self.known_to_bridge();
            }
            if let Some(passage) = way.passage_at(step) {
                self.through(passage, decider)?;
            }
            before = Some(step.stage);
        }
        Ok(())
    }

    fn tag(&self, way: &Way<'_>, tag: &Tag, given: &mut Vec<(u32, u8)>) -> VlanTag {
        let code = match tag.code {
            Code::Arrived(number) => self.code(number),
            Code::Zero => 0,
            Code::Given(link) => match given.iter().find(|(of, _)| *of == link) {
                Some((_, code)) => *code,
                None => {
                    let vlan = way.network.link(link).and_then(|link| link.vlan());
                    let map = vlan.map_or(&[][..], |vlan| &vlan.egress_qos);
                    let priority = self.packet.meta.priority;
                    let code = map.iter().find(|(from, _)| *from == priority);
                    let code = code.map_or(0, |(_, code)| code << 5);
                    given.push((link, code));
                    code
                }
            },
        };
        let id = match tag.id {
            Id::Known(id) => id,
            Id::Arrived(number) => {
                let at = ADDRESSES + 2 + TAG * number;
                u16::from_be_bytes([self.link_byte(at) & 0xf, self.link_byte(at + 1)])
            }
        };
        VlanTag { protocol: tag.protocol, tci: id | u16::from(code) << 8 }
    }

    /// The link header with these tags, of which the packet holds the outermost.
    fn put_header(&mut self, addresses: &[u8; ADDRESSES], tags: &[VlanTag]) {
        let ethertype = self.ip_type();
        let inner = tags.get(1..).unwrap_or(&[]);
        let header = self.packet.put_link(ethernet::LEN + TAG * inner.len());
        header[..ADDRESSES].copy_from_slice(addresses);
        let mut at = ADDRESSES;
        for tag in inner {
            header[at..at + 2].copy_from_slice(&tag.protocol.to_be_bytes());
            header[at + 2..at + TAG].copy_from_slice(&tag.tci.to_be_bytes());
            at += TAG;
        }
        header[at..].copy_from_slice(&ethertype.to_be_bytes());
        self.packet.meta.vlan = tags.first().copied();
        self.packet.meta.protocol = inner.first().map_or(ethertype, |tag| tag.protocol);
        match inner.is_empty() {
            true => self.packet.find_transport(),
            false => self.packet.set_transport(None),
        }
    }

    /// What a VLAN device says of the packet, and a device whose address it is for.
    fn reach(&mut self, way: &Way<'_>, step: &Step<'_>) {
        if let Some((link, tag)) = step.taken {
            let code = match tag.code {
                Code::Arrived(number) => self.code(number) >> 5,
                Code::Zero | Code::Given(_) => 0,
            };
            let vlan = way.network.link(link).and_then(|link| link.vlan());
            let map = vlan.map_or(&[][..], |vlan| &vlan.ingress_qos);
            let to = map.iter().find(|(from, _)| *from == code).map_or(0, |(_, to)| *to);
            self.packet.meta.priority = to;
        }
        if let Some(own) = step.own
            && self.packet.meta.packet_type == PacketType::OtherHost
            && self.packet.link().get(..6) == Some(&own[..])
        {
            self.packet.meta.packet_type = PacketType::Host;
        }
    }

    /// A bridge has tracked the packet; a new connection of a packet that is not for this host alone
    /// is forgotten.
    fn known_to_bridge(&mut self) {
        if self.packet.meta.ct.info == CtInfo::Untracked {
            return;
        }
        let state = self.example.value(Field::CtState).map_or(state::NEW, |value| value[0]);
        let asked = self.example.value(Field::Meta(MetaKey::PktType)).is_some();
        let shared = asked && self.packet.meta.packet_type != PacketType::Host;
        self.forget_connection();
        if !(shared && state == state::NEW) {
            self.track_now();
        }
    }

    fn ip_type(&self) -> u16 {
        if self.is_v6() { ethernet::IPV6 } else { ethernet::IPV4 }
    }

    /// The packet has no link header: the host sends it.
    pub(super) fn no_link(&mut self) {
        self.packet.put_link(0);
        self.packet.meta.vlan = None;
    }

    /// All stages that a packet passes after IP on its way out by a device.
    pub(super) fn egress(
        &mut self,
        way: &Way<'_>,
        device: &Device,
        decider: &mut Decider,
    ) -> Result<(), End> {
        let passing = self.passing(device, way.leaving(device), false);
        let passing = passing.ok_or(End::Refused(Refusal::NoPort))?;
        let mut addresses = [0; ADDRESSES];
        if let Some(link) = way.network.link(device.link) {
            addresses[6..].copy_from_slice(&link.mac.0);
        }
        self.follow(way, &passing, addresses, decider)
    }
}
