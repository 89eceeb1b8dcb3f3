// SPDX-License-Identifier: Apache-2.0

//! What rulesets do to all packets at once.
mod bits;
mod boxes;
mod diagram;
mod diff;
mod example;
mod field;
mod identity;
mod layout;
mod lookup;
mod machine;
mod meaning;
mod universe;
mod walk;

pub use bits::Bit;
pub use boxes::{PacketBox, Part, Values};
pub use diagram::{Decided, Diagrams, Limits, Region, Undecided};
pub use diff::{Class, Decider, Difference, Fate, Side, Written, diff};
pub use example::{Example, Verified, check};
pub use field::{Base as HeaderBase, Done, Field, Input, What};
pub use universe::{Place, Universe};
pub use walk::{
    Base, Decision, End, Evaluated, Failure, Program, asked, evaluate, evaluate_reach, matching,
    reachable, set_address,
};
