// SPDX-License-Identifier: Apache-2.0

//! The tc stage before ingress and after egress. The available kernels have `u32` and `mirred`. No
//! packet is in a loop here: kernels differ in how often `mirred` receives it again.

use super::{from, on};
use crate::frame::Frame;
use crate::net::{out4, out6};
use crate::scenario::Scenario;

fn few() -> Vec<Frame> {
    (0..8)
        .flat_map(|p| [out4().id(p).udp(1000, p), out6().udp(1000, p), out4().tcp(1000, p)])
        .collect()
}

const COUNT: &str = "
table netdev n {
	chain lan { type filter hook ingress device lan priority 0; counter; udp dport 1 counter; udp dport 2 meta mark set 3 counter; }
	chain dmz { type filter hook ingress device dmz priority 0; counter; udp dport 1 counter; }
	chain wan { type filter hook egress device wan priority 0; counter; udp dport 4 meta mark set 5 counter; udp dport 3 drop; }
	chain out { type filter hook egress device dmz priority 0; counter; }
}
table inet t {
	chain f { type filter hook forward priority 0; udp dport 6 meta mark set 6 counter; meta mark 3 counter; counter; }
}
";

pub fn all() -> Vec<Scenario> {
    let scenario = |name: &str, tc: &str| from(on(name, COUNT), "lan", &few()).tc(tc);
    vec![
        scenario(
            "tc_ingress_takes_packets_before_chains_see_them",
            "
qdisc add dev lan clsact
filter add dev lan ingress prio 1 protocol ip u32 match ip protocol 17 0xff match ip dport 1 0xffff action mirred egress redirect dev wan
filter add dev lan ingress prio 2 protocol ip u32 match udp dst 2 0xffff action mirred egress mirror dev dmz
filter add dev lan ingress prio 3 protocol ipv6 u32 match ip6 protocol 17 0xff match ip6 dport 5 0xffff action mirred ingress redirect dev dmz
",
        ),
        scenario(
            "tc_egress_sees_what_chains_left",
            "
qdisc add dev wan clsact
qdisc add dev dmz clsact
filter add dev wan egress prio 1 protocol all u32 match u16 0x0800 0xffff at -2 match ip dport 3 0xffff action mirred egress mirror dev dmz
filter add dev wan egress prio 2 protocol ip u32 match ip dport 4 0xffff action mirred egress redirect dev dmz
filter add dev wan egress prio 4 protocol ipv6 u32 match ip6 dst 2001:db8::/32 match ip6 dport 7 0xffff match u8 63 0xff at 7 action mirred egress mirror dev dmz pipe action mirred ingress redirect dev dmz
filter add dev dmz egress prio 1 protocol ip u32 match ip dport 4 0xffff action mirred egress mirror dev lan
",
        ),
        scenario(
            "tc_filters_without_priority_are_asked_last_added_first",
            "
qdisc add dev lan ingress
filter add dev lan parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev wan
filter add dev lan parent ffff: protocol ip u32 match ip dport 2 0xffff action mirred egress redirect dev dmz
",
        ),
    ]
}
