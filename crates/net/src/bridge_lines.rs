// SPDX-License-Identifier: Apache-2.0

//! Words about bridges: `type bridge`, `type bridge_slave`, and the lines of `bridge -batch`.

use crate::bridge::{Bridge, BridgePort, FdbEntry, GROUP_FORWARD_RESTRICTED};
use crate::bridge_config::Range;
use crate::config::Config;
use crate::lines::{self, Words, unknown};
use crate::mdb_lines;
use crate::multicast::{CENTISECOND, MulticastRouter, Snooping};

type Done = Result<(), String>;

/// A word that may only have the value that things have here anyway.
fn only(w: &mut Words<'_>, word: &str, value: &str, why: &str) -> Done {
    let text = w.value()?;
    let number = |t: &str| match t {
        "off" => Some(0),
        t => lines::number::<u64>(t),
    };
    if text == value || number(text).is_some() && number(text) == number(value) {
        return Ok(());
    }
    Err(format!("\"{word} {text}\" is not supported: {why}"))
}

/// What follows `type bridge`. Returns the default VLAN where it is to change.
pub(crate) fn bridge_words(w: &mut Words<'_>, bridge: &mut Bridge) -> Result<Option<u16>, String> {
    const NO_TREE: &str = "there is no spanning tree";
    let mut pvid = None;
    while let Some(word) = w.next() {
        match word {
            "ageing_time" => bridge.ageing = w.number::<u32>().map(u64::from)? * CENTISECOND,
            "vlan_filtering" => bridge.vlan_filtering = w.number::<u8>()? != 0,
            "vlan_protocol" => {
                bridge.vlan_protocol = match w.value()?.to_ascii_lowercase().as_str() {
                    "802.1q" => 0x8100,
                    "802.1ad" => 0x88a8,
                    other => return Err(format!("\"{other}\" is not a VLAN protocol")),
                }
            }
            "vlan_default_pvid" => match w.number::<u16>()? {
                id @ 0..4095 => pvid = Some(id),
                id => return Err(format!("{id} is not a VLAN id")),
            },
            "group_fwd_mask" => bridge.group_forward = group_forward(w)?,
            "fdb_max_learned" => bridge.learned_limit = w.number()?,
            "no_linklocal_learn" => bridge.learn_link_local = w.number::<u8>()? == 0,
            // Times of the spanning tree, which have no effect without it.
            "forward_delay" | "hello_time" | "max_age" | "priority" => {
                w.number::<u32>()?;
            }
            "stp_state" => only(w, word, "0", NO_TREE)?,
            "nf_call_iptables" => bridge.call_ip = w.number::<u8>()? != 0,
            "nf_call_ip6tables" => bridge.call_ip6 = w.number::<u8>()? != 0,
            // No chain of nf_tables is at the hook that it is about, `forward` of ARP.
            "nf_call_arptables" => {
                w.number::<u8>()?;
            }
            "group_address" => return Err(format!("\"{word}\" is not supported: {NO_TREE}")),
            "vlan_stats_enabled" | "vlan_stats_per_port" | "mst_enabled" | "fdb_local_vlan_0" => {
                only(w, word, "0", "it is not there yet")?;
            }
            mcast if mcast.starts_with("mcast_") => snooping_word(w, mcast, &mut bridge.snooping)?,
            other => return Err(unknown(other)),
        }
    }
    Ok(pvid)
}

