// SPDX-License-Identifier: Apache-2.0

//! The options of every command: the tables that parsers, usage texts, completion and manual pages
//! agree on.

use std::ffi::OsString;
use std::process::ExitCode;

use penstock_daemon::{err, out};

/// One option of a command.
#[derive(Clone, Copy)]
pub struct Opt {
    /// `-c`
    pub short: Option<char>,
    /// `--long`
    pub long: Option<&'static str>,
    /// What it takes; nothing for a flag.
    pub argument: Option<Argument>,
    /// What it does, in lines of a usage text.
    pub help: &'static str,
}

/// What an option takes.
#[derive(Clone, Copy)]
pub struct Argument {
    /// As the usage text names it.
    pub name: &'static str,
    /// What it can be.
    pub values: Values,
}

/// What an argument can be, for completion.
#[derive(Clone, Copy)]
pub enum Values {
    /// Anything.
    Any,
    /// Names of files.
    Files,
    /// Names of directories.
    Directories,
    /// One of these.
    OneOf(&'static [&'static str]),
}

/// A flag with both names.
pub const fn flag(short: char, long: &'static str, help: &'static str) -> Opt {
    Opt { short: Some(short), long: Some(long), argument: None, help }
}

/// A flag with a long name only.
pub const fn long(long: &'static str, help: &'static str) -> Opt {
    Opt { short: None, long: Some(long), argument: None, help }
}

impl Opt {
    /// Gives the option an argument.
    pub const fn takes(self, name: &'static str, values: Values) -> Opt {
        let Opt { short, long, help, .. } = self;
        Opt { short, long, argument: Some(Argument { name, values }), help }
    }

    /// Its names as they are typed, the short one first.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let short = self.short.map(|c| format!("-{c}"));
        short.into_iter().chain(self.long.map(|l| format!("--{l}")))
    }
}

/// A word of a command line as text.
///
/// # Errors
/// It is none.
pub fn text(word: OsString) -> Result<String, String> {
    word.into_string().map_err(|word| format!("{} is no text", word.display()))
}

/// The two parts of an option's argument, neither of them empty.
///
/// # Errors
/// It does not have them: a sentence that says which form it has.
pub fn pair(
    option: &str,
    form: &str,
    text: &str,
    between: char,
) -> Result<(String, String), String> {
    let parts = text.split_once(between);
    let parts = parts.filter(|(left, right)| !left.is_empty() && !right.is_empty());
    parts
        .map(|(left, right)| (left.to_owned(), right.to_owned()))
        .ok_or_else(|| format!("--{option} takes {form}, not `{text}`"))
}

/// What a command has to do. Where that is only to say how it is used, because it was asked
/// (`None`) or because of an error, that is done, and the command ends with the status.
pub fn given<T>(
    command: &str,
    parsed: Result<Option<T>, String>,
    usage: impl FnOnce() -> String,
) -> Result<T, ExitCode> {
    match parsed {
        Ok(Some(options)) => Ok(options),
        Ok(None) => {
            out!("{}", usage());
            Err(ExitCode::SUCCESS)
        }
        Err(message) => {
            err!("penstock {command}: {message}\n\n{}", usage());
            Err(ExitCode::from(2))
        }
    }
}

/// The lines of options in a usage text, with `width` columns for their names.
pub fn usage_lines(options: &[Opt], width: usize) -> String {
    let mut out = String::new();
    for option in options {
        let mut left = option.names().collect::<Vec<_>>().join(", ");
        if let Some(argument) = option.argument {
            left = format!("{left} {}", argument.name);
        }
        for (i, line) in option.help.lines().enumerate() {
            let left = if i == 0 { &*left } else { "" };
            out.push_str(&format!("  {left:<width$}  {line}\n"));
        }
    }
    out
}

/// Checks that a reader of arguments knows all options that a usage text names.
#[cfg(test)]
pub fn assert_known<'o, T>(
    options: impl Iterator<Item = &'o Opt>,
    parse: impl Fn(&str) -> Result<T, String>,
) {
    for name in options.flat_map(Opt::names) {
        for line in [name.clone(), format!("{name} lan=1")] {
            let message = parse(&line).err().unwrap_or_default();
            assert!(!message.contains("invalid option"), "{line}: {message}");
        }
    }
}
