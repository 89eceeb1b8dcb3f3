// SPDX-License-Identifier: Apache-2.0

//! What BGP speakers say of their sessions and routes.
//!
//! | module | is |
//! | --- | --- |
//! | [`exabgp`] | lines that ExaBGP gives to its processes |
//! | [`gobgp`] | lines of `gobgp monitor global rib -j` |
//! | [`rib`] | the routes of all sessions, with graceful restart |
//! | [`table`] | the table of a ruleset that they become |

pub mod exabgp;
pub mod gobgp;
pub mod rib;
pub mod table;

use std::fmt;

use crate::flow::FlowSpec;
use crate::flow::action::Actions;
use crate::span::{Family, Span};

/// What routes are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteFamily {
    /// The family of the addresses.
    pub family: Family,
    /// Flow specifications; otherwise unicast.
    pub is_flow: bool,
}

impl RouteFamily {
    /// By names such as `ipv4` and `unicast`; `None` for others than the four that are read.
    pub fn of(afi: &str, safi: &str) -> Option<RouteFamily> {
        let family = match afi {
            "ipv4" => Family::V4,
            "ipv6" => Family::V6,
            _ => return None,
        };
        let is_flow = match safi {
            "unicast" => false,
            "flow" => true,
            _ => return None,
        };
        Some(RouteFamily { family, is_flow })
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq)]
pub enum Route {
    /// A route to a prefix.
    Unicast {
        /// The prefix.
        prefix: Span,
        /// Its communities: the number of the system in the upper 16 bits.
        communities: Vec<u32>,
    },
    /// A flow specification.
    Flow(FlowSpec, Actions),
    /// What cannot be done here, and why.
    Refused(String),
}

/// What the peer of a session does with its routes while it restarts (RFC 4724, section 3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restart {
    /// Seconds that it may take.
    pub time: u64,
    /// Families whose routes stay, and whether the peer forwards by them in the meantime.
    pub families: Vec<(RouteFamily, bool)>,
}

/// Something that a speaker says.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A session was opened with these capabilities; it is not up yet.
    Open(Option<Restart>),
    /// The session is up.
    Up,
    /// It is not up any more.
    Down,
    /// One side ended it with a notification.
    Notification,
    /// The peer has announced all its routes of a family.
    EndOfRib(RouteFamily),
    /// The peer announces a route; the name tells it from others of the peer and the family.
    Announce(RouteFamily, String, Route),
    /// The peer withdraws a route.
    Withdraw(RouteFamily, String),
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Unicast { prefix, communities } => {
                write!(f, "{prefix}")?;
                communities.iter().try_for_each(|c| write!(f, " {}:{}", c >> 16, c & 0xffff))
            }
            Route::Flow(spec, _) => write!(f, "flow {spec}"),
            Route::Refused(why) => write!(f, "a route: {why}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Open(None) => f.write_str("open"),
            Event::Open(Some(restart)) => write!(f, "open, restarts within {} s", restart.time),
            Event::Up => f.write_str("up"),
            Event::Down => f.write_str("down"),
            Event::Notification => f.write_str("notification"),
            Event::EndOfRib(_) => f.write_str("end of its routes of a family"),
            Event::Announce(_, _, route) => write!(f, "announces {route}"),
            Event::Withdraw(_, name) => write!(f, "withdraws {name}"),
        }
    }
}

/// An event of a session, which the name of the peer tells from others.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The peer.
    pub peer: String,
    /// What it is about.
    pub event: Event,
}
