// SPDX-License-Identifier: Apache-2.0

//! Options of a match or target, with their values.

use crate::words::Word;

/// An option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt {
    /// After `!`.
    pub not: bool,
    /// With its dashes.
    pub name: String,
    pub values: Vec<String>,
}

impl Opt {
    /// The one value.
    pub fn value(&self) -> Result<&str, String> {
        match &self.values[..] {
            [value] => Ok(value),
            _ => Err(format!("`{}` has one value", self.name)),
        }
    }

    /// The one value of an option that cannot be negated.
    pub fn plain(&self) -> Result<&str, String> {
        match self.not {
            true => Err(format!("`! {}` is not translated", self.name)),
            false => self.value(),
        }
    }

    /// The one value, a number: decimal, or hexadecimal after `0x`.
    pub fn number(&self) -> Result<u32, String> {
        number(self.value()?)
    }

    /// The operator of nft between the name of a field and the value.
    pub fn op(&self) -> &'static str {
        if self.not { "!= " } else { "" }
    }
}

/// A number: decimal, or hexadecimal after `0x`.
pub fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number"))
}

/// `VALUE[/MASK]`.
pub fn masked(text: &str) -> Result<(u32, u32), String> {
    match text.split_once('/') {
        Some((value, mask)) => Ok((number(value)?, number(mask)?)),
        None => Ok((number(text)?, u32::MAX)),
    }
}

/// `FIRST[:LAST]` with the bounds of a field of 16 bits for those that are missing.
pub fn range(text: &str) -> Result<(u32, u32), String> {
    let bound = |text: &str, missing| match text {
        "" => Ok(missing),
        text => number(text),
    };
    let (first, last) = match text.split_once(':') {
        Some((first, last)) => (bound(first, 0)?, bound(last, u16::MAX.into())?),
        None => (number(text)?, number(text)?),
    };
    match first <= last {
        true => Ok((first, last)),
        false => Err(format!("`{text}` is an empty range")),
    }
}

/// A range in the words of nft.
pub fn interval((first, last): (u32, u32)) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// The options of one match or target, which are taken one by one.
#[derive(Clone, Debug, Default)]
pub struct Args(pub Vec<Opt>);

impl Args {
    /// Takes the option that has one of these names.
    pub fn take(&mut self, names: &[&str]) -> Option<Opt> {
        let at = self.0.iter().position(|opt| names.contains(&&*opt.name))?;
        Some(self.0.remove(at))
    }

    /// Takes an option without values that cannot be negated.
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|o| o.name == name && !o.not && o.values.is_empty());
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// Takes the value of an option.
    pub fn value(&mut self, names: &[&str]) -> Result<Option<String>, String> {
        self.take(names).map(|opt| opt.plain().map(str::to_owned)).transpose()
    }

    /// Refuses what was not taken.
    pub fn end(&self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some(opt) => {
                let not = if opt.not { "! " } else { "" };
                Err(format!("`{not}{}` is not translated", opt.name))
            }
        }
    }
}

/// Reads the option at the front of words: up to the next one, or the next `!`.
pub fn option(words: &mut std::iter::Peekable<std::slice::Iter<'_, Word>>) -> Result<Opt, String> {
    let is_not = |word: &Word| word.text == "!" && !word.is_quoted;
    let mut not = words.next_if(|word| is_not(word)).is_some();
    let Some(name) = words.next().filter(|word| is_option(word)) else {
        return Err("a word is no option, and no value of one".to_owned());
    };
    // As old versions have it.
    not |= words.next_if(|word| is_not(word)).is_some();
    let mut values = Vec::new();
    while let Some(value) = words.next_if(|word| !is_option(word) && !is_not(word)) {
        values.push(value.text.clone());
    }
    Ok(Opt { not, name: name.text.clone(), values })
}

/// Whether a word is an option, and no negative number.
fn is_option(word: &Word) -> bool {
    let second = word.text.strip_prefix('-').and_then(|rest| rest.chars().next());
    !word.is_quoted && second.is_some_and(|c| !c.is_ascii_digit())
}
