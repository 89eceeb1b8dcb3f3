// SPDX-License-Identifier: Apache-2.0

//! Programs of flows that stay on their devices when this process dies.
//!
//! Links get names, by device: they hold programs, and these their maps. Maps of flows get names as
//! well, so that the next dataplane finds the flows before it removes the rest.

use std::io;

use penstock_bpf::Link;
use penstock_ebpf::flow::{Flows, FoundFlow, LAYOUT, found};

use crate::log;
use crate::pins::Pins;

/// The names of the maps of flows.
fn map_names() -> [String; 2] {
    ["flows4", "flows6"].map(|name| format!("{name}-{LAYOUT}"))
}

impl Pins {
    /// The program stays on the device from now on.
    pub(super) fn pin(&self, device: u32, link: &Link) -> io::Result<()> {
        let path = self.path(&device.to_string());
        match link.pin(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                // The pin of a device that is gone.
                self.unpin(device);
                link.pin(&path)
            }
            result => result,
        }
    }

    /// The program goes with the process.
    pub(super) fn unpin(&self, device: u32) {
        self.remove(&device.to_string());
    }

    /// From now on the next dataplane can find the flows.
    pub(super) fn pin_flows(&self, flows: &Flows) -> io::Result<()> {
        let [v4, v6, _] = flows.maps();
        for (map, name) in [v4, v6].into_iter().zip(map_names()) {
            // One of before: programs that use it are gone.
            self.remove(&name);
            map.pin(&self.path(&name))?;
        }
        Ok(())
    }

    /// They go with the process.
    pub(super) fn unpin_flows(&self) {
        map_names().iter().for_each(|name| self.remove(name));
    }

    /// The pinned links, by device.
    pub(super) fn links(&self) -> impl Iterator<Item = (u32, Link)> {
        self.names().into_iter().filter_map(|name| {
            let device = name.parse().ok()?;
            Some((device, Link::pinned(&self.path(&name)).ok()?))
        })
    }

    /// The flows in pinned maps.
    pub(super) fn flows(&self) -> Vec<FoundFlow> {
        let [v4, v6] = map_names().map(|name| self.path(&name));
        found([&v4, &v6]).unwrap_or_else(|e| {
            if e.kind() != io::ErrorKind::NotFound {
                log(format_args!("flows that an earlier dataplane has left cannot be read: {e}"));
            }
            Vec::new()
        })
    }
}
