//! The straight way: what the packets of most flows meet, in one function.
//!
//! IPv4 packets of TCP and UDP without options that arrive at a plain device go from reception over the hooks to the next
//! plain device with what was read of their headers beforehand. Nothing here means anything of its own: each step is what
//! the normal way ([`Worker::receive`]) does with such a packet, and where a packet needs more (it begins a connection, a
//! rule keeps it, its way was not asked for before, …) it goes on from that step in the normal way.

use std::net::IpAddr;

use penstock_conntrack::{Conntrack, Sought};
use penstock_jit::{self as jit, Head};
use penstock_net::{Link, LinkKind, Mac};
use penstock_packet::{Frame, Packet, Transport};
use penstock_program::{Context, Hook};
use penstock_wire::checksum::Sum;
use penstock_wire::ipv4_options::Compiled;
use penstock_wire::{ethernet, ipv4, protocol};

use crate::burst::Together;
use crate::hooks::{BuiltIn, HookList, NFPROTO_NETDEV, Protocol};
use crate::ip4;
use crate::route_cache::Way;
use crate::rules::End;
use crate::sink::Sink;
use crate::transmit::put_ethernet;
use crate::worker::{Destination, Worker};

/// What frames of a device pass that go straight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Road<'a> {
    device: u32,
    address: Mac,
    /// There are rules at ingress: only frames that have passed them go this way.
    pub(crate) filtered: bool,
    /// `prerouting` and `postrouting`; `None` where there are chains and the like.
    before: Option<BuiltIn>,
    behind: Option<BuiltIn>,
    forward: &'a HookList,
    /// Nothing on the way can change a header that says where the next one is.
    untouched: bool,
    /// About egress of the device by which the last packet left: the next ones mostly leave there, too.
    pub(crate) foresight: Option<Foresight<'a>>,
}

/// Code that says of packets whether they will pass a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foresight<'a> {
    pub(crate) code: &'a jit::Compiled,
    pub(crate) list: usize,
    /// The device, at egress of which it is.
    device: u32,
}

/// What was read of a frame that may go straight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    src: u32,
    dst: u32,
    /// Length of the packet.
    len: u16,
    protocol: u8,
    tos: u8,
    /// It is known that it passes what the road foresees.
    pub(crate) passes: bool,
}

impl Usual {
    /// Reads a frame. `None` if it is not for such a road: addressed to another host, tagged, no IPv4 or not a valid one,
    /// with options, a fragment, at its last hop, or of another protocol than TCP and UDP. Otherwise `head` is its headers.
    #[inline(always)]
    pub(crate) fn read<'f>(frame: &Frame<'f>, road: &Road<'_>, head: &mut &'f Head) -> Option<Usual> {
        /// Version and length of a header without options.
        const PLAIN: u8 = 0x45;
        /// Bits of fragments: more follow, or this is not the first.
        const FRAGMENT: u16 = 0x3fff;
        /// Ports and what both protocols have behind them.
        const TRANSPORT: usize = 8;
        let (link, network) = frame.bytes.split_first_chunk::<{ ethernet::LEN }>()?;
        let h: &Head = network.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        let word = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let (len, fragment) = (half(2), half(6));
        let plain = frame.device == road.device
            && link[..6] == road.address.0
            && link[12..] == ethernet::IPV4.to_be_bytes()
            && h[0] == PLAIN
            && fragment & FRAGMENT == 0
            && h[8] > 1
            && matches!(h[9], protocol::TCP | protocol::UDP)
            && usize::from(len) >= ipv4::LEN + TRANSPORT
            && usize::from(len) <= network.len();
        if !plain {
            return None;
        }
        let sum = (0..5).fold(Sum::new(), |sum, n| sum.u32(word(4 * n)));
        if !sum.is_valid() {
            return None;
        }
        *head = h;
        Some(Usual { src: word(12), dst: word(16), len, protocol: h[9], tos: h[1], passes: false })
    }

    /// Where the connection of a frame that was read is to be looked up, if that is what happens first.
    #[inline(always)]
    pub(crate) fn seek(frame: &Frame<'_>, road: &Road<'_>, conntrack: &Conntrack) -> Option<Sought> {
        let tracks = road.before.is_some_and(|before| before.tracks);
        let head = frame.bytes.get(ethernet::LEN..)?.first_chunk().filter(|_| tracks)?;
        Some(conntrack.seek_ports4(head))
    }
}

/// What came of a packet at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It goes on as it is.
    On,
    /// It goes on with other addresses or ports.
    Translated,
    /// It was dropped, or goes on elsewhere.
    Ended,
}

