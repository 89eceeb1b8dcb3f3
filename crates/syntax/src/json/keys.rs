// SPDX-License-Identifier: Apache-2.0

//! Selectors that a keyword begins.

use penstock_program::expr::{
    CtDir, CtKey, FIB_PRESENT, MetaKey, NumgenMode, RtKey, SocketKey, XfrmKey,
};
use serde_json::{Map, Value, json};

use super::tagged;
use crate::ast::Key;
use crate::keys;

/// One of them.
pub(crate) fn key(key: &Key) -> Value {
    match key {
        Key::Meta { key } => meta(*key),
        Key::Ct { key, dir, .. } => ct(*key, *dir),
        Key::Rt { key } => {
            let family = match key {
                RtKey::Nexthop4 => Some("ip"),
                RtKey::Nexthop6 => Some("ip6"),
                RtKey::Classid | RtKey::TcpMss | RtKey::Xfrm => None,
            };
            let mut m = Map::new();
            let name = keys::rt(*key).name;
            m.insert("key".into(), json!(name.split_once(' ').map_or(name, |(_, bare)| bare)));
            if let Some(f) = family {
                m.insert("family".into(), json!(f));
            }
            tagged("rt", m)
        }
        Key::Fib { flags, result } => {
            let list: Vec<Value> = keys::FIB_FLAGS
                .iter()
                .filter(|(bit, _)| flags & bit != 0)
                .map(|(_, w)| json!(w))
                .collect();
            let result = if flags & FIB_PRESENT != 0 { "check" } else { keys::fib(*result).name };
            json!({"fib": {"result": result, "flags": list}})
        }
        // The level is lost in nft's JSON.
        Key::Socket { key: SocketKey::Cgroupv2, level } => {
            json!({"socket": {"key": "cgroupv2", "level": level}})
        }
        Key::Socket { key, .. } => json!({"socket": {"key": keys::socket(*key).name}}),
        Key::Osf { ttl, version } => {
            let mut m = Map::new();
            m.insert("key".into(), json!(if *version { "version" } else { "name" }));
            match ttl {
                1 => _ = m.insert("ttl".into(), json!("loose")),
                2 => _ = m.insert("ttl".into(), json!("skip")),
                _ => {}
            }
            tagged("osf", m)
        }
        Key::Xfrm { key, out, spnum } => {
            let family = match key {
                XfrmKey::DaddrIp4 | XfrmKey::SaddrIp4 => Some("ip"),
                XfrmKey::DaddrIp6 | XfrmKey::SaddrIp6 => Some("ip6"),
                XfrmKey::Reqid | XfrmKey::Spi => None,
            };
            let mut m = Map::new();
            let name = keys::xfrm(*key).name;
            m.insert("key".into(), json!(name.split_once(' ').map_or(name, |(_, bare)| bare)));
            if let Some(f) = family {
                m.insert("family".into(), json!(f));
            }
            m.insert("dir".into(), json!(if *out { "out" } else { "in" }));
            m.insert("spnum".into(), json!(spnum));
            tagged("ipsec", m)
        }
        Key::Tunnel { key } => json!({"tunnel": {"key": keys::tunnel(*key).name}}),
        Key::Numgen { mode, modulus, offset } => {
            let mode = match mode {
                NumgenMode::Inc => "inc",
                NumgenMode::Random => "random",
            };
            let mut m = Map::new();
            m.insert("mode".into(), json!(mode));
            m.insert("mod".into(), json!(modulus));
            m.insert("offset".into(), json!(offset));
            tagged("numgen", m)
        }
        Key::Symhash { modulus, offset } => {
            let mut m = Map::new();
            m.insert("mod".into(), json!(modulus));
            if *offset != 0 {
                m.insert("offset".into(), json!(offset));
            }
            tagged("symhash", m)
        }
    }
}

pub(crate) fn meta(key: MetaKey) -> Value {
    json!({"meta": {"key": keys::meta(key).name}})
}

pub(crate) fn ct(key: CtKey, dir: Option<CtDir>) -> Value {
    let mut m = Map::new();
    m.insert("key".into(), json!(keys::ct(key).name));
    if let Some(d) = dir {
        m.insert("dir".into(), json!(if d == CtDir::Original { "original" } else { "reply" }));
    }
    tagged("ct", m)
}
