// SPDX-License-Identifier: Apache-2.0

//! Tokens of the language.
//!
//! As in nft's scanner the longest of several possible readings wins: `10.0.0.1` is one token and
//! `10.0` three, `a-b` is one and `1-2` three, `12:34` is a class id before a blank and a mapping
//! otherwise. Words are not told apart here: whether `saddr` is a keyword depends on what stands
//! before it, so the parser asks for it by text.

use crate::source::Loc;

/// Kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Tok {
    Eof,
    Newline,
    Semicolon,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    LeftParen,
    RightParen,
    Comma,
    Dot,
    Colon,
    Slash,
    Dash,
    Plus,
    Asterisk,
    At,
    Dollar,
    Assign,
    Lshift,
    Rshift,
    Ampersand,
    Pipe,
    Caret,
    Not,
    Eq,
    Neq,
    Lt,
    Lte,
    Gt,
    Gte,
    /// A decimal, octal (`010`) or hexadecimal number of up to 64 bits.
    Num(u64),
    /// Letters, digits and `/-_.`, not starting with a digit: a keyword, or a string.
    Word,
    /// A string that is no word: an address, a time, a class id, a number too large for
    /// [`Tok::Num`].
    Str,
    /// `"…"`; the text is without the quotes.
    Quoted,
    /// A word with an asterisk at its end, or with an escaped one.
    AsteriskString,
    /// A byte that starts no token.
    Junk,
}

/// A token and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub tok: Tok,
    /// Where, quotes and brackets included.
    pub loc: Loc,
}

/// Reads tokens of one text.
#[derive(Clone, Copy, Debug)]
pub struct Lexer {
    /// Number of the text.
    pub input: u32,
    /// Next byte.
    pub pos: usize,
}

impl Lexer {
    /// At the start of a text.
    pub fn new(input: u32) -> Self {
        Lexer { input, pos: 0 }
    }

    /// The next token; [`Tok::Eof`] at the end, again and again. `text` is the text that the lexer
    /// was made for.
    pub fn next(&mut self, text: &str) -> Token {
        let bytes = text.as_bytes();
        loop {
            match bytes.get(self.pos) {
                Some(b' ' | b'\t') => self.pos += 1,
                Some(b'#') => self.pos += line_len(&bytes[self.pos..]),
                Some(b'\\') if bytes.get(self.pos + 1) == Some(&b'\n') => self.pos += 2,
                _ => break,
            }
        }
        let start = self.pos.min(bytes.len());
        let rest = &bytes[start..];
        let (tok, len) = read(rest);
        self.pos = start + len;
        // A stray byte of a longer character is reported as the whole character.
        while tok == Tok::Junk && !text.is_char_boundary(self.pos) {
            self.pos += 1;
        }
        let end = self.pos.max(start + usize::from(tok == Tok::Eof));
        Token { tok, loc: Loc { input: self.input, start: start as u32, end: end as u32 } }
    }
}

fn line_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|&b| b == b'\n').unwrap_or(bytes.len())
}

fn read(rest: &[u8]) -> (Tok, usize) {
    let Some(&first) = rest.first() else { return (Tok::Eof, 0) };
    let second = rest.get(1).copied().unwrap_or(0);
    match first {
        b'\n' => (Tok::Newline, 1),
        b';' => (Tok::Semicolon, 1),
        b'{' => (Tok::LeftBrace, 1),
        b'}' => (Tok::RightBrace, 1),
        b'[' => bracketed(rest),
        b']' => (Tok::RightBracket, 1),
        b'(' => (Tok::LeftParen, 1),
        b')' => (Tok::RightParen, 1),
        b',' => (Tok::Comma, 1),
        b'/' => (Tok::Slash, 1),
        b'-' => (Tok::Dash, 1),
        b'+' => (Tok::Plus, 1),
        b'*' => (Tok::Asterisk, 1),
        b'@' => (Tok::At, 1),
        b'$' => (Tok::Dollar, 1),
        b'=' if second == b'=' => (Tok::Eq, 2),
        b'=' => (Tok::Assign, 1),
        b'!' if second == b'=' => (Tok::Neq, 2),
        b'!' => (Tok::Not, 1),
        b'<' if second == b'=' => (Tok::Lte, 2),
        b'<' if second == b'<' => (Tok::Lshift, 2),
        b'<' => (Tok::Lt, 1),
        b'>' if second == b'=' => (Tok::Gte, 2),
        b'>' if second == b'>' => (Tok::Rshift, 2),
        b'>' => (Tok::Gt, 1),
        b'&' => (Tok::Ampersand, 1),
        b'|' => (Tok::Pipe, 1),
        b'^' => (Tok::Caret, 1),
        b'"' => match rest[1..].iter().position(|&b| b == b'"') {
            Some(len) => (Tok::Quoted, len + 2),
            None => (Tok::Junk, 1),
        },
        b'\\' if second == b'*' => (Tok::AsteriskString, 2),
        b'0'..=b'9' => number_or_address(rest),
        b':' => match ip6_len(rest) {
            0 => (Tok::Colon, 1),
            len => (Tok::Str, len),
        },
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.' => word_or_address(rest),
        _ => (Tok::Junk, 1),
    }
}

