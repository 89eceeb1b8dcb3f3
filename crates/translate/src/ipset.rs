// SPDX-License-Identifier: Apache-2.0

//! Sets as `ipset save` prints them, as named sets of nft.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::words::{name_of, quoted, words};
use crate::{Family, LeftOut};

/// Sets by their names.
#[derive(Default)]
pub struct IpSets(BTreeMap<String, IpSet>);

/// A set.
struct IpSet {
    /// Where it is created, for messages.
    family: Family,
    /// What elements consist of.
    fields: Vec<Field>,
    /// Seconds.
    timeout: Option<u32>,
    size: Option<u32>,
    elements: Vec<String>,
    /// Why the set cannot be one of nft.
    refused: Option<String>,
}

/// A part of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Ip,
    Net,
    /// A protocol with a port.
    Port,
    /// A port of any protocol.
    PlainPort,
    Mac,
    Mark,
}

/// A set as a rule uses it.
pub struct Used {
    pub name: String,
    pub declaration: String,
    /// What packets must be for the key to be there.
    pub before: &'static str,
    pub key: String,
}

impl IpSets {
    /// Reads what `ipset save` printed.
    pub fn read(
        &mut self,
        file: &str,
        text: &str,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<(), String> {
        for (line, number) in text.lines().zip(1..) {
            let wrong = |what: &str| format!("{file}:{number}: Error: {what}\n{line}");
            let all = words(line).ok_or_else(|| wrong("a quote is not closed"))?;
            let all: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
            let reason = match &all[..] {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                ["create" | "-N", name, kind, options @ ..] => {
                    let set = IpSet::new(kind, options);
                    let refused = set.refused.clone();
                    self.0.insert((*name).to_owned(), set);
                    refused
                }
                ["add" | "-A", name, element, options @ ..] => {
                    let set = self.0.get_mut(*name);
                    let set = set.ok_or_else(|| wrong("the set is not created"))?;
                    match set.refused {
                        // The reason stands at the set.
                        Some(_) => continue,
                        None => set.add(element, options).err(),
                    }
                }
                _ => return Err(wrong("a line is `create NAME TYPE …` or `add NAME ELEMENT …`")),
            };
            if let Some(reason) = reason {
                let (file, text) = (file.to_owned(), line.to_owned());
                left_out.push(LeftOut { file, line: number, text, reason });
            }
        }
        Ok(())
    }

    /// A set whose elements are compared with these fields of packets: `src`, `dst`, with commas.
    pub fn used(&self, name: &str, fields: &str, family: Family) -> Result<Used, String> {
        let Some(set) = self.0.get(name) else {
            return Err(format!("there is no set `{name}`: give what `ipset save` prints, too"));
        };
        if set.refused.is_some() {
            return Err(format!("the set `{name}` is left out"));
        }
        if set.family != family && set.fields.iter().any(|f| f.is_address()) {
            return Err(format!("the set `{name}` is of the other family"));
        }
        let directions: Vec<&str> = fields.split(',').collect();
        if directions.len() != set.fields.len() {
            return Err(format!("the set `{name}` has {} fields", set.fields.len()));
        }
        let (mut keys, mut before) = (Vec::new(), "");
        for (field, direction) in set.fields.iter().zip(directions) {
            let (address, port) = match direction {
                "src" => ("saddr", "sport"),
                "dst" => ("daddr", "dport"),
                other => return Err(format!("`{other}` is neither src nor dst")),
            };
            keys.push(match field {
                Field::Ip | Field::Net => format!("{} {address}", family.name()),
                Field::Port => format!("meta l4proto . th {port}"),
                Field::PlainPort => {
                    before = "meta l4proto { tcp, udp, udplite, sctp } ";
                    format!("th {port}")
                }
                Field::Mac if address == "saddr" => "ether saddr".to_owned(),
                Field::Mac => return Err("the receiver's link address is not matched".to_owned()),
                Field::Mark => "meta mark".to_owned(),
            });
        }
        let name = name_of(name);
        let declaration = set.declaration(&name);
        Ok(Used { name, declaration, before, key: keys.join(" . ") })
    }
}

impl Field {
    fn is_address(self) -> bool {
        matches!(self, Field::Ip | Field::Net)
    }

    fn datatype(self, family: Family) -> &'static str {
        match (self, family) {
            (Field::Ip | Field::Net, Family::Ip4) => "ipv4_addr",
            (Field::Ip | Field::Net, Family::Ip6) => "ipv6_addr",
            (Field::Port, _) => "inet_proto . inet_service",
            (Field::PlainPort, _) => "inet_service",
            (Field::Mac, _) => "ether_addr",
            (Field::Mark, _) => "mark",
        }
    }
}

