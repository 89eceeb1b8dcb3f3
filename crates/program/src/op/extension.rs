// SPDX-License-Identifier: Apache-2.0

//! What extensions of x_tables do that no other operation does.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use penstock_ipset::Query;
use penstock_wire::checksum::{self, Sum};

use super::Op;
use super::bpf::BpfProgram;
use super::ipv6::Ipv6Match;
use super::masked::Masked;
use crate::linked::{LinkedVerdict, NewConnection};
use crate::osf::Fingerprints;
use crate::state::dynamic::{DynamicSet, Statements};
use crate::state::{RecentAction, State};

/// Which of the systems that a SYN may come from are recorded (`XT_OSF_LOGLEVEL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemLog {
    /// All.
    All,
    /// The first one.
    First,
}

/// Part of a match or target of x_tables. Numbers are in host order.
#[derive(Clone, Debug)]
pub enum Extension {
    /// Operations in order, with registers of their own.
    Sequence {
        /// The operations.
        ops: Box<[Op]>,
        /// Where one of them breaks, only they end: the rule continues.
        continues: bool,
    },
    /// Breaks unless all operations of one of these lists pass; with `inverted` if they do. Each
    /// list has registers of its own.
    AnyOf {
        /// The lists.
        of: Box<[Box<[Op]>]>,
        /// Inverts the result.
        inverted: bool,
    },
    /// One list where destinations are translated (prerouting, output), another one elsewhere.
    ByHook {
        /// For prerouting and output.
        destination: Box<[Op]>,
        /// For all other hooks.
        source: Box<[Op]>,
    },
    /// A transport header, which later fragments do not have: they break. A packet that is shorter
    /// is dropped.
    TransportHeader {
        /// Bytes of the header.
        len: u8,
        /// A fragment at offset 8 is dropped, too.
        drops_overlap: bool,
    },
    /// The sender's operating system.
    System {
        /// Its genre.
        genre: Box<str>,
        /// The condition on the TTL: 0 for that of the fingerprint, 1 for at most that, 2 for none.
        ttl: u8,
        /// Fingerprints that programs have added.
        added: Arc<Fingerprints>,
        /// Any known system is right, and is recorded.
        log: Option<SystemLog>,
    },
    /// A TCP option is there.
    TcpOption {
        /// Which.
        kind: u8,
        /// It is not there.
        inverted: bool,
    },
    /// The maximum segment size of TCP is in a range.
    TcpMss {
        /// First and last.
        range: [u16; 2],
        /// It is not in the range, or there is none.
        inverted: bool,
    },
    /// Chunks of SCTP.
    SctpChunks(ChunkRule),
    /// A DCCP option is there.
    DccpOption {
        /// Which.
        kind: u8,
        /// It is not there.
        inverted: bool,
    },
    /// Headers of IPv6.
    Ipv6(Ipv6Match),
    /// Lowers the maximum segment size of TCP, or adds it.
    SetTcpMss(SegmentSize),
    /// Overwrites TCP options with no-operations.
    StripTcpOptions {
        /// The bit of each option.
        options: [u32; 8],
    },
    /// Sets TTL or hop limit.
    Ttl(TtlChange),
    /// Puts another prefix before an IPv6 address.
    Npt(PrefixChange),
    /// Compares words of the packet.
    U32(Words),
    /// Searches for bytes.
    Search(Search),
    /// The wall clock.
    Time(Times),
    /// A program of classic BPF returns anything but 0.
    Bpf(BpfProgram),
    /// The ports of a bridge that the packet came and leaves by.
    Physdev(Physdev),
    /// The connection is of a node of a cluster.
    Cluster(Cluster),
    /// Marks packets by a hash of their flow.
    HashMark(HashMark),
    /// IPsec transformations that the packet came or goes through.
    Policy(IpsecPolicy),
    /// Addresses that were seen lately.
    Recent(RecentRule),
    /// An element of a set of ipset.
    IpSet(IpSetMatch),
    /// Changes sets of ipset, and takes what their elements give.
    SetIpSet(IpSetTarget),
    /// Rates of groups.
    Hashlimit(GroupRule),
    /// Counts in an estimator.
    CountRate(Arc<State>),
    /// Compares estimated rates.
    Rate(RateRule),
    /// Connections of an address.
    Connlimit(ConnectionsOf),
    /// Counts in an account; breaks if that is within its quota.
    Account(Arc<State>),
    /// Routes a copy to a gateway by a device; any device if there is none of the name.
    CopyTo {
        /// The gateway.
        gateway: IpAddr,
        /// The device's name, padded with zeros.
        device: [u8; 16],
    },
    /// What a connection that is yet to begin gets.
    Template(NewConnection),
    /// Answers an ARP request for an IPv4 address.
    ArpReply {
        /// The link address of the answer.
        address: [u8; 6],
        /// What becomes of the request then; `None` if the rule continues.
        verdict: Option<LinkedVerdict>,
    },
}

