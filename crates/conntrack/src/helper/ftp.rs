// SPDX-License-Identifier: Apache-2.0

//! FTP (`nf_conntrack_ftp.c`, `nf_nat_ftp.c`; RFC 959, RFC 1123, RFC 2428).

use super::action::PortEdit;
use super::number::numbers;
use super::{Action, Announcement, Memory, Message, is_ipv6};
use crate::Direction;
use crate::complaint::Wrong;
use crate::tuple;
use penstock_wire::protocol;
use std::net::{IpAddr, Ipv6Addr};

/// Where lines begin: the sequence numbers after the last line ends of each direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    after: [[u32; 2]; 2],
    known: [u8; 2],
}

impl Lines {
    fn begins(&self, direction: Direction, seq: u32) -> bool {
        let d = direction as usize;
        self.after[d][..usize::from(self.known[d])].contains(&seq)
    }

    fn note(&mut self, direction: Direction, seq: u32) {
        let d = direction as usize;
        if self.begins(direction, seq) {
            return;
        }
        if self.known[d] < 2 {
            self.after[d][usize::from(self.known[d])] = seq;
            self.known[d] += 1;
            return;
        }
        let oldest = usize::from((self.after[d][0].wrapping_sub(self.after[d][1]) as i32) > 0);
        if (seq.wrapping_sub(self.after[d][oldest]) as i32) > 0 {
            self.after[d][oldest] = seq;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `h1,h2,h3,h4,p1,p2`.
    Commas,
    /// `|1|132.235.1.2|6275|`.
    Extended,
    /// `|||6446|`.
    PortOnly,
}

/// An address and port in the text, and where they stand.
#[derive(Debug, PartialEq, Eq)]
struct Endpoint {
    at: usize,
    len: usize,
    /// `None` where only the port is said.
    address: Option<IpAddr>,
    port: u16,
    form: Form,
}

#[derive(Debug, PartialEq, Eq)]
enum Search {
    Nothing,
    /// The command is there, but cut or wrong.
    Partial(&'static str),
    Found(Endpoint),
}

/// `a,b,c,d,p,q`.
fn commas(text: &[u8], end: Option<u8>) -> Option<(IpAddr, u16, usize)> {
    let ([a, b, c, d, p, q], len) = numbers::<6>(text, b',', end)?;
    let address = a.wrapping_shl(24) | b.wrapping_shl(16) | c.wrapping_shl(8) | d;
    Some((IpAddr::V4(address.into()), (p << 8 | q) as u16, len))
}

/// Delimiter of the extended forms.
fn delimiter(c: u8) -> Option<u8> {
    (c.is_ascii_graphic() && !c.is_ascii_digit()).then_some(c)
}

/// A port up to the delimiter; returns it and where the delimiter ends, from the start of `text`.
fn port(text: &[u8], start: usize, end: u8) -> Option<(u16, usize)> {
    let mut number = 0u16;
    for (i, &c) in text.iter().enumerate().skip(start) {
        match c {
            c if c == end => return (number != 0).then_some((number, i + 1)),
            b'0'..=b'9' => number = number.wrapping_mul(10).wrapping_add(u16::from(c - b'0')),
            _ => return None,
        }
    }
    None
}

fn extended(text: &[u8], ipv6: bool) -> Option<(IpAddr, u16, usize)> {
    let &[first, family, second, ..] = text else { return None };
    let d = delimiter(first)?;
    if second != d || family != if ipv6 { b'2' } else { b'1' } {
        return None;
    }
    let rest = &text[3..];
    let (address, len) = if ipv6 {
        let len = rest.iter().position(|&c| c == d)?;
        let address: Ipv6Addr = std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?;
        (IpAddr::V6(address), len)
    } else {
        let ([a, b, c, e], len) = numbers::<4>(rest, b'.', Some(d))?;
        (IpAddr::V4((a.wrapping_shl(24) | b.wrapping_shl(16) | c.wrapping_shl(8) | e).into()), len)
    };
    let (port, len) = port(text, 3 + len + 1, d)?;
    Some((address, port, len))
}

fn port_only(text: &[u8]) -> Option<(u16, usize)> {
    let &[a, b, c, _, ..] = text else { return None };
    let d = delimiter(a)?;
    if b != d || c != d {
        return None;
    }
    port(text, 3, d)
}

/// Looks for the commands of a direction at the start of a line (`find_pattern()`).
fn search(data: &[u8], direction: Direction, ipv6: bool) -> Search {
    type Reader = fn(&[u8], bool) -> Option<(usize, Option<IpAddr>, u16, usize)>;
    let commands: [(&'static str, Option<u8>, Form, Reader); 2] = match direction {
        Direction::Original => [
            ("PORT", Some(b' '), Form::Commas, |t, _| {
                commas(t, Some(b'\r')).map(|(a, p, len)| (0, Some(a), p, len))
            }),
            ("EPRT", Some(b' '), Form::Extended, |t, ipv6| {
                extended(t, ipv6).map(|(a, p, len)| (0, Some(a), p, len))
            }),
        ],
        Direction::Reply => [
            ("227 ", None, Form::Commas, |t, _| {
                let start = t.iter().position(u8::is_ascii_digit)?;
                commas(&t[start..], None).map(|(a, p, len)| (start, Some(a), p, len))
            }),
            ("229 ", Some(b'('), Form::PortOnly, |t, _| {
                port_only(t).map(|(p, len)| (0, None, p, len))
            }),
        ],
    };
    for (command, skip, form, read) in commands {
        let word = command.as_bytes();
        if data.len() <= word.len() {
            if !data.is_empty() && word[..data.len()].eq_ignore_ascii_case(data) {
                return Search::Partial(command);
            }
            continue;
        }
        if !data[..word.len()].eq_ignore_ascii_case(word) {
            continue;
        }
        let mut start = word.len();
        if let Some(skip) = skip {
            // The character to skip to must not be the last.
            match data[start..data.len() - 1].iter().position(|&c| c == skip) {
                Some(i) => start += i + 1,
                None => return Search::Partial(command),
            }
        }
        return match read(&data[start..], ipv6) {
            Some((offset, address, port, len)) => {
                Search::Found(Endpoint { at: start + offset, len, address, port, form })
            }
            None => Search::Partial(command),
        };
    }
    Search::Nothing
}

impl Form {
    /// How an address and port are written.
    fn writer(self) -> fn(IpAddr, u16) -> String {
        match self {
            Form::Commas => write_commas,
            Form::Extended => write_extended,
            Form::PortOnly => |_, port| format!("|||{port}|"),
        }
    }
}

fn write_commas(address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(a) => {
            let [a, b, c, d] = a.octets();
            format!("{a},{b},{c},{d},{},{}", port >> 8, port & 255)
        }
        IpAddr::V6(_) => write_extended(address, port),
    }
}

fn write_extended(address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(a) => format!("|1|{a}|{port}|"),
        // All eight groups in full (%pI6 in nf_nat_ftp.c).
        IpAddr::V6(a) => {
            let groups = a.segments().map(|g| format!("{g:04x}")).join(":");
            format!("|2|{groups}|{port}|")
        }
    }
}

pub(super) fn read(m: &Message<'_>, memory: &mut Memory) -> Vec<Action> {
    if !m.established || m.data.is_empty() {
        return Vec::new();
    }
    if !matches!(memory, Memory::Ftp(_)) {
        *memory = Memory::Ftp(Lines::default());
    }
    let Memory::Ftp(lines) = memory else { return Vec::new() };
    let end = m.data.ends_with(b"\n").then(|| m.seq.wrapping_add(m.data.len() as u32));
    let actions = if lines.begins(m.direction, m.seq) {
        match search(m.data, m.direction, is_ipv6(m.tuple())) {
            Search::Nothing => Vec::new(),
            Search::Partial(command) => return vec![Action::Drop(Some(Wrong::Partial(command)))],
            Search::Found(endpoint) => announce(m, &endpoint),
        }
    } else {
        Vec::new()
    };
    if let Some(end) = end {
        lines.note(m.direction, end);
    }
    actions
}

/// Announces the data connection to an endpoint.
fn announce(m: &Message<'_>, endpoint: &Endpoint) -> Vec<Action> {
    // Towards whom the sender said, seen from the other side.
    let mut destination = m.back().dst;
    let mut address = m.seen_address();
    if let Some(third) = endpoint.address
        && third != m.tuple().source()
    {
        if !m.options.ftp_loose {
            return Vec::new();
        }
        destination = tuple::address(third);
        address = third;
    }
    let expectation = m.expect(protocol::TCP, Some(m.back().src), destination, endpoint.port);
    let edit = m.translated.then(|| PortEdit {
        at: endpoint.at,
        len: endpoint.len,
        address,
        write: endpoint.form.writer(),
        unless: None,
    });
    vec![Action::Expect(Announcement { edit, ..m.announce_translated(expectation) })]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ftp_commands_are_found_as_in_the_kernel() {
        use Direction::{Original, Reply};
        let at = |at, len, address: &str, port, form| {
            Search::Found(Endpoint { at, len, address: address.parse().ok(), port, form })
        };
        for (text, direction, ipv6, want) in [
            (
                "PORT 198,18,0,1,4,5\r\n",
                Original,
                false,
                at(5, 14, "198.18.0.1", 1029, Form::Commas),
            ),
            (
                "port 198,18,0,1,4,5\r\n",
                Original,
                false,
                at(5, 14, "198.18.0.1", 1029, Form::Commas),
            ),
            ("PORT 198,18,0,1,4,5\n", Original, false, Search::Partial("PORT")),
            ("PORT 198,18,0,1,4", Original, false, Search::Partial("PORT")),
            ("PORT 198,18,0,1,4,5,6\r\n", Original, false, Search::Partial("PORT")),
            ("POR", Original, false, Search::Partial("PORT")),
            ("PORT", Original, false, Search::Partial("PORT")),
            ("USER x\r\n", Original, false, Search::Nothing),
            ("PORT 198,18,0,1,4,5\r\n", Reply, false, Search::Nothing),
            (
                "EPRT |1|198.18.0.1|1029|\r\n",
                Original,
                false,
                at(5, 19, "198.18.0.1", 1029, Form::Extended),
            ),
            (
                "EPRT |2|2001:db8::1|1029|\r\n",
                Original,
                true,
                at(5, 20, "2001:db8::1", 1029, Form::Extended),
            ),
            ("EPRT |2|2001:db8::1|1029|\r\n", Original, false, Search::Partial("EPRT")),
            ("EPRT |1|198.18.0.1|0|\r\n", Original, false, Search::Partial("EPRT")),
            (
                "227 Entering Passive Mode (198,18,0,2,8,0).\r\n",
                Reply,
                false,
                at(27, 14, "198.18.0.2", 2048, Form::Commas),
            ),
            ("227 =198,18,0,2,8,0\r\n", Reply, false, at(5, 14, "198.18.0.2", 2048, Form::Commas)),
            ("229 Extended (|||6446|)\r\n", Reply, true, at(14, 8, "", 6446, Form::PortOnly)),
            ("229 Extended (|||x|)\r\n", Reply, true, Search::Partial("229 ")),
            ("220 hello\r\n", Reply, false, Search::Nothing),
            ("", Reply, false, Search::Nothing),
        ] {
            assert_eq!(search(text.as_bytes(), direction, ipv6), want, "{text:?}");
        }
    }
}
