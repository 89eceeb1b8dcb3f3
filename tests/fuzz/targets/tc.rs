// SPDX-License-Identifier: Apache-2.0

//! Traffic control files.

use penstock_packet::Packet;
use penstock_tc::{Config, Cursor, Hook, Queues, State, Step};

use super::Target;
use crate::network::{NOW, net};
use crate::{mutate, seeds};

pub const TARGET: Target = Target {
    name: "tc",
    bytes: "lines for `tc -batch`",
    holds: "what is accepted classifies every packet in a bounded number of steps; queues release packets that they took, or drop them",
    longest: 2048,
    seeds: || {
        LINES.iter().map(|lines| lines.as_bytes().to_vec()).chain([LINES.concat().into_bytes()]).collect()
    },
    make: mutate::text_bytes,
    run,
};

const LINES: &[&str] = &[
    "qdisc add dev lan clsact\nfilter add dev lan ingress protocol ip prio 1 flower ip_proto tcp dst_port 80 action drop\n",
    "qdisc add dev lan clsact\nfilter add dev lan egress matchall action mirred egress redirect dev wan\n",
    "qdisc add dev lan ingress\nfilter add dev lan ingress protocol all matchall action mirred ingress mirror dev wan \
     continue\nfilter add dev lan ingress protocol ip prio 2 flower src_ip 198.18.0.0/24 action skbedit mark 7/0xf pipe \
     action vlan push id 5 priority 3\n",
    "qdisc add dev lan clsact\nfilter add dev lan ingress protocol ip u32 match ip dst 198.18.0.10/32 match u16 0x0050 \
     0xffff at 22 action police rate 1mbit burst 10k conform-exceed drop/pipe\n",
    "qdisc add dev lan clsact\nfilter add dev lan ingress protocol 802.1q flower vlan_id 5 vlan_ethtype ip action vlan pop\n\
     filter add dev lan ingress handle 7/0xff fw action reclassify\n",
    "qdisc add dev wan root tbf rate 10mbit burst 32kb limit 100kb\n",
    "qdisc add dev wan root pfifo limit 10\n",
    "qdisc add dev wan root handle 1: prio bands 3\nfilter add dev wan parent 1: protocol ip flower dst_port 53 classid 1:1\n",
];

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let net = net();
    let Ok(config) = Config::from_batch("fuzz", &text, |name| Some(net.link_by_name(name)?.index)) else {
        return;
    };
    let leave = |queues: &mut Queues, device, now| {
        let mut left = 0;
        while let Some(packet) = queues.leave(&config, device, now) {
            queues.give_back(packet);
            left += 1;
        }
        left
    };
    let mut state = State::new(&config);
    let mut queues = Queues::new(&config);
    let (mut put, mut left) = (0_usize, 0_usize);
    let frames = seeds::frames();
    let mut packet = Packet::new();
    for (i, frame) in frames.iter().step_by(frames.len() / 24).enumerate() {
        for link in net.links() {
            for hook in [Hook::Ingress, Hook::Egress] {
                packet.receive_ethernet(&frame[4..], link.mac);
                packet.meta.time = NOW + i as u64;
                let mut cursor = Cursor::default();
                let mut copies = 0;
                while let Step::Mirror { .. } =
                    config.classify(hook, link.index, &mut cursor, &mut packet, &mut state)
                {
                    copies += 1;
                    assert!(copies <= 16 * text.len(), "copies without end:\n{text}");
                }
            }
            if config.has_queue(link.index) {
                packet.receive_ethernet(&frame[4..], link.mac);
                packet.meta.time = NOW + i as u64;
                put += usize::from(queues.put(&config, link.index, &packet));
                left += leave(&mut queues, link.index, packet.meta.time);
            }
        }
    }
    let mut now = NOW;
    for _ in 0..2 * put {
        let Some((time, device)) = queues.next_time(u64::MAX) else { break };
        now = now.max(time);
        left += leave(&mut queues, device, now);
    }
    assert_eq!(queues.waiting(), put - left, "{put} were put, {left} left:\n{text}");
    if now < u64::MAX {
        assert_eq!(left, put, "packets wait for ever:\n{text}");
    }
}
