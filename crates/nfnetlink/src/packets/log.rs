// SPDX-License-Identifier: Apache-2.0

//! The subsystem nfnetlink_log (`net/netfilter/nfnetlink_log.c`).

use penstock_ruleset::Errno;

use super::{BRIDGE, Bind, LogConfig, LoggedPacket, NETDEV, PacketListeners};
use crate::ctnetlink::write_glued;
use crate::message::{Check, DONE, Failure, Message, NESTED, Policy, Writer};
use crate::uapi::packets::*;

/// `NFNL_SUBSYS_ULOG`
pub const SUBSYSTEM: u8 = 4;

/// `nfula_cfg_policy`
const CONFIG: Policy = &[
    (NFULA_CFG_CMD, Check::Least(1)),
    (NFULA_CFG_MODE, Check::Least(6)),
    (NFULA_CFG_TIMEOUT, Check::U32),
    (NFULA_CFG_QTHRESH, Check::U32),
    (NFULA_CFG_NLBUFSIZ, Check::U32),
    (NFULA_CFG_FLAGS, Check::U16),
];

/// Families of loggers (`NFPROTO_NUMPROTO`).
const FAMILIES: u8 = 11;

/// `NF_INET_FORWARD`
const FORWARD: u8 = 2;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// What a program wants to be told of each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// The number of the packet among those of its group.
    pub sequence: Option<u32>,
    /// The number of the packet among all that are logged.
    pub global_sequence: Option<u32>,
}

/// Carries out a request. What it asks for is answered by an acknowledgement alone.
///
/// # Errors
/// The kernel's.
pub fn run(
    listeners: &mut dyn PacketListeners,
    port: u32,
    message: &Message<'_>,
) -> Result<(), Failure> {
    if message.number() != NFULNL_MSG_CONFIG {
        // Packets go the other way.
        return match message.number() {
            NFULNL_MSG_PACKET => Err(Errno::Enotsupp.into()),
            _ => Err(Failure::einval()),
        };
    }
    let given = message.attributes(CONFIG)?;
    let group = u16::from_be_bytes(message.resource());
    let mut asked = LogConfig::default();
    if let Some(command) = given.get(NFULA_CFG_CMD) {
        asked.bind = match command.u8() {
            CFG_CMD_BIND => Some(Bind::Begin),
            CFG_CMD_UNBIND => Some(Bind::End),
            // All families are logged already.
            CFG_CMD_PF_BIND if message.family() >= FAMILIES => {
                return Err(Failure::einval());
            }
            CFG_CMD_PF_BIND | CFG_CMD_PF_UNBIND => return Ok(()),
            _ => return Err(Errno::Enotsupp.into()),
        };
    }
    asked.flags = given.get(NFULA_CFG_FLAGS).map(|flags| flags.be16());
    if let Some(mode) = given.get(NFULA_CFG_MODE) {
        asked.copy = mode.payload.get(4).map(|copy| (*copy, mode.be32()));
    }
    asked.buffer = given.be32(NFULA_CFG_NLBUFSIZ);
    asked.threshold = given.be32(NFULA_CFG_QTHRESH);
    Ok(listeners.configure_log(port, group, &asked)?)
}

/// The message with a packet (`__build_packet_message()`).
pub fn write_logged(packet: &LoggedPacket, settings: LogSettings) -> Vec<u8> {
    let about = &packet.about;
    let mut to = Writer::default();
    let start = to.begin(u16::from(SUBSYSTEM) << 8 | u16::from(NFULNL_MSG_PACKET), 0, 0, 0);
    to.raw(&[about.family, 0]);
    to.raw(&packet.group.to_be_bytes());
    let [high, low] = about.protocol.to_be_bytes();
    to.attribute(NFULA_PACKET_HDR, &[high, low, about.hook, 0]);
    if let Some(prefix) = &packet.prefix {
        to.string(NFULA_PREFIX, prefix);
    }
    about.write_devices(
        &mut to,
        [
            [NFULA_IFINDEX_INDEV, NFULA_IFINDEX_PHYSINDEV],
            [NFULA_IFINDEX_OUTDEV, NFULA_IFINDEX_PHYSOUTDEV],
        ],
    );
    if about.mark != 0 {
        to.be32(NFULA_MARK, about.mark);
    }
    if about.input != 0 && !about.link.is_empty() {
        if let Some(source) = about.link.get(6..12) {
            let mut address = [0; 12];
            address[1] = 6;
            address[4..10].copy_from_slice(source);
            to.attribute(NFULA_HWADDR, &address);
        }
        to.be16(NFULA_HWTYPE, packet.hardware);
        to.be16(NFULA_HWLEN, about.link.len() as u16);
        to.attribute(NFULA_HWHEADER, &about.link);
    }
    if about.hook <= FORWARD {
        let mut time = [0; 16];
        time[..8].copy_from_slice(&(packet.time / SECOND).to_be_bytes());
        time[8..].copy_from_slice(&(packet.time % SECOND / 1000).to_be_bytes());
        to.attribute(NFULA_TIMESTAMP, &time);
    }
    if let Some((user, group)) = packet.owner {
        to.be32(NFULA_UID, user);
        to.be32(NFULA_GID, group);
    }
    if let Some(sequence) = settings.sequence {
        to.be32(NFULA_SEQ, sequence);
    }
    if let Some(sequence) = settings.global_sequence {
        to.be32(NFULA_SEQ_GLOBAL, sequence);
    }
    if let Some((flow, info)) = &about.connection {
        to.nest(NFULA_CT | NESTED, |to| write_glued(to, flow));
        to.be32(NFULA_CT_INFO, u32::from(*info));
    }
    if matches!(about.family, NETDEV | BRIDGE) {
        about.write_link(&mut to, NFULA_VLAN, NFULA_L2HDR);
    }
    if let Some(payload) = &about.payload {
        to.attribute(NFULA_PAYLOAD, payload);
    }
    to.end(start);
    to.finish()
}

/// The message after several packets in a datagram (`__nfulnl_send()`).
pub fn end_of_logged() -> Vec<u8> {
    let mut to = Writer::default();
    let start = to.begin(DONE, 0, 0, 0);
    to.raw(&[0; 4]);
    to.end(start);
    to.finish()
}
