// SPDX-License-Identifier: Apache-2.0

//! Connections remember the way of their packets.
//!
//! What the hooks ask of most packets of a connection, and what they do with them, is the same for
//! all packets of one direction: rules ask for addresses, devices, the state of the connection, and
//! they count and accept; translation puts the same addresses and ports. A direction of which this
//! is known keeps it as a [`Way`]. Its next packets are looked up and tracked as ever, and then do
//! what the way says in place of passing the hooks.
//!
//! ```text
//! frame -> connection lookup -> tracker -> way? -> counters, translation, time to live -> wire
//!                                           '-no-> prerouting, route, forward, postrouting, egress
//! ```
//!
//! The invariant: as long as a connection keeps the number of a way ([`Ways::read`]), each packet
//! of the direction for which [`Worker::take_remembered_way`] finds no obstacle would pass the
//! hooks with exactly what the way does. It holds because
//!
//! - a way is found by walking one such packet through the same lists, and every operation that it
//!   meets gives all of them the same ([`accepts_alike`]);
//! - what they may differ in, and the hooks look at, is looked at here, too: the device of arrival,
//!   what the packet is to its connection, its length, and whether anything was learned of the MTU
//!   of its path;
//! - a change of the connection makes it forget the number, and a change of rules, of the network,
//!   of traffic control or of taps makes all numbers void.
//!
//! With the interpreter as engine nothing is remembered. Tests compare the two.

use penstock_conntrack::{Conntrack, Direction};
use penstock_nat::{Manip, bind, header};
use penstock_packet::{Ct, CtInfo, Packet, Transport};
use penstock_program::interp::alike::{Unlike, accepts_alike};
use penstock_program::{Context, Family, Hook};
use penstock_wire::{ethernet, ipv4, ipv6};

use crate::addresses;
use crate::hooks::Entry;
use crate::hooks::{HookList, Protocol, Stage};
use crate::route::priority_of_tos;
use crate::sink::Sink;
use crate::stages::device_path::FastPath;
use crate::stages::hook_env::{ChainCall, HookEnv};
use crate::stages::nat::manip_of;
use crate::stages::prefetcher::ParsedFrame;
use crate::ways::{Counters, Memo, Refusal, Way};
use crate::worker::Worker;

/// Why no way was found.
enum NoWay {
    /// Something that changes by itself is missing: a route or a neighbour that is found by the
    /// packets that pass the hooks.
    Yet,
    /// Packets of this direction have none.
    Ever(Refusal),
}

impl From<Refusal> for NoWay {
    fn from(why: Refusal) -> NoWay {
        NoWay::Ever(why)
    }
}

impl From<Unlike> for NoWay {
    fn from(Unlike(why): Unlike) -> NoWay {
        NoWay::Ever(Refusal(why))
    }
}

const fn direction_of(ct: &Ct) -> Direction {
    if ct.info.is_reply() { Direction::Reply } else { Direction::Original }
}

/// Where packets of a connection go, as they leave.
fn destination_of(conntrack: &Conntrack, ct: &Ct) -> Option<u128> {
    let back = conntrack.connection(ct)?.tuple(direction_of(ct).opposite());
    Some(match back.source() {
        std::net::IpAddr::V4(to) => u128::from(to.to_ipv6_mapped()),
        std::net::IpAddr::V6(to) => to.into(),
    })
}

impl<'a, S: Sink> Worker<'a, S> {
    /// A burst begins: what connections remember is void if something has changed meanwhile.
    #[inline]
    pub(crate) fn follow_ways(&mut self) {
        let state = &mut *self.state;
        state.ways.follow(state.flows.epoch, &mut state.conntrack);
    }

