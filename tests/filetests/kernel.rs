//! The kernel as an engine: nft's programs, and what a router in a network namespace does with the packets.

use std::collections::HashMap;
use std::time::Duration;

use crate::format::Test;
use crate::namespace::Namespace;
use crate::outcome::{Observed, Out, result, without_numbers};
use crate::packet::Incoming;
use crate::router::{Router, Unavailable};

/// A kernel router.
pub struct Kernel {
    router: Router,
    /// Lines of `net.ip` that it has beside the usual ones.
    net: String,
    /// What comes of packets without a ruleset, by what stands in its place.
    without: HashMap<(String, String, Vec<u8>), Vec<Out>>,
}

impl Kernel {
    /// Builds it.
    pub fn new() -> Result<Kernel, Unavailable> {
        Ok(Kernel { router: Router::new(crate::NET)?, net: String::new(), without: HashMap::new() })
    }

    fn send(&mut self, packet: &Incoming) -> Result<Vec<Out>, String> {
        if packet.after > Duration::from_millis(1) {
            std::thread::sleep(packet.after);
        }
        let seen = self.router.send_one(&packet.source, &packet.bytes)?;
        let mut outs = vec![];
        for (device, frames) in &seen.sent {
            outs.extend(frames.iter().map(|f| Out { to: device.clone(), bytes: f.clone() }));
        }
        outs.extend(seen.delivered.iter().map(|p| Out { to: "host".into(), bytes: p.clone() }));
        Ok(outs)
    }

    /// Runs a test.
    pub fn run(&mut self, test: &Test) -> Result<Observed, String> {
        if test.net != self.net {
            self.router =
                Router::new(&format!("{}{}", crate::NET, test.net)).map_err(|e| format!("{e:?}"))?;
            self.net.clone_from(&test.net);
            self.without.clear();
        }
        if test.is_refused() {
            self.router.check(&test.ruleset())?;
        }
        let beyond = test.beyond();
        let key = |p: &Incoming| (beyond.clone(), p.source.clone(), p.bytes.clone());
        if test.packets().any(|p| !self.without.contains_key(&key(p))) {
            self.router.load(&beyond)?;
            for packet in test.packets() {
                if !self.without.contains_key(&key(packet)) {
                    let outs = self.send(&Incoming { after: Duration::ZERO, ..packet.clone() })?;
                    self.without.insert(key(packet), outs);
                }
            }
        }
        let debug = self.router.load(&format!("{}{beyond}", test.ruleset()))?;
        let mut observed = Observed { programs: programs(&debug), ..Observed::default() };
        for packet in test.packets() {
            let with = self.send(packet)?;
            observed.results.push(result(&self.without[&key(packet)], &with));
        }
        observed.listing = self.router.listing()?;
        Ok(observed)
    }
}

/// The programs of table `t` in nft's debug output.
fn programs(debug: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = vec![];
    let mut chain = "";
    for line in debug.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["[", ..] if !chain.is_empty() => {
                if let Some((_, program)) = found.last_mut() {
                    program.push(without_numbers(line.trim()));
                }
            }
            [_, "t", name] => {
                chain = name;
                found.push((chain.to_string(), vec![]));
            }
            _ => chain = "",
        }
    }
    // A line before a set's elements looks like the one before a program.
    found.retain(|(_, program)| !program.is_empty());
    found
}

/// Whether there can be one here.
pub fn available() -> Result<(), String> {
    crate::router::available()?;
    Namespace::new().map(drop).map_err(|e| e.to_string())
}
