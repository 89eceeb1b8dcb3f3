// SPDX-License-Identifier: Apache-2.0

//! Lines of ip-address(8).

use std::net::IpAddr;

use crate::config::{Config, Mode};
use crate::lines::{self, Words, unknown};
use crate::{Address4, Address6, LOOPBACK, Scope};

type Done = Result<(), String>;

/// `scope` of addresses and routes.
pub(crate) fn scope(word: &str) -> Result<Scope, String> {
    Ok(match word {
        "global" | "universe" => Scope::UNIVERSE,
        "site" => Scope::SITE,
        "link" => Scope::LINK,
        "host" => Scope::HOST,
        "nowhere" => Scope::NOWHERE,
        n => Scope(lines::number(n).ok_or_else(|| format!("\"{n}\" is not a scope"))?),
    })
}

pub(crate) fn line(config: &mut Config, w: &mut Words<'_>, mode: Mode) -> Done {
    let mut local = None;
    let mut peer = None;
    let mut broadcast = None;
    let mut dev = None;
    let mut wide = None;
    let mut noprefixroute = false;
    let mut metric = 0;
    let mut deprecated = false;
    while let Some(word) = w.next() {
        match word {
            "dev" => dev = Some(w.value()?),
            "peer" | "remote" => peer = Some(w.value()?),
            "local" => local = Some(w.value()?),
            "broadcast" | "brd" => broadcast = Some(w.value()?),
            "scope" => wide = Some(scope(w.value()?)?),
            "nodad" | "home" => {}
            "optimistic" => {}
            "noprefixroute" => noprefixroute = true,
            "metric" | "priority" | "preference" => metric = w.number()?,
            "label" => {
                w.value()?;
            }
            "valid_lft" => match w.value()? {
                "forever" => {}
                _ => {
                    return Err(
                        "addresses that end are not supported: \"valid_lft\" must be \"forever\""
                            .into(),
                    );
                }
            },
            "preferred_lft" => match w.value()? {
                "forever" => {}
                "0" | "0sec" => deprecated = true,
                _ => return Err("\"preferred_lft\" must be \"forever\" or 0".into()),
            },
            "anycast" | "mngtmpaddr" | "autojoin" | "proto" => {
                return Err(format!("\"{word}\" is not supported yet"));
            }
            a if local.is_none() => local = Some(a),
            other => return Err(unknown(other)),
        }
    }
    let dev = dev.ok_or("\"addr add\" needs \"dev DEVICE\"")?;
    let index = config.link(dev)?.index;
    let text = local.ok_or("\"addr add\" needs an address")?;
    let invalid = |t: &str| format!("\"{t}\" is not an address");
    let (value, mut len, v6) =
        lines::prefix(text, false).filter(|_| text != "default").ok_or_else(|| invalid(text))?;
    let peer = match peer {
        None => None,
        Some(p) => {
            let (value, peer_len, peer_v6) = lines::prefix(p, v6).ok_or_else(|| invalid(p))?;
            if peer_v6 != v6 {
                return Err("the addresses are of different families".into());
            }
            len = peer_len;
            Some(value)
        }
    };
    if v6 {
        if broadcast.is_some() {
            return Err("Broadcast can be set only for IPv4 addresses".into());
        }
        let a = Address6 {
            local: value,
            peer,
            len,
            noprefixroute,
            metric,
            deprecated,
            generated: false,
        };
        return config.add_address6(index, a, mode);
    }
    let (local, peer) = (value as u32, peer.unwrap_or(value) as u32);
    let host_bits = u32::MAX.checked_shr(len.into()).unwrap_or(0);
    let broadcast = match broadcast {
        None | Some("-") => None,
        Some("+") if len <= 30 => Some(peer | host_bits),
        Some("+") => None,
        Some(b) => match lines::address(b) {
            Some(IpAddr::V4(b)) => Some(b.into()),
            _ => return Err(invalid(b)),
        },
    };
    let usual = if index == LOOPBACK { Scope::HOST } else { Scope::UNIVERSE };
    let scope = wide.unwrap_or(usual);
    config.add_address4(
        index,
        Address4 { local, peer, len, broadcast, scope, secondary: false, noprefixroute, metric },
        mode,
    )
}
