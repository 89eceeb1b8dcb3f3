// SPDX-License-Identifier: Apache-2.0

//! What a verdict about a packet of a queue says of the packet's connection
//! (`ctnetlink_glue_parse_ct()`).

use penstock_conntrack::tuple::{IPV4, IPV6};
use penstock_conntrack::{Direction, Flow, FlowChange, Helpers, Tuple, status};
use serde::{Deserialize, Serialize};

use super::POLICY;
use super::change::{Help, read_labels, read_other_helper, timeout, verdict_bits};
use super::expectation::{self, Rest};
use super::tuple::{self, Reading};
use crate::connections::{NewExpected, Wanted};
use crate::message::{Attribute, Failure};
use crate::uapi::ctnetlink::*;

/// What a verdict asks of a connection, before it is known which one that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictChange {
    /// Nanoseconds that it lives from now on.
    timeout: Option<u64>,
    /// All of its status bits.
    status: Option<u32>,
    /// Name of its helper, empty for none.
    helper: Option<Box<str>>,
    /// What the program that is its helper keeps with it.
    helper_data: Option<Box<[u8]>>,
    /// Labels that stay, and those that are flipped afterwards; the error where they are none.
    labels: Option<Option<[(u32, u32); 4]>>,
    /// Bits of its mark that stay, and those that are flipped afterwards.
    mark: Option<(u32, u32)>,
    /// A connection that it expects from now on.
    expected: Option<VerdictExpectation>,
}

/// What a verdict says of a connection that the packet's connection is to expect
/// (`ctnetlink_glue_attach_expect()`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct VerdictExpectation {
    tuple: Tuple,
    helper: Option<Box<str>>,
    class: Option<u32>,
    rest: Rest,
}

impl VerdictExpectation {
    /// Reads `NFQA_EXP`. The family is that of the connection in the kernel; here it is that of the
    /// addresses, which have to be of the connection's family later.
    fn read(nest: Attribute<'_>) -> Result<Self, Failure> {
        let given = nest.attributes(expectation::POLICY)?;
        let (tuple, mask) = (given.need(CTA_EXPECT_TUPLE)?, given.need(CTA_EXPECT_MASK)?);
        let read = |attribute, family| {
            tuple::read(attribute, Reading::whole(family, Direction::Original), None)
        };
        let tuple_read = read(tuple, IPV4).or_else(|_| read(tuple, IPV6))?;
        let mask = read(mask, tuple_read.l3)?;
        let helper = given.get(CTA_EXPECT_HELP_NAME).map(|name| name.text()).transpose()?;
        Ok(VerdictExpectation {
            tuple: tuple_read,
            helper: helper.map(Into::into),
            class: given.be32(CTA_EXPECT_CLASS),
            rest: Rest::read(&given, &mask, tuple_read.l3)?,
        })
    }
}

impl VerdictChange {
    /// Reads `NFQA_CT`, and `NFQA_EXP`: an expectation that cannot be read is none.
    ///
    /// # Errors
    /// Those of `ct_nla_policy`, and of a helper's name.
    pub(crate) fn read(
        nest: Attribute<'_>,
        expected: Option<Attribute<'_>>,
    ) -> Result<Self, Failure> {
        let given = nest.attributes(POLICY)?;
        let mark = |mark| (given.be32(CTA_MARK_MASK).map_or(0, |mask| !mask), mark);
        let help = given.get(CTA_HELP).map(Help::read).transpose()?;
        Ok(VerdictChange {
            timeout: given.be32(CTA_TIMEOUT).map(timeout),
            status: given.be32(CTA_STATUS),
            helper: help.as_ref().map(|help| help.name.into()),
            helper_data: help.and_then(|help| help.info).map(Into::into),
            labels: given.get(CTA_LABELS).map(|labels| read_labels(&given, labels).ok()),
            mark: given.be32(CTA_MARK).map(mark),
            expected: expected.and_then(|nest| VerdictExpectation::read(nest).ok()),
        })
    }

    /// A connection that the packet's connection is to expect.
    pub fn expected(&self, helpers: &Helpers, flow: &Flow) -> Option<NewExpected> {
        let VerdictExpectation { tuple, helper, class, rest } = self.expected.clone()?;
        if tuple.l3 != flow.original.l3 {
            return None;
        }
        let help = (helper.as_deref(), class);
        let (helper, class) = expectation::read_help(helpers, help, flow).ok()?;
        let zones = [flow.original.zone, flow.reply.zone];
        let master = Wanted { tuple: flow.original, zones };
        Some(rest.expected(tuple, master, helper, class))
    }

    /// What changes of a connection, and whether that is all that is asked: the kernel leaves off at
    /// the first thing that it refuses.
    pub fn of(&self, helpers: &Helpers, flow: &Flow) -> (FlowChange, bool) {
        let mut change = FlowChange::default();
        let whole = self.fill(helpers, flow, &mut change).is_some();
        (change, whole)
    }

    fn fill(&self, helpers: &Helpers, flow: &Flow, change: &mut FlowChange) -> Option<()> {
        if let Some(timeout) = self.timeout {
            if flow.status & status::FIXED_TIMEOUT != 0 {
                return None;
            }
            change.timeout = Some(timeout);
        }
        if let Some(status) = self.status {
            change.status = verdict_bits(flow.status, status)?;
        }
        if let Some(helper) = &self.helper {
            change.helper = read_other_helper(helpers, helper, flow).ok()?;
            change.helper_data = self.helper_data.clone();
        }
        if let Some(labels) = self.labels {
            flow.labels?;
            change.labels = Some(labels?);
        }
        change.mark = self.mark;
        Some(())
    }
}
