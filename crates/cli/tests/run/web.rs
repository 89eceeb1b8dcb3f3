// SPDX-License-Identifier: Apache-2.0

//! `penstock web` as a browser sees it, and as those see it who should not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::place::{TestDir, text};
use crate::report::in_browser;

/// The server of a state file, until the test ends.
struct Served {
    server: Child,
    /// `127.0.0.1:PORT`
    host: String,
    /// `/TOKEN/`
    path: String,
    place: TestDir,
}

const RULES: &str = "table inet t {\n\
    chain f {\n\
    type filter hook forward priority 0; policy drop;\n\
    udp dport 53 counter packets 7 bytes 700 accept comment \"<b>\"\n\
    udp dport 9 counter drop\n\
    tcp dport 80 accept\n\
    }\n\
    }\n";

impl Served {
    fn new(name: &str) -> Served {
        let place = TestDir::new(name);
        place.write("web.nft", RULES.as_bytes());
        let penstock = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
            command.current_dir(&place.0);
            command
        };
        let loaded =
            penstock().args(["nft", "--state", "fw.state", "-f", "web.nft"]).output().unwrap();
        assert!(loaded.status.success(), "{}", text(&loaded.stderr));
        let mut server = penstock()
            .args(["web", "--state", "fw.state", "--net", "net.ip"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").expect(&line);
        let (host, path) = address.split_once('/').unwrap();
        let (host, path) = (host.to_owned(), format!("/{path}"));
        Served { server, host, path, place }
    }

    /// What a request is answered, with its headers.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str, headers: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"))
    }

    fn packet(&self, form: &str) -> String {
        let Served { host, path, .. } = self;
        self.ask(&format!(
            "POST {path}packet HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn only_who_has_the_address_sees_the_page() {
    let served = Served::new("web");
    let Served { host, path, .. } = &served;
    let port = host.rsplit_once(':').unwrap().1;
    let own = format!("Host: {host}\r\n");
    let page = served.get(path, &own);
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    for part in [
        "Content-Security-Policy: default-src 'none'",
        "X-Frame-Options: DENY",
        "&lt;b&gt;",
        "<td class=\"n h9\" title=\"700",
        "<option>lan</option>",
    ] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    assert!(served.get(&format!("{path}body"), &own).contains("udp dport 9"));
    assert!(served.get(&format!("{path}live.js"), &own).contains("setTimeout(refresh"));
    assert!(served.get(path, &format!("Host: localhost:{port}\r\n")).starts_with("HTTP/1.1 200 "));
    let wrong = format!("/{}/", "0".repeat(path.len() - 2));
    for (path, headers) in [
        ("/", own.clone()),
        (&*wrong, own.clone()),
        (path.trim_end_matches('/'), own.clone()),
        (&*format!("{path}state"), own.clone()),
        // A name that leads here.
        (path, format!("Host: rebound.example:{port}\r\n")),
        (path, "Host: 127.0.0.1:1\r\n".to_owned()),
        (path, String::new()),
        (path, format!("{own}Origin: http://elsewhere.example\r\n")),
    ] {
        let answer = served.get(path, &headers);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path} {headers}: {answer}");
        assert!(!answer.contains("udp dport"), "{answer}");
    }
}

#[test]
fn a_described_packet_shows_its_way() {
    let served = Served::new("web-packet");
    let form = |packet: &str| format!("from=lan&packet={}", packet.replace(' ', "+"));
    let to = "ip saddr 198.18.0.10 ip daddr 198.19.0.2";
    for (form, status, parts) in [
        (form(&format!("{to} udp dport 53")), 200, &["sent on wan", "(verdict accept)"][..]),
        (form(&format!("{to} udp dport 9")), 200, &["dropped: rule: inet t f"]),
        (form(&format!("{to} tcp dport 81")), 200, &["policy drop"]),
        (form("nonsense"), 422, &["Error"]),
        ("from=lan".to_owned(), 400, &["cannot be read"]),
        (format!("from=nowhere&packet={}", to.replace(' ', "+")), 422, &["no device `nowhere`"]),
    ] {
        let answer = served.packet(&form);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{form}: {answer}");
        for part in parts {
            assert!(answer.contains(part), "{form}: {part} is missing in {answer}");
        }
    }
    // Nothing was counted.
    let again = served.get(&format!("{}body", served.path), &format!("Host: {}\r\n", served.host));
    assert!(again.contains("title=\"700"), "{again}");
}

#[test]
fn a_browser_keeps_the_page_up_to_date() {
    let served = Served::new("web-browser");
    let address = format!("http://{}{}", served.host, served.path);
    let Some(dom) = in_browser(&address, &served.place.0.join("profile")) else {
        eprintln!("skipped: there is no chromium (Debian: chromium)");
        return;
    };
    // The script has run, within what the policy lets it do, and has fetched the body again.
    assert!(!dom.contains("<output id=\"state\">now</output>"), "{dom}");
    assert!(!dom.contains("no answer") && dom.contains("udp dport 53"), "{dom}");
}
