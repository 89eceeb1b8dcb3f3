// SPDX-License-Identifier: Apache-2.0

//! Long chains: what a program needs to find the next rule that may match, in place of walking.
//!
//! The structure is that of the dataplane ([`penstock_program::classify`]), in the only value of
//! one array map:
//!
//! ```text
//! for each chain: next always[n + 1] | what is done[n] | bounds of wide dimensions | cells | roots
//!                 for each tree: boxes, a cache line each where they fit
//! ```
//!
//! A box has its rule, the bits of the fields that a packet must have, and first and last
//! coordinate in each dimension that its tree looks at. [`find`](super::find) is the search,
//! [`tails`](super::tails) what is done with a rule that was found.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_bpf::{Map, MapKind, MapSpec};
use penstock_classify::{Coordinate, Layout, LayoutBox, LayoutCell, LayoutTree};
use penstock_program::classify::{Lookup, Metadata, Source as Place, Span};
use penstock_program::expr::{CtKey, MetaKey};
use penstock_program::image::ChainIndex;
use penstock_program::op::Op;

use super::counters::Counters;
use super::frame::{Base, Field, Slot, Slots};
use super::tails::{Tail, Tails};
use super::{Job, ct, meta};

/// Rules from which on a chain is searched: from 48 (acl) or 64 (fw, ipc) rules in the style of
/// ClassBench on a search takes less time than the walk (`cargo test -p penstock-ebpf --test long --
/// --ignored --nocapture threshold`).
pub(super) const LONG: usize = 64;

/// Bytes of the map at most.
const MOST_BYTES: usize = 1 << 28;

/// All long chains of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct LongChains {
    chains: HashMap<(ChainIndex, bool), Arc<Long>>,
    map: Option<Arc<Map>>,
}

/// A long chain. Offsets are those in the value of the map.
#[derive(Debug)]
pub(super) struct Long {
    /// Number of rules.
    pub(super) rules: u32,
    /// Where the search goes on, in the stack frame.
    pub(super) from: i16,
    /// It takes the packet's connection to place it.
    pub(super) connection: bool,
    pub(super) dimensions: Vec<Dimension>,
    /// For each number of a rule, and the number after the last: the next rule that is always run.
    pub(super) always: u32,
    /// For each rule: the number of its tail, and of its counter.
    pub(super) does: u32,
    pub(super) cells: Table,
    pub(super) trees: Vec<Tree>,
    pub(super) tails: Vec<Tail>,
}

/// Rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) at: u32,
    pub(super) rows: u32,
}

/// A tree.
#[derive(Debug)]
pub(super) struct Tree {
    /// Where the number of its root's cell is.
    pub(super) root: u32,
    /// Its rules are from this one on.
    pub(super) first: u32,
    /// To this one.
    pub(super) last: u32,
    pub(super) guards: Vec<(u8, u32, u32)>,
    pub(super) boxes: Table,
    /// Bytes of a box.
    pub(super) row: u32,
    /// Its boxes' dimensions, what tells most of them apart first.
    pub(super) dimensions: Vec<u8>,
}

/// Where the coordinate of a packet comes from.
#[derive(Debug)]
pub(super) struct Dimension {
    pub(super) value: Value,
    /// Bytes of the value.
    pub(super) len: u8,
    pub(super) bounds: Bounds,
}

/// Where the bytes of a dimension come from.
#[derive(Debug)]
pub(super) enum Value {
    /// Packets do not differ.
    Constant(u128),
    /// The number of the processor.
    Processor,
    /// From fields.
    Fields {
        /// Fields that a packet does not have are zero, and what several have is equal.
        parts: Vec<Part>,
        /// It is a number in host order.
        host_order: bool,
    },
}

/// Bytes of a dimension that a field has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The first one.
    pub(super) from: u8,
    /// The one after the last.
    pub(super) to: u8,
    /// Where the first one is in the stack frame.
    pub(super) at: i16,
}

/// How a value becomes a coordinate.
#[derive(Debug)]
pub(super) enum Bounds {
    /// It is one.
    None,
    /// By the number of rows that are not greater.
    Rank(Table),
    /// By the number of the equal row.
    Number(Table),
}

