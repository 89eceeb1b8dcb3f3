// SPDX-License-Identifier: Apache-2.0

//! Expressions print as `nft --debug=netlink` does. The texts were taken from nft 1.0.6 (libnftnl
//! 1.2.4), those of `inner`, `tunnel` and the newer meta keys from libnftnl's format.

use penstock_program::expr::*;
use penstock_program::{Data, Register, Verdict};

fn data(bytes: &[u8]) -> Data {
    Data::new(bytes)
}

fn r(n: u8) -> Register {
    Register(n)
}

#[test]
fn expressions_print_as_nft_shows_them() {
    let value = |dreg, bytes: &[u8]| {
        Expr::Immediate(Immediate { dreg, data: ImmediateData::Value(data(bytes)) })
    };
    let verdict = |v| Expr::Immediate(Immediate { dreg: r(0), data: ImmediateData::Verdict(v) });
    let load = |base, offset, len| Expr::Payload(Payload { base, offset, len, dreg: r(1) });
    let meta = |key| Expr::Meta(Meta { key, dreg: r(1) });
    let ct = |key, dir| Expr::Ct(Ct { key, dir, dreg: r(1) });
    let bitwise = |len, op| Expr::Bitwise(Bitwise { sreg: r(1), dreg: r(1), len, op });
    let exthdr = |op, kind, offset, len, present| {
        Expr::Exthdr(Exthdr { op, kind, offset, len, present, dreg: r(1) })
    };
    let counter = Expr::Counter(Counter::default());
    let limit =
        |rate, unit, burst, kind, over| Expr::Limit(Limit { rate, unit, burst, kind, over });
    let lookup =
        |dreg, inverse| Expr::Lookup(Lookup { set: "s".into(), sreg: r(1), dreg, inverse });
    let dynset = |op, sreg_data, timeout, exprs| {
        Expr::Dynset(Dynset {
            set: "s".into(),
            op,
            sreg_key: r(1),
            sreg_data,
            timeout,
            invert: false,
            exprs,
        })
    };
    let queue =
        |num, total, sreg, bypass, fanout| Expr::Queue(Queue { num, total, sreg, bypass, fanout });
    let fib = |flags, result| Expr::Fib(Fib { result, flags, dreg: r(1) });
    let nat = |kind, family, regs: [Option<u8>; 4], flags| {
        let [addr_min, addr_max, proto_min, proto_max] = regs.map(|n| n.map(Register));
        Expr::Nat(Nat { kind, family, addr_min, addr_max, proto_min, proto_max, flags })
    };
    let tproxy = |family, addr: Option<u8>, port: Option<u8>| {
        Expr::Tproxy(Tproxy { family, addr: addr.map(Register), port: port.map(Register) })
    };
    let group =
        Log { group: Some(2), snaplen: Some(33), queue_threshold: Some(4), ..Log::default() };
    let table: Vec<(Expr, &str)> = vec![
        (value(r(1), &[1, 2, 3, 4]), "[ immediate reg 1 0x04030201 ]"),
        (value(r(2), &[0, 80]), "[ immediate reg 2 0x00005000 ]"),
        (verdict(Verdict::Accept), "[ immediate reg 0 accept ]"),
        (verdict(Verdict::Drop), "[ immediate reg 0 drop ]"),
        (verdict(Verdict::Queue), "[ immediate reg 0 queue ]"),
        (verdict(Verdict::Return), "[ immediate reg 0 return ]"),
        (verdict(Verdict::Continue), "[ immediate reg 0 continue ]"),
        (verdict(Verdict::Jump("c".into())), "[ immediate reg 0 jump -> c ]"),
        (verdict(Verdict::Goto("c".into())), "[ immediate reg 0 goto -> c ]"),
        (verdict(Verdict::Jump("".into())), "[ immediate reg 0 jump ]"),
        (load(PayloadBase::Link, 6, 6), "[ payload load 6b @ link header + 6 => reg 1 ]"),
        (load(PayloadBase::Network, 12, 4), "[ payload load 4b @ network header + 12 => reg 1 ]"),
        (load(PayloadBase::Transport, 2, 2), "[ payload load 2b @ transport header + 2 => reg 1 ]"),
        (load(PayloadBase::Inner, 0, 4), "[ payload load 4b @ inner header + 0 => reg 1 ]"),
        (
            Expr::PayloadSet(PayloadSet {
                base: PayloadBase::Network,
                offset: 12,
                len: 4,
                sreg: r(1),
                csum_type: ChecksumType::Inet,
                csum_offset: 10,
                csum_flags: L4CSUM_PSEUDOHDR,
            }),
            "[ payload write reg 1 => 4b @ network header + 12 csum_type 1 csum_off 10 csum_flags 0x1 ]",
        ),
        (
            Expr::PayloadSet(PayloadSet {
                base: PayloadBase::Transport,
                offset: 2,
                len: 2,
                sreg: r(1),
                csum_type: ChecksumType::Sctp,
                csum_offset: 8,
                csum_flags: 0,
            }),
            "[ payload write reg 1 => 2b @ transport header + 2 csum_type 2 csum_off 8 csum_flags 0x0 ]",
        ),
        (meta(MetaKey::L4Proto), "[ meta load l4proto => reg 1 ]"),
        (meta(MetaKey::BriIifVproto), "[ meta load bri_iifvproto => reg 1 ]"),
        (meta(MetaKey::TimeNs), "[ meta load time => reg 1 ]"),
        (meta(MetaKey::TimeHour), "[ meta load hour => reg 1 ]"),
        (meta(MetaKey::BriBroute), "[ meta load broute => reg 1 ]"),
        (Expr::MetaSet(MetaSet { key: MetaKey::Mark, sreg: r(1) }), "[ meta set mark with reg 1 ]"),
        (
            Expr::Cmp(Cmp {
                op: CmpOp::Eq,
                sreg: r(1),
                data: data(&[0, 0x11, 0x22, 0x33, 0x44, 0x55]),
            }),
            "[ cmp eq reg 1 0x33221100 0x00005544 ]",
        ),
        (
            Expr::Cmp(Cmp { op: CmpOp::Gte, sreg: r(9), data: data(&[4, 0]) }),
            "[ cmp gte reg 9 0x00000004 ]",
        ),
        (
            Expr::Range(Range {
                op: CmpOp::Neq,
                sreg: r(1),
                from: data(&[0, 3]),
                to: data(&[0, 4]),
            }),
            "[ range neq reg 1 0x00000300 0x00000400 ]",
        ),
        (
            bitwise(4, BitwiseOp::MaskXor { mask: data(&[255, 0, 0, 0]), xor: data(&[0; 4]) }),
            "[ bitwise reg 1 = ( reg 1 & 0x000000ff ) ^ 0x00000000 ]",
        ),
        (bitwise(4, BitwiseOp::Lshift(3)), "[ bitwise reg 1 = ( reg 1 << 0x00000003 ) ]"),
        (
            bitwise(4, BitwiseOp::Combine(BoolOp::And, r(2))),
            "[ bitwise reg 1 = ( reg 1 & reg 2 ) ]",
        ),
        (bitwise(4, BitwiseOp::Combine(BoolOp::Or, r(2))), "[ bitwise reg 1 = ( reg 1 | reg 2 ) ]"),
        (
            bitwise(4, BitwiseOp::Combine(BoolOp::Xor, r(2))),
            "[ bitwise reg 1 = ( reg 1 ^ reg 2 ) ]",
        ),
        (bitwise(4, BitwiseOp::Rshift(24)), "[ bitwise reg 1 = ( reg 1 >> 0x00000018 ) ]"),
        (
            Expr::Byteorder(Byteorder {
                op: ByteorderOp::Hton,
                sreg: r(1),
                dreg: r(1),
                len: 4,
                size: 2,
            }),
            "[ byteorder reg 1 = hton(reg 1, 2, 4) ]",
        ),
        (lookup(None, false), "[ lookup reg 1 set s ]"),
        (lookup(None, true), "[ lookup reg 1 set s 0x1 ]"),
        (lookup(Some(r(0)), false), "[ lookup reg 1 set s dreg 0 ]"),
        (dynset(DynsetOp::Add, None, 0, vec![]), "[ dynset add reg_key 1 set s ]"),
        (dynset(DynsetOp::Delete, None, 0, vec![]), "[ dynset delete reg_key 1 set s ]"),
        (
            dynset(DynsetOp::Update, Some(r(2)), 0, vec![]),
            "[ dynset update reg_key 1 set s sreg_data 2 ]",
        ),
        (
            dynset(
                DynsetOp::Update,
                None,
                10_000,
                vec![counter.clone(), limit(1, 1, 5, LimitType::Packets, false)],
            ),
            "[ dynset update reg_key 1 set s timeout 10000ms expr [ counter pkts 0 bytes 0 ] \
             expr [ limit rate 1/second burst 5 type packets flags 0x0 ] ]",
        ),
        (counter, "[ counter pkts 0 bytes 0 ]"),
        (
            limit(400, 60, 10, LimitType::Packets, true),
            "[ limit rate 400/minute burst 10 type packets flags 0x1 ]",
        ),
        (
            limit(1_048_576, 3600, 3072, LimitType::Bytes, false),
            "[ limit rate 1048576/hour burst 3072 type bytes flags 0x0 ]",
        ),
        (
            Expr::Quota(Quota { bytes: 100, consumed: 20, over: true, depleted: false }),
            "[ quota bytes 100 consumed 20 flags 1 ]",
        ),
        (Expr::Last(Last::default()), "[ last never ]"),
        (Expr::Last(Last { set: true, msecs: 12 }), "[ last 12 ]"),
        (Expr::Connlimit(Connlimit { count: 3, over: true }), "[ connlimit count 3 flags 1 ]"),
        (
            Expr::Objref(Objref::Named { kind: ObjectType::Counter, name: "cnt".into() }),
            "[ objref type 1 name cnt ]",
        ),
        (
            Expr::Objref(Objref::Map { sreg: r(1), set: "__objmap0".into() }),
            "[ objref sreg 1 set __objmap0 ]",
        ),
        (Expr::Log(Log::default()), "[ log ]"),
        (
            Expr::Log(Log {
                prefix: Some("a b: ".into()),
                level: Some(7),
                flags: Some(LOG_TCPSEQ | LOG_TCPOPT | LOG_IPOPT | LOG_UID | LOG_MACDECODE),
                ..Log::default()
            }),
            "[ log prefix a b:  level 7 tcpseq tcpopt ipopt uid macdecode ]",
        ),
        (
            Expr::Log(Log { prefix: Some("x".into()), ..group }),
            "[ log prefix x group 2 snaplen 33 qthreshold 4 ]",
        ),
        (exthdr(ExthdrOp::Ipv6, 44, 3, 1, false), "[ exthdr load ipv6 1b @ 44 + 3 => reg 1 ]"),
        (
            exthdr(ExthdrOp::TcpOpt, 5, 0, 1, true),
            "[ exthdr load tcpopt 1b @ 5 + 0 present => reg 1 ]",
        ),
        (exthdr(ExthdrOp::Ipv4Opt, 148, 2, 2, false), "[ exthdr load ipv4 2b @ 148 + 2 => reg 1 ]"),
        (exthdr(ExthdrOp::Sctp, 0, 1, 1, false), "[ exthdr load 1b @ 0 + 1 => reg 1 ]"),
        (
            Expr::ExthdrSet(ExthdrSet {
                op: ExthdrOp::TcpOpt,
                kind: 2,
                offset: 2,
                len: 2,
                sreg: r(1),
            }),
            "[ exthdr write tcpopt reg 1 => 2b @ 2 + 2 ]",
        ),
        (
            Expr::ExthdrReset(ExthdrReset { op: ExthdrOp::TcpOpt, kind: 4 }),
            "[ exthdr reset tcpopt 4 ]",
        ),
        (
            Expr::Numgen(Numgen { mode: NumgenMode::Inc, modulus: 3, offset: 0, dreg: r(1) }),
            "[ numgen reg 1 = inc mod 3 ]",
        ),
        (
            Expr::Numgen(Numgen { mode: NumgenMode::Random, modulus: 3, offset: 5, dreg: r(1) }),
            "[ numgen reg 1 = random mod 3 offset 5 ]",
        ),
        (
            Expr::Hash(Hash::Jenkins {
                sreg: r(2),
                len: 4,
                seed: Some(0xab),
                modulus: 3,
                offset: 0,
                dreg: r(1),
            }),
            "[ hash reg 1 = jhash(reg 2, 4, 0xab) % mod 3 ]",
        ),
        (
            Expr::Hash(Hash::Jenkins {
                sreg: r(2),
                len: 8,
                seed: None,
                modulus: 3,
                offset: 100,
                dreg: r(1),
            }),
            "[ hash reg 1 = jhash(reg 2, 8, 0x0) % mod 3 offset 100 ]",
        ),
        (
            Expr::Hash(Hash::Sym { modulus: 3, offset: 0, dreg: r(1) }),
            "[ hash reg 1 = symhash() % mod 3 ]",
        ),
        (
            fib(FIB_SADDR | FIB_IIF | FIB_PRESENT, FibResult::Oif),
            "[ fib saddr . iif oif present => reg 1 ]",
        ),
        (fib(FIB_DADDR | FIB_MARK, FibResult::AddrType), "[ fib daddr . mark type => reg 1 ]"),
        (
            fib(FIB_SADDR | FIB_MARK | FIB_IIF, FibResult::OifName),
            "[ fib saddr . mark . iif oifname => reg 1 ]",
        ),
        (Expr::Rt(Rt { key: RtKey::TcpMss, dreg: r(1) }), "[ rt load tcpmss => reg 1 ]"),
        (Expr::Rt(Rt { key: RtKey::Xfrm, dreg: r(1) }), "[ rt load ipsec => reg 1 ]"),
        (ct(CtKey::State, None), "[ ct load state => reg 1 ]"),
        (ct(CtKey::SrcIp, Some(CtDir::Original)), "[ ct load src_ip => reg 1 , dir original ]"),
        (ct(CtKey::Id, None), "[ ct load unknown => reg 1 ]"),
        (
            Expr::CtSet(CtSet { key: CtKey::Labels, dir: None, sreg: r(1) }),
            "[ ct set label with reg 1 ]",
        ),
        (Expr::Notrack(Notrack), "[ notrack ]"),
        (nat(NatType::Snat, 2, [Some(1), None, None, None], 0), "[ nat snat ip addr_min reg 1 ]"),
        (
            nat(NatType::Dnat, 2, [Some(1), Some(9), None, None], 64),
            "[ nat dnat ip addr_min reg 1 addr_max reg 9 flags 0x40 ]",
        ),
        (
            nat(NatType::Dnat, 1, [None, None, Some(1), None], 2),
            "[ nat dnat inet proto_min reg 1 flags 0x2 ]",
        ),
        (
            Expr::Masq(Masq { proto_min: Some(r(1)), proto_max: Some(r(2)), flags: 2 }),
            "[ masq proto_min reg 1 proto_max reg 2 flags 0x2 ]",
        ),
        (Expr::Masq(Masq { proto_min: None, proto_max: None, flags: 0 }), "[ masq ]"),
        (
            Expr::Redir(Redir { proto_min: Some(r(1)), proto_max: None, flags: 2 }),
            "[ redir proto_min reg 1 flags 0x2 ]",
        ),
        (
            Expr::Reject(Reject { kind: RejectType::IcmpxUnreach, code: 1 }),
            "[ reject type 2 code 1 ]",
        ),
        (Expr::Dup(Dup { addr: Some(r(1)), dev: Some(r(2)) }), "[ dup sreg_addr 1 sreg_dev 2 ]"),
        (Expr::Fwd(Fwd { dev: r(1), addr: None, nfproto: 0 }), "[ fwd sreg_dev 1 ]"),
        (
            Expr::Fwd(Fwd { dev: r(1), addr: Some(r(2)), nfproto: 2 }),
            "[ fwd sreg_dev 1 sreg_addr 2 nfproto 2 ]",
        ),
        (queue(0, 1, None, false, false), "[ queue num 0 ]"),
        (queue(1, 3, None, true, true), "[ queue num 1-3 bypass fanout ]"),
        (queue(0, 0, Some(r(1)), true, false), "[ queue sreg_qnum 1 bypass ]"),
        (tproxy(2, Some(1), Some(2)), "[ tproxy ip addr reg 1 port reg 2 ]"),
        (tproxy(0, None, Some(1)), "[ tproxy port reg 1 ]"),
        (
            Expr::Synproxy(Synproxy { mss: 1460, wscale: 7, flags: 15 }),
            "[ synproxy mss 1460 wscale 7 ]",
        ),
        (
            Expr::Socket(Socket { key: SocketKey::Cgroupv2, level: 1, dreg: r(1) }),
            "[ socket load cgroupv2 => reg 1 ]",
        ),
        (Expr::Osf(Osf { ttl: 1, version: false, dreg: r(1) }), "[ osf dreg 1 ]"),
        (
            Expr::Xfrm(Xfrm { key: XfrmKey::SaddrIp4, out: true, spnum: 1, dreg: r(1) }),
            "[ xfrm load out 1 saddr4 => reg 1 ]",
        ),
        (Expr::Tunnel(Tunnel { key: TunnelKey::Id, dreg: r(1) }), "[ tunnel load id => reg 1 ]"),
        (
            Expr::Inner(Inner {
                kind: 1,
                hdrsize: 8,
                flags: 15,
                expr: Box::new(load(PayloadBase::Tunnel, 4, 3)),
            }),
            "[ inner type 1 hdrsize 8 flags f [ payload load 3b @ tunnel header + 4 => reg 1 ] ]",
        ),
        (Expr::FlowOffload(FlowOffload { flowtable: "f".into() }), "[ flow_offload flowtable f ]"),
        (
            Expr::Xt(Xt { target: false, name: "comment".into(), rev: 0, info: [][..].into() }),
            "[ match name comment rev 0 ]",
        ),
    ];
    for (expr, text) in table {
        assert_eq!(expr.to_string(), text);
    }
}
