// SPDX-License-Identifier: Apache-2.0

//! Sessions, routes, and the table that they become. `announced.exabgp` and `announced.gobgp` are
//! what ExaBGP 4.2.21 and GoBGP 3.10 said of the same announcements.

use std::collections::BTreeSet;

use penstock::{Network, Ruleset, Session};
use penstock_feeds::bgp::rib::{Bounds, Rib, Taken};
use penstock_feeds::bgp::table::{BLACKHOLE, Listed, Settings, Wanted};
use penstock_feeds::bgp::{Event, Route, Said, exabgp, gobgp};
use penstock_feeds::flow::action::{Actions, Rate};
use penstock_feeds::flow::{Component, Field, FlowSpec, Numeric, Pattern};
use penstock_feeds::span::Family;

const NOW: u64 = 1_700_000_000_000_000_000;

fn settings() -> Settings {
    Settings {
        table: "bgp".into(),
        priority: -450,
        devices: Vec::new(),
        communities: vec![BLACKHOLE],
        source_communities: vec![65001 << 16 | 100],
    }
}

fn words(route: &Route) -> String {
    match route {
        Route::Unicast { prefix, communities } => format!("{prefix} {communities:x?}"),
        Route::Flow(spec, actions) => format!("{spec} {actions:?}"),
        Route::Refused(why) => format!("refused: {why}"),
    }
}

/// Routes that are announced, in the order in which they are.
fn announced(said: &[Said]) -> Vec<String> {
    let route = |said: &Said| match &said.event {
        Event::Announce(_, _, route) => Some(words(route)),
        _ => None,
    };
    said.iter().filter_map(route).collect()
}

#[test]
fn exabgp_and_gobgp_say_the_same_of_announcements() {
    let read = |text: &str, read: fn(&str) -> Result<Vec<Said>, String>| -> Vec<Said> {
        text.lines().flat_map(|line| read(line).unwrap()).collect()
    };
    let by_exabgp = read(include_str!("announced.exabgp"), exabgp::read);
    let by_gobgp = read(include_str!("announced.gobgp"), gobgp::read);
    let expected = [
        "198.18.5.1 [ffff029a, fde90064]",
        "198.18.6.0/24 []",
        "2001:db8:5::1 [ffff029a]",
        "dst 198.18.7.0/24 src 198.18.8.0/24 proto =6|=17 port =80|>8080&<8088 \
         flags =0x2|!=0x10|0x12 length >200&<300|=400 dscp =10 fragment 0x2|!0x4 \
         Actions { rate: Some(Zero), mark: None, goes_on: false }",
        "dst 198.18.9.0/24 proto =1 icmp-type =8 icmp-code =0 \
         Actions { rate: Some(Bytes(9600)), mark: None, goes_on: false }",
        "src 2001:db8:9::/48 proto =17 dport =53 dscp =8 label >5 \
         Actions { rate: None, mark: Some(46), goes_on: false }",
        "refused: redirection to a VRF: there are none, rules can mark packets for routing",
        "refused: sampling: a rule of the ruleset can log packets",
    ];
    assert_eq!(announced(&by_exabgp), expected);
    assert_eq!(announced(&by_gobgp), expected);
    // ExaBGP tells of sessions, too, and what is announced can be withdrawn.
    let mut rib = Rib::new(Bounds { routes: 100, stale: 100 });
    let counts: Vec<usize> = by_exabgp
        .into_iter()
        .map(|said| {
            rib.take(said, 0);
            rib.len()
        })
        .collect();
    assert_eq!(counts, [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 7, 7]);
    assert_eq!(rib.sessions_up(), 1);
}

#[test]
fn lines_that_make_no_sense_are_errors_and_others_are_passed_over() {
    for line in ["", "{", "[]", "{\"type\": 5}", "{\"type\": \"update\", \"neighbor\": 7}"] {
        let said = exabgp::read(line);
        assert!(said.as_ref().is_err() || said == Ok(Vec::new()), "{line}: {said:?}");
    }
    for line in ["", "{}", "[{}]", "[{\"neighbor-ip\": 5}]"] {
        assert!(gobgp::read(line).is_err(), "{line}");
    }
    // Whatever is missing or replaced, nothing panics.
    let mut random = fastrand::Rng::with_seed(3);
    let all = [include_str!("announced.exabgp"), include_str!("announced.gobgp")];
    for (text, read) in
        all.iter().zip([exabgp::read as fn(&str) -> Result<Vec<Said>, String>, gobgp::read])
    {
        for line in text.lines() {
            for _ in 0..200 {
                let mut bytes = line.as_bytes().to_vec();
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(0..bytes.len());
                    bytes[at] = b"0129{}[]\":,x-/&<>=!"[random.usize(0..19)];
                }
                if let Ok(text) = std::str::from_utf8(&bytes) {
                    let _ = read(text);
                }
            }
        }
    }
}

