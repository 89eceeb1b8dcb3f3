// SPDX-License-Identifier: Apache-2.0

//! Kinds of links.
//!
//! A kind has its own file here: its settings, and its answers to the questions of [`Kind`].
//! Everything else asks these questions and does not tell kinds apart. A kind that behaves as one
//! that exists needs no change outside of this folder but to be read: from text (`link_types`) and
//! from the kernel (`penstock_netlink`).

mod bare;
mod bridge;
mod loopback;
mod pppoe;
mod sixrd;
mod tunnel;
mod vlan;
mod wire;

use penstock_wire::ethernet::Mac;

pub use bare::Bare;
pub use loopback::Loopback;
pub use pppoe::{PPPOE_OVERHEAD, Pppoe};
pub use sixrd::SixRd;
pub use tunnel::{Tunnel, TunnelKind};
pub use vlan::Vlan;
pub use wire::Wire;

use crate::bridge::Bridge;

/// `ARPHRD_ETHER`.
const ARPHRD_ETHER: u16 = 1;

/// What the rest of the program asks about a kind of link. The answers given here are those of a
/// plain Ethernet device.
pub trait Kind {
    /// `rtnl_link_ops.kind` as `meta iifkind` and listings show it; empty for `lo`.
    fn name(&self) -> &str;

    /// `ARPHRD_*` (`meta iiftype`).
    #[inline]
    fn hardware_type(&self) -> u16 {
        ARPHRD_ETHER
    }

    /// Whether its frames have an Ethernet header. The others' are bare packets, which need no
    /// neighbours.
    #[inline]
    fn has_link_header(&self) -> bool {
        true
    }

    /// Where a frame goes that leaves by the device.
    #[inline]
    fn output(&self) -> Output<'_> {
        Output::Wire
    }

    /// What flows in a flowtable find on their way down through the device.
    #[inline]
    fn forward_path(&self) -> ForwardPath<'_> {
        ForwardPath::Ethernet
    }

    /// Index of the link below, which must be up for this one to be up, and the MTU of which this
    /// one's does not exceed.
    fn lower(&self) -> Option<u32> {
        None
    }

    /// The interface identifier of the link-local address that the kernel makes for a device with
    /// this link address; `None` where it makes no address (`addrconf_dev_config()`).
    fn interface_identifier(&self, mac: Mac) -> Option<u64> {
        Some(eui64(mac, mac.0[0] ^ 2))
    }

    /// MTUs that the device can be given, in bytes.
    fn mtu_range(&self) -> std::ops::RangeInclusive<u32> {
        68..=65536
    }
}

/// Where a frame goes that leaves by a device, after egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Out of the host, as it is.
    Wire,
    /// Out of the host, without link header.
    Bare,
    /// Back to the host.
    Loopback,
    /// To the link below, with a tag.
    Vlan(&'a Vlan),
    /// To ports.
    Bridge(&'a Bridge),
    /// Into another IP packet.
    Tunnel(&'a Tunnel),
    /// Into a session's frame.
    Pppoe(&'a Pppoe),
}

/// What flows find on their way down through a device (`struct net_device_path`,
/// `ndo_fill_forward_path()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardPath<'a> {
    /// The way ends here: frames leave the host.
    Ethernet,
    /// A tag, and another link below.
    Vlan {
        /// 0 to 4095.
        id: u16,
        /// 0x8100 or 0x88a8.
        protocol: u16,
        /// Index of the link below.
        lower: u32,
    },
    /// The header of a session, and another link below.
    Pppoe(&'a Pppoe),
    /// One of its ports.
    Bridge(&'a Bridge),
    /// Flows do not pass it.
    None,
}

/// Defines [`LinkKind`] and hands each question on. The last names are those of the functions
/// that give the settings of a link of this kind.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($settings:ty) $get:ident $get_mut:ident;)*) => {
        /// What a link is.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum LinkKind {
            $($(#[$doc])* $kind($settings),)*
        }

        impl LinkKind {
            $(
                /// Its settings, if it is of this kind.
                #[inline]
                pub fn $get(&self) -> Option<&$settings> {
                    if let LinkKind::$kind(settings) = self { Some(settings) } else { None }
                }

                /// Its settings for changes, if it is of this kind.
                pub fn $get_mut(&mut self) -> Option<&mut $settings> {
                    if let LinkKind::$kind(settings) = self { Some(settings) } else { None }
                }
            )*
        }

        $(
            impl From<$settings> for LinkKind {
                fn from(settings: $settings) -> Self {
                    LinkKind::$kind(settings)
                }
            }
        )*

        kinds! {
            @ask ($($kind)*)
            name() -> &str;
            hardware_type() -> u16;
            has_link_header() -> bool;
            output() -> Output<'_>;
            forward_path() -> ForwardPath<'_>;
            lower() -> Option<u32>;
            interface_identifier(mac: Mac) -> Option<u64>;
            mtu_range() -> std::ops::RangeInclusive<u32>;
        }
    };
    (@ask $kinds:tt $($question:ident($($name:ident: $type:ty)?) -> $answer:ty;)*) => {
        impl Kind for LinkKind {
            $(
                #[inline]
                fn $question(&self $(, $name: $type)?) -> $answer {
                    kinds!(@match self $kinds $question($($name)?))
                }
            )*
        }
    };
    (@match $link:tt ($($kind:ident)*) $question:ident $arguments:tt) => {
        match $link {
            $(LinkKind::$kind(kind) => kind.$question $arguments,)*
        }
    };
}

kinds! {
    /// `lo`.
    Loopback(Loopback) loopback loopback_mut;
    /// An Ethernet wire: veth, dummy and the like do not differ here.
    Wire(Wire) wire wire_mut;
    /// 802.1Q or 802.1ad on another link.
    Vlan(Vlan) vlan vlan_mut;
    /// A bridge.
    Bridge(Bridge) bridge bridge_mut;
    /// IP in IP.
    Tunnel(Tunnel) tunnel tunnel_mut;
    /// A PPPoE session.
    Pppoe(Pppoe) pppoe pppoe_mut;
    /// A device of the host that takes packets without link header.
    Bare(Bare) bare bare_mut;
}

/// `ipv6_generate_eui64()` for a link address, with this first byte.
fn eui64(Mac(m): Mac, first: u8) -> u64 {
    u64::from_be_bytes([first, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]])
}