impl Dimension {
    /// Numbers of eight bytes that a wide value has.
    pub(super) fn numbers(&self) -> u8 {
        self.len.div_ceil(8)
    }
}

/// Bytes of a cell: first, last, minimum, and what it is.
pub(super) const CELL: u32 = 16;
/// What a cell is: a node, its dimension times four, its shift.
pub(super) const NODE: u32 = 1 << 16;
pub(super) const DIMENSION: i32 = 0x3c;
pub(super) const SHIFT_AT: i32 = 8;
/// What stands in front of the bounds of a box: rule, bits of fields.
pub(super) const BOX: u32 = 16;
pub(super) const BOX_FIELDS: i16 = 8;

impl LongChains {
    /// Of chains that have at least so many rules. `from` says where in the stack frame each keeps
    /// where it is.
    pub(super) fn new(
        have: Have<'_>,
        from: impl IntoIterator<Item = ((ChainIndex, bool), i16)>,
    ) -> Self {
        // A zero that the verifier does not know.
        let mut value = vec![0; 64];
        let mut chains = HashMap::new();
        for ((chain, inet), from) in from {
            let fields = Fields { have, inet };
            if let Some(long) = fields.long(chain, from, &mut value) {
                chains.insert((chain, inet), Arc::new(long));
            }
        }
        let map = (!chains.is_empty()).then(|| {
            let spec = MapSpec {
                name: "rule_boxes",
                // Values of such a map begin with a page.
                kind: MapKind::MappedArray,
                key: 4,
                value: value.len() as u32,
                entries: 1,
            };
            Arc::new(Map::with_contents(spec, vec![(vec![0; 4], value)]))
        });
        LongChains { chains, map }
    }

    pub(super) fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    pub(super) fn get(&self, chain: ChainIndex, inet: bool) -> Option<Arc<Long>> {
        self.chains.get(&(chain, inet)).cloned()
    }
}

/// What a program has.
#[derive(Clone, Copy)]
pub(super) struct Have<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) slots: &'a Slots,
    pub(super) counters: &'a Counters,
    /// Rules that a search must spare.
    pub(super) least: usize,
    /// Each rule that packets meet is told.
    pub(super) traces: bool,
}

/// What packets have, for a chain.
struct Fields<'a> {
    have: Have<'a>,
    inet: bool,
}

