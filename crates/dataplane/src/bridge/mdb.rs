// SPDX-License-Identifier: Apache-2.0

//! Who is a member of which group on a bridge, where multicast routers are, and whether somebody
//! asks for memberships (`net/bridge/br_multicast.c`, `br_mdb.c`).
//!
//! All workers have the same. What is learned lives as long as the bridge's settings say, by the
//! packet clock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use penstock_net::{Bridge, GroupAddress, Link, Network, Snooping};

use super::memberships::{Full, Group, Limit, Memberships, Topic};
use super::snoop::Query;

/// The host in place of a port.
pub(crate) const HOST: u32 = 0;

/// The memberships of one bridge.
#[derive(Debug)]
pub(crate) struct Mdb {
    /// Entries that stay: ports by group.
    fixed: HashMap<Group, Vec<u32>>,
    learned: Arc<Memberships>,
    /// Entries that were added by hand and expire: from the first packet on.
    by_hand: Vec<(Group, u32)>,
    /// Some of them have not been entered yet.
    to_learn: AtomicBool,
    settings: Snooping,
    /// Ports that are up, while the bridge is.
    ports: Box<[u32]>,
    /// Devices by which the host is on the bridge, with their VLANs, 0 for all.
    hosts: Box<[(u32, u16)]>,
}

impl Mdb {
    /// The table of a bridge with the entries of the configuration. It continues with what was
    /// learned, and with what `before`, the table of the configuration before, has made of that
    /// one's entries.
    pub(crate) fn new(
        net: &Network,
        link: &Link,
        bridge: &Bridge,
        learned: Arc<Memberships>,
        before: Option<&Mdb>,
    ) -> Self {
        let (mut fixed, mut by_hand) = (HashMap::<_, Vec<u32>>::new(), Vec::new());
        for e in net.mdb().iter().filter(|e| e.bridge == link.index) {
            let group = Group { vid: e.vid, address: e.group };
            match e.permanent {
                true => fixed.entry(group).or_default().push(e.port),
                false => by_hand.push((group, e.port)),
            }
        }
        let entered = |entry: &(Group, u32)| before.is_some_and(|before| before.has_entered(entry));
        let to_learn = AtomicBool::new(!by_hand.iter().all(entered));
        let settings = bridge.snooping.clone();
        if before.is_some_and(|before| !before.settings.on) && settings.on {
            learned.reopen();
        }
        let is_up = |port: &&u32| link.up && net.link(**port).is_some_and(|l| l.up);
        let ports = bridge.ports.iter().filter(is_up).copied().collect();
        let filters = |vid: u16| if bridge.vlan_filtering { vid } else { 0 };
        let vlans = net.links().iter().filter_map(|l| {
            let vlan = l.vlan().filter(|vlan| vlan.lower == link.index)?;
            Some((l.index, filters(vlan.id)))
        });
        let hosts = [(link.index, filters(bridge.vlans.pvid))].into_iter().chain(vlans).collect();
        Mdb { fixed, learned, by_hand, to_learn, settings, ports, hosts }
    }

    /// Whether an entry that was added by hand has been entered among those that expire.
    fn has_entered(&self, entry: &(Group, u32)) -> bool {
        !self.to_learn.load(Relaxed) && self.by_hand.contains(entry)
    }

    /// What has been learned, for the table of another configuration.
    pub(crate) fn learned(&self) -> &Arc<Memberships> {
        &self.learned
    }

    /// Forgets what was learned at ports that were there before and are so no longer, or are down.
    pub(crate) fn leave(&self, before: &Mdb) {
        if before.ports.iter().all(|port| self.ports.contains(port)) {
            return;
        }
        if self.ports.is_empty() {
            self.learned.forget_queriers();
        }
        self.learned.forget(|port| port == HOST || self.ports.contains(&port));
    }