/// A word about memberships, with its value.
fn snooping_word(w: &mut Words<'_>, word: &str, snooping: &mut Snooping) -> Done {
    const NO_QUERIER: &str = "the bridge sends no queries of its own";
    const NO_SOURCES: &str = "groups are not divided by sources";
    let centiseconds =
        |w: &mut Words<'_>| w.number::<u64>().map(|number| number.saturating_mul(CENTISECOND));
    match word {
        "mcast_snooping" => snooping.on = w.number::<u8>()? != 0,
        "mcast_router" => snooping.router = router(w)?,
        "mcast_hash_max" => snooping.hash_max = w.number()?,
        "mcast_last_member_count" => snooping.last_member_count = w.number()?,
        "mcast_last_member_interval" => snooping.last_member_interval = centiseconds(w)?,
        "mcast_membership_interval" => snooping.membership_interval = centiseconds(w)?,
        "mcast_querier_interval" => snooping.querier_interval = centiseconds(w)?,
        // They are about queries of the bridge's own, and chains of a table that has none any more.
        "mcast_query_interval"
        | "mcast_query_response_interval"
        | "mcast_startup_query_interval"
        | "mcast_startup_query_count"
        | "mcast_hash_elasticity" => {
            w.number::<u64>()?;
        }
        "mcast_querier" | "mcast_query_use_ifaddr" => only(w, word, "0", NO_QUERIER)?,
        "mcast_igmp_version" => only(w, word, "2", NO_SOURCES)?,
        "mcast_mld_version" => only(w, word, "1", NO_SOURCES)?,
        "mcast_vlan_snooping" => only(w, word, "0", "VLANs have no settings of their own")?,
        "mcast_stats_enabled" => only(w, word, "0", "messages are not counted")?,
        other => return Err(unknown(other)),
    }
    Ok(())
}

/// Who is a multicast router.
fn router(w: &mut Words<'_>) -> Result<MulticastRouter, String> {
    let number = w.number::<u8>()?;
    MulticastRouter::from_number(number)
        .ok_or_else(|| format!("\"mcast_router {number}\" is not supported"))
}

fn group_forward(w: &mut Words<'_>) -> Result<u16, String> {
    let mask = w.number::<u16>()?;
    if mask & GROUP_FORWARD_RESTRICTED != 0 {
        return Err("Invalid argument: the first three group addresses are never forwarded".into());
    }
    Ok(mask)
}

/// What follows `type bridge_slave`.
pub(crate) fn port_words(w: &mut Words<'_>, port: &mut BridgePort) -> Done {
    while let Some(word) = w.next() {
        match word {
            "hairpin" => port.hairpin = w.on_off()?,
            "isolated" => port.isolated = w.on_off()?,
            "learning" => port.learning = w.on_off()?,
            "locked" => port.locked = w.on_off()?,
            "flood" => port.flood = w.on_off()?,
            "mcast_flood" => port.mcast_flood = w.on_off()?,
            "bcast_flood" => port.bcast_flood = w.on_off()?,
            "fastleave" | "mcast_fast_leave" => port.fast_leave = w.on_off()?,
            "mcast_router" => port.mcast_router = router(w)?,
            "mcast_max_groups" => only(w, word, "0", "groups are limited by the bridge only")?,
            // Among these, only pause frames are never forwarded (BR_GROUPFWD_MACPAUSE).
            "group_fwd_mask" => match w.number::<u16>()? {
                mask if mask & 2 != 0 => {
                    return Err("Invalid argument: pause frames are never forwarded".into());
                }
                mask => port.group_forward = mask,
            },
            "priority" | "cost" => {
                w.number::<u32>()?;
            }
            "state" => only(w, word, "3", "ports that are up forward")?,
            "guard"
            | "root_block"
            | "mcast_to_unicast"
            | "proxy_arp"
            | "proxy_arp_wifi"
            | "neigh_suppress"
            | "neigh_vlan_suppress"
            | "vlan_tunnel"
            | "mab" => {
                only(w, word, "off", "it is not there yet")?;
            }
            "backup_port" | "backup_nhid" | "fdb_flush" => {
                return Err(format!("\"{word}\" is not supported yet"));
            }
            other => return Err(unknown(other)),
        }
    }
    Ok(())
}

/// A line that begins with `bridge`.
pub(crate) fn line(config: &mut Config, w: &mut Words<'_>) -> Done {
    let object = w.next().ok_or("\"bridge\" needs an object")?;
    let verb = w.next().ok_or_else(|| format!("\"bridge {object}\" needs a command"))?;
    match (object, verb) {
        ("fdb", "add") => fdb(config, w, false),
        ("fdb", "replace") => fdb(config, w, true),
        ("vlan", "add") => vlan(config, w, true),
        ("vlan", "delete" | "del") => vlan(config, w, false),
        ("link", "set") => link(config, w),
        ("mdb", "add") => mdb_lines::add(config, w),
        ("link" | "fdb" | "vlan" | "mdb" | "vni" | "mst" | "monitor", _) => {
            Err(format!("\"bridge {object} {verb}\" is not supported"))
        }
        _ => Err(unknown(object)),
    }
}

