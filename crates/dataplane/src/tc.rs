// SPDX-License-Identifier: Apache-2.0

//! The tc stage: filters before ingress chains and after egress chains, and the queue of a device
//! (`sch_handle_ingress()`, `sch_handle_egress()`, `act_mirred.c`).

use std::sync::Arc;

use penstock_tc::{Config, Queues, State};

/// Traffic control of all devices, and what it remembers.
#[derive(Debug)]
pub(crate) struct Tc {
    pub(crate) config: Arc<Config>,
    pub(crate) filters: State,
    pub(crate) queues: Queues,
    /// Devices that packets are being sent on by filters, one because of the other.
    pub(crate) sending: Sending,
    /// The packet that is sent next comes from a filter: netfilter's egress does not see it
    /// (`nf_skip_egress`).
    pub(crate) skip_egress: bool,
}

impl Tc {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let (filters, queues) = (State::new(&config), Queues::new(&config));
        Tc { config, filters, queues, sending: Sending::default(), skip_egress: false }
    }

    /// Whether something may leave a queue by then.
    #[inline]
    pub(crate) fn is_due(&self, time: u64) -> bool {
        self.queues.is_due(time)
    }

    /// Frames that wait in queues.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.waiting()
    }

    /// Whether netfilter's egress sees the packet that is sent now.
    #[inline]
    pub(crate) fn egress_sees(&mut self) -> bool {
        !std::mem::take(&mut self.skip_egress)
    }
}

/// Devices that packets are being sent on, one because of the other (`sched_mirred_dev` of
/// `struct netdev_xmit`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sending {
    devices: [u32; Sending::MOST],
    len: usize,
}

impl Sending {
    /// How many there may be (`MIRRED_NEST_LIMIT`).
    const MOST: usize = 4;

    /// Whether there is no room for another.
    pub(crate) fn is_full(&self) -> bool {
        self.len == Self::MOST
    }

    /// Whether a device is among them.
    pub(crate) fn has(&self, device: u32) -> bool {
        self.devices[..self.len].contains(&device)
    }

    /// Adds a device, for which there is room.
    pub(crate) fn push(&mut self, device: u32) {
        self.devices[self.len] = device;
        self.len += 1;
    }

    /// Takes the last one away.
    pub(crate) fn pop(&mut self) {
        self.len -= 1;
    }
}
