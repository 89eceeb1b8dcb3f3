// SPDX-License-Identifier: Apache-2.0

//! `NFT_MSG_*SETELEM`.
//!
//! Intervals of one field are two elements each in messages: the first key, and the key after the
//! last one with `NFT_SET_ELEM_INTERVAL_END`. One without an end lasts until the next element, or
//! for ever. The ruleset has first and last key together, so they are put together here.

use std::collections::HashSet;

use penstock_program::expr::Expr;
use penstock_ruleset::change::Mode;
use penstock_ruleset::model::{ElementData, ElementExtras, ElementValue, MapData, Set, UserData};
use penstock_ruleset::reset::{Reset, What};
use penstock_ruleset::{Blame, Change, Errno, Generation, Table};
use penstock_sets::{Element, ElementList, ElementRef};

use super::answer::{Dump, Stamp};
use super::batch::Batch;
use super::find::{own_table, set_named, set_of, table_named};
use super::get::Get;
use super::interval::{Open, Shape, has_ends};
use crate::expression::{self, Data, Ids};
use crate::message::{Attribute, Attributes, Check, Failure, Message, Policy, Writer, flags};
use crate::uapi::nf_tables::*;

/// `nft_set_elem_list_policy`
pub const POLICY: Policy = &[
    (NFTA_SET_ELEM_LIST_TABLE, Check::String(NAME_MAX)),
    (NFTA_SET_ELEM_LIST_SET, Check::String(NAME_MAX)),
    (NFTA_SET_ELEM_LIST_ELEMENTS, Check::Any),
    (NFTA_SET_ELEM_LIST_SET_ID, Check::U32),
];

/// `nft_set_elem_policy`
const ELEMENT_POLICY: Policy = &[
    (NFTA_SET_ELEM_KEY, Check::Nested),
    (NFTA_SET_ELEM_DATA, Check::Nested),
    (NFTA_SET_ELEM_FLAGS, Check::U32),
    (NFTA_SET_ELEM_TIMEOUT, Check::U64),
    (NFTA_SET_ELEM_EXPIRATION, Check::U64),
    (NFTA_SET_ELEM_USERDATA, Check::Binary(USERDATA_MAX)),
    (NFTA_SET_ELEM_EXPR, Check::Nested),
    (NFTA_SET_ELEM_OBJREF, Check::String(NAME_MAX)),
    (NFTA_SET_ELEM_KEY_END, Check::Nested),
    (NFTA_SET_ELEM_EXPRESSIONS, Check::Nested),
];

/// `NFT_SET_ELEM_INTERVAL_END`
const INTERVAL_END: u32 = 1;
/// `NFT_SET_ELEM_CATCHALL`
const CATCH_ALL: u32 = 2;
/// `NFT_SET_EXPR_MAX`
const STATEMENTS_MAX: usize = 2;
/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// The key after one; `None` after the last one.
fn after(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.to_vec();
    for byte in next.iter_mut().rev() {
        let (sum, carry) = byte.overflowing_add(1);
        *byte = sum;
        if !carry {
            return Some(next);
        }
    }
    None
}

/// The key before one; `None` before the first one.
fn before(key: &[u8]) -> Option<Vec<u8>> {
    let mut last = key.to_vec();
    for byte in last.iter_mut().rev() {
        let (difference, borrow) = byte.overflowing_sub(1);
        *byte = difference;
        if !borrow {
            return Some(last);
        }
    }
    None
}

/// An element as it stands in a message.
struct Given {
    element: Element<ElementValue>,
    /// It ends the interval before it.
    end: bool,
}

fn key(attribute: Option<Attribute<'_>>, shape: &Shape) -> Result<Option<Box<[u8]>>, Failure> {
    let Some(attribute) = attribute else { return Ok(None) };
    match expression::read_data(attribute, &Ids::default())? {
        Data::Value(bytes) if bytes.len() == shape.key_len => Ok(Some(bytes.into())),
        Data::Value(_) | Data::Verdict(_) => Err(Failure::einval()),
    }
}

