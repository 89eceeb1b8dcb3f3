// SPDX-License-Identifier: Apache-2.0

//! Link layers and what carries frames in packets.

use super::{Address, Addresses, Around, Layer};
use penstock_wire::ethernet::{ARP, IPV4, IPV6, Mac, TEB, VLAN};
use penstock_wire::{arp, ethernet, geneve, gre, protocol, vlan, vxlan};
use std::net::Ipv4Addr;

/// An Ethernet header.
#[derive(Clone, Debug)]
pub struct Ethernet {
    src: Mac,
    dst: Mac,
    ethertype: Option<u16>,
    length: bool,
}

impl Ethernet {
    /// From `src` to `dst`.
    pub fn new(src: impl Address<Mac>, dst: impl Address<Mac>) -> Self {
        Self { src: src.address(), dst: dst.address(), ethertype: None, length: false }
    }

    /// Sets the type field.
    pub fn ethertype(mut self, value: u16) -> Self {
        self.ethertype = Some(value);
        self
    }

    /// Makes it an 802.3 frame: the type field is the length of what follows.
    pub fn with_length(mut self) -> Self {
        self.length = true;
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Ethernet {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let ethertype = match self.ethertype {
            Some(t) => t,
            None if self.length => around.body.len() as u16,
            None => around.ethertype(),
        };
        ethernet::Repr { dst: self.dst, src: self.src, ethertype }.bytes().to_vec()
    }

    fn ethertype(&self) -> Option<u16> {
        Some(TEB)
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::ETHERIP)
    }
}

/// A VLAN tag, after [`Ethernet`] or another tag.
#[derive(Clone, Debug)]
pub struct Vlan {
    tci: u16,
    protocol: u16,
    ethertype: Option<u16>,
}

impl Vlan {
    /// An 802.1Q tag with VLAN id `vid`.
    pub fn new(vid: u16) -> Self {
        Self { tci: vid & vlan::VID_MASK, protocol: VLAN, ethertype: None }
    }

    /// Sets the priority, 0 to 7.
    pub fn priority(mut self, priority: u8) -> Self {
        self.tci |= u16::from(priority) << vlan::PRIORITY_SHIFT;
        self
    }

    /// Sets the drop-eligible bit.
    pub fn drop_eligible(mut self) -> Self {
        self.tci |= vlan::DEI;
        self
    }

    /// Makes it a service tag (802.1ad).
    pub fn service(mut self) -> Self {
        self.protocol = ethernet::QINQ;
        self
    }

    /// Sets the type of what follows.
    pub fn ethertype(mut self, value: u16) -> Self {
        self.ethertype = Some(value);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Vlan {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let ethertype = self.ethertype.unwrap_or_else(|| around.ethertype());
        vlan::Repr { tci: self.tci, ethertype }.bytes().to_vec()
    }

    fn ethertype(&self) -> Option<u16> {
        Some(self.protocol)
    }
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Debug)]
pub struct Arp(arp::Repr);

impl Arp {
    /// Who has `target`? From `sender_mac`, `sender`.
    pub fn request(
        sender_mac: impl Address<Mac>,
        sender: impl Address<Ipv4Addr>,
        target: impl Address<Ipv4Addr>,
    ) -> Self {
        Self(arp::Repr {
            operation: arp::REQUEST,
            sender_mac: sender_mac.address(),
            sender_ip: sender.address(),
            target_mac: Mac::ZERO,
            target_ip: target.address(),
        })
    }

    /// `sender` is at `sender_mac`, told to `target_mac`, `target`.
    pub fn reply(
        sender_mac: impl Address<Mac>,
        sender: impl Address<Ipv4Addr>,
        target_mac: impl Address<Mac>,
        target: impl Address<Ipv4Addr>,
    ) -> Self {
        Self(arp::Repr {
            operation: arp::REPLY,
            sender_mac: sender_mac.address(),
            sender_ip: sender.address(),
            target_mac: target_mac.address(),
            target_ip: target.address(),
        })
    }

    /// Sets the operation.
    pub fn operation(mut self, operation: u16) -> Self {
        self.0.operation = operation;
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Arp {
    fn emit(&self, _: &Around<'_>) -> Vec<u8> {
        self.0.bytes().to_vec()
    }

    fn ethertype(&self) -> Option<u16> {
        Some(ARP)
    }
}

/// A GRE header of version 0.
#[derive(Clone, Debug, Default)]
pub struct Gre {
    repr: gre::Repr,
    protocol: Option<u16>,
}

impl Gre {
    /// Without optional fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key.
    pub fn key(mut self, key: u32) -> Self {
        self.repr.key = Some(key);
        self
    }

    /// Sets the sequence number.
    pub fn sequence(mut self, sequence: u32) -> Self {
        self.repr.sequence = Some(sequence);
        self
    }

    /// Adds the checksum.
    pub fn with_checksum(mut self) -> Self {
        self.repr.checksum = true;
        self
    }

    /// Sets the ethertype of what follows.
    pub fn protocol(mut self, ethertype: u16) -> Self {
        self.protocol = Some(ethertype);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Gre {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let protocol = self.protocol.unwrap_or_else(|| around.ethertype());
        gre::Repr { protocol, ..self.repr }.emit(around.body, &mut out);
        out
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::GRE)
    }
}

/// A VXLAN header, after [`super::Udp`].
#[derive(Clone, Debug)]
pub struct Vxlan(vxlan::Repr);

impl Vxlan {
    /// With network identifier `vni`.
    pub fn new(vni: u32) -> Self {
        Self(vxlan::Repr { flags: vxlan::FLAG_VNI, vni })
    }

    /// Sets the flags.
    pub fn flags(mut self, flags: u8) -> Self {
        self.0.flags = flags;
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Vxlan {
    fn emit(&self, _: &Around<'_>) -> Vec<u8> {
        self.0.bytes().to_vec()
    }
}

/// A GENEVE header, after [`super::Udp`].
#[derive(Clone, Debug)]
pub struct Geneve {
    vni: u32,
    options: Vec<u8>,
    protocol: Option<u16>,
}

impl Geneve {
    /// With network identifier `vni`.
    pub fn new(vni: u32) -> Self {
        Self { vni, options: Vec::new(), protocol: None }
    }

    /// Adds an option; `data` is a multiple of four bytes.
    pub fn option(mut self, class: u16, kind: u8, data: &[u8]) -> Self {
        self.options.extend(class.to_be_bytes());
        self.options.extend([kind, (data.len() / 4) as u8]);
        self.options.extend(data);
        self
    }

    /// Sets the ethertype of what follows.
    pub fn protocol(mut self, ethertype: u16) -> Self {
        self.protocol = Some(ethertype);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Geneve {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let protocol = self.protocol.unwrap_or_else(|| around.ethertype());
        geneve::Repr { flags: 0, protocol, vni: self.vni, options: self.options.clone() }.bytes()
    }
}

/// The ethertype and protocol number of an IP layer, by its addresses.
pub(super) fn ip_numbers(addresses: Addresses) -> (u16, u8) {
    match addresses {
        Addresses::V4(..) => (IPV4, protocol::IPIP),
        Addresses::V6(..) => (IPV6, protocol::IPV6),
    }
}
