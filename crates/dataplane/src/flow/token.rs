// SPDX-License-Identifier: Apache-2.0

//! What stands for a connection in a flow, and for a flow in its connection.

use penstock_conntrack::Ref;
use penstock_program::image::FlowtableIndex;

use crate::flow::NotOffloaded;

/// Token of a connection.
pub(crate) const fn of_connection(connection: Ref) -> u64 {
    (connection.serial as u64) << 32 | connection.entry as u64
}

/// From there.
pub(crate) const fn connection(token: u64) -> Ref {
    Ref { entry: token as u32, serial: (token >> 32) as u32 }
}

/// Token of a flow in a table.
pub(crate) const fn of_flow(table: u32, flow: u32) -> u64 {
    (table as u64) << 32 | flow as u64
}

/// From there: table and flow.
pub(crate) const fn flow(token: u64) -> (u32, u32) {
    ((token >> 32) as u32, token as u32)
}

/// Token for the reason why a flow is not in a flowtable.
pub(crate) const fn of_refusal(table: FlowtableIndex, reason: NotOffloaded) -> u32 {
    table.0 << 8 | reason as u32
}

/// From there.
pub(crate) fn refusal(note: u32) -> Option<(FlowtableIndex, NotOffloaded)> {
    let reason = NotOffloaded::ALL.get((note & 0xff) as usize)?;
    Some((FlowtableIndex(note >> 8), *reason))
}
