// SPDX-License-Identifier: Apache-2.0

//! The configuration file of a dataplane: TOML, with a key for each setting.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use penstock_system::words;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{Form, Given, Setting};
use crate::recognise::{self, hinted};

/// Where the configuration is if nothing else is said.
pub const DEFAULT: &str = "/etc/penstock/penstock.toml";

/// What is wrong in a file, as nft(8) says it: `FILE:LINE:COL-COL: Error: …`, the line, and carets
/// below the place.
#[derive(Debug)]
pub struct Wrong {
    file: String,
    line: usize,
    /// Columns of the first and the last character.
    columns: (usize, usize),
    message: String,
    text: String,
}

impl Wrong {
    fn at(file: &Path, text: &str, span: Range<usize>, message: String) -> Wrong {
        let start = boundary(text, span.start);
        let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let last = boundary(text, span.end.clamp(start, end));
        let first = text[begin..start].chars().count() + 1;
        let length = text[start..last].chars().count().max(1);
        Wrong {
            file: file.display().to_string(),
            line: text[..start].matches('\n').count() + 1,
            columns: (first, first + length - 1),
            message,
            text: text[begin..end].trim_end_matches('\r').to_owned(),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { file, line, columns: (first, last), message, text } = self;
        writeln!(f, "{file}:{line}:{first}-{last}: Error: {message}")?;
        writeln!(f, "{text}")?;
        // Tabs stay, so that the carets stand below what they mean.
        for c in text.chars().take(first - 1) {
            f.write_str(if c == '\t' { "\t" } else { " " })?;
        }
        f.write_str(&"^".repeat(last + 1 - first))
    }
}

/// Reads a file into what is given.
///
/// # Errors
/// What is to be printed.
pub fn read(file: &Path, given: &mut Given) -> Result<(), String> {
    let taken = match std::fs::read_to_string(file) {
        Ok(text) => take(file, &text, given).map_err(|wrong| wrong.to_string()),
        Err(e) => Err(format!("Error: {}: {}", file.display(), words(&e))),
    };
    taken.map_err(|e| hinted(&e, file, recognise::Given::Other))
}

fn take(file: &Path, text: &str, given: &mut Given) -> Result<(), Wrong> {
    let wrong = |span: Range<usize>, message: String| Wrong::at(file, text, span, message);
    let table = DeTable::parse(text).map_err(|e| {
        let message = e.message().lines().collect::<Vec<_>>().join(", ");
        wrong(e.span().unwrap_or(0..0), message)
    })?;
    for (key, value) in table.get_ref() {
        let name = key.get_ref();
        let setting = Setting::of(name)
            .ok_or_else(|| wrong(key.span(), format!("there is no setting `{name}`")))?;
        for (span, text) in values(setting, value)
            .map_err(|(span, message)| wrong(span, format!("{name}{message}")))?
        {
            given.take(setting, &text).map_err(|e| wrong(span, format!("{name}{e}")))?;
        }
    }
    Ok(())
}

/// The last boundary of a character that is not after a byte.
fn boundary(text: &str, byte: usize) -> usize {
    let byte = byte.min(text.len());
    (0..=byte).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A value or a message, and its place in the text.
type Located = (Range<usize>, String);

/// The values of a setting, as options have them, and their places.
fn values(setting: &Setting, value: &Spanned<DeValue<'_>>) -> Result<Vec<Located>, Located> {
    match (setting.form, value.get_ref()) {
        (Form::Flag, DeValue::Boolean(true)) => Ok(vec![(value.span(), String::new())]),
        (Form::Flag, DeValue::Boolean(false)) => Ok(Vec::new()),
        (Form::Flag, _) => Err((value.span(), " takes true or false".into())),
        (Form::Several, DeValue::Array(all)) => all.iter().map(one).collect(),
        (Form::Several, DeValue::Table(all)) => {
            let mut values = Vec::new();
            pairs("", all, &mut values)?;
            Ok(values)
        }
        (Form::One | Form::Several, _) => one(value).map(|value| vec![value]),
    }
}

/// Pairs of a table as `KEY=VALUE`. A key with dots that is not quoted is a table in a table, and
/// means the same.
fn pairs(before: &str, table: &DeTable<'_>, values: &mut Vec<Located>) -> Result<(), Located> {
    for (key, value) in table {
        let name = format!("{before}{}", key.get_ref());
        if let DeValue::Table(more) = value.get_ref() {
            pairs(&format!("{name}."), more, values)?;
            continue;
        }
        let (span, text) = one(value)?;
        values.push((key.span().start..span.end, format!("{name}={text}")));
    }
    Ok(())
}

/// A text or a number.
fn one(value: &Spanned<DeValue<'_>>) -> Result<Located, Located> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_err(|e| (value.span(), format!(": {e}")))?
            .to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        other => {
            let kind = other.type_str();
            return Err((value.span(), format!(" takes a text or a number, no {kind}")));
        }
    };
    Ok((value.span(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<penstock_daemon::Config, String> {
        let mut given = Given::default();
        take(Path::new("p.toml"), text, &mut given).map_err(|e| e.to_string())?;
        given.config()
    }

    #[test]
    fn keys_say_what_options_say() {
        let config = config(
            "ports = [\"eth0\", \"eth1=lan\", \"veth*\"]\n\
             rules = \"/etc/nftables.conf\"\n\
             workers = 2\nhang-time = 1.5\nallow-read = true\noffload = false\n\
             driver = [\"packet\", \"eth1=xdp\"]\n\
             [sysctl]\n\"net.netfilter.nf_conntrack_max\" = 4096\n\
             net.netfilter.nf_conntrack_buckets = 2048\n\
             [queue]\n3 = \"/run/q.sock\"\n",
        )
        .unwrap_or_else(|e| panic!("{e}"));
        let names: Vec<_> = config.ports.named.iter().map(|p| (&*p.device, &*p.name)).collect();
        assert_eq!(names, [("eth0", "eth0"), ("eth1", "lan")]);
        assert_eq!(config.ports.patterns.len(), 1);
        assert_eq!(config.workers, Some(2));
        assert_eq!(config.hang_time.as_millis(), 1500);
        assert!(config.readers && !config.offload);
        assert_eq!(config.queues[0].num, 3);
        let drivers: Vec<_> = config.ports.named.iter().map(|p| p.driver).collect();
        assert_eq!(drivers, [penstock_daemon::Driver::Packet, penstock_daemon::Driver::Xdp]);
        for name in ["max", "buckets"] {
            assert!(config.sysctls.contains_key(&format!("net.netfilter.nf_conntrack_{name}")));
        }
    }

    #[test]
    fn errors_say_their_place() {
        for (text, expected) in [
            (
                "ports = [\"eth0\"]\nworkers = \"many\"\n",
                "p.toml:2:11-16: Error: workers takes `auto`, or a number from 1 to 64\n\
                 workers = \"many\"\n          ^^^^^^",
            ),
            (
                "ports = [\"eth0\", \"eth0\"]",
                "p.toml:1:18-23: Error: ports: `eth0` is given twice\n\
                 ports = [\"eth0\", \"eth0\"]\n                 ^^^^^^",
            ),
            (
                "port = \"eth0\"",
                "p.toml:1:1-4: Error: there is no setting `port`\nport = \"eth0\"\n^^^^",
            ),
            (
                "offload = \"yes\"",
                "p.toml:1:11-15: Error: offload takes true or false\n\
                 offload = \"yes\"\n          ^^^^^",
            ),
            (
                "workers = [1]",
                "p.toml:1:11-13: Error: workers takes a text or a number, no array\n\
                 workers = [1]\n          ^^^",
            ),
            (
                "[sysctl]\na.b = 1",
                "p.toml:2:3-7: Error: sysctl: there is no a.b here, or it cannot be 1\n\
                 a.b = 1\n  ^^^^^",
            ),
        ] {
            assert_eq!(config(text).err().as_deref(), Some(expected), "{text}");
        }
        for text in ["ports = [", "a = 1\na = 2", "\u{0}", "= 3", "ports = \"\u{fc}\" x"] {
            let said = config(text).err().unwrap_or_default();
            assert!(said.starts_with("p.toml:1:") || said.starts_with("p.toml:2:"), "{said}");
        }
    }
}
