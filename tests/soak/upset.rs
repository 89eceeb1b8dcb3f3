// SPDX-License-Identifier: Apache-2.0

//! What happens to the dataplane while packets pass: rulesets, clients, ports, and at last kills.

use std::os::unix::process::CommandExt;
use std::process::Child;
use std::process::Stdio;
use std::time::Duration;

use fastrand::Rng;

use crate::lab::{Lab, NETWORK};

/// Rulesets of which one follows the other. All have the tables that the elements below are for.
fn rules(number: usize) -> String {
    let more = match number {
        0 => "ct state established,related counter accept",
        1 => {
            "ct state vmap { established : accept, related : accept, invalid : drop }; meta nftrace set 0"
        }
        _ => "tcp dport 7 counter; udp length > 1400 counter; ip saddr 198.19.0.0/16 counter",
    };
    let flows = match number {
        0 => "flowtable f { hook ingress priority 0; devices = { r0, r1 }; counter; }",
        _ => "flowtable f { hook ingress priority 0; devices = { r0, r1, r2 }; counter; }",
    };
    format!(
        "flush ruleset
         table inet t {{
           {flows}
           set seen {{ type ipv4_addr; size 4096; flags dynamic,timeout; timeout 10s; }}
           set changed {{ type inet_service; flags interval; elements = {{ 60000-60100 }}; }}
           map to {{ type inet_service : verdict; elements = {{ 9 : drop, 10 : accept }}; }}
           limit slow {{ rate 50/second; }}
           counter every {{ }}
           chain pre {{ type filter hook prerouting priority 0
             counter name every
             add @seen {{ ip saddr }}
             udp dport 33434 log prefix \"soak \" limit name slow
           }}
           chain f {{ type filter hook forward priority 0; policy accept
             meta l4proto {{ tcp, udp }} flow add @f
             {more}
             tcp dport @changed reject with tcp reset
             udp dport 53 queue to 3
             udp dport vmap @to
             tcp flags syn limit rate over 200/second counter drop
             ct count over 15000 counter drop
           }}
           chain i {{ type filter hook input priority 0; icmp type echo-request limit rate 100/second accept; }}
         }}
         table ip nat {{
           chain pre {{ type nat hook prerouting priority dstnat; ip daddr 198.19.0.1 tcp dport 8080 dnat to 198.18.1.2:80; }}
           chain post {{ type nat hook postrouting priority srcnat; oif r1 masquerade; }}
         }}
         table bridge b {{ chain f {{ type filter hook forward priority 0; ether type arp counter; ct state invalid drop; }}; }}
         table netdev n {{ chain i {{ type filter hook ingress device r0 priority 0; ip ttl 0 drop; ip saddr 198.18.77.0/24 counter drop; }}; }}
        "
    )
}

/// Puts one of the rulesets in force.
pub fn load(lab: &Lab, number: usize) {
    lab.net.nft(&rules(number));
}

/// Clients that stay a while.
#[derive(Default)]
pub struct Clients(Vec<Child>);

