// SPDX-License-Identifier: Apache-2.0

//! A packet as a line of the kernel's log (`net/netfilter/nf_log_syslog.c`).
//!
//! Offsets count from the packet's data pointer, as there: at netdev egress the network header is
//! 14 bytes after it, and the kernel then treats the packet as a quoted one: no mark, no owner, no
//! packet inside an ICMP error.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use penstock_dataplane::LogRecord;
use penstock_packet::Packet;
use penstock_program::expr::{LOG_IPOPT, LOG_MACDECODE, LOG_TCPOPT, LOG_TCPSEQ, LOG_UID};
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, protocol};

/// Level of a statement that names none: warning.
const DEFAULT_LEVEL: u32 = 4;
/// `log level audit` (`NFT_LOGLEVEL_AUDIT`).
const AUDIT: u32 = 8;
/// `LOGLEVEL` of audit records in the kernel's log without a listener: notice.
const AUDIT_LEVEL: u32 = 5;
/// `AUDIT_NETFILTER_PKT`.
const AUDIT_RECORD: u32 = 1324;
/// Reverse ARP, which is shown as ARP is.
const RARP: u16 = 0x8035;

/// A record as `dmesg --raw` shows it, without a line end: level, seconds since `start` (ns since
/// the epoch), text.
pub fn line(record: &LogRecord<'_>, packet: &Packet, start: u64) -> String {
    let level = record.log.level.unwrap_or(DEFAULT_LEVEL);
    let since = packet.meta.time.saturating_sub(start) / 1000;
    let (seconds, micros) = (since / 1_000_000, since % 1_000_000);
    let shown = if level == AUDIT { AUDIT_LEVEL } else { level };
    let mut out = format!("<{shown}>[{seconds:5}.{micros:06}] ");
    if level == AUDIT {
        let _ = write!(out, "audit: type={AUDIT_RECORD} ");
        audit(packet, &mut out);
    } else {
        text(record, packet, &mut out);
    }
    out
}

/// `nft_log_eval_audit()`.
fn audit(packet: &Packet, out: &mut String) {
    let mark = packet.meta.mark;
    let _ = if mark == 0 { write!(out, "mark=0") } else { write!(out, "mark={mark:#x}") };
    let transport = packet.transport();
    let _ = match packet.meta.protocol {
        ethernet::IPV4 => match ipv4::Header::new(packet.network()) {
            Some(h) => write!(out, " saddr={} daddr={} proto={}", h.src(), h.dst(), h.protocol()),
            None => write!(out, " saddr=? daddr=? proto=-1"),
        },
        ethernet::IPV6 => match ipv6::Header::new(packet.network()) {
            Some(h) => {
                let proto = transport.map_or(h.next_header(), |t| t.protocol);
                write!(out, " saddr={} daddr={} proto={proto}", h.src(), h.dst())
            }
            None => write!(out, " saddr=? daddr=? proto=-1"),
        },
        _ => write!(out, " saddr=? daddr=? proto=-1"),
    };
}

fn text(record: &LogRecord<'_>, packet: &Packet, out: &mut String) {
    let flags = record.log.flags.unwrap_or(0);
    let name =
        |link: Option<&penstock_net::Link>| link.map_or(String::new(), |l| l.name.to_string());
    let prefix = record.log.prefix.as_deref().unwrap_or_default();
    let _ = write!(out, "{prefix}IN={} OUT={} ", name(record.input), name(record.output));
    for (word, port) in ["PHYSIN", "PHYSOUT"].into_iter().zip(record.ports) {
        if let Some(port) = port {
            let _ = write!(out, "{word}={} ", port.name);
        }
    }
    let dump = Dump { packet, flags, base: (-packet.data_start()).max(0) as usize };
    match packet.meta.protocol {
        ethernet::IPV4 => {
            if record.input.is_some() {
                dump.link_header(out);
            }
            dump.ip4(dump.base, out);
        }
        ethernet::IPV6 => {
            if record.input.is_some() {
                dump.link_header(out);
            }
            dump.ip6(dump.base, true, out);
        }
        ethernet::ARP | RARP => dump.arp(out),
        _ => dump.link_header(out),
    }
}

