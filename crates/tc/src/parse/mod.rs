// SPDX-License-Identifier: Apache-2.0

//! Reading of `tc -batch` files. The words are tc(8)'s; what is known but cannot be done here is
//! refused as clearly as what is unknown.

mod action;
mod filter;
mod match_u32;
mod qdisc;
mod words;

use penstock_iproute2::Error;

use crate::config::Config;
use words::Words;

/// What a line is read into.
struct Reader<'a> {
    config: Config,
    device: &'a dyn Fn(&str) -> Option<u32>,
}

impl Reader<'_> {
    /// The index of a device.
    fn device(&self, name: &str) -> Result<u32, String> {
        (self.device)(name).ok_or_else(|| format!("Cannot find device \"{name}\""))
    }

    fn line(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        words.take("tc");
        let object = words.needed("an object")?;
        let command = words.needed("a command")?;
        match (object, command) {
            ("qdisc", "add" | "replace") => self.qdisc(words)?,
            ("filter", "add") => self.filter(words)?,
            ("qdisc" | "filter", other) => {
                return Err(format!("\"{object} {other}\" is not supported yet"));
            }
            ("class" | "chain" | "action" | "actions" | "monitor" | "exec", _) => {
                return Err(format!("\"{object}\" is not supported yet"));
            }
            _ => return Err(words::unknown(object)),
        }
        words.end()
    }
}

impl Config {
    /// Applies the lines in order. `file` is for messages, `device` finds the index of a device by
    /// its name. The first line that fails ends it, as with `tc -batch`.
    pub fn from_batch(
        file: &str,
        text: &str,
        device: impl Fn(&str) -> Option<u32>,
    ) -> Result<Config, Error> {
        let mut reader = Reader { config: Config::default(), device: &device };
        for (line, words) in words::lines(text) {
            let mut words = Words::new(&words);
            reader.line(&mut words).map_err(|message| Error {
                file: file.to_owned(),
                line,
                message,
            })?;
        }
        reader.config.finish();
        Ok(reader.config)
    }
}

#[cfg(test)]
mod tests;