fn data(given: &Attributes<'_>, shape: &Shape, ids: &Ids) -> Result<Option<ElementData>, Failure> {
    if let Some(object) = given.get(NFTA_SET_ELEM_OBJREF) {
        return match shape.data {
            Some(MapData::Object(_)) => Ok(Some(ElementData::Object(object.text()?.into()))),
            _ => Err(Failure::einval()),
        };
    }
    let Some(data) = given.get(NFTA_SET_ELEM_DATA) else { return Ok(None) };
    match (expression::read_data(data, ids)?, shape.data) {
        (Data::Value(bytes), Some(MapData::Value { len })) if bytes.len() == len as usize => {
            Ok(Some(ElementData::Value(penstock_program::Data::new(bytes))))
        }
        (Data::Verdict(verdict), Some(MapData::Verdict)) => Ok(Some(ElementData::Verdict(verdict))),
        _ => Err(Failure::einval()),
    }
}

fn exprs(given: &Attributes<'_>, ids: &Ids) -> Result<Vec<Expr>, Failure> {
    if let Some(expr) = given.get(NFTA_SET_ELEM_EXPR) {
        return Ok(vec![expression::read(expr, ids)?]);
    }
    match given.get(NFTA_SET_ELEM_EXPRESSIONS) {
        Some(list) => expression::read_list(list, STATEMENTS_MAX, ids),
        None => Ok(Vec::new()),
    }
}

/// One element of a list.
fn read(attribute: Attribute<'_>, shape: &Shape, ids: &Ids, now: u64) -> Result<Given, Failure> {
    let given = attribute.attributes(ELEMENT_POLICY)?;
    let flags = given.be32(NFTA_SET_ELEM_FLAGS).unwrap_or(0);
    if flags & !(INTERVAL_END | CATCH_ALL) != 0 {
        return Err(Errno::Eopnotsupp.into());
    }
    if flags & INTERVAL_END != 0 && !shape.ends {
        return Err(Failure::einval());
    }
    let first = key(given.get(NFTA_SET_ELEM_KEY), shape)?;
    let key_end = key(given.get(NFTA_SET_ELEM_KEY_END), shape)?;
    if first.is_some() == (flags & CATCH_ALL != 0) {
        return Err(Failure::einval());
    }
    let end = flags & INTERVAL_END != 0;
    let (timeout, expiration) =
        (given.be64(NFTA_SET_ELEM_TIMEOUT), given.be64(NFTA_SET_ELEM_EXPIRATION));
    if !shape.timeouts && (timeout.is_some() || expiration.is_some()) {
        return Err(Failure::einval());
    }
    let userdata: Option<UserData> = given
        .get(NFTA_SET_ELEM_USERDATA)
        .filter(|u| !u.payload.is_empty())
        .map(|u| u.payload.into());
    let extras = ElementExtras {
        exprs: exprs(&given, ids)?,
        states: Vec::new(),
        timeout: timeout.filter(|timeout| *timeout != shape.timeout),
        userdata,
    };
    // 0 is as if it was not said.
    let expiration = expiration.filter(|ms| *ms != 0);
    let expires_at = expiration.map(|ms| now.saturating_add(ms.saturating_mul(MILLISECOND)));
    let value = ElementValue::new(data(&given, shape, ids)?, extras);
    let element = Element { key: first.unwrap_or_default(), key_end, value, expires_at };
    Ok(Given { element, end })
}

/// Elements of a message, first and last keys together.
struct Joined {
    elements: Vec<Element<ElementValue>>,
    /// For each of them the attribute where it begins, or ends.
    places: Vec<usize>,
    open: Option<Open>,
    /// Where an end at the first key stands, before which no interval can begin.
    gap: Option<usize>,
}

