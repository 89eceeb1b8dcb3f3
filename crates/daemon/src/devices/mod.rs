// SPDX-License-Identifier: Apache-2.0

//! The devices of ports: taken from the kernel, opened, and given back.
//!
//! | file | is |
//! | --- | --- |
//! | [`takeover`] | a device becomes a port, and a TAP of the host takes its place; and back |
//! | [`other_end`] | a TAP of which the port is the other end |
//! | [`ports`] | how frames come and go |
//! | [`record`] | what is taken, written down |
//! | [`taken_ports`] | which devices are taken, for other threads |
//! | [`wanted`] | which devices are to be taken, also later |
//! | [`on_death`] | what becomes of the ports when the dataplane dies |

pub(crate) mod on_death;
pub(crate) mod other_end;
pub(crate) mod ports;
pub(crate) mod record;
pub(crate) mod taken_ports;
pub(crate) mod takeover;
pub(crate) mod wanted;
