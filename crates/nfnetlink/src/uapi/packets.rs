// SPDX-License-Identifier: Apache-2.0

//! `include/uapi/linux/netfilter/nfnetlink_queue.h` and `nfnetlink_log.h`.

numbers! {
    /// `enum nfqnl_msg_types`
    u8, 0: NFQNL_MSG_PACKET NFQNL_MSG_VERDICT NFQNL_MSG_CONFIG NFQNL_MSG_VERDICT_BATCH;
    /// `enum nfqnl_attr_type`
    u16, 1: NFQA_PACKET_HDR NFQA_VERDICT_HDR NFQA_MARK NFQA_TIMESTAMP NFQA_IFINDEX_INDEV
        NFQA_IFINDEX_OUTDEV NFQA_IFINDEX_PHYSINDEV NFQA_IFINDEX_PHYSOUTDEV NFQA_HWADDR
        NFQA_PAYLOAD NFQA_CT NFQA_CT_INFO NFQA_CAP_LEN NFQA_SKB_INFO NFQA_EXP NFQA_UID NFQA_GID
        NFQA_SECCTX NFQA_VLAN NFQA_L2HDR NFQA_PRIORITY NFQA_CGROUP_CLASSID;
    /// `enum nfqnl_attr_config`
    u16, 1: NFQA_CFG_CMD NFQA_CFG_PARAMS NFQA_CFG_QUEUE_MAXLEN NFQA_CFG_MASK NFQA_CFG_FLAGS;
    /// `enum nfqnl_msg_config_cmds`, and those of nfnetlink_log, which are the same
    u8, 0: CFG_CMD_NONE CFG_CMD_BIND CFG_CMD_UNBIND CFG_CMD_PF_BIND CFG_CMD_PF_UNBIND;
    /// `enum nfqnl_config_mode`, and those of nfnetlink_log, which are the same
    u8, 0: COPY_NONE COPY_META COPY_PACKET;
    /// `enum nfulnl_msg_types`
    u8, 0: NFULNL_MSG_PACKET NFULNL_MSG_CONFIG;
    /// `enum nfulnl_attr_type`
    u16, 1: NFULA_PACKET_HDR NFULA_MARK NFULA_TIMESTAMP NFULA_IFINDEX_INDEV NFULA_IFINDEX_OUTDEV
        NFULA_IFINDEX_PHYSINDEV NFULA_IFINDEX_PHYSOUTDEV NFULA_HWADDR NFULA_PAYLOAD NFULA_PREFIX
        NFULA_UID NFULA_SEQ NFULA_SEQ_GLOBAL NFULA_GID NFULA_HWTYPE NFULA_HWHEADER NFULA_HWLEN
        NFULA_CT NFULA_CT_INFO NFULA_VLAN NFULA_L2HDR;
    /// `enum nfqnl_vlan_attr`, and those of nfnetlink_log, which are the same
    u16, 1: VLAN_PROTO VLAN_TCI;
    /// `enum nfulnl_attr_config`
    u16, 1: NFULA_CFG_CMD NFULA_CFG_MODE NFULA_CFG_NLBUFSIZ NFULA_CFG_TIMEOUT NFULA_CFG_QTHRESH
        NFULA_CFG_FLAGS;
}

/// `NFQA_CFG_F_FAIL_OPEN`
pub const NFQA_CFG_F_FAIL_OPEN: u32 = 1;
/// `NFQA_CFG_F_CONNTRACK`
pub const NFQA_CFG_F_CONNTRACK: u32 = 1 << 1;
/// `NFQA_CFG_F_GSO`
pub const NFQA_CFG_F_GSO: u32 = 1 << 2;
/// `NFQA_CFG_F_MAX`
pub const NFQA_CFG_F_MAX: u32 = 1 << 5;
/// `NFQA_SKB_CSUMNOTREADY`
pub const NFQA_SKB_CSUMNOTREADY: u32 = 1;
/// `NFQA_SKB_GSO`
pub const NFQA_SKB_GSO: u32 = 1 << 1;
/// `NFULNL_CFG_F_SEQ`
pub const NFULNL_CFG_F_SEQ: u16 = 1;
/// `NFULNL_CFG_F_SEQ_GLOBAL`
pub const NFULNL_CFG_F_SEQ_GLOBAL: u16 = 1 << 1;
/// `NFULNL_CFG_F_CONNTRACK`
pub const NFULNL_CFG_F_CONNTRACK: u16 = 1 << 2;
