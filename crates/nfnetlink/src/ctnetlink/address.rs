// SPDX-License-Identifier: Apache-2.0

//! Messages to a socket.

use crate::message::Writer;

/// Where a request came from, and where its answers go.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Sequence number of the request.
    pub sequence: u32,
    /// Port id of the sender.
    pub port: u32,
}

impl Address {
    /// Writes one message with its headers. The last number is `res_id`.
    pub fn message(
        self,
        to: &mut Writer,
        (subsystem, number, flags): (u8, u8, u16),
        (family, resource): (u8, u16),
        write: impl FnOnce(&mut Writer),
    ) {
        let kind = u16::from(subsystem) << 8 | u16::from(number);
        let start = to.begin(kind, flags, self.sequence, self.port);
        to.raw(&[family, 0]);
        to.raw(&resource.to_be_bytes());
        write(to);
        to.end(start);
    }
}
