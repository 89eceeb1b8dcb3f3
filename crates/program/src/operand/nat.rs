// SPDX-License-Identifier: Apache-2.0

//! Operands of `nat`, `masq` and `redir` (`net/netfilter/nft_nat.c`, `nft_masq.c`, `nft_redir.c`).

/// What a `nat`, `masq` or `redir` expression translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NatKind {
    /// The source (`snat`).
    Source,
    /// The destination (`dnat`).
    Destination,
    /// The source, to an address of the device on the way out (`masquerade`): the addresses of the
    /// request are unused.
    Masquerade,
    /// The destination, to this host (`redirect`): the addresses of the request are unused.
    Redirect,
}
