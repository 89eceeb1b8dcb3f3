// SPDX-License-Identifier: Apache-2.0

//! A value to canonical text.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::datatype::{DataType, symbols, time};
use crate::names::Names;

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
    // Writing to a String does not fail: results are dropped throughout.
    match dtype {
        DataType::String | DataType::IfName => {
            out.push('"');
            push_text(value, out);
            out.push('"');
        }
        DataType::LlAddr | DataType::EtherAddr => {
            for i in (0..len.div_ceil(8)).rev() {
                let _ = write!(out, "{:02x}", (value >> (8 * i)) as u8);
                if i > 0 {
                    out.push(':');
                }
            }
        }
        DataType::IpAddr => {
            let address = Ipv4Addr::from(value as u32);
            match names_of_host(IpAddr::V4(address), format, names) {
                Some(name) => out.push_str(&name),
                None => print_ipv4(address, out),
            }
        }
        DataType::Ip6Addr => {
            let address = Ipv6Addr::from(value);
            match names_of_host(IpAddr::V6(address), format, names) {
                Some(name) => out.push_str(&name),
                None => print_ipv6(address, out),
            }
        }
        DataType::InetProtocol => {
            let name = if format.numeric_protocol {
                None
            } else {
                u8::try_from(value).ok().and_then(|n| names.protocol_name(n))
            };
            match name {
                Some(name) => out.push_str(&name),
                None => decimal(value, out),
            }
        }
        DataType::InetService => {
            let name = if format.service_names {
                u16::try_from(value).ok().and_then(|p| names.service_name(p, None))
            } else {
                None
            };
            match name {
                Some(name) => quoted(&name, out),
                None => decimal(value, out),
            }
        }
        DataType::Time => time::print_duration(value as u64, format.numeric_time, out),
        DataType::TimeDate => time::print_date(value as u64, names, out),
        DataType::TimeHour => time::print_hour(value as u64, names, out),
        DataType::Mark => match from_system("rt_marks", value, format, names) {
            Some(name) => quoted(&name, out),
            None => {
                let _ = write!(out, "{value:#010x}");
            }
        },
        DataType::Realm => match from_system("rt_realms", value, format, names) {
            Some(name) => quoted(&name, out),
            None => decimal(value, out),
        },
        DataType::DevGroup => match from_system("group", value, format, names) {
            Some(name) => quoted(&name, out),
            None => decimal(value, out),
        },
        DataType::CtLabel => {
            let bit = if value == 0 { 0 } else { value.trailing_zeros() };
            match from_system("connlabel.conf", bit.into(), format, names) {
                Some(name) if value.is_power_of_two() => quoted(&name, out),
                _ if value.is_power_of_two() => decimal(bit.into(), out),
                _ => {
                    let _ = write!(out, "{value:#x}");
                }
            }
        }
        DataType::IfIndex => {
            match u32::try_from(value).ok().and_then(|i| names.interface_name(i)) {
                Some(name) => quoted(&name, out),
                None => decimal(value, out),
            }
        }
        DataType::Classid => match value {
            0xffff_ffff => out.push_str("root"),
            0 => out.push_str("none"),
            _ => {
                let _ = write!(out, "{:x}:{:x}", (value >> 16) as u16, value as u16);
            }
        },
        DataType::Uid => match user(value, format, |id| names.user_name(id)) {
            Some(name) => quoted(&name, out),
            None => decimal(value, out),
        },
        DataType::Gid => match user(value, format, |id| names.group_name(id)) {
            Some(name) => quoted(&name, out),
            None => decimal(value, out),
        },
        DataType::Cgroupv2 => {
            match u64::try_from(value).ok().and_then(|id| names.cgroup_path(id)) {
                Some(path) => quoted(&path, out),
                None => decimal(value, out),
            }
        }
        DataType::Bitmask | DataType::RawInteger => hexadecimal(value, out),
        // Subtypes of MPTCP have their names where they are read only, as ever.
        DataType::Invalid | DataType::Verdict | DataType::Integer | DataType::MptcpSubtype => {
            decimal(value, out)
        }
        DataType::TimeDay => match symbol(dtype, value, format) {
            Some(name) => quoted(name, out),
            None => decimal(value, out),
        },
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
        | DataType::IgmpType => match symbol(dtype, value, format) {
            Some(name) => out.push_str(name),
            None => print_number(dtype, value, out),
        },
    }
}

/// Appends a value that no symbol stands for, in the number format of its type.
pub fn print_number(dtype: DataType, value: u128, out: &mut String) {
    match dtype {
        DataType::EtherType => {
            let _ = write!(out, "{value:#06x}");
        }
        DataType::Dscp => {
            let _ = write!(out, "{value:#04x}");
        }
        DataType::Ecn => hexadecimal(value, out),
        DataType::Mark => {
            let _ = write!(out, "{value:#010x}");
        }
        _ if dtype.is_bitmask() => hexadecimal(value, out),
        _ => decimal(value, out),
    }
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

fn names_of_host(address: IpAddr, format: &Format, names: &dyn Names) -> Option<String> {
    if format.host_names { names.host_name(address) } else { None }
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

/// Text of up to 40 bytes in the making: there may be millions of addresses to write, and
/// formatting in general takes its time.
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
