// SPDX-License-Identifier: Apache-2.0

//! What programs read of a packet's connection.

/// What is read of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CtField {
    /// `NF_CT_STATE_*` bit of the packet, whether it has a connection or not.
    State,
    /// Whether the packet is a reply.
    Direction,
    /// `IPS_*` bits.
    Status,
    /// Mark.
    Mark,
    /// Zone of both directions.
    Zone,
    /// Family of its addresses.
    L3Protocol,
    /// Transport protocol.
    Protocol,
    /// An address of a direction.
    Address { source: bool, reply: bool, v6: bool },
    /// A port of a direction.
    Port { source: bool, reply: bool },
}

impl CtField {
    /// Bytes.
    pub(super) fn len(self) -> u8 {
        match self {
            CtField::State | CtField::Status | CtField::Mark => 4,
            CtField::Direction | CtField::L3Protocol | CtField::Protocol => 1,
            CtField::Address { v6: true, .. } => 16,
            CtField::Address { v6: false, .. } => 4,
            CtField::Port { .. } | CtField::Zone => 2,
        }
    }
}
