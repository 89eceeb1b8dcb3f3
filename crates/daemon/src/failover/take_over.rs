// SPDX-License-Identifier: Apache-2.0

//! Connections of the peer are entered into the tables of the workers, and own ones end, without a
//! word to the peer.

use std::collections::HashMap;

use penstock_conntrack::{Conntrack, Direction, Tuple, event};
use penstock_ctsync::config::Filter;
use penstock_ctsync::{Change, ConnectionState, ExpectationState};
use penstock_nfnetlink::{ConnectionEvent, Connections, NewFlow};
use penstock_ruleset::Errno;

use super::convert::{new_expected, new_flow};
use crate::connections::{Answer, Ask, Tables};
use crate::peer_watcher::passes;

/// Connections that a worker enters between two bursts.
const TOGETHER: usize = 256;
/// Connections that a worker ends between two bursts.
const ENDED: usize = 1024;

/// A connection of the peer, and how many seconds it has left.
pub(super) type Wanted = (ConnectionState, u64);

/// How many connections were entered, and how many could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TakenOver {
    pub(super) entered: u64,
    pub(super) failed: u64,
}

impl TakenOver {
    pub(super) fn add(&mut self, other: TakenOver) {
        self.entered += other.entered;
        self.failed += other.failed;
    }
}

/// What a worker says of those that it was to enter.
struct Outcome {
    events: Vec<ConnectionEvent>,
    /// Others have their tuples.
    exist: Vec<Wanted>,
    failed: u64,
}

/// Ends the connection with an original tuple.
fn remove(table: &mut Conntrack, original: &Tuple) {
    if let Some(number) = table.find_flow(original, original) {
        table.kill_untold(number);
    }
}

fn enter(table: &mut Conntrack, wanted: Vec<Wanted>, window_tracking: bool) -> Outcome {
    let mut outcome = Outcome { events: Vec::new(), exist: Vec::new(), failed: 0 };
    for (state, seconds) in wanted {
        let new = new_flow(&state, seconds, window_tracking, table.helpers());
        match new.map_or(Err(Errno::Eopnotsupp), |new| Connections::add(table, &new)) {
            Ok(flow) => {
                outcome.events.push(ConnectionEvent::Connection { flow, what: event::NEW });
            }
            Err(Errno::Eexist) => outcome.exist.push((state, seconds)),
            Err(_) => outcome.failed += 1,
        }
    }
    outcome
}

/// Enters connections without a master.
fn enter_all(
    tables: &Tables,
    all: impl IntoIterator<Item = Wanted>,
    window_tracking: bool,
) -> (TakenOver, Vec<Wanted>) {
    let mut of_workers: Vec<Vec<Wanted>> = Vec::new();
    of_workers.resize_with(tables.workers(), Vec::new);
    let (mut done, mut exist) = (TakenOver::default(), Vec::new());
    let mut give = |worker: usize, some: Vec<Wanted>| {
        let count = some.len() as u64;
        match tables.one(worker, move |table| enter(table, some, window_tracking)) {
            Ok(outcome) => {
                done.entered += outcome.events.len() as u64;
                done.failed += outcome.failed;
                exist.extend(outcome.exist);
                tables.tell_programs(&outcome.events);
            }
            Err(_) => done.failed += count,
        }
    };
    for wanted in all {
        let worker = tables.worker_for(&wanted.0.original);
        if let Some(some) = of_workers.get_mut(worker) {
            some.push(wanted);
            if some.len() >= TOGETHER {
                give(worker, std::mem::take(some));
            }
        }
    }
    of_workers.into_iter().enumerate().for_each(|(worker, some)| give(worker, some));
    (done, exist)
}

/// Enters one connection that another one expected, at the worker that has that one.
fn enter_related(tables: &Tables, new: &NewFlow) -> Result<(), Errno> {
    let original = new.original;
    let added = match tables.add(new.clone()) {
        Err(Errno::Eexist) => {
            tables.all(move |table| remove(table, &original))?;
            tables.add(new.clone())
        }
        other => other,
    };
    let what = event::NEW | event::RELATED;
    added.map(|flow| tables.tell_programs(&[ConnectionEvent::Connection { flow, what }]))
}

/// Enters connections of the peer; own ones with the same tuples end. Connections that others
/// expected come after those.
pub(super) fn take_over(
    tables: &Tables,
    all: impl IntoIterator<Item = Wanted>,
    window_tracking: bool,
) -> TakenOver {
    let (related, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(state, _)| state.master.is_some());
    let (mut done, exist) = enter_all(tables, others, window_tracking);
    if !exist.is_empty() {
        let tuples: Vec<Tuple> = exist.iter().map(|(state, _)| state.original).collect();
        // If a worker does not answer, they fail below.
        let _ = tables.all(move |table| tuples.iter().for_each(|tuple| remove(table, tuple)));
        let (again, failed) = enter_all(tables, exist, window_tracking);
        done.add(again);
        done.failed += failed.len() as u64;
    }
    if related.is_empty() {
        return done;
    }
    let Ok(helpers) = tables.one(0, |table| table.helpers().clone()) else {
        done.failed += related.len() as u64;
        return done;
    };
    for (state, seconds) in related {
        let new = new_flow(&state, seconds, window_tracking, &helpers);
        match new.map_or(Err(Errno::Eopnotsupp), |new| enter_related(tables, &new)) {
            Ok(()) => done.entered += 1,
            Err(_) => done.failed += 1,
        }
    }
    done
}

/// What the peer has told last of each connection, where it is entered at once.
pub(super) type Direct = HashMap<Tuple, (Change, Wanted)>;

