// SPDX-License-Identifier: Apache-2.0

//! Why there is no answer.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a request has no answer, or not the one that is wanted.
#[derive(Debug)]
pub enum Error {
    /// A file with certificates or a key cannot be used.
    File {
        /// Its name.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The address is not one of HTTP or HTTPS, or a header has characters that it cannot have.
    Url(String),
    /// The server was not reached, the certificate is not one that is trusted, or the connection
    /// ended.
    Away(String),
    /// The server did not answer, or not all of it, in the time that it had.
    Late,
    /// The answer has more bytes than it may.
    Large {
        /// The most that is read.
        limit: u64,
    },
    /// The server answered with a status that is no success.
    Status {
        /// The status code.
        status: u16,
        /// The beginning of the body, for the reader of a message.
        body: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { path, why } => write!(f, "{}: {why}", path.display()),
            Error::Url(why) | Error::Away(why) => f.write_str(why),
            Error::Late => f.write_str("no answer in time"),
            Error::Large { limit } => write!(f, "the answer has more than {limit} bytes"),
            Error::Status { status, body } if body.is_empty() => {
                write!(f, "the server answers {status}")
            }
            Error::Status { status, body } => write!(f, "the server answers {status}: {body}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Whether another server, or the same one later, may answer: nothing is wrong with the
    /// request itself.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Away(_) | Error::Late => true,
            Error::Status { status, .. } => *status >= 500 || *status == 429,
            Error::File { .. } | Error::Url(_) | Error::Large { .. } => false,
        }
    }

    pub(crate) fn of(error: ureq::Error, limit: u64) -> Error {
        match error {
            ureq::Error::Timeout(_) => Error::Late,
            ureq::Error::BodyExceedsLimit(_) => Error::Large { limit },
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Error::Url(error.to_string()),
            ureq::Error::Io(e) => Error::of_read(e, limit),
            other => Error::Away(other.to_string()),
        }
    }

    /// Errors of a request are inside those of the reader of its body.
    pub(crate) fn of_read(error: io::Error, limit: u64) -> Error {
        if error.get_ref().is_some_and(|inner| inner.is::<ureq::Error>()) {
            let inner = error.into_inner().and_then(|inner| inner.downcast::<ureq::Error>().ok());
            return inner.map_or(Error::Late, |inner| Error::of(*inner, limit));
        }
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Error::Late,
            _ => Error::Away(error.to_string()),
        }
    }
}
