// SPDX-License-Identifier: Apache-2.0

//! IPsec between two gateways, as hosts and rules see it.

mod router;

use std::sync::Arc;

use penstock_dataplane::{Dataplane, Frame};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_net::Network;
use penstock_program::Hook;
use penstock_program::expr::{
    Cmp, CmpOp, Expr, Log, Meta as MetaExpr, MetaKey, Rt, RtKey, Xfrm, XfrmKey,
};
use penstock_program::{Data, Register};
use penstock_ruleset::link::Linked;
use penstock_ruleset::{Family, Ruleset};
use penstock_testkit::build::*;
use penstock_wire::ipv4;
use router::*;

/// A gateway `n` of two: `lan` is 198.18.n.0/24 and 2001:db8:n::/64, `wan` leads to the other one.
fn gateway(n: u8, ipsec: &str) -> Dataplane {
    let mut path = router(&network(n, ipsec));
    path.seed(1);
    path
}

fn network(n: u8, ipsec: &str) -> String {
    let m = 3 - n;
    format!(
        "link set lo up
        link add wan address 02:00:00:00:00:0{n} type veth
        link add lan address 02:00:00:00:01:0{n} type veth
        link set wan addrgenmode none
        link set wan up
        link set lan addrgenmode none
        link set lan up
        addr add 198.18.0.{n}/24 dev wan
        addr add 198.18.1{n}.1/24 dev lan
        addr add 2001:db8::{n}/64 dev wan nodad
        addr add 2001:db8:{n}::1/64 dev lan nodad
        neigh add 198.18.0.{m} lladdr 02:00:00:00:00:0{m} dev wan
        neigh add 198.18.1{n}.7 lladdr 02:00:00:00:01:a7 dev lan
        neigh add 2001:db8::{m} lladdr 02:00:00:00:00:0{m} dev wan
        neigh add 2001:db8:{n}::7 lladdr 02:00:00:00:01:a7 dev lan
        route add 198.18.1{m}.0/24 via 198.18.0.{m}
        route add 2001:db8:{m}::/64 via 2001:db8::{m}
        {ipsec}"
    )
}

const KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";

fn states(what: &str) -> String {
    let aead = format!("aead rfc4106(gcm(aes)) {KEY} 128");
    format!(
        "xfrm state add src 198.18.0.1 dst 198.18.0.2 proto esp spi 0x1001 reqid 1 replay-window 32 {aead} {what}
        xfrm state add src 198.18.0.2 dst 198.18.0.1 proto esp spi 0x1002 reqid 1 replay-window 32 {aead} {what}
        "
    )
}

/// Policies of gateway `n` for a tunnel between the networks behind both.
fn policies(n: u8) -> String {
    let m = 3 - n;
    let mut out = String::new();
    let nets = |n: u8| [format!("198.18.1{n}.0/24"), format!("2001:db8:{n}::/64")];
    for (near, far) in nets(n).iter().zip(nets(m)) {
        out += &format!(
            "xfrm policy add src {near} dst {far} dir out tmpl src 198.18.0.{n} dst 198.18.0.{m} proto esp reqid 1 mode tunnel\n"
        );
        for dir in ["in", "fwd"] {
            out += &format!(
                "xfrm policy add src {far} dst {near} dir {dir} tmpl src 198.18.0.{m} dst 198.18.0.{n} proto esp reqid 1 mode tunnel\n"
            );
        }
    }
    out
}

fn tunnel(n: u8) -> String {
    states("mode tunnel flag af-unspec") + &policies(n)
}

fn inner() -> Ethernet {
    Ethernet::new("02:00:00:00:01:a7", "02:00:00:00:01:01")
}

fn packet(len: usize) -> Vec<u8> {
    (inner()
        / Ipv4::new("198.18.11.7", "198.18.12.7").tos(0x2e)
        / Udp::new(1000, 2000)
        / payload(vec![7; len]))
    .build()
}

/// The only frame that leaves.
fn sent(path: &mut Dataplane, device: &str, frame: &[u8]) -> Vec<u8> {
    let seen = receive_at(path, device, frame, START);
    assert_eq!(seen.frames.len(), 1, "{:?}", seen.lines);
    seen.frames[0].1.clone()
}

#[test]
fn packets_go_through_a_tunnel_between_two_gateways() {
    let (mut a, mut b) = (gateway(1, &tunnel(1)), gateway(2, &tunnel(2)));
    for len in [0, 1, 2, 3, 100, 1371] {
        let outer = sent(&mut a, "lan", &packet(len));
        let want = "to 02 198.18.0.1 > 198.18.0.2 ttl 64 len";
        assert!(describe_frame(&outer).starts_with(want), "{}", describe_frame(&outer));
        assert_eq!((outer[14 + 1], outer[14 + 9]), (0x2e, 50));
        let inside =
            format!("lan: to a7 198.18.11.7 > 198.18.12.7 ttl 62 len {} tos 0x2e udp", 28 + len);
        assert_eq!(receive(&mut b, "wan", &outer), [inside.as_str()]);
        assert_eq!(receive(&mut b, "wan", &outer), ["drop: XfrmInStateSeqError"]);
    }
    // IPv6 in the same tunnel.
    let v6 =
        (inner() / Ipv6::new("2001:db8:1::7", "2001:db8:2::7") / Udp::new(1, 2) / payload([1; 9]))
            .build();
    let outer = sent(&mut a, "lan", &v6);
    assert_eq!(
        receive(&mut b, "wan", &outer),
        ["lan: to a7 2001:db8:1::7 > 2001:db8:2::7 hlim 62 len 17 udp"]
    );
}

