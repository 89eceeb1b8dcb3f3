// SPDX-License-Identifier: Apache-2.0

//! The protocol of Penstock between firewalls: records over TCP, authenticated and encrypted by the
//! Noise protocol framework.
//!
//! | file | is |
//! | --- | --- |
//! | `algorithms` | X25519, and the algorithms of ring |
//! | `key` | static keys and their files |
//! | `session` | handshake and frames (Noise IK) |
//! | `record` | what is said in frames |
//! | `element` | elements of sets that packets change |
//! | `bulk` | marks and digests of all that is told at once |
//!
//! A frame is its length (two bytes) and a message of Noise; the plain text of it is records. Numbers
//! are in network order. Both sides know each other's static key. The one with the smaller public
//! key connects, and its handshake says who it is; the other one takes nothing for said before it
//! has seen a frame by the keys of the handshake, so that a replayed handshake changes nothing.

mod algorithms;
mod bulk;
mod element;
mod key;
mod record;
mod session;

pub use bulk::Digest;
pub use element::{ElementKey, ElementState};
pub use key::{PrivateKey, PublicKey};
pub use record::{Record, Records, put_records_of, write_record};
pub use session::{Handshake, LONGEST_FRAME, LONGEST_RECORDS, Refused, Session};
