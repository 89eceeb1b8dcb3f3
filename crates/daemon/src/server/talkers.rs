// SPDX-License-Identifier: Apache-2.0

//! Who talks most: flows in flowtables, and connections that are counted (`nf_conntrack_acct`),
//! with the most bytes.

use penstock_conntrack::Direction;
use penstock_dataplane::{Dataplane, FlowEntry};
use penstock_print::show::status::Talker;

use super::pages::Bounds;

/// So many are shown.
const MOST: usize = 1000;

/// Those of a page that begins with the connection of a number.
pub(super) fn page(path: &Dataplane, first: u32, bounds: &mut Bounds) -> Vec<Talker> {
    let mut found = Vec::new();
    for (number, entry) in path.flow_entries(first) {
        if bounds.take(number, 0).is_none() {
            break;
        }
        let (tuple, flow, by) = match entry {
            Some(FlowEntry::Flow(flow)) => {
                let by = if flow.hardware { "device" } else { "flowtable" };
                (Some(flow.outline.tuples[0]), flow.packets, by)
            }
            Some(FlowEntry::Refused(_)) | None => {
                let connection = path.conntrack().connection_at(number);
                let count = |direction| {
                    let counter = connection.and_then(|c| c.counters(direction));
                    counter.map_or((0, 0), |c| (c.packets, c.bytes))
                };
                let tuple = connection.map(|c| *c.tuple(Direction::Original));
                (tuple, [Direction::Original, Direction::Reply].map(count), "rules")
            }
        };
        let Some(tuple) = tuple else { continue };
        let [(packets, bytes), (more_packets, more_bytes)] = flow;
        let (packets, bytes) = (packets + more_packets, bytes + more_bytes);
        if packets > 0 {
            found.push(Talker { tuple, packets, bytes, by });
        }
    }
    keep_most(&mut found);
    found
}

/// Drops all but those with the most bytes.
pub(super) fn keep_most(talkers: &mut Vec<Talker>) {
    talkers.sort_unstable_by_key(|t| std::cmp::Reverse(t.bytes));
    talkers.truncate(MOST);
}