impl Fields<'_> {
    fn long(&self, index: ChainIndex, from: i16, value: &mut Vec<u8>) -> Option<Long> {
        let image = self.have.job.image;
        let chain = image.chain(index)?;
        let rules = image.rules_of(chain);
        let lookup = match &chain.lookup {
            Some(lookup) => {
                lookup.build(rules, &image.ops);
                lookup.lookup()?.clone()
            }
            None => Arc::new(Lookup::new(rules, &image.ops, 1)?),
        };
        // A rule that is always run costs a search more than in a walk.
        let always = lookup.always().len();
        let searched = rules.len() - always;
        if searched < self.have.least || searched < always {
            return None;
        }
        let start = value.len();
        let layout = lookup.classifier().layout();
        let fields = lookup.fields().iter().zip(&layout.coordinates);
        let dimensions: Option<Vec<_>> =
            fields.map(|(field, coordinate)| self.dimension(field, coordinate, value)).collect();
        let always = value.len() as u32;
        value.extend(next_always(lookup.always(), rules.len() as u32).flat_map(u32::to_ne_bytes));
        value.resize(value.len().next_multiple_of(8), 0);
        let does = value.len() as u32;
        let (mut tails, mut needs) =
            (Tails::new(self.have.counters, !self.have.traces), Vec::with_capacity(rules.len()));
        for (number, rule) in (0..).zip(rules) {
            let ops = image.ops_of(rule);
            let skip = lookup.skip(number) as usize;
            let (skip, need) = match self.needs(ops.get(..skip).unwrap_or_default()) {
                Some(need) => (skip, need),
                None => (0, 0),
            };
            needs.push(need);
            let (tail, counter) = tails.number(ops, skip, chain.first + number);
            value.extend(tail.to_ne_bytes());
            value.extend(counter.to_ne_bytes());
        }
        let structure = structure(&layout, &needs, value);
        let (Some(dimensions), Some((cells, trees)), true) =
            (dimensions, structure, value.len() <= MOST_BYTES)
        else {
            value.truncate(start);
            return None;
        };
        Some(Long {
            rules: rules.len() as u32,
            from,
            connection: lookup.fields().iter().any(|field| is_of_connection(field.source)),
            dimensions,
            always,
            does,
            cells,
            trees,
            tails: tails.all,
        })
    }

    /// Where the bytes of a dimension are; `None` if there is no code for it.
    fn dimension(
        &self,
        span: &Span,
        coordinate: &Coordinate,
        table: &mut Vec<u8>,
    ) -> Option<Dimension> {
        let value = match span.source {
            Place::Network(_) => self.bytes(&[Base::Network], span),
            Place::Transport => self.bytes(&[Base::AnyTransport, Base::Transport], span),
            Place::Link => self.bytes(&[Base::Link], span),
            Place::Metadata(what) => self.metadata(what, span)?,
        };
        let len = span.len;
        let mut put = |numbers: &[u128]| {
            let at = table.len() as u32;
            for number in numbers {
                if len > 8 {
                    table.extend(((number >> 64) as u64).to_ne_bytes());
                }
                table.extend((*number as u64).to_ne_bytes());
            }
            Table { at, rows: numbers.len() as u32 }
        };
        let bounds = match coordinate {
            Coordinate::Value => Bounds::None,
            Coordinate::Rank(numbers) => Bounds::Rank(put(numbers)),
            Coordinate::Number(numbers) => Bounds::Number(put(numbers)),
        };
        Some(Dimension { value, len, bounds })
    }

    /// All fields that have some of the bytes.
    fn bytes(&self, bases: &[Base], span: &Span) -> Value {
        let (start, end) = (span.at, span.at + u16::from(span.len));
        let part = |slot: Slot| {
            let Field::Bytes { base, offset, len } = slot.field else { return None };
            let (from, to) = (start.max(offset), end.min(offset + u16::from(len)));
            let at = slot.at + (from.saturating_sub(offset)) as i16;
            (bases.contains(&base) && from < to).then(|| {
                let part = Part { from: (from - start) as u8, to: (to - start) as u8, at };
                (base, offset + u16::from(len), part)
            })
        };
        let mut all: Vec<_> = self.have.slots.iter().filter_map(part).collect();
        all.sort_by_key(|(base, reach, part)| (*base, *reach, part.from, u8::MAX - part.to));
        let mut kept: Vec<(Base, u16, Part)> = Vec::new();
        for (base, reach, part) in all {
            // Where a packet has the one that reaches further, it has the other, too.
            let is_known = kept.iter().any(|(b, r, known)| {
                *b <= base && *r <= reach && known.from <= part.from && part.to <= known.to
            });
            if !is_known {
                kept.push((base, reach, part));
            }
        }
        let parts = kept.into_iter().map(|(_, _, part)| part).collect();
        Value::Fields { parts, host_order: false }
    }

    fn metadata(&self, what: Metadata, span: &Span) -> Option<Value> {
        let width = what.width() as u8;
        let bytes_of = |bytes: &[u8]| {
            let mut ordered = [0; 64];
            for (i, byte) in bytes.iter().enumerate() {
                if let Some(to) = ordered.get_mut(what.place(i)) {
                    *to = *byte;
                }
            }
            let start = usize::from(span.at);
            let mine = ordered.get(start..start + usize::from(span.len)).unwrap_or_default();
            mine.iter().fold(0, |n, byte| n << 8 | u128::from(*byte))
        };
        let field = match what {
            Metadata::Meta(key) => match meta::source(self.have.job.place, key, self.inet).ok()? {
                meta::Source::Field(field) => field,
                meta::Source::Constant(bytes) => return Some(Value::Constant(bytes_of(&bytes))),
                // Rules that ask for it match no packet.
                meta::Source::Absent => return Some(Value::Constant(0)),
                meta::Source::Processor if span.at == 0 && span.len == 4 => {
                    return Some(Value::Processor);
                }
                meta::Source::Processor | meta::Source::Random => return None,
            },
            Metadata::CtState | Metadata::CtMark => match self.connection(what).ok()? {
                Some(field) => field,
                None => return Some(Value::Constant(0)),
            },
        };
        let slot = self.have.slots.find(field)?;
        let host_order = what.place(0) != 0;
        // In host order the last bytes come first.
        let first = if host_order { u16::from(width - span.len) - span.at } else { span.at };
        let parts = vec![Part { from: 0, to: span.len, at: slot.at + first as i16 }];
        Some(Value::Fields { parts, host_order })
    }

    fn connection(&self, what: Metadata) -> Result<Option<Field>, String> {
        let op = match what {
            Metadata::CtMark => Op::Ct { key: CtKey::Mark, dir: None, dst: 0 },
            Metadata::CtState | Metadata::Meta(_) => Op::CtState { dst: 0 },
        };
        Ok(ct::field(self.have.job, &op)?.map(Field::Ct))
    }

    /// Bits of the fields that operations ask for, which only look; `None` if they ask for what
    /// is no field.
    fn needs(&self, ops: &[Op]) -> Option<u64> {
        let mut need = 0;
        let mut add = |field: Field| {
            need |= self.have.slots.find(field)?.bit.map_or(0, |bit| 1 << bit);
            Some(())
        };
        // A bit that stands for no field.
        let absent = self.have.slots.spare_bit()?;
        let mut never = false;
        for op in ops {
            if let Some(load) = op.header_load() {
                let base = Base::of(load.base, load.len, load.offset)?;
                add(Field::Bytes { base, offset: load.offset, len: load.len })?;
                continue;
            }
            match op {
                Op::Meta { key: MetaKey::Prandom, .. } => return None,
                Op::Meta { key, .. } => {
                    match meta::source(self.have.job.place, *key, self.inet).ok()? {
                        meta::Source::Field(field) => add(field)?,
                        meta::Source::Constant(_) | meta::Source::Processor => {}
                        meta::Source::Absent => never = true,
                        meta::Source::Random => return None,
                    }
                }
                Op::CtState { .. } | Op::Ct { .. } => match ct::field(self.have.job, op).ok()? {
                    Some(field) => add(Field::Ct(field))?,
                    None => never = true,
                },
                Op::Immediate { .. }
                | Op::CmpWord { .. }
                | Op::Cmp { .. }
                | Op::Range { .. }
                | Op::MaskXorWord { .. }
                | Op::MaskXor { .. }
                | Op::Byteorder { .. }
                | Op::Lookup { .. } => {}
                _ => return None,
            }
        }
        Some(if never { need | absent } else { need })
    }
}

