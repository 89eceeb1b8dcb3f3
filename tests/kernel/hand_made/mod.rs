// SPDX-License-Identifier: Apache-2.0

//! Scenarios by hand, each named for what it shows.

pub mod bridge;
mod bridge_ip;
mod devices;
mod fragments;
mod headers;
mod host;
mod journey;
mod malformed;
mod nat;
mod netdev;
mod path_mtu;
mod policies;
mod pptp;
mod rules;
mod sip;
pub mod snooping;
mod source_routes;
mod tc;
mod tracking;

use crate::frame::Frame;
use crate::net::NET;
use crate::random::cover;
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [
        bridge::all(),
        bridge_ip::all(),
        devices::all(),
        fragments::all(),
        headers::all(),
        malformed::all(),
        journey::all(),
        rules::all(),
        sip::all(),
        snooping::all(),
        netdev::all(),
        path_mtu::all(),
        pptp::all(),
        host::all(),
        policies::all(),
        nat::all(),
        tracking::all(),
        tc::all(),
        source_routes::all(),
        cover::examples(),
    ]
    .concat()
}

/// A scenario on the usual router.
fn on(name: &str, rules: &str) -> Scenario {
    Scenario::new(name, NET, rules)
}

/// Frames that all come from one place.
fn from(mut scenario: Scenario, source: &str, frames: &[Frame]) -> Scenario {
    scenario.frames.extend(frames.iter().map(|f| (source.to_owned(), f.bytes())));
    scenario
}

/// A forward chain of inet with these lines, each of which gets a counter at its end.
fn forward(name: &str, lines: &str) -> Scenario {
    on(
        name,
        &format!(
            "table inet t {{\n\tchain c {{\n\t\ttype filter hook forward priority 0;\n{}\t}}\n}}\n",
            counted(lines)
        ),
    )
}

/// One rule a line, each with a counter: at its end, or in front where it ends in a verdict. A line
/// that has one is kept.
fn counted(lines: &str) -> String {
    let mut out = String::new();
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let verdict = line.contains("vmap");
        out += &match (line.contains("counter"), verdict) {
            (true, _) => format!("\t\t{line}\n"),
            (false, true) => format!("\t\tcounter {line}\n"),
            (false, false) => format!("\t\t{line} counter\n"),
        };
    }
    out
}
