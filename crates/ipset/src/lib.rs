// SPDX-License-Identifier: Apache-2.0

//! The sets of ipset(8) (`net/netfilter/ipset` of Linux 6.18): all types with all their options, and
//! what requests and packets do with them. It knows no netlink and no packets: a request is a
//! [`Request`] in values, a packet is what [`Fields`] says of it.
//!
//! [`IpSets`] are shared by requests, which come one after the other, and packets, which take no
//! lock: they find the sets by an atomic pointer, and elements in a [`penstock_sets::Dynamic`].
//!
//! | module | is |
//! | --- | --- |
//! | `kind` | the types: names, revisions, dimensions, families |
//! | `given` | what requests say, attribute by attribute |
//! | `options` | what a set is made with |
//! | `element`, `carried` | elements and their keys; what they carry: counters, marks, comments |
//! | `range` | from what a request says to elements |
//! | `table`, `list` | what is in sets, and in lists of sets |
//! | `set`, `sets` | one set; all of them, and requests |
//! | `packet` | what packets do |
//! | `saved` | sets as a state file has them |
//! | `error` | ipset's own error numbers |
//!
//! ```
//! use penstock_ipset::{Family, Given, GivenSet, IpSets, Kind, Reply, Request};
//!
//! let sets = IpSets::default();
//! let ask = |request| sets.ask(&request, &|_| 0, 0);
//! let given = Box::new(GivenSet::default());
//! let (kind, family) = (Kind::HashNet, Family::V4);
//! let name: Box<str> = "private".into();
//! ask(Request::Create { name: name.clone(), kind, revision: 7, family, given, exist: false }).unwrap();
//! let net = Given { ip: Some([10, 0, 0, 0].into()), cidr: Some(8), ..Given::default() };
//! let (delete, exist, elements) = (false, false, vec![net]);
//! ask(Request::Change { name: name.clone(), delete, exist, elements }).unwrap();
//! let address = Given { ip: Some([10, 1, 2, 3].into()), ..Given::default() };
//! assert_eq!(ask(Request::Test(name, Box::new(address))), Ok(Reply::Done));
//! ```

mod carried;
mod element;
mod error;
pub mod given;
mod kind;
mod list;
mod options;
pub mod packet;
mod range;
mod saved;
mod set;
mod sets;
mod table;

pub use carried::{Carried, SkbInfo};
pub use element::{Device, Element, IFACE_LEN, Prefix};
pub use error::Code;
pub use given::{Given, GivenExtensions, GivenSet};
pub use kind::{Dimension, Family, Kind};
pub use options::{Options, Shape};
pub use packet::{CounterMatch, Fields, Query};
pub use saved::SavedSet;
pub use set::{Header, Told};
pub use sets::{IpSets, Listed, Refused, Reply, Request};
