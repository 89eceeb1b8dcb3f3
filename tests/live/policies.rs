// SPDX-License-Identifier: Apache-2.0

//! IPsec policies of the host: the kernel has the states, and gets what is to go through them.

use crate::net::Net;

/// A counter of `/proc/net/xfrm_stat`.
fn stat(net: &Net, name: &str) -> u64 {
    let all = net.ok(&net.r, "cat /proc/net/xfrm_stat");
    let line = all
        .lines()
        .find(|l| l.split_whitespace().next() == Some(name))
        .unwrap_or_else(|| panic!("{all}"));
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn packets_under_a_host_ipsec_policy_never_leave_in_the_clear() {
    let Some(mut net) = Net::new() else { return };
    // From before the start on.
    let blocked = "src 198.18.0.0/24 dst 198.18.1.0/24 proto icmp dir fwd";
    if !net.run(&net.r, &format!("ip xfrm policy add {blocked} action block")).0 {
        eprintln!("skipped: this kernel has no IPsec");
        return;
    }
    net.up("r0 r1");
    net.nft(
        "table inet t {
           chain f { type filter hook forward priority 0; icmp type echo-request counter; icmpv6 type echo-request counter; }
           chain o { type filter hook output priority 0; udp dport 9 reject; }
         }",
    );
    let answers = |net: &Net, to: &str| net.run(&net.a, &format!("ping -c 1 -W 1 {to}")).0;
    assert!(!answers(&net, "198.18.1.2"));
    assert!(answers(&net, "198.18.1.1") && answers(&net, "2001:db8:1::2"));
    let shown = net.ok(&net.r, "$PENSTOCK show");
    assert!(shown.contains("XfrmInPolBlock") || shown.contains("policy"), "{shown}");
    net.ok(&net.r, &format!("ip xfrm policy delete {blocked}"));
    net.until("the policy is gone", |net| answers(net, "198.18.1.2"));

    // There is no state for it: the kernel says so, and nothing is on the wire.
    for (policy, to, filter) in [
        (
            "src 198.18.0.0/24 dst 198.18.1.0/24 dir out tmpl src 198.18.1.1 dst 198.18.1.2 proto esp mode tunnel",
            "198.18.1.2",
            "icmp",
        ),
        (
            "src 2001:db8::/64 dst 2001:db8:1::/64 dir out tmpl src 2001:db8:1::1 dst 2001:db8:1::2 proto esp mode tunnel",
            "2001:db8:1::2",
            "icmp6[0] = 128",
        ),
    ] {
        net.ok(&net.r, &format!("ip xfrm policy add {policy}"));
        let missing = |net: &Net| stat(net, "XfrmOutNoStates");
        let before = missing(&net);
        net.until("the host has the packets", |net| {
            net.run(&net.a, &format!("ping -c 1 -W 0.2 {to}"));
            missing(net) > before
        });
        let (b, seen) = (net.b.clone(), net.directory.join("seen"));
        let watch = format!(
            "timeout 20 tcpdump -l -n -i b0 --immediate-mode -c 1 '{filter}' > {}",
            seen.display()
        );
        let watch = net.spawn_reading(&b, &format!("exec sh -c \"{watch}\""));
        std::thread::sleep(std::time::Duration::from_secs(1));
        assert!(!net.run(&net.a, &format!("ping -c 3 -i 0.1 -W 1 {to}")).0);
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), "", "nothing in the clear");
        net.ok(&net.r, &format!("ip xfrm policy delete {}", policy.split(" tmpl").next().unwrap()));
        net.until("it passes again", |net| answers(net, to));
        watch.stop();
    }
    // Rules at forward have seen them on their way to the host.
    let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    assert!(!rules.contains("packets 0"), "{rules}");
}
