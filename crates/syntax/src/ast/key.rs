// SPDX-License-Identifier: Apache-2.0

//! Selectors that a keyword begins: the keywords, what can be asked, how it is listed, and what it
//! gives.

use penstock_program::Family;
use std::fmt;

use penstock_program::expr::{
    CtDir, CtKey, FIB_PRESENT, FibResult, MetaKey, NumgenMode, RtKey, SocketKey, TunnelKey, XfrmKey,
};

use crate::datatype::{ByteOrder, DataType};
use crate::keys::{self, ValueType};

/// A word that selectors begin with, in text and in JSON.
#[derive(Clone, Copy, Debug)]
pub struct Keyword {
    /// The word.
    pub word: &'static str,
    /// nft 1.0.6 reserves it everywhere, and statements may begin with it.
    pub reserved: bool,
    /// In JSON, data of maps may be such a selector (nft's `CTX_F_SET_RHS`).
    pub in_data: bool,
    /// There are statements that set it.
    pub settable: bool,
    /// Words that are keywords after it until the selector is complete, beyond the reserved ones
    /// (the start conditions of nft's scanner).
    pub after: &'static [&'static str],
}

/// All of them.
pub static KEYWORDS: [Keyword; 11] = [
    Keyword {
        word: "meta",
        reserved: true,
        in_data: true,
        settable: true,
        after: &["length", "protocol"],
    },
    Keyword {
        word: "ct",
        reserved: true,
        in_data: true,
        settable: true,
        after: &[
            "state",
            "direction",
            "status",
            "expiration",
            "helper",
            "helpers",
            "label",
            "event",
            "id",
            "zone",
            "l3proto",
            "protocol",
            "proto-src",
            "proto-dst",
            "original",
            "reply",
            "saddr",
            "daddr",
            "dport",
            "avgpkt",
            "bytes",
            "packets",
            "count",
            "over",
            "expectation",
        ],
    },
    Keyword {
        word: "rt",
        reserved: true,
        in_data: true,
        settable: false,
        after: &["classid", "nexthop", "addr", "last-entry", "sid", "tag"],
    },
    Keyword {
        word: "fib",
        reserved: true,
        in_data: true,
        settable: false,
        after: &["saddr", "daddr", "type", "oif", "oifname"],
    },
    Keyword {
        word: "socket",
        reserved: true,
        in_data: false,
        settable: false,
        after: &["transparent", "wildcard", "cgroupv2", "level"],
    },
    Keyword {
        word: "osf",
        reserved: true,
        in_data: false,
        settable: false,
        after: &["ttl", "name", "version"],
    },
    Keyword {
        word: "ipsec",
        reserved: true,
        in_data: false,
        settable: false,
        after: &["in", "out", "spnum", "reqid", "spi", "saddr", "daddr"],
    },
    Keyword { word: "tunnel", reserved: false, in_data: false, settable: false, after: &[] },
    Keyword {
        word: "numgen",
        reserved: true,
        in_data: true,
        settable: false,
        after: &["inc", "mod", "offset"],
    },
    Keyword {
        word: "jhash",
        reserved: true,
        in_data: true,
        settable: false,
        after: &["mod", "seed", "offset"],
    },
    Keyword {
        word: "symhash",
        reserved: true,
        in_data: true,
        settable: false,
        after: &["mod", "seed", "offset"],
    },
];

/// The keyword that is written so.
pub fn keyword(word: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|keyword| keyword.word == word)
}

/// What is asked, other than bytes of the packet.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Key {
    Meta {
        key: MetaKey,
    },
    Ct {
        key: CtKey,
        dir: Option<CtDir>,
        /// Of an address: IPv4 or IPv6, as written.
        family: Option<Family>,
    },
    /// Written with a family (`rt ip6 nexthop`) its type is that of an address; bare `rt nexthop`
    /// is `Nexthop4` without a type until evaluation knows better.
    Rt {
        key: RtKey,
    },
    Fib {
        flags: u32,
        result: FibResult,
    },
    Socket {
        key: SocketKey,
        level: u32,
    },
    Osf {
        ttl: u8,
        version: bool,
    },
    Xfrm {
        key: XfrmKey,
        out: bool,
        spnum: u32,
    },
    Tunnel {
        key: TunnelKey,
    },
    Numgen {
        mode: NumgenMode,
        modulus: u32,
        offset: u32,
    },
    /// A hash that the kernel has of the packet's flow.
    Symhash {
        modulus: u32,
        offset: u32,
    },
}

