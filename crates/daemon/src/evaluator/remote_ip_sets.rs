// SPDX-License-Identifier: Apache-2.0

//! The sets of ipset of the dataplane, which a child asks for.

use penstock_ipset::{Refused, Reply, Request};
use penstock_nfnetlink::IpSetTable;

use super::netfilter::Batch;

/// Elements in one question, which is a message of at most a megabyte.
const TOGETHER: usize = 1024;

impl IpSetTable for Batch<'_, '_> {
    fn ask(&mut self, request: Request) -> Result<Reply, Refused> {
        let Request::Change { name, delete, exist, elements } = request else {
            return self.ip_sets_answer(request);
        };
        // Also without elements: whether there is the set is to be told.
        let mut done = 0;
        loop {
            let some = elements.iter().skip(done).take(TOGETHER).cloned().collect();
            let part = Request::Change { name: name.clone(), delete, exist, elements: some };
            self.ip_sets_answer(part)
                .map_err(|refused| Refused { element: refused.element + done, ..refused })?;
            done += TOGETHER;
            if done >= elements.len() {
                return Ok(Reply::Done);
            }
        }
    }
}