/// What a session says in lines such as `announce 198.18.0.1`, and how many routes there are.
fn script(lines: &str) -> Vec<(u64, usize)> {
    let head = "{\"exabgp\": \"4.0.1\", \"type\": ";
    let peer = "\"address\": {\"local\": \"198.18.0.2\", \"peer\": \"198.18.0.1\"}";
    let mut rib = Rib::new(Bounds { routes: 3, stale: 60 });
    let mut counts = Vec::new();
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (time, words) = line.split_once(' ').unwrap();
        let now: u64 = time.parse().unwrap();
        rib.advance(now);
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let of = |kind: &str, fields: String| {
            format!("{head}\"{kind}\", \"neighbor\": {{{peer}, {fields}}}}}")
        };
        let message = |inner: String| of("update", format!("\"message\": {{{inner}}}"));
        let json = match verb {
            "up" | "down" => of("state", format!("\"state\": \"{verb}\"")),
            "notification" => of("notification", "\"notification\": {}".into()),
            "open" => {
                let flags = if rest.ends_with("forwarding") { "[\"restart\"]" } else { "[]" };
                let time = rest.split(' ').next().unwrap();
                of(
                    "open",
                    format!(
                        "\"open\": {{\"capabilities\": {{\"64\": {{\"time\": {time}, \
                         \"address-family-flags\": {{\"ipv4/unicast\": {flags}}}}}}}}}"
                    ),
                )
            }
            "eor" => message("\"eor\": {\"afi\": \"ipv4\", \"safi\": \"unicast\"}".into()),
            "announce" => {
                let family = if rest.contains(':') { "ipv6" } else { "ipv4" };
                message(format!(
                    "\"update\": {{\"announce\": {{\"{family} unicast\": {{\"x\": \
                     [{{\"nlri\": \"{rest}\"}}]}}}}}}"
                ))
            }
            "withdraw" => message(format!(
                "\"update\": {{\"withdraw\": {{\"ipv4 unicast\": [{{\"nlri\": \"{rest}\"}}]}}}}"
            )),
            "gone" => {
                rib.speaker_gone(now);
                counts.push((now, rib.len()));
                continue;
            }
            "wait" => {
                counts.push((now, rib.len()));
                continue;
            }
            other => panic!("{other}"),
        };
        for said in exabgp::read(&json).unwrap() {
            let refused = matches!(rib.take(said, now), Taken::Refused(_));
            assert_eq!(refused, rest == "198.18.0.9", "{line}");
        }
        counts.push((now, rib.len()));
    }
    counts
}

