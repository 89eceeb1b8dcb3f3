// SPDX-License-Identifier: Apache-2.0

//! Netfilter hooks as places of programs (`net/netfilter/nf_bpf_link.c`).

use std::fmt;

use crate::sys::NetfilterLink;

/// `BPF_NETFILTER`.
pub(crate) const ATTACH: u32 = 45;

/// `BPF_F_NETFILTER_IP_DEFRAG`.
const DEFRAG: u32 = 1;

/// Verdict of a program that drops the packet.
pub const DROP: i32 = 0;
/// Verdict of a program that lets the packet continue. There are no others.
pub const ACCEPT: i32 = 1;

/// Family of the packets at a netfilter hook (`NFPROTO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum InetFamily {
    /// IPv4.
    V4 = 2,
    /// IPv6.
    V6 = 10,
}

/// Netfilter hook of IPv4 and IPv6 (`enum nf_inet_hooks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum InetHook {
    Prerouting = 0,
    Input = 1,
    Forward = 2,
    Output = 3,
    Postrouting = 4,
}

impl InetHook {
    /// All hooks, by their numbers.
    pub const ALL: [InetHook; 5] = [
        InetHook::Prerouting,
        InetHook::Input,
        InetHook::Forward,
        InetHook::Output,
        InetHook::Postrouting,
    ];
}

/// A netfilter hook with the family of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetfilterHook {
    /// Family.
    pub family: InetFamily,
    /// Hook.
    pub hook: InetHook,
}

impl fmt::Display for NetfilterHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            InetFamily::V4 => "ip",
            InetFamily::V6 => "ip6",
        };
        let hook = match self.hook {
            InetHook::Prerouting => "prerouting",
            InetHook::Input => "input",
            InetHook::Forward => "forward",
            InetHook::Output => "output",
            InetHook::Postrouting => "postrouting",
        };
        write!(f, "{family} {hook}")
    }
}

impl NetfilterHook {
    pub(crate) fn link(self, priority: i32, defrag: bool) -> NetfilterLink {
        NetfilterLink {
            attach: ATTACH,
            family: self.family as u32,
            hook: self.hook as u32,
            priority,
            flags: if defrag { DEFRAG } else { 0 },
        }
    }

    /// `struct nf_hook_state` for a run by hand: hook and family, and no devices, which the kernel
    /// fills in.
    pub(crate) fn context(self) -> Vec<u8> {
        /// Bytes of the structure: two bytes, in, out, sk, net, okfn.
        const LEN: usize = 48;
        let mut context = vec![self.hook as u8, self.family as u8];
        context.resize(LEN, 0);
        context
    }
}
