//! Lines of an `ip -batch` file: comments, quotes, continuations, and the words of one line.

use std::net::{IpAddr, Ipv4Addr};

use penstock_wire::ethernet::Mac;

/// What is said about a word that means nothing.
pub(crate) fn unknown(word: &str) -> String {
    format!("unknown word \"{word}\"")
}

/// Logical lines with the number (from 1) of the first physical line of each; comments and blank lines are left out.
pub(crate) fn lines(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut all = Vec::new();
    let mut pending = String::new();
    let mut first = 0;
    for (i, line) in text.lines().enumerate() {
        if pending.is_empty() {
            first = i + 1;
        }
        let line = line.split('#').next().unwrap_or("");
        if let Some(head) = line.trim_end().strip_suffix('\\') {
            pending.push_str(head);
            pending.push(' ');
            continue;
        }
        pending.push_str(line);
        let words = words(&pending);
        pending.clear();
        if !words.is_empty() {
            all.push((first, words));
        }
    }
    let words = words(&pending);
    if !words.is_empty() {
        all.push((first, words));
    }
    all
}

fn words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = line.trim_start();
    while let Some(c) = rest.chars().next() {
        let (word, tail) = if c == '"' || c == '\'' {
            let body = &rest[1..];
            match body.find(c) {
                Some(end) => (&body[..end], &body[end + 1..]),
                None => (body, ""),
            }
        } else {
            rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()))
        };
        out.push(word.to_owned());
        rest = tail.trim_start();
    }
    out
}

/// The words of a line, taken from the front. Messages are what follows the place in an error.
pub(crate) struct Words<'a> {
    words: &'a [String],
    last: &'a str,
}

impl<'a> Words<'a> {
    pub(crate) fn new(words: &'a [String]) -> Self {
        Words { words, last: "" }
    }

    /// The next word, if there is one.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        self.last = first;
        Some(first)
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.words.first().map(String::as_str)
    }

    /// Takes the next word if it is this one.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let hit = self.peek() == Some(word);
        if hit {
            self.next();
        }
        hit
    }

    /// The argument of the word just taken.
    pub(crate) fn value(&mut self) -> Result<&'a str, String> {
        let of = self.last;
        self.next().ok_or_else(|| format!("\"{of}\" needs a value"))
    }

    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        let of = self.last;
        let text = self.value()?;
        number(text).ok_or_else(|| format!("\"{text}\" is not a valid value for \"{of}\""))
    }

    /// Like [`Words::number`], for a word that other words may follow before its value.
    pub(crate) fn number_after<T: TryFrom<u64>>(&mut self, of: &str) -> Result<T, String> {
        let text = self.value()?;
        number(text).ok_or_else(|| format!("\"{text}\" is not a valid value for \"{of}\""))
    }

    pub(crate) fn on_off(&mut self) -> Result<bool, String> {
        let of = self.last;
        match self.value()? {
            "on" => Ok(true),
            "off" => Ok(false),
            other => Err(format!("\"{of}\" must be \"on\" or \"off\", not \"{other}\"")),
        }
    }

    pub(crate) fn mac(&mut self) -> Result<Mac, String> {
        let text = self.value()?;
        text.parse().map_err(|_| format!("\"{text}\" is not a link address"))
    }

    pub(crate) fn address(&mut self) -> Result<IpAddr, String> {
        let text = self.value()?;
        address(text).ok_or_else(|| format!("\"{text}\" is not an address"))
    }
}

/// Decimal, hexadecimal with `0x` or octal with a leading zero, as `strtoul` reads them.
pub(crate) fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let n = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        u64::from_str_radix(&text[1..], 8)
    } else {
        text.parse()
    };
    T::try_from(n.ok()?).ok()
}

/// An address of either family.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// A prefix as a number with its length, and whether it is IPv6. `default`, `any` and `all` are length 0 of the
/// wanted family. A missing length is the whole address.
pub(crate) fn prefix(text: &str, six: bool) -> Option<(u128, u8, bool)> {
    if matches!(text, "default" | "any" | "all") {
        return Some((0, 0, six));
    }
    let (head, len) = match text.split_once('/') {
        Some((head, len)) => (head, Some(len)),
        None => (text, None),
    };
    // `ip` takes IPv4 prefixes with trailing bytes left out: 198.18/15.
    let address = address(head).or_else(|| {
        let bytes: Vec<u8> = head.split('.').map(|p| p.parse().ok()).collect::<Option<_>>()?;
        if bytes.len() >= 4 {
            return None;
        }
        let mut full = [0; 4];
        full[..bytes.len()].copy_from_slice(&bytes);
        Some(Ipv4Addr::from(full).into())
    })?;
    let (value, bits) = match address {
        IpAddr::V4(a) => (u128::from(u32::from(a)), 32),
        IpAddr::V6(a) => (u128::from(a), 128),
    };
    let len = match len {
        None => bits,
        Some(l) => match l.parse::<u8>() {
            Ok(l) if l <= bits => l,
            Ok(_) => return None,
            Err(_) => {
                let mask = u32::from(l.parse::<Ipv4Addr>().ok().filter(|_| bits == 32)?);
                if mask.leading_ones() + mask.trailing_zeros() < 32 && mask != 0 {
                    return None;
                }
                mask.leading_ones() as u8
            }
        },
    };
    Some((value, len, bits == 128))
}
