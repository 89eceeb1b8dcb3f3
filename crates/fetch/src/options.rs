// SPDX-License-Identifier: Apache-2.0

//! How requests are made: certificates and times.

use std::path::PathBuf;
use std::time::Duration;

/// How requests are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// A file with the authorities that are trusted, in PEM; without it, those of the system
    /// (`SSL_CERT_FILE`, or where distributions keep them).
    pub ca: Option<PathBuf>,
    /// Files with the certificate that the client shows and its key, in PEM.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Time to connect.
    pub connect: Duration,
    /// Time for a request and its whole answer. Of an answer that comes line by line, it is the
    /// time until the first line may begin.
    pub time: Duration,
    /// Of an answer that comes line by line: the longest time without a byte.
    pub quiet: Duration,
}

impl Default for Options {
    /// Five seconds to connect, thirty for an answer, a minute between lines.
    fn default() -> Options {
        Options {
            ca: None,
            client: None,
            connect: Duration::from_secs(5),
            time: Duration::from_secs(30),
            quiet: Duration::from_secs(60),
        }
    }
}
