//! Live state of stateful expressions: what outlives a generation.

/// State of a counter, quota, limit, last, numgen or connlimit. Interior mutability only.
#[derive(Debug)]
pub enum State {}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
