// SPDX-License-Identifier: Apache-2.0

//! The device on the way out, as rules see it.

use std::collections::HashMap;

use penstock_program::expr::MetaKey;

use super::Walk;
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::fate::End;
use crate::field::Field;
use crate::universe::Universe;
use crate::way::{Device, Way};

impl Walk<'_, '_> {
    /// Says that all packets leave by a device.
    pub(super) fn say_way_out(&mut self, way: &Way<'_>, index: u32) {
        let device = way.devices.iter().find(|device| device.index == index);
        self.machine.writes.extend(device.map(of_device).into_iter().flatten());
    }

    /// Says that no packet has a way out yet.
    pub(super) fn no_way_out(&mut self) {
        self.machine.writes.extend(nothing_out());
    }

    /// On the way out `meta iiftype` is about the device that packets leave by.
    pub(super) fn kinds_of_way_out(&mut self, region: &Region) -> Decided<()> {
        let field = Field::Meta(MetaKey::IifType);
        if !self.universe.has(field) {
            return Ok(());
        }
        let out = self.machine.field(self.universe, Field::Meta(MetaKey::OifType))?;
        self.machine.write(self.universe, region, field, &out)
    }
}

/// Values of the fields of the device on the way out, for all packets: zero where there is none.
///
/// # Errors
/// A limit.
pub(crate) fn way_out(
    universe: &Universe,
    way: &Way<'_>,
    routed: &[(End, Region)],
) -> Decided<HashMap<Field, Vec<Bit>>> {
    let mut values: HashMap<Field, Vec<Bit>> = nothing_out().into_iter().collect();
    for (end, region) in routed {
        let End::Leaves(index) = end else { continue };
        let Some(device) = way.devices.iter().find(|device| device.index == *index) else {
            continue;
        };
        for (field, known) in of_device(device) {
            let Some(bits) = values.get_mut(&field) else { continue };
            for (bit, value) in bits.iter_mut().zip(&known) {
                *bit = bit.replaced(region, value, &universe.diagrams)?;
            }
        }
    }
    Ok(values)
}

/// What rules ask of a device on the way out.
pub(super) fn of_device(device: &Device) -> [(Field, Vec<Bit>); 6] {
    let Device { index, interface, .. } = device;
    let known: [(Field, &[u8]); 6] = [
        (Field::Meta(MetaKey::Oif), &index.to_be_bytes()),
        (Field::Meta(MetaKey::OifName), &interface.name),
        (Field::Meta(MetaKey::OifKind), &interface.kind),
        (Field::Meta(MetaKey::OifType), &interface.arphrd.to_be_bytes()),
        (Field::Meta(MetaKey::OifGroup), &interface.group.to_be_bytes()),
        (Field::HasMeta(MetaKey::Oif), &[1]),
    ];
    known.map(|(field, bytes)| {
        let bits = bits::constant(bytes);
        (field, bits[bits.len() - field.width() as usize..].to_vec())
    })
}

/// That there is no device on the way out.
fn nothing_out() -> Vec<(Field, Vec<Bit>)> {
    use MetaKey::{Oif, OifGroup, OifKind, OifName, OifType};
    let keys = [Oif, OifName, OifKind, OifType, OifGroup].map(Field::Meta);
    let fields = keys.into_iter().chain([Field::HasMeta(Oif)]);
    fields.map(|field| (field, vec![Bit::ZERO; field.width() as usize])).collect()
}
