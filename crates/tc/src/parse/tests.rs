// SPDX-License-Identifier: Apache-2.0

use penstock_packet::{Packet, VlanTag};
use penstock_testkit::build::*;
use penstock_wire::ethernet::Mac;

use crate::{Config, Cursor, Hook, Queues, State, Step};

const DEVICE: Mac = Mac([2, 0, 0, 0, 0, 2]);
const LAN: u32 = 2;
const WAN: u32 = 3;

fn config(text: &str) -> Result<Config, String> {
    let device = |name: &str| match name {
        "lan" => Some(LAN),
        "wan" => Some(WAN),
        _ => None,
    };
    Config::from_batch("tc", text, device).map_err(|e| e.to_string())
}

fn packet(frame: impl Into<Frame>) -> Packet {
    let mut packet = Packet::new();
    packet.receive_ethernet(&frame.into().build(), DEVICE);
    packet.untag().unwrap();
    packet.meta.iif = LAN;
    packet
}

fn v4() -> Frame {
    Ethernet::new("02:00:00:00:00:01", DEVICE) / Ipv4::new("198.18.0.1", "198.18.1.2")
}

fn v6() -> Frame {
    Ethernet::new("02:00:00:00:00:01", DEVICE) / Ipv6::new("2001:db8::1", "2001:db8:1::2")
}

fn tagged() -> Frame {
    Ethernet::new("02:00:00:00:00:01", DEVICE)
        / Vlan::new(7).priority(3)
        / Ipv4::new("198.18.0.1", "198.18.1.2")
        / Udp::new(7, 9)
}

fn step(config: &Config, packet: &mut Packet) -> Step {
    config.classify(Hook::Ingress, LAN, &mut Cursor::default(), packet, &mut State::new(config))
}

#[test]
fn classifiers_match_their_packets() {
    let udp = || packet(v4() / Udp::new(7, 9));
    let tcp6 = || packet(v6() / Tcp::new(7, 80).flags(2));
    let echo = || packet(v4() / Icmp::echo_request(1, 2));
    let late = || {
        packet(
            Ethernet::new("02:00:00:00:00:01", DEVICE)
                / Ipv4::new("198.18.0.1", "198.18.1.2").fragment(3, false)
                / payload([0; 8]),
        )
    };
    let arp = || {
        packet(
            Ethernet::new("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff")
                / Arp::request("02:00:00:00:00:01", "198.18.0.1", "198.18.0.2"),
        )
    };
    let marked = || {
        let mut p = packet(v4() / Udp::new(7, 9));
        p.meta.mark = 0x107;
        p
    };
    let tagged = || packet(tagged());
    for (filter, hits) in [
        ("matchall", "1111111"),
        ("protocol ip matchall", "1011010"),
        ("protocol ipv6 matchall", "0100000"),
        ("protocol 802.1q matchall", "0000001"),
        ("handle 7/0xff fw", "0000010"),
        ("handle 7 fw", "0000000"),
        ("protocol ip flower ip_proto udp", "1000010"),
        ("protocol ip flower ip_proto udp dst_port 9", "1000010"),
        ("protocol ip flower ip_proto udp dst_port 10-20", "0000000"),
        ("protocol ip flower src_ip 198.18.0.0/24", "1011010"),
        ("protocol ip flower dst_ip 198.18.0.0/24", "0000000"),
        ("protocol ipv6 flower ip_proto tcp dst_port 1-80 tcp_flags 0x02/0x12", "0100000"),
        ("protocol ip flower ip_flags frag", "0001000"),
        ("protocol ip flower ip_flags nofrag", "1010010"),
        ("protocol ip flower ip_flags frag/nofirstfrag", "0001000"),
        ("protocol ip flower ip_proto icmp type 8 code 0", "0010000"),
        ("protocol arp flower arp_op request arp_tip 198.18.0.2", "0000100"),
        ("protocol arp flower arp_op reply", "0000000"),
        ("protocol 802.1q flower vlan_id 7 vlan_ethtype ip dst_ip 198.18.1.2", "0000001"),
        ("protocol 802.1q flower vlan_id 7 vlan_prio 2", "0000000"),
        ("flower src_mac 02:00:00:00:00:01 dst_mac 02:00:00:00:00:00/ff:ff:ff:ff:ff:00", "1111011"),
        ("flower indev wan", "0000000"),
        ("flower indev lan", "1111111"),
        ("protocol ip u32 match ip src 198.18.0.0/24 match ip protocol 17 0xff", "1000010"),
        ("protocol ip u32 match ip dport 9 0xffff", "1000010"),
        ("protocol ip u32 match udp dst 9 0xffff", "0000000"),
        ("protocol all u32 match u16 0x0800 0xffff at -2", "1011011"),
        ("protocol ipv6 u32 match ip6 dst 2001:db8:1::/48", "0100000"),
        ("protocol all u32 match mark 0x7 0xff", "0000010"),
        ("protocol ip u32 match u32 0 0 at 60", "0000000"),
        ("protocol ip u32 match ip nofrag", "1010010"),
    ] {
        let text = format!(
            "qdisc add dev lan clsact\nfilter add dev lan ingress prio 1 {filter} action drop"
        );
        let config = config(&text).unwrap();
        let packets = [udp(), tcp6(), echo(), late(), arp(), marked(), tagged()];
        let found: String = packets
            .map(|mut p| if step(&config, &mut p) == Step::Drop { '1' } else { '0' })
            .iter()
            .collect();
        assert_eq!(found, hits, "{filter}");
    }
}

