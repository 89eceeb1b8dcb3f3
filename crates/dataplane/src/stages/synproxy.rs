// SPDX-License-Identifier: Apache-2.0

//! Answering TCP handshakes for servers (`net/netfilter/nf_synproxy_core.c`, `nft_synproxy.c`).
//!
//! A SYN is answered with a cookie for a sequence number, and nothing is kept. The client's ACK
//! proves that it is real: then the proxy opens the connection to the server in the client's name.
//! The stage in front of the end of the path answers the server, and from then on sequence numbers
//! ([`Conntrack::init_sequence`](penstock_conntrack::Conntrack::init_sequence)) and timestamps are
//! shifted between what the client was told and what the server says.

use std::net::IpAddr;

use penstock_conntrack::{Direction, Ref};
use penstock_packet::{Ct, CtInfo, Packet};
use penstock_program::env::Decision;
use penstock_program::expr::Synproxy;
use penstock_program::{Context, Hook};
use penstock_wire::{checksum, ethernet, ipv4, ipv6, protocol, tcp};

use crate::connections::answer_ct;
use crate::hook_result::HookResult;
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::settings::SECOND;
use crate::sink::Sink;
use crate::stages::icmp6::TxMeta;
use crate::synproxy::{Ends, Proxied};
use crate::worker::Worker;

/// `NF_SYNPROXY_OPT_*`.
const MSS: u32 = 1;

const WSCALE: u32 = 2;

const SACK_PERM: u32 = 4;

const TIMESTAMP: u32 = 8;

const ECN: u32 = 16;

/// `TCP_MAX_WSCALE`.
const WSCALE_MAX: u8 = 14;

const SYN: u8 = 0x02;

const RST: u8 = 0x04;

const ACK: u8 = 0x10;

const ECE: u8 = 0x40;

const CWR: u8 = 0x80;

/// TCP options as the proxy reads and writes them (`struct synproxy_options`).
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    flags: u32,
    wscale: u8,
    mss: u16,
    tsval: u32,
    tsecr: u32,
}

impl Options {
    /// `None` if they are malformed (`synproxy_parse_options()`).
    fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut options = Options::default();
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                0 => break,
                1 => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let Some(&len) = rest.first() else { break };
            let (len, data) = (usize::from(len), rest.get(1..));
            if len < 2 || len > bytes.len() {
                break;
            }
            let data = data.and_then(|d| d.get(..len - 2))?;
            match (kind, data) {
                (2, &[high, low]) => {
                    options.mss = u16::from_be_bytes([high, low]);
                    options.flags |= MSS;
                }
                (3, &[shift]) => {
                    options.wscale = shift.min(WSCALE_MAX);
                    options.flags |= WSCALE;
                }
                (4, []) => options.flags |= SACK_PERM,
                (8, &[a, b, c, d, e, f, g, h]) => {
                    options.tsval = u32::from_be_bytes([a, b, c, d]);
                    options.tsecr = u32::from_be_bytes([e, f, g, h]);
                    options.flags |= TIMESTAMP;
                }
                _ => {}
            }
            bytes = bytes.get(len..)?;
        }
        Some(options)
    }

    /// `synproxy_build_options()`.
    fn write(&self, out: &mut Vec<u8>) {
        if self.flags & MSS != 0 {
            out.extend([2, 4]);
            out.extend(self.mss.to_be_bytes());
        }
        let sack = self.flags & SACK_PERM != 0;
        if self.flags & TIMESTAMP != 0 {
            out.extend(if sack { [4, 2, 8, 10] } else { [1, 1, 8, 10] });
            out.extend(self.tsval.to_be_bytes());
            out.extend(self.tsecr.to_be_bytes());
        } else if sack {
            out.extend([1, 1, 4, 2]);
        }
        if self.flags & WSCALE != 0 {
            out.extend([1, 3, 3, self.wscale]);
        }
    }
}

/// A segment without data.
struct Segment {
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: Options,
}

/// What is read of a TCP segment.
#[derive(Clone, Copy)]
struct ReceivedSegment {
    ends: Ends,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: Options,
}

impl ReceivedSegment {
    fn read(packet: &Packet) -> Option<Self> {
        let bytes = packet.transport_bytes()?;
        let header = tcp::Header::new(bytes)?;
        let network = packet.network();
        let (from, to) = if packet.meta.protocol == ethernet::IPV4 {
            let h = ipv4::Header::new(network)?;
            (IpAddr::V4(h.src()), IpAddr::V4(h.dst()))
        } else {
            let h = ipv6::Header::new(network)?;
            (IpAddr::V6(h.src()), IpAddr::V6(h.dst()))
        };
        Some(ReceivedSegment {
            ends: Ends { from: (from, header.sport()), to: (to, header.dport()) },
            seq: header.seq(),
            ack: header.ack_seq(),
            flags: header.flags(),
            window: header.window(),
            options: Options::parse(header.options())?,
        })
    }
}

