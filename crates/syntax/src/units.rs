// SPDX-License-Identifier: Apache-2.0

//! Units of rates and amounts: the words of the language and of JSON, and what they count.

/// Units of time in rates, with their seconds.
const TIME: [(&str, u64); 5] =
    [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400), ("week", 604_800)];

/// Units of data, the smallest first, with their bytes.
pub const DATA: [(&str, u64); 3] = [("bytes", 1), ("kbytes", 1 << 10), ("mbytes", 1 << 20)];

/// Seconds of a unit of time.
pub fn seconds(word: &str) -> Option<u64> {
    TIME.iter().find(|(unit, _)| *unit == word).map(|(_, seconds)| *seconds)
}

/// The unit of so many seconds; a number that no unit has counts as seconds.
pub fn time_word(seconds: u64) -> &'static str {
    TIME.iter().find(|(_, of_unit)| *of_unit == seconds).map_or("second", |(unit, _)| unit)
}

/// A number of bytes in the largest unit that divides it; nothing is so many bytes.
pub fn scaled(bytes: u64) -> (u64, &'static str) {
    let divides = |(_, of_unit): &&(&str, u64)| bytes != 0 && bytes.is_multiple_of(*of_unit);
    match DATA.iter().rev().find(divides) {
        Some((unit, of_unit)) => (bytes / of_unit, unit),
        None => (bytes, "bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_printed_in_the_largest_exact_unit() {
        let cases = [
            (0, (0, "bytes")),
            (1023, (1023, "bytes")),
            (1024, (1, "kbytes")),
            (3 << 19, (1536, "kbytes")),
            (5 << 20, (5, "mbytes")),
            (1 << 30, (1024, "mbytes")),
        ];
        for (bytes, expected) in cases {
            assert_eq!(scaled(bytes), expected);
        }
    }
}
