// SPDX-License-Identifier: Apache-2.0

//! What a verdict about a packet of a queue says of the packet's connection
//! (`ctnetlink_glue_parse_ct()`).

use penstock_conntrack::{Flow, FlowChange, status};
use serde::{Deserialize, Serialize};

use super::POLICY;
use super::change::{helper_name, read_labels, read_other_helper, timeout, verdict_bits};
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
    /// Labels that stay, and those that are flipped afterwards; the error where they are none.
    labels: Option<Option<[(u32, u32); 4]>>,
    /// Bits of its mark that stay, and those that are flipped afterwards.
    mark: Option<(u32, u32)>,
}

impl VerdictChange {
    /// Reads `NFQA_CT`.
    ///
    /// # Errors
    /// Those of `ct_nla_policy`, and of a helper's name.
    pub(crate) fn read(nest: Attribute<'_>) -> Result<Self, Failure> {
        let given = nest.attributes(POLICY)?;
        let mark = |mark| (given.be32(CTA_MARK_MASK).map_or(0, |mask| !mask), mark);
        Ok(VerdictChange {
            timeout: given.be32(CTA_TIMEOUT).map(timeout),
            status: given.be32(CTA_STATUS),
            helper: given.get(CTA_HELP).map(helper_name).transpose()?.map(Into::into),
            labels: given.get(CTA_LABELS).map(|labels| read_labels(&given, labels).ok()),
            mark: given.be32(CTA_MARK).map(mark),
        })
    }

    /// What changes of a connection, and whether that is all that is asked: the kernel leaves off at
    /// the first thing that it refuses.
    pub fn of(&self, flow: &Flow) -> (FlowChange, bool) {
        let mut change = FlowChange::default();
        let whole = self.fill(flow, &mut change).is_some();
        (change, whole)
    }

    fn fill(&self, flow: &Flow, change: &mut FlowChange) -> Option<()> {
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
            change.helper = read_other_helper(helper, flow).ok()?;
        }
        if let Some(labels) = self.labels {
            flow.labels?;
            change.labels = Some(labels?);
        }
        change.mark = self.mark;
        Some(())
    }
}
