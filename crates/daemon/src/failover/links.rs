// SPDX-License-Identifier: Apache-2.0

//! Links to the peer: a socket that receives and one that sends, each (`udp.c` and `mcast.c` of
//! conntrack-tools). Messages go by the link by which the peer sends, or by another one if that is
//! down (`multichannel.c`).

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use penstock_ctsync::config::{Addresses, Link as Config};
use penstock_print::show::peer::PeerLink;

use super::sockets::{bind, open, set, set_value};
use crate::log;

/// Bytes of the headers before the messages, by family.
const HEADERS: [usize; 2] = [20 + 8, 40 + 8];
/// How long a datagram waits for its device.
const PATIENCE: Duration = Duration::from_millis(100);
/// The longest datagram.
pub(super) const LONGEST: usize = 65_535;

/// A link.
struct Link {
    device: String,
    receives: UdpSocket,
    sends: UdpSocket,
    peer: SocketAddr,
    /// Bytes of messages in a datagram.
    room: usize,
    up: bool,
    sent: u64,
    failed: u64,
    received: u64,
}

/// All links; there is at least one.
pub(crate) struct Links {
    all: Vec<Link>,
    active: usize,
}

/// Asks for something of a device.
fn ask(socket: &UdpSocket, request: libc::Ioctl, device: &str) -> io::Result<libc::ifreq> {
    let mut device = named(device)?;
    // SAFETY: the structure lives through the call, and has the name of a device that ends with a
    // zero.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut device) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(device) }
}

/// What requests about a device of this name begin with.
fn named(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeroes are a valid value of it.
    let mut name: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= name.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    name.ifr_name.iter_mut().zip(device.bytes()).for_each(|(to, from)| *to = from as _);
    Ok(name)
}

/// An address on a device: link-local addresses of IPv6 need that.
fn on_device(address: IpAddr, port: u16, index: u32) -> SocketAddr {
    match address {
        IpAddr::V4(_) => (address, port).into(),
        IpAddr::V6(address) => {
            let local = address.is_unicast_link_local() || address.is_multicast();
            SocketAddrV6::new(address, port, 0, if local { index } else { 0 }).into()
        }
    }
}

/// `SO_NO_CHECK`: checksums are not computed.
const SO_NO_CHECK: i32 = libc::SO_NO_CHECK;

impl Link {
    fn open(config: &Config) -> io::Result<Self> {
        let text = CString::new(config.device.as_str())?;
        // SAFETY: the name ends with a zero, and lives through the call.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let (bound, peer) = match config.addresses {
            Addresses::Unicast { own, peer } => (own, peer),
            Addresses::Multicast { group: IpAddr::V4(group), .. } => {
                (Ipv4Addr::UNSPECIFIED.into(), group.into())
            }
            Addresses::Multicast { group: IpAddr::V6(group), .. } => {
                (Ipv6Addr::UNSPECIFIED.into(), group.into())
            }
        };
        let v4 = peer.is_ipv4();
        let socket = || open(v4, libc::SOCK_DGRAM).map(UdpSocket::from);
        let (receives, sends) = (socket()?, socket()?);
        // Many datagrams at once wait for the device, as conntrackd's do.
        sends.set_nonblocking(false)?;
        sends.set_write_timeout(Some(PATIENCE))?;
        set(&receives, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        if !v4 {
            set(&receives, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        if let Some(bytes) = config.receive_buffer {
            buffer(&receives, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], bytes)?;
        }
        if let Some(bytes) = config.send_buffer {
            buffer(&sends, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], bytes)?;
        }
        if !config.checksum {
            set(&sends, libc::SOL_SOCKET, SO_NO_CHECK, 1)?;
        }
        bind(&receives, on_device(bound, config.port, index))?;
        if let Addresses::Multicast { group, device } = config.addresses {
            join(&receives, &sends, group, device, index)?;
        }
        let answer = ask(&sends, libc::SIOCGIFMTU as libc::Ioctl, &config.device)?;
        // SAFETY: this request fills the MTU.
        let mtu = usize::try_from(unsafe { answer.ifr_ifru.ifru_mtu }).unwrap_or_default();
        let room = mtu.clamp(576, LONGEST) - HEADERS[usize::from(!v4)];
        let mut link = Link {
            device: config.device.clone(),
            receives,
            sends,
            peer: on_device(peer, config.port, index),
            room,
            up: true,
            sent: 0,
            failed: 0,
            received: 0,
        };
        link.look();
        Ok(link)
    }

