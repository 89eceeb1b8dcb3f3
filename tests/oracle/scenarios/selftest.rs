// SPDX-License-Identifier: Apache-2.0

//! The first router of the kernel's own test of flowtables (`nft_flowtable.sh`), in its stages:
//! plain, with both kinds of translation, behind a bridge, behind a VLAN in the bridge, through an
//! IPIP tunnel, one in a VLAN, and through IPsec. A client with a large MTU sends to a server beyond
//! a link with a small one.

use std::time::Duration;

use super::sent;
use crate::frame::{Frame, Mac, bare, ethernet};
use crate::peer::Peer;
use crate::scenario::Scenario;

/// `lan` is the client's side, `wan` the way to the other router.
const WIRES: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 9000 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
addr add 198.19.10.1/24 dev wan
neigh add 198.19.10.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
";

/// The client on a device.
const CLIENT: &str = "\
addr add 198.18.1.1/24 dev DEV
neigh add 198.18.1.99 lladdr 02:00:00:00:01:10 dev DEV nud permanent
";

const BRIDGE: &str = "\
link add name br0 address 02:00:00:00:01:01 mtu 9000 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
link set br0 addrgenmode none up
";

const ROUTER: [Mac; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 2, 1]];
const STATION: [Mac; 2] = [[2, 0, 0, 0, 1, 0x10], [2, 0, 0, 0, 2, 2]];

/// Where the client asks for the server to be translated to.
const ALIAS: &str = "198.18.66.6";
const NEAR: &str = "198.18.1.99";
const SERVER: &str = "198.18.2.99";

/// How packets look on the way to the other router.
#[derive(Clone, Copy, PartialEq)]
enum Beyond {
    Plain,
    Masqueraded,
    Tunnel(&'static [(u16, u16)]),
    Esp,
}

fn rules(far: &str, translated: bool) -> String {
    let nat = match translated {
        false => String::new(),
        true => format!(
            "table ip nat {{
	chain prerouting {{
		type nat hook prerouting priority 0;
		ip daddr {ALIAS} tcp dport 1666 counter dnat ip to {SERVER}:12345
	}}
	chain postrouting {{
		type nat hook postrouting priority 0;
		oifname wan counter masquerade
	}}
}}
"
        ),
    };
    format!(
        "table inet filter {{
	flowtable f1 {{ hook ingress priority 0; devices = {{ lan, wan }}; counter; }}
	chain forward {{
		type filter hook forward priority 0; policy drop;
		oifname {far} tcp dport 12345 ct mark set 1 flow add @f1 counter accept
		ct mark 1 ct direction original counter accept
		ct mark 1 ct direction reply counter accept
		ct state established,related counter accept
		meta l4proto icmp counter accept
	}}
}}
{nat}"
    )
}

/// A connection over one way: it is opened, both speak, too long as well, and it is closed.
struct Talk {
    beyond: Beyond,
    near: &'static [(u16, u16)],
    peer: Peer,
    translated: bool,
}

impl Talk {
    /// A segment of the client (0) or of the server (1).
    fn segment(
        &mut self,
        from: usize,
        flags: u8,
        seq: [u32; 2],
        len: usize,
    ) -> (&'static str, Frame) {
        let masqueraded = self.beyond == Beyond::Masqueraded;
        let (source, to) = match (from, masqueraded) {
            (0, _) => (NEAR, if self.translated { ALIAS } else { SERVER }),
            (_, true) => (SERVER, "198.19.10.1"),
            (_, false) => (SERVER, NEAR),
        };
        let service = if from == 0 && self.translated { 1666 } else { 12345 };
        let ports = if from == 0 { (40000, service) } else { (12345, 40000) };
        let tcp = |frame: Frame| {
            let acknowledged = if flags & 16 != 0 { seq[1 - from] } else { 0 };
            let frame = frame.ip4(source, to).df().tcp(ports.0, ports.1).flags(flags);
            let frame = frame.set(4, &seq[from].to_be_bytes()).set(8, &acknowledged.to_be_bytes());
            frame.set(14, &[0x20, 0]).zeros(len)
        };
        let tagged = |frame: Frame, tags: &[(u16, u16)]| {
            tags.iter().fold(frame, |frame, &(protocol, tci)| frame.tag(protocol, tci))
        };
        if from == 0 {
            return ("lan", tcp(tagged(ethernet(ROUTER[0], STATION[0]), self.near)));
        }
        let wire = ethernet(ROUTER[1], STATION[1]);
        let frame = match self.beyond {
            Beyond::Plain | Beyond::Masqueraded => tcp(wire),
            Beyond::Tunnel(tags) => {
                let inner = tcp(bare()).bytes();
                let outer = tagged(wire, tags).ip4("198.19.10.2", "198.19.10.1").df();
                outer.protocol(4).data(&inner)
            }
            Beyond::Esp => {
                let inner = tcp(bare()).bytes();
                let sealed = self.peer.seal("198.19.10.1", false, &inner).unwrap_or_default();
                wire.ethertype(0x800).data(&sealed)
            }
        };
        ("wan", frame)
    }

