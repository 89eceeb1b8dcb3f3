// SPDX-License-Identifier: Apache-2.0

//! Helpers: they read the payload of protocols that announce further connections
//! (`nf_conntrack_helper.c`, `nf_conntrack_ftp.c` and the like), expect those, and rewrite
//! addresses in the text where the connection is translated (`nf_nat_ftp.c` and the like).
//!
//! One file per protocol. A helper gets a [`Message`] and says what is expected; whatever it cannot
//! read it lets pass.

mod amanda;
mod broadcast;
mod ftp;
mod irc;
mod number;
mod pptp;
mod sane;
mod sip;
mod sip_text;
mod tftp;

use crate::conntrack::{Conntrack, Verdict};
use crate::dissect::{self, Layers};
use crate::entry::{NONE, Ref};
use crate::expect::{Expectation, Follow};
use crate::settings::SECOND;
use crate::tuple::{IPV4, IPV6};
use crate::{Direction, Tuple, status};
use penstock_packet::{Ct, CtInfo, Packet};
use penstock_wire::{protocol, tcp, udp};

/// How many connections of a class one connection may expect, and for how many seconds
/// (`struct nf_conntrack_expect_policy`).
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// At most.
    pub max: u32,
    /// Seconds.
    pub timeout: u32,
}

/// A helper that there is.
#[derive(Debug)]
pub struct Helper {
    /// As `ct helper` objects and listings call it.
    pub name: &'static str,
    /// Transport protocol of its connections.
    pub protocol: u8,
    /// Whether it reads IPv6, too.
    pub ipv6: bool,
    /// Its well-known port.
    pub port: u16,
    /// Its classes of expectations.
    pub classes: &'static [Class],
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ftp,
    Tftp,
    Irc,
    Amanda,
    Broadcast { timeout: u32 },
    Sane,
    Pptp,
    Sip,
}

/// Signalling, audio, video, images.
const SIP_CLASSES: [Class; 4] = [
    Class { max: 1, timeout: 180 },
    Class { max: 4, timeout: 180 },
    Class { max: 4, timeout: 180 },
    Class { max: 2, timeout: 180 },
];

const fn helper(
    name: &'static str,
    protocol: u8,
    ipv6: bool,
    port: u16,
    classes: &'static [Class],
    kind: Kind,
) -> Helper {
    Helper { name, protocol, ipv6, port, classes, kind }
}

/// All helpers; the number of one is its place, from 1 on.
pub static HELPERS: [Helper; 10] = [
    helper("ftp", protocol::TCP, true, 21, &[Class { max: 1, timeout: 300 }], Kind::Ftp),
    helper("tftp", protocol::UDP, true, 69, &[Class { max: 1, timeout: 300 }], Kind::Tftp),
    helper("irc", protocol::TCP, false, 6667, &[Class { max: 8, timeout: 300 }], Kind::Irc),
    helper("amanda", protocol::UDP, true, 10080, &[Class { max: 4, timeout: 180 }], Kind::Amanda),
    helper(
        "netbios-ns",
        protocol::UDP,
        false,
        137,
        &[Class { max: 1, timeout: 3 }],
        Kind::Broadcast { timeout: 3 },
    ),
    helper(
        "snmp",
        protocol::UDP,
        false,
        161,
        &[Class { max: 1, timeout: 30 }],
        Kind::Broadcast { timeout: 30 },
    ),
    helper("sane", protocol::TCP, true, 6566, &[Class { max: 1, timeout: 300 }], Kind::Sane),
    helper("pptp", protocol::TCP, false, 1723, &[Class { max: 2, timeout: 300 }], Kind::Pptp),
    helper("sip", protocol::UDP, true, 5060, &SIP_CLASSES, Kind::Sip),
    helper("sip", protocol::TCP, true, 5060, &SIP_CLASSES, Kind::Sip),
];

/// The number of a helper by name and transport protocol.
pub fn helper_number(name: &str, protocol: u8) -> Option<u16> {
    let place = HELPERS.iter().position(|h| h.name == name && h.protocol == protocol)?;
    Some(place as u16 + 1)
}

fn helper_of(number: u16) -> Option<&'static Helper> {
    HELPERS.get(usize::from(number).checked_sub(1)?)
}

/// A connection's helper and what it remembers.
#[derive(Clone, Debug)]
pub(crate) struct Helping {
    pub number: u16,
    memory: Memory,
}

/// What helpers remember of a connection.
#[derive(Clone, Debug, Default)]
enum Memory {
    #[default]
    Nothing,
    Ftp(ftp::Lines),
    Sane(sane::Asked),
    Pptp(pptp::Call),
    Sip(sip::Dialogue),
}

/// Settings that the kernel has as module parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Helpers {
    /// Whether FTP may send its data from or to a third party (`nf_conntrack_ftp` `loose`).
    pub ftp_loose: bool,
}

/// What the path knows of a packet and a helper may ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings {
    /// For a packet that this host sends to a broadcast address of the device on the way out: the
    /// mask of that address.
    pub broadcast_mask: Option<[u8; 4]>,
}

