// SPDX-License-Identifier: Apache-2.0

//! VLANs of a bridge: which frames come in, into which VLAN, and how they leave
//! (`net/bridge/br_vlan.c`).

use penstock_net::{Bridge, Vlans};
use penstock_packet::{Packet, VlanTag};
use penstock_wire::vlan::VID_MASK;

/// The VLAN that the frame's tag names, 0 for none.
pub(crate) fn tagged(packet: &Packet) -> u16 {
    packet.meta.vlan.map_or(0, |tag| tag.tci & VID_MASK)
}

/// The VLAN of a frame at a port, which stays as it is; `None` for a frame that may not come in
/// (`br_should_learn()`).
pub(crate) fn of(bridge: &Bridge, vlans: &Vlans, packet: &Packet) -> Option<u16> {
    if !bridge.vlan_filtering {
        return Some(0);
    }
    let ours = packet.meta.vlan.filter(|tag| tag.protocol == bridge.vlan_protocol);
    match ours.map_or(0, |tag| tag.tci & VID_MASK) {
        0 => Some(vlans.pvid).filter(|pvid| *pvid != 0),
        vid => vlans.untagged(vid).map(|_| vid),
    }
}

/// A frame at a port, or at the bridge device that sends it: finds its VLAN, and gives the frame a
/// tag that says so. 0 where the bridge does not filter; `None` for a frame that may not come in
/// (`br_allowed_ingress()`).
pub(crate) fn enter(bridge: &Bridge, vlans: &Vlans, packet: &mut Packet) -> Option<u16> {
    if !bridge.vlan_filtering {
        return Some(0);
    }
    if packet.meta.vlan.is_none() && packet.meta.protocol == bridge.vlan_protocol {
        packet.untag().ok()?;
    }
    if packet.meta.vlan.is_some_and(|tag| tag.protocol != bridge.vlan_protocol) {
        // A tag of another kind is payload; the frame counts as untagged.
        packet.restore_tag();
    }
    match &mut packet.meta.vlan {
        Some(tag) if tag.tci & VID_MASK != 0 => {
            let vid = tag.tci & VID_MASK;
            vlans.untagged(vid).map(|_| vid)
        }
        Some(tag) if vlans.pvid != 0 => {
            tag.tci |= vlans.pvid;
            Some(vlans.pvid)
        }
        none @ None if vlans.pvid != 0 => {
            *none = Some(VlanTag { protocol: bridge.vlan_protocol, tci: vlans.pvid });
            Some(vlans.pvid)
        }
        _ => None,
    }
}

/// Whether a frame in this VLAN may leave by a port, or go up to the bridge device
/// (`br_allowed_egress()`).
pub(crate) fn may_leave(bridge: &Bridge, vlans: &Vlans, vid: u16) -> bool {
    !bridge.vlan_filtering || vlans.untagged(vid).is_some()
}

