// SPDX-License-Identifier: Apache-2.0

//! Files that were given for others: what they are, and what takes them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use penstock_translate::Kind;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Capture,
    Compressed,
    /// Of x_tables.
    Save(Kind),
    /// Rules that nft lists without their options.
    Xt,
    /// Lines for `ip -batch`.
    Network,
    /// What ip(8) prints for people.
    IpText,
    /// What ip(8) prints with `-j`.
    IpJson,
    /// What `ip route save` writes, and `ip addr save`.
    Dump,
    Rules,
    Binary,
}

/// What a file was given as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    Net,
    Rules,
    Capture,
    /// Claims, tests, or a configuration.
    Other,
}

/// A message about a file, and a sentence that says what the file is if it is something else.
pub fn hinted_by(message: &str, file: &Path, bytes: &[u8], given: Given) -> String {
    format!("{}\n{}", message.trim_end(), hint(file, bytes, given)).trim_end().to_owned()
}

/// The sentence; empty if it is not known what the file is.
fn hint(file: &Path, bytes: &[u8], given: Given) -> String {
    let file = file.display();
    let what = match (what(bytes), given) {
        (None, _)
        | (Some(What::Rules | What::Xt), Given::Rules)
        | (Some(What::Network), Given::Net) => None,
        (Some(What::Capture | What::Compressed), Given::Capture) => None,
        (Some(what), _) => Some(what),
    };
    let sentence = match what {
        None if given == Given::Rules && has_xt(bytes) => {
            "nft lists rules of iptables without their options; `iptables-save | penstock translate \
             -` prints them as rules of nft"
                .to_owned()
        }
        None => return String::new(),
        Some(What::Capture) => format!("{file} is a capture: `--read DEV={file}` takes it"),
        Some(What::Compressed) => format!("{file} is compressed"),
        Some(What::Save(Kind::Iptables)) => format!(
            "{file} has rules of iptables: `penstock translate {file}` prints them as rules of nft"
        ),
        Some(What::Save(Kind::Ipset)) => format!(
            "{file} has sets of ipset: `penstock translate` takes them together with the rules of \
             iptables"
        ),
        Some(What::Save(Kind::Ebtables)) => {
            format!("{file} has rules of ebtables: `ebtables-translate` prints one as a rule of nft")
        }
        Some(What::Network) => format!("{file} has lines for `ip -batch`: `--net {file}` takes them"),
        Some(What::IpText) => format!(
            "{file} is what ip(8) prints for people: `penstock net save` prints the network of a \
             host, and `penstock net save --remote FILE` that of what `ip -j -d` printed elsewhere"
        ),
        Some(What::IpJson) => {
            format!("{file} is what `ip -j` prints: `penstock net save --remote {file}` reads it")
        }
        Some(What::Dump) => format!(
            "{file} is what `ip route save` or `ip addr save` writes: `penstock net save --remote \
             FILE` reads what `ip -j -d` prints"
        ),
        Some(What::Rules | What::Xt) => format!("{file} is a ruleset: `--rules {file}` takes it"),
        Some(What::Binary) => format!("{file} is no text"),
    };
    format!("note: {sentence}\n")
}

/// [`hinted_by`] with the beginning of the file, which is read; standard input is not.
pub fn hinted(message: &str, file: &Path, given: Given) -> String {
    const FIRST: u64 = 64 << 10;
    let is_file = std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|f| f.take(FIRST).read_to_end(&mut bytes));
    match (is_file, read) {
        (true, Ok(_)) => hinted_by(message, file, &bytes, given),
        _ => message.trim_end().to_owned(),
    }
}

fn has_xt(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.contains("xt match \"") || text.contains("xt target \"")
}

/// By its first bytes, or lines.
fn what(bytes: &[u8]) -> Option<What> {
    match bytes {
        // pcap in both byte orders, with microseconds and nanoseconds; pcapng.
        [0xd4, 0xc3, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xc3, 0xd4, ..] => return Some(What::Capture),
        [0x4d, 0x3c, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0x3c, 0x4d, ..] => return Some(What::Capture),
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => return Some(What::Capture),
        [0x1f, 0x8b, ..] | [0xfd, b'7', b'z', ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return Some(What::Compressed);
        }
        // Magic numbers of `ip route save` and `ip addr save`.
        [0x24, 0x12, 0x31, 0x45, ..] | [0x22, 0x12, 0x36, 0x47, ..] => return Some(What::Dump),
        _ if bytes.contains(&0) => return Some(What::Binary),
        _ => {}
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some(kind) = penstock_translate::kind(&text) {
        return Some(What::Save(kind));
    }
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with(['#', ';']))?;
    let words: Vec<&str> = line.split_whitespace().take(5).collect();
    let is_number = |word: &str| word.strip_suffix(':').is_some_and(|n| n.parse::<u32>().is_ok());
    Some(match &words[..] {
        ["[", ..] | ["[{", ..] => What::IpJson,
        [first, ..] if first.starts_with("[{") && line.contains("\"if") => What::IpJson,
        [first, ..] if first.starts_with("[{") && line.contains("\"dst\"") => What::IpJson,
        [number, name, flags, ..]
            if is_number(number) && name.ends_with(':') && flags.starts_with('<') =>
        {
            What::IpText
        }
        ["default", "via" | "dev", ..] => What::IpText,
        [prefix, "dev" | "via", ..] if prefix.starts_with(|c: char| c.is_ascii_hexdigit()) => {
            What::IpText
        }
        ["ip" | "-6" | "-4", ..]
        | [
            "link" | "addr" | "address" | "route" | "neigh" | "rule",
            "add" | "set" | "replace",
            ..,
        ] => What::Network,
        [word, ..]
            if ["table", "flush", "add", "define", "include", "#!/usr/sbin/nft"].contains(word) =>
        {
            if has_xt(bytes) {
                What::Xt
            } else {
                What::Rules
            }
        }
        _ => return None,
    })
}
