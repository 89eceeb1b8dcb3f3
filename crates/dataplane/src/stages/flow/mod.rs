// SPDX-License-Identifier: Apache-2.0

//! Packets of flows that left the rules, and how flows leave them
//! (`net/netfilter/nf_flow_table_*.c`).
//!
//! - `add`: a rule puts a flow into a table;
//! - `discover`: through which devices its packets go, and what they get around them; `around`:
//!   that at work;
//! - `ingress`: the fast path for one packet, at ingress of its device;
//! - `early`: bursts of frames, before everything else: packets of a flow are found together, as a
//!   chain; `to_wire` sends most chains, `chain` all others;
//! - `ipsec`: flows through IPsec; `esp`: ESP packets of a burst, decrypted and sent on at once;
//! - `xmits`: works out how packets leave at present.

mod add;
mod around;
mod chain;
mod discover;
mod early;
mod esp;
mod hardware;
mod ingress;
mod ipsec;
mod to_wire;
mod xmits;
