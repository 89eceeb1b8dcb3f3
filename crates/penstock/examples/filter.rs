// SPDX-License-Identifier: Apache-2.0

//! Filters the packets of a program: `cargo run -p penstock --example filter`.

use penstock::{Dataplane, DropReason, Error, Fate, Network, Ruleset};

const RULES: &str = "
    table netdev filter {
        chain ingress {
            type filter hook ingress device vpn0 priority filter; policy drop;
            ip saddr 198.18.0.0/15 udp dport { 53, 123 } counter accept
            meta protocol arp accept
        }
    }
";

/// A UDP packet in a frame for 02:00:00:00:00:01, without checksums: none of the rules asks.
fn frame(port: u16) -> Vec<u8> {
    let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x08, 0x00];
    let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 9, 203, 0, 113, 1];
    let [high, low] = port.to_be_bytes();
    [&ethernet[..], &ip, &[0x30, 0x39, high, low, 0, 8, 0, 0]].concat()
}

/// Whether the rules let each of the packets pass.
fn verdicts(ports: &[u16]) -> Result<Vec<bool>, Error> {
    let network = Network::builder().ethernet("vpn0", [2, 0, 0, 0, 0, 1]).build()?;
    let ruleset = Ruleset::from_text(&network, RULES)?;
    let mut dataplane = Dataplane::new(&network, &ruleset)?;
    let vpn = network.device("vpn0")?;
    // Passed packets continue to the router behind the device, which this program does not
    // simulate.
    let dropped = [Fate::Dropped(DropReason::Rule), Fate::Dropped(DropReason::Policy)];
    let passes = |port: &u16| !dropped.contains(&dataplane.process(vpn, &frame(*port), 0).fate());
    let verdicts = ports.iter().map(passes).collect();
    print!("{}", ruleset.to_text(0));
    Ok(verdicts)
}

fn main() -> Result<(), Error> {
    let ports = [53, 80, 123];
    for (port, passes) in ports.iter().zip(verdicts(&ports)?) {
        println!("port {port}: {}", if passes { "passes" } else { "is dropped" });
    }
    Ok(())
}

#[test]
fn only_dns_and_ntp_pass() {
    assert_eq!(verdicts(&[53, 80, 123]).unwrap(), [true, false, true]);
}
