// SPDX-License-Identifier: Apache-2.0

//! Metrics over HTTP on a loopback address: what `penstock show --metrics` prints, for Prometheus.
//!
//! Every local user can connect there, so one thread serves all connections without waiting for any
//! of them. Each has one request: its head has to come within [`HEAD_TIME`], and all of it be over
//! within [`WHOLE_TIME`]. There are [`MOST`] connections at most: one more takes the place of the
//! one that has been silent for longest, but for those that came just now. What is sent is made
//! once for all who ask within [`FRESH`], and held once, however many read it how slowly.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use penstock_print::show::Form;

use super::{Server, end_accepting};
use crate::log;
use crate::seccomp::{self, Thread};

/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(2);
/// How long a connection may last.
const WHOLE_TIME: Duration = Duration::from_secs(10);
/// How long the other side may take to close the connection once it has everything.
const CLOSE_TIME: Duration = Duration::from_secs(1);
/// Connections at a time.
const MOST: usize = 256;
/// How long a connection keeps its place in any case: time to say what it wants.
const GRACE: Duration = Duration::from_millis(100);
/// Connections that wait for a place.
const BACKLOG: libc::c_int = 4096;
/// Longest head of a request.
const LONGEST: usize = 8 << 10;
/// How long a produced text is reused for new requests.
const FRESH: Duration = Duration::from_millis(100);
/// Different bodies that are being sent at a time: who still reads an older one is cut off.
const BODIES: usize = 4;
/// Bytes that are given to a connection before the next one has its turn.
const PIECE: usize = 256 << 10;

/// Opens the port. The address must be one of the loopback device: there is no telling who asks.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    if !address.ip().is_loopback() {
        return Err(format!("metrics on {address}: not an address of the loopback device"));
    }
    let listener = TcpListener::bind(address).map_err(|e| format!("metrics on {address}: {e}"))?;
    // SAFETY: no pointers. Where it fails, fewer connections wait.
    unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
    Ok(listener)
}

/// Requests are being answered.
pub(crate) struct ServingMetrics {
    address: SocketAddr,
    listener: TcpListener,
    thread: JoinHandle<()>,
}

impl ServingMetrics {
    /// Begins by what [`listen`] has opened for an address.
    pub(crate) fn begin(
        address: SocketAddr,
        listener: TcpListener,
        server: Arc<Server>,
    ) -> io::Result<Self> {
        let own = listener.try_clone()?;
        let thread = Builder::new().name("metrics".into()).spawn(move || {
            seccomp::enter(Thread::Metrics);
            serve(&own, &server);
        })?;
        Ok(ServingMetrics { address, listener, thread })
    }

    /// The address that was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends, and cuts connections off.
    pub(crate) fn end(self) {
        end_accepting(&self.listener, self.thread);
    }
}

/// Answers requests until the listener is shut down.
fn serve(listener: &TcpListener, server: &Arc<Server>) {
    let text = || {
        let mut text = Vec::new();
        server.state(Form::Metrics, None, &mut text).map(|()| text)
    };
    if let Err(e) = listener.set_nonblocking(true) {
        return log(format_args!("metrics are not served: {e}"));
    }
    let mut door =
        Door { text, made: None, bodies: Vec::new(), old: Vec::new(), connections: Vec::new() };
    while door.step(listener) {}
}

/// What a connection is at.
enum State {
    /// The head of the request comes.
    Asking(Vec<u8>),
    /// Head and body of the answer go: bytes of both together that have gone.
    Answering { head: Vec<u8>, body: Arc<Vec<u8>>, gone: usize },
    /// The response is sent; further input of the peer is ignored.
    Closing,
}

struct Connection {
    stream: TcpStream,
    state: State,
    since: Instant,
    /// When it is cut off.
    until: Instant,
}

/// All connections, and their response, which `text` produces.
struct Door<F> {
    text: F,
    made: Option<(Instant, Arc<Vec<u8>>)>,
    /// Bodies in the order in which they were made.
    bodies: Vec<Arc<Vec<u8>>>,
    /// Earlier texts; their readers are disconnected first.
    old: Vec<Arc<Vec<u8>>>,
    connections: Vec<Connection>,
}

