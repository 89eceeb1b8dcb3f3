// SPDX-License-Identifier: Apache-2.0

//! Sets of ipset that iptables looks for with getsockopt(2): as a request of nfnetlink.

use penstock_launcher::{FoundIpSet, IpSetKey};
use penstock_nfnetlink::{look_up_ip_set, looked_up_ip_set};

/// The request for a set.
pub(crate) fn request(key: IpSetKey<'_>) -> Vec<u8> {
    match key {
        IpSetKey::Name(name) => look_up_ip_set(Some(name), 0),
        IpSetKey::Index(index) => look_up_ip_set(None, index),
    }
}

/// What it is answered with.
pub(crate) fn found(answers: &[Vec<u8>]) -> Option<FoundIpSet> {
    let (index, family, name) = answers.iter().find_map(|answer| looked_up_ip_set(answer))?;
    Some(FoundIpSet { index, family, name })
}
