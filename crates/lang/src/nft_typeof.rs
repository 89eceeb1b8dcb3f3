// SPDX-License-Identifier: Apache-2.0

//! What nft keeps of `typeof` with a set (`NFTNL_UDATA_SET_KEY_TYPEOF`, `..._DATA_TYPEOF`): its own
//! numbers of expressions, headers and fields, read from what nft 1.0.6 sends.
//!
//! All is type-length-value with one byte each for type and length; numbers have four bytes in host
//! order. An expression has a kind (0) and data (1), which each kind has in its own way. Those of a
//! concatenation are an expression for each part.

use penstock_program::expr::ExthdrOp;
use penstock_syntax::datatype::{ByteOrder, DataType};
use penstock_syntax::exthdr::{self, ExthdrDesc};
use penstock_syntax::keys::{self, KeyInfo, ValueType};
use penstock_syntax::proto::{self, Template};

use crate::key_type::Field;
use crate::tlv::{get, number};

/// Of an expression.
const KIND: u8 = 0;
const DATA: u8 = 1;

/// Kinds (`enum expr_types`).
const PAYLOAD: u32 = 7;
const EXTHDR: u32 = 8;
const META: u32 = 9;
const SOCKET: u32 = 10;
const OSF: u32 = 11;
const CT: u32 = 12;
const CONCAT: u32 = 13;
const NUMGEN: u32 = 23;
const HASH: u32 = 24;
const RT: u32 = 25;
const FIB: u32 = 26;
const XFRM: u32 = 27;

/// Headers by number (`enum proto_desc_id`), from 1; fields count from 1, too.
const HEADERS: [&str; 17] = [
    "ah", "esp", "comp", "icmp", "igmp", "udp", "udplite", "tcp", "dccp", "sctp", "th", "ip",
    "ip6", "icmpv6", "arp", "vlan", "ether",
];
/// IPv6 extension headers by number (`enum exthdr_desc_id`), from 1; fields count from 1, too.
const EXTENSIONS: [&str; 8] = ["hbh", "rt", "rt0", "rt2", "srh", "frag", "dst", "mh"];
/// Fields of IPv4 options by number, from 1.
const OPTION_FIELDS: [&str; 5] = ["type", "length", "value", "ptr", "addr"];
/// Bases of headers without a name, from 1 (`enum proto_bases`).
const BASES: [&str; 4] = ["ll", "nh", "th", "ih"];

/// What `typeof` was given: its text as it is listed, and the fields that it stands for.
pub(crate) struct Selector {
    pub(crate) text: String,
    pub(crate) fields: Vec<Field>,
}

/// Reads an expression; `None` for one that is not known.
pub(crate) fn decode(bytes: &[u8]) -> Option<Selector> {
    if number(bytes, KIND)? != CONCAT {
        let (text, field) = one(bytes)?;
        return Some(Selector { text, fields: vec![field] });
    }
    let data = get(bytes, DATA)?;
    let parts: Option<Vec<(String, Field)>> =
        (0..=u8::MAX).map_while(|n| get(&data, n)).map(|part| one(&part)).collect();
    // Of a concatenation by types nft keeps that it is one.
    let (texts, fields): (Vec<String>, Vec<Field>) =
        parts.filter(|parts| !parts.is_empty())?.into_iter().unzip();
    Some(Selector { text: texts.join(" . "), fields })
}

/// An expression that is no concatenation.
fn one(bytes: &[u8]) -> Option<(String, Field)> {
    let data = get(bytes, DATA).unwrap_or_default();
    let at = |kind| number(&data, kind);
    match number(bytes, KIND)? {
        PAYLOAD => payload(&data),
        EXTHDR => extension(at(0)?, at(1)?, at(2).unwrap_or(0)),
        META => {
            let info = keys::META.iter().find(|info| Some(info.key as u32) == at(0))?;
            let unqualified = keys::meta_is_listed_unqualified(info.key);
            let word = if unqualified { "" } else { "meta " };
            Some((format!("{word}{}", info.name), value(info.value)))
        }
        SOCKET => {
            let info = keys::SOCKET.iter().find(|info| Some(info.key as u32) == at(0))?;
            // nft does not keep the level.
            let level = if info.name == "cgroupv2" { " level 0" } else { "" };
            Some((format!("socket {}{level}", info.name), value(info.value)))
        }
        OSF => {
            let field = Field { dtype: DataType::String, order: ByteOrder::Host, len: 128 };
            Some(("osf name".into(), field))
        }
        CT => {
            let info = keys::CT.iter().find(|info| Some(info.key as u32) == at(0))?;
            let direction = match at(1)? {
                0 => "original ",
                1 => "reply ",
                _ => "",
            };
            Some((format!("ct {direction}{}", info.name), value(info.value)))
        }
        NUMGEN => {
            let mode = if at(0)? == 0 { "inc" } else { "random" };
            let text = format!("numgen {mode} mod {}{}", at(1)?, offset(at(2)?));
            Some((text, integer(32)))
        }
        // nft does not keep what is hashed.
        HASH if at(0)? != 0 => {
            Some((format!("symhash mod {}{}", at(2)?, offset(at(1)?)), integer(32)))
        }
        RT => keyed("rt", keys::RT, |key| key as u32, at(0)?),
        FIB => {
            let words: Vec<&str> = keys::fib_flags(at(1)?).collect();
            keyed(&format!("fib {}", words.join(" . ")), keys::FIB, |key| key as u32 + 1, at(0)?)
        }
        XFRM => {
            let direction = if at(2)? == 0 { "in" } else { "out" };
            let number = match at(1)? {
                0 => String::new(),
                number => format!(" spnum {number}"),
            };
            let words = format!("ipsec {direction}{number}");
            keyed(&words, keys::XFRM, |key| key as u32 + 1, at(0)?)
        }
        _ => None,
    }
}

