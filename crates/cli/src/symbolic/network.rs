// SPDX-License-Identifier: Apache-2.0

//! The network that packets are followed through, and the ways through it.

use std::path::Path;
use std::sync::Arc;

use penstock_lang::names::Names;
use penstock_net::{Link, Network};
use penstock_symbolic::{Bound, Device, Start, Way};

use super::Settings;
use super::hooks::bound;
use super::load::{Devices, Loaded};
use crate::recognise::{self, hinted, hinted_by};
use crate::setup::{read, with_sysctls};

/// Reads a network, with the settings of its devices.
///
/// # Errors
/// What is wrong in it, with its line.
pub fn network(file: &Path, settings: &Settings) -> Result<Arc<Network>, String> {
    let text = read(file).map_err(|e| hinted(&e, file, recognise::Given::Net))?;
    network_of(file, &text, &settings.sysctls)
}

/// A network of a text that is from a file, with the settings of its devices.
///
/// # Errors
/// What is wrong in it, with its line.
pub fn network_of(
    file: &Path,
    text: &str,
    sysctls: &[(String, u32)],
) -> Result<Arc<Network>, String> {
    let given = recognise::Given::Net;
    let net = Network::from_batch(&file.display().to_string(), text)
        .map_err(|e| hinted_by(&format!("Error: {e}"), file, text.as_bytes(), given))?;
    if !net.xfrm().is_empty() {
        return Err(format!(
            "Error: {}: it has IPsec, which is not evaluated on a way through a network",
            file.display()
        ));
    }
    Ok(Arc::new(with_sysctls(net, file, sysctls)?))
}

/// Whether a VLAN device stands on a bridge.
fn stands_on_bridge(net: &Network, link: &Link) -> bool {
    let mut at = Some(link);
    while let Some(link) = at {
        if link.bridge().is_some() {
            return true;
        }
        at = link.vlan().and_then(|vlan| net.link(vlan.lower));
    }
    false
}

impl Loaded {
    /// The ruleset in a network.
    ///
    /// # Errors
    /// There are bridges that no way through it can be evaluated with.
    pub fn on(self, network: Option<Arc<Network>>) -> Result<Loaded, String> {
        let Some(net) = &network else { return Ok(self) };
        for link in net.links() {
            let on_bridge = |why: &str| {
                Err(format!(
                    "Error: {} {why}, which is not evaluated on a way through a network",
                    link.name
                ))
            };
            if let Some(bridge) = link.bridge() {
                if bridge.call_ip || bridge.call_ip6 {
                    return on_bridge("passes packets to chains of IP (nf_call_iptables)");
                }
                if link.promiscuous {
                    return on_bridge("is a bridge that takes frames for others (promisc)");
                }
            }
            if link.port.is_some() && stands_on_bridge(net, link) {
                return on_bridge("is a port of a bridge and stands on another one");
            }
        }
        Ok(Loaded { network, ..self })
    }

    /// The same ruleset in a network.
    ///
    /// # Errors
    /// There are bridges that no way through it can be evaluated with.
    pub fn placed(&self, network: Arc<Network>) -> Result<Loaded, String> {
        Loaded::of(&self.file, self.generation.clone(), self.now)?.on(Some(network))
    }

    /// The way of packets through the network, if there is one.
    pub fn way<'a>(&'a self, start: Start, devices: &Devices<'_>) -> Option<Way<'a>> {
        let network: &Network = self.network.as_deref()?;
        let known = network.links().iter().filter_map(|link| {
            let index = devices.interface_index(&link.name)?;
            let interface = penstock_dataplane::interface(link);
            Some(Device { index, link: link.index, interface })
        });
        let known: Vec<Device> = known.collect();
        let chains: Vec<Bound<'_>> = self.bases().into_iter().map(bound).collect();
        Some(Way::new(network, start, known, &chains))
    }
}
