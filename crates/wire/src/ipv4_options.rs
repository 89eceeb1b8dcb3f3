// SPDX-License-Identifier: Apache-2.0

//! IPv4 options: what `__ip_options_compile()` (`net/ipv4/ip_options.c`) accepts, finds and writes.

use std::net::Ipv4Addr;

use crate::source_route;

/// Bytes of options at most.
pub const MAX_LEN: usize = 40;

/// End of option list.
pub const END: u8 = 0;
/// No operation.
pub const NOOP: u8 = 1;
/// Record route.
pub const RR: u8 = 7;
/// Timestamp.
pub const TIMESTAMP: u8 = 68;
/// Security.
pub const SEC: u8 = 130;
/// Loose source and record route.
pub const LSRR: u8 = 131;
/// CIPSO.
pub const CIPSO: u8 = 134;
/// Stream id.
pub const SID: u8 = 136;
/// Strict source and record route.
pub const SSRR: u8 = 137;
/// Router alert.
pub const RA: u8 = 148;

/// The bit of an option's kind that says it goes into all fragments.
pub const COPIED: u8 = 0x80;

/// Timestamp flag: timestamps only.
pub const TS_ONLY: u8 = 0;
/// Timestamp flag: addresses and timestamps.
pub const TS_AND_ADDRESS: u8 = 1;
/// Timestamp flag: only the listed hosts stamp.
pub const TS_PRESPECIFIED: u8 = 3;

/// What was found (`struct ip_options`). Offsets count from the start of the IPv4 header; 0 is
/// absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Source route, loose or strict.
    pub srr: u8,
    /// Whether the source route is strict.
    pub strict: bool,
    /// Record route.
    pub rr: u8,
    /// The record route has room: a forwarder writes its address at its pointer minus 5.
    pub rr_need_address: bool,
    /// Timestamp.
    pub ts: u8,
    /// The timestamp option wants a time.
    pub ts_need_time: bool,
    /// The timestamp option wants an address: a forwarder that follows a source route writes it at
    /// its pointer minus 9.
    pub ts_need_address: bool,
    /// Router alert.
    pub router_alert: u8,
    /// Where the packet goes next by its source route (`srr_is_hit`): a forwarder sends it there,
    /// and puts its own address in that place. The router finds out.
    pub next_hop: Option<Ipv4Addr>,
    /// Option bytes were changed: the header checksum must be recomputed.
    pub changed: bool,
}

impl Compiled {
    /// Offset of the option `kind` as `ip option` matches find it: [`LSRR`], [`SSRR`], [`RR`],
    /// [`RA`] (`ipv4_find_option()` of `nft_exthdr.c`). `None` if absent, also for other kinds.
    #[inline]
    pub fn find(&self, kind: u8) -> Option<usize> {
        let at = match kind {
            SSRR if self.strict => self.srr,
            LSRR if !self.strict => self.srr,
            RR => self.rr,
            RA => self.router_alert,
            _ => 0,
        };
        (at != 0).then_some(usize::from(at))
    }
}

/// What the option parser asks when it fills in a received packet.
pub struct Receive<F: Fn(Ipv4Addr) -> bool> {
    /// The address that the host writes into record route and timestamp options:
    /// `fib_compute_spec_dst()`.
    pub address: Ipv4Addr,
    /// Milliseconds since midnight UTC.
    pub time: u32,
    /// Whether an address is a foreign unicast one (`inet_addr_type() == RTN_UNICAST`).
    pub is_unicast: F,
}

/// Offset from the start of the IPv4 header of the byte that is wrong, for a parameter problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption(pub u8);

/// Checks options without changing them, as the `ip option` match does on its copy: a source route
/// must be unused (pointer 4), have at least one address and only whole ones.
///
/// # Errors
/// The first byte that is wrong.
pub fn check_copy(options: &[u8]) -> Result<Compiled, BadOption> {
    let mut copy = [0; MAX_LEN];
    let len = options.len().min(MAX_LEN);
    let copy = &mut copy[..len];
    copy.copy_from_slice(&options[..len]);
    compile(copy, None::<&Receive<fn(Ipv4Addr) -> bool>>)
}

/// Checks the options of a received packet and fills in the host's address and the time where
/// options ask for them. With [`Compiled::changed`] the checksum must be recomputed.
///
/// # Errors
/// The first byte that is wrong; the packet is dropped with a parameter problem.
pub fn check_received<F: Fn(Ipv4Addr) -> bool>(
    options: &mut [u8],
    receive: &Receive<F>,
) -> Result<Compiled, BadOption> {
    compile(options, Some(receive))
}

