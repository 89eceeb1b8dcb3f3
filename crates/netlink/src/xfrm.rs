// SPDX-License-Identifier: Apache-2.0

//! IPsec policies of the host (`ip xfrm policy`, `<linux/xfrm.h>`): what its stack will not let
//! pass as it is.
//!
//! States, and so keys, stay the kernel's: sequence numbers of a state can be counted by one only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use penstock_xfrm::{
    Action, Config, Direction, Level, Limits, Mark, Mode, Policy, Selector, Template,
};

use crate::message::{Message, number};
use crate::socket::Socket;

/// `XFRM_MSG_*`
const NEW_POLICY: u16 = 0x13;
const GET_POLICY: u16 = 0x15;
const GET_DEFAULT: u16 = 0x28;

/// `XFRMNLGRP_POLICY`, and `XFRMNLGRP_EXPIRE`, which tells of policies that have lived long enough.
const GROUPS: [i32; 2] = [4, 2];

/// `XFRMA_*`
const TEMPLATES: u16 = 5;
const POLICY_TYPE: u16 = 16;
const MARK: u16 = 21;
const IF_ID: u16 = 31;

/// Bytes of `struct xfrm_userpolicy_info`, and offsets in it.
const HEAD: usize = 168;
const PRIORITY: usize = 152;
const DIRECTION: usize = 160;
const ACTION: usize = 161;
/// Bytes of `struct xfrm_user_tmpl`.
const TEMPLATE: usize = 64;
/// Bytes of the question for policies (`struct xfrm_userpolicy_id`), and of the answer about
/// defaults.
const QUESTION: usize = 64;
/// `XFRM_USERPOLICY_BLOCK`
const BLOCK: u8 = 1;

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// `xfrm_address_t`
fn address(bytes: &[u8], v6: bool) -> Option<IpAddr> {
    Some(if v6 {
        Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()
    } else {
        Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()
    })
}

/// The bits of an address that its prefix has.
fn prefix(bytes: &[u8], v6: bool, len: u8) -> (u128, u8) {
    let bits = if v6 { 128 } else { 32 };
    let value = number(bytes.get(..bits / 8).unwrap_or_default());
    let rest = bits as u32 - u32::from(len).min(bits as u32);
    (if len == 0 { 0 } else { value >> rest << rest }, len)
}

fn is_v6(family: u16) -> Option<bool> {
    match i32::from(family) {
        libc::AF_INET => Some(false),
        libc::AF_INET6 => Some(true),
        _ => None,
    }
}

/// `struct xfrm_selector`
fn selector(bytes: &[u8; HEAD]) -> Option<Selector> {
    let family = u16::from_ne_bytes([bytes[40], bytes[41]]);
    // Without addresses it is of the family that it is looked up by: both.
    let v6 = is_v6(family)?;
    Some(Selector {
        v6: Some(v6),
        destination: prefix(&bytes[..16], v6, bytes[42]),
        source: prefix(&bytes[16..32], v6, bytes[43]),
        dport: (be16(bytes, 32)?, be16(bytes, 34)?),
        sport: (be16(bytes, 36)?, be16(bytes, 38)?),
        protocol: bytes[44],
        device: word(bytes, 48)?,
    })
}

/// `struct xfrm_user_tmpl`. What it asks for besides ESP does not matter here: it asks for
/// something.
fn template(bytes: &[u8], out: bool) -> Option<Template> {
    let v6 = is_v6(u16::from_ne_bytes(*bytes.get(24..)?.first_chunk()?))?;
    let [mode, _, optional] = *bytes.get(48..)?.first_chunk::<3>()?;
    Some(Template {
        source: address(bytes.get(28..)?, v6)?,
        destination: address(bytes, v6)?,
        spi: u32::from_be_bytes(*bytes.get(16..)?.first_chunk()?),
        mode: if mode == 0 { Mode::Transport } else { Mode::Tunnel },
        reqid: word(bytes, 44)?,
        // Whether there is a state for it, the host knows.
        level: if optional != 0 && !out { Level::Use } else { Level::Required },
    })
}

/// Reads a policy; `None` for those of sockets, of xfrm interfaces, and of the second set
/// (`ptype sub`).
fn read(message: &Message) -> Option<Policy> {
    let head = message.head::<HEAD>().filter(|_| message.kind == NEW_POLICY)?;
    let direction = match head[DIRECTION] {
        0 => Direction::In,
        1 => Direction::Out,
        2 => Direction::Forward,
        _ => return None,
    };
    let all = message.attributes(HEAD);
    let of_interface = all.u32(IF_ID).is_some_and(|id| id != 0);
    if of_interface || all.u8(POLICY_TYPE).is_some_and(|kind| kind != 0) {
        return None;
    }
    let mark = all.get(MARK).and_then(|m| Some(Mark { value: word(m, 0)?, mask: word(m, 4)? }));
    let templates = all.get(TEMPLATES).unwrap_or_default().chunks_exact(TEMPLATE);
    Some(Policy {
        selector: selector(head)?,
        direction,
        action: if head[ACTION] == 0 { Action::Allow } else { Action::Block },
        priority: word(head, PRIORITY)?,
        mark: mark.unwrap_or_default(),
        // The kernel takes them away when they have lived long enough.
        limits: Limits::default(),
        templates: templates.filter_map(|t| template(t, direction == Direction::Out)).collect(),
    })
}

/// What holds where no policy says anything: in, out, forward.
fn defaults(message: &Message) -> [Action; 3] {
    let action = |value: u8| if value == BLOCK { Action::Block } else { Action::Allow };
    let [inward, forward, outward] = message.head::<3>().copied().unwrap_or_default();
    [action(inward), action(outward), action(forward)]
}

