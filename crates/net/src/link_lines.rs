// SPDX-License-Identifier: Apache-2.0

//! Lines of ip-link(8).

use std::sync::Arc;

use crate::bridge::Bridge;
use crate::bridge_lines;
use crate::config::Config;
use crate::lines::{self, Words, unknown};
use crate::tunnel::{PPPOE_OVERHEAD, Tunnel, TunnelKind};
use crate::tunnel_lines::{pppoe_words, tunnel_words};
use crate::{Link, LinkKind, Mac, Vlan};

type Done = Result<(), String>;

/// What `link add` and `link set` share.
#[derive(Default)]
struct LinkWords {
    name: Option<String>,
    lower: Option<String>,
    new_name: Option<String>,
    mac: Option<Mac>,
    broadcast: Option<Mac>,
    mtu: Option<u32>,
    index: Option<u32>,
    up: Option<bool>,
    arp: Option<bool>,
    promiscuous: Option<bool>,
    multicast: Option<bool>,
    group: Option<u32>,
    generate: Option<bool>,
    alias: Option<String>,
    netns: bool,
    /// The bridge, `None` within for `nomaster`.
    master: Option<Option<String>>,
}

/// Types of which every one is a wire to us.
const WIRES: [&str; 6] = ["veth", "dummy", "ifb", "netdevsim", "nlmon", "vcan"];

impl LinkWords {
    /// Reads until the end or the word `type`, which it leaves; `true` if it stopped there.
    fn read(&mut self, w: &mut Words<'_>, adding: bool) -> Result<bool, String> {
        loop {
            if w.peek() == Some("type") {
                return Ok(true);
            }
            let Some(word) = w.next() else { return Ok(false) };
            match word {
                "name" if adding => self.name = Some(w.value()?.to_owned()),
                "name" => self.new_name = Some(w.value()?.to_owned()),
                "dev" => self.name = Some(w.value()?.to_owned()),
                "link" if adding => self.lower = Some(w.value()?.to_owned()),
                "address" | "addr" => self.mac = Some(w.mac()?),
                "broadcast" | "brd" => self.broadcast = Some(w.mac()?),
                "mtu" => self.mtu = Some(w.number()?),
                "index" if adding => self.index = Some(w.number()?),
                "txqueuelen" | "qlen" | "txqlen" | "numtxqueues" | "numrxqueues"
                | "gso_max_size" | "gso_max_segs" | "gso_ipv4_max_size" | "gro_max_size"
                | "gro_ipv4_max_size" => {
                    w.number::<u32>()?;
                }
                "up" => self.up = Some(true),
                "down" => self.up = Some(false),
                "arp" => self.arp = Some(w.on_off()?),
                "promisc" => self.promiscuous = Some(w.on_off()?),
                "allmulticast" => {
                    w.on_off()?;
                }
                "multicast" => self.multicast = Some(w.on_off()?),
                "carrier" if w.peek() == Some("on") => {
                    w.on_off()?;
                }
                "group" => {
                    self.group = Some(match w.value()? {
                        "default" => 0,
                        n => lines::number(n).ok_or_else(|| format!("\"{n}\" is not a group"))?,
                    })
                }
                "addrgenmode" => {
                    self.generate = Some(match w.value()? {
                        "none" => false,
                        "eui64" => true,
                        m @ ("stable_secret" | "random") => {
                            return Err(format!("\"addrgenmode {m}\" is not supported"));
                        }
                        m => return Err(unknown(m)),
                    })
                }
                "alias" => self.alias = Some(w.value()?.to_owned()),
                "netns" => {
                    w.value()?;
                    self.netns = true;
                }
                "master" => self.master = Some(Some(w.value()?.to_owned())),
                "nomaster" if !adding => self.master = Some(None),
                "vrf" | "xdp" | "xdpgeneric" | "xdpdrv" | "xdpoffload" | "vf" | "carrier"
                | "protodown" | "dynamic" | "trailers" | "operstate" | "state" | "mode"
                | "macaddr" | "altname" | "property" => {
                    return Err(format!("\"{word}\" is not supported yet"));
                }
                name if self.name.is_none() && !name.starts_with('-') => {
                    self.name = Some(name.to_owned())
                }
                other => return Err(unknown(other)),
            }
        }
    }
}

