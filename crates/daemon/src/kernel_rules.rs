// SPDX-License-Identifier: Apache-2.0

//! Rules of the kernel's own netfilter, which packets of the host meet as well: those that the host
//! sends and receives by a TAP, and those that it forwards. Who starts a dataplane with the rules
//! that the kernel has already means to have them once.

use std::fs;

use penstock_netlink::nftables::{BaseChain, base_chains, family_name};

use crate::log;

/// Chains that are named; of more there is only the number.
const NAMED: usize = 6;

/// Says which ones there are.
pub(crate) fn tell() {
    // Without nf_tables in the kernel there are none.
    let chains = base_chains().unwrap_or_default();
    if !chains.is_empty() {
        let name = |c: &BaseChain| format!("{} {} {}", family_name(c.family), c.table, c.name);
        let mut names: Vec<_> = chains.iter().take(NAMED).map(name).collect();
        if chains.len() > NAMED {
            names.push(format!("{} more", chains.len() - NAMED));
        }
        log(format_args!(
            "the kernel has nftables rules of its own, which packets of the host meet as well ({}): `nft delete \
             table` removes them, --allow-kernel-rules leaves this out",
            names.join(", ")
        ));
    }
    for (file, program) in
        [("/proc/net/ip_tables_names", "iptables"), ("/proc/net/ip6_tables_names", "ip6tables")]
    {
        let tables = fs::read_to_string(file).unwrap_or_default();
        let tables: Vec<_> = tables.lines().collect();
        if !tables.is_empty() {
            log(format_args!(
                "the kernel has tables of {program}-legacy, which packets of the host meet as well ({}); \
                 --allow-kernel-rules leaves this out",
                tables.join(", ")
            ));
        }
    }
}
