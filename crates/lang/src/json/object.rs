//! Tables, chains, rules, sets, objects, flowtables.

use serde_json::{Map, Value, json};

use super::one_or_many;

/// Members of a proxy's configuration.
pub(super) fn synproxy(m: &mut Map<String, Value>, mss: u16, wscale: u8, flags: u32) {
    if flags & 1 != 0 {
        m.insert("mss".into(), json!(mss));
    }
    if flags & 2 != 0 {
        m.insert("wscale".into(), json!(wscale));
    }
    let mut words = Vec::new();
    if flags & 8 != 0 {
        words.push(json!("timestamp"));
    }
    if flags & 4 != 0 {
        words.push(json!("sack-perm"));
    }
    if !words.is_empty() {
        m.insert("flags".into(), one_or_many(words));
    }
}
