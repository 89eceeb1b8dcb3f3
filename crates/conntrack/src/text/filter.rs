// SPDX-License-Identifier: Apache-2.0

//! Choosing connections as `conntrack -L` and `-D` do, by the same options.

use super::line::protocol_name;
use crate::outline::Outline;
use crate::table::Connection;
use crate::tuple::{IPV4, IPV6};
use crate::{Direction, Tuple, status};
use penstock_wire::protocol;
use std::net::IpAddr;

/// An address with the bits of it that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Net {
    address: IpAddr,
    bits: u8,
}

impl Net {
    fn parse(text: &str) -> Option<Net> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse().ok()?, Some(bits.parse().ok()?)),
            None => (text.parse().ok()?, None),
        };
        let most = if matches!(address, IpAddr::V4(_)) { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Net { address, bits })
    }

    fn has(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                self.bits == 0 || (a.to_bits() ^ b.to_bits()) >> (32 - self.bits) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                self.bits == 0 || (a.to_bits() ^ b.to_bits()) >> (128 - self.bits) == 0
            }
            _ => false,
        }
    }
}

/// Which connections; the default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    family: Option<u8>,
    protocol: Option<u8>,
    /// Source and destination by direction.
    nets: [[Option<Net>; 2]; 2],
    /// Ports, or identifiers, by direction.
    ports: [[Option<u16>; 2]; 2],
    icmp: [Option<u8>; 2],
    state: Option<String>,
    status: u32,
    unset: bool,
    mark: Option<(u32, u32)>,
    zones: [Option<u16>; 2],
    source_nat: bool,
    destination_nat: bool,
    any_nat: bool,
    label: Option<u8>,
}

