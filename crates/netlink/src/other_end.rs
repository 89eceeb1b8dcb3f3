// SPDX-License-Identifier: Apache-2.0

//! The other end of a veth, which may be in another network namespace.

use std::io;

use crate::link::HEAD;
use crate::message::{Attributes, Message, put};
use crate::socket::Socket;

const RTM_GETLINK: u16 = 18;
const IFLA_LINK: u16 = 5;
const IFLA_QDISC: u16 = 6;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_XDP: u16 = 43;
const IFLA_TARGET_NETNSID: u16 = 46;
const INFO_KIND: u16 = 1;
const XDP_ATTACHED: u16 = 2;
const IFF_UP: u32 = 1;

/// Asks for a device, in another network namespace if its number here is given.
fn link(socket: &mut Socket, device: u32, namespace: Option<&[u8]>) -> io::Result<Option<Message>> {
    let mut body = vec![0; HEAD];
    if let Some(place) = body.get_mut(4..8) {
        place.copy_from_slice(&device.to_ne_bytes());
    }
    if let Some(namespace) = namespace {
        put(&mut body, IFLA_TARGET_NETNSID, namespace);
    }
    Ok(socket.ask(RTM_GETLINK, &body)?.into_iter().next())
}

/// Where the other end is: the number of its namespace, and its index there. `None` if it is in
/// this one, the device is no veth, or what leaves by it has to queue.
fn elsewhere(all: Attributes<'_>) -> Option<(&[u8], u32)> {
    let kind = all.inside(IFLA_LINKINFO)?.text(INFO_KIND)?;
    let other = all.get(IFLA_LINK_NETNSID).zip(all.u32(IFLA_LINK))?;
    (kind == "veth" && all.text(IFLA_QDISC) == Some("noqueue")).then_some(other)
}

/// Whether a device takes what is put in front of it: it is up, and no XDP program wants to see
/// that first.
fn takes(message: &Message) -> bool {
    let flags = message
        .head::<HEAD>()
        .map_or(0, |head| u32::from_ne_bytes([head[8], head[9], head[10], head[11]]));
    let program = message.attributes(HEAD).inside(IFLA_XDP).and_then(|xdp| xdp.u8(XDP_ATTACHED));
    flags & IFF_UP != 0 && matches!(program, None | Some(0))
}

/// Whether packets may go to the other end of a device at once, past the device's own queue: it is
/// a veth without one, and the other end is in another network namespace, up, and without XDP
/// program. What cannot be found out is taken for no: the caller may have no rights there, or the
/// namespace is gone.
///
/// # Errors
/// Those of netlink.
pub fn can_hand_over(socket: &mut Socket, device: u32) -> io::Result<bool> {
    let Some(here) = link(socket, device, None)? else { return Ok(false) };
    let Some((namespace, other)) = elsewhere(here.attributes(HEAD)) else { return Ok(false) };
    Ok(link(socket, other, Some(namespace))?.is_some_and(|there| takes(&there)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(flags: u32, attributes: &[(u16, &[u8])]) -> Message {
        let mut body = vec![0; HEAD];
        body[8..12].copy_from_slice(&flags.to_ne_bytes());
        attributes.iter().for_each(|(kind, value)| put(&mut body, *kind, value));
        Message { kind: 16, flags: 0, sequence: 0, body }
    }

    #[test]
    fn only_veths_without_queue_into_another_namespace_are_handed_over() {
        let kind = |name: &str| {
            let mut info = Vec::new();
            put(&mut info, INFO_KIND, name.as_bytes());
            info
        };
        let (veth, vlan) = (kind("veth"), kind("vlan"));
        let (namespace, index) = (3_u32.to_ne_bytes(), 7_u32.to_ne_bytes());
        let (link, in_another) = ((IFLA_LINK, &index[..]), (IFLA_LINK_NETNSID, &namespace[..]));
        let (none, shaped) = ((IFLA_QDISC, &b"noqueue\0"[..]), (IFLA_QDISC, &b"tbf\0"[..]));
        for (attributes, expected) in [
            (vec![none, link, in_another, (IFLA_LINKINFO, &veth[..])], true),
            (vec![none, link, (IFLA_LINKINFO, &veth[..])], false),
            (vec![shaped, link, in_another, (IFLA_LINKINFO, &veth[..])], false),
            (vec![none, link, in_another, (IFLA_LINKINFO, &vlan[..])], false),
            (vec![none, link, in_another], false),
        ] {
            let message = message(IFF_UP, &attributes);
            let found = elsewhere(message.attributes(HEAD));
            assert_eq!(found, expected.then_some((&namespace[..], 7)), "{attributes:?}");
        }
    }

    #[test]
    fn devices_that_are_down_or_have_a_program_receive_nothing() {
        let program = |attached: u8| {
            let mut xdp = Vec::new();
            put(&mut xdp, XDP_ATTACHED, &[attached]);
            xdp
        };
        let (none, driver) = (program(0), program(1));
        for (flags, xdp, expected) in [
            (IFF_UP, Some(&none), true),
            (IFF_UP, Some(&driver), false),
            (0, Some(&none), false),
            (IFF_UP, None, true),
        ] {
            let attributes: Vec<(u16, &[u8])> =
                xdp.iter().map(|xdp| (IFLA_XDP, &xdp[..])).collect();
            assert_eq!(takes(&message(flags, &attributes)), expected);
        }
    }
}