/// What is asked of the ports of a bridge (`struct xt_physdev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Physdev {
    /// The port that it came by.
    pub arrived: PortName,
    /// The port that it leaves by.
    pub leaves: PortName,
    /// Which of [`Physdev::ALL`] is asked.
    pub asked: u8,
    /// The results that are inverted.
    pub inverted: u8,
}

impl Physdev {
    /// The name of the port that it came by.
    pub const IN: u8 = 1;
    /// The name of the port that it leaves by.
    pub const OUT: u8 = 2;
    /// Whether it is bridged.
    pub const BRIDGED: u8 = 4;
    /// Whether it came by a port.
    pub const IS_IN: u8 = 8;
    /// Whether it leaves by a port.
    pub const IS_OUT: u8 = 16;
    /// All of these.
    pub const ALL: u8 = 31;
}

/// A device's name padded with zeros, and which of its bits count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortName {
    /// The name.
    pub name: [u8; 16],
    /// Its bits that count.
    pub mask: [u8; 16],
}

/// Which chunks an SCTP packet has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRule {
    /// How they have to be there.
    pub wanted: ChunksWanted,
    /// The bit of each type.
    pub types: [u32; 8],
    /// Flags of some types, of which the first entry counts.
    pub flags: Box<[ChunkFlags]>,
    /// Inverts the result.
    pub inverted: bool,
}

/// How chunks of some types have to be in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunksWanted {
    /// One of them.
    Any,
    /// One of each type.
    All,
    /// No others.
    Only,
}

/// Flags that chunks of a type have to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkFlags {
    /// The type.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// Bits that count.
    pub mask: u8,
}

/// Nodes of a cluster, each of which sees all packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// How many there are.
    pub nodes: u32,
    /// The bit of each node that is meant.
    pub mask: u32,
    /// Key of the hash by which connections belong to nodes.
    pub seed: u32,
    /// Inverts the result.
    pub inverted: bool,
}

/// A mark by a hash of a flow, the same in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashMark {
    /// Bits of the addresses that count; of IPv4 the first four bytes.
    pub source: [u8; 16],
    /// Those of the destination.
    pub destination: [u8; 16],
    /// Bits of the ports that count, the source in the upper half, or of the SPI.
    pub port_mask: u32,
    /// Bits that are set in them.
    pub port_set: u32,
    /// Bits of the protocol that count.
    pub protocol: u16,
    /// Only addresses count.
    pub addresses_only: bool,
    /// The sources of both directions of the connection count, not the packet's addresses.
    pub of_connection: bool,
    /// Key of the hash.
    pub seed: u32,
    /// How many marks there are.
    pub modulus: u32,
    /// The first of them.
    pub offset: u32,
}

/// What `policy` asks of the transformations of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpsecPolicy {
    /// Those that it is to go through; else those that it came through.
    pub out: bool,
    /// There are none.
    pub none: bool,
    /// Each element has to match the transformation in its place, and there are no others; else
    /// the first element has to match one.
    pub strict: bool,
    /// What transformations have to be, at most 4.
    pub elements: Box<[IpsecElement]>,
}

