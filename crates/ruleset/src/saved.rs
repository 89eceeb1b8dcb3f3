// SPDX-License-Identifier: Apache-2.0

//! A ruleset as bytes, and back: all that the next process needs, programs and handles as they are.
//!
//! A ruleset that was listed and read again is not always what it was: a match of raw bits comes
//! back as one of a header field, with what that depends on. Bytes hold the programs themselves.
//! Live state is kept as the values that expressions start with. The bytes are those of one version
//! of this format; there is no promise across versions.

mod rest;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use penstock_program::expr::Expr;
use penstock_sets::{Backend, Description, Element, ElementList};
use postcard::de_flavors::Flavor;
use serde::{Deserialize, Serialize};

use crate::change::NewSet;
use crate::content::Content;
use crate::globals::{Account, NewAccount};
use crate::live::{state_of, states_of};
use crate::model::{
    BaseChain, Chain, ElementExtras, ElementValue, Family, Flowtable, Generation, MapData, Object,
    ObjectValue, Rule, Set, Table, UserData,
};
use crate::reset::{Reset, What};
use crate::shared::SharedStates;
use crate::transaction::Ruleset;
use crate::transaction::sets::checked_set;
use rest::Rest;

/// What the bytes of any version begin with. No text does.
pub const KIND: &[u8] = b"\x7fpenstock\0";
/// Counts the formats. Whatever changes what is kept, or the order of a VM expression's fields,
/// makes another one.
const VERSION: u8 = 1;
/// The latest time of a saved ruleset, in nanoseconds since the epoch: in the year 2262.
const NOW_MAX: u64 = i64::MAX as u64;

#[derive(Serialize, Deserialize)]
struct SavedRuleset {
    /// Nanoseconds since the epoch.
    now: u64,
    id: u32,
    last_table_handle: u64,
    tables: Vec<SavedTable>,
}

#[derive(Serialize, Deserialize)]
struct SavedTable {
    family: Family,
    name: Arc<str>,
    handle: u64,
    dormant: bool,
    flags: u32,
    userdata: UserData,
    last_handle: u64,
    chains: Vec<SavedChain>,
    sets: Vec<SavedSet>,
    objects: Vec<SavedObject>,
    flowtables: Vec<Flowtable>,
}

#[derive(Serialize, Deserialize)]
struct SavedChain {
    name: Arc<str>,
    handle: u64,
    base: Option<BaseChain>,
    anonymous: bool,
    userdata: UserData,
    rules: Vec<SavedRule>,
}

#[derive(Serialize, Deserialize)]
struct SavedRule {
    handle: u64,
    exprs: Vec<Expr>,
    userdata: UserData,
}

#[derive(Serialize, Deserialize)]
struct SavedSet {
    name: Arc<str>,
    handle: u64,
    anonymous: bool,
    key_type: u32,
    data_type: u32,
    data: Option<MapData>,
    description: Description,
    timeout: u64,
    gc_interval: u32,
    exprs: Vec<Expr>,
    userdata: UserData,
    /// Packets change it.
    dynamic: bool,
    elements: ElementList<ElementValue>,
}

#[derive(Serialize, Deserialize)]
struct SavedObject {
    name: Arc<str>,
    handle: u64,
    value: ObjectValue,
    userdata: UserData,
}

impl Ruleset {
    /// The ruleset as bytes, at a time in nanoseconds since the epoch. Elements that have expired
    /// are not in it.
    ///
    /// ```
    /// use penstock_ruleset::Ruleset;
    ///
    /// let bytes = Ruleset::default().save(1);
    /// assert!(Ruleset::from_saved(&bytes).is_ok());
    /// assert_eq!(Ruleset::from_saved(b"table ip t").err().map(|broken| broken.at), Some(0));
    /// ```
    pub fn save(&self, now: u64) -> Vec<u8> {
        self.save_and_reset(now, &[])
    }

    /// [`Ruleset::save`] for a process with a clock that is ahead by so many nanoseconds.
    pub fn save_ahead(&self, now: u64, ahead: i64) -> Vec<u8> {
        self.bytes(ahead, &Kept { now, named: None, resets: &[] })
    }

