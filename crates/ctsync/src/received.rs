// SPDX-License-Identifier: Apache-2.0

//! What becomes of a message that was received.

/// What a message is, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Something about a connection or an expectation.
    Data,
    /// Something about the exchange.
    Control,
    /// The peer asks for all that there is.
    Resync,
    /// It came after later ones, and does not count.
    Late,
    /// Flags and type do not fit, or the mode has no such message.
    Malformed,
}
