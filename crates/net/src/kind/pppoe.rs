// SPDX-License-Identifier: Apache-2.0

//! PPPoE sessions (RFC 2516).

use penstock_wire::ethernet::Mac;

use super::{ForwardPath, Kind, Output};

/// `ARPHRD_PPP`.
const ARPHRD_PPP: u16 = 512;

/// Bytes that PPPoE puts before a packet: its header, and the protocol of PPP.
pub const PPPOE_OVERHEAD: usize = 8;

/// A PPPoE session as a device, as pppd leaves it. It does not negotiate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pppoe {
    /// Index of the Ethernet device below.
    pub lower: u32,
    /// Session id.
    pub session: u16,
    /// Address of the other end.
    pub peer: Mac,
}

impl Kind for Pppoe {
    #[inline]
    fn name(&self) -> &str {
        "ppp"
    }

    #[inline]
    fn hardware_type(&self) -> u16 {
        ARPHRD_PPP
    }

    #[inline]
    fn has_link_header(&self) -> bool {
        false
    }

    #[inline]
    fn output(&self) -> Output<'_> {
        Output::Pppoe(self)
    }

    #[inline]
    fn forward_path(&self) -> ForwardPath<'_> {
        ForwardPath::Pppoe(self)
    }

    fn interface_identifier(&self, _: Mac) -> Option<u64> {
        None
    }
}
