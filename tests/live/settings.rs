// SPDX-License-Identifier: Apache-2.0

//! Settings of devices (`net.ipv4.conf`, `net.ipv6.conf`): a TAP has them from its device, packets
//! follow them, and the device has them afterwards.

use crate::net::Net;

/// Settings of the router's devices that differ from the usual ones.
const SET: &str = "sysctl -qw net.ipv4.conf.r0.rp_filter=1 net.ipv4.conf.r0.accept_local=1 \
                   net.ipv4.conf.r0.send_redirects=0 net.ipv4.conf.r0.arp_ignore=1 \
                   net.ipv4.conf.r1.proxy_arp=1 net.ipv6.conf.r0.hop_limit=33 \
                   net.ipv6.conf.r1.accept_ra=0";

/// All settings of a device, but for what the kernel draws by lot.
fn settings(net: &Net, device: &str) -> String {
    let line = format!(
        "cd /proc/sys/net; for f in ipv4 ipv6; do for s in $f/conf/{device}/*; do case $s in \
         *secret*|*addr_gen_mode*) ;; *) echo ${{s##*/}} $(cat $s);; esac; done; done"
    );
    net.ok(&net.r, &line)
}

/// A packet of A with a source that is routed by the router's other device.
fn spoof(net: &Net) {
    net.run(&net.a, "ping -c 1 -W 1 -I 198.18.1.99 198.18.1.2");
}

/// Packets with that source that were forwarded since rules were loaded.
fn forwarded(net: &Net) -> u64 {
    let listed = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    let counter = listed.lines().find_map(|line| line.split_once("counter packets "));
    let (_, counted) = counter.unwrap_or_else(|| panic!("no counter in {listed}"));
    counted.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

/// Counts what is forwarded for a source of the other side, and sends some: others pass.
fn spoofed_packets_are_dropped(net: &Net) {
    net.nft(
        "table ip t {
           chain c { type filter hook forward priority 0; ip saddr 198.18.1.99 counter; }
         }",
    );
    spoof(net);
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    assert_eq!(forwarded(net), 0);
}

#[test]
fn settings_of_devices_are_taken_followed_and_given_back() {
    let Some(mut net) = Net::new() else { return };
    net.ok(&net.a, "ip addr add 198.18.1.99/32 dev lo");
    net.ok(&net.r, "sysctl -qw net.ipv4.conf.all.rp_filter=0");
    net.ok(&net.r, SET);
    let before = [settings(&net, "r0"), settings(&net, "r1")];
    net.up("r0 r1");
    assert_eq!([settings(&net, "r0"), settings(&net, "r1")], before);
    spoofed_packets_are_dropped(&net);
    net.ok(&net.r, "sysctl -qw net.ipv4.conf.r0.rp_filter=0");
    net.until("it is not checked any more", |net| {
        spoof(net);
        forwarded(net) > 0
    });
    // That of all devices is the greater one, also for what comes from now on.
    net.ok(&net.r, "sysctl -qw net.ipv4.conf.all.rp_filter=1");
    net.until("it is checked again", |net| {
        let counted = forwarded(net);
        spoof(net);
        forwarded(net) == counted
    });
    net.ok(&net.r, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv6.conf.r1.hop_limit=44");
    let changed = [settings(&net, "r0"), settings(&net, "r1")];
    assert_ne!(changed, before);
    net.down();
    assert_eq!([settings(&net, "r0"), settings(&net, "r1")], changed);
}

#[test]
fn settings_given_on_the_command_line_are_not_the_hosts() {
    let Some(mut net) = Net::new() else { return };
    net.ok(&net.a, "ip addr add 198.18.1.99/32 dev lo");
    net.ok(&net.r, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.r0.rp_filter=0");
    let before = settings(&net, "r0");
    net.up("r0 r1 --sysctl net.ipv4.conf.r0.rp_filter=1");
    assert_eq!(settings(&net, "r0"), before);
    spoofed_packets_are_dropped(&net);
    net.down();
    assert_eq!(settings(&net, "r0"), before);
}

#[test]
fn settings_survive_the_death_of_the_dataplane() {
    let Some(mut net) = Net::new() else { return };
    net.ok(&net.r, SET);
    for both in [false, true] {
        net.up("r0 r1");
        let rp_filter = if both { 2 } else { 0 };
        net.ok(
            &net.r,
            &format!(
                "sysctl -qw net.ipv4.conf.r0.rp_filter={rp_filter} net.ipv6.conf.r1.hop_limit=5{rp_filter}"
            ),
        );
        let changed = [settings(&net, "r0"), settings(&net, "r1")];
        // It is looked for once a second, and written down after that.
        std::thread::sleep(std::time::Duration::from_secs(3));
        if both {
            net.kill_both();
            net.ok(&net.r, "$PENSTOCK down");
        } else {
            net.kill();
            net.until("the guardian gives devices back", |net| {
                !net.run(&net.r, "ip link show dev r0.port").0
                    && net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0
            });
        }
        assert_eq!([settings(&net, "r0"), settings(&net, "r1")], changed, "both: {both}");
    }
}
