// SPDX-License-Identifier: Apache-2.0

//! Messages of PPTP (RFC 2637), and what goes with them.

/// Where a message's own part begins.
const BODY: usize = 12;

/// A control message of a type: its own part begins with these bytes, and is so many bytes long.
pub fn message(kind: u16, begins: &[u8], length: usize) -> Vec<u8> {
    let mut text = ((BODY + length) as u16).to_be_bytes().to_vec();
    text.extend([0, 1, 0x1a, 0x2b, 0x3c, 0x4d]);
    text.extend(kind.to_be_bytes());
    text.extend([0, 0]);
    text.extend(begins);
    text.resize(BODY + length, 0);
    text
}

/// How long the own part of a message of a type is.
pub fn length(kind: u16) -> usize {
    match kind {
        1 | 2 => 144,
        7 => 156,
        8 => 20,
        9 => 208,
        10 | 15 => 12,
        11 => 16,
        13 => 136,
        14 => 28,
        6 => 8,
        _ => 4,
    }
}

/// The header of GRE for data of a call: the call id of the receiver.
pub fn data(call: u16) -> [u8; 8] {
    let [high, low] = call.to_be_bytes();
    [0x20, 1, 0x88, 0x0b, 0, 4, high, low]
}
