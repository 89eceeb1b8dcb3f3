// SPDX-License-Identifier: Apache-2.0

//! The type information that the kernel requires of programs with functions
//! (`Documentation/bpf/btf.rst`): which functions exist, and where they begin.

/// Bytes of the header.
const HEADER: u32 = 24;
const MAGIC: u16 = 0xeb9f;
const KIND_INT: u32 = 1;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;

/// Number of the function type; there is one for all functions.
const FUNCTION: u32 = 3;

/// `int f(void)`.
pub(crate) fn blob() -> Vec<u8> {
    let strings = b"\0int\0f\0";
    let (int, f) = (1, 5);
    let types: [u32; 10] = [
        // Signed, 32 bits.
        int,
        KIND_INT << 24,
        4,
        1 << 24 | 32, // 1
        0,
        KIND_FUNC_PROTO << 24,
        1, // 2
        f,
        KIND_FUNC << 24,
        2, // 3
    ];
    let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut out = MAGIC.to_ne_bytes().to_vec();
    out.extend([1, 0]);
    for word in [HEADER, 0, types.len() as u32, types.len() as u32, strings.len() as u32] {
        out.extend(word.to_ne_bytes());
    }
    out.extend(types);
    out.extend(strings);
    out
}

/// `struct bpf_func_info` of the program and its functions, which begin at these instructions.
pub(crate) fn functions(begin: &[usize]) -> Vec<u8> {
    let all = std::iter::once(&0).chain(begin);
    all.flat_map(|at| [*at as u32, FUNCTION]).flat_map(u32::to_ne_bytes).collect()
}