fn value(value: ValueType) -> Field {
    Field { dtype: value.dtype, order: value.order, len: value.len }
}

fn integer(len: u32) -> Field {
    Field { dtype: DataType::Integer, order: ByteOrder::Host, len }
}

fn offset(offset: u32) -> String {
    if offset == 0 { String::new() } else { format!(" offset {offset}") }
}

/// A key by its number, after some words.
fn keyed<K: Copy>(
    words: &str,
    all: &[KeyInfo<K>],
    number_of: impl Fn(K) -> u32,
    number: u32,
) -> Option<(String, Field)> {
    let info = all.iter().find(|info| number_of(info.key) == number)?;
    Some((format!("{words} {}", info.name), value(info.value)))
}

/// A field of a header, or bits of one.
fn payload(data: &[u8]) -> Option<(String, Field)> {
    let at = |kind| number(data, kind);
    let place = |number: u32| usize::try_from(number.checked_sub(1)?).ok();
    let order = ByteOrder::Big;
    let header = at(0)?;
    if header == 0 {
        let (base, offset, len) = (*BASES.get(place(at(2)?)?)?, at(3)?, at(4)?);
        let field = Field { dtype: DataType::RawInteger, order, len };
        return Some((format!("@{base},{offset},{len}"), field));
    }
    let header = proto::find(HEADERS.get(place(header)?)?)?;
    // Where the header before tells what it is, that is field 0.
    let mut fields = header.templates.iter().filter(|field| field.meta.is_none());
    let field: &Template = fields.nth(place(at(1)?)?)?;
    let text = format!("{} {}", header.name, field.name);
    Some((text, Field { dtype: field.dtype, order, len: field.len }))
}