fn compile<F: Fn(Ipv4Addr) -> bool>(
    options: &mut [u8],
    receive: Option<&Receive<F>>,
) -> Result<Compiled, BadOption> {
    let mut out = Compiled::default();
    let len = options.len().min(MAX_LEN);
    let mut at = 0;
    while at < len {
        let position = (20 + at) as u8;
        let bad = |n: u8| Err(BadOption(position + n));
        let kind = options[at];
        match kind {
            END => {
                for b in &mut options[at + 1..len] {
                    out.changed |= *b != END;
                    *b = END;
                }
                break;
            }
            NOOP => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let Some(&opt_len) = options[..len].get(at + 1) else { return bad(0) };
        let n = usize::from(opt_len);
        if n < 2 || n > len - at {
            return bad(0);
        }
        let o = &mut options[at..at + n];
        match kind {
            SSRR | LSRR => {
                if let Err(byte) = source_route(o, receive.is_some(), &out) {
                    return bad(byte);
                }
                out.strict = kind == SSRR;
                out.srr = position;
            }
            RR => {
                if let Err(byte) = record_route(o, receive, &mut out) {
                    return bad(byte);
                }
                out.rr = position;
            }
            TIMESTAMP => {
                if let Err(byte) = timestamp(o, receive, &mut out) {
                    return bad(byte);
                }
                out.ts = position;
            }
            RA => {
                if n < 4 {
                    return bad(1);
                }
                if o[2] == 0 && o[3] == 0 {
                    out.router_alert = position;
                }
            }
            // Labels are accepted only of domains that NetLabel is configured for, and there are
            // none.
            CIPSO => return bad(if n < 8 { 1 } else { 2 }),
            // The kernel asks for CAP_NET_RAW when it checks a copy; in its packet path that is
            // granted.
            _ => {}
        }
        at += n;
    }
    Ok(out)
}

/// Checks a source route option, which is as long as it says. A packet that is not `received` is a
/// copy ([`check_copy`]). An error is the offset of the wrong byte in the option.
fn source_route(o: &[u8], received: bool, out: &Compiled) -> Result<(), u8> {
    let n = o.len();
    if n < 3 {
        return Err(1);
    }
    if o[2] < 4 {
        return Err(2);
    }
    if out.srr != 0 {
        return Err(0);
    }
    if !received && (o[2] != 4 || n < 7 || !(n - 3).is_multiple_of(4)) {
        return Err(1);
    }
    Ok(())
}

/// The record route option, which is as long as it says; an error is the offset of the wrong byte
/// in it.
fn record_route<F: Fn(Ipv4Addr) -> bool>(
    o: &mut [u8],
    receive: Option<&Receive<F>>,
    out: &mut Compiled,
) -> Result<(), u8> {
    let n = o.len();
    if out.rr != 0 {
        return Err(0);
    }
    if n < 3 {
        return Err(1);
    }
    let pointer = usize::from(o[2]);
    if pointer < 4 {
        return Err(2);
    }
    if pointer > n {
        return Ok(());
    }
    if pointer + 3 > n {
        return Err(2);
    }
    if let Some(r) = receive {
        put4(o, pointer - 1, r.address.octets());
        out.changed = true;
    }
    o[2] += 4;
    out.rr_need_address = true;
    Ok(())
}

/// The timestamp option, which is as long as it says; an error is the offset of the wrong byte in
/// it.
fn timestamp<F: Fn(Ipv4Addr) -> bool>(
    o: &mut [u8],
    receive: Option<&Receive<F>>,
    out: &mut Compiled,
) -> Result<(), u8> {
    if out.ts != 0 {
        return Err(0);
    }
    if o.len() < 4 {
        return Err(1);
    }
    if o[2] < 5 {
        return Err(2);
    }
    let (n, pointer, flag) = (o.len(), usize::from(o[2]), o[3] & 0x0f);
    if pointer > n {
        if flag != TS_PRESPECIFIED {
            let overflow = o[3] >> 4;
            if overflow == 15 {
                return Err(3);
            }
            if receive.is_some() {
                o[3] = flag | (overflow + 1) << 4;
                out.changed = true;
            }
        }
        return Ok(());
    }
    if pointer + 3 > n || (matches!(flag, TS_AND_ADDRESS | TS_PRESPECIFIED) && pointer + 7 > n) {
        return Err(2);
    }
    let mut time_at = pointer - 1;
    match flag {
        TS_ONLY => o[2] += 4,
        TS_AND_ADDRESS => {
            if let Some(r) = receive {
                put4(o, pointer - 1, r.address.octets());
            }
            time_at += 4;
            out.ts_need_address = true;
            o[2] += 8;
        }
        TS_PRESPECIFIED => {
            if let Some(r) = receive {
                let listed = o.get(pointer - 1..).and_then(|b| b.first_chunk::<4>());
                if listed.is_some_and(|a| (r.is_unicast)(Ipv4Addr::from(*a))) {
                    return Ok(());
                }
            }
            time_at += 4;
            o[2] += 8;
        }
        _ => return Ok(()),
    }
    out.ts_need_time = true;
    if let Some(r) = receive {
        put4(o, time_at, r.time.to_be_bytes());
        out.changed = true;
    }
    Ok(())
}

fn put4(bytes: &mut [u8], at: usize, value: [u8; 4]) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value);
    }
}

