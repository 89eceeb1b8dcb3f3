// SPDX-License-Identifier: Apache-2.0

//! What ip(8) and bridge(8) say about a network with `-j`.

use std::fmt::Write;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value};

use super::ipsec;
use crate::recognise::{Given, hinted};

/// An object of a listing.
pub type Object = Map<String, Value>;

/// The commands that say all, and whether their listing is of IPv6.
pub const COMMANDS: [(&str, bool); 7] = [
    ("ip -j -d addr", false),
    ("ip -j -d -4 route show table all", false),
    ("ip -j -d -6 route show table all", true),
    ("ip -j -d rule", false),
    ("ip -j -d -6 rule", true),
    ("ip -j -d neigh", false),
    ("bridge -j vlan", false),
];

/// The commands that say what there is of IPsec, as text.
pub const IPSEC: [&str; 2] = ["ip xfrm state", "ip xfrm policy"];

/// The objects of all listings, by what they are.
#[derive(Debug, Default)]
pub struct Said {
    /// Links with their addresses.
    pub links: Vec<Object>,
    pub routes4: Vec<Object>,
    pub routes6: Vec<Object>,
    pub rules4: Vec<Object>,
    pub rules6: Vec<Object>,
    pub neighbours: Vec<Object>,
    /// VLANs of the ports of bridges.
    pub vlans: Vec<Object>,
    /// What `ip xfrm` has printed.
    pub ipsec: String,
    /// Listings of rules so far: those of the first are of IPv4.
    rule_listings: usize,
}

/// What a listing is of.
#[derive(Clone, Copy)]
enum Kind {
    Links,
    Routes,
    Rules,
    Neighbours,
    Vlans,
}

impl Said {
    /// Of this network namespace.
    pub fn here() -> Result<Said, String> {
        let mut said = Said::default();
        for (command, v6) in COMMANDS {
            let mut words = command.split(' ');
            let program = words.next().unwrap_or_default();
            let output = Command::new(program).args(words).output();
            let output = match output {
                Ok(output) => output,
                // Without bridge(8) there are no bridges with VLANs to speak of.
                Err(_) if program == "bridge" => continue,
                Err(e) => return Err(format!("{command}: {e}")),
            };
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(format!("{command}: {}", why.trim()));
            }
            said.take(command, &String::from_utf8_lossy(&output.stdout), Some(v6))?;
        }
        for command in IPSEC {
            let words = command.split(' ').skip(1);
            // A kernel without IPsec, or a user without rights, has none.
            if let Ok(output) = Command::new("ip").args(words).output()
                && output.status.success()
            {
                said.ipsec.push_str(&String::from_utf8_lossy(&output.stdout));
            }
        }
        Ok(said)
    }

    /// Of files that were written elsewhere; `-` is standard input.
    pub fn of_files(files: &[PathBuf]) -> Result<Said, String> {
        let mut said = Said::default();
        for file in files {
            let name = file.display().to_string();
            let mut text = String::new();
            let read = match &*name {
                "-" => std::io::stdin().read_to_string(&mut text).map(drop),
                _ => std::fs::read_to_string(file).map(|read| text = read),
            };
            read.map_err(|e| match e.kind() {
                ErrorKind::InvalidData => {
                    let message = format!("{name}: this is not what `ip -j` prints");
                    hinted(&message, file, Given::Other)
                }
                _ => format!("{name}: {e}"),
            })?;
            said.take(&name, &text, None)?;
        }
        if said.links.is_empty() {
            return Err(format!("no links: `{}` prints them", COMMANDS[0].0));
        }
        Ok(said)
    }

    /// Of a text that was printed elsewhere.
    #[cfg(test)]
    pub fn parse(name: &str, text: &str) -> Result<Said, String> {
        let mut said = Said::default();
        said.take(name, text, None)?;
        Ok(said)
    }

    /// Takes listings, one after the other; `v6` says what they are of where they do not.
    fn take(&mut self, name: &str, text: &str, v6: Option<bool>) -> Result<(), String> {
        if ipsec::is_listing(text) {
            self.ipsec.push_str(text);
            return Ok(());
        }
        for listing in serde_json::Deserializer::from_str(text).into_iter::<Vec<Object>>() {
            let listing = listing.map_err(|e| {
                format!(
                    "{name}:{}: this is not what `ip -j` prints ({e}); the commands are:\n{}",
                    e.line(),
                    COMMANDS.map(|(command, _)| format!("    {command}\n")).concat()
                )
            })?;
            let Some(first) = listing.iter().find(|object| !object.is_empty()) else { continue };
            let kind = kind(first).ok_or_else(|| {
                format!("{name}: neither links nor routes, rules, neighbours or VLANs are listed")
            })?;
            let listing = listing.into_iter().filter(|object| !object.is_empty());
            match kind {
                Kind::Links => self.links.extend(listing),
                Kind::Neighbours => self.neighbours.extend(listing),
                Kind::Vlans => self.vlans.extend(listing),
                Kind::Rules => {
                    self.rule_listings += 1;
                    match v6.unwrap_or(self.rule_listings > 1) {
                        false => self.rules4.extend(listing),
                        true => self.rules6.extend(listing),
                    }
                }
                Kind::Routes => {
                    for route in listing {
                        match v6.unwrap_or_else(|| is_v6(&route)) {
                            false => self.routes4.push(route),
                            true => self.routes6.push(route),
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// What a listing with this object is of.
fn kind(object: &Object) -> Option<Kind> {
    let has = |name| object.contains_key(name);
    Some(match () {
        () if has("ifindex") && has("ifname") => Kind::Links,
        () if has("vlans") && has("ifname") => Kind::Vlans,
        () if has("priority") && has("src") => Kind::Rules,
        () if has("dst") && has("state") => Kind::Neighbours,
        () if has("dst") => Kind::Routes,
        () => return None,
    })
}

/// Whether a route is of IPv6: only those have a preference.
fn is_v6(route: &Object) -> bool {
    let of6 = |name| text(route, name).is_some_and(|text| text.contains(':'));
    route.contains_key("pref") || of6("dst") || of6("gateway")
}

/// A member that is text.
pub fn text<'o>(object: &'o Object, name: &str) -> Option<&'o str> {
    object.get(name)?.as_str()
}

/// A member that is a number.
pub fn number(object: &Object, name: &str) -> Option<u64> {
    object.get(name)?.as_u64()
}

/// Whether a list of words has one.
pub fn has_word(object: &Object, name: &str, word: &str) -> bool {
    object
        .get(name)
        .and_then(Value::as_array)
        .is_some_and(|words| words.iter().any(|w| w.as_str() == Some(word)))
}

/// The objects of a member that is a list.
pub fn objects<'o>(object: &'o Object, name: &str) -> impl Iterator<Item = &'o Object> {
    object.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// A line of ip(8), to which words are added.
pub struct Line(pub String);

impl Line {
    /// Appends a word and its value.
    pub fn word(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a String does not fail.
        let _ = write!(self.0, " {name} {value}");
    }

    /// Appends a word with a member that is text or a number, if it is there.
    pub fn member(&mut self, object: &Object, member: &str, word: &str) {
        if let Some(text) = text(object, member) {
            self.word(word, text);
        } else if let Some(number) = number(object, member) {
            self.word(word, number);
        }
    }
}
