// SPDX-License-Identifier: Apache-2.0

//! Links (`RTM_NEWLINK`, `<linux/if_link.h>`).

use std::sync::Arc;

use penstock_net::{BridgePort, Link, Mac, MulticastRouter};

use crate::kind;
use crate::message::{Attributes, Message};

/// Bytes of `struct ifinfomsg`.
pub(crate) const HEAD: usize = 16;

const IFLA_ADDRESS: u16 = 1;
const IFLA_BROADCAST: u16 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_GROUP: u16 = 27;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_CARRIER: u16 = 33;
const IFLA_AF_SPEC: u16 = 26;

const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const INFO_SLAVE_KIND: u16 = 4;
const INFO_SLAVE_DATA: u16 = 5;

const IFF_UP: u32 = 1;
const IFF_NOARP: u32 = 0x80;
const IFF_PROMISC: u32 = 0x100;
const IFF_ALLMULTI: u32 = 0x200;
const IFF_MULTICAST: u32 = 0x1000;

const ARPHRD_ETHER: u16 = 1;
const AF_INET6: u16 = 10;

/// The bridge that a device is a port of, and how, as attributes of a message that would make it
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// Index of the bridge, or of another device that has it.
    pub index: u32,
    /// What kind of device that is.
    pub kind: String,
}

/// A link with what only its owner asks about.
#[derive(Clone, Debug)]
pub struct Device {
    /// The link without its addresses.
    pub link: Link,
    /// It has Ethernet frames.
    pub ethernet: bool,
    /// Queues that receive.
    pub queues: u32,
    /// Whether the link has a carrier.
    pub carrier: bool,
    /// `IFLA_TXQLEN`
    pub queue_len: u32,
    /// What it is a part of.
    pub master: Option<Master>,
    /// As a port of a bridge: its settings, as attributes of a message that would make them.
    pub port_settings: Vec<u8>,
    /// `IFLA_INET6_ADDR_GEN_MODE`: how it makes its link-local address.
    pub generate: u8,
    /// What it is as a TAP.
    pub tap: Option<TapLink>,
}

/// A TAP as its last user, or its maker, has left it (`IFLA_TUN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapLink {
    /// Its file has its own header before frames.
    pub packet_info: bool,
    /// Its file has a virtio-net header before frames.
    pub vnet_header: bool,
    /// It may have several queues.
    pub several: bool,
    /// Queues that programs have open, as far as the kernel tells: not of one that has one queue
    /// only.
    pub open: u32,
}

fn mac(bytes: &[u8]) -> Mac {
    bytes.first_chunk().map_or_else(Mac::default, |b| Mac(*b))
}

/// Reads a link; `None` for what is none, or a bridge's view of one.
pub(crate) fn read(message: &Message) -> Option<Device> {
    let head = message.head::<HEAD>()?;
    if head[0] != 0 {
        return None;
    }
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let hardware = u16::from_ne_bytes([head[2], head[3]]);
    let (index, flags) = (word(4), word(8));
    let all = message.attributes(HEAD);
    let info = all.inside(IFLA_LINKINFO);
    let kind_name = info.and_then(|i| i.text(INFO_KIND)).unwrap_or_default();
    let data = info.and_then(|i| i.inside(INFO_DATA));
    let kind = kind::read(kind_name, data, &all, flags, hardware)?;
    let slave = info.and_then(|i| i.text(INFO_SLAVE_KIND)).unwrap_or_default();
    let master = all
        .u32(IFLA_MASTER)
        .filter(|m| *m != 0)
        .map(|index| Master { index, kind: slave.to_owned() });
    let port = match &master {
        Some(master) if slave == "bridge" => {
            Some(port(master.index, info.and_then(|i| i.inside(INFO_SLAVE_DATA))))
        }
        _ => None,
    };
    let v6 = all.inside(IFLA_AF_SPEC).and_then(|s| s.inside(AF_INET6));
    /// `IFLA_INET6_ADDR_GEN_MODE`
    const GENERATE: u16 = 8;
    let generate = v6.and_then(|s| s.u8(GENERATE)).unwrap_or(0);
    let link = Link {
        index,
        name: all.text(IFLA_IFNAME)?.into(),
        kind,
        port,
        mac: all.get(IFLA_ADDRESS).map_or_else(Mac::default, mac),
        mac_inherited: false,
        broadcast: all.get(IFLA_BROADCAST).map_or_else(Mac::default, mac),
        mtu: all.u32(IFLA_MTU).unwrap_or(1500),
        up: flags & IFF_UP != 0,
        arp: flags & IFF_NOARP == 0,
        promiscuous: flags & IFF_PROMISC != 0,
        all_multicast: flags & IFF_ALLMULTI != 0,
        multicast: flags & IFF_MULTICAST != 0,
        group: all.u32(IFLA_GROUP).unwrap_or(0),
        addrgenmode: generate != 1,
        alias: all.text(IFLA_IFALIAS).map(Arc::from),
        addresses4: Vec::new(),
        addresses6: Vec::new(),
        conf: Default::default(),
    };
    Some(Device {
        tap: data.filter(|_| kind_name == "tun").and_then(tap),
        link,
        ethernet: hardware == ARPHRD_ETHER,
        queues: all.u32(IFLA_NUM_RX_QUEUES).unwrap_or(1),
        carrier: all.u8(IFLA_CARRIER) != Some(0),
        queue_len: all.u32(IFLA_TXQLEN).unwrap_or(1000),
        port_settings: match slave {
            "bridge" => {
                info.and_then(|i| i.inside(INFO_SLAVE_DATA)).map(settings).unwrap_or_default()
            }
            _ => Vec::new(),
        },
        master,
        generate,
    })
}

