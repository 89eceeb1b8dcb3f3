// SPDX-License-Identifier: Apache-2.0

//! Making whole packets of fragments: before connection tracking (`nf_defrag_ipv4.c`,
//! `nf_conntrack_reasm.c`) and for the host (`ip_fragment.c`, `net/ipv6/reassembly.c`).

use penstock_net::RouteType;
use penstock_packet::{CtInfo, Packet};
use penstock_program::{Context, Family, Hook};
use penstock_wire::{icmp, icmpv6, ipv4, ipv6, ipv6_ext, protocol};

use crate::addresses;
use crate::hook_result::HookResult;
use crate::reason::DropReason;
use crate::reassembly::{Bounds, Fragments, Key, Key4, Key6, Part, Took, User, Waiting};
use crate::route::Routed;
use crate::sink::Sink;
use crate::stages::icmp4::Options;
use crate::state::State;
use crate::worker::Worker;

/// What a fragment header says, and where it is.
struct Fragment6 {
    /// Offset of the fragment header.
    at: usize,
    offset: usize,
    more: bool,
    id: u32,
    next: u8,
}

impl Fragment6 {
    fn read(network: &[u8], at: usize) -> Option<Self> {
        let f = ipv6_ext::Fragment::new(network.get(at..)?)?;
        let offset = usize::from(f.fragment_offset()) * 8;
        Some(Fragment6 { at, offset, more: f.more(), id: f.id(), next: f.next_header() })
    }

    /// Where the fragment's data begins.
    fn end(&self) -> usize {
        self.at + ipv6_ext::FRAGMENT_LEN
    }
}

