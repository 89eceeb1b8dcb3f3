// SPDX-License-Identifier: Apache-2.0

//! What an earlier dataplane has left in devices with `--persist`: programs that forward its flows.
//! Its flows become connections again, with their present counters.
//!
//! The connections are lines of a dump ([`penstock_conntrack`]), in addition to or instead of those
//! saved in a file, which may be a minute old.

use std::collections::HashMap;
use std::fmt::Write;

use penstock_bpf::Link;
use penstock_conntrack::status;
use penstock_ebpf::flow::{Ends, FlowStatistics, FoundFlow};
use penstock_io::device::Shut;
use penstock_wire::protocol;

use crate::pins::Pins;

/// First line of a dump.
const HEADER: &str = "penstock-conntrack 1";
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// How long a TCP connection lives on without packets, as an established one
/// (`nf_conntrack_tcp_timeout_established`).
const TCP_LEFT: u64 = 432_000 * SECOND;
/// How long a UDP connection lives on without packets, once it was answered
/// (`nf_conntrack_udp_timeout_stream`).
const UDP_LEFT: u64 = 120 * SECOND;

/// Programs that are still on their devices, and the flows that they forward.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    links: HashMap<u32, Link>,
    flows: Vec<FoundFlow>,
    any: bool,
}

impl Leftovers {
    /// What there is. Programs stay where they are.
    pub(crate) fn find() -> Leftovers {
        let Some(found) = Pins::left() else { return Leftovers::default() };
        let links = found.links().collect();
        Leftovers { links, flows: found.flows(), any: true }
    }

    /// Whether there was something.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Takes the program off a device. Until a socket receives there, frames are dropped, so the
    /// kernel does not answer them.
    pub(crate) fn release(&mut self, device: u32) -> Option<Shut> {
        let link = self.links.remove(&device)?;
        let shut = Shut::device(device).ok();
        // The device may have been another's number.
        let _ = link.detach();
        shut
    }

    /// Adds the connections of the flows to a dump, which may be empty; the number of them.
    /// Counters become those of the device where these are greater: what of it was told before is
    /// not known.
    pub(crate) fn adopt(&self, dump: &mut String, now: u64) -> usize {
        adopt_flows(dump, &self.flows, now)
    }
}

/// A tuple as dumps have it.
fn tuple(ends: &Ends) -> String {
    let Ends { source: (source, sport), destination: (destination, dport) } = ends;
    format!("{source},{destination},{sport},{dport},0")
}

/// Value of a key in a line.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// A line with another value of a key.
fn with(line: &str, key: &str, new: &str) -> String {
    let mut words: Vec<String> = line
        .split(' ')
        .filter(|word| word.split_once('=').is_none_or(|(k, _)| k != key))
        .map(str::to_owned)
        .collect();
    words.push(format!("{key}={new}"));
    words.join(" ")
}

/// What is left of the life of a flow: `now` and the last packet are of the same clock.
fn left_of(flow: &FoundFlow, now: u64) -> Option<u64> {
    let used = flow.statistics.iter().map(|s| s.used).max().unwrap_or(0);
    let idle = now.saturating_sub(used);
    let life = if flow.protocol == protocol::TCP { TCP_LEFT } else { UDP_LEFT };
    life.checked_sub(idle).filter(|left| *left > 0)
}

/// The tracker of TCP looks at no window of before: packets went past it
/// (`flow_offload_fixup_tcp()`).
fn without_windows(tcp: &str) -> String {
    /// Where each side begins, and its greatest window in it.
    const SIDES: [usize; 2] = [10, 16];
    const WINDOW: usize = 2;
    let mut fields: Vec<&str> = tcp.split(',').collect();
    for side in SIDES {
        if let Some(field) = fields.get_mut(side + WINDOW) {
            *field = "0";
        }
    }
    fields.join(",")
}

/// Adds the connections of flows to a dump, which may be empty; the number of them. Counters become
/// those of the flow where these are greater. `now` and the times of the flows are nanoseconds of
/// the same clock.
pub fn adopt_flows(dump: &mut String, flows: &[FoundFlow], now: u64) -> usize {
    let mut lines: Vec<String> = dump.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        lines.push(HEADER.into());
    }
    let mut there: HashMap<(String, String), usize> = HashMap::new();
    let mut id = 0;
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("flow ")) {
        id = value(line, "id").and_then(|n| n.parse::<u32>().ok()).unwrap_or(0).max(id);
        for key in ["orig", "reply"] {
            if let (Some(protocol), Some(tuple)) = (value(line, "proto"), value(line, key)) {
                there.insert((protocol.into(), tuple.into()), at);
            }
        }
    }
    let mut adopted = 0;
    for flow in flows {
        let Some(left) = left_of(flow, now) else { continue };
        let place = |ends: &Ends| there.get(&(flow.protocol.to_string(), tuple(ends))).copied();
        match place(&flow.original).or_else(|| place(&flow.reply)) {
            Some(at) => {
                if let Some(line) = lines.get_mut(at) {
                    *line = updated(line, flow, left);
                }
            }
            None => {
                id += 1;
                // Flows on two devices, or under two tags, may have the same addresses: a
                // connection is there once.
                for ends in [&flow.original, &flow.reply] {
                    there.insert((flow.protocol.to_string(), tuple(ends)), lines.len());
                }
                lines.push(line_of(flow, id, left));
            }
        }
        adopted += 1;
    }
    *dump = lines.iter().fold(String::new(), |mut out, line| {
        let _ = writeln!(out, "{line}");
        out
    });
    adopted
}