#[test]
fn actions_follow_each_other_as_their_controls_say() {
    let taken = |text: &str| {
        let config = config(&format!("qdisc add dev lan clsact\n{text}")).unwrap();
        let mut p = packet(v4() / Udp::new(7, 9));
        let mut steps = Vec::new();
        let (mut cursor, mut state) = (Cursor::default(), State::new(&config));
        loop {
            let step = config.classify(Hook::Ingress, LAN, &mut cursor, &mut p, &mut state);
            steps.push(step);
            if !matches!(step, Step::Mirror { .. }) {
                return (steps, p.meta.mark, p.meta.priority, p.meta.vlan);
            }
        }
    };
    let filter = "filter add dev lan ingress";
    let (redirect, mirror) = (
        Step::Redirect { device: WAN, ingress: false },
        Step::Mirror { device: WAN, ingress: true },
    );
    for (text, steps, mark, priority, vlan) in [
        (
            format!("{filter} matchall action mirred egress redirect dev wan"),
            vec![redirect],
            0,
            0,
            None,
        ),
        (
            format!(
                "{filter} prio 1 matchall action mirred ingress mirror dev wan action skbedit mark 5"
            ),
            vec![mirror, Step::Pass],
            5,
            0,
            None,
        ),
        (
            format!(
                "{filter} prio 1 matchall action mirred ingress mirror dev wan continue\n\
                 {filter} prio 2 matchall action drop"
            ),
            vec![mirror, Step::Drop],
            0,
            0,
            None,
        ),
        (
            format!("{filter} matchall action mirred ingress mirror dev wan pass action drop"),
            vec![mirror, Step::Pass],
            0,
            0,
            None,
        ),
        (
            format!("{filter} matchall action skbedit mark 0x12/0xf priority 1:2 pass action drop"),
            vec![Step::Pass],
            2,
            0x10002,
            None,
        ),
        (
            format!("{filter} prio 2 matchall action drop\n{filter} prio 1 matchall action pass"),
            vec![Step::Pass],
            0,
            0,
            None,
        ),
        // Without priorities the later filter is asked first.
        (
            format!("{filter} matchall action drop\n{filter} matchall action pass"),
            vec![Step::Pass],
            0,
            0,
            None,
        ),
        (format!("{filter} matchall action reclassify"), vec![Step::Drop], 0, 0, None),
        (format!("{filter} matchall classid 1:1"), vec![Step::Pass], 0, 0, None),
        (
            format!("{filter} matchall action vlan push id 9 priority 5 protocol 802.1ad"),
            vec![Step::Pass],
            0,
            0,
            Some(VlanTag { protocol: 0x88a8, tci: 9 | 5 << 13 }),
        ),
        (
            format!(
                "{filter} matchall action vlan push id 9 action vlan modify id 11 action vlan pop"
            ),
            vec![Step::Pass],
            0,
            0,
            None,
        ),
        (format!("{filter} matchall action trap"), vec![Step::Taken], 0, 0, None),
    ] {
        assert_eq!(taken(&text), (steps, mark, priority, vlan), "{text}");
    }
}

