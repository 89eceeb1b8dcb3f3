// SPDX-License-Identifier: Apache-2.0

//! Operands of `log`: report the packet (`NFTA_LOG_*`, `net/netfilter/nft_log.c`).

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// `NF_LOG_TCPSEQ`: TCP sequence numbers.
pub const LOG_TCPSEQ: u32 = 0x01;

/// `NF_LOG_TCPOPT`: TCP options.
pub const LOG_TCPOPT: u32 = 0x02;

/// `NF_LOG_IPOPT`: IP options.
pub const LOG_IPOPT: u32 = 0x04;

/// `NF_LOG_UID`: user of the socket.
pub const LOG_UID: u32 = 0x08;

/// `NF_LOG_MACDECODE`: link header in words.
pub const LOG_MACDECODE: u32 = 0x20;

/// What is absent is `None`; `level` and `group` exclude each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Log {
    /// `NFTA_LOG_PREFIX`: at most 127 bytes.
    pub prefix: Option<Arc<str>>,
    /// `NFTA_LOG_GROUP`: to the listeners of this nfnetlink_log group.
    pub group: Option<u16>,
    /// `NFTA_LOG_SNAPLEN`: bytes of the packet for them.
    pub snaplen: Option<u32>,
    /// `NFTA_LOG_QTHRESHOLD`: packets per message for them.
    pub queue_threshold: Option<u16>,
    /// `NFTA_LOG_LEVEL`: 0 (emerg) to 7 (debug) as syslog(3), 8 audit; 4 (warn) if absent.
    pub level: Option<u32>,
    /// `NFTA_LOG_FLAGS`: [`LOG_TCPSEQ`] and its like.
    pub flags: Option<u32>,
}

impl Log {
    /// As the kernel logs what no statement asks for (`nf_log_packet()` without `nf_loginfo`).
    pub fn by_default(prefix: Arc<str>) -> Self {
        /// `LOGLEVEL_NOTICE` and `NF_LOG_DEFAULT_MASK`
        const NOTICE: u32 = 5;
        const ALL: u32 = LOG_TCPSEQ | LOG_TCPOPT | LOG_IPOPT | LOG_UID | LOG_MACDECODE;
        Log { prefix: Some(prefix), level: Some(NOTICE), flags: Some(ALL), ..Log::default() }
    }
}
