// SPDX-License-Identifier: Apache-2.0

//! Frames to groups on a bridge: what is learned from them, and who gets them
//! (`br_multicast_rcv()`, `br_multicast_flood()`).

use penstock_net::{BridgePort, GroupAddress, Link, Mac, MulticastRouter};
use penstock_packet::Packet;

use super::forward::{Members, Sender, Spread};
use crate::bridge::mdb::{HOST, Mdb};
use crate::bridge::memberships::{Full, Group};
use crate::bridge::snoop::{self, Heard, Malformed, Said};
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::Worker;

impl Sender<'_> {
    /// The port that the frame comes by, or the host.
    fn index(&self) -> u32 {
        self.port.map_or(HOST, |(index, _)| index)
    }

    /// Learns from a packet to a group.
    fn learn(&self, mdb: &Mdb, heard: Heard<'_>, now: u64) -> Result<(), DropReason> {
        let (vid, index) = (self.vid, self.index());
        let join = |address| match snoop::is_unlisted(address) {
            true => Ok(()),
            false => {
                let full = |Full| DropReason::MembershipsFull;
                mdb.join(Group { vid, address }, index, now).map_err(full)
            }
        };
        let leave = |address| {
            if !snoop::is_unlisted(address) {
                let fast = self.port.is_some_and(|(_, port)| port.fast_leave);
                mdb.leave_group(Group { vid, address }, index, fast, now);
            }
        };
        let mark = || {
            let router = self.port.map_or(self.bridge.snooping.router, |(_, p)| p.mcast_router);
            if router == MulticastRouter::Learned {
                mdb.mark_router(heard.v6, index, now);
            }
        };
        match heard.said {
            Said::Data | Said::OtherQuery => {}
            Said::Router => mark(),
            Said::Report(group) => join(group)?,
            Said::Reports(reports) => {
                for change in reports {
                    match change.map_err(|Malformed| DropReason::Membership)? {
                        Some((group, true)) => join(group)?,
                        Some((group, false)) => leave(group),
                        None => {}
                    }
                }
            }
            Said::Leave(group) => leave(group),
            Said::Query(query) => {
                if mdb.query(vid, heard.v6, query, now) {
                    mark();
                }
            }
        }
        Ok(())
    }
}

impl<S: Sink> Worker<'_, S> {
    /// A frame to a group, before it is sent on: what it says is learned. The error is why it is
    /// dropped.
    pub(crate) fn bridge_snoop(
        &self,
        packet: &Packet,
        sender: &Sender<'_>,
        to: Mac,
    ) -> Result<Spread, DropReason> {
        let Some(mdb) = self.state.bridges.mdb(sender.device).filter(|mdb| mdb.is_on()) else {
            return Ok(Spread::Flood);
        };
        let group = |address| Some(Group { vid: sender.vid, address });
        let now = packet.meta.time;
        let heard = snoop::read(packet.meta.protocol, packet.network())
            .map_err(|Malformed| DropReason::Membership)?;
        let Some(heard) = heard else {
            let group = group(GroupAddress::Link(to));
            return Ok(match group.is_some_and(|group| mdb.has_link_group(group)) {
                true => Spread::Members(Members { group, v6: None }),
                false => Spread::Flood,
            });
        };
        sender.learn(mdb, heard, now)?;
        if heard.is_for_all() || !mdb.has_querier(heard.v6, now) {
            return Ok(Spread::Flood);
        }
        let group = match heard.said {
            Said::Report(_) => None,
            _ => group(heard.group),
        };
        Ok(Spread::Members(Members { group, v6: Some(heard.v6) }))
    }

    /// Whether a port gets what members of a group and routers get. A router of IPv4 gets what is
    /// neither IPv4 nor IPv6, too.
    pub(super) fn bridge_port_asks(
        &self,
        bridge: u32,
        (index, port): (u32, &BridgePort),
        members: Members,
        now: u64,
    ) -> bool {
        let Some(mdb) = self.state.bridges.mdb(bridge) else { return false };
        let router = match port.mcast_router {
            MulticastRouter::Never => false,
            MulticastRouter::Learned => mdb.is_router(members.v6 == Some(true), index, now),
            MulticastRouter::Always => true,
        };
        router || members.group.is_some_and(|group| mdb.is_member(group, index, now))
    }

    /// Whether the host gets a frame to a group.
    pub(super) fn bridge_host_gets(
        &self,
        sender: &Sender<'_>,
        link: &Link,
        spread: Spread,
        now: u64,
    ) -> bool {
        let Spread::Members(Members { group, v6 }) = spread else { return true };
        let Some(mdb) = self.state.bridges.mdb(sender.device) else { return false };
        let router = match sender.bridge.snooping.router {
            MulticastRouter::Never => false,
            MulticastRouter::Learned => v6.is_some_and(|v6| mdb.is_router(v6, HOST, now)),
            MulticastRouter::Always => true,
        };
        router
            || link.all_multicast
            || group.is_some_and(|group| mdb.host_is_member(self.net, group, now))
    }
}
