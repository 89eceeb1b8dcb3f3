// SPDX-License-Identifier: Apache-2.0

//! What expressions and operations both have: the kernel's enumerations (`enum nft_*`), and
//! structures that an operation keeps as they are. [`expr`](crate::expr) exports them to other
//! crates.

mod bitwise;
mod cmp;
mod ct;
mod dynset;
mod exthdr;
mod fib;
mod inner;
mod limit;
mod log;
mod meta;
mod nat;
mod objref;
mod payload;
mod reject;
mod rt;
mod socket;
mod synproxy;
mod tunnel;
mod xfrm;

pub use bitwise::*;
pub use cmp::*;
pub use ct::*;
pub use dynset::*;
pub use exthdr::*;
pub use fib::*;
pub use inner::*;
pub use limit::*;
pub use log::*;
pub use meta::*;
pub use nat::*;
pub use objref::*;
pub use payload::*;
pub use reject::*;
pub use rt::*;
pub use socket::*;
pub use synproxy::*;
pub use tunnel::*;
pub use xfrm::*;
