// SPDX-License-Identifier: Apache-2.0

//! State files of `penstock up --state` and `penstock nft --state`.

use penstock_state::State;

use super::Target;
use crate::network::{NOW, net};
use crate::{language, mutate, seeds};

pub const TARGET: Target = Target {
    name: "state",
    bytes: "a state file",
    holds: "what is read is written so that it is read as the same; a byte changed, missing or more is found",
    longest: 2048,
    seeds: states,
    make: |rng, seeds| {
        let mut bytes = mutate::bytes(rng, seeds);
        if rng.bool() {
            mend_sums(&mut bytes);
        }
        bytes
    },
    run,
};

const CONNECTIONS: &str = "\
penstock-conntrack 1
flow id=1 proto=17 orig=198.18.0.1,198.18.1.1,9,53,0 reply=198.18.1.1,198.18.0.1,53,9,0 status=14 left=5000000000 udp=0
";

/// States with small rulesets.
fn states() -> Vec<Vec<u8>> {
    let loaded =
        seeds::rulesets().iter().step_by(9).filter_map(|text| language::load(text, &net(), NOW).ok());
    let state = |ruleset| State {
        links: vec![(7, "eth0".into()), (9, "wan".into())],
        ruleset,
        connections: CONNECTIONS.into(),
        ahead: 0,
    };
    loaded.map(|ruleset| state(ruleset).to_bytes(NOW)).filter(|bytes| bytes.len() < 2048).collect()
}

/// Makes the sums of parts right: chance alone would never get past them.
fn mend_sums(bytes: &mut [u8]) {
    /// Bytes before the parts, of tag and length, and of these with the sum.
    const FIRST: usize = 17;
    const SUMMED: usize = 9;
    const HEAD: usize = 13;
    let mut at = FIRST;
    while let Some(head) = bytes.get(at..at + HEAD) {
        let len = head[1..SUMMED].first_chunk().map_or(0, |len| u64::from_le_bytes(*len)) as usize;
        let end = len.checked_add(at + HEAD);
        let Some(contents) = end.and_then(|end| bytes.get(at + HEAD..end)) else { return };
        let sum = crc32(head[..SUMMED].iter().chain(contents));
        bytes[at + SUMMED..at + HEAD].copy_from_slice(&sum.to_le_bytes());
        at += HEAD + len;
    }
}

/// CRC-32 of IEEE 802.3.
fn crc32<'b>(bytes: impl Iterator<Item = &'b u8>) -> u32 {
    !bytes.fold(!0, |crc, b| (0..8).fold(crc ^ u32::from(*b), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1))))
}

fn run(data: &[u8]) {
    let Ok(state) = State::from_bytes(data) else { return };
    let bytes = state.to_bytes(NOW);
    let again = State::from_bytes(&bytes).unwrap_or_else(|e| panic!("what was written is not read: {e}"));
    assert_eq!(again.to_bytes(NOW), bytes);
    // One bit of what was written, chosen by the input.
    let at = data.iter().fold(0usize, |sum, b| sum.wrapping_mul(31).wrapping_add(usize::from(*b)))
        % (8 * bytes.len());
    let mut flipped = bytes.clone();
    flipped[at / 8] ^= 1 << (at % 8);
    assert!(State::from_bytes(&flipped).is_err(), "bit {at} may be another");
    assert!(State::from_bytes(&bytes[..at / 8]).is_err(), "{} bytes are enough", at / 8);
}