#[test]
fn cleartext_packets_under_a_policy_are_dropped() {
    let mut b = gateway(2, &tunnel(2));
    let ether = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let udp =
        |src, dst| (ether.clone() / Ipv4::new(src, dst) / Udp::new(1, 2) / payload([1; 9])).build();
    for (name, src, dst, want) in [
        ("forwarded", "198.18.11.7", "198.18.12.7", "drop: XfrmInTmplMismatch"),
        ("to the gateway", "198.18.11.7", "198.18.12.1", "drop: XfrmInTmplMismatch"),
        (
            "from elsewhere",
            "198.18.0.1",
            "198.18.12.7",
            "lan: to a7 198.18.0.1 > 198.18.12.7 ttl 63 len 37 udp",
        ),
    ] {
        assert_eq!(receive(&mut b, "wan", &udp(src, dst)), [want], "{name}");
    }
    // A tunnel that no policy asks for, a state for other packets, one of the wrong number.
    let mut a = gateway(1, &tunnel(1));
    let outer = sent(&mut a, "lan", &packet(10));
    for (name, lines, want) in [
        ("no policy", states("mode tunnel flag af-unspec"), "drop: XfrmInNoPols"),
        ("selector", states("mode tunnel sel dst 198.18.99.0/24"), "drop: XfrmInStateMismatch"),
        (
            "other reqid",
            tunnel(2).replace("reqid 1 mode", "reqid 2 mode"),
            "drop: XfrmInTmplMismatch",
        ),
        (
            "block",
            states("mode tunnel")
                + "xfrm policy add src 198.18.11.0/24 dst 198.18.12.0/24 dir fwd action block\n",
            "drop: XfrmInPolBlock",
        ),
        ("no state", policies(2), "drop: XfrmInNoStates"),
        (
            "other key",
            tunnel(2).replace(KEY, &KEY.replace("0x00", "0x99")),
            "drop: XfrmInStateProtoError",
        ),
        (
            "UDP expected",
            tunnel(2)
                .replace("mode tunnel flag", "encap espinudp 4500 4500 0.0.0.0 mode tunnel flag"),
            "drop: XfrmInStateMismatch",
        ),
        (
            "state for output",
            tunnel(2).replace("mode tunnel flag", "dir out mode tunnel flag"),
            "drop: XfrmInStateDirError",
        ),
        (
            "time over",
            tunnel(2).replace("mode tunnel flag", "limit packet-hard 0 mode tunnel flag"),
            "drop: XfrmInStateExpired",
        ),
        (
            "transport",
            tunnel(2).replace("mode tunnel flag", "mode transport flag"),
            "drop: XfrmInTmplMismatch",
        ),
    ] {
        let got = receive(&mut gateway(2, &lines), "wan", &outer);
        if name == "transport" {
            // What comes out is a packet of protocol 4 for this host.
            let start = "host from wan: 198.18.0.1 > 198.18.0.2 ttl 64 len 58 tos 0x2e";
            assert!(matches!(&got[..], [one] if one.starts_with(start)), "{got:?}");
            continue;
        }
        assert_eq!(got, [want], "{name}");
    }
}

