// SPDX-License-Identifier: Apache-2.0

//! Scenarios by hand of what most machines' kernels lack.

mod bridge_vlan;
pub mod dccp;
mod event_masks;
mod events;
mod flowtable;
mod helpers;
mod ipsec;
mod log;
mod proxy;
mod queue;
pub mod sctp;
mod selftest;
mod tc;
mod tunnel;
mod tunnel_errors;
mod tunnel_kinds;
mod vlan;

pub use tunnel::NET as TUNNEL_NET;

use crate::frame::Frame;
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [
        flowtable::all(),
        vlan::all(),
        tunnel::all(),
        tunnel_errors::all(),
        ipsec::all(),
        events::all(),
        event_masks::all(),
        helpers::all(),
        queue::all(),
        log::all(),
        proxy::all(),
        sctp::all(),
        dccp::all(),
        selftest::all(),
        tc::all(),
        tunnel_kinds::all(),
        bridge_vlan::all(),
    ]
    .concat()
}

/// A scenario with frames, each with where it comes from.
fn sent(mut scenario: Scenario, frames: &[(&str, Frame)]) -> Scenario {
    for (source, frame) in frames {
        scenario = scenario.frame(source, frame);
    }
    scenario
}
