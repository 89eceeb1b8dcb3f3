// SPDX-License-Identifier: Apache-2.0

//! An expectation as a value: a connection that another one announces
//! (`struct nf_conntrack_expect`).

use crate::reference::Ref;
use crate::settings::SECOND;
use crate::tuple::{Direction, Tuple};
use penstock_wire::protocol;
use serde::{Deserialize, Serialize};

/// Classes of expectations of one helper (`NF_CT_MAX_EXPECT_CLASSES`).
pub const CLASSES: usize = 4;

/// Bits of [`Expectation::flags`] (`NF_CT_EXPECT_*`).
pub mod expect_flag {
    /// Stays when a connection has met it.
    pub const PERMANENT: u8 = 1;
    /// Not met by anything yet.
    pub const INACTIVE: u8 = 2;
    /// Made by a program.
    pub const USERSPACE: u8 = 4;
}

/// How the expected connection is translated if its master is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    /// Direction of the master that the expected connection goes in.
    pub direction: Direction,
    /// Address that its destination becomes, where it is not the master's.
    pub address: Option<[u8; 16]>,
    /// Port (or GRE key) that its destination becomes.
    pub port: u16,
}

/// A connection that is expected (`struct nf_conntrack_expect`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Its original tuple; what the masks leave out is zero.
    pub tuple: Tuple,
    /// Which bits of the source address count.
    pub source_mask: [u8; 16],
    /// Whether the source port counts.
    pub source_port: bool,
    /// The connection that announced it.
    pub master: Ref,
    /// Class, below [`CLASSES`].
    pub class: u8,
    /// Bits of [`expect_flag`].
    pub flags: u8,
    /// How long it is expected, in nanoseconds.
    pub timeout: u64,
    /// Number of the helper of the expected connection, 0 for none.
    pub helper: u16,
    /// How it is translated.
    pub follow: Option<Follow>,
}

impl Expectation {
    /// A connection to an address and port, from any port of `source`, or from anywhere
    /// (`nf_ct_expect_init()`). It is expected for five minutes.
    pub fn new(
        master: Ref,
        l3: u8,
        protocol: u8,
        source: Option<[u8; 16]>,
        destination: [u8; 16],
        port: u16,
    ) -> Self {
        Self {
            tuple: Tuple {
                src: source.unwrap_or_default(),
                dst: destination,
                src_id: 0,
                dst_id: port,
                zone: 0,
                l3,
                protocol,
            },
            source_mask: if source.is_some() { [0xff; 16] } else { [0; 16] },
            source_port: false,
            master,
            class: 0,
            flags: 0,
            timeout: 300 * SECOND,
            helper: 0,
            follow: None,
        }
    }

    /// Whether a packet of this tuple, which has the expected destination, is expected.
    pub(crate) fn meets(&self, tuple: &Tuple) -> bool {
        let address = self
            .tuple
            .src
            .iter()
            .zip(&tuple.src)
            .zip(&self.source_mask)
            .all(|((a, b), m)| (a ^ b) & m == 0);
        address && (!self.source_port || self.tuple.src_id == tuple.src_id)
    }

    /// Whether a packet that just arrived may be expected, as far as its tuple is known
    /// ([`Tuple::on_arrival`]); its destination is the expected one.
    pub(crate) fn is_met_on_arrival(&self, tuple: &Tuple) -> bool {
        let src_id = if tuple.has_hidden_source() { self.tuple.src_id } else { tuple.src_id };
        self.meets(&Tuple { src_id, ..*tuple })
    }

    /// Whether it is one of two that a connection expects for the same flow, one for each
    /// direction: the first packet meets either, and ends both (`pptp_expectfn()`).
    pub(crate) fn is_for_either_direction(&self) -> bool {
        self.tuple.protocol == protocol::GRE
    }

    /// Whether some connection would be both (`expect_clash()`); their destinations are the same.
    pub(crate) fn clashes(&self, other: &Self) -> bool {
        let both = |i: usize| self.source_mask[i] & other.source_mask[i];
        (0..16).all(|i| (self.tuple.src[i] ^ other.tuple.src[i]) & both(i) == 0)
            && (!(self.source_port && other.source_port) || self.tuple.src_id == other.tuple.src_id)
    }

    /// The part of the tuple by which expectations are found.
    pub(crate) fn destination(&self) -> Tuple {
        self.tuple.destination_only()
    }
}

/// Why a connection cannot be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectError {
    /// The master is gone.
    NoMaster,
    /// Another connection expects it, or something that cannot be told from it is expected
    /// (`EBUSY`).
    Busy,
    /// The same is expected in another class (`EALREADY`).
    Already,
    /// The master has its maximum of expectations (`EMFILE`).
    TooMany,
    /// The table has its maximum of expectations (`EMFILE`).
    TableFull,
}