#[test]
fn blocked_packets_have_a_drop_reason() {
    let no_key = "xfrm policy add src 198.18.11.0/24 dst 198.18.12.0/24 dir out tmpl src 198.18.0.1 dst 198.18.0.2 proto esp reqid 7 mode tunnel\n";
    for (name, lines, want) in [
        ("no state", no_key.to_owned(), "drop: XfrmOutNoStates"),
        (
            "block",
            "xfrm policy add src 198.18.11.0/24 dst 198.18.12.0/24 dir out action block\n".into(),
            "drop: XfrmOutPolBlock",
        ),
        ("default", "xfrm policy setdefault out block\n".into(), "drop: XfrmOutPolBlock"),
        (
            "forward, by protocol and port",
            "xfrm policy add src 198.18.11.0/24 dst 198.18.12.0/24 proto udp dport 2000 dir fwd action block\n".into(),
            "drop: XfrmInPolBlock",
        ),
        (
            "lifetime",
            tunnel(1).replace("mode tunnel flag", "limit packet-hard 0 mode tunnel flag"),
            "drop: XfrmOutStateExpired",
        ),
        (
            "numbers",
            tunnel(1).replace("mode tunnel flag", "replay-oseq 0xffffffff mode tunnel flag"),
            "drop: XfrmOutStateSeqError",
        ),
        ("source not ours", tunnel(1).replace("198.18.0.1", "198.18.0.99"), "drop: XfrmOutBundleGenError"),
        (
            "direction",
            tunnel(1).replace("mode tunnel flag", "dir in mode tunnel flag"),
            "drop: XfrmOutStateDirError",
        ),
    ] {
        assert_eq!(receive(&mut gateway(1, &lines), "lan", &packet(9)), [want], "{name}");
    }
    // A better policy lets some pass in the clear; an optional transport state need not be there.
    for lines in [
        tunnel(1) + "xfrm policy add src 198.18.11.7 dst 198.18.12.0/24 proto udp dport 2000 dir out priority 0\n",
        "xfrm policy add src 198.18.11.0/24 dst 198.18.12.0/24 dir out tmpl proto esp reqid 9 mode transport level use\n".into(),
        "xfrm policy add src 198.18.11.0/24 dst 198.18.12.0/24 dev lan dir out action block\n".into(),
    ] {
        let lines = lines.replace("dir out tmpl src", "dir out priority 5 tmpl src");
        let clear = "wan: to 02 198.18.11.7 > 198.18.12.7 ttl 63 len 37 tos 0x2e udp";
        assert_eq!(receive(&mut gateway(1, &lines), "lan", &packet(9)), [clear], "{lines}");
    }
}

#[test]
fn packets_too_long_for_the_tunnel_are_answered() {
    let mut a = gateway(1, &tunnel(1));
    let df = |len: usize| {
        (inner()
            / Ipv4::new("198.18.11.7", "198.18.12.7").df()
            / Udp::new(1, 2)
            / payload(vec![1; len - 28]))
        .build()
    };
    assert_eq!(sent(&mut a, "lan", &df(1446)).len(), 1514);
    assert_eq!(
        receive(&mut a, "lan", &df(1447)),
        [
            "lan: to a7 198.18.11.1 > 198.18.11.7 ttl 64 len 576 tos 0xc0 icmp 3/4 0x5a6",
            "drop: packet too big"
        ]
    );
    // Without DF the outer packet is cut, and put together again before it is decrypted.
    let long = (inner()
        / Ipv4::new("198.18.11.7", "198.18.12.7")
        / Udp::new(1, 2)
        / payload(vec![1; 1472]))
    .build();
    let seen = receive_at(&mut a, "lan", &long, START);
    assert_eq!(seen.frames.len(), 2, "{:?}", seen.lines);
    let mut b = gateway(2, &tunnel(2));
    assert_eq!(receive(&mut b, "wan", &seen.frames[0].1), [""; 0]);
    assert_eq!(
        receive(&mut b, "wan", &seen.frames[1].1),
        ["lan: to a7 198.18.11.7 > 198.18.12.7 ttl 62 len 1500 udp"]
    );
    let v6 = |len: usize| {
        let ip = Ipv6::new("2001:db8:1::7", "2001:db8:2::7");
        (inner() / ip / Udp::new(1, 2) / payload(vec![1; len - 48])).build()
    };
    assert_eq!(sent(&mut a, "lan", &v6(1446)).len(), 1514);
    assert_eq!(
        receive(&mut a, "lan", &v6(1447))[0],
        "lan: to a7 2001:db8:1::1 > 2001:db8:1::7 hlim 64 len 1240 icmpv6 2/0 0x5a6"
    );
    // It has been forwarded until then: the hop limit of what is quoted is one less.
    let quoted_hop_limit = 14 + 40 + 8 + 7;
    let seen = receive_at(&mut a, "lan", &v6(1447), START);
    assert_eq!(seen.frames[0].1[quoted_hop_limit], 63);
}

#[test]
fn errors_about_protected_packets_are_judged_like_answers_to_them() {
    let mut a = gateway(1, &tunnel(1));
    let lost = (Ipv4::new("198.18.11.7", "198.18.12.7") / Udp::new(1, 2)).build();
    for (kind, quoted, want) in [
        (11, lost.clone(), "drop: XfrmInTmplMismatch"),
        (3, lost.clone(), "drop: XfrmInTmplMismatch"),
        // Not an error, about nothing, about a packet that nobody wants protected.
        (8, lost.clone(), ""),
        (11, vec![], ""),
        (11, (Ipv4::new("198.18.11.7", "198.18.99.7") / Udp::new(1, 2)).build(), ""),
    ] {
        let error = (Ethernet::new("02:00:00:00:00:02", "02:00:00:00:00:01")
            / Ipv4::new("198.18.0.99", "198.18.11.7")
            / payload([&[kind, 0, 0, 0, 0, 0, 0, 0][..], &quoted].concat()))
        .build();
        let mut error = error;
        error[14 + 9] = 1;
        let header = &mut error[14..34];
        header[10..12].fill(0);
        let sum = penstock_wire::checksum::of(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let got = receive(&mut a, "wan", &error);
        let dropped = got.iter().find(|line| line.starts_with("drop")).map_or("", |line| line);
        assert_eq!(dropped, want, "{kind} {got:?}");
    }
}

fn log(prefix: &str) -> Expr {
    Expr::Log(Log { prefix: Some(prefix.into()), ..Log::default() })
}

fn is(expr: Expr, data: &[u8]) -> Vec<Expr> {
    vec![expr, Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: Register(1), data: Data::new(data) })]
}

