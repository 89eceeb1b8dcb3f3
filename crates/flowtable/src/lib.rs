// SPDX-License-Identifier: Apache-2.0

//! Flows that leave the rules (`net/netfilter/nf_flow_table_*.c`): what a packet of an established
//! flow is found by, and the finished transformation that it then gets.
//!
//! ```text
//! frame -> Arrival (device, tags, tunnel) ┐
//! headers -> addresses, ports, protocols  ┴-> Key -> Flowtable::find -> Half: addresses, ports, checksum differences
//!                                                                        └-> Xmit: headers to put in front, device, MTU
//! ```
//!
//! - [`key`]: what names one direction of a flow, and [`arrival`]: what of that is common to many
//!   flows;
//! - [`encap`]: what is around packets that arrive, and [`tunnel`]: what is put around them when
//!   they leave;
//! - [`xmit`]: how packets leave, which is common to many flows too;
//! - [`flow`]: a flow, a cache line for each direction; [`rewrite`]: what it does to headers;
//! - [`table`]: the table, made for bursts: hashes first, then buckets, then flows;
//! - [`offload`]: devices that forward flows themselves, and the worker that tells them.
//!
//! This crate knows neither rules nor devices: a device is a number. The clock is an argument, in
//! nanoseconds that do not go back. Addresses, ports and header fields are kept as they are on the
//! wire.
//!
//! ```
//! use penstock_flowtable::{Arrival, Direction, Flowtable, Key, Limits, NewFlow, NewHalf, Xmit};
//!
//! let mut table = Flowtable::new(Limits::default(), 7);
//! let [lan, wan] = [2, 3].map(Arrival::on);
//! let key = |src: [u8; 4], dst: [u8; 4], ports| Key::v4(src, dst, ports, 17);
//! // 198.18.1.7:1000 -> 203.0.113.9:53 leaves as from 198.18.0.1:1000.
//! let there = key([198, 18, 1, 7], [203, 0, 113, 9], [1000, 53]);
//! let back = key([203, 0, 113, 9], [198, 18, 0, 1], [53, 1000]);
//! let halves = [
//!     NewHalf { key: there, arrival: lan, xmit: Xmit::neighbour(3, [2; 6], [3; 6], 1500) },
//!     NewHalf { key: back, arrival: wan, xmit: Xmit::neighbour(2, [4; 6], [5; 6], 1500) },
//! ];
//! let flow = table.add(&NewFlow { halves, connection: 1, lookup: 0, network: 0, translated: true, now: 0 }).unwrap();
//!
//! let key = there.arriving(table.arrival(&lan).unwrap());
//! let at = table.find(table.hash(&key), &key).unwrap();
//! assert_eq!((at.flow, at.direction), (flow, Direction::Original));
//! assert_eq!(table.xmit(at).device, 3);
//! ```

pub mod arrival;
pub mod encap;
pub mod flow;
pub mod key;
pub mod offload;
pub mod rewrite;
pub mod table;
pub mod tunnel;
pub mod xmit;

mod hash;
mod index;
mod interned;
mod memory;

pub use arrival::{Arrival, ArrivalId, Encap, Tunnel};
pub use flow::{At, Direction, Half, HalfId, Life, state};
pub use key::{Key, Key4};

pub use offload::{FlowOffload, Offloader};
pub use table::{AddError, Flowtable, Limits, NewFlow, NewHalf};
pub use xmit::{Xmit, XmitId, XmitType};
