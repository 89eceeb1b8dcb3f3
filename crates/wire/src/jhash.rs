// SPDX-License-Identifier: Apache-2.0

//! Bob Jenkins' hash (lookup3) as the kernel has it (`include/linux/jhash.h`): where its results
//! are visible outside, as with `jhash` in rules and addresses that NAT chooses, it has to be this
//! hash.

/// Bob Jenkins' lookup3 as the kernel has it: words are read in host order.
#[inline(never)]
pub fn jhash(bytes: &[u8], seed: u32) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(seed);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = bytes;
    while let Some((block, tail)) =
        rest.split_first_chunk::<12>().filter(|(_, tail)| !tail.is_empty())
    {
        let [x, y, z] = words(block);
        a = a.wrapping_add(x);
        b = b.wrapping_add(y);
        c = c.wrapping_add(z);
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        rest = tail;
    }
    if rest.is_empty() {
        return c;
    }
    // The tail is put together byte by byte, the lowest first.
    let mut block = [0; 12];
    block[..rest.len()].copy_from_slice(rest);
    let (le, _) = block.as_chunks::<4>();
    a = a.wrapping_add(u32::from_le_bytes(le[0]));
    b = b.wrapping_add(u32::from_le_bytes(le[1]));
    c = c.wrapping_add(u32::from_le_bytes(le[2]));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

fn words(block: &[u8; 12]) -> [u32; 3] {
    let (w, _) = block.as_chunks::<4>();
    [u32::from_ne_bytes(w[0]), u32::from_ne_bytes(w[1]), u32::from_ne_bytes(w[2])]
}

/// Scales a 32-bit number to 0 up to `modulus` (`reciprocal_scale()` of `include/linux/kernel.h`).
#[inline]
pub fn reciprocal_scale(value: u32, modulus: u32) -> u32 {
    ((u64::from(value) * u64::from(modulus)) >> 32) as u32
}
