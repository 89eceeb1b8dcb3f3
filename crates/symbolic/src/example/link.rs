// SPDX-License-Identifier: Apache-2.0

//! An example on the link layer of its way: devices below, tags, link headers.

use penstock_net::Link;
use penstock_packet::{PacketType, VlanTag};
use penstock_program::Hook;
use penstock_wire::ethernet;

use super::run::Run;
use crate::fate::{Decider, End};
use crate::field::{Base, Field};
use crate::way::{Device, Tag, Way};

/// Bytes of the link addresses.
const ADDRESSES: usize = 12;
/// Bytes of a tag.
const TAG: usize = 4;

impl Run<'_, '_> {
    /// Ingress of all devices that the packet passes, the lowest first.
    pub(super) fn climb(
        &mut self,
        way: &Way<'_>,
        device: &Device,
        decider: &mut Decider,
    ) -> Result<(), End> {
        let levels = way.levels(device);
        let of = |device: &Device| way.network.link(device.link);
        let Some(lowest) = levels.first() else { return Ok(()) };
        for (number, tag) in lowest.tags.iter().enumerate().rev() {
            let code = self.code(number);
            self.push_tag(*tag, code);
        }
        if let Some(link) = of(lowest.device)
            && levels.len() > 1
            && self.packet.meta.packet_type == PacketType::Host
            && self.is_asked_for_another(link)
        {
            self.packet.meta.packet_type = PacketType::OtherHost;
        }
        for (step, level) in levels.iter().enumerate() {
            if step > 0 {
                let taken = lowest.tags.len() - level.tags.len();
                let link = of(level.device);
                self.untag(taken - 1, level.tags.first(), link);
            }
            self.find_transport(level.tags.len());
            (self.packet.meta.iif, self.packet.meta.oif) = (level.device.index, 0);
            self.bound(way, Hook::Ingress, level.device, decider)?;
        }
        Ok(())
    }

    /// Whether rules ask for the destination, and it is not a device's own.
    fn is_asked_for_another(&self, link: &Link) -> bool {
        let first = Field::Header { base: Base::Link, at: 0 };
        let is_own = self.packet.link().get(..6) == Some(&link.mac.0[..]);
        self.example.value(first).is_some() && !is_own
    }

    /// Priority and drop eligibility of a tag that the packet arrives with.
    fn code(&self, number: usize) -> u8 {
        let at = (ADDRESSES + 2 + TAG * number) as u16;
        self.example.value(Field::Header { base: Base::Link, at }).map_or(0, |byte| byte[0] & 0xf0)
    }

    fn push_tag(&mut self, tag: Tag, code: u8) {
        let tci = tag.id | u16::from(code) << 8;
        self.packet.push_tag(VlanTag { protocol: tag.protocol, tci });
    }

    /// The packet comes from the device below to a VLAN device (`vlan_do_receive()`).
    fn untag(&mut self, number: usize, next: Option<&Tag>, link: Option<&Link>) {
        self.packet.meta.vlan = None;
        if let Some(tag) = next {
            let tci = tag.id | u16::from(self.code(number + 1)) << 8;
            self.packet.remove_from_link(ADDRESSES, TAG);
            self.packet.meta.vlan = Some(VlanTag { protocol: tag.protocol, tci });
        }
        let ethertype = self.packet.link().last_chunk::<2>().copied();
        self.packet.meta.protocol = ethertype.map_or(self.ip_type(), u16::from_be_bytes);
        let Some(link) = link else { return };
        let code = self.code(number) >> 5;
        let map = link.vlan().map_or(&[][..], |vlan| &vlan.ingress_qos);
        let to = map.iter().find(|(from, _)| *from == code).map_or(0, |(_, to)| *to);
        self.packet.meta.priority = to;
        if self.packet.meta.packet_type == PacketType::OtherHost
            && self.packet.link().get(..6) == Some(&link.mac.0[..])
        {
            self.packet.meta.packet_type = PacketType::Host;
        }
    }

    fn ip_type(&self) -> u16 {
        if self.is_v6() { ethernet::IPV6 } else { ethernet::IPV4 }
    }

    fn find_transport(&mut self, tags: usize) {
        match tags {
            0 | 1 => self.packet.find_transport(),
            _ => self.packet.set_transport(None),
        }
    }

    /// The packet has no link header: the host sends it.
    pub(super) fn no_link(&mut self) {
        self.packet.put_link(0);
        self.packet.meta.vlan = None;
    }

    /// Egress of a device and of those below it.
    pub(super) fn egress(
        &mut self,
        way: &Way<'_>,
        device: &Device,
        decider: &mut Decider,
    ) -> Result<(), End> {
        let ethertype = self.ip_type();
        let mac = way.network.link(device.link).map_or([0; 6], |link| link.mac.0);
        let header = self.packet.put_link(ethernet::LEN);
        header[..6].fill(0);
        header[6..12].copy_from_slice(&mac);
        header[12..].copy_from_slice(&ethertype.to_be_bytes());
        self.packet.meta.vlan = None;
        self.packet.meta.protocol = ethertype;
        self.packet.meta.iif = 0;
        for level in way.levels(device).iter().rev() {
            if let Some(tag) = level.tags.first() {
                let vlan = way.network.link(tag.link).and_then(|link| link.vlan());
                let map = vlan.map_or(&[][..], |vlan| &vlan.egress_qos);
                let priority = self.packet.meta.priority;
                let code = map.iter().find(|(from, _)| *from == priority);
                self.push_tag(*tag, code.map_or(0, |(_, code)| code << 5));
            }
            self.find_transport(level.tags.len());
            self.packet.meta.oif = level.device.index;
            self.bound(way, Hook::Egress, level.device, decider)?;
        }
        Ok(())
    }
}
