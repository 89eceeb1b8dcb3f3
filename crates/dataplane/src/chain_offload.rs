// SPDX-License-Identifier: Apache-2.0

//! Chains with `flags offload`: which devices are to run them.

use std::sync::Arc;

use penstock_net::Network;
use penstock_program::Hook;
use penstock_ruleset::link::{CannotOffload, Linked, LinkedBase, OffloadPart};

impl<'a> OffloadedChain<'a> {
    /// Chains of a generation that devices are to run, in order of tables and chains.
    pub fn all(linked: &'a Linked) -> impl Iterator<Item = OffloadedChain<'a>> {
        let wanted = |b: &&LinkedBase| b.base.offload && b.base.hook == Hook::Ingress;
        linked.bases.iter().filter(wanted).map(move |base| OffloadedChain { linked, base })
    }

    /// Whether a device of this name is to run it.
    pub fn is_for(&self, device: &str) -> bool {
        self.base.base.names_device(device)
    }

    /// Name of its table.
    pub fn table(&self) -> Arc<str> {
        self.linked.image.table_of(self.base.chain).map(|t| t.name.clone()).unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> Arc<str> {
        self.linked.image.chain(self.base.chain).map(|c| c.name.clone()).unwrap_or_default()
    }
}

/// A chain that devices are to run.
#[derive(Clone, Copy, Debug)]
pub struct OffloadedChain<'a> {
    linked: &'a Linked,
    /// Where it is registered.
    pub base: &'a LinkedBase,
}

/// Whether all devices that are to run chains can, if these (by index) can.
///
/// # Errors
/// One cannot.
pub fn can_run_chains(
    net: &Network,
    linked: &Linked,
    devices: &[u32],
) -> Result<(), CannotOffload> {
    for chain in OffloadedChain::all(linked) {
        let mut wanted = net.links().iter().filter(|link| chain.is_for(&link.name));
        if let Some(link) = wanted.find(|link| !devices.contains(&link.index)) {
            let reason = "it runs no programs".to_owned();
            let part = OffloadPart::Chain { chain: chain.name(), rule: None, reason };
            let (family, table) = (chain.base.family, chain.table());
            let place = format!("device {}", link.name);
            return Err(CannotOffload { family, table, part, place });
        }
    }
    Ok(())
}