fn logging(mut matches: Vec<Expr>, prefix: &str) -> Vec<Expr> {
    matches.push(log(prefix));
    matches
}

/// A chain at each hook that tells about UDP and ESP that pass, and what it knows of IPsec.
fn telling() -> Vec<Base> {
    let dreg = Register(1);
    let protocol = |n: u8| is(Expr::Meta(MetaExpr { key: MetaKey::L4Proto, dreg }), &[n]);
    let hooks = [
        ("pre", Hook::Prerouting),
        ("in", Hook::Input),
        ("fwd", Hook::Forward),
        ("out", Hook::Output),
        ("post", Hook::Postrouting),
    ];
    let mut bases = Vec::new();
    for (name, hook) in hooks {
        let mut rules = vec![
            logging(protocol(17), &format!("{name} udp ")),
            logging(protocol(50), &format!("{name} esp ")),
        ];
        if matches!(hook, Hook::Prerouting | Hook::Input | Hook::Forward) {
            let secpath = Expr::Meta(MetaExpr { key: MetaKey::SecPath, dreg });
            rules.push(logging(is(secpath, &[1]), &format!("{name} secpath ")));
            let spi = Expr::Xfrm(Xfrm { key: XfrmKey::Spi, out: false, spnum: 0, dreg });
            rules.push(logging(is(spi, &[0, 0, 0x10, 1]), &format!("{name} in-spi ")));
            let daddr = Expr::Xfrm(Xfrm { key: XfrmKey::DaddrIp4, out: false, spnum: 0, dreg });
            rules.push(logging(is(daddr, &[198, 18, 0, 2]), &format!("{name} in-daddr ")));
        }
        if matches!(hook, Hook::Forward | Hook::Output | Hook::Postrouting) {
            rules.push(logging(
                is(Expr::Rt(Rt { key: RtKey::Xfrm, dreg }), &[1]),
                &format!("{name} rt-ipsec "),
            ));
            let reqid = Expr::Xfrm(Xfrm { key: XfrmKey::Reqid, out: true, spnum: 0, dreg });
            rules.push(logging(is(reqid, &1u32.to_ne_bytes()), &format!("{name} out-reqid ")));
        }
        bases.push(Base::new(Family::Ip, name, hook, rules));
    }
    bases
}

#[test]
fn hooks_see_inner_and_outer_packet_in_the_kernels_order() {
    let (mut a, mut b) = (gateway(1, &tunnel(1)), gateway(2, &tunnel(2)));
    load(&mut a, telling());
    load(&mut b, telling());
    let seen = receive_at(&mut a, "lan", &packet(9), START);
    assert_eq!(
        seen.lines[..seen.lines.len() - 1],
        [
            "log pre udp lan -",
            "log fwd udp lan wan",
            "log fwd rt-ipsec lan wan",
            "log fwd out-reqid lan wan",
            "log post udp lan wan",
            "log post rt-ipsec lan wan",
            "log post out-reqid lan wan",
            "log out esp - wan",
            "log post esp lan wan",
        ]
    );
    assert_eq!(
        receive(&mut b, "wan", &seen.frames[0].1),
        [
            "log pre esp wan -",
            "log in esp wan -",
            "log pre udp wan -",
            "log pre secpath wan -",
            "log pre in-spi wan -",
            "log pre in-daddr wan -",
            "log fwd udp wan lan",
            "log fwd secpath wan lan",
            "log fwd in-spi wan lan",
            "log fwd in-daddr wan lan",
            "log post udp wan lan",
            "lan: to a7 198.18.11.7 > 198.18.12.7 ttl 62 len 37 tos 0x2e udp",
        ]
    );
}

#[test]
fn hosts_talk_in_transport_mode() {
    let lines = |n: u8, extra: &str| {
        let m = 3 - n;
        states(&format!("mode transport {extra}"))
            + &format!(
                "xfrm policy add src 198.18.0.{n} dst 198.18.0.{m} proto udp dir out tmpl proto esp reqid 1 mode transport
                xfrm policy add src 198.18.0.{m} dst 198.18.0.{n} proto udp dir in tmpl proto esp reqid 1 mode transport
                "
            )
    };
    for extra in ["", "encap espinudp 4500 4500 0.0.0.0"] {
        let (mut a, mut b) = (gateway(1, &lines(1, extra)), gateway(2, &lines(2, extra)));
        load(&mut b, telling());
        let packet =
            (Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1, 2) / payload([5; 9])).build();
        let mut seen = Seen::default();
        a.send_host(&packet, START, &mut seen);
        assert_eq!(seen.frames.len(), 1, "{:?}", seen.lines);
        let frame = &seen.frames[0].1;
        assert!(!frame.windows(9).any(|w| w == [5; 9]));
        let carrier = if extra.is_empty() { "esp" } else { "udp" };
        let got = receive(&mut b, "wan", frame);
        let want = [
            format!("log pre {carrier} wan -"),
            format!("log in {carrier} wan -"),
            "log pre udp wan -".into(),
            "log pre secpath wan -".into(),
            "log pre in-spi wan -".into(),
            "log in udp wan -".into(),
            "log in secpath wan -".into(),
            "log in in-spi wan -".into(),
            "host from wan: 198.18.0.1 > 198.18.0.2 ttl 64 len 37 udp".into(),
        ];
        assert_eq!(got, want, "{extra}");
        // In the clear it does not come in.
        let ether = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
        let clear =
            (ether / Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1, 2) / payload([5; 9]))
                .build();
        assert_eq!(receive(&mut b, "wan", &clear).last().unwrap(), "drop: XfrmInTmplMismatch");
    }
}

