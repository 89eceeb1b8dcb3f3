// SPDX-License-Identifier: Apache-2.0

//! What goes in at one end comes out at the other, for everything that a state can be.

mod common;

use common::Setup;
use penstock_testkit::build::*;
use penstock_wire::{ipv4, ipv6};
use penstock_xfrm::{
    Aead, Algorithms, Authentication, Encryption, Limits, Mode, Stat, StateFlags, checksum_ok,
};

fn algorithms() -> Vec<Algorithms> {
    let key = |n: u8| (0..n).collect::<Vec<u8>>();
    let gcm = |n, icv| Algorithms::Aead(Aead::new("rfc4106(gcm(aes))", &key(n), icv).unwrap());
    let pair = |enc: Option<u8>, auth: &str, bits| {
        let encryption = match enc {
            Some(n) => Encryption::new("cbc(aes)", &key(n)),
            None => Encryption::new("ecb(cipher_null)", &[]),
        };
        Algorithms::Pair(encryption.unwrap(), Authentication::new(auth, &key(32), bits).unwrap())
    };
    vec![
        gcm(20, 128),
        gcm(20, 96),
        gcm(36, 64),
        gcm(36, 128),
        Algorithms::Aead(Aead::new("rfc7539esp(chacha20,poly1305)", &key(36), 128).unwrap()),
        pair(Some(16), "hmac(sha256)", Some(128)),
        pair(Some(24), "hmac(sha384)", None),
        pair(Some(32), "hmac(sha512)", Some(256)),
        pair(Some(16), "hmac(sha1)", None),
        pair(None, "hmac(sha256)", None),
        pair(Some(32), "digest_null", None),
    ]
}

fn packets() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for len in [0, 1, 2, 3, 5, 12, 13, 14, 15, 16, 17, 100, 1371, 1400] {
        let v4 = Ipv4::new("198.18.1.1", "198.19.1.1").ttl(9).tos(0x2e).id(3);
        all.push((v4 / Udp::new(1, 2) / payload(vec![5; len])).build());
        all.push(
            (Ipv6::new("2001:db8:1::1", "2001:db8:2::1") / Udp::new(1, 2) / payload(vec![5; len]))
                .build(),
        );
    }
    all
}

