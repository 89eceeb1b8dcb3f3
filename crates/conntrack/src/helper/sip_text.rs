// SPDX-License-Identifier: Apache-2.0

//! Parts of SIP messages and session descriptions, and where they stand.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port that is meant where none is said.
const PORT: u16 = 5060;

/// A piece of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub at: usize,
    pub text: &'a str,
}

/// An address with its port, and where both stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host<'a> {
    pub part: Part<'a>,
    pub address: IpAddr,
    pub port: u16,
}

/// A message.
#[derive(Debug)]
pub(super) struct Message<'a> {
    lines: Vec<Part<'a>>,
    body: Part<'a>,
    /// Where the next message may begin.
    pub end: usize,
}

fn lines<'a>(part: Part<'a>) -> Vec<Part<'a>> {
    let mut at = part.at;
    part.text
        .split_inclusive('\n')
        .map(|line| {
            let here = at;
            at += line.len();
            Part { at: here, text: line.trim_end_matches(['\r', '\n']) }
        })
        .collect()
}

impl<'a> Part<'a> {
    fn slice(&self, from: usize, to: usize) -> Part<'a> {
        Part { at: self.at + from, text: &self.text[from..to] }
    }

    /// The address and port at the start of this part; a name is none.
    fn host_here(&self) -> Option<Host<'a>> {
        let (address, len): (IpAddr, usize) = if let Some(rest) = self.text.strip_prefix('[') {
            let end = rest.find(']')?;
            (rest[..end].parse::<Ipv6Addr>().ok()?.into(), end + 2)
        } else {
            let end = self
                .text
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(self.text.len());
            (self.text[..end].parse::<Ipv4Addr>().ok()?.into(), end)
        };
        let mut host = Host { part: self.slice(0, len), address, port: PORT };
        if let Some(rest) = self.text[len..].strip_prefix(':') {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            host.port = rest[..digits].parse().ok()?;
            host.part = self.slice(0, len + 1 + digits);
        }
        Some(host)
    }

    /// The address of the first URI in this part, or of a Via.
    pub fn host(&self) -> Option<Host<'a>> {
        let after = |word: &str| self.text.find(word).map(|at| at + word.len());
        let at = match after("sip:").or(after("sips:")) {
            Some(at) => {
                let end =
                    self.text[at..].find(['>', ';', ' ', ',']).map_or(self.text.len(), |e| at + e);
                self.text[at..end].find('@').map_or(at, |user| at + user + 1)
            }
            None => {
                let at = after("SIP/2.0/UDP").or(after("SIP/2.0/TCP"))?;
                at + self.text[at..].bytes().take_while(|c| *c == b' ').count()
            }
        };
        self.slice(at, self.text.len()).host_here()
    }

    /// The number after a name.
    pub fn parameter(&self, name: &str) -> Option<u32> {
        let rest = &self.text[self.text.find(name)? + name.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok()
    }

    /// The address of a line `c=IN IP4 …` of the right family.
    pub fn connection(&self, ipv4: bool) -> Option<Host<'a>> {
        let prefix = if ipv4 { "c=IN IP4 " } else { "c=IN IP6 " };
        self.text.starts_with(prefix).then(|| self.last_address(prefix.len()))?
    }

    /// The address of a line `o=… IN IP4 …`.
    pub fn owner(&self) -> Option<Host<'a>> {
        if !self.text.starts_with("o=") {
            return None;
        }
        let at = self.text.find(" IN IP4 ").or(self.text.find(" IN IP6 "))? + 8;
        self.last_address(at)
    }

    fn last_address(&self, at: usize) -> Option<Host<'a>> {
        let end = self.text[at..].find(['/', ' ']).map_or(self.text.len(), |e| at + e);
        let part = self.slice(at, end);
        Some(Host { part, address: part.text.parse().ok()?, port: 0 })
    }
}

impl<'a> Message<'a> {
    /// Parses a message that begins at `at` of the data. In a stream it must be whole, as its
    /// Content-Length says.
    pub fn parse(data: &'a str, at: usize, stream: bool) -> Option<Self> {
        let head = data.find("\r\n\r\n").map_or(data.len(), |end| end + 4);
        let lines = lines(Part { at, text: &data[..head] });
        let first = lines.first()?.text;
        if !first.starts_with("SIP/2.0 ") && !first.ends_with(" SIP/2.0") {
            return None;
        }
        let mut message = Message {
            lines,
            body: Part { at: at + head, text: &data[head..] },
            end: at + data.len(),
        };
        if stream {
            let length: usize =
                message.header("Content-Length", Some('l'))?.text.trim().parse().ok()?;
            let body = message.body.text.get(..length)?;
            message.body.text = body;
            message.end = message.body.at + length;
        }
        Some(message)
    }

