// SPDX-License-Identifier: Apache-2.0

//! Names that texts of rules may mention: devices of the network, and what the machine knows.

use std::sync::Arc;

use penstock_lang::names::{Names, NoNames};
use penstock_system::SystemNames;

/// Devices are those of a network and no others. Everything else (services, protocols, users) is
/// known as the machine knows it, or not at all.
#[derive(Debug)]
pub(crate) struct NetworkNames {
    pub(crate) network: Arc<penstock_net::Network>,
    system: Option<SystemNames>,
}

impl NetworkNames {
    /// These names with the devices of another network.
    pub(crate) fn of(&self, network: Arc<penstock_net::Network>) -> Self {
        NetworkNames::new(network, self.system.is_some())
    }

    pub(crate) fn new(network: Arc<penstock_net::Network>, system: bool) -> Self {
        NetworkNames { network, system: system.then(SystemNames::default) }
    }
}

impl Names for NetworkNames {
    fn rest(&self) -> &dyn Names {
        match &self.system {
            Some(system) => system,
            None => &NoNames,
        }
    }

    fn interface_index(&self, name: &str) -> Option<u32> {
        self.network.link_by_name(name).map(|link| link.index)
    }

    fn interface_name(&self, index: u32) -> Option<String> {
        self.network.link(index).map(|link| link.name.to_string())
    }
}