/// Writes a router's address into a record route option that asked for it when the packet was
/// received. `options` are those that [`check_received`] saw.
pub fn fill_record_route(options: &mut [u8], found: &Compiled, address: Ipv4Addr) {
    if found.rr_need_address {
        fill_behind(options, found.rr, 5, address);
    }
}

/// Writes a router's address into a timestamp option that asked for it when the packet was
/// received.
pub fn fill_timestamp(options: &mut [u8], found: &Compiled, address: Ipv4Addr) {
    if found.ts_need_address {
        fill_behind(options, found.ts, 9, address);
    }
}

/// Writes an address so many bytes behind the pointer of an option.
fn fill_behind(options: &mut [u8], position: u8, back: usize, address: Ipv4Addr) {
    let at = usize::from(position).saturating_sub(20);
    let pointer = options.get(at + 2).map(|byte| usize::from(*byte));
    if let Some(offset) = pointer.and_then(|pointer| pointer.checked_sub(back)) {
        put4(options, at + offset, address.octets());
    }
}

/// Options of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    bytes: [u8; MAX_LEN],
    len: usize,
    found: Compiled,
}

impl Echo {
    /// Where the answer goes first: the last address of a source route, in reverse.
    pub fn first_hop(&self) -> Option<Ipv4Addr> {
        self.found.next_hop
    }

    /// The options with the address of the answer's sender where they ask for it
    /// (`ip_options_build()`), its receiver at the end of a source route, and its time in
    /// milliseconds since midnight UTC.
    pub fn filled(&mut self, address: Ipv4Addr, receiver: Ipv4Addr, time: u32) -> &[u8] {
        let options = &mut self.bytes[..self.len];
        source_route::end_at(options, self.found.srr, receiver);
        fill_record_route(options, &self.found, address);
        fill_timestamp(options, &self.found, address);
        if self.found.ts_need_time {
            let at = usize::from(self.found.ts).saturating_sub(20);
            if let Some(offset) = options.get(at + 2).and_then(|p| usize::from(*p).checked_sub(5)) {
                put4(options, at + offset, time.to_be_bytes());
            }
        }
        options
    }

