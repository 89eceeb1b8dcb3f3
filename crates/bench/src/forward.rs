// SPDX-License-Identifier: Apache-2.0

//! The whole way from one device to another.

use std::rc::Rc;

use penstock_dataplane::Settings;

use crate::flow::NET;
use crate::frames::{Frames, flow, flow6};
use crate::router::{Fate, Router, ruleset};
use crate::{Scale, Variant};

fn stateful(family: &str) -> String {
    format!(
        "table {family} t {{
    chain f {{
        type filter hook forward priority 0; policy drop
        ct state established,related accept
        ct state new accept
    }}
}}"
    )
}

const MASQUERADE: &str = "table ip t {
    chain n {
        type nat hook postrouting priority srcnat
        oifname wan masquerade
    }
}";

/// The network of IPv4, and the same in IPv6.
fn network() -> String {
    format!(
        "{NET}addr add 2001:db8:2::1/64 dev wan nodad
addr add 2001:db8:3::1/64 dev lan nodad
neigh add 2001:db8:2::7 lladdr 02:00:00:00:00:b7 dev wan
neigh add 2001:db8:3::7 lladdr 02:00:00:00:00:a7 dev lan
route add 2001:db8:1::/64 via 2001:db8:3::7
"
    )
}

fn router(rules: &str, flows: usize) -> Router {
    let mut settings = Settings::default();
    settings.conntrack.max = settings.conntrack.max.max(2 * flows as u32);
    Router::between(&network(), settings, &ruleset(rules))
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let stateful4 = stateful("ip");
    let one = Rc::new(Frames::hot((0..64).map(|_| flow(0, 9))));
    let flows = scale.count(10_000);
    let many = Rc::new(Frames::hot((0..flows).map(|n| flow(n, 9))));
    let most = Rc::new(Frames::hot((0..scale.count(1_000_000)).map(|n| flow(n, 9))));
    let many6 = Rc::new(Frames::hot((0..flows).map(|n| flow6(n, 9))));
    let cold = Rc::new(Frames::cold((0..flows).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: &str, frames: &Rc<Frames>| {
        let router = router(rules, frames.len()).answered(frames);
        Variant::new(name, frames.len() as u64, router.sending(frames, Fate::Sent))
    };
    let unanswered = Variant::new(
        "ct-new-10k",
        many.len() as u64,
        router(&stateful4, many.len()).sending(&many, Fate::Sent),
    );
    vec![
        variant("plain-1", "", &one),
        variant("plain-10k", "", &many),
        variant("plain-10k-cold", "", &cold),
        variant("plain-1m", "", &most),
        variant("ct-1", &stateful4, &one).against("plain-1"),
        variant("ct-10k", &stateful4, &many).against("plain-10k"),
        variant("ct-10k-cold", &stateful4, &cold).against("plain-10k-cold"),
        variant("ct-1m", &stateful4, &most).against("plain-1m"),
        unanswered.against("plain-10k"),
        variant("masquerade-1", MASQUERADE, &one).against("plain-1"),
        variant("masquerade-10k", MASQUERADE, &many).against("plain-10k"),
        variant("masquerade-10k-cold", MASQUERADE, &cold).against("plain-10k-cold"),
        variant("plain6-10k", "", &many6).against("plain-10k"),
        variant("ct6-10k", &stateful("ip6"), &many6).against("plain6-10k"),
    ]
}