impl<S: Sink> Worker<'_, S> {
    /// A rule gives a segment to the proxy.
    pub(crate) fn synproxy(&mut self, packet: &Packet, offer: &Synproxy) -> Decision {
        if !checksum_ok(packet) {
            return Decision::Drop;
        }
        let Some(seen) = ReceivedSegment::read(packet) else { return Decision::Drop };
        if seen.flags & SYN != 0 {
            self.answer_syn(packet, &seen, offer);
            return Decision::Stolen;
        }
        if seen.flags & ACK != 0 {
            let mut options = seen.options;
            options.flags &= offer.flags | ECN;
            return match self.open(packet, &ReceivedSegment { options, ..seen }, seen.seq) {
                true => Decision::Stolen,
                false => Decision::Drop,
            };
        }
        Decision::Continue
    }

    /// `nft_synproxy_tcp_options()`, `synproxy_send_client_synack()`.
    fn answer_syn(&mut self, packet: &Packet, seen: &ReceivedSegment, offer: &Synproxy) {
        let mut options = seen.options;
        if seen.flags & (ECE | CWR) == ECE | CWR {
            options.flags |= ECN;
        }
        options.flags &= offer.flags;
        options.mss = offer.mss;
        if options.flags & TIMESTAMP != 0 {
            // The cookie has no room for these: they travel in the timestamp.
            let clock = (packet.meta.time / (SECOND / 1000)) as u32;
            let bit = |flag, bit: u32| if options.flags & flag != 0 { 1 << bit } else { 0 };
            let wscale = if options.flags & WSCALE != 0 { u32::from(options.wscale) } else { 0xf };
            options.tsecr = options.tsval;
            options.tsval = clock & !0x3f | wscale | bit(SACK_PERM, 4) | bit(ECN, 5);
            options.wscale = offer.wscale;
        } else {
            options.flags &= !(WSCALE | SACK_PERM | ECN);
        }
        let cookie = self.state.tracking.proxies.cookie(
            &seen.ends,
            seen.seq,
            seen.options.mss,
            packet.meta.time,
        );
        let ecn = if options.flags & ECN != 0 { ECE } else { 0 };
        let answer = Segment {
            seq: cookie,
            ack: seen.seq.wrapping_add(1),
            flags: SYN | ACK | ecn,
            window: 0,
            options,
        };
        self.send_segment(packet, seen.ends.reversed(), &answer, answer_ct(packet));
    }

    /// The client's ACK: if its cookie is valid the connection to the server is opened
    /// (`synproxy_recv_client_ack()`, `synproxy_send_server_syn()`).
    fn open(&mut self, packet: &Packet, seen: &ReceivedSegment, seq: u32) -> bool {
        let isn = seen.ack.wrapping_sub(1);
        let time = packet.meta.time;
        let Some(mss) =
            self.state.tracking.proxies.check(&seen.ends, seen.seq.wrapping_sub(1), isn, time)
        else {
            return false;
        };
        let mut options = Options { mss, ..seen.options };
        options.flags |= MSS;
        if options.flags & TIMESTAMP != 0 {
            // `synproxy_check_timestamp_cookie()`.
            options.wscale = (options.tsecr & 0xf) as u8;
            let has = |bit: u32| options.tsecr & 1 << bit != 0;
            let flags = [(options.wscale != 0xf, WSCALE), (has(4), SACK_PERM), (has(5), ECN)];
            options.flags |=
                flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum::<u32>();
        }
        let ecn = if options.flags & ECN != 0 { ECE | CWR } else { 0 };
        // The acknowledgement number tells the stage what the client was told.
        let seq = seq.wrapping_sub(1);
        let syn = Segment { seq, ack: isn, flags: SYN | ecn, window: seen.window, options };
        self.state.tracking.proxies.opening = true;
        self.send_segment(packet, seen.ends, &syn, Ct::default());
        self.state.tracking.proxies.opening = false;
        true
    }

    /// The stage in front of the end of the path (`ipv4_synproxy_hook()`, `ipv6_synproxy_hook()`).
    pub(crate) fn synproxy_stage(&mut self, context: Context, packet: &mut Packet) -> HookResult {
        let ct = packet.meta.ct;
        let Some(connection) = self.state.conntrack.connection(&ct) else {
            return HookResult::Accept;
        };
        let (n, key, state) = (connection.number(), connection.reference(), connection.state());
        if !self.state.conntrack.is_synproxied(n) {
            if !self.state.tracking.proxies.opening
                || ct.info != CtInfo::New
                || context.hook != Hook::Postrouting
            {
                return HookResult::Accept;
            }
            self.state.tracking.proxies.opening = false;
            self.state.conntrack.set_synproxied(n);
            self.keep(key);
        }
        let tcp = packet.transport().is_some_and(|t| t.protocol == protocol::TCP);
        let Some(seen) = ReceivedSegment::read(packet).filter(|_| tcp) else {
            return HookResult::Accept;
        };
        let direction = if ct.info.is_reply() { Direction::Reply } else { Direction::Original };
        let mut proxied =
            self.state.tracking.proxies.connections.get(&key).copied().unwrap_or_default();
        match state {
            Some("CLOSE") if seen.flags & RST != 0 && direction == Direction::Reply => {
                let shift = proxied.isn.wrapping_sub(seen.seq).wrapping_add(1);
                self.state.conntrack.init_sequence(n, direction, shift as i32);
            }
            Some("CLOSE") if seen.flags & (SYN | ACK) != SYN || direction == Direction::Reply => {}
            Some("CLOSE" | "SYN_SENT") => {
                if state == Some("CLOSE") {
                    // It begins again.
                    self.state.conntrack.init_sequence(n, direction, 0);
                    proxied.tsoff = 0;
                }
                if seen.flags & (SYN | ACK) == ACK && direction == Direction::Original {
                    // The client asks again: a keep-alive is one below what is expected.
                    return match self.open(packet, &seen, seen.seq.wrapping_add(1)) {
                        true => self.taken(),
                        false => {
                            self.drop(DropReason::Synproxy, packet);
                            HookResult::Dropped
                        }
                    };
                }
                proxied.isn = seen.ack;
                proxied.window = seen.window.max(1);
                if seen.options.flags & TIMESTAMP != 0 {
                    proxied.its = seen.options.tsecr;
                }
                self.state.tracking.proxies.connections.insert(key, proxied);
            }
            Some("SYN_RECV") if seen.flags & (SYN | ACK) == SYN | ACK => {
                self.opened(packet, &seen, n, &mut proxied);
                self.state.tracking.proxies.connections.insert(key, proxied);
                return self.taken();
            }
            _ => {}
        }
        shift_timestamps(packet, direction, proxied.tsoff);
        HookResult::Accept
    }

    fn taken(&mut self) -> HookResult {
        self.state.counters.taken += 1;
        self.state.counters.absorbed += 1;
        HookResult::Stolen
    }

    /// The server has answered: so it is in turn, and the client may send.
    fn opened(&mut self, packet: &Packet, seen: &ReceivedSegment, n: u32, proxied: &mut Proxied) {
        let mut options = seen.options;
        if options.flags & TIMESTAMP != 0 {
            proxied.tsoff = options.tsval.wrapping_sub(proxied.its);
        }
        let wscale = if options.flags & WSCALE != 0 { options.wscale } else { 0 };
        options.flags &= !(MSS | WSCALE | SACK_PERM);
        let swapped = Options { tsval: options.tsecr, tsecr: options.tsval, ..options };
        let to_server = Segment {
            seq: seen.ack,
            ack: seen.seq.wrapping_add(1),
            flags: ACK,
            window: proxied.window,
            options: swapped,
        };
        self.send_segment(packet, seen.ends.reversed(), &to_server, Ct::default());
        // The client goes on with the time that the proxy began with.
        options.tsval = options.tsval.wrapping_sub(proxied.tsoff);
        let shift = proxied.isn.wrapping_sub(seen.seq);
        self.state.conntrack.init_sequence(n, Direction::Reply, shift as i32);
        let to_client = Segment {
            seq: seen.seq.wrapping_add(1),
            ack: seen.ack,
            flags: ACK,
            window: seen.window >> wscale,
            options,
        };
        let ct = Ct { info: CtInfo::EstablishedReply, ..packet.meta.ct };
        self.send_segment(packet, seen.ends, &to_client, ct);
    }

    fn keep(&mut self, key: Ref) {
        let proxies = &mut self.state.tracking.proxies;
        if proxies.connections.len() >= proxies.tidy_at {
            let conntrack = &self.state.conntrack;
            proxies.connections.retain(|key, _| conntrack.connection_ref(*key).is_some());
            proxies.tidy_at = (proxies.connections.len() * 2).max(1024);
        }
        proxies.connections.insert(key, Proxied::default());
    }

    /// Sends a segment on behalf of an endpoint (`synproxy_send_tcp()`).
    fn send_segment(&mut self, packet: &Packet, ends: Ends, segment: &Segment, ct: Ct) {
        let mut header = Vec::with_capacity(60);
        segment.options.write(&mut header);
        let len = tcp::LEN + header.len();
        let mut tcp_bytes = Vec::with_capacity(len);
        tcp_bytes.extend(ends.from.1.to_be_bytes());
        tcp_bytes.extend(ends.to.1.to_be_bytes());
        tcp_bytes.extend(segment.seq.to_be_bytes());
        tcp_bytes.extend(segment.ack.to_be_bytes());
        tcp_bytes.extend([(len as u8 / 4) << 4, segment.flags]);
        tcp_bytes.extend(segment.window.to_be_bytes());
        tcp_bytes.extend([0; 4]);
        tcp_bytes.extend(header);
        let time = packet.meta.time;
        let ttl = self.settings.ttl;
        match (ends.from.0, ends.to.0) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let sum = checksum::pseudo_v4(from, to, protocol::TCP, len as u32)
                    .bytes(&tcp_bytes)
                    .finish();
                fill(&mut tcp_bytes, sum);
                let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, ttl, protocol::TCP, 0, 0];
                bytes.extend(from.octets());
                bytes.extend(to.octets());
                bytes.extend(tcp_bytes);
                let total = bytes.len() as u16;
                if let Some(mut h) = ipv4::HeaderMut::new(&mut bytes) {
                    h.set_total_len(total);
                    h.fill_checksum();
                }
                let Some((way, _)) = self.ip4_route_output(to.into(), from.into(), 0, 0, true)
                else {
                    return;
                };
                self.send_made(Protocol::Ip, &bytes, TxMeta { time, mark: 0, ct }, way);
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let sum = checksum::pseudo_v6(from, to, protocol::TCP, len as u32)
                    .bytes(&tcp_bytes)
                    .finish();
                fill(&mut tcp_bytes, sum);
                let mut bytes = vec![0x60, 0, 0, 0];
                bytes.extend((len as u16).to_be_bytes());
                bytes.extend([protocol::TCP, self.hop_limit6_of_all()]);
                bytes.extend(from.octets());
                bytes.extend(to.octets());
                bytes.extend(tcp_bytes);
                let Some(way) = self.ip6_route_output(to.into(), Some(from.into()), 0, 0) else {
                    return;
                };
                self.send_made(Protocol::Ip6, &bytes, TxMeta { time, mark: 0, ct }, way);
            }
            _ => {}
        }
    }
}

