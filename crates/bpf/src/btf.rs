// SPDX-License-Identifier: Apache-2.0

//! The type information that the kernel requires of programs with functions
//! (`Documentation/bpf/btf.rst`): which functions exist, what they are given, and where they begin.

use crate::asm::Function;

/// Bytes of the header.
const HEADER: u32 = 24;
const MAGIC: u16 = 0xeb9f;
const KIND_INT: u32 = 1;
const KIND_POINTER: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;

/// Numbers of types: `int`, `int f(void)`, and of those that functions share that are given
/// something, the context and its address.
const INT: u32 = 1;
const FUNCTION: u32 = 3;
const CONTEXT: u32 = 4;
const TO_CONTEXT: u32 = 5;

/// Types of each function that is given something: the memory, its address, the arguments, and the
/// function.
const OWN: u32 = 4;

/// Names, by where they begin.
const NAME_INT: u32 = 1;
const NAME_F: u32 = 5;
const NAME_CONTEXT: u32 = 7;

/// Of functions with these arguments for the program of a context.
pub(crate) fn blob(functions: &[Function], context: &str) -> Vec<u8> {
    let strings = [b"\0int\0f\0", context.as_bytes(), b"\0"].concat();
    // Signed, 32 bits.
    let mut types = vec![NAME_INT, KIND_INT << 24, 4, 1 << 24 | 32];
    types.extend([0, KIND_FUNC_PROTO << 24, INT]);
    types.extend([NAME_F, KIND_FUNC << 24, 2]);
    types.extend([NAME_CONTEXT, KIND_STRUCT << 24, 4]);
    types.extend([0, KIND_POINTER << 24, CONTEXT]);
    let mut next = TO_CONTEXT;
    for memory in functions.iter().filter_map(|function| function.memory) {
        /// Two arguments; `BTF_FUNC_GLOBAL`.
        const ARGUMENTS: u32 = 2;
        const GLOBAL: u32 = 1;
        types.extend([NAME_F, KIND_STRUCT << 24, memory]);
        types.extend([0, KIND_POINTER << 24, next + 1]);
        types.extend([0, KIND_FUNC_PROTO << 24 | ARGUMENTS, INT]);
        types.extend([NAME_F, TO_CONTEXT, NAME_F, next + 2]);
        types.extend([NAME_F, KIND_FUNC << 24 | GLOBAL, next + 3]);
        next += OWN;
    }
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

/// `struct bpf_func_info` of the program and its functions.
pub(crate) fn functions(all: &[Function]) -> Vec<u8> {
    let mut next = TO_CONTEXT;
    let mut info = vec![0, FUNCTION];
    for function in all {
        let own = function.memory.is_some();
        next += if own { OWN } else { 0 };
        info.extend([function.at as u32, if own { next } else { FUNCTION }]);
    }
    info.into_iter().flat_map(u32::to_ne_bytes).collect()
}
