// SPDX-License-Identifier: Apache-2.0

//! Traffic of all kinds, from threads that stand in the neighbours' namespaces. It stops while
//! [`Pause`] says so.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::build::*;

use crate::lab::{Lab, enter};

/// Controls when there is traffic.
#[derive(Clone, Default)]
pub struct Pause {
    paused: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    /// Packets, connections and requests that were made.
    pub made: Arc<AtomicU64>,
}

impl Pause {
    pub fn set(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
    }

    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// Waits for `micros`, and during pauses; `false` at the end.
    fn next(&self, micros: u64) -> bool {
        std::thread::sleep(Duration::from_micros(micros));
        while self.paused.load(Relaxed) && !self.ended.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.made.fetch_add(1, Relaxed);
        !self.ended.load(Relaxed)
    }
}

/// Starts all of it.
pub fn start(lab: &Lab, pause: &Pause, seed: u64) -> Vec<JoinHandle<()>> {
    let (a, b, c, d) = (lab.net.a.clone(), lab.net.b.clone(), lab.c.clone(), lab.d.clone());
    let mut threads = Vec::new();
    let mut rng = Rng::with_seed(seed);
    let mut go = |namespace: &str, name: &str, work: fn(&Pause, &mut Rng)| {
        let (namespace, pause, mut rng) = (namespace.to_owned(), pause.clone(), rng.fork());
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            enter(&namespace);
            work(&pause, &mut rng);
        });
        threads.push(thread.unwrap());
    };
    for namespace in [&a, &b, &c, &d] {
        go(namespace, "echo", serve);
    }
    go(&a, "files", files);
    go(&a, "connections", |pause, rng| connections(pause, rng, "198.18.1.2:7"));
    go(&c, "connections", |pause, rng| connections(pause, rng, "198.18.1.2:7"));
    go(&c, "connections", |pause, rng| connections(pause, rng, "198.18.2.3:7"));
    go(&b, "connections", |pause, rng| connections(pause, rng, "[2001:db8:2::2]:7"));
    go(&a, "datagrams", datagrams);
    go(&d, "datagrams", datagrams);
    go(&a, "frames", |pause, rng| {
        frames(pause, rng, "a0", "02:00:00:00:00:0a", "198.18.0.2", "2001:db8::2")
    });
    go(&b, "frames", |pause, rng| {
        frames(pause, rng, "b0", "02:00:00:00:00:0b", "198.18.1.2", "2001:db8:1::2")
    });
    go(&c, "frames", |pause, rng| {
        frames(pause, rng, "e0", "02:00:00:00:03:00", "198.18.2.2", "2001:db8:2::2")
    });
    threads
}

/// Echoes TCP and UDP on port 7.
fn serve(pause: &Pause, _rng: &mut Rng) {
    let listener = TcpListener::bind("[::]:7").unwrap();
    listener.set_nonblocking(true).unwrap();
    let datagrams = UdpSocket::bind("[::]:7").unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let mut open: Vec<TcpStream> = Vec::new();
    let mut bytes = [0; 65536];
    while !pause.ended.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
        while let Ok((stream, _)) = listener.accept() {
            // The oldest is given up: its client may have vanished.
            if open.len() >= 256 {
                open.remove(0);
            }
            if stream.set_nonblocking(true).is_ok() {
                open.push(stream);
            }
        }
        while let Ok((len, peer)) = datagrams.recv_from(&mut bytes) {
            let _ = datagrams.send_to(&bytes[..len.min(600)], peer);
        }
        open.retain_mut(|stream| match stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(len) => stream.write_all(&bytes[..len]).is_ok(),
            Err(e) => e.kind() == std::io::ErrorKind::WouldBlock,
        });
    }
}

/// Files by curl, to the server's own address and to a translated one.
fn files(pause: &Pause, rng: &mut Rng) {
    while pause.next(100_000) {
        let url = *choice(rng, &["198.18.1.2:80", "[2001:db8:1::2]:80", "198.19.0.1:8080"]);
        let url = format!("http://{url}/file");
        let mut curl = Command::new("curl");
        let _ = curl
            .args(["-s", "-o", "/dev/null", "--max-time", "5", &url])
            .stderr(Stdio::null())
            .status();
    }
}

