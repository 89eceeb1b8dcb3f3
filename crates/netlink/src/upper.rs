// SPDX-License-Identifier: Apache-2.0

//! Devices that stand on another: VLAN devices, which are recreated on another, and tunnels, which
//! are changed to it (`<linux/if_link.h>`, `<linux/if_tunnel.h>`).

use std::io;

use serde::{Deserialize, Serialize};

use crate::link::{self, Device};
use crate::links::{Change, Standing, change, rename, set_port};
use crate::message::{Attributes, Message, put};
use crate::socket::{Answers, Socket};
use crate::state::State;
use crate::vlans::set_port_vlans;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;

const CREATE: u16 = 0x400;
const EXCL: u16 = 0x200;

/// `IFLA_VXLAN_LINK`, and what the other tunnels have (`IFLA_GRE_LINK`, `IFLA_IPTUN_LINK`,
/// `IFLA_VTI_LINK`).
const VXLAN_LINK: u16 = 3;
const TUNNEL_LINK: u16 = 1;
/// `IFLA_VXLAN_REMCSUM_RX`, which even as 0 needs a bit of the header that
/// `IFLA_VXLAN_RESERVED_BITS` says is none's.
const VXLAN_REMCSUM_RX: u16 = 22;
/// `IFLA_VXLAN_TTL_INHERIT`, which the kernel reports as a byte, and accepts as a flag attribute.
const VXLAN_TTL_INHERIT: u16 = 28;

/// Tunnels that can be told of another device.
const TUNNELS: [&str; 11] = [
    "gre",
    "gretap",
    "erspan",
    "ip6gre",
    "ip6gretap",
    "ip6erspan",
    "ipip",
    "sit",
    "ip6tnl",
    "vti",
    "vti6",
];
/// Devices linked to their peer.
const PAIRS: [&str; 3] = ["veth", "netkit", "vxcan"];

/// Name prefix of devices that are not yet, or no longer, in their place.
const BESIDE: &str = "penstock";

/// How a device stands on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stands {
    /// A VLAN device.
    Vlan,
    /// A tunnel that sends through it.
    Tunnel,
    /// Another one, which gets frames before anybody else (macvlan, for instance).
    Other,
}

/// A device that stands on another one of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upper {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// `IFLA_INFO_KIND`
    pub kind: String,
    /// How it stands there.
    pub stands: Stands,
    mtu: u32,
    mac: Vec<u8>,
    /// `IFLA_INFO_DATA`
    data: Vec<u8>,
}

/// Devices that stand on the one with an index.
pub fn uppers(socket: &mut impl Answers, lower: u32) -> io::Result<Vec<Upper>> {
    Ok(uppers_of(&links(socket)?, lower))
}

/// All links of the namespace.
pub(crate) fn links(socket: &mut impl Answers) -> io::Result<Vec<Message>> {
    socket.dump(libc::RTM_GETLINK, &[0; link::HEAD])
}

/// Those of all links that stand on the one with an index.
pub(crate) fn uppers_of(links: &[Message], lower: u32) -> Vec<Upper> {
    links.iter().filter_map(|message| read(message, lower)).collect()
}

fn tunnel_link(kind: &str) -> Option<u16> {
    match kind {
        "vxlan" => Some(VXLAN_LINK),
        kind if TUNNELS.contains(&kind) => Some(TUNNEL_LINK),
        _ => None,
    }
}

fn read(message: &Message, lower: u32) -> Option<Upper> {
    let head = message.head::<{ link::HEAD }>().filter(|head| head[0] == 0)?;
    let all = message.attributes(link::HEAD);
    let info = all.inside(IFLA_LINKINFO);
    let kind = info.and_then(|i| i.text(INFO_KIND)).unwrap_or_default();
    let data = info.and_then(|i| i.inside(INFO_DATA));
    let stands = match tunnel_link(kind) {
        Some(attribute) if data.and_then(|d| d.u32(attribute)) == Some(lower) => Stands::Tunnel,
        Some(_) => return None,
        None if all.u32(IFLA_LINK) != Some(lower) || all.get(IFLA_LINK_NETNSID).is_some() => {
            return None;
        }
        None if kind == "vlan" => Stands::Vlan,
        None if PAIRS.contains(&kind) => return None,
        None => Stands::Other,
    };
    Some(Upper {
        index: u32::from_ne_bytes([head[4], head[5], head[6], head[7]]),
        name: all.text(IFLA_IFNAME)?.to_owned(),
        kind: kind.to_owned(),
        stands,
        mtu: all.u32(IFLA_MTU)?,
        mac: all.get(IFLA_ADDRESS).unwrap_or_default().to_vec(),
        data: info.and_then(|i| i.get(INFO_DATA)).unwrap_or_default().to_vec(),
    })
}