fn fill(tcp: &mut [u8], sum: u16) {
    if let Some(field) = tcp.get_mut(16..18) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

fn checksum_ok(packet: &Packet) -> bool {
    let Some(segment) = packet.transport_bytes() else { return false };
    let network = packet.network();
    let pseudo = if packet.meta.protocol == ethernet::IPV4 {
        ipv4::Header::new(network).map(|h| h.pseudo(segment.len()))
    } else {
        ipv6::Header::new(network).map(|h| h.pseudo(protocol::TCP, segment.len()))
    };
    pseudo.is_some_and(|pseudo| pseudo.bytes(segment).is_valid())
}

/// `synproxy_tstamp_adjust()`: the client's echo, or the server's value.
fn shift_timestamps(packet: &mut Packet, direction: Direction, shift: u32) {
    if shift == 0 {
        return;
    }
    let Some(tcp_bytes) = packet.transport_bytes_mut() else { return };
    let Some(end) = tcp::Header::new(tcp_bytes).map(|h| h.header_len()) else { return };
    let mut at = tcp::LEN;
    while at < end {
        let (Some(&kind), len) = (tcp_bytes.get(at), tcp_bytes.get(at + 1)) else { return };
        let len = match (kind, len) {
            (0, _) => return,
            (1, _) => {
                at += 1;
                continue;
            }
            (_, Some(&len)) if len >= 2 => usize::from(len),
            _ => return,
        };
        if kind == 8 && len == 10 {
            let field = at + if direction == Direction::Original { 6 } else { 2 };
            let Some(bytes) = tcp_bytes.get_mut(field..field + 4) else { return };
            let old = <[u8; 4]>::try_from(&*bytes).map_or(0, u32::from_be_bytes);
            let new = match direction {
                Direction::Original => old.wrapping_add(shift),
                Direction::Reply => old.wrapping_sub(shift),
            };
            bytes.copy_from_slice(&new.to_be_bytes());
            adjust_checksum(tcp_bytes, as_summed(old, field), as_summed(new, field));
            return;
        }
        at += len;
    }
}

/// A word as the sum sees it: at an odd position each byte is in the other half of its pair.
fn as_summed(word: u32, position: usize) -> u32 {
    if position.is_multiple_of(2) { word } else { word.rotate_left(8) }
}

fn adjust_checksum(tcp: &mut [u8], old: u32, new: u32) {
    let Some(field) = tcp.get_mut(16..18) else { return };
    let check = u16::from_be_bytes([field[0], field[1]]);
    let halves = |n: u32| (n >> 16) + (n & 0xffff);
    let mut sum = u32::from(!check) + halves(!old) + halves(new);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    field.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
