// SPDX-License-Identifier: Apache-2.0

//! A network as a kernel has it: everything is given, nothing is concluded.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::config::{Config, Mode};
use crate::tables::Tables;
use crate::{
    Action, DevconfValues, Link, Mac, Network, Route, Rule, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN,
};

/// The state of a network namespace.
#[derive(Clone, Debug, Default)]
pub struct KernelState {
    /// Links with their addresses, in order of their indexes.
    pub links: Vec<Link>,
    /// IPv4 routes of all tables, those that the kernel made too, in the order of the dump.
    pub routes4: Vec<Route>,
    /// IPv6 routes.
    pub routes6: Vec<Route>,
    /// IPv4 rules.
    pub rules4: Vec<Rule>,
    /// IPv6 rules.
    pub rules6: Vec<Rule>,
    /// Resolved neighbours: link, address, link address.
    pub neighbours: Vec<(u32, IpAddr, Mac)>,
    /// IPsec policies, which the kernel carries out.
    pub policies: penstock_xfrm::Config,
    /// Settings of devices.
    pub devconf: KernelDevconf,
}

/// The settings of devices in a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDevconf {
    /// Those of `all`.
    pub all: DevconfValues,
    /// Those of links, by their indexes. Links that are not here have what a router has from the
    /// beginning.
    pub links: HashMap<u32, DevconfValues>,
}

impl Default for KernelDevconf {
    fn default() -> Self {
        KernelDevconf { all: DevconfValues::of_all(), links: HashMap::new() }
    }
}

/// Whether there are others than the rules that are there from the start.
fn custom(rules: &[Rule], standard: &[(u32, u32)]) -> bool {
    let plain = |(rule, &(priority, table)): (&Rule, &(u32, u32))| {
        *rule == Rule::all(priority, Action::Lookup(table))
    };
    rules.len() != standard.len() || !rules.iter().zip(standard).all(plain)
}

impl Network {
    /// The network of a namespace as its kernel says it is.
    pub fn from_kernel(state: KernelState) -> Network {
        let mut config = Config::new();
        let KernelState {
            links,
            routes4,
            routes6,
            mut rules4,
            mut rules6,
            neighbours,
            policies,
            devconf,
        } = state;
        rules4.sort_by_key(|r| r.priority);
        rules6.sort_by_key(|r| r.priority);
        config.links = links;
        config.xfrm = policies;
        config.unmerged =
            custom(&rules4, &[(0, TABLE_LOCAL), (32766, TABLE_MAIN), (32767, TABLE_DEFAULT)]);
        config.custom6 = custom(&rules6, &[(0, TABLE_LOCAL), (32766, TABLE_MAIN)]);
        (config.rules4, config.rules6) = (rules4, rules6);
        for (link, address, mac) in neighbours {
            // To replace is always possible.
            let _ = config.add_neighbour(link, address, mac, Mode::Replace);
        }
        let mut net = config.with_routes(Tables::new(routes4), Tables::new(routes6)).finish();
        let own = |link: &Link| devconf.links.get(&link.index).copied();
        let values = net.links().iter().map(|l| own(l).unwrap_or_else(DevconfValues::of_device));
        let values = values.collect();
        net.set_devconf(devconf.all, values);
        net
    }
}
