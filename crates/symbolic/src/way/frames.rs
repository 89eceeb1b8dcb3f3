// SPDX-License-Identifier: Apache-2.0

//! Where frames pass on the link layer: devices below a device, VLAN tags, and bridges
//! (`__netif_receive_skb_core()`, `br_handle_frame()`, `__dev_queue_xmit()`, `br_dev_xmit()`).
//!
//! A packet that a bridge hands to the host arrives on the bridge device, or on a VLAN device above
//! it, by one of several ports; one that the bridge forwards arrives on its port. Each of these is a
//! [`Passing`]: which one a packet takes is an input, since nobody knows where stations are.

use penstock_net::{Bridge, BridgePort};
use penstock_program::Hook;

use super::ids::Ids;
use super::passing::{Code, Crossing, Id, Passing, Stage, Step, Tag};
use super::{Device, Way};

/// A tag that frames are to have: protocol and ID.
type Wanted = (u16, Id);

/// VLAN devices above each other.
struct Stack<'w> {
    /// The lowest first.
    devices: Vec<&'w Device>,
    /// Protocol and ID of the tags at the lowest, the outermost first: one less than devices.
    tags: Vec<(u16, u16)>,
}

/// Tags of arrival by protocol and ID, from a number on.
fn arrived(from: usize, tags: &[Wanted]) -> impl Iterator<Item = Tag> {
    let numbered = (from..).zip(tags);
    numbered.map(|(number, (protocol, id))| {
        let id = match id {
            Id::Arrived(_) => Id::Arrived(number),
            known => *known,
        };
        Tag { protocol: *protocol, id, code: Code::Arrived(number) }
    })
}

impl<'w> Way<'_> {
    /// Devices on which packets arrive that come to IP, and ports with packets that their bridge
    /// forwards.
    pub(crate) fn entrances(&'w self) -> impl Iterator<Item = &'w Device> {
        let ports = self.devices.iter().filter(|device| self.port(device.link).is_some());
        self.arrivals().chain(ports).filter(|device| !self.arriving(device).is_empty())
    }

    /// What makes a link that is up a port of a bridge that is up.
    fn port(&self, link: u32) -> Option<(&BridgePort, &Bridge)> {
        let link = self.network.link(link).filter(|link| link.up)?;
        let port = link.port.as_ref()?;
        let bridge = self.network.link(port.bridge).filter(|bridge| bridge.up)?;
        Some((port, bridge.bridge()?))
    }

    fn stack(&'w self, device: &'w Device) -> Stack<'w> {
        let (mut devices, mut tags) = (vec![device], Vec::new());
        let mut at = device.link;
        while let Some(vlan) = self.network.link(at).and_then(|link| link.vlan()) {
            let Some(lower) = self.device(vlan.lower) else { break };
            tags.insert(0, (vlan.protocol, vlan.id));
            devices.insert(0, lower);
            at = vlan.lower;
        }
        Stack { devices, tags }
    }

    fn mac(&self, link: u32) -> Option<[u8; 6]> {
        self.network.link(link).map(|link| link.mac.0)
    }