impl Key {
    /// nft's word for the kind of expression.
    pub fn word(&self) -> &'static str {
        match self {
            Key::Meta { .. } => "meta",
            Key::Ct { .. } => "ct",
            Key::Rt { .. } => "routing",
            Key::Fib { .. } => "fib",
            Key::Socket { .. } => "socket",
            Key::Osf { .. } => "osf",
            Key::Xfrm { .. } => "xfrm",
            Key::Tunnel { .. } => "tunnel",
            Key::Numgen { .. } => "numgen",
            Key::Symhash { .. } => "hash",
        }
    }

    /// What it gives, as far as it tells itself: addresses of `ct` without a family have no type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Key::Meta { key } => keys::meta(*key).value,
            Key::Ct { key, .. } => keys::ct(*key).value,
            Key::Rt { key } => keys::rt(*key).value,
            Key::Fib { flags, result } if flags & FIB_PRESENT != 0 => {
                // To nft the answer is as long as what it stands for.
                let len = if *result == FibResult::OifName { 128 } else { 1 };
                ValueType { dtype: DataType::Boolean, len, order: ByteOrder::Host }
            }
            Key::Fib { result, .. } => keys::fib(*result).value,
            Key::Socket { key, .. } => keys::socket(*key).value,
            Key::Osf { .. } => {
                ValueType { dtype: DataType::String, len: 128, order: ByteOrder::Host }
            }
            Key::Xfrm { key, .. } => keys::xfrm(*key).value,
            Key::Tunnel { key } => keys::tunnel(*key).value,
            Key::Numgen { .. } | Key::Symhash { .. } => {
                ValueType { dtype: DataType::Integer, len: 32, order: ByteOrder::Host }
            }
        }
    }

    /// The largest value, where it is less than the length allows; 0 otherwise.
    pub fn max(&self) -> u32 {
        match self {
            Key::Meta { key: MetaKey::TimeDay } => 6,
            Key::Socket { key: SocketKey::Transparent | SocketKey::Wildcard, .. } => 1,
            Key::Numgen { modulus, offset, .. } | Key::Symhash { modulus, offset } => {
                generated_max(*modulus, *offset)
            }
            Key::Meta { .. }
            | Key::Ct { .. }
            | Key::Rt { .. }
            | Key::Fib { .. }
            | Key::Socket { .. }
            | Key::Osf { .. }
            | Key::Xfrm { .. }
            | Key::Tunnel { .. } => 0,
        }
    }

    /// Whether it makes a number up rather than asking for one: `mod` bounds it.
    pub fn is_generator(&self) -> bool {
        match self {
            Key::Numgen { .. } | Key::Symhash { .. } => true,
            Key::Meta { .. }
            | Key::Ct { .. }
            | Key::Rt { .. }
            | Key::Fib { .. }
            | Key::Socket { .. }
            | Key::Osf { .. }
            | Key::Xfrm { .. }
            | Key::Tunnel { .. } => false,
        }
    }
}

/// The largest value of `… mod modulus offset offset`; 0 if any is possible.
pub fn generated_max(modulus: u32, offset: u32) -> u32 {
    modulus.saturating_add(offset).saturating_sub(1)
}

/// As it is listed.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Meta { key } => {
                let word = if keys::meta_is_listed_unqualified(*key) { "" } else { "meta " };
                write!(f, "{word}{}", keys::meta(*key).name)
            }
            Key::Ct { key, dir, family } => {
                let dir = match dir {
                    Some(CtDir::Original) => "original ",
                    Some(CtDir::Reply) => "reply ",
                    None => "",
                };
                // The keys of addresses that have a family name it themselves.
                let family = match (key, family) {
                    (CtKey::Src | CtKey::Dst, Some(Family::Ip)) => "ip ",
                    (CtKey::Src | CtKey::Dst, Some(Family::Ip6)) => "ip6 ",
                    _ => "",
                };
                write!(f, "ct {dir}{family}{}", keys::ct(*key).name)
            }
            Key::Rt { key } => write!(f, "rt {}", keys::rt(*key).name),
            Key::Fib { flags, result } => {
                let words: Vec<_> = keys::fib_flags(*flags).collect();
                let result =
                    if flags & FIB_PRESENT != 0 { "check" } else { keys::fib(*result).name };
                write!(f, "fib {} {result}", words.join(" . "))
            }
            Key::Socket { key, level } => {
                write!(f, "socket {}", keys::socket(*key).name)?;
                match key {
                    SocketKey::Cgroupv2 => write!(f, " level {level}"),
                    SocketKey::Transparent | SocketKey::Mark | SocketKey::Wildcard => Ok(()),
                }
            }
            Key::Osf { ttl, version } => {
                let ttl = match ttl {
                    1 => "ttl loose ",
                    2 => "ttl skip ",
                    _ => "",
                };
                write!(f, "osf {ttl}{}", if *version { "version" } else { "name" })
            }
            Key::Xfrm { key, out, spnum } => {
                write!(f, "ipsec {} ", if *out { "out" } else { "in" })?;
                if *spnum != 0 {
                    write!(f, "spnum {spnum} ")?;
                }
                f.write_str(keys::xfrm(*key).name)
            }
            Key::Tunnel { key } => write!(f, "tunnel {}", keys::tunnel(*key).name),
            Key::Numgen { mode, modulus, offset } => {
                let mode = match mode {
                    NumgenMode::Inc => "inc",
                    NumgenMode::Random => "random",
                };
                write!(f, "numgen {mode} mod {modulus}")?;
                write_offset(f, *offset)
            }
            Key::Symhash { modulus, offset } => {
                write!(f, "symhash mod {modulus}")?;
                write_offset(f, *offset)
            }
        }
    }
}

fn write_offset(f: &mut fmt::Formatter<'_>, offset: u32) -> fmt::Result {
    if offset == 0 { Ok(()) } else { write!(f, " offset {offset}") }
}
