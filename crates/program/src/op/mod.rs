// SPDX-License-Identifier: Apache-2.0

//! Operations: expressions with everything resolved that they name, as engines run them.

mod alike;
mod bpf;
mod extension;
mod info;
mod ipv6;
mod masked;

pub use bpf::{BpfAncillary, BpfPacket, BpfProgram};
pub use extension::{
    ChunkFlags, ChunkRule, ChunksWanted, Cluster, ConnectionsOf, Extension, GroupRule, HashMark,
    IpSetMatch, IpSetTarget, IpsecElement, IpsecPolicy, Physdev, PortName, PrefixChange, RateRule,
    RecentRule, Search, SegmentSize, SystemLog, Times, TtlChange, WordStep, WordTest, Words,
};
pub use info::{Effect, Info, Parts, TRANSPORT_PRECHECKED, sees_fragments};
pub use ipv6::{
    FragmentMatch, Ipv6Match, Number, OptionsMatch, RoutingMatch, Segment, SegmentField,
    SegmentsMatch, Within,
};
pub use masked::Masked;

use std::sync::Arc;

use penstock_sets::Set;

use crate::State;
use crate::linked::{ChainIndex, FlowtableIndex, LinkedValue, LinkedVerdict, Stateful};
use crate::operand::*;
use crate::osf::Fingerprints;
use crate::state::dynamic::{DynamicSet, Statements};

/// Changes an element of a set.
#[derive(Clone, Debug)]
pub struct SetUpdate {
    /// What is done.
    pub op: DynsetOp,
    /// Where.
    pub set: Arc<DynamicSet>,
    /// Register slot of the key.
    pub key: u8,
    /// Bytes of the key.
    pub key_len: u8,
    /// Register slot and bytes of a map's data.
    pub data: Option<(u8, u8)>,
    /// Life of the element in milliseconds, 0 for no end.
    pub timeout: u64,
    /// Milliseconds until the place of what was removed is free.
    pub gc_interval: u64,
    /// Breaks where there is an element afterwards; else where there is none.
    pub invert: bool,
    /// What new elements get.
    pub statements: Statements,
}

