// SPDX-License-Identifier: Apache-2.0

//! A client: connections that are kept for the next request.

use ureq::Agent;
use ureq::tls::TlsConfig;

use crate::request::{Agents, Method, Request};
use crate::{Error, Options, tls};

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
        self.request(Method::Get, url)
    }

    /// Sends something to an address.
    pub fn post<'a>(&'a self, url: &'a str) -> Request<'a> {
        self.request(Method::Post, url)
    }

    /// Puts something at an address.
    pub fn put<'a>(&'a self, url: &'a str) -> Request<'a> {
        self.request(Method::Put, url)
    }

    /// A request, over the connections for its address.
    fn request<'a>(&'a self, method: Method, url: &'a str) -> Request<'a> {
        let plain = usize::from(url.get(..7).is_some_and(|s| s.eq_ignore_ascii_case("http://")));
        let agents = Agents { whole: &self.whole[plain], lines: &self.lines[plain] };
        Request::new(agents, method, url)
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
