// SPDX-License-Identifier: Apache-2.0

//! `filter add dev DEV …`.

use std::net::{IpAddr, Ipv4Addr};

use penstock_wire::ethernet::Mac;

use super::Reader;
use super::words::{self, Words, ethertype, masked, number};
use crate::config::{ALL, Device, Discipline, Filter, Kind};
use crate::flower::Flower;

/// Priority that the kernel gives to a first filter without one; each further one comes before it.
const FIRST_PRIO: u16 = 0xc000;

/// Where filters hang.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FilterParent {
    Ingress,
    Egress,
    Root,
    Parent(u32),
}

impl Reader<'_> {
    pub(super) fn filter(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let (mut device, mut place, mut prio, mut protocol, mut handle) =
            (None, None, None, None, None);
        let kind = loop {
            match words.next() {
                Some("dev") => device = Some(words.value()?),
                Some("ingress") => place = Some(FilterParent::Ingress),
                Some("egress") => place = Some(FilterParent::Egress),
                Some("root") => place = Some(FilterParent::Root),
                Some("parent") => place = Some(FilterParent::Parent(words.read(words::class)?)),
                Some("prio" | "pref" | "preference" | "priority") => {
                    prio = Some(words.read(number::<u16>)?).filter(|p| *p != 0);
                }
                Some("protocol") => protocol = Some(words.read(ethertype)?),
                Some("handle") => handle = Some(words.value()?),
                Some(kind @ ("matchall" | "fw" | "u32" | "flower")) => break kind,
                Some(
                    other @ ("basic" | "bpf" | "cgroup" | "flow" | "route" | "rsvp" | "tcindex"
                    | "chain" | "block"),
                ) => {
                    return Err(format!("\"{other}\" is not supported yet"));
                }
                Some(other) => return Err(words::unknown(other)),
                None => return Err("a classifier is missing".into()),
            }
        };
        let name = device.ok_or("\"dev\" is missing")?;
        let device = self.device(name)?;
        let mut class = None;
        let mut actions = Vec::new();
        let kind = match kind {
            "matchall" => {
                self.common(words, &mut class, &mut actions, |_, _| Ok(false))?;
                Kind::MatchAll
            }
            "fw" => {
                let (mark, mask) =
                    handle.ok_or("\"fw\" needs a handle, which is the mark").and_then(|h| {
                        masked(h, u32::MAX, number).ok_or("the handle of \"fw\" is a mark")
                    })?;
                self.common(words, &mut class, &mut actions, |_, _| Ok(false))?;
                Kind::Fw { mark, mask }
            }
            "u32" => {
                let mut keys = crate::u32_match::U32Match::default();
                self.common(words, &mut class, &mut actions, |word, words| {
                    super::match_u32::word(word, words, &mut keys)
                })?;
                Kind::U32(keys)
            }
            _ => {
                let mut fields = Flower::default();
                let find = self.device;
                let protocol = protocol.unwrap_or(ALL);
                self.common(words, &mut class, &mut actions, |word, words| {
                    flower_word(word, words, &mut fields, protocol, find)
                })?;
                Kind::Flower(Box::new(fields))
            }
        };
        let device = self.config.devices.entry(device).or_default();
        let filters = place_of(device, place.unwrap_or(FilterParent::Root))?;
        let filter =
            |prio| Filter { prio, protocol: protocol.unwrap_or(ALL), kind, class, actions };
        let Some(prio) = prio else {
            let prio = filters.first().map_or(FIRST_PRIO, |f| f.prio.saturating_sub(1));
            filters.insert(0, filter(prio));
            return Ok(());
        };
        let filter = filter(prio);
        if let Some(other) = filters.iter().find(|f| f.prio == prio) {
            if other.protocol != filter.protocol {
                return Err(
                    "Specified filter protocol does not match the existing one of this priority"
                        .into(),
                );
            }
            if other.kind.name() != filter.kind.name() {
                return Err(
                    "Specified filter kind does not match the existing one of this priority".into(),
                );
            }
        }
        let at = filters.iter().position(|f| f.prio > prio).unwrap_or(filters.len());
        filters.insert(at, filter);
        Ok(())
    }

    /// Words that all classifiers know, and those of one (which `own` takes).
    fn common<'w>(
        &mut self,
        words: &mut Words<'w>,
        class: &mut Option<u32>,
        actions: &mut Vec<crate::action::Action>,
        mut own: impl FnMut(&str, &mut Words<'w>) -> Result<bool, String>,
    ) -> Result<(), String> {
        while let Some(word) = words.next() {
            match word {
                "classid" | "flowid" => *class = Some(words.read(words::class)?),
                "action" | "police" => {
                    let first = if word == "police" { word } else { words.value()? };
                    let action = self.action(first, words)?;
                    actions.push(action);
                }
                "skip_hw" => {}
                "skip_sw" => return Err("there is no hardware for \"skip_sw\"".into()),
                other if own(other, words)? => {}
                other => return Err(words::unknown(other)),
            }
        }
        Ok(())
    }
}

