// SPDX-License-Identifier: Apache-2.0

//! Where a packet is, in the numbers of the kernel's messages about packets.

use penstock_net::Link;
use penstock_program::{Context, Family, Hook};

use crate::sink::{LogRecord, QueueRecord};

/// Where a packet is, as messages of nfnetlink_queue and nfnetlink_log have it. Devices are 0 if
/// there is none at the hook, or it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// `NFPROTO_*` of the chain.
    pub family: u8,
    /// `NF_INET_*`, `NF_NETDEV_*`, `NF_ARP_*` or `NF_BR_*` of the hook.
    pub hook: u8,
    /// Index of the device of arrival; of its bridge for a port in the bridge family.
    pub input: u32,
    /// Index of the device of departure; of its bridge for a port in the bridge family.
    pub output: u32,
    /// Indexes of the ports of a bridge that the packet came and leaves by, in the bridge family and
    /// at hooks of IP (`nf_bridge_get_physinif()`, `nf_bridge_get_physoutif()`).
    pub ports: [u32; 2],
}

impl Passage {
    fn new(context: Context, devices: [Option<&Link>; 2], ports: [Option<&Link>; 2]) -> Passage {
        let bridge = context.family == Family::Bridge;
        let pair = |device: Option<&Link>, port: Option<&Link>| match device {
            None => (0, 0),
            Some(device) => match device.port.as_ref().filter(|_| bridge) {
                Some(as_port) => (as_port.bridge, device.index),
                None => (device.index, port.map_or(0, |port| port.index)),
            },
        };
        let (input, arrived) = pair(devices[0], ports[0]);
        let (output, leaves) = pair(devices[1], ports[1]);
        let (family, hook) = (context.family as u8, hook_number(context));
        Passage { family, hook, input, output, ports: [arrived, leaves] }
    }
}

impl LogRecord<'_> {
    /// Where the packet was logged.
    pub fn passage(&self) -> Passage {
        Passage::new(self.context, [self.input, self.output], self.ports)
    }
}

impl QueueRecord<'_> {
    /// Where the packet is.
    pub fn passage(&self) -> Passage {
        Passage::new(self.context, [self.input, self.output], self.ports)
    }
}

fn hook_number(context: Context) -> u8 {
    match (context.family, context.hook) {
        (Family::Arp, Hook::Input) => 0,
        (Family::Arp, Hook::Output) => 1,
        (Family::Netdev, Hook::Egress) => 1,
        (Family::Netdev, _) => 0,
        (_, Hook::Prerouting) => 0,
        (_, Hook::Input) => 1,
        (_, Hook::Forward) => 2,
        (_, Hook::Output) => 3,
        (_, Hook::Postrouting) => 4,
        (_, Hook::Ingress | Hook::Egress) => 5,
    }
}
