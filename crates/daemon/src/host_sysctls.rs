// SPDX-License-Identifier: Apache-2.0

//! Sysctls of the host that packets follow, besides settings of devices: MTUs of paths, what packets
//! pass on bridges, and settings of connections and flows. The host keeps them; they are only read.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_dataplane::{LIVE_SYSCTLS, Settings};
use penstock_netlink::read_sysctls;

use crate::log;

/// Values by name.
pub(crate) type Values = Arc<[(&'static str, u32)]>;

/// Sysctls that are given for this dataplane, by name.
pub(crate) type Given = BTreeMap<String, u32>;

/// The name of a sysctl that can change between packets.
pub(crate) fn live(name: &str) -> Option<&'static str> {
    LIVE_SYSCTLS.into_iter().find(|live| *live == name)
}

/// What the host has, but for what is given by `--sysctl`.
pub(crate) struct HostSysctls {
    given: Given,
    names: Vec<&'static str>,
    values: Values,
}

impl HostSysctls {
    /// Reads them. Those that are given count instead of the host's.
    pub(crate) fn read(given: &Given) -> HostSysctls {
        let names: Vec<_> =
            LIVE_SYSCTLS.into_iter().filter(|name| !given.contains_key(*name)).collect();
        let values = Values::default();
        let mut host = HostSysctls { given: given.clone(), names, values };
        host.changed();
        host
    }

    /// Others are given from now on. The values that change by that: those that are given, and the
    /// host's of those that are given no longer.
    pub(crate) fn give(&mut self, given: &Given) -> Values {
        let before = std::mem::replace(self, HostSysctls::read(given));
        let others = given.iter().filter(|(name, value)| before.given.get(*name) != Some(value));
        let others = others.filter_map(|(name, value)| Some((live(name)?, *value)));
        let back = self.values.iter().filter(|(name, _)| before.given.contains_key(*name));
        others.chain(back.copied()).collect()
    }

    /// The values that were read last.
    pub(crate) fn values(&self) -> Values {
        self.values.clone()
    }

    /// Reads them again. The values that have changed, if there are some: others may have been set
    /// for this dataplane alone since (`nfct timeout default-set`).
    pub(crate) fn changed(&mut self) -> Option<Values> {
        let mut values = read_sysctls(&self.names);
        // Without br_netfilter packets on bridges pass no hooks of IP.
        let absent = |name: &&str| !values.iter().any(|(there, _)| there == name);
        let bridges = self.names.iter().filter(|name| name.starts_with("net.bridge."));
        let none: Vec<_> = bridges.copied().filter(absent).map(|name| (name, 0)).collect();
        values.extend(none);
        let values: Values = values.into();
        if values == self.values {
            return None;
        }
        let changed: Values =
            values.iter().filter(|now| !self.values.contains(now)).copied().collect();
        let mut settings = Settings::default();
        for (name, value) in changed.iter() {
            if settings.set_sysctl(name, *value).is_err() {
                log(format_args!("{name} = {value} of the host is not followed"));
            }
        }
        self.values = values;
        Some(changed)
    }
}