#[test]
fn routes_go_with_their_session_unless_it_restarts_gracefully() {
    for (name, lines, expected) in [
        ("without", "1 up\n1 announce 198.18.0.1\n2 down\n3 up", &[0, 1, 0, 0][..]),
        (
            "kept until the end of the rib",
            "1 open 30 forwarding\n1 up\n1 announce 198.18.0.1\n1 announce 198.18.0.2\n2 down\n\
             3 down\n20 open 30 forwarding\n20 up\n21 announce 198.18.0.1\n22 eor",
            &[0, 0, 1, 2, 2, 2, 2, 2, 2, 1],
        ),
        (
            "not back in time",
            "1 open 30 forwarding\n1 up\n1 announce 198.18.0.1\n2 down\n31 wait\n32 wait",
            &[0, 0, 1, 1, 1, 0],
        ),
        (
            "longer than we wait",
            "1 open 4000 forwarding\n1 up\n1 announce 198.18.0.1\n2 down\n61 wait\n62 wait",
            &[0, 0, 1, 1, 1, 0],
        ),
        (
            "no end of the rib",
            "1 open 30 forwarding\n1 up\n1 announce 198.18.0.1\n2 down\n3 open 30 forwarding\n\
             3 up\n62 wait\n63 wait",
            &[0, 0, 1, 1, 1, 1, 1, 0],
        ),
        (
            "ended by a notification",
            "1 open 30 forwarding\n1 up\n1 announce 198.18.0.1\n2 notification\n2 down",
            &[0, 0, 1, 1, 0],
        ),
        (
            "other families go",
            "1 open 30 forwarding\n1 up\n1 announce 198.18.0.1\n1 announce 2001:db8::1\n2 down",
            &[0, 0, 1, 2, 1],
        ),
        (
            "the peer did not forward",
            "1 open 30 forwarding\n1 up\n1 announce 198.18.0.1\n2 down\n3 open 30 lost\n3 up",
            &[0, 0, 1, 1, 1, 0],
        ),
        (
            "two restarts without routes in between",
            "1 open 30 forwarding\n1 up\n1 announce 198.18.0.1\n2 down\n3 open 30 forwarding\n\
             3 up\n4 down",
            &[0, 0, 1, 1, 1, 1, 0],
        ),
        (
            "the speaker is gone",
            "1 open 30 forwarding\n1 up\n1 announce 198.18.0.1\n2 gone\n31 wait\n32 wait",
            &[0, 0, 1, 1, 1, 0],
        ),
        ("a speaker that tells of no sessions", "1 announce 198.18.0.1\n2 gone", &[1, 0]),
        (
            "too many",
            "1 up\n1 announce 198.18.0.1\n1 announce 198.18.0.2\n1 announce 198.18.0.3\n\
             1 announce 198.18.0.9\n1 announce 198.18.0.1\n1 withdraw 198.18.0.3\n\
             1 withdraw 198.18.0.3",
            &[0, 1, 2, 3, 3, 3, 2, 2],
        ),
    ] {
        let counts: Vec<usize> = script(lines).into_iter().map(|(_, count)| count).collect();
        assert_eq!(counts, expected, "{name}");
    }
}

/// A ruleset that commands are run on.
struct Rules(Session);

impl Rules {
    fn new() -> Rules {
        let network = Network::from_text("link add wan type veth").unwrap();
        Rules(Session::new(Ruleset::empty(&network)).unwrap())
    }

    fn run(&mut self, commands: &str) {
        self.0.run(commands, NOW).unwrap_or_else(|e| panic!("{e}\n{commands}"));
    }

    fn listed(&mut self) -> Listed {
        let list = "{\"nftables\":[{\"list\":{\"table\":{\"family\":\"inet\",\"name\":\"bgp\"}}}]}";
        let answer = self.0.run_json(list, NOW).unwrap();
        Listed::read(&answer.output).unwrap()
    }

    /// Comments of the rules of flow specifications.
    fn flows(&mut self) -> Vec<String> {
        let text = self.0.run("list chain inet bgp flowspec", NOW).unwrap().output;
        let comment = |line: &str| {
            line.split("comment \"").nth(1).and_then(|c| c.split(' ').next()).map(str::to_owned)
        };
        text.lines().filter_map(comment).collect()
    }
}

#[test]
fn a_table_is_recognised_only_as_it_was_made() {
    let ingress = Settings { devices: vec!["wan".into()], ..settings() };
    let other = Settings { priority: -300, ..settings() };
    for settings in [settings(), ingress.clone(), other.clone()] {
        let mut rules = Rules::new();
        rules.run("table inet mine { set s { type ipv4_addr; elements = { 198.18.0.1 }; }; }");
        rules.run(&settings.definition());
        assert!(rules.listed().is_whole(&settings));
        // Again, over what is there.
        rules.run(&settings.definition());
        assert!(rules.listed().is_whole(&settings));
        let is_other =
            |s: &Settings| s.devices != settings.devices || s.priority != settings.priority;
        for other in [&ingress, &other].into_iter().filter(|s| is_other(s)) {
            assert!(!rules.listed().is_whole(other));
        }
        let text = rules.0.ruleset().to_text(NOW);
        assert!(text.contains("elements = { 198.18.0.1 }"), "{text}");
        for change in [
            "add rule inet bgp blackhole accept",
            "flush chain inet bgp blackhole",
            "add set inet bgp more { type ipv4_addr; }",
            "add chain inet bgp more",
        ] {
            let mut rules = Rules::new();
            rules.run(&settings.definition());
            rules.run(change);
            assert!(!rules.listed().is_whole(&settings), "{change}");
        }
    }
}

