//! The VM expressions, one struct each, fields named after their netlink attributes (`NFTA_*`).
#![allow(missing_docs)]

use std::sync::Arc;

use crate::{Data, Register, Verdict};

/// One VM expression. No match on it has a wildcard arm, so the compiler names what a new one needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Immediate(Immediate),
    Payload(Payload),
    PayloadSet(PayloadSet),
    Meta(Meta),
    MetaSet(MetaSet),
    Cmp(Cmp),
    Range(Range),
    Bitwise(Bitwise),
    Byteorder(Byteorder),
    Lookup(Lookup),
    Dynset(Dynset),
    Counter(Counter),
    Limit(Limit),
    Quota(Quota),
    Last(Last),
    Connlimit(Connlimit),
    Objref(Objref),
    Log(Log),
    Exthdr(Exthdr),
    ExthdrSet(ExthdrSet),
    ExthdrReset(ExthdrReset),
    Numgen(Numgen),
    Hash(Hash),
    Fib(Fib),
    Rt(Rt),
    Ct(Ct),
    CtSet(CtSet),
    Notrack,
    Nat(Nat),
    Masq(Masq),
    Redir(Redir),
    Reject(Reject),
    Dup(Dup),
    Fwd(Fwd),
    Queue(Queue),
    Tproxy(Tproxy),
    Synproxy(Synproxy),
    Socket(Socket),
    Osf(Osf),
    Xfrm(Xfrm),
    Tunnel(Tunnel),
    Inner(Inner),
    FlowOffload(FlowOffload),
    Xt(Xt),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ImmediateData {
    Value(Data),
    Verdict(Verdict),
}
#[derive(Clone, Debug, PartialEq)]
pub struct Immediate {
    pub dreg: Register,
    pub data: ImmediateData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadBase {
    Link,
    Network,
    Transport,
    Inner,
    Tunnel,
}
/// Offsets and lengths in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    pub base: PayloadBase,
    pub offset: u32,
    pub len: u32,
    pub dreg: Register,
}
/// `NFT_PAYLOAD_CSUM_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    None,
    Inet,
    Sctp,
}
#[derive(Clone, Debug, PartialEq)]
pub struct PayloadSet {
    pub base: PayloadBase,
    pub offset: u32,
    pub len: u32,
    pub sreg: Register,
    pub csum_type: ChecksumType,
    pub csum_offset: u32,
    /// `NFT_PAYLOAD_L4CSUM_PSEUDOHDR` (1).
    pub csum_flags: u32,
}

