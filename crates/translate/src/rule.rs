// SPDX-License-Identifier: Apache-2.0

//! A rule: what it matches in order, its counter, and what it does.

use std::collections::BTreeMap;

use crate::Family;
use crate::args::{Args, Opt, option};
use crate::context::{Cond, Place, Rule};
use crate::matches;
use crate::protocol::protocol;
use crate::save::Line;
use crate::targets;
use crate::words::{Word, quoted};

/// A rule of nft, or several that share its packets.
pub struct Translated {
    pub texts: Vec<String>,
    pub sets: BTreeMap<String, String>,
}

/// A match or target with its options.
type Module = (String, Args);

/// The options of a rule, by what they belong to.
#[derive(Default)]
struct Options {
    header: Vec<Opt>,
    matches: Vec<Module>,
    target: Option<Module>,
    goto: Option<String>,
}

/// Options of header matches that stand without `-m` after `-p`.
const OF_PROTOCOLS: [&str; 10] = [
    "--sport",
    "--source-port",
    "--dport",
    "--destination-port",
    "--syn",
    "--tcp-flags",
    "--tcp-option",
    "--icmp-type",
    "--icmpv6-type",
    "--chunk-types",
];

impl Options {
    fn read(words: &[Word]) -> Result<Options, String> {
        let mut all = Options::default();
        let mut words = words.iter().peekable();
        // Where options that follow belong: to the target, or else to the last match.
        while words.peek().is_some() {
            let opt = option(&mut words)?;
            match &*opt.name {
                "-m" | "--match" => all.matches.push((opt.value()?.to_owned(), Args::default())),
                "-j" | "--jump" => all.target = Some((opt.value()?.to_owned(), Args::default())),
                "-g" | "--goto" => all.goto = Some(opt.value()?.to_owned()),
                "-p" | "--protocol" | "--proto" | "-s" | "--source" | "--src" | "-d"
                | "--destination" | "--dst" | "-i" | "--in-interface" | "-o"
                | "--out-interface" | "-f" | "--fragment" => all.header.push(opt),
                "-c" | "--set-counters" => {}
                _ => all.module(&opt)?.0.push(opt),
            }
        }
        Ok(all)
    }

    /// The match or target that an option belongs to.
    fn module(&mut self, opt: &Opt) -> Result<&mut Args, String> {
        if let Some((_, args)) = &mut self.target {
            return Ok(args);
        }
        let of_protocol = OF_PROTOCOLS.contains(&&*opt.name);
        let is_protocol = |o: &&Opt| matches!(&*o.name, "-p" | "--protocol" | "--proto");
        let given = self.header.iter().find(is_protocol).and_then(|o| o.value().ok());
        let protocol = given.map(protocol);
        let is_own = |name: &str| !of_protocol || Some(protocol_of(name)) == protocol.as_deref();
        if let Some(at) = self.matches.iter().rposition(|(name, _)| is_own(name)) {
            return Ok(&mut self.matches[at].1);
        }
        match protocol {
            Some(name) if of_protocol => {
                self.matches.insert(0, (name, Args::default()));
                Ok(&mut self.matches[0].1)
            }
            _ => Err(format!("`{}` belongs to no match", opt.name)),
        }
    }
}

/// The protocol that the match of a name is about.
fn protocol_of(name: &str) -> &str {
    match name {
        "icmp6" => "icmpv6",
        name => name,
    }
}

/// Translates a rule.
///
/// # Errors
/// Why there is no equal, in words.
pub fn translate(
    line: &Line,
    place: &Place<'_>,
    chain: &str,
    number: usize,
) -> Result<Translated, String> {
    let options = Options::read(&line.words)?;
    let (protocol, comment) = (None, None);
    let mut rule = Rule { place, chain, protocol, comment, sets: BTreeMap::new(), number };
    let mut conds = Vec::new();
    // iptables asks for devices first; among the rest there is no order that shows.
    for opt in &options.header {
        conds.extend(rule.header(opt)?);
    }
    for (name, args) in &options.matches {
        let mut args = args.clone();
        let found = matches::translate(&mut rule, name, &mut args);
        conds.extend(
            found
                .and_then(|found| args.end().map(|()| found))
                .map_err(|reason| format!("match {name}: {reason}"))?,
        );
    }
    // A match of a header asks for the protocol itself.
    if let Some(protocol) = &rule.protocol {
        let begin = format!("{protocol} ");
        let is_asked = conds.iter().any(|cond| match cond {
            Cond::If(text) => text.starts_with(&begin),
            Cond::Either(texts) => texts.iter().all(|text| text.starts_with(&begin)),
            Cond::Remembers(_) => false,
        });
        conds.retain(|c| !is_asked || *c != Cond::If(format!("meta l4proto {protocol}")));
    }
    let (packets, bytes) = line.counted;
    let action = match (&options.target, &options.goto) {
        (None, None) => Vec::new(),
        (None, Some(chain)) => vec![format!("goto {}", rule.chain_name(chain)?)],
        (Some((name, args)), None) => {
            let mut args = args.clone();
            let found = targets::translate(&mut rule, name, &mut args);
            let found = found.and_then(|found| args.end().map(|()| found));
            found.map_err(|reason| format!("target {name}: {reason}"))?
        }
        (Some(_), Some(_)) => return Err("it has -j and -g".to_owned()),
    };
    let mut end = vec![format!("counter packets {packets} bytes {bytes}")];
    end.extend(action);
    if let Some(comment) = &rule.comment {
        /// Bytes of a comment in nft.
        const LONGEST: usize = 127;
        let mut cut = comment.len().min(LONGEST);
        while !comment.is_char_boundary(cut) {
            cut -= 1;
        }
        end.push(format!("comment {}", quoted(&comment[..cut])));
    }
    Ok(Translated { texts: joined(&conds, &end)?, sets: rule.sets })
}

