// SPDX-License-Identifier: Apache-2.0

//! What code is asked for: hook lists, and how it is made.

use penstock_program::Family;
use penstock_program::image::ChainIndex;

/// What a hook runs, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct List {
    /// Up to 4096 entries.
    pub entries: Vec<Entry>,
    /// Whether code for bursts is made too ([`Bound::run_burst`](crate::Bound::run_burst)).
    pub bursts: Bursts,
    /// Whether code is made, where that can be, for frames of which no packet was made yet
    /// ([`Compiled::run_frames`](crate::Compiled::run_frames)): then there is none for bursts,
    /// unless they are [`Bursts::Always`].
    pub frames: bool,
    /// Whether code is made, where that can be, that says of packets beforehand that they will pass
    /// ([`Compiled::egress_precheck`](crate::Compiled::egress_precheck)).
    pub egress_precheck: bool,
}

/// Whether a list is run for several packets at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bursts {
    /// It is not.
    #[default]
    Never,
    /// Only if the order makes no difference: the list reads nothing that packets change, and
    /// changes only packets and counters.
    WhenSafe,
    /// Also if the order makes a difference.
    Always,
}

impl List {
    /// A list for single packets.
    pub fn of(entries: impl Into<Vec<Entry>>) -> Self {
        List {
            entries: entries.into(),
            bursts: Bursts::Never,
            frames: false,
            egress_precheck: false,
        }
    }
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A base chain.
    Chain {
        /// Which.
        chain: ChainIndex,
        /// Family of the hook ([`Context::family`](penstock_program::Context::family)).
        family: Family,
    },
    /// A base chain of an inet table at ingress: it sees IPv4 and IPv6 packets as their families,
    /// and no others. A packet with invalid headers ends with
    /// [`Decision::BadHeader`](crate::Decision::BadHeader).
    InetIngress {
        /// Which.
        chain: ChainIndex,
    },
    /// Something else, which [`Host::stage`](crate::Host::stage) runs. It may change the packet in
    /// every way.
    Stage,
}

/// How code is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Checks what is handed to the code generator, for tests: a mistake is an error then.
    pub verify: bool,
    /// Tells perf(1) the names of the code, in `/tmp/perf-PID.map`.
    pub perf_map: bool,
    /// Counts ticks of rules and stages ([`Compiled::profile`](crate::Compiled::profile)). Such
    /// code is slower.
    pub profile: bool,
    /// Calls base chains, but for those that begin traces, one by one by their addresses, as the
    /// kernel calls its hooks, to see what that costs. Such code is slower.
    pub indirect: bool,
    /// Leaves out [`List::egress_precheck`], to see what that saves.
    pub no_precheck: bool,
}
