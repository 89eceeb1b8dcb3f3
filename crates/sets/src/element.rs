//! Elements.

/// One element. Times are nanoseconds of the packet clock (since the epoch).
#[derive(Clone, Debug, PartialEq)]
pub struct Element<V> {
    /// Key bytes in register layout; empty for the catch-all element.
    pub key: Box<[u8]>,
    /// Last key of an interval, included; for concatenations the last of each field.
    pub key_end: Option<Box<[u8]>>,
    /// The caller's.
    pub value: V,
    /// When it ceases to match; `None` for never.
    pub expires_at: Option<u64>,
}
