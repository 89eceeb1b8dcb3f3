// SPDX-License-Identifier: Apache-2.0

//! What the host's routing tables say of addresses, for `fib`: the kernel's hooks and devices have
//! no function that answers as nf_tables does, so the answers are part of the program.

use std::fmt;

/// Whose answer a `fib` expression wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// IPv6.
    pub v6: bool,
    /// The type of the address, in place of the interface by which it is reached.
    pub kind: bool,
    /// Only what belongs to the device of the packet counts (`iif`, `oif`).
    pub limited: bool,
    /// The device of all packets, where there is one.
    pub device: Option<u32>,
}

/// What is said of a range of addresses: index of an interface (0 for none), or `RTN_*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// First and last address; one of IPv4 is in the low 32 bits.
    pub first: u128,
    /// See `first`.
    pub last: u128,
    /// For packets of these devices, by index in ascending order.
    pub by: Vec<(u32, u32)>,
    /// For all other packets.
    pub other: u32,
}

/// The routing tables of the host in one state.
pub trait Routes: fmt::Debug {
    /// The answers for all addresses, in ascending ranges without gaps. Programs have these until
    /// they are made anew.
    ///
    /// # Errors
    /// Why there is no list of answers.
    fn answers(&self, question: Question) -> Result<Vec<Answer>, String>;

    /// Index and name of each interface, zeros after its end.
    fn names(&self) -> Vec<(u32, [u8; 16])>;
}
