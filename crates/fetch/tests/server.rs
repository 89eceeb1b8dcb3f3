// SPDX-License-Identifier: Apache-2.0

//! Requests to a server of the test, on the loopback device.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_fetch::{Client, Error, Options};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Answers each request by a function of its first line, headers and body; gives the port.
fn serve(answer: impl Fn(&str, &str) -> Vec<u8> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(&stream);
            let Some((head, body)) = request(&mut reader) else { continue };
            let _ = (&stream).write_all(&answer(&head, &body));
        }
    });
    port
}

fn request(reader: &mut impl BufRead) -> Option<(String, String)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        if line == "\r\n" {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(n) = line.strip_prefix("content-length: ") {
            length = n.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).ok()?))
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

fn client() -> Client {
    let second = Duration::from_secs(1);
    Client::new(&Options { time: second, quiet: second, ..Options::default() }).expect("a client")
}

#[test]
fn version_that_is_there_is_not_sent_again() {
    let port = serve(|head, _| match head.contains("if-none-match: \"7\"") {
        true => answer("304 Not Modified", "etag: \"7\"\r\n", ""),
        false => answer("200 OK", "etag: \"7\"\r\n", "198.18.0.0/24\n"),
    });
    let url = format!("http://127.0.0.1:{port}/list");
    let client = client();
    let first = client.get(&url).send().expect("an answer");
    assert_eq!(
        (first.etag.as_deref(), first.body.as_slice()),
        (Some("\"7\""), &b"198.18.0.0/24\n"[..])
    );
    let again = client.get(&url).unless("\"7\"").send().expect("an answer");
    assert!(again.unchanged() && again.body.is_empty());
}

#[test]
fn bodies_and_headers_arrive_as_sent() {
    let port = serve(|head, body| {
        let method = head.split(' ').next().unwrap_or("");
        let key = head.contains("x-api-key: secret");
        answer("200 OK", "", &format!("{method} {key} {body}"))
    });
    let url = format!("http://127.0.0.1:{port}/");
    let client = client();
    let post = client.post(&url).header("x-api-key", "secret").body("text").send();
    assert_eq!(post.and_then(|a| a.ok()).expect("an answer"), b"post true text");
    let put = client.put(&url).body("").send();
    assert_eq!(put.and_then(|a| a.ok()).expect("an answer"), b"put false ");
}

#[test]
fn answers_have_a_largest_size() {
    let port = serve(|_, _| answer("200 OK", "", &"x".repeat(1000)));
    let url = format!("http://127.0.0.1:{port}/");
    let client = client();
    assert_eq!(client.get(&url).limit(1000).send().expect("it fits").body.len(), 1000);
    let large = client.get(&url).limit(999).send();
    assert!(matches!(large, Err(Error::Large { limit: 999 })), "{large:?}");
    let line = client.get(&url).limit(999).lines().and_then(|mut lines| lines.next_line());
    assert!(matches!(line, Err(Error::Large { limit: 999 })), "{line:?}");
}

#[test]
fn failures_say_what_is_wrong() {
    let port = serve(|head, _| match head.split(' ').nth(1) {
        Some("/short") => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec(),
        Some("/secret") => answer("403 Forbidden", "", "not\nyou"),
        Some("/none") => Vec::new(),
        _ => b"\0\0\0\0\0\0\0\0\r\n\r\n".to_vec(),
    });
    let at = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let client = client();
    let failed = |url: &str| client.get(url).send().and_then(|a| a.ok()).expect_err(url);
    for (url, passing) in [
        (at("/short"), true),
        (at("/none"), true),
        (at("/garbage"), true),
        ("http://127.0.0.1:1/".to_owned(), true),
        (at("/secret"), false),
        ("ftp://127.0.0.1/".to_owned(), true),
        ("no address".to_owned(), false),
    ] {
        let error = failed(&url);
        assert_eq!(error.is_passing(), passing, "{url}: {error}");
    }
    assert_eq!(failed(&at("/secret")).to_string(), "the server answers 403: not you");
}

