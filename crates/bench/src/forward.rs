// SPDX-License-Identifier: Apache-2.0

//! The whole way from one device to another.

use std::rc::Rc;
use std::time::Duration;

use penstock_conntrack::Tracker;
use penstock_dataplane::Settings;

use crate::flow::NET;
use crate::frames::{Frames, Later, flow, flow_to, flow6, flow6_to, tcp_flow};
use crate::router::{BURST, Fate, Router, ruleset, stateful};
use crate::routes::Routes;
use crate::{Scale, Variant, mix};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

const MASQUERADE: &str = "table ip t {
    chain n {
        type nat hook postrouting priority srcnat
        oifname wan masquerade
    }
}";

/// The network of IPv4, and the same in IPv6.
fn network() -> String {
    format!(
        "{NET}addr add 2001:db8:2::1/64 dev wan nodad
addr add 2001:db8:3::1/64 dev lan nodad
neigh add 2001:db8:2::7 lladdr 02:00:00:00:00:b7 dev wan
neigh add 2001:db8:3::7 lladdr 02:00:00:00:00:a7 dev lan
route add 2001:db8:1::/64 via 2001:db8:3::7
"
    )
}

fn router(rules: &str, flows: u64) -> Router {
    let mut settings = Settings::default();
    settings.conntrack.max = settings.conntrack.max.max(2 * flows as u32);
    Router::between(&network(), settings, &ruleset(rules))
}

/// Frames of as many flows as there are destinations, each to one of them.
pub(crate) fn frames_to(destinations: &[u128], v6: bool) -> Vec<Vec<u8>> {
    let frame = |(n, to): (usize, &u128)| match v6 {
        false => flow_to(n as u32, (*to as u32).to_be_bytes(), 9),
        true => flow6_to(n as u32, (*to).into(), 9),
    };
    destinations.iter().enumerate().map(frame).collect()
}

/// Plain forwarding with a routing table: variants of so many routes, next hops and destinations.
fn with_routes(scale: Scale) -> Vec<Variant> {
    let tables = [
        ("plain-100k-routes", 100_000, 256, 10_000, false),
        ("plain-1m-routes", 1_000_000, 256, 100_000, false),
        ("plain6-10k-dst", 100, 100, 10_000, true),
        ("plain6-200k-routes", 200_000, 256, 100_000, true),
    ];
    let variant = |(name, routes, next_hops, destinations, v6): (&str, u32, u32, u32, bool)| {
        let (routes, destinations) = (scale.count(routes), scale.count(destinations));
        let against = if v6 { "plain6-10k" } else { "plain-10k" };
        let make = move || {
            let routes = Routes::new(routes, next_hops, v6);
            let frames = frames_to(&routes.destinations(destinations), v6);
            let frames = Rc::new(Frames::hot(frames.into_iter()));
            let net = network() + &routes.lines;
            Router::between(&net, Settings::default(), &ruleset("")).sending(&frames, Fate::Sent)
        };
        Variant::made(name, destinations.into(), make).against(against)
    };
    tables.into_iter().map(variant).collect()
}

/// Ten thousand flows to as many destinations, by a hundred next hops with a route each.
fn many_destinations(scale: Scale, stateful: &str) -> Vec<Variant> {
    let routes = Rc::new(Routes::new(100, 100, false));
    let flows = scale.count(10_000);
    let table = routes.clone();
    let frames = Later::new(flows as usize, move || {
        Frames::hot(frames_to(&table.destinations(flows), false).into_iter())
    });
    let variant = |name: &str, rules: &str, against| {
        let (rules, routes, frames) = (rules.to_owned(), routes.clone(), frames.clone());
        let make = move || {
            let mut settings = Settings::default();
            settings.conntrack.max = settings.conntrack.max.max(2 * flows);
            let net = network() + &routes.lines;
            let router = Router::between(&net, settings, &ruleset(&rules)).answered(&frames);
            router.sending(&frames, Fate::Sent)
        };
        Variant::made(name, flows.into(), make).against(against)
    };
    vec![
        variant("plain-10k-dst", "", "plain-10k"),
        variant("ct-10k-dst", stateful, "plain-10k-dst"),
        variant("masquerade-10k-dst", MASQUERADE, "plain-10k-dst"),
    ]
}

/// Few frames at a time: what a router has that is not busy.
fn small_bursts(scale: Scale, stateful: &str) -> Vec<Variant> {
    let frames = Later::hot(scale.count(10_000), |n| flow(n, 9));
    let variant = |name: &str, rules: &str, burst, against| {
        let (rules, operations, frames) = (rules.to_owned(), frames.len(), frames.clone());
        let make = move || {
            let router = router(&rules, frames.len()).answered(&frames).in_bursts(burst);
            router.sending(&frames, Fate::Sent)
        };
        Variant::made(name, operations, make).against(against)
    };
    vec![
        variant("plain-burst-1", "", 1, "plain-10k"),
        variant("plain-burst-8", "", 8, "plain-10k"),
        variant("ct-burst-1", stateful, 1, "ct-10k"),
        variant("ct-burst-8", stateful, 8, "ct-10k"),
    ]
}

