// SPDX-License-Identifier: Apache-2.0

//! Text for `nft -f`.

use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;

use super::Target;
use crate::network::{NOW, net};
use crate::{language, mutate, seeds};

pub const TARGET: Target = Target {
    name: "ruleset",
    bytes: "text for `nft -f`",
    holds: "what is accepted is listed; the listing is accepted, and from then on listing and programs stay what \
            they are",
    longest: 4096,
    seeds: || seeds::rulesets().iter().map(|t| t.clone().into_bytes()).collect(),
    make: mutate::text_bytes,
    run,
};

/// Rules with these words nft 1.0.6 lists so that it does not read them, or reads them as something
/// else. (For some raw loads it ends by an assertion.)
const NFT_MISREADS: [&str; 6] = ["@ll,", "@nh,", "@th,", "@ih,", "nexthdr set ", "protocol set "];

/// The first listing may differ from the text, as in nft: `{ 1-2, 3 }` is `{ 1-3 }`, and that is
/// `1-3`.
fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let net = net();
    // All that can be printed takes several times as long as the rest.
    if data.len().is_multiple_of(4) {
        language::run_loudly(&text, &net, NOW);
    }
    let Ok(ruleset) = language::load(&text, &net, NOW) else { return };
    let again = |ruleset: &Ruleset| {
        let listing = language::list(ruleset, &net, NOW);
        if NFT_MISREADS.iter().any(|words| listing.contains(words)) {
            return None;
        }
        match language::load(&listing, &net, NOW) {
            Ok(again) => Some((listing, again)),
            Err(e) => panic!("a listing is refused:\n{e}\nof:\n{text}"),
        }
    };
    let Some((_, first)) = again(&ruleset) else { return };
    let Some((listing, second)) = again(&first) else { return };
    let Some((relisted, _)) = again(&second) else { return };
    for (what, a, b) in [
        ("text", &listing, &relisted),
        ("program", &language::programs(&first), &language::programs(&second)),
    ] {
        if let Some((a, b)) = a.lines().zip(b.lines()).find(|(a, b)| a != b) {
            panic!("the {what} of a listing becomes another:\n{a}\n{b}\nof:\n{text}");
        }
        assert_eq!(a.len(), b.len(), "the {what} of a listing becomes longer or shorter; of:\n{text}");
    }
    // What cannot run is refused, not met by packets.
    let _ = Linked::new(&first.generation());
}
