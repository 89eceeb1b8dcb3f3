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
//! | `helper` | name |
//! | `master` | `id` of the connection that expected it |
//! | `packets`, `bytes` | both directions |
//! | `start` | nanoseconds since the epoch |
//! | `seqadj` | position, before, after of both directions |
//! | `udp`, `gre`, `tcp`, `sctp`, `dccp` | state of the tracker, in the order of its structure |
//!
//! What rules attached to connections (timeout policies, places in counts) and what helpers
//! remember of half a message is not in it.

use crate::conntrack::Conntrack;
use crate::entry::{Counter, Proto, Ref, flag};
use crate::expect::{Expectation, Follow};
use crate::offload::Return;
use crate::seqadj::SeqAdjust;
use crate::settings::{LONGEST, Settings};
use crate::tcp::{Side, Tcp};
use crate::{Direction, Tuple, dccp, helper_number, sctp, status, tcp, tuple};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;

const HEADER: &str = "penstock-conntrack 1";

/// Why a dump was not loaded, and at which line. Lines before it are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Line, from 1 on.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for LoadError {}

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

fn write_proto(out: &mut String, proto: &Proto, now: u64) {
    match proto {
        Proto::None => {}
        Proto::Udp { stream_after } => write_list(out, "udp", [stream_after.saturating_sub(now)]),
        Proto::Gre { timeout, stream_timeout } => write_list(out, "gre", [timeout, stream_timeout]),
        Proto::Tcp(t) => {
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
        Proto::Sctp(s) => {
            let heartbeat = s.heartbeat_failed.map_or(2, |d| d as u32);
            let [a, b] = s.init.map(u32::from);
            write_list(out, "sctp", [s.state as u32, s.vtag[0], s.vtag[1], a, b, heartbeat]);
        }
        Proto::Dccp(d) => {
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
    /// and gives the number to go on with; the first part, from 0 on, begins with the head, and the
    /// last one ends with expectations. Parts can be made with packets between them: what has ended
    /// or begun meanwhile is in it or not.
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
            if let Some(helper) = crate::helper::HELPERS.get(usize::from(e.helper).wrapping_sub(1))
            {
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
        n | self.member.as_ref().map_or(0, |member| (member.worker as u32) << 26)
    }

    /// Loads a dump into the table, beside what is there. Times begin at `now`.
    ///
    /// # Errors
    /// See [`LoadError`]: a line cannot be read, a connection is there already, or the table is
    /// full.
    pub fn load(&mut self, text: &str, now: u64) -> Result<usize, LoadError> {
        self.advance(now);
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line.trim()) != Some(HEADER) {
            return Err(LoadError { line: 1, reason: format!("a dump begins with `{HEADER}'") });
        }
        let mut numbers: HashMap<u32, Ref> = HashMap::new();
        let mut masters = Vec::new();
        let mut loaded = 0;
        for (at, line) in lines {
            let mut words = line.split_whitespace();
            let kind = words.next();
            let result = Fields::parse(words).and_then(|fields| match kind {
                None => Ok(()),
                Some("flow") => {
                    loaded += 1;
                    let n = self.load_flow(&fields)?;
                    let reference = self.reference(n);
                    if let Some(id) = fields.number("id")? {
                        numbers.insert(id, reference);
                    }
                    if let Some(master) = fields.number::<u32>("master")? {
                        masters.push((reference, master));
                    }
                    Ok(())
                }
                Some("expect") => {
                    let master =
                        fields.number("master")?.and_then(|m: u32| numbers.get(&m).copied());
                    self.load_expectation(&fields, master.ok_or("an expectation of no connection")?)
                }
                Some(other) => Err(format!("`{other}' is neither flow nor expect")),
            });
            result.map_err(|reason| LoadError { line: at + 1, reason })?;
        }
        for (reference, master) in masters {
            if let (Some(n), Some(master)) = (self.resolve_ref(reference), numbers.get(&master)) {
                self.set_master(n, *master);
            }
        }
        Ok(loaded)
    }

    fn load_flow(&mut self, f: &Fields<'_>) -> Result<u32, String> {
        let protocol = f.number("proto")?.ok_or("no protocol")?;
        let original = f.tuple("orig", protocol)?.ok_or("no original tuple")?;
        let reply = f.tuple("reply", protocol)?.ok_or("no reply tuple")?;
        if original.l3 != reply.l3 {
            return Err("tuples of two families".into());
        }
        let proto = f.proto(self.now)?;
        let labels: Option<[u32; 4]> = f.list("labels")?;
        let packets: Option<[u64; 2]> = f.list("packets")?;
        let bytes: Option<[u64; 2]> = f.list("bytes")?;
        let adjust: Option<[i64; 6]> = f.list("seqadj")?;
        let helper = match f.text("helper") {
            Some(name) => {
                helper_number(name, protocol).ok_or_else(|| format!("no helper `{name}'"))?
            }
            None => 0,
        };
        let status = f.number("status")?.unwrap_or(0);
        let (mark, secmark) = (f.number("mark")?.unwrap_or(0), f.number("secmark")?.unwrap_or(0));
        let left: u64 = f.number("left")?.unwrap_or(0);
        let (masquerade, start) = (f.number("masq")?, f.number("start")?);
        // From here on nothing is read, so nothing is left half done.
        let hashes = [self.hasher.tuple(&original), self.hasher.tuple(&reply)];
        for (hash, t) in [(hashes[0], &original), (hashes[1], &reply)] {
            while let Some((n, _)) = self.find_hashed(hash, t) {
                if self.store[n].expires > self.now {
                    return Err("this connection is there already".into());
                }
                self.destroy(n);
            }
        }
        let n = self.allocate(&original, &reply, hashes[0]).ok_or("the table is full")?;
        if self.index.insert(hashes[0], n, Direction::Original).is_err() {
            self.destroy(n);
            return Err("no place near its hash".into());
        }
        if self.index.insert(hashes[1], n, Direction::Reply).is_err() {
            self.index.remove(hashes[0], n, Direction::Original);
            self.destroy(n);
            return Err("no place near its hash".into());
        }
        if !self.claim(n) {
            self.index.remove(hashes[0], n, Direction::Original);
            self.index.remove(hashes[1], n, Direction::Reply);
            self.destroy(n);
            return Err("another worker has this connection".into());
        }
        let e = &mut self.store[n];
        const NOT_LOADED: u32 =
            status::DYING | status::TEMPLATE | status::OFFLOAD | status::HW_OFFLOAD;
        e.status = status & !NOT_LOADED;
        e.mark = mark;
        e.expires = left.min(LONGEST);
        e.proto = proto;
        e.flags &= !(flag::ACCT | flag::STAMP);
        self.start(n);
        if status & status::OFFLOAD != 0 {
            // Its flow is no more: it is tracked again, and lives as long as others in its state.
            self.return_offloaded(n, Return { since: self.now, over: 0, closing: false });
        }
        self.link_source(n);
        self.set_secmark(n, secmark);
        if let Some(device) = masquerade {
            self.set_masquerade(n, device);
        }
        if let Some(labels) = labels {
            let x = self.extra_mut(n);
            x.labels = labels;
            x.has_labels = true;
        }
        self.give_helper(n, helper);
        if let (Some(p), Some(b)) = (packets, bytes) {
            let counters = [0, 1].map(|d| Counter { packets: p[d], bytes: b[d] });
            self.put_counters(n, counters);
        }
        if let Some(start) = start {
            self.put_start(n, start);
        }
        if let Some(v) = adjust {
            let pair = |d: usize| SeqAdjust {
                position: v[d * 3] as u32,
                before: v[d * 3 + 1] as i32,
                after: v[d * 3 + 2] as i32,
            };
            self.extra_mut(n).seqadj = Some(Box::new([pair(0), pair(1)]));
        }
        Ok(n)
    }

    fn load_expectation(&mut self, f: &Fields<'_>, master: Ref) -> Result<(), String> {
        let protocol = f.number("proto")?.ok_or("no protocol")?;
        let tuple = f.tuple("tuple", protocol)?.ok_or("no tuple")?;
        let mask: IpAddr = f.text("mask").and_then(|m| m.parse().ok()).ok_or("no mask")?;
        let helper = match f.text("helper").map(|h| h.split_once(',')) {
            None => 0,
            Some(helper) => helper
                .and_then(|(name, protocol)| helper_number(name, protocol.parse().ok()?))
                .ok_or("no such helper")?,
        };
        let follow = match f.text("follow") {
            None => None,
            Some(text) => {
                let mut parts = text.split(',');
                let direction = match parts.next() {
                    Some("0") => Direction::Original,
                    Some("1") => Direction::Reply,
                    _ => return Err("bad follow".into()),
                };
                let port = parts.next().and_then(|p| p.parse().ok()).ok_or("bad follow")?;
                let address = match parts.next() {
                    Some(a) => Some(tuple::address(a.parse().map_err(|_| "bad follow")?)),
                    None => None,
                };
                Some(Follow { direction, address, port })
            }
        };
        let expectation = Expectation {
            tuple,
            source_mask: tuple::address(mask),
            source_port: f.number("port")?.unwrap_or(0u8) != 0,
            master,
            class: f.number("class")?.unwrap_or(0),
            flags: f.number("flags")?.unwrap_or(0),
            timeout: f.number("left")?.unwrap_or(0),
            helper,
            follow,
        };
        self.expect(expectation, 0).map_err(|e| format!("it cannot be expected: {e:?}"))
    }
}

/// The pairs of a line.
struct Fields<'a>(HashMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn parse(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut fields = HashMap::new();
        for word in words {
            let (key, value) =
                word.split_once('=').ok_or_else(|| format!("`{word}' is no pair"))?;
            if fields.insert(key, value).is_some() {
                return Err(format!("`{key}' twice"));
            }
        }
        Ok(Fields(fields))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).copied()
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        self.text(key)
            .map(|v| v.parse().map_err(|_| format!("bad value `{v}' of `{key}'")))
            .transpose()
    }

    fn list<T: std::str::FromStr + Copy + Default, const N: usize>(
        &self,
        key: &str,
    ) -> Result<Option<[T; N]>, String> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let bad = || format!("bad value `{text}' of `{key}'");
        let mut out = [T::default(); N];
        let mut parts = text.split(',');
        for slot in &mut out {
            *slot = parts.next().and_then(|p| p.parse().ok()).ok_or_else(bad)?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Some(out)) }
    }

    fn tuple(&self, key: &str, protocol: u8) -> Result<Option<Tuple>, String> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let bad = || format!("bad value `{text}' of `{key}'");
        let parts: Vec<&str> = text.split(',').collect();
        let [src, dst, src_id, dst_id, zone] = parts[..] else { return Err(bad()) };
        let src: IpAddr = src.parse().map_err(|_| bad())?;
        let dst: IpAddr = dst.parse().map_err(|_| bad())?;
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(bad());
        }
        let id = |t: &str| t.parse::<u16>().map_err(|_| bad());
        Ok(Some(Tuple {
            src: tuple::address(src),
            dst: tuple::address(dst),
            src_id: id(src_id)?,
            dst_id: id(dst_id)?,
            zone: id(zone)?,
            l3: if src.is_ipv4() { tuple::IPV4 } else { tuple::IPV6 },
            protocol,
        }))
    }

    fn proto(&self, now: u64) -> Result<Proto, String> {
        let state = |n: u64, key: &str| format!("no state {n} of {key}");
        let direction = |n: u64| if n == 0 { Direction::Original } else { Direction::Reply };
        if let Some([left]) = self.list::<u64, 1>("udp")? {
            return Ok(Proto::Udp { stream_after: now.saturating_add(left) });
        }
        if let Some([timeout, stream_timeout]) = self.list("gre")? {
            let [timeout, stream_timeout] = [timeout, stream_timeout].map(|t: u64| t.min(LONGEST));
            return Ok(Proto::Gre { timeout, stream_timeout });
        }
        if let Some(v) = self.list::<u64, 22>("tcp")? {
            let side = |at: usize| Side {
                end: v[at] as u32,
                maxend: v[at + 1] as u32,
                maxwin: v[at + 2] as u32,
                maxack: v[at + 3] as u32,
                // A larger one could not be shifted by.
                scale: v[at + 4].min(14) as u8,
                flags: v[at + 5] as u8,
            };
            return Ok(Proto::Tcp(Tcp {
                seen: [side(10), side(16)],
                state: *tcp::State::ALL.get(v[0] as usize).ok_or_else(|| state(v[0], "tcp"))?,
                last_dir: direction(v[1]),
                retrans: v[2] as u8,
                last_index: tcp::kind(v[3]).ok_or("no such packet of tcp")?,
                last_seq: v[4] as u32,
                last_ack: v[5] as u32,
                last_end: v[6] as u32,
                last_win: v[7] as u16,
                last_wscale: v[8].min(14) as u8,
                last_flags: v[9] as u8,
            }));
        }
        if let Some(v) = self.list::<u64, 6>("sctp")? {
            return Ok(Proto::Sctp(sctp::Sctp {
                state: *sctp::State::ALL.get(v[0] as usize).ok_or_else(|| state(v[0], "sctp"))?,
                vtag: [v[1] as u32, v[2] as u32],
                init: [v[3] != 0, v[4] != 0],
                heartbeat_failed: (v[5] < 2).then(|| direction(v[5])),
            }));
        }
        if let Some(v) = self.list::<u64, 5>("dccp")? {
            use dccp::Role::{Client, Server};
            return Ok(Proto::Dccp(dccp::Dccp {
                state: *dccp::State::ALL.get(v[0] as usize).ok_or_else(|| state(v[0], "dccp"))?,
                role: if v[1] != 0 { [Client, Server] } else { [Server, Client] },
                last_dir: direction(v[2]),
                last_packet: v[3] as u8,
                handshake: v[4],
            }));
        }
        Ok(Proto::None)
    }
}
