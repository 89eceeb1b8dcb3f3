// SPDX-License-Identifier: Apache-2.0

//! A scenario: a router, its rules, and the frames that come to it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use penstock_io::{Capture, CaptureWriter, LinkType, Merge};
use serde::{Deserialize, Serialize};

use crate::frame::Frame;
use crate::services::{Services, Told};

/// What both sides get.
#[derive(Clone, Serialize, Deserialize)]
pub struct Scenario {
    /// Says what it shows.
    pub name: String,
    /// `ip -batch` lines.
    pub net: String,
    /// The ruleset, as for `nft -f`.
    pub rules: String,
    /// Commands that add rules of iptables and its relatives.
    pub commands: String,
    /// Whether the program gets these rules by `penstock translate`.
    #[serde(default)]
    pub translated: bool,
    /// `tc -batch` lines.
    pub tc: String,
    /// Frames in order, with where they come from: a device, `host`, or `host:DEVICE`.
    pub frames: Vec<(String, Vec<u8>)>,
    /// Whether frames come at once or seconds apart, by the program's clock; the kernel gets them
    /// at once. Seconds let the host's limit on ICMP pass, which the kernel's side does not have;
    /// limits in rules and connections want no time to pass.
    pub at_once: bool,
    /// Sysctls that differ from what they are by default, as `sysctl -w` names them.
    pub sysctls: Vec<(String, u32)>,
    /// Commands for nft(8) in the kernel before it lists the rules: what it cannot list goes.
    pub unlisted: String,
    /// Programs that serve it, and what else there is around it.
    pub services: Services,
    /// Whether the program also runs with the IPsec that `penstock net save` finds in the kernel.
    #[serde(default)]
    pub saved: bool,
}

impl Scenario {
    /// A scenario without frames.
    pub fn new(name: &str, net: &str, rules: &str) -> Scenario {
        Scenario {
            name: name.into(),
            net: net.into(),
            rules: rules.into(),
            commands: String::new(),
            translated: false,
            tc: String::new(),
            frames: vec![],
            at_once: ["limit rate", "limit name", "type nat", " ct ", "\tct "]
                .iter()
                .any(|w| rules.contains(w)),
            sysctls: vec![],
            unlisted: String::new(),
            services: Services::default(),
            saved: false,
        }
    }

    /// With the IPsec that is saved in the kernel, too. What sets a default, and numbers that
    /// states begin with, are not saved: then without it.
    pub fn saved(mut self) -> Scenario {
        let ipsec = || self.net.lines().filter(|line| line.starts_with("xfrm "));
        let is_saved = |line: &str| {
            (line.starts_with("xfrm state add ") || line.starts_with("xfrm policy add "))
                && !line.contains("replay-seq")
                && !line.contains("replay-oseq")
        };
        self.saved = ipsec().next().is_some() && ipsec().all(is_saved);
        self
    }

    /// Sets a sysctl.
    pub fn sysctl(mut self, name: &str, value: u32) -> Scenario {
        self.sysctls.push((name.into(), value));
        self
    }

    /// With commands that add rules; connections are known if one says so.
    pub fn commands(mut self, commands: &str) -> Scenario {
        self.commands = commands.into();
        self.at_once |= self.tracks();
        self
    }

    /// With traffic control.
    pub fn tc(mut self, lines: &str) -> Scenario {
        self.tc = lines.into();
        self
    }

    /// Lets no time pass between frames.
    pub fn at_once(mut self) -> Scenario {
        self.at_once = true;
        self
    }

