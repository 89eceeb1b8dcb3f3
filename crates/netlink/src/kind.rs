// SPDX-License-Identifier: Apache-2.0

//! What kind of link the kernel says that a link is (`IFLA_LINKINFO`, `<linux/if_link.h>`).

use penstock_net::{Bare, Bridge, LinkKind, Loopback, MulticastRouter, Snooping, Vlan, Wire};

use crate::message::Attributes;

const IFLA_LINK: u16 = 5;
const IFLA_LINK_NETNSID: u16 = 37;

const IFF_LOOPBACK: u32 = 8;

const ARPHRD_ETHER: u16 = 1;

/// Nanoseconds of a hundredth of a second, in which bridges count.
const CENTISECOND: u64 = 10_000_000;

/// Reads the kind with this name (`IFLA_INFO_KIND`) and settings (`IFLA_INFO_DATA`) of a link with
/// these attributes, flags (`IFF_*`) and hardware type (`ARPHRD_*`). Kinds without an entry here
/// are wires if they are Ethernet, and bare otherwise. `None` if the settings are missing.
pub(crate) fn read(
    name: &str,
    data: Option<Attributes<'_>>,
    link: &Attributes<'_>,
    flags: u32,
    hardware: u16,
) -> Option<LinkKind> {
    Some(match name {
        _ if flags & IFF_LOOPBACK != 0 => Loopback.into(),
        // The device below may be in another namespace, where its index is another's.
        "vlan" if link.get(IFLA_LINK_NETNSID).is_none() => vlan(link.u32(IFLA_LINK)?, data?).into(),
        "bridge" => data.map(bridge).unwrap_or_default().into(),
        name if hardware == ARPHRD_ETHER => Wire::new(name).into(),
        name => Bare { name: name.into(), hardware }.into(),
    })
}

fn vlan(lower: u32, data: Attributes<'_>) -> Vlan {
    const ID: u16 = 1;
    const EGRESS: u16 = 3;
    const INGRESS: u16 = 4;
    const PROTOCOL: u16 = 5;
    let mappings = |kind: u16| {
        let pairs = data.inside(kind).into_iter().flatten().filter_map(|(_, value)| {
            let (from, to) = value.split_first_chunk::<4>()?;
            Some((u32::from_ne_bytes(*from), u32::from_ne_bytes(*to.first_chunk()?)))
        });
        pairs.collect::<Vec<_>>()
    };
    Vlan {
        lower,
        protocol: data.u16(PROTOCOL).map_or(0x8100, u16::from_be),
        id: data.u16(ID).unwrap_or(0),
        ingress_qos: mappings(INGRESS).into_iter().map(|(from, to)| (from as u8, to)).collect(),
        egress_qos: mappings(EGRESS).into_iter().map(|(from, to)| (from, to as u8)).collect(),
    }
}

fn bridge(data: Attributes<'_>) -> Bridge {
    const AGEING: u16 = 4;
    const FILTERING: u16 = 7;
    const PROTOCOL: u16 = 8;
    const GROUP_FORWARD: u16 = 9;
    const NF_CALL_IPTABLES: u16 = 36;
    const NF_CALL_IP6TABLES: u16 = 37;
    const DEFAULT_PVID: u16 = 39;
    let mut bridge = Bridge::default();
    if let Some(ageing) = data.u32(AGEING) {
        bridge.ageing = u64::from(ageing) * CENTISECOND;
    }
    bridge.vlan_filtering = data.u8(FILTERING).is_some_and(|on| on != 0);
    bridge.vlan_protocol = data.u16(PROTOCOL).map_or(0x8100, u16::from_be);
    bridge.group_forward = data.u16(GROUP_FORWARD).unwrap_or(0);
    bridge.default_pvid = data.u16(DEFAULT_PVID).unwrap_or(1);
    bridge.snooping = snooping(data);
    bridge.call_ip = data.u8(NF_CALL_IPTABLES).is_some_and(|on| on != 0);
    bridge.call_ip6 = data.u8(NF_CALL_IP6TABLES).is_some_and(|on| on != 0);
    bridge
}

/// How a bridge snoops memberships (`IFLA_BR_MCAST_*`).
fn snooping(data: Attributes<'_>) -> Snooping {
    const ROUTER: u16 = 22;
    const SNOOPING: u16 = 23;
    const HASH_MAX: u16 = 27;
    const LAST_MEMBER_COUNT: u16 = 28;
    const LAST_MEMBER_INTERVAL: u16 = 30;
    const MEMBERSHIP_INTERVAL: u16 = 31;
    const QUERIER_INTERVAL: u16 = 32;
    let default = Snooping::default();
    let time = |kind: u16, default: u64| {
        data.u64(kind).map_or(default, |time| time.saturating_mul(CENTISECOND))
    };
    Snooping {
        on: data.u8(SNOOPING).map_or(default.on, |on| on != 0),
        router: data.u8(ROUTER).and_then(MulticastRouter::from_number).unwrap_or_default(),
        hash_max: data.u32(HASH_MAX).unwrap_or(default.hash_max),
        last_member_count: data.u32(LAST_MEMBER_COUNT).unwrap_or(default.last_member_count),
        last_member_interval: time(LAST_MEMBER_INTERVAL, default.last_member_interval),
        membership_interval: time(MEMBERSHIP_INTERVAL, default.membership_interval),
        querier_interval: time(QUERIER_INTERVAL, default.querier_interval),
    }
}
