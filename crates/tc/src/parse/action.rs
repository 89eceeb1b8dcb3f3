// SPDX-License-Identifier: Apache-2.0

//! `action …`.

use super::Reader;
use super::words::{self, Words, masked, number};
use crate::action::{Action, Control, Police, VlanAction};
use crate::rate::Bucket;

/// A control by its word.
fn control(word: &str) -> Option<Control> {
    Some(match word {
        "ok" | "pass" => Control::Ok,
        "drop" | "shot" => Control::Shot,
        "pipe" => Control::Pipe,
        "continue" => Control::Continue,
        "reclassify" => Control::Reclassify,
        "stolen" | "trap" => Control::Stolen,
        _ => return None,
    })
}

/// The control after an action, if there is one.
fn control_after(words: &mut Words<'_>, default: Control) -> Control {
    match words.peek().and_then(control) {
        Some(found) => {
            words.next();
            found
        }
        None => default,
    }
}

impl Reader<'_> {
    /// An action after its first word.
    pub(super) fn action(&mut self, first: &str, words: &mut Words<'_>) -> Result<Action, String> {
        if first == "gact" {
            let word = words.needed("a control")?;
            return control(word).map(Action::Plain).ok_or_else(|| words::unknown(word));
        }
        if let Some(control) = control(first) {
            return Ok(Action::Plain(control));
        }
        match first {
            "mirred" => self.mirred(words),
            "skbedit" => skbedit(words),
            "vlan" => vlan(words),
            "police" => self.police(words),
            "bpf" | "connmark" | "csum" | "ct" | "ctinfo" | "gate" | "goto" | "ife" | "mpls"
            | "nat" | "pedit" | "sample" | "simple" | "skbmod" | "tunnel_key" | "xt" | "jump" => {
                Err(format!("action \"{first}\" is not supported yet"))
            }
            other => Err(words::unknown(other)),
        }
    }

    fn mirred(&self, words: &mut Words<'_>) -> Result<Action, String> {
        let (mut to_ingress, mut copy, mut device) = (None, None, None);
        while let Some(word) = words.peek() {
            match word {
                "egress" => to_ingress = Some(false),
                "ingress" => to_ingress = Some(true),
                "redirect" => copy = Some(false),
                "mirror" => copy = Some(true),
                "dev" => {
                    words.next();
                    let name = words.needed("a device")?;
                    device = Some(self.device(name)?);
                    break;
                }
                other => return Err(words::unknown(other)),
            }
            words.next();
        }
        let (Some(to_ingress), Some(copy), Some(device)) = (to_ingress, copy, device) else {
            return Err(
                "\"mirred\" takes egress or ingress, redirect or mirror, and a device".into()
            );
        };
        let control = control_after(words, if copy { Control::Pipe } else { Control::Stolen });
        Ok(Action::Mirred { device, to_ingress, copy, control })
    }

    fn police(&mut self, words: &mut Words<'_>) -> Result<Action, String> {
        let (mut rate, mut burst, mut mtu, mut peak) = (None, None, None, None);
        let (mut exceed, mut conform) = (Control::Reclassify, Control::Ok);
        while let Some(word) = words.peek() {
            if matches!(word, "action" | "classid" | "flowid") {
                break;
            }
            words.next();
            match word {
                "rate" => rate = Some(words.read(words::rate)?),
                "burst" | "buffer" | "maxburst" => burst = Some(words.read(words::size)?),
                "mtu" | "minburst" => mtu = Some(words.read(words::size)?),
                "peakrate" => peak = Some(words.read(words::rate)?),
                "conform-exceed" | "control" => {
                    let text = words.value()?;
                    let (first, second) =
                        text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
                    exceed = control(first).ok_or_else(|| words::unknown(first))?;
                    if let Some(word) = second {
                        conform = control(word).ok_or_else(|| words::unknown(word))?;
                    }
                }
                word @ ("avrate" | "estimator" | "overhead" | "linklayer" | "pkts_rate"
                | "pkts_burst" | "index") => {
                    return Err(format!("\"{word}\" of police is not supported yet"));
                }
                // Without "conform-exceed", what to do with packets beyond the rate.
                word => exceed = control(word).ok_or_else(|| words::unknown(word))?,
            }
        }
        let bucket = match (rate, burst) {
            (Some(rate), Some(burst)) => Some(Bucket::new(rate, burst)),
            (Some(_), None) => {
                return Err("\"burst\" requires \"rate\", and \"rate\" \"burst\"".into());
            }
            (None, _) => None,
        };
        let peak = match (peak, mtu) {
            (Some(rate), Some(mtu)) => Some(Bucket::new(rate, mtu)),
            (Some(_), None) => {
                return Err("\"mtu\" is required if \"peakrate\" is requested".into());
            }
            (None, _) => None,
        };
        if bucket.is_none() && mtu.is_none() {
            return Err("\"rate\" or \"mtu\" MUST be specified".into());
        }
        let state = self.config.policers;
        self.config.policers += 1;
        // Without an MTU it is what the cells of tc's rate table reach.
        let mtu = mtu.unwrap_or(255 << 3);
        Ok(Action::Police(Police { state, bucket, peak, mtu, exceed, conform }))
    }
}

fn skbedit(words: &mut Words<'_>) -> Result<Action, String> {
    let (mut mark, mut priority, mut to_host) = (None, None, false);
    loop {
        match words.peek() {
            Some("mark") => {
                words.next();
                mark = Some(words.read(|t| masked(t, u32::MAX, number))?);
            }
            Some("priority") => {
                words.next();
                priority = Some(words.read(|t| words::class(t).or_else(|| number(t)))?);
            }
            Some("ptype") => {
                words.next();
                words.read(|t| (t == "host").then_some(()))?;
                to_host = true;
            }
            Some(word @ ("queue_mapping" | "inheritdsfield")) => {
                return Err(format!("\"{word}\" of skbedit is not supported yet"));
            }
            _ => break,
        }
    }
    if mark.is_none() && priority.is_none() && !to_host {
        return Err("\"skbedit\" needs a mark, a priority or a type".into());
    }
    Ok(Action::Skbedit { mark, priority, to_host, control: control_after(words, Control::Pipe) })
}

fn vlan(words: &mut Words<'_>) -> Result<Action, String> {
    const Q: u16 = 0x8100;
    let what = words.needed("push, pop or modify")?;
    let (mut id, mut protocol, mut priority) = (None, None, None);
    while let Some(word @ ("id" | "protocol" | "priority")) = words.peek() {
        words.next();
        match word {
            "id" => id = Some(words.read(|t| number(t).filter(|id| *id < 4095))?),
            "protocol" => {
                protocol =
                    Some(words.read(|t| {
                        words::ethertype(t).filter(|p| penstock_wire::vlan::is_tag(*p))
                    })?);
            }
            _ => priority = Some(words.read(|t| number(t).filter(|p| *p < 8))?),
        }
    }
    let change = match what {
        "pop" => VlanAction::Pop,
        "push" => VlanAction::Push {
            protocol: protocol.unwrap_or(Q),
            id: id.ok_or("\"vlan push\" needs an id")?,
            priority: priority.unwrap_or(0),
        },
        "modify" => VlanAction::Modify {
            protocol,
            id: Some(id.ok_or("\"vlan modify\" needs an id")?),
            priority,
        },
        "push_eth" | "pop_eth" => return Err(format!("\"vlan {what}\" is not supported yet")),
        other => return Err(words::unknown(other)),
    };
    Ok(Action::Vlan { change, control: control_after(words, Control::Pipe) })
}