impl<F: Fn() -> io::Result<Vec<u8>>> Door<F> {
    /// Waits until something happens, and does what there is to do. `false` once the listener is
    /// shut down.
    fn step(&mut self, listener: &TcpListener) -> bool {
        // A client without a place waits until there may be one.
        let place = self.place_at();
        let asked = if place.is_none() { libc::POLLIN } else { 0 };
        let mut polled = vec![libc::pollfd { fd: listener.as_raw_fd(), events: asked, revents: 0 }];
        polled.extend(self.connections.iter().map(|connection| libc::pollfd {
            fd: connection.stream.as_raw_fd(),
            events: match connection.state {
                State::Answering { .. } => libc::POLLOUT,
                State::Asking(_) | State::Closing => libc::POLLIN,
            },
            revents: 0,
        }));
        let now = Instant::now();
        let next = self.connections.iter().map(|connection| connection.until).chain(place).min();
        let time = next
            .map_or(-1, |next| next.saturating_duration_since(now).as_millis() as libc::c_int + 1);
        // SAFETY: as many structures as given, which live through the call.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, time) };
        let now = Instant::now();
        let mut ready = polled.iter().skip(1).map(|polled| polled.revents != 0);
        for mut connection in std::mem::take(&mut self.connections) {
            let ready = ready.next().unwrap_or(false);
            if connection.until > now && (!ready || self.advance(&mut connection).is_ok()) {
                self.connections.push(connection);
            }
        }
        if !self.accept(listener) {
            return false;
        }
        for old in std::mem::take(&mut self.old) {
            self.connections.retain(|connection| match &connection.state {
                State::Answering { body, .. } => !Arc::ptr_eq(body, &old),
                State::Asking(_) | State::Closing => true,
            });
        }
        true
    }

    /// Accepts waiting connections while there are places. `false` if there can be none any more.
    fn accept(&mut self, listener: &TcpListener) -> bool {
        while self.connections.len() < MOST || self.place_at().is_none() {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::InvalidInput => return false,
                // It is gone already, or there are no descriptors.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(10));
                    return true;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let since = Instant::now();
            let state = State::Asking(Vec::new());
            let mut connection = Connection { stream, state, since, until: since + HEAD_TIME };
            // Who has something to ask has mostly said so by now.
            if self.advance(&mut connection).is_err() {
                continue;
            }
            if self.connections.len() >= MOST
                && let Some(place) = self.oldest()
            {
                self.connections.swap_remove(place);
            }
            self.connections.push(connection);
        }
        true
    }

    /// The connection that has been silent for longest; if all have asked something, the oldest.
    fn oldest(&self) -> Option<usize> {
        let age = |connection: &Connection| {
            (matches!(connection.state, State::Answering { .. }), connection.since)
        };
        let oldest =
            self.connections.iter().enumerate().min_by_key(|(_, connection)| age(connection));
        oldest.map(|(place, _)| place)
    }

    /// When there is a place for one more connection; `None` if there is one now.
    fn place_at(&self) -> Option<Instant> {
        if self.connections.len() < MOST {
            return None;
        }
        let until = self.connections.get(self.oldest()?)?.since + GRACE;
        (until > Instant::now()).then_some(until)
    }

    /// Does what can be done for a connection without waiting; an error is its end.
    fn advance(&mut self, connection: &mut Connection) -> io::Result<()> {
        let Connection { stream, state, since, until } = connection;
        loop {
            match state {
                State::Asking(request) => {
                    let mut piece = [0; 1024];
                    let count = match stream.read(&mut piece) {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(count) => count,
                        Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                        Err(e) => return Err(e),
                    };
                    request.extend_from_slice(piece.get(..count).unwrap_or_default());
                    if request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                        let (head, body) = self.answer(request);
                        *state = State::Answering { head, body, gone: 0 };
                        *until = *since + WHOLE_TIME;
                    } else if request.len() > LONGEST {
                        let (head, body) = told(
                            "431 Request Header Fields Too Large",
                            "the request is too long\n",
                        );
                        *state = State::Answering { head, body, gone: 0 };
                    }
                }
                State::Answering { head, body, gone } => {
                    let rest = match head.get(*gone..).filter(|rest| !rest.is_empty()) {
                        Some(rest) => rest,
                        None => body.get(*gone - head.len()..).unwrap_or_default(),
                    };
                    if rest.is_empty() {
                        stream.shutdown(Shutdown::Write)?;
                        *state = State::Closing;
                        *until = Instant::now() + CLOSE_TIME;
                        continue;
                    }
                    let piece = rest.get(..PIECE).unwrap_or(rest);
                    match stream.write(piece) {
                        Ok(count) => *gone += count,
                        Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                        Err(e) => return Err(e),
                    }
                }
                State::Closing => {
                    // Closed with unread bytes, the other side could lose the end of what it was
                    // told.
                    match stream.read(&mut [0; 4096]) {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(_) => {}
                        Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                        Err(e) => return Err(e),
                    }
                }
            }
        }
    }

    /// Head and body of the answer to a request.
    fn answer(&mut self, request: &[u8]) -> (Vec<u8>, Arc<Vec<u8>>) {
        let (mut head, mut body) = match asked(request) {
            Some((_, "/metrics")) => match self.body() {
                Ok(body) => {
                    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                    (head("200 OK", kind, body.len()), body)
                }
                Err(_) => told("503 Service Unavailable", "the dataplane does not answer\n"),
            },
            Some(_) => told("404 Not Found", "/metrics is all there is\n"),
            None => {
                let (mut head, body) =
                    told("405 Method Not Allowed", "GET /metrics is all that can be asked\n");
                head.truncate(head.len() - 2);
                head.extend_from_slice(b"Allow: GET, HEAD\r\n\r\n");
                (head, body)
            }
        };
        if let Some((Method::Head, _)) = asked(request) {
            body = Arc::default();
            head.shrink_to_fit();
        }
        (head, body)
    }

    /// The response text: produced again unless it is fresh.
    fn body(&mut self) -> io::Result<Arc<Vec<u8>>> {
        let now = Instant::now();
        if let Some((made, body)) = &self.made
            && now.duration_since(*made) < FRESH
        {
            return Ok(body.clone());
        }
        let body = Arc::new((self.text)()?);
        self.made = Some((Instant::now(), body.clone()));
        self.bodies.push(body.clone());
        if self.bodies.len() > BODIES {
            self.old.push(self.bodies.remove(0));
        }
        Ok(body)
    }
}

