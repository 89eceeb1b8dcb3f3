// SPDX-License-Identifier: Apache-2.0

//! Words, numbers, addresses and signs of a filter.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::names;
use crate::{Error, Result};

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Number(u32),
    /// Up to four numbers with points: the value without the parts that are left out, and how many
    /// bits there are.
    V4(u32, u32),
    V6(u128),
    Mac([u8; 6]),
    Word(String),
    /// A word after a backslash, which is never a keyword.
    Name(String),
    Sign(&'static str),
    End,
}

/// A token and its bytes in the text.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub token: Token,
    pub at: Range<usize>,
}

const SIGNS: [&str; 25] = [
    "&&", "||", "<<", ">>", "<=", ">=", "!=", "==", "(", ")", "[", "]", "!", "=", "<", ">", "+",
    "-", "*", "/", "%", "^", "&", "|", ":",
];

pub(crate) fn tokens(text: &str) -> Result<Vec<Placed>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
            continue;
        }
        let (token, len) = one(rest).map_err(|(why, len)| Error::new(at..at + len, why))?;
        found.push(Placed { token, at: at..at + len });
        at += len;
    }
    found.push(Placed { token: Token::End, at: text.len()..text.len() });
    Ok(found)
}

type One = std::result::Result<(Token, usize), (String, usize)>;

fn one(rest: &str) -> One {
    if let Some((mac, len)) = mac(rest) {
        return Ok((Token::Mac(mac), len));
    }
    // Within brackets `0:2` is an offset and a size.
    let len = span(rest, |byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.');
    let run = rest.get(..len).unwrap_or_default();
    if run.contains("::") || run.matches(':').count() >= 3 {
        return match run.parse::<Ipv6Addr>() {
            Ok(address) => Ok((Token::V6(address.into()), len)),
            Err(_) => Err((format!("\"{run}\" is no address"), len)),
        };
    }
    if let Some(name) = rest.strip_prefix('\\') {
        return match word(name) {
            "" => Err(("a name follows a backslash".into(), 1)),
            word => Ok((Token::Name(word.into()), 1 + word.len())),
        };
    }
    let found = word(rest);
    if !found.is_empty() {
        return token_of(found).map(|token| (token, found.len())).map_err(|why| (why, found.len()));
    }
    match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        Some(&sign) => Ok((Token::Sign(alias(sign)), sign.len())),
        None => {
            let len = rest.chars().next().map_or(0, char::len_utf8);
            Err(("no part of a filter begins with this".into(), len))
        }
    }
}

fn alias(sign: &'static str) -> &'static str {
    match sign {
        "==" => "=",
        sign => sign,
    }
}

fn span(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| belongs(*byte)).count()
}

/// Letters, digits, points and hyphens, of which hyphens are not the last.
fn word(text: &str) -> &str {
    let len = span(text, |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let word = text.get(..len).unwrap_or_default();
    if !word.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return "";
    }
    word.trim_end_matches(['-', '_'])
}

fn token_of(word: &str) -> std::result::Result<Token, String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(value) = names::constant(word) {
        return Ok(Token::Number(value));
    }
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    if let Some(hex) = hex.filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let value = u32::from_str_radix(hex, 16);
        return value.map(Token::Number).map_err(|_| format!("{word} is no number of 32 bits"));
    }
    if digits(word) {
        let (text, radix) = match word.strip_prefix('0') {
            Some(octal) if !octal.is_empty() => (octal, 8),
            _ => (word, 10),
        };
        let value = u32::from_str_radix(text, radix);
        return value.map(Token::Number).map_err(|_| format!("{word} is no number of 32 bits"));
    }
    if word.contains('.') && word.split('.').all(digits) {
        let parts: Vec<&str> = word.split('.').collect();
        let parts: Option<Vec<u32>> = parts
            .iter()
            .map(|part| part.parse::<u8>().ok().map(u32::from))
            .collect::<Option<_>>()
            .filter(|parts: &Vec<u32>| parts.len() <= 4);
        let Some(parts) = parts else { return Err(format!("{word} is no address")) };
        let value = parts.iter().fold(0, |value, part| value << 8 | part);
        return Ok(Token::V4(value, 8 * parts.len() as u32));
    }
    Ok(Token::Word(word.into()))
}

/// Six numbers of two hexadecimal digits at most, with colons or hyphens.
fn mac(text: &str) -> Option<([u8; 6], usize)> {
    let (mut mac, mut at, mut sign) = ([0; 6], 0, None);
    for (n, byte) in mac.iter_mut().enumerate() {
        if n > 0 {
            let found = *text.as_bytes().get(at)?;
            if !b":-".contains(&found) || sign.is_some_and(|sign| sign != found) {
                return None;
            }
            sign = Some(found);
            at += 1;
        }
        let rest = text.get(at..)?;
        let len = span(rest, |byte| byte.is_ascii_hexdigit());
        if !(1..=2).contains(&len) {
            return None;
        }
        *byte = u8::from_str_radix(rest.get(..len)?, 16).ok()?;
        at += len;
    }
    let next = text.as_bytes().get(at);
    let ends = next.is_none_or(|next| !next.is_ascii_alphanumeric() && !b":-.".contains(next));
    ends.then_some((mac, at))
}

/// An address of four parts, for messages.
pub(crate) fn dotted(value: u32) -> Ipv4Addr {
    value.into()
}
