//! Reading of `ip -batch` files.
//!
//! The words are ip(8)'s; a line that begins with `bridge` has those of bridge(8). A line may begin with `-4` or `-6` (and `ip` before it), which `ip` itself takes only on
//! its command line: IPv6 rules cannot be said otherwise. What is known but cannot be done yet is refused as clearly
//! as what is unknown.

use std::net::IpAddr;
use std::sync::Arc;

use penstock_batch::Error;

use crate::bridge::Bridge;
use crate::bridge_lines;
use crate::config::{Config, Mode};
use crate::lines::{self, Words, lines, unknown};
use crate::tunnel::{PPPOE_OVERHEAD, Tunnel, TunnelKind};
use crate::tunnel_lines::{pppoe_words, tunnel_line, tunnel_words};
use crate::xfrm_lines;
use crate::{
    Action, Address4, Address6, LOOPBACK, Link, LinkKind, Mac, Network, Nexthop, Route, RouteType, Rule,
    Scope, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, Vlan,
};

impl Network {
    /// Applies the lines in order to a namespace that has only `lo`. `file` is for messages. The first line that
    /// fails ends it, as with `ip -batch`.
    pub fn from_batch(file: &str, text: &str) -> Result<Network, Error> {
        let mut config = Config::new();
        for (line, words) in lines(text) {
            apply(&mut config, &words).map_err(|message| Error { file: file.to_owned(), line, message })?;
        }
        Ok(config.finish())
    }
}

type Done = Result<(), String>;

/// Takes any unambiguous beginning, as `ip` does: the first of `names` that starts with `word`.
fn abbreviated<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    names.iter().find(|n| !word.is_empty() && n.starts_with(word)).copied()
}