    /// Looks whether the device is up. One that is not there is not.
    fn look(&mut self) {
        const RUNS: i16 = libc::IFF_UP as i16 | libc::IFF_RUNNING as i16;
        let answer = ask(&self.sends, libc::SIOCGIFFLAGS as libc::Ioctl, &self.device);
        // SAFETY: this request fills the flags.
        self.up = answer.is_ok_and(|answer| unsafe { answer.ifr_ifru.ifru_flags } & RUNS == RUNS);
    }
}

/// Sets the size of a buffer, beyond the system's limit where that is allowed.
fn buffer(socket: &UdpSocket, [force, ask]: [i32; 2], bytes: u32) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set(socket, libc::SOL_SOCKET, force, bytes)
        .or_else(|_| set(socket, libc::SOL_SOCKET, ask, bytes))
}

fn join(
    receives: &UdpSocket,
    sends: &UdpSocket,
    group: IpAddr,
    device: Option<Ipv4Addr>,
    index: u32,
) -> io::Result<()> {
    match group {
        IpAddr::V4(group) => {
            let own = device.unwrap_or(Ipv4Addr::UNSPECIFIED);
            let address = |a: Ipv4Addr| libc::in_addr { s_addr: u32::from_ne_bytes(a.octets()) };
            let member = libc::ip_mreqn {
                imr_multiaddr: address(group),
                imr_address: address(own),
                imr_ifindex: i32::try_from(index).unwrap_or_default(),
            };
            set_value(receives, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &member)?;
            set_value(sends, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &member)?;
            set(sends, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)
        }
        IpAddr::V6(group) => {
            receives.join_multicast_v6(&group, index)?;
            let index = i32::try_from(index).unwrap_or_default();
            set(sends, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, index)?;
            set(sends, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, 0)
        }
    }
}

impl Links {
    /// Opens the links.
    ///
    /// # Errors
    /// A device is not there, or an address cannot be had: a sentence.
    pub(crate) fn open(configs: &[Config]) -> Result<Self, String> {
        let mut all = Vec::new();
        for config in configs {
            let link = Link::open(config);
            all.push(link.map_err(|e| format!("sync: the link on {}: {e}", config.device))?);
        }
        let active = configs.iter().position(|config| config.first).unwrap_or(0);
        Ok(Links { all, active })
    }

    /// What is waited for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(|link| link.receives.as_fd())
    }

    /// How many bytes of messages a datagram has.
    pub(super) fn room(&self) -> usize {
        self.all.get(self.active).map_or(548, |link| link.room)
    }

    /// Sends a datagram by the active link. What cannot be sent is counted; the peer asks for it
    /// again, if the mode has that.
    pub(super) fn send(&mut self, datagram: &[u8]) {
        let Some(link) = self.all.get_mut(self.active) else { return };
        match link.sends.send_to(datagram, link.peer) {
            Ok(_) => link.sent += 1,
            Err(_) => link.failed += 1,
        }
    }

    /// Receives a datagram by a link, by its number; nothing if none is there.
    pub(super) fn receive(&mut self, number: usize, into: &mut [u8]) -> Option<usize> {
        let link = self.all.get_mut(number)?;
        let (len, _) = link.receives.recv_from(into).ok()?;
        link.received += 1;
        Some(len)
    }

    /// The peer has sent by this link: it is used.
    pub(super) fn use_link(&mut self, number: usize) {
        if number < self.all.len() {
            self.active = number;
        }
    }

    /// Looks at all devices; if that of the active link is down, another one is used.
    pub(super) fn look(&mut self) {
        self.all.iter_mut().for_each(Link::look);
        let active_is_up = self.all.get(self.active).is_some_and(|link| link.up);
        if !active_is_up && let Some(other) = self.all.iter().position(|link| link.up) {
            self.active = other;
            let device = self.all.get(other).map_or("", |link| &link.device);
            log(format_args!("messages to the peer go by {device}"));
        }
    }

    /// How they are.
    pub(super) fn status(&self) -> Vec<PeerLink> {
        let status = |(number, link): (usize, &Link)| PeerLink {
            device: link.device.clone(),
            up: link.up,
            active: number == self.active,
            sent: link.sent,
            failed: link.failed,
            received: link.received,
        };
        self.all.iter().enumerate().map(status).collect()
    }
}
