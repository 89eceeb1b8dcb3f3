// SPDX-License-Identifier: Apache-2.0

//! Messages taken apart to be compared and shown.

use std::fmt::Write;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

/// Messages of datagrams, one after the other.
pub fn split(datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for datagram in datagrams {
        let mut rest = datagram.as_slice();
        while rest.len() >= 16 {
            let len = (u32_at(rest, 0) as usize).clamp(16, rest.len());
            all.push(rest[..len].to_vec());
            rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
    }
    all
}

/// Attributes one after the other: number and value.
pub fn attributes(bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let (mut all, mut rest) = (Vec::new(), bytes);
    while rest.len() >= 4 {
        let len = usize::from(u16_at(rest, 0));
        if len < 4 || len > rest.len() {
            break;
        }
        all.push((u16_at(rest, 2), &rest[4..len]));
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    all
}

/// The port id that a message was sent to.
pub fn port(message: &[u8]) -> u32 {
    u32_at(message, 12)
}

/// Whether bytes look like attributes, one after the other.
fn is_nested(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while rest.len() >= 4 {
        let (len, kind) = (usize::from(u16_at(rest, 0)), u16_at(rest, 2) & 0x3fff);
        if len < 4 || len > rest.len() || kind > 40 || kind == 0 {
            return false;
        }
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    rest.is_empty() && bytes.len() >= 4
}

fn show_attributes(bytes: &[u8], out: &mut String) {
    for (kind, value) in attributes(bytes) {
        let _ = write!(out, " {}=", kind & 0x3fff);
        if kind & 0x8000 != 0 {
            out.push('N');
        }
        if value.len() > 4 && is_nested(value) {
            out.push('[');
            show_attributes(value, out);
            out.push_str(" ]");
        } else if value.len() > 1
            && value.ends_with(&[0])
            && value[..value.len() - 1].iter().all(u8::is_ascii_graphic)
        {
            let _ = write!(out, "{:?}", String::from_utf8_lossy(&value[..value.len() - 1]));
        } else {
            value.iter().for_each(|b| out.push_str(&format!("{b:02x}")));
        }
    }
}

/// A message in words, without sequence number and port.
pub fn show(message: &[u8]) -> String {
    let kind = u16_at(message, 4);
    let mut out = format!("{kind:#x} flags {:#x}", u16_at(message, 6));
    if kind < 0x10 {
        message[16..].iter().for_each(|b| out.push_str(&format!(" {b:02x}")));
        return out;
    }
    let _ = write!(out, " family {} resource {:02x}{:02x}", message[16], message[18], message[19]);
    show_attributes(&message[20..], &mut out);
    out
}
