// SPDX-License-Identifier: Apache-2.0

//! Packets in one line: layers with their fields, joined by `/`, as [`penstock_testkit::build`]
//! composes them.
//!
//! ```text
//! [+TIME] [SOURCE] LAYER / LAYER / … [| cut BYTES] [| pad BYTES]
//! ```
//!
//! The source is a device (`lan` if none is named), `host` for IP packets that the host sends, or
//! `host:DEVICE` for raw frames that it sends on a device. Unless a line begins with `ether` (or
//! `raw`), it gets the Ethernet header that a neighbour on that device would use. `+1s` lets time
//! pass first. What every layer takes is in `filetests/README.md`.

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use penstock_testkit::build::*;
use penstock_wire::ethernet::Mac;

/// What comes to the dataplane.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// Time since the packet before.
    pub after: Duration,
    /// A device, `host`, or `host:DEVICE`.
    pub source: String,
    /// From the link header on; for `host` from the network header on.
    pub bytes: Vec<u8>,
}

/// Reads a line.
pub fn parse(line: &str) -> Result<Incoming, String> {
    let mut words = Words { words: split(line)?, at: 0 };
    let mut after = Duration::from_micros(1);
    if let Some(time) = words.peek().and_then(|w| w.strip_prefix('+')) {
        after = duration(time)?;
        words.at += 1;
    }
    let source = match words.peek() {
        Some(w @ ("lan" | "wan" | "dmz" | "host")) => w.to_string(),
        Some(w) if w.starts_with("host:") => w.to_string(),
        _ => String::new(),
    };
    words.at += usize::from(!source.is_empty());
    let source = if source.is_empty() { "lan".to_string() } else { source };
    let mut frame = match (source.as_str(), words.peek()) {
        ("host", _) | (_, Some("ether" | "raw")) => None,
        (source, _) => Some(Frame::from(neighbour(source))),
    };
    loop {
        let layer = layer(&mut words)?;
        frame = Some(match frame {
            Some(outer) => outer / layer,
            None => layer,
        });
        if !words.take("/") {
            break;
        }
    }
    let mut frame = frame.ok_or("no layer")?;
    while words.take("|") {
        frame = match words.word()? {
            "cut" => frame.truncate(words.number()?),
            "pad" => frame.pad_to(words.number()?),
            other => return Err(format!("{other}: cut or pad is expected")),
        };
    }
    match words.peek() {
        None => Ok(Incoming { after, source, bytes: frame.build() }),
        Some(word) => Err(format!("{word}: not expected here")),
    }
}

/// The Ethernet header of what a neighbour sends to the router, and of what the router sends to its
/// gateway.
fn neighbour(source: &str) -> Ethernet {
    match source {
        "wan" => Ethernet::new("02:00:00:00:02:02", "02:00:00:00:02:01"),
        "dmz" => Ethernet::new("02:00:00:00:05:20", "02:00:00:00:05:01"),
        "host:lan" => Ethernet::new("02:00:00:00:01:01", "02:00:00:00:01:10"),
        "host:wan" => Ethernet::new("02:00:00:00:02:01", "02:00:00:00:02:02"),
        "host:dmz" => Ethernet::new("02:00:00:00:05:01", "02:00:00:00:05:20"),
        _ => Ethernet::new("02:00:00:00:01:10", "02:00:00:00:01:01"),
    }
}

/// `1.5s`, `200ms`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("{text}: no time")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{text}: no time"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|e| format!("{text}: {e}"))
}

/// Words; those in double quotes keep blanks and their first quote.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = vec![];
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if first == '"' {
            rest[1..].find('"').ok_or("a quote is missing")? + 2
        } else {
            rest.find(char::is_whitespace).unwrap_or(rest.len())
        };
        words.push(rest[..end].trim_end_matches(|c| first == '"' && c == '"').to_string());
        rest = rest[end..].trim_start();
    }
    Ok(words)
}

struct Words {
    words: Vec<String>,
    at: usize,
}

impl Words {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn word(&mut self) -> Result<&str, String> {
        self.at += 1;
        self.words
            .get(self.at - 1)
            .map(String::as_str)
            .ok_or_else(|| "the line ends too early".into())
    }

