// SPDX-License-Identifier: Apache-2.0

//! Loading a table that was written as text (see `dump.rs`).

use super::dump::HEADER;
use crate::expectation::{Expectation, Follow};
use crate::reference::Ref;
use crate::seqadj::SeqAdjust;
use crate::settings::LONGEST;
use crate::table::{Conntrack, Counter, NotEntered, Return, sides};
use crate::tracker::tcp::{self, Side, Tcp};
use crate::tracker::{ProtocolState, dccp, sctp};
use crate::{Direction, Tuple, status, tuple};
use std::collections::HashMap;
use std::net::IpAddr;

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

impl Conntrack {
    /// Loads a dump into the table, in addition to what is there. Times begin at `now`.
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
        // One that is not there any more is none.
        let number = |name| self.helpers.number(name, original.l3, protocol);
        let helper = f.text("helper").and_then(number).unwrap_or(0);
        let status = f.number("status")?.unwrap_or(0);
        let (mark, secmark) = (f.number("mark")?.unwrap_or(0), f.number("secmark")?.unwrap_or(0));
        let left: u64 = f.number("left")?.unwrap_or(0);
        let made = f.number::<u8>("made")?.is_some_and(|made| made != 0);
        let (masquerade, start) = (f.number("masq")?, f.number("start")?);
        // No error is possible from here on, so nothing is left half done.
        let hashes = [self.hash(&original), self.hash(&reply)];
        let sides = sides(&original, &reply);
        for (hash, t, side) in [(hashes[0], &original, sides[0]), (hashes[1], &reply, sides[1])] {
            while let Some((n, _)) = self.find_side(hash, t, side) {
                if self.store[n].expires > self.now {
                    return Err("this connection is there already".into());
                }
                self.destroy(n);
            }
        }
        let n = self.allocate(&original, &reply, hashes[0]).ok_or("the table is full")?;
        // It keeps the counters and the start that it had.
        self.stop_counting(n);
        let e = &mut self.store[n];
        e.mark = mark;
        e.expires = left.min(LONGEST);
        e.proto = proto;
        if let Err(why) = self.enter(n, hashes) {
            self.destroy(n);
            return Err(match why {
                NotEntered::ChainTooLong => "no place near its hash".into(),
                NotEntered::Anothers => "another worker has this connection".into(),
            });
        }
        const NOT_LOADED: u32 =
            status::DYING | status::TEMPLATE | status::OFFLOAD | status::HW_OFFLOAD;
        self.store[n].status |= status & !NOT_LOADED;
        if status & status::OFFLOAD != 0 {
            // Its flow is gone: it is tracked again, with the timeout of its state.
            self.return_offloaded(n, Return { since: self.now, over: 0, closing: false });
        }
        if made {
            self.mark_made(n);
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
        let helper = f.text("helper").and_then(|helper| helper.split_once(','));
        let number = |(name, protocol): (&str, &str)| {
            self.helpers.number(name, tuple.l3, protocol.parse().ok()?)
        };
        let helper = helper.and_then(number).unwrap_or(0);
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

    fn proto(&self, now: u64) -> Result<ProtocolState, String> {
        let state = |n: u64, key: &str| format!("no state {n} of {key}");
        let direction = |n: u64| if n == 0 { Direction::Original } else { Direction::Reply };
        if let Some([left]) = self.list::<u64, 1>("udp")? {
            return Ok(ProtocolState::Udp { stream_after: now.saturating_add(left) });
        }
        if let Some([timeout, stream_timeout]) = self.list("gre")? {
            let [timeout, stream_timeout] = [timeout, stream_timeout].map(|t: u64| t.min(LONGEST));
            return Ok(ProtocolState::Gre { timeout, stream_timeout });
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
            return Ok(ProtocolState::Tcp(Tcp {
                seen: [side(10), side(16)],
                state: *tcp::State::ALL.get(v[0] as usize).ok_or_else(|| state(v[0], "tcp"))?,
                last_dir: direction(v[1]),
                retrans: v[2] as u8,
                last_index: tcp::kind_of(v[3]).ok_or("no such packet of tcp")?,
                last_seq: v[4] as u32,
                last_ack: v[5] as u32,
                last_end: v[6] as u32,
                last_win: v[7] as u16,
                last_wscale: v[8].min(14) as u8,
                last_flags: v[9] as u8,
            }));
        }
        if let Some(v) = self.list::<u64, 6>("sctp")? {
            return Ok(ProtocolState::Sctp(sctp::Sctp {
                state: *sctp::State::ALL.get(v[0] as usize).ok_or_else(|| state(v[0], "sctp"))?,
                vtag: [v[1] as u32, v[2] as u32],
                init: [v[3] != 0, v[4] != 0],
                heartbeat_failed: (v[5] < 2).then(|| direction(v[5])),
            }));
        }
        if let Some(v) = self.list::<u64, 5>("dccp")? {
            use dccp::Role::{Client, Server};
            return Ok(ProtocolState::Dccp(dccp::Dccp {
                state: *dccp::State::ALL.get(v[0] as usize).ok_or_else(|| state(v[0], "dccp"))?,
                role: if v[1] != 0 { [Client, Server] } else { [Server, Client] },
                last_dir: direction(v[2]),
                last_packet: v[3] as u8,
                handshake: v[4],
            }));
        }
        Ok(ProtocolState::None)
    }
}
