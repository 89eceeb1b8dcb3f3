// SPDX-License-Identifier: Apache-2.0

//! States of flows that a `ct timeout` policy names.

/// A state.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// As it is written.
    pub name: &'static str,
    /// The kernel's number.
    pub number: u8,
    /// Seconds after which a flow in it is forgotten where no policy says otherwise, as nft knows
    /// them.
    pub timeout: u32,
}

const fn state(name: &'static str, number: u8, timeout: u32) -> State {
    State { name, number, timeout }
}

/// `enum ctattr_timeout_tcp`
static TCP_STATES: [State; 11] = [
    state("syn_sent", 1, 120),
    state("syn_recv", 2, 60),
    state("established", 3, 432_000),
    state("fin_wait", 4, 120),
    state("close_wait", 5, 60),
    state("last_ack", 6, 30),
    state("time_wait", 7, 120),
    state("close", 8, 10),
    state("syn_sent2", 9, 120),
    state("retrans", 10, 300),
    state("unack", 11, 300),
];
/// `enum ctattr_timeout_udp`
static UDP_STATES: [State; 2] = [state("unreplied", 0, 30), state("replied", 1, 120)];

/// `IPPROTO_UDP`.
const UDP: u8 = 17;

/// The states of a protocol.
pub fn states(l4proto: u8) -> &'static [State] {
    if l4proto == UDP { &UDP_STATES } else { &TCP_STATES }
}

/// A state by its name.
pub fn by_name(l4proto: u8, name: &str) -> Option<&'static State> {
    states(l4proto).iter().find(|state| state.name == name)
}

/// A state by the kernel's number.
pub fn by_number(l4proto: u8, number: u8) -> Option<&'static State> {
    states(l4proto).iter().find(|state| state.number == number)
}
