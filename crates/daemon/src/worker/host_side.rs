// SPDX-License-Identifier: Apache-2.0

//! Which device of the host's a frame that comes by a TAP belongs to, and by which TAP the host
//! receives on a device: VLAN devices and bridges stand on TAPs there as they stand on ports here.

use penstock_net::{Link, Network};
use penstock_wire::vlan;

/// Bytes of link addresses, before the tags.
const ADDRESSES: usize = 12;
/// Devices on devices at most.
const LEVELS: usize = 8;

/// The port by which the host receives on a device: the one below a VLAN device, or one port of a
/// bridge, since the host has a bridge, too. Tags are added on the way down, the outermost last.
pub(crate) fn way_up(
    net: &Network,
    device: &Link,
    by_index: &[Option<u16>],
    tags: &mut Vec<u8>,
) -> Option<u32> {
    let mut link = device;
    for _ in 0..LEVELS {
        if let Some(vlan) = link.vlan() {
            let tag = [vlan.protocol.to_be_bytes(), vlan.id.to_be_bytes()].concat();
            tags.splice(0..0, tag);
            link = net.link(vlan.lower)?;
        } else if let Some(bridge) = link.bridge() {
            link = net.link(elected(net, &bridge.ports, by_index)?)?;
        } else {
            return Some(link.index);
        }
    }
    None
}

/// The port by which a bridge of the host's and ours speak: the first of those that are ports of
/// ours, or VLANs on them.
fn elected(net: &Network, ports: &[u32], by_index: &[Option<u16>]) -> Option<u32> {
    let ours = |index: u32| {
        let mut link = net.link(index)?;
        for _ in 0..LEVELS {
            match link.vlan() {
                Some(vlan) => link = net.link(vlan.lower)?,
                None => break,
            }
        }
        *by_index.get(link.index as usize)?
    };
    ports.iter().copied().filter(|index| ours(*index).is_some()).min()
}

/// The device that the host sends a frame on which comes by a port, and how many bytes of tags are
/// that device's: the port itself, or the bridge that the port, or a VLAN on it, is in. The host's
/// bridge sends what it floods by all ports: it counts once. Frames of a port's own address, or for
/// the link alone, are the port's.
pub(crate) fn sender(
    net: &Network,
    device: u32,
    frame: &[u8],
    indexes: &[Option<u16>],
) -> Option<(u32, usize)> {
    let word = |at: usize| frame.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
    let (mut at, mut tags) = (device, 0);
    while net.bridge_port(at).is_none()
        && let Some(tag) = word(ADDRESSES + tags).filter(|tag| vlan::is_tag(*tag))
        && let Some(id) = word(ADDRESSES + tags + 2)
        && let Some(upper) = net.vlan(at, tag, id & vlan::VID_MASK)
    {
        at = upper;
        tags += vlan::LEN;
    }
    let Some(port) = net.bridge_port(at) else { return Some((device, 0)) };
    let own = net.link(at).is_some_and(|link| frame.get(6..ADDRESSES) == Some(&link.mac.0));
    let bridge_mac = net.link(port.bridge).map(|l| l.mac);
    let of_bridge = bridge_mac.is_some_and(|mac| frame.get(6..ADDRESSES) == Some(&mac.0));
    if frame.starts_with(&[0x01, 0x80, 0xc2, 0, 0]) || own && !of_bridge {
        return Some((device, 0));
    }
    let bridge = net.link(port.bridge)?.bridge()?;
    (elected(net, &bridge.ports, indexes) == Some(at)).then_some((port.bridge, tags))
}

/// A frame without so many bytes of tags, in `room`.
pub(crate) fn without<'a>(frame: &'a [u8], tags: usize, room: &'a mut Vec<u8>) -> &'a [u8] {
    if tags == 0 {
        return frame;
    }
    room.clear();
    room.extend_from_slice(frame.get(..ADDRESSES).unwrap_or_default());
    room.extend_from_slice(frame.get(ADDRESSES + tags..).unwrap_or_default());
    room
}

#[cfg(test)]
mod tests {
    use penstock_testkit::build::*;

    use super::*;

