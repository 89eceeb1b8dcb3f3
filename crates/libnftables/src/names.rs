// SPDX-License-Identifier: Apache-2.0

//! Names of this machine, without those of hosts.

use std::net::IpAddr;

use penstock_lang::names::Names;
use penstock_system::SystemNames;

/// Names of hosts stand for nothing; all others are the system's.
#[derive(Debug, Default)]
pub(crate) struct WithoutHosts(SystemNames);

impl Names for WithoutHosts {
    fn rest(&self) -> &dyn Names {
        &self.0
    }

    fn host_addresses(&self, _name: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}
