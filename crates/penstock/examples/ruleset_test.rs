// SPDX-License-Identifier: Apache-2.0

//! Tests of a ruleset, as a project may have them next to its rules: `cargo test -p penstock
//! --example ruleset_test`.

use penstock::{Dataplane, Error, Fate, Network, Ruleset};

/// What is tested. A project reads its own file: `Ruleset::read(&network, "rules.nft")`.
const RULES: &str = "
    table inet filter {
        set blocked {
            type ipv4_addr; flags interval
            elements = { 203.0.113.0/24 }
        }
        chain input {
            type filter hook input priority filter; policy drop;
            ct state established,related accept
            ip saddr @blocked drop
            tcp dport { 22, 443 } accept
        }
    }
";

/// The host that the rules are for, and its rules.
struct Host {
    network: Network,
    dataplane: Dataplane,
    now: u64,
}

impl Host {
    fn new() -> Result<Host, Error> {
        let network = Network::from_text(
            "link add eth0 address 02:00:00:00:00:01 type veth
             link set eth0 up
             addr add 198.18.0.1/24 dev eth0
             route add default via 198.18.0.254",
        )?;
        let ruleset = Ruleset::from_text(&network, RULES)?;
        let dataplane = Dataplane::builder(&network).seed(1).build(&ruleset)?;
        Ok(Host { network, dataplane, now: 1_700_000_000_000_000_000 })
    }

    /// Sends the host a TCP SYN, and returns its fate.
    fn syn(&mut self, from: [u8; 4], port: u16) -> String {
        self.now += 1_000_000;
        let device = self.network.device("eth0").expect("the network has it");
        let outcome = self.dataplane.process(device, &syn(from, port), self.now);
        match (outcome.fate(), outcome.dropped_by()) {
            (Fate::Delivered(_), _) => "accepted".to_owned(),
            (_, Some(rule)) => format!("dropped by {rule}"),
            (other, None) => other.to_string(),
        }
    }
}

/// A frame with a SYN to 198.18.0.1, with its checksums.
fn syn(from: [u8; 4], port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    let to = [198, 18, 0, 1];
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
    ip.extend([from, to].concat());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    let mut tcp =
        vec![0x9c, 0x40, high, low, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0];
    let pseudo = [&from[..], &to, &[0, 6, 0, 20], &tcp].concat();
    tcp[16..18].copy_from_slice(&checksum(&pseudo));
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x08, 0x00][..], &ip, &tcp].concat()
}

/// The checksum of the internet (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn main() -> Result<(), Error> {
    let mut host = Host::new()?;
    for (from, port) in [([192, 0, 2, 7], 22), ([192, 0, 2, 7], 80), ([203, 0, 113, 7], 22)] {
        println!("{from:?} to port {port}: {}", host.syn(from, port));
    }
    Ok(())
}

#[test]
fn ssh_and_https_are_open_and_nothing_else() {
    let mut host = Host::new().unwrap();
    assert_eq!(host.syn([192, 0, 2, 7], 22), "accepted");
    assert_eq!(host.syn([192, 0, 2, 7], 443), "accepted");
    assert_eq!(host.syn([192, 0, 2, 7], 80), "dropped by inet filter input");
}

#[test]
fn blocked_addresses_reach_nothing() {
    let mut host = Host::new().unwrap();
    assert!(host.syn([203, 0, 113, 7], 22).starts_with("dropped by inet filter input handle "));
}
