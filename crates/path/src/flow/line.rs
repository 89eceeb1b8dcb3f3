// SPDX-License-Identifier: Apache-2.0

//! Flows in words, for listings.

use std::fmt;
use std::time::Duration;

use penstock_conntrack::{Connection, Tuple};
use penstock_flowtable::{Direction, Transmit, Tunnel};
use penstock_net::Network;
use penstock_ruleset::Family;

use crate::flow::direction::of_connection;
use crate::flow::{FlowCounts, FlowEntry, Flows, NotOffloaded};

/// What happened to flows so far, and how often others were not offloaded, in lines.
#[derive(Clone, Debug, Default)]
pub struct FlowSummary {
    counts: FlowCounts,
    refusals: Vec<(NotOffloaded, u64)>,
}

impl FlowSummary {
    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &FlowSummary) {
        self.counts = self.counts.plus(&other.counts);
        for (reason, count) in &other.refusals {
            match self.refusals.iter_mut().find(|(r, _)| r == reason) {
                Some((_, all)) => *all += count,
                None => self.refusals.push((*reason, *count)),
            }
        }
        self.refusals.sort_unstable();
    }
}

impl Flows {
    pub(crate) fn summary(&self) -> FlowSummary {
        FlowSummary { counts: self.counts(), refusals: self.refusals().collect() }
    }
}

impl fmt::Display for FlowSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowCounts {
            added,
            expired,
            torn_down,
            ended,
            packets,
            chained,
            fell_back,
            taken,
            not_taken,
        } = self.counts;
        writeln!(
            f,
            "{added} flows added, {expired} expired, {torn_down} torn down, {ended} ended with their connection; \
             {packets} packets, {chained} of them in chains, {fell_back} fell back"
        )?;
        if taken + not_taken > 0 {
            writeln!(f, "devices took flows {taken} times, and refused them {not_taken} times")?;
        }
        self.refusals
            .iter()
            .try_for_each(|(reason, count)| writeln!(f, "not offloaded {count} times: {reason}"))
    }
}

const SECOND: f64 = 1e9;

/// A flow, or why there is none, in lines.
pub struct FlowLines<'a> {
    entry: FlowEntry<'a>,
    net: &'a Network,
    now: u64,
}

impl<'a> FlowEntry<'a> {
    /// The lines that list it: where it is, each direction's way with packets and bytes and their
    /// average rates since it was added, its age; or why it is not there. `now` are nanoseconds
    /// since the epoch.
    pub fn lines(self, net: &'a Network, now: u64) -> FlowLines<'a> {
        FlowLines { entry: self, net, now }
    }
}

/// `198.18.1.7:1000 > 198.18.0.7:53`, addresses of IPv6 in brackets.
fn tuple(f: &mut fmt::Formatter<'_>, t: &Tuple) -> fmt::Result {
    let end = |f: &mut fmt::Formatter<'_>, address: std::net::IpAddr, port: u16| match address {
        std::net::IpAddr::V4(a) => write!(f, "{a}:{port}"),
        std::net::IpAddr::V6(a) => write!(f, "[{a}]:{port}"),
    };
    end(f, t.source(), t.src_id)?;
    f.write_str(" > ")?;
    end(f, t.destination(), t.dst_id)
}

fn head(
    f: &mut fmt::Formatter<'_>,
    of: (Family, &str, &str),
    connection: &Connection<'_>,
) -> fmt::Result {
    let original = connection.tuple(of_connection(Direction::Original));
    let reply = connection.tuple(of_connection(Direction::Reply));
    let protocol = match original.protocol {
        6 => "tcp",
        17 => "udp",
        47 => "gre",
        _ => "ip",
    };
    write!(f, "{} {} {}: {protocol} ", of.0.name(), of.1, of.2)?;
    tuple(f, original)?;
    // It leaves as what replies answer to.
    if original.invert().is_some_and(|plain| plain != Tuple { zone: plain.zone, ..*reply })
        && let Some(leaves) = reply.invert()
    {
        f.write_str(", leaves as ")?;
        tuple(f, &leaves)?;
    }
    Ok(())
}

struct Around<'a>(&'a [penstock_flowtable::Encap], Option<Tunnel>);

impl fmt::Display for Around<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for encap in self.0 {
            match encap.protocol {
                0x8864 => write!(f, " pppoe {}", encap.id)?,
                0x88a8 => write!(f, " 802.1ad {}", encap.id)?,
                _ => write!(f, " vlan {}", encap.id)?,
            }
        }
        match self.1 {
            Some(t) => write!(f, " tunnel {} > {}", t.src, t.dst),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FlowLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow = match &self.entry {
            FlowEntry::Flow(flow) => flow,
            FlowEntry::Refused(refused) => {
                head(f, (refused.family, refused.table, refused.flowtable), &refused.connection)?;
                return write!(f, "\n    not offloaded: {}", refused.reason);
            }
        };
        head(f, (flow.family, flow.table, flow.flowtable), &flow.connection)?;
        let age = self.now.saturating_sub(flow.added);
        for direction in Direction::BOTH {
            let at = direction as usize;
            let (arrival, way, (packets, bytes)) =
                (flow.arrivals[at], flow.ways[at], flow.packets[at]);
            let name = |device| self.net.name_of(device);
            write!(
                f,
                "\n    {}{}",
                name(arrival.device),
                Around(arrival.encaps.as_slice(), arrival.tunnel)
            )?;
            write!(
                f,
                " -> {}{}",
                name(way.device),
                Around(way.encaps.as_slice(), way.tunnel.map(|t| t.ends))
            )?;
            if let Some(next) = way.next_hop {
                write!(f, " via {next}")?;
            }
            match way.transmit {
                Transmit::Neigh => {}
                Transmit::Direct => f.write_str(" direct")?,
                Transmit::Xfrm(_) => f.write_str(" ipsec")?,
            }
            let rate = |n: u64| n as f64 * SECOND / (age.max(1) as f64);
            write!(f, " mtu {}: {packets} packets {bytes} bytes", way.mtu)?;
            write!(f, ", {:.1} packets/s {:.0} bit/s", rate(packets), rate(bytes * 8))?;
        }
        let seconds = |ns| Duration::from_nanos(ns).as_secs_f64();
        write!(
            f,
            "\n    age {:.3} s, idle {:.3} s",
            seconds(age),
            seconds(self.now.saturating_sub(flow.used))
        )?;
        f.write_str(if flow.hardware { ", in hardware" } else { ", in software" })?;
        if flow.closing { f.write_str(", closing") } else { Ok(()) }
    }
}
