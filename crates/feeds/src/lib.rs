// SPDX-License-Identifier: Apache-2.0

//! Feeds: what others publish becomes elements and rules of a ruleset. Block lists and the
//! decisions of CrowdSec become elements of sets; BGP announcements become elements and rules of a
//! table of their own.
//!
//! Here are readers and state machines. They know no sockets, no clock and no command line: time
//! is an argument, in seconds, and what is to be done with a ruleset is text of nft.
//!
//! | module | is |
//! | --- | --- |
//! | [`span`] | ranges of addresses |
//! | [`list`] | plain lists |
//! | [`elements`] | elements as they are to be, and the changes that lead there |
//! | [`listing`] | elements as they are |
//! | [`crowdsec`] | decisions of CrowdSec |
//! | [`bgp`] | sessions and routes of BGP, and the table that they become |
//! | [`flow`] | flow specifications of BGP, and their rules |

pub mod bgp;
pub mod crowdsec;
pub mod elements;
pub mod flow;
pub mod list;
pub mod listing;
pub mod span;
