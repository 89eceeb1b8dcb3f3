// SPDX-License-Identifier: Apache-2.0

//! Why a flow that a rule wanted in a flowtable was not put there.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// Why `flow add` did not put a packet's flow into the flowtable: the rule breaks then
        /// (`nft_flow_offload_eval()`), and a later packet is tried again.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum NotOffloaded { $($(#[$doc])* $name),+ }

        impl NotOffloaded {
            /// All reasons, in order of their numbers.
            pub const ALL: &'static [NotOffloaded] = &[$(NotOffloaded::$name),+];

            /// In words.
            pub const fn text(self) -> &'static str {
                match self { $(NotOffloaded::$name => $text),+ }
            }
        }
    };
}

reasons! {
    /// The packet has IPv4 options.
    Options = "IPv4 options",
    /// It has no connection: untracked or invalid.
    Untracked = "no connection",
    /// Neither TCP nor UDP, nor GRE of version 0.
    Protocol = "protocol",
    /// A FIN or a reset.
    Closing = "TCP closing",
    /// TCP is not established, or has not been used in both directions.
    NotEstablished = "TCP not established",
    /// GRE with a key, or translated.
    Gre = "GRE with key or translated",
    /// Its connection has a helper, which needs to see it.
    Helper = "helper",
    /// Its sequence numbers are adjusted.
    SequenceAdjusted = "sequence numbers adjusted",
    /// Its connection shares its reply tuple with another.
    Clash = "NAT clash",
    /// The first packet: its connection is in the table only when it has left.
    Unconfirmed = "first packet",
    /// It is in a flowtable already; this packet could not go there.
    Already = "in a flowtable already",
    /// It goes through IPsec, or came through it.
    Ipsec = "IPsec",
    /// There is no unicast route back.
    NoRoute = "no route back",
    /// The next hop's link address is unknown, in one direction.
    NoNeighbour = "no neighbour",
    /// The devices in one direction cannot be left out.
    Device = "device",
    /// A device that packets leave by, in one direction, is not among the flowtable's.
    OtherDevice = "device not in the flowtable",
    /// There are as many flows as there may be.
    Full = "flowtable full",
    /// Another flow arrives with the same addresses and ports on the same device: zones do not
    /// count here.
    Taken = "same packets as another flow",
    /// Its connection is ending.
    Dying = "connection ending",
}

impl fmt::Display for NotOffloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
