// SPDX-License-Identifier: Apache-2.0

//! Numbers in text, as the kernel's helpers read them.

/// The decimal number at the start of `text` and how many digits it has; `None` without a digit or
/// if it is too large.
pub(super) fn decimal(text: &[u8]) -> Option<(u32, usize)> {
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let number = std::str::from_utf8(text.get(..digits)?).ok()?.parse().ok()?;
    Some((number, digits))
}

/// `N` numbers with `separator` between, then `end`, or anything if that is `None`: the numbers and
/// how long they are (`try_number()`).
pub(super) fn numbers<const N: usize>(
    text: &[u8],
    separator: u8,
    end: Option<u8>,
) -> Option<([u32; N], usize)> {
    let mut out = [0u32; N];
    let mut at = 0;
    for (i, &c) in text.iter().enumerate() {
        match c {
            b'0'..=b'9' => out[at] = out[at].wrapping_mul(10).wrapping_add(u32::from(c - b'0')),
            c if c == separator => {
                at += 1;
                if at == N {
                    return None;
                }
            }
            c if at == N - 1 && end.is_none_or(|end| end == c) => return Some((out, i)),
            _ => return None,
        }
    }
    None
}

/// Where `needle` begins in `text`.
pub(super) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|w| w == needle)
}
