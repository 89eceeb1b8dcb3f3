// SPDX-License-Identifier: Apache-2.0

//! Records of nfnetlink_log groups (`net/netfilter/nfnetlink_log.c`), as captures of
//! `LINKTYPE_NFLOG` have them.

use penstock_dataplane::LogRecord;
use penstock_packet::Packet;

/// Longest payload that nfnetlink_log copies unless the statement says less.
const COPY_RANGE: usize = 0xffff;

/// `enum nfulnl_attr_type`.
mod attribute {
    pub const PACKET_HDR: u16 = 1;
    pub const MARK: u16 = 2;
    pub const TIMESTAMP: u16 = 3;
    pub const IFINDEX_INDEV: u16 = 4;
    pub const IFINDEX_OUTDEV: u16 = 5;
    pub const IFINDEX_PHYSINDEV: u16 = 6;
    pub const IFINDEX_PHYSOUTDEV: u16 = 7;
    pub const HWADDR: u16 = 8;
    pub const PAYLOAD: u16 = 9;
    pub const PREFIX: u16 = 10;
    pub const UID: u16 = 11;
    pub const GID: u16 = 14;
    pub const HWTYPE: u16 = 15;
    pub const HWHEADER: u16 = 16;
    pub const HWLEN: u16 = 17;
    /// Nested (`NLA_F_NESTED`).
    pub const VLAN: u16 = 20 | 1 << 15;
    pub const L2HDR: u16 = 21;
    pub const VLAN_PROTO: u16 = 1;
    pub const VLAN_TCI: u16 = 2;
}

const NFPROTO_NETDEV: u8 = 5;
const NFPROTO_BRIDGE: u8 = 7;

/// An attribute: length and type in the byte order of the machine that captures, here always
/// little-endian as the capture is.
fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend_from_slice(&(value.len() as u16 + 4).to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// `__build_packet_message()`, from `struct nfgenmsg` on; it takes the place of what `out` has.
/// `time` is when the packet came, as the wall clock has it, in nanoseconds since the epoch.
pub fn record(group: u16, record: &LogRecord<'_>, packet: &Packet, time: u64, out: &mut Vec<u8>) {
    const FORWARD: u8 = 2;
    let (meta, link) = (&packet.meta, packet.link());
    let passage = record.passage();
    let (pf, hook) = (passage.family, passage.hook);
    out.clear();
    out.extend_from_slice(&[pf, 0]);
    out.extend_from_slice(&group.to_be_bytes());
    let [p0, p1] = meta.protocol.to_be_bytes();
    put(out, attribute::PACKET_HDR, &[p0, p1, hook, 0]);
    // A statement without a prefix has an empty one.
    let prefix = record.log.prefix.as_deref().unwrap_or_default();
    put(out, attribute::PREFIX, &[prefix.as_bytes(), &[0]].concat());
    for (device, port) in [
        (
            (attribute::IFINDEX_INDEV, passage.input),
            (attribute::IFINDEX_PHYSINDEV, passage.ports[0]),
        ),
        (
            (attribute::IFINDEX_OUTDEV, passage.output),
            (attribute::IFINDEX_PHYSOUTDEV, passage.ports[1]),
        ),
    ] {
        let ordered = if pf == NFPROTO_BRIDGE { [port, device] } else { [device, port] };
        for (kind, index) in ordered.into_iter().filter(|(_, index)| *index != 0) {
            put(out, kind, &index.to_be_bytes());
        }
    }
    if meta.mark != 0 {
        put(out, attribute::MARK, &meta.mark.to_be_bytes());
    }
    if let (Some(device), true) = (record.input, packet.has_link()) {
        if let Some(source) = link.get(6..12) {
            let mut address = [0; 12];
            address[1] = 6;
            address[4..10].copy_from_slice(source);
            put(out, attribute::HWADDR, &address);
        }
        put(out, attribute::HWTYPE, &device.hardware_type().to_be_bytes());
        put(out, attribute::HWLEN, &(link.len() as u16).to_be_bytes());
        put(out, attribute::HWHEADER, link);
    }
    if hook <= FORWARD {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(time / 1_000_000_000).to_be_bytes());
        bytes[8..].copy_from_slice(&(time % 1_000_000_000 / 1000).to_be_bytes());
        put(out, attribute::TIMESTAMP, &bytes);
    }
    if let Some((uid, gid)) = meta.owner {
        put(out, attribute::UID, &uid.to_be_bytes());
        put(out, attribute::GID, &gid.to_be_bytes());
    }
    if matches!(pf, NFPROTO_NETDEV | NFPROTO_BRIDGE) && packet.has_link() {
        if let Some(tag) = meta.vlan {
            let mut nested = Vec::new();
            put(&mut nested, attribute::VLAN_TCI, &tag.tci.to_be_bytes());
            put(&mut nested, attribute::VLAN_PROTO, &tag.protocol.to_be_bytes());
            put(out, attribute::VLAN, &nested);
        }
        put(out, attribute::L2HDR, link);
    }
    let bytes = if packet.data_start() < 0 { packet.frame() } else { packet.network() };
    let len =
        record.log.snaplen.map_or(COPY_RANGE, |n| (n as usize).min(COPY_RANGE)).min(bytes.len());
    if len > 0 {
        put(out, attribute::PAYLOAD, &bytes[..len]);
    }
}
