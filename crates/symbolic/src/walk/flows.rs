// SPDX-License-Identifier: Apache-2.0

//! What routing looks at: addresses, ports and devices, as they are at a moment of the way.

use std::collections::BTreeSet;

use penstock_net::{Action, LOOPBACK, Network};
use penstock_program::expr::MetaKey;

use super::Walk;
use super::translation::WITH_PORTS;
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::field::{Base, Field};
use crate::routing::{Flow, within};
use crate::way::{Device, Way};

impl Walk<'_, '_> {
    /// Packets of IPv4, or of IPv6.
    pub(super) fn version(&mut self, v6: bool) -> Decided<Region> {
        let bits = self.universe.bits(Field::Meta(MetaKey::NfProto))?;
        bits::equal(&self.universe.diagrams, &bits, &[if v6 { 10 } else { 2 }], &[0xff])
    }

    /// Packets that arrive on a device.
    pub(super) fn arriving_on(&mut self, device: &Device) -> Decided<Region> {
        let bits = self.machine.field(self.universe, Field::Meta(MetaKey::IifName))?;
        bits::equal(&self.universe.diagrams, &bits, &device.interface.name, &[0xff; 16])
    }

    /// Bits of the network header now.
    pub(super) fn network(&mut self, bytes: std::ops::Range<u16>) -> Decided<Vec<Bit>> {
        let mut all = Vec::new();
        for at in bytes {
            let field = Field::Header { base: Base::Network, at };
            all.extend(self.machine.field(self.universe, field)?);
        }
        Ok(all)
    }

    /// Source and destination now.
    pub(super) fn addresses(&mut self, v6: bool) -> Decided<[Vec<Bit>; 2]> {
        let [source, destination] = if v6 { [8..24, 24..40] } else { [12..16, 16..20] };
        Ok([self.network(source)?, self.network(destination)?])
    }

    /// What routing looks at, as far as rules of the network ask for it; of the host's own packets, or
    /// of those that arrive.
    pub(super) fn flow(&mut self, way: &Way<'_>, v6: bool, own: bool) -> Decided<Flow> {
        let [source, destination] = self.addresses(v6)?;
        let net = way.network;
        let rules = if v6 { net.rules6() } else { net.rules4() };
        let zero = |bytes: usize| vec![Bit::ZERO; bytes * 8];
        let (mut tos, mut protocol, mut ports) = (zero(1), zero(1), [zero(2), zero(2)]);
        let mut mark = zero(4);
        let has_tos = rules.iter().any(|rule| rule.tos != 0)
            || !v6
                && rules.iter().any(|rule| match rule.action {
                    Action::Lookup(table) => !net.tos4(table).is_empty(),
                    _ => false,
                });
        if has_tos {
            tos = match v6 {
                false => self.network(1..2)?,
                true => self.network(0..2)?[4..12].to_vec(),
            };
            let kept: u8 = if v6 { 0xfc } else { 0x1c };
            for (i, bit) in tos.iter_mut().enumerate() {
                if kept >> (7 - i) & 1 == 0 {
                    *bit = Bit::ZERO;
                }
            }
        }
        if rules.iter().any(|rule| rule.mark.1 != 0) {
            mark = self.machine.field(self.universe, Field::Meta(MetaKey::Mark))?;
        }
        if rules.iter().any(|rule| rule.protocol.is_some()) {
            protocol = if v6 { self.network(6..7)? } else { self.network(9..10)? };
        }
        if rules.iter().any(|rule| rule.sport.is_some() || rule.dport.is_some()) {
            let there = self.has_ports(false)?;
            for (port, at) in ports.iter_mut().zip([0, 2]) {
                let known = self.transport(at)?;
                let d = &self.universe.diagrams;
                for (bit, known) in port.iter_mut().zip(&known) {
                    *bit = bit.replaced(&there, known, d)?;
                }
            }
        }
        let mut arrival = Vec::new();
        match own {
            true => arrival.push((LOOPBACK, self.universe.diagrams.all())),
            false => {
                for device in way.arrivals() {
                    arrival.push((device.link, self.arriving_on(device)?));
                }
            }
        }
        Ok(Flow { v6, destination, source, tos, mark, protocol, ports, arrival, by_arrival: !own })
    }

    /// Two bytes of the transport header now.
    pub(super) fn transport(&mut self, at: u16) -> Decided<Vec<Bit>> {
        let mut all = Vec::new();
        for at in [at, at + 1] {
            let field = Field::Header { base: Base::Transport, at };
            all.extend(self.machine.field(self.universe, field)?);
        }
        Ok(all)
    }

    /// Packets of which the first four bytes of the transport header are there; with `only_ports`
    /// those of protocols that have ports in them.
    pub(super) fn has_ports(&mut self, only_ports: bool) -> Decided<Region> {
        let header = self.universe.holds(Field::Transport)?;
        let whole = self.universe.holds(Field::Present { base: Base::Transport, bytes: 4 })?;
        let region = self.universe.diagrams.and(&header, &whole)?;
        if !only_ports {
            return Ok(region);
        }
        let carried = self.universe.bits(Field::Meta(MetaKey::L4Proto))?;
        let d = &self.universe.diagrams;
        let mut all = Vec::new();
        for protocol in WITH_PORTS {
            all.push(bits::equal(d, &carried, &[protocol], &[0xff])?);
        }
        d.and(&region, &d.union(&all)?)
    }

    /// Takes packets of a region out of those that are not decided yet.
    pub(super) fn take(&self, rest: &mut Region, region: &Region) -> Decided<Region> {
        let taken = self.universe.diagrams.and(rest, region)?;
        *rest = self.universe.diagrams.minus(rest, &taken)?;
        Ok(taken)
    }

    /// Packets of which an address is between two.
    pub(super) fn between(&self, address: &[Bit], from: u128, to: u128) -> Decided<Region> {
        within(&self.universe.diagrams, address, &[(from.to_be_bytes(), to.to_be_bytes())])
    }

    /// Packets of which an address is one of several.
    pub(super) fn is_one_of(
        &self,
        address: &[Bit],
        all: impl IntoIterator<Item = u128>,
    ) -> Decided<Region> {
        let all: BTreeSet<u128> = all.into_iter().collect();
        let all: Vec<_> = all.iter().map(|a| (a.to_be_bytes(), a.to_be_bytes())).collect();
        within(&self.universe.diagrams, address, &all)
    }
}

/// IPv4 addresses of a host.
pub(super) fn own4(net: &Network) -> Vec<u128> {
    net.links().iter().flat_map(|link| &link.addresses4).map(|a| a.local.into()).collect()
}
