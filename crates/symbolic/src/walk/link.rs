// SPDX-License-Identifier: Apache-2.0

//! Link headers on a way: addresses, tags, what packets are with them, and what is not known.

use std::collections::BTreeSet;
use std::ops::Range;

use penstock_program::expr::MetaKey;
use penstock_program::op::Op;
use penstock_wire::ethernet;

use super::Walk;
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::field::{Base, Field, is_of_bridge};
use crate::machine::{Hidden, Machine};
use crate::program::{Program, reachable};
use crate::universe::Universe;
use crate::way::{Device, Way};

/// Bytes of the link addresses.
const ADDRESSES: u16 = 12;
/// Bytes of a tag.
const TAG: u16 = 4;

/// What rules ask of link headers.
#[derive(Default)]
pub(super) struct Asked {
    /// Bytes after the addresses.
    bytes: BTreeSet<u16>,
    /// Lengths.
    present: BTreeSet<u16>,
    /// They ask for bridges (`meta ibrname` and others), too.
    pub(super) bridge: bool,
}

impl Asked {
    pub(super) fn by(program: &Program<'_>) -> Asked {
        let mut asked = Asked::default();
        for rule in reachable(program) {
            let ops = program.image.ops_at(rule);
            asked.bridge |= ops.iter().any(|op| match op {
                Op::Meta { key, .. } => is_of_bridge(*key),
                _ => false,
            });
            for load in ops.iter().filter_map(|op| op.header_load()) {
                let end = load.offset.saturating_add(load.len.into());
                if load.base == Base::Link {
                    asked.bytes.extend(load.offset.max(ADDRESSES)..end);
                    asked.present.insert(end);
                }
            }
        }
        asked
    }

    fn is_empty(&self) -> bool {
        self.present.is_empty()
    }
}

/// Packets whose link headers have the same tags.
#[derive(Clone)]
pub(super) struct Tagged {
    pub(super) region: Region,
    /// The outermost first, each with its protocol and its tag control information.
    pub(super) tags: Vec<(u16, Vec<Bit>)>,
}

impl Walk<'_, '_> {
    /// Priority and drop eligibility in a tag that packets arrive with, by its number from the
    /// outside.
    pub(super) fn code(&mut self, number: usize) -> Decided<Vec<Bit>> {
        let at = ADDRESSES + 2 + TAG * number as u16;
        let byte = self.universe.bits(Field::Header { base: Base::Link, at })?;
        Ok(byte[..4].to_vec())
    }

    /// The VLAN ID in a tag that packets arrive with, by its number from the outside.
    pub(super) fn arrived_id(&mut self, number: usize) -> Decided<Vec<Bit>> {
        let at = ADDRESSES + 2 + TAG * number as u16;
        let high = self.universe.bits(Field::Header { base: Base::Link, at })?;
        let low = self.universe.bits(Field::Header { base: Base::Link, at: at + 1 })?;
        Ok([&high[4..], &low[..]].concat())
    }

    /// Says what link headers have after the addresses, what packets then are, and what is not
    /// looked at behind several tags.
    pub(super) fn say_link(&mut self, tagged: &[Tagged]) -> Decided<()> {
        self.machine.hidden.clear();
        let six = self.version(true)?;
        let [four, other] = [ethernet::IPV4, ethernet::IPV6].map(|of| of.to_be_bytes());
        let mut ethertype = bits::constant(&four);
        for (bit, other) in ethertype.iter_mut().zip(bits::constant(&other)) {
            *bit = bit.replaced(&six, &other, &self.universe.diagrams)?;
        }
        let mut protocol = ethertype.clone();
        self.machine.writes.remove(&Field::Transport);
        for of in tagged.iter().filter(|of| of.tags.len() > 1) {
            self.machine.write(self.universe, &of.region, Field::Transport, &[Bit::ZERO])?;
            let inner = bits::constant(&of.tags[1].0.to_be_bytes());
            for (bit, value) in protocol.iter_mut().zip(&inner) {
                *bit = bit.replaced(&of.region, value, &self.universe.diagrams)?;
            }
            for base in [Base::Network, Base::Transport] {
                self.machine.hidden.push(Hidden {
                    base,
                    bytes: 0..u16::MAX,
                    region: of.region.clone(),
                    reason: "it looks behind several VLAN tags",
                });
            }
        }
        self.machine.writes.insert(Field::Meta(MetaKey::Protocol), protocol);
        if self.asked_link.is_empty() {
            return Ok(());
        }
        for at in self.asked_link.bytes.clone() {
            let mut value = vec![Bit::ZERO; 8];
            for of in tagged {
                let byte = link_byte(at, of, &ethertype);
                for (bit, byte) in value.iter_mut().zip(&byte) {
                    *bit = bit.replaced(&of.region, byte, &self.universe.diagrams)?;
                }
            }
            self.machine.writes.insert(Field::Header { base: Base::Link, at }, value);
        }
        for bytes in &self.asked_link.present {
            let field = Field::Present { base: Base::Link, bytes: *bytes };
            self.machine.writes.insert(field, vec![Bit::Known(true)]);
        }
        for of in tagged {
            self.machine.hidden.push(Hidden {
                base: Base::Link,
                bytes: ADDRESSES + 2 + TAG * of.tags.len() as u16..u16::MAX,
                region: of.region.clone(),
                reason: "it looks past the link header",
            });
        }
        Ok(())
    }

