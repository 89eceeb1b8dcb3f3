// SPDX-License-Identifier: Apache-2.0

//! Numbers of attributes and messages, by the kernel's names (`linux/netfilter/nf_tables.h`,
//! `nf_tables_compat.h`, `nfnetlink.h`).
//!
//! Enumerations of attributes count from 1.

/// Constants that count from a number.
macro_rules! numbers {
    ($($(#[$doc:meta])* $kind:ty, $first:literal: $($name:ident)*;)*) => {
        $(numbers!(@ $kind, $first, $(#[$doc])*; $($name)*);)*
    };
    (@ $kind:ty, $number:expr, $(#[$doc:meta])*;) => {};
    (@ $kind:ty, $number:expr, $(#[$doc:meta])*; $name:ident $($rest:ident)*) => {
        $(#[$doc])*
        pub const $name: $kind = $number;
        numbers!(@ $kind, $name + 1, $(#[$doc])*; $($rest)*);
    };
}

numbers! {
    /// `enum nf_tables_msg_types`.
    u8, 0: NFT_MSG_NEWTABLE NFT_MSG_GETTABLE NFT_MSG_DELTABLE
        NFT_MSG_NEWCHAIN NFT_MSG_GETCHAIN NFT_MSG_DELCHAIN
        NFT_MSG_NEWRULE NFT_MSG_GETRULE NFT_MSG_DELRULE
        NFT_MSG_NEWSET NFT_MSG_GETSET NFT_MSG_DELSET
        NFT_MSG_NEWSETELEM NFT_MSG_GETSETELEM NFT_MSG_DELSETELEM
        NFT_MSG_NEWGEN NFT_MSG_GETGEN NFT_MSG_TRACE
        NFT_MSG_NEWOBJ NFT_MSG_GETOBJ NFT_MSG_DELOBJ NFT_MSG_GETOBJ_RESET
        NFT_MSG_NEWFLOWTABLE NFT_MSG_GETFLOWTABLE NFT_MSG_DELFLOWTABLE
        NFT_MSG_GETRULE_RESET
        NFT_MSG_DESTROYTABLE NFT_MSG_DESTROYCHAIN NFT_MSG_DESTROYRULE NFT_MSG_DESTROYSET
        NFT_MSG_DESTROYSETELEM NFT_MSG_DESTROYOBJ NFT_MSG_DESTROYFLOWTABLE
        NFT_MSG_GETSETELEM_RESET;
    /// `enum nft_list_attributes`.
    u16, 1: NFTA_LIST_ELEM;
    /// `enum nft_hook_attributes`.
    u16, 1: NFTA_HOOK_HOOKNUM NFTA_HOOK_PRIORITY NFTA_HOOK_DEV NFTA_HOOK_DEVS;
    /// `enum nft_table_attributes`.
    u16, 1: NFTA_TABLE_NAME NFTA_TABLE_FLAGS NFTA_TABLE_USE NFTA_TABLE_HANDLE NFTA_TABLE_PAD
        NFTA_TABLE_USERDATA NFTA_TABLE_OWNER;
    /// `enum nft_chain_attributes`.
    u16, 1: NFTA_CHAIN_TABLE NFTA_CHAIN_HANDLE NFTA_CHAIN_NAME NFTA_CHAIN_HOOK NFTA_CHAIN_POLICY
        NFTA_CHAIN_USE NFTA_CHAIN_TYPE NFTA_CHAIN_COUNTERS NFTA_CHAIN_PAD NFTA_CHAIN_FLAGS
        NFTA_CHAIN_ID NFTA_CHAIN_USERDATA;
    /// `enum nft_rule_attributes`.
    u16, 1: NFTA_RULE_TABLE NFTA_RULE_CHAIN NFTA_RULE_HANDLE NFTA_RULE_EXPRESSIONS
        NFTA_RULE_COMPAT NFTA_RULE_POSITION NFTA_RULE_USERDATA NFTA_RULE_PAD NFTA_RULE_ID
        NFTA_RULE_POSITION_ID NFTA_RULE_CHAIN_ID;
    /// `enum nft_rule_compat_attributes`.
    u16, 1: NFTA_RULE_COMPAT_PROTO NFTA_RULE_COMPAT_FLAGS;
    /// `enum nft_set_desc_attributes`.
    u16, 1: NFTA_SET_DESC_SIZE NFTA_SET_DESC_CONCAT;
    /// `enum nft_set_field_attributes`.
    u16, 1: NFTA_SET_FIELD_LEN;
    /// `enum nft_set_attributes`.
    u16, 1: NFTA_SET_TABLE NFTA_SET_NAME NFTA_SET_FLAGS NFTA_SET_KEY_TYPE NFTA_SET_KEY_LEN
        NFTA_SET_DATA_TYPE NFTA_SET_DATA_LEN NFTA_SET_POLICY NFTA_SET_DESC NFTA_SET_ID
        NFTA_SET_TIMEOUT NFTA_SET_GC_INTERVAL NFTA_SET_USERDATA NFTA_SET_PAD NFTA_SET_OBJ_TYPE
        NFTA_SET_HANDLE NFTA_SET_EXPR NFTA_SET_EXPRESSIONS NFTA_SET_TYPE NFTA_SET_COUNT;
    /// `enum nft_set_elem_attributes`.
    u16, 1: NFTA_SET_ELEM_KEY NFTA_SET_ELEM_DATA NFTA_SET_ELEM_FLAGS NFTA_SET_ELEM_TIMEOUT
        NFTA_SET_ELEM_EXPIRATION NFTA_SET_ELEM_USERDATA NFTA_SET_ELEM_EXPR NFTA_SET_ELEM_PAD
        NFTA_SET_ELEM_OBJREF NFTA_SET_ELEM_KEY_END NFTA_SET_ELEM_EXPRESSIONS;
    /// `enum nft_set_elem_list_attributes`.
    u16, 1: NFTA_SET_ELEM_LIST_TABLE NFTA_SET_ELEM_LIST_SET NFTA_SET_ELEM_LIST_ELEMENTS
        NFTA_SET_ELEM_LIST_SET_ID;
    /// `enum nft_data_attributes`.
    u16, 1: NFTA_DATA_VALUE NFTA_DATA_VERDICT;
    /// `enum nft_verdict_attributes`.
    u16, 1: NFTA_VERDICT_CODE NFTA_VERDICT_CHAIN NFTA_VERDICT_CHAIN_ID;
    /// `enum nft_expr_attributes`.
    u16, 1: NFTA_EXPR_NAME NFTA_EXPR_DATA;
    /// `enum nft_immediate_attributes`.
    u16, 1: NFTA_IMMEDIATE_DREG NFTA_IMMEDIATE_DATA;
    /// `enum nft_bitwise_attributes`.
    u16, 1: NFTA_BITWISE_SREG NFTA_BITWISE_DREG NFTA_BITWISE_LEN NFTA_BITWISE_MASK
        NFTA_BITWISE_XOR NFTA_BITWISE_OP NFTA_BITWISE_DATA NFTA_BITWISE_SREG2;
    /// `enum nft_byteorder_attributes`.
    u16, 1: NFTA_BYTEORDER_SREG NFTA_BYTEORDER_DREG NFTA_BYTEORDER_OP NFTA_BYTEORDER_LEN
        NFTA_BYTEORDER_SIZE;
    /// `enum nft_cmp_attributes`.
    u16, 1: NFTA_CMP_SREG NFTA_CMP_OP NFTA_CMP_DATA;
    /// `enum nft_range_attributes`.
    u16, 1: NFTA_RANGE_SREG NFTA_RANGE_OP NFTA_RANGE_FROM_DATA NFTA_RANGE_TO_DATA;
    /// `enum nft_lookup_attributes`.
    u16, 1: NFTA_LOOKUP_SET NFTA_LOOKUP_SREG NFTA_LOOKUP_DREG NFTA_LOOKUP_SET_ID
        NFTA_LOOKUP_FLAGS;
    /// `enum nft_dynset_attributes`.
    u16, 1: NFTA_DYNSET_SET_NAME NFTA_DYNSET_SET_ID NFTA_DYNSET_OP NFTA_DYNSET_SREG_KEY
        NFTA_DYNSET_SREG_DATA NFTA_DYNSET_TIMEOUT NFTA_DYNSET_EXPR NFTA_DYNSET_PAD NFTA_DYNSET_FLAGS
        NFTA_DYNSET_EXPRESSIONS;
    /// `enum nft_payload_attributes`.
    u16, 1: NFTA_PAYLOAD_DREG NFTA_PAYLOAD_BASE NFTA_PAYLOAD_OFFSET NFTA_PAYLOAD_LEN
        NFTA_PAYLOAD_SREG NFTA_PAYLOAD_CSUM_TYPE NFTA_PAYLOAD_CSUM_OFFSET NFTA_PAYLOAD_CSUM_FLAGS;
    /// `enum nft_exthdr_attributes`.
    u16, 1: NFTA_EXTHDR_DREG NFTA_EXTHDR_TYPE NFTA_EXTHDR_OFFSET NFTA_EXTHDR_LEN NFTA_EXTHDR_FLAGS
        NFTA_EXTHDR_OP NFTA_EXTHDR_SREG;
    /// `enum nft_hash_attributes`.
    u16, 1: NFTA_HASH_SREG NFTA_HASH_DREG NFTA_HASH_LEN NFTA_HASH_MODULUS NFTA_HASH_SEED
        NFTA_HASH_OFFSET NFTA_HASH_TYPE NFTA_HASH_SET_NAME NFTA_HASH_SET_ID;
    /// `enum nft_meta_attributes`.
    u16, 1: NFTA_META_DREG NFTA_META_KEY NFTA_META_SREG;
    /// `enum nft_rt_attributes`.
    u16, 1: NFTA_RT_DREG NFTA_RT_KEY;
    /// `enum nft_socket_attributes`.
    u16, 1: NFTA_SOCKET_KEY NFTA_SOCKET_DREG NFTA_SOCKET_LEVEL;
    /// `enum nft_ct_attributes`.
    u16, 1: NFTA_CT_DREG NFTA_CT_KEY NFTA_CT_DIRECTION NFTA_CT_SREG;
    /// `enum nft_offload_attributes`.
    u16, 1: NFTA_FLOW_TABLE_NAME;
    /// `enum nft_limit_attributes`.
    u16, 1: NFTA_LIMIT_RATE NFTA_LIMIT_UNIT NFTA_LIMIT_BURST NFTA_LIMIT_TYPE NFTA_LIMIT_FLAGS
        NFTA_LIMIT_PAD;
    /// `enum nft_connlimit_attributes`.
    u16, 1: NFTA_CONNLIMIT_COUNT NFTA_CONNLIMIT_FLAGS;
    /// `enum nft_counter_attributes`.
    u16, 1: NFTA_COUNTER_BYTES NFTA_COUNTER_PACKETS NFTA_COUNTER_PAD;
    /// `enum nft_last_attributes`.
    u16, 1: NFTA_LAST_SET NFTA_LAST_MSECS NFTA_LAST_PAD;
    /// `enum nft_log_attributes`.
    u16, 1: NFTA_LOG_GROUP NFTA_LOG_PREFIX NFTA_LOG_SNAPLEN NFTA_LOG_QTHRESHOLD NFTA_LOG_LEVEL
        NFTA_LOG_FLAGS;
    /// `enum nft_queue_attributes`.
    u16, 1: NFTA_QUEUE_NUM NFTA_QUEUE_TOTAL NFTA_QUEUE_FLAGS NFTA_QUEUE_SREG_QNUM;
    /// `enum nft_quota_attributes`.
    u16, 1: NFTA_QUOTA_BYTES NFTA_QUOTA_FLAGS NFTA_QUOTA_PAD NFTA_QUOTA_CONSUMED;
    /// `enum nft_secmark_attributes`.
    u16, 1: NFTA_SECMARK_CTX;
    /// `enum nft_reject_attributes`.
    u16, 1: NFTA_REJECT_TYPE NFTA_REJECT_ICMP_CODE;
    /// `enum nft_nat_attributes`.
    u16, 1: NFTA_NAT_TYPE NFTA_NAT_FAMILY NFTA_NAT_REG_ADDR_MIN NFTA_NAT_REG_ADDR_MAX
        NFTA_NAT_REG_PROTO_MIN NFTA_NAT_REG_PROTO_MAX NFTA_NAT_FLAGS;
    /// `enum nft_tproxy_attributes`.
    u16, 1: NFTA_TPROXY_FAMILY NFTA_TPROXY_REG_ADDR NFTA_TPROXY_REG_PORT;
    /// `enum nft_masq_attributes`.
    u16, 1: NFTA_MASQ_FLAGS NFTA_MASQ_REG_PROTO_MIN NFTA_MASQ_REG_PROTO_MAX;
    /// `enum nft_redir_attributes`.
    u16, 1: NFTA_REDIR_REG_PROTO_MIN NFTA_REDIR_REG_PROTO_MAX NFTA_REDIR_FLAGS;
    /// `enum nft_dup_attributes`.
    u16, 1: NFTA_DUP_SREG_ADDR NFTA_DUP_SREG_DEV;
    /// `enum nft_fwd_attributes`.
    u16, 1: NFTA_FWD_SREG_DEV NFTA_FWD_SREG_ADDR NFTA_FWD_NFPROTO;
    /// `enum nft_objref_attributes`.
    u16, 1: NFTA_OBJREF_IMM_TYPE NFTA_OBJREF_IMM_NAME NFTA_OBJREF_SET_SREG NFTA_OBJREF_SET_NAME
        NFTA_OBJREF_SET_ID;
    /// `enum nft_gen_attributes`.
    u16, 1: NFTA_GEN_ID NFTA_GEN_PROC_PID NFTA_GEN_PROC_NAME;
    /// `enum nft_fib_attributes`.
    u16, 1: NFTA_FIB_DREG NFTA_FIB_RESULT NFTA_FIB_FLAGS;
    /// `enum nft_ct_helper_attributes`.
    u16, 1: NFTA_CT_HELPER_NAME NFTA_CT_HELPER_L3PROTO NFTA_CT_HELPER_L4PROTO;
    /// `enum nft_ct_timeout_timeout_attributes`.
    u16, 1: NFTA_CT_TIMEOUT_L3PROTO NFTA_CT_TIMEOUT_L4PROTO NFTA_CT_TIMEOUT_DATA;
    /// `enum nft_ct_expectation_attributes`.
    u16, 1: NFTA_CT_EXPECT_L3PROTO NFTA_CT_EXPECT_L4PROTO NFTA_CT_EXPECT_DPORT
        NFTA_CT_EXPECT_TIMEOUT NFTA_CT_EXPECT_SIZE;
    /// `enum nft_object_attributes`.
    u16, 1: NFTA_OBJ_TABLE NFTA_OBJ_NAME NFTA_OBJ_TYPE NFTA_OBJ_DATA NFTA_OBJ_USE NFTA_OBJ_HANDLE
        NFTA_OBJ_PAD NFTA_OBJ_USERDATA;
    /// `enum nft_flowtable_attributes`.
    u16, 1: NFTA_FLOWTABLE_TABLE NFTA_FLOWTABLE_NAME NFTA_FLOWTABLE_HOOK NFTA_FLOWTABLE_USE
        NFTA_FLOWTABLE_HANDLE NFTA_FLOWTABLE_PAD NFTA_FLOWTABLE_FLAGS;
    /// `enum nft_flowtable_hook_attributes`.
    u16, 1: NFTA_FLOWTABLE_HOOK_NUM NFTA_FLOWTABLE_HOOK_PRIORITY NFTA_FLOWTABLE_HOOK_DEVS;
    /// `enum nft_osf_attributes`.
    u16, 1: NFTA_OSF_DREG NFTA_OSF_TTL NFTA_OSF_FLAGS;
    /// `enum nft_synproxy_attributes`.
    u16, 1: NFTA_SYNPROXY_MSS NFTA_SYNPROXY_WSCALE NFTA_SYNPROXY_FLAGS;
    /// `enum nft_devices_attributes`.
    u16, 1: NFTA_DEVICE_NAME NFTA_DEVICE_PREFIX;
    /// `enum nft_xfrm_attributes`.
    u16, 1: NFTA_XFRM_DREG NFTA_XFRM_KEY NFTA_XFRM_DIR NFTA_XFRM_SPNUM;
    /// `enum nft_ng_attributes`.
    u16, 1: NFTA_NG_DREG NFTA_NG_MODULUS NFTA_NG_TYPE NFTA_NG_OFFSET NFTA_NG_SET_NAME
        NFTA_NG_SET_ID;
    /// `enum nft_tunnel_key_ip_attributes`.
    u16, 1: NFTA_TUNNEL_KEY_IP_SRC NFTA_TUNNEL_KEY_IP_DST;
    /// `enum nft_tunnel_ip6_attributes`.
    u16, 1: NFTA_TUNNEL_KEY_IP6_SRC NFTA_TUNNEL_KEY_IP6_DST NFTA_TUNNEL_KEY_IP6_FLOWLABEL;
    /// `enum nft_tunnel_opts_attributes`.
    u16, 1: NFTA_TUNNEL_KEY_OPTS_VXLAN NFTA_TUNNEL_KEY_OPTS_ERSPAN NFTA_TUNNEL_KEY_OPTS_GENEVE;
    /// `enum nft_tunnel_opts_vxlan_attributes`.
    u16, 1: NFTA_TUNNEL_KEY_VXLAN_GBP;
    /// `enum nft_tunnel_opts_erspan_attributes`.
    u16, 1: NFTA_TUNNEL_KEY_ERSPAN_VERSION NFTA_TUNNEL_KEY_ERSPAN_V1_INDEX
        NFTA_TUNNEL_KEY_ERSPAN_V2_HWID NFTA_TUNNEL_KEY_ERSPAN_V2_DIR;
    /// `enum nft_tunnel_opts_geneve_attributes`.
    u16, 1: NFTA_TUNNEL_KEY_GENEVE_CLASS NFTA_TUNNEL_KEY_GENEVE_TYPE NFTA_TUNNEL_KEY_GENEVE_DATA;
    /// `enum nft_tunnel_key_attributes`.
    u16, 1: NFTA_TUNNEL_KEY_ID NFTA_TUNNEL_KEY_IP NFTA_TUNNEL_KEY_IP6 NFTA_TUNNEL_KEY_FLAGS
        NFTA_TUNNEL_KEY_TOS NFTA_TUNNEL_KEY_TTL NFTA_TUNNEL_KEY_SPORT NFTA_TUNNEL_KEY_DPORT
        NFTA_TUNNEL_KEY_OPTS;
    /// `enum nft_tunnel_attributes`.
    u16, 1: NFTA_TUNNEL_KEY NFTA_TUNNEL_DREG NFTA_TUNNEL_MODE;
    /// `enum nft_inner_attributes`.
    u16, 1: NFTA_INNER_NUM NFTA_INNER_TYPE NFTA_INNER_FLAGS NFTA_INNER_HDRSIZE NFTA_INNER_EXPR;
    /// `enum nft_match_attributes`.
    u16, 1: NFTA_MATCH_NAME NFTA_MATCH_REV NFTA_MATCH_INFO;
    /// `enum nft_target_attributes`.
    u16, 1: NFTA_TARGET_NAME NFTA_TARGET_REV NFTA_TARGET_INFO;
}

/// `NFT_NAME_MAXLEN` without its end.
pub const NAME_MAX: usize = 255;
/// `NFT_USERDATA_MAXLEN`
pub const USERDATA_MAX: usize = 256;