fn head(status: &str, kind: &str, len: usize) -> Vec<u8> {
    let lines = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    lines.into_bytes()
}

/// An answer that is a sentence.
fn told(status: &str, sentence: &str) -> (Vec<u8>, Arc<Vec<u8>>) {
    (head(status, "text/plain", sentence.len()), Arc::new(sentence.as_bytes().to_vec()))
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Head,
}

/// The path that a request asks for, without its query; `None` if it does not ask.
pub fn requested_path(request: &[u8]) -> Option<&str> {
    asked(request).map(|(_, path)| path)
}

/// What a request asks for; `None` if it does not ask.
fn asked(request: &[u8]) -> Option<(Method, &str)> {
    let line = std::str::from_utf8(request.split(|b| *b == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    let method = match words.next()? {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => return None,
    };
    let path = words.next()?;
    Some((method, path.split('?').next().unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_listened_on() {
        for address in ["0.0.0.0:0", "198.18.0.1:9900", "[::]:0", "[2001:db8::1]:1"] {
            let error =
                listen(address.parse().expect("an address")).expect_err("no loopback address");
            assert!(error.contains("not an address of the loopback device"), "{error}");
        }
        assert!(listen("127.0.0.1:0".parse().expect("an address")).is_ok());
    }

    #[test]
    fn a_request_names_its_path() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some((Method::Get, "/metrics"))),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", Some((Method::Get, "/metrics"))),
            ("HEAD / HTTP/1.0\r\n\r\n", Some((Method::Head, "/"))),
            ("POST /metrics HTTP/1.0\r\n\r\n", None),
            ("GET", None),
            ("\u{0}\u{1}", None),
        ] {
            assert_eq!(asked(head.as_bytes()), expected, "{head}");
        }
    }

    /// Serves a text on its own thread, until the test ends.
    fn serving(text: Vec<u8>) -> SocketAddr {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
        listener.set_nonblocking(true).expect("a setting");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            let text = || Ok(text.clone());
            let mut door = Door {
                text,
                made: None,
                bodies: Vec::new(),
                old: Vec::new(),
                connections: Vec::new(),
            };
            loop {
                door.step(&listener);
                assert!(door.connections.len() <= MOST && door.bodies.len() <= BODIES);
            }
        });
        address
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn each_request_gets_its_response() {
        let address = serving(b"a 1\n# EOF\n".to_vec());
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(LONGEST));
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200", "a 1\n# EOF\n"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200", ""),
            ("GET / HTTP/1.1\r\n\r\n", "404", "/metrics is all there is\n"),
            ("POST /metrics HTTP/1.1\r\n\r\nx", "405", "GET /metrics is all that can be asked\n"),
            (&long, "431", "the request is too long\n"),
        ] {
            let answer = ask(address, request);
            let (head, said) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {head}");
            assert!(head.contains("\r\nConnection: close"), "{head}");
            assert_eq!(said, body, "{request}");
        }
    }

    #[test]
    fn idle_clients_do_not_block_others() {
        let address = serving(vec![b'x'; 8 << 20]);
        let silent: Vec<_> =
            (0..300).map(|_| TcpStream::connect(address).expect("a connection")).collect();
        let deaf: Vec<_> = (0..100)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("a connection");
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
                stream
            })
            .collect();
        for _ in 0..5 {
            let answer = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.len() > 8 << 20,
                "{}",
                answer.len()
            );
        }
        drop((silent, deaf));
    }
}