/// `[2001:db8::1]`, the brackets as in RFC 2732.
fn bracketed(rest: &[u8]) -> (Tok, usize) {
    let len = ip6_len(&rest[1..]);
    if len > 0 && rest.get(len + 1) == Some(&b']') {
        (Tok::Str, len + 2)
    } else {
        (Tok::LeftBracket, 1)
    }
}

fn word_len(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.') => rest
            .iter()
            .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.')))
            .unwrap_or(rest.len()),
        _ => 0,
    }
}

fn word_or_address(rest: &[u8]) -> (Tok, usize) {
    let len = word_len(rest);
    if rest.get(len) == Some(&b'*') {
        return (Tok::AsteriskString, len + 1);
    }
    if rest.get(len) == Some(&b'\\') && rest.get(len + 1) == Some(&b'*') {
        return (Tok::AsteriskString, len + 2 + word_len(&rest[len + 2..]));
    }
    if rest[0].is_ascii_hexdigit() {
        let address = address_len(rest);
        if address > len {
            return (Tok::Str, address);
        }
    }
    let tok = match &rest[..len] {
        b"." => Tok::Dot,
        b"eq" => Tok::Eq,
        b"ne" => Tok::Neq,
        b"lt" => Tok::Lt,
        b"le" => Tok::Lte,
        b"gt" => Tok::Gt,
        b"ge" => Tok::Gte,
        b"and" => Tok::Ampersand,
        b"or" => Tok::Pipe,
        b"xor" => Tok::Caret,
        b"not" => Tok::Not,
        b"lshift" => Tok::Lshift,
        b"rshift" => Tok::Rshift,
        _ => Tok::Word,
    };
    (tok, len)
}

/// Names of EtherTypes that start with a digit.
const VLAN_NAMES: [&[u8]; 4] = [b"8021ad", b"8021q", b"802.1ad", b"802.1q"];

fn number_or_address(rest: &[u8]) -> (Tok, usize) {
    let hexadecimal =
        rest[0] == b'0' && matches!(rest.get(1), Some(b'x' | b'X')) && digits(&rest[2..], 16) > 0;
    let len = if hexadecimal { 2 + digits(&rest[2..], 16) } else { digits(rest, 10) };
    let vlan = VLAN_NAMES.iter().find(|name| rest.starts_with(name)).map_or(0, |name| name.len());
    let text = address_len(rest).max(ip4_len(rest)).max(time_len(rest)).max(vlan);
    if text > len {
        return (Tok::Str, text);
    }
    let (radix, body) = match (hexadecimal, rest[0]) {
        (true, _) => (16, &rest[2..len]),
        (false, b'0') => (8, &rest[..len]),
        (false, _) => (10, &rest[..len]),
    };
    let value =
        std::str::from_utf8(body).ok().and_then(|text| u64::from_str_radix(text, radix).ok());
    (value.map_or(Tok::Str, Tok::Num), len)
}

fn digits(rest: &[u8], radix: u32) -> usize {
    rest.iter().position(|&b| !(b as char).is_digit(radix)).unwrap_or(rest.len())
}

/// `1d2h3m4s5ms`, each part optional, in this order. 0 if there is none.
fn time_len(rest: &[u8]) -> usize {
    let mut len = 0;
    for unit in [&b"d"[..], b"h", b"m", b"s", b"ms"] {
        let number = digits(&rest[len..], 10);
        let after = &rest[len + number..];
        // `5ms` is milliseconds, not minutes followed by an `s`.
        let minutes = unit == b"m" && after.starts_with(b"ms");
        if number > 0 && after.starts_with(unit) && !minutes {
            len += number + unit.len();
        }
    }
    len
}

fn ip4_len(rest: &[u8]) -> usize {
    let mut len = 0;
    for part in 0..4 {
        let number = digits(&rest[len..], 10).min(3);
        if number == 0 {
            return 0;
        }
        len += number;
        if part < 3 {
            if rest.get(len) != Some(&b'.') {
                return 0;
            }
            len += 1;
        }
    }
    len
}

/// The longest of an IPv6 address, a MAC address and a class id.
fn address_len(rest: &[u8]) -> usize {
    let run = digits(&rest[..rest.len().min(5)], 16);
    if rest.get(run) != Some(&b':') || run > 4 {
        return 0;
    }
    ip6_len(rest).max(mac_len(rest)).max(classid_len(rest))
}