/// Replaces bytes in the data of a packet: packet, offset of the transport header from the network
/// header, its protocol, offset in the data, length, new bytes. Lengths and checksums follow.
/// `false` if it cannot.
pub type Replace = fn(&mut Packet, usize, u8, usize, usize, &[u8]) -> bool;

/// A packet for a helper.
struct Message<'a> {
    n: u32,
    master: Ref,
    direction: Direction,
    /// Whether the connection has packets in both directions.
    established: bool,
    /// Sequence number of TCP.
    seq: u32,
    data: &'a [u8],
    /// Tuples by direction.
    tuples: [Tuple; 2],
    /// Whether the connection is translated.
    translated: bool,
    surroundings: Surroundings,
    helper: &'static Helper,
}

impl Message<'_> {
    /// The tuple of the packet's direction.
    fn tuple(&self) -> &Tuple {
        &self.tuples[self.direction as usize]
    }

    /// The tuple of the other direction.
    fn back(&self) -> &Tuple {
        &self.tuples[self.direction.opposite() as usize]
    }

    fn expect(
        &self,
        protocol: u8,
        source: Option<[u8; 16]>,
        destination: [u8; 16],
        port: u16,
    ) -> Expectation {
        let l3 = self.tuples[0].l3;
        let timeout = u64::from(self.helper.classes[0].timeout) * SECOND;
        Expectation {
            timeout,
            ..Expectation::new(self.master, l3, protocol, source, destination, port)
        }
    }
}

/// New text for a part of the data.
struct Edit {
    at: usize,
    len: usize,
    text: Vec<u8>,
}

/// What a helper says about a packet.
enum Said {
    /// It goes on, with these changes.
    Pass(Vec<Edit>),
    /// It is dropped: what it announces cannot be tracked.
    Drop,
}

impl Said {
    const PASS: Said = Said::Pass(Vec::new());
}

impl Conntrack {
    /// Gives a new connection a helper, as rules do it (`ct helper set`). `false`, and nothing
    /// changes, if it is confirmed or has one already, or protocol or family are not the helper's.
    pub fn set_helper(&mut self, n: u32, number: u16) -> bool {
        let e = &self.store[n];
        let (protocol, l3) = (e.original.protocol, e.original.l3);
        let fits =
            helper_of(number).is_some_and(|h| h.protocol == protocol && (l3 == IPV4 || h.ipv6));
        if !fits || e.has(status::CONFIRMED) || self.extra(n).is_some_and(|x| x.helper.is_some()) {
            return false;
        }
        self.give_helper(n, number);
        self.store[n].status |= status::HELPER;
        true
    }

    pub(crate) fn give_helper(&mut self, n: u32, number: u16) {
        if helper_of(number).is_some() {
            self.extra_mut(n).helper = Some(Box::new(Helping { number, memory: Memory::Nothing }));
        }
    }

    /// Takes away what a helper entered for an entry that ends.
    pub(crate) fn forget_helper(&mut self, n: u32) {
        if let Some(Helping { memory: Memory::Pptp(call), .. }) =
            self.extra(n).and_then(|x| x.helper.as_deref())
        {
            let mut call = *call;
            self.forget_call(&mut call);
        }
    }

