// SPDX-License-Identifier: Apache-2.0

//! Words about tunnels: `type ipip|sit|ip6tnl` of ip-link(8), the lines of ip-tunnel(8), and
//! `type pppoe`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_wire::protocol;

use crate::config::Config;
use crate::kind::{Pppoe, SixRd, Tunnel, TunnelKind};
use crate::lines::{Words, number, unknown};

type Done = Result<(), String>;

/// Its successor 6rd does without tunnels that look into next hops, and systems have given it up.
const ISATAP: &str = "ISATAP is not supported";

/// Drivers and modes by the word of ip-link(8) after `mode`.
fn payload(kind: TunnelKind, word: &str) -> Result<u8, String> {
    Ok(match (kind, word) {
        (TunnelKind::Sit, "ipv6/ipv4" | "ip6ip") => protocol::IPV6,
        (TunnelKind::Ipip | TunnelKind::Sit, "ipv4/ipv4" | "ipip" | "ip4ip4") => protocol::IPIP,
        (TunnelKind::Ipip | TunnelKind::Sit, "any/ipv4" | "any") => 0,
        (TunnelKind::Ip6tnl, "ipv6/ipv6" | "ip6ip6") => protocol::IPV6,
        (TunnelKind::Ip6tnl, "ip/ipv6" | "ipv4/ipv6" | "ipip6" | "ip4ip6") => protocol::IPIP,
        (TunnelKind::Ip6tnl, "any/ipv6" | "any") => 0,
        (_, "mplsip" | "mpls/ipv4") => return Err("MPLS is not supported".into()),
        _ => return Err(format!("Cannot guess tunnel mode: \"{word}\"")),
    })
}

fn end(w: &mut Words<'_>, v6: bool) -> Result<IpAddr, String> {
    if w.take("any") {
        return Ok(if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() });
    }
    let address = w.address()?;
    if address.is_ipv6() != v6 {
        return Err(format!("\"{address}\" is of the other family"));
    }
    Ok(address)
}

