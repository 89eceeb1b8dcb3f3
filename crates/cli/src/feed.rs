// SPDX-License-Identifier: Apache-2.0

//! `penstock feed`: block lists, decisions of CrowdSec and BGP announcements become elements and
//! rules of the running ruleset; elements of a set become announcements.

mod bgp;
mod clock;
mod crowdsec;
mod dataplane;
mod export;
mod lines;
mod list;
mod metrics;
pub mod options;
mod owner;
mod said;
mod set;
mod sets;

use std::ffi::OsString;
use std::process::ExitCode;

use penstock_daemon::errln;

use crate::options::{given, usage_lines};
use options::{Job, SECTIONS};

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock feed list URL|FILE --set SET... [OPTIONS]\n       \
         penstock feed crowdsec URL --set SET... --key-file FILE [OPTIONS]\n       \
         penstock feed exabgp | gobgp [OPTIONS]\n       \
         penstock feed export SET --next-hop ADDRESS... [OPTIONS]\n\n\
         Keeps elements and rules of the running ruleset as a source has them, until it is ended:\n\n  \
         list      addresses and prefixes, one a line, become the elements of sets\n  \
         crowdsec  decisions of CrowdSec's local API do, with their times\n  \
         exabgp    routes and flow specifications on standard input, as ExaBGP writes them for a\n            \
         process, become a table of their own; they go with their session\n  \
         gobgp     the same routes, as `gobgp monitor global rib -j --current` prints them\n  \
         export    elements of a set are printed as announcements for ExaBGP\n\n\
         All elements of a set that is fed are those of the feed. The table of BGP is made by it.\n",
    );
    for (title, options) in SECTIONS {
        let colon = if title.is_empty() { "" } else { ":" };
        out.push_str(&format!("\n{title}{colon}{}", if title.is_empty() { "" } else { "\n" }));
        out.push_str(&usage_lines(options, 24));
    }
    out
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match given("feed", options::parse(args), usage) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let ended = match &options.job {
        Job::List(source) => list::run(source, &options),
        Job::CrowdSec(url) => crowdsec::run(url, &options),
        Job::ExaBgp => bgp::run(penstock_feeds::bgp::exabgp::read, &options),
        Job::GoBgp => bgp::run(penstock_feeds::bgp::gobgp::read, &options),
        Job::Export(set) => export::run(set, &options),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            errln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}
