// SPDX-License-Identifier: Apache-2.0

//! A web server: the files of a [`Directory`](super::Directory), for reading. Whether there is
//! another head is asked with the tag of the last one. Reports are put, where the server takes them.

use std::time::{Duration, Instant};

use penstock_fetch::Client;

use super::{Access, Error, Store, Version, blob_name, failed};
use crate::report::is_node_name;
use crate::{Digest, limits};

/// How often it is asked whether there is another head.
const PULSE: Duration = Duration::from_secs(1);

/// A web server.
pub struct Https {
    address: String,
    client: Client,
}

impl Https {
    /// The store below an address.
    ///
    /// # Errors
    /// Files with certificates cannot be used.
    pub fn new(address: &str, access: &Access) -> Result<Https, Error> {
        let client = Client::new(&access.http).map_err(|e| Error::Refused(e.to_string()))?;
        Ok(Https { address: address.trim_end_matches('/').to_owned(), client })
    }

    /// The head, unless it has this tag.
    fn newer(&self, tag: Option<&str>) -> Result<Option<Version>, Error> {
        let url = format!("{}/head", self.address);
        let request = self.client.get(&url).limit(limits::HEAD);
        let answer = request.unless(tag.unwrap_or_default()).send().map_err(failed)?;
        if answer.unchanged() || answer.status == 404 {
            return Ok(None);
        }
        let etag = answer.etag.clone();
        let bytes = answer.ok().map_err(failed)?;
        // Of a server without tags, the head itself is one.
        let tag_of_bytes = || format!("\"{}\"", Digest::of(&bytes));
        let version = Version { tag: etag.unwrap_or_else(tag_of_bytes), bytes };
        Ok(Some(version).filter(|version| Some(version.tag.as_str()) != tag))
    }
}

impl Store for Https {
    fn address(&self) -> String {
        match (self.address.split_once("://"), self.address.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
            _ => self.address.clone(),
        }
    }

    fn blobs(&self, digests: &[Digest]) -> Result<Vec<Vec<u8>>, Error> {
        let get = |digest: &Digest| {
            let url = format!("{}/blobs/{}", self.address, blob_name(*digest));
            let answer = self.client.get(&url).limit(limits::BLOB).send().map_err(failed)?;
            if answer.status == 404 {
                return Err(Error::Missing(*digest));
            }
            answer.ok().map_err(failed)
        };
        digests.iter().map(get).collect()
    }

    fn put_blobs(&self, _blobs: &[&[u8]]) -> Result<(), Error> {
        Err(read_only())
    }

    fn missing(&self, _digests: &[Digest]) -> Result<Vec<Digest>, Error> {
        Err(read_only())
    }

    fn names(&self) -> Result<Vec<Digest>, Error> {
        Err(read_only())
    }

    fn remove(&self, _tag: &str, _digests: &[Digest]) -> Result<bool, Error> {
        Err(read_only())
    }

    fn head(&self) -> Result<Option<Version>, Error> {
        self.newer(None)
    }

    fn swap_head(&self, _tag: Option<&str>, _bytes: &[u8]) -> Result<bool, Error> {
        Err(read_only())
    }

    fn wait(&self, tag: Option<&str>, time: Duration) -> Result<Option<Version>, Error> {
        let end = Instant::now() + time;
        loop {
            if let Some(version) = self.newer(tag)? {
                return Ok(Some(version));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(PULSE.min(left));
        }
    }

    fn report(&self, node: &str, report: &[u8], _time: Duration) -> Result<(), Error> {
        if !is_node_name(node) {
            return Err(Error::Refused(format!("{node:?} is no name of a node")));
        }
        let url = format!("{}/reports/{node}", self.address);
        let answer = self.client.put(&url).body(report).send().map_err(failed)?;
        match answer.status {
            200..300 => Ok(()),
            403 | 404 | 405 | 501 => Err(Error::Refused("the server takes no reports".into())),
            _ => answer.ok().map(drop).map_err(failed),
        }
    }

    fn reports(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        Err(Error::Refused("a web server has no list of reports: ask the directory".into()))
    }
}

fn read_only() -> Error {
    Error::Refused(
        "a web server is for reading: the directory that it serves is the store to write to".into(),
    )
}