impl<S: Sink> Worker<'_, S> {
    /// The stage at -400 (`ipv4_conntrack_defrag()`, `ipv6_defrag()`): a fragment waits for its
    /// others, the last of them continues as the whole packet.
    pub(crate) fn defragment(&mut self, context: Context, packet: &mut Packet) -> HookResult {
        if packet.meta.ct.info == CtInfo::Untracked {
            return HookResult::Accept;
        }
        let zone = self.fragment_zone(packet);
        let user = match context.hook {
            _ if packet.meta.bridged.passed => User::Bridge(zone),
            Hook::Output => User::Out(zone),
            _ => User::In(zone),
        };
        if context.family == Family::Ip {
            let fragment = ipv4::Header::new(packet.network()).is_some_and(|h| h.is_fragment());
            if !fragment {
                return HookResult::Accept;
            }
            if !self.ip4_reassemble(packet, user) {
                return HookResult::Stolen;
            }
        } else {
            // What came around over the loopback device is left as it is; IPv4 does not ask.
            if packet.meta.ct.has_entry() {
                return HookResult::Accept;
            }
            match self.ip6_gather(packet, user) {
                Gathered::Whole => {}
                Gathered::NotOurs => return HookResult::Accept,
                Gathered::Gone => return HookResult::Stolen,
            }
        }
        packet.find_transport();
        HookResult::Accept
    }

    /// The zone that rules have put a fragment into already: fragments of different zones are of
    /// different packets (`nf_ct_defrag_user()`).
    pub(crate) fn fragment_zone(&self, packet: &Packet) -> u16 {
        match packet.meta.ct.template {
            0 => 0,
            template => self.state.conntrack.template_of(template).original_zone,
        }
    }

    /// Takes an IPv4 fragment. `true` if `packet` is now the whole packet.
    pub(crate) fn ip4_reassemble(&mut self, packet: &mut Packet, user: User) -> bool {
        let network = packet.network();
        let Some(h) = ipv4::Header::new(network) else { return false };
        let part = Part {
            offset: usize::from(h.fragment_offset()) * 8,
            data: h.payload(),
            more: h.mf(),
            size: network.len(),
            df: h.df(),
            ecn: h.tos() & 3,
        };
        let key = Key4 {
            saddr: h.src().into(),
            daddr: h.dst().into(),
            id: h.id(),
            protocol: h.protocol(),
            user,
        };
        let settings = self.settings;
        let bounds = Bounds {
            time: settings.fragment_time,
            memory: settings.fragment_memory,
            distance: settings.fragment_distance,
        };
        let spare = &mut self.state.buffers.spare;
        let took = self
            .state
            .fragments
            .v4
            .take(key, &part, packet, bounds, || spare.pop().unwrap_or_default());
        self.host_reassembled(
            took,
            packet,
            &key,
            |state| &mut state.fragments.v4,
            |worker, packet, whole| worker.ip4_whole(packet, whole, user),
        )
    }

    /// `ip_frag_reasm()`.
    fn ip4_whole(&mut self, packet: &mut Packet, whole: &mut Waiting, user: User) -> bool {
        let (Some(ecn), Some(first)) = (whole.ecn(), whole.first()) else { return false };
        let header_len = ipv4::Header::new(first.network()).map_or(0, |h| h.header_len());
        let len = header_len + whole.len();
        if header_len < ipv4::LEN || len > 65535 {
            return false;
        }
        let df = whole.max_df_size == whole.max_size;
        let max_size = whole.max_size;
        let made = self.rebuild(packet, whole, |first, out| {
            out.extend_from_slice(first.get(..header_len)?);
            Some(())
        });
        if !made {
            return false;
        }
        if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
            let tos = h.read().tos() | ecn;
            h.set_tos(tos);
            h.set_frag(if df { ipv4::DF } else { 0 });
            h.set_total_len(len as u16);
            h.fill_checksum();
        }
        if user != User::Host {
            self.note_parts(packet, whole, max_size, df);
        }
        true
    }

    /// `nf_ct_frag6_gather()`.
    pub(crate) fn ip6_gather(&mut self, packet: &mut Packet, user: User) -> Gathered {
        let network = packet.network();
        let Some(h) = ipv6::Header::new(network) else { return Gathered::NotOurs };
        // A jumbogram has no fragments.
        if h.payload_len() == 0 {
            return Gathered::NotOurs;
        }
        let Some(at) = fragment_header(network) else { return Gathered::NotOurs };
        let Some(f) = Fragment6::read(network, at) else {
            self.drop(DropReason::Ip6Extension, packet);
            return Gathered::Gone;
        };
        if f.offset == 0 && !upper_header_there(network, f.end(), f.next) {
            return Gathered::NotOurs;
        }
        let key = Key6 {
            saddr: h.src().into(),
            daddr: h.dst().into(),
            id: f.id,
            device: packet.meta.iif,
            user,
        };
        let payload = usize::from(h.payload_len());
        let data = network.get(f.end()..ipv6::LEN + payload).unwrap_or(&[]);
        if f.offset + data.len() > 65535 {
            self.drop(DropReason::Fragment, packet);
            return Gathered::Gone;
        }
        if f.more && !data.len().is_multiple_of(8) {
            self.state.fragments.conntrack6.give_up(&key);
            return Gathered::NotOurs;
        }
        let ecn = h.traffic_class() & 3;
        let part = Part {
            offset: f.offset,
            data,
            more: f.more,
            size: ipv6::LEN + payload,
            df: false,
            ecn,
        };
        let settings = self.settings;
        let bounds = Bounds {
            time: settings.conntrack_fragment6_time,
            memory: settings.conntrack_fragment6_memory,
            distance: 0,
        };
        let spare = &mut self.state.buffers.spare;
        let took = self
            .state
            .fragments
            .conntrack6
            .take(key, &part, packet, bounds, || spare.pop().unwrap_or_default());
        let mut whole = match took {
            Took::Waits => {
                self.state.counters.taken += 1;
                return Gathered::Gone;
            }
            // What is there already counts as taken, too (nf_ct_frag6_queue()).
            Took::Duplicate => {
                self.state.counters.taken += 1;
                self.state.counters.absorbed += 1;
                return Gathered::Gone;
            }
            Took::Complete(whole) => whole,
            Took::Impossible | Took::Overlap => {
                self.drop(DropReason::Fragment, packet);
                return Gathered::Gone;
            }
            Took::Full => {
                self.drop(DropReason::ReassemblyFull, packet);
                return Gathered::Gone;
            }
        };
        let max_size = whole.max_size;
        let made = self.ip6_whole(packet, &mut whole);
        if made {
            self.note_parts(packet, &mut whole, max_size, false);
        } else {
            self.drop(DropReason::Fragment, packet);
        }
        if let Some(first) = whole.take_first() {
            self.state.buffers.spare.push(first);
        }
        self.state.fragments.conntrack6.recycle(whole);
        if made { Gathered::Whole } else { Gathered::Gone }
    }

    /// For the host: takes an IPv6 fragment with its fragment header at `at`. `true` if `packet` is
    /// now the whole packet.
    pub(crate) fn ip6_reassemble(&mut self, packet: &mut Packet, at: usize) -> bool {
        let network = packet.network();
        let (Some(h), Some(f)) = (ipv6::Header::new(network), Fragment6::read(network, at)) else {
            self.drop(DropReason::Ip6Extension, packet);
            return false;
        };
        if f.offset == 0 && !f.more {
            // Not cut at all (an atomic fragment): the header goes.
            return self.without_fragment_header(packet, at, f.next);
        }
        let problem = icmpv6::PARAMETER_PROBLEM;
        if f.offset == 0 && !upper_header_there(network, f.end(), f.next) {
            const INCOMPLETE_CHAIN: u8 = 3;
            self.icmp6_error(packet, problem, INCOMPLETE_CHAIN, 0);
            self.drop(DropReason::Fragment, packet);
            return false;
        }
        let data = network.get(f.end()..).unwrap_or(&[]);
        let field = icmpv6::parameter_problem::HEADER_FIELD;
        if f.offset + data.len() > 65535 {
            self.icmp6_error(packet, problem, field, (at + 2) as u32);
            self.drop(DropReason::Fragment, packet);
            return false;
        }
        if f.more && !data.len().is_multiple_of(8) {
            self.icmp6_error(packet, problem, field, 4);
            self.drop(DropReason::Fragment, packet);
            return false;
        }
        let (saddr, daddr) = (u128::from(h.src()), u128::from(h.dst()));
        let link = addresses::needs_device(saddr) || addresses::needs_device(daddr);
        let device = if link { packet.meta.iif } else { 0 };
        let key = Key6 { saddr, daddr, id: f.id, device, user: User::Host };
        let ecn = h.traffic_class() & 3;
        let part =
            Part { offset: f.offset, data, more: f.more, size: network.len(), df: false, ecn };
        let (time, memory) = (self.settings.fragment6_time, self.settings.fragment6_memory);
        let bounds = Bounds { time, memory, distance: 0 };
        let spare = &mut self.state.buffers.spare;
        let took = self
            .state
            .fragments
            .v6
            .take(key, &part, packet, bounds, || spare.pop().unwrap_or_default());
        self.host_reassembled(took, packet, &key, |state| &mut state.fragments.v6, Self::ip6_whole)
    }

    /// What became of a fragment for the host. With the last one of a packet, that is made in its
    /// place by `make`; everything else ends here or waits. Whether there is a packet that goes on.
    fn host_reassembled<K: Key>(
        &mut self,
        took: Took,
        packet: &mut Packet,
        key: &K,
        fragments: impl Fn(&mut State) -> &mut Fragments<K>,
        make: impl FnOnce(&mut Self, &mut Packet, &mut Waiting) -> bool,
    ) -> bool {
        let mut whole = match took {
            Took::Waits => {
                self.state.counters.taken += 1;
                return false;
            }
            Took::Complete(whole) => whole,
            Took::Impossible => {
                fragments(self.state).give_up(key);
                self.drop(DropReason::Fragment, packet);
                return false;
            }
            Took::Duplicate | Took::Overlap => {
                self.drop(DropReason::Fragment, packet);
                return false;
            }
            Took::Full => {
                self.drop(DropReason::ReassemblyFull, packet);
                return false;
            }
        };
        let made = make(self, packet, &mut whole);
        if let Some(first) = whole.take_first() {
            self.state.buffers.spare.push(first);
        }
        fragments(self.state).recycle(whole);
        if !made {
            self.drop(DropReason::Fragment, packet);
        }
        made
    }

    /// `nf_ct_frag6_reasm()`, `ip6_frag_reasm()`: the first fragment's headers without the fragment
    /// header, and all parts.
    fn ip6_whole(&mut self, packet: &mut Packet, whole: &mut Waiting) -> bool {
        let (Some(ecn), Some(first)) = (whole.ecn(), whole.first()) else { return false };
        let Some(at) = fragment_header(first.network()) else { return false };
        let payload = at - ipv6::LEN + whole.len();
        if payload > 65535 {
            return false;
        }
        self.rebuild(packet, whole, |first, out| {
            let start = out.len();
            out.extend_from_slice(first.get(..at)?);
            let head = out.get_mut(start..)?;
            *head.get_mut(next_field_before(first, at)?)? = *first.get(at)?;
            let class = ipv6::Header::new(head)?.traffic_class() | ecn;
            let mut h = ipv6::HeaderMut::new(head)?;
            h.set_payload_len(payload as u16);
            h.set_traffic_class(class);
            Some(())
        })
    }

    /// Makes `packet` of the first fragment's link header, what `head` makes of its network header,
    /// and all parts. Its metadata is the first fragment's, device of arrival and time
    /// are the last one's.
    fn rebuild(
        &mut self,
        packet: &mut Packet,
        whole: &mut Waiting,
        head: impl FnOnce(&[u8], &mut Vec<u8>) -> Option<()>,
    ) -> bool {
        let mut bytes = self.bytes();
        let Some(first) = whole.first() else { return false };
        let mut meta = first.meta.clone();
        bytes.extend_from_slice(first.link());
        let link_len = bytes.len();
        let made = head(first.network(), &mut bytes).is_some();
        if made {
            whole.parts().for_each(|p| bytes.extend_from_slice(p));
            (meta.iif, meta.time) = (packet.meta.iif, packet.meta.time);
            packet.load(&bytes, link_len);
            packet.meta = meta;
        }
        self.give_back(bytes);
        made
    }

    /// Notes how a packet was cut, for cutting it again on its way out.
    fn note_parts(&mut self, packet: &mut Packet, whole: &mut Waiting, max_size: usize, df: bool) {
        let table = &mut self.state.fragments.reassembled;
        packet.meta.reassembled =
            table.add(max_size, df, packet.network().len(), whole.parts().map(<[u8]>::len));
    }

    /// Takes the fragment header at `at` out and makes the lengths right.
    fn without_fragment_header(&mut self, packet: &mut Packet, at: usize, next: u8) -> bool {
        let Some(field) = next_field_before(packet.network(), at) else {
            self.drop(DropReason::Ip6Extension, packet);
            return false;
        };
        let mut bytes = self.bytes();
        bytes.extend_from_slice(packet.link());
        let link_len = bytes.len();
        bytes.extend_from_slice(packet.network());
        let start = link_len + at;
        bytes.drain(start..(start + ipv6_ext::FRAGMENT_LEN).min(bytes.len()));
        if let Some(byte) = bytes.get_mut(link_len + field) {
            *byte = next;
        }
        let len = (bytes.len() - link_len).saturating_sub(ipv6::LEN);
        if let Some(mut h) = ipv6::HeaderMut::new(&mut bytes[link_len..]) {
            h.set_payload_len(len as u16);
        }
        let meta = packet.meta.clone();
        packet.load(&bytes, link_len);
        packet.meta = meta;
        self.give_back(bytes);
        true
    }

    /// Ends what waited too long, and tells the senders.
    #[inline]
    pub(crate) fn expire_fragments(&mut self, now: u64) {
        if self.has_fragments() {
            self.expire_fragments_slowly(now);
        }
    }

    /// Whether fragments wait.
    #[inline]
    pub(crate) fn has_fragments(&self) -> bool {
        let state = &self.state;
        !(state.fragments.v4.is_empty()
            && state.fragments.v6.is_empty()
            && state.fragments.conntrack6.is_empty())
    }

    fn expire_fragments_slowly(&mut self, now: u64) {
        while let Some((key, mut gone)) = self.state.fragments.v4.expired(now) {
            self.ip4_expired(&mut gone, key.user, now);
            self.state.fragments.v4.recycle(gone);
        }
        while let Some((_, mut gone)) = self.state.fragments.v6.expired(now) {
            self.ip6_expired(&mut gone, now);
            self.state.fragments.v6.recycle(gone);
        }
        while let Some((_, mut gone)) = self.state.fragments.conntrack6.expired(now) {
            self.ip6_expired(&mut gone, now);
            self.state.fragments.conntrack6.recycle(gone);
        }
    }

    /// `ip_expire()`: the packet is routed again; for packets of connection tracking, the sender
    /// gets an ICMP error only if they are for this host.
    fn ip4_expired(&mut self, gone: &mut Waiting, user: User, now: u64) {
        let device = gone.device;
        let Some(mut first) = gone.take_first() else {
            let packets = u64::from(!gone.has_no_part());
            return self.state.counters.count_several(DropReason::ReassemblyTimeout, packets);
        };
        first.meta.time = now;
        first.meta.iif = device;
        if device != 0
            && let Routed::To(to) = self.ip4_route_input(&first)
            && (to.kind == RouteType::Local || !matches!(user, User::In(_)))
        {
            let code = icmp::time_exceeded::REASSEMBLY;
            self.icmp4_error(
                &first,
                Some(&to),
                icmp::Repr { kind: icmp::TIME_EXCEEDED, code, rest_of_header: 0 },
                Options::Read,
            );
        }
        self.drop(DropReason::ReassemblyTimeout, &first);
        self.state.buffers.spare.push(first);
    }

    /// `ip6frag_expire_frag_queue()`.
    fn ip6_expired(&mut self, gone: &mut Waiting, now: u64) {
        let device = gone.device;
        let Some(mut first) = gone.take_first() else {
            let packets = u64::from(!gone.has_no_part());
            return self.state.counters.count_several(DropReason::ReassemblyTimeout, packets);
        };
        first.meta.time = now;
        first.meta.iif = device;
        if device != 0 {
            self.icmp6_error(&first, icmpv6::TIME_EXCEEDED, icmpv6::time_exceeded::REASSEMBLY, 0);
        }
        self.drop(DropReason::ReassemblyTimeout, &first);
        self.state.buffers.spare.push(first);
    }
}

