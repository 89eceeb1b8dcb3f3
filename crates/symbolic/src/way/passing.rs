// SPDX-License-Identifier: Apache-2.0

//! What frames pass between the wire and a device, stage by stage, with the tags that they have.

use penstock_program::Hook;

use super::Device;
use super::ids::Ids;

/// The VLAN ID of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    /// This one.
    Known(u16),
    /// That of a tag that the frame arrives with, by its number from the outside.
    Arrived(usize),
}

/// Priority and drop eligibility of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    /// Those of a tag that the frame arrives with, by its number from the outside.
    Arrived(usize),
    /// Those that a VLAN device gives, by its link.
    Given(u32),
    /// None: a bridge gives the tag.
    Zero,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tag {
    /// 0x8100 or 0x88a8.
    pub protocol: u16,
    /// VLAN ID.
    pub id: Id,
    /// What stands before the ID.
    pub code: Code,
}

/// Chains that frames pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Those at ingress of the device of arrival.
    Ingress,
    /// Those at egress of the device on the way out.
    Egress,
    /// Those of the bridge family at a hook.
    Bridge(Hook),
}

/// A stage that a frame passes, and what it is there.
#[derive(Clone, Debug)]
pub(crate) struct Step<'w> {
    pub stage: Stage,
    /// The device of arrival, where rules see one.
    pub iif: Option<&'w Device>,
    /// The device on the way out, where rules see one.
    pub oif: Option<&'w Device>,
    /// Tags, the outermost first.
    pub tags: Vec<Tag>,
    /// The VLAN device that has taken a tag from the frame, by its link, and the tag.
    pub taken: Option<(u32, Tag)>,
    /// Frames for this address are the host's own from here on.
    pub own: Option<[u8; 6]>,
}

/// How frames pass a bridge.
#[derive(Clone, Debug)]
pub(crate) struct Crossing<'w> {
    /// Link of the bridge.
    pub bridge: u32,
    /// The port that they come by; none if the host sends them.
    pub from: Option<&'w Device>,
    /// The port that they leave by; none if the host gets them.
    pub to: Option<&'w Device>,
    /// Their VLANs, 0 without filtering.
    pub vids: Ids,
    /// The tag of arrival that names it, by its number; none if there is one VLAN.
    pub named: Option<usize>,
}

/// What frames pass between the wire and a device.
#[derive(Clone, Debug)]
pub(crate) struct Passing<'w> {
    /// Stages, in the order in which frames pass them.
    pub steps: Vec<Step<'w>>,
    /// The bridge among them.
    pub crossing: Option<Crossing<'w>>,
    /// VLAN IDs that a tag of arrival may have, by its number, where it may have several.
    pub open: Option<(usize, Ids)>,
}

impl Passing<'_> {
    /// The bridge sends frames on that come by a port of it: the device that they leave by.
    pub fn leaves(&self) -> Option<&Device> {
        let crossing = self.crossing.as_ref().filter(|crossing| crossing.from.is_some())?;
        crossing.to
    }

    /// Bytes that no other passing of the device has.
    pub fn name(&self) -> Vec<u8> {
        let mut name = Vec::new();
        if let Some(crossing) = &self.crossing {
            for port in [crossing.from, crossing.to] {
                name.extend(port.map_or(0, |device| device.link).to_be_bytes());
            }
            name.extend(crossing.vids.name());
        }
        let tags = |step: Option<&Step<'_>>| step.map_or(0, |step| step.tags.len() as u8);
        name.extend([tags(self.steps.first()), tags(self.steps.last())]);
        if let Some((_, ids)) = &self.open {
            name.extend(ids.name());
        }
        name
    }

    /// What it is called where results depend on it.
    pub fn words(&self) -> String {
        let name = |device: &Device| {
            let name = device.interface.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
            String::from_utf8_lossy(name).into_owned()
        };
        let tagged = |hooks: [Hook; 2]| {
            let mut steps = self.steps.iter();
            let step = steps.find(|step| hooks.iter().any(|of| step.stage == Stage::Bridge(*of)));
            match step.and_then(|step| step.tags.first()) {
                Some(Tag { id: Id::Known(id), .. }) => format!(" with tag {id}"),
                Some(_) => " with a tag".to_owned(),
                None => String::new(),
            }
        };
        let first = tagged([Hook::Prerouting, Hook::Prerouting]);
        let last = tagged([Hook::Forward, Hook::Output]);
        match &self.crossing {
            Some(Crossing { from: Some(from), to: Some(to), .. }) => {
                format!("go from {}{first} to {}{last}", name(from), name(to))
            }
            Some(Crossing { from: Some(from), .. }) => format!("come by {}{first}", name(from)),
            Some(Crossing { to: Some(to), .. }) => format!("leave by {}{last}", name(to)),
            _ => "pass the device".to_owned(),
        }
    }
}