/// The list of filters at a place.
fn place_of(device: &mut Device, place: FilterParent) -> Result<&mut Vec<Filter>, String> {
    const INGRESS: u32 = 0xffff_fff2;
    const EGRESS: u32 = 0xffff_fff3;
    const MISSING: &str = "Parent Qdisc doesn't exists";
    let parent = match (place, device.hooks) {
        (FilterParent::Ingress | FilterParent::Parent(INGRESS | 0xffff_0000), Some(_)) => {
            return Ok(&mut device.ingress);
        }
        (FilterParent::Egress | FilterParent::Parent(EGRESS), Some(true)) => {
            return Ok(&mut device.egress);
        }
        (FilterParent::Root, _) => device.nodes.first().map_or(0, |n| n.handle),
        (FilterParent::Parent(parent), _) => parent,
        (FilterParent::Ingress | FilterParent::Egress, _) => return Err(MISSING.into()),
    };
    let node =
        device.nodes.iter_mut().find(|n| n.handle != 0 && n.handle == parent).ok_or(MISSING)?;
    match &mut node.discipline {
        Discipline::Prio { filters, .. } => Ok(filters),
        _ => Err("Operation not supported: the queueing discipline has no classes".into()),
    }
}

fn mac(text: &str) -> Option<Mac> {
    text.parse().ok()
}

fn macs(text: &str) -> Option<(Mac, Mac)> {
    masked(text, Mac([0xff; 6]), mac)
}

fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Some(most), |l| l.parse().ok().filter(|l| *l <= most))?;
    Some((address, len))
}

fn prefix4(text: &str) -> Option<(Ipv4Addr, u8)> {
    match prefix(text)? {
        (IpAddr::V4(a), len) => Some((a, len)),
        _ => None,
    }
}

fn ports(text: &str) -> Option<(u16, u16)> {
    match text.split_once('-') {
        Some((low, high)) => Some((number(low)?, number(high)?)).filter(|(low, high)| low < high),
        None => number(text).map(|p| (p, p)),
    }
}

/// A word of `flower`. `false` if it is none.
fn flower_word(
    word: &str,
    words: &mut Words<'_>,
    f: &mut Flower,
    protocol: u16,
    find: &dyn Fn(&str) -> Option<u32>,
) -> Result<bool, String> {
    let hex = |text: &str| {
        masked(text, 0xfff, |t| u16::from_str_radix(t.trim_start_matches("0x"), 16).ok())
    };
    let byte = |text: &str| {
        masked(text, 0xff, |t| u8::from_str_radix(t.trim_start_matches("0x"), 16).ok())
    };
    match word {
        "indev" => {
            let name = words.value()?;
            f.indev = Some(find(name).ok_or_else(|| format!("Cannot find device \"{name}\""))?);
        }
        "src_mac" => f.src_mac = Some(words.read(macs)?),
        "dst_mac" => f.dst_mac = Some(words.read(macs)?),
        "vlan_id" => f.vlan_id = Some(words.read(|t| number(t).filter(|id| *id < 4096))?),
        "vlan_prio" => f.vlan_prio = Some(words.read(|t| number(t).filter(|p| *p < 8))?),
        "vlan_ethtype" => f.vlan_ethertype = Some(words.read(ethertype)?),
        "ip_proto" => f.ip_proto = Some(words.read(words::ip_protocol)?),
        "ip_tos" => f.ip_tos = Some(words.read(byte)?),
        "ip_ttl" => f.ip_ttl = Some(words.read(|t| masked(t, 0xff, number))?),
        "ip_flags" => {
            for flag in words.value()?.split('/') {
                match flag {
                    "frag" => f.fragment = Some(true),
                    "nofrag" => f.fragment = Some(false),
                    "firstfrag" => f.first_fragment = Some(true),
                    "nofirstfrag" => f.first_fragment = Some(false),
                    other => {
                        return Err(format!("\"{other}\" is not a valid value for \"ip_flags\""));
                    }
                }
            }
        }
        "src_ip" => f.src_ip = Some(words.read(prefix)?),
        "dst_ip" => f.dst_ip = Some(words.read(prefix)?),
        "src_port" => f.src_port = Some(words.read(ports)?),
        "dst_port" => f.dst_port = Some(words.read(ports)?),
        "tcp_flags" => f.tcp_flags = Some(words.read(hex)?),
        "type" => f.icmp_type = Some(words.read(number)?),
        "code" => f.icmp_code = Some(words.read(number)?),
        "arp_op" => {
            f.arp_op = Some(words.read(|t| match t {
                "request" => Some(1),
                "reply" => Some(2),
                other => number(other),
            })?);
        }
        "arp_sip" => f.arp_sip = Some(words.read(prefix4)?),
        "arp_tip" => f.arp_tip = Some(words.read(prefix4)?),
        "arp_sha" => f.arp_sha = Some(words.read(macs)?),
        "arp_tha" => f.arp_tha = Some(words.read(macs)?),
        "enc_src_ip" | "enc_dst_ip" | "enc_key_id" | "enc_dst_port" | "ct_state" | "ct_zone"
        | "ct_mark" | "ct_label" | "mpls" | "mpls_label" | "cvlan_id" | "cvlan_prio"
        | "cvlan_ethtype" | "num_of_vlans" | "hw_tc" => {
            return Err(format!("\"{word}\" is not supported yet"));
        }
        _ => return Ok(false),
    }
    // As flower itself asks: addresses and ports make sense for these protocols only.
    let needs: &[u16] = match word {
        "ip_proto" | "ip_tos" | "ip_ttl" | "src_ip" | "dst_ip" | "src_port" | "dst_port"
        | "tcp_flags" => &[0x0800, 0x86dd, 0x8100, 0x88a8],
        "arp_op" | "arp_sip" | "arp_tip" | "arp_sha" | "arp_tha" => &[0x0806],
        "vlan_id" | "vlan_prio" | "vlan_ethtype" => &[0x8100, 0x88a8],
        _ => return Ok(true),
    };
    if !needs.contains(&protocol) {
        return Err(format!("\"{word}\" needs another \"protocol\""));
    }
    Ok(true)
}