fn setups() -> Vec<Setup> {
    let mut all = Vec::new();
    for algorithms in algorithms() {
        for mode in [Mode::Tunnel, Mode::Transport] {
            for (source, destination) in
                [("198.18.0.1", "198.18.0.2"), ("2001:db8::1", "2001:db8::2")]
            {
                for udp in [None, Some((4500, 4501))] {
                    for (esn, start) in [(false, 0), (true, 0), (true, u64::from(u32::MAX) - 2)] {
                        all.push(Setup {
                            algorithms: algorithms.clone(),
                            mode,
                            source: source.parse().unwrap(),
                            destination: destination.parse().unwrap(),
                            udp,
                            esn,
                            seq: start,
                            oseq: start,
                            ..Setup::default()
                        });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn decrypted_packets_equal_the_originals() {
    for setup in setups() {
        let (mut near, mut far) = (setup.xfrm(), setup.xfrm());
        for packet in packets() {
            let v6 = packet[0] >> 4 == 6;
            let mut packet = packet;
            if setup.mode == Mode::Transport {
                // Those go between the ends themselves.
                if v6 != setup.source.is_ipv6() {
                    continue;
                }
                match setup.destination {
                    std::net::IpAddr::V4(a) => {
                        let mut h = ipv4::HeaderMut::new(&mut packet).unwrap();
                        h.set_dst(a);
                        h.fill_checksum();
                    }
                    std::net::IpAddr::V6(a) => {
                        ipv6::HeaderMut::new(&mut packet).unwrap().set_dst(a)
                    }
                }
            }
            let sent = near.send(&packet).unwrap();
            if sent[0] >> 4 == 4 {
                assert!(ipv4::Header::new(&sent).unwrap().checksum_ok());
                assert_eq!(usize::from(ipv4::Header::new(&sent).unwrap().total_len()), sent.len());
            }
            assert_eq!(far.receive(&sent).as_deref(), Ok(&packet[..]), "{:?}", setup.config());
            assert_eq!(far.receive(&sent), Err(Stat::InStateSeq), "again: {:?}", setup.config());
            // Encrypted text does not show, and no text is encrypted alike twice.
            let hidden = !matches!(setup.algorithms, Algorithms::Pair(Encryption::Null, _));
            if hidden && packet.len() > 100 {
                assert!(!sent.windows(16).any(|w| w == [5; 16]));
            }
        }
        assert_eq!(near.xfrm.states()[0].usage().bytes, far.xfrm.states()[0].usage().bytes);
    }
}

#[test]
fn a_modified_packet_fails_authentication() {
    let mut random = fastrand::Rng::with_seed(1);
    for setup in setups() {
        if matches!(setup.algorithms, Algorithms::Pair(_, Authentication::Null)) {
            continue;
        }
        let packet =
            (Ipv4::new("198.18.1.1", "198.18.0.2") / Udp::new(1, 2) / payload(vec![5; 40])).build();
        if setup.mode == Mode::Transport && setup.source.is_ipv6() {
            continue;
        }
        let sent = setup.xfrm().send(&packet).unwrap();
        let ip = if sent[0] >> 4 == 6 { 40 } else { 20 };
        let behind_number = ip + if setup.udp.is_some() { 8 } else { 0 } + 8;
        for _ in 0..10 {
            let mut changed = sent.clone();
            let at = random.usize(behind_number..sent.len());
            changed[at] ^= 1 << random.u8(0..8);
            assert_eq!(
                setup.xfrm().receive(&changed),
                Err(Stat::InStateProto),
                "{at} {:?}",
                setup.config()
            );
        }
        for len in behind_number..sent.len() {
            let result = setup.xfrm().receive(&sent[..len]);
            assert!(result.is_err(), "{len}");
        }
    }
}

#[test]
fn random_esp_bytes_do_not_panic() {
    let mut random = fastrand::Rng::with_seed(2);
    for setup in setups() {
        let mut end = setup.xfrm();
        for _ in 0..50 {
            let mut bytes: Vec<u8> = (0..random.usize(0..120)).map(|_| random.u8(..)).collect();
            if bytes.first().is_some_and(|b| b >> 4 == 6) && bytes.len() < 40 {
                bytes.resize(40, 0);
            }
            let at = random.usize(0..60);
            let kept = (random.usize(0..60), random.usize(0..60));
            let _ = end.xfrm.open(end.id.unwrap(), &mut bytes.clone(), at, kept, 1);
            if let Ok(room) = end.xfrm.room(end.id.unwrap(), &bytes) {
                let outer = penstock_xfrm::Outer { hop_limit: 1, id: 1 };
                let _ = end.xfrm.seal(end.id.unwrap(), &mut bytes, room, outer, 1);
            }
        }
    }
}

#[test]
fn a_reinstalled_key_does_not_repeat_initialization_vectors() {
    let packet = packets().remove(20);
    let mut seen = std::collections::HashSet::new();
    let setup = Setup::default();
    for salt in 0..50u128 {
        let mut config = penstock_xfrm::Config::default();
        config.add_state(setup.config(), false).unwrap();
        let mut end = setup.xfrm();
        end.xfrm = penstock_xfrm::Xfrm::new(&config, || {
            salt.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834)
        });
        assert!(seen.insert(end.send(&packet).unwrap()[28..36].to_vec()));
    }
}

#[test]
fn tunnel_headers_equal_those_of_the_kernel() {
    let inner = |tos: u8, df: bool| {
        let ip = Ipv4::new("198.18.1.1", "198.19.1.1").tos(tos);
        let ip = if df { ip.df() } else { ip };
        (ip / Udp::new(1, 2) / payload([1; 20])).build()
    };
    let flags = |f: fn(&mut StateFlags)| {
        let mut flags = StateFlags::default();
        f(&mut flags);
        Setup { flags, ..Setup::default() }
    };
    // Inner TOS and DF, flags, outer TOS, DF and identification.
    let cases: [(u8, bool, Setup, u8, bool, u16); 8] = [
        (0x2e, false, Setup::default(), 0x2e, false, 7),
        (0x2f, true, Setup::default(), 0x2e, true, 0),
        (0x2d, true, Setup::default(), 0x2d, true, 0),
        (0x2f, true, flags(|f| f.nopmtudisc = true), 0x2e, false, 7),
        (0x2d, false, flags(|f| f.noecn = true), 0x2c, false, 7),
        (0x2d, false, flags(|f| f.dont_encap_dscp = true), 0x01, false, 7),
        (0x2f, false, flags(|f| f.dont_encap_dscp = true), 0x02, false, 7),
        (0x00, false, Setup::default(), 0x00, false, 7),
    ];
    for (tos, df, setup, outer_tos, outer_df, id) in cases {
        let sent = setup.xfrm().send(&inner(tos, df)).unwrap();
        let h = ipv4::Header::new(&sent).unwrap();
        assert_eq!(
            (h.tos(), h.df(), h.id(), h.ttl()),
            (outer_tos, outer_df, id, 64),
            "{tos:#x} {df}"
        );
    }
    // Congestion on the way: the inner packet learns of it if it can. DSCP only if asked for.
    for (inner_tos, outer_tos, setup, want) in [
        (0x2e, 0x2f, Setup::default(), 0x2f),
        (0x2c, 0x2f, Setup::default(), 0x2c),
        (0x2d, 0x03, flags(|f| f.noecn = true), 0x2d),
        (0x2e, 0x50, flags(|f| f.decap_dscp = true), 0x52),
        (0x2e, 0x50, Setup::default(), 0x2e),
    ] {
        let mut sent = setup.xfrm().send(&inner(inner_tos, false)).unwrap();
        let mut h = ipv4::HeaderMut::new(&mut sent).unwrap();
        h.set_tos(outer_tos);
        h.fill_checksum();
        let out = setup.xfrm().receive(&sent).unwrap();
        let h = ipv4::Header::new(&out).unwrap();
        assert_eq!((h.tos(), h.checksum_ok()), (want, true), "{inner_tos:#x} {outer_tos:#x}");
    }
}

#[test]
fn states_end_with_their_lifetimes() {
    let second = 1_000_000_000;
    let packet =
        (Ipv4::new("198.18.1.1", "198.19.1.1") / Udp::new(1, 2) / payload([1; 72])).build();
    let with = |f: fn(&mut Limits)| {
        let mut limits = Limits::default();
        f(&mut limits);
        Setup { limits, ..Setup::default() }
    };
    // Limits, seconds between packets, how many leave, from which on it is about to end.
    for (setup, step, leave, dying) in [
        (with(|l| l.hard_packets = 3), 0, 3, None),
        (with(|l| (l.hard_packets, l.soft_packets) = (5, 2)), 0, 5, Some(2)),
        (with(|l| l.hard_bytes = 250), 0, 3, None),
        (with(|l| l.hard_bytes = 200), 0, 2, None),
    ] {
        let mut end = setup.xfrm();
        for n in 0..leave {
            assert!(end.send(&packet).is_ok(), "{n}");
            assert_eq!(end.xfrm.states()[0].is_dying(), dying.is_some_and(|d| n >= d), "{n}");
            end.now += step * second;
        }
        assert_eq!(end.send(&packet), Err(Stat::OutStateExpired));
        assert!(end.xfrm.find(setup.destination, setup.spi, 0, false, end.now).is_err());
    }
    for (setup, there, gone) in
        [(with(|l| l.hard_add = 10), 9, 10), (with(|l| l.hard_use = 10), 29, 30)]
    {
        let mut end = setup.xfrm();
        let start = end.now;
        end.now = start + 20 * second * u64::from(gone == 30);
        assert!(end.send(&packet).is_ok());
        for (after, is_there) in [(there, true), (gone, false)] {
            let found =
                end.xfrm.find(setup.destination, setup.spi, 0, false, start + after * second);
            assert_eq!(found.is_ok(), is_there, "{after}");
        }
    }
}

#[test]
fn exhausted_sequence_numbers_drop_packets() {
    let packet = packets().remove(20);
    let last = Setup { oseq: u64::from(u32::MAX) - 1, ..Setup::default() };
    let mut end = last.xfrm();
    assert!(end.send(&packet).is_ok());
    assert_eq!(end.send(&packet), Err(Stat::OutStateSeq));
    let wrap = Setup {
        flags: StateFlags { oseq_may_wrap: true, ..StateFlags::default() },
        ..last.clone()
    };
    let mut end = wrap.xfrm();
    assert!(end.send(&packet).is_ok());
    assert_eq!(end.send(&packet).unwrap()[24..28], [0; 4]);
    let mut end = Setup { esn: true, ..last }.xfrm();
    let numbers: Vec<_> = (0..3).map(|_| end.send(&packet).unwrap()[24..28].to_vec()).collect();
    assert_eq!(numbers, [[255; 4], [0; 4], [0, 0, 0, 1]]);
    assert_eq!(end.xfrm.states()[0].sequence().0, (1 << 32) + 1);
}

#[test]
fn packets_within_the_tunnel_mtu_fit_the_path() {
    for setup in setups() {
        let mut end = setup.xfrm();
        let id = end.id.unwrap();
        let v6 = setup.source.is_ipv6();
        for outer in 1280..1520 {
            let mtu = end.xfrm.mtu(id, outer);
            let fits = |end: &mut common::End, len: usize| {
                let ip = Ipv4::new("198.18.1.1", "198.18.0.2");
                let packet = if v6 && setup.mode == Mode::Transport {
                    (Ipv6::new("2001:db8::1", "2001:db8::2") / payload(vec![0; len - 40])).build()
                } else {
                    (ip / payload(vec![0; len - 20])).build()
                };
                end.send(&packet).unwrap().len() <= outer
            };
            // IPv6 never has less than its least MTU.
            if v6 && mtu <= 1280 {
                continue;
            }
            if outer % 16 == 0 || outer == 1500 {
                assert!(fits(&mut end, mtu), "{outer} {mtu} {:?}", setup.config());
                assert!(!fits(&mut end, mtu + 1), "{outer} {mtu} {:?}", setup.config());
            }
        }
    }
}

#[test]
fn datagrams_with_esp_have_a_checksum_over_ipv6_and_none_over_ipv4() {
    for mode in [Mode::Tunnel, Mode::Transport] {
        for (source, destination, at) in
            [("198.18.0.1", "198.18.0.2", 20), ("2001:db8::1", "2001:db8::2", 40)]
        {
            let setup = Setup {
                mode,
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
                udp: Some((4500, 4500)),
                ..Setup::default()
            };
            let packet = if at == 40 {
                (Ipv6::new(source, destination) / Udp::new(1, 2) / payload(vec![1; 9])).build()
            } else {
                (Ipv4::new(source, destination) / Udp::new(1, 2) / payload(vec![1; 9])).build()
            };
            let mut sent = setup.xfrm().send(&packet).unwrap();
            assert_eq!(sent[at + 6..at + 8] == [0, 0], at == 20, "{mode:?} {source}");
            assert!(checksum_ok(&sent, at), "{mode:?} {source}");
            sent[at + 6] ^= 1;
            assert!(!checksum_ok(&sent, at), "{mode:?} {source}");
            sent[at + 6..at + 8].fill(0);
            assert_eq!(checksum_ok(&sent, at), at == 20, "{mode:?} {source}");
            assert!(!checksum_ok(&sent[..at + 9], at), "cut: {mode:?} {source}");
        }
    }
}
