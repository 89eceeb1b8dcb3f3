// SPDX-License-Identifier: Apache-2.0

//! What happened to packets and connections, counted by reason.

use serde::{Deserialize, Serialize};

/// Why things happened, as `conntrack -S` counts them, and drops by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Packets that were found invalid.
    pub invalid: u64,
    /// Entries that were inserted.
    pub insert: u64,
    /// Entries that could not be inserted.
    pub insert_failed: u64,
    /// Packets dropped by connection tracking, for whatever reason.
    pub drop: u64,
    /// Packets dropped because the table was full.
    pub table_full: u64,
    /// Entries dropped early to make room.
    pub early_drop: u64,
    /// ICMP errors that could not be looked at.
    pub error: u64,
    /// Clashes that were resolved.
    pub clash_resolve: u64,
    /// Entries refused because too many with near hashes are there.
    pub chaintoolong: u64,
    /// Connections that were expected.
    pub expect_new: u64,
    /// Expectations made.
    pub expect_create: u64,
    /// Expectations removed.
    pub expect_delete: u64,
}

impl Statistics {
    /// Adds what happened in another table.
    pub fn add(&mut self, other: &Statistics) {
        let Statistics {
            invalid,
            insert,
            insert_failed,
            drop,
            table_full,
            early_drop,
            error,
            clash_resolve,
            chaintoolong,
            expect_new,
            expect_create,
            expect_delete,
        } = other;
        self.invalid += invalid;
        self.insert += insert;
        self.insert_failed += insert_failed;
        self.drop += drop;
        self.table_full += table_full;
        self.early_drop += early_drop;
        self.error += error;
        self.clash_resolve += clash_resolve;
        self.chaintoolong += chaintoolong;
        self.expect_new += expect_new;
        self.expect_create += expect_create;
        self.expect_delete += expect_delete;
    }
}