struct Dump<'p> {
    packet: &'p Packet,
    flags: u32,
    /// Offset of the network header.
    base: usize,
}

fn mac(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    words.join(":")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) << 16 | u32::from(half(bytes, at + 2))
}

/// IPv6 addresses are not shortened.
fn long(address: Ipv6Addr) -> String {
    let groups: Vec<String> = address.segments().iter().map(|g| format!("{g:04x}")).collect();
    groups.join(":")
}

impl Dump<'_> {
    /// Bytes of the packet (`skb_header_pointer()`).
    fn at(&self, offset: usize, len: usize) -> Option<&[u8]> {
        let from = offset.checked_sub(self.base)?;
        self.packet.network().get(from..from + len)
    }

    /// Bytes from an offset on.
    fn left(&self, offset: usize) -> usize {
        self.packet.len().wrapping_sub(offset) as u32 as usize
    }

    fn link_words(&self, out: &mut String) {
        let link = self.packet.link();
        let _ = write!(out, "MACSRC={} MACDST={} ", mac(&link[6..12]), mac(&link[..6]));
        if let Some(tag) = self.packet.meta.vlan {
            let _ = write!(out, "VPROTO={:04x} VID={} ", tag.protocol, tag.tci);
        }
        let _ = write!(out, "MACPROTO={:04x} ", half(link, 12));
    }

    fn link_header(&self, out: &mut String) {
        let link = self.packet.link();
        if self.flags & LOG_MACDECODE != 0 {
            if link.len() >= ethernet::LEN {
                self.link_words(out);
            }
            return;
        }
        let _ = write!(out, "MAC={} ", mac(link.get(..ethernet::LEN).unwrap_or_default()));
    }

    fn arp(&self, out: &mut String) {
        const FIXED: usize = 8;
        const ADDRESSES: usize = 20;
        let Some(h) = self.at(self.base, FIXED) else { return out.push_str("TRUNCATED") };
        if self.flags & LOG_MACDECODE != 0 && self.packet.link().len() >= ethernet::LEN {
            self.link_words(out);
        }
        let _ = write!(
            out,
            "ARP HTYPE={} PTYPE=0x{:04x} OPCODE={}",
            half(h, 0),
            half(h, 2),
            half(h, 6)
        );
        if half(h, 0) != 1 || h[4] != 6 || h[5] != 4 {
            return;
        }
        let Some(a) = self.at(self.base + FIXED, ADDRESSES) else {
            let _ = write!(out, " INCOMPLETE [{} bytes]", self.packet.len() - FIXED);
            return;
        };
        let ip = |at: usize| Ipv4Addr::from(word(a, at));
        let _ = write!(
            out,
            " MACSRC={} IPSRC={} MACDST={} IPDST={}",
            mac(&a[..6]),
            ip(6),
            mac(&a[10..16]),
            ip(16)
        );
    }

    /// `dump_ipv4_packet()`. `offset` is 0 for the packet itself.
    fn ip4(&self, offset: usize, out: &mut String) {
        const CE: u16 = 0x8000;
        let Some(h) = self.at(offset, ipv4::LEN) else { return out.push_str("TRUNCATED") };
        let (tos, frag, proto) = (h[1], half(h, 6), h[9]);
        let _ = write!(
            out,
            "SRC={} DST={} LEN={} TOS=0x{:02X} PREC=0x{:02X} TTL={} ID={} ",
            Ipv4Addr::from(word(h, 12)),
            Ipv4Addr::from(word(h, 16)),
            half(h, 2),
            tos & 0x1e,
            tos & 0xe0,
            h[8],
            half(h, 4)
        );
        for (bit, name) in [(CE, "CE "), (ipv4::DF, "DF "), (0x2000, "MF ")] {
            if frag & bit != 0 {
                out.push_str(name);
            }
        }
        let fragment = frag & 0x1fff;
        if fragment != 0 {
            let _ = write!(out, "FRAG:{fragment} ");
        }
        let header_len = usize::from(h[0] & 0xf) * 4;
        if self.flags & LOG_IPOPT != 0 && header_len > ipv4::LEN {
            match self.at(offset + ipv4::LEN, header_len - ipv4::LEN) {
                Some(options) => {
                    let _ = write!(out, "OPT ({}) ", hex(options));
                }
                None => return out.push_str("TRUNCATED"),
            }
        }
        let next = offset + header_len;
        match proto {
            protocol::TCP => {
                if !self.tcp(next, fragment != 0, out) {
                    return;
                }
            }
            protocol::UDP | protocol::UDPLITE => {
                if !self.udp(proto, next, fragment != 0, out) {
                    return;
                }
            }
            protocol::ICMP => self.icmp4(offset, next, fragment != 0, out),
            protocol::AH if fragment != 0 => {}
            protocol::AH => self.security("PROTO=AH ", next, 12, 4, out),
            protocol::ESP if fragment != 0 => out.push_str("PROTO=ESP "),
            protocol::ESP => self.security("PROTO=ESP ", next, 8, 0, out),
            other => {
                let _ = write!(out, "PROTO={other} ");
            }
        }
        if offset == 0 {
            self.owner_and_mark(out);
        }
    }

    fn owner_and_mark(&self, out: &mut String) {
        if self.flags & LOG_UID != 0
            && let Some((uid, gid)) = self.packet.meta.owner
        {
            let _ = write!(out, "UID={uid} GID={gid} ");
        }
        if self.packet.meta.mark != 0 {
            let _ = write!(out, "MARK=0x{:x} ", self.packet.meta.mark);
        }
    }

    fn incomplete(&self, offset: usize, out: &mut String) {
        let _ = write!(out, "INCOMPLETE [{} bytes] ", self.left(offset));
    }

    /// A header of `len` bytes with an SPI at `spi`.
    fn security(&self, name: &str, offset: usize, len: usize, spi: usize, out: &mut String) {
        out.push_str(name);
        match self.at(offset, len) {
            Some(h) => {
                let _ = write!(out, "SPI=0x{:x} ", word(h, spi));
            }
            None => self.incomplete(offset, out),
        }
    }

    /// `false` if the line ends here.
    fn tcp(&self, offset: usize, fragment: bool, out: &mut String) -> bool {
        const LEN: usize = 20;
        const FLAGS: [(u16, &str); 9] = [
            (0x100, "AE "),
            (0x80, "CWR "),
            (0x40, "ECE "),
            (0x20, "URG "),
            (0x10, "ACK "),
            (0x08, "PSH "),
            (0x04, "RST "),
            (0x02, "SYN "),
            (0x01, "FIN "),
        ];
        out.push_str("PROTO=TCP ");
        if fragment {
            return true;
        }
        let Some(h) = self.at(offset, LEN) else {
            self.incomplete(offset, out);
            return false;
        };
        let _ = write!(out, "SPT={} DPT={} ", half(h, 0), half(h, 2));
        if self.flags & LOG_TCPSEQ != 0 {
            let _ = write!(out, "SEQ={} ACK={} ", word(h, 4), word(h, 8));
        }
        // The reserved bits without the accurate ECN bit, moved as the kernel moves the whole flag
        // word.
        let reserved = (u32::from(h[12] & 0x0e) << 24) >> 22;
        let _ = write!(out, "WINDOW={} RES=0x{:02x} ", half(h, 14), reserved as u8);
        let bits = half(h, 12) & 0x1ff;
        for (bit, name) in FLAGS {
            if bits & bit != 0 {
                out.push_str(name);
            }
        }
        let _ = write!(out, "URGP={} ", half(h, 18));
        let header_len = usize::from(h[12] >> 4) * 4;
        if self.flags & LOG_TCPOPT != 0 && header_len > LEN {
            match self.at(offset + LEN, header_len - LEN) {
                Some(options) => {
                    let _ = write!(out, "OPT ({}) ", hex(options));
                }
                None => {
                    out.push_str("OPT (TRUNCATED)");
                    return false;
                }
            }
        }
        true
    }

    /// `false` if the line ends here.
    fn udp(&self, proto: u8, offset: usize, fragment: bool, out: &mut String) -> bool {
        out.push_str(if proto == protocol::UDP { "PROTO=UDP " } else { "PROTO=UDPLITE " });
        if fragment {
            return true;
        }
        let Some(h) = self.at(offset, 8) else {
            self.incomplete(offset, out);
            return false;
        };
        let _ = write!(out, "SPT={} DPT={} LEN={} ", half(h, 0), half(h, 2), half(h, 4));
        true
    }

    fn icmp4(&self, ip: usize, offset: usize, fragment: bool, out: &mut String) {
        out.push_str("PROTO=ICMP ");
        if fragment {
            return;
        }
        let Some(h) = self.at(offset, 8) else { return self.incomplete(offset, out) };
        let (kind, code) = (h[0], h[1]);
        let _ = write!(out, "TYPE={kind} CODE={code} ");
        let quoting = 8 + ipv4::LEN;
        let required = match kind {
            icmp::ECHO_REPLY | icmp::ECHO_REQUEST => 4,
            3 | 4 | 5 | 11 | 12 => quoting,
            13 | 14 => 20,
            17 | 18 => 12,
            _ => 0,
        };
        if self.left(offset) < required {
            return self.incomplete(offset, out);
        }
        match kind {
            icmp::ECHO_REPLY | icmp::ECHO_REQUEST => {
                let _ = write!(out, "ID={} SEQ={} ", half(h, 4), half(h, 6));
            }
            icmp::PARAMETER_PROBLEM => {
                let _ = write!(out, "PARAMETER={} ", h[4]);
            }
            3 | 4 | 5 | 11 => {
                if kind == 5 {
                    let _ = write!(out, "GATEWAY={} ", Ipv4Addr::from(word(h, 4)));
                }
                let mtu = half(h, 6);
                if ip == 0 {
                    out.push('[');
                    self.ip4(offset + 8, out);
                    out.push_str("] ");
                }
                if kind == icmp::DEST_UNREACHABLE && code == icmp::unreachable::FRAG_NEEDED {
                    let _ = write!(out, "MTU={mtu} ");
                }
            }
            _ => {}
        }
    }

    /// `dump_ipv6_packet()`. `outer` for the packet itself, also at egress.
    fn ip6(&self, offset: usize, outer: bool, out: &mut String) {
        let Some(h) = self.at(offset, ipv6::LEN) else { return out.push_str("TRUNCATED") };
        let first = word(h, 0);
        let address = |at: usize| {
            Ipv6Addr::from(
                u128::from(word(h, at)) << 96
                    | u128::from(word(h, at + 4)) << 64
                    | u128::from(word(h, at + 8)) << 32
                    | u128::from(word(h, at + 12)),
            )
        };
        let _ = write!(
            out,
            "SRC={} DST={} LEN={} TC={} HOPLIMIT={} FLOWLBL={} ",
            long(address(8)),
            long(address(24)),
            usize::from(half(h, 4)) + ipv6::LEN,
            first >> 20 & 0xff,
            h[7],
            first & 0xfffff
        );
        let Some((proto, next, fragment)) = self.extensions(offset + ipv6::LEN, h[6], out) else {
            return;
        };
        match proto {
            protocol::TCP => {
                if !self.tcp(next, fragment, out) {
                    return;
                }
            }
            protocol::UDP | protocol::UDPLITE => {
                if !self.udp(proto, next, fragment, out) {
                    return;
                }
            }
            protocol::ICMPV6 => {
                if !self.icmp6(next, fragment, outer, out) {
                    return;
                }
            }
            other => {
                let _ = write!(out, "PROTO={other} ");
            }
        }
        if outer {
            self.owner_and_mark(out);
        }
    }

    /// Shows extension headers. Returns the protocol after them, its offset, and whether the packet
    /// is a later fragment; nothing if the line ends there.
    fn extensions(&self, offset: usize, next: u8, out: &mut String) -> Option<(u8, usize, bool)> {
        let options = self.flags & LOG_IPOPT != 0;
        let (mut at, mut next, mut fragment) = (offset, next, false);
        let known = |n: u8| {
            matches!(
                n,
                protocol::HOP_BY_HOP
                    | protocol::ROUTING
                    | protocol::FRAGMENT
                    | protocol::ESP
                    | protocol::AH
                    | protocol::DEST_OPTIONS
            )
        };
        while known(next) {
            let Some(h) = self.at(at, 2) else {
                out.push_str("TRUNCATED");
                return None;
            };
            let (following, units) = (h[0], usize::from(h[1]));
            if options {
                out.push_str("OPT ( ");
            }
            let len = match next {
                protocol::FRAGMENT => {
                    out.push_str("FRAG:");
                    let Some(f) = self.at(at, 8) else {
                        out.push_str("TRUNCATED ");
                        return None;
                    };
                    let field = half(f, 2);
                    let more = if field & 1 != 0 { "INCOMPLETE " } else { "" };
                    let _ = write!(out, "{} {more}ID:{:08x} ", field & 0xfff8, word(f, 4));
                    fragment |= field & 0xfff8 != 0;
                    8
                }
                protocol::AH | protocol::ESP if options => {
                    let (name, size, spi) =
                        if next == protocol::AH { ("AH ", 12, 4) } else { ("ESP ", 8, 0) };
                    out.push_str(name);
                    let shown = if fragment { None } else { self.at(at, size) };
                    let Some(s) = shown else {
                        if !fragment {
                            self.incomplete(at, out);
                        }
                        out.push(')');
                        return None;
                    };
                    let _ = write!(out, "SPI=0x{:x} ", word(s, spi));
                    if next == protocol::ESP {
                        out.push(')');
                        return None;
                    }
                    (units + 2) * 4
                }
                protocol::ESP => return None,
                protocol::AH => (units + 2) * 4,
                _ => {
                    if fragment {
                        if options {
                            out.push(')');
                        }
                        return None;
                    }
                    (units + 1) * 8
                }
            };
            if options {
                out.push_str(") ");
            }
            next = following;
            at += len;
        }
        Some((next, at, fragment))
    }

    /// `false` if the line ends here.
    fn icmp6(&self, offset: usize, fragment: bool, outer: bool, out: &mut String) -> bool {
        out.push_str("PROTO=ICMPv6 ");
        if fragment {
            return true;
        }
        let Some(h) = self.at(offset, 8) else {
            self.incomplete(offset, out);
            return false;
        };
        let kind = h[0];
        let _ = write!(out, "TYPE={kind} CODE={} ", h[1]);
        match kind {
            icmpv6::ECHO_REQUEST | icmpv6::ECHO_REPLY => {
                let _ = write!(out, "ID={} SEQ={} ", half(h, 4), half(h, 6));
            }
            1..=4 => {
                if kind == icmpv6::PARAMETER_PROBLEM {
                    let _ = write!(out, "POINTER={:08x} ", word(h, 4));
                }
                let mtu = word(h, 4);
                if outer {
                    out.push('[');
                    self.ip6(offset + 8, false, out);
                    out.push_str("] ");
                }
                if kind == icmpv6::PACKET_TOO_BIG {
                    let _ = write!(out, "MTU={mtu} ");
                }
            }
            _ => {}
        }
        true
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
