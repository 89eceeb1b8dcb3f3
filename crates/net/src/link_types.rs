// SPDX-License-Identifier: Apache-2.0

//! Types of `ip link add … type TYPE …` (ip-link(8)) and the words that follow them.

use std::sync::Arc;

use crate::Link;
use crate::bridge::Bridge;
use crate::bridge_lines;
use crate::config::Config;
use crate::kind::{Kind, PPPOE_OVERHEAD, Tunnel, TunnelKind, Vlan, Wire};
use crate::lines::{self, Words, unknown};
use crate::link_words::LinkWords;
use crate::tunnel_lines::{pppoe_words, tunnel_words};

type Done = Result<(), String>;

/// Reads what follows `type NAME`, and gives the link its kind and what depends on it.
pub(crate) fn complete(
    config: &Config,
    w: &mut Words<'_>,
    l: &LinkWords,
    name: &str,
    link: &mut Link,
) -> Done {
    match name {
        "vlan" => vlan(config, w, l, link),
        "bridge" => bridge(w, l, link),
        "ipip" => tunnel(config, w, l, TunnelKind::Ipip, link),
        "sit" => tunnel(config, w, l, TunnelKind::Sit, link),
        "ip6tnl" => tunnel(config, w, l, TunnelKind::Ip6tnl, link),
        "pppoe" => pppoe(config, w, l, link),
        name if Wire::TYPES.contains(&name) => wire(w, l, name, link),
        "gre" | "gretap" | "ip6gre" | "ip6gretap" | "vti" | "vti6" | "xfrm" | "vxlan"
        | "geneve" | "macvlan" | "macvtap" | "ipvlan" | "ipvtap" | "bond" | "team" | "vrf"
        | "macsec" | "wireguard" | "tun" | "can" | "bareudp" | "batadv" | "hsr" | "ipoib"
        | "netkit" | "gtp" | "rmnet" | "lowpan" | "erspan" | "ip6erspan" | "vxcan" | "dsa"
        | "amt" | "ppp" => Err(format!("link type \"{name}\" is not supported yet")),
        other => Err(format!("unknown link type \"{other}\"")),
    }
}

/// `type vlan`: a tag on the frames of the link below.
fn vlan(config: &Config, w: &mut Words<'_>, l: &LinkWords, link: &mut Link) -> Done {
    let lower = l.lower.as_deref().ok_or("\"type vlan\" needs \"link DEVICE\"")?;
    let lower = config.link(lower)?.clone();
    let mut vlan = Vlan {
        lower: lower.index,
        protocol: 0x8100,
        id: u16::MAX,
        ingress_qos: Vec::new(),
        egress_qos: Vec::new(),
    };
    vlan_words(w, &mut vlan)?;
    if l.mtu.is_none() {
        link.mtu = lower.mtu;
    }
    if l.mac.is_none() {
        link.mac = lower.mac;
        link.mac_inherited = true;
    }
    link.arp = l.arp.unwrap_or(lower.arp);
    config.check_vlan(&vlan, link.mtu)?;
    link.kind = vlan.into();
    Ok(())
}

/// Types of wires.
fn wire(w: &mut Words<'_>, l: &LinkWords, name: &str, link: &mut Link) -> Done {
    if l.lower.is_some() {
        return Err(format!("\"link\" makes no sense with \"type {name}\""));
    }
    let mut peer = None;
    while let Some(word) = w.next() {
        match word {
            "peer" if name == "veth" => {
                let mut far = LinkWords::default();
                if far.read(w, true)? {
                    return Err(unknown("type"));
                }
                peer = far.name;
            }
            other => return Err(unknown(other)),
        }
    }
    link.kind = Wire { peer: peer.map(Arc::from), name: name.into() }.into();
    Ok(())
}

/// `type bridge`.
fn bridge(w: &mut Words<'_>, l: &LinkWords, link: &mut Link) -> Done {
    if l.lower.is_some() {
        return Err("\"link\" makes no sense with \"type bridge\"".into());
    }
    let mut bridge = Bridge::default();
    if let Some(pvid) = bridge_lines::bridge_words(w, &mut bridge)? {
        bridge.vlans.change_default(bridge.default_pvid, pvid);
        bridge.default_pvid = pvid;
    }
    link.mac_inherited = l.mac.is_none();
    link.kind = bridge.into();
    Ok(())
}

