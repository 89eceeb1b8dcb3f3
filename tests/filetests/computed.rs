// SPDX-License-Identifier: Apache-2.0

//! Random marks computed from fields and marks, and fields computed from themselves: the kernel,
//! given the programs, and our engines must give packets the same bytes and count the same bits.

use std::path::Path;

use penstock_net::Network;

use crate::Engines;
use crate::format::{self, Test};
use crate::language;
use crate::outcome::Observed;

/// Marks of a test; each is seen in 32 counters.
const MARKS: usize = 4;
/// Fields that a test writes.
const FIELDS: usize = 4;

/// Where computed values may come from and go to.
struct Family {
    name: &'static str,
    sources: &'static [&'static str],
    written: &'static [&'static str],
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "ip",
        sources: &[
            "ip version",
            "ip hdrlength",
            "ip dscp",
            "ip ecn",
            "ip length",
            "ip id",
            "ip frag-off",
            "ip ttl",
            "ip protocol",
            "ip checksum",
            "ip saddr",
            "ip daddr",
            "udp sport",
            "udp length",
            "meta mark",
            "ct mark",
            "meta length",
            "meta l4proto",
        ],
        written: &["ip dscp", "ip ecn", "ip ttl", "ip id", "udp sport", "udp dport"],
    },
    Family {
        name: "ip6",
        sources: &[
            "ip6 version",
            "ip6 dscp",
            "ip6 ecn",
            "ip6 flowlabel",
            "ip6 length",
            "ip6 nexthdr",
            "ip6 hoplimit",
            "udp dport",
            "udp checksum",
            "meta mark",
            "ct mark",
            "meta length",
        ],
        written: &[
            "ip6 dscp",
            "ip6 ecn",
            "ip6 flowlabel",
            "udp sport",
            "udp dport",
            "ip6 hoplimit",
        ],
    },
];

struct Maker {
    rng: fastrand::Rng,
    net: Network,
}

impl Maker {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.usize(..of.len())]
    }

    fn constant(&mut self, bits: u32) -> String {
        let number = match self.rng.u8(..3) {
            0 => self.rng.u32(..),
            1 => 1 << self.rng.u32(..bits),
            _ => self.rng.u32(..256),
        };
        format!("{:#x}", number & (u32::MAX >> (32 - bits)))
    }

    fn mark(&mut self, family: &Family) -> String {
        let mut text = self.one(family.sources).to_string();
        for _ in 0..self.rng.usize(..4) {
            let right = match self.rng.bool() {
                true => self.constant(32),
                false => self.one(family.sources).to_string(),
            };
            text = match self.rng.u8(..3) {
                0 => format!("({text}) {} {}", self.one(&["<<", ">>"]), self.rng.u8(1..32)),
                _ => format!("({text}) {} {right}", self.one(&["&", "|", "^"])),
            };
        }
        format!("meta mark set {text}")
    }

    fn field(&mut self, family: &Family) -> String {
        let field = self.one(family.written);
        let mut text = field.to_string();
        for _ in 0..self.rng.usize(1..4) {
            let bits = self.rng.u32(1..=32);
            text = format!("({text}) {} {}", self.one(&["&", "|", "^"]), self.constant(bits));
        }
        format!("{field} set {text}")
    }

    /// A rule that is taken: constants may be too large for a field, and not everything can be a
    /// mark.
    fn taken(&mut self, family: &Family, make: impl Fn(&mut Maker, &Family) -> String) -> String {
        loop {
            let rule = make(self, family);
            let text = format!("table {0} t {{ chain c {{ {rule}; }}; }}", family.name);
            if language::load_runnable(&text, &self.net, 0).is_ok() {
                return rule;
            }
        }
    }

    /// A test as it would stand in a file.
    fn test(&mut self) -> String {
        let family = &FAMILIES[self.rng.usize(..FAMILIES.len())];
        let mut text = format!("hook {} prerouting\ntest random\n", family.name);
        text += &format!("rule ct mark set {}\n", self.constant(32));
        for _ in 0..MARKS {
            text += &format!("rule meta mark set {}\n", self.constant(32));
            text += &format!("rule {}\n", self.taken(family, Maker::mark));
            for bit in 0..32 {
                let bit = 1u32 << bit;
                text += &format!("rule meta mark & {bit:#x} == {bit:#x} counter\n");
            }
        }
        for _ in 0..FIELDS {
            text += &format!("rule {}\n", self.taken(family, Maker::field));
        }
        let (class, ttl) = (self.rng.u8(..), self.rng.u8(2..));
        let (from, to) = (self.rng.u16(1..), self.rng.u16(1..));
        text += &match family.name {
            "ip" => format!(
                "packet ip 198.18.0.10 > 198.19.0.2 tos {class} ttl {ttl} id {from} / udp {from} > {to}\n"
            ),
            _ => format!(
                "packet ip6 2001:db8:1::10 > 2001:db8:2::2 class {class} ttl {ttl} flow {from} / udp {from} > {to}\n"
            ),
        };
        text + "counters\n"
    }
}

/// Runs them if the kernel is there; returns how many rules were computed, and how many tests
/// differ.
pub fn compare(engines: &mut Engines) -> (usize, usize) {
    let (mut rules, mut wrong) = (0, 0);
    let first = penstock_testkit::seed();
    for seed in first..first + penstock_testkit::rounds(6) as u64 {
        let Ok(net) = Network::from_batch("net.ip", crate::NET) else { continue };
        let text = Maker { rng: fastrand::Rng::with_seed(seed), net }.test();
        match differ(engines, &text) {
            Ok(None) => return (rules, wrong),
            Ok(Some(false)) => rules += MARKS + FIELDS,
            Ok(Some(true)) => {
                wrong += 1;
                println!("FAILED PENSTOCK_SEED={seed}: another result in the kernel\n{text}");
            }
            Err(e) => {
                wrong += 1;
                println!("FAILED PENSTOCK_SEED={seed}: {e}\n{text}");
            }
        }
    }
    (rules, wrong)
}

/// Whether the engines give another result than the kernel; `None` without a kernel.
pub fn differ(engines: &mut Engines, text: &str) -> Result<Option<bool>, String> {
    let file = format::parse(text, Path::new("random"))?;
    let test = file.tests.first().ok_or("no test")?;
    let Some(kernel) = engines.run("programs", test) else { return Ok(None) };
    let (Some(kernel), Some(ours)) = (Some(kernel?), engines.run("interpreter", test)) else {
        return Ok(None);
    };
    let (kernel, ours) = (seen(&kernel, test), seen(&ours?, test));
    for (kernel, ours) in kernel.iter().zip(&ours).filter(|(kernel, ours)| kernel != ours) {
        println!("kernel: {kernel:?}\npenstock: {ours:?}");
    }
    Ok(Some(kernel != ours))
}

/// What both can tell.
fn seen(observed: &Observed, test: &Test) -> Vec<Vec<String>> {
    let mut all = observed.expectations(test);
    all.iter_mut().flatten().for_each(|line| *line = crate::visible(line).to_string());
    all
}