/// Short connections, of which some end without a word.
fn connections(pause: &Pause, rng: &mut Rng, to: &str) {
    let to: SocketAddr = to.parse().unwrap();
    let mut kept = Vec::new();
    while pause.next(20_000) {
        let Ok(mut stream) = TcpStream::connect_timeout(&to, Duration::from_millis(500)) else {
            continue;
        };
        let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
        let len = rng.usize(1..4000);
        let _ = stream.write_all(&vec![7; len]);
        let _ = stream.read(&mut [0; 4096]);
        if rng.u8(..) < 40 {
            // A reset.
            let linger = libc::linger { l_onoff: 1, l_linger: 0 };
            // SAFETY: the structure lives through the call, and its size is its own.
            unsafe {
                libc::setsockopt(
                    stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const linger).cast(),
                    size_of_val(&linger) as u32,
                );
            }
        } else if rng.u8(..) < 40 {
            kept.push(stream);
            if kept.len() > 20 {
                kept.remove(0);
            }
        }
    }
}

/// Single datagrams to known and unknown neighbours, answered, refused, and of all lengths.
fn datagrams(pause: &Pause, rng: &mut Rng) {
    let four = UdpSocket::bind("0.0.0.0:0").unwrap();
    let six = UdpSocket::bind("[::]:0").unwrap();
    for socket in [&four, &six] {
        socket.set_nonblocking(true).unwrap();
    }
    let mut bytes = [0; 65536];
    while pause.next(4_000) {
        let port = *choice(rng, &[7, 7, 7, 9, 53, 33434, rng.clone().u16(1..)]);
        let len = *choice(rng, &[0, 1, 40, 500, 1472, 1473, 3000, 9000, 60_000]);
        let last = *choice(rng, &[1, 2, 2, 2, 3, 77, 78, 255]);
        let to: SocketAddr = match rng.u8(..8) {
            0..3 => (Ipv4Addr::new(198, 18, rng.u8(..3), last), port).into(),
            3 => (Ipv4Addr::new(198, 19, rng.u8(..), rng.u8(..)), port).into(),
            4..7 => format!("[2001:db8:{}::{last:x}]:{port}", rng.u8(..3)).parse().unwrap(),
            _ => (Ipv4Addr::new(239, 1, 2, 3), port).into(),
        };
        let socket = if to.is_ipv4() { &four } else { &six };
        let len = if len > 3000 && rng.u8(..) > 30 { 100 } else { len };
        let _ = socket.send_to(&bytes[..len], to);
        // What is answered or refused is taken up.
        while four.recv_from(&mut bytes).is_ok() || six.recv_from(&mut bytes).is_ok() {}
    }
}

fn choice<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.usize(..all.len())]
}

/// A socket for whole frames on a device, which receives nothing.
fn raw(device: &str) -> Option<(OwnedFd, libc::sockaddr_ll)> {
    let name = std::ffi::CString::new(device).unwrap();
    // SAFETY: the name ends with a zero byte and lives through the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return None;
    }
    // SAFETY: no pointer is given.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return None;
    }
    // SAFETY: a new descriptor without another owner; an address of zeros is valid.
    let (socket, mut to) =
        unsafe { (OwnedFd::from_raw_fd(socket), std::mem::zeroed::<libc::sockaddr_ll>()) };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_ifindex = index as i32;
    Some((socket, to))
}

fn send(socket: &(OwnedFd, libc::sockaddr_ll), frame: &[u8]) -> bool {
    let (socket, to) = socket;
    let len = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: frame and address live through the call, and the lengths are theirs.
    unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            libc::MSG_DONTWAIT,
            (to as *const libc::sockaddr_ll).cast(),
            len,
        ) >= 0
    }
}

/// Frames that no program would send: floods of SYNs, fragments that do not fit, errors about
/// nothing, headers that lie.
fn frames(pause: &Pause, rng: &mut Rng, device: &str, router: &str, own: &str, own6: &str) {
    let mut socket = None;
    while pause.next(3_000) {
        if socket.is_none() {
            socket = raw(device);
        }
        let Some(there) = &socket else { continue };
        let mut sent = true;
        for frame in odd(rng, router, own, own6) {
            sent &= send(there, &frame)
                || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENXIO);
        }
        if !sent {
            // The device is gone.
            socket = None;
        }
    }
}

fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.u8(..)).collect()
}

