// SPDX-License-Identifier: Apache-2.0

//! Parts of SIP messages and session descriptions, and where they stand: read as the kernel reads
//! them (`nf_conntrack_sip.c`), so that what it does not understand is not understood here either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port that is meant where none is said.
const PORT: u16 = 5060;

/// A header of the message, or a line of a session description.
#[derive(Clone, Copy)]
pub(super) struct Field {
    name: &'static str,
    /// Another name of one letter.
    short: Option<u8>,
    /// What stands before the value in its line.
    before: &'static str,
    value: Value,
}

/// What a field's value is.
#[derive(Clone, Copy)]
enum Value {
    Digits,
    /// An address, and a port.
    Address,
    /// A user before an address.
    User,
    /// An address of a session description.
    Plain,
    /// The kind of a stream, and its port.
    Media,
}

const fn field(name: &'static str, short: Option<u8>, before: &'static str, value: Value) -> Field {
    Field { name, short, before, value }
}

pub(super) const CSEQ: Field = field("CSeq", None, "", Value::Digits);
pub(super) const FROM: Field = field("From", Some(b'f'), "sip:", Value::User);
pub(super) const TO: Field = field("To", Some(b't'), "sip:", Value::User);
pub(super) const CONTACT: Field = field("Contact", Some(b'm'), "sip:", Value::User);
pub(super) const VIA_UDP: Field = field("Via", Some(b'v'), "UDP ", Value::Address);
pub(super) const VIA_TCP: Field = field("Via", Some(b'v'), "TCP ", Value::Address);
pub(super) const EXPIRES: Field = field("Expires", None, "", Value::Digits);
pub(super) const LENGTH: Field = field("Content-Length", Some(b'l'), "", Value::Digits);

pub(super) const VERSION: Field = field("v=", None, "", Value::Digits);
pub(super) const OWNER: [Field; 2] =
    [field("o=", None, "IN IP4 ", Value::Plain), field("o=", None, "IN IP6 ", Value::Plain)];
pub(super) const CONNECTION: [Field; 2] =
    [field("c=", None, "IN IP4 ", Value::Plain), field("c=", None, "IN IP6 ", Value::Plain)];
pub(super) const MEDIA: Field = field("m=", None, "", Value::Media);

/// A piece of a message: where it begins, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub at: usize,
    pub len: usize,
}

impl Span {
    pub fn end(self) -> usize {
        self.at + self.len
    }
}

/// What a search comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<T> {
    Nothing,
    /// It is there, and wrong; where its value begins.
    Wrong(usize),
    Is(T),
}

impl<T> Found<T> {
    pub fn is(self) -> Option<T> {
        match self {
            Found::Is(value) => Some(value),
            _ => None,
        }
    }
}

/// An address with its port, and where both stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub span: Span,
    pub address: IpAddr,
    pub port: u16,
}

/// A message, from its first line to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    data: &'a [u8],
    ipv6: bool,
}

/// Walks through fields that may stand several times, several in a line.
#[derive(Debug, Default)]
pub(super) struct Walk {
    at: usize,
    within: bool,
}

fn begins(text: &[u8], with: &str) -> bool {
    text.get(..with.len()).is_some_and(|text| text.eq_ignore_ascii_case(with.as_bytes()))
}

fn count(text: &[u8], is: impl Fn(&u8) -> bool) -> usize {
    text.iter().take_while(|c| is(c)).count()
}

