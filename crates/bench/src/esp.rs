// SPDX-License-Identifier: Apache-2.0

//! ESP in tunnel mode, AES-128-GCM, packets of 1400 bytes: the cipher alone, the whole way with
//! connection tracking and a rule, and by a flowtable at early ingress; out into the tunnel, and
//! (`-in`) out of it.

use std::hint::black_box;
use std::net::IpAddr;
use std::rc::Rc;

use penstock_dataplane::Settings;
use penstock_testkit::build::*;
use penstock_xfrm::{Aead, Algorithms, Config, Mark, Mode, Outer, Selector, StateConfig, Xfrm};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::Variant;
use crate::frames::Frames;
use crate::router::{Fate, Router, ruleset};

/// Bytes of an inner packet.
const LEN: usize = 1400;
/// Packets, of one flow.
const PACKETS: usize = 64;
const KEY: [u8; 20] = [7; 20];

/// A gateway of a tunnel between `lan` and the network behind the peer on `wan`. Received packets
/// have no replay window, so the same packets may be received again.
fn net() -> String {
    let key: String = KEY.iter().map(|b| format!("{b:02x}")).collect();
    let aead = format!("aead rfc4106(gcm(aes)) 0x{key} 128");
    let ends = ["src 198.19.0.1 dst 198.19.0.2", "src 198.19.0.2 dst 198.19.0.1"];
    let [out, back] = ends.map(|ends| format!("tmpl {ends} proto esp reqid 1 mode tunnel"));
    let [near, far] = ["198.18.0.0/24", "203.0.113.0/24"];
    format!(
        "link add wan address 02:00:00:00:00:01 type veth
        link add lan address 02:00:00:00:00:02 type veth
        link set wan up
        link set lan up
        addr add 198.19.0.1/24 dev wan
        addr add 198.18.0.1/24 dev lan
        neigh add 198.19.0.2 lladdr 02:00:00:00:00:b7 dev wan
        neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev lan
        route add {far} via 198.19.0.2
        xfrm state add {} proto esp spi 1 reqid 1 mode tunnel flag esn replay-window 32 {aead}
        xfrm state add {} proto esp spi 2 reqid 1 mode tunnel {aead}
        xfrm policy add src {near} dst {far} dir out {out}
        xfrm policy add src {far} dst {near} dir fwd {back}",
        ends[0], ends[1]
    )
}

const NORMAL: &str = "table ip t {
    chain f {
        type filter hook forward priority 0; policy drop
        ct state new,established accept
    }
}";

const FAST: &str = "table ip t {
    flowtable f {
        hook early_ingress priority 0
        devices = { lan, wan }
    }
    chain f {
        type filter hook forward priority 0; policy drop
        ct state new,established flow add @f
        ct state new,established accept
    }
}";

/// A packet from the host behind `lan` to one behind the tunnel, or the reply.
fn inner(answer: bool) -> Vec<u8> {
    let (near, far) = ("198.18.0.7", "203.0.113.7");
    let (src, dst, ports) = if answer { (far, near, (9, 1000)) } else { (near, far, (1000, 9)) };
    (Ipv4::new(src, dst) / Udp::new(ports.0, ports.1) / payload(vec![5; LEN - 28])).build()
}

/// Packets for the tunnel, of one flow.
pub(crate) fn outgoing() -> Vec<Vec<u8>> {
    let ether: &[u8] = &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0xa7, 8, 0];
    vec![[ether, &inner(false)].concat(); PACKETS]
}

