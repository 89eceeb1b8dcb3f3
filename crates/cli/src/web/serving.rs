// SPDX-License-Identifier: Apache-2.0

//! Who may ask for the page, and what there is to ask for.
//!
//! Every user of this machine can connect, and so can each page that a browser on it shows. So the
//! paths begin with a token that cannot be guessed, and are answered only if the request names a
//! loopback address as its host: a name that leads here (DNS rebinding) does not count. The page may
//! load nothing from elsewhere, and no other page may show it in a frame.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use penstock_random::Random;
use tiny_http::{Header, Method, Request, Response, StatusCode};

use super::looking::Looking;

/// Requests that are answered at a time.
const MOST: usize = 32;
/// Bytes of a form.
const LONGEST: u64 = 8192;
/// What browsers hold the page to.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The server, and what it shows.
pub struct Server {
    http: tiny_http::Server,
    own: SocketAddr,
    token: String,
    looking: Mutex<Looking>,
    answering: AtomicUsize,
}

/// An answer: status, type and text.
struct Answer(u16, &'static str, String);

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

impl Server {
    /// Listens on an address of the loopback device.
    pub fn new(address: SocketAddr, looking: Looking) -> Result<Arc<Self>, String> {
        let failed = |e: &dyn std::fmt::Display| format!("Error: {address}: {e}");
        let http = tiny_http::Server::http(address).map_err(|e| failed(&e))?;
        let own = http.server_addr().to_ip().ok_or_else(|| failed(&"no address"))?;
        let mut random = Random::unknown();
        let token = format!("{:016x}{:016x}", random.u64(), random.u64());
        let (looking, answering) = (Mutex::new(looking), AtomicUsize::new(0));
        Ok(Arc::new(Server { http, own, token, looking, answering }))
    }

    /// What a browser is given.
    pub fn address(&self) -> String {
        format!("http://{}/{}/", self.own, self.token)
    }

    /// Answers for ever.
    pub fn serve(self: &Arc<Self>) {
        while let Ok(request) = self.http.recv() {
            while self.answering.load(Ordering::Relaxed) >= MOST {
                thread::sleep(Duration::from_millis(5));
            }
            self.answering.fetch_add(1, Ordering::Relaxed);
            let server = self.clone();
            // The rest of a request is waited for where it ends: that must not keep others waiting.
            let started = thread::Builder::new().spawn(move || {
                server.answer(request);
                server.answering.fetch_sub(1, Ordering::Relaxed);
            });
            if started.is_err() {
                self.answering.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn answer(&self, mut request: Request) {
        let Answer(status, kind, text) = self.answer_to(&mut request);
        let mut response = Response::from_string(text).with_status_code(StatusCode(status));
        for (name, value) in [
            ("Content-Type", kind),
            ("Content-Security-Policy", POLICY),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
        ] {
            if let Ok(header) = Header::from_bytes(name, value) {
                response.add_header(header);
            }
        }
        // A browser that went away wants no answer.
        let _ = request.respond(response);
    }

    fn answer_to(&self, request: &mut Request) -> Answer {
        let nothing = || Answer(404, TEXT, "There is nothing here.\n".to_owned());
        let header = |name: &'static str| {
            let mut found = request.headers().iter().filter(|h| h.field.equiv(name));
            found.next().map(|h| h.value.as_str().to_owned())
        };
        if !header("Host").is_some_and(|host| self.is_own(&host)) {
            return nothing();
        }
        if header("Origin")
            .is_some_and(|o| !o.strip_prefix("http://").is_some_and(|o| self.is_own(o)))
        {
            return nothing();
        }
        let path = request.url().to_owned();
        let Some((token, rest)) = path.strip_prefix('/').and_then(|path| path.split_once('/'))
        else {
            return nothing();
        };
        if !same(token, &self.token) {
            return nothing();
        }
        match (request.method(), rest) {
            (Method::Get, "") => Answer(200, HTML, self.looking().page()),
            (Method::Get, "body") => Answer(200, HTML, self.looking().body()),
            (Method::Get, "live.js") => {
                let script = penstock_report::script().to_owned();
                Answer(200, "text/javascript; charset=utf-8", script)
            }
            (Method::Post, "packet") => {
                let mut form = String::new();
                let read = request.as_reader().take(LONGEST).read_to_string(&mut form);
                match read.ok().and_then(|_| Some((field(&form, "from")?, field(&form, "packet")?)))
                {
                    None => Answer(400, TEXT, "The form cannot be read.\n".to_owned()),
                    Some((from, packet)) => {
                        let host = self.looking().host();
                        match host.and_then(|host| host.send(&from, &packet)) {
                            Ok(way) => Answer(200, TEXT, way),
                            Err(message) => Answer(422, TEXT, message),
                        }
                    }
                }
            }
            _ => nothing(),
        }
    }

    fn looking(&self) -> std::sync::MutexGuard<'_, Looking> {
        // One that panicked has left what it read last.
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `HOST:PORT` is this server by an address or as `localhost`.
    fn is_own(&self, host: &str) -> bool {
        match host.rsplit_once(':') {
            Some((name, port)) => {
                let name = name.trim_start_matches('[').trim_end_matches(']');
                let is_here = name == "localhost"
                    || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
                is_here && port.parse() == Ok(self.own.port())
            }
            None => false,
        }
    }
}

/// Whether two texts are the same, in a time that does not say where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// A field of a form (`application/x-www-form-urlencoded`).
fn field(form: &str, name: &str) -> Option<String> {
    let value = form.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then_some(value)
    })?;
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_forms_are_decoded() {
        let form = "from=lan&packet=ip+saddr+198.18.0.1%20tcp%3D&x=%f";
        assert_eq!(field(form, "from").as_deref(), Some("lan"));
        assert_eq!(field(form, "packet").as_deref(), Some("ip saddr 198.18.0.1 tcp="));
        for name in ["x", "y", "", "fro"] {
            assert_eq!(field(form, name), None, "{name}");
        }
    }

    #[test]
    fn tokens_are_the_same_as_a_whole_or_not_at_all() {
        assert!(same("abc", "abc") && same("", ""));
        assert!(!same("abc", "abd") && !same("abc", "ab") && !same("", "a"));
    }
}
