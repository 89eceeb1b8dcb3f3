//! Helpers.

use crate::conntrack::Conntrack;

#[derive(Clone, Debug)]
pub(crate) struct HelperState;

#[derive(Debug, Default)]
pub(crate) struct Helpers;

impl Conntrack {
    pub(crate) fn helper_name(&self, _n: u32) -> Option<&str> {
        None
    }
    pub(crate) fn assign_helper(&mut self, _n: u32, _helper: u16) {}
}
