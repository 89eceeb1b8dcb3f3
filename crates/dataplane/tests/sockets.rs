// SPDX-License-Identifier: Apache-2.0

//! Rules that ask about local sockets and operating systems.

mod router;

use std::sync::Arc;

use penstock_dataplane::{Dataplane, Fingerprints, Frame, ListedSocket, Sink, SocketList};
use penstock_net::Link;
use penstock_packet::{Meta, Packet};
use penstock_program::expr::*;
use penstock_program::{Data, Hook, Register};
use penstock_ruleset::Family;
use penstock_testkit::build::*;
use router::*;

/// Sockets of what is delivered.
#[derive(Default)]
struct Delivered(Vec<u32>);

impl Sink for Delivered {
    fn transmit(&mut self, _device: &Link, _frame: &[u8], _meta: &Meta) {}
    fn deliver(&mut self, _device: &Link, packet: &Packet) {
        self.0.push(packet.meta.socket);
    }
}

fn delivered(path: &mut Dataplane, frame: &[u8]) -> Vec<u32> {
    let mut sink = Delivered::default();
    let device = path.network().link_by_name("wan").unwrap().index;
    path.receive([Frame { device, bytes: frame, time: START }], &mut sink);
    sink.0
}

fn listener(port: u16, transparent: bool) -> ListedSocket {
    ListedSocket {
        protocol: 6,
        local: (None, port),
        remote: None,
        device: None,
        transparent,
        mark: 5,
        cgroups: vec![],
    }
}

fn syn(to: &str, port: u16) -> Vec<u8> {
    (from_wan() / Ipv4::new("198.18.0.7", to) / Tcp::new(1000, port).syn()).build()
}

#[test]
fn tproxy_assigns_packets_for_others_to_a_listener() {
    let mut path = router(NET);
    let port =
        Immediate { dreg: Register(1), data: ImmediateData::Value(Data::new(&[0x0b, 0xb8])) };
    let tproxy = Expr::Tproxy(Tproxy { family: 2, addr: None, port: Some(Register(1)) });
    let bases = || {
        let rule = vec![Expr::Immediate(port.clone()), tproxy.clone(), counter()];
        vec![Base::new(Family::Ip, "c", Hook::Prerouting, vec![rule])]
    };
    let ruleset = load(&mut path, bases());
    assert_eq!(delivered(&mut path, &syn("198.18.0.1", 80)), [0]);
    path.set_sockets(Box::new(SocketList(vec![listener(80, true), listener(3000, true)])));
    assert_eq!(delivered(&mut path, &syn("198.18.0.1", 80)), [2]);
    assert_eq!(counters(&ruleset)[0].0, 1);
    path.set_sockets(Box::new(SocketList(vec![listener(3000, false)])));
    assert_eq!(delivered(&mut path, &syn("198.18.0.1", 80)), [0]);
}

#[test]
fn socket_finds_who_a_packet_is_for() {
    let mut path = router(NET);
    let load_mark = Expr::Socket(Socket { key: SocketKey::Mark, level: 0, dreg: Register(1) });
    let is_5 = Cmp { op: CmpOp::Eq, sreg: Register(1), data: Data::new(&5u32.to_ne_bytes()) };
    let rule = vec![load_mark, Expr::Cmp(is_5), counter()];
    let ruleset = load(&mut path, vec![Base::new(Family::Ip, "c", Hook::Input, vec![rule])]);
    path.set_sockets(Box::new(SocketList(vec![listener(80, false)])));
    for (port, count) in [(80, 1), (81, 1), (80, 2)] {
        delivered(&mut path, &syn("198.18.0.1", port));
        assert_eq!(counters(&ruleset)[0].0, count);
    }
}

#[test]
fn osf_matches_every_database_entry() {
    let name = |text: &str| {
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        let cmp = Cmp { op: CmpOp::Eq, sreg: Register(1), data: Data::new(&bytes) };
        vec![
            Expr::Osf(Osf { ttl: 0, version: false, dreg: Register(1) }),
            Expr::Cmp(cmp),
            counter(),
        ]
    };
    let mut path = router(NET);
    let rules = vec![name("unknown"), name("BareSYN")];
    let ruleset = load(&mut path, vec![Base::new(Family::Ip, "c", Hook::Input, rules)]);
    let counts = |path: &mut Dataplane| {
        delivered(path, &syn("198.18.0.1", 80));
        counters(&ruleset).iter().map(|c| c.0).collect::<Vec<_>>()
    };
    assert_eq!(counts(&mut path), [1, 0]);
    let known = Fingerprints::parse("*:64:0:40:.:BareSYN:1::a SYN without options").unwrap();
    path.set_fingerprints(Arc::new(known));
    assert_eq!(counts(&mut path), [1, 1]);
}
