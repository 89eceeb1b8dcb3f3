// SPDX-License-Identifier: Apache-2.0

//! Lines about IPsec: `xfrm state` and `xfrm policy`, with the words of ip-xfrm(8).

mod policy;
mod state;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_xfrm::{Limits, Mark, Mode, Selector};

use crate::config::{Config, masked};
use crate::lines::{self, Words};

type Done = Result<(), String>;

fn unknown(word: &str) -> String {
    format!("unknown word \"{word}\"")
}

fn not_yet(word: &str) -> String {
    format!("\"{word}\" is not supported yet")
}

/// What follows `xfrm`. `v6` as `-4` or `-6` says.
pub(crate) fn line(config: &mut Config, w: &mut Words<'_>, v6: Option<bool>) -> Done {
    let object = w.next().ok_or("\"xfrm\" needs \"state\" or \"policy\"")?;
    let starts = |name: &str| !object.is_empty() && name.starts_with(object);
    if starts("state") || object == "sa" {
        state::line(config, w)
    } else if starts("policy") {
        policy::line(config, w, v6)
    } else if starts("monitor") {
        Err("\"xfrm monitor\" changes nothing".into())
    } else {
        Err(unknown(object))
    }
}

/// The first of these commands that begins with the word.
fn command<'n>(
    w: &mut Words<'_>,
    object: &str,
    known: &[&'n str],
    others: &[&str],
) -> Result<&'n str, String> {
    let word = w.next().ok_or_else(|| format!("\"xfrm {object}\" needs a command"))?;
    match known.iter().find(|n| !word.is_empty() && n.starts_with(word)) {
        Some(name) => Ok(name),
        None if others.iter().any(|n| n.starts_with(word)) => {
            Err(not_yet(&format!("xfrm {object} {word}")))
        }
        None => Err(unknown(word)),
    }
}

/// A number for `of`, which may not be there.
fn number<T: TryFrom<u64>>(w: &mut Words<'_>, of: &str) -> Result<T, String> {
    w.number_after(of)
}

fn mode(w: &mut Words<'_>) -> Result<Mode, String> {
    match w.value()? {
        "transport" => Ok(Mode::Transport),
        "tunnel" => Ok(Mode::Tunnel),
        m @ ("ro" | "in_trigger" | "beet" | "iptfs") => Err(not_yet(&format!("mode {m}"))),
        m => Err(format!("\"{m}\" is not a mode")),
    }
}

/// `mark VALUE [mask MASK]`, after the word.
fn mark(w: &mut Words<'_>, of: &str) -> Result<Mark, String> {
    let value = number(w, of)?;
    let mask = if w.take("mask") { number(w, "mask")? } else { u32::MAX };
    if value & mask != value {
        return Err(format!("the mask of \"{of}\" cuts its value"));
    }
    Ok(Mark { value, mask })
}

/// A protocol by name or number.
fn protocol(w: &mut Words<'_>) -> Result<u8, String> {
    let text = w.value()?;
    let named = match text {
        "any" | "ip" | "hopopt" => 0,
        "icmp" => 1,
        "igmp" => 2,
        "ipip" | "ipencap" => 4,
        "tcp" => 6,
        "udp" => 17,
        "dccp" => 33,
        "ipv6" => 41,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        "ipv6-icmp" | "icmpv6" => 58,
        "ospf" => 89,
        "comp" | "ipcomp" => 108,
        "vrrp" => 112,
        "l2tp" => 115,
        "sctp" => 132,
        "mobility-header" => 135,
        "udplite" => 136,
        _ => return lines::number(text).ok_or_else(|| format!("\"{text}\" is not a protocol")),
    };
    Ok(named)
}

/// The limits that `limit` begins; ip(8) takes several after one word or each with its own.
fn limit(w: &mut Words<'_>, limits: &mut Limits) -> Done {
    let word = w.value()?;
    let place = match word {
        "time-soft" => &mut limits.soft_add,
        "time-hard" => &mut limits.hard_add,
        "time-use-soft" => &mut limits.soft_use,
        "time-use-hard" => &mut limits.hard_use,
        "byte-soft" => &mut limits.soft_bytes,
        "byte-hard" => &mut limits.hard_bytes,
        "packet-soft" => &mut limits.soft_packets,
        "packet-hard" => &mut limits.hard_packets,
        other => return Err(unknown(other)),
    };
    *place = if word.starts_with("byte") { size(w.value()?)? } else { number(w, word)? };
    Ok(())
}