/// The decimal number that digits are; none if they are more than eleven.
fn number(digits: &[u8]) -> Option<u32> {
    if digits.len() > 11 {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl<'a> Message<'a> {
    pub fn new(data: &'a [u8], ipv6: bool) -> Self {
        Message { data, ipv6 }
    }

    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether it begins with these words.
    pub fn begins(&self, with: &str) -> bool {
        begins(self.data, with)
    }

    /// The decimal number of some digits, if it can be.
    pub fn number(&self, span: Span) -> Option<u32> {
        number(&self.data[span.at..span.end()])
    }

    /// The decimal number that begins somewhere, 0 if none does.
    pub fn number_at(&self, at: usize) -> u32 {
        let text = self.data.get(at..).unwrap_or(&[]);
        number(&text[..count(text, u8::is_ascii_digit)]).unwrap_or(0)
    }

    /// The address that begins at `at`, and where it ends; `plain` without brackets.
    fn address(&self, at: usize, end: usize, plain: bool) -> Option<(IpAddr, usize)> {
        let text = self.data.get(at..end)?;
        if !self.ipv6 {
            let len = count(text, |c| c.is_ascii_hexdigit() || *c == b'.');
            let parts: Vec<&[u8]> = text[..len].split(|c| *c == b'.').collect();
            let mut octets = [0; 4];
            if parts.len() != 4 {
                return None;
            }
            for (octet, part) in octets.iter_mut().zip(parts) {
                let digits = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
                *octet = number(part).and_then(|n| n.try_into().ok()).filter(|_| digits)?;
            }
            return Some((Ipv4Addr::from(octets).into(), at + len));
        }
        let bracket = text.first() == Some(&b'[');
        if !bracket && !plain {
            return None;
        }
        let text = &text[usize::from(bracket)..];
        let len = count(text, |c| c.is_ascii_hexdigit() || matches!(c, b':' | b'.'));
        let address: Ipv6Addr = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
        let closed = text.get(len) == Some(&b']');
        if !closed && !plain {
            return None;
        }
        Some((address.into(), at + usize::from(bracket) + len + usize::from(closed)))
    }

    /// The port after an address, and where it ends; one that no user has, or of more than five digits, is wrong.
    fn port(&self, at: usize) -> Option<(u16, usize)> {
        if self.data.get(at) != Some(&b':') {
            return Some((PORT, at));
        }
        let end = at + 1 + count(&self.data[at + 1..], u8::is_ascii_digit);
        let port = number(&self.data[at + 1..end]).filter(|_| end - at <= 6)?;
        Some((u16::try_from(port).ok().filter(|port| *port >= 1024)?, end))
    }

    /// The value that begins at `at`.
    fn value(&self, at: usize, kind: Value) -> Option<Span> {
        let rest = self.data.get(at..)?;
        let digits = |at: usize| count(&self.data[at..], u8::is_ascii_digit);
        let with_port = |at: usize| {
            let (_, end) = self.address(at, self.data.len(), false)?;
            let (_, end) = self.port(end)?;
            Some(Span { at, len: end - at })
        };
        let span = match kind {
            Value::Digits => Span { at, len: digits(at) },
            Value::Address => with_port(at)?,
            Value::User => {
                let line = count(rest, |c| !matches!(c, b'@' | b'\r' | b'\n'));
                let user = if rest.get(line) == Some(&b'@') { line + 1 } else { 0 };
                with_port(at + user)?
            }
            Value::Plain => {
                let (_, end) = self.address(at, self.data.len(), true)?;
                Span { at, len: end - at }
            }
            Value::Media => {
                let kind = count(rest, u8::is_ascii_alphabetic);
                if rest.get(kind) != Some(&b' ') {
                    return None;
                }
                Span { at, len: kind + 1 + digits(at + kind + 1) }
            }
        };
        (span.len > 0).then_some(span)
    }

    /// Where the line after a line end at `at` begins, if it continues the line; blanks are passed.
    fn continuation(&self, at: usize) -> Option<usize> {
        let mut next = at + 1;
        if self.data.get(at) == Some(&b'\r') && self.data.get(next) == Some(&b'\n') {
            next += 1;
        }
        let blanks = count(self.data.get(next..)?, |c| matches!(c, b' ' | b'\t'));
        (blanks > 0).then_some(next + blanks)
    }

    fn past_blanks(&self, mut at: usize) -> Option<usize> {
        loop {
            match self.data.get(at)? {
                b' ' | b'\t' => at += 1,
                b'\r' | b'\n' => at = self.continuation(at)?,
                _ => return Some(at),
            }
        }
    }

    /// Where words begin in a header and the lines that continue it, before `limit`.
    fn within(&self, mut at: usize, limit: usize, words: &str) -> Option<usize> {
        let limit = limit.checked_sub(words.len())?;
        while at < limit {
            if matches!(self.data[at], b'\r' | b'\n') {
                // A character of the next line is passed over.
                at = self.continuation(at)? + 1;
                continue;
            }
            if begins(&self.data[at..], words) {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// The beginnings of lines from `at` on, but for the first.
    fn next_line(&self, at: &mut usize) -> Option<usize> {
        loop {
            let c = *self.data.get(*at)?;
            *at += 1;
            if matches!(c, b'\r' | b'\n') {
                if c == b'\r' && self.data.get(*at) == Some(&b'\n') {
                    *at += 1;
                }
                let line = *at;
                // An empty line ends with its own line end only.
                *at += 1;
                return (line < self.data.len()).then_some(line);
            }
        }
    }

    /// The first header of a name from `from` on.
    pub fn header(&self, from: usize, field: Field) -> Found<Span> {
        let mut at = from;
        while let Some(line) = self.next_line(&mut at) {
            let text = &self.data[line..];
            let short = |c: u8| {
                text.len() > 1 && text[0].eq_ignore_ascii_case(&c) && !text[1].is_ascii_alphabetic()
            };
            let name = if begins(text, field.name) {
                field.name.len()
            } else if field.short.is_some_and(short) {
                1
            } else {
                continue;
            };
            let colon = self.past_blanks(line + name).filter(|at| self.data[*at] == b':');
            let Some(value) = colon.and_then(|at| self.past_blanks(at + 1)) else {
                return Found::Nothing;
            };
            let here = match field.before {
                "" => Some(value),
                before => self.within(value, self.data.len(), before).map(|at| at + before.len()),
            };
            return match here.and_then(|at| self.value(at, field.value)) {
                Some(span) => Found::Is(span),
                None => Found::Wrong(here.unwrap_or(value)),
            };
        }
        Found::Nothing
    }

    /// The next value of a header with several, after a comma.
    fn next_in_line(&self, from: usize, field: Field) -> Found<Span> {
        let comma = self.within(from, self.data.len(), ",");
        let before = comma.and_then(|at| self.within(at, self.data.len(), field.before));
        let Some(at) = before.map(|at| at + field.before.len()) else { return Found::Nothing };
        self.value(at, field.value).map_or(Found::Wrong(at), Found::Is)
    }

    /// The next header that can be read.
    fn walk(&self, walk: &mut Walk, field: Field) -> Option<Span> {
        while walk.within {
            match self.next_in_line(walk.at, field) {
                Found::Is(span) => return Some(span),
                Found::Nothing => walk.within = false,
                Found::Wrong(at) => walk.at = at,
            }
        }
        loop {
            match self.header(walk.at, field) {
                Found::Is(span) => {
                    walk.within = true;
                    return Some(span);
                }
                Found::Nothing => return None,
                Found::Wrong(at) => walk.at = at,
            }
        }
    }

    /// The next header with an address.
    pub fn host(&self, walk: &mut Walk, field: Field) -> Option<Host> {
        let host = self.host_at(self.walk(walk, field)?)?;
        walk.at = host.span.end();
        Some(host)
    }

    fn host_at(&self, span: Span) -> Option<Host> {
        let (address, end) = self.address(span.at, self.data.len(), false)?;
        let (port, _) = self.port(end)?;
        Some(Host { span, address, port })
    }

    /// The address that a request is for.
    pub fn request(&self) -> Option<Host> {
        let method = count(self.data, u8::is_ascii_alphabetic);
        let line = count(self.data, |c| !matches!(c, b'\r' | b'\n'));
        let from = method + 1;
        if method == 0 || from >= line {
            return None;
        }
        let at = (from..line).find(|at| begins(&self.data[*at..], "sip:"))? + 4;
        self.host_at(self.value(at, Value::User)?)
    }

    /// Where the part of a header that these parameters belong to ends.
    fn limit(&self, from: usize) -> usize {
        self.within(from, self.data.len(), ",").unwrap_or(self.data.len())
    }

    /// The text of a parameter of a header, from its value on.
    pub fn parameter(&self, from: usize, name: &str) -> Option<&'a [u8]> {
        let at = self.within(from, self.limit(from), name)? + name.len();
        self.data.get(at..)
    }

    /// The number of a parameter of a header, and where it stands.
    pub fn numeric_parameter(&self, from: usize, name: &str) -> Found<(u32, Span)> {
        let Some(at) = self.within(from, self.limit(from), name) else { return Found::Nothing };
        let at = at + name.len();
        let span = Span { at, len: count(&self.data[at..], u8::is_ascii_digit) };
        self.number(span).map_or(Found::Wrong(at), |value| Found::Is((value, span)))
    }

    /// The address of a parameter of a header, and where it stands.
    pub fn address_parameter(
        &self,
        from: usize,
        name: &str,
        plain: bool,
    ) -> Option<(IpAddr, Span)> {
        let limit = self.limit(from);
        let at = self.within(from, limit, name)? + name.len();
        let (address, end) = self.address(at, limit, plain)?;
        Some((address, Span { at, len: end - at }))
    }

    /// A line of the session description, from `from` on, before one that begins as `end` does.
    pub fn description(&self, from: usize, field: Field, end: Option<Field>) -> Found<Span> {
        let mut at = from;
        while let Some(line) = self.next_line(&mut at) {
            let text = &self.data[line..];
            if end.is_some_and(|end| begins(text, end.name)) {
                return Found::Nothing;
            }
            if !begins(text, field.name) {
                continue;
            }
            let value = line + field.name.len();
            let here = if field.before.is_empty() {
                Some(value)
            } else {
                let len = count(&self.data[value..], |c| !matches!(c, b'\r' | b'\n'));
                let last = (value + len).min(self.data.len().saturating_sub(field.before.len()));
                (value..last)
                    .find(|at| self.data[*at..].starts_with(field.before.as_bytes()))
                    .map(|at| at + field.before.len())
            };
            return match here.and_then(|at| self.value(at, field.value)) {
                Some(span) => Found::Is(span),
                None => Found::Wrong(here.unwrap_or(value)),
            };
        }
        Found::Nothing
    }

    /// An address of the session description, and where it stands.
    pub fn described(&self, from: usize, field: Field, end: Field) -> Option<(IpAddr, Span)> {
        let span = self.description(from, field, Some(end)).is()?;
        let (address, _) = self.address(span.at, span.end(), true)?;
        Some((address, span))
    }

    /// Where the message of a stream at the start of the data ends: as far as its Content-Length
    /// says, after an empty line. `None` if it is not whole or has none.
    pub fn end_in_stream(&self) -> Option<usize> {
        let length = self.header(0, LENGTH).is()?;
        let rest = &self.data[length.end()..];
        let head = length.end() + rest.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
        head.checked_add(self.number(length)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sip_addresses_are_found_at_their_offsets() {
        let host = |line: &str, field, ipv6| {
            let text = format!("x\r\n{line}\r\n\r\n");
            let host = Message::new(text.as_bytes(), ipv6).host(&mut Walk::default(), field);
            host.map(|h| (h.span.at - 3, h.span.len, h.address.to_string(), h.port))
        };
        for (line, field, ipv6, want) in [
            (
                "Contact: <sip:b@198.18.0.2:5070>",
                CONTACT,
                false,
                Some((16, 15, "198.18.0.2", 5070)),
            ),
            ("m: <sip:198.18.0.2>;tag=4", CONTACT, false, Some((8, 10, "198.18.0.2", 5060))),
            (
                "Via : SIP/2.0/UDP 198.18.0.1:5060;x",
                VIA_UDP,
                false,
                Some((18, 15, "198.18.0.1", 5060)),
            ),
            ("Via: SIP/2.0/TCP 198.18.0.1", VIA_UDP, false, None),
            ("To:\r\n <sip:a@[2001:db8::1]:9999>", TO, true, Some((13, 18, "2001:db8::1", 9999))),
            ("To: <sip:a@198.18.0.1:99>", TO, false, None),
            ("From: <sip:bob@example.org>", FROM, false, None),
            ("Fromage: <sip:bob@198.18.0.1>", FROM, false, None),
        ] {
            let want = want.map(|(at, len, a, p)| (at, len, a.to_owned(), p));
            assert_eq!(host(line, field, ipv6), want, "{line}");
        }
        let request = Message::new(b"INVITE sip:bob@198.18.0.2:5070 SIP/2.0\r\n", false).request();
        assert_eq!(request.map(|h| (h.span, h.port)), Some((Span { at: 15, len: 15 }, 5070)));
    }

    #[test]
    fn sip_messages_in_a_stream_end_at_their_content_length() {
        let data =
            "BYE sip:a@198.18.0.1 SIP/2.0\r\nCSeq: 7 BYE\r\nl: 2\r\n\r\nabSIP/2.0 200 OK\r\n";
        let end = Message::new(data.as_bytes(), false).end_in_stream().unwrap();
        assert_eq!(&data[end..], "SIP/2.0 200 OK\r\n");
        assert_eq!(Message::new(b"GET / HTTP/1.1\r\n\r\n", false).end_in_stream(), None);
    }
}
