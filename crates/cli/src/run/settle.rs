// SPDX-License-Identifier: Apache-2.0

//! Packets that programs have answered for continue.

use penstock_daemon::queue_answer;
use penstock_dataplane::Dataplane;

use super::output::Output;

/// Waits for answers until every program has fewer packets than it wants to have at once, and lets
/// packets continue.
pub fn settle(path: &mut Dataplane, output: &mut Output, now: u64) {
    while let Some((num, answer)) = output.queues.next() {
        let Some(answer) = answer else {
            path.close_queue(num, now, output);
            continue;
        };
        let said = queue_answer(&answer);
        for id in output.queues.answered(num, &answer) {
            // A packet dropped since then needs no verdict.
            let _ = path.verdict(id, &said, now, output);
        }
    }
}