/// The cells, roots and boxes, added to the map's value. `needs` has the bits of the fields of each
/// rule.
fn structure(layout: &Layout, needs: &[u64], value: &mut Vec<u8>) -> Option<(Table, Vec<Tree>)> {
    let mut cells: Vec<_> = layout.cells.clone();
    let roots = cells.len();
    cells.extend(layout.trees.iter().map(|tree| tree.root));
    // Leaves count the boxes of their tree.
    let mut numbers = vec![0; cells.len()];
    let mut trees = Vec::new();
    let table = Table { at: value.len() as u32, rows: cells.len() as u32 };
    let roots_at = table.at + table.rows * CELL;
    let boxes_at = (roots_at as usize + layout.trees.len() * 4).next_multiple_of(64);
    let mut boxes = Vec::new();
    for (n, tree) in layout.trees.iter().enumerate() {
        let mine = layout.boxes.get(tree.boxes.start as usize..tree.boxes.end as usize)?;
        let dimensions = order(tree, &layout.cells, &layout.boxes, layout.coordinates.len());
        let row = row(dimensions.len());
        let at = boxes_at + boxes.len();
        for one in mine {
            let begin = boxes.len();
            boxes.extend(one.rule.to_ne_bytes());
            boxes.extend([0; 4]);
            boxes.extend(needs.get(one.rule as usize)?.to_ne_bytes());
            for d in &dimensions {
                let (first, last) = *one.bounds.get(usize::from(*d))?;
                boxes.extend(first.to_ne_bytes());
                boxes.extend(last.to_ne_bytes());
            }
            boxes.resize(begin + row as usize, 0);
        }
        each_cell(tree, roots + n, &cells, |at| {
            if let Some(number) = numbers.get_mut(at) {
                *number = tree.boxes.start;
            }
        });
        trees.push(Tree {
            root: roots_at + n as u32 * 4,
            first: tree.first,
            last: tree.last,
            guards: tree.guards.clone(),
            boxes: Table { at: at as u32, rows: mine.len() as u32 },
            row,
            dimensions,
        });
        boxes.resize(boxes.len().next_multiple_of(64), 0);
    }
    for (cell, first_box) in cells.iter().zip(numbers) {
        let words = match *cell {
            LayoutCell::Node { first, last, min, dimension, shift } => {
                let what = NODE | u32::from(dimension) << 2 | u32::from(shift) << SHIFT_AT;
                [first, last, min, what]
            }
            LayoutCell::Leaf { first, count } => [first.saturating_sub(first_box), count, 0, 0],
        };
        value.extend(words.into_iter().flat_map(u32::to_ne_bytes));
    }
    value.extend((0..trees.len()).flat_map(|n| ((roots + n) as u32).to_ne_bytes()));
    value.resize(value.len().next_multiple_of(64), 0);
    value.extend(boxes);
    value.resize(value.len().next_multiple_of(64), 0);
    Some((table, trees))
}

