// SPDX-License-Identifier: Apache-2.0

//! Announcements that become elements and rules, and go again.

use super::speakers::{Announcer, start_exabgp, start_gobgp};
use super::{Runs, begin, listed, packets_after, passes, start};
use crate::net::{Net, sh};

const V4: &str = "198.18.1.2";
const V6: &str = "2001:db8:1::2";

/// Waits until packets to an address pass, or not.
fn until_passes(net: &Net, address: &str, expected: bool) {
    net.until_within(20, &format!("{address}: {expected}"), |net| passes(net, address) == expected);
}

/// A flow specification in the words of ExaBGP.
fn flow(matches: &str, action: &str) -> String {
    format!("flow route {{ match {{ {matches} }} then {{ {action}; }} }}")
}

/// Routes and flow specifications are announced and withdrawn.
fn announcements_are_in_force(net: &Net, announcer: &Announcer) {
    for (address, hop, set) in [(V4, "198.18.0.2", "blackhole4"), (V6, "2001:db8::2", "blackhole6")]
    {
        let bits = if set == "blackhole4" { 32 } else { 128 };
        let route = format!("route {address}/{bits} next-hop {hop}");
        // Without the community it is a route and nothing else.
        announcer.say(&format!("announce {route}"));
        announcer.say("announce route 198.18.77.0/24 next-hop self community [65535:666]");
        net.until_within(20, "what came later is in force", |net| {
            listed(net, "set inet bgp blackhole4").contains("198.18.77.0/24")
        });
        assert!(passes(net, address));
        announcer.say(&format!("announce {route} community [65535:666]"));
        until_passes(net, address, false);
        let text = listed(net, &format!("set inet bgp {set}"));
        assert!(packets_after(&text, address) > 0, "{text}");
        announcer.say(&format!("withdraw {route}"));
        until_passes(net, address, true);
        announcer.say("withdraw route 198.18.77.0/24 next-hop self");
    }
    for (matches, address, protocol) in [
        ("destination 198.18.1.2/32; protocol icmp; icmp-type echo-request;", V4, "proto =1"),
        ("destination 2001:db8:1::/64/0; next-header 58;", V6, "proto =58"),
    ] {
        let specification = flow(matches, "discard");
        announcer.say(&format!("announce {specification}"));
        until_passes(net, address, false);
        let text = listed(net, "chain inet bgp flowspec");
        assert!(text.contains(protocol) && packets_after(&text, "policy accept") > 0, "{text}");
        announcer.say(&format!("withdraw {specification}"));
        until_passes(net, address, true);
    }
}

/// Specifications that cannot be in force do not keep others from it. Programs in the kernel change
/// no packets.
fn refusals_are_for_single_specifications(net: &Net, announcer: &Announcer, runs: Runs) {
    let of = |last: u8, action: &str| flow(&format!("destination 198.18.66.{last}/32;"), action);
    announcer.say(&format!("announce {}", of(1, "redirect 65001:12")));
    for last in 2..6 {
        let action = if last == 3 { "mark 46" } else { "discard" };
        announcer.say(&format!("announce {}", of(last, action)));
    }
    announcer.say(&format!("announce {}", of(7, "rate-limit 100000")));
    let rules = |net: &Net| listed(net, "chain inet bgp flowspec");
    net.until_within(20, "those that can be are in force", |net| {
        let text = rules(net);
        [2, 4, 5, 7].iter().all(|last| text.contains(&format!("dst 198.18.66.{last}/32")))
    });
    let text = rules(net);
    assert!(text.contains("limit name \"flow-"), "{text}");
    assert_eq!(text.contains("dscp set ef"), runs == Runs::Up, "{text}");
    assert!(!text.contains("198.18.66.1 "), "{text}");
    let log = std::fs::read_to_string(net.directory.join("feed.log")).unwrap();
    assert!(log.contains("refused: a route of 198.18.0.2: redirection to a VRF"), "{log}");
    let refused = "refused: dst 198.18.66.3/32: ";
    assert_eq!(log.matches(refused).count(), usize::from(runs == Runs::Attached), "{log}");
    for last in 2..6 {
        let action = if last == 3 { "mark 46" } else { "discard" };
        announcer.say(&format!("withdraw {}", of(last, action)));
    }
    announcer.say(&format!("withdraw {}", of(7, "rate-limit 100000")));
    net.until("they are gone", |net| !rules(net).contains("198.18.66"));
}

