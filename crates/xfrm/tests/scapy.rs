// SPDX-License-Identifier: Apache-2.0

//! Against scapy's IPsec layer, both ways: every algorithm, both modes, both families, extended
//! sequence numbers, UDP. Skipped, and said so, where `/usr/bin/python3` has no scapy.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{Setup, hex};
use penstock_testkit::build::*;
use penstock_xfrm::{Aead, Algorithms, Authentication, Encryption, Mode};

const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scapy_esp.py");

/// An algorithm, and what scapy calls it: encryption, its key, bytes of its integrity value;
/// authentication and its key.
struct Named {
    algorithms: Algorithms,
    crypt: (&'static str, Vec<u8>, usize),
    auth: (&'static str, Vec<u8>),
}

fn algorithms() -> Vec<Named> {
    let key = |n: u8| (1..=n).collect::<Vec<u8>>();
    let mut all = Vec::new();
    // scapy knows whole integrity values of AES-GCM only.
    for (n, icv) in [(20, 16), (36, 16)] {
        let aead = Aead::new("rfc4106(gcm(aes))", &key(n), icv * 8).unwrap();
        all.push(Named {
            algorithms: Algorithms::Aead(aead),
            crypt: ("AES-GCM", key(n), icv as usize),
            auth: ("", vec![]),
        });
    }
    let aead = Aead::new("rfc7539esp(chacha20,poly1305)", &key(36), 128).unwrap();
    all.push(Named {
        algorithms: Algorithms::Aead(aead),
        crypt: ("CHACHA20-POLY1305", key(36), 0),
        auth: ("", vec![]),
    });
    for (n, auth, bits, scapy, auth_len) in [
        (16, "hmac(sha256)", 128, "SHA2-256-128", 32),
        (24, "hmac(sha384)", 192, "SHA2-384-192", 48),
        (32, "hmac(sha512)", 256, "SHA2-512-256", 64),
        (16, "hmac(sha1)", 96, "HMAC-SHA1-96", 20),
        (0, "hmac(sha256)", 128, "SHA2-256-128", 32),
        (16, "", 0, "", 0),
    ] {
        let encryption = match n {
            0 => Encryption::Null,
            n => Encryption::new("cbc(aes)", &key(n)).unwrap(),
        };
        let authentication = match auth {
            "" => Authentication::Null,
            name => Authentication::new(name, &key(auth_len), Some(bits)).unwrap(),
        };
        all.push(Named {
            algorithms: Algorithms::Pair(encryption, authentication),
            crypt: (if n == 0 { "" } else { "AES-CBC" }, key(n), 0),
            auth: (scapy, key(auth_len)),
        });
    }
    all
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn job(named: &Named, setup: &Setup, what: &str, seq: u64, packet: &[u8]) -> String {
    let (crypt, crypt_key, icv) = &named.crypt;
    let (auth, auth_key) = &named.auth;
    let mode = if setup.mode == Mode::Tunnel { "tunnel" } else { "transport" };
    let esn = if setup.esn { (seq >> 32).to_string() } else { "null".into() };
    let udp = setup.udp.map_or("null".into(), |(sport, dport)| format!("[{sport}, {dport}]"));
    format!(
        "{{\"do\": \"{what}\", \"crypt\": \"{crypt}\", \"crypt_key\": \"{}\", \"icv\": {icv}, \"auth\": \"{auth}\", \
         \"auth_key\": \"{}\", \"mode\": \"{mode}\", \"source\": \"{}\", \"destination\": \"{}\", \"spi\": {}, \
         \"seq\": {}, \"esn\": {esn}, \"udp\": {udp}, \"packet\": \"{}\"}}\n",
        digits(crypt_key),
        digits(auth_key),
        setup.source,
        setup.destination,
        setup.spi,
        seq as u32,
        digits(packet)
    )
}

/// What scapy answers, a line each.
fn scapy(jobs: &str) -> Vec<String> {
    let mut child = Command::new(PYTHON)
        .arg(SCRIPT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut input = child.stdin.take().expect("a pipe");
    let jobs = jobs.to_owned();
    let writer = std::thread::spawn(move || input.write_all(jobs.as_bytes()));
    let output = child.wait_with_output().expect("python3 ends");
    writer.join().expect("no panic").expect("scapy reads all");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn there_is_scapy() -> bool {
    let import = "import scapy.layers.ipsec, cryptography";
    Command::new(PYTHON)
        .args(["-c", import])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

#[test]
fn esp_packets_are_exchanged_with_scapy() {
    if !there_is_scapy() {
        println!("skipped: {PYTHON} has no scapy");
        return;
    }
    let mut cases = Vec::new();
    let all = algorithms();
    for named in &all {
        for mode in [Mode::Tunnel, Mode::Transport] {
            for (source, destination) in
                [("198.18.0.1", "198.18.0.2"), ("2001:db8::1", "2001:db8::2")]
            {
                for udp in [None, Some((4500, 4500))] {
                    for esn in [None, Some(7u64)] {
                        // Numbers are extended only where there is an integrity value; scapy writes
                        // no lengths into UDP over IPv6.
                        let bare =
                            matches!(named.algorithms, Algorithms::Pair(_, Authentication::Null));
                        if esn.is_some() && bare || udp.is_some() && source.contains(':') {
                            continue;
                        }
                        let start = esn.map_or(41, |high| (high << 32) + 41);
                        let setup = Setup {
                            algorithms: named.algorithms.clone(),
                            mode,
                            source: source.parse().unwrap(),
                            destination: destination.parse().unwrap(),
                            udp,
                            esn: esn.is_some(),
                            seq: start,
                            oseq: start,
                            ..Setup::default()
                        };
                        for len in [1, 30, 1301] {
                            let data = payload(vec![len as u8; len]);
                            let packet = if source.contains(':') {
                                (Ipv6::new(source, destination) / Udp::new(5, 6) / data).build()
                            } else {
                                (Ipv4::new(source, destination).id(9) / Udp::new(5, 6) / data)
                                    .build()
                            };
                            cases.push((named, setup.clone(), start + 1, packet));
                        }
                    }
                }
            }
        }
    }
    let mut jobs = String::new();
    for (named, setup, seq, packet) in &cases {
        let sent = setup.xfrm().send(packet).unwrap();
        jobs += &job(named, setup, "decrypt", *seq, &sent);
        jobs += &job(named, setup, "encrypt", *seq, packet);
    }
    let answers = scapy(&jobs);
    assert_eq!(answers.len(), 2 * cases.len());
    for ((_, setup, _, packet), answer) in cases.iter().zip(answers.chunks(2)) {
        let what = format!("{:?} {} bytes", setup.config(), packet.len());
        assert_eq!(answer[0], digits(packet), "scapy reads ours: {what}");
        let received = setup.xfrm().receive(&hex(&answer[1]));
        assert_eq!(received.as_deref(), Ok(&packet[..]), "we read scapy's: {what} {}", answer[1]);
    }
    println!("{} packets each way", cases.len());
}