    fn take(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        self.at += usize::from(is);
        is
    }

    /// The name of the next field of a layer; `None` at its end.
    fn field(&mut self) -> Option<String> {
        let word = self.peek().filter(|w| !matches!(*w, "/" | "|"))?.to_string();
        self.at += 1;
        Some(word)
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        number(word).ok_or_else(|| format!("{word}: no number that fits"))
    }

    fn parsed<T: FromStr<Err: Display>>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        word.parse().map_err(|e| format!("{word}: {e}"))
    }

    fn hex(&mut self) -> Result<Vec<u8>, String> {
        let word = self.word()?;
        hex(word).ok_or_else(|| format!("{word}: not hexadecimal"))
    }

    /// `A > B`
    fn pair<T: FromStr<Err: Display>>(&mut self) -> Result<(T, T), String> {
        let from = self.parsed()?;
        if !self.take(">") {
            return Err(format!("`>` is expected, not `{}`", self.peek().unwrap_or("the end")));
        }
        Ok((from, self.parsed()?))
    }
}

fn number<T: TryFrom<u64>>(word: &str) -> Option<T> {
    let value = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    T::try_from(value.ok()?).ok()
}

/// Bytes from hexadecimal digits.
pub fn hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok()).collect()
}

fn unknown<T>(layer: &str, field: &str) -> Result<T, String> {
    Err(format!("{layer} has no field {field}"))
}

fn layer(w: &mut Words) -> Result<Frame, String> {
    let name = w.word()?.to_string();
    if let Some(text) = name.strip_prefix('"') {
        return Ok(payload(text).into());
    }
    Ok(match name.as_str() {
        "ether" => ether(w)?,
        "vlan" => vlan(w)?,
        "arp" => arp(w)?,
        "ip" => ip(w)?,
        "ip6" => ip6(w)?,
        "hbh" | "dst" => options(w, name == "hbh")?,
        "rt" => routing(w)?,
        "frag" => fragment(w)?,
        "ah" => ah(w)?,
        "mh" => mobility(w)?,
        "ext" => Extension::raw(w.number()?, w.number()?, &w.hex()?).into(),
        "tcp" => tcp(w)?,
        "udp" => udp(w)?,
        "udplite" => udplite(w)?,
        "icmp" => icmp(w)?,
        "icmp6" => icmp6(w)?,
        "igmp" => igmp(w)?,
        "sctp" => sctp(w)?,
        "dccp" => dccp(w)?,
        "esp" => Esp::new(w.number()?, w.number()?).into(),
        "gre" => gre(w)?,
        "vxlan" => Vxlan::new(w.number()?).into(),
        "geneve" => geneve(w)?,
        "zeros" => payload(vec![0; w.number::<u16>()?.into()]).into(),
        "hex" | "raw" => payload(w.hex()?).into(),
        other => return Err(format!("{other}: no such layer")),
    })
}

fn ether(w: &mut Words) -> Result<Frame, String> {
    let (src, dst) = w.pair::<Mac>()?;
    let mut h = Ethernet::new(src, dst);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "type" => h.ethertype(w.number()?),
            "length" => h.with_length(),
            _ => return unknown("ether", &field),
        };
    }
    Ok(h.into())
}

fn vlan(w: &mut Words) -> Result<Frame, String> {
    let mut h = Vlan::new(w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "prio" => h.priority(w.number()?),
            "dei" => h.drop_eligible(),
            "service" => h.service(),
            "type" => h.ethertype(w.number()?),
            _ => return unknown("vlan", &field),
        };
    }
    Ok(h.into())
}

/// `arp request MAC IP > IP`, `arp reply MAC IP > MAC IP`.
fn arp(w: &mut Words) -> Result<Frame, String> {
    let reply = match w.word()? {
        "request" => false,
        "reply" => true,
        other => return Err(format!("{other}: request or reply is expected")),
    };
    let (mac, address): (Mac, Ipv4Addr) = (w.parsed()?, w.parsed()?);
    if !w.take(">") {
        return Err("`>` is expected".into());
    }
    let mut h = if reply {
        Arp::reply(mac, address, w.parsed::<Mac>()?, w.parsed::<Ipv4Addr>()?)
    } else {
        Arp::request(mac, address, w.parsed::<Ipv4Addr>()?)
    };
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "operation" => h.operation(w.number()?),
            _ => return unknown("arp", &field),
        };
    }
    Ok(h.into())
}