    pub(crate) fn helper_name(&self, n: u32) -> Option<&'static str> {
        let helping = self.extra(n)?.helper.as_ref()?;
        helper_of(helping.number).map(|h| h.name)
    }

    /// Sets whether FTP may send its data from or to a third party. The kernel's default is no.
    pub fn set_ftp_loose(&mut self, loose: bool) {
        self.helpers.ftp_loose = loose;
    }

    /// Runs the helper of the packet's connection, at the end of input and postrouting just before
    /// [`Conntrack::confirm`] (`nf_confirm()`): it may make expectations, and rewrite the text of a
    /// translated connection with `replace`. Then sequence numbers are adjusted where text was
    /// rewritten before.
    #[inline]
    pub fn help(
        &mut self,
        packet: &mut Packet,
        surroundings: Surroundings,
        replace: Replace,
    ) -> Verdict {
        let ct = packet.meta.ct;
        let Some(n) = self.resolve(&ct) else { return Verdict::Accept };
        if ct.info == CtInfo::RelatedReply || !self.is_helped(n) {
            return Verdict::Accept;
        }
        self.help_and_adjust(packet, n, surroundings, replace)
    }

    /// Whether a connection has a helper, or its sequence numbers are shifted.
    #[inline]
    fn is_helped(&self, n: u32) -> bool {
        let e = &self.store[n];
        e.extra != NONE
            && (e.has(status::SEQ_ADJUST) || self.extra(n).is_some_and(|x| x.helper.is_some()))
    }

    /// Whether nothing is left to be done at the end of its way for a packet with this connection:
    /// [`Conntrack::help`] and [`Conntrack::confirm`] would only let it pass.
    #[inline]
    pub fn is_settled(&self, ct: &Ct) -> bool {
        let settled = |n| self.store[n].has(status::CONFIRMED) && !self.is_helped(n);
        self.observer.is_none() && self.resolve(ct).is_none_or(settled)
    }

    fn help_and_adjust(
        &mut self,
        packet: &mut Packet,
        n: u32,
        surroundings: Surroundings,
        replace: Replace,
    ) -> Verdict {
        let Some(at) = dissect::layers(packet.network()) else { return Verdict::Accept };
        let adjust = self.store[n].has(status::SEQ_ADJUST);
        if let Some(helping) = self.extra(n).and_then(|x| x.helper.clone())
            && let Some(helper) = helper_of(helping.number)
            && self.run_helper(packet, n, &at, helper, helping, surroundings, replace)
                == Verdict::Drop
        {
            self.statistics.drop += 1;
            return Verdict::Drop;
        }
        if adjust && at.protocol == protocol::TCP && !self.adjust_packet(packet, n, at.offset) {
            self.statistics.drop += 1;
            return Verdict::Drop;
        }
        Verdict::Accept
    }

    #[allow(clippy::too_many_arguments)]
    fn run_helper(
        &mut self,
        packet: &mut Packet,
        n: u32,
        at: &Layers,
        helper: &'static Helper,
        mut helping: Box<Helping>,
        surroundings: Surroundings,
        replace: Replace,
    ) -> Verdict {
        let info = packet.meta.ct.info;
        let direction = if info.is_reply() { Direction::Reply } else { Direction::Original };
        let e = &self.store[n];
        let transport = packet.network().get(at.offset..).unwrap_or(&[]);
        let (header, seq) = match at.protocol {
            protocol::TCP => match tcp::Header::new(transport) {
                Some(h) => (h.header_len(), h.seq()),
                None => return Verdict::Accept,
            },
            protocol::UDP => (udp::LEN, 0),
            _ => return Verdict::Accept,
        };
        let message = Message {
            n,
            master: Ref { entry: n, serial: e.serial },
            direction,
            established: matches!(info, CtInfo::Established | CtInfo::EstablishedReply),
            seq,
            data: transport.get(header..).unwrap_or(&[]),
            tuples: [e.original, e.reply],
            translated: e.has(status::NAT_MASK),
            surroundings,
            helper,
        };
        let said = match helper.kind {
            Kind::Ftp => self.help_ftp(&message, &mut helping.memory),
            Kind::Tftp => self.help_tftp(&message),
            Kind::Irc => self.help_irc(&message),
            Kind::Amanda => self.help_amanda(&message),
            Kind::Broadcast { timeout } => self.help_broadcast(&message, timeout),
            Kind::Sane => self.help_sane(&message, &mut helping.memory),
            Kind::Pptp => self.help_pptp(&message, &mut helping.memory),
            Kind::Sip => self.help_sip(&message, &mut helping.memory),
        };
        if let Some(x) = self.extra(n)
            && x.helper.is_some()
        {
            self.extra_mut(n).helper = Some(helping);
        }
        let edits = match said {
            Said::Drop => return Verdict::Drop,
            Said::Pass(edits) => edits,
        };
        // From the back, so that offsets stay right.
        for edit in edits.iter().rev() {
            if !replace(packet, at.offset, at.protocol, edit.at, edit.len, &edit.text) {
                return Verdict::Drop;
            }
            let shift = edit.text.len() as i32 - edit.len as i32;
            if at.protocol == protocol::TCP {
                self.shift_sequence(n, direction, seq, shift);
            }
        }
        Verdict::Accept
    }

    /// Expects a connection of the message's helper. Where the connection is translated, `port` of
    /// the expectation is sought upwards from the one that was asked for, and the expected
    /// connection follows its master (`nf_nat_exp_find_port()`, `nf_nat_follow_master()`). Gives
    /// the port that is expected.
    fn announce(&mut self, m: &Message<'_>, mut expectation: Expectation) -> Option<u16> {
        let max = m.helper.classes[usize::from(expectation.class)].max;
        if !m.translated {
            let port = expectation.tuple.dst_id;
            return self.expect(expectation, max).ok().map(|()| port);
        }
        let first = expectation.tuple.dst_id;
        expectation.follow.get_or_insert(Follow {
            direction: m.direction.opposite(),
            address: None,
            port: first,
        });
        // Some hundred tries, as the kernel's limit for UDP and TCP ports in helpers.
        for (tries, port) in (first..=u16::MAX).chain(1024..first.max(1024)).enumerate() {
            let mut candidate = expectation.clone();
            candidate.tuple.dst_id = port;
            match self.expect(candidate, max) {
                Ok(()) => return Some(port),
                Err(crate::expect::ExpectError::Busy) if tries < 128 => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// The address to which answers to the sender of a message go, as the other side sees it.
    fn seen_address(m: &Message<'_>) -> std::net::IpAddr {
        m.back().destination()
    }
}

/// Whether a tuple is of IPv6.
fn is_ipv6(tuple: &Tuple) -> bool {
    tuple.l3 == IPV6
}

#[cfg(test)]
mod tests;