fn mac_len(rest: &[u8]) -> usize {
    let mut len = 0;
    for part in 0..6 {
        let number = digits(&rest[len..], 16).min(2);
        if number == 0 {
            return 0;
        }
        len += number;
        if part < 5 {
            if rest.get(len) != Some(&b':') {
                return 0;
            }
            len += 1;
        }
    }
    len
}

/// `1:2` only where a blank, a newline or one of `:-},` follows: `{ 22:drop }` is a mapping.
fn classid_len(rest: &[u8]) -> usize {
    let major = digits(rest, 16);
    let minor = rest.get(major + 1..).map_or(0, |r| digits(r, 16));
    let len = major + 1 + minor;
    let end = matches!(rest.get(len), Some(b' ' | b'\t' | b'\n' | b':' | b'-' | b'}' | b','));
    if (1..=4).contains(&major) && (1..=4).contains(&minor) && end { len } else { 0 }
}

/// Length of the longest IPv6 address that the text starts with, 0 if there is none.
fn ip6_len(rest: &[u8]) -> usize {
    let (mut len, mut groups, mut elided, mut best) = (0, 0, false, 0);
    if rest.starts_with(b"::") {
        (len, elided, best) = (2, true, 2);
    }
    loop {
        let group = digits(&rest[len..], 16).min(4);
        if group == 0 {
            return best;
        }
        let ip4 = ip4_len(&rest[len..]);
        if ip4 > 0 && (groups == 6 || elided && groups <= 5) {
            best = best.max(len + ip4);
        }
        len += group;
        groups += 1;
        if elided && groups <= 7 || !elided && groups == 8 {
            best = best.max(len);
        }
        if groups == 8 {
            return best;
        }
        match (rest.get(len), rest.get(len + 1)) {
            (Some(b':'), Some(b':')) if !elided => {
                len += 2;
                elided = true;
                best = len;
            }
            (Some(b':'), Some(b)) if b.is_ascii_hexdigit() => len += 1,
            _ => return best,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(0);
        let mut out = Vec::new();
        loop {
            let token = lexer.next(text);
            let at = text
                .get(token.loc.start as usize..(token.loc.end as usize).min(text.len()))
                .unwrap_or("");
            match token.tok {
                Tok::Eof => return out,
                Tok::Num(n) => out.push(format!("{n}")),
                Tok::Word => out.push(format!("w:{at}")),
                Tok::Str => out.push(format!("s:{at}")),
                Tok::Quoted => out.push(format!("q:{at}")),
                Tok::AsteriskString => out.push(format!("a:{at}")),
                Tok::Junk => out.push(format!("junk:{at}")),
                _ => out.push(at.to_string()),
            }
        }
    }

    #[test]
    fn the_longest_token_wins() {
        for (text, expected) in [
            ("ip saddr 10.0.0.0/8", "w:ip w:saddr s:10.0.0.0 / 8"),
            ("1.1.1.1-2.2.2.2", "s:1.1.1.1 - s:2.2.2.2"),
            ("a-b 1-2", "w:a-b 1 - 2"),
            ("1h30m 5ms 90 10d", "s:1h30m s:5ms 90 s:10d"),
            ("12:34 {22:drop}{1:2}", "s:12:34 { 22 : w:drop } { s:1:2 }"),
            ("bcad:dada-bcad:dadc ", "s:bcad:dada - s:bcad:dadc"),
            ("::1 :: fe80::/10 dead::beef 1::2", "s:::1 s::: s:fe80:: / 10 s:dead::beef s:1::2"),
            ("::ffff:1.2.3.4 1:2:3:4:5:6:7:8", "s:::ffff:1.2.3.4 s:1:2:3:4:5:6:7:8"),
            ("00:11:22:33:44:55", "s:00:11:22:33:44:55"),
            ("[2001:db8::1]:80 [x", "s:[2001:db8::1] : 80 [ w:x"),
            ("010 0x1F 08 18446744073709551616", "8 31 s:08 s:18446744073709551616"),
            ("eth0* dummy\\* a\\*b \\* *", "a:eth0* a:dummy\\* a:a\\*b a:\\* *"),
            ("saddr.x . y .z", "w:saddr.x . w:y w:.z"),
            ("a \\\n b # c\nd", "w:a w:b \n w:d"),
            ("!= ! not ne << lshift <= le", "!= ! not ne << lshift <= le"),
            ("\"a b\" \"open", "q:\"a b\" junk:\" w:open"),
            ("$x @s @nh,0,8", "$ w:x @ w:s @ w:nh , 0 , 8"),
            ("10 mbytes/second 5/hour", "10 w:mbytes/second 5 / w:hour"),
            ("8021q 802.1ad", "s:8021q s:802.1ad"),
            ("~ é", "junk:~ junk:é"),
        ] {
            assert_eq!(tokens(text).join(" "), expected, "{text}");
        }
    }
}
