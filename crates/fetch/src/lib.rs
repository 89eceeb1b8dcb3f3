// SPDX-License-Identifier: Apache-2.0

//! HTTP requests with limits: what is read has a largest size and a longest time, certificates are
//! always checked, and a secure request never continues without TLS.
//!
//! | file | is |
//! | --- | --- |
//! | [`options`] | certificates and times |
//! | [`client`] | a client: connections that are kept |
//! | [`request`] | one request and its answer |
//! | [`lines`] | an answer that comes line by line |
//! | [`tls`] | certificates and keys from files |
//! | [`error`] | why there is no answer |
//!
//! ```no_run
//! use penstock_fetch::{Client, Options};
//!
//! let client = Client::new(&Options::default())?;
//! let first = client.get("https://lists.example.net/drop.txt").limit(1 << 20).send()?;
//! let tag = first.etag.clone().unwrap_or_default();
//! // The server sends nothing if nothing changed.
//! let again = client.get("https://lists.example.net/drop.txt").unless(&tag).send()?;
//! assert!(again.unchanged() || again.ok().is_ok());
//! # Ok::<(), penstock_fetch::Error>(())
//! ```

pub mod client;
pub mod error;
pub mod lines;
pub mod options;
pub mod request;
pub mod tls;

pub use client::Client;
pub use error::Error;
pub use lines::Lines;
pub use options::Options;
pub use request::{Answer, Request};
