// SPDX-License-Identifier: Apache-2.0

//! What ends packets, by the names of `/proc/net/xfrm_stat` (`enum` in `<uapi/linux/snmp.h>`).

use std::fmt;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// Why a packet ended, as the kernel counts it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Stat { $($(#[$doc])* $name),+ }

        impl Stat {
            /// All of them.
            pub const ALL: &'static [Stat] = &[$(Stat::$name),+];

            /// The kernel's name.
            pub const fn name(self) -> &'static str {
                match self { $(Stat::$name => $text),+ }
            }
        }
    };
}

stats! {
    /// Too many transformations, one in the other.
    InBuffer = "XfrmInBufferError",
    /// An ESP header or an inner header is not all there.
    InHeader = "XfrmInHdrError",
    /// No state has this address and SPI.
    InNoStates = "XfrmInNoStates",
    /// The integrity value is wrong, or what was encrypted is malformed.
    InStateProto = "XfrmInStateProtoError",
    /// What was inside does not fit the state's mode.
    InStateMode = "XfrmInStateModeError",
    /// Sequence number outside of the window, or seen before.
    InStateSeq = "XfrmInStateSeqError",
    /// The state's lifetime is over.
    InStateExpired = "XfrmInStateExpired",
    /// UDP encapsulation without, or with; or the packet does not fit the state's selector.
    InStateMismatch = "XfrmInStateMismatch",
    /// The state is one for packets that leave.
    InStateDir = "XfrmInStateDirError",
    /// What the packet came through is not what the policy's templates ask for.
    InTmplMismatch = "XfrmInTmplMismatch",
    /// It came through a tunnel, and no policy says that it may.
    InNoPols = "XfrmInNoPols",
    /// A policy says block.
    InPolBlock = "XfrmInPolBlock",
    /// No way to the other end of the tunnel.
    OutBundleGen = "XfrmOutBundleGenError",
    /// No state for a template that requires one.
    OutNoStates = "XfrmOutNoStates",
    /// It could not be encrypted.
    OutStateProto = "XfrmOutStateProtoError",
    /// It is too large for the tunnel, or does not fit its mode.
    OutStateMode = "XfrmOutStateModeError",
    /// The state has no sequence numbers left.
    OutStateSeq = "XfrmOutStateSeqError",
    /// The state's lifetime is over.
    OutStateExpired = "XfrmOutStateExpired",
    /// The state is one for packets that arrive.
    OutStateDir = "XfrmOutStateDirError",
    /// A policy says block.
    OutPolBlock = "XfrmOutPolBlock",
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
