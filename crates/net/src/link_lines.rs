// SPDX-License-Identifier: Apache-2.0

//! Lines of ip-link(8).

use crate::Mac;
use crate::bridge_lines;
use crate::config::Config;
use crate::kind::Tunnel;
use crate::lines::Words;
use crate::link_types;
use crate::link_words::LinkWords;
use crate::tunnel_lines::tunnel_words;

type Done = Result<(), String>;

/// `link add`.
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
    link_types::complete(config, w, &l, kind_name, &mut link)?;
    let index = config.add_link(link)?;
    if let Some(Some(master)) = &l.master {
        let master = config.link(master)?.index;
        config.attach(index, master)?;
    }
    if l.up == Some(true) {
        config.set_up(index)?;
    }
    Ok(())
}

/// A tunnel of `ip tunnel add`.
pub(crate) fn add_named_tunnel(config: &mut Config, name: String, tunnel: Tunnel) -> Done {
    let words = LinkWords::default();
    let mut link = words.link(&name);
    link_types::complete_tunnel(config, &words, tunnel, &mut link)?;
    config.add_link(link).map(|_| ())
}

/// `link set`.
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
        link_type(config, w, index, l.mtu.is_none())?;
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
        link.all_multicast = l.all_multicast.unwrap_or(link.all_multicast);
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

/// What follows `type` in `link set`. A tunnel's MTU may follow its settings.
fn link_type(config: &mut Config, w: &mut Words<'_>, index: u32, follows: bool) -> Done {
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
        kind @ ("ipip" | "sit" | "ip6tnl") => {
            let tunnel = config.by_index(index).and_then(|link| link.tunnel());
            let tunnel = tunnel.filter(|tunnel| tunnel.kind.name() == kind);
            let mut tunnel = tunnel.ok_or_else(|| format!("the device is no {kind}"))?.clone();
            tunnel_words(config, w, &mut tunnel)?;
            config.change_tunnel(index, tunnel, follows)
        }
        other => Err(format!("\"link set … type {other}\" is not supported yet")),
    }
}
