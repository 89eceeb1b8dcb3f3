// SPDX-License-Identifier: Apache-2.0

//! Which devices are to become ports: those that are named and not there yet, and those with names
//! like a pattern.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use penstock_netlink::Device;

use crate::config::{PortConfig, PortWishes};

/// How a device has become a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is named at the start, or in the configuration.
    Named,
    /// Its name is like this pattern.
    Pattern(String),
    /// It was added by hand.
    Added,
}

/// How long a device that was refused is left alone.
const PAUSE: Duration = Duration::from_secs(2);

/// What is wanted, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) wishes: PortWishes,
    /// Devices, by index, that were returned by hand.
    returned: HashSet<u32>,
    /// Devices, by index, that cannot be ports: until when they are left alone, and why.
    refused: HashMap<u32, (Instant, String)>,
}

impl Wanted {
    pub(crate) fn new(wishes: PortWishes) -> Self {
        Wanted { wishes, ..Wanted::default() }
    }

    /// What is wanted changes; devices that were returned by hand may be meant again.
    pub(crate) fn set(&mut self, wishes: PortWishes) {
        *self = Wanted::new(wishes);
    }

    /// The device with this index was returned by hand, and is not taken again as it is.
    pub(crate) fn leave(&mut self, device: u32) {
        self.returned.insert(device);
    }

    /// Whether a device was returned by hand.
    pub(crate) fn is_left(&self, device: u32) -> bool {
        self.returned.contains(&device)
    }

    /// A device cannot be a port. Whether that was not known.
    pub(crate) fn refuse(&mut self, device: u32, why: &str) -> bool {
        let until = Instant::now() + PAUSE;
        let before = self.refused.insert(device, (until, why.to_owned()));
        before.is_none_or(|(_, said)| said != why)
    }

    /// When something that was refused may be tried again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.refused.values().map(|(until, _)| *until).min()
    }

    /// Devices that are to be taken, of those that no port has. Only those that are up: by then
    /// whoever has made them has configured them.
    pub(crate) fn next<'d>(
        &mut self,
        devices: impl Iterator<Item = &'d Device> + Clone,
    ) -> Vec<(u32, PortConfig, Origin)> {
        let there = |index: &u32| devices.clone().any(|device| device.link.index == *index);
        self.returned.retain(&there);
        self.refused.retain(|index, _| there(index));
        let now = Instant::now();
        let free = |device: &&Device| {
            let index = device.link.index;
            let waits = self.refused.get(&index).is_some_and(|(until, _)| *until > now);
            device.link.up && !waits && !self.returned.contains(&index)
        };
        devices.clone().filter(free).filter_map(|device| self.wish(device)).collect()
    }

    /// What a device is to become.
    fn wish(&self, device: &Device) -> Option<(u32, PortConfig, Origin)> {
        let (index, name) = (device.link.index, &*device.link.name);
        let named = |port: &&PortConfig| port.may_come_later && port.device == name;
        if let Some(port) = self.wishes.named.iter().find(named) {
            return Some((index, port.clone(), Origin::Named));
        }
        // What cannot be a port by its kind is not meant by a pattern.
        let link = &device.link;
        if !device.ethernet
            || link.is_loopback()
            || link.bridge().is_some()
            || link.vlan().is_some()
        {
            return None;
        }
        let pattern = self.wishes.patterns.iter().find(|pattern| pattern.matches(name))?;
        let port = PortConfig {
            device: name.to_owned(),
            name: name.to_owned(),
            driver: pattern.driver,
            may_come_later: true,
        };
        Some((index, port, Origin::Pattern(pattern.pattern.clone())))
    }
}
