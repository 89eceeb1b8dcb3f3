use crate::conntrack::{Conntrack, Outcome, Seen};
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sctp {
    a: [u32; 15],
}
impl Sctp {
    pub fn may_drop_early(&self) -> bool {
        false
    }
}
impl Conntrack {
    pub(crate) fn sctp_packet(&mut self, n: u32, p: &Seen<'_>) -> Outcome {
        self.generic_packet(n, p)
    }
}