    /// [`Ruleset::save`] with resets: the bytes have the values from just before.
    pub fn save_and_reset(&self, now: u64, resets: &[Reset]) -> Vec<u8> {
        self.bytes(0, &Kept { now, named: None, resets })
    }

    /// [`Ruleset::save_and_reset`] of what is named: the values of its rules, elements and objects,
    /// for a process that knows the rest. Other tables are left out, and of named tables rules and
    /// elements that neither are named nor count as uses of something that is.
    ///
    /// ```
    /// use penstock_ruleset::Ruleset;
    ///
    /// let none = Ruleset::default().save_part(1, &[], &[]);
    /// assert_eq!(Ruleset::from_saved(&none).map(|part| part.generation().tables.len()), Ok(0));
    /// ```
    pub fn save_part(&self, now: u64, named: &[Reset], resets: &[Reset]) -> Vec<u8> {
        self.bytes(0, &Kept { now, named: Some(named), resets })
    }

    fn bytes(&self, ahead: i64, kept: &Kept<'_>) -> Vec<u8> {
        let generation = self.generation();
        let tables = generation.tables.iter().filter(|table| kept.has_table(table));
        let mut saved = SavedRuleset {
            now: kept.now,
            id: generation.id,
            last_table_handle: self.last_table_handle(),
            tables: tables.map(|table| SavedTable::of(table, kept)).collect(),
        };
        saved.shift(ahead);
        let bytes = [KIND, &[VERSION]].concat();
        // Writing into memory fails for nothing that is in a ruleset.
        let bytes = postcard::to_extend(&saved, bytes).unwrap_or_default();
        Rest::of(&generation, kept).append(bytes)
    }

    /// The ruleset of such bytes. What they say is checked as if each part of it were added to an
    /// empty ruleset.
    ///
    /// # Errors
    ///
    /// Where they stop making sense, or what in them could not be a ruleset.
    pub fn from_saved(bytes: &[u8]) -> Result<Ruleset, Broken> {
        Ruleset::from_saved_at(bytes, u64::MAX)
    }

    /// [`Ruleset::from_saved`] at a time. If it was saved later than that, the clock was set back:
    /// nothing has aged since then.
    ///
    /// # Errors
    ///
    /// Those of [`Ruleset::from_saved`].
    pub fn from_saved_at(bytes: &[u8], now: u64) -> Result<Ruleset, Broken> {
        let Some(behind) = bytes.strip_prefix(KIND) else {
            return Err(Broken { at: 0, what: "this is no saved ruleset".into() });
        };
        let at = KIND.len();
        let body = match behind.split_first() {
            Some((&VERSION, body)) => body,
            Some((version, _)) => {
                return Err(Broken {
                    at,
                    what: format!("this is format {version}, not {VERSION}"),
                });
            }
            None => return Err(Broken { at, what: "the end comes too early".into() }),
        };
        let start = at + 1;
        let read = Rc::new(Cell::new(0));
        let broken = |what: &str| Broken { at: start + read.get(), what: what.into() };
        let mut reader =
            postcard::Deserializer::from_flavor(Counting { bytes: body, read: read.clone() });
        let mut saved = SavedRuleset::deserialize(&mut reader).map_err(|e| match e {
            postcard::Error::DeserializeUnexpectedEnd => broken("the end comes too early"),
            _ => broken("no such value can stand here"),
        })?;
        let is_end = || read.get() == body.len();
        let rest = Rest::read(&mut reader, is_end)
            .map_err(|_| broken("nothing but owners of tables and counters can follow"))?;
        if read.get() != body.len() {
            return Err(broken("nothing should follow"));
        }
        if saved.now > NOW_MAX {
            return Err(broken("it is of a time that never comes"));
        }
        let back = saved.now.saturating_sub(now);
        saved.shift(-i64::try_from(back).unwrap_or(i64::MAX));
        let now = saved.now;
        let shared = SharedStates::default();
        let restored = |table: SavedTable| {
            let mut table = table.restore(now, &shared)?;
            rest.give(&mut table);
            Ok(Arc::new(table))
        };
        let tables: Result<_, _> = saved.tables.into_iter().map(restored).collect();
        let no_ruleset =
            |why: &str| broken(&format!("what was read up to here is no ruleset: {why}"));
        let tables = tables.map_err(no_ruleset)?;
        let globals = rest
            .globals()
            .ok_or_else(|| no_ruleset("there cannot be such accounts or timeout policies"))?;
        let generation = Generation { id: saved.id, tables, globals: Arc::new(globals) };
        Ruleset::admit(generation, saved.last_table_handle).map_err(|why| no_ruleset(&why))
    }
}

