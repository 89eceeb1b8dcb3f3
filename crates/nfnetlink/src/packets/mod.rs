// SPDX-License-Identifier: Apache-2.0

//! Packets that rules give to programs (`queue`), and those that they log (`log group`): what
//! programs ask for, and what they get.

mod log;
mod queue;

use penstock_conntrack::Flow;
use penstock_ruleset::Errno;
use serde::{Deserialize, Serialize};

use crate::ctnetlink::VerdictChange;
use crate::message::{NESTED, Writer};
use crate::uapi::packets::{VLAN_PROTO, VLAN_TCI};

pub use log::{LogSettings, end_of_logged, write_logged};
pub use queue::write_queued;

pub(crate) use log::{SUBSYSTEM as SUBSYSTEM_LOG, run as run_log};
pub(crate) use queue::{SUBSYSTEM as SUBSYSTEM_QUEUE, is_quiet_verdict, run as run_queue};

/// `NFPROTO_NETDEV`
const NETDEV: u8 = 5;
/// `NFPROTO_BRIDGE`
const BRIDGE: u8 = 7;

/// Begins or ends the listening of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bind {
    /// It listens from now on.
    Begin,
    /// It does not listen any more.
    End,
}

/// What a program asks of a queue (`NFQNL_MSG_CONFIG`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueConfig {
    /// Begins or ends the listening.
    pub bind: Option<Bind>,
    /// How much of a packet it gets; as `NFQA_CFG_PARAMS` has it, which may be wrong.
    pub copy: Option<(u8, u32)>,
    /// How many packets may wait.
    pub length: Option<u32>,
    /// Bits of `NFQA_CFG_F_*`, and which of them count.
    pub flags: Option<(u32, u32)>,
}

/// A program's decision about packets of a queue (`NFQNL_MSG_VERDICT`, `NFQNL_MSG_VERDICT_BATCH`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueVerdict {
    /// The packet's number.
    pub id: u32,
    /// Also all earlier packets without a verdict.
    pub up_to: bool,
    /// `NF_*`: the verdict in the low half, its argument in the upper one.
    pub verdict: u32,
    /// New mark.
    pub mark: Option<u32>,
    /// New priority.
    pub priority: Option<u32>,
    /// New bytes from the network header on.
    pub payload: Option<Vec<u8>>,
    /// What becomes of the packet's connection (`NFQA_CT`).
    pub connection: Option<Box<VerdictChange>>,
    /// What becomes of the link layer of a bridged frame (`NFQA_VLAN`, `NFQA_L2HDR`).
    pub link: Option<Box<VerdictLink>>,
}

/// What a verdict says of the link layer of a bridged frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictLink {
    /// Its VLAN tag: protocol and `TCI`. `Some(None)` if one of them is missing.
    pub vlan: Option<Option<[u16; 2]>>,
    /// Its link header.
    pub header: Option<Box<[u8]>>,
}

/// What a program asks of a group (`NFULNL_MSG_CONFIG`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogConfig {
    /// Begins or ends the listening.
    pub bind: Option<Bind>,
    /// How much of a packet it gets; as `NFULA_CFG_MODE` has it, which may be wrong.
    pub copy: Option<(u8, u32)>,
    /// Bytes of a datagram.
    pub buffer: Option<u32>,
    /// How many packets go into a datagram at most.
    pub threshold: Option<u32>,
    /// Bits of `NFULNL_CFG_F_*`.
    pub flags: Option<u16>,
}