    /// Whether frames to groups are looked at. It ends when there are more groups than there may be.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.settings.on && !self.learned.is_closed()
    }

    /// Enters what was added by hand, once.
    #[inline]
    fn begin(&self, now: u64) {
        if self.to_learn.load(Relaxed) && self.to_learn.swap(false, Relaxed) {
            for (group, port) in &self.by_hand {
                // With too many groups nothing is snooped.
                let _ = self.join(*group, *port, now);
            }
        }
    }

    /// Whether a port, or the host, is a member of a group.
    pub(crate) fn is_member(&self, group: Group, port: u32, now: u64) -> bool {
        self.begin(now);
        self.fixed.get(&group).is_some_and(|ports| ports.contains(&port))
            || self.learned.is_pending(Topic::Group(group), port, now)
    }

    /// Whether there is an entry for a group of a link address.
    pub(crate) fn has_link_group(&self, group: Group) -> bool {
        self.fixed.contains_key(&group)
    }

    /// Whether the host is a member of a group: by its messages, or since its addresses are in it.
    pub(crate) fn host_is_member(&self, net: &Network, group: Group, now: u64) -> bool {
        let by_address = |address| {
            let mut hosts = self.hosts.iter().filter(|(_, vid)| *vid == group.vid);
            hosts.any(|(index, _)| net.link(*index).is_some_and(|l| l.up && l.joined6(address)))
        };
        self.is_member(group, HOST, now)
            || matches!(group.address, GroupAddress::V6(address) if by_address(address.into()))
    }

    /// How many groups there may be.
    fn limit(&self) -> Limit<'_> {
        Limit { groups: self.settings.hash_max as usize, fixed: &self.fixed }
    }

    /// Whether a multicast router is known at a port, or the host is one, from messages.
    #[inline]
    pub(crate) fn is_router(&self, v6: bool, port: u32, now: u64) -> bool {
        self.learned.is_pending(Topic::Router { v6 }, port, now)
    }

    /// Whether somebody asks for memberships, so that those who do not answer are no members
    /// (`br_multicast_querier_exists()`).
    #[inline]
    pub(crate) fn has_querier(&self, v6: bool, now: u64) -> bool {
        self.learned.has_querier(v6, now)
    }

    /// A port, or the host, asks for a group (`br_multicast_add_group()`).
    pub(crate) fn join(&self, group: Group, port: u32, now: u64) -> Result<(), Full> {
        let until = now.saturating_add(self.settings.membership_interval);
        self.learned.join(Topic::Group(group), port, until, now, self.limit())
    }

    /// A host at a port, or this one, leaves a group (`br_multicast_leave_group()`). Others there
    /// have the time to say that they stay, unless a querier will ask for that.
    pub(crate) fn leave_group(&self, group: Group, port: u32, fast: bool, now: u64) {
        self.begin(now);
        if fast {
            self.learned.end(Topic::Group(group), port);
        } else if !self
            .learned
            .querier_is_pending(matches!(group.address, GroupAddress::V6(_)), now)
        {
            let time = u64::from(self.settings.last_member_count)
                .saturating_mul(self.settings.last_member_interval);
            self.learned.shorten(Topic::Group(group), [port], now.saturating_add(time), now);
        }
    }

    /// A question about memberships. Those of the group that it is about end when nobody answers;
    /// `true` for one about all groups that comes from the querier, so that a router is where it
    /// comes from (`br_ip4_multicast_query()`, `br_ip6_multicast_query()`).
    pub(crate) fn query(&self, vid: u16, v6: bool, query: Query, now: u64) -> bool {
        self.begin(now);
        let Some(address) = query.group else {
            let times = (now.saturating_add(query.delay), self.settings.querier_interval);
            return self.learned.query(v6, query.from, times, now);
        };
        let time = query.delay.saturating_mul(self.settings.last_member_count.into());
        let ports = self.ports.iter().copied().chain([HOST]);
        let topic = Topic::Group(Group { vid, address });
        self.learned.shorten(topic, ports, now.saturating_add(time), now);
        false
    }

    /// A multicast router is at a port, or the host is one (`br_multicast_mark_router()`).
    pub(crate) fn mark_router(&self, v6: bool, port: u32, now: u64) {
        let until = now.saturating_add(self.settings.querier_interval);
        // Without room nothing is snooped, and all ports get everything.
        let _ = self.learned.join(Topic::Router { v6 }, port, until, now, self.limit());
    }
}