fn join(
    shape: &Shape,
    list: Attribute<'_>,
    ids: &Ids,
    now: u64,
    (open, delete): (Option<Open>, bool),
) -> Result<Joined, Failure> {
    let mut joined = Joined { elements: Vec::new(), places: Vec::new(), open, gap: None };
    let until = |mut element: Element<ElementValue>, next: Option<&[u8]>| {
        let last = match next {
            Some(next) => before(next),
            None => Some(vec![0xff; element.key.len()]),
        };
        element.key_end = last.filter(|last| **last != *element.key).map(Into::into);
        element
    };
    for attribute in list.each() {
        // Their numbers do not matter: libnftnl counts.
        let blamed = |failure: Failure| failure.blaming_only(&attribute);
        let Given { element, end } = read(attribute, shape, ids, now).map_err(blamed)?;
        let mut push = |element, at| {
            joined.elements.push(element);
            joined.places.push(at);
        };
        if !shape.ends || element.key.is_empty() || element.key_end.is_some() {
            push(element, attribute.at);
            continue;
        }
        // What lies between is where the last one ends, too.
        // libnftnl begins a message with the start that the one before ended with.
        let repeats = |open: &Open| !end && open.element.key == element.key;
        if let Some(Open { element: first, at, .. }) =
            joined.open.take().filter(|open| !repeats(open))
        {
            let next = (*first.key < *element.key).then_some(&*element.key);
            push(until(first, next), at);
        }
        if end && element.key.iter().all(|byte| *byte == 0) {
            joined.gap = Some(attribute.at);
        }
        if !end {
            joined.open = Some(Open { shape: shape.clone(), element, at: attribute.at, delete });
        }
    }
    // What ends with the last key has no end of its own in messages.
    let is_last = |open: &Open| open.element.key.iter().all(|byte| *byte == 0xff);
    if let Some(open) = joined.open.take_if(|open| is_last(open)) {
        joined.elements.push(open.element);
        joined.places.push(open.at);
    }
    Ok(joined)
}

/// Finds the set of a message.
fn shape_of(
    batch: &Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Shape, Failure> {
    let table = own_table(batch, message, given.get(NFTA_SET_ELEM_LIST_TABLE))?;
    let name = given.get(NFTA_SET_ELEM_LIST_SET);
    let by_id = || {
        let id = given.get(NFTA_SET_ELEM_LIST_SET_ID)?;
        let name = batch.ids.sets.get(&id.be32())?;
        table.sets.iter().rev().find(|set| set.name == *name)
    };
    // A name such as `__set%d` is none yet.
    let is_pattern = name.is_none_or(|name| name.payload.contains(&b'%'));
    if let Some(set) = is_pattern.then(by_id).flatten() {
        return Ok(Shape::of(table, set));
    }
    match set_named(table, name) {
        Ok(set) => Ok(Shape::of(table, set)),
        Err(e) => by_id().map(|set| Shape::of(table, set)).ok_or(e),
    }
}

/// Where an interval without an end ends: before the next one, or never. One that goes ends where
/// it did.
fn end_of(working: &Generation, open: &Open) -> Option<Box<[u8]>> {
    let Open { shape, element: Element { key, .. }, delete, .. } = open;
    let elements = set_of(working, shape.family, &shape.table, &shape.name);
    let elements = elements.map(|(_, set)| set.elements());
    if *delete && let Some(there) = elements.as_ref().and_then(|all| all.get(key, 0)) {
        return there.key_end.map(Into::into);
    }
    let later = elements.iter().flat_map(|all| all.iter()).map(|element| element.key);
    let next = later.filter(|later| **later > **key).min();
    let last = next.map_or_else(|| Some(vec![0xff; key.len()]), before);
    last.filter(|last| **last != **key).map(Into::into)
}

/// Gives the ruleset an interval that was begun and has no end.
///
/// # Errors
/// The ruleset's.
pub fn close(batch: &mut Batch<'_>) -> Result<(), Failure> {
    batch.close_with(|batch, open| {
        let key_end = end_of(batch.working(), &open);
        let Open { shape, element, delete, .. } = open;
        let element = Element { key_end, ..element };
        change(batch, &shape, vec![element], (Mode::Add, delete.then_some(false)), |_| None)
    })
}

fn change<'a>(
    batch: &mut Batch<'_>,
    shape: &Shape,
    elements: Vec<Element<ElementValue>>,
    (mode, delete): (Mode, Option<bool>),
    blamed: impl FnOnce(Blame) -> Option<Attribute<'a>>,
) -> Result<(), Failure> {
    let (family, table, set) = (shape.family, shape.table.clone(), shape.name.clone());
    let change = match delete {
        None => {
            let mut list = ElementList::new();
            elements.into_iter().for_each(|element| list.push(element));
            Change::AddElements { family, table, set, mode, elements: list }
        }
        Some(destroy) => {
            Change::DeleteElements { family, table, set, elements: Some(elements), destroy }
        }
    };
    batch.apply(change, blamed).map(drop)
}