    /// Reads a directory as [`Scenario::write`] leaves it, or one that was made by hand.
    pub fn read(directory: &Path) -> Result<Scenario, String> {
        let text = |name: &str| {
            std::fs::read_to_string(directory.join(name)).map_err(|e| format!("{name}: {e}"))
        };
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut scenario =
            Scenario::new(&name, &text("net.ip")?, &text("rules.nft")?.replace(SIEVE, ""));
        for line in text("sysctl.conf").unwrap_or_default().lines() {
            let setting = line.split_once('=').and_then(|(n, v)| Some((n, v.parse().ok()?)));
            let (name, value) = setting.ok_or_else(|| format!("sysctl.conf: {line}"))?;
            scenario = scenario.sysctl(name, value);
        }
        scenario.tc = text("tc.batch").unwrap_or_default();
        scenario = scenario.commands(&text(COMMANDS).unwrap_or_default());
        let (mut sources, mut captures) = (vec![], vec![]);
        for entry in std::fs::read_dir(directory).map_err(|e| e.to_string())?.flatten() {
            if let Some(source) = entry.file_name().to_str().and_then(|n| n.strip_suffix(".pcap")) {
                sources.push(source.replacen("host_", "host:", 1));
                captures.push(Capture::open(&entry.path()).map_err(|e| e.to_string())?);
            }
        }
        let mut merge = Merge::new(captures);
        let mut expected = None;
        while let Some(next) = merge.next_frame() {
            let (which, frame) = next.map_err(|e| e.to_string())?;
            let late = frame.time.saturating_sub(expected.unwrap_or(frame.time));
            if late > 0 {
                scenario = scenario.wait(Duration::from_nanos(late));
            }
            expected = Some(frame.time + scenario.spacing());
            scenario.frames.push((sources[which].clone(), frame.bytes.to_vec()));
        }
        Ok(scenario)
    }

    /// The rules that are loaded.
    pub fn all_rules(&self) -> String {
        format!("{}\n{SIEVE}", self.rules)
    }

    /// Whether rules put flows into a flowtable.
    pub fn has_flowtable(&self) -> bool {
        self.rules.contains("flow add")
    }

    /// The rules without flowtables, for a kernel that has none.
    pub fn rules_without_flowtables(&self) -> String {
        let of_flows = |line: &&str| line.contains("flowtable ") || line.contains("flow add");
        let rules: String =
            self.rules.lines().filter(|l| !of_flows(l)).map(|l| format!("{l}\n")).collect();
        format!("{rules}\n{SIEVE}")
    }

    /// Lets time pass before the next frame, on both sides: for what depends on timeouts.
    pub fn wait(mut self, time: Duration) -> Scenario {
        self.frames.push((PAUSE.into(), (time.as_millis() as u64).to_be_bytes().to_vec()));
        self
    }

    /// Whether rules make connections known, so that the table of them is compared too.
    pub fn tracks(&self) -> bool {
        let of_commands = [
            "conntrack",
            "--ct",
            "CT --timeout",
            "-t nat",
            "*nat",
            "--state",
            "CONNMARK",
            "connmark",
        ];
        ["type nat", " ct ", "\tct ", "flow add"].iter().any(|w| self.rules.contains(w))
            || of_commands.iter().any(|w| self.commands.contains(w))
    }

    /// Whether any frame is a fragment, as far as that is seen at a glance.
    pub fn has_fragments(&self) -> bool {
        self.frames.iter().any(|(source, bytes)| {
            let ip = bytes.get(if source == "host" { 0 } else { 14 }..).unwrap_or_default();
            match ip.first().map(|b| b >> 4) {
                Some(4) => {
                    ip.get(6..8).is_some_and(|f| u16::from_be_bytes([f[0], f[1]]) & 0x3fff != 0)
                }
                // Fragment headers after others: false positives are preferred.
                Some(6) => ip.get(6) == Some(&44) || matches!(ip.get(6), Some(0 | 43 | 60)),
                _ => false,
            }
        })
    }

    /// Whether any frame is an ICMP error, as far as that is seen at a glance: it may tell the host
    /// something about a path.
    pub fn has_errors(&self) -> bool {
        self.frames.iter().any(|(_, bytes)| {
            let ip = bytes.get(14..).unwrap_or_default();
            match (ip.first(), ip.get(9), ip.get(20), ip.get(6), ip.get(40)) {
                (Some(0x45), Some(1), Some(kind), ..) => matches!(kind, 3 | 11),
                (Some(0x60), .., Some(58), Some(kind)) => matches!(kind, 1..=4),
                _ => false,
            }
        })
    }

    /// Nanoseconds between frames by the program's clock.
    fn spacing(&self) -> u64 {
        if self.at_once { 1000 } else { 3_000_000_000 }
    }

    /// Appends a frame.
    pub fn frame(mut self, source: &str, frame: &Frame) -> Scenario {
        self.frames.push((source.into(), frame.bytes()));
        self
    }