#[test]
fn keepalives_are_consumed_and_ike_goes_to_the_host() {
    let lines = states("mode tunnel encap espinudp 4500 4500 0.0.0.0") + &policies(2);
    let mut b = gateway(2, &lines);
    let ether = || Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let datagram = |bytes: &[u8]| {
        (ether() / Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(4500, 4500) / payload(bytes))
            .build()
    };
    assert_eq!(receive(&mut b, "wan", &datagram(&[0xff])), [""; 0]);
    let to_host = "host from wan: 198.18.0.1 > 198.18.0.2 ttl 64 len 56 udp";
    assert_eq!(receive(&mut b, "wan", &datagram(&[0; 28])), [to_host]);
    assert_eq!(receive(&mut b, "wan", &datagram(&[1; 28])), ["drop: XfrmInNoStates"]);
    let mut a =
        gateway(1, &(states("mode tunnel encap espinudp 4500 4500 0.0.0.0") + &policies(1)));
    let outer = sent(&mut a, "lan", &packet(9));
    assert_eq!(outer[14 + 9], 17);
    assert_eq!(
        receive(&mut b, "wan", &outer),
        ["lan: to a7 198.18.11.7 > 198.18.12.7 ttl 62 len 37 tos 0x2e udp"]
    );
}

#[test]
fn tunnels_over_ipv6_and_transformations_in_each_other_work() {
    let aead = format!("aead rfc4106(gcm(aes)) {KEY} 128");
    let v6 = |n: u8| {
        let m = 3 - n;
        format!(
            "xfrm state add src 2001:db8::1 dst 2001:db8::2 proto esp spi 1 reqid 1 mode tunnel flag af-unspec {aead}
            xfrm policy add src 198.18.1{n}.0/24 dst 198.18.1{m}.0/24 dir out tmpl src 2001:db8::{n} dst 2001:db8::{m} proto esp reqid 1 mode tunnel
            xfrm policy add src 198.18.1{m}.0/24 dst 198.18.1{n}.0/24 dir fwd tmpl src 2001:db8::{m} dst 2001:db8::{n} proto esp reqid 1 mode tunnel
            "
        )
    };
    // A tunnel in a tunnel, and transport mode around both.
    let nested = |n: u8| {
        let m = 3 - n;
        let template = |n: u8, m: u8| {
            format!(
                "tmpl src 198.18.0.{n} dst 198.18.0.{m} proto esp reqid 1 mode tunnel \
                tmpl src 198.18.0.{n} dst 198.18.0.{m} proto esp reqid 2 mode tunnel \
                tmpl src 198.18.0.{n} dst 198.18.0.{m} proto esp reqid 3 mode transport"
            )
        };
        let mut out = String::new();
        for (spi, mode) in [(1, "tunnel"), (2, "tunnel"), (3, "transport")] {
            out += &format!(
                "xfrm state add src 198.18.0.1 dst 198.18.0.2 proto esp spi {spi} reqid {spi} mode {mode} {aead}\n"
            );
        }
        out + &format!(
            "xfrm policy add src 198.18.1{n}.0/24 dst 198.18.1{m}.0/24 dir out {}
            xfrm policy add src 198.18.1{m}.0/24 dst 198.18.1{n}.0/24 dir fwd {}
            ",
            template(n, m),
            template(m, n)
        )
    };
    let one = |a: &mut Dataplane, b: &mut Dataplane, len| {
        let outer = sent(a, "lan", &packet(len));
        (outer.len(), receive(b, "wan", &outer))
    };
    let inside = |len| {
        [format!("lan: to a7 198.18.11.7 > 198.18.12.7 ttl 62 len {} tos 0x2e udp", 28 + len)]
    };
    let (mut a, mut b) = (gateway(1, &v6(1)), gateway(2, &v6(2)));
    assert_eq!(one(&mut a, &mut b, 10), (14 + 40 + 16 + 40 + 16, inside(10).into()));
    assert_eq!(one(&mut a, &mut b, 1390).1, inside(1390));
    let (mut a, mut b) = (gateway(1, &nested(1)), gateway(2, &nested(2)));
    assert_eq!(one(&mut a, &mut b, 10).1, inside(10));
    // Policy wants all three.
    let mut b = gateway(
        2,
        &nested(2).replace(" tmpl src 198.18.0.1 dst 198.18.0.2 proto esp reqid 2 mode tunnel", ""),
    );
    assert_eq!(one(&mut a, &mut b, 10).1, ["drop: XfrmInTmplMismatch"]);
}

