// SPDX-License-Identifier: Apache-2.0

//! Matches of headers of IPv6, and packets with headers of all kinds.

use fastrand::Rng;

use super::{Rules, program_is_there, restore};
use crate::frame::{Frame, ethernet};
use crate::net::{CLIENT, LAN, NET};
use crate::scenario::Scenario;

/// An address of the client with the identifier that its link address gives.
const EUI64: &str = "2001:db8:1:0:0:ff:fe00:110";

const LINES: &[&str] = &[
    "-m hbh",
    "-m hbh --hbh-len 8",
    "-m hbh ! --hbh-len 8",
    "-m hbh --hbh-opts 1:4",
    "-m hbh --hbh-opts 5:2,1:0",
    "-m hbh --hbh-len 16 --hbh-opts 5,0,1",
    "-m dst",
    "-m dst --dst-len 8 --dst-opts 1:4",
    "-m dst --dst-opts 0,0,1",
    "-m dst ! --dst-len 16",
    "-m frag",
    "-m frag --fragid 7",
    "-m frag ! --fragid 7:9",
    "-m frag --fragfirst",
    "-m frag --fragmore",
    "-m frag --fraglast",
    "-m frag --fragid 1:9 --fragres --fragmore",
    "-m rt",
    "-m rt --rt-type 2",
    "-m rt ! --rt-type 0",
    "-m rt --rt-segsleft 0",
    "-m rt ! --rt-segsleft 1:2",
    "-m rt --rt-type 0 --rt-len 24",
    "-m rt --rt-type 0 ! --rt-len 24",
    "-m rt --rt-type 0 --rt-0-res",
    "-m rt --rt-type 0 --rt-0-addrs 2001:db8::1",
    "-m rt --rt-type 0 --rt-0-addrs 2001:db8::1,2001:db8::2",
    "-m rt --rt-type 0 --rt-0-addrs 2001:db8::2 --rt-0-not-strict",
    "-m rt --rt-type 0 --rt-0-addrs 2001:db8::1,2001:db8::2 --rt-0-not-strict",
    "-m ah",
    "-m ah --ahspi 1:5",
    "-m ah ! --ahspi 5 --ahlen 24",
    "-m ah ! --ahlen 24",
    "-m ah --ahres",
    "-p mh -m mh --mh-type 1",
    "-p mh -m mh ! --mh-type 1:5",
    "-p mh",
    "-m ipv6header --header hop",
    "-m ipv6header --header prot",
    "-m ipv6header --header hop,prot",
    "-m ipv6header --header dst --soft",
    "-m ipv6header --header dst,route --soft",
    "-m ipv6header ! --header dst,prot",
    "-m ipv6header ! --header frag --soft",
    "-m ipv6header --header auth --soft",
    "-m ipv6header --header esp --soft",
    "-m ipv6header --header none --soft",
    "-m eui64",
    "! -p tcp -m eui64",
];

fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

/// A routing header's body: type, segments left, a reserved word, addresses.
fn routing(rng: &mut Rng) -> Vec<u8> {
    let mut body = vec![pick(rng, &[0, 2, 4]), pick(rng, &[0, 1, 2])];
    body.extend(pick(rng, &[[0u8; 4], [0, 0, 0, 1]]));
    for _ in 0..rng.u8(..4) {
        let address: std::net::Ipv6Addr =
            pick(rng, &["2001:db8::1", "2001:db8::2", "2001:db8::3"]).parse().expect("an address");
        body.extend(address.octets());
    }
    body
}

/// Some headers, one after the other, and what they are of.
fn frame(rng: &mut Rng) -> Frame {
    // With the interface identifier of the link address, or another one.
    let source = pick(rng, &["2001:db8:1::10", EUI64]);
    let mut f = ethernet(LAN, CLIENT).ip6(source, "2001:db8:200::7");
    if rng.u8(..3) == 0 {
        let options: [&[u8]; 4] =
            [&[], &[5, 2, 0, 0, 1, 0], &[5, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0], &[0, 0]];
        f = f.extension(0, pick(rng, &options));
    }
    for _ in 0..rng.u8(..3) {
        f = match rng.u8(..6) {
            0 => f.extension(43, &routing(rng)),
            1 => f.ah(pick(rng, &[1, 5, 6]), 1),
            2 => {
                let more = rng.bool();
                f.fragment6(pick(rng, &[0, 0, 1, 185]), more, pick(rng, &[7, 8, 70]))
            }
            _ => {
                let options: [&[u8]; 4] =
                    [&[], &[0, 0, 1, 2, 0, 0], &[1, 4, 0, 0, 0, 0], &[0, 1, 9, 0, 0, 0]];
                f.extension(60, pick(rng, &options))
            }
        };
        // Its length, or that of what is in it, is wrong.
        if rng.u8(..12) == 0 {
            f = f.patch(pick(rng, &[1, 3]), &[pick(rng, &[0, 1, 2, 9, 40])]);
        }
    }
    f = match rng.u8(..8) {
        0..=2 => f.udp(1, 2),
        3 => f.tcp(1, 2),
        4 => f.transport(50, &[0, 0, 0, 1, 0, 0, 0, 1]),
        5 => f.transport(59, &[]),
        // Binding updates; the payload protocol is to be none.
        _ => f.transport(
            135,
            &[pick(rng, &[59, 59, 59, 6]), 0, pick(rng, &[0, 1, 5, 6]), 0, 0, 0, 0, 0],
        ),
    };
    if rng.u8(..4) == 0 { f.data(&[1; 40]) } else { f }
}

/// Each line by itself.
pub fn all() -> Vec<Scenario> {
    if !program_is_there("ip6tables-nft-restore") {
        return vec![];
    }
    let one = |(number, rule): (usize, &&str)| {
        let mut rng = Rng::with_seed(number as u64);
        // `eui64` is for packets that come in.
        let rules: Rules<'_> = vec![("raw", "PREROUTING", rule)];
        let words = rule.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let name = format!("ipv6_headers_{number:02}_{words}");
        let mut scenario = Scenario::new(&name, NET, "").commands(&restore(true, &rules)).at_once();
        for _ in 0..120 {
            scenario = scenario.frame("lan", &frame(&mut rng));
        }
        scenario
    };
    LINES.iter().enumerate().map(one).collect()
}
