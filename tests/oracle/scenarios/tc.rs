// SPDX-License-Identifier: Apache-2.0

//! Queues of tc that release frames over time, and who fills them: marks and priorities of chains
//! at egress, and filters that read them. Filters without queues come by chance (`generators/tc.rs`).

use std::time::Duration;

use super::sent;
use crate::frame::Frame;
use crate::net::{NET, out4, out6};
use crate::scenario::Scenario;

/// Frames are marked by their port where they leave, before tc.
const RULES: &str = "table netdev n {
	chain out {
		type filter hook egress device wan priority 0;
		udp dport 1 meta mark set 1 counter
		udp dport 2 meta mark set 2 counter
		udp dport 3 meta priority set 1:3 counter
		udp dport 4 meta priority set 2:1 counter
		counter
	}
}
";

/// Until the slowest queue has released all that waited.
const LONG: Duration = Duration::from_millis(3500);

/// All of them.
pub fn all() -> Vec<Scenario> {
    // A frame takes a second, two are there at once, and three may wait.
    let slow = "qdisc add dev wan root handle 1: tbf rate 8kbit burst 2100 limit 3100\n";
    let deep = slow.replace("limit 3100", "limit 60000").replace("8kbit", "40kbit");
    let bands = format!("{deep}qdisc add dev wan parent 1:1 handle 2: prio bands 4\n");
    let by_mark = format!(
        "{bands}filter add dev wan parent 2: prio 1 protocol all handle 1 fw classid 2:1
filter add dev wan parent 2: prio 1 protocol all handle 2 fw classid 2:4\n"
    );
    let by_flower = format!(
        "{bands}filter add dev wan parent 2: prio 1 protocol ip flower ip_proto udp dst_port 3 classid 2:4
filter add dev wan parent 2: prio 2 protocol ipv6 flower ip_proto udp dst_port 1 classid 2:1
filter add dev wan parent 2: prio 3 protocol ip u32 match ip dport 5 0xffff classid 2:2\n"
    );
    // What tc does itself at egress comes after the chains and before the queue.
    let by_action = format!(
        "{by_mark}qdisc add dev wan clsact
filter add dev wan egress prio 1 protocol all handle 2 fw action skbedit mark 1
filter add dev wan egress prio 2 protocol ip flower ip_proto udp dst_port 5 action skbedit mark 2
filter add dev wan egress prio 3 protocol all handle 1 fw action skbedit priority 2:3\n"
    );
    let small_band = format!("{by_mark}qdisc add dev wan parent 2:4 handle 4: pfifo limit 2\n");
    let peak =
        "qdisc add dev wan root tbf rate 8kbit burst 8000 limit 20000 peakrate 80kbit mtu 1100\n";
    let first = deep.replace("burst 2100", "burst 1050");
    vec![
        on("tbf_drops_what_cannot_wait", slow, 10),
        sent(on("tbf_fills_again", slow, 3), &frames(4)).wait(LONG),
        on("tbf_of_one_frame", &first, 6),
        on("tbf_with_a_peak", peak, 6),
        on("tbf_of_small_frames_only", &deep.replace("burst 2100", "burst 700"), 6),
        on("prio_by_priority", &bands, 12),
        on("prio_by_marks_of_chains", &by_mark, 12),
        on("prio_by_filters", &by_flower, 12),
        on("prio_after_actions", &by_action, 12),
        on("prio_with_a_small_band", &small_band, 12),
    ]
}

/// So many frames at once, which leave by `wan`, and time to do so.
fn on(name: &str, tc: &str, count: u16) -> Scenario {
    let scenario = Scenario::new(&format!("tc_{name}"), NET, RULES).at_once().tc(tc);
    sent(scenario, &frames(count)).wait(LONG)
}

/// Frames of 1014 bytes; some are of another family.
fn frames(count: u16) -> Vec<(&'static str, Frame)> {
    let frame = |n: u16| match n % 4 {
        3 => out6().udp(1000 + n, n % 6).zeros(952),
        _ => out4().id(n).udp(1000 + n, n % 6).zeros(972),
    };
    (0..count).map(|n| ("lan", frame(n))).collect()
}