#[test]
fn routes_that_exabgp_hears_are_in_force_until_the_session_ends() {
    for runs in [Runs::Up, Runs::Attached] {
        let Some(net) = begin(runs) else { return };
        if !net.has("exabgp") {
            return;
        }
        let _exabgp = start_exabgp(&net, "graceful-restart disable;", "--verify 2");
        let mut announcer = Announcer::new(&net, "graceful-restart disable;", "");
        announcer.start(&net);
        announcements_are_in_force(&net, &announcer);
        refusals_are_for_single_specifications(&net, &announcer, runs);
        announcer.say("announce route 198.18.1.2/32 next-hop self community [65535:666]");
        until_passes(&net, V4, false);
        announcer.kill();
        until_passes(&net, V4, true);
        let text = listed(&net, "table inet bgp");
        assert!(!text.contains("elements"), "{text}");
    }
}

#[test]
fn routes_that_gobgp_hears_are_in_force_until_the_session_ends() {
    let Some(net) = begin(Runs::Up) else { return };
    if !net.has("exabgp") || !net.has("gobgpd") {
        return;
    }
    let _gobgp = start_gobgp(&net);
    let mut announcer = Announcer::new(&net, "graceful-restart disable;", "");
    announcer.start(&net);
    announcements_are_in_force(&net, &announcer);
    announcer.say("announce route 198.18.1.2/32 next-hop self community [65535:666]");
    until_passes(&net, V4, false);
    announcer.kill();
    until_passes(&net, V4, true);
}

#[test]
fn routes_of_a_peer_that_restarts_gracefully_stay() {
    let Some(net) = begin(Runs::Up) else { return };
    if !net.has("exabgp") {
        return;
    }
    let _exabgp = start_exabgp(&net, "graceful-restart 60;", "");
    let routes = "route 198.18.1.2/32 next-hop self community [65535:666];
                  route 198.18.77.1/32 next-hop self community [65535:666];";
    let mut announcer = Announcer::new(&net, "graceful-restart 60;", routes);
    announcer.start(&net);
    until_passes(&net, V4, false);
    let blackholes = |net: &Net| listed(net, "set inet bgp blackhole4");
    let has = |net: &Net, address: &str| blackholes(net).contains(address);
    net.until("both are in force", |net| has(net, "198.18.77.1"));
    let counted = packets_after(&blackholes(&net), V4);
    announcer.kill();
    net.until("the session is down", |net| {
        let log = std::fs::read_to_string(net.directory.join("r.log")).unwrap();
        log.contains("performing reload")
            && !net.run(&net.r, "ss -Hnt state established '( sport = :179 )' | grep -q .").0
    });
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(has(&net, V4) && has(&net, "198.18.77.1"), "{}", blackholes(&net));
    assert!(!passes(&net, V4));
    // It comes back without one of them: that goes at the end of its routes, the other is not
    // touched.
    announcer.configure("route 198.18.77.1/32 next-hop self community [65535:666];", "");
    announcer.start(&net);
    net.until_within(20, "what was not announced again is gone", |net| !has(net, "198.18.77.1"));
    assert!(!passes(&net, V4));
    assert!(packets_after(&blackholes(&net), V4) > counted, "{}", blackholes(&net));
}

