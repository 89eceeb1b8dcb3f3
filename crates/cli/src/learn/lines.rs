// SPDX-License-Identifier: Apache-2.0

//! A learned network as lines for ip(8).

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

use penstock_net::Mac;

use super::places::{Gateway, Host, Link, family, is_link_local};

/// The lines. Writing to a String does not fail.
pub fn lines(host: &Host) -> String {
    let mut out = String::from("# Learned from captures.\n");
    for note in &host.notes {
        let _ = writeln!(out, "# Note: {note}.");
    }
    for link in &host.links {
        add(link, &mut out);
    }
    for link in &host.links {
        let _ = writeln!(out, "link set dev {} up", link.name);
    }
    for link in &host.links {
        for (address, len) in &link.own {
            // The kernel makes this one itself.
            if link.mac.is_none_or(|mac| *address != link_local_of(mac)) {
                let _ = writeln!(out, "addr add {address}/{len} dev {}", link.name);
            }
        }
    }
    for link in &host.links {
        routes(link, &mut out);
    }
    for link in &host.links {
        neighbours(link, &mut out);
    }
    out
}

fn add(link: &Link, out: &mut String) {
    let name = &link.name;
    let _ = match (&link.lower, link.mac) {
        (Some((lower, number)), _) => {
            writeln!(out, "link add link {lower} name {name} type vlan id {number}")
        }
        (None, Some(mac)) => writeln!(out, "link add name {name} address {mac} type dummy"),
        (None, None) => writeln!(out, "link add name {name} type dummy"),
    };
}

/// Routes to neighbours that own prefixes do not have, and by gateways.
fn routes(link: &Link, out: &mut String) {
    let name = &link.name;
    for address in
        link.neighbours.keys().filter(|a| !is_link_local(**a) && !is_connected(link, **a))
    {
        let _ = writeln!(out, "{}route add {address} dev {name}", option(*address));
    }
    for gateway in &link.gateways {
        for (of, is_default) in gateway.is_default.into_iter().enumerate() {
            let begin = ["", "-6 "][of];
            let via = via(gateway, of);
            if is_default {
                let _ = writeln!(out, "{begin}route add default via {via} dev {name} onlink");
                continue;
            }
            for address in gateway.beyond.iter().filter(|a| family(**a) == of) {
                let _ = writeln!(out, "{begin}route add {address} via {via} dev {name} onlink");
            }
        }
    }
}

/// Whether a prefix of an own address has it.
fn is_connected(link: &Link, address: IpAddr) -> bool {
    link.own.iter().any(|(own, len)| {
        let (own, address, width) = match (own, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(*a).into(), u32::from(b).into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(*a), u128::from(b), 128),
            _ => return false,
        };
        let host = u32::from(width - len);
        (own ^ address).checked_shr(host).unwrap_or(0) == 0
    })
}

/// The address of a gateway in a family: one that is made of its link address if none is known.
fn via(gateway: &Gateway, of: usize) -> String {
    match (gateway.address[of], of) {
        (Some(address), _) => address.to_string(),
        (None, 0) => format!("inet6 {}", gateway_link_local(gateway)),
        (None, _) => gateway_link_local(gateway).to_string(),
    }
}

fn gateway_link_local(gateway: &Gateway) -> IpAddr {
    match gateway.address[1].filter(|a| is_link_local(*a)) {
        Some(address) => address,
        None => link_local_of(gateway.mac),
    }
}

fn neighbours(link: &Link, out: &mut String) {
    let mut all = link.neighbours.clone();
    for gateway in &link.gateways {
        // What `via` made up.
        let of = |of: usize| gateway.beyond.iter().any(|a| family(*a) == of);
        if (0..2).any(|f| of(f) && gateway.address[f].is_none()) {
            all.insert(gateway_link_local(gateway), gateway.mac);
        }
    }
    for (address, mac) in all {
        let _ = writeln!(out, "neigh add {address} lladdr {mac} dev {} nud permanent", link.name);
    }
}

/// The option of ip(8) for the family of an address.
fn option(address: IpAddr) -> &'static str {
    ["", "-6 "][family(address)]
}

/// The link-local address that is made of a link address (RFC 4291, appendix A).
fn link_local_of(Mac([a, b, c, d, e, f]): Mac) -> IpAddr {
    let bytes = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    IpAddr::V6(Ipv6Addr::from(bytes))
}
