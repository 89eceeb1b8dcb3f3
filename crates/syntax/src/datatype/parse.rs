// SPDX-License-Identifier: Apache-2.0

//! A word to a value of a type.

use std::net::{IpAddr, Ipv6Addr};

use crate::datatype::{ByteOrder, DataType, symbols, time};
use crate::names::Names;

/// A constant. Numbers are numbers whatever their byte order will be in a register; text is its
/// bytes, the first one lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The value. Not checked against the width of the type: `ip dscp 64` is for the expression to
    /// refuse.
    pub value: u128,
    /// Bits: of the type, or of the text.
    pub len: u32,
    /// Byte order of the type.
    pub order: ByteOrder,
}

/// Longest text that a register comparison takes, with its terminating zero.
const TEXT_LENGTH: usize = 16;

/// Protocols that are words of the language.
const PROTOCOLS: [(&str, u8); 11] = [
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("esp", 50),
    ("ah", 51),
    ("icmp", 1),
    ("igmp", 2),
    ("icmpv6", 58),
    ("dccp", 33),
    ("sctp", 132),
    ("comp", 108),
];

/// Parses what was written for a value of the type. The error is nft's text for it.
pub fn parse(dtype: DataType, text: &str, names: &dyn Names) -> Result<Constant, String> {
    let value = match dtype {
        DataType::Invalid => return Err("Can't parse symbolic invalid expressions".into()),
        DataType::Verdict => {
            return Err("Can't parse symbolic netfilter verdict expressions".into());
        }
        DataType::String | DataType::IfName => return parse_text(dtype, text),
        DataType::LlAddr | DataType::EtherAddr => parse_link_address(dtype, text)?,
        DataType::IpAddr => parse_ipv4(text, names)?,
        DataType::Ip6Addr => parse_ipv6(text, names)?,
        DataType::InetProtocol => match number(text) {
            Some(n) if n > 255 => return Err("Protocol out of range".into()),
            Some(n) => n,
            None => match PROTOCOLS.iter().find(|(name, _)| *name == text) {
                Some((_, n)) => (*n).into(),
                None => {
                    names.protocol_number(text).ok_or("Could not resolve protocol name")?.into()
                }
            },
        },
        DataType::InetService => match number(text).or_else(|| decimal(text)) {
            Some(n) if n > 65535 => return Err("Service out of range".into()),
            Some(n) => n,
            None => names
                .service_port(text, None)
                .ok_or("Could not resolve service: Servname not supported for ai_socktype")?
                .into(),
        },
        DataType::Time => time::parse_duration(text).ok_or("wrong time format")?.into(),
        DataType::TimeDate => time::parse_date(text, names).ok_or("Cannot parse date")?.into(),
        DataType::TimeHour => time::parse_hour(text, names).ok_or("wrong time format")?.into(),
        DataType::Mark => from_system(dtype, "rt_marks", text, names)?,
        DataType::Realm => from_system(dtype, "rt_realms", text, names)?,
        DataType::DevGroup => from_system(dtype, "group", text, names)?,
        DataType::CtLabel => parse_label(text, names)?,
        DataType::IfIndex => match names.interface_index(text) {
            Some(index) => index.into(),
            None => number(text).or_else(|| decimal(text)).ok_or("Interface does not exist")?,
        },
        DataType::Classid => parse_classid(text)?,
        DataType::Uid => match names.user_id(text) {
            Some(id) => id.into(),
            None => account(number(text).or_else(|| decimal(text)), "User does not exist")?,
        },
        DataType::Gid => match names.group_id(text) {
            Some(id) => id.into(),
            None => account(number(text), "Group does not exist")?,
        },
        DataType::Cgroupv2 => {
            names.cgroup_id(text).map_err(|e| format!("cgroupv2 path fails: {e}"))?.into()
        }
        DataType::NfProto
        | DataType::Bitmask
        | DataType::Integer
        | DataType::RawInteger
        | DataType::MptcpSubtype
        | DataType::EtherType
        | DataType::ArpOp
        | DataType::IcmpType
        | DataType::TcpFlag
        | DataType::DccpPktType
        | DataType::MhType
        | DataType::ArpHrd
        | DataType::CtState
        | DataType::CtDir
        | DataType::CtStatus
        | DataType::Icmp6Type
        | DataType::PktType
        | DataType::IcmpCode
        | DataType::Icmpv6Code
        | DataType::IcmpxCode
        | DataType::Dscp
        | DataType::Ecn
        | DataType::FibAddr
        | DataType::Boolean
        | DataType::CtEventBit
        | DataType::IgmpType
        | DataType::TimeDay => match symbols::of(dtype).and_then(|table| table.value(text)) {
            Some(value) => value.into(),
            None => number(text).ok_or_else(|| unknown(dtype))?,
        },
    };
    Ok(Constant { value, len: dtype.size(), order: dtype.order() })
}

fn unknown(dtype: DataType) -> String {
    format!("Could not parse {}", dtype.description())
}

/// A number: decimal, `0x…` or with a leading 0 octal (so `08` is none). What does not fit 128 bits
/// is the largest number that does.
pub fn number(text: &str) -> Option<u128> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    digits_value(digits, radix)
}

