// SPDX-License-Identifier: Apache-2.0

//! `qdisc add dev DEV …`.

use super::Reader;
use super::words::{self, Words};
use crate::config::{Discipline, Node};
use crate::rate::Bucket;

/// Packets that a device's own queue holds (`DEFAULT_TX_QUEUE_LEN`), the limit of queues that say
/// nothing.
const QUEUE: usize = 1000;
/// Handle of `clsact` and `ingress`.
const INGRESS: u32 = 0xffff_0000;

/// Where a discipline hangs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parent {
    Root,
    Class(u32),
}

impl Reader<'_> {
    pub(super) fn qdisc(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let (mut device, mut parent, mut handle, mut kind) = (None, None, None, None);
        while let Some(word) = words.next() {
            match word {
                "dev" => device = Some(words.value()?),
                "root" => parent = Some(Parent::Root),
                "parent" => parent = Some(Parent::Class(words.read(words::class)?)),
                "handle" => handle = Some(words.read(words::class)?),
                "ingress" | "clsact" => {
                    kind = Some(word);
                    break;
                }
                "pfifo" | "bfifo" | "prio" | "tbf" => {
                    kind = Some(word);
                    break;
                }
                "pfifo_fast" | "htb" | "hfsc" | "fq" | "fq_codel" | "codel" | "sfq" | "red"
                | "netem" | "mq" | "noqueue" | "cake" | "drr" | "ets" | "mqprio" | "etf"
                | "multiq" | "cbq" | "atm" | "plug" | "hhf" | "pie" | "choke" | "qfq"
                | "skbprio" | "taprio" | "gred" | "sfb" => {
                    return Err(format!("queueing discipline \"{word}\" is not supported yet"));
                }
                other => return Err(words::unknown(other)),
            }
        }
        let name = device.ok_or("\"dev\" is missing")?;
        let device = self.device(name)?;
        let kind = kind.ok_or("a queueing discipline is missing")?;
        if matches!(kind, "ingress" | "clsact") {
            if handle.is_some_and(|h| h != INGRESS) || parent.is_some() {
                return Err(format!("\"{kind}\" has the handle ffff: and no other parent"));
            }
            let device = self.config.devices.entry(device).or_default();
            return match device.hooks.replace(kind == "clsact") {
                None => Ok(()),
                Some(_) => Err("Exclusivity flag on, cannot modify".into()),
            };
        }
        let discipline = Parsed::read(kind, words)?;
        self.hang(device, parent.ok_or("\"root\" or \"parent\" is missing")?, handle, discipline)
    }

    fn hang(
        &mut self,
        device: u32,
        parent: Parent,
        handle: Option<u32>,
        parsed: Parsed,
    ) -> Result<(), String> {
        let nodes = &mut self.config.devices.entry(device).or_default().nodes;
        let handle = match handle {
            Some(handle) if handle & 0xffff != 0 => {
                return Err("a handle has no number after its colon".into());
            }
            Some(handle) if nodes.iter().any(|n| n.handle == handle) => {
                return Err("Exclusivity flag on, cannot modify".into());
            }
            Some(handle) => handle,
            // As the kernel numbers them.
            None => (0x8001..)
                .map(|n: u32| n << 16)
                .find(|h| nodes.iter().all(|n| n.handle != *h))
                .unwrap_or(0),
        };
        let place = match parent {
            Parent::Root if nodes.is_empty() => None,
            Parent::Root => return Err("Exclusivity flag on, cannot modify".into()),
            Parent::Class(class) => Some(child_of(nodes, class)?),
        };
        let at = match place {
            // The default child makes room.
            Some(at) => at,
            None => {
                nodes.push(Node { handle, discipline: Discipline::Fifo { limit: 0, bytes: true } });
                0
            }
        };
        let mut add = |discipline| {
            nodes.push(Node { handle: 0, discipline });
            nodes.len() - 1
        };
        let discipline = match parsed {
            Parsed::Fifo { limit, bytes } => Discipline::Fifo { limit, bytes },
            Parsed::Prio { bands, map } => {
                let bands = (0..bands)
                    .map(|_| add(Discipline::Fifo { limit: QUEUE, bytes: false }))
                    .collect();
                Discipline::Prio { bands, map, filters: Vec::new() }
            }
            Parsed::Tbf { bucket, peak, longest, limit } => {
                let child = add(Discipline::Fifo { limit, bytes: true });
                Discipline::Tbf { bucket, peak, longest, child }
            }
        };
        nodes[at] = Node { handle, discipline };
        Ok(())
    }
}

