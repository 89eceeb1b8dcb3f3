// SPDX-License-Identifier: Apache-2.0

//! A client: certificates, times, and connections that are kept for the next request.

use std::path::PathBuf;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::TlsConfig;

use crate::request::{Method, Request};
use crate::{Error, tls};

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

/// Makes requests, and keeps their connections. Clones share them. Proxies are those of the
/// environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
#[derive(Clone, Debug)]
pub struct Client {
    /// For addresses with TLS, and without.
    whole: [Agent; 2],
    lines: [Agent; 2],
}

impl Client {
    /// A client. Nothing is connected yet.
    ///
    /// # Errors
    /// A file with certificates or a key cannot be used.
    pub fn new(options: &Options) -> Result<Client, Error> {
        let tls = tls::config(options)?;
        let agent = |secure, stream| agent(options, &tls, secure, stream);
        Ok(Client {
            whole: [agent(true, false), agent(false, false)],
            lines: [agent(true, true), agent(false, true)],
        })
    }

    /// Asks for what is at an address.
    pub fn get<'a>(&'a self, url: &'a str) -> Request<'a> {
        Request::new(self, Method::Get, url)
    }

    /// Sends something to an address.
    pub fn post<'a>(&'a self, url: &'a str) -> Request<'a> {
        Request::new(self, Method::Post, url)
    }

    /// Puts something at an address.
    pub fn put<'a>(&'a self, url: &'a str) -> Request<'a> {
        Request::new(self, Method::Put, url)
    }

    /// The connections for an address.
    pub(crate) fn agent(&self, url: &str, stream: bool) -> &Agent {
        let plain = usize::from(url.get(..7).is_some_and(|s| s.eq_ignore_ascii_case("http://")));
        if stream { &self.lines[plain] } else { &self.whole[plain] }
    }
}

fn agent(options: &Options, tls: &TlsConfig, secure: bool, stream: bool) -> Agent {
    let config = Agent::config_builder()
        .tls_config(tls.clone())
        // Neither the first address nor one that it redirects to is without TLS.
        .https_only(secure)
        .http_status_as_error(false)
        .max_redirects(3)
        .max_response_header_size(32 << 10)
        .user_agent(concat!("penstock/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(options.connect))
        .timeout_resolve(Some(options.connect));
    let config = match stream {
        false => config.timeout_global(Some(options.time)),
        true => config
            .timeout_send_request(Some(options.time))
            .timeout_recv_response(Some(options.time))
            .timeout_per_read(Some(options.quiet)),
    };
    config.build().new_agent()
}