#[test]
fn random_esp_bytes_neither_panic_nor_leak_packets() {
    let mut random = fastrand::Rng::with_seed(5);
    let (mut a, mut b) = (gateway(1, &tunnel(1)), gateway(2, &tunnel(2)));
    for round in 0..300 {
        let mut frame = sent(&mut a, "lan", &packet(round));
        if round % 3 == 0 {
            frame.truncate(random.usize(34..frame.len()));
            let total = frame.len() - 14;
            let mut h = ipv4::HeaderMut::new(&mut frame[14..]).unwrap();
            h.set_total_len(total as u16);
            h.fill_checksum();
        } else {
            let at = random.usize(34..frame.len());
            frame[at] ^= 1 << random.u8(0..8);
        }
        let seen = receive(&mut b, "wan", &frame);
        assert!(matches!(&seen[..], [one] if one.starts_with("drop: Xfrm")), "{seen:?}");
    }
}

fn set_rules(path: &mut Dataplane, text: &str) {
    let mut ruleset = Ruleset::default();
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), &mut ruleset, 0);
    assert!(outcome.ok, "{}\n{text}", outcome.stderr);
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap_or_else(|e| panic!("{e}"))));
}

/// Sends a burst; what came of it.
fn burst(path: &mut Dataplane, device: &str, frames: &[Vec<u8>], time: u64) -> Seen {
    let mut seen = Seen::default();
    let device = path.network().link_by_name(device).unwrap().index;
    path.receive(frames.iter().map(|bytes| Frame { device, bytes, time }), &mut seen);
    seen
}

/// Between the hosts behind both gateways, there and back: what reaches them, and how many packets
/// left the rules at each.
fn conversation(rules: &str, lines: impl Fn(u8) -> String) -> (Vec<Vec<u8>>, [u64; 2]) {
    let mut gateways = [gateway(1, &lines(1)), gateway(2, &lines(2))];
    for path in &mut gateways {
        set_rules(path, rules);
    }
    let mut reached = Vec::new();
    for round in 0..8u64 {
        let time = START + round * SECOND / 10;
        for n in 1..=2u8 {
            let m = 3 - n;
            let ether = Ethernet::new("02:00:00:00:01:a7", &*format!("02:00:00:00:01:0{n}"));
            let packet = |ports: (u16, u16), len: usize| {
                let ip = Ipv4::new(&*format!("198.18.1{n}.7"), &*format!("198.18.1{m}.7"));
                (ether.clone() / ip / Udp::new(ports.0, ports.1) / payload(vec![len as u8; len]))
                    .build()
            };
            let ports = if n == 1 { (1000, 2000) } else { (2000, 1000) };
            let frames: Vec<_> =
                (0..5).map(|i| packet(ports, 10 + round as usize * 20 + i)).collect();
            let [one, two] = &mut gateways;
            let (near, far) = if n == 1 { (one, two) } else { (two, one) };
            let sent = burst(near, "lan", &frames, time);
            let outer: Vec<Vec<u8>> = sent.frames.into_iter().map(|(_, frame)| frame).collect();
            assert_eq!(outer.len(), 5, "{:?}", sent.lines);
            assert!(
                outer.iter().all(|frame| matches!(frame[14 + 9], 17 | 50) || frame[14] >> 4 == 6)
            );
            let came = burst(far, "wan", &outer, time);
            assert_eq!(came.frames.len(), 5, "{:?}", came.lines);
            reached.extend(came.frames.into_iter().map(|(_, frame)| frame));
            // The same again, and the same in the clear, come to nothing wherever the flow is.
            let again = burst(far, "wan", &outer, time);
            assert!(
                again.lines.iter().all(|line| line == "drop: XfrmInStateSeqError"),
                "{:?}",
                again.lines
            );
            let clear =
                Ethernet::new(&*format!("02:00:00:00:00:0{n}"), &*format!("02:00:00:00:00:0{m}"));
            let ip = Ipv4::new(&*format!("198.18.1{n}.7"), &*format!("198.18.1{m}.7"));
            let clear = (clear / ip / Udp::new(ports.0, ports.1) / payload([1; 9])).build();
            assert_eq!(
                burst(far, "wan", &[clear], time).lines,
                ["drop: XfrmInTmplMismatch"],
                "round {round}"
            );
        }
    }
    (reached, gateways.map(|path| path.counters().fast))
}