/// Where saved bytes are wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// How many bytes were right.
    pub at: usize,
    /// What is wrong there, for people.
    pub what: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "broken at byte {}: {}", self.at, self.what)
    }
}

type Reader<'b> = postcard::Deserializer<'b, Counting<'b>>;

/// Bytes that are being read, and how many were: postcard itself does not tell where it stopped.
struct Counting<'b> {
    bytes: &'b [u8],
    read: Rc<Cell<usize>>,
}

impl<'b> Flavor<'b> for Counting<'b> {
    type Remainder = ();
    type Source = &'b [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        let byte =
            self.bytes.get(self.read.get()).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.read.set(self.read.get() + 1);
        Ok(*byte)
    }

    fn size_hint(&self) -> Option<usize> {
        self.bytes.len().checked_sub(self.read.get())
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'b [u8]> {
        let rest = self.bytes.get(self.read.get()..).unwrap_or_default();
        let taken = rest.get(..count).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.read.set(self.read.get() + count);
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Whether two byte strings of [`Ruleset::save`] say the same, at whatever times.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    fn timeless(bytes: &[u8]) -> Option<&[u8]> {
        let body = bytes.strip_prefix(KIND)?.split_first()?.1;
        postcard::take_from_bytes::<u64>(body).ok().map(|(_, rest)| rest)
    }
    timeless(a).is_some_and(|a| timeless(b) == Some(a))
}

impl SavedRuleset {
    /// Moves all times of the clock.
    fn shift(&mut self, by: i64) {
        if by == 0 {
            return;
        }
        self.now = self.now.saturating_add_signed(by);
        for set in self.tables.iter_mut().flat_map(|table| &mut table.sets) {
            let moved = std::mem::take(&mut set.elements).into_elements().map(|element| {
                let expires_at = element.expires_at.map(|at| at.saturating_add_signed(by));
                Element { expires_at, ..element }
            });
            set.elements = moved.collect();
        }
    }
}

/// What of a ruleset is saved.
struct Kept<'r> {
    /// Nanoseconds since the epoch.
    now: u64,
    /// What is named, with what counts as uses of it; `None` for all.
    named: Option<&'r [Reset]>,
    /// What is set to zero once it is saved.
    resets: &'r [Reset],
}

impl Kept<'_> {
    /// Whether all is saved, or something that is named and for which this holds.
    fn has(&self, holds: impl Fn(&Reset) -> bool) -> bool {
        self.named.is_none_or(|named| named.iter().any(holds))
    }

    fn account(&self, account: &Account) -> NewAccount {
        let now = account.snapshot();
        if self.resets.iter().any(|reset| reset.names_account(account)) {
            account.reset();
        }
        now
    }

    fn has_table(&self, table: &Table) -> bool {
        self.has(|named| named.names(table))
    }

    /// Rules use objects, and are listed with their number.
    fn has_rules(&self, table: &Table, chain: &Chain) -> bool {
        self.has(|named| {
            named.names(table)
                && match &named.what {
                    What::Rules(of, _) => of.as_ref().is_none_or(|name| *name == chain.name),
                    What::Objects(..) => true,
                    // They are listed with the number of their uses.
                    What::Accounts(_) => chain.rules.iter().any(|r| r.named().next().is_some()),
                    What::Elements(..) | What::Policies => false,
                }
        })
    }

    /// Elements of maps use objects, too.
    fn has_elements(&self, table: &Table, set: &Set) -> bool {
        self.has(|named| {
            named.names(table)
                && match &named.what {
                    What::Elements(of, _) => *of == set.name,
                    What::Objects(..) => matches!(set.data, Some(MapData::Object(_))),
                    What::Rules(..) | What::Policies | What::Accounts(_) => false,
                }
        })
    }
}