/// The interval that goes on in this message. One of another set, or of another kind of message,
/// ends.
fn continued(batch: &mut Batch<'_>, shape: &Shape, delete: bool) -> Result<Option<Open>, Failure> {
    match batch.open.take() {
        // It began in another message: no attribute of this one is it.
        Some(open) if open.shape.is(shape) && open.delete == delete => {
            Ok(Some(Open { at: 0, ..open }))
        }
        Some(open) => {
            batch.open = Some(open);
            close(batch)?;
            Ok(None)
        }
        None => Ok(None),
    }
}

fn blamed_at(list: Attribute<'_>, places: &[usize], n: usize) -> Option<Attribute<'static>> {
    let at = places.get(n).copied().filter(|at| *at != 0).unwrap_or(list.at);
    Some(Attribute { kind: NFTA_LIST_ELEM, payload: &[], at })
}

/// `NFT_MSG_NEWSETELEM`
pub fn new(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let list = given.need(NFTA_SET_ELEM_LIST_ELEMENTS)?;
    let shape = shape_of(batch, message, given)?;
    let open = continued(batch, &shape, false)?;
    let joined = join(&shape, list, &batch.ids, batch.now, (open, false))?;
    let Joined { elements, places, open, gap } = joined;
    batch.open = open;
    note_gap(batch, &shape, gap.is_some())?;
    let mode = if message.header.has(flags::EXCL) { Mode::Create } else { Mode::Add };
    if message.header.has(flags::ECHO) || batch.is_listened() {
        tell(batch, message, &shape, (NFT_MSG_NEWSETELEM, flags::CREATE), list);
    }
    let set = given.get(NFTA_SET_ELEM_LIST_SET);
    change(batch, &shape, elements, (mode, None), |blame| match blame {
        Blame::Table => given.get(NFTA_SET_ELEM_LIST_TABLE),
        Blame::Set => set,
        Blame::Element(n) => blamed_at(list, &places, n),
        _ => None,
    })
}

/// `NFT_MSG_DELSETELEM`, `NFT_MSG_DESTROYSETELEM`
pub fn delete(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    destroy: bool,
) -> Result<(), Failure> {
    let shape = shape_of(batch, message, given)?;
    let open = continued(batch, &shape, true)?;
    let set = given.get(NFTA_SET_ELEM_LIST_SET);
    let blamed = |blame| match blame {
        Blame::Table => given.get(NFTA_SET_ELEM_LIST_TABLE),
        Blame::Set => set,
        _ => None,
    };
    let Some(list) = given.get(NFTA_SET_ELEM_LIST_ELEMENTS) else {
        let (family, table, set) = (shape.family, shape.table.clone(), shape.name.clone());
        let now = batch.now;
        batch.tell(message, |to, stamp, working| {
            if let Some((table, set)) = set_of(working, family, &table, &set) {
                fill_flush(to, (stamp, now), table, set);
            }
        });
        let all = Change::DeleteElements { family, table, set, elements: None, destroy };
        return batch.apply(all, blamed).map(drop);
    };
    let joined = join(&shape, list, &batch.ids, batch.now, (open, true))?;
    let Joined { elements, places, open, gap } = joined;
    batch.open = open;
    if let Some(at) = gap {
        let (_, gapless) = state_of(batch, &shape);
        if gapless && !destroy {
            let end = blamed_at(list, &[at], 0);
            let missing = Failure::from(Errno::Enoent);
            return Err(end.map_or(missing.clone(), |end| end.refused(missing)));
        }
        set_gap(batch, &shape, false)?;
    }
    if message.header.has(flags::ECHO) || batch.is_listened() {
        tell(batch, message, &shape, (NFT_MSG_DELSETELEM, 0), list);
    }
    change(batch, &shape, elements, (Mode::Add, Some(destroy)), |blame| match blame {
        Blame::Element(n) => blamed_at(list, &places, n),
        other => blamed(other),
    })
}

/// Whether the set of a message is empty, and whether it lacks an end at its first key.
fn state_of(batch: &Batch<'_>, shape: &Shape) -> (bool, bool) {
    let found = set_of(batch.working(), shape.family, &shape.table, &shape.name);
    found.map_or((true, false), |(_, set)| (set.is_plainly_empty(), set.gapless))
}

fn set_gap(batch: &mut Batch<'_>, shape: &Shape, there: bool) -> Result<(), Failure> {
    let (family, table, set) = (shape.family, shape.table.clone(), shape.name.clone());
    batch.apply(Change::Gap { family, table, set, there }, |_| None).map(drop)
}

/// Takes note of whether intervals that come into a set begin with an end at the first key: those of
/// an empty set have one or have none, others may get one.
fn note_gap(batch: &mut Batch<'_>, shape: &Shape, there: bool) -> Result<(), Failure> {
    if !shape.ends {
        return Ok(());
    }
    match (there, state_of(batch, shape)) {
        (true, (_, true)) | (false, (true, false)) => set_gap(batch, shape, there),
        _ => Ok(()),
    }
}

/// Tells of each element as it stands in the message.
fn tell(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    shape: &Shape,
    (number, flags): (u8, u16),
    list: Attribute<'_>,
) {
    let now = batch.now;
    let read = |attribute| read(attribute, shape, &batch.ids, now).ok();
    let all: Vec<Given> = list.each().filter_map(read).collect();
    batch.tell(message, |to, stamp, _| {
        for Given { element, end } in &all {
            stamp.message(to, number, flags, Some(shape.family), |to| {
                to.string(NFTA_SET_ELEM_LIST_TABLE, &shape.table);
                to.string(NFTA_SET_ELEM_LIST_SET, &shape.name);
                to.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |to| {
                    if *end {
                        write_end(to, &element.key);
                    } else {
                        let show = Shown { ends: shape.ends, ranges: false, now };
                        let exprs = element.value.exprs();
                        to.nest(NFTA_LIST_ELEM, |to| write(to, element.view(), exprs, show));
                    }
                });
            });
        }
    });
}

