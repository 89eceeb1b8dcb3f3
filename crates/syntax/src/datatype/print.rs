// SPDX-License-Identifier: Apache-2.0

//! A value to canonical text.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::datatype::{DataType, symbols, time};
use crate::names::Names;
use crate::release::Release;

/// What of a listing the options change (`NFT_CTX_OUTPUT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Format {
    /// `-a`: handles.
    pub handles: bool,
    /// `-s`: no state of counters, quotas and the like.
    pub stateless: bool,
    /// `-t`: no elements of sets.
    pub terse: bool,
    /// `-n`: numbers for symbolic constants.
    pub numeric_symbols: bool,
    /// `-y`, and part of `-n`: numbers for priorities.
    pub numeric_priority: bool,
    /// `-p`, and part of `-n`: numbers for protocols.
    pub numeric_protocol: bool,
    /// `-T`, and part of `-n`: durations in seconds.
    pub numeric_time: bool,
    /// `-S`: names of services.
    pub service_names: bool,
    /// `-u`: names of users and groups.
    pub user_names: bool,
    /// `-N`: names of hosts.
    pub host_names: bool,
    /// `--backend`: how sets are searched. Not one of nft's.
    pub backends: bool,
    /// `--compat`: the release whose form it has. Not one of nft's.
    pub release: Release,
}

/// Appends a value of a type. `len` is in bits: text is cut there, link layer addresses have that
/// many.
pub fn print(
    dtype: DataType,
    value: u128,
    len: u32,
    format: &Format,
    names: &dyn Names,
    out: &mut String,
) {
    match dtype {
        DataType::String | DataType::IfName => {
            out.push('"');
            push_text(value, out);
            out.push('"');
        }
        DataType::LlAddr | DataType::EtherAddr => print_link_address(value, len, out),
        DataType::Time => time::print_duration(value as u64, format.numeric_time, out),
        DataType::TimeDate => time::print_date(value as u64, names, out),
        DataType::TimeHour => time::print_hour(value as u64, names, out),
        _ => match name_of(dtype, value, format, names) {
            Some(Name::Bare(name)) => out.push_str(&name),
            Some(Name::Quoted(name)) => quoted(&name, out),
            None => print_unnamed(dtype, value, out),
        },
    }
}

/// A name that is listed instead of a value.
enum Name {
    Bare(Cow<'static, str>),
    /// In quotation marks.
    Quoted(Cow<'static, str>),
}

/// The name of a value: from the type's symbols, or from the system. The format may ask for the
/// number instead.
fn name_of(dtype: DataType, value: u128, format: &Format, names: &dyn Names) -> Option<Name> {
    let quoted = |name: Option<String>| name.map(|name| Name::Quoted(name.into()));
    let bare = |name: Option<String>| name.map(|name| Name::Bare(name.into()));
    let from_system = |table, value| quoted(from_system(table, value, format, names));
    match dtype {
        DataType::IpAddr if format.host_names => {
            bare(names.host_name(Ipv4Addr::from(value as u32).into()))
        }
        DataType::Ip6Addr if format.host_names => {
            bare(names.host_name(Ipv6Addr::from(value).into()))
        }
        DataType::InetProtocol if !format.numeric_protocol => {
            bare(u8::try_from(value).ok().and_then(|n| names.protocol_name(n)))
        }
        DataType::InetService if format.service_names => {
            quoted(u16::try_from(value).ok().and_then(|p| names.service_name(p, None)))
        }
        DataType::Mark => from_system("rt_marks", value),
        DataType::Realm => from_system("rt_realms", value),
        DataType::DevGroup => from_system("group", value),
        DataType::CtLabel if value.is_power_of_two() => {
            from_system("connlabel.conf", value.trailing_zeros().into())
        }
        DataType::IfIndex => {
            quoted(u32::try_from(value).ok().and_then(|i| names.interface_name(i)))
        }
        DataType::Classid => match value {
            0xffff_ffff => Some(Name::Bare("root".into())),
            0 => Some(Name::Bare("none".into())),
            _ => None,
        },
        DataType::Uid => quoted(user(value, format, |id| names.user_name(id))),
        DataType::Gid => quoted(user(value, format, |id| names.group_name(id))),
        DataType::Cgroupv2 => {
            quoted(u64::try_from(value).ok().and_then(|id| names.cgroup_path(id)))
        }
        DataType::TimeDay => symbol(dtype, value, format).map(|name| Name::Quoted(name.into())),
        DataType::NfProto
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
        | DataType::IgmpType => symbol(dtype, value, format).map(|name| Name::Bare(name.into())),
        // nft reads the names of MPTCP subtypes and does not list them.
        DataType::MptcpSubtype => None,
        DataType::IpAddr
        | DataType::Ip6Addr
        | DataType::InetProtocol
        | DataType::InetService
        | DataType::CtLabel
        | DataType::Invalid
        | DataType::Verdict
        | DataType::Integer
        | DataType::Bitmask
        | DataType::RawInteger
        | DataType::String
        | DataType::IfName
        | DataType::LlAddr
        | DataType::EtherAddr
        | DataType::Time
        | DataType::TimeDate
        | DataType::TimeHour => None,
    }
}

/// Appends a value without a name: an address, or a number in the format of its type.
fn print_unnamed(dtype: DataType, value: u128, out: &mut String) {
    // Writing to a String does not fail.
    let _ = match dtype {
        DataType::IpAddr => return print_ipv4(Ipv4Addr::from(value as u32), out),
        DataType::Ip6Addr => return print_ipv6(Ipv6Addr::from(value), out),
        DataType::CtLabel if value.is_power_of_two() => {
            return decimal(value.trailing_zeros().into(), out);
        }
        DataType::Classid => write!(out, "{:x}:{:x}", (value >> 16) as u16, value as u16),
        DataType::EtherType => write!(out, "{value:#06x}"),
        DataType::Dscp => write!(out, "{value:#04x}"),
        DataType::Mark => write!(out, "{value:#010x}"),
        DataType::Bitmask | DataType::RawInteger | DataType::Ecn => {
            return hexadecimal(value, out);
        }
        _ if dtype.is_bitmask() => return hexadecimal(value, out),
        _ => return decimal(value, out),
    };
}

fn symbol(dtype: DataType, value: u128, format: &Format) -> Option<&'static str> {
    if format.numeric_symbols {
        return None;
    }
    symbols::of(dtype).and_then(|table| table.name(value))
}

fn from_system(table: &str, value: u128, format: &Format, names: &dyn Names) -> Option<String> {
    if format.numeric_symbols {
        return None;
    }
    u32::try_from(value).ok().and_then(|v| names.table_name(table, v))
}

fn user(value: u128, format: &Format, name: impl Fn(u32) -> Option<String>) -> Option<String> {
    if format.user_names { u32::try_from(value).ok().and_then(name) } else { None }
}

/// Two digits for each byte, with colons between them. `len` is in bits.
fn print_link_address(value: u128, len: u32, out: &mut String) {
    for i in (0..len.div_ceil(8)).rev() {
        let _ = write!(out, "{:02x}", (value >> (8 * i)) as u8);
        if i > 0 {
            out.push(':');
        }
    }
}

fn print_ipv4(address: Ipv4Addr, out: &mut String) {
    let mut text = Short::default();
    for (i, byte) in address.octets().into_iter().enumerate() {
        if i > 0 {
            text.push(b'.');
        }
        text.decimal(byte.into());
    }
    out.push_str(text.as_str());
}

/// A buffer for text of up to 40 bytes. A listing may have millions of addresses, and `fmt` is
/// slow.
struct Short {
    bytes: [u8; 40],
    len: usize,
}

impl Default for Short {
    fn default() -> Self {
        Short { bytes: [0; 40], len: 0 }
    }
}

impl Short {
    #[inline]
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    #[inline]
    fn decimal(&mut self, value: u16) {
        let mut unit = 10_000;
        while unit > 1 && value < unit {
            unit /= 10;
        }
        while unit > 0 {
            self.push(b'0' + (value / unit % 10) as u8);
            unit /= 10;
        }
    }

