// SPDX-License-Identifier: Apache-2.0

//! Bursts through AF_XDP leave from XDP if the peer device accepts them, and by the socket
//! otherwise.

use crate::net::Net;
use crate::{fetch, serve};

/// Frames that ports have sent from XDP so far.
fn launched(net: &Net) -> u64 {
    let shown = net.ok(&net.r, "$PENSTOCK show -j");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let ports = shown["ports"].as_array().unwrap();
    ports.iter().map(|port| port["sent_from_xdp"].as_u64().unwrap()).sum()
}

#[test]
fn files_arrive_whole_whether_neighbours_poll_or_not() {
    let Some(mut net) = Net::new() else { return };
    let sum = serve(&mut net);
    // With several workers, those without a queue would send by packet sockets.
    net.up("r0 r1 --driver xdp --workers 1");
    net.nft(
        "table ip t { chain c { type nat hook postrouting priority srcnat; oifname r1 masquerade; };
         chain f { type filter hook forward priority 0; ct state invalid drop; counter; }; }",
    );
    let mut before = 0;
    for polls in [false, true, false, true] {
        let gro = if polls { "on" } else { "off" };
        for (namespace, device) in [(&net.a, "a0"), (&net.b, "b0")] {
            net.ok(namespace, &format!("ethtool -K {device} gro {gro}"));
        }
        assert_eq!(fetch(&net, "http://198.18.1.2/file"), sum, "polls: {polls}");
        let now = launched(&net);
        assert_eq!(now > before, polls, "polls: {polls}, {before} frames before, {now} now");
        before = now;
    }
    let shown = net.ok(&net.r, "$PENSTOCK show");
    assert!(shown.contains(" frames sent in bursts from XDP\n"), "{shown}");
    net.down();
}
