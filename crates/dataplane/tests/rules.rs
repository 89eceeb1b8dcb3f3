// SPDX-License-Identifier: Apache-2.0

//! Rulesets at the hooks of a router: which chains see a packet, in which order, and what rules
//! make of it.

mod router;

use penstock_program::expr::*;
use penstock_program::{Data, Hook, Register, Verdict};
use penstock_ruleset::Family;
use penstock_ruleset::model::ChainType;
use penstock_testkit::build::*;
use router::*;

fn forwarded() -> Vec<u8> {
    (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(1, 2) / payload(b"abc")).build()
}

const THROUGH: &str = "lan: to b7 198.18.0.7 > 198.18.1.7 ttl 63 len 31 udp";

fn log(text: &str) -> Vec<Expr> {
    vec![Expr::Log(Log { prefix: Some(text.into()), group: Some(0), ..Log::default() })]
}

fn mark(value: u32) -> Vec<Expr> {
    let data = Data::new(&value.to_ne_bytes());
    vec![
        Expr::Immediate(Immediate { dreg: Register(1), data: ImmediateData::Value(data) }),
        Expr::MetaSet(MetaSet { key: MetaKey::Mark, sreg: Register(1) }),
    ]
}

#[test]
fn hooks_run_in_the_kernels_order_and_equal_priorities_latest_first() {
    use Family::*;
    let mut path = router(NET);
    let dev: &[&str] = &["wan", "lan"];
    load(
        &mut path,
        vec![
            Base::new(Ip, "post", Hook::Postrouting, vec![log("post ")]),
            Base::new(Ip, "fwd1", Hook::Forward, vec![log("fwd early ")]).at(-10),
            Base::new(Ip, "fwd2", Hook::Forward, vec![log("fwd first ")]),
            Base::new(Inet, "fwd3", Hook::Forward, vec![log("fwd second ")]),
            Base::new(Ip, "input", Hook::Input, vec![log("input ")]),
            Base::new(Ip6, "pre6", Hook::Prerouting, vec![log("six ")]),
            Base::new(Inet, "pre", Hook::Prerouting, vec![log("pre ")]),
            Base::new(Netdev, "in", Hook::Ingress, vec![log("ingress ")]).on(dev),
            Base::new(Netdev, "out", Hook::Egress, vec![log("egress ")]).on(dev),
            Base::new(Inet, "inet in", Hook::Ingress, vec![log("inet ingress ")])
                .on(&["w*"])
                .at(-1),
            Base::new(Netdev, "other", Hook::Ingress, vec![log("never ")]).on(&["nope"]),
        ],
    );
    assert_eq!(
        receive(&mut path, "wan", &forwarded()),
        [
            "log inet ingress wan -",
            "log ingress wan -",
            "log pre wan -",
            "log fwd early wan lan",
            "log fwd second wan lan",
            "log fwd first wan lan",
            "log post wan lan",
            "log egress - lan",
            THROUGH,
        ]
    );
    let own = (from_wan() / Ipv4::new("198.18.0.7", "198.18.0.1") / Udp::new(1, 2)).build();
    assert_eq!(
        receive(&mut path, "wan", &own)[3..],
        ["log input wan -", "host from wan: 198.18.0.7 > 198.18.0.1 ttl 64 len 28 udp"]
    );
}

#[test]
fn drops_name_the_rule_or_the_policy() {
    use Family::*;
    let mut path = router(NET);
    let accept_then_drop = || {
        vec![
            Base::new(Ip, "a", Hook::Forward, vec![vec![verdict(Verdict::Accept)]]).at(-10),
            Base::new(Ip, "b", Hook::Forward, vec![vec![counter()], vec![verdict(Verdict::Drop)]])
                .at(10),
        ]
    };
    load(&mut path, accept_then_drop());
    assert_eq!(receive(&mut path, "wan", &forwarded()), ["drop: rule t b handle 5"]);
    load(&mut path, vec![Base::new(Inet, "p", Hook::Prerouting, vec![]).policy_drop()]);
    assert_eq!(receive(&mut path, "wan", &forwarded()), ["drop: policy t p"]);
    load(&mut path, vec![Base::new(Ip6, "p", Hook::Prerouting, vec![]).policy_drop()]);
    assert_eq!(receive(&mut path, "wan", &forwarded()), [THROUGH]);
}