impl SavedTable {
    fn of(table: &Table, kept: &Kept<'_>) -> SavedTable {
        SavedTable {
            family: table.family,
            name: table.name.clone(),
            handle: table.handle,
            dormant: table.dormant,
            flags: table.flags,
            userdata: table.userdata.clone(),
            last_handle: table.last_handle,
            chains: table.chains.iter().map(|c| SavedChain::of(table, c, kept)).collect(),
            sets: table.sets.iter().map(|s| SavedSet::of(table, s, kept)).collect(),
            objects: table.objects.iter().map(|o| SavedObject::of(table, o, kept)).collect(),
            flowtables: table.flowtables.iter().map(|f| Flowtable::clone(f)).collect(),
        }
    }

    fn restore(self, now: u64, shared: &SharedStates) -> Result<Table, &'static str> {
        let chains = self.chains.into_iter();
        Ok(Table {
            family: self.family,
            name: self.name,
            handle: self.handle,
            dormant: self.dormant,
            flags: self.flags,
            owner: 0,
            userdata: self.userdata,
            last_handle: self.last_handle,
            chains: chains.map(|c| Arc::new(c.restore(self.family, now, shared))).collect(),
            sets: self
                .sets
                .into_iter()
                .map(|s| s.restore(self.family, now).map(Arc::new))
                .collect::<Result<_, _>>()?,
            objects: self.objects.into_iter().map(|o| Arc::new(o.restore(now))).collect(),
            flowtables: self.flowtables.into_iter().map(Arc::new).collect(),
        })
    }
}

impl SavedChain {
    fn of(table: &Table, chain: &Chain, kept: &Kept<'_>) -> SavedChain {
        let Kept { now, resets, .. } = *kept;
        let is_reset =
            |rule: &Rule| resets.iter().any(|reset| reset.names_rule(table, chain, rule));
        let rule = |rule: &Arc<Rule>| SavedRule {
            handle: rule.handle,
            exprs: if is_reset(rule) { rule.reset(now) } else { rule.snapshot(now) },
            userdata: rule.userdata.clone(),
        };
        SavedChain {
            name: chain.name.clone(),
            handle: chain.handle,
            base: chain.base.clone(),
            anonymous: chain.anonymous,
            userdata: chain.userdata.clone(),
            rules: match kept.has_rules(table, chain) {
                true => chain.rules.iter().map(rule).collect(),
                false => Vec::new(),
            },
        }
    }

    fn restore(self, family: Family, now: u64, shared: &SharedStates) -> Chain {
        let rule = |rule: SavedRule| {
            let states = shared.states_of(&rule.exprs, family, now);
            Arc::new(Rule {
                handle: rule.handle,
                exprs: rule.exprs,
                states,
                userdata: rule.userdata,
                origin: None,
            })
        };
        Chain {
            name: self.name,
            handle: self.handle,
            base: self.base,
            counter: None,
            program: None,
            anonymous: self.anonymous,
            userdata: self.userdata,
            rules: self.rules.into_iter().map(rule).collect(),
        }
    }
}

impl SavedSet {
    /// What would make such a set.
    fn described(&self) -> NewSet {
        NewSet {
            name: self.name.clone(),
            id: 0,
            anonymous: self.anonymous,
            key_type: self.key_type,
            data_type: self.data_type,
            data: self.data,
            description: self.description.clone(),
            timeout: self.timeout,
            gc_interval: self.gc_interval,
            exprs: self.exprs.clone(),
            userdata: self.userdata.clone(),
        }
    }

