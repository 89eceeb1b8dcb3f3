// SPDX-License-Identifier: Apache-2.0

//! Address and port translation: flows of packets in both directions through NAT chains.

mod chains;
mod destination;
mod errors;
mod families;
mod helpers;
mod local;
mod source;

use super::on;
use crate::frame::Frame;
use crate::net::wan;
use crate::scenario::Scenario;

pub fn all() -> Vec<Scenario> {
    [
        source::all(),
        destination::all(),
        chains::clashes(),
        errors::all(),
        chains::all(),
        local::all(),
        families::all(),
        helpers::all(),
    ]
    .concat()
}

/// Frames from several places, in order.
fn story(mut scenario: Scenario, frames: &[(&str, Frame)]) -> Scenario {
    scenario.frames.extend(frames.iter().map(|(source, f)| ((*source).to_owned(), f.bytes())));
    scenario
}

/// A NAT chain of a table, the lines counted before they bind, and chains that see packets before
/// and after.
fn nat(name: &str, family: &str, hook: &str, lines: &str) -> Scenario {
    let rules: String = lines
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .map(|l| format!("\t\tcounter {l}\n"))
        .collect();
    on(
        name,
        &format!(
            "table {family} t {{\n\tchain n {{\n\t\ttype nat hook {hook} priority 0;\n{rules}\t\tcounter\n\t}}\n}}\n{WITNESSES}"
        ),
    )
}

/// What other chains see of addresses, at each hook before and after NAT.
const WITNESSES: &str = "\
table inet witness {
	chain a {
		type filter hook prerouting priority -110;
		ip saddr 198.18.0.0/24 counter
		ip daddr 198.18.0.0/24 counter
		ip6 saddr 2001:db8:1::/64 counter
		ip6 daddr 2001:db8:1::/64 counter
	}
	chain b {
		type filter hook prerouting priority -90;
		ip saddr 198.18.0.0/24 counter
		ip daddr 198.18.0.0/24 counter
		ip daddr 198.18.5.0/24 counter
		ip6 daddr 2001:db8:1::/64 counter
		ip6 daddr 2001:db8:5::/64 counter
	}
	chain c {
		type filter hook forward priority 0;
		ip saddr 198.18.0.0/24 counter
		ip daddr 198.18.0.0/24 counter
		ip saddr 198.18.5.0/24 counter
		ip daddr 198.18.5.0/24 counter
		ip6 saddr 2001:db8:1::/64 counter
		ip6 daddr 2001:db8:1::/64 counter
		th dport 53 counter
	}
	chain d {
		type filter hook postrouting priority 90;
		ip saddr 198.18.0.0/24 counter
		ip6 saddr 2001:db8:1::/64 counter
	}
	chain e {
		type filter hook postrouting priority 110;
		ip saddr 198.18.0.0/24 counter
		ip saddr 198.19.0.0/24 counter
		ip6 saddr 2001:db8:1::/64 counter
		ip6 saddr 2001:db8:2::/64 counter
		udp checksum 0 counter
	}
	chain f {
		type filter hook input priority 90;
		counter
		ip saddr 198.18.0.0/24 counter
	}
	chain g {
		type filter hook input priority 110;
		ip saddr 198.18.0.0/24 counter
		th dport 8080 counter
	}
}
";

fn answer4() -> Frame {
    wan().ip4("198.19.0.2", "198.19.0.1")
}

fn answer6() -> Frame {
    wan().ip6("2001:db8:2::2", "2001:db8:2::1")
}

/// TCP with sequence and acknowledgement numbers.
fn tcp(f: Frame, ports: (u16, u16), flags: u8, seq: u32, ack: u32) -> Frame {
    f.tcp(ports.0, ports.1).set(4, &seq.to_be_bytes()).set(8, &ack.to_be_bytes()).flags(flags)
}

/// A connection from beginning to end: what the client's side and what the server's side sends.
fn conversation(
    there: &dyn Fn() -> Frame,
    back: &dyn Fn() -> Frame,
    client: u16,
    server: u16,
    seen: (u16, u16),
) -> Vec<(&'static str, Frame)> {
    let (to, from) = ((client, server), (seen.1, seen.0));
    vec![
        ("lan", tcp(there(), to, 2, 100, 0)),
        ("wan", tcp(back(), from, 0x12, 500, 101)),
        ("lan", tcp(there(), to, 0x10, 101, 501)),
        ("lan", tcp(there(), to, 0x18, 101, 501).data(b"GET / HTTP/1.0\r\n")),
        ("wan", tcp(back(), from, 0x10, 501, 117)),
        ("wan", tcp(back(), from, 0x18, 501, 117).data(b"HTTP/1.0 200 OK\r\n\r\nhello")),
        ("wan", tcp(back(), from, 0x11, 525, 117)),
        ("lan", tcp(there(), to, 0x11, 117, 526)),
        ("wan", tcp(back(), from, 0x10, 526, 118)),
    ]
}

/// An ICMP error about what a frame has after its link header, or the beginning of it.
fn about(error: Frame, frame: &Frame, len: usize) -> Frame {
    let bytes = frame.bytes();
    let quoted = &bytes[14..];
    error.data(&quoted[..quoted.len().min(len)])
}
