// SPDX-License-Identifier: Apache-2.0

//! Packets of RFCs and drafts: what others have encrypted comes out, and their integrity values are
//! ours.

mod common;

use common::{Setup, hex};
use penstock_xfrm::{Aead, Algorithms, Authentication, Encryption, Mode, Stat};

struct Vector {
    source: &'static str,
    algorithms: Algorithms,
    mode: Mode,
    addresses: (&'static str, &'static str),
    spi: u32,
    seq: u64,
    esn: bool,
    /// From the SPI on.
    esp: String,
    /// What comes out: the inner packet, or what follows the IP header.
    out: String,
}

fn gcm(key: &str, icv: u32) -> Algorithms {
    Algorithms::Aead(Aead::new("rfc4106(gcm(aes))", &hex(key), icv).unwrap())
}

fn cbc(key: &str) -> Algorithms {
    Algorithms::Pair(Encryption::new("cbc(aes)", &hex(key)).unwrap(), Authentication::Null)
}

fn vectors() -> Vec<Vector> {
    vec![
        Vector {
            source: "draft-mcgrew-gcm-test-01, a DNS query in AES-128-GCM",
            algorithms: gcm("feffe9928665731c6d6a8f9467308308cafebabe", 128),
            // It says that ICMP follows.
            mode: Mode::Transport,
            addresses: ("192.168.1.2", "192.168.1.1"),
            spi: 0xa5f8,
            seq: 10,
            esn: false,
            esp: "0000a5f80000000afacedbaddecaf888deb22cd9b07c72c16e3a65beeb8df304a5a5897d33ae530f1ba76d5d114d2a5c\
                  3de81827c10e9a4f51330d0eec416642cfbb85a5b47e48a4ec3b9ba95d918bd183b70d3aa8bc6ee4c309e9d85a41ad4a"
                .into(),
            out: "4500003e698f000080114dccc0a80102c0a801010a980035002a2343b2d0010000010000000000000373697009637962\
                  65726369747902646b0000010001"
                .into(),
        },
        Vector {
            source: "RFC 7634, appendix A",
            algorithms: Algorithms::Aead(
                Aead::new(
                    "rfc7539esp(chacha20,poly1305)",
                    &hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3"),
                    128,
                )
                .unwrap(),
            ),
            mode: Mode::Tunnel,
            addresses: ("203.0.113.153", "203.0.113.5"),
            spi: 0x0102_0304,
            seq: 5,
            esn: false,
            esp: "01020304000000051011121314151617240394 28b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c6\
                  14ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3cbec163fac469b502773f6fb94e664da\
                  9165b82829f641e076aaa8266b7fb0f7b11b369907e1ad43"
                .into(),
            out: "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec100007362708090a0b0c0d0e0f10111213\
                  1415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"
                .into(),
        },
        Vector {
            source: "RFC 3602, case 5",
            algorithms: cbc("90d382b410eeba7ad938c46cec1a82bf"),
            mode: Mode::Transport,
            addresses: ("192.168.123.3", "192.168.123.100"),
            spi: 0x4321,
            seq: 1,
            esn: false,
            esp: "0000432100000001e96e8c08ab465763fd098d45dd3ff893f663c25d325c18c6a9453e194e120849a4870b66cc6b9965\
                  330013b4898dc856a4699e523a55db080b59ec3a8e4b7e52775b07d1db34ed9c538ab50c551b874aa269add047ad2d59\
                  13ac19b7cfbad4a6"
                .into(),
            out: "08000ebda70a00008e9c083db95b070008090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627\
                  28292a2b2c2d2e2f3031323334353637"
                .into(),
        },
    ]
}

#[test]
fn known_vectors_are_decrypted() {
    for v in vectors() {
        let setup = Setup {
            algorithms: v.algorithms.clone(),
            mode: v.mode,
            source: v.addresses.0.parse().unwrap(),
            destination: v.addresses.1.parse().unwrap(),
            spi: v.spi,
            window: 32,
            esn: v.esn,
            seq: v.seq - 1,
            ..Setup::default()
        };
        let packet = setup.outer(&hex(&v.esp));
        let out = setup.xfrm().receive(&packet).unwrap_or_else(|e| panic!("{}: {e}", v.source));
        let shown = if v.mode == Mode::Tunnel { &out[..] } else { &out[20..] };
        assert_eq!(shown, hex(&v.out), "{}", v.source);
        // Any bit that is another one is noticed where there is an integrity value.
        if !matches!(v.algorithms, Algorithms::Aead(_)) {
            continue;
        }
        for at in 20..packet.len() {
            // SPI and sequence number choose state and window before.
            if (20..28).contains(&at) {
                continue;
            }
            let mut changed = packet.clone();
            changed[at] ^= 1 << (at % 8);
            assert_eq!(
                setup.xfrm().receive(&changed),
                Err(Stat::InStateProto),
                "{} byte {at}",
                v.source
            );
        }
    }
}