#[test]
fn lengths_count_the_link_header_at_egress_only() {
    use Family::*;
    let mut path = router(NET);
    let count = || vec![vec![counter()]];
    let ruleset = load(
        &mut path,
        vec![
            Base::new(Netdev, "in", Hook::Ingress, count()).on(&["wan"]),
            Base::new(Netdev, "out", Hook::Egress, count()).on(&["lan"]),
        ],
    );
    receive(&mut path, "wan", &forwarded());
    assert_eq!(counters(&ruleset), [(1, 31), (1, 45)]);
    let mut seen = Seen::default();
    let lan = path.network().link_by_name("lan").unwrap().index;
    path.send_raw(lan, &[0; 60], START, &mut seen);
    assert_eq!(counters(&ruleset), [(1, 31), (2, 105)], "raw frames pass egress");
}

#[test]
fn forwarding_loops_end() {
    use Family::*;
    let mut path = router(NET);
    let lan = 3u32.to_ne_bytes();
    let dup =
        vec![immediate(1, &lan), Expr::Dup(Dup { addr: None, dev: Some(Register(1)) }), counter()];
    let ruleset =
        load(&mut path, vec![Base::new(Netdev, "e", Hook::Egress, vec![dup]).on(&["lan"])]);
    let sent = receive(&mut path, "wan", &forwarded());
    assert_eq!(
        sent.iter().filter(|l| *l == THROUGH).count(),
        4,
        "the frame and three copies: {sent:?}"
    );
    assert_eq!(counters(&ruleset)[0].0, 4);
}

#[test]
fn a_fragment_dropped_at_egress_drops_the_following_ones() {
    use Family::*;
    let mut path = router(NET);
    let big =
        (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(1, 2) / payload([7; 1450]))
            .build();
    let egress =
        Base::new(Netdev, "e", Hook::Egress, vec![vec![counter()]]).on(&["lan"]).policy_drop();
    let ruleset = load(&mut path, vec![egress]);
    assert_eq!(receive(&mut path, "wan", &big), ["drop: policy t e"]);
    assert_eq!(counters(&ruleset), [(1, 1410)]);
}

#[test]
fn vlan_devices_have_their_own_ingress_and_egress() {
    use Family::*;
    let mut path = router(NET);
    let dev: &[&str] = &["lan", "lan.7"];
    load(
        &mut path,
        vec![
            Base::new(Netdev, "in", Hook::Ingress, vec![log("in ")]).on(dev),
            Base::new(Netdev, "out", Hook::Egress, vec![log("out ")]).on(dev),
        ],
    );
    let tagged = (Ethernet::new("02:00:00:00:00:c7", "02:00:00:00:00:02")
        / Vlan::new(7)
        / Ipv4::new("198.18.7.7", "198.18.0.7")
        / Udp::new(1, 2))
    .build();
    let through = "wan: to a7 198.18.7.7 > 198.18.0.7 ttl 63 len 28 udp";
    assert_eq!(receive(&mut path, "lan", &tagged), ["log in lan -", "log in lan.7 -", through]);
    let out = (from_wan() / Ipv4::new("198.18.0.7", "198.18.7.7") / Udp::new(1, 2)).build();
    let through = "lan: to c7 vlan 7 prio 0 198.18.0.7 > 198.18.7.7 ttl 63 len 28 udp";
    assert_eq!(receive(&mut path, "wan", &out), ["log out - lan.7", "log out - lan", through]);
}

fn reject(kind: RejectType, code: u8) -> Vec<Vec<Expr>> {
    vec![vec![Expr::Reject(Reject { kind, code })]]
}

