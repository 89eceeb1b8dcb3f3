//! Sequence numbers that shift where text was rewritten (`nf_conntrack_seqadj.c`).

/// Shift of the sequence numbers of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeqAdjust {
    /// Sequence number from which on [`SeqAdjust::after`] holds.
    pub position: u32,
    /// Shift before it.
    pub before: i32,
    /// Shift from it on.
    pub after: i32,
}