    #[inline]
    fn hexadecimal(&mut self, value: u16) {
        let digits = (19 - value.leading_zeros()).max(4) / 4;
        for digit in (0..digits).rev() {
            self.push(b"0123456789abcdef"[usize::from(value >> (4 * digit) & 15)]);
        }
    }

    fn as_str(&self) -> &str {
        self.bytes
            .get(..self.len)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

/// As inet_ntop(3), which shows some addresses below `::1:0:0` in dotted form where Rust does not.
fn print_ipv6(address: Ipv6Addr, out: &mut String) {
    let s = address.segments();
    if s[0] != 0 {
        print_groups(&s, out);
    } else if s[..6] == [0; 6] && s[6] != 0 {
        let _ = write!(out, "::{}", Ipv4Addr::from(u128::from(address) as u32));
    } else {
        let _ = write!(out, "{address}");
    }
}

/// Groups of an address that does not begin with zeros: of runs of two or more zeros the first of
/// the longest is left out.
fn print_groups(groups: &[u16; 8], out: &mut String) {
    let (mut from, mut to, mut start) = (8, 8, 0);
    for (i, group) in groups.iter().enumerate() {
        if *group != 0 {
            start = i + 1;
        } else if i + 1 - start > (to - from).max(1) {
            (from, to) = (start, i + 1);
        }
    }
    let mut text = Short::default();
    for (i, group) in groups.iter().enumerate() {
        if i == from {
            text.push(b':');
            text.push(b':');
        } else if i < from || i >= to {
            if i > 0 && i != to {
                text.push(b':');
            }
            text.hexadecimal(*group);
        }
    }
    out.push_str(text.as_str());
}

fn push_text(value: u128, out: &mut String) {
    let bytes = value.to_le_bytes();
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    out.push_str(&String::from_utf8_lossy(&bytes[..end]));
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    out.push_str(text);
    out.push('"');
}

fn decimal(value: u128, out: &mut String) {
    // Most numbers are short, and u128 formatting is slow.
    if let Ok(value) = u16::try_from(value) {
        let mut text = Short::default();
        text.decimal(value);
        return out.push_str(text.as_str());
    }
    let _ = match u64::try_from(value) {
        Ok(value) => write!(out, "{value}"),
        Err(_) => write!(out, "{value}"),
    };
}

fn hexadecimal(value: u128, out: &mut String) {
    let _ = write!(out, "{value:#x}");
}