#[test]
fn rejected_packets_are_answered() {
    use Family::*;
    let tcp = |flags: Tcp| (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / flags).build();
    let tcp6 =
        |flags: Tcp| (from_wan() / Ipv6::new("2001:db8::7", "2001:db8:1::7") / flags).build();
    let syn = || Tcp::new(1000, 80).syn();
    let (unreach, reset, any) =
        (RejectType::IcmpUnreach, RejectType::TcpRst, RejectType::IcmpxUnreach);
    let table: Vec<(&str, Base, Vec<u8>, &[&str])> = vec![
        (
            "port unreachable",
            Base::new(Ip, "c", Hook::Forward, reject(unreach, 3)),
            forwarded(),
            &[
                "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 59 tos 0xc0 icmp 3/3 0x0",
                "drop: reject t c handle 2",
            ],
        ),
        (
            "reset of a SYN",
            Base::new(Ip, "c", Hook::Forward, reject(reset, 0)),
            tcp(syn()),
            &[
                "wan: to a7 198.18.1.7 > 198.18.0.7 ttl 64 len 40 df tcp 80>1000 flags 0x14 seq 0 ack 1",
                "drop: reject t c handle 2",
            ],
        ),
        (
            "reset of an ACK before routing",
            Base::new(Inet, "c", Hook::Prerouting, reject(reset, 0)),
            tcp(Tcp::new(1000, 80).ack(5000)),
            &[
                "wan: to a7 198.18.1.7 > 198.18.0.7 ttl 64 len 40 df tcp 80>1000 flags 0x04 seq 5000 ack 0",
                "drop: reject t c handle 2",
            ],
        ),
        (
            "no reset of a reset",
            Base::new(Ip, "c", Hook::Forward, reject(reset, 0)),
            tcp(Tcp::new(1000, 80).rst()),
            &["drop: reject t c handle 2"],
        ),
        (
            "no answer with a wrong checksum",
            Base::new(Ip, "c", Hook::Forward, reject(unreach, 3)),
            (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(1, 2).checksum(0xbad))
                .build(),
            &["drop: reject t c handle 2"],
        ),
        (
            "IPv6 by icmpx",
            Base::new(Inet, "c", Hook::Forward, reject(any, 3)),
            tcp6(syn()),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8::7 hlim 64 len 68 icmpv6 1/1 0x0",
                "drop: reject t c handle 2",
            ],
        ),
        (
            "IPv6 reset",
            Base::new(Inet, "c", Hook::Forward, reject(reset, 0)),
            tcp6(syn()),
            &[
                "wan: to a7 2001:db8:1::7 > 2001:db8::7 hlim 64 len 20 tcp 80>1000 flags 0x14 seq 0 ack 1",
                "drop: reject t c handle 2",
            ],
        ),
        (
            "at ingress straight back from the device",
            Base::new(Netdev, "c", Hook::Ingress, reject(any, 1)).on(&["wan"]),
            forwarded(),
            &[
                "wan: to a7 198.18.1.7 > 198.18.0.7 ttl 64 len 59 df icmp 3/3 0x0",
                "drop: reject t c handle 2",
            ],
        ),
        (
            "reset at ingress",
            Base::new(Netdev, "c", Hook::Ingress, reject(reset, 0)).on(&["wan"]),
            tcp6(syn()),
            &[
                "wan: to a7 2001:db8:1::7 > 2001:db8::7 hlim 64 len 20 tcp 80>1000 flags 0x14 seq 0 ack 1",
                "drop: reject t c handle 2",
            ],
        ),
    ];
    for (name, base, frame, want) in table {
        let mut path = router(NET);
        load(&mut path, vec![base]);
        assert_eq!(receive(&mut path, "wan", &frame), want, "{name}");
    }
}