/// `type pppoe`: a session on the link below.
fn pppoe(config: &Config, w: &mut Words<'_>, l: &LinkWords, link: &mut Link) -> Done {
    l.refuse_ethernet()?;
    let pppoe = pppoe_words(config, w, l.lower.as_deref())?;
    let lower = config.check_pppoe(&pppoe)?;
    link.mtu = l.mtu.unwrap_or_else(|| lower.saturating_sub(PPPOE_OVERHEAD as u32).max(68));
    link.arp = false;
    link.kind = pppoe.into();
    Ok(())
}

/// Types of tunnels.
fn tunnel(
    config: &Config,
    w: &mut Words<'_>,
    l: &LinkWords,
    kind: TunnelKind,
    link: &mut Link,
) -> Done {
    l.refuse_ethernet()?;
    if l.lower.is_some() {
        let kind = kind.name();
        return Err(format!(
            "\"link\" makes no sense with \"type {kind}\": use \"dev DEVICE\" after it"
        ));
    }
    let mut tunnel = Tunnel::new(kind);
    tunnel_words(config, w, &mut tunnel)?;
    complete_tunnel(config, l, tunnel, link)
}

/// Makes a link a tunnel with these settings.
pub(crate) fn complete_tunnel(
    config: &Config,
    l: &LinkWords,
    tunnel: Tunnel,
    link: &mut Link,
) -> Done {
    let mtu = config.check_tunnel(&tunnel, 0)?;
    let range = tunnel.mtu_range();
    if l.mtu.is_some_and(|mtu| !range.contains(&mtu)) {
        return Err("mtu less than device minimum or greater than device maximum".into());
    }
    link.mtu = l.mtu.unwrap_or(mtu);
    link.arp = false;
    link.multicast = l.multicast.unwrap_or(false);
    link.kind = tunnel.into();
    Ok(())
}

/// Words after `type vlan`.
fn vlan_words(w: &mut Words<'_>, vlan: &mut Vlan) -> Done {
    while let Some(word) = w.next() {
        match word {
            "protocol" => {
                vlan.protocol = match w.value()?.to_ascii_lowercase().as_str() {
                    "802.1q" => 0x8100,
                    "802.1ad" => 0x88a8,
                    other => return Err(format!("\"{other}\" is not a VLAN protocol")),
                }
            }
            "id" => vlan.id = w.number::<u16>()?,
            "reorder_hdr" => {
                if !w.on_off()? {
                    return Err("\"reorder_hdr off\" is not supported".into());
                }
            }
            "loose_binding" | "bridge_binding" | "gvrp" | "mvrp" => {
                if w.on_off()? {
                    return Err(format!("\"{word} on\" is not supported"));
                }
            }
            "ingress-qos-map" => {
                qos_words(w, |from, to| vlan.ingress_qos.push((from as u8 & 7, to)))?
            }
            "egress-qos-map" => {
                qos_words(w, |from, to| vlan.egress_qos.push((from, to as u8 & 7)))?
            }
            other => return Err(unknown(other)),
        }
    }
    match vlan.id {
        u16::MAX => Err("\"type vlan\" needs an \"id\"".into()),
        0..4095 => Ok(()),
        id => Err(format!("{id} is not a VLAN id")),
    }
}

/// Pairs FROM:TO of a map of priorities.
fn qos_words(w: &mut Words<'_>, mut add: impl FnMut(u32, u32)) -> Done {
    let mut any = false;
    while let Some((from, to)) = w.peek().and_then(|p| p.split_once(':')) {
        let (Some(from), Some(to)) = (lines::number(from), lines::number(to)) else {
            return Err(format!("\"{from}:{to}\" is not a pair of numbers"));
        };
        add(from, to);
        any = true;
        w.next();
    }
    if any { Ok(()) } else { Err("a map needs pairs FROM:TO".into()) }
}