/// Tells of each element of a set that another set does not have, at a time in nanoseconds.
pub fn fill_missing(
    to: &mut Writer,
    (stamp, now): (Stamp, u64),
    (number, flags): (u8, u16),
    table: &Table,
    (set, other): (&Set, Option<&Set>),
) {
    let elements = set.elements();
    let other = other.map(Set::elements);
    let other = other.as_ref().map(|other| other.iter().filter(|e| e.is_alive(now)));
    let there: HashSet<_> = other.into_iter().flatten().map(|e| (e.key, e.key_end)).collect();
    let mut missing: Vec<_> = elements.iter().filter(|e| e.is_alive(now)).collect();
    missing.retain(|e| !there.contains(&(e.key, e.key_end)));
    missing.sort_by(|a, b| a.key.cmp(b.key));
    for (at, element) in missing.iter().enumerate() {
        let exprs = element.value.snapshot(now);
        let next = missing.get(at + 1).map(|next| next.key);
        fill(to, (stamp, now), (number, flags), table, set, (*element, &exprs, next));
    }
}

/// Tells of an element of a set, and of its end where that is a message of its own, at a time in
/// nanoseconds. The next element's key comes with it.
pub fn fill(
    to: &mut Writer,
    (stamp, now): (Stamp, u64),
    (number, flags): (u8, u16),
    table: &Table,
    set: &Set,
    (element, exprs, next): (ElementRef<'_, ElementValue>, &[Expr], Option<&[u8]>),
) {
    let show = Shown::of(set, now);
    let message = |to: &mut Writer, write: &dyn Fn(&mut Writer)| {
        message_of(to, stamp, (number, flags), (table, set), write);
    };
    message(to, &|to| to.nest(NFTA_LIST_ELEM, |to| write(to, element, exprs, show)));
    let end = after(element.key_end.unwrap_or(element.key));
    let open = set.anonymous && is_followed(element, next);
    if let Some(end) = end.filter(|_| show.ends && !open && !element.key.is_empty()) {
        message(to, &|to| write_end(to, &end));
    }
}

/// Tells that a set loses all of its elements, at a time in nanoseconds: as the kernel, which goes
/// through intervals from the last key to the first.
pub fn fill_flush(to: &mut Writer, (stamp, now): (Stamp, u64), table: &Table, set: &Set) {
    let show = Shown::of(set, now);
    let elements = set.elements();
    let mut all: Vec<_> = elements.iter().filter(|e| e.is_alive(now)).collect();
    all.sort_by(|a, b| if show.ends { b.key.cmp(a.key) } else { a.key.cmp(b.key) });
    for element in all {
        let message = |to: &mut Writer, write: &dyn Fn(&mut Writer)| {
            message_of(to, stamp, (NFT_MSG_DELSETELEM, 0), (table, set), write);
        };
        let end = after(element.key_end.unwrap_or(element.key));
        if let Some(end) = end.filter(|_| show.ends && !element.key.is_empty()) {
            message(to, &|to| write_end(to, &end));
        }
        let exprs = element.value.snapshot(now);
        message(to, &|to| to.nest(NFTA_LIST_ELEM, |to| write(to, element, &exprs, show)));
    }
}

/// A message about an element of a set.
fn message_of(
    to: &mut Writer,
    stamp: Stamp,
    (number, flags): (u8, u16),
    (table, set): (&Table, &Set),
    write: &dyn Fn(&mut Writer),
) {
    stamp.message(to, number, flags, Some(table.family), |to| {
        to.string(NFTA_SET_ELEM_LIST_TABLE, &table.name);
        to.string(NFTA_SET_ELEM_LIST_SET, &set.name);
        to.nest(NFTA_SET_ELEM_LIST_ELEMENTS, write);
    });
}

/// What a listing of elements needs to know.
#[derive(Clone, Copy)]
struct Shown {
    /// Intervals are two elements.
    ends: bool,
    /// Elements are ranges of concatenations: all have a last key.
    ranges: bool,
    now: u64,
}

impl Shown {
    fn of(set: &Set, now: u64) -> Self {
        let ends = has_ends(set);
        Shown { ends, ranges: set.description.interval && !ends, now }
    }
}

/// The end of an interval, and then its beginning: the kernel goes from the last key to the first.
fn write_both(to: &mut Writer, element: ElementRef<'_, ElementValue>, exprs: &[Expr], show: Shown) {
    if show.ends
        && !element.key.is_empty()
        && let Some(end) = after(element.key_end.unwrap_or(element.key))
    {
        write_end(to, &end);
    }
    to.nest(NFTA_LIST_ELEM, |to| write(to, element, exprs, show));
}

fn write_end(to: &mut Writer, end: &[u8]) {
    to.nest(NFTA_LIST_ELEM, |to| {
        expression::write_value(NFTA_SET_ELEM_KEY, end, to);
        to.be32(NFTA_SET_ELEM_FLAGS, INTERVAL_END);
    });
}

fn write(to: &mut Writer, element: ElementRef<'_, ElementValue>, exprs: &[Expr], show: Shown) {
    if !element.key.is_empty() {
        expression::write_value(NFTA_SET_ELEM_KEY, element.key, to);
    }
    let single = (show.ranges && !element.key.is_empty()).then_some(element.key);
    if let Some(end) = element.key_end.or(single).filter(|_| !show.ends) {
        expression::write_value(NFTA_SET_ELEM_KEY_END, end, to);
    }
    match &element.value.data {
        Some(ElementData::Value(data)) => {
            expression::write_value(NFTA_SET_ELEM_DATA, data.bytes(), to);
        }
        Some(ElementData::Verdict(verdict)) => {
            expression::write_verdict(NFTA_SET_ELEM_DATA, verdict, to);
        }
        Some(ElementData::Object(_)) | None => {}
    }
    match exprs {
        [] => {}
        [expr] => to.nest(NFTA_SET_ELEM_EXPR, |to| expression::write(expr, to)),
        exprs => to.nest(NFTA_SET_ELEM_EXPRESSIONS, |to| expression::write_list(exprs, to)),
    }
    if let Some(ElementData::Object(name)) = &element.value.data {
        to.string(NFTA_SET_ELEM_OBJREF, name);
    }
    if element.key.is_empty() {
        to.be32(NFTA_SET_ELEM_FLAGS, CATCH_ALL);
    }
    if let Some(timeout) = element.value.timeout() {
        to.be64(NFTA_SET_ELEM_TIMEOUT, timeout);
    }
    if let Some(at) = element.expires_at {
        to.be64(NFTA_SET_ELEM_EXPIRATION, at.saturating_sub(show.now) / MILLISECOND);
    }
    if let Some(userdata) = element.value.userdata() {
        to.attribute(NFTA_SET_ELEM_USERDATA, userdata);
    }
}

/// What a program sends of an element that comes or goes, at a time in nanoseconds: with the end of
/// an interval that has one of its own. The next element's key comes with it.
pub fn write_one(
    to: &mut Writer,
    set: &Set,
    (element, exprs): (ElementRef<'_, ElementValue>, &[Expr]),
    next: Option<&[u8]>,
    now: u64,
) {
    let show = Shown::of(set, now);
    to.nest(NFTA_LIST_ELEM, |to| write(to, element, exprs, show));
    let end = after(element.key_end.unwrap_or(element.key));
    let open = set.anonymous && is_followed(element, next);
    if let Some(end) = end.filter(|_| show.ends && !open && !element.key.is_empty()) {
        write_end(to, &end);
    }
}

/// `NFT_MSG_GETSETELEM` of some. `reset` sets their state to zero afterwards.
pub fn get(
    get: &mut Get<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    reset: bool,
) -> Result<(), Failure> {
    let table = table_named(get.generation, message, given.get(NFTA_SET_ELEM_LIST_TABLE))?;
    let set = set_named(table, given.get(NFTA_SET_ELEM_LIST_SET))?;
    let list = given.need(NFTA_SET_ELEM_LIST_ELEMENTS)?;
    let shape = Shape::of(table, set);
    let elements = set.elements();
    let mut keys = Vec::new();
    for attribute in list.each() {
        let blamed = |failure: Failure| failure.blaming_only(&attribute);
        let Given { element, end } =
            read(attribute, &shape, &Ids::default(), get.now).map_err(blamed)?;
        let found = match (element.key.is_empty(), shape.ends && end) {
            (true, _) => elements.catch_all(get.now),
            // The end of the interval that a key lies in.
            (false, true) => before(&element.key).and_then(|key| elements.get(&key, get.now)),
            (false, false) => elements.get(&element.key, get.now),
        };
        let found = found.ok_or_else(|| attribute.refused(Errno::Enoent))?;
        let exprs = found.value.snapshot(get.now);
        let show = Shown::of(set, get.now);
        get.stamp.message(&mut get.answer, NFT_MSG_NEWSETELEM, 0, Some(table.family), |to| {
            to.string(NFTA_SET_ELEM_LIST_TABLE, &table.name);
            to.string(NFTA_SET_ELEM_LIST_SET, &set.name);
            to.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |to| {
                to.nest(NFTA_LIST_ELEM, |to| match (end, found.key_end) {
                    (true, last) => {
                        if let Some(next) = after(last.unwrap_or(found.key)) {
                            expression::write_value(NFTA_SET_ELEM_KEY, &next, to);
                        }
                        to.be32(NFTA_SET_ELEM_FLAGS, INTERVAL_END);
                    }
                    (false, _) => write(to, found, &exprs, show),
                });
            });
        });
        get.flush();
        keys.push((found.key.into(), found.key_end.map(Into::into)));
    }
    if reset {
        get.resets.push(Reset {
            family: Some(table.family),
            table: Some(table.name.clone()),
            what: What::Elements(set.name.clone(), Some(keys)),
        });
    }
    Ok(())
}

/// `NFT_MSG_GETSETELEM` of all elements of a set.
pub fn dump(
    generation: &Generation,
    message: &Message<'_>,
    given: &Attributes<'_>,
    dump: &mut Dump,
    now: u64,
) -> Result<(), Failure> {
    let table = table_named(generation, message, given.get(NFTA_SET_ELEM_LIST_TABLE))?;
    let set = set_named(table, given.get(NFTA_SET_ELEM_LIST_SET))?;
    let elements = set.elements();
    let ends = has_ends(set);
    let show = Shown::of(set, now);
    let mut listed: Vec<_> = elements.iter().filter(|element| element.is_alive(now)).collect();
    if ends {
        listed.sort_by(|a, b| b.key.cmp(a.key));
    }
    let mut part = Part::new(table, set, dump.limit());
    // nft begins a set that does not begin with the first key with the end of what is before, and
    // the kernel keeps that.
    let first = listed.iter().rev().find(|element| !element.key.is_empty());
    let begins_later = |first: &&ElementRef<'_, _>| first.key.iter().any(|byte| *byte != 0);
    let gap = first.filter(|first| ends && !set.gapless && begins_later(first));
    let gap = gap.map(|first| vec![0; first.key.len()]);
    let mut next: Option<&[u8]> = None;
    for element in listed {
        let exprs = element.value.snapshot(now);
        let open = set.anonymous && is_followed(element, next);
        part.add(dump, |to| match open {
            true => to.nest(NFTA_LIST_ELEM, |to| write(to, element, &exprs, show)),
            false => write_both(to, element, &exprs, show),
        });
        next = Some(element.key).filter(|_| ends);
    }
    if let Some(zero) = gap {
        part.add(dump, |to| write_end(to, &zero));
    }
    part.finish(dump);
    Ok(())
}

/// Whether an interval ends where the next one begins. In sets without a name nft gives it no end
/// of its own then.
fn is_followed(element: ElementRef<'_, ElementValue>, next: Option<&[u8]>) -> bool {
    next.is_some() && after(element.key_end.unwrap_or(element.key)).as_deref() == next
}

/// `NFTA_SET_COUNT`: elements without the catch-all, which the kernel keeps apart. For intervals it
/// is half the number of elements in messages (`nft_rbtree_usize()`).
pub fn count(set: &Set) -> u32 {
    let elements = set.elements();
    let all = elements.len() as u32 - u32::from(elements.catch_all(0).is_some());
    if !has_ends(set) || !set.anonymous {
        return all;
    }
    let mut listed: Vec<_> = elements.iter().filter(|e| !e.key.is_empty()).collect();
    listed.sort_by(|a, b| b.key.cmp(a.key));
    let begins_later = |first: &ElementRef<'_, _>| first.key.iter().any(|byte| *byte != 0);
    let gap = !set.gapless && listed.last().is_some_and(begins_later);
    let mut next: Option<&[u8]> = None;
    let mut nodes = u32::from(gap);
    for element in listed {
        nodes += if is_followed(element, next) { 1 } else { 2 };
        next = Some(element.key);
    }
    nodes / 2
}

/// What a dump with `NFT_MSG_GETSETELEM_RESET` sets to zero.
///
/// # Errors
/// `EINVAL` for names that are no UTF-8, or missing.
pub fn resets(message: &Message<'_>, given: &Attributes<'_>) -> Result<Reset, Failure> {
    Ok(Reset {
        family: super::find::family_of(message),
        table: Some(given.need(NFTA_SET_ELEM_LIST_TABLE)?.text()?.into()),
        what: What::Elements(given.need(NFTA_SET_ELEM_LIST_SET)?.text()?.into(), None),
    })
}

/// Elements for one message of a dump.
struct Part<'g> {
    table: &'g Table,
    set: &'g Set,
    elements: Writer,
    /// Most bytes of elements in a message.
    limit: usize,
}