fn tap(data: Attributes<'_>) -> Option<TapLink> {
    const TYPE: u16 = 3;
    const PACKET_INFO: u16 = 4;
    const VNET_HEADER: u16 = 5;
    const SEVERAL: u16 = 7;
    const QUEUES: u16 = 8;
    const DISABLED: u16 = 9;
    /// `IFF_TAP`
    const TAP: u8 = 2;
    let on = |kind: u16| data.u8(kind).is_some_and(|on| on != 0);
    (data.u8(TYPE) == Some(TAP)).then(|| TapLink {
        packet_info: on(PACKET_INFO),
        vnet_header: on(VNET_HEADER),
        several: on(SEVERAL),
        open: data.u32(QUEUES).unwrap_or(0) + data.u32(DISABLED).unwrap_or(0),
    })
}

/// The settings of a bridge port that can be given to another (`IFLA_BRPORT_*`): hairpin, guard,
/// root block, fast leave, learning, floods, proxies, forwarded groups, suppression, isolation,
/// locks.
fn settings(data: Attributes<'_>) -> Vec<u8> {
    const SETTABLE: [u16; 16] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 27, 30, 31, 32, 33, 39];
    let mut out = Vec::new();
    for (kind, value) in data.filter(|(kind, _)| SETTABLE.contains(kind)) {
        crate::message::put(&mut out, kind, value);
    }
    out
}

fn port(bridge: u32, data: Option<Attributes<'_>>) -> BridgePort {
    const HAIRPIN: u16 = 4;
    const FAST_LEAVE: u16 = 7;
    const LEARNING: u16 = 8;
    const FLOOD: u16 = 9;
    const MCAST_ROUTER: u16 = 25;
    const MCAST_FLOOD: u16 = 27;
    const BCAST_FLOOD: u16 = 30;
    const GROUP_FORWARD: u16 = 31;
    const ISOLATED: u16 = 33;
    const LOCKED: u16 = 39;
    let mut port = BridgePort::new(bridge, 1);
    let Some(data) = data else { return port };
    let on = |kind: u16, before: bool| data.u8(kind).map_or(before, |value| value != 0);
    port.hairpin = on(HAIRPIN, port.hairpin);
    port.learning = on(LEARNING, port.learning);
    port.flood = on(FLOOD, port.flood);
    port.mcast_flood = on(MCAST_FLOOD, port.mcast_flood);
    port.bcast_flood = on(BCAST_FLOOD, port.bcast_flood);
    port.isolated = on(ISOLATED, port.isolated);
    port.locked = on(LOCKED, port.locked);
    port.fast_leave = on(FAST_LEAVE, port.fast_leave);
    // A temporary one is one that is learned.
    port.mcast_router =
        data.u8(MCAST_ROUTER).and_then(MulticastRouter::from_number).unwrap_or_default();
    port.group_forward = data.u16(GROUP_FORWARD).unwrap_or(0);
    port
}