impl<'a, S: Sink> Worker<'a, S> {
    /// The road of a device; `None` if somebody looks at its frames on their way in, or anything else than IP comes of them.
    pub(crate) fn road(&self, device: u32) -> Option<Road<'a>> {
        let state = &*self.state;
        let watched = self.filtered(device) || state.ipsec.is_some() || state.trace_all;
        let watched = watched || state.taps.has(device);
        let hooks = self.hooks;
        if !self.straight || watched {
            return None;
        }
        let link = self.net.link(device).filter(|link| link.up && is_plain(link))?;
        if self.net.bridge_port(device).is_some() {
            return None;
        }
        let behind = hooks.list(Protocol::Ip, Hook::Postrouting).built_in;
        let before = hooks.list(Protocol::Ip, Hook::Prerouting).built_in;
        let forward = hooks.list(Protocol::Ip, Hook::Forward);
        let keeps = |built_in: Option<BuiltIn>| built_in.is_some_and(|stages| !stages.translates);
        let untouched = forward.is_empty() && keeps(before) && keeps(behind);
        let filtered = !hooks.ingress(device).is_empty();
        let foresight = self.foresight().filter(|_| untouched);
        Some(Road { foresight, device, address: link.mac, filtered, before, behind, forward, untouched })
    }

    /// Code that says what passes egress of the device by which the last packet left.
    fn foresight(&self) -> Option<Foresight<'a>> {
        let device = self.state.last_out;
        let list = self.hooks.egress(device).code?;
        let code = self.code.filter(|code| code.foresees(list))?;
        Some(Foresight { code, list, device })
    }

    /// A frame that may go straight, and all that follows from it; `passed` is what it has passed at ingress, if there is
    /// anything.
    #[inline]
    pub(crate) fn straight(
        &mut self,
        road: &Road<'_>,
        frame: &Frame<'_>,
        usual: &Usual,
        sought: Option<&Sought>,
        passed: Option<&Together<'_>>,
        packet: &mut Packet,
    ) {
        let len = ethernet::LEN + usize::from(usual.len);
        let full = self.state.conntrack.statistics().table_full;
        let mut tracked = None;
        if let Some(sought) = sought {
            let network = frame.bytes.get(ethernet::LEN..len).unwrap_or(&[]);
            tracked = self.state.conntrack.track_sought(network, sought, frame.time);
            if tracked.is_none() {
                // It begins a connection.
                return match passed {
                    Some(together) => self.frame_behind_ingress(frame, together, packet),
                    None => self.receive(frame, packet),
                };
            }
        }
        self.state.counters.received += 1;
        let offset = ipv4::LEN as u16;
        let transport = Transport { protocol: usual.protocol, offset, fragment_offset: 0 };
        packet.receive_known(frame.bytes, len, ethernet::IPV4, transport);
        packet.meta.time = frame.time;
        packet.meta.iif = road.device;
        if passed.is_some() {
            packet.meta.trace_id = self.next_trace_id();
        }
        if let Some((ct, verdict)) = tracked {
            packet.meta.ct = ct;
            if self.tracked(verdict, full, packet) != End::Accept {
                return;
            }
        }
        match self.straight_before(road, packet) {
            Step::On => self.straight_forward(road, usual, (usual.src, usual.dst), packet),
            Step::Translated => match ip4::addresses(packet) {
                Some(addresses) => self.straight_forward(road, usual, addresses, packet),
                None => self.ip4_behind_prerouting(packet, None),
            },
            Step::Ended => {}
        }
    }

    /// `prerouting`; tracking is done, where it comes first.
    #[inline(always)]
    fn straight_before(&mut self, road: &Road<'_>, packet: &mut Packet) -> Step {
        match road.before {
            Some(before) if before.translates => self.straight_nat(Hook::Prerouting, packet),
            Some(_) => Step::On,
            None => {
                if self.hook_before_route(Protocol::Ip, Hook::Prerouting, packet, &mut None) {
                    self.ip4_behind_prerouting(packet, None);
                }
                Step::Ended
            }
        }
    }

    /// The NAT stage of a hook.
    #[inline(always)]
    fn straight_nat(&mut self, hook: Hook, packet: &mut Packet) -> Step {
        if self.stays_as_it_is(hook, packet) {
            return Step::On;
        }
        packet.find_transport();
        match self.nat(Context { nfproto: 2, hook }, packet, &mut None) {
            End::Accept => Step::Translated,
            End::Dropped | End::Taken | End::Queue { .. } => Step::Ended,
        }
    }

    /// From the routing decision on.
    #[inline(always)]
    fn straight_forward(
        &mut self,
        road: &Road<'_>,
        usual: &Usual,
        (src, dst): (u32, u32),
        packet: &mut Packet,
    ) {
        let known = self.state.routes.v4.way(road.device, dst);
        let Some(&Way { to, mtu, .. }) = known.filter(|_| self.ip4_usual_source(src)) else {
            return self.ip4_new_way(packet);
        };
        let too_long = usize::from(usual.len) > mtu;
        if to.local || to.redirect || too_long {
            return self.ip4_take_way(packet, &to, false);
        }
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        self.state.counters.forwarded += 1;
        if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
            h.decrement_ttl();
        }
        packet.meta.priority = ip4::priority_of_tos(usual.tos);
        packet.meta.oif = to.oif;
        if !self.straight_hook(road.forward, packet, &to) {
            return;
        }
        let Some(behind) = road.behind else { return self.ip4_output(packet, &to) };
        if behind.translates && self.straight_nat(Hook::Postrouting, packet) == Step::Ended {
            return;
        }
        let settled = !behind.confirms || self.state.conntrack.is_settled(&packet.meta.ct);
        if !settled && self.confirm(packet) != End::Accept {
            return;
        }
        self.straight_out(road, usual, packet, &to, mtu);
    }

    /// `forward`. Whether the packet goes on.
    #[inline(always)]
    fn straight_hook(&mut self, list: &HookList, packet: &mut Packet, to: &Destination) -> bool {
        if list.is_empty() {
            return true;
        }
        if list.has_chains && packet.meta.trace_id == 0 {
            packet.meta.trace_id = self.next_trace_id();
        }
        let decision = match (self.code, list.code) {
            (Some(code), Some(number)) => code.run_alone(number, packet, self.state.worker),
            _ => None,
        };
        match decision {
            Some(decision) if decision.is_pass() => true,
            Some(decision) => {
                self.state.queues.options = Compiled::default();
                let context = Context { nfproto: 2, hook: Hook::Forward };
                self.carry_out(decision, list, context, packet, &mut Some(*to)) == End::Accept
            }
            None => {
                self.state.queues.options = Compiled::default();
                self.hook(Protocol::Ip, Hook::Forward, packet, Some(to))
            }
        }
    }

    /// To a neighbour that is known, by egress of the device, which nobody taps.
    #[inline(always)]
    fn straight_out(
        &mut self,
        road: &Road<'_>,
        usual: &Usual,
        packet: &mut Packet,
        to: &Destination,
        mtu: usize,
    ) {
        let next = match to.gateway {
            None => ip4::addresses(packet).map(|(_, dst)| dst),
            Some(IpAddr::V4(gateway)) => Some(gateway.into()),
            Some(IpAddr::V6(_)) => None,
        };
        let neighbour = next.and_then(|next| self.state.routes.v4.neighbour(to.oif, next));
        let link = self.net.link(to.oif).filter(|link| link.up && is_plain(link));
        let (Some(neighbour), Some(link)) = (neighbour, link) else {
            return self.ip4_finish_output(packet, to);
        };
        if self.state.taps.has(link.index) || packet.network().len() > mtu {
            return self.ip4_finish_output(packet, to);
        }
        packet.meta.protocol = ethernet::IPV4;
        packet.meta.vlan = None;
        put_ethernet(packet, neighbour, link.mac);
        packet.data_at_link();
        packet.meta.iif = 0;
        packet.meta.oif = link.index;
        let foreseen = usual.passes && road.foresight.is_some_and(|foresight| foresight.device == link.index);
        let sees = self.state.tc.as_mut().is_none_or(|tc| tc.egress_sees());
        if foreseen && sees {
            if packet.meta.trace_id == 0 {
                packet.meta.trace_id = self.next_trace_id();
            }
        } else if sees {
            let egress = self.hooks.egress(link.index);
            if !egress.is_empty() {
                self.state.last_out = link.index;
                if !self.straight_egress(road, egress, packet) {
                    return;
                }
            }
        }
        if self.state.tc.is_some()
            && (self.tc(penstock_tc::Hook::Egress, link.index, packet).is_some()
                || self.enqueue(packet, link).is_some())
        {
            return;
        }
        packet.put_tag_into_frame();
        self.state.counters.transmitted += 1;
        self.sink.transmit(link, packet.frame(), &packet.meta);
    }

    /// Netfilter's egress. Whether the packet goes on.
    #[inline(always)]
    fn straight_egress(&mut self, road: &Road<'_>, list: &HookList, packet: &mut Packet) -> bool {
        if !road.untouched {
            packet.find_transport_checked();
        }
        if list.has_chains && packet.meta.trace_id == 0 {
            packet.meta.trace_id = self.next_trace_id();
        }
        let decision = match (self.code, list.code) {
            (Some(code), Some(number)) => code.run_alone(number, packet, self.state.worker),
            _ => None,
        };
        if decision.is_some_and(|decision| decision.is_pass()) {
            return true;
        }
        self.state.queues.options = Compiled::default();
        let context = Context { nfproto: NFPROTO_NETDEV, hook: Hook::Egress };
        let end = match decision {
            Some(decision) => self.carry_out(decision, list, context, packet, &mut None),
            None => self.run_list(list, context, packet, &mut None),
        };
        end == End::Accept
    }
}

/// Whether frames leave a device as they are given to it.
#[inline]
fn is_plain(link: &Link) -> bool {
    matches!(link.kind, LinkKind::Wire { .. })
}