#[test]
fn a_policer_lets_its_burst_pass_and_then_its_rate() {
    let text = "qdisc add dev lan clsact
        filter add dev lan ingress matchall action police rate 8kbit burst 100 conform-exceed drop/pipe action skbedit mark 1";
    let config = config(text).unwrap();
    let mut state = State::new(&config);
    let mut passed = Vec::new();
    // Packets of 50 bytes at 1000 bytes a second: one every 50 ms.
    for ms in [0, 0, 0, 10, 49, 50, 60, 99, 100, 1000, 1000, 1000] {
        let mut p = packet(v4() / Udp::new(7, 9) / payload([0; 22]));
        p.meta.time = ms * 1_000_000;
        let step = config.classify(Hook::Ingress, LAN, &mut Cursor::default(), &mut p, &mut state);
        passed.push((step == Step::Pass, p.meta.mark));
    }
    let (y, n) = ((true, 1), (false, 0));
    assert_eq!(passed, [y, y, n, n, n, y, n, n, y, y, y, n]);
}

/// When frames of a device leave, and their marks.
fn leaving(text: &str, frames: &[(u64, u32, usize)]) -> Vec<(u64, u32)> {
    let config = config(text).unwrap();
    let mut queues = Queues::new(&config);
    let mut out = Vec::new();
    let mut run = |queues: &mut Queues, now: u64| {
        while let Some(frame) = queues.leave(&config, WAN, now) {
            out.push((frame.meta.time / 1_000_000, frame.meta.mark));
            queues.give_back(frame);
        }
    };
    for &(ms, mark, len) in frames {
        let now = ms * 1_000_000;
        while let Some((at, _)) = queues.next_time(now) {
            run(&mut queues, at);
        }
        let mut p = packet(v4() / payload(vec![0; len - 34]));
        p.data_at_link();
        (p.meta.time, p.meta.mark) = (now, mark);
        if queues.put(&config, WAN, &p) {
            run(&mut queues, now);
        }
    }
    while let Some((at, _)) = queues.next_time(u64::MAX) {
        run(&mut queues, at);
    }
    assert_eq!(queues.waiting(), 0);
    out
}

#[test]
fn frames_leave_on_the_schedule_of_their_discipline() {
    let tbf = "qdisc add dev wan root handle 1: tbf rate 8mbit burst 2000 limit 3000";
    // 1000 bytes take 1 ms.
    assert_eq!(
        leaving(
            tbf,
            &[
                (0, 1, 1000),
                (0, 2, 1000),
                (0, 3, 1000),
                (0, 4, 1000),
                (0, 5, 1000),
                (0, 6, 1000),
                (9, 7, 1000)
            ]
        ),
        [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (9, 7)],
        "the burst leaves at once, then the rate; the sixth finds no room"
    );
    assert_eq!(leaving(tbf, &[(0, 1, 2001), (0, 2, 60)]), [(0, 2)], "longer than the burst");
    let prio = "qdisc add dev wan root handle 1: tbf rate 8mbit burst 1000 latency 1s
        qdisc add dev wan parent 1:1 handle 2: prio
        filter add dev wan parent 2: handle 7 fw classid 2:1
        filter add dev wan parent 2: handle 8 fw flowid 2:3";
    assert_eq!(
        leaving(prio, &[(0, 1, 1000), (0, 8, 1000), (0, 2, 1000), (0, 7, 1000)]),
        [(0, 1), (1, 7), (2, 2), (3, 8)],
        "mark 7 goes first, then by priority"
    );
    assert_eq!(
        leaving("qdisc add dev wan root pfifo limit 1", &[(0, 1, 60), (0, 2, 60)]),
        [(0, 1), (0, 2)]
    );
}

