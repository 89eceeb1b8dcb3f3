// SPDX-License-Identifier: Apache-2.0

//! `penstock feed crowdsec`: decisions of CrowdSec's local API become the elements of sets.

use std::time::{Duration, Instant};

use penstock_feeds::crowdsec::{Decisions, Taken};
use penstock_fetch::{Client, Options as FetchOptions};

use super::clock::{self, Backoff};
use super::metrics::wall_time;
use super::options::Options;
use super::said::Said;
use super::sets::FedSets;

/// Bytes of the longest answer.
const LONGEST: u64 = 256 << 20;
/// How often all decisions are asked for. If the longest of several about the same addresses is
/// deleted, the API tells of no change.
const WHOLE: Duration = Duration::from_secs(3600);
/// How often is asked, unless it is said.
const INTERVAL: Duration = Duration::from_secs(10);

/// Runs until it is ended.
pub fn run(url: &str, options: &Options) -> Result<(), String> {
    let stream = format!("{}/v1/decisions/stream", url.trim_end_matches('/'));
    let fetch = FetchOptions { ca: options.ca.clone(), ..FetchOptions::default() };
    let client = Client::new(&fetch).map_err(|e| e.to_string())?;
    let interval = options.interval.unwrap_or(INTERVAL);
    let mut said = Said::new(options.verbose);
    let mut sets = FedSets::new(options);
    let mut decisions = Decisions::new(options.limit);
    let mut backoff = Backoff::new();
    let (mut is_known, mut is_startup) = (false, true);
    let (mut ask_at, mut read_time) = (Instant::now(), 0);
    let mut whole_at = Instant::now() + WHOLE;
    loop {
        if Instant::now() >= ask_at {
            if Instant::now() >= whole_at {
                is_startup = true;
                whole_at = Instant::now() + WHOLE;
            }
            let asked = key(options).and_then(|key| {
                let request = format!("{stream}?startup={is_startup}&scopes=ip,range");
                let answer = client.get(&request).header("x-api-key", key).limit(LONGEST).send();
                answer.and_then(|answer| answer.ok()).map_err(|e| format!("{stream}: {e}"))
            });
            let taken = asked.and_then(|json| {
                let taken = decisions.take(&json, is_startup, clock::now());
                taken.map_err(|what| format!("{stream}: {what}"))
            });
            match taken {
                Ok(taken) => {
                    tell(&taken, &mut said);
                    is_known = true;
                    is_startup = false;
                    backoff.reset();
                    read_time = wall_time();
                    ask_at = Instant::now() + interval;
                }
                Err(what) => {
                    said.failure(what);
                    // What was missed is not told again: the next answer has everything.
                    is_startup = true;
                    ask_at = Instant::now() + backoff.pause();
                }
            }
        }
        if is_known {
            let wanted = decisions.elements(clock::now());
            let is_made = sets.make(&wanted, &mut said);
            sets.write_metrics(options.metrics.as_deref(), &mut said, read_time);
            if is_made && !is_startup {
                said.success();
            }
        }
        sets.wait(ask_at);
    }
}

/// The key; it may have been replaced.
fn key(options: &Options) -> Result<String, String> {
    let path = options.key_file.as_deref().ok_or("--key-file has the key of the API")?;
    let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let bytes = penstock_files::read(path).map_err(|e| named(&e))?;
    let text = String::from_utf8(bytes).map_err(|_| named(&"it is no text"))?;
    let key = text.trim();
    let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic());
    if is_key { Ok(key.to_owned()) } else { Err(named(&"it has no key")) }
}

fn tell(taken: &Taken, said: &mut Said) {
    let Taken { new, deleted, ignored, malformed, beyond } = *taken;
    if new + deleted > 0 {
        said.note(format_args!("{new} new decisions, {deleted} deleted"));
    }
    if ignored > 0 {
        said.note(format_args!("{ignored} decisions are no bans of addresses"));
    }
    for (count, what) in [(malformed, "that make no sense"), (beyond, "beyond --limit")] {
        if count > 0 {
            said.refusal(format_args!("{count} decisions {what}"));
        }
    }
}
