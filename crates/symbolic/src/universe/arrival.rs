// SPDX-License-Identifier: Apache-2.0

//! The device on which packets arrive, where it is one of some that are known.

use penstock_program::expr::MetaKey;

use super::Universe;
use crate::bits::{Bit, bit_of};
use crate::diagram::{Decided, Region};
use crate::field::Field;
use crate::way::Device;

/// What rules ask of a device of arrival, as bytes of the numbers.
fn values(device: &Device) -> [(Field, Vec<u8>); 5] {
    let Device { index, interface, .. } = device;
    [
        (Field::Meta(MetaKey::IifName), interface.name.to_vec()),
        (Field::Meta(MetaKey::Iif), index.to_be_bytes().to_vec()),
        (Field::Meta(MetaKey::IifKind), interface.kind.to_vec()),
        (Field::Meta(MetaKey::IifType), interface.arphrd.to_be_bytes().to_vec()),
        (Field::Meta(MetaKey::IifGroup), interface.group.to_be_bytes().to_vec()),
    ]
}

/// Bits by which one of several values is told from the others: each splits what the bits before it
/// leave together.
fn telling(values: &[Vec<u8>]) -> Vec<usize> {
    let mut groups = vec![(0..values.len()).collect::<Vec<usize>>()];
    let mut telling = Vec::new();
    for bit in 0..values.first().map_or(0, |value| value.len() * 8) {
        let split = groups.iter().map(|group| -> (Vec<usize>, Vec<usize>) {
            group.iter().partition(|number| bit_of(&values[**number], bit))
        });
        let split: Vec<_> = split.flat_map(|(ones, zeros)| [ones, zeros]).collect();
        let split: Vec<_> = split.into_iter().filter(|group| !group.is_empty()).collect();
        if split.len() > groups.len() {
            telling.push(bit);
            groups = split;
        }
    }
    telling
}

impl Universe {
    /// Packets that arrive on a device, by all that is asked of it.
    pub(super) fn of_device(&self, device: &Device) -> Decided<Region> {
        self.with_values(&values(device))
    }

    /// Devices of arrival, each with its packets as functions of those few bits of its name that
    /// tell the devices apart: a name has 128, and each would be a step in each diagram. Packets that
    /// arrive on no device are with any of them.
    ///
    /// # Errors
    /// A limit.
    pub(crate) fn by_arrival(&mut self) -> Decided<Vec<(Device, Region)>> {
        let all = self.arrivals.clone();
        let names: Vec<Vec<u8>> = all.iter().map(|of| of.interface.name.to_vec()).collect();
        let name = self.bits(Field::Meta(MetaKey::IifName))?;
        let d = &self.diagrams;
        let telling = telling(&names);
        let mut devices = Vec::new();
        for (device, of_it) in all.into_iter().zip(&names) {
            let mut region = d.all();
            for bit in &telling {
                let one = name[*bit].region(d);
                region = match bit_of(of_it, *bit) {
                    true => d.and(&region, &one)?,
                    false => d.minus(&region, &one)?,
                };
            }
            devices.push((device, region));
        }
        Ok(devices)
    }

    /// Values of what rules ask of the device on which packets are, by the device that they arrive
    /// on. Of packets that arrive on no device they are anything.
    ///
    /// # Errors
    /// A limit.
    pub(crate) fn device_bits(
        &mut self,
        devices: &[(Device, Region)],
    ) -> Decided<Vec<(Field, Vec<Bit>)>> {
        let all: Vec<_> = devices.iter().map(|(device, _)| values(device)).collect();
        let d = &self.diagrams;
        let regions: Vec<Region> = devices.iter().map(|(_, region)| region.clone()).collect();
        let known = d.union(&regions)?;
        let mut fields = Vec::new();
        for at in 0..all.first().map_or(0, |values| values.len()) {
            let field = all[0][at].0;
            if !self.has(field) {
                continue;
            }
            let mut bits = Vec::new();
            for bit in 0..field.width() as usize {
                let ones = all.iter().zip(&regions);
                let ones = ones.filter(|(values, _)| bit_of(&values[at].1, bit));
                let ones: Vec<Region> = ones.map(|(_, region)| region.clone()).collect();
                bits.push(Bit::of(d.among(&d.union(&ones)?, &known)?));
            }
            fields.push((field, bits));
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn few_bits_tell_names_apart() {
        let cases: [(&[&str], usize); 5] = [
            (&[], 0),
            (&["lo"], 0),
            (&["lan", "wan"], 1),
            (&["eth0", "eth1", "eth2", "eth3"], 2),
            (&["lan", "wan", "dmz", "vpn"], 3),
        ];
        for (names, most) in cases {
            let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let bits = telling(&names);
            let told = |name: &Vec<u8>| bits.iter().map(|bit| bit_of(name, *bit)).collect();
            let told: HashSet<Vec<bool>> = names.iter().map(told).collect();
            assert_eq!(told.len(), names.len(), "{names:?}");
            assert!(bits.len() <= most, "{names:?}: {bits:?}");
        }
    }
}