impl LinkWords {
    /// A link with this name as the words say, of a kind that is yet to be filled in.
    fn link(&self, name: &str) -> Link {
        Link {
            index: self.index.unwrap_or(0),
            name: name.into(),
            kind: LinkKind::Loopback,
            port: None,
            mac: self.mac.unwrap_or_default(),
            mac_inherited: false,
            broadcast: self.broadcast.unwrap_or(Mac::BROADCAST),
            mtu: self.mtu.unwrap_or(1500),
            up: false,
            arp: self.arp.unwrap_or(true),
            promiscuous: self.promiscuous.unwrap_or(false),
            multicast: self.multicast.unwrap_or(true),
            group: self.group.unwrap_or(0),
            addrgenmode: self.generate.unwrap_or(true),
            alias: None,
            addresses4: Vec::new(),
            addresses6: Vec::new(),
        }
    }

    /// For links without link addresses.
    fn refuse_ethernet(&self) -> Done {
        if self.mac.is_some() || self.broadcast.is_some() {
            return Err("Operation not supported: the device has no link address".into());
        }
        Ok(())
    }
}

pub(crate) fn add(config: &mut Config, w: &mut Words<'_>) -> Done {
    let mut l = LinkWords::default();
    if !l.read(w, true)? {
        return Err("\"link add\" needs a \"type\"".into());
    }
    w.next();
    let kind_name = w.value()?;
    let name = l.name.clone().ok_or("\"link add\" needs a name")?;
    if l.netns {
        return Err("\"netns\" is only possible for the far end of a wire".into());
    }
    let mut link = l.link(&name);
    if l.mac.is_some_and(|m| m.is_group() || m == Mac::default()) {
        return Err("Cannot assign requested address".into());
    }
    match kind_name {
        "vlan" => {
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
            link.kind = LinkKind::Vlan(vlan);
        }
        wire if WIRES.contains(&wire) => {
            if l.lower.is_some() {
                return Err(format!("\"link\" makes no sense with \"type {wire}\""));
            }
            let mut peer = None;
            while let Some(word) = w.next() {
                match word {
                    "peer" if wire == "veth" => {
                        let mut far = LinkWords::default();
                        if far.read(w, true)? {
                            return Err(unknown("type"));
                        }
                        peer = far.name;
                    }
                    other => return Err(unknown(other)),
                }
            }
            link.kind = LinkKind::Wire { peer: peer.map(Arc::from), kind: wire.into() };
        }
        "bridge" => {
            if l.lower.is_some() {
                return Err("\"link\" makes no sense with \"type bridge\"".into());
            }
            let mut bridge = Bridge::default();
            if let Some(pvid) = bridge_lines::bridge_words(w, &mut bridge)? {
                bridge.vlans.change_default(bridge.default_pvid, pvid);
                bridge.default_pvid = pvid;
            }
            link.mac_inherited = l.mac.is_none();
            link.kind = LinkKind::Bridge(bridge);
        }
        "ipip" => return tunnel_add(config, w, &l, TunnelKind::Ipip),
        "sit" => return tunnel_add(config, w, &l, TunnelKind::Sit),
        "ip6tnl" => return tunnel_add(config, w, &l, TunnelKind::Ip6tnl),
        "pppoe" => {
            l.refuse_ethernet()?;
            let pppoe = pppoe_words(config, w, l.lower.as_deref())?;
            let lower = config.check_pppoe(&pppoe)?;
            link.mtu = l.mtu.unwrap_or_else(|| lower.saturating_sub(PPPOE_OVERHEAD as u32).max(68));
            link.arp = false;
            link.kind = LinkKind::Pppoe(pppoe);
        }
        "gre" | "gretap" | "ip6gre" | "ip6gretap" | "vti" | "vti6" | "xfrm" | "vxlan"
        | "geneve" | "macvlan" | "macvtap" | "ipvlan" | "ipvtap" | "bond" | "team" | "vrf"
        | "macsec" | "wireguard" | "tun" | "can" | "bareudp" | "batadv" | "hsr" | "ipoib"
        | "netkit" | "gtp" | "rmnet" | "lowpan" | "erspan" | "ip6erspan" | "vxcan" | "dsa"
        | "amt" | "ppp" => {
            return Err(format!("link type \"{kind_name}\" is not supported yet"));
        }
        other => return Err(format!("unknown link type \"{other}\"")),
    }
    let index = config.add_link(link)?;
    finish_link(config, &l, index)
}

/// What is done with a link once it is there.
fn finish_link(config: &mut Config, l: &LinkWords, index: u32) -> Done {
    if let Some(Some(master)) = &l.master {
        let master = config.link(master)?.index;
        config.attach(index, master)?;
    }
    if l.up == Some(true) {
        config.set_up(index)?;
    }
    Ok(())
}

