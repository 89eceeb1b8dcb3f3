// SPDX-License-Identifier: Apache-2.0

//! One request and its answer.

use std::io::Read;
use std::time::Duration;

use ureq::http::{self, Response, StatusCode, header};
use ureq::{Agent, AsSendBody, Body};

use crate::{Error, Lines};

/// Answers are at most this long unless a request says otherwise, in bytes.
const USUAL: u64 = 16 << 20;

/// As much of a body is in a message about a status.
const BEGINNING: usize = 200;

#[derive(Clone, Copy)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
}

/// Connections that are kept.
#[derive(Clone, Copy)]
pub(crate) struct Agents<'a> {
    /// For answers that are read whole.
    pub(crate) whole: &'a Agent,
    /// For answers that are read line by line.
    pub(crate) lines: &'a Agent,
}

/// A request that is not sent yet.
pub struct Request<'a> {
    agents: Agents<'a>,
    method: Method,
    url: &'a str,
    headers: Vec<(&'a str, String)>,
    body: Vec<u8>,
    limit: u64,
    quiet: Option<Duration>,
}

/// What a server answered: any status but those that redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The tag of this version of what is at the address, as the server wrote it.
    pub etag: Option<String>,
    /// The body; none if the status says that nothing changed.
    pub body: Vec<u8>,
}

impl Answer {
    /// Whether the version is the one that the request named ([`Request::unless`]).
    pub fn unchanged(&self) -> bool {
        self.status == 304
    }

    /// The body of a success.
    ///
    /// # Errors
    /// [`Error::Status`] for every other status.
    pub fn ok(self) -> Result<Vec<u8>, Error> {
        if (200..300).contains(&self.status) {
            return Ok(self.body);
        }
        Err(Error::Status { status: self.status, body: beginning(&self.body) })
    }
}

/// The first printable characters of a body, on one line.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(BEGINNING)]);
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.collect::<String>().trim().to_owned()
}

impl<'a> Request<'a> {
    pub(crate) fn new(agents: Agents<'a>, method: Method, url: &'a str) -> Request<'a> {
        let (headers, body) = (Vec::new(), Vec::new());
        Request { agents, method, url, headers, body, limit: USUAL, quiet: None }
    }

    /// Adds a header.
    pub fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The version that is there already: the server answers with status 304 and without a body if
    /// there is no other. An empty tag asks for any.
    pub fn unless(self, etag: &str) -> Self {
        if etag.is_empty() { self } else { self.header("if-none-match", etag) }
    }

    /// What is sent, for requests that send something.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Reads at most so many bytes of the answer; 16 MiB otherwise. Of an answer that comes line by
    /// line, it is the longest line.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// The longest time without a byte of an answer that comes line by line, in place of that of
    /// the client.
    pub fn quiet(mut self, time: Duration) -> Self {
        self.quiet = Some(time);
        self
    }

    /// Sends it, and reads the whole answer.
    ///
    /// # Errors
    /// The server is away or late, or the answer is larger than it may be. A status is no error
    /// here: [`Answer::ok`].
    pub fn send(self) -> Result<Answer, Error> {
        let limit = self.limit;
        let response = self.response(false)?;
        let (head, body) = response.into_parts();
        let etag = head.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
        let etag = etag.map(str::to_owned);
        // One byte more than allowed tells a body that is too long from one that just fits.
        let mut reader = body.into_with_config().limit(limit.saturating_add(1)).reader();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).map_err(|e| Error::of_read(e, limit))?;
        if read.len() as u64 > limit {
            return Err(Error::Large { limit });
        }
        Ok(Answer { status: head.status.as_u16(), etag, body: read })
    }

    /// Sends it, and reads the answer line by line, as it comes.
    ///
    /// # Errors
    /// The server is away or late, or its status is no success.
    pub fn lines(self) -> Result<Lines, Error> {
        let limit = self.limit;
        let response = self.response(true)?;
        let status = response.status();
        if status != StatusCode::OK {
            let mut body = Vec::new();
            // What cannot be read is missing in the message only.
            let _ =
                response.into_body().into_reader().take(BEGINNING as u64).read_to_end(&mut body);
            return Err(Error::Status { status: status.as_u16(), body: beginning(&body) });
        }
        Ok(Lines::new(response.into_body(), limit))
    }

    fn response(self, stream: bool) -> Result<Response<Body>, Error> {
        let limit = self.limit;
        let agent = if stream { self.agents.lines } else { self.agents.whole };
        let method = match self.method {
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
        };
        let mut request = http::Request::builder().method(method).uri(self.url);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let wrong = |e: http::Error| Error::Url(e.to_string());
        let quiet = self.quiet.filter(|_| stream);
        let sent = match self.method {
            Method::Get => run(agent, request.body(()).map_err(wrong)?, quiet),
            Method::Post | Method::Put => {
                run(agent, request.body(self.body).map_err(wrong)?, quiet)
            }
        };
        sent.map_err(|e| Error::of(e, limit))
    }
}

/// Sends a request, with a longest time without a byte of the answer if it has one of its own.
fn run(
    agent: &Agent,
    request: http::Request<impl AsSendBody>,
    quiet: Option<Duration>,
) -> Result<Response<Body>, ureq::Error> {
    match quiet {
        Some(time) => {
            agent.run(agent.configure_request(request).timeout_per_read(Some(time)).build())
        }
        None => agent.run(request),
    }
}