/// What is known of a packet, whether it was logged or is in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// `NFPROTO_*` of the chain.
    pub family: u8,
    /// `NF_INET_*` or the like.
    pub hook: u8,
    /// Ethertype.
    pub protocol: u16,
    /// Mark.
    pub mark: u32,
    /// Index of the device of arrival, in the bridge family of the bridge; 0 for none.
    pub input: u32,
    /// Index of the device of departure, in the bridge family of the bridge; 0 for none.
    pub output: u32,
    /// Indexes of the ports of a bridge that it came and leaves by, 0 for none.
    pub ports: [u32; 2],
    /// The link header of arrival, empty if there is none.
    pub link: Vec<u8>,
    /// The tag that was taken out of the link header: its protocol, and priority and VLAN id.
    pub vlan: Option<[u16; 2]>,
    /// The packet's connection, and how it belongs to it (`enum ip_conntrack_info`).
    pub connection: Option<(Box<Flow>, u8)>,
    /// Length from the network header on.
    pub len: u32,
    /// Bytes from the network header on; `None` for none.
    pub payload: Option<Vec<u8>>,
}

impl About {
    /// Writes the devices of the packet. `kinds` are the attributes for device and port of arrival,
    /// and for those of departure.
    fn write_devices(&self, to: &mut Writer, kinds: [[u16; 2]; 2]) {
        let [arrived, leaves] = self.ports;
        for ([device, port], indexes) in
            kinds.into_iter().zip([[self.input, arrived], [self.output, leaves]])
        {
            let mut pairs = [(device, indexes[0]), (port, indexes[1])];
            if self.family == BRIDGE {
                pairs.reverse();
            }
            for (kind, index) in pairs.into_iter().filter(|(_, index)| *index != 0) {
                to.be32(kind, index);
            }
        }
    }

    /// Writes tag and link header (`nfqnl_put_bridge()`, `nfulnl_put_bridge()`, whose nested
    /// attributes have the same numbers).
    fn write_link(&self, to: &mut Writer, vlan: u16, header: u16) {
        if self.link.is_empty() {
            return;
        }
        if let Some([protocol, tci]) = self.vlan {
            to.nest(vlan | NESTED, |to| {
                to.be16(VLAN_TCI, tci);
                to.be16(VLAN_PROTO, protocol);
            });
        }
        to.attribute(header, &self.link);
    }
}

/// A packet in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedPacket {
    /// Its number.
    pub id: u32,
    /// The queue.
    pub queue: u16,
    /// Priority.
    pub priority: u32,
    /// It is a super-packet, and its checksum is not there.
    pub gso: bool,
    /// What else is known.
    pub about: About,
}

/// A packet that was logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedPacket {
    /// The group.
    pub group: u16,
    /// The rule's prefix.
    pub prefix: Option<std::sync::Arc<str>>,
    /// When it was logged, in nanoseconds since the epoch.
    pub time: u64,
    /// `ARPHRD_*` of the device that it is on.
    pub hardware: u16,
    /// User and group of the socket that it is from.
    pub owner: Option<(u32, u32)>,
    /// What else is known.
    pub about: About,
}

/// What listens to packets. Each call is checked as in the kernel.
///
/// # Errors
/// Those of `nfnetlink_queue.c` and `nfnetlink_log.c`.
pub trait PacketListeners {
    /// A socket with a port id asks something of a queue: `EBUSY` if another one has it when it
    /// begins, `EPERM` if another one has it, `ENODEV` if nobody has, `EOPNOTSUPP` for flags that
    /// are not there. A mode of `copy` that is none changes nothing.
    fn configure_queue(&mut self, port: u32, queue: u16, asked: &QueueConfig) -> Result<(), Errno>;

    /// A socket with a port id decides about packets: `ENOENT` if there is none.
    fn decide(&mut self, port: u32, queue: u16, verdict: QueueVerdict) -> Result<(), Errno>;

    /// Whether a socket with a port id may decide about packets of a queue: `ENODEV` if nobody has
    /// it, `EPERM` if another one has.
    fn may_decide(&mut self, port: u32, queue: u16) -> Result<(), Errno>;

    /// A socket with a port id asks something of a group of logged packets, with the errors of
    /// [`PacketListeners::configure_queue`].
    fn configure_log(&mut self, port: u32, group: u16, asked: &LogConfig) -> Result<(), Errno>;
}
