// SPDX-License-Identifier: Apache-2.0

//! `penstock feed list`: a list at an address or in a file becomes the elements of sets.

use std::path::Path;
use std::time::{Duration, Instant};

use penstock_feeds::elements::{Elements, cover};
use penstock_feeds::list;
use penstock_fetch::{Client, Options as FetchOptions};

use super::clock::{self, Backoff};
use super::metrics::wall_time;
use super::options::Options;
use super::said::Said;
use super::sets::FedSets;

/// Bytes of the longest list.
const LONGEST: u64 = 256 << 20;
/// How often a list is read, unless it is said.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Where a list is.
enum Source {
    Url { url: String, client: Box<Client>, etag: String },
    File(std::path::PathBuf),
}

impl Source {
    fn new(text: &str, options: &Options) -> Result<Source, String> {
        if !["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Source::File(text.into()));
        }
        let fetch = FetchOptions {
            ca: options.ca.clone(),
            time: Duration::from_secs(300),
            ..FetchOptions::default()
        };
        let client = Client::new(&fetch).map_err(|e| e.to_string())?;
        Ok(Source::Url { url: text.to_owned(), client: Box::new(client), etag: String::new() })
    }

    /// Reads the list; `None` if it is the one that was read before.
    fn read(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self {
            Source::File(path) => read_file(path).map(Some),
            Source::Url { url, client, etag } => {
                let answer = client.get(url).unless(etag).limit(LONGEST).send();
                let answer = answer.map_err(|e| format!("{url}: {e}"))?;
                if answer.unchanged() {
                    return Ok(None);
                }
                let tag = answer.etag.clone().unwrap_or_default();
                let body = answer.ok().map_err(|e| format!("{url}: {e}"))?;
                *etag = tag;
                Ok(Some(body))
            }
        }
    }

    /// A list that was refused is read again, even if it is still the same.
    fn forget(&mut self) {
        if let Source::Url { etag, .. } = self {
            etag.clear();
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let named = |e: std::io::Error| format!("{}: {e}", path.display());
    if std::fs::metadata(path).map_err(named)?.len() > LONGEST {
        return Err(format!("{}: it has more than {LONGEST} bytes", path.display()));
    }
    penstock_files::read(path).map_err(named)
}

/// The elements of a list.
fn elements(bytes: &[u8], options: &Options, said: &mut Said) -> Result<Elements, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
        format!("line {line}: it is no text")
    })?;
    let spans = if options.lenient {
        let mut spans = Vec::new();
        for (line, span) in list::lines(text) {
            match span {
                Ok(_) if spans.len() == options.limit => {
                    return Err(format!("line {line}: more than {} entries", options.limit));
                }
                Ok(span) => spans.push(span),
                Err(what) => said.refusal(format_args!("line {line}: {what}")),
            }
        }
        spans
    } else {
        list::read(text, options.limit).map_err(|e| e.to_string())?
    };
    if spans.is_empty() && !options.allow_empty {
        return Err("it has no entries, which --allow-empty permits".into());
    }
    Ok(cover(spans.into_iter().map(|span| (span, None)), clock::now()))
}

/// Runs until it is ended, or with --once until the elements are those of the list.
pub fn run(text: &str, options: &Options) -> Result<(), String> {
    let mut source = Source::new(text, options)?;
    let interval = options.interval.unwrap_or(INTERVAL);
    let mut said = Said::new(options.verbose);
    let mut sets = FedSets::new(options);
    let mut backoff = Backoff::new();
    let mut wanted: Option<Elements> = None;
    let (mut read_at, mut read_time) = (Instant::now(), 0);
    loop {
        if Instant::now() >= read_at {
            let read = source.read().and_then(|bytes| match bytes {
                Some(bytes) => elements(&bytes, options, &mut said)
                    .map(Some)
                    .map_err(|what| format!("{text}: {what}")),
                None => Ok(None),
            });
            match read {
                Ok(new) => {
                    if let Some(new) = new {
                        said.note(format_args!("{text}: {} elements", new.len()));
                        wanted = Some(new);
                    }
                    backoff.reset();
                    read_time = wall_time();
                    read_at = Instant::now() + interval;
                }
                Err(what) if options.once => return Err(what),
                Err(what) => {
                    source.forget();
                    said.failure(what);
                    read_at = Instant::now() + backoff.pause().min(interval);
                }
            }
        }
        if let Some(wanted) = &wanted {
            let is_made = sets.make(wanted, &mut said);
            sets.write_metrics(options.metrics.as_deref(), &mut said, read_time);
            if options.once {
                return if is_made { Ok(()) } else { Err("the sets are not fed".into()) };
            }
            if is_made && read_at > Instant::now() {
                said.success();
            }
        }
        sets.wait(read_at);
    }
}