fn odd(rng: &mut Rng, router: &str, own: &str, own6: &str) -> Vec<Vec<u8>> {
    let link = |rng: &mut Rng| match rng.u8(..16) {
        0 => Ethernet::new("02:00:00:00:99:99", "ff:ff:ff:ff:ff:ff"),
        1 => Ethernet::new("02:00:00:00:99:98", "01:00:5e:01:02:03"),
        2 => Ethernet::new("02:00:00:00:99:97", "02:00:00:00:77:77"),
        _ => Ethernet::new("02:00:00:00:99:96", router),
    };
    let far = format!("198.18.{}.{}", rng.u8(..3), choice(rng, &[1u8, 2, 2, 3, 200]));
    let far6 = format!("2001:db8:{}::{}", rng.u8(..3), choice(rng, &[1u8, 2, 2, 3]));
    let (far, far6) = (&*far, &*far6);
    // Neighbours that are there keep their link addresses.
    let nobody = Ipv4Addr::new(198, 18, rng.u8(..3), 201);
    let port = rng.u16(1024..);
    let one = |frame: Vec<u8>| vec![frame];
    match rng.u8(..20) {
        // A flood of SYNs from everywhere.
        0 | 1 => (0..16)
            .map(|_| {
                let from = Ipv4Addr::from(0xc612_0000 | u32::from(rng.u16(..)));
                (link(rng) / Ipv4::new(from, far) / Tcp::new(rng.u16(1..), 7).syn()).build()
            })
            .collect(),
        // Fragments: whole, some missing, twice, in any order.
        2..5 => {
            let len = rng.usize(1600..4000);
            let whole = (link(rng)
                / Ipv4::new(own, far).id(rng.u16(..))
                / Udp::new(port, 7)
                / payload(random(rng, len)))
            .build();
            let mut parts = fragments(&whole, 1000, 0);
            rng.shuffle(&mut parts);
            if rng.bool() {
                parts.pop();
            }
            if rng.u8(..) < 60
                && let Some(part) = parts.first().cloned()
            {
                parts.push(part);
            }
            parts
        }
        5 | 6 => {
            let len = rng.usize(1600..4000);
            let whole =
                (link(rng) / Ipv6::new(own6, far6) / Udp::new(port, 7) / payload(random(rng, len)))
                    .build();
            let mut parts = fragments(&whole, 1280, rng.u32(..));
            rng.shuffle(&mut parts);
            if rng.bool() {
                parts.pop();
            }
            parts
        }
        // An error about a packet that was never sent, or perhaps was.
        7 => {
            let about = (Ethernet::new("02:00:00:00:00:01", router)
                / Ipv4::new(far, own)
                / Udp::new(7, port))
            .build();
            let kind = *choice(rng, &[3, 4, 5, 11, 12]);
            one((link(rng)
                / Ipv4::new(far, own)
                / Icmp::new(kind, rng.u8(..6))
                / payload(&about[14..]))
            .build())
        }
        8 => one((link(rng) / Arp::request("02:00:00:00:99:96", nobody, far)).build()),
        9 => one((Ethernet::new("02:00:00:00:99:96", "ff:ff:ff:ff:ff:ff")
            / Arp::request("02:00:00:00:99:96", nobody, far))
        .build()),
        // TTL and hop limit run out.
        10 => one((link(rng) / Ipv4::new(own, far).ttl(1) / Udp::new(port, 7)).build()),
        11 => one((link(rng) / Ipv6::new(own6, far6).hop_limit(1) / Udp::new(port, 7)).build()),
        // Checksums, lengths and cuts.
        12 => {
            one((link(rng) / Ipv4::new(own, far).checksum(rng.u16(..)) / Udp::new(port, 7)).build())
        }
        13 => {
            one((link(rng) / Ipv4::new(own, far).total_len(rng.u16(..)) / Udp::new(port, 7))
                .build())
        }
        14 => {
            let cut = rng.usize(..60);
            one((link(rng)
                / Ipv6::new(own6, far6)
                / Tcp::new(port, 7).ack(1)
                / payload(random(rng, 30)))
            .truncate(cut)
            .build())
        }
        // Unknown tags and protocols.
        15 => {
            one((link(rng) / Vlan::new(rng.u16(1..4000)) / Ipv4::new(own, far) / Udp::new(port, 7))
                .build())
        }
        16 => one((link(rng) / payload(random(rng, 60))).build()),
        17 => one((link(rng) / Ipv4::new(own, far) / payload(random(rng, 60))).build()),
        18 => {
            let header = DestOptions::new().option(rng.u8(..), &[0; 4]);
            one((link(rng) / Ipv6::new(own6, far6) / header / Udp::new(port, 7)).build())
        }
        // Random bytes after a valid header.
        _ => {
            let mut frame = (link(rng)
                / Ipv4::new(own, far)
                / Tcp::new(port, 7).ack(1)
                / payload(random(rng, 40)))
            .build();
            let at = rng.usize(14..frame.len());
            frame[at] = rng.u8(..);
            one(frame)
        }
    }
}
