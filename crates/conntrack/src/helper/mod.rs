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
mod ftp;
mod irc;
mod number;
mod pptp;
mod registry;
mod sane;
mod sip;
mod sip_text;
mod snmp;
mod tftp;

pub(crate) use action::{Action, Announcement, Edit, Otherwise, Ports, Renewal};
pub(crate) use registry::Known;
pub use registry::{Helpers, ProgramHelper};

use std::borrow::Cow;

use crate::expectation::{Expectation, Follow};
use crate::reference::Ref;
use crate::settings::SECOND;
use crate::tuple::IPV6;
use crate::{Direction, Tuple};
use penstock_wire::protocol;

/// How many connections of a class one connection may expect, and for how many seconds
/// (`struct nf_conntrack_expect_policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// At most.
    pub max: u32,
    /// Seconds.
    pub timeout: u32,
}

/// A helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    /// As `ct helper` objects and listings call it.
    pub name: Cow<'static, str>,
    /// Transport protocol of its connections.
    pub protocol: u8,
    /// Whether it reads IPv4.
    pub ipv4: bool,
    /// Whether it reads IPv6.
    pub ipv6: bool,
    /// Its well-known port; 0 for none.
    pub port: u16,
    /// Its classes of expectations.
    pub classes: Cow<'static, [Class]>,
    kind: Kind,
}

impl Helper {
    /// Whether it is for connections of an address family and a transport protocol.
    pub fn serves(&self, l3: u8, protocol: u8) -> bool {
        self.protocol == protocol && if l3 == IPV6 { self.ipv6 } else { self.ipv4 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ftp,
    Tftp,
    Irc,
    Amanda,
    Broadcast {
        timeout: u32,
    },
    Snmp {
        timeout: u32,
    },
    SnmpTrap,
    Sane,
    Pptp,
    Sip,
    /// A program reads its packets, from a queue.
    Program {
        queue: u16,
        /// Otherwise packets pass unread.
        enabled: bool,
        /// Bytes that the program keeps with a connection.
        data_len: u8,
    },
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
    let (name, classes) = (Cow::Borrowed(name), Cow::Borrowed(classes));
    Helper { name, protocol, ipv4: true, ipv6, port, classes, kind }
}

/// All helpers that are built in; the number of one is its place, from 1 on.
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

/// The number of a built-in helper by name and transport protocol.
pub fn helper_number(name: &str, protocol: u8) -> Option<u16> {
    let place = HELPERS.iter().position(|h| h.name == name && h.protocol == protocol)?;
    Some(place as u16 + 1)
}

/// A connection's helper and what it remembers.
#[derive(Debug)]
pub(crate) struct Helping {
    number: u16,
    helper: Known,
    memory: Memory,
}

impl Helping {
    /// A helper, which has seen nothing yet.
    pub fn new(number: u16, helper: Known) -> Self {
        Helping { number, helper, memory: Memory::Nothing }
    }

    /// Its helper.
    pub fn helper(&self) -> &Helper {
        &self.helper
    }

    /// Its helper, apart from the connection.
    pub fn known(&self) -> Known {
        self.helper.clone()
    }

    /// Name of its helper.
    pub fn name(&self) -> &str {
        &self.helper.name
    }

    /// Its name where it is built in.
    pub fn built_in_name(&self) -> &'static str {
        match &self.helper {
            Known::BuiltIn(helper) => &helper.name,
            Known::Program(_) => "program",
        }
    }

    /// The queue with the program that reads its packets; `None` if no program is to.
    pub fn queue(&self) -> Option<u16> {
        match self.helper.kind {
            Kind::Program { queue, enabled: true, .. } => Some(queue),
            _ => None,
        }
    }

    /// Whether a program is its helper.
    pub fn is_program(&self) -> bool {
        matches!(self.helper.kind, Kind::Program { .. })
    }

    /// What a program keeps with the connection (`CTA_HELP_INFO`); `None` if that is nothing.
    pub fn data(&self) -> Option<[u8; DATA_MAX]> {
        match (self.helper.kind, &self.memory) {
            (Kind::Program { data_len: 1.., .. }, Memory::Program(data)) => Some(**data),
            (Kind::Program { data_len: 1.., .. }, _) => Some([0; DATA_MAX]),
            _ => None,
        }
    }

    /// How many bytes of [`Helping::data`] there are.
    pub fn data_len(&self) -> usize {
        match self.helper.kind {
            Kind::Program { data_len, .. } => usize::from(data_len),
            _ => 0,
        }
    }

    /// Keeps what a program says (`nfnl_cthelper_from_nlattr()`); it may be shorter or longer than
    /// what is told of it.
    pub fn set_data(&mut self, data: &[u8]) {
        if let Some(mut kept) = self.data() {
            kept.fill(0);
            kept.iter_mut().zip(data).for_each(|(kept, new)| *kept = *new);
            self.memory = Memory::Program(Box::new(kept));
        }
    }

    /// Has it go on as the same helper is in `helpers`; `false` if that one is not there any more.
    pub fn follow(&mut self, helpers: &Helpers) -> bool {
        match helpers.get(self.number).filter(|new| new.is_same(&self.helper)) {
            Some(new) => {
                self.helper = new;
                true
            }
            None => false,
        }
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
            Kind::Program { .. } => Vec::new(),
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
    Program(Box<[u8; DATA_MAX]>),
}

/// Most bytes that a program keeps with a connection (`struct nf_conn_help`).
pub const DATA_MAX: usize = 32;

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
    pub helper: &'a Helper,
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