#[test]
fn the_table_is_made_again_when_the_dataplane_restarts() {
    let Some(mut net) = begin(Runs::Up) else { return };
    if !net.has("exabgp") {
        return;
    }
    let exabgp = start_exabgp(&net, "graceful-restart disable;", "--verify 600");
    let mut announcer = Announcer::new(&net, "graceful-restart disable;", "");
    announcer.start(&net);
    announcer.say("announce route 198.18.1.2/32 next-hop self community [65535:666]");
    until_passes(&net, V4, false);
    net.down();
    start(&mut net, Runs::Up);
    until_passes(&net, V4, false);
    // Somebody deletes it.
    net.ok(&net.r, "$PENSTOCK nft delete table inet bgp");
    net.until("it is made again", |net| listed(net, "set inet bgp blackhole4").contains(V4));
    // The end of the speaker is that of its sessions.
    exabgp.end();
    until_passes(&net, V4, true);
    let log = std::fs::read_to_string(net.directory.join("feed.log")).unwrap();
    assert!(log.contains("table inet bgp is made"), "{log}");
}

#[test]
fn a_new_process_takes_the_table_over() {
    let Some(net) = begin(Runs::Up) else { return };
    let fifo = |name: &str| net.directory.join(name).display().to_string();
    let head = "{\"type\":\"KIND\",\"neighbor\":{\"address\":{\"peer\":\"198.18.0.2\"},";
    let of = |kind: &str, rest: &str| format!("{}{rest}}}}}", head.replace("KIND", kind));
    let announce = |address: &str| {
        of(
            "update",
            &format!(
                "\"message\":{{\"update\":{{\"attribute\":{{\"community\":[[65535,666]]}},\
                 \"announce\":{{\"ipv4 unicast\":{{\"x\":[{{\"nlri\":\"{address}\"}}]}}}}}}}}"
            ),
        )
    };
    let restart = "\"open\":{\"capabilities\":{\"64\":{\"time\":300,\
                   \"address-family-flags\":{\"ipv4/unicast\":[\"restart\"]}}}}";
    let start = |name: &str, options: &str| {
        let (lines, log) = (fifo(name), fifo(&format!("{name}.log")));
        sh(&format!("mkfifo {lines}"));
        // It has the pipe open for both, so that its lines do not end.
        let line = format!("exec $PENSTOCK feed exabgp -v {options} <> {lines} 2>{log}");
        net.spawn_reading(&net.r, &line)
    };
    let say = |name: &str, line: &str| {
        let mut file = std::fs::File::options().append(true).open(fifo(name)).unwrap();
        std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).unwrap();
    };
    let log =
        |name: &str| std::fs::read_to_string(fifo(&format!("{name}.log"))).unwrap_or_default();
    let blackholes = |net: &Net| listed(net, "set inet bgp blackhole4");
    let first = start("first", "--verify 1");
    for line in [of("open", restart), of("state", "\"state\":\"up\"")] {
        say("first", &line);
    }
    say("first", &announce("198.18.77.1/32"));
    say("first", &announce("198.18.77.2/32"));
    net.until("both are in force", |net| blackholes(net).contains("198.18.77.2"));
    // What the first one has left stays for a while, and the first one ends.
    let _second = start("second", "--inherit 5");
    net.until("the second one begins", |_| log("second").contains("2 elements and rules are kept"));
    say("second", &announce("198.18.77.2/32"));
    let taken = "another process has taken the table over";
    net.until("the first one ends", |_| log("first").contains(taken));
    first.wait();
    assert!(blackholes(&net).contains("198.18.77.2"));
    net.until("what was not announced again is gone", |net| {
        !blackholes(net).contains("198.18.77.1")
    });
    assert!(blackholes(&net).contains("198.18.77.2"));
    // Lines that make no sense are said, and change nothing.
    for line in ["no line", "{\"type\":\"update\"}", &announce("198.18.77")] {
        say("second", line);
    }
    net.until("they are said", |_| log("second").contains("`198.18.77` is no address"));
    assert!(blackholes(&net).contains("198.18.77.2"));
}
