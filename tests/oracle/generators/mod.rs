// SPDX-License-Identifier: Apache-2.0

//! Random scenarios of what most machines' kernels lack. The same seed gives the same scenario.

mod bridge_flow;
mod broute;
mod dccp;
mod flow_end;
mod flow_rules;
mod ipsec;
mod ipsec_flow;
mod pppoe_flow;
mod talk;
mod tc;
mod tunnel;
mod tunnel_flow;
mod vlan_bridge;
mod vlan_flow;

use crate::random::Kind;

/// All kinds.
pub const KINDS: [Kind; 12] = [
    Kind { names: &["random_dccp_"], scenario: dccp::scenario, share: 1 },
    Kind { names: &["random_tc_"], scenario: tc::scenario, share: 1 },
    Kind { names: &["random_vlan_flow_"], scenario: vlan_flow::scenario, share: 1 },
    Kind { names: &["random_vlan_bridge_"], scenario: vlan_bridge::scenario, share: 1 },
    Kind { names: &["random_broute_"], scenario: broute::scenario, share: 5 },
    Kind { names: &["random_tunnel_flow_"], scenario: tunnel_flow::scenario, share: 1 },
    Kind { names: &["random_pppoe_flow_"], scenario: pppoe_flow::scenario, share: 1 },
    Kind { names: &["random_bridge_flow_"], scenario: bridge_flow::scenario, share: 1 },
    Kind { names: &["random_flow_end_"], scenario: flow_end::scenario, share: 5 },
    Kind { names: &["random_ipsec_"], scenario: ipsec::scenario, share: 1 },
    Kind { names: &["random_tunnel_"], scenario: tunnel::scenario, share: 1 },
    Kind { names: &["random_ipsec_flow_"], scenario: ipsec_flow::scenario, share: 1 },
];
