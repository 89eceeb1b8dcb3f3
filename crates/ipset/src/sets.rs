// SPDX-License-Identifier: Apache-2.0

//! All sets of a network namespace, and what requests do with them (`ip_set_core.c`).

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use serde::{Deserialize, Serialize};

use crate::carried::{New, left};
use crate::error::Code;
use crate::given::{BEFORE, Given, GivenSet};
use crate::kind::{Family, Kind};
use crate::list::{Members, Place};
use crate::options::Options;
use crate::set::{Content, Header, Set, Told};

/// Most sets (`IPSET_INVALID_ID`).
const MOST: usize = 65_535;

/// A place for a set: its number is that of the place, and stays with the name.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub name: Arc<str>,
    pub set: Arc<Set>,
}

/// The sets at one moment, by number.
#[derive(Debug, Default)]
pub(crate) struct Slots(pub Vec<Option<Slot>>);

impl Slots {
    pub(crate) fn get(&self, index: u16) -> Option<&Slot> {
        self.0.get(usize::from(index))?.as_ref()
    }

    #[inline]
    pub(crate) fn set(&self, index: u16) -> Option<&Set> {
        self.get(index).map(|slot| &*slot.set)
    }

    fn named(&self, name: &str) -> Option<(u16, &Slot)> {
        self.each().find(|(_, slot)| *slot.name == *name)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (u16, &Slot)> {
        (0..).zip(&self.0).filter_map(|(index, slot)| Some((index, slot.as_ref()?)))
    }

    fn of_name(&self, name: &str) -> Result<(u16, &Slot), Code> {
        self.named(name).ok_or(Code::ENOENT)
    }
}

/// What is asked of sets: a message each, but for listings, which come in parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A new set. With `exist` it is no error if the same one is there.
    Create {
        /// Its name.
        name: Box<str>,
        /// Its type.
        kind: Kind,
        /// Revision of the type.
        revision: u8,
        /// Its family.
        family: Family,
        /// Its options.
        given: Box<GivenSet>,
        /// See above.
        exist: bool,
    },
    /// Ends a set, or all.
    Destroy(Option<Box<str>>),
    /// Deletes all elements of a set, or of all.
    Flush(Option<Box<str>>),
    /// Gives a set another name.
    Rename(Box<str>, Box<str>),
    /// Exchanges what two names stand for.
    Swap(Box<str>, Box<str>),
    /// Adds or deletes elements, in order, until one is refused.
    Change {
        /// The set.
        name: Box<str>,
        /// Deletes; else adds.
        delete: bool,
        /// It is no error if elements are there, or not there, already.
        exist: bool,
        /// The elements.
        elements: Vec<Given>,
    },
    /// Whether an element is there.
    Test(Box<str>, Box<Given>),
    /// All sets, or one.
    List(Option<Box<str>>),
    /// Elements of a set from a place on, at most so many.
    Elements(u16, u32, u32),
    /// The set with a number.
    ByIndex(u16),
}

impl Request {
    /// Whether it matters, or is told, how many rules have a set.
    pub fn asks_for_references(&self) -> bool {
        match self {
            Request::Destroy(_) | Request::Rename(..) | Request::List(_) => true,
            Request::Create { .. }
            | Request::Flush(_)
            | Request::Swap(..)
            | Request::Change { .. }
            | Request::Test(..)
            | Request::Elements(..)
            | Request::ByIndex(_) => false,
        }
    }

    /// Whether it changes anything.
    pub fn changes(&self) -> bool {
        match self {
            Request::Create { .. }
            | Request::Destroy(_)
            | Request::Flush(_)
            | Request::Rename(..)
            | Request::Swap(..)
            | Request::Change { .. } => true,
            Request::Test(..) | Request::List(_) | Request::Elements(..) | Request::ByIndex(_) => {
                false
            }
        }
    }
}

/// A set as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its number.
    pub index: u16,
    /// Its name.
    pub name: Box<str>,
    /// What it is.
    pub header: Header,
    /// How many rules and lists have it.
    pub references: u32,
    /// Bytes of memory.
    pub memory: u32,
    /// How many elements it has.
    pub elements: u32,
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done, or it is so.
    Done,
    /// Sets.
    Sets(Vec<Listed>),
    /// Elements, and where the next ones begin.
    Elements(Vec<Told>, Option<u32>),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The error.
    pub code: Code,
    /// Which of the elements it is about, from 0.
    pub element: usize,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Refused { code, element: 0 }
    }
}

/// Sets that requests and packets share. Packets take no lock.
#[derive(Debug, Default)]
pub struct IpSets {
    slots: ArcSwap<Slots>,
    /// Held while a request is carried out.
    control: Mutex<()>,
}