/// Bytes, with a suffix as in tc(8).
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a number of bytes");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return lines::number(text).ok_or_else(wrong),
    };
    let n: u64 = lines::number(digits).ok_or_else(wrong)?;
    n.checked_mul(unit).ok_or_else(wrong)
}

/// A selector while it is read.
#[derive(Default)]
struct SelectorWords {
    selector: Selector,
    given: bool,
}

impl SelectorWords {
    fn prefix(&mut self, text: &str, v6: Option<bool>) -> Result<(u128, u8), String> {
        let wanted = self.selector.v6.or(v6).unwrap_or(false);
        let all = matches!(text, "any" | "all" | "default");
        let (value, len, is_v6) =
            lines::prefix(text, wanted).ok_or_else(|| format!("\"{text}\" is not an address"))?;
        if !all {
            if self.selector.v6.is_some_and(|v6| v6 != is_v6) {
                return Err("source and destination are of different families".into());
            }
            self.selector.v6 = Some(is_v6);
        }
        Ok((masked(value, len, is_v6), len))
    }

    /// Takes a word if it belongs to a selector (`xfrm_selector_parse()`).
    fn take(
        &mut self,
        config: &Config,
        w: &mut Words<'_>,
        v6: Option<bool>,
    ) -> Result<bool, String> {
        let Some(word) = w.peek() else { return Ok(false) };
        match word {
            "src" => {
                w.next();
                self.selector.source = self.prefix(w.value()?, v6)?;
            }
            "dst" => {
                w.next();
                self.selector.destination = self.prefix(w.value()?, v6)?;
            }
            "dev" => {
                w.next();
                self.selector.device = config.link(w.value()?)?.index;
            }
            "proto" => {
                w.next();
                self.selector.protocol = protocol(w)?;
            }
            "sport" | "type" => {
                w.next();
                self.selector.sport = (number(w, word)?, u16::MAX);
            }
            "dport" | "code" => {
                w.next();
                self.selector.dport = (number(w, word)?, u16::MAX);
            }
            "key" => {
                w.next();
                let text = w.value()?;
                let key = match text.parse::<Ipv4Addr>() {
                    Ok(dotted) => u32::from(dotted),
                    Err(_) => {
                        lines::number(text).ok_or_else(|| format!("\"{text}\" is not a GRE key"))?
                    }
                };
                self.selector.sport = ((key >> 16) as u16, u16::MAX);
                self.selector.dport = (key as u16, u16::MAX);
            }
            _ => return Ok(false),
        }
        self.given = true;
        Ok(true)
    }

    /// Ports, types and keys belong to protocols that have them.
    fn check(&self) -> Done {
        let Selector { protocol, sport, dport, .. } = &self.selector;
        if (sport.1 | dport.1) == 0
            || matches!(protocol, 1 | 6 | 17 | 33 | 47 | 58 | 132 | 135 | 136)
        {
            return Ok(());
        }
        Err("ports, types, codes and keys need a protocol that has them".into())
    }
}

fn unspecified(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// The words that name a state: `src ADDR dst ADDR proto esp spi SPI` (`xfrm_id_parse()`).
#[derive(Default)]
struct Id {
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    spi: Option<u32>,
    esp: bool,
}

impl Id {
    fn take(&mut self, w: &mut Words<'_>) -> Result<bool, String> {
        let Some(word) = w.peek() else { return Ok(false) };
        let any = |text: &str| matches!(text, "any" | "all" | "default");
        match word {
            "src" | "dst" => {
                w.next();
                let address = match w.peek() {
                    Some(text) if any(text) => {
                        w.next();
                        None
                    }
                    _ => Some(w.address()?),
                };
                if word == "src" {
                    self.source = address;
                } else {
                    self.destination = address;
                }
            }
            "proto" => {
                w.next();
                match w.value()? {
                    "esp" | "50" => self.esp = true,
                    p @ ("ah" | "comp" | "route2" | "hao") => {
                        return Err(not_yet(&format!("proto {p}")));
                    }
                    p => return Err(format!("\"{p}\" is not a protocol of IPsec")),
                }
            }
            "spi" => {
                w.next();
                self.spi = Some(number(w, "spi")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn v6(&self) -> Option<bool> {
        self.destination.or(self.source).map(|a| a.is_ipv6())
    }
}