/// A connection that was kept, as it is by now.
fn updated(line: &str, flow: &FoundFlow, left: u64) -> String {
    let mut line = with(line, "left", &left.to_string());
    if let Some(tcp) = value(&line, "tcp").map(without_windows) {
        line = with(&line, "tcp", &tcp);
    }
    for (key, counted) in [
        ("packets", flow.statistics.map(|s| s.packets)),
        ("bytes", flow.statistics.map(|s| s.bytes)),
    ] {
        let before = value(&line, key)
            .map(|v| v.split(',').map(|n| n.parse().unwrap_or(0)).collect::<Vec<u64>>());
        if let Some([a, b]) = before.as_deref() {
            line = with(&line, key, &format!("{},{}", counted[0].max(*a), counted[1].max(*b)));
        }
    }
    line
}

/// A connection that is known by its flow alone.
fn line_of(flow: &FoundFlow, id: u32, left: u64) -> String {
    /// Established; nothing is known of the windows, which are not asked about.
    const TCP: &str = "3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,8,0,0,0,0,0,8";
    let Ends { source, destination } = flow.original;
    let mut bits = status::SEEN_REPLY | status::ASSURED | status::CONFIRMED | status::NAT_DONE_MASK;
    bits |= if flow.reply.destination == source { 0 } else { status::SRC_NAT };
    bits |= if flow.reply.source == destination { 0 } else { status::DST_NAT };
    let mut line = format!(
        "flow id={id} proto={} orig={} reply={} status={bits} left={left}",
        flow.protocol,
        tuple(&flow.original),
        tuple(&flow.reply)
    );
    let [there, back]: [FlowStatistics; 2] = flow.statistics;
    let _ = write!(
        line,
        " packets={},{} bytes={},{}",
        there.packets, back.packets, there.bytes, back.bytes
    );
    line += if flow.protocol == protocol::TCP { " tcp=" } else { " udp=" };
    line += if flow.protocol == protocol::TCP { TCP } else { "0" };
    line
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use penstock_conntrack::{Conntrack, Settings};

    use super::*;

    fn ends(source: (&str, u16), destination: (&str, u16)) -> Ends {
        let address = |a: &str| a.parse::<IpAddr>().expect("an address");
        Ends {
            source: (address(source.0), source.1),
            destination: (address(destination.0), destination.1),
        }
    }

    fn flow(protocol: u8, port: u16, packets: u64, used: u64) -> FoundFlow {
        let (client, near, server) =
            (("198.18.0.2", port), ("198.18.1.1", port), ("198.18.1.2", 80));
        let statistics = FlowStatistics { packets, bytes: packets * 100, used };
        let back = FlowStatistics { packets: 1, bytes: 100, used: 0 };
        FoundFlow {
            protocol,
            original: ends(client, server),
            reply: ends(server, near),
            statistics: [statistics, back],
        }
    }

    /// Protocol, port and packets of the connections of a dump, once loaded.
    fn loaded(dump: &str) -> Vec<String> {
        let mut table = Conntrack::new(Settings { acct: true, ..Settings::default() });
        table.load(dump, 1).expect(dump);
        let dump = table.dump();
        let lines = dump.lines().skip(1).map(|line| {
            let reply = value(line, "reply").expect("a tuple").split(',').nth(3).expect("a port");
            format!(
                "{} {reply} {}",
                value(line, "proto").expect("proto"),
                value(line, "packets").expect("packets")
            )
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    }

    #[test]
    fn flows_become_connections_with_their_counters() {
        let now = 1000 * SECOND;
        let mut dump = String::new();
        // One of UDP that has been silent for too long.
        let flows = [
            flow(6, 4000, 50, 0),
            flow(17, 4001, 7, 950 * SECOND),
            flow(17, 4002, 7, 800 * SECOND),
        ];
        assert_eq!(adopt_flows(&mut dump, &flows, now), 2);
        assert_eq!(loaded(&dump), ["17 4001 7,1", "6 4000 50,1"]);
        let line = dump.lines().find(|l| l.contains("4000")).expect("a line");
        let bits: u32 = value(line, "status").and_then(|s| s.parse().ok()).expect("a status");
        assert_eq!(bits & status::NAT_MASK, status::SRC_NAT);
        // What was kept counts, and nothing twice.
        let kept = dump.clone();
        let later = [flow(6, 4000, 90, now), flow(17, 4001, 3, now), flow(6, 4003, 1, now)];
        assert_eq!(adopt_flows(&mut dump, &later, now), 3);
        assert_eq!(loaded(&dump), ["17 4001 7,1", "6 4000 90,1", "6 4003 1,1"]);
        assert_eq!(dump.lines().count(), kept.lines().count() + 1);
    }

    #[test]
    fn a_kept_connection_ignores_its_old_tcp_window() {
        let mut dump = String::new();
        adopt_flows(&mut dump, &[flow(6, 4000, 1, 1)], 1);
        let mut table = Conntrack::new(Settings::default());
        table.load(&dump, 1).expect("a dump");
        let tcp = "3,1,0,2,5,6,7,8,0,16,100,200,300,400,7,9,500,600,700,800,7,9";
        let mut kept = with(dump.lines().nth(1).expect("a line"), "tcp", tcp);
        kept = format!("{HEADER}\n{kept} mark=5\n");
        adopt_flows(&mut kept, &[flow(6, 4000, 1, 1)], 1);
        assert!(
            kept.contains("tcp=3,1,0,2,5,6,7,8,0,16,100,200,0,400,7,9,500,600,0,800,7,9"),
            "{kept}"
        );
        assert!(kept.contains("mark=5"));
        Conntrack::new(Settings::default()).load(&kept, 1).expect("a dump");
    }
}
