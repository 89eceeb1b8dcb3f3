// SPDX-License-Identifier: Apache-2.0

//! Our engines, on the path: the interpreter in two ways, and machine code.

use std::sync::Arc;

use penstock_dataplane::{Dataplane, DropEvent, Engine, Frame, LogRecord, Settings, Sink};
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_program::Expr;
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;

use crate::format::Test;
use crate::language;
use crate::outcome::{Observed, Out, result, without_numbers};
use crate::packet::Incoming;

/// When the first packet comes.
const START: u64 = 1_700_000_000_000_000_000;

/// What leaves the path, and what it tells beyond what can be seen from outside.
#[derive(Default)]
struct Seen {
    outs: Vec<Out>,
    told: Vec<String>,
}

impl Sink for Seen {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.outs.push(Out { to: device.name.to_string(), bytes: frame.to_vec() });
        if meta.mark != 0 {
            self.told.push(format!("mark {:#x}", meta.mark));
        }
        if meta.priority != 0 {
            self.told.push(format!(
                "priority {:x}:{:x}",
                meta.priority >> 16,
                meta.priority & 0xffff
            ));
        }
    }

    fn deliver(&mut self, _device: &Link, packet: &Packet) {
        // Messages of ARP are not delivered as packets by the kernel's side.
        if packet.meta.protocol != 0x0806 {
            self.outs.push(Out { to: "host".into(), bytes: packet.network().to_vec() });
        }
    }

    fn drop(&mut self, drop: &DropEvent<'_>, _packet: &Packet) {
        self.told.push(match drop.place {
            Some(place) if place.table == "t" => match place.rule {
                Some(handle) => format!("{} handle {handle}", place.chain),
                None => format!("policy of {}", place.chain),
            },
            _ => drop.reason.to_string(),
        });
    }

    fn log(&mut self, record: &LogRecord<'_>, _packet: &Packet) {
        self.told.push(format!("log {:?}", record.log.prefix.as_deref().unwrap_or_default()));
    }
}

/// What runs the chains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Walk,
    /// The interpreter, with lookups of all chains.
    Lookups,
    /// Machine code of all hooks.
    Code,
}

/// Runs a test, walking through all rules, and once more with lookups of all chains, and with
/// machine code: the results must be the same.
pub fn run(test: &Test) -> Result<Observed, String> {
    let walked = run_with(test, How::Walk)?;
    for (how, what) in [(How::Lookups, "lookups give"), (How::Code, "machine code gives")] {
        let found = run_with(test, how)?;
        if walked != found {
            return Err(format!(
                "{what} another result than a walk: {found:?}\ninstead of {walked:?}"
            ));
        }
    }
    Ok(walked)
}

/// The network that a test is in.
fn network(test: &Test) -> Result<Network, String> {
    // The kernel numbers the far end of each wire first.
    let mut lines = crate::NET.to_string();
    for (name, index) in [("lan", 3), ("wan", 5), ("dmz", 7)] {
        lines =
            lines.replace(&format!("add name {name} "), &format!("add name {name} index {index} "));
    }
    lines += &test.net;
    let net = Network::from_batch("net.ip", &lines).map_err(|e| e.to_string())?;
    Ok(net)
}

/// The programs of the rules of chain `c`.
pub fn programs(test: &Test) -> Result<Vec<Vec<Expr>>, String> {
    let ruleset = language::load(&test.ruleset(), &network(test)?, START)?;
    let generation = ruleset.generation();
    let chains = generation.tables.iter().flat_map(|t| &t.chains).filter(|c| &*c.name == "c");
    Ok(chains.flat_map(|c| &c.rules).map(|r| r.exprs.to_vec()).collect())
}

fn run_with(test: &Test, how: How) -> Result<Observed, String> {
    let net = network(test)?;
    let net = Arc::new(net);
    let mut without = dataplane(&net, &language::load(&test.beyond(), &net, START)?, How::Walk)?;
    let ruleset =
        language::load_runnable(&format!("{}{}", test.ruleset(), test.beyond()), &net, START)?;
    let mut with = dataplane(&net, &ruleset, how)?;
    let mut observed = Observed::default();
    let mut now = START;
    for packet in test.packets() {
        now += packet.after.as_nanos() as u64;
        let bare = send(&mut without, packet, now)?;
        let seen = send(&mut with, packet, now)?;
        let mut lines = result(&bare.outs, &seen.outs);
        if let Some(line) = lines.first_mut()
            && !seen.told.is_empty()
        {
            line.push_str(&format!(" ({})", seen.told.join(", ")));
        }
        observed.results.push(lines);
    }
    if let Some(error) = with.compile_error() {
        return Err(error.to_string());
    }
    let generation = ruleset.generation();
    for table in generation.tables.iter().filter(|t| &*t.name == "t") {
        for chain in &table.chains {
            for rule in &chain.rules {
                let program = rule.exprs.iter().map(|e| without_numbers(&e.to_string())).collect();
                observed.programs.push((chain.name.to_string(), program));
            }
        }
    }
    observed.listing = language::list(&ruleset, &net, now);
    Ok(observed)
}

fn dataplane(net: &Arc<Network>, ruleset: &Ruleset, how: How) -> Result<Dataplane, String> {
    let mut linked = Linked::new(&ruleset.generation()).map_err(|e| e.to_string())?;
    if how == How::Lookups {
        linked.image.force_lookups(1);
    }
    let mut dataplane = Dataplane::new(net.clone(), Settings::default());
    dataplane.set_rules(Arc::new(linked));
    if how == How::Code && penstock_jit::supported().is_ok() {
        dataplane.set_engine(Engine::JitAtOnce);
    }
    Ok(dataplane)
}

fn send(dataplane: &mut Dataplane, packet: &Incoming, time: u64) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let device = packet.source.trim_start_matches("host:");
    let index = || {
        let link = dataplane.network().link_by_name(device);
        link.map(|l| l.index).ok_or_else(|| format!("no device {device}"))
    };
    match packet.source.as_str() {
        "host" => dataplane.send_host(&packet.bytes, time, &mut seen),
        source if source.starts_with("host:") => {
            dataplane.send_raw(index()?, &packet.bytes, time, &mut seen);
        }
        _ => {
            let frame = Frame { device: index()?, bytes: &packet.bytes, time };
            dataplane.receive([frame], &mut seen);
        }
    }
    Ok(seen)
}