    /// That packets have no link header, as those have that the host sends, until a device sends
    /// them.
    pub(super) fn no_link(&mut self) {
        for bytes in &self.asked_link.present {
            let field = Field::Present { base: Base::Link, bytes: *bytes };
            self.machine.writes.insert(field, vec![Bit::ZERO]);
        }
    }

    /// Says of packets that a device sends what its link header is: rules see no device of arrival.
    pub(super) fn sent_by(&mut self, way: &Way<'_>, device: &Device) {
        if let Some(link) = way.network.link(device.link) {
            for (at, byte) in (6..).zip(link.mac.0) {
                let field = Field::Header { base: Base::Link, at };
                self.machine.writes.insert(field, bits::constant(&[byte]));
            }
        }
    }

    /// Devices and link header are again as they were; what chains have written stays.
    pub(super) fn forget_devices(&mut self, before: Machine) {
        let is_of_link = |field: &Field| match field {
            Field::Header { base: Base::Link, .. } | Field::Present { base: Base::Link, .. } => {
                true
            }
            Field::HasMeta(_) | Field::Transport => true,
            Field::Meta(key) if is_of_bridge(*key) => true,
            Field::Meta(key) => matches!(
                key,
                MetaKey::Iif
                    | MetaKey::IifName
                    | MetaKey::IifKind
                    | MetaKey::IifType
                    | MetaKey::IifGroup
                    | MetaKey::Oif
                    | MetaKey::OifName
                    | MetaKey::OifKind
                    | MetaKey::OifType
                    | MetaKey::OifGroup
                    | MetaKey::Protocol
            ),
            _ => false,
        };
        self.machine.writes.retain(|field, _| !is_of_link(field));
        let known = before.writes.into_iter().filter(|(field, _)| is_of_link(field));
        self.machine.writes.extend(known);
    }

    /// Neighbours are not looked at: nobody knows the link address that frames are sent to.
    pub(super) fn hide_next(&mut self) {
        self.machine.hidden.push(Hidden {
            base: Base::Link,
            bytes: Range { start: 0, end: 6 },
            region: self.universe.diagrams.all(),
            reason: "it asks for the link address of the next hop",
        });
    }

    /// On the way out of a device the device of arrival is not known.
    pub(super) fn no_arrival(&mut self) {
        use MetaKey::{Iif, IifGroup, IifKind, IifName};
        for key in [Iif, IifName, IifKind, IifGroup] {
            let field = Field::Meta(key);
            self.machine.writes.insert(field, vec![Bit::ZERO; field.width() as usize]);
        }
        self.machine.writes.insert(Field::HasMeta(Iif), vec![Bit::ZERO]);
    }

    /// Priority and drop eligibility in the tag that a VLAN device gives frames
    /// (`vlan_dev_get_egress_qos_mask()`).
    pub(super) fn code_by_priority(&mut self, way: &Way<'_>, link: u32) -> Decided<Vec<Bit>> {
        let mut code = vec![Bit::ZERO; 4];
        let vlan = way.network.link(link).and_then(|link| link.vlan());
        for (priority, of) in vlan.map_or(&[][..], |vlan| &vlan.egress_qos) {
            let known = self.machine.field(self.universe, Field::Meta(MetaKey::Priority))?;
            let d = &self.universe.diagrams;
            let here = bits::equal(d, &known, &priority.to_be_bytes(), &[0xff; 4])?;
            for (bit, value) in code.iter_mut().zip(bits::constant(&[of << 5])) {
                *bit = bit.replaced(&here, &value, d)?;
            }
        }
        Ok(code)
    }
}

/// A byte of the link header after the addresses, as if the tags stood in it; zero past its end.
fn link_byte(at: u16, of: &Tagged, ethertype: &[Bit]) -> Vec<Bit> {
    let from = at - ADDRESSES;
    let (number, part) = (usize::from(from / TAG), usize::from(from % TAG));
    if let Some((protocol, control)) = of.tags.get(number) {
        let protocol = bits::constant(&protocol.to_be_bytes());
        return match part {
            0 => protocol[..8].to_vec(),
            1 => protocol[8..].to_vec(),
            2 => control[..8].to_vec(),
            _ => control[8..].to_vec(),
        };
    }
    match from - TAG * of.tags.len() as u16 {
        0 => ethertype[..8].to_vec(),
        1 => ethertype[8..].to_vec(),
        _ => vec![Bit::ZERO; 8],
    }
}

/// Whether rules look at the link addresses that packets arrive with.
pub(super) fn asks_destination(universe: &Universe) -> bool {
    universe.has(Field::Header { base: Base::Link, at: 0 })
}