/// One operation. `src` and `dst` are register slots of 4 bytes, 0 to 15; `len` is in bytes, and an
/// access never passes the end of the registers. Other fields are those of the expression it came
/// from.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Op {
    /// Up to 16 bytes into a register.
    Immediate { dst: u8, len: u8, data: [u8; 16] },
    /// A verdict.
    Verdict(LinkedVerdict),
    /// Bytes of the link header.
    LoadLink { dst: u8, len: u8, offset: u16 },
    /// Bytes of the network header.
    LoadNetwork { dst: u8, len: u8, offset: u16 },
    /// Bytes of the transport header.
    LoadTransport { dst: u8, len: u8, offset: u16 },
    /// Bytes of what the transport header carries.
    LoadInner { dst: u8, len: u8, offset: u16 },
    /// From the packet that a tunnel carries.
    InTunnel(LinkedInner),
    /// Bytes into the packet.
    PayloadSet {
        base: PayloadBase,
        src: u8,
        len: u8,
        offset: u16,
        csum_type: ChecksumType,
        csum_offset: u16,
        pseudo: bool,
    },
    /// Metadata.
    Meta { key: MetaKey, dst: u8 },
    /// Sets metadata.
    MetaSet { key: MetaKey, src: u8 },
    /// Equality (or not) of up to 4 bytes, as a word under a mask, both in memory order.
    CmpWord { src: u8, equal: bool, mask: u32, data: u32 },
    /// Comparison of up to 16 bytes.
    Cmp { op: CmpOp, src: u8, len: u8, data: [u8; 16] },
    /// Interval of up to 16 bytes: both ends.
    Range { inside: bool, src: u8, len: u8, ends: Box<[[u8; 16]; 2]> },
    /// Mask and exclusive-or of one word, in memory order.
    MaskXorWord { src: u8, dst: u8, mask: u32, xor: u32 },
    /// Mask and exclusive-or of up to 4 words, in memory order.
    MaskXor { src: u8, dst: u8, words: u8, mask_xor: Box<[[u32; 4]; 2]> },
    /// Shift to the left over host order words.
    Lshift { src: u8, dst: u8, words: u8, bits: u8 },
    /// Shift to the right over host order words.
    Rshift { src: u8, dst: u8, words: u8, bits: u8 },
    /// Words of two registers, bit by bit.
    Combine { op: BoolOp, src: u8, other: u8, dst: u8, words: u8 },
    /// Byte order, number by number (on a little-endian host the directions do not differ).
    Byteorder { src: u8, dst: u8, len: u8, size: u8 },
    /// Lookup in a set or map.
    Lookup { src: u8, key_len: u8, inverse: bool, load: Load, set: Arc<Set<LinkedValue>> },
    /// Lookup in a set or map that packets change.
    LookupDynamic { src: u8, key_len: u8, inverse: bool, load: Load, set: Arc<DynamicSet> },
    /// Adds, renews or removes an element.
    SetUpdate(Arc<SetUpdate>),
    /// Runs the object that a map holds for the key.
    ObjectMap { src: u8, key_len: u8, set: Arc<Set<LinkedValue>> },
    /// Counts.
    Counter(Arc<State>),
    /// Another stateful statement, or an object.
    Stateful(Arc<Stateful>),
    /// Records the packet.
    Log(Arc<Log>),
    /// Bytes of an option or extension header, or whether it is there.
    Exthdr { op: ExthdrOp, kind: u8, offset: u8, len: u8, present: bool, dst: u8 },
    /// Writes a TCP option.
    TcpOptionSet { kind: u8, offset: u8, len: u8, src: u8 },
    /// Overwrites a TCP option with no-operations.
    TcpOptionReset { kind: u8 },
    /// Running number.
    NumgenInc { modulus: u32, offset: u32, dst: u8, state: Arc<State> },
    /// Random number.
    NumgenRandom { modulus: u32, offset: u32, dst: u8 },
    /// Jenkins' hash.
    Jhash { src: u8, len: u8, dst: u8, seed: u32, modulus: u32, offset: u32 },
    /// Hash of the flow.
    Symhash { dst: u8, modulus: u32, offset: u32 },
    /// Routing table.
    Fib { result: FibResult, flags: u8, dst: u8 },
    /// Route.
    Rt { key: RtKey, dst: u8 },
    /// Answers and drops.
    Reject(Reject),
    /// Sends a copy.
    Dup { addr: Option<u8>, v6: bool, dev: Option<u8> },
    /// Sends the packet.
    Fwd { dev: u8, addr: Option<u8>, v6: bool },
    /// [`Ct::state`](penstock_packet::Ct::state) of the packet, 4 bytes in host order. Makes no
    /// host call.
    CtState { dst: u8 },
    /// Another key of the connection. Breaks if the packet has no entry, also if it has a template.
    /// `Direction` is [`CtInfo::is_reply`](penstock_packet::CtInfo::is_reply) of the packet; all
    /// else is [`Env::ct_get`], which breaks the rule with `None`. Its bytes go into the
    /// register, the rest of their last word cleared.
    ///
    /// [`Env::ct_get`]: crate::Env::ct_get
    Ct { key: CtKey, dir: Option<CtDir>, dst: u8 },
    /// [`Env::ct_set`](crate::Env::ct_set) with `len` register bytes, if the packet has an entry.
    /// Never breaks.
    CtSet { key: CtKey, src: u8, len: u8 },
    /// [`Env::ct_set_zone`](crate::Env::ct_set_zone) with the 2 register bytes in host order, if
    /// the packet has neither entry nor template: its answer decides.
    CtSetZone { dir: Option<CtDir>, src: u8 },
    /// Makes [`Meta::ct`](penstock_packet::Meta::ct) untracked if it has neither entry nor
    /// template. Makes no host call, never breaks.
    Notrack,
    /// [`Env::nat`](crate::Env::nat) decides.
    Nat(LinkedNat),
    /// The verdict [`LinkedVerdict::Queue`].
    Queue(LinkedQueue),
    /// [`Env::synproxy`](crate::Env::synproxy) decides; breaks unless the packet is TCP over IPv4
    /// or IPv6.
    Synproxy(Synproxy),
    /// [`Env::flow_offload`](crate::Env::flow_offload) decides.
    FlowOffload(FlowtableIndex),
    /// Gives the packet to a local transparent socket; breaks without one. Breaks unless `family`
    /// is the packet's or 0.
    Tproxy { family: u8, addr: Option<u8>, port: Option<u8> },
    /// A property of the packet's local socket; breaks without one. `level` counts for cgroups
    /// only.
    Socket { key: SocketKey, level: u32, dst: u8 },
    /// The sender's operating system: 16 bytes.
    Osf { ttl: u8, version: bool, dst: u8, added: Arc<Fingerprints> },
    /// A property of an IPsec transformation; breaks without one.
    Xfrm { key: XfrmKey, out: bool, spnum: u32, dst: u8 },
    /// Metadata of the tunnel that the packet came through: whether there is some, or its id, which
    /// breaks without.
    Tunnel { key: TunnelKey, dst: u8 },
    /// Part of an extension of x_tables.
    Extension(Arc<Extension>),
}

