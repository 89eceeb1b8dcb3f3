// SPDX-License-Identifier: Apache-2.0

//! The device that forwards flows, and how flows are described to it.

use penstock_flowtable::offload::{HardwareFlow, HardwareHalf};
use penstock_flowtable::{At, Direction, Flowtable, Key, Offloader};
use penstock_net::Network;
use penstock_ruleset::link::{CannotOffload, LinkedFlowtable, OffloadPart};

use crate::hooks::names;

/// A device that forwards flows, and the devices of the network with frames that it sees.
#[derive(Debug)]
pub(crate) struct Hardware {
    pub(crate) offloader: Offloader,
    pub(crate) devices: Vec<u32>,
    /// Offload flows of flowtables without `flags offload`, too.
    pub(crate) all: bool,
}

/// A flow in the form for devices.
pub(crate) fn described(flows: &Flowtable, flow: u32) -> HardwareFlow {
    let half = |direction| {
        let at = At { flow, direction };
        let (key, other) = (flows.key(at), flows.key(At { flow, direction: direction.opposite() }));
        let [src, dst] = other.port_numbers();
        let leaves = Key::new(other.destination(), other.source(), [dst, src], key.l4);
        HardwareHalf { key, arrival: *flows.arrival_at(key.arrival), leaves, xmit: *flows.xmit(at) }
    };
    HardwareFlow { halves: Direction::BOTH.map(half) }
}

/// Whether all devices of flowtables with `flags offload` can forward flows, if these devices of a
/// network can: the kernel refuses a flowtable else.
///
/// # Errors
/// One cannot.
pub fn can_offload(
    net: &Network,
    flowtables: &[LinkedFlowtable],
    devices: &[u32],
) -> Result<(), CannotOffload> {
    for LinkedFlowtable { family, table, flowtable } in
        flowtables.iter().filter(|f| f.is_for_devices())
    {
        let mut wanted =
            net.links().iter().filter(|l| flowtable.devices.iter().any(|d| names(d, &l.name)));
        if let Some(link) = wanted.find(|l| !devices.contains(&l.index)) {
            return Err(CannotOffload {
                family: *family,
                table: table.0.clone(),
                part: OffloadPart::Flowtable(flowtable.name.clone()),
                place: format!("device {}", link.name),
            });
        }
    }
    Ok(())
}
