// SPDX-License-Identifier: Apache-2.0

//! Why and where a packet was dropped.

use penstock_dataplane::DropEvent;

/// `rule: inet filter forward handle 12`, `policy: inet filter forward`, `no route`.
pub fn words(drop: &DropEvent<'_>) -> String {
    let reason = drop.reason.text();
    let Some(place) = &drop.place else { return reason.to_owned() };
    let at = format!("{reason}: {} {} {}", place.family.name(), place.table, place.chain);
    match place.rule {
        Some(handle) => format!("{at} handle {handle}"),
        None => at,
    }
}
