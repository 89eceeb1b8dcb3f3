// SPDX-License-Identifier: Apache-2.0

//! `xfrm state` (`ip/xfrm_state.c` of iproute2).

use penstock_xfrm::{
    Aead, Algorithms, Authentication, Encapsulation, Encryption, Limits, Mark, Mode, StateConfig,
    StateFlags,
};

use super::{
    Done, Id, SelectorWords, command, limit, mark, mode, not_yet, number, unknown, unspecified,
};
use crate::config::Config;
use crate::lines::{self, Words};

pub(super) fn line(config: &mut Config, w: &mut Words<'_>) -> Done {
    let known = ["add", "update", "delete", "flush"];
    let others = ["allocspi", "deleteall", "delall", "get", "list", "show", "lst", "count"];
    match command(w, "state", &known, &others)? {
        "add" => add(config, w, false),
        "update" => add(config, w, true),
        "flush" => match w.next() {
            None => {
                config.xfrm.flush_states();
                Ok(())
            }
            Some("proto") if matches!(w.value()?, "esp" | "any") => {
                config.xfrm.flush_states();
                Ok(())
            }
            Some(word) => Err(unknown(word)),
        },
        _ => delete(config, w),
    }
}

fn delete(config: &mut Config, w: &mut Words<'_>) -> Done {
    let mut id = Id::default();
    let mut wanted = Mark::default();
    while w.peek().is_some() {
        if id.take(w)? {
            continue;
        }
        match w.next() {
            Some("mark") => wanted = mark(w, "mark")?,
            Some(word) => return Err(unknown(word)),
            None => {}
        }
    }
    let destination = id.destination.ok_or("\"xfrm state\" needs \"dst\"")?;
    config.xfrm.delete_state(destination, id.spi.unwrap_or(0), wanted)
}

/// The bytes of a key: hexadecimal after `0x`, else as they stand there.
fn key(w: &mut Words<'_>, of: &str) -> Result<Vec<u8>, String> {
    let text = w.next().ok_or_else(|| format!("\"{of}\" needs a key"))?;
    let Some(digits) = text.strip_prefix("0x") else { return Ok(text.as_bytes().to_vec()) };
    let nibbles: Option<Vec<u8>> =
        digits.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let nibbles = nibbles.filter(|n| n.len() % 2 == 0);
    let nibbles = nibbles.ok_or_else(|| format!("the key of \"{of}\" is not hexadecimal"))?;
    Ok(nibbles
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, nibble| byte << 4 | nibble))
        .collect())
}

/// The halves of sequence numbers.
#[derive(Default)]
struct Numbers {
    seq: (u32, u32),
    oseq: (u32, u32),
    window: u32,
}

fn whole((high, low): (u32, u32)) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[derive(Default)]
struct AlgorithmWords {
    aead: Option<Aead>,
    encryption: Option<Encryption>,
    authentication: Option<Authentication>,
}

