// SPDX-License-Identifier: Apache-2.0

//! Numbers of attributes and messages, by the kernel's names
//! (`linux/netfilter/nfnetlink_conntrack.h`, `nf_conntrack_common.h`).

numbers! {
    /// `enum cntl_msg_types`.
    u8, 0: IPCTNL_MSG_CT_NEW IPCTNL_MSG_CT_GET IPCTNL_MSG_CT_DELETE IPCTNL_MSG_CT_GET_CTRZERO
        IPCTNL_MSG_CT_GET_STATS_CPU IPCTNL_MSG_CT_GET_STATS IPCTNL_MSG_CT_GET_DYING
        IPCTNL_MSG_CT_GET_UNCONFIRMED;
    /// `enum ctnl_exp_msg_types`.
    u8, 0: IPCTNL_MSG_EXP_NEW IPCTNL_MSG_EXP_GET IPCTNL_MSG_EXP_DELETE
        IPCTNL_MSG_EXP_GET_STATS_CPU;
    /// `enum nfnetlink_groups`.
    u32, 1: NFNLGRP_CONNTRACK_NEW NFNLGRP_CONNTRACK_UPDATE NFNLGRP_CONNTRACK_DESTROY
        NFNLGRP_CONNTRACK_EXP_NEW NFNLGRP_CONNTRACK_EXP_UPDATE NFNLGRP_CONNTRACK_EXP_DESTROY;
    /// `enum ctattr_type`.
    u16, 1: CTA_TUPLE_ORIG CTA_TUPLE_REPLY CTA_STATUS CTA_PROTOINFO CTA_HELP CTA_NAT_SRC
        CTA_TIMEOUT CTA_MARK CTA_COUNTERS_ORIG CTA_COUNTERS_REPLY CTA_USE CTA_ID CTA_NAT_DST
        CTA_TUPLE_MASTER CTA_SEQ_ADJ_ORIG CTA_SEQ_ADJ_REPLY CTA_SECMARK CTA_ZONE CTA_SECCTX
        CTA_TIMESTAMP CTA_MARK_MASK CTA_LABELS CTA_LABELS_MASK CTA_SYNPROXY CTA_FILTER
        CTA_STATUS_MASK CTA_TIMESTAMP_EVENT;
    /// `enum ctattr_tuple`.
    u16, 1: CTA_TUPLE_IP CTA_TUPLE_PROTO CTA_TUPLE_ZONE;
    /// `enum ctattr_ip`.
    u16, 1: CTA_IP_V4_SRC CTA_IP_V4_DST CTA_IP_V6_SRC CTA_IP_V6_DST;
    /// `enum ctattr_l4proto`.
    u16, 1: CTA_PROTO_NUM CTA_PROTO_SRC_PORT CTA_PROTO_DST_PORT CTA_PROTO_ICMP_ID
        CTA_PROTO_ICMP_TYPE CTA_PROTO_ICMP_CODE CTA_PROTO_ICMPV6_ID CTA_PROTO_ICMPV6_TYPE
        CTA_PROTO_ICMPV6_CODE;
    /// `enum ctattr_protoinfo`.
    u16, 1: CTA_PROTOINFO_TCP CTA_PROTOINFO_DCCP CTA_PROTOINFO_SCTP;
    /// `enum ctattr_protoinfo_tcp`.
    u16, 1: CTA_PROTOINFO_TCP_STATE CTA_PROTOINFO_TCP_WSCALE_ORIGINAL
        CTA_PROTOINFO_TCP_WSCALE_REPLY CTA_PROTOINFO_TCP_FLAGS_ORIGINAL
        CTA_PROTOINFO_TCP_FLAGS_REPLY;
    /// `enum ctattr_protoinfo_dccp`.
    u16, 1: CTA_PROTOINFO_DCCP_STATE CTA_PROTOINFO_DCCP_ROLE CTA_PROTOINFO_DCCP_HANDSHAKE_SEQ;
    /// `enum ctattr_protoinfo_sctp`.
    u16, 1: CTA_PROTOINFO_SCTP_STATE CTA_PROTOINFO_SCTP_VTAG_ORIGINAL
        CTA_PROTOINFO_SCTP_VTAG_REPLY;
    /// `enum ctattr_counters`.
    u16, 1: CTA_COUNTERS_PACKETS CTA_COUNTERS_BYTES;
    /// `enum ctattr_tstamp`.
    u16, 1: CTA_TIMESTAMP_START CTA_TIMESTAMP_STOP;
    /// `enum ctattr_nat`.
    u16, 1: CTA_NAT_V4_MINIP CTA_NAT_V4_MAXIP CTA_NAT_PROTO CTA_NAT_V6_MINIP CTA_NAT_V6_MAXIP;
    /// `enum ctattr_protonat`.
    u16, 1: CTA_PROTONAT_PORT_MIN CTA_PROTONAT_PORT_MAX;
    /// `enum ctattr_seqadj`.
    u16, 1: CTA_SEQADJ_CORRECTION_POS CTA_SEQADJ_OFFSET_BEFORE CTA_SEQADJ_OFFSET_AFTER;
    /// `enum ctattr_synproxy`.
    u16, 1: CTA_SYNPROXY_ISN CTA_SYNPROXY_ITS CTA_SYNPROXY_TSOFF;
    /// `enum ctattr_help`.
    u16, 1: CTA_HELP_NAME CTA_HELP_INFO;
    /// `enum ctattr_filter`.
    u16, 1: CTA_FILTER_ORIG_FLAGS CTA_FILTER_REPLY_FLAGS;
    /// `enum ctattr_expect`.
    u16, 1: CTA_EXPECT_MASTER CTA_EXPECT_TUPLE CTA_EXPECT_MASK CTA_EXPECT_TIMEOUT CTA_EXPECT_ID
        CTA_EXPECT_HELP_NAME CTA_EXPECT_ZONE CTA_EXPECT_FLAGS CTA_EXPECT_CLASS CTA_EXPECT_NAT
        CTA_EXPECT_FN;
    /// `enum ctattr_expect_nat`.
    u16, 1: CTA_EXPECT_NAT_DIR CTA_EXPECT_NAT_TUPLE;
    /// `enum ctattr_stats_cpu`.
    u16, 1: CTA_STATS_SEARCHED CTA_STATS_FOUND CTA_STATS_NEW CTA_STATS_INVALID CTA_STATS_IGNORE
        CTA_STATS_DELETE CTA_STATS_DELETE_LIST CTA_STATS_INSERT CTA_STATS_INSERT_FAILED
        CTA_STATS_DROP CTA_STATS_EARLY_DROP CTA_STATS_ERROR CTA_STATS_SEARCH_RESTART
        CTA_STATS_CLASH_RESOLVE CTA_STATS_CHAIN_TOOLONG;
    /// `enum ctattr_stats_global`.
    u16, 1: CTA_STATS_GLOBAL_ENTRIES CTA_STATS_GLOBAL_MAX_ENTRIES;
    /// `enum ctattr_expect_stats`.
    u16, 1: CTA_STATS_EXP_NEW CTA_STATS_EXP_CREATE CTA_STATS_EXP_DELETE;
}