/// A server that begins an answer with some text and leaves it open: its address, and the thread
/// that gives the connection then.
fn beginning(text: &'static str) -> (String, JoinHandle<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        request(&mut BufReader::new(&stream)).expect("a request");
        write!(stream, "HTTP/1.1 200 OK\r\n\r\n{text}").expect("sent");
        stream
    });
    (url, server)
}

#[test]
fn lines_come_before_the_answer_ends() {
    let (url, server) = beginning("one\n");
    // The request says how long nothing may come.
    let hour = Duration::from_secs(3600);
    let patient = Client::new(&Options { quiet: hour, ..Options::default() }).expect("a client");
    let request = patient.get(&url).quiet(Duration::from_secs(1));
    let mut lines = request.lines().expect("an answer");
    assert_eq!(lines.next_line().expect("a line").as_deref(), Some(&b"one"[..]));
    // The first line is read while the answer is still open.
    let mut stream = server.join().expect("served");
    stream.write_all(b"two\n\nlast").expect("sent");
    for expected in [&b"two"[..], b""] {
        assert_eq!(lines.next_line().expect("a line").as_deref(), Some(expected));
    }
    let late = lines.next_line();
    assert!(matches!(late, Err(Error::Late)), "{late:?}");
}

#[test]
fn lines_that_do_not_come_are_not_waited_for() {
    let (url, server) = beginning("");
    let mut lines = client().get(&url).lines().expect("an answer");
    let _stream = server.join().expect("served");
    let late = lines.next_line();
    assert!(matches!(late, Err(Error::Late)), "{late:?}");
}

/// A folder with an authority, and certificates of it for 127.0.0.1.
fn certificates() -> Option<PathBuf> {
    let dir = std::env::temp_dir().join(format!("penstock-fetch-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let script = "set -e
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test
        openssl req -newkey rsa:2048 -nodes -keyout own.key -out own.csr -subj /CN=127.0.0.1
        echo subjectAltName=IP:127.0.0.1 > own.ext
        openssl x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile own.ext -out own.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(&dir).output().ok()?;
    if made.status.success() { Some(dir) } else { None }
}

fn serve_tls(dir: &Path) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from_pem_file(dir.join("own.pem")).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(dir.join("own.key")).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a pair");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            let mut reader = BufReader::new(StreamOwned::new(connection, stream));
            let Some((head, _)) = request(&mut reader) else { continue };
            let body = match head.contains("/away") {
                true => answer("302 Found", "location: http://127.0.0.1:9/\r\n", ""),
                false => answer("200 OK", "", "secret"),
            };
            let _ = reader.get_mut().write_all(&body);
            reader.get_mut().conn.send_close_notify();
            let _ = reader.get_mut().flush();
        }
    });
    port
}

#[test]
fn certificates_are_checked_and_tls_is_never_left() {
    let Some(dir) = certificates() else {
        eprintln!("skipped: there is no openssl to make certificates with");
        return;
    };
    let port = serve_tls(&dir);
    let url = format!("https://127.0.0.1:{port}/");
    let with = |options: Options| Client::new(&options);
    let own =
        with(Options { ca: Some(dir.join("ca.pem")), ..Options::default() }).expect("a client");
    assert_eq!(own.get(&url).send().and_then(|a| a.ok()).expect("an answer"), b"secret");
    let left = own.get(&format!("{url}away")).send();
    assert!(left.is_err(), "{left:?}");
    let stranger = client().get(&url).send();
    assert!(matches!(stranger, Err(Error::Away(_))), "{stranger:?}");
    for (options, end) in [
        (
            Options { ca: Some(dir.join("none")), ..Options::default() },
            "No such file or directory (os error 2)",
        ),
        (
            Options { ca: Some(dir.join("own.csr")), ..Options::default() },
            "there is no certificate in it",
        ),
        (
            Options {
                client: Some((dir.join("own.pem"), dir.join("own.csr"))),
                ..Options::default()
            },
            "there is no private key in it",
        ),
        (
            Options {
                client: Some((dir.join("own.pem"), dir.join("ca.key"))),
                ..Options::default()
            },
            "KeyMismatch",
        ),
    ] {
        let error = with(options).expect_err(end).to_string();
        assert!(error.ends_with(end), "{error}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}