fn apply(config: &mut Config, words: &[String]) -> Done {
    let mut words = Words::new(words);
    if words.take("bridge") {
        return bridge_lines::line(config, &mut words);
    }
    words.take("ip");
    let mut six = None;
    loop {
        if words.take("-6") {
            six = Some(true);
        } else if words.take("-4") {
            six = Some(false);
        } else {
            break;
        }
    }
    let objects = ["address", "route", "rule", "neighbor", "neighbour", "link", "tunnel"];
    let later = ["maddress", "mroute", "tuntap", "nexthop", "netns", "vrf", "l2tp", "sr"];
    let word = words.next().unwrap_or("");
    let object = match abbreviated(word, &objects) {
        _ if word == "xfrm" || word == "x" => return xfrm_lines::line(config, &mut words, six),
        Some(o) => o,
        None if later.contains(&word) => return Err(format!("\"{word}\" is not supported yet")),
        None => return Err(unknown(word)),
    };
    let verbs: &[&str] = match object {
        "link" => &["add", "set"],
        "address" => &["add", "change", "replace"],
        "rule" => &["add", "delete"],
        "tunnel" => &["add"],
        _ => &["add", "change", "replace", "append", "prepend"],
    };
    let other = [
        "delete", "del", "show", "list", "lst", "flush", "get", "save", "restore", "change", "replace",
        "append",
    ];
    let word = words.next().ok_or_else(|| format!("\"{object}\" needs a command"))?;
    let verb = match abbreviated(word, verbs) {
        Some(v) => v,
        None if other.contains(&word) => return Err(format!("\"{object} {word}\" is not supported yet")),
        None => return Err(unknown(word)),
    };
    let mode = match verb {
        "change" => Mode::Change,
        "replace" => Mode::Replace,
        "append" => Mode::Append,
        "prepend" => Mode::Prepend,
        _ => Mode::Add,
    };
    match object {
        "link" if verb == "add" => link_add(config, &mut words),
        "link" => link_set(config, &mut words),
        "address" => address(config, &mut words, mode),
        "route" => route(config, &mut words, mode, six),
        "rule" => rule(config, &mut words, verb == "delete", six),
        "tunnel" => {
            let (name, tunnel) = tunnel_line(config, &mut words, six)?;
            add_tunnel(config, &LinkWords { name: Some(name), ..LinkWords::default() }, tunnel).map(|_| ())
        }
        _ => neighbour(config, &mut words, mode),
    }
}

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
                "txqueuelen" | "qlen" | "txqlen" | "numtxqueues" | "numrxqueues" | "gso_max_size"
                | "gso_max_segs" | "gso_ipv4_max_size" | "gro_max_size" | "gro_ipv4_max_size" => {
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
                "vrf" | "xdp" | "xdpgeneric" | "xdpdrv" | "xdpoffload" | "vf" | "carrier" | "protodown"
                | "dynamic" | "trailers" | "operstate" | "state" | "mode" | "macaddr" | "altname"
                | "property" => {
                    return Err(format!("\"{word}\" is not supported yet"));
                }
                name if self.name.is_none() && !name.starts_with('-') => self.name = Some(name.to_owned()),
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

fn link_add(config: &mut Config, w: &mut Words<'_>) -> Done {
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
        "gre" | "gretap" | "ip6gre" | "ip6gretap" | "vti" | "vti6" | "xfrm" | "vxlan" | "geneve"
        | "macvlan" | "macvtap" | "ipvlan" | "ipvtap" | "bond" | "team" | "vrf" | "macsec" | "wireguard"
        | "tun" | "can" | "bareudp" | "batadv" | "hsr" | "ipoib" | "netkit" | "gtp" | "rmnet" | "lowpan"
        | "erspan" | "ip6erspan" | "vxcan" | "dsa" | "amt" | "ppp" => {
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
        return Err(format!("\"link\" makes no sense with \"type {kind}\": say \"dev DEVICE\" behind it"));
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
            "ingress-qos-map" => qos_words(w, |from, to| vlan.ingress_qos.push((from as u8 & 7, to)))?,
            "egress-qos-map" => qos_words(w, |from, to| vlan.egress_qos.push((from, to as u8 & 7)))?,
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

fn link_set(config: &mut Config, w: &mut Words<'_>) -> Done {
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

fn scope(word: &str) -> Result<Scope, String> {
    Ok(match word {
        "global" | "universe" => Scope::UNIVERSE,
        "site" => Scope::SITE,
        "link" => Scope::LINK,
        "host" => Scope::HOST,
        "nowhere" => Scope::NOWHERE,
        n => Scope(lines::number(n).ok_or_else(|| format!("\"{n}\" is not a scope"))?),
    })
}

fn address(config: &mut Config, w: &mut Words<'_>, mode: Mode) -> Done {
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
                        "addresses that end are not supported: \"valid_lft\" must be \"forever\"".into()
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
    let (value, mut len, six) =
        lines::prefix(text, false).filter(|_| text != "default").ok_or_else(|| invalid(text))?;
    let peer = match peer {
        None => None,
        Some(p) => {
            let (value, peer_len, peer_six) = lines::prefix(p, six).ok_or_else(|| invalid(p))?;
            if peer_six != six {
                return Err("the addresses are of different families".into());
            }
            len = peer_len;
            Some(value)
        }
    };
    if six {
        if broadcast.is_some() {
            return Err("Broadcast can be set only for IPv4 addresses".into());
        }
        let a = Address6 { local: value, peer, len, noprefixroute, metric, deprecated, generated: false };
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

fn table(word: &str) -> Result<u32, String> {
    Ok(match word {
        "local" => TABLE_LOCAL,
        "main" => TABLE_MAIN,
        "default" => TABLE_DEFAULT,
        n => {
            let n: u32 = lines::number(n).ok_or_else(|| format!("\"{n}\" is not a table"))?;
            if n == 0 { TABLE_MAIN } else { n }
        }
    })
}

fn realm_number(word: &str) -> Result<u32, String> {
    lines::number::<u16>(word).map(u32::from).ok_or_else(|| format!("\"{word}\" is not a realm"))
}

/// `FROM/TO` or `TO`: the source realm is in the upper half.
fn realms(word: &str) -> Result<u32, String> {
    match word.split_once('/') {
        Some((from, to)) => Ok(realm_number(from)? << 16 | realm_number(to)?),
        None => realm_number(word),
    }
}

fn tos(word: &str) -> Result<u8, String> {
    let text = word.strip_prefix("0x").unwrap_or(word);
    u8::from_str_radix(text, 16).map_err(|_| format!("\"{word}\" is not a TOS value"))
}

/// The gateway after `via`, with its optional family word.
fn via(w: &mut Words<'_>) -> Result<IpAddr, String> {
    if !w.take("inet") {
        w.take("inet6");
    }
    w.address()
}

const ROUTE_TYPES: [(&str, RouteType); 9] = [
    ("unicast", RouteType::Unicast),
    ("local", RouteType::Local),
    ("broadcast", RouteType::Broadcast),
    ("anycast", RouteType::Anycast),
    ("multicast", RouteType::Multicast),
    ("blackhole", RouteType::Blackhole),
    ("unreachable", RouteType::Unreachable),
    ("prohibit", RouteType::Prohibit),
    ("throw", RouteType::Throw),
];

fn route_type(word: &str) -> Option<RouteType> {
    ROUTE_TYPES.iter().find(|(n, _)| *n == word).map(|(_, t)| *t)
}

fn route(config: &mut Config, w: &mut Words<'_>, mode: Mode, six: Option<bool>) -> Done {
    let blank = || Nexthop { oif: 0, gateway: None, onlink: false, weight: 1, scope: Scope::UNIVERSE };
    let mut destination: Option<&str> = None;
    let mut kind = RouteType::Unicast;
    let mut first = blank();
    let mut has_first = false;
    let mut nexthops = Vec::new();
    let mut in_table = None;
    let mut wide = None;
    let mut r = Route {
        table: TABLE_MAIN,
        prefix: 0,
        len: 0,
        tos: 0,
        metric: 0,
        kind,
        scope: Scope::UNIVERSE,
        from_kernel: false,
        source: None,
        mtu: 0,
        mtu_locked: false,
        advmss: 0,
        hop_limit: 0,
        realm: 0,
        nexthops: Vec::new(),
    };
    if let Some(t) = w.peek().and_then(route_type) {
        kind = t;
        w.next();
    }
    while let Some(word) = w.next() {
        match word {
            "to" => {
                if let Some(t) = w.peek().and_then(route_type) {
                    kind = t;
                    w.next();
                }
                destination = Some(w.value()?);
            }
            "via" => {
                first.gateway = Some(via(w)?);
                has_first = true;
            }
            "dev" | "oif" => {
                first.oif = config.link(w.value()?)?.index;
                has_first = true;
            }
            "onlink" => first.onlink = true,
            "nexthop" => nexthops.push(nexthop(config, w)?),
            "metric" | "priority" | "preference" => r.metric = w.number()?,
            "table" => in_table = Some(table(w.value()?)?),
            "mtu" => {
                r.mtu_locked = w.take("lock");
                r.mtu = w.number_after("mtu")?;
            }
            "advmss" => {
                w.take("lock");
                r.advmss = w.number_after("advmss")?;
            }
            "hoplimit" => {
                w.take("lock");
                r.hop_limit = w.number_after("hoplimit")?;
            }
            "src" => r.source = Some(w.address()?),
            "realm" | "realms" => r.realm = realms(w.value()?)?,
            "tos" | "dsfield" => r.tos = tos(w.value()?)?,
            "scope" => wide = Some(scope(w.value()?)?),
            "proto" | "protocol" | "pref" => {
                w.value()?;
            }
            "window" | "rtt" | "rttvar" | "ssthresh" | "cwnd" | "initcwnd" | "initrwnd" | "rto_min"
            | "reordering" | "quickack" | "features" | "congctl" | "fastopen_no_cookie" => {
                return Err(format!(
                    "\"{word}\" is about TCP connections of the host, of which there are none here"
                ));
            }
            "encap" | "nhid" | "from" | "as" | "expires" | "ttl-propagate" | "vrf" => {
                return Err(format!("\"{word}\" is not supported yet"));
            }
            d if destination.is_none() => destination = Some(d),
            other => return Err(format!("either \"to\" is duplicate, or \"{other}\" is an unknown word")),
        }
    }
    let text = destination.unwrap_or("default");
    let gateway6 = |n: &Nexthop| matches!(n.gateway, Some(IpAddr::V6(_)));
    let wants6 = six.unwrap_or(gateway6(&first) || nexthops.iter().any(gateway6));
    let (prefix, len, is6) =
        lines::prefix(text, wants6).ok_or_else(|| format!("\"{text}\" is not a prefix"))?;
    if six.is_some_and(|s| s != is6) {
        return Err(format!("\"{text}\" is of the other family"));
    }
    for n in nexthops.iter().chain([&first]) {
        match n.gateway {
            Some(IpAddr::V6(_)) if !is6 => {
                return Err("IPv4 routes over IPv6 gateways are not supported yet".into());
            }
            Some(IpAddr::V4(_)) if is6 => return Err("an IPv6 route cannot go over an IPv4 gateway".into()),
            _ => {}
        }
    }
    match r.source {
        Some(IpAddr::V4(_)) if is6 => return Err("\"src\" is of the other family".into()),
        Some(IpAddr::V6(_)) if !is6 => return Err("\"src\" is of the other family".into()),
        _ => {}
    }
    if !nexthops.is_empty() && has_first {
        return Err("\"via\" or \"dev\" beside \"nexthop\"".into());
    }
    if nexthops.is_empty() {
        nexthops.push(first);
    }
    if !is6 && matches!(kind, RouteType::Multicast | RouteType::Anycast) {
        return Err(format!("\"{}\" routes are not supported yet", ROUTE_TYPES[kind as usize - 1].0));
    }
    let local = matches!(kind, RouteType::Local | RouteType::Broadcast | RouteType::Anycast);
    r.table = in_table.unwrap_or(if local { TABLE_LOCAL } else { TABLE_MAIN });
    let via_gateway = nexthops.iter().any(|n| n.gateway.is_some());
    r.scope = wide.unwrap_or(match kind {
        RouteType::Local => Scope::HOST,
        RouteType::Broadcast | RouteType::Multicast | RouteType::Anycast => Scope::LINK,
        RouteType::Unicast if !via_gateway && !is6 => Scope::LINK,
        _ => Scope::UNIVERSE,
    });
    if is6 && r.metric == 0 {
        r.metric = 1024;
    }
    if kind == RouteType::Local && is6 && nexthops[0].oif == 0 {
        nexthops[0].oif = LOOPBACK;
    }
    (r.prefix, r.len, r.kind, r.nexthops) = (prefix, len, kind, nexthops);
    config.add_route(r, is6, mode)
}

fn nexthop(config: &Config, w: &mut Words<'_>) -> Result<Nexthop, String> {
    let mut n = Nexthop { oif: 0, gateway: None, onlink: false, weight: 1, scope: Scope::UNIVERSE };
    while let Some(word) = w.peek() {
        match word {
            "nexthop" => break,
            "via" => {
                w.next();
                n.gateway = Some(via(w)?);
            }
            "dev" => {
                w.next();
                n.oif = config.link(w.value()?)?.index;
            }
            "weight" => {
                w.next();
                n.weight = w.number()?;
                if !(1..=256).contains(&n.weight) {
                    return Err(format!("\"{}\" is not a valid weight", n.weight));
                }
            }
            "onlink" => {
                w.next();
                n.onlink = true;
            }
            "realm" | "realms" | "encap" => {
                return Err(format!("\"{word}\" of a nexthop is not supported yet"));
            }
            _ => break,
        }
    }
    Ok(n)
}

fn ports(word: &str) -> Result<(u16, u16), String> {
    let invalid = || format!("\"{word}\" is not a port or range of ports");
    let (low, high) = word.split_once('-').unwrap_or((word, word));
    let (Some(low), Some(high)) = (lines::number::<u16>(low), lines::number::<u16>(high)) else {
        return Err(invalid());
    };
    if low == 0 || low > high { Err(invalid()) } else { Ok((low, high)) }
}

fn rule(config: &mut Config, w: &mut Words<'_>, delete: bool, six: Option<bool>) -> Done {
    let mut r = Rule::all(0, Action::Lookup(TABLE_MAIN));
    let mut priority = None;
    let mut action = None;
    let mut from = None;
    let mut to = None;
    while let Some(word) = w.next() {
        match word {
            "not" => r.invert = true,
            "from" => from = Some(w.value()?),
            "to" => to = Some(w.value()?),
            "pref" | "preference" | "priority" | "order" => priority = Some(w.number()?),
            "tos" | "dsfield" => r.tos = tos(w.value()?)?,
            "fwmark" => {
                let text = w.value()?;
                let (mark, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
                let invalid = || format!("\"{text}\" is not a mark");
                r.mark = (lines::number(mark).ok_or_else(invalid)?, lines::number(mask).ok_or_else(invalid)?);
            }
            "iif" | "dev" => r.iif = Some(w.value()?.to_owned()),
            "oif" => r.oif = Some(w.value()?.to_owned()),
            "ipproto" => {
                r.protocol = Some(match w.value()? {
                    "tcp" => 6,
                    "udp" => 17,
                    "icmp" => 1,
                    "ipv6-icmp" | "icmpv6" => 58,
                    "sctp" => 132,
                    "dccp" => 33,
                    "gre" => 47,
                    "esp" => 50,
                    "ah" => 51,
                    "udplite" => 136,
                    n => lines::number(n).ok_or_else(|| format!("\"{n}\" is not a protocol"))?,
                })
            }
            "sport" => r.sport = Some(ports(w.value()?)?),
            "dport" => r.dport = Some(ports(w.value()?)?),
            "table" | "lookup" => action = Some(Action::Lookup(table(w.value()?)?)),
            "suppress_prefixlength" | "sup_pl" => r.suppress_prefix_length = Some(w.number()?),
            "suppress_ifgroup" | "sup_group" => r.suppress_group = Some(w.number()?),
            "realms" | "realm" => r.realm = realms(w.value()?)?,
            "goto" => action = Some(Action::Goto(w.number()?)),
            "nop" => action = Some(Action::Nop),
            "unreachable" => action = Some(Action::Unreachable),
            "blackhole" => action = Some(Action::Blackhole),
            "prohibit" => action = Some(Action::Prohibit),
            "type" => {
                action = Some(match w.value()? {
                    "unicast" => continue,
                    "unreachable" => Action::Unreachable,
                    "blackhole" => Action::Blackhole,
                    "prohibit" => Action::Prohibit,
                    other => return Err(format!("\"{other}\" is not a rule type")),
                })
            }
            "protocol" | "proto" => {
                w.value()?;
            }
            "l3mdev" | "uidrange" | "tun_id" | "nat" | "map-to" => {
                return Err(format!("\"{word}\" is not supported yet"));
            }
            other => return Err(unknown(other)),
        }
    }
    let mut is6 = six;
    for (text, place) in [(from, 0), (to, 1)] {
        let Some(text) = text else { continue };
        let (prefix, len, its) =
            lines::prefix(text, is6.unwrap_or(false)).ok_or_else(|| format!("\"{text}\" is not a prefix"))?;
        let neutral = matches!(text, "default" | "any" | "all");
        if !neutral {
            if is6.is_some_and(|s| s != its) {
                return Err(format!("\"{text}\" is of the other family"));
            }
            is6 = Some(its);
        }
        let prefix = crate::config::masked(prefix, len, its);
        if place == 0 {
            r.from = (prefix, len);
        } else {
            r.to = (prefix, len);
        }
    }
    let is6 = is6.unwrap_or(false);
    if delete {
        let table = match action {
            Some(Action::Lookup(t)) => Some(t),
            None => None,
            Some(_) => return Err("rules are deleted by priority, and table where given".into()),
        };
        let priority = priority.ok_or("\"rule delete\" needs a priority")?;
        return config.delete_rule(priority, table, is6);
    }
    r.action = action.unwrap_or(Action::Lookup(TABLE_MAIN));
    config.add_rule(r, priority, is6)
}

fn neighbour(config: &mut Config, w: &mut Words<'_>, mode: Mode) -> Done {
    let mut address = None;
    let mut mac = None;
    let mut dev = None;
    if matches!(mode, Mode::Append | Mode::Prepend) {
        return Err("neighbours are added or replaced".into());
    }
    while let Some(word) = w.next() {
        match word {
            "lladdr" => mac = Some(w.mac()?),
            "dev" => dev = Some(config.link(w.value()?)?.index),
            "nud" => match w.value()? {
                "permanent" | "noarp" => {}
                state @ ("reachable" | "stale" | "delay" | "probe" | "failed" | "incomplete" | "none") => {
                    return Err(format!("neighbours are static: \"nud {state}\" is not supported"));
                }
                other => return Err(unknown(other)),
            },
            "router" | "extern_learn" | "managed" => {}
            "protocol" => {
                w.value()?;
            }
            "proxy" => return Err("\"proxy\" is not supported yet".into()),
            "to" => address = Some(w.address()?),
            a if address.is_none() => {
                address = Some(lines::address(a).ok_or_else(|| format!("\"{a}\" is not an address"))?);
            }
            other => return Err(unknown(other)),
        }
    }
    let address = address.ok_or("a neighbour needs an address")?;
    let dev = dev.ok_or("a neighbour needs \"dev DEVICE\"")?;
    let mac = mac.ok_or("a neighbour needs \"lladdr ADDRESS\"")?;
    config.add_neighbour(dev, address, mac, mode)
}
