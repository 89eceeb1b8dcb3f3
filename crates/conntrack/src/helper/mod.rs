// SPDX-License-Identifier: Apache-2.0

//! Helpers: they read the payload of protocols that announce further connections
//! (`nf_conntrack_helper.c`, `nf_conntrack_ftp.c` and the like).
//!
//! One file per protocol, each with a function from a [`Message`] and what the helper remembers of
//! the connection ([`Memory`]) to [`Action`]s: connections to expect, new text for translated
//! connections (`nf_nat_ftp.c` and the like), and so on. Helpers do none of that themselves. They
//! let pass what they cannot read.

mod action;
mod amanda;
mod broadcast;
pub mod by_name;
mod ftp;
mod irc;
mod number;
mod pptp;
mod sane;
mod sip;
mod sip_text;
mod snmp;
mod tftp;

pub(crate) use action::{Action, Announcement, Edit, Otherwise, Ports, Renewal};

use crate::expectation::{Expectation, Follow};
use crate::reference::Ref;
use crate::settings::SECOND;
use crate::tuple::IPV6;
use crate::{Direction, Tuple};
use penstock_wire::protocol;

/// How many connections of a class one connection may expect, and for how many seconds
/// (`struct nf_conntrack_expect_policy`).
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// At most.
    pub max: u32,
    /// Seconds.
    pub timeout: u32,
}

/// The name of a known helper.
pub type HelperName = &'static str;

/// A known helper.
#[derive(Debug)]
pub struct Helper {
    /// As `ct helper` objects and listings call it.
    pub name: &'static str,
    /// Transport protocol of its connections.
    pub protocol: u8,
    /// Whether it also reads IPv6.
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
    Snmp { timeout: u32 },
    SnmpTrap,
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
pub static HELPERS: [Helper; 11] = [
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
        Kind::Snmp { timeout: 30 },
    ),
    helper("sane", protocol::TCP, true, 6566, &[Class { max: 1, timeout: 300 }], Kind::Sane),
    helper("pptp", protocol::TCP, false, 1723, &[Class { max: 2, timeout: 300 }], Kind::Pptp),
    helper("sip", protocol::UDP, true, 5060, &SIP_CLASSES, Kind::Sip),
    helper("sip", protocol::TCP, true, 5060, &SIP_CLASSES, Kind::Sip),
    helper(
        "snmp_trap",
        protocol::UDP,
        false,
        162,
        &[Class { max: 0, timeout: 180 }],
        Kind::SnmpTrap,
    ),
];

/// The number of a helper by name and transport protocol.
pub fn helper_number(name: &str, protocol: u8) -> Option<u16> {
    let place = HELPERS.iter().position(|h| h.name == name && h.protocol == protocol)?;
    Some(place as u16 + 1)
}

/// The helper of a number.
pub(crate) fn helper_of(number: u16) -> Option<&'static Helper> {
    HELPERS.get(usize::from(number).checked_sub(1)?)
}

/// A connection's helper and what it remembers.
#[derive(Debug)]
pub(crate) struct Helping {
    helper: &'static Helper,
    memory: Memory,
}

impl Helping {
    /// A helper by its number, which has seen nothing yet.
    pub fn new(number: u16) -> Option<Self> {
        Some(Helping { helper: helper_of(number)?, memory: Memory::Nothing })
    }