/// Number of a protocol by name or number.
fn protocol_number(text: &str) -> Option<u8> {
    if let Ok(n) = text.parse() {
        return Some(n);
    }
    if text == "icmpv6" || text == "ipv6-icmp" {
        return Some(protocol::ICMPV6);
    }
    (0..=255u8).find(|n| protocol_name(*n) == text && text != "unknown")
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Filter {
    /// Reads the options of `conntrack -L` that choose:
    /// `-p -f -s -d -r -q --sport --dport --reply-port-src --reply-port-dst --icmp-type --icmp-code --icmp-id --state -u -m -w --orig-zone --reply-zone -n -g -j -l`
    /// and their long forms. Labels are numbers of bits.
    ///
    /// # Errors
    /// What is wrong with the first option that is.
    pub fn parse<S: AsRef<str>>(options: &[S]) -> Result<Filter, String> {
        const ORIGINAL: usize = Direction::Original as usize;
        const REPLY: usize = Direction::Reply as usize;
        let mut out = Filter::default();
        let mut rest = options.iter().map(AsRef::as_ref);
        while let Some(option) = rest.next() {
            let (option, joined) = match option.split_once('=') {
                Some((o, v)) if option.starts_with("--") => (o, Some(v)),
                _ => (option, None),
            };
            match option {
                "-n" | "--src-nat" => {
                    out.source_nat = true;
                    continue;
                }
                "-g" | "--dst-nat" => {
                    out.destination_nat = true;
                    continue;
                }
                "-j" | "--any-nat" => {
                    out.any_nat = true;
                    continue;
                }
                _ => {}
            }
            let value = joined
                .or_else(|| rest.next())
                .ok_or_else(|| format!("option `{option}' needs a value"))?;
            let bad = || format!("bad value `{value}' of `{option}'");
            let net = || Net::parse(value).map(Some).ok_or_else(bad);
            let port = || value.parse().map(Some).map_err(|_| bad());
            match option {
                "-p" | "--proto" => out.protocol = Some(protocol_number(value).ok_or_else(bad)?),
                "-f" | "--family" => {
                    out.family = Some(match value {
                        "ipv4" => IPV4,
                        "ipv6" => IPV6,
                        _ => return Err(bad()),
                    });
                }
                "-s" | "--src" | "--orig-src" => out.nets[ORIGINAL][0] = net()?,
                "-d" | "--dst" | "--orig-dst" => out.nets[ORIGINAL][1] = net()?,
                "-r" | "--reply-src" => out.nets[REPLY][0] = net()?,
                "-q" | "--reply-dst" => out.nets[REPLY][1] = net()?,
                "--sport" | "--orig-port-src" | "--icmp-id" | "--srckey" => {
                    out.ports[ORIGINAL][0] = port()?
                }
                "--dport" | "--orig-port-dst" | "--dstkey" => out.ports[ORIGINAL][1] = port()?,
                "--reply-port-src" => out.ports[REPLY][0] = port()?,
                "--reply-port-dst" => out.ports[REPLY][1] = port()?,
                "--icmp-type" => out.icmp[0] = Some(value.parse().map_err(|_| bad())?),
                "--icmp-code" => out.icmp[1] = Some(value.parse().map_err(|_| bad())?),
                "--state" => out.state = Some(value.to_ascii_uppercase()),
                "-u" | "--status" => {
                    for name in value.split(',') {
                        out.status |= match name.to_ascii_uppercase().as_str() {
                            "EXPECTED" => status::EXPECTED,
                            "ASSURED" => status::ASSURED,
                            "SEEN_REPLY" => status::SEEN_REPLY,
                            "FIXED_TIMEOUT" => status::FIXED_TIMEOUT,
                            "CONFIRMED" => status::CONFIRMED,
                            "OFFLOAD" => status::OFFLOAD,
                            "HW_OFFLOAD" => status::HW_OFFLOAD,
                            "UNSET" | "UNREPLIED" => {
                                out.unset = true;
                                0
                            }
                            _ => return Err(bad()),
                        };
                    }
                }
                "-m" | "--mark" => {
                    let (mark, mask) = value.split_once('/').unwrap_or((value, "0xffffffff"));
                    out.mark = Some((number(mark).ok_or_else(bad)?, number(mask).ok_or_else(bad)?));
                }
                "-w" | "--zone" => out.zones = [port()?; 2],
                "--orig-zone" => out.zones[0] = port()?,
                "--reply-zone" => out.zones[1] = port()?,
                "-l" | "--label" => {
                    out.label = Some(value.parse().ok().filter(|n| *n < 128).ok_or_else(bad)?);
                }
                _ => return Err(format!("unknown option `{option}'")),
            }
        }
        Ok(out)
    }

    /// Whether a connection is one of them.
    pub fn has(&self, c: &Connection<'_>) -> bool {
        self.has_outline(&c.outline())
    }

    /// Whether a connection with this outline is one of them.
    pub fn has_outline(&self, c: &Outline) -> bool {
        let tuples = &c.tuples;
        let [original, reply] = tuples;
        let source_nat =
            original.src != reply.dst || original.src_id != reply.dst_id && has_ports(original);
        let destination_nat =
            original.dst != reply.src || original.dst_id != reply.src_id && has_ports(original);
        let [kind, code] = original.dst_id.to_be_bytes();
        self.family.is_none_or(|f| f == original.l3)
            && self.protocol.is_none_or(|p| p == original.protocol)
            && tuples.iter().zip(&self.nets).all(|(t, [src, dst])| {
                src.is_none_or(|n| n.has(t.source())) && dst.is_none_or(|n| n.has(t.destination()))
            })
            && tuples.iter().zip(&self.ports).all(|(t, [src, dst])| {
                src.is_none_or(|p| p == t.src_id) && dst.is_none_or(|p| p == t.dst_id)
            })
            && self.icmp[0].is_none_or(|k| k == kind)
            && self.icmp[1].is_none_or(|k| k == code)
            && self.state.as_deref().is_none_or(|s| c.state == Some(s))
            && c.status & self.status == self.status
            && (!self.unset || c.status & status::SEEN_REPLY == 0)
            && self.mark.is_none_or(|(mark, mask)| c.mark & mask == mark)
            && self.zones[0].is_none_or(|z| z == original.zone)
            && self.zones[1].is_none_or(|z| z == reply.zone)
            && (!self.source_nat || source_nat)
            && (!self.destination_nat || destination_nat)
            && (!self.any_nat || source_nat || destination_nat)
            && self.label.is_none_or(|bit| {
                c.labels.is_some_and(|l| l[usize::from(bit / 32)] >> (bit % 32) & 1 != 0)
            })
    }
}

fn has_ports(t: &Tuple) -> bool {
    !matches!(t.protocol, protocol::ICMP | protocol::ICMPV6)
}
