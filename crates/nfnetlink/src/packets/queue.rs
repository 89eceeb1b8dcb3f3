// SPDX-License-Identifier: Apache-2.0

//! The subsystem nfnetlink_queue (`net/netfilter/nfnetlink_queue.c`).

use penstock_ruleset::Errno;

use super::{BRIDGE, Bind, PacketListeners, QueueConfig, QueueVerdict, QueuedPacket, VerdictLink};
use crate::ctnetlink::{VerdictChange, write_glued};
use crate::message::{Attributes, Check, Failure, Message, NESTED, Policy, Writer, flags};
use crate::uapi::packets::*;

/// `NFNL_SUBSYS_QUEUE`
pub const SUBSYSTEM: u8 = 3;

/// `nfqa_cfg_policy`
const CONFIG: Policy = &[
    (NFQA_CFG_CMD, Check::Least(4)),
    (NFQA_CFG_PARAMS, Check::Least(5)),
    (NFQA_CFG_QUEUE_MAXLEN, Check::U32),
    (NFQA_CFG_MASK, Check::U32),
    (NFQA_CFG_FLAGS, Check::U32),
];
/// `nfqa_verdict_policy`
const VERDICT: Policy = &[
    (NFQA_VERDICT_HDR, Check::Least(8)),
    (NFQA_MARK, Check::U32),
    (NFQA_PAYLOAD, Check::Any),
    (NFQA_CT, Check::Any),
    (NFQA_EXP, Check::Any),
    (NFQA_VLAN, Check::Nested),
    (NFQA_L2HDR, Check::Any),
    (NFQA_PRIORITY, Check::U32),
];
/// `nfqa_verdict_batch_policy`
const BATCH: Policy =
    &[(NFQA_VERDICT_HDR, Check::Least(8)), (NFQA_MARK, Check::U32), (NFQA_PRIORITY, Check::U32)];

/// `NF_VERDICT_MASK`
const VERDICT_MASK: u32 = 0xff;
/// `NF_STOLEN`
const STOLEN: u32 = 2;
/// `NF_MAX_VERDICT`
const MOST: u32 = 5;

/// Carries out a request. What it asks for is answered by an acknowledgement alone.
///
/// # Errors
/// The kernel's.
pub fn run(
    listeners: &mut dyn PacketListeners,
    port: u32,
    message: &Message<'_>,
) -> Result<(), Failure> {
    let queue = u16::from_be_bytes(message.resource());
    match message.number() {
        NFQNL_MSG_CONFIG => match read_config(message)? {
            Some(asked) => Ok(listeners.configure_queue(port, queue, &asked)?),
            None => Ok(()),
        },
        NFQNL_MSG_VERDICT => {
            let given = message.attributes(VERDICT)?;
            let verdict = read_verdict(&given);
            let payload = given.get(NFQA_PAYLOAD).map(|bytes| bytes.payload.to_vec());
            // A change that cannot be read is none.
            let connection = given.get(NFQA_CT).and_then(|nest| {
                let expected = given.get(NFQA_EXP);
                VerdictChange::read(nest, expected).ok()
            });
            let connection = connection.map(Box::new);
            let link = read_link(&given);
            let whole = verdict.map(|read| QueueVerdict { payload, connection, link, ..read });
            decide(listeners, (port, queue), whole)
        }
        NFQNL_MSG_VERDICT_BATCH => {
            let read = read_verdict(&message.attributes(BATCH)?);
            decide(listeners, (port, queue), read.map(|r| QueueVerdict { up_to: true, ..r }))
        }
        // Packets go the other way.
        NFQNL_MSG_PACKET => Err(Errno::Enotsupp.into()),
        _ => Err(Failure::einval()),
    }
}

/// Decides about packets. Whether the socket may do so at all is checked before the verdict is.
fn decide(
    listeners: &mut dyn PacketListeners,
    (port, queue): (u32, u16),
    verdict: Result<QueueVerdict, Failure>,
) -> Result<(), Failure> {
    match verdict {
        Ok(verdict) => Ok(listeners.decide(port, queue, verdict)?),
        Err(failure) => {
            listeners.may_decide(port, queue)?;
            Err(failure)
        }
    }
}

/// What is asked of a queue; `None` for what is about families (`nfqnl_recv_config()`).
fn read_config(message: &Message<'_>) -> Result<Option<QueueConfig>, Failure> {
    let given = message.attributes(CONFIG)?;
    let mut asked = QueueConfig::default();
    if let Some(command) = given.get(NFQA_CFG_CMD) {
        asked.bind = match command.u8() {
            CFG_CMD_BIND => Some(Bind::Begin),
            CFG_CMD_UNBIND => Some(Bind::End),
            // Families have had their handlers since Linux 3.8.
            CFG_CMD_PF_BIND | CFG_CMD_PF_UNBIND => return Ok(None),
            _ => return Err(Errno::Eopnotsupp.into()),
        };
    }
    if let Some(flags) = given.be32(NFQA_CFG_FLAGS) {
        // Which of them count has to be said.
        let mask = given.be32(NFQA_CFG_MASK).ok_or(Failure::einval())?;
        asked.flags = Some((flags, mask));
    }
    if let Some(params) = given.get(NFQA_CFG_PARAMS) {
        asked.copy = params.payload.get(4).map(|mode| (*mode, params.be32()));
    }
    asked.length = given.be32(NFQA_CFG_QUEUE_MAXLEN);
    Ok(Some(asked))
}

