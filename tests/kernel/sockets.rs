// SPDX-License-Identifier: Apache-2.0

//! The sockets through which frames get into and out of a kernel: AF_PACKET at the far ends of the
//! wires, raw IP sockets for the host's own packets, and nflog for what is delivered to the host.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::nfnl_socket::{Nfnetlink, attributes};

fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointer; a returned descriptor has no other owner.
    unsafe {
        match libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn option<T>(fd: &impl AsRawFd, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: the pointer is to a live value of the length given.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn checked(n: isize) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// An AF_PACKET socket on a device of the present namespace.
pub struct Wire {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Wire {
    /// Opens it; with `receive`, frames that the device receives are queued.
    pub fn open(device: &str, receive: bool) -> io::Result<Wire> {
        let name = CString::new(device)?;
        // SAFETY: the name is a C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        if receive {
            const PACKET_IGNORE_OUTGOING: i32 = 23;
            option(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
            option(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
            option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20)?;
        }
        // SAFETY: a zeroed sockaddr_ll is valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receive { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
        address.sll_ifindex = index as i32;
        // SAFETY: the pointer is to a live sockaddr_ll of the length given.
        let rc = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Wire { fd, buffer: vec![0; 128 << 10] })
    }

    /// Sends a frame. The receiving stack has processed it when this returns, or does so in the
    /// softirq right after.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and length are those of a live slice.
        let n = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        checked(n).map(drop)
    }

    /// A received frame, its VLAN tag put back, or `None` if none is queued.
    pub fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut control = [0u64; 16];
        let mut part =
            libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        // SAFETY: a zeroed msghdr is valid; its pointers are set to live buffers of the lengths
        // given.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: as above.
        let n = match checked(unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, 0) }) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut frame = self.buffer[..n].to_vec();
        // SAFETY: the control buffer was filled by the kernel and is walked with its own macros.
        unsafe {
            let mut c = libc::CMSG_FIRSTHDR(&raw const message);
            while !c.is_null() {
                if (*c).cmsg_level == libc::SOL_PACKET && (*c).cmsg_type == libc::PACKET_AUXDATA {
                    let aux: libc::tpacket_auxdata =
                        std::ptr::read_unaligned(libc::CMSG_DATA(c).cast());
                    if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && frame.len() >= 12 {
                        let tag = [aux.tp_vlan_tpid.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes()]
                            .concat();
                        frame.splice(12..12, tag);
                    }
                }
                c = libc::CMSG_NXTHDR(&raw const message, c);
            }
        }
        Ok(Some(frame))
    }
}

/// Sends IP packets with their headers as the host's own.
pub struct Host {
    v4: OwnedFd,
    v6: OwnedFd,
}

impl Host {
    /// Opens the sockets in the present namespace.
    pub fn open() -> io::Result<Host> {
        Ok(Host {
            v4: socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW)?,
            v6: socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_RAW)?,
        })
    }

    /// Sends a packet; its destination address says where to. A refusal of the kernel (no route,
    /// too long, dropped) is part of what is observed and no error.
    pub fn send(&self, packet: &[u8]) {
        // SAFETY: zeroed socket addresses are valid; pointers and lengths are those of live values.
        unsafe {
            if packet.first().is_some_and(|b| b >> 4 == 4) && packet.len() >= 20 {
                let mut to: libc::sockaddr_in = zeroed();
                to.sin_family = libc::AF_INET as u16;
                to.sin_addr.s_addr =
                    u32::from_ne_bytes([packet[16], packet[17], packet[18], packet[19]]);
                let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
                let fd = self.v4.as_raw_fd();
                libc::sendto(
                    fd,
                    packet.as_ptr().cast(),
                    packet.len(),
                    0,
                    (&raw const to).cast(),
                    len,
                );
            } else if packet.len() >= 40 {
                let mut to: libc::sockaddr_in6 = zeroed();
                to.sin6_family = libc::AF_INET6 as u16;
                to.sin6_addr.s6_addr.copy_from_slice(&packet[24..40]);
                let len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
                let fd = self.v6.as_raw_fd();
                libc::sendto(
                    fd,
                    packet.as_ptr().cast(),
                    packet.len(),
                    0,
                    (&raw const to).cast(),
                    len,
                );
            }
        }
    }
}

/// Sockets that take ESP in UDP at a port, one of each family, without a policy of their own, as a
/// key exchange daemon has them.
pub fn esp_in_udp(port: u16) -> io::Result<[UdpSocket; 2]> {
    const UDP_ENCAP: i32 = 100;
    const UDP_ENCAP_ESPINUDP: i32 = 2;
    const XFRM_POLICY: [(i32, i32); 2] = [(libc::IPPROTO_IP, 17), (libc::IPPROTO_IPV6, 35)];
    // The socket for IPv4 comes first: one for both families would be in its way.
    let four = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
    let six = socket(libc::AF_INET6, libc::SOCK_DGRAM, 0)?;
    option(&six, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    // SAFETY: a zeroed address is valid, and is live with the length given.
    unsafe {
        let mut address: libc::sockaddr_in6 = zeroed();
        address.sin6_family = libc::AF_INET6 as u16;
        address.sin6_port = port.to_be();
        let length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        if libc::bind(six.as_raw_fd(), (&raw const address).cast(), length) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let sockets = [four, UdpSocket::from(six)];
    for (socket, (level, name)) in sockets.iter().zip(XFRM_POLICY) {
        option(socket, libc::IPPROTO_UDP, UDP_ENCAP, UDP_ENCAP_ESPINUDP)?;
        // `struct xfrm_userpolicy_info` that allows everything: family and direction are not zero.
        let mut policy = [0u8; 168];
        policy[40] = if level == libc::IPPROTO_IP { libc::AF_INET } else { libc::AF_INET6 } as u8;
        for direction in [0, 1] {
            policy[160] = direction;
            option(socket, level, name, policy)?;
        }
    }
    Ok(sockets)
}

/// Listens to a group of nflog in the present namespace.
pub struct Log(Nfnetlink);

impl Log {
    /// Binds the group, asking for whole packets.
    pub fn open(group: u16) -> io::Result<Log> {
        let socket = Nfnetlink::open()?;
        socket.listen_to_log(group)?;
        Ok(Log(socket))
    }

    /// Forgets all connections that the kernel tracks in the namespace of this socket
    /// (`conntrack -F`).
    pub fn forget_connections(&self) -> io::Result<()> {
        const CTNETLINK: u8 = 1;
        const DELETE: u8 = 2;
        // Without anything that says which.
        match self.0.ask(CTNETLINK, DELETE, 0, &[]) {
            // A kernel without connection tracking has none to forget.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            answer => answer,
        }
    }

    /// Appends the packets that are queued.
    pub fn receive(&mut self, packets: &mut Vec<Vec<u8>>) -> io::Result<()> {
        const PAYLOAD: u16 = 9;
        for message in self.0.messages()? {
            let found = attributes(message.get(20..).unwrap_or_default());
            let payload = found.into_iter().find(|(kind, _)| *kind == PAYLOAD);
            packets.extend(payload.map(|(_, bytes)| bytes.to_vec()));
        }
        Ok(())
    }
}
