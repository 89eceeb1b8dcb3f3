// SPDX-License-Identifier: Apache-2.0

use penstock_dataplane::{LogRecord, Place};
use penstock_packet::Packet;
use penstock_program::expr::Log;
use penstock_program::{Context, Hook};
use penstock_ruleset::Family;
use penstock_testkit::build::*;
use penstock_wire::ethernet::Mac;

use super::*;

const DEVICE: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn ether() -> Ethernet {
    Ethernet::new("02:00:00:00:00:01", DEVICE)
}

fn v4() -> Frame {
    ether() / Ipv4::new("198.18.0.1", "198.18.0.2")
}

fn v6() -> Frame {
    ether() / Ipv6::new("2001:db8::1", "2001:db8::2")
}

/// What a statement at `input` says of a frame.
fn said(log: Log, frame: impl Into<Frame>, mark: u32) -> String {
    let net = penstock_net::Network::from_batch(
        "net",
        "link add lan address 02:00:00:00:00:02 type veth",
    )
    .unwrap();
    let mut packet = Packet::new();
    packet.receive_ethernet(&frame.into().build(), DEVICE);
    packet.meta.mark = mark;
    packet.meta.time = 12_345_678_000;
    let place = Place { family: Family::Inet, table: "t", chain: "c", rule: None };
    let context = Context { family: Family::Ip, hook: Hook::Input };
    let record = LogRecord {
        log: &log,
        place,
        context,
        input: net.link_by_name("lan"),
        output: None,
        ports: [None; 2],
        connection: None,
    };
    line(&record, &packet, 0)
}

const HEAD: &str = "<4>[   12.345678] IN=lan OUT= MAC=02:00:00:00:00:02:02:00:00:00:00:01:08:00 \
                    SRC=198.18.0.1 DST=198.18.0.2 ";
const HEAD6: &str = "<4>[   12.345678] IN=lan OUT= MAC=02:00:00:00:00:02:02:00:00:00:00:01:86:dd \
                     SRC=2001:0db8:0000:0000:0000:0000:0000:0001 DST=2001:0db8:0000:0000:0000:0000:0000:0002 ";

#[test]
fn each_protocol_is_logged_with_its_fields() {
    let quoted = Ipv4::new("198.18.0.2", "198.18.0.1") / Udp::new(7, 8);
    let quoted = payload(quoted.build());
    for (frame, text) in [
        (
            v4() / Udp::new(1, 2) / payload([0; 4]),
            "LEN=32 TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=UDP SPT=1 DPT=2 LEN=12 ",
        ),
        (
            v4() / Tcp::new(1, 2).seq(5).flags(0x12).window(9),
            "LEN=40 TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=TCP SPT=1 DPT=2 WINDOW=9 RES=0x00 ACK SYN URGP=0 ",
        ),
        (
            ether() / Ipv4::new("198.18.0.1", "198.18.0.2").fragment(3, true) / payload([0; 8]),
            "LEN=28 TOS=0x00 PREC=0x00 TTL=64 ID=0 MF FRAG:3 PROTO=253 ",
        ),
        (
            v4() / Icmp::echo_request(7, 9),
            "LEN=28 TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=ICMP TYPE=8 CODE=0 ID=7 SEQ=9 ",
        ),
        (
            v4() / Icmp::new(3, 4).rest_of_header(1400) / quoted,
            "LEN=56 TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=ICMP TYPE=3 CODE=4 [SRC=198.18.0.2 DST=198.18.0.1 LEN=28 \
             TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=UDP SPT=7 DPT=8 LEN=8 ] MTU=1400 ",
        ),
    ] {
        assert_eq!(said(Log::default(), frame, 0), format!("{HEAD}{text}"));
    }
    assert_eq!(
        said(Log::default(), v6() / Udp::new(1, 2), 0x2a),
        format!("{HEAD6}LEN=48 TC=0 HOPLIMIT=64 FLOWLBL=0 PROTO=UDP SPT=1 DPT=2 LEN=8 MARK=0x2a ")
    );
}

#[test]
fn log_flags_add_fields() {
    let log = |flags| Log {
        prefix: Some("a: ".into()),
        level: Some(6),
        flags: Some(flags),
        ..Log::default()
    };
    let start = "<6>[   12.345678] a: IN=lan OUT= ";
    let mac = "MAC=02:00:00:00:00:02:02:00:00:00:00:01:08:00 ";
    let ip = "SRC=198.18.0.1 DST=198.18.0.2 LEN=44 TOS=0x00 PREC=0x00 TTL=64 ID=0 ";
    let frame = || v4() / Tcp::new(1, 2).seq(5).ack(6).flags(2).window(9).option(2, &[5, 180]);
    let tcp = "PROTO=TCP SPT=1 DPT=2 ";
    for (flags, text) in [
        (LOG_TCPSEQ, format!("{mac}{ip}{tcp}SEQ=5 ACK=6 WINDOW=9 RES=0x00 SYN URGP=0 ")),
        (LOG_TCPOPT, format!("{mac}{ip}{tcp}WINDOW=9 RES=0x00 SYN URGP=0 OPT (020405B4) ")),
        (
            LOG_MACDECODE,
            format!(
                "MACSRC=02:00:00:00:00:01 MACDST=02:00:00:00:00:02 MACPROTO=0800 {ip}{tcp}WINDOW=9 RES=0x00 SYN URGP=0 "
            ),
        ),
    ] {
        assert_eq!(said(log(flags), frame(), 0), format!("{start}{text}"));
    }
    let audit = Log { level: Some(8), ..Log::default() };
    assert_eq!(
        said(audit, v4() / Udp::new(1, 2), 1),
        "<5>[   12.345678] audit: type=1324 mark=0x1 saddr=198.18.0.1 daddr=198.18.0.2 proto=17"
    );
}

#[test]
fn truncated_packets_are_logged_as_far_as_they_go() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let frames = [
        (v4() / Tcp::new(1, 2).option(8, &[1; 10])).build(),
        (v6() / HopByHop::new() / Tcp::new(1, 2)).build(),
        (v4() / Icmp::new(3, 1) / payload([0x45; 40])).build(),
        (v6() / Icmpv6::new(1, 1) / payload([0x60; 60])).build(),
    ];
    for _ in 0..4000 {
        let mut frame = frames[rng.usize(..frames.len())].clone();
        let at = rng.usize(14..frame.len());
        frame[at] = rng.u8(..);
        frame.truncate(rng.usize(14..=frame.len()));
        let flags = Log { flags: Some(rng.u32(..0x40)), ..Log::default() };
        assert!(said(flags, payload(frame), 0).contains("IN=lan OUT= "));
    }
    assert!(
        said(Log::default(), (v4() / Udp::new(1, 2)).truncate(40), 0)
            .ends_with("PROTO=UDP INCOMPLETE [6 bytes] ")
    );
}
