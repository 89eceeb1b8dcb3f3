// SPDX-License-Identifier: Apache-2.0

//! The words of a line, and what they can be.

use std::net::IpAddr;

use penstock_wire::ethernet::Mac;

/// What is said about a word that means nothing.
pub fn unknown(word: &str) -> String {
    format!("unknown word \"{word}\"")
}

/// The words of a line, taken from the front. Messages are what follows the place in an error.
pub struct Words<'a> {
    words: &'a [String],
    last: &'a str,
}

impl<'a> Words<'a> {
    /// Of a line as [`lines`](crate::lines) returns it.
    pub fn new(words: &'a [String]) -> Self {
        Words { words, last: "" }
    }

    /// The next word, if there is one.
    // An iterator would bring a `take` of its own.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        self.last = first;
        Some(first)
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<&'a str> {
        self.words.first().map(String::as_str)
    }

    /// Takes the next word if it is this one.
    pub fn take(&mut self, word: &str) -> bool {
        let hit = self.peek() == Some(word);
        if hit {
            self.next();
        }
        hit
    }

    /// The argument of the word just taken.
    ///
    /// # Errors
    /// There is none.
    pub fn value(&mut self) -> Result<&'a str, String> {
        self.needed("a value")
    }

    /// The argument of the word just taken, a [`number`].
    ///
    /// # Errors
    /// There is none, or it is no number that fits.
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        self.read(number)
    }

    /// Like [`Words::number`], for a word that other words may follow before its value.
    ///
    /// # Errors
    /// As there.
    pub fn number_after<T: TryFrom<u64>>(&mut self, of: &str) -> Result<T, String> {
        let text = self.value()?;
        number(text).ok_or_else(|| format!("\"{text}\" is not a valid value for \"{of}\""))
    }

    /// The argument `on` or `off`.
    ///
    /// # Errors
    /// There is none, or it is neither.
    pub fn on_off(&mut self) -> Result<bool, String> {
        let of = self.last;
        match self.value()? {
            "on" => Ok(true),
            "off" => Ok(false),
            other => Err(format!("\"{of}\" must be \"on\" or \"off\", not \"{other}\"")),
        }
    }

    /// A link address.
    ///
    /// # Errors
    /// There is none, or it is not one.
    pub fn mac(&mut self) -> Result<Mac, String> {
        let text = self.value()?;
        text.parse().map_err(|_| format!("\"{text}\" is not a link address"))
    }

    /// An address of either family.
    ///
    /// # Errors
    /// There is none, or it is not one.
    pub fn address(&mut self) -> Result<IpAddr, String> {
        let text = self.value()?;
        address(text).ok_or_else(|| format!("\"{text}\" is not an address"))
    }

    /// The next word, which must be there: `what` it is.
    ///
    /// # Errors
    /// There is none.
    pub fn needed(&mut self, what: &str) -> Result<&'a str, String> {
        let behind = self.last;
        self.next().ok_or_else(|| match behind {
            "" => format!("{what} is missing"),
            _ => format!("\"{behind}\" needs {what}"),
        })
    }

    /// The argument of the word just taken, as `read` understands it.
    ///
    /// # Errors
    /// There is none, or it is not understood.
    pub fn read<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Result<T, String> {
        let of = self.last;
        let text = self.value()?;
        read(text).ok_or_else(|| format!("\"{text}\" is not a valid value for \"{of}\""))
    }

    /// Nothing may follow.
    ///
    /// # Errors
    /// Another word does.
    pub fn end(&mut self) -> Result<(), String> {
        self.next().map_or(Ok(()), |word| Err(unknown(word)))
    }
}

/// Decimal, hexadecimal with `0x` or octal with a leading zero, as `strtoul` reads them.
pub fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
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
pub fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}