fn random_route(random: &mut fastrand::Rng) -> Route {
    let pattern = Pattern::new(
        Family::V4,
        0xc612_0000 + random.u128(0..4) * 0x100,
        0,
        [16, 24][random.usize(0..2)],
    );
    let mut components = vec![Component::Destination(pattern.unwrap())];
    if random.bool() {
        let value = random.u32(0..3);
        let item = Numeric { and: false, less: false, greater: false, equal: true, value };
        components.push(Component::Numbers(Field::Port, vec![item]));
    }
    let rate = [None, Some(Rate::Zero), Some(Rate::Bytes(1000)), Some(Rate::Packets(7))];
    let actions = Actions { rate: rate[random.usize(0..4)], ..Actions::default() };
    Route::Flow(FlowSpec::new(Family::V4, components).unwrap(), actions)
}

#[test]
fn rules_that_stay_are_not_touched() {
    let mut random = fastrand::Rng::with_seed(11);
    let settings = settings();
    let mut rules = Rules::new();
    rules.run(&settings.definition());
    for round in 0..150 {
        let mut rib = Rib::new(Bounds { routes: 100, stale: 1 });
        for i in 0..random.usize(0..7) {
            let of = penstock_feeds::bgp::RouteFamily { family: Family::V4, is_flow: true };
            let event = Event::Announce(of, i.to_string(), random_route(&mut random));
            rib.take(Said { peer: "198.18.0.1".into(), event }, 0);
        }
        let wanted = Wanted::of(&rib, &settings);
        // Somebody else has made a mess of it.
        if round % 5 == 4 {
            let first = rules.listed();
            if first.flow_rules() > 1 {
                rules.run("add rule inet bgp flowspec counter comment \"x\"");
            }
        }
        let before: BTreeSet<String> = handles(&mut rules);
        let commands = rules.listed().flow_commands(&settings, &wanted.flows, false);
        if !commands.is_empty() {
            rules.run(&commands);
        }
        let names: Vec<String> = wanted
            .flows
            .iter()
            .flat_map(|f| f.rules.iter().map(|(name, _)| name.clone()))
            .collect();
        assert_eq!(rules.flows(), names, "round {round}: {commands}");
        assert_eq!(rules.listed().flow_commands(&settings, &wanted.flows, false), "");
        assert!(rules.listed().is_whole(&settings));
        // A rule with its handle, which was there and is wanted, is there.
        let after = handles(&mut rules);
        for kept in before.iter().filter(|h| names.iter().any(|n| h.starts_with(&**n))) {
            assert!(after.contains(kept), "round {round}: {kept}: {commands}");
        }
    }
}

/// `NAME HANDLE` of all rules of flow specifications.
fn handles(rules: &mut Rules) -> BTreeSet<String> {
    let list = "{\"nftables\":[{\"list\":{\"chain\":{\"family\":\"inet\",\"table\":\"bgp\",\"name\":\"flowspec\"}}}]}";
    let answer = rules.0.run_json(list, NOW).unwrap();
    let value: serde_json::Value = serde_json::from_str(&answer.output).unwrap();
    let rules = value["nftables"].as_array().unwrap().iter().filter_map(|o| o.get("rule"));
    let words = rules.map(|rule| {
        let name = rule["comment"].as_str().unwrap().split(' ').next().unwrap().to_owned();
        format!("{name} {}", rule["handle"])
    });
    words.collect()
}

#[test]
fn prefixes_with_the_communities_are_elements() {
    let mut rib = Rib::new(Bounds { routes: 100, stale: 1 });
    for line in include_str!("announced.exabgp").lines().take(12) {
        for said in exabgp::read(line).unwrap() {
            rib.take(said, 0);
        }
    }
    let wanted = Wanted::of(&rib, &settings());
    let texts = wanted.elements.map(|e| e.keys().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(texts, [vec!["198.18.5.1"], vec!["2001:db8:5::1"], vec!["198.18.5.1"], vec![]]);
    assert_eq!((wanted.flows.len(), wanted.refused), (2, Vec::new()));
}