#[test]
fn generated_replies_pass_output_and_postrouting() {
    use Family::*;
    let mut path = router(NET);
    load(
        &mut path,
        vec![
            Base::new(Ip, "f", Hook::Forward, reject(RejectType::IcmpUnreach, 3)),
            Base::new(Ip, "o", Hook::Output, vec![log("output ")]),
            Base::new(Ip, "p", Hook::Postrouting, vec![log("post ")]),
            Base::new(Netdev, "e", Hook::Egress, vec![log("egress ")]).on(&["wan"]),
        ],
    );
    let lines = receive(&mut path, "wan", &forwarded());
    assert_eq!(lines[..3], ["log output - wan", "log post - wan", "log egress - wan"]);
}

#[test]
fn marks_choose_routes_before_routing_and_in_route_chains() {
    use Family::*;
    let net = format!(
        "{NET}rule add fwmark 5 lookup 100\nroute add 198.18.1.0/24 via 198.18.7.7 table 100\n"
    );
    let by_mark = "lan: to c7 vlan 7 prio 0 198.18.0.7 > 198.18.1.7 ttl 63 len 31 udp";
    let mut path = router(&net);
    load(&mut path, vec![Base::new(Ip, "m", Hook::Prerouting, vec![mark(5)])]);
    assert_eq!(receive(&mut path, "wan", &forwarded()), [by_mark]);
    let bytes = (Ipv4::new("198.18.1.1", "198.18.1.7").id(1) / Udp::new(1, 2)).build();
    for (kind, want) in [
        (ChainType::Filter, "lan: to b7 198.18.1.1 > 198.18.1.7 ttl 64 len 28 udp"),
        (ChainType::Route, "lan: to c7 vlan 7 prio 0 198.18.1.1 > 198.18.1.7 ttl 64 len 28 udp"),
    ] {
        load(&mut path, vec![Base::new(Ip, "m", Hook::Output, vec![mark(5)]).of(kind)]);
        let mut seen = Seen::default();
        path.send_host(&bytes, START, &mut seen);
        assert_eq!(seen.lines, [want], "{kind:?}");
    }
}

fn immediate(register: u8, bytes: &[u8]) -> Expr {
    Expr::Immediate(Immediate {
        dreg: Register(register),
        data: ImmediateData::Value(Data::new(bytes)),
    })
}

#[test]
fn packets_are_copied_and_diverted() {
    use Family::*;
    let lan = 3u32.to_ne_bytes();
    let mut path = router(NET);
    assert_eq!(path.network().link_by_name("lan").unwrap().index, 3);
    let dup = vec![
        immediate(1, &lan),
        Expr::Dup(Dup { addr: None, dev: Some(Register(1)) }),
        verdict(Verdict::Drop),
    ];
    load(&mut path, vec![Base::new(Netdev, "c", Hook::Ingress, vec![dup]).on(&["wan"])]);
    let as_it_came = "lan: to 01 198.18.0.7 > 198.18.1.7 ttl 64 len 31 udp";
    assert_eq!(receive(&mut path, "wan", &forwarded()), [as_it_came, "drop: rule t c handle 2"]);

    let fwd = vec![immediate(1, &lan), Expr::Fwd(Fwd { dev: Register(1), addr: None, nfproto: 0 })];
    let seen = Base::new(Netdev, "e", Hook::Egress, vec![log("egress ")]).on(&["lan"]);
    load(&mut path, vec![Base::new(Netdev, "c", Hook::Ingress, vec![fwd]).on(&["wan"]), seen]);
    assert_eq!(receive(&mut path, "wan", &forwarded()), ["log egress - lan", as_it_came]);

    let to = vec![
        immediate(1, &lan),
        immediate(2, &[198, 18, 1, 7]),
        Expr::Fwd(Fwd { dev: Register(1), addr: Some(Register(2)), nfproto: 2 }),
    ];
    load(&mut path, vec![Base::new(Netdev, "c", Hook::Ingress, vec![to]).on(&["wan"])]);
    assert_eq!(receive(&mut path, "wan", &forwarded()), [THROUGH]);

    let copy =
        vec![immediate(1, &[198, 18, 1, 7]), Expr::Dup(Dup { addr: Some(Register(1)), dev: None })];
    load(&mut path, vec![Base::new(Ip, "c", Hook::Prerouting, vec![copy])]);
    let own = (from_wan() / Ipv4::new("198.18.0.7", "198.18.0.1") / Udp::new(1, 2)).build();
    assert_eq!(
        receive(&mut path, "wan", &own),
        [
            "lan: to b7 198.18.0.7 > 198.18.0.1 ttl 63 len 28 df udp",
            "host from wan: 198.18.0.7 > 198.18.0.1 ttl 64 len 28 udp"
        ]
    );
}

