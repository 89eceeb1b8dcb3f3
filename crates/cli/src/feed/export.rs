// SPDX-License-Identifier: Apache-2.0

//! `penstock feed export`: elements of a set as announcements, in lines that ExaBGP takes from a
//! process.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use penstock_feeds::span::{Family, Span};

use super::clock::Backoff;
use super::dataplane::{self, Failure};
use super::options::Options;
use super::said::Said;
use super::set::FedSet;

/// How often a set that is followed is listed if nothing is told of it: what packets change is not
/// told.
const PERIOD: Duration = Duration::from_secs(60);
/// Changes that come within this time are one.
const TOGETHER: Duration = Duration::from_millis(200);

/// Prints the announcements, and with --follow what changes.
pub fn run(set: &str, options: &Options) -> Result<(), String> {
    let set = FedSet::new(set.to_owned());
    if !options.follow {
        let now = prefixes(&set).map_err(|failure| failure.to_string())?;
        return print(&BTreeSet::new(), &now, options).map(drop);
    }
    let mut said = Said::new(options.verbose);
    let mut backoff = Backoff::new();
    let mut announced = BTreeSet::new();
    let (news, changes) = channel();
    dataplane::watch("elements", news, || ());
    loop {
        let pause = match prefixes(&set) {
            Ok(now) => {
                said.success();
                backoff.reset();
                if !print(&announced, &now, options)? {
                    return Ok(());
                }
                announced = now;
                PERIOD
            }
            // While there is no dataplane nothing is withdrawn: it may be about to restart.
            Err(failure) => {
                said.failure(failure);
                backoff.pause()
            }
        };
        match changes.recv_timeout(pause) {
            Ok(()) => {
                std::thread::sleep(TOGETHER);
                while changes.try_recv().is_ok() {}
            }
            Err(RecvTimeoutError::Timeout) => {}
            // It never ends; if it did, waiting must not become a busy loop.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
        }
    }
}

/// The prefixes of a set; a range is several.
fn prefixes(set: &FedSet) -> Result<BTreeSet<Span>, Failure> {
    Ok(set.list()?.elements.keys().flat_map(|span| span.prefixes()).collect())
}

/// Prints what differs. Whether there is still a reader.
fn print(before: &BTreeSet<Span>, now: &BTreeSet<Span>, options: &Options) -> Result<bool, String> {
    let mut text = String::new();
    for (verb, prefixes) in
        [("withdraw", before.difference(now)), ("announce", now.difference(before))]
    {
        for prefix in prefixes {
            text.push_str(&line(verb, *prefix, options)?);
        }
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(|e| e.to_string()),
    }
}

fn line(verb: &str, prefix: Span, options: &Options) -> Result<String, String> {
    let is_of = |hop: &&IpAddr| (prefix.family() == Family::V4) == hop.is_ipv4();
    let hop = options.next_hops.iter().find(is_of);
    let hop = hop.ok_or_else(|| format!("there is no --next-hop for {prefix}"))?;
    let communities: Vec<String> =
        options.bgp.communities.iter().map(|c| format!("{}:{}", c >> 16, c & 0xffff)).collect();
    let (network, length) = prefix.as_prefix();
    Ok(format!(
        "{verb} route {network}/{length} next-hop {hop} community [{}]\n",
        communities.join(" ")
    ))
}
