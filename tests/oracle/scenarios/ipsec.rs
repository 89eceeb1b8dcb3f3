// SPDX-License-Identifier: Apache-2.0

//! ESP without secrets: the null cipher makes every byte known.

use super::sent;
use crate::frame::{Frame, Mac, ethernet};
use crate::scenario::Scenario;

const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
addr add 198.18.0.1/24 dev lan
addr add 198.19.0.1/24 dev wan
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
route add 198.18.77.0/24 via 198.19.0.2 dev wan
";

const LAN: Mac = [2, 0, 0, 0, 1, 1];
const CLIENT: Mac = [2, 0, 0, 0, 1, 0x10];

const RULES: &str = "table inet t {
	chain forward {
		type filter hook forward priority 0;
		rt ipsec exists counter
		rt ipsec missing counter
		ipsec out ip daddr 198.19.0.2 counter
		ipsec out reqid 7 counter
		ipsec in reqid 7 counter
		meta ipsec exists counter
	}
	chain post {
		type filter hook postrouting priority 0;
		meta l4proto esp counter
		rt ipsec exists counter
		iif 0 counter
		iifname lan counter
		iifname wan counter
		counter
	}
	chain out {
		type filter hook output priority 0;
		iif 0 counter
		iifname lan counter
	}
}
";

/// All of them.
pub fn all() -> Vec<Scenario> {
    let cipher = "auth hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f \
                  enc ecb(cipher_null) \"\"";
    let tunnel = format!(
        "{NET}xfrm state add src 198.19.0.1 dst 198.19.0.2 proto esp spi 0x1001 reqid 7 mode \
         tunnel {cipher}\nxfrm policy add src 198.18.0.0/24 dst 198.18.77.0/24 dir out tmpl src \
         198.19.0.1 dst 198.19.0.2 proto esp reqid 7 mode tunnel\n"
    );
    let blocked =
        format!("{NET}xfrm policy add src 198.18.0.0/24 dst 198.18.77.0/24 dir out action block\n");
    vec![
        sent(Scenario::new("ipsec_tunnel_out", &tunnel, RULES), &frames()),
        sent(Scenario::new("ipsec_blocked", &blocked, RULES), &frames()),
    ]
}

fn frames() -> Vec<(&'static str, Frame)> {
    let out = || ethernet(LAN, CLIENT).ip4("198.18.0.10", "198.18.77.7");
    vec![
        ("lan", out().udp(1000, 53).data(b"question")),
        ("lan", out().tos(0xb9).udp(1000, 53).data(b"another question")),
        ("lan", out().df().udp(1000, 53).zeros(1450)),
        ("lan", out().udp(1000, 53).zeros(1450)),
        ("lan", ethernet(LAN, CLIENT).ip4("198.18.0.10", "198.19.0.2").udp(1, 2)),
    ]
}
