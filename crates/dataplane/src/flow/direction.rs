// SPDX-License-Identifier: Apache-2.0

//! Directions of flows as connections call them.

use penstock_conntrack::Direction as CtDirection;
use penstock_flowtable::Direction;

/// The direction as connections call it.
pub(crate) const fn of_connection(direction: Direction) -> CtDirection {
    match direction {
        Direction::Original => CtDirection::Original,
        Direction::Reply => CtDirection::Reply,
    }
}
