// SPDX-License-Identifier: Apache-2.0

//! Hooks in words: `xdp:DEV`, `tc-ingress:DEV`, `tc-egress:DEV`, `[FAMILY:]HOOK[@PRIORITY]`.

use std::fmt;
use std::str::FromStr;

use penstock_dataplane::BpfHook;
use penstock_ebpfvm::ProgramKind;
use penstock_lang::{hooks, priority};
use penstock_net::Network;
use penstock_program::Hook;
use penstock_ruleset::Family;

/// A hook that programs can be attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Frames that arrive on a device.
    Xdp(String),
    /// Packets that arrive on a device.
    TcIngress(String),
    /// Packets that leave by a device.
    TcEgress(String),
    /// A hook of netfilter.
    Netfilter {
        /// `inet` for both families of IP.
        family: Family,
        /// The hook.
        hook: Hook,
        /// Lower ones come first.
        priority: i32,
    },
}

impl Place {
    /// Programs of which kind it takes.
    pub fn kind(&self) -> ProgramKind {
        match self {
            Place::Xdp(_) => ProgramKind::Xdp,
            Place::TcIngress(_) | Place::TcEgress(_) => ProgramKind::Tc,
            Place::Netfilter { .. } => ProgramKind::Netfilter,
        }
    }

    /// The hooks of a path that it names, with their names in messages. `registered` is the number
    /// of base chains that were registered so far.
    ///
    /// # Errors
    /// A device that is not there.
    pub fn hooks(
        &self,
        net: &Network,
        registered: u64,
    ) -> Result<Vec<(BpfHook, String)>, &'static str> {
        let device = |name: &str, wire: bool| match net.link_by_name(name) {
            Some(link) if !wire || link.is_wire() => Ok(link.index),
            _ => Err("there is no such device"),
        };
        Ok(match self {
            Place::Xdp(name) => {
                vec![(BpfHook::Xdp { device: device(name, true)? }, format!("xdp {name}"))]
            }
            Place::TcIngress(name) => {
                let hook = BpfHook::TcIngress { device: device(name, false)? };
                vec![(hook, format!("tc-ingress {name}"))]
            }
            Place::TcEgress(name) => {
                let hook = BpfHook::TcEgress { device: device(name, false)? };
                vec![(hook, format!("tc-egress {name}"))]
            }
            Place::Netfilter { family, hook, priority } => {
                let families = match family {
                    Family::Inet => &[Family::Ip, Family::Ip6][..],
                    other => &[*other][..],
                };
                let of = |family: &Family| {
                    let (name, at) = (family.name(), hooks::name(*hook));
                    let (family, hook, priority) = (*family, *hook, *priority);
                    let label = format!("{name} {at} {priority}");
                    (BpfHook::Netfilter { family, hook, priority, registered }, label)
                };
                families.iter().map(of).collect()
            }
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Xdp(device) => write!(f, "xdp:{device}"),
            Place::TcIngress(device) => write!(f, "tc-ingress:{device}"),
            Place::TcEgress(device) => write!(f, "tc-egress:{device}"),
            Place::Netfilter { family, hook, priority } => {
                if *family != Family::Inet {
                    write!(f, "{}:", family.name())?;
                }
                write!(f, "{}", hooks::name(*hook))?;
                if *priority == 0 { Ok(()) } else { write!(f, "@{priority}") }
            }
        }
    }
}

/// A priority: a number, or a name with or without an offset (`raw - 5`, `filter+1`).
fn priority(text: &str, family: Family, hook: Hook) -> Option<i32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let end = text.find(['+', '-']).unwrap_or(text.len());
    let (name, offset) = text.split_at(end);
    let base = priority::by_name(name.trim(), family, hook)?;
    let offset: String = offset.chars().filter(|c| !c.is_whitespace()).collect();
    let offset: i32 = if offset.is_empty() { 0 } else { offset.parse().ok()? };
    base.checked_add(offset)
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let device = |name: &str| match name {
            "" => Err("a device is missing".to_owned()),
            name => Ok(name.to_owned()),
        };
        let (head, rest) = match text.split_once(':') {
            Some((head, rest)) => (head, Some(rest)),
            None => (text, None),
        };
        match (head, rest) {
            ("xdp", rest) => return Ok(Place::Xdp(device(rest.unwrap_or(""))?)),
            ("tc-ingress", rest) => return Ok(Place::TcIngress(device(rest.unwrap_or(""))?)),
            ("tc-egress", rest) => return Ok(Place::TcEgress(device(rest.unwrap_or(""))?)),
            _ => {}
        }
        let (family, at) = match (head, rest) {
            ("ip", Some(at)) => (Family::Ip, at),
            ("ip6", Some(at)) => (Family::Ip6, at),
            ("inet", Some(at)) => (Family::Inet, at),
            (at, None) => (Family::Inet, at),
            (other, Some(_)) => return Err(format!("there is no hook `{other}` with a device")),
        };
        let (name, number) = match at.split_once('@') {
            Some((name, number)) => (name, Some(number)),
            None => (at, None),
        };
        let hook = hooks::ALL.into_iter().find(|hook| hooks::name(*hook) == name);
        let hook = hook.filter(|hook| !matches!(hook, Hook::Ingress | Hook::Egress));
        let hook = hook.ok_or_else(|| format!("there is no hook `{name}`"))?;
        let priority = match number {
            None => 0,
            Some(text) => priority(text, family, hook)
                .ok_or_else(|| format!("there is no priority `{text}`"))?,
        };
        Ok(Place::Netfilter { family, hook, priority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_read_and_written() {
        for (text, written) in [
            ("xdp:lan", "xdp:lan"),
            ("tc-ingress:wan.7", "tc-ingress:wan.7"),
            ("tc-egress:wan", "tc-egress:wan"),
            ("forward", "forward"),
            ("inet:forward@filter", "forward"),
            ("forward@-50", "forward@-50"),
            ("ip:prerouting@raw - 5", "ip:prerouting@-305"),
            ("ip6:output@mangle+1", "ip6:output@-149"),
            ("postrouting@srcnat", "postrouting@100"),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!(place.to_string(), written, "{text}");
            assert_eq!(written.parse(), Ok(place), "{text}");
        }
        for (text, message) in [
            ("xdp", "a device is missing"),
            ("tc-egress:", "a device is missing"),
            ("lan", "there is no hook `lan`"),
            ("ingress", "there is no hook `ingress`"),
            ("arp:input", "there is no hook `arp` with a device"),
            ("forward@srcnat", "there is no priority `srcnat`"),
            ("forward@", "there is no priority ``"),
        ] {
            assert_eq!(text.parse::<Place>(), Err(message.to_owned()), "{text}");
        }
    }
}
