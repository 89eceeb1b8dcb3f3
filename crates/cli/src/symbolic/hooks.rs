// SPDX-License-Identifier: Apache-2.0

//! The hooks of rulesets: each with its base chains in the order of their priority.

use std::collections::{BTreeSet, HashMap};

use penstock_program::{Family, Hook};
use penstock_ruleset::link::LinkedBase;
use penstock_symbolic::{Base, Bound, Failure, Place, Program, Start, Way};

use super::Settings;
use super::load::{Devices, Loaded};

/// A place where packets pass chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// Family and hook.
    pub place: Place,
    /// What it is called: `inet forward`, `netdev ingress on wan`.
    pub name: String,
    /// Of hooks of devices: the device.
    pub device: Option<String>,
    /// Only this chain: table and name.
    chain: Option<(String, String)>,
    /// Not a hook, but the whole way of packets through the network.
    pub way: Option<Start>,
}

const HOOKS: [(Hook, &str); 7] = [
    (Hook::Ingress, "ingress"),
    (Hook::Prerouting, "prerouting"),
    (Hook::Input, "input"),
    (Hook::Forward, "forward"),
    (Hook::Output, "output"),
    (Hook::Postrouting, "postrouting"),
    (Hook::Egress, "egress"),
];

/// A hook as claims name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookName {
    /// The family whose packets pass it.
    pub family: Family,
    /// The hook.
    pub hook: Hook,
    /// The device, for hooks of devices; the one that there is where none is said.
    pub device: Option<String>,
}

impl HookName {
    /// Reads `[FAMILY] HOOK [on DEVICE]`.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(words: &[&str]) -> Result<HookName, String> {
        let (name, device) = match *words {
            [ref name @ .., "on", device] => (name, Some(device.trim_matches('"').to_owned())),
            _ => (words, None),
        };
        let (family, hook) = match *name {
            [hook] => (None, hook),
            [family, hook] => (Some(family), hook),
            _ => return Err("`hook` takes [FAMILY] HOOK [on DEVICE]".to_owned()),
        };
        let known = HOOKS.iter().find(|(_, word)| *word == hook);
        let (hook, _) = *known.ok_or_else(|| format!("`{hook}` is no hook"))?;
        let of_device = matches!(hook, Hook::Ingress | Hook::Egress);
        let family = match family {
            None if of_device => Family::Netdev,
            None | Some("inet") => Family::Inet,
            Some("bridge") => Family::Bridge,
            Some("arp") => Family::Arp,
            Some("netdev") => Family::Netdev,
            Some(word @ ("ip" | "ip6")) => {
                return Err(format!(
                    "packets of {word} pass hooks of inet: claims tell them apart, \
                     as by `meta nfproto`"
                ));
            }
            Some(word) => return Err(format!("`{word}` is no family")),
        };
        if device.is_some() && !of_device {
            return Err("packets pass this hook whatever their device is".to_owned());
        }
        Ok(HookName { family, hook, device })
    }

    /// The hook of a ruleset, with chains or without any.
    ///
    /// # Errors
    /// There are several devices, and none is said.
    pub fn station(&self, ruleset: &Loaded) -> Result<Station, String> {
        let HookName { family, hook, ref device } = *self;
        let bases = ruleset.linked.bases.iter();
        let mut devices: BTreeSet<String> = bases
            .filter(|base| base.family == family && base.base.hook == hook)
            .flat_map(|base| &base.base.devices)
            .map(|device| device.to_string())
            .collect();
        let device = match device {
            Some(device) => Some(device.clone()),
            None if devices.len() > 1 => {
                let all: Vec<String> = devices.into_iter().collect();
                return Err(format!(
                    "Error: hook {} is one of each of {}",
                    hook_word(hook),
                    all.join(", ")
                ));
            }
            None => devices.pop_first(),
        };
        Ok(Station::new(Place { family, hook }, device))
    }
}

/// What a hook is called in rules.
pub fn hook_word(hook: Hook) -> &'static str {
    HOOKS.iter().find(|(of, _)| *of == hook).map_or("", |(_, word)| word)
}

/// A base chain with its hook, for the engine.
pub fn bound(base: &LinkedBase) -> Bound<'_> {
    let LinkedBase { chain, family, base, .. } = base;
    let (hook, devices) = (base.hook, &base.devices[..]);
    let base = Base { chain: *chain, kind: base.kind, priority: base.priority, family: *family };
    Bound { hook, devices, base }
}

/// Families whose chains packets pass at one hook.
fn group(family: Family, hook: Hook) -> Family {
    match family {
        Family::Ip | Family::Ip6 | Family::Inet if hook != Hook::Ingress => Family::Inet,
        family => family,
    }
}

