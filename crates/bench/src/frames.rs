// SPDX-License-Identifier: Apache-2.0

//! Frames in memory, of 60 bytes if nothing else is said, few that stay in the cache or many that do
//! not.

use std::cell::LazyCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::rc::Rc;

use penstock_testkit::build::*;

/// Bytes from one frame to the next where frames are cold: not a power of two, which would put all
/// of them into few sets of the cache.
const COLD: usize = 2112;
/// Bytes from one frame to the next where frames are hot.
const HOT: usize = 64;

/// Frames at fixed distances in one piece of memory.
pub(crate) struct Frames {
    memory: Vec<u8>,
    places: Vec<(u32, u16)>,
}

impl Frames {
    fn spaced(frames: impl Iterator<Item = Vec<u8>>, distance: usize) -> Self {
        let (mut memory, mut places) = (Vec::new(), Vec::new());
        for frame in frames {
            let at = memory.len();
            places.push((at as u32, frame.len() as u16));
            let room = distance.max(frame.len().next_multiple_of(HOT));
            memory.extend_from_slice(&frame);
            memory.resize(at + room, 0);
        }
        Frames { memory, places }
    }

    /// Frames that stay in the cache.
    pub(crate) fn hot(frames: impl Iterator<Item = Vec<u8>>) -> Self {
        Self::spaced(frames, HOT)
    }

    /// Frames far from each other.
    pub(crate) fn cold(frames: impl Iterator<Item = Vec<u8>>) -> Self {
        Self::spaced(frames, COLD)
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// So many at a time.
    pub(crate) fn bursts(&self, burst: usize) -> impl Iterator<Item = impl Iterator<Item = &[u8]>> {
        self.places.chunks(burst).map(|places| {
            places.iter().map(|&(at, len)| {
                let at = at as usize;
                self.memory.get(at..at + usize::from(len)).unwrap_or_default()
            })
        })
    }
}

/// Makes frames, once.
type Make = Box<dyn FnOnce() -> Rc<Frames>>;

/// Frames that several variants share, made when the first of them runs.
#[derive(Clone)]
pub(crate) struct Later {
    len: usize,
    frames: Rc<LazyCell<Rc<Frames>, Make>>,
}

impl Later {
    /// So many frames.
    pub(crate) fn new(len: usize, make: impl FnOnce() -> Frames + 'static) -> Self {
        Later { len, frames: Rc::new(LazyCell::new(Box::new(|| Rc::new(make())))) }
    }

    /// Flows in frames that stay in the cache.
    pub(crate) fn hot(flows: u32, frame: impl Fn(u32) -> Vec<u8> + 'static) -> Self {
        Self::new(flows as usize, move || Frames::hot((0..flows).map(frame)))
    }

    /// How many.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }
}

impl Deref for Later {
    type Target = Rc<Frames>;

    fn deref(&self) -> &Rc<Frames> {
        let frames = &**self.frames;
        assert_eq!(frames.len(), self.len, "frames");
        frames
    }
}

/// A UDP frame of 60 bytes from the clients' side to the servers'.
pub(crate) fn udp(source: [u8; 4], sport: u16, destination: [u8; 4], dport: u16) -> Vec<u8> {
    let ether = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:02");
    let ip = Ipv4::new(Ipv4Addr::from(source), Ipv4Addr::from(destination));
    (ether / ip / Udp::new(sport, dport) / payload([0; 18])).build()
}

/// A frame of TCP of 60 bytes from the clients' side to the servers', in the middle of its
/// connection: both sides have sent a SYN with sequence number 0 before.
pub(crate) fn tcp_flow(n: u32, destination: [u8; 4], dport: u16) -> Vec<u8> {
    let [_, _, c, d] = (n % 60_000 + 256).to_be_bytes();
    let sport = 1024 + (n / 60_000 * 97 + n % 97) as u16;
    let ether = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:02");
    let ip = Ipv4::new(Ipv4Addr::from([198, 18, c, d]), Ipv4Addr::from(destination));
    let segment = Tcp::new(sport, dport).flags(0x18).seq(1).ack(1).window(30_000);
    (ether / ip / segment / payload([0; 6])).build()
}

/// Flow number `n` to one server: 10,000 clients and ports of all kinds.
pub(crate) fn flow(n: u32, dport: u16) -> Vec<u8> {
    flow_to(n, [198, 19, 0, 7], dport)
}

/// Flow number `n` to an address.
pub(crate) fn flow_to(n: u32, destination: [u8; 4], dport: u16) -> Vec<u8> {
    let [_, _, c, d] = (n % 60_000 + 256).to_be_bytes();
    udp([198, 18, c, d], 1024 + (n / 60_000 * 97 + n % 97) as u16, destination, dport)
}

/// Flow number `n` to one server over IPv6: 62 bytes, without payload.
pub(crate) fn flow6(n: u32, dport: u16) -> Vec<u8> {
    flow6_to(n, Ipv6Addr::from(0x2001_0db8_0002_0000_0000_0000_0000_0007), dport)
}

/// Flow number `n` to an IPv6 address: 62 bytes, without payload.
pub(crate) fn flow6_to(n: u32, destination: Ipv6Addr, dport: u16) -> Vec<u8> {
    let ether = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:02");
    let source =
        Ipv6Addr::from(0x2001_0db8_0001_0000_0000_0000_0000_0000 | u128::from(n % 60_000 + 256));
    let ip = Ipv6::new(source, destination);
    let sport = 1024 + (n / 60_000 * 97 + n % 97) as u16;
    (ether / ip / Udp::new(sport, dport)).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_sixty_bytes_and_flows_differ() {
        let frames: std::collections::HashSet<_> =
            (0..200_000).step_by(7).map(|n| flow(n, 9)).collect();
        assert_eq!(frames.len(), 200_000usize.div_ceil(7));
        assert!(frames.iter().all(|f| f.len() == 60));
        let v6: std::collections::HashSet<_> = (0..1000).map(|n| flow6(n, 9)).collect();
        assert!(v6.len() == 1000 && v6.iter().all(|f| f.len() == 62));
        let cold = Frames::cold((0..10).map(|n| flow(n, 9)));
        let all: Vec<&[u8]> = cold.bursts(4).flatten().collect();
        assert_eq!(all, (0..10).map(|n| flow(n, 9)).collect::<Vec<_>>());
    }
}