    /// Sends a frame that was tracked just now by the way that its connection remembers. Whether it
    /// did; if not, nothing has happened. `packet` is for such frames only.
    #[inline(always)]
    pub(super) fn take_remembered_way<const SIX: bool>(
        &mut self,
        fast_path: &FastPath<'_>,
        parsed: &ParsedFrame<'_>,
        ct: &Ct,
        packet: &mut Packet,
    ) -> bool {
        let &ParsedFrame { frame, headers, .. } = parsed;
        let memo = self.state.ways.read(self.state.conntrack.memo(ct.entry, ct.info.is_reply()));
        let Memo::Way(number) = memo else {
            self.consider_way::<SIX>(memo, fast_path, parsed, ct);
            return false;
        };
        let state = &mut *self.state;
        let Some(way) = state.ways.get(number) else { return false };
        let len = ethernet::LEN + usize::from(headers.len);
        let (Some(bytes), Some(link)) = (frame.bytes.get(..len), self.net.link(way.oif)) else {
            return false;
        };
        if way.iif != fast_path.device || way.info != ct.info {
            // It came another way than those before it.
            state.conntrack.set_memo(ct, 0);
            return false;
        }
        let learned =
            || destination_of(&state.conntrack, ct).is_none_or(|to| state.path_mtus.may_know(to));
        if u32::from(headers.len) > way.mtu || !state.path_mtus.is_empty() && learned() {
            return false;
        }
        packet.forward(bytes, &way.header);
        let meta = &mut packet.meta;
        meta.time = frame.time;
        meta.protocol = if SIX { ethernet::IPV6 } else { ethernet::IPV4 };
        meta.oif = way.oif;
        meta.realm = way.realm;
        meta.mark = way.mark;
        meta.route = Some(way.oif);
        meta.priority = if SIX { 0 } else { priority_of_tos(headers.tos) };
        meta.ct = *ct;
        meta.trace_id = 0;
        if way.numbered || parsed.ingress_batch.is_some() {
            let last = &mut state.numbers.trace_id;
            *last = last.wrapping_add(1).max(1);
            meta.trace_id = *last;
        }
        let network = packet.network_mut();
        if (way.source || way.destination)
            && let Some(connection) = state.conntrack.connection(ct)
        {
            let back = connection.tuple(direction_of(ct).opposite());
            header::leave_as_answered(network, back, way.source, way.destination);
        }
        if SIX {
            if let Some(mut h) = ipv6::HeaderMut::new(network) {
                h.decrement_hop_limit();
            }
        } else if let Some(mut h) = ipv4::HeaderMut::new(network) {
            h.decrement_ttl();
        }
        way.counters.count(state.worker, headers.len);
        let counters = &mut state.counters;
        counters.received += 1;
        counters.forwarded += 1;
        counters.transmitted += 1;
        state.ways.packets += 1;
        self.state.conntrack.tell_noted(ct);
        self.sink.transmit(link, packet.frame(), &packet.meta);
        true
    }

    /// A packet of a connection without a way passes the hooks: the way is found out for the next
    /// ones if there were enough of them.
    #[inline(never)]
    fn consider_way<const SIX: bool>(
        &mut self,
        memo: Memo,
        fast_path: &FastPath<'_>,
        parsed: &ParsedFrame<'_>,
        ct: &Ct,
    ) {
        let Memo::Seen(seen) = memo else { return };
        let memo = if seen + 1 < self.remember_after {
            Memo::Seen(seen + 1)
        } else {
            let mut packet = self.state.buffers.spare.pop().unwrap_or_default();
            let found = self.find_way::<SIX>(fast_path, parsed, ct, &mut packet);
            self.state.buffers.spare.push(packet);
            match found {
                Ok(way) => self.state.ways.memo(Ok(way)),
                Err(NoWay::Ever(why)) => self.state.ways.memo(Err(why)),
                Err(NoWay::Yet) => Memo::Seen(0),
            }
        };
        let word = self.state.ways.word(memo);
        self.state.conntrack.set_memo(ct, word);
    }

    /// Walks a packet of a connection through the lists that are between its connection lookup and
    /// the wire, without any effect, and finds out whether all packets of its direction pass alike.
    fn find_way<const SIX: bool>(
        &mut self,
        fast_path: &FastPath<'_>,
        parsed: &ParsedFrame<'_>,
        ct: &Ct,
        packet: &mut Packet,
    ) -> Result<Way, NoWay> {
        let &ParsedFrame { frame, headers, .. } = parsed;
        let (hooks, conntrack) = (self.hooks, &self.state.conntrack);
        let number = conntrack.resolve(ct).ok_or(NoWay::Yet)?;
        if !conntrack.is_plain(number) {
            return Err(Refusal("helper").into());
        }
        let (protocol, family, ethertype, offset) = if SIX {
            (Protocol::Ip6, Family::Ip6, ethernet::IPV6, ipv6::LEN)
        } else {
            (Protocol::Ip, Family::Ip, ethernet::IPV4, ipv4::LEN)
        };
        let transport =
            Transport { protocol: headers.protocol(), offset: offset as u16, fragment_offset: 0 };
        let len = ethernet::LEN + usize::from(headers.len);
        packet.receive_known(frame.bytes, len, ethertype, transport);
        packet.meta.time = frame.time;
        packet.meta.iif = fast_path.device;
        packet.meta.ct = *ct;
        let mut way = Way {
            iif: fast_path.device,
            info: ct.info,
            destination: false,
            source: false,
            numbered: false,
            oif: 0,
            mtu: 0,
            realm: 0,
            mark: 0,
            header: [0; ethernet::LEN],
            counters: Counters::default(),
        };
        let prerouting = hooks.list(protocol, Hook::Prerouting);
        self.walk(prerouting, Context { family, hook: Hook::Prerouting }, packet, &mut way)?;
        let header = self.route_way::<SIX>(packet, &mut way).ok_or(NoWay::Yet)?;
        for hook in [Hook::Forward, Hook::Postrouting] {
            packet.find_transport();
            self.walk(hooks.list(protocol, hook), Context { family, hook }, packet, &mut way)?;
        }
        packet.put_link(ethernet::LEN).copy_from_slice(&header);
        packet.data_at_link();
        packet.meta.iif = 0;
        packet.find_transport_checked();
        let context = Context { family: Family::Netdev, hook: Hook::Egress };
        self.walk(hooks.egress(way.oif), context, packet, &mut way)?;
        way.header = header;
        way.mark = packet.meta.mark;
        Ok(way)
    }

