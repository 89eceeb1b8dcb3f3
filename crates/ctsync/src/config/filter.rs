// SPDX-License-Identifier: Apache-2.0

//! Which connections are told (`Filter`, `filter.c`).

use std::net::IpAddr;

use penstock_wire::protocol;

use super::words::Words;

/// Whether what is listed is told, or everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// What is listed is told.
    Accept,
    /// What is listed is not told.
    Ignore,
}

/// A list and its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T> {
    /// The policy.
    pub policy: Policy,
    /// What is listed.
    pub items: Vec<T>,
}

impl<T> List<T> {
    fn passes(&self, is: impl Fn(&T) -> bool) -> bool {
        self.items.iter().any(is) == (self.policy == Policy::Accept)
    }
}

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// One of the addresses.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

impl Network {
    fn has(&self, address: &IpAddr) -> bool {
        let bits = |address: &IpAddr| match address {
            IpAddr::V4(a) => (u128::from(a.to_bits()) << 96, 32),
            IpAddr::V6(a) => (a.to_bits(), 128),
        };
        let ((own, size), (other, other_size)) = (bits(&self.address), bits(address));
        let differ = (own ^ other).checked_shr(128 - u32::from(self.prefix)).unwrap_or(0);
        size == other_size && differ == 0
    }
}

/// Which connections are told: those that pass all lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Protocols.
    pub protocols: Option<List<u8>>,
    /// Networks of the source, or of where answers come from.
    pub addresses: Option<List<Network>>,
    /// Numbers of states of TCP (`enum tcp_conntrack`). Other protocols pass.
    pub tcp_states: Option<List<u8>>,
}

/// States of TCP by their numbers.
const TCP_STATES: [&str; 9] = [
    "",
    "SYN_SENT",
    "SYN_RECV",
    "ESTABLISHED",
    "FIN_WAIT",
    "CLOSE_WAIT",
    "LAST_ACK",
    "TIME_WAIT",
    "CLOSE",
];

impl Filter {
    /// Whether a connection of a protocol is told: its source, where its answers come from, and its
    /// state of TCP.
    pub fn passes(&self, protocol: u8, ends: [IpAddr; 2], tcp_state: Option<u8>) -> bool {
        let of_protocol =
            self.protocols.as_ref().is_none_or(|list| list.passes(|p| *p == protocol));
        let of_addresses = self
            .addresses
            .as_ref()
            .is_none_or(|list| list.passes(|network| ends.iter().any(|end| network.has(end))));
        let of_state = match (&self.tcp_states, tcp_state) {
            (Some(list), Some(state)) => list.passes(|s| *s == state),
            _ => true,
        };
        of_protocol && of_addresses && of_state
    }

    /// Reads what follows `Filter`.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Self, String> {
        if words.take("From") {
            let from = words.need("`Userspace` or `Kernelspace`")?;
            if !["Userspace", "Kernelspace"].contains(&from) {
                return Err(words.error(format_args!(
                    "`Userspace` or `Kernelspace` is expected, and not `{from}`"
                )));
            }
        }
        let mut filter = Filter::default();
        words.section(|words, clause| {
            let policy = match (clause, words.need("`Accept` or `Ignore`")?) {
                ("Protocol" | "Address" | "State", "Accept") => Policy::Accept,
                ("Protocol" | "Address" | "State", "Ignore") => Policy::Ignore,
                ("Protocol" | "Address" | "State", other) => {
                    return Err(words.error(format_args!(
                        "`Accept` or `Ignore` is expected, and not `{other}`"
                    )));
                }
                _ => return Err(words.error(format_args!("there is no `{clause}` in a Filter"))),
            };
            match clause {
                "Protocol" => {
                    let mut items = Vec::new();
                    words.section(|words, name| {
                        items.push(protocol_of(name).ok_or_else(|| {
                            words.error(format_args!("there is no protocol `{name}`"))
                        })?);
                        Ok(())
                    })?;
                    filter.protocols = Some(List { policy, items });
                }
                "Address" => {
                    let mut items = Vec::new();
                    words.section(|words, kind| {
                        items.push(network(words, kind)?);
                        Ok(())
                    })?;
                    filter.addresses = Some(List { policy, items });
                }
                _ => {
                    let mut items = Vec::new();
                    words.section(|words, name| {
                        if name == "for" {
                            return words.expect("TCP");
                        }
                        let name = if name == "CLOSED" { "CLOSE" } else { name };
                        let number = TCP_STATES.iter().position(|state| *state == name);
                        items.push(number.ok_or_else(|| {
                            words.error(format_args!("there is no state `{name}` of TCP"))
                        })? as u8);
                        Ok(())
                    })?;
                    filter.tcp_states = Some(List { policy, items });
                }
            }
            Ok(())
        })?;
        Ok(filter)
    }
}

fn protocol_of(name: &str) -> Option<u8> {
    Some(match name.to_ascii_lowercase().as_str() {
        "tcp" => protocol::TCP,
        "udp" => protocol::UDP,
        "sctp" => protocol::SCTP,
        "dccp" => protocol::DCCP,
        "icmp" => protocol::ICMP,
        "ipv6-icmp" | "icmpv6" => protocol::ICMPV6,
        "gre" => protocol::GRE,
        "udplite" => protocol::UDPLITE,
        "esp" => protocol::ESP,
        "ah" => protocol::AH,
        "igmp" => protocol::IGMP,
        number => number.parse().ok()?,
    })
}

fn network(words: &mut Words<'_>, kind: &str) -> Result<Network, String> {
    let text = words.need("an address")?;
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
    let wrong = || words.error(format_args!("`{kind} {text}` is no address"));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let fits = match kind {
        "IPv4_address" => address.is_ipv4(),
        "IPv6_address" => address.is_ipv6(),
        _ => false,
    };
    let prefix = prefix.map_or(Some(most), |prefix| prefix.parse().ok());
    let prefix = prefix.filter(|prefix| fits && *prefix <= most).ok_or_else(wrong)?;
    Ok(Network { address, prefix })
}
