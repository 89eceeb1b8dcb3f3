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
    /// Redirections that are being done, one because of the other.
    pub(crate) nested: u32,
    /// The packet that is sent next comes from a filter: netfilter's egress does not see it
    /// (`nf_skip_egress`).
    pub(crate) skip_egress: bool,
}

impl Tc {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let (filters, queues) = (State::new(&config), Queues::new(&config));
        Tc { config, filters, queues, nested: 0, skip_egress: false }
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