fn nested(kind: &str, data: &[u8]) -> Vec<u8> {
    let mut info = Vec::new();
    put(&mut info, INFO_KIND, kind.as_bytes());
    put(&mut info, INFO_DATA, data);
    info
}

/// Moves upper devices to another lower device: tunnels are changed, VLAN devices are recreated
/// there, with everything that stands on them. `alike` gives a device the settings of another, by
/// their names. `isolated` tells for a device name whether it must be an isolated port of its
/// bridge. Says what could not be moved.
pub fn move_uppers(
    socket: &mut Socket,
    from: u32,
    to: u32,
    alike: &mut dyn FnMut(&str, &str),
    isolated: &dyn Fn(&str) -> bool,
) -> io::Result<Vec<String>> {
    let mut refused = Vec::new();
    for upper in uppers(socket, from)? {
        let moved = match upper.stands {
            Stands::Vlan => upper.move_to(socket, to, alike, isolated),
            Stands::Tunnel => upper.point(socket, to).map(|()| Vec::new()),
            Stands::Other => continue,
        };
        let told = |e: String| format!("{}: {e}", upper.name);
        refused.extend(moved.unwrap_or_else(|e| vec![e.to_string()]).into_iter().map(told));
    }
    Ok(refused)
}

impl Upper {
    /// Makes another like it on another device, which has the link address `mac`; one that has its
    /// own keeps it. It is down.
    fn make(&self, socket: &mut Socket, name: &str, lower: u32, mac: [u8; 6]) -> io::Result<()> {
        socket.change(libc::RTM_NEWLINK, CREATE | EXCL, &self.made(name, lower, mac))
    }

