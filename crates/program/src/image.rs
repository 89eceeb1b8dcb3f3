// SPDX-License-Identifier: Apache-2.0

//! Linked programs: everything that expressions name is resolved, ready to run.
//!
//! An [`Image`] is flat: chains, rules and operations in vectors, jump targets as indexes, sets and
//! states by reference.

use std::sync::Arc;

use penstock_sets::Set;

use crate::State;
use crate::classify::ChainLookup;
use crate::dynamic::{DynamicSet, Statements};
use crate::env::{CtObject, NatKind};
use crate::expr::{
    BoolOp, ChecksumType, CmpOp, CtDir, CtKey, DynsetOp, ExthdrOp, FibResult, Log, MetaKey,
    PayloadBase, Reject, RtKey, SocketKey, Synproxy, TunnelKey, XfrmKey,
};
use crate::state::Bucket;

/// Number of a chain in [`Image::chains`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainIndex(pub u32);

/// Number of a flowtable: among those of the generation, of which programs know nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowtableIndex(pub u32);

/// Number of a rule in [`Image::rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleIndex(pub u32);

/// Number of a table in [`Image::tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableIndex(pub u32);

/// A generation, linked. Nothing in it changes but the states and sets it refers to.
#[derive(Debug, Default)]
pub struct Image {
    /// All tables.
    pub tables: Vec<LinkedTable>,
    /// All chains, those of a table in a row.
    pub chains: Vec<LinkedChain>,
    /// All rules, those of a chain in a row.
    pub rules: Vec<LinkedRule>,
    /// All operations, those of a rule in a row.
    pub ops: Vec<Op>,
    /// Names behind [`RuleIndex`], in the same order as `rules`.
    pub rule_names: Vec<RuleName>,
}

impl Image {
    /// A chain.
    #[inline]
    pub fn chain(&self, chain: ChainIndex) -> Option<&LinkedChain> {
        self.chains.get(chain.0 as usize)
    }

    /// The rules of a chain.
    pub fn rules_of(&self, chain: &LinkedChain) -> &[LinkedRule] {
        self.rules.get(chain.first as usize..chain.end as usize).unwrap_or(&[])
    }

    /// Builds the lookups of long chains that are not there yet. It takes some time, and may be
    /// done while packets run through the image: they walk until a lookup is there.
    pub fn build_lookups(&self) {
        for chain in &self.chains {
            if let Some(lookup) = &chain.lookup {
                lookup.build(self.rules_of(chain), &self.ops);
            }
        }
    }

    /// Gives a lookup to each chain in which so many rules ask something that can be looked up: for
    /// tests, which want to see short chains looked up.
    pub fn force_lookups(&mut self, least: usize) {
        for i in 0..self.chains.len() {
            let lookup = ChainLookup::with_least(least);
            lookup.build(self.rules_of(&self.chains[i]), &self.ops);
            self.chains[i].lookup = Some(Arc::new(lookup));
        }
    }

    /// Chain and handle of a rule.
    #[inline]
    pub fn rule_name(&self, rule: RuleIndex) -> Option<RuleName> {
        self.rule_names.get(rule.0 as usize).copied()
    }

    /// The table of a chain.
    #[inline]
    pub fn table_of(&self, chain: ChainIndex) -> Option<&LinkedTable> {
        self.tables.get(self.chain(chain)?.table.0 as usize)
    }

    /// Family (`NFPROTO_*`), table, chain and handle of a rule, as traces name it.
    pub fn place(&self, rule: RuleIndex) -> Option<(u8, &Arc<str>, &Arc<str>, u64)> {
        let name = self.rule_name(rule)?;
        let chain = self.chain(name.chain)?;
        let table = self.table_of(name.chain)?;
        Some((table.nfproto, &table.name, &chain.name, name.handle))
    }
}