fn ip(w: &mut Words) -> Result<Frame, String> {
    let (src, dst) = w.pair::<Ipv4Addr>()?;
    let mut h = Ipv4::new(src, dst);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "ttl" => h.ttl(w.number()?),
            "tos" => h.tos(w.number()?),
            "id" => h.id(w.number()?),
            "df" => h.df(),
            // `frag 0+` is the first, `frag 3+` one in the middle, `frag 9` the last one.
            "frag" => {
                let word = w.word()?;
                let offset = number(word.trim_end_matches('+')).ok_or("frag: no offset")?;
                h.fragment(offset, word.ends_with('+'))
            }
            "options" => h.options(&w.hex()?),
            "proto" => h.protocol(w.number()?),
            "version" => h.version(w.number()?),
            "header" => h.header_len(w.number()?),
            "length" => h.total_len(w.number()?),
            "checksum" => h.checksum(w.number()?),
            _ => return unknown("ip", &field),
        };
    }
    Ok(h.into())
}

fn ip6(w: &mut Words) -> Result<Frame, String> {
    let (src, dst) = w.pair::<Ipv6Addr>()?;
    let mut h = Ipv6::new(src, dst);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "ttl" => h.hop_limit(w.number()?),
            "class" => h.traffic_class(w.number()?),
            "flow" => h.flow_label(w.number()?),
            "next" => h.next_header(w.number()?),
            "version" => h.version(w.number()?),
            "length" => h.payload_len(w.number()?),
            _ => return unknown("ip6", &field),
        };
    }
    Ok(h.into())
}

fn options(w: &mut Words, hop_by_hop: bool) -> Result<Frame, String> {
    let mut bytes = vec![];
    while let Some(field) = w.field() {
        match field.as_str() {
            "option" => {
                let (kind, data) = (w.number()?, w.hex()?);
                bytes.extend([kind, data.len() as u8]);
                bytes.extend(data);
            }
            _ => return unknown("an options header", &field),
        }
    }
    Ok(if hop_by_hop {
        HopByHop::new().raw(&bytes).into()
    } else {
        DestOptions::new().raw(&bytes).into()
    })
}

/// `rt TYPE SEGMENTS-LEFT [via ADDRESS]…`
fn routing(w: &mut Words) -> Result<Frame, String> {
    let mut h = Routing::new(w.number()?, w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "via" => h.via(w.parsed::<Ipv6Addr>()?),
            _ => return unknown("rt", &field),
        };
    }
    Ok(h.into())
}

/// `frag OFFSET[+] ID [next PROTOCOL]`
fn fragment(w: &mut Words) -> Result<Frame, String> {
    let word = w.word()?.to_string();
    let offset = number(word.trim_end_matches('+')).ok_or("frag: no offset")?;
    let mut h = Fragment::new(offset, word.ends_with('+'), w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "next" => h.next_header(w.number()?),
            _ => return unknown("frag", &field),
        };
    }
    Ok(h.into())
}

/// `ah SPI SEQUENCE`
fn ah(w: &mut Words) -> Result<Frame, String> {
    let mut h = Ah::new(w.number()?, w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "icv" => h.icv(&w.hex()?),
            _ => return unknown("ah", &field),
        };
    }
    Ok(h.into())
}

fn mobility(w: &mut Words) -> Result<Frame, String> {
    let mut h = Mobility::new(w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "checksum" => h.checksum(w.number()?),
            "data" => h.data(&w.hex()?),
            _ => return unknown("mh", &field),
        };
    }
    Ok(h.into())
}