/// What `policy` asks of one transformation. Each is with whether the result is inverted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpsecElement {
    /// Address and mask of the tunnel's source.
    pub source: Option<(Masked, bool)>,
    /// Address and mask of the tunnel's destination.
    pub destination: Option<(Masked, bool)>,
    /// The protocol's number.
    pub protocol: Option<(u8, bool)>,
    /// Tunnel mode; else transport mode.
    pub tunnel: Option<(bool, bool)>,
    /// Security parameter index.
    pub spi: Option<(u32, bool)>,
    /// Request id.
    pub reqid: Option<(u32, bool)>,
}

/// What a rule does with a table of addresses.
#[derive(Clone, Debug)]
pub struct RecentRule {
    /// What it does.
    pub action: RecentAction,
    /// The packet's destination; else its source.
    pub destination: bool,
    /// The TTL has to be the same, too.
    pub same_ttl: bool,
    /// Inverts the result.
    pub inverted: bool,
    /// The table.
    pub state: Arc<State>,
}

/// How a rule looks into a set of ipset. It holds the number of the set: what is in it, and which set
/// has the number, changes without the rule.
#[derive(Clone, Debug)]
pub struct IpSetMatch {
    /// The set, and what of the packet is looked for.
    pub query: Query,
    /// Inverts the result.
    pub inverted: bool,
    /// All sets.
    pub state: Arc<State>,
}

/// What a rule does with sets of ipset.
#[derive(Clone, Debug)]
pub struct IpSetTarget {
    /// The set that what the packet has is added to.
    pub add: Option<Query>,
    /// The set that it is deleted from.
    pub delete: Option<Query>,
    /// The set with an element that the packet gets mark or priority of.
    pub map: Option<Query>,
    /// It gets them, as zeroes, if there is no such element.
    pub map_inverted: bool,
    /// It gets the mark.
    pub mark: bool,
    /// It gets the priority.
    pub priority: bool,
    /// All sets.
    pub state: Arc<State>,
}

/// How packets are put into groups, each of which has a rate.
#[derive(Clone, Debug)]
pub struct GroupRule {
    /// Bits of the destination address that tell groups apart.
    pub destination: u8,
    /// The same of the source.
    pub source: u8,
    /// Whether the destination port does.
    pub destination_port: bool,
    /// Whether the source port does.
    pub source_port: bool,
    /// Groups beyond their rate match; else those within.
    pub inverted: bool,
    /// The groups.
    pub state: Arc<State>,
}

/// How estimated rates are compared (`struct xt_rateest_match_info`).
#[derive(Clone, Debug)]
pub struct RateRule {
    /// How the first rate has to compare with the second one.
    pub order: Ordering,
    /// Inverts the result.
    pub inverted: bool,
    /// Compares bytes in a second.
    pub bytes: bool,
    /// Compares packets in a second.
    pub packets: bool,
    /// Compares not the estimated rates, but how far they are below these ones: bytes and packets
    /// of both rates.
    pub below: Option<[[u32; 2]; 2]>,
    /// Bytes and packets of the second rate; `None` if it is estimated.
    pub second: Option<[u32; 2]>,
    /// The estimators.
    pub state: Arc<State>,
}

/// How many connections an address may have.
#[derive(Clone, Debug)]
pub struct ConnectionsOf {
    /// The packet's destination; else its source.
    pub destination: bool,
    /// Its bits that count.
    pub mask: [u8; 16],
    /// How many.
    pub limit: u32,
    /// Matches while there are not more; else when there are more.
    pub inverted: bool,
    /// A count for each address.
    pub set: Arc<DynamicSet>,
    /// What new addresses get.
    pub statements: Statements,
}

/// What a maximum segment size is lowered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentSize {
    /// A number of bytes.
    Fixed(u16),
    /// What fits the MTU of the path in both directions.
    PathMtu,
}

/// How a TTL changes. It stays within 0 and 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlChange {
    /// It becomes this.
    Set(u8),
    /// More.
    Add(u8),
    /// Less.
    Subtract(u8),
}