/// Takes the tag off where the VLAN leaves without (`br_handle_vlan()`).
pub(crate) fn leave(bridge: &Bridge, vlans: &Vlans, packet: &mut Packet) {
    if bridge.vlan_filtering
        && let Some(tag) = packet.meta.vlan
        && vlans.untagged(tag.tci & VID_MASK) == Some(true)
    {
        packet.meta.vlan = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_net::Network;
    use penstock_testkit::build::*;

    const NET: &str = "
link add br0 type bridge vlan_filtering 1
link add trunk type veth
link add access type veth
link add mixed type veth
link add bare type veth
link set trunk master br0
link set access master br0
link set mixed master br0
link set bare master br0
bridge vlan del dev trunk vid 1
bridge vlan add dev trunk vid 10-12
bridge vlan add dev access vid 10 pvid untagged
bridge vlan del dev access vid 1
bridge vlan add dev mixed vid 10 untagged
bridge vlan add dev mixed vid 11 pvid
bridge vlan del dev bare vid 1
bridge vlan add dev br0 vid 12 self
";

    fn net(more: &str) -> Network {
        Network::from_batch("net.ip", &format!("{NET}{more}")).unwrap()
    }

    fn at<'n>(net: &'n Network, device: &str) -> (&'n Bridge, &'n Vlans) {
        let link = net.link_by_name(device).unwrap();
        match &link.port {
            Some(port) => (net.link(port.bridge).unwrap().bridge().unwrap(), &port.vlans),
            None => (link.bridge().unwrap(), &link.bridge().unwrap().vlans),
        }
    }

    fn received(tags: &[(u16, u16)]) -> Packet {
        let mut frame = Frame::from(Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02"));
        for &(protocol, tci) in tags {
            let tag = Vlan::new(tci & VID_MASK).priority((tci >> 13) as u8);
            frame = if protocol == 0x88a8 { frame / tag.service() } else { frame / tag };
        }
        let frame = (frame / Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1, 2)).build();
        let mut packet = Packet::new();
        packet.receive_ethernet(&frame, "02:00:00:00:00:02".parse().unwrap());
        packet.untag().unwrap();
        packet
    }

    /// VLAN, tag as the bridge holds it, and protocol after it.
    type Entered = (u16, Option<(u16, u16)>, u16);

    fn entered(net: &Network, device: &str, tags: &[(u16, u16)]) -> Option<Entered> {
        let (bridge, vlans) = at(net, device);
        let mut packet = received(tags);
        let vid = of(bridge, vlans, &packet);
        let entered = enter(bridge, vlans, &mut packet);
        assert_eq!(vid, entered, "{device} {tags:x?}");
        entered
            .map(|vid| (vid, packet.meta.vlan.map(|t| (t.protocol, t.tci)), packet.meta.protocol))
    }

    #[test]
    fn frames_get_the_vlan_of_their_tag_or_port() {
        let net = net("");
        const Q: u16 = 0x8100;
        const S: u16 = 0x88a8;
        for (device, tags, want) in [
            ("access", &[][..], Some((10, Some((Q, 10)), 0x0800))),
            ("access", &[(Q, 10)], Some((10, Some((Q, 10)), 0x0800))),
            ("access", &[(Q, 11)], None),
            // A tag that is only about priority keeps it.
            ("access", &[(Q, 0x6000)], Some((10, Some((Q, 0x600a)), 0x0800))),
            ("access", &[(Q, 10), (Q, 11)], Some((10, Some((Q, 10)), Q))),
            // A tag of another kind is payload.
            ("access", &[(S, 10)], Some((10, Some((Q, 10)), S))),
            ("trunk", &[], None),
            ("trunk", &[(Q, 0)], None),
            ("trunk", &[(S, 11)], None),
            ("trunk", &[(Q, 12)], Some((12, Some((Q, 12)), 0x0800))),
            ("trunk", &[(Q, 13)], None),
            ("mixed", &[], Some((11, Some((Q, 11)), 0x0800))),
            ("mixed", &[(Q, 10)], Some((10, Some((Q, 10)), 0x0800))),
            ("mixed", &[(Q, 1)], Some((1, Some((Q, 1)), 0x0800))),
            ("bare", &[], None),
            ("bare", &[(Q, 1)], None),
            ("br0", &[], Some((1, Some((Q, 1)), 0x0800))),
            ("br0", &[(Q, 12)], Some((12, Some((Q, 12)), 0x0800))),
        ] {
            assert_eq!(entered(&net, device, tags), want, "{device} {tags:x?}");
        }
    }

    #[test]
    fn frames_leave_by_vlan_members_tagged_or_untagged() {
        let net = net("");
        for (device, vid, want) in [
            ("access", 10, Some(false)),
            ("access", 11, None),
            ("trunk", 10, Some(true)),
            ("trunk", 12, Some(true)),
            ("trunk", 1, None),
            ("mixed", 10, Some(false)),
            ("mixed", 11, Some(true)),
            ("mixed", 1, Some(false)),
            ("bare", 1, None),
            ("br0", 1, Some(false)),
            ("br0", 12, Some(true)),
            ("br0", 10, None),
        ] {
            let (bridge, vlans) = at(&net, device);
            let mut packet = received(&[(0x8100, vid)]);
            leave(bridge, vlans, &mut packet);
            let tagged = may_leave(bridge, vlans, vid).then_some(packet.meta.vlan.is_some());
            assert_eq!(tagged, want, "{device} {vid}");
        }
    }

    #[test]
    fn without_filtering_tags_are_left_alone() {
        let net = net("link set br0 type bridge vlan_filtering 0\n");
        let (bridge, vlans) = at(&net, "bare");
        for tags in [&[][..], &[(0x8100, 10)], &[(0x88a8, 3), (0x8100, 4)]] {
            let mut packet = received(tags);
            let before = packet.meta.vlan;
            assert_eq!(enter(bridge, vlans, &mut packet), Some(0));
            leave(bridge, vlans, &mut packet);
            assert_eq!(packet.meta.vlan, before);
            assert!(may_leave(bridge, vlans, 10));
        }
    }

    #[test]
    fn an_802_1ad_bridge_treats_802_1q_tags_as_payload() {
        let net = net("link set br0 type bridge vlan_protocol 802.1ad\n");
        assert_eq!(
            entered(&net, "access", &[(0x88a8, 10)]),
            Some((10, Some((0x88a8, 10)), 0x0800))
        );
        assert_eq!(
            entered(&net, "access", &[(0x8100, 11)]),
            Some((10, Some((0x88a8, 10)), 0x8100))
        );
    }

    #[test]
    fn a_new_default_vlan_replaces_the_untouched_old_one() {
        let net = net("link set br0 type bridge vlan_default_pvid 5\n");
        let ids = |device| at(&net, device).1.ids().collect::<Vec<_>>();
        assert_eq!((at(&net, "br0").1.pvid, ids("br0")), (5, vec![5, 12]));
        assert_eq!((at(&net, "access").1.pvid, ids("access")), (10, vec![10]));
        assert_eq!((at(&net, "mixed").1.pvid, ids("mixed")), (11, vec![1, 10, 11]));
    }
}
