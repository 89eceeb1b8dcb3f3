// SPDX-License-Identifier: Apache-2.0

//! Comparisons with constants (`net/netfilter/nft_cmp.c`, `net/netfilter/nft_range.c`).

use super::Step;
use crate::operand::CmpOp;

/// Orders bytes as `memcmp`.
#[inline(always)]
fn order(bytes: &[u8], constant: &[u8; 16]) -> std::cmp::Ordering {
    match bytes {
        [a, b] => u16::from_be_bytes([*a, *b]).cmp(&u16::from_be_bytes([constant[0], constant[1]])),
        [a, b, c, d] => {
            let [e, f, g, h, ..] = *constant;
            u32::from_be_bytes([*a, *b, *c, *d]).cmp(&u32::from_be_bytes([e, f, g, h]))
        }
        _ => bytes.cmp(constant.get(..bytes.len()).unwrap_or(constant)),
    }
}

#[inline(always)]
pub(super) fn cmp(op: CmpOp, bytes: &[u8], constant: &[u8; 16]) -> Step {
    let order = order(bytes, constant);
    let holds = match op {
        CmpOp::Eq => order.is_eq(),
        CmpOp::Neq => order.is_ne(),
        CmpOp::Lt => order.is_lt(),
        CmpOp::Lte => order.is_le(),
        CmpOp::Gt => order.is_gt(),
        CmpOp::Gte => order.is_ge(),
    };
    Step::unless(!holds)
}

#[inline(never)]
pub(super) fn range(inside: bool, bytes: &[u8], ends: &[[u8; 16]; 2]) -> Step {
    let [from, to] = ends;
    Step::unless((order(bytes, from).is_ge() && order(bytes, to).is_le()) != inside)
}
