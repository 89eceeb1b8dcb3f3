// SPDX-License-Identifier: Apache-2.0

//! Where packets are looked at, and what all packets have there.

use penstock_program::{Family, Hook};

use crate::field::Base;

/// Where packets are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Family of the chains' tables; chains of `inet` see packets of both families.
    pub family: Family,
    /// The hook.
    pub hook: Hook,
}

impl Place {
    /// `NFPROTO_*` of the hooks that packets pass here.
    pub fn protocols(self) -> &'static [u8] {
        match self.family {
            Family::Ip => &[2],
            Family::Ip6 => &[10],
            Family::Inet => &[2, 10],
            Family::Arp => &[3],
            Family::Netdev => &[5],
            Family::Bridge => &[7],
        }
    }

    /// Whether the IP layer has checked the packet.
    pub(crate) fn is_ip(self) -> bool {
        self.family.is_ip() && self.hook != Hook::Ingress
    }

    /// Whether packets have an interface of arrival here; `None` if some have.
    pub(crate) fn has_iif(self) -> Option<bool> {
        match self.hook {
            Hook::Ingress | Hook::Prerouting | Hook::Input | Hook::Forward => Some(true),
            Hook::Output => Some(false),
            Hook::Postrouting | Hook::Egress => match self.family {
                Family::Bridge => Some(false),
                _ => None,
            },
        }
    }

    /// Whether packets have an interface on the way out here.
    pub(crate) fn has_oif(self) -> bool {
        match self.hook {
            Hook::Ingress | Hook::Prerouting | Hook::Input => false,
            Hook::Forward | Hook::Output | Hook::Postrouting | Hook::Egress => true,
        }
    }

    /// Whether all packets have so many bytes from the start of a header on.
    pub(crate) fn always_has(self, base: Base, bytes: u16) -> bool {
        match base {
            // The network layer has looked at them.
            Base::Network if self.is_ip() => {
                bytes <= if self.family == Family::Ip6 { 40 } else { 20 }
            }
            Base::Link => {
                matches!(self.family, Family::Netdev | Family::Bridge | Family::Arp) && bytes <= 14
            }
            Base::Network | Base::Transport | Base::Inner | Base::Tunnel => false,
        }
    }
}
