// SPDX-License-Identifier: Apache-2.0

//! Rules of nft that do what a flow specification says, in a base chain of a table of family inet
//! before defragmentation, where fragments are as they came.
//!
//! A component becomes a match on a field and a set of values, whatever its operators are. A few
//! become several rules, of which a packet meets one at most: the ports of either end, and
//! fragments of IPv6. Packets that are not TCP or UDP have no port, and fragments other than the
//! first have neither ports nor flags nor a type of ICMP.

use std::fmt::Write as _;

use super::action::{Actions, Rate};
use super::values::{self, Range};
use super::{
    BitField, Component, FRAGMENT_DF, FRAGMENT_FIRST, FRAGMENT_IS, FRAGMENT_LAST, Field, FlowSpec,
    Pattern,
};
use crate::span::Family;

/// Characters of a comment: nft allows 128 bytes.
const COMMENT: usize = 120;

/// The rules of a specification with its actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRules {
    /// Tells it from others: a hash of all that it says.
    pub key: String,
    /// The specification in words.
    pub words: String,
    /// The name and the definition of a limit that the rules use.
    pub limit: Option<(String, String)>,
    /// The rules in their order, each with its name, which its comment begins with.
    pub rules: Vec<(String, String)>,
}

impl FlowRules {
    /// Makes the rules.
    ///
    /// # Errors
    /// A sentence: it cannot be expressed, or no packet can meet it.
    pub fn new(spec: &FlowSpec, actions: &Actions) -> Result<FlowRules, String> {
        let matches = matches(spec)?;
        let words = spec.to_string();
        let key = format!("{:016x}", hash(&format!("{:?} {words} {actions:?}", spec.family)));
        let network = match spec.family {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        };
        let verdict = if actions.goes_on { "" } else { " accept" };
        let mark = actions.mark.map(|dscp| format!(" {network} dscp set {dscp}"));
        let passing = format!("counter{}{verdict}", mark.unwrap_or_default());
        let (limit, effects) = match actions.rate {
            Some(Rate::Zero) => (None, vec!["counter drop".to_owned()]),
            None => (None, vec![passing]),
            Some(rate @ (Rate::Bytes(_) | Rate::Packets(_))) => {
                let name = format!("flow-{key}");
                let definition = match rate {
                    // A second's worth may come at once, as with bytes.
                    Rate::Packets(rate) => {
                        format!("rate over {rate}/second burst {} packets", rate.min(1 << 30))
                    }
                    Rate::Bytes(rate) => format!("rate over {rate} bytes/second"),
                    Rate::Zero => String::new(),
                };
                let beyond = format!("limit name \"{name}\" counter drop");
                (Some((name, definition)), vec![beyond, passing])
            }
        };
        let mut rules = Vec::new();
        for effect in &effects {
            for met in &matches {
                let name = format!("{key}.{}", rules.len());
                let comment: String = format!("{name} {words}").chars().take(COMMENT).collect();
                rules.push((name, format!("{met} {effect} comment \"{comment}\"")));
            }
        }
        Ok(FlowRules { key, words, limit, rules })
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An address with its length, and its offset if it has one, as `2001:db8::/48/16`.
pub(super) fn address(family: Family, pattern: Pattern) -> String {
    let address = plain(family, pattern.address);
    match pattern.offset {
        0 => format!("{address}/{}", pattern.length),
        offset => format!("{address}/{}/{offset}", pattern.length),
    }
}

fn plain(family: Family, address: u128) -> String {
    match family {
        Family::V4 => std::net::Ipv4Addr::from(address as u32).to_string(),
        Family::V6 => std::net::Ipv6Addr::from(address).to_string(),
    }
}

/// Matches of which a packet of the specification meets one, and others none.
fn matches(spec: &FlowSpec) -> Result<Vec<String>, String> {
    let family = spec.family;
    let mut all = vec![match family {
        Family::V4 => "meta nfproto ipv4".to_owned(),
        Family::V6 => "meta nfproto ipv6".to_owned(),
    }];
    if spec.components().iter().any(reads_transport) {
        let not_later = match family {
            Family::V4 => vec!["ip frag-off & 0x1fff == 0"],
            Family::V6 => vec!["exthdr frag missing", "frag frag-off { 0 }"],
        };
        all = not_later.iter().map(|met| format!("{} {met}", all[0])).collect();
    }
    for component in spec.components() {
        let alternatives = match component {
            Component::Destination(pattern) => pattern_match(family, "daddr", *pattern),
            Component::Source(pattern) => pattern_match(family, "saddr", *pattern),
            Component::Numbers(field, items) => {
                number_matches(family, *field, &values::numbers(items, field.highest()))
            }
            Component::Bits(BitField::TcpFlags, items) => {
                if items.iter().any(|item| item.value > 0xff) {
                    return Err("flags of TCP beyond the eight from CWR to FIN".into());
                }
                let allowed = values::ranges(values::bits(items, 256));
                if allowed.is_empty() {
                    Vec::new()
                } else {
                    vec![format!("meta l4proto {{ 6 }} @th,104,8 {}", set(&allowed))]
                }
            }
            Component::Bits(BitField::Fragment, items) => {
                fragment_matches(family, &values::bits(items, 16).collect::<Vec<_>>())
            }
        };
        if alternatives.is_empty() {
            return Err("no packet can meet it".into());
        }
        let with = |before: &String| {
            let before = before.clone();
            alternatives.iter().map(move |more| match more.is_empty() {
                true => before.clone(),
                false => format!("{before} {more}"),
            })
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

/// Whether a component is about bytes that fragments other than the first do not have. Loads of
/// one, two and four bytes do not ask for fragments (`nft_payload_fast_eval()` of Linux).
fn reads_transport(component: &Component) -> bool {
    match component {
        Component::Destination(_) | Component::Source(_) => false,
        Component::Bits(field, _) => *field == BitField::TcpFlags,
        Component::Numbers(field, _) => matches!(
            field,
            Field::Port
                | Field::DestinationPort
                | Field::SourcePort
                | Field::IcmpType
                | Field::IcmpCode
        ),
    }
}

fn pattern_match(family: Family, end: &str, pattern: Pattern) -> Vec<String> {
    let network = match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    let address = plain(family, pattern.address);
    vec![match (pattern.length, pattern.offset) {
        (0, _) => String::new(),
        (length, 0) => format!("{network} {end} {address}/{length}"),
        (..) => {
            let mask = plain(family, pattern.mask(family));
            format!("{network} {end} & {mask} == {address}")
        }
    }]
}

/// `{ 1, 5-7 }`
fn set(ranges: &[Range]) -> String {
    let mut text = String::from("{ ");
    for (i, (first, last)) in ranges.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        let _ = match first == last {
            true => write!(text, "{comma}{first}"),
            false => write!(text, "{comma}{first}-{last}"),
        };
    }
    text.push_str(" }");
    text
}

fn number_matches(family: Family, field: Field, allowed: &[Range]) -> Vec<String> {
    if allowed.is_empty() {
        return Vec::new();
    }
    let is_any = allowed == [(0, field.highest())];
    // Of fields that every packet has, all values need no match.
    let of_header = |name: &str| match is_any {
        true => String::new(),
        false => format!("{name} {}", set(allowed)),
    };
    let icmp = match family {
        Family::V4 => "meta l4proto { 1 }",
        Family::V6 => "meta l4proto { 58 }",
    };
    const PORTS: &str = "meta l4proto { 6, 17 }";
    const SOURCE: &str = "@th,0,16";
    const DESTINATION: &str = "@th,16,16";
    vec![match (field, family) {
        (Field::Protocol, Family::V4) => of_header("ip protocol"),
        (Field::Protocol, Family::V6) => of_header("meta l4proto"),
        (Field::Port, _) => {
            let set = set(allowed);
            let destination = format!("{PORTS} {DESTINATION} {set}");
            if is_any {
                return vec![destination];
            }
            let source = format!("{PORTS} {DESTINATION} != {set} {SOURCE} {set}");
            return vec![destination, source];
        }
        (Field::DestinationPort, _) => format!("{PORTS} {DESTINATION} {}", set(allowed)),
        (Field::SourcePort, _) => format!("{PORTS} {SOURCE} {}", set(allowed)),
        (Field::IcmpType, _) => format!("{icmp} @th,0,8 {}", set(allowed)),
        (Field::IcmpCode, _) => format!("{icmp} @th,8,8 {}", set(allowed)),
        (Field::Length, Family::V4) => of_header("ip length"),
        (Field::Length, Family::V6) => {
            // The field has the bytes after the header of 40.
            let after: Vec<Range> = allowed
                .iter()
                .filter(|(_, last)| *last >= 40)
                .map(|(first, last)| (first.saturating_sub(40), last - 40))
                .collect();
            match after[..] {
                [] => return Vec::new(),
                _ if is_any => String::new(),
                _ => format!("ip6 length {}", set(&after)),
            }
        }
        (Field::Dscp, Family::V4) => each("ip dscp", is_any, allowed),
        (Field::Dscp, Family::V6) => each("ip6 dscp", is_any, allowed),
        (Field::FlowLabel, _) => of_header("ip6 flowlabel"),
    }]
}

/// A match on values one by one.
fn each(name: &str, is_any: bool, allowed: &[Range]) -> String {
    if is_any {
        return String::new();
    }
    let values: Vec<Range> =
        allowed.iter().flat_map(|(first, last)| (*first..=*last).map(|v| (v, v))).collect();
    format!("{name} {}", set(&values))
}

/// Matches on which fragment a packet is; `allowed` are the allowed values of the component's byte.
fn fragment_matches(family: Family, allowed: &[u32]) -> Vec<String> {
    /// In the field of IPv4: don't fragment, more fragments, the bits of the offset.
    const DF: u32 = 0x4000;
    const MF: u32 = 0x2000;
    const OFFSET: u32 = 0x1fff;
    // (more fragments follow, it has an offset), and the byte without DF.
    let kinds = [
        (false, false, 0),
        (false, true, FRAGMENT_IS | FRAGMENT_LAST),
        (true, false, FRAGMENT_FIRST),
        (true, true, FRAGMENT_IS),
    ];
    match family {
        Family::V4 => {
            let mut ranges = Vec::new();
            // The highest bit is reserved and means nothing.
            for upper in [0, 0x8000, DF, DF | 0x8000] {
                let df = if upper & DF != 0 { FRAGMENT_DF } else { 0 };
                for (more, offset, byte) in kinds {
                    if allowed.contains(&(byte | df)) {
                        let base = upper | if more { MF } else { 0 };
                        ranges.push(if offset { (base | 1, base | OFFSET) } else { (base, base) });
                    }
                }
            }
            ranges.sort_unstable();
            let mut joined = Vec::new();
            ranges.into_iter().for_each(|range| values::push(&mut joined, range));
            match joined[..] {
                [] => Vec::new(),
                [(0, 0xffff)] => vec![String::new()],
                _ => vec![format!("@nh,48,16 {}", set(&joined))],
            }
        }
        Family::V6 => {
            let mut all = Vec::new();
            if kinds.iter().all(|(_, _, byte)| allowed.contains(byte)) {
                return vec![String::new()];
            }
            for (more, offset, byte) in kinds {
                if allowed.contains(&byte) {
                    if byte == 0 {
                        all.push("exthdr frag missing".to_owned());
                    }
                    let offsets = if offset { "{ 1-8191 }" } else { "{ 0 }" };
                    let more = u8::from(more);
                    all.push(format!("frag frag-off {offsets} frag more-fragments {{ {more} }}"));
                }
            }
            all
        }
    }
}
