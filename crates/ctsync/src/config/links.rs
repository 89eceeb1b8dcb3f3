// SPDX-License-Identifier: Apache-2.0

//! Links to the peer (`Multicast`, `UDP`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::words::Words;
use super::{Addresses, Link};

/// Links at most (`MULTICHANNEL_MAX`).
const MOST: usize = 4;

/// What kind of link it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Multicast,
    Unicast,
}

/// An address that may stand once.
fn set(
    words: &mut Words<'_>,
    place: &mut Option<IpAddr>,
    clause: &str,
    v4: bool,
) -> Result<(), String> {
    let address: IpAddr = match v4 {
        true => words.value::<Ipv4Addr>("an IPv4 address")?.into(),
        false => words.value::<Ipv6Addr>("an IPv6 address")?.into(),
    };
    match place.replace(address) {
        Some(_) => Err(words.error(format_args!("a link has a second {clause}"))),
        None => Ok(()),
    }
}

/// Reads what follows `Multicast` or `UDP`.
pub(super) fn read(
    words: &mut Words<'_>,
    transport: Transport,
    links: &mut Vec<Link>,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    let first = words.take("Default");
    let begin = words.line();
    let (mut address, mut peer, mut device_address) = (None, None, None);
    let (mut port, mut device) = (None, None);
    let (mut send_buffer, mut receive_buffer, mut checksum) = (None, None, true);
    words.section(|words, clause| {
        match (transport, clause) {
            (_, "IPv4_address") => set(words, &mut address, clause, true)?,
            (_, "IPv6_address") => set(words, &mut address, clause, false)?,
            (Transport::Unicast, "IPv4_Destination_Address") => {
                set(words, &mut peer, clause, true)?;
            }
            (Transport::Unicast, "IPv6_Destination_Address") => {
                set(words, &mut peer, clause, false)?;
            }
            (Transport::Multicast, "IPv4_interface") => {
                device_address = Some(words.value("an IPv4 address")?);
            }
            (Transport::Multicast, "IPv6_interface") => {
                warnings.push(words.error("IPv6_interface has no meaning: Interface says it"));
                words.skip()?;
            }
            (Transport::Unicast, "Port") | (Transport::Multicast, "Group") => {
                port = Some(words.value("a port")?);
            }
            (_, "Interface") => device = Some(words.need("a device")?.to_owned()),
            (_, "SndSocketBuffer" | "McastSndSocketBuffer") => {
                send_buffer = Some(words.value("a number of bytes")?);
            }
            (_, "RcvSocketBuffer" | "McastRcvSocketBuffer") => {
                receive_buffer = Some(words.value("a number of bytes")?);
            }
            (_, "Checksum") => checksum = words.switch()?,
            (_, "Backlog") => {
                warnings.push(words.error("Backlog has no meaning for a link"));
                words.skip()?;
            }
            _ => return Err(words.error(format_args!("a link has no clause `{clause}`"))),
        }
        Ok(())
    })?;
    let missing = |what: &str| format!("line {begin}: the link has no {what}");
    let address = address.ok_or_else(|| missing("address"))?;
    let addresses = match transport {
        Transport::Multicast => {
            if !address.is_multicast() {
                return Err(format!("line {begin}: {address} is no multicast address"));
            }
            Addresses::Multicast { group: address, device: device_address }
        }
        Transport::Unicast => {
            let peer = peer.ok_or_else(|| missing("destination address"))?;
            if address.is_ipv4() != peer.is_ipv4() {
                return Err(format!("line {begin}: {address} and {peer} are of two families"));
            }
            Addresses::Unicast { own: address, peer }
        }
    };
    if links.len() >= MOST {
        return Err(format!("line {begin}: there are more than {MOST} links"));
    }
    let port = port.filter(|port| *port != 0).ok_or_else(|| missing("port"))?;
    let device = device.ok_or_else(|| missing("Interface"))?;
    links.push(Link { addresses, port, device, first, send_buffer, receive_buffer, checksum });
    Ok(())
}