/// Bits of `CTA_FILTER_ORIG_FLAGS` and `CTA_FILTER_REPLY_FLAGS` (`CTA_FILTER_F_*` in
/// `net/netfilter/nf_internals.h`).
pub mod filter {
    /// Source address.
    pub const IP_SRC: u32 = 1;
    /// Destination address.
    pub const IP_DST: u32 = 1 << 1;
    /// Zone.
    pub const TUPLE_ZONE: u32 = 1 << 2;
    /// Protocol.
    pub const PROTO_NUM: u32 = 1 << 3;
    /// Source port.
    pub const PROTO_SRC_PORT: u32 = 1 << 4;
    /// Destination port.
    pub const PROTO_DST_PORT: u32 = 1 << 5;
    /// ICMP type.
    pub const PROTO_ICMP_TYPE: u32 = 1 << 6;
    /// ICMP code.
    pub const PROTO_ICMP_CODE: u32 = 1 << 7;
    /// ICMP identifier.
    pub const PROTO_ICMP_ID: u32 = 1 << 8;
    /// ICMPv6 type.
    pub const PROTO_ICMPV6_TYPE: u32 = 1 << 9;
    /// ICMPv6 code.
    pub const PROTO_ICMPV6_CODE: u32 = 1 << 10;
    /// ICMPv6 identifier.
    pub const PROTO_ICMPV6_ID: u32 = 1 << 11;
    /// All that need the protocol (`ALL_CTA_PROTO`).
    pub const OF_PROTO: u32 = 0xff0;
    /// All of them.
    pub const ALL: u32 = 0xfff;
}
