// SPDX-License-Identifier: Apache-2.0

//! VLANs of bridge ports, on bridges that filter by them (`bridge vlan`, `<linux/if_bridge.h>`).

use std::io;

use penstock_net::Vlans;

use crate::link;
use crate::message::put;
use crate::socket::Socket;
use crate::state::State;

const IFLA_AF_SPEC: u16 = 26;
/// `IFLA_BRIDGE_VLAN_INFO`, and its flags.
const INFO: u16 = 2;
const PVID: u16 = 2;
const UNTAGGED: u16 = 4;

/// Gives a port the VLANs of another, instead of those that it has.
///
/// # Errors
/// Those of netlink.
pub fn set_port_vlans(socket: &mut Socket, index: u32, wanted: &Vlans) -> io::Result<()> {
    let state = State::read(socket)?;
    let device = state.devices().iter().find(|d| d.link.index == index);
    let Some(there) = device.and_then(|d| d.link.port.as_ref()).map(|port| &port.vlans) else {
        return Ok(());
    };
    for (kind, body) in changes(index, there, wanted) {
        socket.change(kind, 0, &body)?;
    }
    Ok(())
}

/// Messages that make VLANs of others.
fn changes(index: u32, there: &Vlans, wanted: &Vlans) -> Vec<(u16, Vec<u8>)> {
    let is_same = |id: &u16| {
        there.untagged(*id) == wanted.untagged(*id) && (there.pvid == *id) == (wanted.pvid == *id)
    };
    let new = wanted.ids().filter(|id| !is_same(id)).map(|id| {
        let pvid = if wanted.pvid == id { PVID } else { 0 };
        let untagged = if wanted.untagged(id) == Some(true) { UNTAGGED } else { 0 };
        (libc::RTM_SETLINK, body(index, id, pvid | untagged))
    });
    let old = there.ids().filter(|id| wanted.untagged(*id).is_none());
    new.chain(old.map(|id| (libc::RTM_DELLINK, body(index, id, 0)))).collect()
}

fn body(index: u32, id: u16, flags: u16) -> Vec<u8> {
    let mut inside = Vec::new();
    put(&mut inside, INFO, &[flags.to_ne_bytes(), id.to_ne_bytes()].concat());
    let mut body = vec![0; link::HEAD];
    if let Some(head) = body.first_chunk_mut::<{ link::HEAD }>() {
        head[0] = libc::AF_BRIDGE as u8;
        head[4..8].copy_from_slice(&index.to_ne_bytes());
    }
    put(&mut body, IFLA_AF_SPEC, &inside);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `bridge vlan add dev lan vid 10 pvid untagged`, `bridge vlan add dev lan vid 20` and
    /// `bridge vlan del dev lan vid 1` send after the header, as strace shows it; `lan` has the
    /// index 4.
    const ADD: &[u8] = b"\x07\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\x0c\0\x1a\0\x08\0\x02\0\x06\0\x0a\0";
    const ADD_TAGGED: &[u8] =
        b"\x07\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\x0c\0\x1a\0\x08\0\x02\0\0\0\x14\0";
    const DELETE: &[u8] = b"\x07\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\x0c\0\x1a\0\x08\0\x02\0\0\0\x01\0";

    fn vlans(all: &[(u16, bool, bool)]) -> Vlans {
        let mut vlans = Vlans::default();
        all.iter().for_each(|(id, pvid, untagged)| vlans.add(*id, *pvid, *untagged));
        vlans
    }

    #[test]
    fn vlans_are_set_as_by_the_bridge_command() {
        let there = vlans(&[(1, true, true)]);
        let wanted = vlans(&[(10, true, true), (20, false, false)]);
        assert_eq!(
            changes(4, &there, &wanted),
            [
                (libc::RTM_SETLINK, ADD.to_vec()),
                (libc::RTM_SETLINK, ADD_TAGGED.to_vec()),
                (libc::RTM_DELLINK, DELETE.to_vec())
            ]
        );
        assert_eq!(changes(4, &wanted, &wanted), []);
        // Another VLAN for untagged frames.
        let other = vlans(&[(10, false, true), (20, true, false)]);
        let flags: Vec<_> =
            changes(4, &wanted, &other).iter().map(|(_, body)| (body[24], body[26])).collect();
        assert_eq!(flags, [(4, 10), (2, 20)]);
    }
}
