// SPDX-License-Identifier: Apache-2.0

//! Flows that a device forwards and that a change of the network invalidates.

use penstock_flowtable::state;
use penstock_program::image::FlowtableIndex;

use crate::flow::Flows;
use crate::flow::table::Cause;
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Ends offloaded flows with outdated routes: none of their packets would show that here
    /// (`nf_flow_is_outdated()`). Some with each call.
    #[inline]
    pub(crate) fn recheck_hardware(&mut self, now: u64) {
        if self.state.flows.recheck.is_some() {
            self.recheck_some(now);
        }
    }

    #[cold]
    fn recheck_some(&mut self, now: u64) {
        /// Flows that are looked at in one go.
        const BUDGET: usize = 256;
        let Some((mut index, mut flow)) = self.state.flows.recheck.take() else { return };
        for _ in 0..BUDGET {
            let network = self.state.flows.network;
            let Some(table) = self.state.flows.table(index) else { return };
            if flow >= table.flows.end() {
                (index, flow) = (FlowtableIndex(index.0 + 1), 0);
                continue;
            }
            let half = table.flows.live(flow);
            let offered = state::HARDWARE | state::PENDING;
            let in_hardware =
                half.is_some_and(|half| half.network != network && half.state & offered != 0);
            if in_hardware && !self.flow_holds(index, flow) {
                self.state.flows.end_flow(
                    &mut self.state.conntrack,
                    index,
                    flow,
                    Cause::TornDown,
                    now,
                );
                let Flows { tables, hardware, .. } = &mut self.state.flows;
                if let (Some(table), Some(hardware)) = (tables.get_mut(index.0 as usize), hardware)
                {
                    table.tend(hardware, flow, now);
                }
            }
            flow += 1;
        }
        self.state.flows.recheck = Some((index, flow));
    }
}