/// A field of an extension header, option or chunk by the numbers of both and of `enum
/// nft_exthdr_op`.
fn extension(header: u32, field: u32, op: u32) -> Option<(String, Field)> {
    let place = usize::try_from(field).ok()?;
    let kind = u8::try_from(header).ok()?;
    let (words, header, field): (&str, &ExthdrDesc, &Template) = match op {
        0 => {
            let name = EXTENSIONS.get(usize::try_from(header.checked_sub(1)?).ok()?)?;
            let header = exthdr::ipv6(name)?;
            ("", header, header.templates.get(place.checked_sub(1)?)?)
        }
        1 => {
            let first = exthdr::tcp_option_by_kind(kind)?;
            // Further blocks of `sack` have two fields each.
            let (header, place) = match (first.name, place) {
                ("sack", 4..) => {
                    (exthdr::tcp_option(&format!("sack{}", place / 2 - 1))?, place % 2)
                }
                _ => (first, place),
            };
            ("tcp option ", header, header.templates.get(place)?)
        }
        2 => {
            let header = exthdr::find_kind(ExthdrOp::Ipv4Opt, kind)?;
            let name = OPTION_FIELDS.get(place.checked_sub(1)?)?;
            ("ip option ", header, header.template(name)?)
        }
        3 => {
            let header = exthdr::find_kind(ExthdrOp::Sctp, kind)?;
            ("sctp chunk ", header, header.templates.get(place)?)
        }
        _ => return None,
    };
    let text = format!("{words}{} {}", header.name, field.name);
    Some((text, Field { dtype: field.dtype, order: ByteOrder::Big, len: field.len }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlv;

    fn put(kind: u8, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::put(&mut out, kind, value);
        out
    }

    fn expression(kind: u32, data: &[(u8, u32)]) -> Vec<u8> {
        let data: Vec<u8> = data.iter().flat_map(|(k, n)| put(*k, &n.to_ne_bytes())).collect();
        [put(KIND, &kind.to_ne_bytes()), put(DATA, &data)].concat()
    }

    #[test]
    fn what_nft_sends_is_read() {
        const NONE: u32 = u32::MAX;
        for (text, kind, data) in [
            ("ip saddr", PAYLOAD, &[(0, 12), (1, 11)][..]),
            ("ip hdrlength", PAYLOAD, &[(0, 12), (1, 2), (4, 4)]),
            ("vlan id", PAYLOAD, &[(0, 16), (1, 4), (4, 12)]),
            ("ether type", PAYLOAD, &[(0, 17), (1, 3)]),
            ("icmpv6 max-delay", PAYLOAD, &[(0, 14), (1, 8), (4, 16)]),
            ("udplite csumcov", PAYLOAD, &[(0, 7), (1, 3), (4, 16)]),
            ("ah sequence", PAYLOAD, &[(0, 1), (1, 5), (4, 32)]),
            ("arp daddr ip", PAYLOAD, &[(0, 15), (1, 9)]),
            ("@ih,32,32", PAYLOAD, &[(0, 0), (1, 0), (2, 4), (3, 32), (4, 32)]),
            ("@ll,0,48", PAYLOAD, &[(0, 0), (1, 0), (2, 1), (3, 0), (4, 48)]),
            ("frag frag-off", EXTHDR, &[(1, 3), (0, 6)]),
            ("srh sid[1]", EXTHDR, &[(1, 4), (0, 5)]),
            ("mh checksum", EXTHDR, &[(1, 5), (0, 8)]),
            ("tcp option maxseg size", EXTHDR, &[(1, 2), (2, 1), (0, 2)]),
            ("tcp option sack right", EXTHDR, &[(1, 3), (2, 1), (0, 5)]),
            ("tcp option sack1 left", EXTHDR, &[(1, 4), (2, 1), (0, 5)]),
            ("tcp option sack3 right", EXTHDR, &[(1, 9), (2, 1), (0, 5)]),
            ("ip option lsrr addr", EXTHDR, &[(1, 5), (2, 2), (0, 0x83)]),
            ("ip option ra value", EXTHDR, &[(1, 3), (2, 2), (0, 0x94)]),
            ("sctp chunk init num-inbound-streams", EXTHDR, &[(1, 6), (2, 3), (0, 1)]),
            ("meta mark", META, &[(0, 3)]),
            ("iifname", META, &[(0, 6)]),
            ("meta ibrpvid", META, &[(0, 28)]),
            ("socket mark", SOCKET, &[(0, 1)]),
            ("osf name", OSF, &[]),
            ("ct mark", CT, &[(0, 3), (1, NONE)]),
            ("ct original ip saddr", CT, &[(0, 19), (1, 0)]),
            ("ct reply packets", CT, &[(0, 14), (1, 1)]),
            ("numgen inc mod 2", NUMGEN, &[(0, 0), (1, 2), (2, 0)]),
            ("numgen random mod 3 offset 5", NUMGEN, &[(0, 1), (1, 3), (2, 5)]),
            ("symhash mod 3 offset 7", HASH, &[(0, 1), (1, 7), (2, 3), (3, 0), (4, 0)]),
            ("rt ip nexthop", RT, &[(0, 1)]),
            ("fib saddr . iif oif", FIB, &[(0, 1), (1, 9)]),
            ("fib daddr type", FIB, &[(0, 3), (1, 2)]),
            ("ipsec in reqid", XFRM, &[(0, 5), (1, 0), (2, 0)]),
            ("ipsec out spnum 2 ip6 daddr", XFRM, &[(0, 2), (1, 2), (2, 1)]),
        ] {
            let decoded = decode(&expression(kind, data)).map(|selector| selector.text);
            assert_eq!(decoded.as_deref(), Some(text));
        }
        let unknown =
            [(PAYLOAD, &[(0, 99), (1, 1)][..]), (HASH, &[(0, 0)]), (99, &[]), (META, &[])];
        for (kind, data) in unknown {
            assert!(decode(&expression(kind, data)).is_none(), "{kind} {data:?}");
        }
    }

    #[test]
    fn parts_of_a_concatenation_have_their_own_lengths() {
        let vlan = expression(PAYLOAD, &[(0, 16), (1, 4), (4, 12)]);
        let address = expression(PAYLOAD, &[(0, 12), (1, 11)]);
        let parts = [put(0, &vlan), put(1, &address)].concat();
        let all = [put(KIND, &CONCAT.to_ne_bytes()), put(DATA, &parts)].concat();
        let Some(selector) = decode(&all) else { panic!("it is known") };
        assert_eq!(selector.text, "vlan id . ip saddr");
        assert_eq!(selector.fields.iter().map(|f| f.len).collect::<Vec<_>>(), [12, 32]);
    }
}