/// Each packet begins a connection, two million of them a second. A fifth of them live at a time:
/// they have ended when the same addresses come again.
fn fresh(scale: Scale, stateful: &str) -> Vec<Variant> {
    const RATE: u64 = 2_000_000;
    const STEP: u64 = BURST as u64 * SECOND / RATE;
    let flows = scale.count(1_000_000);
    let frames = Later::hot(flows, |n| flow_to(n, [203, 0, 113, n as u8], 9));
    let variant = |name: &str, rules: &str| {
        let (rules, frames) = (rules.to_owned(), frames.clone());
        let make = move || {
            let mut settings = Settings::default();
            settings.conntrack.max = flows;
            let all = u64::from(flows).div_ceil(BURST as u64) * STEP;
            let life = Duration::from_nanos(all / 5);
            settings.conntrack.set_timeout(Tracker::Udp, "unreplied", life);
            let net = network() + "route add 203.0.113.0/24 via 198.19.0.7\n";
            let router = Router::between(&net, settings, &ruleset(&rules)).every(STEP);
            router.opening(&frames, flows as usize)
        };
        Variant::made(name, flows.into(), make).against("plain-10k")
    };
    vec![variant("ct-fresh", stateful), variant("masquerade-fresh", MASQUERADE)]
}

/// Segments of established connections of TCP, whose windows are tracked.
fn of_tcp(scale: Scale, stateful: &str) -> Vec<Variant> {
    let frames = Later::hot(scale.count(10_000), |n| tcp_flow(n, [198, 19, 0, 7], 9));
    let variant = |name: &str, rules: &str| {
        let (rules, operations, frames) = (rules.to_owned(), frames.len(), frames.clone());
        let make = move || router(&rules, frames.len()).shaken(&frames).opening(&frames, 0);
        Variant::made(name, operations, make).against("plain-10k")
    };
    vec![variant("ct-tcp-10k", stateful), variant("masquerade-tcp-10k", MASQUERADE)]
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let stateful = stateful("ip");
    let mut all = to_one_server(scale, &stateful);
    all.extend(fresh(scale, &stateful));
    all.extend(of_tcp(scale, &stateful));
    all.extend(many_destinations(scale, &stateful));
    all.extend(with_routes(scale));
    all.extend(small_bursts(scale, &stateful));
    all.push(mix::variant(scale, network()).against("plain-10k"));
    all
}

/// All flows go to one server.
fn to_one_server(scale: Scale, stateful4: &str) -> Vec<Variant> {
    let one = Later::hot(64, |_| flow(0, 9));
    let flows = scale.count(10_000);
    let many = Later::hot(flows, |n| flow(n, 9));
    let most = Later::hot(scale.count(1_000_000), |n| flow(n, 9));
    let many6 = Later::hot(flows, |n| flow6(n, 9));
    let cold = Later::new(flows as usize, move || Frames::cold((0..flows).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: &str, frames: &Later| {
        let (rules, operations, frames) = (rules.to_owned(), frames.len(), frames.clone());
        let make =
            move || router(&rules, frames.len()).answered(&frames).sending(&frames, Fate::Sent);
        Variant::made(name, operations, make)
    };
    let (rules, unanswered) = (stateful4.to_owned(), many.clone());
    let unanswered = Variant::made("ct-new-10k", many.len(), move || {
        router(&rules, unanswered.len()).sending(&unanswered, Fate::Sent)
    });
    vec![
        variant("plain-1", "", &one),
        variant("plain-10k", "", &many),
        variant("plain-10k-cold", "", &cold),
        variant("plain-1m", "", &most),
        variant("ct-1", stateful4, &one).against("plain-1"),
        variant("ct-10k", stateful4, &many).against("plain-10k"),
        variant("ct-10k-cold", stateful4, &cold).against("plain-10k-cold"),
        variant("ct-1m", stateful4, &most).against("plain-1m"),
        unanswered.against("plain-10k"),
        variant("masquerade-1", MASQUERADE, &one).against("plain-1"),
        variant("masquerade-10k", MASQUERADE, &many).against("plain-10k"),
        variant("masquerade-10k-cold", MASQUERADE, &cold).against("plain-10k-cold"),
        variant("plain6-10k", "", &many6).against("plain-10k"),
        variant("ct6-10k", &stateful("ip6"), &many6).against("plain6-10k"),
    ]
}