/// Answers as the other end encrypts them.
pub(crate) fn incoming() -> Vec<Vec<u8>> {
    let ether: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xb7, 8, 0];
    let [source, destination] =
        ["198.19.0.2", "198.19.0.1"].map(|a| a.parse::<IpAddr>().expect("an address"));
    let aead = Aead::new("rfc4106(gcm(aes))", &KEY, 128).expect("a key");
    let state = StateConfig {
        source,
        destination,
        spi: 2,
        mode: Mode::Tunnel,
        reqid: 1,
        algorithms: Algorithms::Aead(aead),
        window: 0,
        seq: 0,
        oseq: 0,
        flags: Default::default(),
        selector: Selector::default(),
        limits: Default::default(),
        encapsulation: None,
        mark: Mark::default(),
        output_mark: Mark::default(),
        out: None,
    };
    let mut config = Config::default();
    config.add_state(state, false).expect("a state");
    let mut xfrm = Xfrm::new(&config, || 1);
    let id = xfrm.find(destination, 2, 0, false, 0).expect("the state");
    let sealed = |_| {
        let packet = inner(true);
        let room = xfrm.room(id, &packet).expect("room");
        let mut network = [vec![0; room.head], packet, vec![0; room.tail]].concat();
        let outer = Outer { hop_limit: 64, id: 1 };
        xfrm.seal(id, &mut network, room, outer, 0).expect("encryption");
        [ether, &network].concat()
    };
    (0..PACKETS).map(sealed).collect()
}

fn gateway(rules: &str) -> Router {
    Router::between(&net(), Settings::default(), &ruleset(rules))
}

/// A gateway with the flow, in both directions, in its flowtable.
pub(crate) fn offloaded(out: &Rc<Frames>, back: Option<&Rc<Frames>>) -> Box<dyn FnMut()> {
    let mut gateway = gateway(FAST);
    (0..2).for_each(|_| gateway.check(out, Fate::Sent));
    let frames = match back {
        Some(back) => {
            gateway = gateway.at("wan");
            gateway.check(back, Fate::Sent);
            back
        }
        None => out,
    };
    Box::new(gateway.sending_fast(frames))
}

/// A gateway that tracks the flow and has a rule for it.
pub(crate) fn normal(out: &Rc<Frames>, back: Option<&Rc<Frames>>) -> Box<dyn FnMut()> {
    let mut gateway = gateway(NORMAL);
    gateway.check(out, Fate::Sent);
    match back {
        Some(back) => Box::new(gateway.at("wan").sending(back, Fate::Sent)),
        None => Box::new(gateway.sending(out, Fate::Sent)),
    }
}

/// Only encryption, or decryption, of equally many bytes, each in its own buffer.
fn cipher(open: bool) -> impl FnMut() {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY[..16]).expect("a key"));
    let nonce = || Nonce::assume_unique_for_key([1; 12]);
    let aad = || Aad::from([1u8; 8]);
    let mut sealed = vec![5; LEN];
    let tag = key.seal_in_place_separate_tag(nonce(), aad(), &mut sealed).expect("encryption");
    sealed.extend_from_slice(tag.as_ref());
    let mut buffers = vec![sealed; PACKETS];
    let whole = buffers.clone();
    move || {
        for (buffer, whole) in buffers.iter_mut().zip(&whole) {
            if open {
                // Decryption needs what was encrypted, each time.
                buffer.copy_from_slice(whole);
                black_box(key.open_in_place(nonce(), aad(), buffer).is_ok());
            } else {
                let text = buffer.get_mut(..LEN).unwrap_or_default();
                black_box(key.seal_in_place_separate_tag(nonce(), aad(), text).is_ok());
            }
        }
    }
}

pub(crate) fn variants() -> Vec<Variant> {
    let [out, back] = [outgoing(), incoming()].map(|all| Rc::new(Frames::hot(all.into_iter())));
    let packets = PACKETS as u64;
    vec![
        Variant::new("cipher-1400", packets, cipher(false)),
        Variant::new("normal-1400", packets, normal(&out, None)).against("cipher-1400"),
        Variant::new("fast-1400", packets, offloaded(&out, None)).against("cipher-1400"),
        Variant::new("fast-against-normal-1400", packets, offloaded(&out, None))
            .against("normal-1400"),
        Variant::new("cipher-in-1400", packets, cipher(true)),
        Variant::new("normal-in-1400", packets, normal(&out, Some(&back)))
            .against("cipher-in-1400"),
        Variant::new("fast-in-1400", packets, offloaded(&out, Some(&back)))
            .against("cipher-in-1400"),
    ]
}