/// `tos` and its kin: hexadecimal, as the kernel's tables of names have it.
fn tos(w: &mut Words<'_>) -> Result<Option<u8>, String> {
    let text = w.value()?;
    if text == "inherit" || text.starts_with("inherit/") {
        return Ok(None);
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let invalid = |_| format!("\"{text}\" is not a TOS value");
    u8::from_str_radix(digits, 16).map(Some).map_err(invalid)
}

/// A word about the network of IPv6 that `sit` finds other ends in. Both prefixes count as they are
/// in the end: [`tunnel_words`] looks whether they fit.
fn sixrd(w: &mut Words<'_>, word: &str, before: SixRd) -> Result<SixRd, String> {
    if word == "6rd-reset" {
        return Ok(SixRd::OF_6TO4);
    }
    let v6 = word == "6rd-prefix";
    let text = w.value()?;
    let invalid = || format!("\"{text}\" is not a prefix of IPv{}", if v6 { 6 } else { 4 });
    let found = crate::lines::prefix(text, v6).filter(|(_, _, six)| *six == v6);
    let (bits, len, _) = found.ok_or_else(invalid)?;
    Ok(match v6 {
        true => SixRd { prefix: bits, len, ..before },
        false => SixRd { relay: bits as u32, relay_len: len, ..before },
    })
}

/// What may follow the type of a tunnel.
pub(crate) fn tunnel_words(config: &Config, w: &mut Words<'_>, tunnel: &mut Tunnel) -> Done {
    let v6 = tunnel.kind.outer6();
    while let Some(word) = w.next() {
        match word {
            "mode" => tunnel.payload = payload(tunnel.kind, w.value()?)?,
            _ if common_word(config, w, tunnel, word)? => {}
            _ if v6 => word6(w, tunnel, word)?,
            _ => word4(w, tunnel, word)?,
        }
    }
    if !v6 && tunnel.ttl != 0 && !tunnel.pmtudisc {
        return Err("ttl != 0 and nopmtudisc are incompatible".into());
    }
    check_sixrd(tunnel)
}

fn check_sixrd(tunnel: &Tunnel) -> Done {
    let SixRd { prefix, len, relay, relay_len } = tunnel.sixrd;
    SixRd::new(prefix, len, relay, relay_len).map(|_| ()).ok_or("Invalid argument".into())
}

/// Words of all tunnels; `false` if it is another.
fn common_word(
    config: &Config,
    w: &mut Words<'_>,
    tunnel: &mut Tunnel,
    word: &str,
) -> Result<bool, String> {
    let v6 = tunnel.kind.outer6();
    match word {
        "remote" => tunnel.remote = end(w, v6)?,
        "local" => tunnel.local = end(w, v6)?,
        "dev" => tunnel.link = config.link(w.value()?)?.index,
        "ttl" | "hoplimit" | "hlim" => {
            tunnel.ttl = match w.value()? {
                "inherit" => 0,
                n => number(n)
                    .ok_or_else(|| format!("\"{n}\" is not a valid value for \"{word}\""))?,
            }
        }
        "fwmark" => {
            tunnel.mark = match w.value()? {
                "inherit" if v6 => None,
                n => Some(number(n).ok_or_else(|| format!("\"{n}\" is not a mark"))?),
            }
        }
        "noencap" => {}
        "encap" if w.peek() == Some("none") => {
            w.next();
        }
        "external" | "encap" | "encap-sport" | "encap-dport" | "encap-csum" | "noencap-csum"
        | "encap-udp6-csum" | "noencap-udp6-csum" | "encap-remcsum" | "noencap-remcsum" | "key"
        | "ikey" | "okey" | "seq" | "iseq" | "oseq" | "csum" | "icsum" | "ocsum" => {
            return Err(format!("\"{word}\" is not supported yet"));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn word4(w: &mut Words<'_>, tunnel: &mut Tunnel, word: &str) -> Done {
    match word {
        "tos" | "tclass" | "dsfield" => tunnel.tos = tos(w)?.unwrap_or(1),
        "pmtudisc" => tunnel.pmtudisc = true,
        "nopmtudisc" => tunnel.pmtudisc = false,
        "6rd-prefix" | "6rd-relay_prefix" | "6rd-reset" if tunnel.kind == TunnelKind::Sit => {
            tunnel.sixrd = sixrd(w, word, tunnel.sixrd)?;
        }
        "isatap" => return Err(ISATAP.into()),
        other => return Err(unknown(other)),
    }
    Ok(())
}

fn word6(w: &mut Words<'_>, tunnel: &mut Tunnel, word: &str) -> Done {
    match word {
        "tclass" | "tc" | "tos" | "dsfield" => match tos(w)? {
            Some(class) => (tunnel.tos, tunnel.inherit_tos) = (class, false),
            None => (tunnel.tos, tunnel.inherit_tos) = (0, true),
        },
        "encaplimit" => {
            tunnel.encap_limit = match w.value()? {
                "none" => None,
                n => Some(
                    number(n).ok_or_else(|| format!("\"{n}\" is not a limit of encapsulations"))?,
                ),
            }
        }
        "flowlabel" | "fl" => {
            tunnel.flow_label = match w.value()? {
                "inherit" => None,
                text => {
                    let digits = text.strip_prefix("0x").unwrap_or(text);
                    let label = u32::from_str_radix(digits, 16).ok().filter(|l| *l <= 0xf_ffff);
                    Some(label.ok_or_else(|| format!("\"{text}\" is not a flow label"))?)
                }
            }
        }
        "dscp" => match w.value()? {
            "inherit" => tunnel.copy_dscp = true,
            other => return Err(unknown(other)),
        },
        "allow-localremote" => tunnel.allow_localremote = true,
        "noallow-localremote" => tunnel.allow_localremote = false,
        other => return Err(unknown(other)),
    }
    Ok(())
}

/// What follows `type pppoe`: `dev DEVICE session ID peer ADDRESS`. There is no such type in
/// ip-link(8), which leaves sessions to pppd.
pub(crate) fn pppoe_words(
    config: &Config,
    w: &mut Words<'_>,
    lower: Option<&str>,
) -> Result<Pppoe, String> {
    let (mut dev, mut session, mut peer) = (lower, None, None);
    while let Some(word) = w.next() {
        match word {
            "dev" => dev = Some(w.value()?),
            "session" => session = Some(w.number::<u16>()?),
            "peer" => peer = Some(w.mac()?),
            other => return Err(unknown(other)),
        }
    }
    let (Some(dev), Some(session), Some(peer)) = (dev, session, peer) else {
        return Err(
            "\"type pppoe\" needs \"dev DEVICE\", \"session ID\" and \"peer ADDRESS\"".into()
        );
    };
    if session == 0 || session == 0xffff {
        return Err(format!("{session} is not the id of a session"));
    }
    if peer.is_group() || peer == crate::Mac::default() {
        return Err("Invalid argument: \"peer\" is not the address of one station".into());
    }
    Ok(Pppoe { lower: config.link(dev)?.index, session, peer })
}

/// `ip tunnel add NAME mode MODE …`: the driver is found by the mode (ip-tunnel(8)).
pub(crate) fn tunnel_line(
    config: &Config,
    w: &mut Words<'_>,
    v6: Option<bool>,
) -> Result<(String, Tunnel), String> {
    let Named { name, mode, words } = named(w)?;
    let mode = match (mode, v6) {
        (Some(mode), _) => mode,
        (None, Some(true)) => "ip6ip6",
        (None, _) => return Err("\"tunnel add\" needs a \"mode\"".into()),
    };
    let (kind, payload) = of_mode(mode, v6)?;
    let mut tunnel = Tunnel { payload, ..Tunnel::new(kind) };
    tunnel_words(config, &mut Words::new(&words), &mut tunnel)?;
    Ok((name, tunnel))
}

/// `ip tunnel 6rd dev NAME …`.
pub(crate) fn sixrd_line(config: &Config, w: &mut Words<'_>) -> Result<(u32, Tunnel), String> {
    let device =
        w.take("dev").then(|| w.value()).ok_or("\"tunnel 6rd\" needs \"dev DEVICE\"")??;
    let link = config.link(device)?;
    let tunnel = link.tunnel().filter(|tunnel| tunnel.kind == TunnelKind::Sit);
    let mut tunnel = tunnel.ok_or_else(|| format!("{device} is no sit"))?.clone();
    while let Some(word) = w.next() {
        match word {
            "6rd-prefix" | "6rd-relay_prefix" | "6rd-reset" => {
                tunnel.sixrd = sixrd(w, word, tunnel.sixrd)?;
            }
            other => return Err(unknown(other)),
        }
    }
    check_sixrd(&tunnel)?;
    Ok((link.index, tunnel))
}

/// `ip tunnel change NAME …`: what is not said stays.
pub(crate) fn tunnel_change_line(
    config: &Config,
    w: &mut Words<'_>,
    v6: Option<bool>,
) -> Result<(u32, Tunnel), String> {
    let Named { name, mode, words } = named(w)?;
    let link = config.link(&name)?;
    let mut tunnel = link.tunnel().ok_or_else(|| format!("{name} is no tunnel"))?.clone();
    if mode.is_none() && v6 != Some(true) {
        return Err("\"tunnel change\" needs a \"mode\"".into());
    }
    if let Some(mode) = mode {
        let (kind, payload) = of_mode(mode, v6)?;
        if kind != tunnel.kind {
            return Err(format!("{name} is a tunnel of another kind than \"{mode}\""));
        }
        tunnel.payload = payload;
    }
    tunnel_words(config, &mut Words::new(&words), &mut tunnel)?;
    Ok((link.index, tunnel))
}

/// The words of a line about a tunnel, without those that say which one.
struct Named<'a> {
    name: String,
    mode: Option<&'a str>,
    words: Vec<String>,
}

fn named<'a>(w: &mut Words<'a>) -> Result<Named<'a>, String> {
    let mut words: Vec<String> = Vec::new();
    let (mut name, mut mode) = (None, None);
    let mut bare = true;
    while let Some(word) = w.next() {
        match word {
            "mode" => mode = Some(w.value()?),
            "name" => name = Some(w.value()?.to_owned()),
            first if bare && name.is_none() => name = Some(first.to_owned()),
            other => words.push(other.to_owned()),
        }
        bare = false;
    }
    let name = name.filter(|n| !matches!(n.as_str(), "remote" | "local" | "ttl" | "tos" | "dev"));
    let name = name.ok_or("a tunnel needs a name")?;
    Ok(Named { name, mode, words })
}

/// Driver and payload by the word of ip-tunnel(8) after `mode`.
fn of_mode(mode: &str, v6: Option<bool>) -> Result<(TunnelKind, u8), String> {
    let (kind, payload) = match mode {
        "ipip" | "ip/ip" | "ipv4/ipv4" => (TunnelKind::Ipip, protocol::IPIP),
        "sit" | "ipv6/ip" => (TunnelKind::Sit, protocol::IPV6),
        "ip6ip6" | "ipv6/ipv6" => (TunnelKind::Ip6tnl, protocol::IPV6),
        "ipip6" | "ip/ipv6" | "ipv4/ipv6" | "ip4ip6" => (TunnelKind::Ip6tnl, protocol::IPIP),
        "any" | "any/ipv6" if v6 == Some(true) => (TunnelKind::Ip6tnl, 0),
        "isatap" => return Err(ISATAP.into()),
        "gre" | "gre/ip" | "vti" | "ip6gre" | "gre/ipv6" | "vti6" => {
            return Err(format!("tunnels of mode \"{mode}\" are not supported yet"));
        }
        other => return Err(format!("Cannot guess tunnel mode: \"{other}\"")),
    };
    if v6.is_some_and(|v6| v6 != kind.outer6()) {
        return Err(format!("mode \"{mode}\" is of the other family"));
    }
    Ok((kind, payload))
}