    fn all(mut self, mut scenario: Scenario) -> Scenario {
        const SYN: u8 = 2;
        const FIN: u8 = 1;
        const ACK: u8 = 16;
        let mut seq = [1000, 5000];
        for (from, flags, len) in [
            (0, SYN, 0),
            (1, SYN | ACK, 0),
            (0, ACK, 0),
            (0, ACK, 100),
            (1, ACK, 700),
            (0, ACK, 1300),
            (1, ACK, 1300),
            (0, ACK, 3000),
            (0, ACK, 10),
            (1, ACK, 10),
            (0, FIN | ACK, 0),
            (1, FIN | ACK, 0),
            (0, ACK, 0),
        ] {
            let frame = self.segment(from, flags, seq, len);
            // What is too long does not arrive: it is said again in shorter segments.
            if len < 2000 {
                seq[from] += len as u32 + u32::from(flags & (SYN | FIN) != 0);
            }
            scenario = sent(scenario, &[frame]).wait(Duration::from_millis(1));
        }
        scenario
    }
}

fn stage(
    name: &str,
    net: String,
    far: &str,
    (beyond, near, translated): (Beyond, &'static [(u16, u16)], bool),
) -> Scenario {
    let rules = rules(far, translated);
    let peer = Peer::of(&net, 0x2001);
    let scenario = Scenario::new(&format!("selftest_flowtable_{name}"), &net, &rules).at_once();
    Talk { beyond, near, peer, translated }.all(scenario)
}

/// All stages.
pub fn all() -> Vec<Scenario> {
    const VLAN: &[(u16, u16)] = &[(0x8100, 10)];
    let client = |device: &str| CLIENT.replace("DEV", device);
    let direct = "route add 198.18.2.0/24 via 198.19.10.2 dev wan\n";
    let plain = format!("{WIRES}{}{direct}", client("lan"));
    let bridge = format!("{WIRES}{BRIDGE}link set lan master br0\n{}{direct}", client("br0"));
    let vlan = format!(
        "{WIRES}link add link lan name lan.10 type vlan id 10\nlink set lan.10 addrgenmode \
         none up\n{BRIDGE}link set lan.10 master br0\n{}{direct}",
        client("br0")
    );
    let tunnel = format!(
        "{WIRES}{}link add name tun0 type ipip local 198.19.10.1 remote 198.19.10.2\nlink set tun0 \
         up\nroute add 198.18.2.0/24 dev tun0\n",
        client("lan")
    );
    let tunnel_in_vlan = tunnel
        .replace(
            "addr add 198.19.10.1/24 dev wan\n",
            "link add link wan name wan.10 type vlan id 10\nlink set wan.10 addrgenmode none \
             up\naddr add 198.19.10.1/24 dev wan.10\n",
        )
        .replace("02:02 dev wan ", "02:02 dev wan.10 ");
    let cipher = "mode tunnel auth hmac(sha256) \
                  0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f enc \
                  ecb(cipher_null) \"\"";
    let esp = format!(
        "{plain}xfrm state add src 198.19.10.1 dst 198.19.10.2 proto esp spi 0x1001 reqid 1 {cipher}
xfrm state add src 198.19.10.2 dst 198.19.10.1 proto esp spi 0x2001 reqid 2 {cipher}
xfrm policy add src 198.18.1.0/24 dst 198.18.2.0/24 dir out tmpl src 198.19.10.1 dst 198.19.10.2 proto esp reqid 1 mode tunnel
xfrm policy add src 198.18.2.0/24 dst 198.18.1.0/24 dir fwd tmpl src 198.19.10.2 dst 198.19.10.1 proto esp reqid 2 mode tunnel
"
    );
    vec![
        stage("plain", plain.clone(), "wan", (Beyond::Plain, &[], false)),
        stage("translated", plain, "wan", (Beyond::Masqueraded, &[], true)),
        stage("bridge", bridge, "wan", (Beyond::Masqueraded, &[], true)),
        stage("vlan_in_bridge", vlan, "wan", (Beyond::Masqueraded, VLAN, true)),
        stage("tunnel", tunnel, "tun0", (Beyond::Tunnel(&[]), &[], false)),
        stage("tunnel_in_vlan", tunnel_in_vlan, "tun0", (Beyond::Tunnel(VLAN), &[], false)),
        stage("ipsec", esp, "wan", (Beyond::Esp, &[], false)),
    ]
}
