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
//! all packets               -> cover: packets that meet the rules, or why none does
//! claims             -> prove: holds, or a packet for which it does not
//! ```
//!
//! | file | it is |
//! | --- | --- |
//! | `diagram`, `bits`, `hull` | regions and what is done with them, within limits of memory and time; numbers whose bits are regions; what a region's packets have in common |
//! | `field`, `place`, `universe` | what rules ask, and where; variables in their order, and what cannot be together |
//! | `layout`, `boxes`, `preferred` | regions in terms of values: few wide boxes, packets that are easy to read |
//! | `progress` | how far long work has come |
//! | `program`, `asked`, `identity` | rulesets: what can be reached, what is asked, what two of them have in common |
//! | `fate` | what becomes of packets, and what decides it |
//! | `machine`, `question`, `lookup`, `meaning` | what each operation means: one match over all of them |
//! | `base`, `way`, `routing` | base chains, and the way of packets through a network; routes for all packets at once |
//! | `walk` | chains, calls and base chains of a hook; with `journey`, `routed` and `translation` from hook to hook, with `frames`, `link` and `stations` over devices and bridges |
//! | `classes`, `diff` | packets by what becomes of them; those that two rulesets treat otherwise |
//! | `matched`, `ask`, `prove` | what becomes of the packets that a match is about; claims |
//! | `example` | a packet of a region, and what the interpreter does with it |
//! | `cover`, `review` | packets that together meet every rule; rules that make no difference |
//!
//! A file uses those of its row and of rows above; `example` checks what those above it say
//! and uses none of them.
//!
//! The field of a packet that depends on more than the packet is an [`Input`]. What has no meaning
//! here is refused with the rule and the reason ([`Failure`]); nothing is left out. This crate
//! knows images and networks; it knows no text and no file.

#![warn(missing_docs)]

mod ask;
mod asked;
mod base;
mod bits;
mod boxes;
mod classes;
mod cover;
mod diagram;
mod diff;
mod example;
mod fate;
mod field;
mod hull;
mod identity;
mod layout;
mod lookup;
mod machine;
mod matched;
mod meaning;
mod place;
mod preferred;
mod program;
mod progress;
mod prove;
mod question;
mod review;
mod routing;
mod universe;
mod walk;
mod way;

pub use ask::{Answer, Answers, Query, ask};
pub use asked::asked;
pub use base::Base;
pub use bits::Bit;
pub use boxes::{PacketBox, Part, Values, parts};
pub use classes::Class;
pub use cover::{Addresses, Case, Cover, Coverage, Element, Key, Wanted, cover, own_addresses};
pub use diagram::{Decided, Diagrams, Limits, Region, Undecided};
pub use diff::{Difference, Side, diff};
pub use example::{Example, Followed, Verified, check};
pub use fate::{Decider, End, Fate, Refusal, Written};
pub use field::{Base as HeaderBase, Done, Field, Input, What};
pub use matched::Unanswered;
pub use place::Place;
pub use program::{Program, compared, reachable, set_address};
pub use progress::{PROGRESS, Progress};
pub use prove::{Claim, Claimed, Outcome, Proof, Proofs, prove};
pub use review::{ElementUse, Review, Use, review};
pub use universe::Universe;
pub use walk::look_at;
pub use walk::{
    Decision, Evaluated, Failure, Matches, Notes, Noting, evaluate, evaluate_noting, matching,
    may_match,
};
pub use way::{Bound, Device, Passage, Start, Way};
