// SPDX-License-Identifier: Apache-2.0

//! Operands of `exthdr`: options and extension headers (`NFTA_EXTHDR_*`,
//! `net/netfilter/nft_exthdr.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// `NFT_EXTHDR_OP_*`: what is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExthdrOp {
    /// IPv6 extension headers, by protocol number.
    Ipv6,
    /// TCP options.
    TcpOpt,
    /// IPv4 options.
    Ipv4Opt,
    /// SCTP chunks.
    Sctp,
    /// DCCP options.
    Dccp,
}

/// libnftnl 1.2.4 has no word for SCTP and DCCP.
impl fmt::Display for ExthdrOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExthdrOp::Ipv6 => " ipv6",
            ExthdrOp::TcpOpt => " tcpopt",
            ExthdrOp::Ipv4Opt => " ipv4",
            ExthdrOp::Sctp | ExthdrOp::Dccp => "",
        })
    }
}
