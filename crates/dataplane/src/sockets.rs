// SPDX-License-Identifier: Apache-2.0

//! Local sockets for `socket` and `tproxy`: who embeds the path answers, or a list does.

use std::fmt;
use std::net::IpAddr;

use penstock_program::env::{LocalSocket, SocketKind, SocketQuery};

/// The host's sockets (`inet_lookup()`, `udp4_lib_lookup()` and their IPv6 kin).
pub trait Sockets: fmt::Debug + Send {
    /// The socket for a packet. Among several listeners the one bound most exactly: to the address,
    /// to the device.
    fn find(&mut self, query: &SocketQuery) -> Option<LocalSocket>;

    /// The socket with a number that [`Sockets::find`] gave.
    fn by_id(&mut self, id: u32) -> Option<LocalSocket>;

    /// The cgroup (v2) of a socket, or its ancestor at a level below the root; `None` if it is not
    /// that deep.
    fn cgroup(&mut self, id: u32, level: u32) -> Option<u64> {
        let _ = (id, level);
        None
    }
}

/// A socket of a [`SocketList`]. Ports are in host order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSocket {
    /// TCP (6) or UDP (17).
    pub protocol: u8,
    /// The address and port that it is bound to; no address for all.
    pub local: (Option<IpAddr>, u16),
    /// The other end of a connected one.
    pub remote: Option<(IpAddr, u16)>,
    /// The interface that it is bound to.
    pub device: Option<u32>,
    /// `IP_TRANSPARENT`.
    pub transparent: bool,
    /// `SO_MARK`.
    pub mark: u32,
    /// Its cgroup and the ancestors of that, from the level below the root on.
    pub cgroups: Vec<u64>,
}

/// Sockets that do not change.
#[derive(Clone, Debug, Default)]
pub struct SocketList(pub Vec<ListedSocket>);

impl ListedSocket {
    /// How well it fits, the more the better; `None` if it does not (`compute_score()`).
    fn score(&self, query: &SocketQuery) -> Option<u32> {
        let (address, port) = query.destination;
        let fits = self.protocol == query.protocol
            && self.local.1 == port
            && self.local.0.is_none_or(|local| local == address)
            && self.device.is_none_or(|device| device == query.device);
        let connected = match (self.remote, query.kind) {
            (Some(remote), SocketKind::Established | SocketKind::Any) => remote == query.source,
            (None, SocketKind::Listener | SocketKind::Any) => true,
            _ => false,
        };
        (fits && connected).then(|| {
            u32::from(self.remote.is_some()) * 4
                + u32::from(self.local.0.is_some()) * 2
                + u32::from(self.device.is_some())
        })
    }

    fn shown(&self, index: usize) -> LocalSocket {
        LocalSocket {
            id: index as u32 + 1,
            transparent: self.transparent,
            mark: Some(self.mark),
            wildcard: self.local.0.is_none_or(|a| a.is_unspecified()),
            time_wait: false,
        }
    }
}

impl Sockets for SocketList {
    fn find(&mut self, query: &SocketQuery) -> Option<LocalSocket> {
        let scored = self.0.iter().enumerate().filter_map(|(i, s)| Some((s.score(query)?, i, s)));
        // The first of equals.
        let best = scored.max_by_key(|(score, i, _)| (*score, std::cmp::Reverse(*i)));
        best.map(|(_, index, socket)| socket.shown(index))
    }

    fn by_id(&mut self, id: u32) -> Option<LocalSocket> {
        let index = (id as usize).checked_sub(1)?;
        self.0.get(index).map(|socket| socket.shown(index))
    }

    fn cgroup(&mut self, id: u32, level: u32) -> Option<u64> {
        let socket = self.0.get((id as usize).checked_sub(1)?)?;
        // Level 0 is the root, which the kernel calls 1.
        match level.checked_sub(1) {
            None => Some(1),
            Some(level) => socket.cgroups.get(level as usize).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connected_sockets_come_before_listeners_and_exact_ones_before_others() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let all = ListedSocket {
            protocol: 6,
            local: (None, 80),
            remote: None,
            device: None,
            transparent: false,
            mark: 0,
            cgroups: vec![7, 8],
        };
        let one = ListedSocket { local: (Some(ip("198.18.0.1")), 80), ..all.clone() };
        let device = ListedSocket { device: Some(2), ..all.clone() };
        let peer = (ip("198.18.0.7"), 1000);
        let connected = ListedSocket { remote: Some(peer), ..one.clone() };
        let mut list = SocketList(vec![all, one, device, connected]);
        let mut found = |kind, to: &str, port, from, device| {
            let query = SocketQuery {
                kind,
                protocol: 6,
                source: from,
                destination: (ip(to), port),
                device,
            };
            list.find(&query).map(|s| (s.id, s.wildcard))
        };
        let (any, listener, established) =
            (SocketKind::Any, SocketKind::Listener, SocketKind::Established);
        let other = (ip("198.18.0.8"), 1000);
        assert_eq!(found(any, "198.18.0.1", 80, peer, 1), Some((4, false)));
        assert_eq!(found(listener, "198.18.0.1", 80, peer, 1), Some((2, false)));
        assert_eq!(found(any, "198.18.0.1", 80, other, 1), Some((2, false)));
        assert_eq!(found(established, "198.18.0.1", 80, other, 1), None);
        assert_eq!(found(any, "198.18.0.9", 80, peer, 1), Some((1, true)));
        assert_eq!(found(any, "198.18.0.9", 80, peer, 2), Some((3, true)));
        assert_eq!(found(any, "198.18.0.9", 81, peer, 2), None);
        assert_eq!(
            (list.cgroup(1, 0), list.cgroup(1, 2), list.cgroup(1, 3)),
            (Some(1), Some(8), None)
        );
        assert_eq!((list.by_id(0), list.by_id(5)), (None, None));
    }
}