/// A prefix that takes the place of another one, so that checksums stay right (RFC 6296).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixChange {
    /// Of the destination; else of the source.
    pub destination: bool,
    /// The old prefix, and its bits.
    pub from: ([u8; 16], u8),
    /// The new prefix.
    pub prefix: [u8; 16],
    /// Bits of the longer one of the two, at most 64.
    pub len: u8,
    /// What is added to another word of the address, in ones' complement.
    pub adjustment: u16,
}

impl PrefixChange {
    /// Of one prefix to another one, each with its bits (`ip6t_npt_checkentry()`).
    pub fn new(destination: bool, from: ([u8; 16], u8), to: ([u8; 16], u8)) -> Self {
        // The negative of a sum in ones' complement is its checksum.
        let adjustment = !Sum::new().bytes(&from.0).u16(checksum::of(&to.0)).finish();
        PrefixChange { destination, from, prefix: to.0, len: from.1.max(to.1), adjustment }
    }
}

/// Tests of `u32`: all of them have to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The tests.
    pub tests: Box<[WordTest]>,
    /// Inverts the result.
    pub inverted: bool,
}

/// One test of `u32`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordTest {
    /// Bytes from the network header to the first word.
    pub position: u32,
    /// What is done with the word.
    pub steps: Box<[WordStep]>,
    /// Ranges, of which the result has to be in one.
    pub ranges: Box<[[u32; 2]]>,
}

/// What `u32` does with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordStep {
    /// `& NUMBER`
    And(u32),
    /// `<< NUMBER`, below 32
    ShiftLeft(u8),
    /// `>> NUMBER`, below 32
    ShiftRight(u8),
    /// `@ NUMBER`: positions count from so many bytes further on, and the word at this one is next.
    At(u32),
}

/// Bytes to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The bytes; letters in capitals if `ignores_case`.
    pub pattern: Box<[u8]>,
    /// Bytes from the network header from which to search.
    pub from: u16,
    /// Where the last byte has to come before.
    pub to: u16,
    /// Letters of both cases are the same.
    pub ignores_case: bool,
    /// Inverts the result.
    pub inverted: bool,
}

/// Times of the wall clock, in UTC; all conditions have to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// First and last second since the epoch.
    pub dates: [u32; 2],
    /// First and last second of the day; if they are the other way round, over midnight.
    pub daytime: [u32; 2],
    /// The bit of each day of a month, from 1.
    pub month_days: u32,
    /// The bit of each day of the week, Monday is 1.
    pub week_days: u8,
    /// What follows midnight belongs to the day before.
    pub contiguous: bool,
}

impl Extension {
    /// All operations in it.
    pub fn operations(&self) -> Vec<&Op> {
        match self {
            Extension::Sequence { ops, .. } => ops.iter().collect(),
            Extension::ByHook { destination, source } => destination.iter().chain(source).collect(),
            Extension::AnyOf { of, .. } => of.iter().flatten().collect(),
            Extension::TransportHeader { .. }
            | Extension::System { .. }
            | Extension::TcpOption { .. }
            | Extension::TcpMss { .. }
            | Extension::SctpChunks(_)
            | Extension::Ipv6(_)
            | Extension::SetTcpMss(_)
            | Extension::StripTcpOptions { .. }
            | Extension::Ttl(_)
            | Extension::Npt(_)
            | Extension::DccpOption { .. }
            | Extension::U32(_)
            | Extension::Search(_)
            | Extension::Time(_)
            | Extension::Bpf(_)
            | Extension::Physdev(_)
            | Extension::Cluster(_)
            | Extension::HashMark(_)
            | Extension::Policy(_)
            | Extension::Recent(_)
            | Extension::IpSet(_)
            | Extension::SetIpSet(_)
            | Extension::Hashlimit(_)
            | Extension::CountRate(_)
            | Extension::Rate(_)
            | Extension::Connlimit(_)
            | Extension::Account(_)
            | Extension::CopyTo { .. }
            | Extension::Template(_)
            | Extension::ArpReply { .. } => Vec::new(),
        }
    }
}
