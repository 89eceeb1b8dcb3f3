// SPDX-License-Identifier: Apache-2.0

//! conntrackd.conf(5): the file that conntrackd reads, for what has a meaning here.
//!
//! | file | is |
//! | --- | --- |
//! | `words` | the words of a file, with their lines |
//! | `read` | sections and clauses |
//! | `links` | links to the peer |
//! | `filter` | which connections are told |
//! | `own` | the section `Penstock`, which conntrackd does not have |
//! | `secure` | peers in that section |
//! | `nats` | the section `Nats`, which conntrackd does not have either |
//!
//! What is not there is refused; what has no meaning without a kernel's table in between is named
//! in [`Config::warnings`].

mod filter;
mod links;
mod nats;
mod own;
mod read;
mod secure;
mod words;

use std::net::{IpAddr, Ipv4Addr};

pub use filter::{Filter, List, Network, Policy};
pub use nats::Nats;
pub use own::Announce;
pub use secure::{Secure, SecurePeer};

/// A mode, and what it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// FT-FW.
    FtFw {
        /// Messages that are acknowledged together (`ACKWindowSize`).
        window: u32,
        /// Messages that are kept until they are acknowledged (`ResendQueueSize`).
        resend_queue: usize,
    },
    /// ALARM.
    Alarm {
        /// Seconds in which everything is told again (`RefreshTime`).
        refresh: u32,
        /// Seconds after which what the peer does not tell is forgotten (`CacheTimeout`).
        cache_timeout: u32,
    },
    /// NOTRACK.
    NoTrack,
}

impl Mode {
    /// Its name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Mode::FtFw { .. } => "FTFW",
            Mode::Alarm { .. } => "ALARM",
            Mode::NoTrack => "NOTRACK",
        }
    }
}

/// Where datagrams go, and where they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// To a group, and from it.
    Multicast {
        /// The group (`IPv4_address`, `IPv6_address`).
        group: IpAddr,
        /// An address of the device, for IPv4 (`IPv4_interface`).
        device: Option<Ipv4Addr>,
    },
    /// From one address to another.
    Unicast {
        /// The own address (`IPv4_address`, `IPv6_address`).
        own: IpAddr,
        /// The peer's (`IPv4_Destination_Address`, `IPv6_Destination_Address`).
        peer: IpAddr,
    },
}

/// A link to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where datagrams go.
    pub addresses: Addresses,
    /// The port (`Port`, `Group`).
    pub port: u16,
    /// The device (`Interface`).
    pub device: String,
    /// It is used first (`Default`).
    pub first: bool,
    /// Bytes that wait to be sent (`SndSocketBuffer`); `None` for the system's default.
    pub send_buffer: Option<u32>,
    /// Bytes that wait to be received (`RcvSocketBuffer`); `None` for the system's default.
    pub receive_buffer: Option<u32>,
    /// Whether datagrams have a checksum (`Checksum`).
    pub checksum: bool,
}

/// Which expectations are told and taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expectations {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those of connections with one of these helpers.
    Of(Vec<String>),
}

impl Expectations {
    /// Whether expectations of connections with a helper are among them.
    pub fn has(&self, helper: Option<&str>) -> bool {
        match self {
            Expectations::None => false,
            Expectations::All => true,
            Expectations::Of(names) => names.iter().any(|name| Some(name.as_str()) == helper),
        }
    }
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The mode, and what it can be told.
    pub mode: Mode,
    /// Links to the peer; at least one, unless others are told by the protocol of Penstock, or by
    /// NATS.
    pub links: Vec<Link>,
    /// Window scales are told, and windows of connections that are taken over are checked
    /// (`TCPWindowTracking`).
    pub window_tracking: bool,
    /// Which expectations are told and taken over (`ExpectationSync`).
    pub expectations: Expectations,
    /// What the peer tells is entered into the table at once (`DisableExternalCache`).
    pub direct: bool,
    /// The peer is asked for all that it has at the start (`StartupResync`).
    pub startup_resync: bool,
    /// Seconds that connections live that are taken over (`CommitTimeout`); `None` for what they
    /// have left.
    pub commit_timeout: Option<u32>,
    /// Seconds until connections of a backup end (`PurgeTimeout`).
    pub purge_timeout: u32,
    /// Connections of the peer that are kept at most (`HashLimit`).
    pub limit: usize,
    /// Which connections are told.
    pub filter: Filter,
    /// How addresses are announced after a takeover (`Penstock`).
    pub announce: Announce,
    /// Peers that are told by the protocol of Penstock, in place of conntrackd's.
    pub secure: Option<Secure>,
    /// The cluster that is told by NATS, in place of both.
    pub nats: Option<Nats>,
    /// Sentences about clauses that have no meaning here.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// A sentence with the number of the line: something is not known, not there, or wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        read::read(text)
    }
}
