// SPDX-License-Identifier: Apache-2.0

//! The symbolic engine: what a linked ruleset does to all packets at once.
//!
//! The interpreter says what becomes of one packet. This engine says it of sets of packets: a
//! [`Region`] is a decision diagram over the bits of what rules ask, and a rule splits the region
//! that reaches it into those that it decides and those that go on.
//!
//! ```text
//! image, base chains -> asked fields -> Universe (variables, what is possible)
//!                    -> evaluate: region in -> rule by rule -> decisions: region, end, rule
//! two of them        -> diff: classes of packets that end otherwise -> boxes, an example
//! claims             -> prove: holds, or a packet for which it does not
//! ```
//!
//! | file | it is |
//! | --- | --- |
//! | `diagram` | regions and what is done with them, within limits of memory and time |
//! | `field`, `universe` | what rules ask, its variables in their order, and what cannot be together |
//! | `bits`, `machine` | numbers whose bits are regions; registers and written fields of such |
//! | `meaning`, `lookup` | what each operation means: one match over all of them |
//! | `walk` | chains, calls and base chains of a hook |
//! | `identity`, `diff` | what two rulesets have in common, and for which packets they differ |
//! | `boxes`, `layout` | regions in terms of values: few wide boxes |
//! | `example` | a packet of a region, and what the interpreter does with it |
//! | `prove` | claims |
//!
//! The field of a packet that depends on more than the packet is an [`Input`]. What has no meaning
//! here is refused with the rule and the reason ([`Failure`]); nothing is left out. This crate
//! knows images; it knows no text, no file and no route.

#![warn(missing_docs)]

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
mod prove;
mod universe;
mod walk;

pub use bits::Bit;
pub use boxes::{PacketBox, Part, Values, parts};
pub use diagram::{Decided, Diagrams, Limits, Region, Undecided};
pub use diff::{Class, Decider, Difference, Fate, Side, Written, diff};
pub use example::{Example, Verified, check};
pub use field::{Base as HeaderBase, Done, Field, Input, What};
pub use prove::{Claim, Outcome, Proof, Proofs, Unproved, prove};
pub use universe::{Place, Universe};
pub use walk::{
    Base, Decision, End, Evaluated, Failure, Program, asked, evaluate, evaluate_reach, matching,
    reachable, set_address,
};
