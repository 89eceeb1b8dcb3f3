//! Expectations: connections that others announce (`nf_conntrack_expect.c`).

use crate::conntrack::Conntrack;

/// The expectations of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectList;

/// All expectations.
#[derive(Debug, Default)]
pub(crate) struct Expectations;

impl Conntrack {
    pub(crate) fn meet_expectation(&mut self, _n: u32) -> bool {
        false
    }
    pub(crate) fn remove_expectations_of(&mut self, _n: u32) {}
    pub(crate) fn expire_expectations(&mut self, _budget: &mut u32) {}
}
