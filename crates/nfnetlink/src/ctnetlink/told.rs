// SPDX-License-Identifier: Apache-2.0

//! What members of groups are told (`ctnetlink_conntrack_event()`, `ctnetlink_expect_event()`).

use super::address::Address;
use super::{SUBSYSTEM, SUBSYSTEM_EXP, connection, expected};
use crate::connections::ConnectionEvent;
use crate::message::{Writer, flags};
use crate::socket::Notification;
use crate::uapi::ctnetlink::*;

/// What happened, for the members of its group. It was caused by the socket with that port id, 0 for none. The
/// sequence number is 0, since a request is no part of it.
pub fn notification(event: &ConnectionEvent, port: u32) -> Notification {
    let mut to = Writer::default();
    let address = Address { sequence: 0, port };
    let begins = flags::CREATE | flags::EXCL;
    let group = match event {
        ConnectionEvent::Connection { flow, what } => {
            let group = ConnectionEvent::group_of(*what);
            let (number, flags) = match group {
                NFNLGRP_CONNTRACK_DESTROY => (IPCTNL_MSG_CT_DELETE, 0),
                NFNLGRP_CONNTRACK_NEW => (IPCTNL_MSG_CT_NEW, begins),
                _ => (IPCTNL_MSG_CT_NEW, 0),
            };
            let head = (SUBSYSTEM, number, flags);
            address.message(&mut to, head, (flow.original.l3, 0), |to| {
                connection::write_event(to, flow, *what);
            });
            group
        }
        ConnectionEvent::Expectation { expected, ends } => {
            let (number, flags) =
                if *ends { (IPCTNL_MSG_EXP_DELETE, 0) } else { (IPCTNL_MSG_EXP_NEW, begins) };
            let head = (SUBSYSTEM_EXP, number, flags);
            let family = expected.expectation.tuple.l3;
            address.message(&mut to, head, (family, 0), |to| expected::fill(to, expected));
            ConnectionEvent::group_of_expected(*ends)
        }
    };
    Notification { group, datagram: to.finish() }
}
