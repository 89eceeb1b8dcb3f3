use crate::conntrack::{Conntrack, Outcome, Seen};
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tcp {
    a: [u32; 15],
}
impl Tcp {
    pub fn may_drop_early(&self) -> bool {
        false
    }
}
impl Conntrack {
    pub(crate) fn tcp_packet(&mut self, n: u32, p: &Seen<'_>) -> Outcome {
        self.generic_packet(n, p)
    }
}
