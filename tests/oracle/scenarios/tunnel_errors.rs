// SPDX-License-Identifier: Apache-2.0

//! ICMP errors about packets in tunnels, and MTUs of their paths.

use super::sent;
use super::tunnel::{NET, RULES, lan, wan};
use crate::frame::{Frame, bare};
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    let mut all = vec![];
    for (name, options) in
        [("ipip", ""), ("ipip_nopmtudisc", " nopmtudisc"), ("ipip_ttl", " ttl 9")]
    {
        let net = tunnel(&format!("ipip local 198.19.0.1 remote 198.18.99.1{options}"));
        let of = |what: &str, frames: &[(&'static str, Frame)]| told(name, what, &net, frames);
        all.push(of("path", &[talk4(), vec![about4(4, 1000)], talk4(), talk4()].concat()));
        all.push(of("narrow_path", &[talk4(), vec![about4(4, 400)], talk4(), talk4()].concat()));
        all.push(of("unreachable", &[errors4(4, &inner4()), talk4(), talk4()].concat()));
        let shared = [vec![about4(4, 1000)], talk4(), talk4()].concat();
        let forward = of("path_of_others", &shared);
        all.push(forward.sysctl("net.ipv4.ip_forward_use_pmtu", 1));
    }
    for (name, options) in [("sit", ""), ("sit_nopmtudisc", " nopmtudisc"), ("sit_ttl", " ttl 9")] {
        let net = tunnel(&format!("sit mode any local 198.19.0.1 remote 198.18.99.1{options}"));
        let of = |what: &str, frames: &[(&'static str, Frame)]| told(name, what, &net, frames);
        let both = || [talk6(), talk4()].concat();
        all.push(of("path", &[both(), vec![about4(41, 1400)], both(), both()].concat()));
        all.push(of("narrow_path", &[both(), vec![about4(41, 1000)], both(), both()].concat()));
        all.push(of("unreachable", &[errors4(41, &inner6()), both()].concat()));
        if options.is_empty() {
            all.extend(relays(&net));
        }
        all.push(of("unreachable4", &[errors4(4, &inner4()), both()].concat()));
    }
    for (name, options) in [("ip6tnl", ""), ("ip6tnl_bare", " encaplimit none")] {
        let net =
            tunnel(&format!("ip6tnl mode any local 2001:db8:2::1 remote 2001:db8:99::1{options}"));
        let of = |what: &str, frames: &[(&'static str, Frame)]| told(name, what, &net, frames);
        let both = || [talk6(), talk4()].concat();
        let big = |mtu| {
            let long = |inner: Frame| about6(2, 0, mtu, &outer6(&inner.zeros(1200)));
            [vec![long(inner6())], both(), both()].concat()
        };
        all.push(of("path", &[both(), big(1400)].concat()));
        all.push(of("narrow_path", &big(1290)));
        let four = about6(2, 0, 1330, &outer6(&inner4().zeros(1270)));
        all.push(of("path4", &[vec![four], both(), both()].concat()));
        all.push(of("unreachable", &[errors6(), both()].concat()));
    }
    all
}

fn tunnel(device: &str) -> String {
    format!(
        "{NET}link add far type {device}\nlink set far addrgenmode none up\nroute add \
         198.18.77.0/24 dev far\nroute add 2001:db8:77::/64 dev far\n"
    )
}

fn told(name: &str, what: &str, net: &str, frames: &[(&'static str, Frame)]) -> Scenario {
    sent(Scenario::new(&format!("tunnel_{name}_{what}"), net, RULES), frames).at_once()
}

/// What goes into the tunnel, in several sizes.
fn talk4() -> Vec<(&'static str, Frame)> {
    let mut frames = vec![];
    for len in [100, 520, 900, 1240, 1300, 1440] {
        let to_far = || lan().ip4("198.18.0.10", "198.18.77.7").id(len as u16);
        frames.push(("lan", to_far().df().udp(1000, 53).zeros(len - 28)));
        frames.push(("lan", to_far().udp(1000, 53).zeros(len - 28)));
        let own = bare().ip4("198.19.0.1", "198.18.77.7").id(len as u16);
        frames.push(("host", own.udp(9, 9).zeros(len - 28)));
    }
    frames
}

/// Errors that are relayed as ICMPv6, one by one.
fn relays(net: &str) -> Vec<Scenario> {
    let whole = inner6().bytes();
    let mut long = whole.clone();
    long.resize(128 - 20, 7);
    let extended = [&long[..], &[0x20, 0, 0, 0, 0, 8, 1, 1, 9, 9, 9, 9]].concat();
    [
        ("plain", error4(3, 1, 0, 41, &whole)),
        ("expired", error4(11, 0, 0, 41, &whole)),
        ("long", error4(3, 1, 0, 41, &long)),
        ("long_expired", error4(11, 0, 0, 41, &long)),
        ("marked", error4(3, 1, 32 << 16, 41, &extended)),
        ("extended", error4(11, 0, 32 << 16, 41, &extended)),
        ("cut", error4(11, 0, 200 << 16, 41, &extended)),
    ]
    .map(|(name, error)| told("sit_relay", name, net, &[error]))
    .to_vec()
}

fn talk6() -> Vec<(&'static str, Frame)> {
    let to_far = || lan().ip6("2001:db8:1::10", "2001:db8:77::7");
    let sizes = [100, 1240, 1280, 1300, 1330, 1400, 1440];
    sizes.map(|len| ("lan", to_far().udp(1000, 53).zeros(len - 48))).to_vec()
}

fn inner4() -> Frame {
    bare().ip4("198.18.0.10", "198.18.77.7").udp(1000, 53).data(b"question")
}

fn inner6() -> Frame {
    bare().ip6("2001:db8:1::10", "2001:db8:77::7").udp(1000, 53).data(b"question")
}

/// A router on the way says something of an outer packet over IPv4.
fn error4(kind: u8, code: u8, rest: u32, protocol: u8, inner: &[u8]) -> (&'static str, Frame) {
    let quoted = bare().ip4("198.19.0.1", "198.18.99.1").protocol(protocol).data(inner);
    let message = wan().ip4("198.19.0.2", "198.19.0.1").icmp(kind, code, rest);
    ("wan", message.data(&quoted.bytes()))
}

fn about4(protocol: u8, mtu: u32) -> (&'static str, Frame) {
    error4(3, 4, mtu, protocol, &[0x45; 20])
}

/// Errors of all kinds, each followed by a packet.
fn errors4(protocol: u8, inner: &Frame) -> Vec<(&'static str, Frame)> {
    let whole = inner.bytes();
    let mut long = whole.clone();
    long.resize(128 - 20, 7);
    let extended = [&long[..], &[0x20, 0, 0, 0, 0, 8, 1, 1, 9, 9, 9, 9]].concat();
    let next = || match protocol {
        4 => ("lan", lan().ip4("198.18.0.10", "198.18.77.7").udp(1000, 53).data(b"next")),
        _ => ("lan", lan().ip6("2001:db8:1::10", "2001:db8:77::7").udp(1000, 53).data(b"next")),
    };
    let mut frames = vec![];
    for (kind, code) in
        [(3, 0), (3, 1), (3, 2), (3, 5), (3, 13), (3, 16), (11, 0), (11, 1), (12, 0)]
    {
        frames.push(error4(kind, code, 0, protocol, &whole));
        frames.extend([next(), next()]);
    }
    frames.extend([error4(3, 1, 0, protocol, &whole[..8]), next(), next()]);
    frames.extend([error4(3, 1, 0, protocol, &whole[..4]), next()]);
    frames.extend([error4(11, 0, 32 << 16, protocol, &extended), next()]);
    frames.extend([error4(3, 1, 32 << 16, protocol, &extended), next()]);
    frames.extend([error4(11, 0, 200 << 16, protocol, &extended), next()]);
    let broken = error4(3, 1, 0, protocol, &whole).1.patch(36, &[1, 1]);
    frames.extend([("wan", broken), next()]);
    frames
}

/// An outer packet over IPv6 with the option that limits tunnels in tunnels.
fn outer6(inner: &Frame) -> Frame {
    let protocol = if inner.bytes()[0] >> 4 == 6 { 41 } else { 4 };
    let outer = bare().ip6("2001:db8:2::1", "2001:db8:99::1");
    outer.extension(60, &[4, 1, 0, 1, 0, 0]).protocol(protocol).data(&inner.bytes())
}

fn about6(kind: u8, code: u8, rest: u32, quoted: &Frame) -> (&'static str, Frame) {
    let quoted = quoted.bytes();
    let quoted = &quoted[..quoted.len().min(1232)];
    let message = wan().ip6("2001:db8:2::2", "2001:db8:2::1").icmp6(kind, code, rest);
    ("wan", message.data(quoted))
}

fn errors6() -> Vec<(&'static str, Frame)> {
    let mut frames = vec![];
    let plain = |inner: &Frame| {
        let protocol = if inner.bytes()[0] >> 4 == 6 { 41 } else { 4 };
        let outer = bare().ip6("2001:db8:2::1", "2001:db8:99::1").protocol(protocol);
        outer.data(&inner.bytes())
    };
    for (kind, code, rest) in [
        (1, 0, 0),
        (1, 3, 0),
        (3, 0, 0),
        (3, 1, 0),
        (4, 0, 44),
        (4, 0, 43),
        (4, 1, 44),
        (2, 0, 900),
    ] {
        for inner in [inner6(), inner4()] {
            frames.push(about6(kind, code, rest, &plain(&inner)));
            frames.push(about6(kind, code, rest, &outer6(&inner)));
        }
    }
    let whole = plain(&inner6()).bytes();
    frames.push(about6(1, 0, 0, &bare().data(&whole[..40 + 6])));
    frames.push(about6(1, 0, 0, &bare().data(&whole[..40 + 20])));
    let (_, broken) = about6(1, 0, 0, &plain(&inner6()));
    frames.push(("wan", broken.patch(56, &[1, 1])));
    frames
}