    /// Its helper.
    pub fn helper(&self) -> &'static Helper {
        self.helper
    }

    /// Name of its helper.
    pub fn name(&self) -> &'static str {
        self.helper.name
    }

    /// What is said of a packet into which new text does not fit; of PPTP nothing is.
    pub fn cannot_edit(&self) -> Option<&'static str> {
        match self.helper.kind {
            Kind::Pptp => None,
            Kind::Sip => Some("cannot NAT SIP message"),
            _ => Some("cannot mangle packet"),
        }
    }

    /// The tuples of the call that ends with a connection (`destroy` of `nf_conntrack_pptp.c`).
    pub fn call(&self, tuples: [Tuple; 2]) -> Option<[Tuple; 2]> {
        match (self.helper.kind, &self.memory) {
            (Kind::Pptp, Memory::Pptp(call)) => Some(call.tuples(tuples)),
            (Kind::Pptp, _) => Some(pptp::Call::default().tuples(tuples)),
            _ => None,
        }
    }

    /// Whether the other connections of a message are expected if one cannot be.
    pub fn goes_on(&self) -> bool {
        matches!(self.helper.kind, Kind::Amanda)
    }

    /// Lets the helper read a message; returns its actions in order.
    pub fn read(&mut self, message: &Message<'_>) -> Vec<Action> {
        let memory = &mut self.memory;
        match self.helper.kind {
            Kind::Ftp => ftp::read(message, memory),
            Kind::Tftp => tftp::read(message),
            Kind::Irc => irc::read(message),
            Kind::Amanda => amanda::read(message),
            Kind::Broadcast { timeout } => broadcast::read(message, timeout),
            Kind::Snmp { timeout } => {
                let mut actions = broadcast::read(message, timeout);
                actions.extend(snmp::read(message));
                actions
            }
            Kind::SnmpTrap => snmp::read(message),
            Kind::Sane => sane::read(message, memory),
            Kind::Pptp => pptp::read(message, memory),
            Kind::Sip => sip::read(message, memory),
        }
    }

    /// Remembers what [`Action::Remember`] says.
    pub fn remember(&mut self, memory: Memory) {
        self.memory = memory;
    }
}

/// A message whose connection cannot be expected is dropped.
const NOT_ADDED: Otherwise = Otherwise::Drop(&["cannot add expectation"]);

/// What helpers remember of a connection.
#[derive(Debug, Default)]
pub(crate) enum Memory {
    #[default]
    Nothing,
    Ftp(ftp::Lines),
    Sane(sane::Asked),
    Pptp(pptp::Call),
    Sip(sip::Dialogue),
}

/// Settings that the kernel has as module parameters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
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

/// A packet for a helper.
pub(crate) struct Message<'a> {
    pub master: Ref,
    pub direction: Direction,
    /// Whether the connection has packets in both directions.
    pub established: bool,
    /// Sequence number of TCP.
    pub seq: u32,
    pub data: &'a [u8],
    /// Whether the length of UDP is that of the data.
    pub whole: bool,
    /// Tuples by direction.
    pub tuples: [Tuple; 2],
    /// Whether the connection is translated.
    pub translated: bool,
    /// Whether another connection expected this one.
    pub expected: bool,
    pub surroundings: Surroundings,
    pub options: Options,
    pub helper: &'static Helper,
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

    /// The address to which answers to the sender go, as the other side sees it.
    fn seen_address(&self) -> std::net::IpAddr {
        self.back().destination()
    }

    /// Announces a connection just as it is expected.
    fn announce(&self, expectation: Expectation, otherwise: Otherwise) -> Announcement {
        let max = self.max(expectation.class);
        Announcement { expectation, max, ports: Ports::AsItIs, otherwise, edit: None }
    }

    /// Announces a connection. Where this one is translated, the port of the expectation is sought
    /// upwards from the one that was asked for, and the expected connection follows its master
    /// (`nf_nat_exp_find_port()`, `nf_nat_follow_master()`).
    fn announce_translated(&self, mut expectation: Expectation) -> Announcement {
        if !self.translated {
            return self.announce(expectation, NOT_ADDED);
        }
        let port = expectation.tuple.dst_id;
        expectation.follow.get_or_insert(Follow {
            direction: self.direction.opposite(),
            address: None,
            port,
        });
        let otherwise = Otherwise::Drop(&["all ports in use"]);
        Announcement { ports: Ports::FirstFree, ..self.announce(expectation, otherwise) }
    }

    /// How many connections of a class the connection may expect.
    fn max(&self, class: u8) -> u32 {
        self.helper.classes[usize::from(class)].max
    }
}

/// Whether a tuple is of IPv6.
fn is_ipv6(tuple: &Tuple) -> bool {
    tuple.l3 == IPV6
}