    fn of(table: &Table, set: &Set, kept: &Kept<'_>) -> SavedSet {
        let Kept { now, resets, .. } = *kept;
        let is_reset =
            |element| resets.iter().any(|reset| reset.names_element(table, set, element));
        let mut elements = ElementList::new();
        let all = kept.has_elements(table, set).then(|| set.elements());
        let all = all.iter().flat_map(|elements| elements.iter());
        for element in all.filter(|e| e.is_alive(now)) {
            let value = if element.value.exprs().is_empty() {
                element.value.clone()
            } else {
                let extras = ElementExtras {
                    exprs: if is_reset(element) {
                        element.value.reset(now)
                    } else {
                        element.value.snapshot(now)
                    },
                    states: Vec::new(),
                    timeout: element.value.timeout(),
                    userdata: element.value.userdata().cloned(),
                };
                ElementValue::new(element.value.data.clone(), extras)
            };
            elements.push(element.with_value(value));
        }
        SavedSet {
            name: set.name.clone(),
            handle: set.handle,
            anonymous: set.anonymous,
            key_type: set.key_type,
            data_type: set.data_type,
            data: set.data,
            description: set.description.clone(),
            timeout: set.timeout,
            gc_interval: set.gc_interval,
            exprs: set.exprs.clone(),
            userdata: set.userdata.clone(),
            dynamic: set.dynamic().is_some(),
            elements,
        }
    }

    fn restore(self, family: Family, now: u64) -> Result<Set, &'static str> {
        const WRONG: &str = "there cannot be such a set";
        checked_set(&self.described(), family).map_err(|_| WRONG)?;
        let is_map = self.data.is_some();
        let changeable = matches!(self.data, None | Some(MapData::Value { .. }));
        if self.description.map != is_map || self.dynamic && !changeable {
            return Err(WRONG);
        }
        // A set that packets change may have got its size by that only; its structure was chosen
        // before.
        let size = self.description.size.filter(|_| !self.dynamic);
        let chosen_by = Description { size, ..self.description.clone() };
        let mut content = penstock_sets::Set::new(chosen_by).ok_or(WRONG)?;
        // Elements that went on living when the size was changed are there, too.
        content.set_size(None);
        let stateless = |value: &ElementValue| value.exprs().is_empty();
        let plain = self
            .elements
            .values()
            .all(|(value, expires_at)| expires_at.is_none() && stateless(value));
        let rest = if plain { content.load(self.elements).err() } else { Some(self.elements) };
        for Element { key, key_end, mut value, expires_at } in
            rest.into_iter().flat_map(ElementList::into_elements)
        {
            let states = states_of(value.exprs(), now);
            value.change_extras(|extras| extras.states = states);
            content.insert(Element { key, key_end, value, expires_at }, now).map_err(|_| WRONG)?;
        }
        content.set_size(self.description.size);
        content.commit();
        let mut set = Set {
            name: self.name,
            handle: self.handle,
            anonymous: self.anonymous,
            key_type: self.key_type,
            data_type: self.data_type,
            data: self.data,
            description: self.description,
            timeout: self.timeout,
            gc_interval: self.gc_interval,
            exprs: self.exprs,
            userdata: self.userdata,
            gapless: false,
            content: Content::Fixed(content),
            told: Default::default(),
        };
        if self.dynamic {
            if set.backend() != Backend::ResizableHash {
                return Err(WRONG);
            }
            if !set.has_room_for(set.description.size) {
                return Err("there is no memory for a set of that size");
            }
            set.become_dynamic();
            set.commit(now);
        }
        Ok(set)
    }
}

impl SavedObject {
    fn of(table: &Table, object: &Object, kept: &Kept<'_>) -> SavedObject {
        let Kept { now, resets, .. } = *kept;
        let is_reset = resets.iter().any(|reset| reset.names_object(table, object));
        SavedObject {
            name: object.name.clone(),
            handle: object.handle,
            value: if is_reset { object.reset(now) } else { object.snapshot(now) },
            userdata: object.userdata.clone(),
        }
    }

    fn restore(self, now: u64) -> Object {
        let state = self.value.as_expr().and_then(|expr| state_of(&expr, now));
        Object {
            name: self.name,
            handle: self.handle,
            value: self.value,
            state,
            userdata: self.userdata,
        }
    }
}
