// SPDX-License-Identifier: Apache-2.0

//! The kernel as an engine: nft's programs, and what a router in a network namespace does with the
//! packets.

use std::collections::HashMap;
use std::time::Duration;

use penstock_program::Expr;

use crate::format::Test;
use crate::interpreter;
use crate::namespace::Namespace;
use crate::nfnetlink::Socket;
use crate::outcome::{Observed, Out, result, without_numbers};
use crate::packet::Incoming;
use crate::router::{Router, Unavailable};

/// A kernel router.
pub struct Kernel {
    router: Router,
    /// Its additional lines of `net.ip`.
    net: String,
    /// What comes of packets without a ruleset, by what stands in its place.
    without: HashMap<(String, String, Vec<u8>), Vec<Out>>,
    /// Packets that it had no route for, and said so.
    route_errors: usize,
}

/// A host gets five of them at once, and then one a second (`ip_error()`; `error_burst` is not a
/// namespace's own). A test may have as many as are left with so many before it: four.
const ROUTE_ERRORS: usize = 1;

/// An ICMP error that a network or a host cannot be reached, or that the way there is prohibited.
fn is_route_error(frame: &[u8]) -> bool {
    const IPV4: &[u8] = &[8, 0];
    const ICMP: u8 = 1;
    let at = |place: usize| frame.get(place).copied();
    frame.get(12..14) == Some(IPV4)
        && at(23) == Some(ICMP)
        && at(34) == Some(3)
        && matches!(at(35), Some(0 | 1 | 13))
}

impl Kernel {
    /// Builds it.
    pub fn new() -> Result<Kernel, Unavailable> {
        let router = Router::new(crate::NET)?;
        Ok(Kernel { router, net: String::new(), without: HashMap::new(), route_errors: 0 })
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
        self.route_errors += outs.iter().filter(|out| is_route_error(&out.bytes)).count();
        outs.extend(seen.delivered.iter().map(|p| Out { to: "host".into(), bytes: p.clone() }));
        Ok(outs)
    }

    /// Runs a test; `as_programs`: with the rules as the programs that our engines run, as the
    /// kernel's nft does not know them.
    pub fn run(&mut self, test: &Test, as_programs: bool) -> Result<Observed, String> {
        if test.net != self.net || self.route_errors > ROUTE_ERRORS {
            self.router = Router::new(&format!("{}{}", crate::NET, test.net))
                .map_err(|e| format!("{e:?}"))?;
            self.route_errors = 0;
        }
        if test.net != self.net {
            self.net.clone_from(&test.net);
            self.without.clear();
        }
        if test.is_refused() {
            self.router.check(&test.ruleset())?;
        }
        let beyond = test.beyond();
        let key = |p: &Incoming| (beyond.clone(), p.source.clone(), p.bytes.clone());
        if test.packets().any(|p| !self.without.contains_key(&key(p))) {
            self.router.load(&beyond, &[])?;
            for packet in test.packets() {
                if !self.without.contains_key(&key(packet)) {
                    let outs = self.send(&Incoming { after: Duration::ZERO, ..packet.clone() })?;
                    self.without.insert(key(packet), outs);
                }
            }
        }
        if as_programs {
            let observed = self.run_programs(test, &beyond);
            let deleted = self.nf_tables()?.delete_table(number_of(&test.family), "t");
            return observed.and_then(|observed| deleted.map(|()| observed));
        }
        let debug =
            self.router.load(&format!("{}{beyond}", test.ruleset()), &["--debug=netlink"])?;
        let results = self.results(test, &beyond)?;
        let listing = self.router.listing()?;
        Ok(Observed { programs: programs(&debug), results, listing, ..Observed::default() })
    }

    /// What comes of the packets with the ruleset that is loaded.
    fn results(&mut self, test: &Test, beyond: &str) -> Result<Vec<Vec<String>>, String> {
        let mut results = vec![];
        for packet in test.packets() {
            let with = self.send(packet)?;
            let without =
                &self.without[&(beyond.to_string(), packet.source.clone(), packet.bytes.clone())];
            results.push(result(without, &with));
        }
        Ok(results)
    }

    fn run_programs(&mut self, test: &Test, beyond: &str) -> Result<Observed, String> {
        self.router.load(&format!("{}{beyond}", test.without_rules()), &[])?;
        let sent = interpreter::programs(test)?;
        let rules: Vec<&[Expr]> = sent.iter().map(Vec::as_slice).collect();
        self.nf_tables()?.add_rules(number_of(&test.family), "t", "c", &rules)?;
        let results = self.results(test, beyond)?;
        let shown =
            |program: &Vec<Expr>| program.iter().map(|e| without_numbers(&e.to_string())).collect();
        let programs = sent.iter().map(|program| ("c".to_string(), shown(program))).collect();
        Ok(Observed { programs, results, listing: self.counted(test)?, ..Observed::default() })
    }

    fn nf_tables(&self) -> Result<Socket, String> {
        let text = |e: std::io::Error| e.to_string();
        self.router.enter().map_err(text)?;
        Socket::new().map_err(text)
    }

    /// As nft would list it, were it to know the rules: what the chain's rules have counted.
    fn counted(&self, test: &Test) -> Result<String, String> {
        let counted = self.nf_tables()?.counted(number_of(&test.family), "t", "c");
        let mut text = format!("table {} t {{\n\tchain c {{\n", test.family);
        for counter in counted.map_err(|e| e.to_string())? {
            let counter =
                counter.map(|(packets, bytes)| format!("counter packets {packets} bytes {bytes}"));
            text += &format!("\t\t{}\n", counter.as_deref().unwrap_or("rule"));
        }
        Ok(text + "\t}\n}\n")
    }
}

/// `NFPROTO_*`
fn number_of(family: &str) -> u8 {
    match family {
        "inet" => 1,
        "ip" => 2,
        "arp" => 3,
        "netdev" => 5,
        "bridge" => 7,
        _ => 10,
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
