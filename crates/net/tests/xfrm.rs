// SPDX-License-Identifier: Apache-2.0

//! Lines about IPsec: what is understood, and what is refused how.

use penstock_net::Network;
use penstock_xfrm::{Action, Algorithms, Direction, Encryption, Level, Mark, Mode, Selector};

const KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";

fn read(lines: &str) -> Result<Network, String> {
    Network::from_batch("net.ip", lines).map_err(|e| e.to_string())
}

fn aead() -> String {
    format!("aead 'rfc4106(gcm(aes))' {KEY} 128")
}

#[test]
fn every_ip_xfrm_state_option_is_read() {
    let net = read(
        "ip xfrm state add src 198.18.0.1 dst 198.18.0.2 proto esp spi 0xabc mode tunnel reqid 7 mark 5 mask 0xff \\
            replay-window 128 replay-seq 9 replay-seq-hi 1 replay-oseq 10 flag esn noecn nopmtudisc extra-flag dont-encap-dscp \\
            enc 'cbc(aes)' 0x00112233445566778899aabbccddeeff auth-trunc 'hmac(sha256)' secret 128 \\
            sel src 198.18.1.0/24 dst 198.18.2.0/24 proto tcp sport 80 \\
            limit byte-soft 1m limit packet-hard 9 limit time-hard 60 encap espinudp 4500 4501 0.0.0.0 output-mark 3",
    )
    .unwrap();
    let [state] = net.xfrm().states() else { panic!("one state") };
    assert_eq!((state.spi, state.reqid, state.mode, state.window), (0xabc, 7, Mode::Tunnel, 128));
    assert_eq!((state.seq, state.oseq), ((1 << 32) + 9, 10));
    assert_eq!(
        (state.mark, state.output_mark),
        (Mark { value: 5, mask: 0xff }, Mark { value: 3, mask: u32::MAX })
    );
    let flags = state.flags;
    assert!(
        flags.esn && flags.noecn && flags.nopmtudisc && flags.dont_encap_dscp && !flags.decap_dscp
    );
    assert!(
        matches!(&state.algorithms, Algorithms::Pair(Encryption::AesCbc(key), _) if key.len() == 16)
    );
    let source = (u128::from(u32::from_be_bytes([198, 18, 1, 0])), 24);
    let destination = (u128::from(u32::from_be_bytes([198, 18, 2, 0])), 24);
    let ports = ((80, 0xffff), (0, 0));
    let selector = Selector {
        v6: Some(false),
        source,
        destination,
        protocol: 6,
        sport: ports.0,
        dport: ports.1,
        device: 0,
    };
    assert_eq!(state.selector, selector);
    let limits = state.limits;
    assert_eq!((limits.soft_bytes, limits.hard_packets, limits.hard_add), (1 << 20, 9, 60));
    assert_eq!(state.encapsulation.map(|e| (e.sport, e.dport)), Some((4500, 4501)));
}

#[test]
fn every_ip_xfrm_policy_option_is_read() {
    let net = read(
        "xfrm policy add src 2001:db8:1::/64 dst 2001:db8:2::/64 proto ipv6-icmp type 128 code 0 dir fwd priority 7 action allow \\
            tmpl src 2001:db8::1 dst 2001:db8::2 proto esp mode tunnel reqid 3 level use tmpl proto esp spi 9 mode transport
        xfrm policy add src 198.18.0.0/15 dir out action block mark 1
        ip -6 xfrm policy add dir in tmpl proto esp mode transport
        xfrm policy update src 198.18.0.0/15 dir out action allow mark 1
        xfrm policy setdefault in block fwd accept",
    )
    .unwrap();
    let [first, third, second] = net.xfrm().policies() else { panic!("{:?}", net.xfrm()) };
    assert_eq!(
        (first.direction, first.priority, first.selector.v6),
        (Direction::Forward, 7, Some(true))
    );
    assert_eq!((first.selector.sport, first.selector.dport), ((128, 0xffff), (0, 0xffff)));
    let [tunnel, transport] = &first.templates[..] else { panic!("two templates") };
    assert_eq!((tunnel.mode, tunnel.reqid, tunnel.level), (Mode::Tunnel, 3, Level::Use));
    assert_eq!(
        (transport.mode, transport.spi, transport.level),
        (Mode::Transport, 9, Level::Required)
    );
    assert!(transport.source.is_ipv6() && transport.source.is_unspecified());
    assert_eq!((second.direction, second.action), (Direction::Out, Action::Allow));
    assert_eq!((third.direction, third.selector.v6), (Direction::In, Some(true)));
}

