// SPDX-License-Identifier: Apache-2.0

//! Where publications are kept. A store has blobs, which never change; one head; and reports of
//! nodes, which end unless they are renewed. No store is trusted with more than being there.

mod directory;
mod etcd;
mod https;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use directory::Directory;
pub use etcd::Etcd;
pub use https::Https;
use penstock_fetch::Options;

use crate::Digest;

/// Why a store does not do what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It cannot be asked now.
    Away(String),
    /// It has no such blob.
    Missing(Digest),
    /// What it has is wrong.
    Wrong(String),
    /// It refuses, or cannot do this at all.
    Refused(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Away(why) => write!(f, "the store is away: {why}"),
            Error::Missing(digest) => write!(f, "the store has no blob {digest}"),
            Error::Wrong(why) | Error::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// The head of a store at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The signed head; it is not checked yet.
    pub bytes: Vec<u8>,
    /// What tells it from others, in the words of the store.
    pub tag: String,
}

/// Where publications are kept.
pub trait Store: Send + Sync {
    /// The address, without passwords.
    fn address(&self) -> String;

    /// Blobs, in the order of their digests. Whether they are what their names say is for the
    /// caller to find out.
    ///
    /// # Errors
    /// The store is away, or has not got one.
    fn blobs(&self, digests: &[Digest]) -> Result<Vec<Vec<u8>>, Error>;

    /// Puts blobs; those that are there already stay.
    ///
    /// # Errors
    /// The store is away or refuses.
    fn put_blobs(&self, blobs: &[&[u8]]) -> Result<(), Error>;

    /// Which of the blobs are not there.
    ///
    /// # Errors
    /// The store is away.
    fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, Error>;

    /// The names of all blobs that are there.
    ///
    /// # Errors
    /// The store is away, or has no list of them.
    fn names(&self) -> Result<Vec<Digest>, Error>;

    /// Removes blobs, if the head is still the one with this tag, and gives the head another tag.
    /// Returns whether all are gone: if not, the head has become another one meanwhile.
    ///
    /// # Errors
    /// The store is away or refuses.
    fn remove(&self, tag: &str, digests: &[Digest]) -> Result<bool, Error>;

    /// The head, if there is one.
    ///
    /// # Errors
    /// The store is away.
    fn head(&self) -> Result<Option<Version>, Error>;

    /// Replaces the head, if it is still the one with this tag (or if there is still none). Returns
    /// whether it was.
    ///
    /// # Errors
    /// The store is away or refuses.
    fn swap_head(&self, tag: Option<&str>, bytes: &[u8]) -> Result<bool, Error>;

    /// Waits until the head is another one than that with this tag, and gives it. `None` if it is
    /// the same for that time, or for less where the store waits less.
    ///
    /// # Errors
    /// The store is away.
    fn wait(&self, tag: Option<&str>, time: Duration) -> Result<Option<Version>, Error>;

    /// Puts or renews the report of a node, which ends after a time.
    ///
    /// # Errors
    /// The store is away, or takes no reports.
    fn report(&self, node: &str, report: &[u8], time: Duration) -> Result<(), Error>;

    /// Reports that have not ended, by the names of nodes.
    ///
    /// # Errors
    /// The store is away, or has no list of them.
    fn reports(&self) -> Result<Vec<(String, Vec<u8>)>, Error>;
}

/// How stores are asked.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Certificates and times.
    pub http: Options,
    /// A file with `USER:PASSWORD` for etcd.
    pub password: Option<PathBuf>,
}

/// The store at an address: a path, `dir:PATH`, `https://HOST/PATH`, `http://HOST/PATH`, or
/// `etcd://HOST:PORT[,HOST:PORT]/PREFIX`, which is `etcds://…` with TLS.
///
/// # Errors
/// The address is none of these, or files with certificates cannot be used. Nothing is asked yet.
pub fn open(address: &str, access: &Access) -> Result<Box<dyn Store>, Error> {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some("https" | "http") => Ok(Box::new(Https::new(address, access)?)),
        Some("etcd" | "etcds") => Ok(Box::new(Etcd::new(address, access)?)),
        Some(other) => Err(Error::Refused(format!(
            "there is no store of the kind `{other}`: dir:PATH, https://HOST/PATH, etcd://HOST:PORT/PREFIX"
        ))),
        None => {
            let path = address.strip_prefix("dir:").unwrap_or(address);
            if path.is_empty() {
                return Err(Error::Refused("the address of a store is empty".into()));
            }
            Ok(Box::new(Directory::new(path)))
        }
    }
}

/// The name of a blob below `blobs`.
pub(crate) fn blob_name(digest: Digest) -> String {
    let digits = digest.to_string();
    format!("{}/{}", &digits[..2], &digits[2..])
}

/// An error of a request.
fn failed(error: penstock_fetch::Error) -> Error {
    match error.is_passing() {
        true => Error::Away(error.to_string()),
        false => Error::Refused(error.to_string()),
    }
}