    /// Bytes of the options, a multiple of four.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to echo.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The options that an answer to a packet from `source` has (`__ip_options_echo()`): record route,
/// timestamp, the source route in reverse, and CIPSO, of the options that [`check_received`] saw. If
/// it found a byte `wrong`, the option with that byte and all after it are not there, but for CIPSO.
/// `None` if an option has no room for what it asks for: then there is no answer.
pub fn echo(options: &[u8], source: Ipv4Addr, wrong: Option<BadOption>) -> Option<Echo> {
    let mut out = Echo { bytes: [0; MAX_LEN], len: 0, found: Compiled::default() };
    let (mut rr, mut ts, mut srr, mut cipso) = (None, None, None, None);
    let mut rest = options;
    loop {
        match rest {
            [] | [END, ..] | [_] => break,
            [NOOP, tail @ ..] => rest = tail,
            [kind, len, ..] => {
                let n = usize::from(*len);
                if n < 2 || n > rest.len() {
                    break;
                }
                let (option, tail) = rest.split_at(n);
                let end = 20 + options.len() - tail.len();
                match *kind {
                    CIPSO => {
                        // Where the packet's own parser stopped.
                        cipso = Some(option);
                        break;
                    }
                    _ if wrong.is_some_and(|BadOption(at)| usize::from(at) < end) => break,
                    RR if n >= 3 => rr = rr.or(Some(option)),
                    TIMESTAMP if n >= 4 => ts = ts.or(Some(option)),
                    LSRR | SSRR if n >= 3 => srr = srr.or(Some(option)),
                    _ => {}
                }
                rest = tail;
            }
        }
    }
    if let Some(option) = rr {
        let (at, pointer) = (out.put(option), usize::from(option[2]));
        out.found.rr = at;
        if pointer <= option.len() {
            if pointer + 3 > option.len() {
                return None;
            }
            out.bytes[usize::from(at) - 18] += 4;
            out.found.rr_need_address = true;
        }
    }
    if let Some(option) = ts {
        let (at, mut pointer, flag) = (out.put(option), usize::from(option[2]), option[3] & 0x0f);
        out.found.ts = at;
        if pointer <= option.len() {
            if flag == TS_AND_ADDRESS {
                if pointer + 3 > option.len() {
                    return None;
                }
                out.found.ts_need_address = true;
                pointer += 4;
            }
            if flag != TS_PRESPECIFIED {
                if pointer + 3 > option.len() {
                    return None;
                }
                out.found.ts_need_time = true;
                pointer += 4;
            }
            out.bytes[usize::from(at) - 18] = pointer as u8;
        }
    }
    if let Some(back) = srr.and_then(|option| source_route::reverse(option, source)) {
        out.found.srr = out.put(back.option());
        out.found.next_hop = Some(back.first_hop);
    }
    if let Some(option) = cipso {
        out.put(option);
    }
    out.len = out.len.next_multiple_of(4);
    Some(out)
}

impl Echo {
    /// Appends an option; returns its offset from the start of the IPv4 header.
    fn put(&mut self, option: &[u8]) -> u8 {
        let at = self.len;
        // Together no longer than the options that they are from.
        if let Some(place) = self.bytes.get_mut(at..at + option.len()) {
            place.copy_from_slice(option);
            self.len += option.len();
        }
        (20 + at) as u8
    }
}

/// Makes options that do not go into later fragments no-operations (`ip_options_fragment()`).
pub fn keep_copied(options: &mut [u8]) {
    let mut rest = options;
    loop {
        match rest {
            [] | [END, ..] => return,
            [NOOP, tail @ ..] => rest = tail,
            [kind, len, ..] => {
                let (kind, n) = (*kind, usize::from(*len));
                if n < 2 || n > rest.len() {
                    return;
                }
                let (option, tail) = rest.split_at_mut(n);
                if kind & COPIED == 0 {
                    option.fill(NOOP);
                }
                rest = tail;
            }
            [_] => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_echo_record_route_and_timestamp_options() {
        let address = Ipv4Addr::new(198, 18, 0, 1);
        let full = [RR, 7, 8, 1, 2, 3, 4, 0];
        for (options, wrong, expected) in [
            (&[RA, 4, 0, 0][..], None, Some(&[][..])),
            (&full, None, Some(&full[..])),
            (&[NOOP, RR, 7, 4, 1, 2, 3, 4], None, Some(&[RR, 7, 8, 198, 18, 0, 1, 0])),
            (&[RR, 7, 6, 1, 2, 3, 4, 0], None, None),
            (&[TIMESTAMP, 8, 5, 0, 9, 9, 9, 9], None, Some(&[TIMESTAMP, 8, 9, 0, 0, 0, 0, 77])),
            (
                &[TIMESTAMP, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
                None,
                Some(&[TIMESTAMP, 12, 13, 1, 198, 18, 0, 1, 0, 0, 0, 77]),
            ),
            (&[CIPSO, 6, 0, 0, 0, 0, RR, 2], Some(22), Some(&[CIPSO, 6, 0, 0, 0, 0, 0, 0])),
            // The option that is wrong is not there, nor what follows it.
            (&[TIMESTAMP, 8, 9, 0xf0, 0, 0, 0, 0], Some(23), Some(&[])),
            (&[RR, 7, 6, 1, 2, 3, 4, 0], Some(22), Some(&[])),
            (&[RR, 7, 8, 1, 2, 3, 4, TIMESTAMP, 8, 9, 0xf0, 0, 0, 0, 0, 0], Some(30), Some(&full)),
            (&[RA, 3, 0, RR, 7, 8, 1, 2, 3, 4, 0, 0], Some(21), Some(&[])),
        ] {
            let echo = {
                let echo = echo(options, address, wrong.map(BadOption));
                echo.map(|mut e| e.filled(address, address, 77).to_vec())
            };
            assert_eq!(echo.as_deref(), expected, "{options:?}");
        }
    }

    #[test]
    fn options_are_found_or_refused_as_in_the_kernel() {
        let lsrr = [131, 7, 4, 198, 18, 0, 9];
        for (options, kind, found) in [
            (&lsrr[..], LSRR, Ok(Some(20))),
            (&lsrr, SSRR, Ok(None)),
            (&[1, 137, 7, 4, 198, 18, 0, 9], SSRR, Ok(Some(21))),
            (&[148, 4, 0, 0], RA, Ok(Some(20))),
            (&[148, 4, 0, 1], RA, Ok(None)),
            (&[148, 3, 0, 0], RA, Err(21)),
            (&[1, 1, 7, 7, 4, 0, 0, 0, 0], RR, Ok(Some(22))),
            (&[7, 7, 8, 1, 2, 3, 4], RR, Ok(Some(20))),
            (&[7, 7, 5, 0, 0, 0, 0], RR, Err(22)),
            (&[7, 7, 3, 0, 0, 0, 0], RR, Err(22)),
            (&[7, 3, 4, 7, 3, 4], RR, Err(23)),
            (&[0, 148, 4, 0, 0], RA, Ok(None)),
            (&[131, 6, 4, 198, 18, 0], LSRR, Err(21)),
            (&[131, 11, 8, 1, 2, 3, 4, 5, 6, 7, 8], LSRR, Err(21)),
            (&[131], LSRR, Err(20)),
            (&[131, 1], LSRR, Err(20)),
            (&[131, 8, 4, 1], LSRR, Err(20)),
            (&[68, 4, 4, 0], RR, Err(22)),
            (&[68, 4, 5, 0xf0], RR, Err(23)),
            (&[200, 4, 0, 0, 148, 4, 0, 0], RA, Ok(Some(24))),
            (&[148, 4, 0, 0, 134, 8, 0, 0, 0, 1, 1, 2], RA, Err(26)),
        ] {
            let got = check_copy(options).map(|c| c.find(kind)).map_err(|e| e.0);
            assert_eq!(got, found, "{options:?}");
        }
    }

    #[test]
    fn a_received_packet_is_stamped_and_a_forwarder_overwrites_the_address() {
        let receive = Receive {
            address: Ipv4Addr::new(198, 18, 0, 1),
            time: 0x0102_0304,
            is_unicast: |_| true,
        };
        let mut o = [7, 7, 4, 0, 0, 0, 0, 68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let c = check_received(&mut o, &receive).unwrap();
        assert!(c.changed && c.rr_need_address && c.ts_need_address && c.ts_need_time);
        assert_eq!(o, [7, 7, 8, 198, 18, 0, 1, 68, 12, 13, 1, 198, 18, 0, 1, 1, 2, 3, 4, 0]);
        let out = Ipv4Addr::new(198, 19, 0, 1);
        fill_record_route(&mut o, &c, out);
        fill_timestamp(&mut o, &c, out);
        assert_eq!(o, [7, 7, 8, 198, 19, 0, 1, 68, 12, 13, 1, 198, 19, 0, 1, 1, 2, 3, 4, 0]);
    }

    #[test]
    fn a_full_timestamp_option_counts_the_hosts_it_missed() {
        let receive = Receive { address: Ipv4Addr::UNSPECIFIED, time: 0, is_unicast: |_| true };
        let mut o = [68, 8, 9, 0x20, 1, 2, 3, 4];
        assert!(check_received(&mut o, &receive).unwrap().changed);
        assert_eq!(o[3], 0x30);
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        let kinds = [0, 1, 7, 68, 130, 131, 134, 137, 148];
        for _ in 0..20_000 {
            let mut o: Vec<u8> = (0..rng.usize(..=40)).map(|_| rng.u8(..16)).collect();
            for _ in 0..4 {
                if !o.is_empty() {
                    let at = rng.usize(..o.len());
                    o[at] = kinds[rng.usize(..kinds.len())];
                }
            }
            let _ = check_copy(&o);
            keep_copied(&mut o.clone());
            let receive = Receive {
                address: Ipv4Addr::LOCALHOST,
                time: 1,
                is_unicast: |a| a.octets()[0] & 1 == 0,
            };
            if let Ok(c) = check_received(&mut o, &receive) {
                fill_record_route(&mut o, &c, Ipv4Addr::LOCALHOST);
                fill_timestamp(&mut o, &c, Ipv4Addr::LOCALHOST);
            }
        }
    }
}
