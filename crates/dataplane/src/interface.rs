// SPDX-License-Identifier: Apache-2.0

//! What rules ask about devices.

use penstock_net::{Link, Network};
use penstock_program::env::Interface;

pub(crate) fn padded(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    let len = text.len().min(15);
    out[..len].copy_from_slice(&text.as_bytes()[..len]);
    out
}

/// What rules ask about the devices, by index.
pub(crate) fn interfaces(net: &Network) -> Vec<Option<Interface>> {
    let mut interfaces = vec![None; net.last_index() as usize + 1];
    for link in net.links() {
        if let Some(place) = interfaces.get_mut(link.index as usize) {
            *place = Some(interface(link));
        }
    }
    interfaces
}

/// What rules ask about a device.
pub fn interface(link: &Link) -> Interface {
    Interface {
        name: padded(&link.name),
        kind: padded(link.kind_name()),
        arphrd: link.hardware_type(),
        group: link.group,
    }
}
