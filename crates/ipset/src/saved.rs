// SPDX-License-Identifier: Apache-2.0

//! Sets as a state file has them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::carried::left;
use crate::error::Code;
use crate::given::{Given, GivenExtensions, IFACE_WILDCARD, NOMATCH, PHYSDEV};
use crate::kind::Dimension;
use crate::set::{Header, Set, Told};
use crate::sets::{IpSets, Request, Slot, Slots, told};
use crate::{Family, Kind};

/// A set, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSet {
    index: u16,
    name: Box<str>,
    header: Header,
    elements: Vec<Told>,
}

impl Told {
    /// The request that makes the element again.
    fn again(&self, header: &Header, now: u64) -> Given {
        let element = &self.element;
        let address = |number: usize| {
            let address = element.nets[number].address;
            match header.family {
                Family::V6 => std::net::IpAddr::from(address),
                _ => std::net::IpAddr::from([address[0], address[1], address[2], address[3]]),
            }
        };
        let dimensions = header.kind.dimensions();
        let has = |dimension| dimensions.contains(&dimension);
        let nets: Vec<_> =
            dimensions.iter().filter(|d| matches!(d, Dimension::Ip | Dimension::Net)).collect();
        let len = |number: usize| {
            let is_net = nets.get(number).is_some_and(|d| **d == Dimension::Net);
            is_net.then_some(element.nets[number].len)
        };
        let flag = |on, flag| if on { flag } else { 0 };
        let options = &header.options;
        let info = self.carried.skbinfo;
        let [packets, bytes] = self.carried.counters;
        Given {
            ip: nets.first().map(|_| address(0)),
            cidr: len(0),
            ip2: nets.get(1).map(|_| address(1)),
            cidr2: len(1),
            port: has(Dimension::Port).then_some(element.port),
            protocol: has(Dimension::Port).then_some(element.protocol),
            mark: has(Dimension::Mark).then_some(element.mark),
            mac: match header.kind {
                Kind::BitmapIpMac => self.carried.mac,
                _ => has(Dimension::Mac).then_some(element.mac),
            },
            iface: has(Dimension::Iface).then(|| element.device.text().into()),
            name: self.name.clone(),
            flags: flag(self.carried.nomatch, NOMATCH)
                | flag(element.device.port, PHYSDEV)
                | flag(element.device.wildcard, IFACE_WILDCARD),
            extensions: GivenExtensions {
                timeout: options.timeout.is_some().then(|| left(self.expires_at, now)),
                packets: options.counters.then_some(packets),
                bytes: options.counters.then_some(bytes),
                comment: self.comment.clone(),
                skbmark: options.skbinfo.then(|| u64::from(info.mark) << 32 | u64::from(info.mask)),
                skbprio: options.skbinfo.then_some(info.priority),
                skbqueue: options.skbinfo.then_some(info.queue),
            },
            ..Given::default()
        }
    }
}

impl IpSets {
    /// All sets, with what is in them at a time (ns). Times when elements expire are moved by
    /// `ahead` nanoseconds.
    pub fn save(&self, now: u64, ahead: i64) -> Vec<SavedSet> {
        let _held = self.held();
        let slots = self.slots();
        let saved = slots.each().map(|(index, slot)| SavedSet {
            index,
            name: (*slot.name).into(),
            header: slot.set.header.clone(),
            elements: moved(told(&slots, &slot.set, 0, usize::MAX, now).0, ahead),
        });
        saved.collect()
    }

    /// Takes saved sets, in place of all that there are. What expires before `now` (ns) is left
    /// out.
    ///
    /// # Errors
    /// What no set has, where the sets stay as they were.
    pub fn restore(&self, saved: &[SavedSet], now: u64) -> Result<(), Code> {
        let new = IpSets::default();
        for set in saved {
            if new.has(set.index) {
                return Err(Code::EEXIST);
            }
            let slot = Slot { name: (*set.name).into(), set: made(&set.header)? };
            new.replace(&new.slots(), &[(set.index, Some(slot))]);
        }
        for set in saved {
            for chunk in set.elements.chunks(1024) {
                let request = Request::Change {
                    name: set.name.clone(),
                    delete: false,
                    // What counts of two elements may be the same.
                    exist: true,
                    elements: chunk
                        .iter()
                        .filter(|told| told.expires_at.is_none_or(|at| at > now))
                        .map(|told| told.again(&set.header, now))
                        .collect(),
                };
                new.ask(&request, &|_| 0, now).map_err(|refused| refused.code)?;
            }
        }
        let _held = self.held();
        let all: Vec<_> =
            new.slots().each().map(|(index, slot)| (index, Some(slot.clone()))).collect();
        self.replace(&Slots::default(), &all);
        Ok(())
    }
}

fn moved(mut elements: Vec<Told>, ahead: i64) -> Vec<Told> {
    for told in &mut elements {
        told.expires_at = told.expires_at.map(|at| at.saturating_add_signed(ahead));
    }
    elements
}

/// An empty set of a header that is checked first.
fn made(header: &Header) -> Result<Arc<Set>, Code> {
    let Header { kind, family, options, .. } = header;
    if kind.family_of_new(*family) != Some(*family) || !options.fits(*kind, *family) {
        return Err(Code::EINVAL);
    }
    Ok(Arc::new(Set::new(header.clone())?))
}