impl Clients {
    /// One more, in the router's namespace; the oldest goes away when there are many.
    fn add(&mut self, lab: &Lab, line: &str) {
        let mut command = lab.net.command(&lab.net.r, &format!("exec {line}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own, so that all that it starts goes away with it.
        self.0.extend(command.process_group(0).spawn());
        if self.0.len() > 6 {
            end(self.0.remove(0));
        }
    }

    /// All go away.
    pub fn end(&mut self) {
        self.0.drain(..).for_each(end);
    }
}

fn end(mut child: Child) {
    // SAFETY: a signal to the group of a child that was not waited for yet; no pointer is given.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    let _ = child.wait();
}

/// One thing at random; what must go well is looked at. Returns its name.
pub fn upset(lab: &Lab, rng: &mut Rng, clients: &mut Clients) -> &'static str {
    let nft = |line: &str| lab.in_r(&format!("$PENSTOCK nft {line}"));
    match rng.u8(..22) {
        0 | 1 => {
            load(lab, rng.usize(..3));
            "ruleset"
        }
        2 | 3 => {
            let port = rng.u16(1000..50000);
            let element = format!("element inet t changed '{{ {port} }}'");
            let (added, said) = nft(&format!("add {element}"));
            assert!(added, "{said}");
            let (deleted, said) = nft(&format!("delete {element}"));
            assert!(deleted, "{said}");
            "elements"
        }
        4 => {
            let (taken, said) =
                nft("'add rule inet t f ip saddr 1.2.3 drop; add rule inet nowhere f drop'");
            assert!(!taken && said.contains("Error"), "{said}");
            "refused ruleset"
        }
        5 => {
            let (confirmed, _) =
                lab.in_r("$PENSTOCK nft --confirm 1s add table ip unconfirmed < /dev/null");
            assert!(!confirmed);
            let (_, tables) = nft("list tables");
            assert!(!tables.contains("unconfirmed"), "{tables}");
            "unconfirmed ruleset"
        }
        6 => {
            // SAFETY: a signal to the dataplane; no pointer is given.
            unsafe { libc::kill(lab.net.pid() as i32, libc::SIGHUP) };
            "SIGHUP"
        }
        7 => {
            lab.remake_b();
            "port made anew"
        }
        8 => {
            lab.in_r("ip link set r0 down; sleep 0.2; ip link set r0 up");
            "port down and up"
        }
        9 => {
            lab.in_r(
                "ip addr add 198.18.0.99/24 dev r0; sleep 0.1; ip addr del 198.18.0.99/24 dev r0",
            );
            "address"
        }
        10 => {
            lab.in_r(
                "for i in $(seq 0 199); do echo route add 198.19.9.$i/32 via 198.18.1.2; done | ip -batch -",
            );
            lab.in_r("for i in $(seq 0 199); do echo route del 198.19.9.$i/32; done | ip -force -batch -");
            "routes"
        }
        11 => {
            let (listed, said) = nft("list ruleset");
            assert!(listed && said.contains("table inet t"), "{said}");
            nft("-j list ruleset");
            "listings"
        }
        12 => {
            for what in ["", "conntrack", "flows", "--metrics", "stages --time 0.2"] {
                let (shown, said) = lab.in_r(&format!("$PENSTOCK show {what}"));
                assert!(shown, "{what}: {said}");
            }
            "show"
        }
        13 => {
            clients.add(lab, "$PENSTOCK nft monitor");
            "monitor"
        }
        14 => {
            nft("'add rule inet t pre udp dport 9 meta nftrace set 1'");
            clients.add(lab, "timeout 2 $PENSTOCK nft monitor trace");
            "trace"
        }
        15 => {
            let hook = rng.choice(["forward", "prerouting", "input"]).unwrap_or("forward");
            clients.add(lab, &format!("$PENSTOCK capture --hook {hook} 'udp' -w -"));
            "capture"
        }
        16 => {
            clients.add(lab, "sh -c 'for i in 1 2 3 4 5 6 7 8; do curl -s -m 1 -o /dev/null http://127.0.0.1:9900/metrics & done; wait'");
            "metrics"
        }
        17 => {
            let one = "setpriv --reuid 65534 --regid 65534 --clear-groups timeout 5";
            clients.add(
                lab,
                &format!(
                    "sh -c 'for i in $(seq 24); do {one} $PENSTOCK nft monitor & {one} $PENSTOCK nft -c add table ip x & done; wait'"
                ),
            );
            "strangers"
        }
        18 => {
            lab.in_r("ping -f -c 300 -W 1 198.18.1.2; ping -c 3 -i 0.01 -s 4000 -W 1 2001:db8::2");
            "ping"
        }
        19 => {
            lab.in_r("ip link set r1 mtu 1300; sleep 0.2; ip link set r1 mtu 1500");
            "mtu"
        }
        20 => {
            nft("reset counters");
            nft("flush set inet t seen");
            "reset"
        }
        _ => {
            clients.end();
            "clients go"
        }
    }
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    Process,
    Guardian,
    Both,
}

/// Kills, waits until the devices are back where they should be, and starts again what is gone.
pub fn kill(lab: &mut Lab, what: Killed) {
    let guardian = crate::measure::guardian(lab.net.pid());
    let hit = |pid: u32| {
        // SAFETY: a signal to a process of the dataplane; no pointer is given.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    };
    match what {
        Killed::Process => lab.net.kill(),
        Killed::Guardian => {
            if let Some(guardian) = guardian {
                hit(guardian);
            }
            std::thread::sleep(Duration::from_millis(500));
            let (there, said) = lab.in_r("$PENSTOCK show");
            assert!(there, "without its guardian the dataplane goes on: {said}");
            // It ends in order all the same.
            lab.net.down();
        }
        Killed::Both => {
            if let Some(guardian) = guardian {
                hit(guardian);
            }
            lab.net.kill();
            lab.in_r("$PENSTOCK down");
        }
    }
    let back = lab.within(15, |lab| !lab.in_r("ip -o link").1.contains(".port"));
    assert!(
        back,
        "{what:?}: devices are back: {}{}",
        lab.in_r("ip -o link").1,
        crate::tail(&lab.net.log(), 20)
    );
    for (from, to) in [(&lab.net.a, "198.18.0.1"), (&lab.c, "198.18.2.1")] {
        let answered = lab.within(10, |lab| lab.net.run(from, &format!("ping -c 1 -W 1 {to}")).0);
        assert!(
            answered,
            "{what:?}: {to} answers: {}{}its neighbour: {}",
            crate::tail(&lab.net.log(), 20),
            lab.in_r(NETWORK).1,
            lab.net.run(from, NETWORK).1
        );
    }
    lab.up();
}