/// Enters, changes and ends connections as the peer has told (`DisableExternalCache`).
pub(super) fn follow(tables: &Tables, direct: Direct, window_tracking: bool) -> TakenOver {
    let (ended, told): (Vec<_>, Vec<_>) =
        direct.into_values().partition(|(change, _)| *change == Change::Delete);
    let ended: Vec<Tuple> = ended.into_iter().map(|(_, (state, _))| state.original).collect();
    if !ended.is_empty() {
        // A worker that does not answer has more to worry about.
        let _ = tables.all(move |table| ended.iter().for_each(|tuple| remove(table, tuple)));
    }
    let mut told: Vec<Wanted> = told.into_iter().map(|(_, wanted)| wanted).collect();
    let mut done = TakenOver::default();
    while !told.is_empty() {
        let rest = told.split_off(told.len().min(TOGETHER));
        let some = std::mem::replace(&mut told, rest);
        let asked = some.clone();
        let changed = tables.all(move |table| {
            asked.iter().map(|w| update(table, w, window_tracking)).collect::<Vec<_>>()
        });
        let Ok(changed) = changed else {
            done.failed += some.len() as u64;
            continue;
        };
        let is_changed = |n: usize| changed.iter().any(|one| one.get(n) == Some(&true));
        let new = some.into_iter().enumerate().filter(|(n, _)| !is_changed(*n));
        let new: Vec<_> = new.map(|(_, wanted)| wanted).collect();
        done.add(take_over(tables, new, window_tracking));
    }
    done
}

/// Changes a connection that is there; `false` if it is not.
fn update(table: &mut Conntrack, (state, seconds): &Wanted, window_tracking: bool) -> bool {
    let Some(number) = table.find_flow(&state.original, &state.original) else { return false };
    let Some(flow) = table.flow(number) else { return false };
    let Some(new) = new_flow(state, *seconds, window_tracking, table.helpers()) else {
        return false;
    };
    // Its helper is the one that it has, with what it expects.
    let change = penstock_conntrack::FlowChange { helper: None, ..new.change };
    Connections::change(table, &flow, &change).is_ok()
}

/// Ends the connections that are told, as a backup does whose peer has all of them.
pub(super) fn purge(tables: &Tables, filter: &Filter) -> u64 {
    let mut ended = 0;
    for worker in 0..tables.workers() {
        let mut next = Some(0);
        while let Some(first) = next {
            let filter = filter.clone();
            let part = tables.one(worker, move |table| purge_part(table, first, &filter));
            let Ok((events, more)) = part else { break };
            ended += events.len() as u64;
            tables.tell_programs(&events);
            next = more;
        }
    }
    ended
}

fn purge_part(
    table: &mut Conntrack,
    first: u32,
    filter: &Filter,
) -> (Vec<ConnectionEvent>, Option<u32>) {
    let (mut chosen, mut next) = (Vec::new(), None);
    for (seen, connection) in table.iter_from(first).enumerate() {
        if seen >= ENDED {
            next = Some(connection.number());
            break;
        }
        if passes(filter, &connection.flow()) {
            let event = ConnectionEvent::of(&connection, event::DESTROY);
            chosen.push((*connection.tuple(Direction::Original), connection.number(), event));
        }
    }
    // One may end with another one.
    let there = |table: &Conntrack, number, original: &Tuple| {
        table.connection_at(number).is_some_and(|c| c.tuple(Direction::Original) == original)
    };
    let mut events = Vec::new();
    for (original, number, event) in chosen {
        if there(table, number, &original) {
            table.kill_untold(number);
            events.push(event);
        }
    }
    (events, next)
}

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Ends the expectation with a tuple, if there is one.
fn unexpect(tables: &Tables, tuple: &Tuple) -> Result<(), Errno> {
    let Answer::Expectations(all) = tables.carry_out(Ask::Expectations, false)? else {
        return Ok(());
    };
    for there in all.into_iter().filter(|there| there.expectation.tuple == *tuple) {
        tables.carry_out(Ask::Unexpect(Box::new(there)), false)?;
    }
    Ok(())
}

/// Expects what the peer does, for so many seconds; an own expectation with the same tuple ends.
fn expect(tables: &Tables, state: &ExpectationState, seconds: u64) -> Result<(), Errno> {
    let helpers = tables.one(0, |table| table.helpers().clone())?;
    let new = new_expected(state, &helpers).ok_or(Errno::Eopnotsupp)?;
    unexpect(tables, &state.expected)?;
    let answer = tables.carry_out(Ask::Expect(Box::new(new)), false)?;
    let Answer::Expectations(mut all) = answer else { return Err(Errno::Eio) };
    let expected = all.pop().ok_or(Errno::Enoent)?;
    let timeout = seconds.saturating_mul(SECOND);
    tables.carry_out(Ask::Prolong(Box::new(expected.clone()), timeout), false)?;
    tables.tell_programs(&[ConnectionEvent::Expectation { expected, ends: false }]);
    Ok(())
}

/// Expects what the peer does: how many expectations there are now, and how many could not be.
pub(super) fn expect_all(
    tables: &Tables,
    all: impl IntoIterator<Item = (ExpectationState, u64)>,
) -> TakenOver {
    let mut done = TakenOver::default();
    for (state, seconds) in all {
        match expect(tables, &state, seconds) {
            Ok(()) => done.entered += 1,
            Err(_) => done.failed += 1,
        }
    }
    done
}

/// Begins or ends an expectation as the peer has told (`DisableExternalCache`).
pub(super) fn follow_expectation(
    tables: &Tables,
    change: Change,
    state: &ExpectationState,
    seconds: u64,
) -> Result<(), Errno> {
    match change {
        Change::Delete => unexpect(tables, &state.expected),
        Change::New | Change::Update => expect(tables, state, seconds),
    }
}