/// Bytes of a header that an operation loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLoad {
    /// Which header.
    pub base: PayloadBase,
    /// Register slot.
    pub dst: u8,
    /// Bytes.
    pub len: u8,
    /// Bytes from the start of the header.
    pub offset: u16,
}

impl Op {
    /// Whether it asks for the socket of a packet, or an operation in it does.
    pub fn asks_for_socket(&self) -> bool {
        match self {
            Op::Meta { key: MetaKey::SkUid | MetaKey::SkGid | MetaKey::Cgroup, .. }
            | Op::Socket { .. } => true,
            Op::Extension(extension) => extension.operations().into_iter().any(Op::asks_for_socket),
            _ => false,
        }
    }

    /// What it loads of a header, if it does that.
    pub fn header_load(&self) -> Option<HeaderLoad> {
        let load = |base, dst: &u8, len: &u8, offset: &u16| {
            Some(HeaderLoad { base, dst: *dst, len: *len, offset: *offset })
        };
        if let Op::LoadLink { dst, len, offset } = self {
            load(PayloadBase::Link, dst, len, offset)
        } else if let Op::LoadNetwork { dst, len, offset } = self {
            load(PayloadBase::Network, dst, len, offset)
        } else if let Op::LoadTransport { dst, len, offset } = self {
            load(PayloadBase::Transport, dst, len, offset)
        } else if let Op::LoadInner { dst, len, offset } = self {
            load(PayloadBase::Inner, dst, len, offset)
        } else {
            None
        }
    }

    /// The counter that it adds the packet to.
    pub fn counter(&self) -> Option<&Arc<State>> {
        if let Op::Counter(state) = self {
            return Some(state);
        }
        let Op::Stateful(stateful) = self else { return None };
        if let Stateful::Counter(state) = &**stateful { Some(state) } else { None }
    }

    /// The set that it looks up in, if packets do not change that.
    pub fn fixed_set(&self) -> Option<&Set<LinkedValue>> {
        if let Op::Lookup { set, .. } | Op::ObjectMap { set, .. } = self { Some(set) } else { None }
    }

    /// Chains that its verdicts call (`true`) or go to, each once.
    pub fn targets(&self) -> Vec<(ChainIndex, bool)> {
        let mut all: Vec<_> = if let Op::Verdict(verdict) = self {
            verdict.target().into_iter().collect()
        } else if let Op::Lookup { set, load: Load::Verdict, .. } = self {
            set.iter_unordered().filter_map(|e| e.value.data.verdict()?.target()).collect()
        } else {
            Vec::new()
        };
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Where a translation finds its addresses and ports: register slots, both ends of each range.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct LinkedNat {
    pub kind: NatKind,
    /// Family of the addresses; 1 if there are none. In inet tables a packet of another family goes
    /// on with the next operation.
    pub family: u8,
    pub addr: Option<(u8, u8)>,
    pub port: Option<(u8, u8)>,
    /// The port from which ports keep their distance in the range, if the flags say so.
    pub base_port: u16,
    /// `NF_NAT_RANGE_*`, complete.
    pub flags: u32,
}

/// Which queue.
#[derive(Clone, Copy, Debug)]
pub struct LinkedQueue {
    /// The first, or the only one.
    pub num: u16,
    /// How many: the packet's hash, or with `fanout` the number of the worker, decides.
    pub total: u16,
    /// Register slot of its number in host order, of which the lower 16 bits count; `num` and
    /// `total` are then unused.
    pub sreg: Option<u8>,
    /// Without a listener the next base chain continues.
    pub bypass: bool,
    /// By worker instead of hash.
    pub fanout: bool,
}

/// Where to look for a packet in a tunnel, and what to load of it. Fields are those of
/// [`Inner`](crate::expr::Inner).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct LinkedInner {
    pub kind: u32,
    pub hdrsize: u8,
    pub flags: u32,
    pub load: InnerLoad,
}

/// What is loaded of a packet in a tunnel.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum InnerLoad {
    /// Bytes of a header.
    Payload { base: PayloadBase, dst: u8, len: u8, offset: u16 },
    /// Its ethertype.
    Protocol { dst: u8 },
    /// Its transport protocol.
    L4Proto { dst: u8 },
}

/// What a lookup does with the value it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Load {
    /// Nothing.
    Nothing,
    /// Puts so many bytes into a register.
    Bytes { dst: u8, len: u8 },
    /// It is the verdict.
    Verdict,
}

// Two operations fit a cache line.
const _: () = assert!(size_of::<Op>() <= 32);
