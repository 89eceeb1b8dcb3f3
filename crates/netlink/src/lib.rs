// SPDX-License-Identifier: Apache-2.0

//! The kernel's state of a network namespace over rtnetlink(7): read into a
//! [`penstock_net::Network`], followed by its notifications, and changed where a device is taken
//! over.
//!
//! - [`Socket`] asks, dumps and changes;
//! - [`State`] is what dumps say, and [`State::network`] the network of it;
//! - [`Monitor`] is told of changes, and says which parts of the state are to be read again. What
//!   notifications do not say (an IPv4 route that goes with its device, for instance) is concluded;
//!   when some were lost, all is read again;
//! - [`Policies`] are the IPsec policies of the namespace;
//! - [`XdpSocket`] asks what devices can do with XDP;
//! - [`PacketSockets`] lists who listens to devices;
//! - [`links`]: names, addresses and flags of devices, and what stands on them, moved from one to
//!   another;
//! - [`Kept`]: what devices have, written down for when they are gone;
//! - [`closed`]: devices that no frame passes;
//! - [`nftables`]: tables of the kernel's rules, as far as they are to be removed;
//! - [`Tracking`]: connection tracking of the kernel, wanted;
//! - [`upper`]: devices that stand on others, moved from one to another.
//!
//! Only names and numbers of the kernel's interface are known here. IPv4 addresses are in host
//! order, as in `penstock_net`.
//!
//! ```no_run
//! use penstock_netlink::{Socket, State};
//!
//! // The network of this namespace, as packets meet it.
//! let state = State::read(&mut Socket::new()?)?;
//! let network = state.network();
//! # std::io::Result::Ok(())
//! ```

mod address;
pub mod closed;
mod devconf;
mod host_sysctls;
mod kept;
mod kind;
mod link;
pub mod links;
mod message;
mod monitor;
mod neighbour;
mod nexthop;
pub mod nftables;
mod other_end;
mod packet_sockets;
mod route;
mod rule;
mod rules_socket;
mod socket;
mod state;
mod tracking;
pub mod upper;
mod vlans;
mod xdp;
mod xfrm;

pub use address::Assigned;
pub use devconf::{devconf_file, read_devconf, unfollowed_devconf};
pub use host_sysctls::read_sysctls;
pub use kept::Kept;
pub use link::{Device, Master, TapLink};
pub use message::{Attributes, Message};
pub use monitor::{Changed, Monitor};
pub use other_end::can_hand_over;
pub use packet_sockets::{PacketSocket, PacketSockets};
pub use rules_socket::{NotCommitted, RulesSocket};
pub use socket::{Answers, Socket};
pub use state::State;
pub use tracking::{Tracked, Tracking};
pub use vlans::set_port_vlans;
pub use xdp::{XdpMonitor, XdpSocket};
pub use xfrm::Policies;
