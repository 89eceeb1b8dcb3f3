// SPDX-License-Identifier: Apache-2.0

//! Who talks most: flows in flowtables, and connections that are counted (`nf_conntrack_acct`),
//! with the most bytes.

use std::time::{Duration, Instant};

use penstock_conntrack::{Direction, Tuple};
use penstock_path::{Dataplane, FlowEntry};

use crate::listing::PageSize;

/// A flow or connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Talker {
    /// Of the original direction.
    pub tuple: Tuple,
    /// Packets of both directions.
    pub packets: u64,
    /// Bytes of both directions.
    pub bytes: u64,
    /// What forwards it: rules, a flowtable, a device.
    pub by: &'static str,
}

/// So many are told.
const MOST: usize = 1000;

/// A part of all connections.
#[derive(Debug, Default)]
pub(crate) struct TalkersPage {
    /// Those that count.
    pub(crate) talkers: Vec<Talker>,
    /// The number that the next part begins with, if there is one.
    pub(crate) next: Option<u32>,
    /// How long the worker was at it.
    pub(crate) took: Duration,
}

/// The part that begins with a number.
pub(crate) fn page(path: &Dataplane, first: u32, size: PageSize) -> TalkersPage {
    let begun = Instant::now();
    let mut page = TalkersPage::default();
    let found = &mut page.talkers;
    for (seen, (number, entry)) in path.flow_entries(first).enumerate() {
        if seen >= size.connections {
            page.next = Some(number);
            break;
        }
        let (connection, flow, by) = match entry {
            Some(FlowEntry::Flow(flow)) => {
                let by = if flow.hardware { "device" } else { "flowtable" };
                (Some(flow.connection), flow.packets, by)
            }
            Some(FlowEntry::Refused(_)) | None => {
                let connection = path.conntrack().connection_at(number);
                let count = |direction| {
                    let counter = connection.and_then(|c| c.counters(direction));
                    counter.map_or((0, 0), |c| (c.packets, c.bytes))
                };
                (connection, [Direction::Original, Direction::Reply].map(count), "rules")
            }
        };
        let Some(connection) = connection else { continue };
        let [(packets, bytes), (more_packets, more_bytes)] = flow;
        let (packets, bytes) = (packets + more_packets, bytes + more_bytes);
        if packets > 0 {
            found.push(Talker {
                tuple: *connection.tuple(Direction::Original),
                packets,
                bytes,
                by,
            });
        }
    }
    keep_most(found);
    page.took = begun.elapsed();
    page
}

/// Lets go of all but those with the most bytes.
pub(crate) fn keep_most(talkers: &mut Vec<Talker>) {
    talkers.sort_unstable_by_key(|t| std::cmp::Reverse(t.bytes));
    talkers.truncate(MOST);
}