fn is_of_connection(source: Place) -> bool {
    match source {
        Place::Metadata(what) => matches!(what, Metadata::CtState | Metadata::CtMark),
        Place::Network(_) | Place::Transport | Place::Link => false,
    }
}

/// For each number, and the one after the last: the first of these that is not less.
fn next_always(always: &[u32], count: u32) -> impl Iterator<Item = u32> {
    (0..=count).map(move |n| {
        always.get(always.partition_point(|rule| *rule < n)).copied().unwrap_or(count)
    })
}

/// Bytes of a box: no box is in more cache lines than it must.
fn row(dimensions: usize) -> u32 {
    let len = BOX + 8 * dimensions as u32;
    if len > 64 { len.next_multiple_of(64) } else { len.next_power_of_two().max(32) }
}

/// Visits the cells of a tree, and its root, which is the last one.
fn each_cell(tree: &LayoutTree, root: usize, cells: &[LayoutCell], mut visit: impl FnMut(usize)) {
    visit(root);
    let mut open = vec![tree.root];
    while let Some(cell) = open.pop() {
        let LayoutCell::Node { first, last, .. } = cell else { continue };
        for at in first as usize..first as usize + last as usize + 2 {
            visit(at);
            open.extend(cells.get(at));
        }
    }
}

/// The dimensions of a tree's boxes, those first in which neighbours in leaves differ most often.
fn order(tree: &LayoutTree, cells: &[LayoutCell], boxes: &[LayoutBox], count: usize) -> Vec<u8> {
    let mut differ = vec![0_u32; count];
    let mut leaf = |first: u32, count: u32| {
        let all = boxes.get(first as usize..first as usize + count as usize).unwrap_or_default();
        for pair in all.windows(2) {
            let [a, b] = pair else { continue };
            for (differ, (a, b)) in differ.iter_mut().zip(a.bounds.iter().zip(&b.bounds)) {
                *differ += u32::from(a != b);
            }
        }
    };
    let mut open = vec![tree.root];
    while let Some(cell) = open.pop() {
        match cell {
            LayoutCell::Node { first, last, .. } => {
                let below = first as usize..first as usize + last as usize + 2;
                open.extend(cells.get(below).unwrap_or_default());
            }
            LayoutCell::Leaf { first, count } => leaf(first, count),
        }
    }
    let mut dimensions: Vec<u8> = (0..count as u8).filter(|d| tree.limited >> d & 1 != 0).collect();
    dimensions.sort_by_key(|d| std::cmp::Reverse(differ.get(usize::from(*d)).copied()));
    dimensions
}