/// The rules of conditions with what follows: one for each choice among alternatives.
fn joined(conds: &[Cond], end: &[String]) -> Result<Vec<String>, String> {
    const MOST: usize = 8;
    let mut all: Vec<Vec<&str>> = vec![vec![]];
    let has_choice = conds.iter().any(|cond| matches!(cond, Cond::Either(_)));
    for cond in conds {
        match cond {
            Cond::Remembers(_) if has_choice => {
                return Err("it has alternatives, and remembers packets: two rules of nft would \
                            each remember their own"
                    .to_owned());
            }
            Cond::If(text) | Cond::Remembers(text) => all.iter_mut().for_each(|t| t.push(text)),
            Cond::Either(texts) => {
                let mut more = Vec::new();
                for text in texts {
                    for begin in &all {
                        more.push([&begin[..], &[text.as_str()]].concat());
                    }
                }
                all = more;
            }
        }
    }
    if all.len() > MOST {
        return Err(format!("it has {} alternatives", all.len()));
    }
    let text = |conds: Vec<&str>| {
        let end = end.iter().map(String::as_str);
        conds.into_iter().filter(|c| !c.is_empty()).chain(end).collect::<Vec<_>>().join(" ")
    };
    Ok(all.into_iter().map(text).collect())
}

impl Rule<'_> {
    /// Options of the rule itself.
    fn header(&mut self, opt: &Opt) -> Result<Option<Cond>, String> {
        let ip = self.ip();
        let text = match &*opt.name {
            "-p" | "--protocol" | "--proto" => {
                let name = protocol(opt.value()?);
                if name == "all" || name == "0" {
                    return match opt.not {
                        false => Ok(None),
                        true => Err("it matches nothing".to_owned()),
                    };
                }
                let text = format!("meta l4proto {}{name}", opt.op());
                self.protocol = Some(name).filter(|_| !opt.not);
                text
            }
            "-s" | "--source" | "--src" => address(ip, "saddr", opt)?,
            "-d" | "--destination" | "--dst" => address(ip, "daddr", opt)?,
            "-i" | "--in-interface" => device("iifname", opt)?,
            "-o" | "--out-interface" => device("oifname", opt)?,
            _ if self.place.family == Family::Ip6 => return Err("-f is of IPv4".to_owned()),
            // Fragments after the first.
            _ => match opt.not {
                false => "ip frag-off & 0x1fff != 0".to_owned(),
                true => "ip frag-off & 0x1fff == 0".to_owned(),
            },
        };
        Ok(Some(Cond::If(text)).filter(|c| *c != Cond::If(String::new())))
    }
}

/// A match of an address with a mask, which may be no prefix.
fn address(ip: &str, field: &str, opt: &Opt) -> Result<String, String> {
    let value = opt.value()?;
    if value.contains(',') {
        let values = value.replace(',', ", ");
        return Ok(format!("{ip} {field} {}{{ {values} }}", opt.op()));
    }
    let Some((address, mask)) = value.split_once('/') else {
        return Ok(format!("{ip} {field} {}{value}", opt.op()));
    };
    let len = match mask.parse::<u32>() {
        Ok(len) => Some(len),
        Err(_) => length_of(mask)?,
    };
    Ok(match len {
        // All addresses.
        Some(0) if !opt.not => String::new(),
        Some(0) => return Err("it matches nothing".to_owned()),
        Some(len) if len == if ip == "ip" { 32 } else { 128 } => {
            format!("{ip} {field} {}{address}", opt.op())
        }
        Some(len) => format!("{ip} {field} {}{address}/{len}", opt.op()),
        None => {
            let op = if opt.not { "!=" } else { "==" };
            format!("{ip} {field} & {mask} {op} {address}")
        }
    })
}

/// The length of a prefix, if a mask is one.
fn length_of(mask: &str) -> Result<Option<u32>, String> {
    let (bits, width) = match mask.parse() {
        Ok(std::net::IpAddr::V4(mask)) => (u128::from(u32::from(mask)) << 96, 32),
        Ok(std::net::IpAddr::V6(mask)) => (u128::from(mask), 128),
        Err(_) => return Err(format!("`{mask}` is no mask")),
    };
    let len = bits.leading_ones();
    let is_prefix = bits.checked_shl(len).unwrap_or(0) == 0;
    Ok(Some(len.min(width)).filter(|_| is_prefix))
}

/// A match of a device by its name, or by how its name begins.
pub fn device(key: &str, opt: &Opt) -> Result<String, String> {
    let name = opt.value()?;
    let text = match name.strip_suffix('+') {
        Some("") if !opt.not => return Ok(String::new()),
        Some("") => return Err("it matches nothing".to_owned()),
        Some(begin) => quoted(&format!("{}*", begin.replace('*', "\\*"))),
        None => quoted(&name.replace('*', "\\*")),
    };
    Ok(format!("{key} {}{text}", opt.op()))
}