#[test]
fn the_way_back_and_address_types_can_be_matched() {
    use Family::*;
    const SADDR_IIF: u32 = 1 | 8;
    let fib = |flags, result| Expr::Fib(Fib { result, flags, dreg: Register(1) });
    let equals = |value: u32| {
        Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: Register(1), data: Data::new(&value.to_ne_bytes()) })
    };
    let rule = |a, b| vec![vec![a, b, counter()]];
    let from = |src: &str| (from_wan() / Ipv4::new(src, "198.18.1.7") / Udp::new(1, 2)).build();
    let counts = |hook, rules, frame: &[u8]| {
        let mut path = router(NET);
        let base = match hook {
            Hook::Ingress => Base::new(Netdev, "c", hook, rules).on(&["wan"]),
            _ => Base::new(Inet, "c", hook, rules),
        };
        let ruleset = load(&mut path, vec![base]);
        receive(&mut path, "wan", frame);
        counters(&ruleset)[0].0
    };
    for hook in [Hook::Ingress, Hook::Prerouting] {
        let missing = || rule(fib(SADDR_IIF, FibResult::Oif), equals(0));
        assert_eq!(
            counts(hook, missing(), &from("198.18.0.9")),
            0,
            "came in where the way back is"
        );
        assert_eq!(counts(hook, missing(), &from("198.18.7.9")), 1, "came in elsewhere");
        assert_eq!(counts(hook, missing(), &from("192.0.2.9")), 1, "no way back");
        let kind = |n: u32| rule(fib(2, FibResult::AddrType), equals(n));
        let to = |dst: &str| (from_wan() / Ipv4::new("198.18.0.7", dst) / Udp::new(1, 2)).build();
        for (dst, number) in
            [("198.18.0.1", 2), ("198.18.0.255", 3), ("198.18.1.7", 1), ("224.0.0.5", 5)]
        {
            assert_eq!(counts(hook, kind(number), &to(dst)), 1, "{dst}");
        }
        let to6 = |dst: &str| (from_wan() / Ipv6::new("2001:db8::7", dst) / Udp::new(1, 2)).build();
        for (dst, number) in [
            ("2001:db8::1", 2),
            ("2001:db8::", 4),
            ("2001:db8:1::7", 1),
            ("2001:db8:a::1", 7),
            ("2001:db8:b::1", 8),
        ] {
            assert_eq!(counts(hook, kind(number), &to6(dst)), 1, "{dst}");
        }
    }
}

#[test]
fn traces_contain_every_step() {
    use Family::*;
    let mut path = router(NET);
    path.trace_all(true);
    load(
        &mut path,
        vec![
            Base::new(Ip, "p", Hook::Prerouting, vec![vec![counter()]]),
            Base::new(Ip, "f", Hook::Forward, vec![vec![verdict(Verdict::Drop)]]),
        ],
    );
    assert_eq!(
        receive(&mut path, "wan", &forwarded()),
        [
            "trace 1 t p packet",
            "trace 1 t p rule 2 Continue",
            "trace 1 t p return Return",
            "trace 1 t p policy accept",
            "trace 1 t f packet",
            "trace 1 t f rule 4 Drop",
            "drop: rule t f handle 4",
        ]
    );
}