#[test]
fn flows_leave_the_rules_through_ipsec() {
    let rules = |flowtable: &str, more: &str| {
        format!(
            "table inet t {{
                {flowtable}
                chain f {{
                    type filter hook forward priority 0
                    {}
                    ct state vmap {{ new : accept, established : accept }}
                }}
                {more}
            }}",
            if flowtable.is_empty() { "" } else { "meta l4proto udp flow add @f" }
        )
    };
    let table = |hook: &str| {
        format!("flowtable f {{ hook {hook} priority 0; devices = {{ wan, lan }}; counter; }}")
    };
    let seen_by_rules = "chain o { type filter hook output priority 0; meta l4proto esp counter; }";
    let (want, fast) = conversation(&rules("", ""), tunnel);
    assert_eq!((want.len(), fast), (80, [0, 0]));
    for hook in ["ingress", "early_ingress"] {
        for more in ["", seen_by_rules] {
            let (got, [one, two]) = conversation(&rules(&table(hook), more), tunnel);
            assert_eq!(got, want, "{hook} {more}");
            // Each gateway has both directions: 40 packets each, but for the first ones.
            assert!(one >= 60 && two >= 60, "{hook} {more}: {one} {two}");
        }
    }
    // Over IPv6, and within UDP.
    let over6 = |n: u8| {
        let [one, two] = ["2001:db8::1", "2001:db8::2"];
        tunnel(n)
            .replace("src 198.18.0.1 ", &format!("src {one} "))
            .replace("src 198.18.0.2 ", &format!("src {two} "))
            .replace("dst 198.18.0.1 ", &format!("dst {one} "))
            .replace("dst 198.18.0.2 ", &format!("dst {two} "))
    };
    let within_udp = |lines: String| {
        lines.replace("flag af-unspec", "flag af-unspec encap espinudp 4500 4500 0.0.0.0")
    };
    let xmits: [&dyn Fn(u8) -> String; 2] = [&over6, &|n| within_udp(tunnel(n))];
    for (number, lines) in (0..).zip(xmits) {
        let (got, fast) = conversation(&rules(&table("early_ingress"), ""), lines);
        assert_eq!(got, want, "{number}");
        assert!(fast.into_iter().all(|fast| fast >= 60), "{number}: {fast:?}");
    }
    // Through two states at once.
    let nested = |n: u8| {
        let lines: String = tunnel(n)
            .lines()
            .filter(|line| !line.contains("2001:"))
            .map(|line| format!("{line}\n"))
            .collect();
        lines.replace("mode tunnel\n", "mode tunnel tmpl proto esp reqid 3 mode transport\n") + &["1 dst 198.18.0.2", "2 dst 198.18.0.1"].map(|ends| {
            format!("xfrm state add src 198.18.0.{ends} proto esp spi 0x3000 reqid 3 replay-window 32 mode transport aead rfc4106(gcm(aes)) {KEY} 128\n")
        }).concat()
    };
    let (got, [one, two]) = conversation(&rules(&table("early_ingress"), ""), nested);
    assert_eq!(got, want);
    assert!(one >= 30 && two >= 30, "{one} {two}");
}

#[test]
fn packets_of_a_burst_of_esp_are_told_apart() {
    let rules = "table inet t {
        flowtable f { hook early_ingress priority 0; devices = { wan, lan }; }
        chain f { type filter hook forward priority 0; ct state established flow add @f; }
    }";
    let (mut a, mut b) = (gateway(1, &tunnel(1)), gateway(2, &tunnel(2)));
    set_rules(&mut a, rules);
    set_rules(&mut b, rules);
    let wire = |seen: Seen| seen.frames.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>();
    let ether = |n: u8| Ethernet::new("02:00:00:00:01:a7", &*format!("02:00:00:00:01:0{n}"));
    let there = |port: u16| {
        let ip = Ipv4::new("198.18.11.7", "198.18.12.7");
        (ether(1) / ip / Udp::new(port, 2000) / payload(vec![1; port as usize - 900])).build()
    };
    let back = |port: u16| {
        (ether(2) / Ipv4::new("198.18.12.7", "198.18.11.7") / Udp::new(2000, port)).build()
    };
    for port in [1000, 1001].repeat(2) {
        let outer = wire(burst(&mut a, "lan", &[there(port)], START));
        burst(&mut b, "wan", &outer, START);
        let outer = wire(burst(&mut b, "lan", &[back(port)], START));
        burst(&mut a, "wan", &outer, START);
    }
    // The sender sends those of a flow together.
    let sealed =
        wire(burst(&mut a, "lan", &[1000, 1001, 1000, 1001, 1000, 1001].map(there), START));
    let mut outer = [0, 3, 1, 4, 2, 5].map(|n: usize| sealed[n].clone());
    // One that is for another host on the link, and one that was damaged on its way.
    outer[2][5] ^= 1;
    outer[5][80] ^= 1;
    let fast = b.counters().fast;
    let came = burst(&mut b, "wan", &outer, START);
    assert_eq!(b.counters().fast - fast, 4, "{:?}", came.lines);
    let seen: Vec<_> = wire(came).iter().map(|f| (f[34..36].to_vec(), f.len())).collect();
    let want = [1000_u16, 1001, 1001, 1000].map(|p| (p.to_be_bytes().to_vec(), p as usize - 858));
    assert_eq!(seen, want);
}

