// SPDX-License-Identifier: Apache-2.0

//! Flows in maps, as a process reads them that finds the maps of another, which has died.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use penstock_bpf::Map;

use super::layout::{ORIGINAL, key4, key6, value};
use super::{FlowStatistics, Flows};

/// Addresses and ports, in host order, as packets have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Source.
    pub source: (IpAddr, u16),
    /// Destination.
    pub destination: (IpAddr, u16),
}

impl Ends {
    /// Those of answers.
    pub fn reversed(self) -> Ends {
        Ends { source: self.destination, destination: self.source }
    }
}

/// A flow that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundFlow {
    /// TCP or UDP.
    pub protocol: u8,
    /// How packets of the original direction arrive.
    pub original: Ends,
    /// How those of the other direction arrive.
    pub reply: Ends,
    /// What packets of both directions did since the flow was added.
    pub statistics: [FlowStatistics; 2],
}

/// One direction.
struct Half {
    protocol: u8,
    arrives: Ends,
    leaves: Ends,
    original: bool,
    statistics: FlowStatistics,
}

fn address(bytes: &[u8], v6: bool) -> Option<IpAddr> {
    Some(if v6 {
        Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()
    } else {
        Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()
    })
}

fn ends(v6: bool, source: &[u8], destination: &[u8], ports: &[u8]) -> Option<Ends> {
    let &[s0, s1, d0, d1] = ports.first_chunk()?;
    Some(Ends {
        source: (address(source, v6)?, u16::from_be_bytes([s0, s1])),
        destination: (address(destination, v6)?, u16::from_be_bytes([d0, d1])),
    })
}

fn half(v6: bool, key: &[u8], found: &[u8]) -> Option<Half> {
    let (at, destination, ports, protocol) = if v6 {
        (key6::SRC, key6::SRC + 16, key6::PORTS, key6::PROTOCOL)
    } else {
        (key4::SRC, key4::DST, key4::PORTS, key4::PROTOCOL)
    };
    let of_key = |at: i16| key.get(at as usize..);
    let of_value = |at: i16| found.get(at as usize..);
    let flags = u16::from_ne_bytes(*of_value(value::FLAGS)?.first_chunk()?);
    Some(Half {
        protocol: *of_key(protocol)?.first()?,
        arrives: ends(v6, of_key(at)?, of_key(destination)?, of_key(ports)?)?,
        leaves: ends(v6, of_value(value::SRC)?, of_value(value::DST)?, of_value(value::PORTS)?)?,
        original: flags & ORIGINAL != 0,
        statistics: FlowStatistics::of(found),
    })
}

/// Flows in maps that have names ([`Flows::maps`]): IPv4, IPv6. Those of which one direction is
/// missing are left out.
///
/// # Errors
/// Those of bpf(2); maps of another kind.
pub fn found(names: [&Path; 2]) -> io::Result<Vec<FoundFlow>> {
    let [v4, v6, _] = Flows::specs(0);
    let mut halves = Vec::new();
    for ((spec, name), v6) in [v4, v6].into_iter().zip(names).zip([false, true]) {
        let map = Map::pinned(spec, name)?;
        map.each(|key, value| halves.extend(half(v6, key, value)))?;
    }
    Ok(pairs(&halves))
}

/// The flows of entries of the maps: whether of IPv6, key, value. Entries that are cut are left
/// out.
pub fn found_in<'a>(
    entries: impl IntoIterator<Item = (bool, &'a [u8], &'a [u8])>,
) -> Vec<FoundFlow> {
    let halves: Vec<Half> =
        entries.into_iter().filter_map(|(v6, key, value)| half(v6, key, value)).collect();
    pairs(&halves)
}

fn pairs(halves: &[Half]) -> Vec<FoundFlow> {
    let by_arrival: HashMap<(u8, Ends), &Half> =
        halves.iter().map(|half| ((half.protocol, half.arrives), half)).collect();
    let flows = halves.iter().filter(|half| half.original).filter_map(|there| {
        let back = by_arrival.get(&(there.protocol, there.leaves.reversed()))?;
        let is_back = !back.original && back.leaves == there.arrives.reversed();
        is_back.then_some(FoundFlow {
            protocol: there.protocol,
            original: there.arrives,
            reply: back.arrives,
            statistics: [there.statistics, back.statistics],
        })
    });
    flows.collect()
}

/// How names of maps say which layout they have, so that another program does not read them as its
/// own.
pub const LAYOUT: &str = "1";

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::*;
    use penstock_flowtable::{Arrival, Key, Xmit, key};

    /// A key of a flow over IPv4 or IPv6.
    fn key(v6: bool, source: (&str, u16), destination: (&str, u16)) -> Key {
        let words = |address: &str| {
            let address: IpAddr = address.parse().expect("an address");
            let mut bytes = [0; 16];
            match address {
                IpAddr::V4(a) => bytes[..4].copy_from_slice(&a.octets()),
                IpAddr::V6(a) => bytes = a.octets(),
            }
            let (low, high) = bytes.split_at(8);
            [low, high].map(|half| u64::from_ne_bytes(*half.first_chunk().expect("eight bytes")))
        };
        let ([a, b], [c, d]) = (source.1.to_be_bytes(), destination.1.to_be_bytes());
        Key {
            src: words(source.0),
            dst: words(destination.0),
            ports: u32::from_ne_bytes([a, b, c, d]),
            l3: if v6 { key::IPV6 } else { key::IPV4 },
            l4: 6,
            ..Key::default()
        }
    }

    #[test]
    fn flows_are_read_as_they_were_written() {
        let ends = |source: (&str, u16), destination: (&str, u16)| Ends {
            source: (source.0.parse().expect("an address"), source.1),
            destination: (destination.0.parse().expect("an address"), destination.1),
        };
        for (v6, client, near, server) in [
            (false, ("198.18.0.2", 4000), ("198.18.1.1", 5000), ("198.18.1.2", 80)),
            (true, ("2001:db8::2", 4000), ("2001:db8:1::1", 4000), ("2001:db8:1::2", 443)),
        ] {
            let xmit = Xmit::neighbour(7, [2; 6], [3; 6], 1500);
            let arrival = Arrival::on(3);
            let (there, leaves) = (key(v6, client, server), key(v6, near, server));
            let (back, returns) = (key(v6, server, near), key(v6, server, client));
            let mut halves = Vec::new();
            for (arrives, to, flags) in [(&there, &leaves, ORIGINAL), (&back, &returns, 0)] {
                let half = layout::FlowHalf { key: arrives, arrival: &arrival, to, xmit: &xmit };
                let value = half.map_value(9, flags).expect("a value");
                halves.extend(super::half(v6, &half.map_key().expect("a key"), &value));
            }
            let found = pairs(&halves);
            let statistics = [FlowStatistics { packets: 0, bytes: 0, used: 9 }; 2];
            let (original, reply) = (ends(client, server), ends(server, near));
            assert_eq!(found, [FoundFlow { protocol: 6, original, reply, statistics }]);
            // One direction alone is no flow.
            assert!(halves.chunks(1).all(|half| pairs(half).is_empty()));
        }
        for len in 0..key4::LEN as usize {
            assert!(half(false, &vec![0; len], &[0; value::LEN as usize]).is_none() || len > 28);
        }
    }
}
