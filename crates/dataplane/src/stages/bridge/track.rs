// SPDX-License-Identifier: Apache-2.0

//! Connections of what a bridge sends on (`net/bridge/netfilter/nf_conntrack_bridge.c`), where
//! rules of the bridge family ask for them.

use penstock_conntrack::status;
use penstock_packet::{Ct, CtInfo, Packet, PacketType};
use penstock_program::Context;
use penstock_wire::{ethernet, ipv4, ipv6};

use crate::hook_result::HookResult;
use crate::reassembly::User;
use crate::sink::Sink;
use crate::stages::defragment::Gathered;
use crate::worker::Worker;

/// Length of an IPv4 packet that is sound enough to be looked at (`nf_ct_br_ip_check()`).
fn sound4(network: &[u8]) -> Option<usize> {
    let h = ipv4::Header::new(network)?;
    let len = usize::from(h.total_len());
    (h.version() == 4
        && h.header_len() >= ipv4::LEN
        && len >= h.header_len()
        && network.len() >= len)
        .then_some(len)
}

/// Length of an IPv6 packet that is sound enough to be looked at (`nf_ct_br_ipv6_check()`).
fn sound6(network: &[u8]) -> Option<usize> {
    let h = ipv6::Header::new(network)?;
    let len = ipv6::LEN + usize::from(h.payload_len());
    (h.version() == 6 && network.len() >= len).then_some(len)
}

impl<S: Sink> Worker<'_, S> {
    /// The stage at -200 in `prerouting`: padding goes, fragments wait for their others, the packet
    /// gets its connection.
    pub(crate) fn bridge_track(&mut self, context: Context, packet: &mut Packet) -> HookResult {
        if packet.meta.ct.has_entry() || packet.meta.ct.info == CtInfo::Untracked {
            return HookResult::Accept;
        }
        match packet.meta.protocol {
            ethernet::IPV4 => {
                let Some(len) = sound4(packet.network()) else { return HookResult::Accept };
                packet.trim_network(len);
                let fragment = ipv4::Header::new(packet.network()).is_some_and(|h| h.is_fragment());
                if fragment
                    && !self.ip4_reassemble(packet, User::Bridge(self.fragment_zone(packet)))
                {
                    return HookResult::Stolen;
                }
            }
            ethernet::IPV6 => {
                let Some(len) = sound6(packet.network()) else { return HookResult::Accept };
                packet.trim_network(len);
                if let Gathered::Gone =
                    self.ip6_gather(packet, User::Bridge(self.fragment_zone(packet)))
                {
                    return HookResult::Stolen;
                }
            }
            _ => {
                packet.meta.ct = Ct { info: CtInfo::Untracked, ..Ct::default() };
                return HookResult::Accept;
            }
        }
        packet.find_transport_checked();
        self.track(context, packet)
    }

    /// The last stage in `input`. Only one of several copies of a packet can bring a connection
    /// into the table, so a new one of a packet that is not for this host alone is forgotten; IP
    /// begins another.
    pub(crate) fn bridge_input_track(&mut self, packet: &mut Packet) -> HookResult {
        let ct = &packet.meta.ct;
        let confirmed =
            |c: &penstock_conntrack::Connection<'_>| c.status() & status::CONFIRMED != 0;
        let new = self.state.conntrack.connection(ct).is_some_and(|c| !confirmed(&c));
        if packet.meta.bridged.overheard || new && packet.meta.packet_type != PacketType::Host {
            packet.meta.ct = Ct::default();
        }
        HookResult::Accept
    }

    /// The last stage in `postrouting`: a new connection is entered into the table, and what was
    /// put together is cut again.
    pub(crate) fn bridge_confirm(&mut self, packet: &mut Packet) -> HookResult {
        let end = self.confirm(packet);
        self.bridge_confirmed(end, packet)
    }

    /// What follows where the last stage has ended so.
    pub(crate) fn bridge_confirmed(&mut self, end: HookResult, packet: &mut Packet) -> HookResult {
        match end {
            HookResult::Accept if packet.meta.reassembled != 0 => {
                self.state.counters.taken += 1;
                self.bridge_refragment(packet);
                HookResult::Stolen
            }
            end => end,
        }
    }
}