impl<'g> Part<'g> {
    fn new(table: &'g Table, set: &'g Set, limit: usize) -> Self {
        // Headers, two names, and the list.
        let around = 32 + table.name.len() + set.name.len() + 16;
        // A list is an attribute, too: its length has 16 bits.
        let limit = limit.saturating_sub(around).min(usize::from(u16::MAX) - 4);
        Part { table, set, elements: Writer::default(), limit }
    }

    fn add(&mut self, dump: &mut Dump, write: impl FnOnce(&mut Writer)) {
        let before = self.elements.len();
        write(&mut self.elements);
        if self.elements.len() > self.limit && before > 0 {
            let last = self.elements.split_off(before);
            self.send(dump);
            self.elements.raw(&last);
        }
    }

    fn send(&mut self, dump: &mut Dump) {
        let elements = std::mem::take(&mut self.elements).finish();
        dump.message(NFT_MSG_NEWSETELEM, 0, self.table.family, |to| {
            to.string(NFTA_SET_ELEM_LIST_TABLE, &self.table.name);
            to.string(NFTA_SET_ELEM_LIST_SET, &self.set.name);
            to.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |to| to.raw(&elements));
        });
        dump.flush();
    }

    /// Ends as the kernel does: a message without elements, with the end of the dump after it.
    fn finish(mut self, dump: &mut Dump) {
        if !self.elements.is_empty() {
            self.send(dump);
        }
        dump.message(NFT_MSG_NEWSETELEM, 0, self.table.family, |to| {
            to.string(NFTA_SET_ELEM_LIST_TABLE, &self.table.name);
            to.string(NFTA_SET_ELEM_LIST_SET, &self.set.name);
            to.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |_| {});
        });
    }
}