/// The hooks that have chains in one of the rulesets, of those that the settings name.
///
/// # Errors
/// The settings name a chain or a hook that is not there.
pub fn stations(rulesets: &[&Loaded], settings: &Settings) -> Result<Vec<Station>, String> {
    let bases = || rulesets.iter().flat_map(|ruleset| &ruleset.linked.bases);
    if let Some([family, table, chain]) = &settings.chain {
        let is_it = |ruleset: &Loaded, base: &LinkedBase| {
            let image = &ruleset.linked.image;
            let of = image.table_of(base.chain);
            of.is_some_and(|of| of.family.name() == family && *of.name == **table)
                && image.chain(base.chain).is_some_and(|of| *of.name == **chain)
        };
        let found = rulesets
            .iter()
            .find_map(|ruleset| ruleset.linked.bases.iter().find(|base| is_it(ruleset, base)));
        let Some(base) = found else {
            return Err(format!("Error: there is no base chain {family} {table} {chain}"));
        };
        return Ok(vec![Station {
            place: Place { family: base.family, hook: base.base.hook },
            name: format!("{family} {table} {chain}"),
            device: None,
            chain: Some((table.clone(), chain.clone())),
            way: None,
        }]);
    }
    if settings.hook.is_none() && rulesets.iter().any(|ruleset| ruleset.network.is_some()) {
        return Ok([Start::Arrival, Start::Host].map(Station::way).to_vec());
    }
    let mut all = Vec::new();
    for (hook, word) in HOOKS {
        if settings.hook.as_ref().is_some_and(|wanted| wanted != word) {
            continue;
        }
        for family in [Family::Netdev, Family::Inet, Family::Bridge, Family::Arp] {
            let here = || {
                bases()
                    .filter(|base| base.base.hook == hook)
                    .filter(|base| group(base.family, hook) == family)
            };
            let devices: BTreeSet<String> = here()
                .flat_map(|base| &base.base.devices)
                .map(|device| device.to_string())
                .collect();
            let families: BTreeSet<Family> = here().map(|base| base.family).collect();
            let mut families = families.into_iter();
            let Some(first) = families.next() else { continue };
            // Of one family alone nothing else needs to be told apart.
            let family = if families.next().is_some() { Family::Inet } else { first };
            let place = Place { family, hook };
            match devices.is_empty() {
                true => all.push(Station::new(place, None)),
                false => {
                    all.extend(devices.into_iter().map(|device| Station::new(place, Some(device))));
                }
            }
        }
    }
    match (all.is_empty(), &settings.hook) {
        (true, Some(hook)) => Err(format!("Error: there is no base chain at hook {hook}")),
        _ => Ok(all),
    }
}

impl Station {
    /// The chains of a hook, of a device if it is one of devices.
    fn new(place: Place, device: Option<String>) -> Station {
        let name = format!("{} {}", place.family.name(), hook_word(place.hook));
        let name = match &device {
            Some(device) => format!("{name} on {device}"),
            None => name,
        };
        Station { place, name, device, chain: None, way: None }
    }

    /// The way of packets through the network.
    fn way(start: Start) -> Station {
        let name = match start {
            Start::Arrival => "packets that arrive",
            Start::Host => "packets of the host",
        };
        let place = start.place();
        Station { place, name: name.to_owned(), device: None, chain: None, way: Some(start) }
    }

    /// What is printed of a ruleset that could not be evaluated here.
    pub fn failed(&self, side: &Loaded, devices: &Devices, failure: &Failure) -> String {
        match failure {
            Failure::NoMeaning { rule, reason } => {
                let rule = side.rule_text(*rule, devices);
                format!("Error: {}: {rule}\n       cannot be evaluated: {reason}", self.name)
            }
            Failure::Undecided { .. } => {
                format!("Error: {}: {failure} (--memory, --timeout)", self.name)
            }
        }
    }

    /// The name of a capture with an example, without its ending.
    pub fn capture_name(&self, number: usize) -> String {
        format!("{}-{number}", self.name.replace(' ', "-"))
    }

    /// The base chains of a ruleset here, as a program to evaluate.
    pub fn program<'a>(
        &self,
        ruleset: &'a Loaded,
        devices: &Devices<'_>,
        settings: &Settings,
        sets: &mut HashMap<String, u32>,
    ) -> Program<'a> {
        let image = &ruleset.linked.image;
        let whole = |bases: Vec<Base>, way: Option<Way<'a>>, sets: &mut HashMap<String, u32>| {
            let numbers = (0..image.rules.len() as u32).collect();
            let sets = ruleset.sets(sets);
            Program { image, bases, way, numbers, sets, listed: settings.listed, now: ruleset.now }
        };
        if let Some(way) = self.way.and_then(|start| ruleset.way(start, devices)) {
            return whole(way.bases(), Some(way), sets);
        }
        let is_here = |base: &&LinkedBase| {
            base.base.hook == self.place.hook
                && (base.family == self.place.family
                    || group(base.family, self.place.hook) == self.place.family)
                && self.device.as_ref().is_none_or(|device| bound(base).is_on(device))
                && self.chain.as_ref().is_none_or(|(table, chain)| {
                    image.table_of(base.chain).is_some_and(|of| *of.name == **table)
                        && image.chain(base.chain).is_some_and(|of| *of.name == **chain)
                        && base.family == self.place.family
                })
        };
        let bases = ruleset.bases().into_iter().filter(is_here);
        whole(bases.map(|base| bound(base).base).collect(), None, sets)
    }
}
