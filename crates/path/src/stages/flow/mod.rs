// SPDX-License-Identifier: Apache-2.0

//! Packets of flows that left the rules, and how flows leave them
//! (`net/netfilter/nf_flow_table_*.c`).

mod add;
mod around;
mod discover;
mod early;
mod hardware;
mod ingress;
mod ipsec;
mod to_wire;
mod ways;