impl AsRef<Image> for Image {
    fn as_ref(&self) -> &Image {
        self
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct LinkedTable {
    /// `NFPROTO_*`.
    pub nfproto: u8,
    /// Name.
    pub name: Arc<str>,
    /// Handle.
    pub handle: u64,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct LinkedChain {
    /// Its table.
    pub table: TableIndex,
    /// Name.
    pub name: Arc<str>,
    /// Handle.
    pub handle: u64,
    /// First of its rules.
    pub first: u32,
    /// One past the last of its rules.
    pub end: u32,
    /// Policy of a base chain: accept or drop.
    pub policy_accept: Option<bool>,
    /// Finds its rules, where that is worth while.
    pub lookup: Option<Arc<ChainLookup>>,
}

/// Where a rule's operations are.
#[derive(Clone, Copy, Debug)]
pub struct LinkedRule {
    /// First of its operations.
    pub first: u32,
    /// One past the last of its operations.
    pub end: u32,
}

/// Which rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleName {
    /// Its chain.
    pub chain: ChainIndex,
    /// Handle.
    pub handle: u64,
}

/// A verdict with its chain resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedVerdict {
    /// Final.
    Drop,
    /// Ends the base chain.
    Accept,
    /// Next rule.
    Continue,
    /// End of the rule.
    Break,
    /// Call.
    Jump(ChainIndex),
    /// Go.
    Goto(ChainIndex),
    /// Back to the caller.
    Return,
    /// Final: to a listener (`NF_QUEUE`).
    Queue {
        /// Number of the queue.
        num: u16,
        /// Without a listener the next base chain goes on; otherwise the packet is dropped.
        bypass: bool,
    },
}

/// Value of a set's or map's element.
#[derive(Clone, Debug)]
pub struct LinkedValue {
    /// What lookups load.
    pub data: LinkedData,
    /// Statements that run when a lookup finds the element.
    pub statements: Box<[Stateful]>,
}

/// What a map's element holds.
#[derive(Clone, Debug)]
pub enum LinkedData {
    /// Nothing: a set's element.
    None,
    /// Up to 16 register bytes; the rest is zero.
    Value([u8; 16]),
    /// More than 16 register bytes, at most 64.
    Long(Box<[u8]>),
    /// A verdict.
    Verdict(LinkedVerdict),
    /// An object.
    Object(Stateful),
}

impl LinkedData {
    /// From register bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut short = [0; 16];
        match short.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                LinkedData::Value(short)
            }
            None => LinkedData::Long(bytes.into()),
        }
    }
}

/// A stateful statement with its state: of an element, or an object.
#[derive(Clone, Debug)]
pub enum Stateful {
    /// Counts.
    Counter(Arc<State>),
    /// Matches while (or once, if `over`) the quota is not used up.
    Quota {
        /// The amount.
        bytes: u64,
        /// `over`.
        over: bool,
        /// Consumption.
        state: Arc<State>,
    },
    /// Matches within (or beyond) the rate.
    Limit {
        /// Parameters.
        bucket: Bucket,
        /// Tokens.
        state: Arc<State>,
    },
    /// Notes the time.
    Last(Arc<State>),
    /// A quota that is an object: as [`Stateful::Quota`], and tells the outside once when it is
    /// used up.
    NamedQuota {
        /// The amount.
        bytes: u64,
        /// `over`.
        over: bool,
        /// Consumption.
        state: Arc<State>,
    },
    /// Matches while there are at most (or once there are more than, if `over`) so many
    /// connections.
    Connlimit {
        /// `ct count`.
        limit: u32,
        /// `over`.
        over: bool,
        /// Connections.
        state: Arc<State>,
    },
    /// Gives the connection a helper, timeouts or an expectation.
    Ct(Arc<CtObject>),
    /// Answers for a server.
    Synproxy(Synproxy),
    /// Sets the packet's security mark.
    SecMark(u32),
}

/// A set that lookups can name.
#[derive(Clone, Debug)]
pub struct LinkedSet {
    /// Elements.
    pub elements: LinkedElements,
    /// Bytes of a key.
    pub key_len: u32,
    /// Bytes of a map's values; `None` for sets, verdict and object maps.
    pub value_len: Option<u32>,
}

/// Elements of a set that lookups can name.
#[derive(Clone, Debug)]
pub enum LinkedElements {
    /// Those of a generation.
    Fixed(Arc<Set<LinkedValue>>),
    /// Packets change them.
    Dynamic {
        /// The set.
        set: Arc<DynamicSet>,
        /// Default life of elements in milliseconds, 0 for no end.
        timeout: u64,
        /// Milliseconds between sweeps.
        gc_interval: u64,
    },
}

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
    /// Byte order, number by number (both directions are the same on a little-endian host).
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
    /// [`Ct::state`](penstock_packet::Ct::state) of the packet, 4 bytes in host order. Asks nobody.
    CtState { dst: u8 },
    /// Another key of the connection. Breaks if the packet has no entry, also if it has a template.
    /// `Direction` is [`CtInfo::is_reply`](penstock_packet::CtInfo::is_reply) of the packet; all
    /// else is [`Env::ct_get`], which breaks the rule with `None`, and whose bytes go into the
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
    /// template. Asks nobody, never breaks.
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
    Osf { ttl: u8, version: bool, dst: u8 },
    /// A property of an IPsec transformation; breaks without one.
    Xfrm { key: XfrmKey, out: bool, spnum: u32, dst: u8 },
    /// Metadata of the tunnel that the packet came through: whether there is some, or its id, which
    /// breaks without.
    Tunnel { key: TunnelKey, dst: u8 },
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
    /// Without a listener the next base chain goes on.
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
