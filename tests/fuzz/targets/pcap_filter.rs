// SPDX-License-Identifier: Apache-2.0

//! Filters in the language of pcap (`bpf filter "…"`).

use penstock_pcapfilter::{Link, compile};
use penstock_program::op::{BpfAncillary, BpfPacket, BpfProgram};

use super::Target;
use crate::mutate;

pub const TARGET: Target = Target {
    name: "pcap_filter",
    bytes: "a filter of pcap",
    holds: "an error is about bytes of the text; a program is one that the kernel takes for a socket, and runs",
    longest: 512,
    seeds: || FILTERS.iter().map(|text| text.as_bytes().to_vec()).collect(),
    make: mutate::text_bytes,
    run,
};

const FILTERS: &[&str] = &[
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 198.18.0.0/15",
    "host 198.18.0.1 and (port 80 or 443 or domain) or udp portrange 5000-5010",
    "ip6 host 2001:db8::1 or net 2001:db8::/32 && !(icmp6[icmp6type] = 128)",
    "ip proto \\tcp or ip6 proto 58 or (ip[6:2] & 0x1fff = 0 and len % 3 ^ 1 > 2)",
    "ether host 02:00:00:00:00:01 and vlan 5 and vlan and ip multicast",
    "mpls 16 and mpls and host 198.18.0.1 or pppoes 7 and ip6",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420 and greater 60",
    "-udp[4:2] + len * (ip[0] & 15) << 2 != 7 / (ip[1] + 1) - icmp[icmptype]",
];

struct Bytes<'a>(&'a [u8]);

impl BpfPacket for Bytes<'_> {
    fn link(&self) -> &[u8] {
        &[]
    }

    fn network(&self) -> &[u8] {
        self.0
    }

    fn ancillary(&mut self, _: BpfAncillary) -> Option<u32> {
        None
    }
}

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for link in [Link::Raw, Link::Ethernet] {
        match compile(&text, link) {
            Ok(program) => {
                let steps: Vec<_> =
                    program.iter().map(|step| (step.code, step.jt, step.jf, step.k)).collect();
                let program = BpfProgram::of_socket(&steps).expect("a program of the kernel");
                for packet in [&[0x45; 60][..], &[0x60; 60], &[0; 14], &[]] {
                    program.run(&mut Bytes(packet));
                }
            }
            Err(error) => {
                assert!(text.get(error.at.clone()).is_some(), "{error:?} is not in {text}");
            }
        }
    }
}
