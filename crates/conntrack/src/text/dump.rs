// SPDX-License-Identifier: Apache-2.0

//! The table as text that can be loaded again.
//!
//! The first line is `penstock-conntrack 1`. Each further line is a connection (`flow`) or an
//! expectation (`expect`) as `key=value` pairs in any order, separated by blanks; a key that is
//! missing has its default. Times are nanoseconds that are left, so a dump can be loaded at any
//! time. Numbers are decimal, lists have commas.
//!
//! | key of `flow` | value |
//! | --- | --- |
//! | `id` | number by which other lines of this dump name it |
//! | `orig`, `reply` | source address, destination address, source id, destination id (as [`Tuple`] has them), zone |
//! | `proto` | IP protocol |
//! | `status` | bits of [`crate::status`] |
//! | `left` | what is left of its life |
//! | `mark`, `secmark`, `masq` | values |
//! | `labels` | four words |
//! | `made` | 1 if a program entered it, and no packet |
//! | `helper` | name |
//! | `master` | `id` of the connection that expected it |
//! | `packets`, `bytes` | both directions |
//! | `start` | nanoseconds since the epoch |
//! | `seqadj` | position, before, after of both directions |
//! | `udp`, `gre`, `tcp`, `sctp`, `dccp` | state of the tracker, in the order of its structure |
//!
//! What rules attached to connections (timeout policies, places in counts) and what helpers
//! remember of half a message is not in it.

use crate::reference::Ref;
use crate::table::Conntrack;
use crate::tracker::{ProtocolState, dccp};
use crate::{Direction, Settings, Tuple};
use std::fmt::Write;

/// The first line of a dump.
pub(super) const HEADER: &str = "penstock-conntrack 1";

fn write_tuple(out: &mut String, key: &str, t: &Tuple) {
    let _ = write!(
        out,
        " {key}={},{},{},{},{}",
        t.source(),
        t.destination(),
        t.src_id,
        t.dst_id,
        t.zone
    );
}

fn write_list<T: std::fmt::Display>(
    out: &mut String,
    key: &str,
    values: impl IntoIterator<Item = T>,
) {
    let values: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
    let _ = write!(out, " {key}={}", values.join(","));
}

fn write_proto(out: &mut String, proto: &ProtocolState, now: u64) {
    match proto {
        ProtocolState::None => {}
        ProtocolState::Udp { stream_after } => {
            write_list(out, "udp", [stream_after.saturating_sub(now)])
        }
        ProtocolState::Gre { timeout, stream_timeout } => {
            write_list(out, "gre", [timeout, stream_timeout])
        }
        ProtocolState::Tcp(t) => {
            let mut v: Vec<u32> = vec![
                t.state as u32,
                t.last_dir as u32,
                t.retrans.into(),
                t.last_index as u32,
                t.last_seq,
                t.last_ack,
                t.last_end,
                t.last_win.into(),
                t.last_wscale.into(),
                t.last_flags.into(),
            ];
            for s in &t.seen {
                v.extend([s.end, s.maxend, s.maxwin, s.maxack, s.scale.into(), s.flags.into()]);
            }
            write_list(out, "tcp", v);
        }
        ProtocolState::Sctp(s) => {
            let heartbeat = s.heartbeat_failed.map_or(2, |d| d as u32);
            let [a, b] = s.init.map(u32::from);
            write_list(out, "sctp", [s.state as u32, s.vtag[0], s.vtag[1], a, b, heartbeat]);
        }
        ProtocolState::Dccp(d) => {
            let client = u64::from(d.role[0] == dccp::Role::Client);
            let v = [d.state as u64, client, d.last_dir as u64, d.last_packet.into(), d.handshake];
            write_list(out, "dccp", v);
        }
    }
}

impl Conntrack {
    /// All connections and expectations as text, see the head of `dump.rs` in the sources, or
    /// docs/architecture.md.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.dump_part(from, u32::MAX, &mut out);
        }
        out
    }

    /// Appends the part of a dump that is about connections with `count` numbers from `from` on,
    /// and returns the number to continue with; the first part, from 0 on, begins with the head,
    /// and the last one ends with expectations. Parts can be made with packets between them:
    /// connections that began or ended in between may be missing or present.
    pub fn dump_part(&self, from: u32, count: u32, out: &mut String) -> Option<u32> {
        if from == 0 {
            out.push_str(HEADER);
            out.push('\n');
        }
        let end = from.saturating_add(count);
        for c in self.iter_from(from).take_while(|c| c.number() < end) {
            let n = c.number();
            let name = self.name_in_dump(n);
            let _ = write!(out, "flow id={name} proto={}", c.tuple(Direction::Original).protocol);
            write_tuple(out, "orig", c.tuple(Direction::Original));
            write_tuple(out, "reply", c.tuple(Direction::Reply));
            let _ = write!(out, " status={} left={}", c.status(), c.remaining());
            for (key, value) in
                [("mark", c.mark()), ("secmark", c.secmark()), ("masq", c.masquerade())]
            {
                if value != 0 {
                    let _ = write!(out, " {key}={value}");
                }
            }
            if let Some(labels) = c.labels() {
                write_list(out, "labels", labels);
            }
            if self.is_made(n) {
                out.push_str(" made=1");
            }
            if let Some(helper) = c.helper() {
                let _ = write!(out, " helper={helper}");
            }
            if let Some(master) = c.master() {
                let _ = write!(out, " master={}", self.name_in_dump(master.number()));
            }
            if let Some(counters) = self.counters(n) {
                write_list(out, "packets", counters.map(|c| c.packets));
                write_list(out, "bytes", counters.map(|c| c.bytes));
            }
            if let Some((start, _)) = c.times() {
                let _ = write!(out, " start={start}");
            }
            if let Some(pairs) = self.sequence_adjustments(n) {
                let values = pairs
                    .iter()
                    .flat_map(|p| [i64::from(p.position), p.before.into(), p.after.into()]);
                write_list(out, "seqadj", values);
            }
            write_proto(out, c.proto(), self.now);
            out.push('\n');
        }
        if end < self.end() {
            return Some(end);
        }
        // Where time has ended a connection that is still in its place, it is not in the dump.
        let is_there = |master: Ref| self.store[master.entry].expires > self.now;
        for (e, left) in self.expectations().filter(|(e, _)| is_there(e.master)) {
            let master = self.name_in_dump(e.master.entry);
            let _ = write!(out, "expect master={master} proto={}", e.tuple.protocol);
            write_tuple(out, "tuple", &e.tuple);
            let mask = Tuple { src: e.source_mask, ..e.tuple }.source();
            let port = u8::from(e.source_port);
            let _ = write!(
                out,
                " mask={mask} port={port} class={} flags={} left={left}",
                e.class, e.flags
            );
            if let Some(helper) = self.helpers.get(e.helper) {
                let _ = write!(out, " helper={},{}", helper.name, helper.protocol);
            }
            if let Some(f) = e.follow {
                let _ = write!(out, " follow={},{}", f.direction as u8, f.port);
                if let Some(address) = f.address {
                    let _ = write!(out, ",{}", Tuple { src: address, ..e.tuple }.source());
                }
            }
            out.push('\n');
        }
        None
    }

    /// The `id` of a connection in a dump, which tells those of several workers apart.
    fn name_in_dump(&self, n: u32) -> u32 {
        const _: () = assert!(Settings::LARGEST == 1 << 26);
        n | (self.worker() as u32) << 26
    }
}