#[test]
fn wrong_lines_are_refused_with_a_message() {
    for (text, message) in [
        ("qdisc add dev eth9 clsact", "tc:1: Cannot find device \"eth9\""),
        (
            "qdisc add dev lan clsact\nqdisc add dev lan clsact",
            "tc:2: Exclusivity flag on, cannot modify",
        ),
        ("qdisc add dev lan root htb", "tc:1: queueing discipline \"htb\" is not supported yet"),
        ("qdisc add dev lan root tbf rate 1mbit", "tc:1: \"burst\" is required"),
        (
            "qdisc add dev lan root tbf rate 1mbit burst 10k",
            "tc:1: either \"limit\" or \"latency\" is required",
        ),
        ("qdisc add dev lan parent 1:1 pfifo", "tc:1: Failed to find specified qdisc"),
        ("qdisc add dev lan pfifo", "tc:1: \"root\" or \"parent\" is missing"),
        ("qdisc add dev lan root prio bands 2", "tc:1: \"priomap\" names band 2 of 2"),
        ("filter add dev lan ingress matchall action drop", "tc:1: Parent Qdisc doesn't exists"),
        (
            "qdisc add dev lan ingress\nfilter add dev lan egress matchall action drop",
            "tc:2: Parent Qdisc doesn't exists",
        ),
        (
            "qdisc add dev lan clsact\nfilter add dev lan ingress matchall action jump 2",
            "tc:2: action \"jump\" is not supported yet",
        ),
        (
            "qdisc add dev lan clsact\nfilter add dev lan ingress fw action drop",
            "tc:2: \"fw\" needs a handle, which is the mark",
        ),
        (
            "qdisc add dev lan clsact\nfilter add dev lan ingress flower dst_port 9",
            "tc:2: \"dst_port\" needs another \"protocol\"",
        ),
        (
            "qdisc add dev lan clsact\nfilter add dev lan ingress matchall sideways",
            "tc:2: unknown word \"sideways\"",
        ),
        (
            "qdisc add dev lan clsact\nfilter add dev lan ingress prio 1 protocol ip matchall\n\
             filter add dev lan ingress prio 1 protocol ipv6 matchall",
            "tc:3: Specified filter protocol does not match the existing one of this priority",
        ),
        ("class add dev lan", "tc:1: \"class\" is not supported yet"),
        ("qdisc", "tc:1: \"qdisc\" needs a command"),
        ("qdisc del dev lan root", "tc:1: \"qdisc del\" is not supported yet"),
    ] {
        assert_eq!(config(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn random_words_do_not_panic() {
    const WORDS: [&str; 40] = [
        "qdisc",
        "filter",
        "add",
        "dev",
        "lan",
        "wan",
        "clsact",
        "ingress",
        "egress",
        "root",
        "parent",
        "1:",
        "1:1",
        "ffff:",
        "handle",
        "prio",
        "tbf",
        "pfifo",
        "rate",
        "1mbit",
        "burst",
        "10k",
        "limit",
        "latency",
        "50ms",
        "flower",
        "u32",
        "match",
        "ip",
        "src",
        "10.0.0.0/8",
        "matchall",
        "fw",
        "action",
        "police",
        "mirred",
        "redirect",
        "\n",
        "at",
        "-14",
    ];
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..20_000 {
        let words: Vec<&str> =
            (0..rng.usize(..20)).map(|_| WORDS[rng.usize(..WORDS.len())]).collect();
        let _ = config(&format!(
            "qdisc add dev lan clsact\nfilter add dev lan ingress {}",
            words.join(" ")
        ));
        let _ = config(&words.join(" "));
    }
}