    fn made(&self, name: &str, lower: u32, mac: [u8; 6]) -> Vec<u8> {
        let mut body = vec![0; link::HEAD];
        put(&mut body, IFLA_MTU, &self.mtu.to_ne_bytes());
        put(&mut body, IFLA_LINK, &lower.to_ne_bytes());
        put(&mut body, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        // One that has not been given another follows that of the device below.
        if self.mac != mac {
            put(&mut body, IFLA_ADDRESS, &self.mac);
        }
        put(&mut body, IFLA_LINKINFO, &nested(&self.kind, &self.data));
        body
    }

    /// Recreates it on a device with this index and link address if it is gone; otherwise changes
    /// its lower device. Returns its index.
    pub(crate) fn again(&self, socket: &mut Socket, lower: u32, mac: [u8; 6]) -> io::Result<u32> {
        let state = State::read(socket)?;
        if let Some(there) = state.device(&self.name) {
            let there = Upper { index: there.link.index, ..self.clone() };
            if self.stands == Stands::Tunnel {
                there.point(socket, lower)?;
            }
            return Ok(there.index);
        }
        let data = match tunnel_link(&self.kind) {
            None => self.data.clone(),
            Some(link) => {
                let mut data = Vec::new();
                for (kind, value) in Attributes::nested(&self.data) {
                    match kind {
                        _ if kind == link => put(&mut data, kind, &lower.to_ne_bytes()),
                        VXLAN_REMCSUM_RX | VXLAN_TTL_INHERIT
                            if self.kind == "vxlan" && value == [0] => {}
                        VXLAN_TTL_INHERIT if self.kind == "vxlan" => put(&mut data, kind, &[]),
                        _ => put(&mut data, kind, value),
                    }
                }
                data
            }
        };
        Upper { data, ..self.clone() }.make(socket, &self.name, lower, mac)?;
        let state = State::read(socket)?;
        let made = state.device(&self.name).map(|device| device.link.index);
        made.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Tells a tunnel that its packets leave by another device.
    fn point(&self, socket: &mut Socket, lower: u32) -> io::Result<()> {
        socket.change(libc::RTM_NEWLINK, 0, &self.pointed(lower))?;
        // VXLAN has taken the one that the device below allows, which may be less than it had.
        let _ = change(socket, self.index, &[Change::Mtu(self.mtu)]);
        Ok(())
    }

    fn pointed(&self, lower: u32) -> Vec<u8> {
        let mut data = Vec::new();
        // VXLAN refuses what cannot change even if it is the same; the others take what is not said
        // for nothing.
        if self.kind == "vxlan" {
            put(&mut data, VXLAN_LINK, &lower.to_ne_bytes());
        } else {
            for (kind, value) in Attributes::nested(&self.data) {
                let value = if kind == TUNNEL_LINK { &lower.to_ne_bytes()[..] } else { value };
                put(&mut data, kind, value);
            }
        }
        let mut body = body_of(self.index);
        put(&mut body, IFLA_LINKINFO, &nested(&self.kind, &data));
        body
    }

    /// Puts one like it in its place that stands on another device, and removes it.
    fn move_to(
        &self,
        socket: &mut Socket,
        to: u32,
        alike: &mut dyn FnMut(&str, &str),
        isolated: &dyn Fn(&str) -> bool,
    ) -> io::Result<Vec<String>> {
        let gone = || io::Error::from_raw_os_error(libc::ENODEV);
        let of = |state: &State, index: u32| {
            state.devices().iter().find(|d| d.link.index == index).cloned().ok_or_else(gone)
        };
        let state = State::read(socket)?;
        let (old, lower): (Device, Device) = (of(&state, self.index)?, of(&state, to)?);
        let name = format!("{BESIDE}{}", self.index);
        let made = self.make(socket, &name, to, lower.link.mac.0);
        let there = uppers(socket, to)?;
        let new = match made {
            Ok(()) => there.into_iter().find(|other| other.name == name),
            // The same VLAN, which a move that was broken off has left.
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {
                there.into_iter().find(|other| other.kind == self.kind && other.data == self.data)
            }
            Err(e) => return Err(e),
        };
        let new = new.ok_or_else(gone)?;
        // Addresses come with everything else.
        let attributes = [
            Change::Generate(1),
            Change::QueueLen(old.queue_len),
            Change::Group(old.link.group),
            Change::Alias(old.link.alias.as_deref().unwrap_or_default()),
        ];
        change(socket, new.index, &attributes)?;
        alike(&self.name, &new.name);
        let standing = Standing::read(socket, self.index)?;
        // What a move that was broken off has left has lost its name to this one already.
        let has_name = !self.name.starts_with(BESIDE);
        if has_name {
            rename(socket, self.index, &format!("{BESIDE}%d"))?;
            rename(socket, new.index, &self.name)?;
        }
        let name = if has_name { &self.name } else { &new.name };
        standing.remove(socket);
        if let Some(master) = &old.master {
            change(socket, self.index, &[Change::Master(0)])?;
            change(socket, new.index, &[Change::Master(master.index)])?;
            if master.kind == "bridge" {
                set_port(socket, new.index, &old.port_settings, Some(isolated(name)))?;
                if let Some(port) = &old.link.port {
                    set_port_vlans(socket, new.index, &port.vlans)?;
                }
            }
        }
        if old.link.up {
            change(socket, new.index, &[Change::Up(true)])?;
        }
        let mut refused = standing.put(socket, self.index, new.index);
        refused.extend(move_uppers(socket, self.index, new.index, alike, isolated)?);
        change(socket, new.index, &[Change::Generate(old.generate)])?;
        socket.change(libc::RTM_DELLINK, 0, &body_of(self.index))?;
        Ok(refused)
    }
}

/// The fixed part of a message about a device.
fn body_of(index: u32) -> Vec<u8> {
    let mut body = vec![0; link::HEAD];
    if let Some(field) = body.get_mut(4..8) {
        field.copy_from_slice(&index.to_ne_bytes());
    }
    body
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::process::Command;

    use super::*;

    /// What
    /// `ip link add link lan name lan.10 mtu 1400 type vlan protocol 802.1ad id 10 reorder_hdr off ingress-qos-map 1:2 3:4 egress-qos-map 5:6`
    /// sends after the header, as strace shows it; `lan` has the index 3.
    const VLAN: &[u8] = b"\
        \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
        \x08\0\x04\0\x78\x05\0\0\x08\0\x05\0\x03\0\0\0\x0b\0\x03\0lan.10\0\0\x58\0\x12\0\
        \x08\0\x01\0vlan\x4c\0\x02\0\x06\0\x05\0\x88\xa8\0\0\x06\0\x01\0\x0a\0\0\0\
        \x1c\0\x04\0\x0c\0\x01\0\x01\0\0\0\x02\0\0\0\x0c\0\x01\0\x03\0\0\0\x04\0\0\0\
        \x10\0\x03\0\x0c\0\x01\0\x05\0\0\0\x06\0\0\0\x0c\0\x02\0\0\0\0\0\x01\0\0\0";

    fn told(body: Vec<u8>) -> Message {
        Message { kind: libc::RTM_NEWLINK, flags: 0, sequence: 0, body }
    }

    /// [`VLAN`] as the kernel tells of it: with an index, up, and a link address.
    fn listed(mac: [u8; 6]) -> Message {
        let mut body = VLAN.to_vec();
        body[2] = 1;
        body[4] = 7;
        body[8] = 1;
        put(&mut body, IFLA_ADDRESS, &mac);
        told(body)
    }

    #[test]
    fn a_vlan_device_is_recreated_as_ip_creates_it() {
        let mac = [2, 0, 0, 0, 0, 1];
        let message = listed(mac);
        let device = link::read(&message).expect("a link");
        let vlan = device.link.vlan().expect("a VLAN device");
        assert_eq!((vlan.lower, vlan.protocol, vlan.id), (3, 0x88a8, 10));
        assert_eq!(
            (&vlan.ingress_qos[..], &vlan.egress_qos[..]),
            (&[(1, 2), (3, 4)][..], &[(5, 6)][..])
        );
        assert_eq!((device.link.mtu, device.link.up), (1400, true));
        let upper = read(&message, 3).expect("it stands on 3");
        assert_eq!((upper.index, upper.name.as_str(), upper.stands), (7, "lan.10", Stands::Vlan));
        assert!(read(&message, 4).is_none());
        assert_eq!(upper.made("lan.10", 3, mac), VLAN);
        // On another device, with its own address.
        let mut expected = VLAN.to_vec();
        expected[16 + 8 + 4] = 9;
        let made = upper.made("lan.10", 9, [2, 0, 0, 0, 0, 2]);
        let own = told(made.clone()).attributes(link::HEAD).get(IFLA_ADDRESS).map(<[u8]>::to_vec);
        assert_eq!(own.as_deref(), Some(&mac[..]));
        let without: Vec<_> = told(made)
            .attributes(link::HEAD)
            .filter(|a| a.0 != IFLA_ADDRESS)
            .map(own_bytes)
            .collect();
        let all: Vec<_> = told(expected).attributes(link::HEAD).map(own_bytes).collect();
        assert_eq!(without, all);
    }

    fn own_bytes((kind, value): (u16, &[u8])) -> (u16, Vec<u8>) {
        (kind, value.to_vec())
    }

    #[test]
    fn upper_devices_of_another_namespace_are_not_matched_here() {
        let mut message = listed([2, 0, 0, 0, 0, 1]);
        put(&mut message.body, IFLA_LINK_NETNSID, &1u32.to_ne_bytes());
        assert!(read(&message, 3).is_none());
        assert_eq!(link::read(&message).expect("a link").link.vlan(), None);
    }

    #[test]
    fn a_tunnel_moves_to_another_device_and_keeps_its_settings() {
        let mut data = Vec::new();
        put(&mut data, TUNNEL_LINK, &3u32.to_ne_bytes());
        put(&mut data, 2, &[198, 18, 0, 1]);
        let mut body = body_of(7);
        put(&mut body, IFLA_IFNAME, b"tun0\0");
        put(&mut body, IFLA_MTU, &1480u32.to_ne_bytes());
        put(&mut body, IFLA_LINK, &3u32.to_ne_bytes());
        put(&mut body, IFLA_LINKINFO, &nested("ipip", &data));
        let upper = read(&told(body), 3).expect("it stands on 3");
        assert_eq!(upper.stands, Stands::Tunnel);
        let pointed = told(upper.pointed(9));
        assert_eq!(index_of(&pointed), 7);
        let data =
            pointed.attributes(link::HEAD).inside(IFLA_LINKINFO).and_then(|i| i.inside(INFO_DATA));
        let data = data.expect("data");
        assert_eq!((data.u32(TUNNEL_LINK), data.get(2)), (Some(9), Some(&[198, 18, 0, 1][..])));
    }

    fn index_of(message: &Message) -> u32 {
        u32::from_ne_bytes(*message.body[4..].first_chunk().expect("an index"))
    }

    fn ip(text: &str) {
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let status = Command::new("ip").args(line.split(' ')).status().expect("ip");
            assert!(status.success(), "ip {line}");
        }
    }

    /// Devices, their addresses, routes; without what moving changes: indexes, the device below,
    /// and macvlans' addresses.
    const SEEN: &str = "for d in v w x; do ip -d -o link show $d; done |
        sed 's/^[0-9]*: //; s/@[^:]*//; s/ether [0-9a-f:]*//; s/isolated o[nf]*//' | tr -s ' '
        ip -o addr show dev v | grep -v fe80 | sed 's/^[0-9]*: //'; ip route; ip -6 route | grep -v fe80";

    /// With macvlan devices in place of VLAN devices, which not all kernels have: they are made in
    /// the same way.
    #[test]
    fn an_upper_device_moves_with_its_stack_and_back() {
        // SAFETY: no pointers; it concerns this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("skipped: no rights to make a network namespace");
            return;
        }
        ip("link add one address 02:00:00:00:00:01 type veth peer name far
            link add two address 02:00:00:00:00:02 type veth peer name bfar");
        let probe = Command::new("ip")
            .args("link add link one name v type macvlan mode bridge".split(' '))
            .output();
        if !probe.is_ok_and(|p| p.status.success()) {
            eprintln!("skipped: this kernel has no macvlan devices");
            return;
        }
        ip("link add br0 type bridge
            link add link one name w type macvlan mode bridge
            link add x type vxlan id 7 dstport 4789 remote 198.18.3.9 dev v
            link set v mtu 1400 txqueuelen 77 group 5 alias here
            link set x mtu 1300
            link set w master br0
            link set one up
            link set far up
            link set two up
            link set bfar up
            link set v up
            addr add 198.18.3.1/24 dev v
            addr add 2001:db8:3::1/64 dev v nodad
            route add 198.19.3.0/24 via 198.18.3.9");
        let mut socket = Socket::new().expect("netlink");
        let device = |name: &str| {
            let state = State::read(&mut Socket::new().expect("netlink")).expect("the state");
            state.device(name).cloned()
        };
        let (a, b) =
            (device("one").expect("one").link.index, device("two").expect("two").link.index);
        /// How macvlan devices are made: their mode, without what the kernel only tells.
        fn vlans(socket: &mut Socket, lower: u32) -> Vec<Upper> {
            let mut mode = Vec::new();
            put(&mut mode, 1, &4u32.to_ne_bytes());
            let all = uppers(socket, lower).expect("devices");
            all.into_iter()
                .map(|u| Upper { stands: Stands::Vlan, data: mode.clone(), ..u })
                .collect()
        }
        let seen = || {
            let output = Command::new("sh").args(["-c", SEEN]).output().expect("sh");
            String::from_utf8(output.stdout).expect("text")
        };
        let isolated = || {
            let port = device("w").and_then(|d| d.link.port);
            port.is_some_and(|p| p.isolated)
        };
        let before = seen();
        assert!(
            before.contains("dev v") && before.contains("198.19.3.0/24 via 198.18.3.9"),
            "{before}"
        );
        for (from, to, apart) in [(a, b, true), (b, a, false)] {
            let mut settings = HashMap::new();
            for upper in vlans(&mut socket, from) {
                let mut alike =
                    |from: &str, to: &str| drop(settings.insert(from.to_owned(), to.to_owned()));
                let moved = upper.move_to(&mut socket, to, &mut alike, &|_| apart);
                assert_eq!(moved.expect("moved"), Vec::<String>::new());
            }
            assert_eq!(settings.len(), 2);
            assert_eq!(uppers(&mut socket, to).expect("devices").len(), 2);
            assert_eq!(uppers(&mut socket, from).expect("devices").len(), 0);
            assert_eq!(seen(), before);
            assert_eq!(isolated(), apart);
            let output = Command::new("ip").args(["-o", "link"]).output().expect("ip").stdout;
            assert!(!String::from_utf8_lossy(&output).contains("penstock"), "nothing is left");
        }
    }
}