fn tunnel_add(config: &mut Config, w: &mut Words<'_>, l: &LinkWords, kind: TunnelKind) -> Done {
    l.refuse_ethernet()?;
    if l.lower.is_some() {
        let kind = kind.name();
        return Err(format!(
            "\"link\" makes no sense with \"type {kind}\": say \"dev DEVICE\" behind it"
        ));
    }
    let mut tunnel = Tunnel::new(kind);
    tunnel_words(config, w, &mut tunnel)?;
    let index = add_tunnel(config, l, tunnel)?;
    finish_link(config, l, index)
}

fn add_tunnel(config: &mut Config, l: &LinkWords, tunnel: Tunnel) -> Result<u32, String> {
    let mtu = config.check_tunnel(&tunnel)?;
    let range = tunnel.mtu_range();
    if l.mtu.is_some_and(|mtu| !range.contains(&mtu)) {
        return Err("mtu less than device minimum or greater than device maximum".into());
    }
    let mut link = l.link(l.name.as_deref().unwrap_or_default());
    link.mtu = l.mtu.unwrap_or(mtu);
    link.arp = false;
    link.multicast = l.multicast.unwrap_or(false);
    link.kind = LinkKind::Tunnel(tunnel);
    config.add_link(link)
}

/// A tunnel of `ip tunnel add`.
pub(crate) fn add_named_tunnel(config: &mut Config, name: String, tunnel: Tunnel) -> Done {
    add_tunnel(config, &LinkWords { name: Some(name), ..LinkWords::default() }, tunnel).map(|_| ())
}

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

pub(crate) fn set(config: &mut Config, w: &mut Words<'_>) -> Done {
    let mut l = LinkWords::default();
    let typed = l.read(w, false)?;
    let name = l.name.as_deref().ok_or("\"link set\" needs a device")?;
    if config.is_far_end(name) {
        // What happens at the other end of a wire is not ours.
        return Ok(());
    }
    let index = config.link(name)?.index;
    if config.by_index(index).is_some_and(|link| !link.has_link_header()) {
        l.refuse_ethernet()?;
        if l.arp == Some(true) {
            return Err("\"arp on\" is not supported: the device has no link addresses".into());
        }
    }
    if typed {
        w.next();
        link_type(config, w, index)?;
    }
    if l.netns {
        return Err("\"netns\" is only possible for the far end of a wire".into());
    }
    if let Some(new) = &l.new_name
        && (config.link(new).is_ok() || config.is_far_end(new))
    {
        return Err("File exists".into());
    }
    if let Some(mtu) = l.mtu {
        config.set_mtu(index, mtu)?;
    }
    if let Some(mac) = l.mac {
        config.set_mac(index, mac)?;
    }
    if let Some(link) = config.links.iter_mut().find(|x| x.index == index) {
        if let Some(new) = l.new_name {
            link.name = new.into();
        }
        if let Some(alias) = l.alias {
            link.alias = Some(alias.into());
        }
        link.broadcast = l.broadcast.unwrap_or(link.broadcast);
        link.group = l.group.unwrap_or(link.group);
        link.arp = l.arp.unwrap_or(link.arp);
        link.promiscuous = l.promiscuous.unwrap_or(link.promiscuous);
        link.multicast = l.multicast.unwrap_or(link.multicast);
        link.addrgenmode = l.generate.unwrap_or(link.addrgenmode);
    }
    match &l.master {
        Some(Some(master)) => {
            let master = config.link(master)?.index;
            config.attach(index, master)?;
        }
        Some(None) => config.detach(index),
        None => {}
    }
    match l.up {
        Some(true) => config.set_up(index)?,
        Some(false) => config.set_down(index),
        None => {}
    }
    Ok(())
}

/// What follows `type` in `link set`.
fn link_type(config: &mut Config, w: &mut Words<'_>, index: u32) -> Done {
    match w.value()? {
        "bridge_slave" => {
            let port = config.port_mut(index).ok_or("the device is no port of a bridge")?;
            bridge_lines::port_words(w, port)
        }
        "bridge" => {
            let bridge = config.bridge_mut(index).ok_or("the device is no bridge")?;
            if let Some(pvid) = bridge_lines::bridge_words(w, bridge)? {
                config.set_default_pvid(index, pvid);
            }
            Ok(())
        }
        other => Err(format!("\"link set … type {other}\" is not supported yet")),
    }
}