    /// Ingress of the devices of a stack, for frames that have tags more than the stack takes.
    fn up(&'w self, stack: &Stack<'w>, carried: &[Wanted]) -> Vec<Step<'w>> {
        let own = stack.tags.iter().map(|(protocol, id)| (*protocol, Id::Known(*id)));
        let all: Vec<Wanted> = own.chain(carried.iter().copied()).collect();
        let all: Vec<Tag> = arrived(0, &all).collect();
        let steps = stack.devices.iter().enumerate().map(|(taken, device)| Step {
            stage: Stage::Ingress,
            iif: Some(device),
            oif: None,
            tags: all[taken..].to_vec(),
            taken: taken.checked_sub(1).map(|last| (device.link, all[last])),
            own: self.mac(device.link).filter(|_| taken > 0),
        });
        steps.collect()
    }

    /// Egress of the devices of a stack, for frames that have tags already.
    fn down(&'w self, stack: &Stack<'w>, carried: &[Tag]) -> Vec<Step<'w>> {
        let mut tags = carried.to_vec();
        let mut steps = Vec::new();
        for (number, device) in stack.devices.iter().enumerate().rev() {
            steps.push(Step {
                stage: Stage::Egress,
                iif: None,
                oif: Some(device),
                tags: tags.clone(),
                taken: None,
                own: None,
            });
            if let Some(lower) = number.checked_sub(1) {
                let (protocol, id) = stack.tags[lower];
                tags.insert(0, Tag { protocol, id: Id::Known(id), code: Code::Given(device.link) });
            }
        }
        steps
    }

    fn in_bridge(
        &self,
        hook: Hook,
        [iif, oif]: [Option<&'w Device>; 2],
        tags: &[Tag],
        bridge: u32,
    ) -> Step<'w> {
        let own = self.mac(bridge).filter(|_| hook == Hook::Prerouting);
        Step { stage: Stage::Bridge(hook), iif, oif, tags: tags.to_vec(), taken: None, own }
    }

    /// How frames come to a device: to one that is no port from its wire, or by each port of a bridge
    /// below it; to a port those that its bridge forwards.
    pub(crate) fn arriving(&'w self, device: &'w Device) -> Vec<Passing<'w>> {
        if self.network.link(device.link).is_some_and(|link| link.port.is_some()) {
            return self.forwarded(device);
        }
        let stack = self.stack(device);
        let lowest = self.network.link(stack.devices[0].link);
        let Some(bridge) = lowest.and_then(|link| link.bridge()) else {
            return vec![Passing { steps: self.up(&stack, &[]), crossing: None, open: None }];
        };
        let mut all = Vec::new();
        for port in &bridge.ports {
            let (Some(device), Some(_)) = (self.device(*port), self.port(*port)) else { continue };
            self.handed_up(&mut all, bridge, device, &stack);
        }
        all
    }

    /// Frames that a bridge hands to the devices above it, from one port (`br_pass_frame_up()`).
    fn handed_up(
        &'w self,
        all: &mut Vec<Passing<'w>>,
        bridge: &Bridge,
        from: &'w Device,
        above: &Stack<'w>,
    ) {
        let Some((port, _)) = self.port(from.link) else { return };
        let wanted: Vec<Wanted> =
            above.tags.iter().map(|(protocol, id)| (*protocol, Id::Known(*id))).collect();
        // VLAN, what is behind its tag, and whether the bridge device gets it with the tag.
        let mut vids: Vec<(u16, &[Wanted], bool)> = Vec::new();
        match (bridge.vlan_filtering, wanted.first()) {
            (false, _) => vids.push((0, &wanted, false)),
            (true, Some((protocol, Id::Known(id)))) if *protocol == bridge.vlan_protocol => {
                if bridge.vlans.untagged(*id) == Some(false) {
                    vids.push((*id, &wanted[1..], true));
                }
            }
            _ => {
                let without =
                    bridge.vlans.ids().filter(|id| bridge.vlans.untagged(*id) == Some(true));
                vids.extend(without.map(|id| (id, &wanted[..], false)));
            }
        }
        for (vid, behind, tagged) in vids {
            let mut came: Vec<Vec<Wanted>> = Vec::new();
            if !bridge.vlan_filtering {
                came.push(behind.to_vec());
            } else {
                let is_untagged = behind.first().is_none_or(|(of, _)| *of != bridge.vlan_protocol);
                if port.vlans.pvid == vid && is_untagged {
                    came.push(behind.to_vec());
                }
                if port.vlans.untagged(vid).is_some() {
                    let tag = [(bridge.vlan_protocol, Id::Known(vid))];
                    came.push([&tag[..], behind].concat());
                }
            }
            for came in came {
                if !self.comes_to_bridge(from, &came) || !self.may_come(from, &Ids::one(vid)) {
                    continue;
                }
                let below = self.stack(from);
                let first = below.tags.len();
                let mut steps = self.up(&below, &came);
                let at_port: Vec<Tag> = arrived(first, &came).collect();
                let link = above.devices[0].link;
                let ends = [Some(from), None];
                steps.push(self.in_bridge(Hook::Prerouting, ends, &at_port, link));
                let mut inside = at_port;
                if bridge.vlan_filtering && came.len() > behind.len() && !tagged {
                    inside.remove(0);
                } else if tagged && came.len() == behind.len() {
                    let tag = Tag {
                        protocol: bridge.vlan_protocol,
                        id: Id::Known(vid),
                        code: Code::Zero,
                    };
                    inside.insert(0, tag);
                }
                steps.push(self.in_bridge(Hook::Input, ends, &inside, link));
                for (taken, device) in above.devices.iter().enumerate() {
                    steps.push(Step {
                        stage: Stage::Ingress,
                        iif: Some(device),
                        oif: None,
                        tags: inside[taken..].to_vec(),
                        taken: taken.checked_sub(1).map(|last| (device.link, inside[last])),
                        own: self.mac(device.link).filter(|_| taken > 0),
                    });
                }
                let crossing = Crossing {
                    bridge: link,
                    from: Some(from),
                    to: None,
                    vids: Ids::one(vid),
                    named: None,
                };
                all.push(Passing { steps, crossing: Some(crossing), open: None });
            }
        }
    }

    /// Whether frames with these tags are for no VLAN device on the port itself.
    fn comes_to_bridge(&self, port: &Device, tags: &[Wanted]) -> bool {
        match tags.first() {
            Some((protocol, Id::Known(id))) => {
                self.network.vlan(port.link, *protocol, *id).is_none()
            }
            _ => true,
        }
    }

    /// Whether some station may send by a port in some of these VLANs: a locked port takes frames
    /// from stations only that were put there.
    fn may_come(&self, port: &Device, vids: &Ids) -> bool {
        let Some((of, _)) = self.port(port.link) else { return false };
        let mut known = self.network.fdb().iter();
        !of.locked
            || known.any(|entry| entry.port == port.link && !entry.local && vids.has(entry.vid))
    }

    /// Frames of a port that its bridge sends on (`br_handle_frame_finish()`).
    fn forwarded(&'w self, from: &'w Device) -> Vec<Passing<'w>> {
        let Some((port, bridge)) = self.port(from.link) else { return Vec::new() };
        let mut all = Vec::new();
        for number in &bridge.ports {
            let (Some(to), Some((out, _))) = (self.device(*number), self.port(*number)) else {
                continue;
            };
            if to.link == from.link && !port.hairpin || port.isolated && out.isolated {
                continue;
            }
            if !bridge.vlan_filtering {
                const TAG: u16 = 0x8100;
                let open = Ids::all().without(|id| self.network.vlan(from.link, TAG, id).is_some());
                self.sent_on(&mut all, [from, to], port.bridge, Ids::one(0), (&[], false), None);
                let tags = [(TAG, Id::Arrived(0))];
                let open = Some(open);
                self.sent_on(&mut all, [from, to], port.bridge, Ids::one(0), (&tags, true), open);
                continue;
            }
            let own = port.vlans.pvid;
            if own != 0
                && let Some(untagged) = out.vlans.untagged(own)
            {
                let vids = Ids::one(own);
                self.sent_on(&mut all, [from, to], port.bridge, vids, (&[], !untagged), None);
            }
            for untagged in [true, false] {
                let both = port.vlans.ids().filter(|id| out.vlans.untagged(*id) == Some(untagged));
                let protocol = bridge.vlan_protocol;
                let free = both.filter(|id| self.network.vlan(from.link, protocol, *id).is_none());
                let vids = Ids::of(free);
                let id = vids.only().map_or(Id::Arrived(0), Id::Known);
                let open = vids.only().is_none().then(|| vids.clone());
                let tags = [(protocol, id)];
                self.sent_on(&mut all, [from, to], port.bridge, vids, (&tags, !untagged), open);
            }
        }
        all
    }

    /// Frames from port to port that come with some tags, and leave with one or without.
    fn sent_on(
        &'w self,
        all: &mut Vec<Passing<'w>>,
        [from, to]: [&'w Device; 2],
        link: u32,
        vids: Ids,
        (came, tagged): (&[Wanted], bool),
        open: Option<Ids>,
    ) {
        let is_none = vids.is_empty() || open.as_ref().is_some_and(Ids::is_empty);
        if is_none || !self.may_come(from, &vids) || !self.may_get(to, &vids) {
            return;
        }
        let Some(bridge) = self.network.link(link).and_then(|link| link.bridge()) else { return };
        let below = self.stack(from);
        let first = below.tags.len();
        let mut steps = self.up(&below, came);
        let at_port: Vec<Tag> = arrived(first, came).collect();
        steps.push(self.in_bridge(Hook::Prerouting, [Some(from), None], &at_port, link));
        let given = Tag {
            protocol: bridge.vlan_protocol,
            id: Id::Known(vids.only().unwrap_or(0)),
            code: Code::Zero,
        };
        let out = match (at_port.is_empty(), tagged) {
            (_, false) => Vec::new(),
            (false, true) => at_port.clone(),
            (true, true) => vec![given],
        };
        steps.push(self.in_bridge(Hook::Forward, [Some(from), Some(to)], &out, link));
        steps.push(self.in_bridge(Hook::Postrouting, [None, Some(to)], &out, link));
        steps.extend(self.down(&self.stack(to), &out));
        let named = open.as_ref().filter(|_| bridge.vlan_filtering).map(|_| first);
        let crossing = Crossing { bridge: link, from: Some(from), to: Some(to), vids, named };
        let open = open.map(|ids| (first, ids));
        all.push(Passing { steps, crossing: Some(crossing), open });
    }

    /// Whether a port may get frames at all that come by another one.
    fn may_get(&self, port: &Device, vids: &Ids) -> bool {
        let Some((of, bridge)) = self.port(port.link) else { return false };
        let mut known = self.network.fdb().iter();
        of.flood
            || of.bcast_flood
            || of.mcast_flood
            || bridge.snooping.on
            || of.learning && bridge.ageing != 0
            || known.any(|entry| entry.port == port.link && !entry.local && vids.has(entry.vid))
    }

    /// How frames leave that go to a device: from one that is no bridge to the wire, from a bridge by
    /// each of its ports. None if no port takes them.
    pub(crate) fn leaving(&'w self, device: &'w Device) -> Vec<Passing<'w>> {
        let stack = self.stack(device);
        let steps = self.down(&stack, &[]);
        let link = stack.devices[0].link;
        let Some(bridge) = self.network.link(link).and_then(|link| link.bridge()) else {
            return vec![Passing { steps, crossing: None, open: None }];
        };
        let mut inside = steps.last().map_or_else(Vec::new, |step| step.tags.clone());
        let mut vid = 0;
        if bridge.vlan_filtering {
            let named = match inside.first() {
                Some(Tag { protocol, id: Id::Known(id), .. })
                    if *protocol == bridge.vlan_protocol =>
                {
                    bridge.vlans.untagged(*id).map(|_| *id)
                }
                _ if bridge.vlans.pvid != 0 => {
                    let id = Id::Known(bridge.vlans.pvid);
                    let protocol = bridge.vlan_protocol;
                    inside.insert(0, Tag { protocol, id, code: Code::Zero });
                    Some(bridge.vlans.pvid)
                }
                _ => None,
            };
            let Some(named) = named else { return Vec::new() };
            vid = named;
        }
        let mut all = Vec::new();
        for number in &bridge.ports {
            let (Some(to), Some((out, _))) = (self.device(*number), self.port(*number)) else {
                continue;
            };
            let mut tags = inside.clone();
            if bridge.vlan_filtering {
                match out.vlans.untagged(vid) {
                    Some(true) => _ = tags.remove(0),
                    Some(false) => {}
                    None => continue,
                }
            }
            let mut steps = steps.clone();
            for hook in [Hook::Output, Hook::Postrouting] {
                steps.push(self.in_bridge(hook, [None, Some(to)], &tags, link));
            }
            steps.extend(self.down(&self.stack(to), &tags));
            let (from, to, vids) = (None, Some(to), Ids::one(vid));
            let crossing = Crossing { bridge: link, from, to, vids, named: None };
            all.push(Passing { steps, crossing: Some(crossing), open: None });
        }
        all
    }
}