    /// The first line.
    pub fn start_line(&self) -> Part<'a> {
        self.lines[0]
    }

    /// The status of a response.
    pub fn code(&self) -> Option<u16> {
        self.lines[0].text.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// The method of a request.
    pub fn method(&self) -> &'a str {
        self.lines[0].text.split(' ').next().unwrap_or("")
    }

    /// The values of headers of this name, or of its short form.
    fn headers(&self, name: &str, short: Option<char>) -> impl Iterator<Item = Part<'a>> {
        self.lines.iter().skip(1).filter_map(move |line| {
            let colon = line.text.find(':')?;
            let key = line.text[..colon].trim_end();
            let is = key.eq_ignore_ascii_case(name)
                || short.is_some_and(|s| {
                    key.len() == 1 && key.as_bytes()[0].eq_ignore_ascii_case(&(s as u8))
                });
            is.then(|| line.slice(colon + 1, line.text.len()))
        })
    }

    /// The first header of this name.
    pub fn header(&self, name: &str, short: Option<char>) -> Option<Part<'a>> {
        let value = self.headers(name, short).next()?;
        let blanks = value.text.len() - value.text.trim_start().len();
        Some(value.slice(blanks, value.text.len()))
    }

    /// Number and method of the request that this is or answers.
    pub fn cseq(&self) -> Option<(u32, &'a str)> {
        let (number, method) = self.header("CSeq", None)?.text.split_once(' ')?;
        Some((number.parse().ok()?, method.trim()))
    }

    /// Who can be reached where: several may stand in one header.
    pub fn contacts(&self) -> Vec<Part<'a>> {
        self.headers("Contact", Some('m'))
            .flat_map(|value| {
                let mut at = 0;
                value
                    .text
                    .split_inclusive(',')
                    .map(|one| {
                        let here = at;
                        at += one.len();
                        value.slice(here, at)
                    })
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// How long a registration holds.
    pub fn expires(&self) -> Option<u32> {
        self.header("Expires", None)?.text.trim().parse().ok()
    }

    /// Where the body begins in the data.
    pub fn body_start(&self) -> usize {
        self.body.at
    }

    /// The lines of the body.
    pub fn body_lines(&self) -> Vec<Part<'a>> {
        lines(self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sip_addresses_are_found_at_their_offsets() {
        let host = |text: &'static str| {
            Part { at: 0, text }
                .host()
                .map(|h| (h.part.at, h.part.text, h.address.to_string(), h.port))
        };
        for (text, want) in [
            (
                "INVITE sip:bob@198.18.0.2:5070 SIP/2.0",
                Some((15, "198.18.0.2:5070", "198.18.0.2", 5070)),
            ),
            ("<sip:198.18.0.2>;tag=4", Some((5, "198.18.0.2", "198.18.0.2", 5060))),
            (
                "SIP/2.0/UDP 198.18.0.1:5060;branch=z",
                Some((12, "198.18.0.1:5060", "198.18.0.1", 5060)),
            ),
            ("<sip:a@[2001:db8::1]:99>", Some((7, "[2001:db8::1]:99", "2001:db8::1", 99))),
            ("sip:bob@example.org", None),
            ("nothing", None),
        ] {
            assert_eq!(host(text), want.map(|(at, t, a, p)| (at, t, a.to_owned(), p)), "{text}");
        }
    }

    #[test]
    fn sip_messages_in_a_stream_end_at_their_content_length() {
        let data =
            "BYE sip:a@198.18.0.1 SIP/2.0\r\nCSeq: 7 BYE\r\nl: 2\r\n\r\nabSIP/2.0 200 OK\r\n";
        let message = Message::parse(data, 0, true).unwrap();
        assert_eq!(
            (message.method(), message.cseq(), message.code()),
            ("BYE", Some((7, "BYE")), None)
        );
        assert_eq!(&data[message.end..], "SIP/2.0 200 OK\r\n");
        assert!(Message::parse(&data[..data.len() - 20], 0, true).is_none(), "not whole");
        assert!(Message::parse("GET / HTTP/1.1\r\n", 0, false).is_none());
    }
}