/// A socket for policy dumps, and one for notifications.
#[derive(Debug)]
pub struct Policies {
    socket: Socket,
    monitor: Socket,
}

impl Policies {
    /// In the network namespace of the thread. `None` if its kernel has no IPsec.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn open() -> io::Result<Option<Policies>> {
        let socket = match Socket::open(libc::NETLINK_XFRM, 0) {
            Err(e) if e.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Ok(None),
            result => result?,
        };
        let monitor = Socket::open(libc::NETLINK_XFRM, libc::SOCK_NONBLOCK)?;
        for group in GROUPS {
            monitor.set(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)?;
        }
        Ok(Some(Policies { socket, monitor }))
    }

    /// Whether there were changes since the last time.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn have_changed(&mut self) -> io::Result<bool> {
        self.monitor.was_told()
    }

    /// Reads them.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn read(&mut self) -> io::Result<Config> {
        let all = self.socket.dump(GET_POLICY, &[0; QUESTION])?;
        let defaults = self.socket.ask(GET_DEFAULT, &[0; 4])?;
        Ok(Policies::of(&all, defaults.first()))
    }

    /// The policies of a dump, and what the answer about the defaults says.
    pub fn of(dump: &[Message], defaults: Option<&Message>) -> Config {
        let defaults = defaults.map(self::defaults).unwrap_or_default();
        // The newest comes first.
        Config::of_host(dump.iter().rev().filter_map(read).collect(), defaults)
    }
}

impl AsFd for Policies {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use penstock_net::Network;

    use super::*;

    /// Lines of `ip -batch` which are both the host's and the network's.
    const LINES: &str = "
        xfrm policy add src 198.18.5.0/24 dst 198.18.6.0/25 dir out priority 7 tmpl src 198.18.0.1 dst 198.18.0.2 proto esp reqid 5 mode tunnel
        xfrm policy add src 198.18.6.0/25 dst 198.18.5.0/24 dir fwd tmpl src 198.18.0.2 dst 198.18.0.1 proto esp spi 0x1234 reqid 5 mode tunnel level use
        xfrm policy add src 198.18.6.0/25 dst 198.18.5.0/24 dir in mark 0x10 mask 0xf0 tmpl src 198.18.0.2 dst 198.18.0.1 proto esp mode tunnel
        xfrm policy add src 0.0.0.0/0 dst 198.18.9.9/32 proto udp sport 53 dport 99 dir fwd action block priority 9
        xfrm policy add src 2001:db8:5::/48 dst 2001:db8:6::/64 proto tcp dport 443 dir out tmpl proto esp mode transport
        xfrm policy add src 2001:db8:5::/48 dst ::/0 dev lo dir out tmpl src 2001:db8::1 dst 2001:db8::2 proto esp reqid 9 mode tunnel
        xfrm policy add dst 198.18.6.7 src 198.18.5.3 proto icmp dir out tmpl src 198.18.0.1 dst 198.18.0.2 proto esp reqid 5 mode tunnel";

    #[test]
    fn host_policies_are_read_and_changes_are_reported() {
        // SAFETY: no pointers; it concerns this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("skipped: no rights to make a network namespace");
            return;
        }
        let Some(mut policies) = Policies::open().expect("netlink") else {
            eprintln!("skipped: this kernel has no IPsec");
            return;
        };
        assert_eq!(policies.read().expect("policies"), Config::default());
        let ip = |line: &str| {
            let output = Command::new("ip").args(line.split_whitespace()).output().expect("ip");
            output.status.success()
        };
        let mut lines = String::from("link set lo up\n");
        for line in LINES.lines().map(str::trim).filter(|l| !l.is_empty()) {
            assert!(ip(line), "ip {line}");
            assert!(policies.have_changed().expect("netlink"), "{line}");
            lines += line;
            lines.push('\n');
            let net = Network::from_batch("net.ip", &lines).expect("a network");
            assert_eq!(
                policies.read().expect("policies").policies(),
                net.xfrm().policies(),
                "{line}"
            );
        }
        assert!(!policies.have_changed().expect("netlink"));
        assert!(policies.read().expect("policies").is_by_host());
        if ip("xfrm policy setdefault in block fwd accept out accept") {
            assert!(policies.have_changed().expect("netlink"));
            assert!(ip("xfrm policy flush"));
            let net =
                Network::from_batch("net.ip", "link set lo up\nxfrm policy setdefault in block\n")
                    .expect("a network");
            let read = policies.read().expect("policies");
            assert_eq!(
                read,
                Config::of_host(Vec::new(), [Action::Block, Action::Allow, Action::Allow])
            );
            assert!(!net.xfrm().is_empty());
        }
    }

    #[test]
    fn truncated_and_foreign_messages_are_skipped() {
        let mut body = vec![0; HEAD];
        body[40] = libc::AF_INET as u8;
        let message =
            |body: &[u8]| Message { kind: NEW_POLICY, flags: 0, sequence: 0, body: body.to_vec() };
        assert!(read(&message(&body)).is_some());
        for len in 0..HEAD {
            assert!(read(&message(&body[..len])).is_none());
        }
        let mut of_socket = body.clone();
        of_socket[DIRECTION] = 4;
        assert!(read(&message(&of_socket)).is_none());
        crate::message::put(&mut body, IF_ID, &7u32.to_ne_bytes());
        assert!(read(&message(&body)).is_none());
    }
}
