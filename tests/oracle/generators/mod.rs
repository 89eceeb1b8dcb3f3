// SPDX-License-Identifier: Apache-2.0

//! Random scenarios of what most machines' kernels lack. The same seed gives the same scenario.

mod tc;
mod tunnel;
mod vlan_bridge;
mod vlan_flow;

use crate::random::Kind;

/// All kinds.
pub const KINDS: [Kind; 4] = [
    Kind { names: &["random_tc_"], scenario: tc::scenario, share: 1 },
    Kind { names: &["random_vlan_flow_"], scenario: vlan_flow::scenario, share: 1 },
    Kind { names: &["random_vlan_bridge_"], scenario: vlan_bridge::scenario, share: 1 },
    Kind { names: &["random_tunnel_"], scenario: tunnel::scenario, share: 1 },
];
