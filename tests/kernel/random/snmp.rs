// SPDX-License-Identifier: Apache-2.0

//! Messages of SNMP by chance (RFC 3416, in the basic encoding rules of X.690), with addresses
//! among their variables; most are good.

use fastrand::Rng;
use penstock_testkit::Chance;

/// A message in which these addresses may be.
pub fn message(rng: &mut Rng, addresses: &[[u8; 4]]) -> Vec<u8> {
    let version = if rng.one_in(10) { rng.u8(..4) } else { rng.u8(..2) };
    let mut parts = part(rng, 0x02, &[version]);
    if !rng.one_in(30) {
        parts.extend(part(rng, 0x04, b"public"));
    }
    if !rng.one_in(30) {
        let kind = rng.pick(&[0xa0, 0xa1, 0xa2, 0xa2, 0xa2, 0xa3, 0xa5, 0xa6, 0xa7, 0xa7, 0xa8]);
        let kind = if rng.one_in(20) { rng.pick(&[0xa4, 0x30, 0xa9, 0x82]) } else { kind };
        let mut pdu = vec![];
        for _ in 0..if rng.one_in(20) { rng.usize(..4) } else { 3 } {
            let number: Vec<u8> = (0..rng.usize(1..4)).map(|_| rng.u8(..)).collect();
            pdu.extend(part(rng, 0x02, &number));
        }
        if !rng.one_in(20) {
            let mut list = vec![];
            for _ in 0..if rng.one_in(12) { 0 } else { rng.usize(1..6) } {
                list.extend(variable(rng, addresses));
            }
            pdu.extend(part(rng, 0x30, &list));
        }
        if rng.one_in(30) {
            pdu.extend(part(rng, 0x05, b""));
        }
        parts.extend(part(rng, kind, &pdu));
    }
    let mut message = part(rng, 0x30, &parts);
    if rng.one_in(15) {
        message.extend([0, 0, 7]);
    }
    message
}

fn variable(rng: &mut Rng, addresses: &[[u8; 4]]) -> Vec<u8> {
    let len = rng.usize(5..10);
    let mut parts = part(rng, 0x06, &[0x2b, 6, 1, 2, 1, 4, 20, 1, 1][..len]);
    if !rng.one_in(20) {
        let address = rng.pick(addresses);
        parts.extend(match rng.u8(..8) {
            0..4 => part(rng, 0x40, &address),
            4 => part(rng, 0x04, &address),
            5 => {
                let kind = rng.pick(&[0x02, 0x06, 0x41, 0x42, 0x43, 0x44, 0x46]);
                part(rng, kind, &[1, 2])
            }
            6 => {
                let kind = rng.pick(&[0x05, 0x80, 0x81, 0x82]);
                part(rng, kind, b"")
            }
            _ if rng.one_in(4) => {
                let kind = rng.pick(&[0x45, 0x47, 0x24, 0x60, 0x5f, 0x83]);
                part(rng, kind, &address)
            }
            _ if rng.one_in(4) => {
                let len = rng.usize(..4);
                part(rng, 0x40, &address[..len])
            }
            _ => part(rng, 0x04, b"name"),
        });
    }
    part(rng, 0x30, &parts)
}

/// A part with its length, now and then in a longer form, or with a wrong one. None is of indefinite
/// length, which SNMP does not allow (docs/differences.md).
fn part(rng: &mut Rng, tag: u8, inside: &[u8]) -> Vec<u8> {
    let len = inside.len();
    let mut bytes = vec![tag];
    match rng.u8(..60) {
        0 => bytes.extend([0x81, len as u8]),
        1 => bytes.extend([0x82, (len >> 8) as u8, len as u8]),
        2 => bytes.extend([0x83, 0, (len >> 8) as u8, len as u8]),
        3 if rng.one_in(3) => bytes.push((len as u8).wrapping_add(rng.u8(..3)) & 0x7f),
        _ if len < 0x80 => bytes.push(len as u8),
        _ => bytes.extend([0x81, len as u8]),
    }
    bytes.extend(inside);
    bytes
}
