// SPDX-License-Identifier: Apache-2.0

//! The clock is set forwards and backwards, while a dataplane runs and between two of them.

#[path = "../../dataplane/tests/router/mod.rs"]
mod router;

use std::sync::Arc;

use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_state::State;
use penstock_testkit::build::*;
use router::{SECOND, START};

const RULES: &str = "
table inet t {
  set s { type ipv4_addr; timeout 1h; elements = { 198.18.0.1 } }
  chain f {
    type filter hook forward priority filter; policy drop;
    udp dport 7 limit rate 1/second burst 1 packets accept
    udp dport 8 meta time >= 1800000000 accept
  }
}
";

fn session(ruleset: &mut Ruleset, text: &str, now: u64) -> String {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.into(), ruleset, now);
    assert!(outcome.ok, "{}", outcome.stderr);
    outcome.stdout
}

/// Seconds that the element has left, if it is there.
fn left(ruleset: &mut Ruleset, now: u64) -> Option<u64> {
    let generation = ruleset.generation();
    let elements = generation.tables.first()?.sets.first()?.elements().into_owned();
    let element = elements.iter().find(|element| element.is_alive(now))?;
    Some(element.expires_at?.saturating_sub(now) / SECOND)
}

#[test]
fn element_timeouts_ignore_wall_clock_changes() {
    const HOUR: i64 = 3600;
    // How it goes; seconds that the wall clock was set forwards by before it is saved, ten minutes
    // after the start; seconds from then to the next start, as the wall clock says; seconds that
    // are left.
    for (name, ahead, later, expected) in [
        ("nothing is set", 0, 60, Some(2940)),
        ("at once", 0, 0, Some(3000)),
        ("a long time passes", 0, HOUR, None),
        ("set forwards while it runs", 5 * HOUR, 60, Some(2940)),
        ("set backwards while it runs", -5 * HOUR, 60, Some(2940)),
        ("set backwards between the two", 0, -5 * HOUR, Some(3000)),
        ("set backwards in both", -5 * HOUR, -HOUR, Some(3000)),
        ("it begins anew at the epoch", 0, -((START / SECOND) as i64), Some(3000)),
    ] {
        let mut ruleset = Ruleset::default();
        session(&mut ruleset, RULES, START);
        let saved_at = START + 600 * SECOND;
        let ahead = ahead * SECOND as i64;
        let bytes = State { ruleset, ahead, ..State::default() }.to_bytes(saved_at);
        let now = saved_at.saturating_add_signed(ahead + later * SECOND as i64);
        let mut state = State::from_bytes_at(&bytes, now).expect("a state");
        assert_eq!(left(&mut state.ruleset, now), expected, "{name}");
    }
}

#[test]
fn a_limit_is_no_stricter_after_the_clock_was_set_back() {
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, RULES, START);
    let bytes = State { ruleset, ..State::default() }.to_bytes(START);
    let now = START - 86_400 * SECOND;
    let state = State::from_bytes_at(&bytes, now).expect("a state");
    let mut path = router::router(router::NET);
    path.set_rules(Arc::new(Linked::new(&state.ruleset.generation()).expect("it can run")));
    let frame = (router::from_wan()
        / Ipv4::new("198.18.0.7", "198.18.1.7")
        / Udp::new(1, 7)
        / payload(b""))
    .build();
    let forwarded = (0..5).filter(|second| {
        let seen = router::receive_at(&mut path, "wan", &frame, now + second * SECOND);
        !seen.frames.is_empty()
    });
    assert_eq!(forwarded.count(), 5);
}

#[test]
fn time_matches_use_the_wall_clock() {
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, RULES, START);
    let mut path = router::router(router::NET);
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).expect("it can run")));
    let frame = (router::from_wan()
        / Ipv4::new("198.18.0.7", "198.18.1.7")
        / Udp::new(1, 8)
        / payload(b""))
    .build();
    let year = 365 * 86_400 * SECOND as i64;
    for (ahead, forwarded) in [(0, false), (10 * year, true), (-10 * year, false)] {
        path.set_wall_ahead(ahead);
        let seen = router::receive_at(&mut path, "wan", &frame, START);
        assert_eq!(!seen.frames.is_empty(), forwarded, "{ahead}");
    }
}