impl IpSet {
    fn new(kind: &str, options: &[&str]) -> IpSet {
        let mut set = IpSet {
            family: Family::Ip4,
            fields: Vec::new(),
            timeout: None,
            size: None,
            elements: Vec::new(),
            refused: None,
        };
        let (method, fields) = kind.split_once(':').unwrap_or((kind, ""));
        for field in fields.split(',') {
            set.fields.push(match (method, field) {
                ("hash" | "bitmap", "ip") => Field::Ip,
                ("hash", "net") => Field::Net,
                ("hash", "port") => Field::Port,
                ("bitmap", "port") => Field::PlainPort,
                ("hash", "mac") => Field::Mac,
                ("hash", "mark") => Field::Mark,
                _ => {
                    set.refused = Some(format!("sets of type {kind} have no equal"));
                    return set;
                }
            });
        }
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut number = || options.next().and_then(|text| text.parse().ok());
            match *option {
                "family" => {
                    if options.next() == Some(&"inet6") {
                        set.family = Family::Ip6;
                    }
                }
                "timeout" => set.timeout = number(),
                "maxelem" => set.size = number(),
                "hashsize" | "bucketsize" | "initval" | "range" => drop(options.next()),
                "comment" | "counters" => {}
                // What these do shows in what matches.
                other => set.refused = Some(format!("`{other}` of sets has no equal")),
            }
        }
        set
    }

    /// Adds an element.
    fn add(&mut self, element: &str, options: &[&str]) -> Result<(), String> {
        let mut parts = Vec::new();
        let texts: Vec<&str> = element.split(',').collect();
        if texts.len() != self.fields.len() {
            return Err("it has another number of fields than its set".to_owned());
        }
        for (field, text) in self.fields.iter().zip(texts) {
            parts.push(match field {
                Field::Ip | Field::Net | Field::Mac | Field::Mark => text
                    .strip_suffix(if self.family == Family::Ip4 { "/32" } else { "/128" })
                    .unwrap_or(text)
                    .to_ascii_lowercase(),
                Field::PlainPort => text.to_owned(),
                Field::Port => match text.split_once(':') {
                    Some((protocol @ ("tcp" | "udp" | "udplite" | "sctp"), port)) => {
                        format!("{protocol} . {port}")
                    }
                    Some((protocol, _)) => {
                        return Err(format!("elements of `{protocol}` have no equal"));
                    }
                    None => format!("tcp . {text}"),
                },
            });
        }
        let mut text = parts.join(" . ");
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match (*option, options.next()) {
                ("timeout", Some(&"0")) if self.timeout.is_some_and(|timeout| timeout != 0) => {
                    return Err("elements that stay in a set whose others do not".to_owned());
                }
                ("timeout", Some(&"0")) => {}
                ("timeout", Some(seconds)) => {
                    let seconds: u32 = seconds.parse().map_err(|_| "a timeout is a number")?;
                    let _ = write!(text, " timeout {seconds}s");
                }
                ("packets" | "bytes", Some(_)) => {}
                ("comment", Some(comment)) => {
                    let _ = write!(text, " comment {}", quoted(comment));
                }
                (other, _) => return Err(format!("`{other}` of elements has no equal")),
            }
        }
        self.elements.push(text);
        Ok(())
    }

    /// The set in the words of nft. Writing to a String does not fail.
    fn declaration(&self, name: &str) -> String {
        let types: Vec<&str> = self.fields.iter().map(|f| f.datatype(self.family)).collect();
        let mut out = format!("\tset {name} {{\n\t\ttype {}\n", types.join(" . "));
        let mut flags = Vec::new();
        let is_range = |e: &String| e.contains('/') || e.contains('-');
        if self.fields.contains(&Field::Net) || self.elements.iter().any(is_range) {
            flags.push("interval");
        }
        if let Some(timeout) = self.timeout {
            flags.push("timeout");
            if timeout != 0 {
                let _ = writeln!(out, "\t\ttimeout {timeout}s");
            }
        }
        if let Some(size) = self.size {
            let _ = writeln!(out, "\t\tsize {}", size.max(1));
        }
        if !flags.is_empty() {
            let _ = writeln!(out, "\t\tflags {}", flags.join(","));
        }
        if flags.contains(&"interval") && self.fields.len() == 1 {
            out.push_str("\t\tauto-merge\n");
        }
        if !self.elements.is_empty() {
            let _ = writeln!(out, "\t\telements = {{ {} }}", self.elements.join(",\n\t\t\t     "));
        }
        out.push_str("\t}\n");
        out
    }
}
