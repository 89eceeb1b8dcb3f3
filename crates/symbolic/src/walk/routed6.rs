// SPDX-License-Identifier: Apache-2.0

//! What routing does with packets of IPv6 that arrive (`ip6_rcv_core()`, `ip6_route_input()`,
//! `ip6_forward()`).

use penstock_net::{Link, RouteType};

use super::Walk;
use super::routed::Routed;
use crate::diagram::{Decided, Region};
use crate::fate::Refusal;
use crate::routing::{self, Found, has_prefix, within};
use crate::way::Way;

impl Walk<'_, '_> {
    /// `ip6_route_input()`, `ip6_forward()`.
    pub(super) fn arrivals6(&mut self, way: &Way<'_>, live: &Region) -> Decided<Routed> {
        let version = self.version(true)?;
        let [source, destination] = self.addresses(true)?;
        let live = self.universe.diagrams.and(live, &version)?;
        let host = self.universe.diagrams.none();
        let mut routed = Routed { refused: Vec::new(), host, ways: Vec::new() };
        let (mut forwards, mut joined) = (Vec::new(), Vec::new());
        for device in way.arrivals() {
            let Some(link) = way.network.link(device.link) else { continue };
            let here = self.arriving_on(device)?;
            if link.conf.forwards6() {
                forwards.push(here.clone());
            }
            let groups = self.is_one_of(&destination, groups6(link))?;
            joined.push(self.universe.diagrams.and(&here, &groups)?);
        }
        let d = &self.universe.diagrams;
        let (forwards, joined) = (d.union(&forwards)?, d.union(&joined)?);
        let flow = self.flow(way, true, false)?;
        let found = routing::route(&self.universe.diagrams, way.network, &flow, &live)?;
        let no_source = self.between(&source, 0, 0)?;
        let link_local = has_prefix(&self.universe.diagrams, &source, (0xfe80 << 112, 10))?;
        for (outcome, region) in found {
            match outcome {
                Ok(Found { kind: RouteType::Multicast, .. }) => {
                    let d = &self.universe.diagrams;
                    routed.host = d.or(&routed.host, &d.and(&region, &joined)?)?;
                    routed.refused.push((Refusal::NotMember, d.minus(&region, &joined)?));
                }
                Ok(Found { kind: RouteType::Local | RouteType::Anycast, .. }) => {
                    routed.host = self.universe.diagrams.or(&routed.host, &region)?;
                }
                Ok(Found { hops, .. }) => {
                    let stays = self.universe.diagrams.minus(&region, &forwards)?;
                    routed.refused.push((Refusal::NotForwarding, stays));
                    let on = self.universe.diagrams.and(&region, &forwards)?;
                    for mut out in self.share(&hops, true, on)? {
                        let mut others = self.universe.diagrams.all();
                        if let Some(device) = way.device(out.hop.link) {
                            let same = self.arriving_on(device)?;
                            others = self.universe.diagrams.not(&same);
                        }
                        let d = &self.universe.diagrams;
                        let wrong = d.and(&d.or(&no_source, &link_local)?, &others)?;
                        let wrong = d.and(&out.region, &wrong)?;
                        out.region = d.minus(&out.region, &wrong)?;
                        routed.refused.push((Refusal::Scope, wrong));
                        routed.ways.push(out);
                    }
                }
                Err(why) => routed.refused.push((why.into(), region)),
            }
        }
        Ok(routed)
    }

    /// Packets of IPv6 that are refused before rules see them (`ip6_rcv_core()`).
    pub(super) fn refused6(
        &mut self,
        way: &Way<'_>,
        live: &Region,
    ) -> Decided<Vec<(Refusal, Region)>> {
        let version = self.version(true)?;
        let [source, destination] = self.addresses(true)?;
        let mut rest = self.universe.diagrams.and(live, &version)?;
        let mut without = Vec::new();
        for device in way.arrivals() {
            if way.network.link(device.link).is_some_and(|link| link.mtu6().is_none()) {
                without.push(self.arriving_on(device)?);
            }
        }
        let without = self.universe.diagrams.union(&without)?;
        // Groups of no scope, or of this host.
        let mut nowhere = Vec::new();
        for flags in 0..16u128 {
            let from = (0xff00 | flags << 4) << 112;
            nowhere.push((from.to_be_bytes(), (from + (2 << 112) - 1).to_be_bytes()));
        }
        let mut refused = Vec::new();
        for (why, region) in [
            (Refusal::NotForwarding, without),
            (Refusal::Source, self.between(&source, 1, 1)?),
            (Refusal::Destination, self.between(&destination, 1, 1)?),
            (Refusal::Source, self.between(&source, 0xff << 120, u128::MAX)?),
            (Refusal::Destination, within(&self.universe.diagrams, &destination, &nowhere)?),
        ] {
            refused.push((why, self.take(&mut rest, &region)?));
        }
        Ok(refused)
    }
}

/// IPv6 groups that a link is a member of.
fn groups6(link: &Link) -> impl Iterator<Item = u128> {
    const SOLICITED: u128 = 0xff02 << 112 | 0x1_ff00_0000;
    let fixed = [0xff01u128, 0xff02, 0xff05]
        .into_iter()
        .flat_map(|scope| [1, 2, 0x6a].map(|number| scope << 112 | number));
    let own = link.addresses6.iter().map(|a| SOLICITED | a.local & 0xff_ffff);
    fixed.chain(own).chain([SOLICITED]).filter(|group| link.joined6(*group))
}
