// SPDX-License-Identifier: Apache-2.0

//! NAT between two TAPs, in user space: packets from `inside` leave by `outside` with the address
//! of the router.
//!
//! ```text
//! cargo build -p penstock --example nat --features live
//! target/debug/examples/nat inside outside        # needs CAP_NET_ADMIN; ^C ends it
//! ```

use std::time::{Duration, SystemTime};

use penstock::live::Tap;
use penstock::{Dataplane, Device, Error, Frame, Network, Ruleset, Sent, Sink};

const RULES: &str = "
    table ip nat {
        chain postrouting {
            type nat hook postrouting priority srcnat
            oifname outside masquerade
        }
    }
    table inet filter {
        chain forward {
            type filter hook forward priority filter; policy drop;
            ct state established,related accept
            iifname inside accept
        }
    }
";

/// A router: 198.18.1.1/24 inside, 198.18.0.1/24 outside. The neighbours are the host's ends of the
/// TAPs; a program would learn their addresses from ARP or configuration.
fn router() -> Result<(Network, Dataplane), Error> {
    let network = Network::from_text(
        "link add inside address 02:00:00:00:00:02 type veth
         link add outside address 02:00:00:00:00:01 type veth
         link set inside up
         link set outside up
         addr add 198.18.1.1/24 dev inside
         addr add 198.18.0.1/24 dev outside
         neigh add 198.18.1.7 lladdr 02:00:00:00:01:07 dev inside
         neigh add 198.18.0.9 lladdr 02:00:00:00:00:09 dev outside",
    )?;
    let ruleset = Ruleset::from_text(&network, RULES)?;
    let dataplane = Dataplane::new(&network, &ruleset)?;
    Ok((network, dataplane))
}

/// Sends frames by the TAP of their device.
struct Wires<'t> {
    devices: [Device; 2],
    taps: &'t mut [Tap; 2],
}

impl Sink for Wires<'_> {
    fn sent(&mut self, frame: &Sent<'_>) {
        let [inside, outside] = self.taps;
        let tap = if frame.device == self.devices[0] { inside } else { outside };
        tap.send(frame.frame);
    }
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

fn main() -> Result<(), Error> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [inside, outside] = &names[..] else {
        eprintln!("usage: nat INSIDE OUTSIDE");
        std::process::exit(2);
    };
    let (network, mut dataplane) = router()?;
    let devices = [network.device("inside")?, network.device("outside")?];
    let open = |name: &str| {
        Tap::open(name).unwrap_or_else(|error| {
            eprintln!("nat: {name}: {error}");
            std::process::exit(1);
        })
    };
    let mut taps = [open(inside), open(outside)];
    let mut frames: Vec<(Device, Vec<u8>)> = Vec::new();
    loop {
        Tap::wait(&taps, Duration::from_secs(1))?;
        for (device, tap) in devices.into_iter().zip(&mut taps) {
            tap.receive(|frame| frames.push((device, frame.to_vec())));
        }
        let time = now();
        let mut wires = Wires { devices, taps: &mut taps };
        dataplane.advance(time, &mut wires);
        let burst = frames.iter().map(|(device, bytes)| Frame { device: *device, bytes, time });
        dataplane.receive(burst, &mut wires);
        frames.clear();
        taps.iter_mut().for_each(Tap::flush);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP frame without UDP checksum; that of IPv4 is worked out.
    fn udp(to: u8, from: [u8; 4], ports: [u16; 2], address: [u8; 4]) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        ip.extend([from, address].concat());
        let mut sum: u32 = ip.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        let [from, to_port] = ports.map(u16::to_be_bytes);
        let udp = [&from[..], &to_port, &[0, 8, 0, 0]].concat();
        [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 9, 0x08, 0x00][..], &ip, &udp].concat()
    }

    #[test]
    fn clients_inside_are_seen_as_the_router_and_get_their_answers() {
        let (network, mut dataplane) = router().unwrap();
        let (inside, outside) =
            (network.device("inside").unwrap(), network.device("outside").unwrap());
        let query = udp(2, [198, 18, 1, 7], [4000, 53], [198, 18, 0, 9]);
        let outcome = dataplane.process(inside, &query, now());
        let (device, sent) = outcome.sent().next().expect("it leaves");
        assert_eq!((device, &sent[26..30]), (outside, &[198, 18, 0, 1][..]));
        let port = u16::from_be_bytes([sent[34], sent[35]]);
        let answer = udp(1, [198, 18, 0, 9], [53, port], [198, 18, 0, 1]);
        let outcome = dataplane.process(outside, &answer, now());
        let (device, sent) = outcome.sent().next().expect("it leaves");
        assert_eq!((device, &sent[30..38]), (inside, &[198, 18, 1, 7, 0, 53, 0x0f, 0xa0][..]));
    }

    #[test]
    fn nobody_outside_begins_a_connection() {
        let (network, mut dataplane) = router().unwrap();
        let outside = network.device("outside").unwrap();
        let begun = udp(1, [198, 18, 0, 9], [53, 4000], [198, 18, 1, 7]);
        let outcome = dataplane.process(outside, &begun, now());
        assert_eq!(outcome.dropped_by(), Some("inet filter forward"));
    }
}