/// `verdicthdr_get()`
fn read_verdict(given: &Attributes<'_>) -> Result<QueueVerdict, Failure> {
    let header = given.need(NFQA_VERDICT_HDR).map_err(Failure::blaming_nothing)?;
    let id = header.payload.get(4..8).and_then(|id| id.first_chunk());
    let (verdict, id) = (header.be32(), id.map_or(0, |id| u32::from_be_bytes(*id)));
    let kind = verdict & VERDICT_MASK;
    if kind > MOST || kind == STOLEN {
        return Err(Failure::einval());
    }
    Ok(QueueVerdict {
        id,
        up_to: false,
        verdict,
        mark: given.be32(NFQA_MARK),
        priority: given.be32(NFQA_PRIORITY),
        payload: None,
        connection: None,
        link: None,
    })
}

/// What a verdict says of the link layer (`nfqa_parse_bridge()`).
fn read_link(given: &Attributes<'_>) -> Option<Box<VerdictLink>> {
    let vlan = given.get(NFQA_VLAN).map(|nest| {
        let tag = nest.attributes(&[(VLAN_PROTO, Check::U16), (VLAN_TCI, Check::U16)]).ok()?;
        Some([tag.get(VLAN_PROTO)?.be16(), tag.get(VLAN_TCI)?.be16()])
    });
    let header = given.get(NFQA_L2HDR).map(|header| header.payload.into());
    (vlan.is_some() || header.is_some()).then(|| Box::new(VerdictLink { vlan, header }))
}

/// The message with a packet (`nfqnl_build_packet_message()`).
pub fn write_queued(packet: &QueuedPacket) -> Vec<u8> {
    let about = &packet.about;
    let mut to = Writer::default();
    let start = to.begin(u16::from(SUBSYSTEM) << 8 | u16::from(NFQNL_MSG_PACKET), 0, 0, 0);
    to.raw(&[about.family, 0]);
    to.raw(&packet.queue.to_be_bytes());
    let mut header = [0; 7];
    header[..4].copy_from_slice(&packet.id.to_be_bytes());
    header[4..6].copy_from_slice(&about.protocol.to_be_bytes());
    header[6] = about.hook;
    to.attribute(NFQA_PACKET_HDR, &header);
    let number = |to: &mut Writer, kind, value: u32| {
        if value != 0 {
            to.be32(kind, value);
        }
    };
    about.write_devices(
        &mut to,
        [
            [NFQA_IFINDEX_INDEV, NFQA_IFINDEX_PHYSINDEV],
            [NFQA_IFINDEX_OUTDEV, NFQA_IFINDEX_PHYSOUTDEV],
        ],
    );
    number(&mut to, NFQA_MARK, about.mark);
    number(&mut to, NFQA_PRIORITY, packet.priority);
    if about.input != 0
        && let Some(source) = about.link.get(6..12)
    {
        let mut address = [0; 12];
        address[1] = 6;
        address[4..10].copy_from_slice(source);
        to.attribute(NFQA_HWADDR, &address);
    }
    if about.family == BRIDGE {
        about.write_link(&mut to, NFQA_VLAN, NFQA_L2HDR);
    }
    if let Some((flow, info)) = &about.connection {
        to.nest(NFQA_CT | NESTED, |to| write_glued(to, flow));
        to.be32(NFQA_CT_INFO, u32::from(*info));
    }
    let payload = about.payload.as_deref();
    if payload.is_some_and(|payload| (payload.len() as u32) < about.len) {
        to.be32(NFQA_CAP_LEN, about.len);
    }
    if packet.gso {
        to.be32(NFQA_SKB_INFO, NFQA_SKB_CSUMNOTREADY | NFQA_SKB_GSO);
    }
    if let Some(payload) = payload {
        to.attribute(NFQA_PAYLOAD, payload);
    }
    to.end(start);
    to.finish()
}

/// Whether a message is a verdict that is answered only if it is refused.
pub fn is_quiet_verdict(message: &Message<'_>) -> bool {
    message.subsystem() == SUBSYSTEM
        && matches!(message.number(), NFQNL_MSG_VERDICT | NFQNL_MSG_VERDICT_BATCH)
        && !message.header.has(flags::ACK)
}
