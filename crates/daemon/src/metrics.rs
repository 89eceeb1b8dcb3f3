//! Metrics over HTTP on a loopback address: what `penstock show --metrics` prints, for Prometheus.
//!
//! Each connection has one request, and a second to make it: whoever is slow is cut off. A few are served at a time; more of
//! them are closed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::control::{Server, ShowAs};

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Connections at a time.
const TOGETHER: usize = 32;
/// Longest head of a request.
const LONGEST: usize = 8 << 10;

/// Opens the port. The address must be one of the loopback device: there is no telling who asks.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    if !address.ip().is_loopback() {
        return Err(format!("metrics on {address}: not an address of the loopback device"));
    }
    TcpListener::bind(address).map_err(|e| format!("metrics on {address}: {e}"))
}

/// Answers requests for ever.
pub(crate) fn serve(listener: &TcpListener, server: &Arc<Server>) {
    let served = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            std::thread::sleep(PATIENCE);
            continue;
        };
        if served.load(Ordering::Relaxed) >= TOGETHER {
            continue;
        }
        served.fetch_add(1, Ordering::Relaxed);
        let (server, own) = (server.clone(), served.clone());
        let started = Builder::new().name("metrics".into()).spawn(move || {
            // Whoever goes away in the middle has no more to be told.
            let _ = answer(stream, &server);
            own.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            served.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn answer(mut stream: TcpStream, server: &Server) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = request(&mut stream)?;
    let (status, kind, body) = match requested_path(&head) {
        Some("/metrics") => match server.shown(ShowAs::Metrics) {
            Ok(text) => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text),
            Err(_) => ("503 Service Unavailable", "text/plain", "the dataplane does not answer\n".into()),
        },
        Some(_) => ("404 Not Found", "text/plain", "/metrics is all there is\n".into()),
        None => ("405 Method Not Allowed", "text/plain", "GET /metrics is all that can be asked\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// The head of a request, which has to come in time.
fn request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
    Ok(head)
}

/// What a request asks for; `None` if it does not ask.
pub fn requested_path(head: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(head.split(|b| *b == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    let path = (words.next() == Some("GET")).then(|| words.next())??;
    Some(path.split('?').next().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_listened_on() {
        for address in ["0.0.0.0:0", "198.18.0.1:9900", "[::]:0", "[2001:db8::1]:1"] {
            let error = listen(address.parse().expect("an address")).expect_err("no loopback address");
            assert!(error.contains("not an address of the loopback device"), "{error}");
        }
        assert!(listen("127.0.0.1:0".parse().expect("an address")).is_ok());
    }

    #[test]
    fn a_request_names_what_it_wants() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some("/metrics")),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", Some("/metrics")),
            ("GET / HTTP/1.0\r\n\r\n", Some("/")),
            ("POST /metrics HTTP/1.0\r\n\r\n", None),
            ("GET", None),
            ("\u{0}\u{1}", None),
        ] {
            assert_eq!(requested_path(head.as_bytes()), expected, "{head}");
        }
    }
}