/// What [`Worker::ip6_gather`] made of a packet.
pub(crate) enum Gathered {
    /// It is the whole packet now.
    Whole,
    /// It is no fragment that could be put together.
    NotOurs,
    /// It waits, or was dropped.
    Gone,
}

/// Offset of the fragment header of a packet.
fn fragment_header(network: &[u8]) -> Option<usize> {
    let found =
        ipv6_ext::find(network, Some(protocol::FRAGMENT), ipv6_ext::Walk::default()).ok()?;
    (found.protocol == protocol::FRAGMENT).then_some(found.offset)
}

/// Offset of the byte that names the header at `at`.
fn next_field_before(network: &[u8], at: usize) -> Option<usize> {
    let mut field = 6;
    let mut position = ipv6::LEN;
    while position < at {
        let header = network.get(position..)?;
        let len = match network.get(field)? {
            &protocol::AH => (usize::from(*header.get(1)?) + 2) * 4,
            _ => ipv6_ext::OptionsHeader::new(header)?.header_len(),
        };
        field = position;
        position += len;
    }
    (position == at).then_some(field)
}

/// Whether a first fragment holds all headers up to that of the transport
/// (`ipv6frag_thdr_truncated()`); where an extension header is cut off, that is taken to be so.
fn upper_header_there(network: &[u8], at: usize, next: u8) -> bool {
    let Some(found) = ipv6_ext::skip(network, at, next) else { return true };
    let need = match found.protocol {
        protocol::TCP => 20,
        protocol::UDP => 8,
        protocol::ICMPV6 => 8,
        _ => 1,
    };
    found.offset + need <= network.len()
}