/// A random number.
fn seed() -> u32 {
    RandomState::new().hash_one(0) as u32
}

impl IpSets {
    #[inline]
    pub(crate) fn slots(&self) -> Guard<Arc<Slots>> {
        self.slots.load()
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, ()> {
        // Each change is one store.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots().each().next().is_none()
    }

    /// Whether there is a set with a number.
    pub fn has(&self, index: u16) -> bool {
        self.slots().get(index).is_some()
    }

    /// Carries out a request at a time (ns). `rules` says how many rules have a set by its number.
    ///
    /// # Errors
    /// Those of `ip_set_core.c` and the types.
    pub fn ask(
        &self,
        request: &Request,
        rules: &dyn Fn(u16) -> u32,
        now: u64,
    ) -> Result<Reply, Refused> {
        let _held = self.held();
        let slots = self.slots();
        let references = |index| rules(index) + lists_with(&slots, index, now);
        match request {
            Request::Create { name, kind, revision, family, given, exist } => {
                let family = kind.family_of_new(*family).ok_or(Code::INVALID_FAMILY)?;
                let options = Options::new(*kind, family, given, seed())?;
                let header = Header { kind: *kind, family, revision: *revision, options };
                self.create(&slots, name, header, *exist)?;
            }
            Request::Destroy(name) => self.destroy(&slots, name.as_deref(), &references)?,
            Request::Flush(None) => slots.each().for_each(|(_, slot)| slot.set.clear()),
            Request::Flush(Some(name)) => slots.of_name(name)?.1.set.clear(),
            Request::Rename(from, to) => {
                let (index, slot) = slots.of_name(from)?;
                if references(index) > 0 {
                    return Err(Code::REFERENCED.into());
                }
                if slots.named(to).is_some() {
                    return Err(Code::EXIST_SETNAME2.into());
                }
                let renamed = Slot { name: (**to).into(), set: slot.set.clone() };
                self.replace(&slots, &[(index, Some(renamed))]);
            }
            Request::Swap(from, to) => self.swap(&slots, from, to)?,
            Request::Change { name, delete, exist, elements } => {
                let set = &slots.of_name(name)?.1.set;
                let mut refused = Ok(());
                for (number, given) in elements.iter().enumerate() {
                    refused = change(&slots, set, given, (*delete, *exist), now)
                        .map_err(|code| Refused { code, element: number });
                    if refused.is_err() {
                        break;
                    }
                }
                refused?;
            }
            Request::Test(name, given) => {
                if !test(&slots, &slots.of_name(name)?.1.set, given, now)? {
                    return Err(Code::EXIST.into());
                }
            }
            Request::List(name) => return list(&slots, name.as_deref(), &references, now),
            Request::ByIndex(index) => {
                let slot = slots.get(*index).ok_or(Code::ENOENT)?;
                return Ok(Reply::Sets(vec![listed(*index, slot, references(*index), now)]));
            }
            Request::Elements(index, from, most) => {
                let slot = slots.get(*index).ok_or(Code::ENOENT)?;
                let (told, next) = told(&slots, &slot.set, *from, *most as usize, now);
                return Ok(Reply::Elements(told, next));
            }
        }
        Ok(Reply::Done)
    }

    /// Puts others in the place of sets, or none.
    pub(crate) fn replace(&self, slots: &Slots, new: &[(u16, Option<Slot>)]) {
        let mut all = slots.0.clone();
        for (index, slot) in new {
            let at = usize::from(*index);
            if all.len() <= at {
                all.resize(at + 1, None);
            }
            all[at] = slot.clone();
        }
        self.slots.store(Arc::new(Slots(all)));
    }

    fn create(&self, slots: &Slots, name: &str, header: Header, exist: bool) -> Result<(), Code> {
        if let Some((_, slot)) = slots.named(name) {
            let there = &slot.set.header;
            let same = there.kind == header.kind
                && there.family == header.family
                && there.options.is_same(&header.options);
            return if exist && same { Ok(()) } else { Err(Code::EEXIST) };
        }
        let free = slots.0.iter().position(Option::is_none).unwrap_or(slots.0.len());
        let index = u16::try_from(free).ok().filter(|_| free < MOST).ok_or(Code::MAX_SETS)?;
        let slot = Slot { name: name.into(), set: Arc::new(Set::new(header)?) };
        self.replace(slots, &[(index, Some(slot))]);
        Ok(())
    }

    fn destroy(
        &self,
        slots: &Slots,
        name: Option<&str>,
        references: &dyn Fn(u16) -> u32,
    ) -> Result<(), Code> {
        let gone: Vec<_> = match name {
            Some(name) => vec![slots.of_name(name)?.0],
            None => slots.each().map(|(index, _)| index).collect(),
        };
        if gone.iter().any(|index| references(*index) > 0) {
            return Err(Code::BUSY);
        }
        self.replace(slots, &gone.iter().map(|index| (*index, None)).collect::<Vec<_>>());
        Ok(())
    }

    fn swap(&self, slots: &Slots, from: &str, to: &str) -> Result<(), Code> {
        let (a, first) = slots.of_name(from)?;
        let (b, second) = slots.named(to).ok_or(Code::EXIST_SETNAME2)?;
        let headers = [&first.set.header, &second.set.header];
        if !headers[0].kind.is_like(headers[1].kind) || headers[0].family != headers[1].family {
            return Err(Code::TYPE_MISMATCH);
        }
        let swapped = [
            (a, Some(Slot { name: first.name.clone(), set: second.set.clone() })),
            (b, Some(Slot { name: second.name.clone(), set: first.set.clone() })),
        ];
        self.replace(slots, &swapped);
        Ok(())
    }
}

/// How many lists have a set.
fn lists_with(slots: &Slots, index: u16, now: u64) -> u32 {
    let has = |members: &Members| members.each(now, |member| member.index == index);
    let lists = slots
        .each()
        .filter(|(_, slot)| matches!(&slot.set.content, Content::List(members) if has(members)));
    lists.count() as u32
}

fn listed(index: u16, slot: &Slot, references: u32, now: u64) -> Listed {
    let set = &slot.set;
    if let Content::Table(table) = &set.content {
        table.tidy(now);
    }
    Listed {
        index,
        name: (*slot.name).into(),
        header: set.header.clone(),
        references,
        memory: set.memory(now),
        elements: set.count(now),
    }
}

/// Lists come last (`ip_set_dump_do()`).
fn list(
    slots: &Slots,
    name: Option<&str>,
    references: &dyn Fn(u16) -> u32,
    now: u64,
) -> Result<Reply, Refused> {
    let of = |index, slot| listed(index, slot, references(index), now);
    if let Some(name) = name {
        let (index, slot) = slots.of_name(name)?;
        return Ok(Reply::Sets(vec![of(index, slot)]));
    }
    let mut all: Vec<_> = slots.each().map(|(index, slot)| of(index, slot)).collect();
    all.sort_by_key(|listed| listed.header.kind == Kind::ListSet);
    Ok(Reply::Sets(all))
}

pub(crate) fn told(
    slots: &Slots,
    set: &Set,
    from: u32,
    most: usize,
    now: u64,
) -> (Vec<Told>, Option<u32>) {
    let members = match &set.content {
        Content::Table(table) => return set.told(table, from, most, now),
        Content::List(members) => members,
    };
    let mut all = Vec::new();
    members.each(now, |member| {
        let carried = member.words().read();
        all.push(Told {
            element: Default::default(),
            name: slots.get(member.index).map(|slot| (*slot.name).into()),
            timeout: left(member.expires_at(), now),
            expires_at: member.expires_at(),
            comment: members.comments.get(carried.comment),
            carried,
        });
        false
    });
    (all, None)
}

/// What a request says of a set in a list.
fn in_list(slots: &Slots, given: &Given) -> Result<(u16, Place), Code> {
    let name = given.name.as_deref().ok_or(Code::PROTOCOL)?;
    let (index, slot) = slots.named(name).ok_or(Code::LIST_NAME)?;
    if slot.set.header.kind == Kind::ListSet {
        return Err(Code::LIST_LOOP);
    }
    let before = given.flags & BEFORE != 0;
    let Some(reference) = &given.nameref else {
        return if before { Err(Code::LIST_BEFORE) } else { Ok((index, Place::Any)) };
    };
    let (other, _) = slots.named(reference).ok_or(Code::LIST_NAMEREF)?;
    Ok((index, if before { Place::Before(other) } else { Place::After(other) }))
}

fn change(
    slots: &Slots,
    set: &Set,
    given: &Given,
    (delete, exist): (bool, bool),
    now: u64,
) -> Result<(), Code> {
    let members = match &set.content {
        Content::Table(table) => return set.change(table, given, (delete, exist), now),
        Content::List(members) => members,
    };
    let options = &set.header.options;
    let new = New::checked(&given.extensions, false, options)?;
    let (index, place) = in_list(slots, given)?;
    let done = match delete {
        true => members.remove(index, place, now),
        false => members.add((index, place), &new, (exist, options), now),
    };
    match done {
        Err(Code::EXIST) if exist => Ok(()),
        done => done,
    }
}

fn test(slots: &Slots, set: &Set, given: &Given, now: u64) -> Result<bool, Code> {
    match &set.content {
        Content::Table(table) => set.test(table, given, now),
        Content::List(members) => {
            let (index, place) = in_list(slots, given)?;
            Ok(members.test(index, place, now))
        }
    }
}
