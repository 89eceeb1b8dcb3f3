// SPDX-License-Identifier: Apache-2.0

//! Which fields rules ask, as far as that can be seen before they are evaluated: they give the
//! universe its order of variables.

use std::collections::HashSet;

use penstock_program::Family;
use penstock_program::expr::{CtKey, ExthdrOp, MetaKey};
use penstock_program::op::Op;

use crate::field::{Base, Field, is_of_bridge};
use crate::place::Place;
use crate::program::{Program, reachable};
use crate::way::Start;

/// Fields that rules ask, for [`Universe::new`](crate::Universe::new).
pub fn asked(place: Place, program: &Program<'_>) -> Vec<Field> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    if program.way.is_some() {
        all.extend(of_network());
        seen.extend(all.iter().copied());
    }
    for rule in reachable(program) {
        for op in program.image.ops_at(rule) {
            asks(place, op, &mut |field| {
                let is_known = program.way.is_some() && (of_way_out(field) || of_link(field));
                if !is_known && seen.insert(field) {
                    all.push(field);
                }
            });
        }
    }
    let of_link = |field: &Field| {
        matches!(field, Field::Meta(MetaKey::PktType))
            || matches!(field, Field::Header { base: Base::Link, at: 0..6 })
    };
    // The one follows from the other.
    if program.way.as_ref().is_some_and(|way| way.start == Start::Arrival)
        && all.iter().any(of_link)
    {
        let bytes = (0..6).map(|at| Field::Header { base: Base::Link, at });
        let both = bytes.chain([Field::Meta(MetaKey::PktType)]);
        all.extend(both.filter(|field| seen.insert(*field)));
    }
    all
}

/// Whether a field is about the link header or a bridge, and known where the network is.
fn of_link(field: Field) -> bool {
    match field {
        Field::Header { base: Base::Link, at } => at >= 12,
        Field::Present { base: Base::Link, .. } | Field::Meta(MetaKey::Protocol) => true,
        Field::Meta(key) => is_of_bridge(key),
        _ => false,
    }
}

/// Fields that routing asks on the way through a network.
fn of_network() -> Vec<Field> {
    let mut all = vec![Field::Meta(MetaKey::NfProto), Field::Meta(MetaKey::IifName)];
    all.extend((8..40).map(|at| Field::Header { base: Base::Network, at }));
    all
}

/// Whether a field is about the device on the way out, which routing finds.
pub(crate) fn of_way_out(field: Field) -> bool {
    use MetaKey::{Oif, OifGroup, OifKind, OifName, OifType};
    matches!(field, Field::Meta(Oif | OifName | OifType | OifGroup | OifKind) | Field::HasMeta(Oif))
}

/// Fields that an operation asks, as far as that can be seen from it alone: for the order of
/// variables. What is missing is added when it is asked.
fn asks(place: Place, op: &Op, add: &mut dyn FnMut(Field)) {
    if let Some(load) = op.header_load() {
        let end = load.offset.saturating_add(load.len.into());
        for at in load.offset..end {
            add(Field::Header { base: load.base, at });
        }
        if !place.always_has(load.base, end) {
            add(Field::Present { base: load.base, bytes: end });
        }
        if load.base == Base::Transport {
            add(Field::Transport);
        }
    }
    match op {
        Op::Exthdr { op, kind, offset, len, present, .. } => {
            match place.family {
                Family::Inet => add(Field::Meta(MetaKey::NfProto)),
                Family::Bridge | Family::Netdev => add(Field::Meta(MetaKey::Protocol)),
                Family::Ip | Family::Ip6 | Family::Arp => {}
            }
            add(Field::Transport);
            add(Field::LaterFragment);
            add(Field::Meta(MetaKey::L4Proto));
            let (op, kind) = (*op, *kind);
            let end = u16::from(*offset) + u16::from(*len);
            if op != ExthdrOp::TcpOpt {
                add(Field::HasExthdr { op, kind, bytes: 0 });
            }
            if op == ExthdrOp::TcpOpt || !present {
                add(Field::HasExthdr { op, kind, bytes: end.max(1) });
            }
            if !present {
                (u16::from(*offset)..end).for_each(|at| add(Field::Exthdr { op, kind, at }));
            }
        }
        Op::Meta { key: MetaKey::L4Proto, .. } => {
            add(Field::Transport);
            add(Field::Meta(MetaKey::L4Proto));
        }
        Op::Meta { key: MetaKey::Prandom, .. } => {}
        Op::Meta { key, .. } | Op::MetaSet { key, .. } => add(Field::Meta(*key)),
        Op::CtState { .. } | Op::Notrack => add(Field::CtState),
        Op::Ct { key, dir, .. } => {
            add(Field::CtState);
            if !matches!(key, CtKey::Src | CtKey::Dst) {
                add(Field::Ct(*key, if *key == CtKey::Direction { None } else { *dir }));
            }
        }
        _ => {}
    }
}
