// SPDX-License-Identifier: Apache-2.0

//! Choice among the addresses of a host: for packets that it makes itself, or that NAT gives one.

use crate::address6::{GLOBAL, scope, usual_scope};
use crate::{Link, Network, Scope};

/// Labels of RFC 6724 as the kernel has them (`net/ipv6/addrlabel.c`).
fn label6(address: u128) -> u32 {
    const LABELS: [(u128, u8, u32); 10] = [
        (1, 128, 0),
        (0xffff << 32, 96, 4),
        (0, 96, 3),
        (0x2001_0010 << 96, 28, 7),
        (0x2001_0000 << 96, 32, 6),
        (0x2002 << 112, 16, 2),
        (0x3ffe << 112, 16, 12),
        (0xfec0 << 112, 10, 11),
        (0xfc00 << 112, 7, 5),
        (0, 0, 1),
    ];
    LABELS
        .iter()
        .find(|(prefix, len, _)| *len == 0 || (address ^ prefix) >> (128 - len) == 0)
        .map_or(1, |(_, _, label)| *label)
}

impl Network {
    /// An IPv4 address of the link for traffic to `to` (0 for any) within a scope
    /// (`inet_select_addr()`): one with a prefix that contains `to`, else the link's first, else
    /// the first suitable one of any link; 0 for none.
    pub fn source4(&self, link: u32, to: u32, scope: Scope) -> u32 {
        let mut first = 0;
        for a in self.link(link).map_or(&[][..], |l| &l.addresses4) {
            if a.secondary || a.scope > scope {
                continue;
            }
            let same = a.len == 0 || (a.peer ^ to) >> (32 - a.len) == 0;
            if to == 0 || same {
                return a.local;
            }
            if first == 0 {
                first = a.local;
            }
        }
        if first != 0 {
            return first;
        }
        let usable = |l: &Link| {
            let mut all = l.addresses4.iter();
            all.find(|a| !a.secondary && a.scope != Scope::LINK && a.scope <= scope)
                .map(|a| a.local)
        };
        self.links().iter().find_map(usable).unwrap_or(0)
    }

    /// The IPv6 source for a destination reached by `link` (`ipv6_dev_get_saddr()`, RFC 6724
    /// section 5 without the rules about home and temporary addresses); `None` if there is no
    /// address at all.
    pub fn source6(&self, link: u32, to: u128) -> Option<u128> {
        let want = scope(to);
        let multicast = to >> 120 == 0xff;
        let link_only = multicast || want <= 2;
        let mut best: Option<(Rank, u128)> = None;
        for l in self.links() {
            if link_only && l.index != link {
                continue;
            }
            // The kernel keeps the address that was added last in front, and of equals takes the
            // first.
            for a in l.addresses6.iter().rev() {
                let own = scope(a.local);
                let rank = Rank {
                    same: a.local == to,
                    scope: if own >= want { 256 - i32::from(own) } else { i32::from(own) - 256 },
                    preferred: !a.deprecated,
                    on_link: l.index == link,
                    label: label6(a.local) == label6(to),
                    common: ((a.local ^ to).leading_zeros()).min(u32::from(a.len)),
                };
                if best.as_ref().is_none_or(|(b, _)| rank > *b) {
                    best = Some((rank, a.local));
                }
            }
        }
        best.map(|(_, a)| a)
    }

    /// The IPv4 address that packets get which arrive on a link and are redirected
    /// (`nf_nat_redirect_ipv4()`): its first one.
    pub fn redirect4(&self, link: u32) -> Option<u32> {
        let first = self.link(link)?.addresses4.first()?.local;
        (first != 0).then_some(first)
    }

    /// The IPv6 address that packets to a destination get which arrive on a link and are redirected
    /// (`nf_nat_redirect_ipv6()`): one of the scope of the destination, any for a global one.
    pub fn redirect6(&self, link: u32, to: u128) -> Option<u128> {
        let wanted = usual_scope(to);
        let is_mapped = |address: u128| address >> 32 == 0xffff;
        let all = self.link(link)?.addresses6.iter().map(|a| a.local);
        let usable =
            all.filter(|a| !is_mapped(*a) && (wanted == GLOBAL || wanted == usual_scope(*a)));
        // The kernel's list has wide scopes first, and in each the address that was added last.
        usable.max_by_key(|a| usual_scope(*a))
    }
}

/// Preference among sources; fields in the order in which they decide.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    same: bool,
    /// Smallest sufficient scope first, then the largest insufficient one.
    scope: i32,
    preferred: bool,
    on_link: bool,
    label: bool,
    common: u32,
}
