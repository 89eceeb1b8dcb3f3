// SPDX-License-Identifier: Apache-2.0

//! What passes a hook, as a file.

use crate::net::Net;

#[test]
fn a_capture_has_what_passes_a_hook_and_meets_the_expression() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft("table inet t { chain f { type filter hook forward priority filter; udp dport 9 log group 7 drop; }; }");
    let capture = |net: &Net, args: &str, name: &str| {
        let file = net.directory.join(name);
        let line = format!("$PENSTOCK capture {args} -w {} 2>&1", file.display());
        let reading = net.spawn_reading(&net.r, &format!("sh -c '{line}'"));
        net.until("the capture has begun", |_| std::fs::metadata(&file).is_ok_and(|m| m.len() > 0));
        (reading, file)
    };
    let listing = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    for (args, frames) in [
        ("--hook forward -c 3 icmp type { echo-request, 42 }", 3),
        ("--hook forward --family ip -i r0 -c 2 ip saddr 198.18.1.2", 2),
        ("--hook postrouting --priority filter -c 2 ct state established", 2),
        ("--hook forward -c 4", 4),
        ("--hook output -c 2 icmpv6 type echo-reply", 2),
        ("--hook ingress -c 2", 2),
        ("--hook egress -i r1 -s 60 -c 2 ip ttl 63", 2),
        ("--hook input --family inet -c 1 icmpv6 type echo-request", 1),
    ] {
        let (reading, file) = capture(&net, args, "hook.pcapng");
        net.ok(&net.a, "ping -c 4 -i 0.1 -W 2 198.18.1.2");
        net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 2001:db8::1");
        let said = reading.wait();
        assert!(said.contains(&format!("{frames} frames captured, 0 lost")), "{args}: {said}");
        // Other programs read it to its end, whatever interfaces there are.
        if net.has("tcpdump") {
            let read = net.ok(&net.r, &format!("tcpdump -nr {}", file.display()));
            assert_eq!(read.lines().count(), frames, "{args}: {read}");
        }
        std::fs::remove_file(&file).unwrap();
    }
    let (reading, file) = capture(&net, "--log-group 7 -c 1", "group.pcapng");
    net.until("a frame came", |net| {
        net.run(&net.a, "echo x | python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"198.18.1.2\", 9))'");
        std::fs::metadata(&file).is_ok_and(|m| m.len() > 200)
    });
    assert!(reading.wait().contains("1 frames captured"));
    assert_eq!(
        net.ok(&net.r, "$PENSTOCK nft list ruleset"),
        listing,
        "captures are not of the ruleset"
    );
    // What is wrong costs no file that is there.
    let kept = net.directory.join("kept.pcapng");
    std::fs::write(&kept, "kept").unwrap();
    for (args, message) in [
        ("--hook forward tcp dport 22 drop", "terminal statement"),
        ("--hook forward tcp dport 22 counter", "only matches"),
        ("--hook forward tcp dport vmap { 22 : drop }", "only matches"),
        ("--hook forward tcp dpor 22", "syntax error"),
        ("--hook forward \"tcp dport 22; flush ruleset\"", "malformed"),
        ("--hook ingress -i nothing", "Cannot find device"),
    ] {
        let (ok, said) =
            net.run(&net.r, &format!("$PENSTOCK capture {args} -w {}", kept.display()));
        assert!(!ok && said.contains(message), "{args}: {said}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept", "{args}");
    }
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list ruleset"), listing);
}
