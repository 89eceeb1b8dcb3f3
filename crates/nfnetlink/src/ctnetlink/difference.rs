// SPDX-License-Identifier: Apache-2.0

//! What came and went between two tables.

use std::collections::HashMap;

use penstock_conntrack::{Flow, event, status};
use penstock_ruleset::Errno;

use super::connection::BY_PROGRAM;
use super::exchange::Events;
use super::expectation;
use crate::connections::{Connections, Expected};
use crate::socket::Notification;
use crate::uapi::ctnetlink::*;

/// What the members of groups are told of connections that another process has changed: by port 0,
/// since it is not known who did that.
///
/// # Errors
/// Those of [`Connections::each`] and [`Connections::expectations`].
pub fn difference(
    before: &mut dyn Connections,
    after: &mut dyn Connections,
) -> Result<Vec<Notification>, Errno> {
    let mut events = Events::new(0, true);
    let mut old = HashMap::new();
    before.each(&mut |flow| {
        old.insert((flow.original, flow.reply), flow.clone());
    })?;
    let mut new = Vec::new();
    after.each(&mut |flow| new.push((old.remove(&(flow.original, flow.reply)), flow.clone())))?;
    let was_expected = before.expectations()?;
    let is_expected = after.expectations()?;
    let has = |all: &[Expected], one: &Expected| all.iter().any(|e| expectation::is_same(e, one));
    for expected in was_expected.iter().filter(|one| !has(&is_expected, one)) {
        expectation::tell(&mut events, NFNLGRP_CONNTRACK_EXP_DESTROY, expected);
    }
    for flow in old.into_values() {
        let ended = Flow { status: flow.status | status::DYING, ..flow };
        events.add_flow(&ended, event::DESTROY);
    }
    for (old, flow) in &new {
        let begins = if flow.master.is_some() { event::RELATED } else { event::NEW };
        match old {
            None => events.add_flow(flow, begins | BY_PROGRAM | event::LABEL),
            Some(old) if old != flow => events.add_flow(flow, BY_PROGRAM | event::LABEL),
            Some(_) => {}
        }
    }
    for expected in is_expected.iter().filter(|one| !has(&was_expected, one)) {
        expectation::tell(&mut events, NFNLGRP_CONNTRACK_EXP_NEW, expected);
    }
    Ok(events.notifications)
}
