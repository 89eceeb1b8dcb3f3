// SPDX-License-Identifier: Apache-2.0

//! The journey of a packet, stage by stage.
//!
//! Each stage does its part and returns the [`Next`] one; [`Worker::run`] is the only place that
//! calls them one after the other. What a packet takes along is its metadata and its [`Course`].
//!
//! ```text
//! Ingress -> AfterIngress -+-> Ingress of a VLAN device
//!                          +-> BridgePrerouting -> BridgeRoute -+-> BridgePostrouting -> BridgePush -> Egress
//!                          |           |                        +-> BridgeInput -> BridgeReceived -> Ingress
//!                          |           v
//!                          +-> Protocol -+-> Arp -> Deliver
//!                                        +-> Ip4Prerouting -> Ip4Route -+-> Ip4Input -> Deliver
//!                                                                       +-> Ip4Forward -> Ip4AfterForward
//!                                                                                               |
//! host packet -> AfterOutput ---------------------> Ip4Postrouting <----------------------------+
//!                                                         |
//!                                                         +-> Ip4Finish -> Neighbour -> Egress
//! ```
//!
//! IPv6 has the same stages, and two more: extension headers are read after `input`, and groups are
//! looked at after `postrouting`.
//!
//! A stage may bring about other packets (answers, copies, fragments): they make their journey
//! within it ([`Worker::nested`]), or when everything else is done (the backlog of the loopback
//! device). Packets of most flows take one function instead of all of these stages
//! ([`Worker::take_fast_path`]), and continue at a stage if they need more.

pub(crate) mod bpf;
mod bpf_world;
pub(crate) mod bridge;
pub(crate) mod burst;
pub(crate) mod defragment;
pub(crate) mod deliver;
pub(crate) mod device_path;
pub(crate) mod dup_fwd;
pub(crate) mod fast_path;
pub(crate) mod flow;
pub(crate) mod forward_plain;
pub(crate) mod frames;
pub(crate) mod headers_ahead;
pub(crate) mod hook_env;
pub(crate) mod host;
pub(crate) mod icmp4;
pub(crate) mod icmp6;
pub(crate) mod icmp_received;
pub(crate) mod ingress_batch;
pub(crate) mod ip4;
pub(crate) mod ip6;
pub(crate) mod mirred;
pub(crate) mod nat;
pub(crate) mod neighbours;
pub(crate) mod options4;
pub(crate) mod output;
pub(crate) mod path_mtu;
pub(crate) mod prefetcher;
pub(crate) mod queue;
pub(crate) mod receive;
pub(crate) mod refragment;
pub(crate) mod reject;
pub(crate) mod remembered_way;
pub(crate) mod routes_ahead;
pub(crate) mod run_chain;
pub(crate) mod run_code;
pub(crate) mod run_list;
pub(crate) mod synproxy;
pub(crate) mod tap;
pub(crate) mod tc;
pub(crate) mod tcx;
pub(crate) mod track;
pub(crate) mod transmit;
pub(crate) mod tunnel;
pub(crate) mod validate_source;
pub(crate) mod xdp;
pub(crate) mod xfrm;

use penstock_packet::Packet;

use crate::course::{Course, Next};
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// A packet continues at a stage, and goes from stage to stage until it ends. `false` if it was
    /// dropped on its way out of a device, where the caller gets an error.
    pub(crate) fn run(&mut self, next: Next, packet: &mut Packet, course: &mut Course) -> bool {
        let mut next = next;
        loop {
            next = match next {
                Next::Done => return true,
                Next::Refused => return false,

                Next::Ingress => self.ingress(packet, course),
                Next::AfterIngress => self.after_ingress(packet),
                Next::Protocol => self.protocol(packet),
                Next::Arp => self.arp_receive(packet, course),

                Next::BridgePrerouting => self.bridge_prerouting(packet, course),
                Next::BridgeAfterIp(hook) => self.bridge_after_ip(hook, packet, course),
                Next::BridgeRoute => self.bridge_route(packet, course),
                Next::BridgeInput => self.bridge_input(packet, course),
                Next::BridgeReceived => self.bridge_received(packet, course),
                Next::BridgePostrouting => self.bridge_postrouting(packet, course),
                Next::BridgePush => self.bridge_push(packet),

                Next::Ip4Prerouting => self.ip4_prerouting(packet, course),
                Next::Ip4Route => self.ip4_route(packet, course),
                Next::Ip4Input => self.ip4_input(packet, course),
                Next::Ip4Forward => self.ip4_forward(packet, course),
                Next::Ip4AfterForward => self.ip4_after_forward(packet, course),
                Next::Ip4Postrouting => self.ip4_postrouting(packet, course),
                Next::Ip4Finish => self.ip4_finish(packet, course),

                Next::Ip6Prerouting => self.ip6_prerouting(packet, course),
                Next::Ip6Route => self.ip6_route(packet, course),
                Next::Ip6Input => self.ip6_input(packet, course),
                Next::Ip6AfterInput => self.ip6_after_input(packet, course),
                Next::Ip6Forward => self.ip6_forward(packet, course),
                Next::Ip6Postrouting => self.ip6_postrouting(packet, course),
                Next::Ip6AfterPostrouting => self.ip6_after_postrouting(packet, course),
                Next::Ip6Finish => self.ip6_finish(packet, course),

                Next::Deliver => self.deliver(packet, course),
                Next::AfterOutput(protocol) => self.after_output(protocol, packet, course),
                Next::ComeBack => self.come_back(packet, course),
                Next::Neighbour(protocol) => self.neighbour(protocol, packet, course),
                Next::Egress => {
                    Next::sent(self.transmit(packet, packet.meta.oif, course.route.as_ref()))
                }
            };
        }
    }

    /// Drops a packet.
    pub(crate) fn end(&mut self, reason: DropReason, packet: &Packet) -> Next {
        self.drop(reason, packet);
        Next::Done
    }
}
