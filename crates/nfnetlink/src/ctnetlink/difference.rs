// SPDX-License-Identifier: Apache-2.0

//! What came and went between two tables.

use std::collections::HashMap;

use penstock_conntrack::{Flow, event, status};
use penstock_ruleset::Errno;

use super::connection::BY_PROGRAM;
use super::expectation;
use super::told::notification;
use crate::connections::{ConnectionEvent, Connections, Expected};
use crate::socket::Notification;

/// What the members of groups are told of connections that another process has changed: by port 0,
/// since it is not known who did that.
///
/// # Errors
/// Those of [`Connections::each`] and [`Connections::expectations`].
pub fn difference(
    before: &mut dyn Connections,
    after: &mut dyn Connections,
) -> Result<Vec<Notification>, Errno> {
    let mut told = Vec::new();
    let mut tell = |event: ConnectionEvent| told.push(notification(&event, 0));
    let of = |flow: &Flow, what| ConnectionEvent::Connection { flow: flow.clone(), what };
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
        tell(ConnectionEvent::Expectation { expected: expected.clone(), ends: true });
    }
    for flow in old.into_values() {
        let ended = Flow { status: flow.status | status::DYING, ..flow };
        tell(of(&ended, event::DESTROY));
    }
    for (old, flow) in &new {
        let begins = if flow.master.is_some() { event::RELATED } else { event::NEW };
        match old {
            None => tell(of(flow, begins | BY_PROGRAM | event::LABEL)),
            Some(old) if old != flow => tell(of(flow, BY_PROGRAM | event::LABEL)),
            Some(_) => {}
        }
    }
    for expected in is_expected.iter().filter(|one| !has(&was_expected, one)) {
        tell(ConnectionEvent::Expectation { expected: expected.clone(), ends: false });
    }
    Ok(told)
}