/// `enum nft_meta_keys`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MetaKey {
    Len = 0,
    Protocol,
    Priority,
    Mark,
    Iif,
    Oif,
    IifName,
    OifName,
    IifType,
    OifType,
    SkUid,
    SkGid,
    NfTrace,
    RtClassid,
    SecMark,
    NfProto,
    L4Proto,
    BriIifName,
    BriOifName,
    PktType,
    Cpu,
    IifGroup,
    OifGroup,
    Cgroup,
    Prandom,
    SecPath,
    IifKind,
    OifKind,
    BriIifPvid,
    BriIifVproto,
    TimeNs,
    TimeDay,
    TimeHour,
    Sdif,
    SdifName,
    BriBroute,
    BriIifHwAddr,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    pub key: MetaKey,
    pub dreg: Register,
}
#[derive(Clone, Debug, PartialEq)]
pub struct MetaSet {
    pub key: MetaKey,
    pub sreg: Register,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmpOp {
    Eq,
    Neq,
    Lt,
    Lte,
    Gt,
    Gte,
}
/// Compares `data.len()` bytes as `memcmp` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Cmp {
    pub op: CmpOp,
    pub sreg: Register,
    pub data: Data,
}
/// `op` is `Eq` or `Neq`; both ends are included.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    pub op: CmpOp,
    pub sreg: Register,
    pub from: Data,
    pub to: Data,
}
#[derive(Clone, Debug, PartialEq)]
pub enum BitwiseOp {
    MaskXor {
        mask: Data,
        xor: Data,
    },
    /// By a number of bits, in host order words as the kernel shifts.
    Lshift(u32),
    Rshift(u32),
}
#[derive(Clone, Debug, PartialEq)]
pub struct Bitwise {
    pub sreg: Register,
    pub dreg: Register,
    /// Bytes.
    pub len: u32,
    pub op: BitwiseOp,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteorderOp {
    Ntoh,
    Hton,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Byteorder {
    pub op: ByteorderOp,
    pub sreg: Register,
    pub dreg: Register,
    /// Bytes in all, and per element (2, 4 or 8).
    pub len: u32,
    pub size: u32,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    pub set: Arc<str>,
    pub sreg: Register,
    /// A map's data goes here; the verdict register for verdict maps.
    pub dreg: Option<Register>,
    /// `NFT_LOOKUP_F_INV`.
    pub inverse: bool,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DynsetOp {
    Add,
    Update,
    Delete,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Dynset {
    pub set: Arc<str>,
    pub op: DynsetOp,
    pub sreg_key: Register,
    pub sreg_data: Option<Register>,
    /// Milliseconds; 0 for the set's default.
    pub timeout: u64,
    /// Statements that each element gets its own copy of.
    pub exprs: Vec<Expr>,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Counter {
    pub packets: u64,
    pub bytes: u64,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitType {
    Packets,
    Bytes,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub rate: u64,
    /// Seconds of the unit: 1, 60, 3600, 86400, 604800.
    pub unit: u64,
    pub burst: u32,
    pub kind: LimitType,
    /// `NFT_LIMIT_F_INV`: `over`.
    pub over: bool,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    pub bytes: u64,
    pub consumed: u64,
    /// `NFT_QUOTA_F_INV`: `over`.
    pub over: bool,
    /// `NFT_QUOTA_F_DEPLETED`.
    pub depleted: bool,
}
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Last {
    pub set: bool,
    /// Milliseconds since.
    pub msecs: u64,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Connlimit {
    pub count: u32,
    pub over: bool,
}

/// `NFT_OBJECT_*`, numbers as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum ObjectType {
    Counter = 1,
    Quota = 2,
    CtHelper = 3,
    Limit = 4,
    Connlimit = 5,
    Tunnel = 6,
    CtTimeout = 7,
    SecMark = 8,
    CtExpect = 9,
    Synproxy = 10,
}
#[derive(Clone, Debug, PartialEq)]
pub enum Objref {
    Named { kind: ObjectType, name: Arc<str> },
    Map { sreg: Register, set: Arc<str> },
}

/// What is absent is `None`; `level` and `group` exclude each other.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Log {
    pub prefix: Option<Arc<str>>,
    pub group: Option<u16>,
    pub snaplen: Option<u32>,
    pub queue_threshold: Option<u16>,
    pub level: Option<u32>,
    /// `NF_LOG_*`.
    pub flags: Option<u32>,
}

/// `NFT_EXTHDR_OP_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExthdrOp {
    Ipv6,
    TcpOpt,
    Ipv4Opt,
    Sctp,
    Dccp,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Exthdr {
    pub op: ExthdrOp,
    /// Header, option or chunk number.
    pub kind: u8,
    pub offset: u32,
    pub len: u32,
    /// `NFT_EXTHDR_F_PRESENT`: load 1 or 0 for there or not.
    pub present: bool,
    pub dreg: Register,
}
#[derive(Clone, Debug, PartialEq)]
pub struct ExthdrSet {
    pub op: ExthdrOp,
    pub kind: u8,
    pub offset: u32,
    pub len: u32,
    pub sreg: Register,
}
#[derive(Clone, Debug, PartialEq)]
pub struct ExthdrReset {
    pub op: ExthdrOp,
    pub kind: u8,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumgenMode {
    Inc,
    Random,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Numgen {
    pub mode: NumgenMode,
    pub modulus: u32,
    pub offset: u32,
    pub dreg: Register,
}
#[derive(Clone, Debug, PartialEq)]
pub enum Hash {
    Jenkins { sreg: Register, len: u32, seed: Option<u32>, modulus: u32, offset: u32, dreg: Register },
    Sym { modulus: u32, offset: u32, dreg: Register },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FibResult {
    Oif,
    OifName,
    AddrType,
}
/// `NFTA_FIB_F_*` flags: 1 saddr, 2 daddr, 4 mark, 8 iif, 16 oif, 32 present.
#[derive(Clone, Debug, PartialEq)]
pub struct Fib {
    pub result: FibResult,
    pub flags: u32,
    pub dreg: Register,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RtKey {
    Classid,
    Nexthop4,
    Nexthop6,
    TcpMss,
    Xfrm,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Rt {
    pub key: RtKey,
    pub dreg: Register,
}

/// `enum nft_ct_keys`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum CtKey {
    State = 0,
    Direction,
    Status,
    Mark,
    SecMark,
    Expiration,
    Helper,
    L3Protocol,
    Src,
    Dst,
    Protocol,
    ProtoSrc,
    ProtoDst,
    Labels,
    Pkts,
    Bytes,
    AvgPkt,
    Zone,
    EventMask,
    SrcIp,
    DstIp,
    SrcIp6,
    DstIp6,
    Id,
}
/// `IP_CT_DIR_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CtDir {
    Original = 0,
    Reply = 1,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Ct {
    pub key: CtKey,
    pub dir: Option<CtDir>,
    pub dreg: Register,
}
#[derive(Clone, Debug, PartialEq)]
pub struct CtSet {
    pub key: CtKey,
    pub dir: Option<CtDir>,
    pub sreg: Register,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatType {
    Snat,
    Dnat,
}
/// `family` is 2 (IPv4) or 10 (IPv6); `flags` are `NF_NAT_RANGE_*`.
#[derive(Clone, Debug, PartialEq)]
pub struct Nat {
    pub kind: NatType,
    pub family: u8,
    pub addr_min: Option<Register>,
    pub addr_max: Option<Register>,
    pub proto_min: Option<Register>,
    pub proto_max: Option<Register>,
    pub flags: u32,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Masq {
    pub proto_min: Option<Register>,
    pub proto_max: Option<Register>,
    pub flags: u32,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Redir {
    pub proto_min: Option<Register>,
    pub proto_max: Option<Register>,
    pub flags: u32,
}
/// `NFT_REJECT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RejectType {
    IcmpUnreach = 0,
    TcpRst = 1,
    IcmpxUnreach = 2,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Reject {
    pub kind: RejectType,
    pub code: u8,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Dup {
    pub addr: Option<Register>,
    pub dev: Option<Register>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Fwd {
    pub dev: Register,
    pub addr: Option<Register>,
    /// 2 or 10 with `addr`.
    pub nfproto: u8,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub num: u16,
    pub total: u16,
    pub sreg: Option<Register>,
    pub bypass: bool,
    pub fanout: bool,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Tproxy {
    /// 0 (both), 2 or 10.
    pub family: u8,
    pub addr: Option<Register>,
    pub port: Option<Register>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Synproxy {
    pub mss: u16,
    pub wscale: u8,
    pub flags: u32,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketKey {
    Transparent,
    Mark,
    Wildcard,
    Cgroupv2,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Socket {
    pub key: SocketKey,
    /// For `cgroupv2`.
    pub level: u32,
    pub dreg: Register,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Osf {
    pub ttl: u8,
    /// `NFT_OSF_F_VERSION`.
    pub version: bool,
    pub dreg: Register,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XfrmKey {
    DaddrIp4,
    DaddrIp6,
    SaddrIp4,
    SaddrIp6,
    Reqid,
    Spi,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Xfrm {
    pub key: XfrmKey,
    /// `false` in, `true` out.
    pub out: bool,
    pub spnum: u32,
    pub dreg: Register,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelKey {
    Path,
    Id,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    pub key: TunnelKey,
    pub dreg: Register,
}
/// A match inside a tunnel (`NFTA_INNER_*`).
#[derive(Clone, Debug, PartialEq)]
pub struct Inner {
    pub kind: u32,
    pub hdrsize: u32,
    pub flags: u32,
    pub expr: Box<Expr>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct FlowOffload {
    pub flowtable: Arc<str>,
}
/// An x_tables match or target, kept and listed, never run.
#[derive(Clone, Debug, PartialEq)]
pub struct Xt {
    pub target: bool,
    pub name: Arc<str>,
    pub rev: u32,
    pub info: Arc<[u8]>,
}
