// SPDX-License-Identifier: Apache-2.0

//! What workers share, by one name: the models of `models/` put other types in its place, which try
//! all orders in which workers may see the memory.

pub(crate) use penstock_wire::cache::prefetch;
pub(crate) use std::sync::atomic::AtomicU64;