/// The node that stands for a class.
fn child_of(nodes: &[Node], class: u32) -> Result<usize, String> {
    let node = nodes.iter().find(|n| n.handle != 0 && n.handle == class & 0xffff_0000);
    let child = match &node.ok_or("Failed to find specified qdisc")?.discipline {
        Discipline::Prio { bands, .. } => {
            (class & 0xffff).checked_sub(1).and_then(|n| bands.get(n as usize)).copied()
        }
        // Its only class is number 1.
        Discipline::Tbf { child, .. } => (class & 0xffff == 1).then_some(*child),
        Discipline::Fifo { .. } => None,
    };
    child.ok_or_else(|| "Specified class not found".into())
}

/// What the words of a discipline say.
enum Parsed {
    Fifo { limit: usize, bytes: bool },
    Prio { bands: usize, map: [u8; 16] },
    Tbf { bucket: Bucket, peak: Option<Bucket>, longest: usize, limit: usize },
}

impl Parsed {
    fn read(kind: &str, words: &mut Words<'_>) -> Result<Parsed, String> {
        match kind {
            "prio" => prio(words),
            "tbf" => tbf(words),
            _ => {
                let bytes = kind == "bfifo";
                let mut limit = if bytes { QUEUE * 1514 } else { QUEUE };
                while let Some(word) = words.next() {
                    match word {
                        "limit" => limit = words.read(words::size)? as usize,
                        other => return Err(words::unknown(other)),
                    }
                }
                Ok(Parsed::Fifo { limit, bytes })
            }
        }
    }
}

fn prio(words: &mut Words<'_>) -> Result<Parsed, String> {
    let mut bands = 3;
    let mut map = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
    while let Some(word) = words.next() {
        match word {
            "bands" => bands = words.read(|t| words::number(t).filter(|n| (2..=16).contains(n)))?,
            "priomap" => {
                let mut at = 0;
                while let Some(band) = words.peek().and_then(words::number::<u8>) {
                    words.next();
                    *map.get_mut(at).ok_or("\"priomap\" has more than 16 bands")? = band;
                    at += 1;
                }
            }
            other => return Err(words::unknown(other)),
        }
    }
    match map.iter().find(|b| usize::from(**b) >= bands) {
        Some(band) => Err(format!("\"priomap\" names band {band} of {bands}")),
        None => Ok(Parsed::Prio { bands, map }),
    }
}

fn tbf(words: &mut Words<'_>) -> Result<Parsed, String> {
    let (mut rate, mut burst, mut limit, mut latency, mut peak, mut mtu) =
        (None, None, None, None, None, None);
    while let Some(word) = words.next() {
        match word {
            "rate" => rate = Some(words.read(words::rate)?),
            "burst" | "buffer" | "maxburst" => burst = Some(words.read(words::size)?),
            "limit" => limit = Some(words.read(words::size)?),
            "latency" => latency = Some(words.read(words::time)?),
            "peakrate" => peak = Some(words.read(words::rate)?),
            "mtu" | "minburst" => mtu = Some(words.read(words::size)?),
            other => return Err(words::unknown(other)),
        }
    }
    let rate = rate.ok_or("\"rate\" is required")?;
    let burst = burst.filter(|b| *b > 0).ok_or("\"burst\" is required")?;
    let limit = match (limit, latency) {
        (Some(_), Some(_)) => return Err("\"limit\" and \"latency\" exclude each other".into()),
        (Some(limit), None) => limit,
        (None, Some(latency)) => {
            let within =
                |r: crate::rate::Rate, more: u64| r.0 as f64 * latency as f64 / 1e9 + more as f64;
            let all = within(rate, burst);
            peak.map_or(all, |p| all.min(within(p, mtu.unwrap_or(0)))) as u64
        }
        (None, None) => return Err("either \"limit\" or \"latency\" is required".into()),
    };
    let peak = match (peak, mtu) {
        (Some(p), _) if p.0 <= rate.0 => return Err("\"peakrate\" is not above \"rate\"".into()),
        (Some(p), Some(mtu)) => Some((p, mtu)),
        (Some(_), None) => return Err("\"mtu\" is required with \"peakrate\"".into()),
        (None, _) => None,
    };
    let longest = peak.map_or(burst, |(_, mtu)| mtu.min(burst)) as usize;
    Ok(Parsed::Tbf {
        bucket: Bucket::new(rate, burst),
        peak: peak.map(|(p, mtu)| Bucket::new(p, mtu)),
        longest,
        limit: limit as usize,
    })
}