    /// The routing decision: as [`Worker::take_fast_path`] finds it for packets that pass the hooks.
    fn route_way<const SIX: bool>(
        &mut self,
        packet: &mut Packet,
        way: &mut Way,
    ) -> Option<[u8; ethernet::LEN]> {
        let iif = packet.meta.iif;
        let header;
        if SIX {
            let (src, dst) = addresses::of6(packet)?;
            let at = self.adjacency6(dst, self.net.route_number6(dst))?;
            let to = self.state.forwarding.v6.get(at)?;
            if to.oif == iif || !addresses::is_usual_source(src) {
                return None;
            }
            (way.oif, way.mtu, way.realm, header) = (to.oif, to.mtu, to.realm, *to.header()?);
        } else {
            let (src, dst) = addresses::of4(packet)?;
            let at = self.adjacency4(iif, dst, self.net.route_number4(dst))?;
            let to = self.state.forwarding.v4.get(at)?;
            if !self.ip4_usual_source(iif, src) {
                return None;
            }
            (way.oif, way.mtu, way.realm, header) = (to.oif, to.mtu, to.realm, *to.header()?);
        }
        if self.state.taps.has(way.oif) {
            return None;
        }
        packet.meta.oif = way.oif;
        packet.meta.realm = way.realm;
        packet.meta.route = Some(way.oif);
        Some(header)
    }

    /// Walks a packet through a list.
    fn walk(
        &mut self,
        list: &HookList,
        context: Context,
        packet: &mut Packet,
        way: &mut Way,
    ) -> Result<(), NoWay> {
        way.numbered |= list.has_chains;
        for stage in &list.stages {
            match stage {
                Stage::Chain(entry) => self.walk_chain(entry, context, packet, way)?,
                Stage::Nat => self.walk_nat(context.hook, packet, way)?,
                // It is whole, and has its connection, which is in the table and plain.
                Stage::Defrag | Stage::Conntrack | Stage::Confirm => {}
                Stage::Flowtable(_) => return Err(Refusal("flowtable").into()),
                Stage::Synproxy => return Err(Refusal("synproxy").into()),
                Stage::Program(_) => return Err(Refusal("bpf program").into()),
                Stage::BridgeConntrack
                | Stage::BridgeInput
                | Stage::BridgeConfirm
                | Stage::BridgeIp(_) => return Err(Refusal("bridge").into()),
            }
        }
        Ok(())
    }

    fn walk_chain(
        &mut self,
        entry: &Entry,
        context: Context,
        packet: &mut Packet,
        way: &mut Way,
    ) -> Result<(), NoWay> {
        let Some(context) = entry.context(context, packet.meta.protocol) else { return Ok(()) };
        let (image, more) = (self.image, packet.len() - packet.network().len());
        let site = ChainCall { entry, context, destination: None };
        let mut env = HookEnv::new(self, &site, packet);
        let counters = &mut way.counters;
        let mut counted = |counter: &_| counters.add(counter, more).map_err(|why| Unlike(why.0));
        Ok(accepts_alike(image, entry.chain, packet, &mut env, &mut counted)?)
    }

    /// The NAT stage ([`Worker::nat`]), which has decided for this connection before.
    fn walk_nat(&mut self, hook: Hook, packet: &mut Packet, way: &mut Way) -> Result<(), NoWay> {
        let ct = packet.meta.ct;
        let connection = self.state.conntrack.connection(&ct).ok_or(NoWay::Yet)?;
        let (manip, direction) = (manip_of(hook), direction_of(&ct));
        let decided = matches!(ct.info, CtInfo::Established | CtInfo::EstablishedReply);
        if !decided && !bind::is_bound(connection.status(), manip) {
            return Err(Refusal("translation is not decided").into());
        }
        let masquerade = connection.masquerade();
        let leaves = hook == Hook::Postrouting && direction == Direction::Original;
        if leaves && masquerade != 0 && masquerade != packet.meta.oif {
            return Err(Refusal("another device").into());
        }
        if connection.status() & manip.due(direction) == 0 {
            return Ok(());
        }
        if !bind::follow(&self.state.conntrack, &ct, packet, manip) {
            return Err(Refusal("headers").into());
        }
        match manip {
            Manip::Source => way.source = true,
            Manip::Destination => way.destination = true,
        }
        Ok(())
    }
}
