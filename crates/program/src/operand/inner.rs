// SPDX-License-Identifier: Apache-2.0

//! Operands of `inner` (`net/netfilter/nft_inner.c`).

/// `NFT_INNER_GENEVE` of [`Inner::kind`](crate::expr::Inner::kind): options follow the header.
pub const INNER_GENEVE: u32 = 2;
/// `NFT_INNER_HDRSIZE` of [`Inner::flags`](crate::expr::Inner::flags): the tunnel has a header of
/// its own, of that size.
pub const INNER_HDRSIZE: u32 = 1;
/// `NFT_INNER_LL` of [`Inner::flags`](crate::expr::Inner::flags): it carries frames.
pub const INNER_LINK: u32 = 2;
/// `NFT_INNER_NH` of [`Inner::flags`](crate::expr::Inner::flags): there is a network header.
pub const INNER_NETWORK: u32 = 4;
/// `NFT_INNER_TH` of [`Inner::flags`](crate::expr::Inner::flags): there is a transport header.
pub const INNER_TRANSPORT: u32 = 8;