#[test]
fn impossible_xfrm_lines_are_refused_with_their_place() {
    let state =
        |rest: &str| format!("xfrm state add src 198.18.0.1 dst 198.18.0.2 proto esp spi 1 {rest}");
    let policy = |rest: &str| format!("xfrm policy add src 198.18.0.0/16 dst 198.19.0.0/16 {rest}");
    let a = aead();
    for (line, want) in [
        ("xfrm".into(), "\"xfrm\" needs \"state\" or \"policy\""),
        ("xfrm frob".into(), "unknown word \"frob\""),
        ("xfrm state".into(), "\"xfrm state\" needs a command"),
        ("xfrm state get".into(), "\"xfrm state get\" is not supported yet"),
        (state(""), "\"proto esp\" needs \"aead\", or \"enc\" and \"auth\""),
        (
            "xfrm state add dst 198.18.0.2 proto ah spi 1".into(),
            "\"proto ah\" is not supported yet",
        ),
        (format!("xfrm state add dst 198.18.0.2 proto esp {a}"), "\"xfrm state\" needs an \"spi\""),
        (
            state(&format!("{a} enc cipher_null ''")),
            "\"aead\" stands for \"enc\" and \"auth\" together",
        ),
        (state(&format!("{a} {a}")), "\"aead\" is there twice"),
        (
            state("aead 'rfc4309(ccm(aes))' 0x00 128"),
            "algorithm \"rfc4309(ccm(aes))\" is not supported yet",
        ),
        (
            state("aead 'rfc4106(gcm(aes))' 0x0011 128"),
            "a key of 16 bits does not fit \"rfc4106(gcm(aes))\"",
        ),
        (state("enc 'cbc(aes)' 0x001"), "the key of \"cbc(aes)\" is not hexadecimal"),
        (state(&format!("{a} mode beet")), "\"mode beet\" is not supported yet"),
        (
            state(&format!("{a} if_id 5")),
            "\"if_id\" is not supported: there are no xfrm interfaces",
        ),
        (state(&format!("{a} offload dev x dir in")), "\"offload\" is not supported yet"),
        (state(&format!("{a} tfcpad 100")), "\"tfcpad\" is not supported yet"),
        (state(&format!("{a} flag esn")), "\"flag esn\" needs a \"replay-window\""),
        (state(&format!("{a} flag esn replay-window 5000")), "\"replay-window\" is 4096 at most"),
        (state(&format!("{a} flag icmp")), "\"flag icmp\" is not supported yet"),
        (
            state(&format!("{a} replay-oseq-hi 1")),
            "the high half of sequence numbers needs \"flag esn\"",
        ),
        (
            state(&format!("{a} encap espintcp 1 2 0.0.0.0")),
            "\"encap espintcp\" is not supported yet",
        ),
        (
            state(&format!("{a} sel sport 5")),
            "ports, types, codes and keys need a protocol that has them",
        ),
        (format!("{}\n{}", state(&a), state(&a)), "File exists"),
        (
            format!(
                "{}\nxfrm state delete dst 198.18.0.2 proto esp spi 1\nxfrm state delete dst 198.18.0.2 spi 1",
                state(&a)
            ),
            "No such process",
        ),
        (state(&a).replace("add", "update"), "No such process"),
        (policy(""), "\"xfrm policy\" needs \"dir\""),
        (policy("dir up"), "\"up\" is not a direction"),
        (policy("dir out dev nothere"), "Cannot find device \"nothere\""),
        (policy("dir out ptype sub"), "\"ptype sub\" is not supported yet"),
        (policy("dir out tmpl mode tunnel"), "\"tmpl\" needs \"proto esp\""),
        (
            policy("dir out tmpl src 198.18.0.1 dst 198.18.0.2 proto esp mode tunnel level use"),
            "Mode in optional template not allowed in outbound policy",
        ),
        (
            policy("dir out tmpl src :: dst :: proto esp mode transport"),
            "Mode in template doesn't support a family change",
        ),
        (format!("{}\n{}", policy("dir out"), policy("dir out priority 5")), "File exists"),
    ] {
        let error = read(&line).unwrap_err();
        let place = format!("net.ip:{}: ", line.lines().count());
        assert_eq!(error, format!("{place}{want}"), "{line}");
    }
}
