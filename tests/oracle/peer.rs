// SPDX-License-Identifier: Apache-2.0

//! The other end of a router's states of IPsec.

use penstock_xfrm::{Outer, Xfrm};

use crate::esp::states;

/// The other end.
pub struct Peer {
    xfrm: Option<Xfrm>,
    spi: u32,
    /// What it has sent.
    pub sent: Vec<Vec<u8>>,
}

impl Peer {
    /// Of a router of `net.ip` lines, to which this SPI leads.
    pub fn of(net: &str, spi: u32) -> Peer {
        // What has arrived last is what it has sent last.
        let xfrm = states(net, |state| {
            state.oseq = state.seq;
            state.flags.esn &= state.spi == spi;
            state.window = if state.flags.esn { 32 } else { 0 };
            state.out = None;
        });
        Peer { xfrm, spi, sent: vec![] }
    }

    /// A packet that goes to the router through ESP.
    pub fn seal(&mut self, to: &str, udp: bool, packet: &[u8]) -> Option<Vec<u8>> {
        let xfrm = self.xfrm.as_mut()?;
        let id = xfrm.find(to.parse().ok()?, self.spi, 0, udp, 0).ok()?;
        let room = xfrm.room(id, packet).ok()?;
        let mut network = vec![0; room.head];
        network.extend_from_slice(packet);
        network.resize(network.len() + room.tail, 0);
        let outer = Outer { hop_limit: 64, id: 7 };
        xfrm.seal(id, &mut network, room, outer, 0).ok()?;
        self.sent.push(network.clone());
        Some(network)
    }
}
