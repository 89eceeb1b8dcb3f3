// SPDX-License-Identifier: Apache-2.0

//! Counts (`ctnetlink_ct_stat_cpu_dump()`, `ctnetlink_stat_ct()`).

use super::exchange::{Exchange, Outcome};
use super::{SUBSYSTEM, SUBSYSTEM_EXP};
use crate::message::{Failure, flags};
use crate::uapi::ctnetlink::*;

/// What happened at each worker, as the kernel tells it of processors.
pub fn of_workers(exchange: &mut Exchange<'_>) -> Result<Outcome, Failure> {
    let (connections, listing) = exchange.parts();
    for (number, counted) in (0..).zip(connections.statistics()?) {
        let head = (SUBSYSTEM, IPCTNL_MSG_CT_GET_STATS_CPU, flags::MULTI);
        listing.message(head, (0, number), |to| {
            for (kind, count) in [
                // Connections that were found to be taken already are not counted.
                (CTA_STATS_FOUND, 0),
                (CTA_STATS_INVALID, counted.invalid),
                (CTA_STATS_INSERT, counted.insert),
                (CTA_STATS_INSERT_FAILED, counted.insert_failed),
                (CTA_STATS_DROP, counted.drop),
                (CTA_STATS_EARLY_DROP, counted.early_drop),
                (CTA_STATS_ERROR, counted.error),
                // A search never starts again.
                (CTA_STATS_SEARCH_RESTART, 0),
                (CTA_STATS_CLASH_RESOLVE, counted.clash_resolve),
                (CTA_STATS_CHAIN_TOOLONG, counted.chaintoolong),
            ] {
                // The kernel's counts have 32 bits.
                to.be32(kind, count as u32);
            }
        });
    }
    Ok(exchange.finish_dump())
}

/// How many connections there are, and how many there may be.
pub fn of_table(exchange: &mut Exchange<'_>) -> Result<Outcome, Failure> {
    let (count, most) = exchange.connections.count()?;
    let head = (SUBSYSTEM, IPCTNL_MSG_CT_GET_STATS, flags::MULTI);
    exchange.answer(head, (0, 0), |to| {
        to.be32(CTA_STATS_GLOBAL_ENTRIES, count);
        to.be32(CTA_STATS_GLOBAL_MAX_ENTRIES, most);
    });
    Ok(Outcome::Acknowledge)
}

/// What happened to expectations at each worker.
pub fn of_expectations(exchange: &mut Exchange<'_>) -> Result<Outcome, Failure> {
    let (connections, listing) = exchange.parts();
    for (number, counted) in (0..).zip(connections.statistics()?) {
        let head = (SUBSYSTEM_EXP, IPCTNL_MSG_EXP_GET_STATS_CPU, flags::MULTI);
        listing.message(head, (0, number), |to| {
            to.be32(CTA_STATS_EXP_NEW, counted.expect_new as u32);
            to.be32(CTA_STATS_EXP_CREATE, counted.expect_create as u32);
            to.be32(CTA_STATS_EXP_DELETE, counted.expect_delete as u32);
        });
    }
    Ok(exchange.finish_dump())
}