/// `bridge link set dev DEV …`: the words of `type bridge_slave`.
fn link(config: &mut Config, w: &mut Words<'_>) -> Done {
    if !w.take("dev") {
        return Err("\"bridge link set\" needs \"dev DEVICE\"".into());
    }
    let index = config.link(w.value()?)?.index;
    let port = config.port_mut(index).ok_or("the device is no port of a bridge")?;
    port_words(w, port)
}

fn vlan_ids(word: &str) -> Result<Range, String> {
    let invalid = || format!("\"{word}\" is not a VLAN id");
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (Some(first), Some(last)) = (lines::number::<u16>(first), lines::number::<u16>(last))
    else {
        return Err(invalid());
    };
    if first == 0 || last > 4094 || first > last { Err(invalid()) } else { Ok(first..=last) }
}

fn vlan(config: &mut Config, w: &mut Words<'_>, adding: bool) -> Done {
    let (mut dev, mut ids, mut pvid, mut untagged) = (None, None, false, false);
    let (mut own, mut master) = (false, false);
    while let Some(word) = w.next() {
        match word {
            "dev" => dev = Some(config.link(w.value()?)?.index),
            "vid" => ids = Some(vlan_ids(w.value()?)?),
            "pvid" => pvid = true,
            "untagged" => untagged = true,
            "self" => own = true,
            "master" => master = true,
            "tunnel_info" => return Err(format!("\"{word}\" is not supported yet")),
            other => return Err(unknown(other)),
        }
    }
    let (Some(dev), Some(ids)) = (dev, ids) else {
        return Err("\"bridge vlan\" needs \"dev DEVICE\" and \"vid ID\"".into());
    };
    if adding && pvid && ids.end() != ids.start() {
        return Err("\"pvid\" cannot be of many VLANs".into());
    }
    if own && master {
        return Err("\"self\" and \"master\" at once are not supported".into());
    }
    config.change_vlans(dev, ids, own, adding.then_some((pvid, untagged)))
}

fn fdb(config: &mut Config, w: &mut Words<'_>, replace: bool) -> Done {
    let (mut mac, mut dev, mut vid, mut sticky) = (None, None, 0, false);
    let (mut own, mut master, mut state) = (false, false, None);
    while let Some(word) = w.next() {
        match word {
            "dev" => dev = Some(config.link(w.value()?)?.clone()),
            "vlan" => vid = *vlan_ids(w.value()?)?.start(),
            "self" => own = true,
            "master" => master = true,
            "local" | "permanent" => state = Some((true, true)),
            "static" => state = Some((false, true)),
            "dynamic" => state = Some((false, false)),
            "sticky" => sticky = true,
            "temp" | "dst" | "port" | "vni" | "via" | "src_vni" | "nhid" | "router" | "use"
            | "extern_learn" | "activity_notify" | "inactive" => {
                return Err(format!("\"{word}\" is not supported yet"));
            }
            address if mac.is_none() => {
                let invalid = |_| format!("\"{address}\" is not a link address");
                mac = Some(address.parse::<crate::Mac>().map_err(invalid)?);
            }
            other => return Err(unknown(other)),
        }
    }
    let (Some(mac), Some(dev)) = (mac, dev) else {
        return Err("\"bridge fdb\" needs an address and \"dev DEVICE\"".into());
    };
    if mac.is_group() || mac == crate::Mac::default() {
        return Err("Invalid argument: not the address of one station".into());
    }
    let (bridge, port) = match (&dev.port, dev.bridge().is_some()) {
        (Some(port), _) if master && !own => (port.bridge, dev.index),
        (_, true) if !master => (dev.index, 0),
        (Some(_), _) => {
            return Err("entries of the device itself are not supported: say \"master\"".into());
        }
        (None, _) => return Err("the device is no port of a bridge".into()),
    };
    let (local, is_static) = state.unwrap_or((true, true));
    if port == 0 && !local {
        return Err("Invalid argument: an entry of the bridge itself is \"local\"".into());
    }
    if sticky && (local || !is_static) {
        return Err("Invalid argument: only \"static\" entries can be \"sticky\"".into());
    }
    config.add_fdb(FdbEntry { bridge, mac, vid, port, local, is_static, sticky }, replace)
}
