// SPDX-License-Identifier: Apache-2.0

//! `u32 match …` (`tc/f_u32.c`): every field is a word under a mask.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::words::{self, Words, number};
use crate::u32_match::{Key, U32Match};

/// A number in the notation of selectors: decimal, or hexadecimal with `0x`.
fn value(words: &mut Words<'_>) -> Result<u32, String> {
    words.read(number)
}

/// A mask, hexadecimal with or without `0x`.
fn mask(words: &mut Words<'_>) -> Result<u32, String> {
    words.read(|t| u32::from_str_radix(t.trim_start_matches("0x"), 16).ok())
}

/// Puts a value of 1, 2 or 4 bytes at an offset into the word around it.
fn pack(out: &mut U32Match, value: u32, mask: u32, size: i32, at: i32) -> Result<(), String> {
    if at.rem_euclid(size) != 0 {
        return Err(format!("offset {at} is not a multiple of {size}"));
    }
    let base = at.div_euclid(4) * 4;
    let shift = (4 - size - (at - base)) as u32 * 8;
    let (value, mask) = (value << shift, mask << shift);
    // Fields of one word are one key, as tc packs them (`pack_key()`).
    match out.keys.iter_mut().find(|k| k.at == base) {
        Some(key) if (key.value ^ value) & key.mask & mask != 0 => {
            return Err("\"match\" contradicts one before it".into());
        }
        Some(key) => {
            key.value |= value & mask;
            key.mask |= mask;
        }
        None => out.keys.push(Key { value: value & mask, mask, at: base }),
    }
    Ok(())
}

/// A word of `u32`. `false` if it is none.
pub(super) fn word(word: &str, words: &mut Words<'_>, out: &mut U32Match) -> Result<bool, String> {
    match word {
        "match" => {}
        "ht" | "link" | "divisor" | "order" | "hashkey" | "offset" | "sample" | "indev" => {
            return Err(format!("\"{word}\" of u32 is not supported yet"));
        }
        _ => return Ok(false),
    }
    match words.needed("a selector")? {
        size @ ("u8" | "u16" | "u32") => {
            let (bytes, all) = match size {
                "u8" => (1, 0xff),
                "u16" => (2, 0xffff),
                _ => (4, u32::MAX),
            };
            let (value, mask) = (value(words)?, mask(words)?);
            if value > all || mask > all {
                return Err(format!("a value or mask is larger than {size}"));
            }
            let at = offset(words)?;
            pack(out, value, mask, bytes, at)?;
        }
        "ip" => ip(words, out)?,
        "ip6" => ip6(words, out)?,
        protocol @ ("tcp" | "udp") => {
            let field = words.needed("a field")?;
            let at = match field {
                "src" => 0,
                "dst" => 2,
                _ => return Err(words::unknown(field)),
            };
            let (port, mask) = (value(words)?, mask(words)?);
            let _ = protocol;
            pack(out, port, mask, 2, at)?;
        }
        "icmp" => {
            let field = words.needed("a field")?;
            let at = match field {
                "type" => 0,
                "code" => 1,
                _ => return Err(words::unknown(field)),
            };
            let (value, mask) = (value(words)?, mask(words)?);
            pack(out, value, mask, 1, at)?;
        }
        "mark" => {
            let (value, mask) = (value(words)?, mask(words)?);
            out.mark = Some((value & mask, mask));
        }
        other @ "ether" => {
            return Err(format!(
                "selector \"{other}\" is not supported yet; use \"match u16 … at -14\""
            ));
        }
        other => return Err(words::unknown(other)),
    }
    Ok(true)
}

/// `at N` or `at nexthdr+N`. Only a link from one hash table to another says where the next header
/// is: without it, the kernel counts from the network header, too.
fn offset(words: &mut Words<'_>) -> Result<i32, String> {
    if !words.take("at") {
        return Ok(0);
    }
    words.read(|text| match (text.strip_prefix("nexthdr+"), text.strip_prefix('-')) {
        (Some(n), _) => number::<i32>(n),
        (None, Some(n)) => number::<i32>(n).map(|n| -n),
        (None, None) => number::<i32>(text),
    })
}

fn ip(words: &mut Words<'_>, out: &mut U32Match) -> Result<(), String> {
    let field = words.needed("a field")?;
    match field {
        "src" | "dst" => {
            let (address, len) = words.read(|text| {
                let (a, l) = text.split_once('/').unwrap_or((text, "32"));
                Some((a.parse::<Ipv4Addr>().ok()?, l.parse::<u32>().ok().filter(|l| *l <= 32)?))
            })?;
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            pack(out, address.into(), mask, 4, if field == "src" { 12 } else { 16 })
        }
        "tos" | "dsfield" | "precedence" | "ihl" | "protocol" | "icmp_type" | "icmp_code" => {
            let value = match field {
                "protocol" => u32::from(words.read(words::ip_protocol)?),
                _ => value(words)?,
            };
            let mask = mask(words)?;
            let at = match field {
                "tos" | "dsfield" | "precedence" => 1,
                "ihl" => 0,
                "protocol" => 9,
                "icmp_type" => 20,
                _ => 21,
            };
            pack(out, value, mask, 1, at)
        }
        "sport" | "dport" => {
            let (value, mask) = (value(words)?, mask(words)?);
            pack(out, value, mask, 2, if field == "sport" { 20 } else { 22 })
        }
        "nofrag" => pack(out, 0, 0x3fff, 2, 6),
        "firstfrag" => pack(out, 0x2000, 0x3fff, 2, 6),
        "df" => pack(out, 0x4000, 0x4000, 2, 6),
        "mf" => pack(out, 0x2000, 0x2000, 2, 6),
        other => Err(words::unknown(other)),
    }
}

fn ip6(words: &mut Words<'_>, out: &mut U32Match) -> Result<(), String> {
    let field = words.needed("a field")?;
    match field {
        "src" | "dst" => {
            let (address, len) = words.read(|text| {
                let (a, l) = text.split_once('/').unwrap_or((text, "128"));
                Some((a.parse::<Ipv6Addr>().ok()?, l.parse::<u32>().ok().filter(|l| *l <= 128)?))
            })?;
            let (address, mask) =
                (u128::from(address), u128::MAX.checked_shl(128 - len).unwrap_or(0));
            for i in 0..4 {
                let part = |n: u128| (n >> (96 - 32 * i)) as u32;
                if part(mask) != 0 {
                    pack(
                        out,
                        part(address),
                        part(mask),
                        4,
                        if field == "src" { 8 } else { 24 } + 4 * i,
                    )?;
                }
            }
            Ok(())
        }
        "protocol" => {
            let value = u32::from(words.read(words::ip_protocol)?);
            let mask = mask(words)?;
            pack(out, value, mask, 1, 6)
        }
        "priority" => {
            let (value, mask) = (value(words)?, mask(words)?);
            pack(out, value << 4, mask << 4, 2, 0)
        }
        "flowlabel" => {
            let (value, mask) = (value(words)?, mask(words)?);
            pack(out, value & 0xfffff, mask & 0xfffff, 4, 0)
        }
        "sport" | "dport" => {
            let (value, mask) = (value(words)?, mask(words)?);
            pack(out, value, mask, 2, if field == "sport" { 40 } else { 42 })
        }
        other => Err(words::unknown(other)),
    }
}
