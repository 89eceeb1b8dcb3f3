// SPDX-License-Identifier: Apache-2.0

//! What happens to connections and expectations.

use penstock_conntrack::{Connection, Expectation, Flow, event, status};
use serde::{Deserialize, Serialize};

use super::Expected;
use super::table::{of_connection, of_expectation};
use crate::uapi::ctnetlink::*;

/// What happened to a connection or an expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectionEvent {
    /// To a connection.
    Connection {
        /// The connection as it is then.
        flow: Flow,
        /// Bits of [`event`].
        what: u16,
    },
    /// To an expectation.
    Expectation {
        /// The expectation as it is then.
        expected: Expected,
        /// It is not expected any more.
        ends: bool,
    },
}

impl ConnectionEvent {
    /// Of a connection in a table: `what` are bits of [`event`].
    pub fn of(connection: &Connection<'_>, what: u16) -> Self {
        let mut flow = of_connection(connection);
        if what & event::DESTROY != 0 {
            flow.status |= status::DYING;
        }
        ConnectionEvent::Connection { flow, what }
    }

    /// Of an expectation in a table, which has so many nanoseconds left, and its master.
    pub fn of_expected(
        expectation: &Expectation,
        left: u64,
        master: &Connection<'_>,
        ends: bool,
    ) -> Self {
        ConnectionEvent::Expectation { expected: of_expectation(expectation, left, master), ends }
    }

    /// Its group (`NFNLGRP_*`).
    pub fn group(&self) -> u32 {
        match self {
            ConnectionEvent::Connection { what, .. } => Self::group_of(*what),
            ConnectionEvent::Expectation { ends, .. } => Self::group_of_expected(*ends),
        }
    }

    /// The group (`NFNLGRP_*`) of what happens to a connection, by bits of [`event`].
    pub fn group_of(what: u16) -> u32 {
        if what & event::DESTROY != 0 {
            NFNLGRP_CONNTRACK_DESTROY
        } else if what & (event::NEW | event::RELATED) != 0 {
            NFNLGRP_CONNTRACK_NEW
        } else {
            NFNLGRP_CONNTRACK_UPDATE
        }
    }

    /// The group (`NFNLGRP_*`) of a beginning or an end of an expectation.
    pub fn group_of_expected(ends: bool) -> u32 {
        if ends { NFNLGRP_CONNTRACK_EXP_DESTROY } else { NFNLGRP_CONNTRACK_EXP_NEW }
    }
}
