// SPDX-License-Identifier: Apache-2.0

//! Programs that decide on packets (`queue`, docs/queue.md): what they say holds, and one that does
//! not answer, does not read, or says nonsense stops nothing but its own packets.

use crate::net::{Net, Reading};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/queue.py");

/// A program at queue 3 that does as `mode` says, once it listens.
fn start(net: &Net, mode: &str) -> Reading {
    let socket = net.directory.join("queue.sock");
    let program =
        net.spawn_reading(&net.r, &format!("python3 {PROGRAM} {} {mode}", socket.display()));
    net.until("it listens", |_| socket.exists());
    program
}

/// Ends it.
fn stop(net: &Net, program: Reading) {
    program.stop();
    std::fs::remove_file(net.directory.join("queue.sock")).unwrap();
}

fn up(net: &mut Net) {
    net.up(&format!("r0 r1 --queue 3={}", net.directory.join("queue.sock").display()));
    net.nft(
        "table ip t {
           chain f {
             type filter hook forward priority filter
             icmp type echo-request queue to 3
             udp dport 9 queue flags bypass to 3
           }
         }",
    );
}

fn pings(net: &Net) -> bool {
    net.run(&net.a, "ping -c 2 -i 0.1 -W 1 198.18.1.2").0
}

#[test]
fn a_program_gives_verdicts_on_live_packets() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    up(&mut net);
    assert!(!pings(&net), "nobody listens");
    for answer in ["accept", "drop", "accept"] {
        let program = start(&net, answer);
        net.until(answer, |net| pings(net) == (answer == "accept"));
        assert_eq!(pings(&net), answer == "accept");
        stop(&net, program);
    }
    net.until("nobody listens again", |net| !pings(net));
    let state = net.ok(&net.r, "$PENSTOCK show");
    assert!(state.contains("queue without listener"), "{state}");
}

#[test]
fn a_failing_queue_program_affects_its_own_packets_only() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    up(&mut net);
    // What it does, what is said of it then, and how long that may take.
    let cases = [
        ("nonsense", "no answer, but something else", 10),
        ("newer", "another version of the protocol is asked for", 10),
        ("cut", "a message is cut", 10),
        ("deaf", "the program takes no packets", 30),
        ("silent", "the program answers no packets", 60),
    ];
    for (mode, said, seconds) in cases {
        let before = net.log().len();
        let since = |net: &Net| net.log().split_off(before);
        let program = start(&net, mode);
        if ["deaf", "silent"].contains(&mode) {
            net.until("it is connected to", |net| since(net).contains("a program listens"));
            // More than it asks for, and than its socket has room for.
            net.run(&net.a, "ping -q -i 0.002 -c 500 -s 1400 -W 1 198.18.1.2");
            assert!(
                net.run(&net.a, "ping -c 3 -i 0.1 -W 2 2001:db8:1::2").0,
                "{mode}: others pass"
            );
            let state = net.ok(&net.r, "$PENSTOCK show");
            assert!(state.contains("queue full"), "{mode}: {state}");
        }
        net.until_within(seconds, said, |net| since(net).contains(said));
        stop(&net, program);
        // The next one finds nothing of it.
        let next = start(&net, "accept");
        net.until("the next one is heard", pings);
        stop(&net, next);
        net.until("nobody listens", |net| !pings(net));
    }
}