    /// Writes it as a directory: `net.ip`, `rules.nft`, `tc.batch` if there is traffic control, one
    /// capture per source (`host:wan` is `host_wan.pcap`). Returns the `--read` arguments.
    pub fn write(&self, directory: &Path) -> io::Result<Vec<String>> {
        // What a smaller scenario of the same name left there is not of this one.
        let _ = std::fs::remove_dir_all(directory);
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join("net.ip"), &self.net)?;
        std::fs::write(directory.join("rules.nft"), self.all_rules())?;
        if !self.commands.is_empty() {
            std::fs::write(directory.join(COMMANDS), &self.commands)?;
        }
        let sysctls: String = self.sysctls.iter().map(|(n, v)| format!("{n}={v}\n")).collect();
        if !sysctls.is_empty() {
            std::fs::write(directory.join("sysctl.conf"), sysctls)?;
        }
        let mut clock = 1_700_000_000_000_000_000;
        if !self.tc.is_empty() {
            std::fs::write(directory.join("tc.batch"), &self.tc)?;
        }
        let mut captures = BTreeMap::new();
        let mut reads = vec![];
        for (source, bytes) in &self.frames {
            if let Some(time) = pause(source, bytes) {
                clock += time.as_nanos() as u64;
                continue;
            }
            let writer = match captures.entry(source) {
                std::collections::btree_map::Entry::Occupied(e) => e.into_mut(),
                std::collections::btree_map::Entry::Vacant(e) => {
                    let file = directory.join(format!("{}.pcap", source.replace(':', "_")));
                    let link = if source == "host" { LinkType::Raw } else { LinkType::Ethernet };
                    reads.push(format!("{source}={}", file.display()));
                    e.insert(CaptureWriter::create(&file, link)?)
                }
            };
            writer.write(clock, bytes)?;
            clock += self.spacing();
        }
        for (_, writer) in captures {
            writer.finish()?;
        }
        Ok(reads)
    }
}

/// Rules that both sides get in addition to a scenario's own. The kernel reads IPv6 extension
/// headers for the host after `input`, where the other side of this comparison ends, so packets
/// with them end before.
const SIEVE: &str = "
table ip6 penstock-sieve {
	chain input {
		type filter hook input priority 2147483646; policy accept;
		ip6 nexthdr { 0, 43, 44, 60 } drop
	}
}
";

/// The file of [`Scenario::commands`].
pub const COMMANDS: &str = "commands.sh";

/// In place of a device: no frame, but time that passes, in milliseconds.
const PAUSE: &str = "pause";

/// How long a scenario pauses instead of sending a frame.
pub fn pause(source: &str, bytes: &[u8]) -> Option<Duration> {
    let millis = bytes.first_chunk().filter(|_| source == PAUSE)?;
    Some(Duration::from_millis(u64::from_be_bytes(*millis)))
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What each device transmitted, in order.
    pub sent: BTreeMap<String, Vec<Vec<u8>>>,
    /// IP packets that were delivered to the host, in order.
    pub delivered: Vec<Vec<u8>>,
    /// `nft list ruleset`.
    pub listing: String,
    /// `conntrack -L`, where connections are tracked and can be listed.
    pub connections: Option<Vec<String>>,
    /// The rules ran without their flowtables: packets of flows went the normal way.
    pub without_flowtables: bool,
    /// What services were told.
    pub told: Told,
    /// Lines of IPsec that `penstock net save` has printed in the kernel's router.
    pub saved: Option<String>,
}

/// The devices of `net.ip` lines that stand for a wire: those of type veth.
pub fn devices(net: &str) -> Vec<String> {
    let mut found = vec![];
    for line in net.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if !words.starts_with(&["link", "add"]) || !words.windows(2).any(|w| w == ["type", "veth"])
        {
            continue;
        }
        let named = words.windows(2).find(|w| w[0] == "name" || w[0] == "dev").map(|w| w[1]);
        found.extend(named.or(words.get(2).copied()).map(str::to_owned));
    }
    found
}

/// Of each rule that nft and `penstock run` list what it counted: they list what iptables added in
/// different words.
pub fn only_counters(listing: &str) -> String {
    let counter = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.windows(2).position(|w| w == ["counter", "packets"])?;
        Some(format!("{}\n", words.get(at..at + 5)?.join(" ")))
    };
    listing.lines().filter_map(counter).collect()
}

/// Takes the harness's own tables out of a listing.
pub fn without_delivery(listing: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in listing.lines() {
        inside |= line.ends_with("penstock-delivery {") || line.ends_with("penstock-sieve {");
        if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
        inside &= line != "}";
    }
    kept
}
