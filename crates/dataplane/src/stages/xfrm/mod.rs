// SPDX-License-Identifier: Apache-2.0

//! IPsec on the way of packets (`net/xfrm/xfrm_policy.c`, `xfrm_output.c`, `xfrm_input.c`).
//!
//! ```text
//! forward: policy check -> TTL -> lookup -> MTU -> forward -> postrouting -> ESP -> output -> postrouting -> neighbour
//! host:                    route -> lookup -> output -> postrouting -> ESP -> output -> postrouting -> neighbour
//! input:   input -> ESP off -> tunnel: received again on the same device; transport: prerouting, input again
//!                -> anything else: policy check -> host
//! ```
//!
//! What a packet came through is its [`SecPath`], by number in its metadata; what it is to go
//! through is a [`Bundled`] way, by number in its [`Route`](crate::route::Route). Without any line
//! about IPsec in the network there is no [`Ipsec`], and nothing is asked.

mod flow;
mod host;
mod input;
mod output;

use penstock_net::{Devconf, LOOPBACK};
use penstock_packet::Packet;
use penstock_program::env::IpsecState;
use penstock_wire::ethernet;
use penstock_xfrm::Direction;

use crate::ipsec::{reason, shown};
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::xfrm::flow::answered_flow;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Whether policy lets a packet continue that came in (`xfrm_policy_check()`); if not, it is
    /// dropped.
    pub(crate) fn xfrm_check(&mut self, direction: Direction, packet: &mut Packet) -> bool {
        let Some(ipsec) = self.state.ipsec.as_deref() else { return true };
        let asks =
            packet.meta.secpath != 0 || ipsec.xfrm.asks(direction) && packet.meta.iif != LOOPBACK;
        if !asks || self.without_policy(packet) {
            return true;
        }
        packet.find_transport();
        let flow = self.incoming_flow(packet);
        let answered = answered_flow(packet, &flow);
        let Some(ipsec) = self.state.ipsec.as_deref_mut() else { return true };
        let mut path = ipsec.secpath(packet);
        let now = packet.meta.time;
        match ipsec.xfrm.check(direction, &flow, answered.as_ref(), &mut path, now) {
            Ok(()) => {
                if let Some(place) = ipsec.secpaths.get_mut(packet.meta.secpath) {
                    *place = path;
                }
                true
            }
            Err(stat) => {
                self.drop(reason(stat), packet);
                false
            }
        }
    }

    /// Whether policy is not asked about packets of this device (`__xfrm_check_dev_nopolicy()`).
    fn without_policy(&self, packet: &Packet) -> bool {
        packet.meta.protocol == ethernet::IPV4
            && packet.meta.iif != LOOPBACK
            && self.conf_of(packet.meta.iif, Devconf::DisablePolicy) != 0
    }

    /// The state that a packet came through, or is to go through, by its number
    /// (`nft_xfrm_get_eval()`).
    pub(crate) fn ipsec_state(
        &self,
        packet: &Packet,
        to: Option<&Route>,
        out: bool,
        number: u32,
    ) -> Option<IpsecState> {
        let ipsec = self.state.ipsec.as_deref()?;
        let at = number as usize;
        let id = if out {
            *ipsec.bundled(to?)?.states.states().get(at)?
        } else {
            *ipsec.secpath(packet).states().get(at)?
        };
        Some(shown(&ipsec.xfrm, id))
    }
}