#[test]
fn a_flow_ends_with_its_state() {
    let rules = "table inet t {
        flowtable f { hook early_ingress priority 0; devices = { wan, lan }; }
        chain f { type filter hook forward priority 0; ct state established flow add @f; }
    }";
    let lines = tunnel(1).replace("mode tunnel flag", "limit packet-hard 10 mode tunnel flag");
    let mut a = gateway(1, &lines);
    set_rules(&mut a, rules);
    let mut b = gateway(2, &tunnel(2));
    let back = (Ethernet::new("02:00:00:00:01:a7", "02:00:00:00:01:02")
        / Ipv4::new("198.18.12.7", "198.18.11.7")
        / Udp::new(2000, 1000)
        / payload([1; 9]))
    .build();
    assert_eq!(receive(&mut a, "lan", &packet(9)).len(), 1);
    let outer = sent(&mut b, "lan", &back);
    assert_eq!(receive(&mut a, "wan", &outer).len(), 1);
    let lines: Vec<String> = (0..12).flat_map(|_| receive(&mut a, "lan", &packet(9))).collect();
    let (left, dropped): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.starts_with("wan:"));
    assert_eq!(left.len(), 9, "{lines:?}");
    assert!(a.counters().fast > 5);
    assert!(dropped.iter().all(|line| line.starts_with("drop: XfrmOut")), "{dropped:?}");
}

/// Routes, neighbours and states may change: what does not concern a flow leaves it alone, and
/// numbers of states continue.
#[test]
fn a_flow_ends_only_with_states_and_routes_that_it_uses() {
    let rules = "table inet t {
        flowtable f { hook early_ingress priority 0; devices = { wan, lan }; }
        chain f { type filter hook forward priority 0; ct state established flow add @f; }
    }";
    type Change = fn(String) -> String;
    let changes: [(&str, Change, bool); 7] = [
        ("nothing", |net| net, true),
        ("another route", |net| net + "route add 192.0.2.0/24 via 198.18.0.2\n", true),
        (
            "a state in front of it",
            |net| {
                let own = net.lines().find(|l| l.contains("spi 0x1001")).unwrap_or_default();
                let other = own
                    .replace("spi 0x1001", "spi 0x9")
                    .replace("dst 198.18.0.2", "dst 198.18.0.9");
                net.replacen(own, &format!("{other}\n{own}"), 1)
            },
            true,
        ),
        (
            "another link address of the next hop",
            |net| net.replace("lladdr 02:00:00:00:00:02", "lladdr 02:00:00:00:00:b2"),
            true,
        ),
        (
            "another way to the other gateway",
            |net| {
                net + "neigh add 198.18.0.77 lladdr 02:00:00:00:00:77 dev wan\nroute add 198.18.0.2/32 via 198.18.0.77\n"
            },
            false,
        ),
        ("another state", |net| net.replace("spi 0x1001", "spi 0x2001"), false),
        (
            "other policies",
            |net| net.lines().filter(|l| !l.contains("policy")).map(|l| format!("{l}\n")).collect(),
            false,
        ),
    ];
    for (what, change, stays) in changes {
        let mut a = gateway(1, &tunnel(1));
        set_rules(&mut a, rules);
        let mut b = gateway(2, &tunnel(2));
        let back = (Ethernet::new("02:00:00:00:01:a7", "02:00:00:00:01:02")
            / Ipv4::new("198.18.12.7", "198.18.11.7")
            / Udp::new(2000, 1000)
            / payload([1; 9]))
        .build();
        let outer = sent(&mut a, "lan", &packet(9));
        assert_eq!(receive(&mut b, "wan", &outer).len(), 1);
        let outer = sent(&mut b, "lan", &back);
        assert_eq!(receive(&mut a, "wan", &outer).len(), 1);
        for _ in 0..3 {
            let outer = sent(&mut a, "lan", &packet(9));
            assert!(receive(&mut b, "wan", &outer)[0].starts_with("lan:"));
        }
        assert_eq!(a.flows().count(), 1);
        let net = Network::from_batch("net.ip", &change(network(1, &tunnel(1)))).unwrap();
        a.set_network(Arc::new(net), START + SECOND, &mut Seen::default());
        let fast = a.counters().fast;
        let seen = receive_at(&mut a, "lan", &packet(9), START + SECOND);
        assert_eq!(a.counters().fast > fast, stays, "{what}: {:?}", seen.lines);
        assert_eq!(a.flow_counts().torn_down, u64::from(!stays), "{what}");
        if stays {
            // The other end has not seen this number yet.
            let mut outer = seen.frames[0].1.clone();
            outer[5] = 2;
            assert!(receive(&mut b, "wan", &outer)[0].starts_with("lan:"), "{what}");
            let outer = sent(&mut b, "lan", &back);
            assert!(receive(&mut a, "wan", &outer)[0].starts_with("lan:"), "{what}");
        }
    }
}