    /// Ports `a` and `b`; on each a VLAN 10 that is in a bridge, and on `a` a VLAN 7 in a VLAN 5 of
    /// providers that is not.
    const NET: &str = "
        link add name a address 02:00:00:00:00:0a type veth
        link add name b address 02:00:00:00:00:0b type veth
        link add name other type veth
        link add link other name other.10 type vlan id 10
        link add link b name b.10 type vlan id 10
        link add link a name a.10 type vlan id 10
        link add link a name a.5 type vlan protocol 802.1ad id 5
        link add link a.5 name a.5.7 type vlan id 7
        link add name br type bridge
        link set br address 02:00:00:00:00:cc
        link set other.10 master br
        link set b.10 master br
        link set a.10 master br";

    fn net() -> (Network, Vec<Option<u16>>) {
        let net = Network::from_batch("net.ip", NET).expect("a network");
        let port = |name: &str| net.link_by_name(name).expect(name).index as usize;
        let mut indexes = vec![None; 64];
        (indexes[port("a")], indexes[port("b")]) = (Some(0), Some(1));
        (net, indexes)
    }

    fn tagged(from: &str, tags: &[(u16, u16)]) -> Vec<u8> {
        let mut frame = (Ethernet::new(from, "02:00:00:00:00:ff")
            / Ipv4::new("198.18.0.1", "198.18.0.2")
            / Udp::new(1, 2)
            / payload(b"x"))
        .build();
        for (protocol, id) in tags.iter().rev() {
            frame.splice(12..12, [protocol.to_be_bytes(), id.to_be_bytes()].concat());
        }
        frame
    }

    #[test]
    fn frames_of_a_bridge_over_vlans_count_once_for_the_bridge() {
        let (net, indexes) = net();
        let plain = tagged("02:00:00:00:00:01", &[]);
        for (port, from, tags, expected) in [
            // What the bridge forwards, and what it sends itself, by the first of its ports that is
            // ours.
            ("b", "02:00:00:00:00:01", &[(0x8100, 10)][..], Some(("br", 4))),
            ("b", "02:00:00:00:00:cc", &[(0x8100, 10)], Some(("br", 4))),
            ("a", "02:00:00:00:00:01", &[(0x8100, 10)], None),
            // The VLAN's own, others', and what has no tag.
            ("b", "02:00:00:00:00:0b", &[(0x8100, 10)], Some(("b", 0))),
            ("a", "02:00:00:00:00:01", &[(0x88a8, 5), (0x8100, 7)], Some(("a", 0))),
            ("a", "02:00:00:00:00:01", &[(0x8100, 11)], Some(("a", 0))),
            ("a", "02:00:00:00:00:01", &[], Some(("a", 0))),
        ] {
            let frame = tagged(from, tags);
            let device = net.link_by_name(port).expect(port).index;
            let got = sender(&net, device, &frame, &indexes);
            let named = got.map(|(index, tags)| (net.name_of(index).to_string(), tags));
            assert_eq!(
                named,
                expected.map(|(name, tags)| (name.to_owned(), tags)),
                "{port} {from} {tags:?}"
            );
            if let Some((_, tags @ 4)) = got
                && from == "02:00:00:00:00:01"
            {
                assert_eq!(without(&frame, tags, &mut Vec::new()), plain);
            }
            for len in 0..frame.len() {
                let _ = sender(&net, device, &frame[..len], &indexes);
            }
        }
    }

    #[test]
    fn frames_for_the_host_go_to_the_lower_port_with_vlan_tags() {
        let (net, indexes) = net();
        for (device, port, tags) in [
            ("a", "a", &[][..]),
            ("a.10", "a", &[0x81, 0, 0, 10]),
            ("a.5.7", "a", &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7]),
            // By the same port as the bridge's own frames come.
            ("br", "b", &[0x81, 0, 0, 10]),
        ] {
            let mut got = Vec::new();
            let link = net.link_by_name(device).expect(device);
            let up = way_up(&net, link, &indexes, &mut got);
            assert_eq!(
                (up.map(|index| net.name_of(index).to_string()), &got[..]),
                (Some(port.into()), tags)
            );
        }
    }
}
