// SPDX-License-Identifier: Apache-2.0

//! Notifications of quotas that packets have used up: of accounts (`nfnl_overquota_report()`), and
//! of objects of tables (`nft_quota_obj_eval()`).

use std::sync::Arc;

use penstock_program::State;
use penstock_ruleset::Generation;

use crate::accounts;
use crate::message::Writer;
use crate::nf_tables;
use crate::socket::Notification;

/// `NFNLGRP_ACCT_QUOTA`
pub const ACCOUNT_GROUP: u32 = 8;

/// Tells that the quota with a state is used up, at a time of the packet clock in nanoseconds;
/// `None` if nothing of the generation has the state any more.
pub fn used_up(state: &Arc<State>, generation: &Generation, now: u64) -> Option<Notification> {
    let mut to = Writer::default();
    let has_it = |other: &Arc<State>| Arc::ptr_eq(other, state);
    let account = generation.globals.accounts.iter().find(|account| has_it(&account.state));
    if let Some(account) = account {
        accounts::tell_used_up(&mut to, generation, account);
        return Some(Notification { group: ACCOUNT_GROUP, datagram: to.finish() });
    }
    let found = generation.tables.iter().find_map(|table| {
        let object = table.objects.iter().find(|object| object.state.as_ref().is_some_and(has_it));
        Some((table, object?))
    });
    let (table, object) = found?;
    nf_tables::tell_used_up(&mut to, generation, (table, object), now);
    Some(Notification { group: nf_tables::GROUP, datagram: to.finish() })
}