fn tcp(w: &mut Words) -> Result<Frame, String> {
    let (sport, dport) = w.pair::<u16>()?;
    let mut h = Tcp::new(sport, dport);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "syn" => h.syn(),
            "ack" => h.ack(w.number()?),
            "fin" => h.fin(),
            "rst" => h.rst(),
            "psh" => h.psh(),
            "flags" => h.flags(w.number()?),
            "seq" => h.seq(w.number()?),
            "window" => h.window(w.number()?),
            "urgent" => h.urgent(w.number()?),
            "nop" => h.nop(),
            "mss" => h.mss(w.number()?),
            "wscale" => h.window_scale(w.number()?),
            "sackok" => h.sack_permitted(),
            "timestamp" => h.timestamp(w.number()?, w.number()?),
            "option" => h.option(w.number()?, &w.hex()?),
            "options" => h.raw_options(&w.hex()?),
            "header" => h.header_len(w.number()?),
            "checksum" => h.checksum(w.number()?),
            _ => return unknown("tcp", &field),
        };
    }
    Ok(h.into())
}

fn udp(w: &mut Words) -> Result<Frame, String> {
    let (sport, dport) = w.pair::<u16>()?;
    let mut h = Udp::new(sport, dport);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "length" => h.length(w.number()?),
            "checksum" => h.checksum(w.number()?),
            _ => return unknown("udp", &field),
        };
    }
    Ok(h.into())
}

fn udplite(w: &mut Words) -> Result<Frame, String> {
    let (sport, dport) = w.pair::<u16>()?;
    let mut h = UdpLite::new(sport, dport);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "coverage" => h.coverage(w.number()?),
            _ => return unknown("udplite", &field),
        };
    }
    Ok(h.into())
}

/// `icmp TYPE CODE`
fn icmp(w: &mut Words) -> Result<Frame, String> {
    let mut h = Icmp::new(w.number()?, w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "rest" => h.rest_of_header(w.number()?),
            "checksum" => h.checksum(w.number()?),
            _ => return unknown("icmp", &field),
        };
    }
    Ok(h.into())
}

/// `icmp6 TYPE CODE`
fn icmp6(w: &mut Words) -> Result<Frame, String> {
    let mut h = Icmpv6::new(w.number()?, w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "rest" => h.rest_of_header(w.number()?),
            "target" => h.target(w.parsed::<Ipv6Addr>()?),
            "checksum" => h.checksum(w.number()?),
            _ => return unknown("icmp6", &field),
        };
    }
    Ok(h.into())
}

/// `igmp TYPE GROUP`
fn igmp(w: &mut Words) -> Result<Frame, String> {
    let mut h = Igmp::new(w.number()?, w.parsed::<Ipv4Addr>()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "mrt" => h.max_response(w.number()?),
            _ => return unknown("igmp", &field),
        };
    }
    Ok(h.into())
}

fn sctp(w: &mut Words) -> Result<Frame, String> {
    let (sport, dport) = w.pair::<u16>()?;
    let mut h = Sctp::new(sport, dport);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "vtag" => h.vtag(w.number()?),
            "chunk" => h.chunk(w.number()?, w.number()?, &w.hex()?),
            "checksum" => h.checksum(w.number()?),
            _ => return unknown("sctp", &field),
        };
    }
    Ok(h.into())
}

/// `dccp PORT > PORT type TYPE [options HEX]`
fn dccp(w: &mut Words) -> Result<Frame, String> {
    let (sport, dport) = w.pair::<u16>()?;
    if !w.take("type") {
        return Err("dccp: its type is expected".into());
    }
    let mut h = Dccp::new(sport, dport, w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "options" => h.options(&w.hex()?),
            _ => return unknown("dccp", &field),
        };
    }
    Ok(h.into())
}

fn gre(w: &mut Words) -> Result<Frame, String> {
    let mut h = Gre::new();
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "key" => h.key(w.number()?),
            "seq" => h.sequence(w.number()?),
            "csum" => h.with_checksum(),
            "proto" => h.protocol(w.number()?),
            _ => return unknown("gre", &field),
        };
    }
    Ok(h.into())
}

fn geneve(w: &mut Words) -> Result<Frame, String> {
    let mut h = Geneve::new(w.number()?);
    while let Some(field) = w.field() {
        h = match field.as_str() {
            "option" => h.option(w.number()?, w.number()?, &w.hex()?),
            "proto" => h.protocol(w.number()?),
            _ => return unknown("geneve", &field),
        };
    }
    Ok(h.into())
}
