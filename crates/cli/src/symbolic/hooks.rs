// SPDX-License-Identifier: Apache-2.0

//! The hooks of rulesets: each with its base chains in the order of their priority.

use std::collections::{BTreeSet, HashMap};

use penstock_program::{Family, Hook};
use penstock_ruleset::link::LinkedBase;
use penstock_symbolic::{Base, Failure, Place, Program};

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

/// What a hook is called in rules.
pub fn hook_word(hook: Hook) -> &'static str {
    HOOKS.iter().find(|(of, _)| *of == hook).map_or("", |(_, word)| word)
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
        }]);
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
            let station = |device: Option<String>| Station {
                place,
                name: match &device {
                    Some(device) => format!("{} {word} on {device}", family.name()),
                    None => format!("{} {word}", family.name()),
                },
                device,
                chain: None,
            };
            match devices.is_empty() {
                true => all.push(station(None)),
                false => all.extend(devices.into_iter().map(|device| station(Some(device)))),
            }
        }
    }
    match (all.is_empty(), &settings.hook) {
        (true, Some(hook)) => Err(format!("Error: there is no base chain at hook {hook}")),
        _ => Ok(all),
    }
}

impl Station {
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
        settings: &Settings,
        sets: &mut HashMap<String, u32>,
    ) -> Program<'a> {
        let image = &ruleset.linked.image;
        let is_here = |base: &&LinkedBase| {
            base.base.hook == self.place.hook
                && (base.family == self.place.family
                    || group(base.family, self.place.hook) == self.place.family)
                && self.device.as_ref().is_none_or(|device| {
                    base.base.devices.iter().any(|of| match of.strip_suffix('*') {
                        Some(start) => device.starts_with(start),
                        None => **of == **device,
                    })
                })
                && self.chain.as_ref().is_none_or(|(table, chain)| {
                    image.table_of(base.chain).is_some_and(|of| *of.name == **table)
                        && image.chain(base.chain).is_some_and(|of| *of.name == **chain)
                        && base.family == self.place.family
                })
        };
        let mut bases: Vec<&LinkedBase> = ruleset.linked.bases.iter().filter(is_here).collect();
        bases.sort_by_key(|base| (base.base.priority, std::cmp::Reverse(base.base.registered)));
        let bases = bases.into_iter().map(|base| Base {
            chain: base.chain,
            kind: base.base.kind,
            priority: base.base.priority,
            family: base.family,
        });
        Program {
            image,
            bases: bases.collect(),
            numbers: (0..image.rules.len() as u32).collect(),
            sets: ruleset.sets(sets),
            listed: settings.listed,
            now: ruleset.now,
        }
    }
}