/// Decimal digits, of which the first ones may be zeros: services, users and interfaces may be
/// written so.
fn decimal(text: &str) -> Option<u128> {
    digits_value(text, 10)
}

fn digits_value(digits: &str, radix: u32) -> Option<u128> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    Some(u128::from_str_radix(digits, radix).unwrap_or(u128::MAX))
}

/// Text to its bytes, the first one lowest.
pub fn text_value(text: &str) -> u128 {
    text.bytes()
        .take(TEXT_LENGTH)
        .enumerate()
        .fold(0, |value, (i, byte)| value | u128::from(byte) << (8 * i))
}

fn parse_text(dtype: DataType, text: &str) -> Result<Constant, String> {
    if text.len() >= TEXT_LENGTH {
        return Err(format!("String exceeds maximum length of {TEXT_LENGTH}"));
    }
    // At most 15 bytes: the cast cannot cut.
    Ok(Constant { value: text_value(text), len: text.len() as u32 * 8, order: dtype.order() })
}

fn from_system(
    dtype: DataType,
    table: &str,
    text: &str,
    names: &dyn Names,
) -> Result<u128, String> {
    match names.table_value(table, text) {
        Some(value) => Ok(value.into()),
        None => number(text).ok_or_else(|| unknown(dtype)),
    }
}

/// Bytes in hexadecimal; those of an Ethernet address that are not written are zeros in front.
fn parse_link_address(dtype: DataType, text: &str) -> Result<u128, String> {
    let most = if dtype == DataType::EtherAddr { 6 } else { 16 };
    let byte = |part: &str| match part.len() {
        1 | 2 => u8::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+')),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    let bytes = bytes.filter(|bytes| bytes.len() <= most).ok_or("Invalid LL address")?;
    Ok(bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
}

/// The forms of inet_aton(3): one to four numbers, the last one filling what is left.
fn inet_aton(text: &str) -> Option<u32> {
    let parts: Vec<u128> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    if parts.len() > 4 || first.iter().any(|p| *p > 255) {
        return None;
    }
    let rest_bits = 8 * (4 - first.len() as u32);
    if *last >= 1u128 << rest_bits {
        return None;
    }
    let high = first.iter().fold(0u128, |v, p| v << 8 | p);
    u32::try_from(high << rest_bits | last).ok()
}

const WRONG_FAMILY: &str = "Could not resolve hostname: Address family for hostname not supported";

/// The number of a user or group.
fn account(number: Option<u128>, unknown: &str) -> Result<u128, String> {
    match number {
        Some(id) if id > u128::from(u32::MAX) => Err("Value too large".into()),
        Some(id) => Ok(id),
        None => Err(unknown.into()),
    }
}

const NO_HOST: &str = "Could not resolve hostname: Name or service not known";
const MANY_ADDRESSES: &str = "Hostname resolves to multiple addresses";

fn parse_ipv4(text: &str, names: &dyn Names) -> Result<u128, String> {
    if let Some(address) = inet_aton(text) {
        return Ok(address.into());
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(WRONG_FAMILY.into());
    }
    let mut found = names.host_addresses(text).into_iter().filter_map(|a| match a {
        IpAddr::V4(a) => Some(u32::from(a).into()),
        IpAddr::V6(_) => None,
    });
    let first = found.next().ok_or(NO_HOST)?;
    if found.any(|other| other != first) { Err(MANY_ADDRESSES.into()) } else { Ok(first) }
}

fn parse_ipv6(text: &str, names: &dyn Names) -> Result<u128, String> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(address.into());
    }
    if inet_aton(text).is_some() {
        return Err(WRONG_FAMILY.into());
    }
    let mut found = names.host_addresses(text).into_iter().filter_map(|a| match a {
        IpAddr::V6(a) => Some(u128::from(a)),
        IpAddr::V4(_) => None,
    });
    let first = found.next().ok_or(NO_HOST)?;
    if found.any(|other| other != first) { Err(MANY_ADDRESSES.into()) } else { Ok(first) }
}

fn parse_label(text: &str, names: &dyn Names) -> Result<u128, String> {
    const TABLE: &str = "connlabel.conf";
    let bit = match names.table_value(TABLE, text) {
        Some(bit) => u128::from(bit),
        None => number(text)
            .ok_or_else(|| format!("/etc/{TABLE}: could not parse conntrack label \"{text}\""))?,
    };
    if bit >= 128 {
        return Err(format!("{text}: bit {bit} out of range (128 max)"));
    }
    Ok(1 << bit)
}

/// `MAJOR:MINOR` in hexadecimal, `root`, `none`, or a number, of which 32 bits count. As tc does,
/// what is no number counts as 0.
fn parse_classid(text: &str) -> Result<u128, String> {
    Ok(match text {
        "root" => 0xffff_ffff,
        "none" => 0,
        _ => match text.split_once(':') {
            Some((major, minor)) => {
                let half = |part: &str| -> Result<u128, String> {
                    if part.is_empty() {
                        return Ok(0);
                    }
                    u16::from_str_radix(part.strip_prefix("0x").unwrap_or(part), 16)
                        .map(u128::from)
                        .map_err(|_| unknown(DataType::Classid))
                };
                half(major)? << 16 | half(minor)?
            }
            None => number(text).map_or(0, |n| n.min(u64::MAX.into()) & 0xffff_ffff),
        },
    })
}