impl AlgorithmWords {
    fn take(&mut self, word: &str, w: &mut Words<'_>) -> Result<bool, String> {
        let once =
            |there: bool| if there { Err(format!("\"{word}\" is there twice")) } else { Ok(()) };
        match word {
            "aead" => {
                once(self.aead.is_some())?;
                let name = w.value()?;
                let key = key(w, name)?;
                let bits = number(w, name)?;
                self.aead = Some(Aead::new(name, &key, bits).map_err(|e| e.to_string())?);
            }
            "enc" => {
                once(self.encryption.is_some())?;
                let name = w.value()?;
                let key = key(w, name)?;
                self.encryption = Some(Encryption::new(name, &key).map_err(|e| e.to_string())?);
            }
            "auth" | "auth-trunc" => {
                once(self.authentication.is_some())?;
                let name = w.value()?;
                let key = key(w, name)?;
                let bits = if word == "auth" { None } else { Some(number(w, name)?) };
                self.authentication =
                    Some(Authentication::new(name, &key, bits).map_err(|e| e.to_string())?);
            }
            "comp" => return Err(not_yet(word)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// ESP wants one that does both, or one of each (`esp_init_aead()`, `esp_init_authenc()`).
    fn finish(self) -> Result<Algorithms, String> {
        match self {
            AlgorithmWords { aead: Some(aead), encryption: None, authentication: None } => {
                Ok(Algorithms::Aead(aead))
            }
            AlgorithmWords { aead: Some(_), .. } => {
                Err("\"aead\" stands for \"enc\" and \"auth\" together".into())
            }
            AlgorithmWords { encryption: Some(encryption), authentication, .. } => {
                Ok(Algorithms::Pair(encryption, authentication.unwrap_or(Authentication::Null)))
            }
            AlgorithmWords { encryption: None, .. } => {
                Err("\"proto esp\" needs \"aead\", or \"enc\" and \"auth\"".into())
            }
        }
    }
}

/// Bits of `flag 0x…` (`XFRM_STATE_*`).
fn flag(flags: &mut StateFlags, word: &str) -> Result<bool, String> {
    match word {
        "noecn" => flags.noecn = true,
        "decap-dscp" => flags.decap_dscp = true,
        "nopmtudisc" => flags.nopmtudisc = true,
        "wildrecv" => flags.wildrecv = true,
        "af-unspec" => flags.af_unspec = true,
        "esn" => flags.esn = true,
        // Where AH has its integrity value.
        "align4" => {}
        "icmp" => return Err(not_yet("flag icmp")),
        _ => {
            let Some(bits) =
                word.strip_prefix("0x").and_then(|hex| u8::from_str_radix(hex, 16).ok())
            else {
                return Ok(false);
            };
            let names = [
                "noecn",
                "decap-dscp",
                "nopmtudisc",
                "wildrecv",
                "icmp",
                "af-unspec",
                "align4",
                "esn",
            ];
            for (bit, name) in names.iter().enumerate() {
                if bits >> bit & 1 != 0 {
                    flag(flags, name)?;
                }
            }
        }
    }
    Ok(true)
}

fn extra_flag(flags: &mut StateFlags, word: &str) -> bool {
    match word {
        "dont-encap-dscp" => flags.dont_encap_dscp = true,
        "oseq-may-wrap" => flags.oseq_may_wrap = true,
        _ => return false,
    }
    true
}

/// The words of a list, of which there is one at least.
fn list(w: &mut Words<'_>, mut take: impl FnMut(&str) -> Result<bool, String>) -> Done {
    let first = w.value()?;
    if !take(first)? {
        return Err(unknown(first));
    }
    while let Some(word) = w.peek() {
        if !take(word)? {
            break;
        }
        w.next();
    }
    Ok(())
}

fn encapsulation(w: &mut Words<'_>) -> Result<Encapsulation, String> {
    match w.value()? {
        "espinudp" => {}
        t @ ("espinudp-nonike" | "espintcp") => return Err(not_yet(&format!("encap {t}"))),
        t => return Err(unknown(t)),
    }
    let (sport, dport) = (number(w, "encap")?, number(w, "encap")?);
    // The original address, which the kernel keeps for key daemons that ask.
    w.address()?;
    Ok(Encapsulation { sport, dport })
}

fn add(config: &mut Config, w: &mut Words<'_>, update: bool) -> Done {
    let mut id = Id::default();
    let mut algorithms = AlgorithmWords::default();
    let mut numbers = Numbers::default();
    let mut flags = StateFlags::default();
    let mut selector = SelectorWords::default();
    let mut limits = Limits::default();
    let mut found_mode = Mode::Transport;
    let (mut reqid, mut wanted, mut output_mark) = (0, Mark::default(), Mark::default());
    let (mut encap, mut out) = (None, None);
    while let Some(word) = w.peek() {
        if id.take(w)? {
            continue;
        }
        w.next();
        if algorithms.take(word, w)? {
            continue;
        }
        match word {
            "mode" => found_mode = mode(w)?,
            "reqid" => reqid = number(w, word)?,
            "mark" => wanted = mark(w, word)?,
            "output-mark" => output_mark = mark(w, word)?,
            "replay-window" => numbers.window = number(w, word)?,
            "replay-seq" => numbers.seq.1 = number(w, word)?,
            "replay-seq-hi" => numbers.seq.0 = number(w, word)?,
            "replay-oseq" => numbers.oseq.1 = number(w, word)?,
            "replay-oseq-hi" => numbers.oseq.0 = number(w, word)?,
            "flag" => list(w, |word| flag(&mut flags, word))?,
            "extra-flag" => list(w, |word| Ok(extra_flag(&mut flags, word)))?,
            "sel" => {
                while selector.take(config, w, id.v6())? {}
                if !selector.given {
                    return Err("\"sel\" needs a selector".into());
                }
            }
            "limit" => limit(w, &mut limits)?,
            "encap" => encap = Some(encapsulation(w)?),
            "dir" => {
                out = Some(match w.value()? {
                    "in" => false,
                    "out" => true,
                    other => return Err(format!("\"{other}\" is not a direction of states")),
                })
            }
            "if_id" => {
                let text = w.value()?;
                if lines::number::<u32>(text) != Some(0) {
                    return Err("\"if_id\" is not supported: there are no xfrm interfaces".into());
                }
            }
            "seq"
            | "coa"
            | "ctx"
            | "offload"
            | "tfcpad"
            | "pcpu-num"
            | "nat_keepalive_interval" => {
                return Err(not_yet(word));
            }
            other => return Err(unknown(other)),
        }
    }
    let destination = id.destination.ok_or("\"xfrm state\" needs \"dst\"")?;
    if !id.esp {
        return Err("\"xfrm state\" needs \"proto esp\"".into());
    }
    let spi = id.spi.filter(|spi| *spi != 0).ok_or("\"xfrm state\" needs an \"spi\"")?;
    selector.check()?;
    let mut selector = selector.selector;
    if selector.v6.is_none() && !flags.af_unspec {
        selector.v6 = Some(destination.is_ipv6());
    }
    let state = StateConfig {
        source: id.source.unwrap_or(unspecified(destination.is_ipv6())),
        destination,
        spi,
        mode: found_mode,
        reqid,
        algorithms: algorithms.finish()?,
        window: numbers.window,
        seq: whole(numbers.seq),
        oseq: whole(numbers.oseq),
        flags,
        selector,
        limits,
        encapsulation: encap,
        mark: wanted,
        output_mark,
        out,
    };
    config.xfrm.add_state(state, update)
}
